//! Which memory is code, and what it belongs to.
//!
//! # Problem
//! Before an app address is translated we must know that it may be executed, that it cannot change
//! behind our back, and which file it comes from. The app changes its map at any time.
//!
//! # Strategy
//! The kernel's own list, `/proc/thread-self/maps`, is the only source. Executable regions are read
//! from it when an address outside all known regions is about to be translated, and kept: one entry
//! of it is asked for, or, where the kernel cannot do that (before Linux 6.11), the text is read.
//! System calls that change the map drop the known regions they touch; the next translation there
//! asks again. So the common calls cost one comparison, and nothing has to be modelled.
//!
//! # Invariant
//! A known region is executable, not writable and private, and no call that could change that has
//! been seen since it was read.

use alloc::vec::Vec;

use crate::cache::AppPc;
use crate::sys;

/// A range of addresses, end exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
}

impl Range {
    /// Whether `pc` is inside.
    pub const fn holds(&self, pc: AppPc) -> bool {
        self.start <= pc.0 && pc.0 < self.end
    }

    /// Whether both share an address.
    pub const fn meets(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// A line of `/proc/self/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The addresses.
    pub range: Range,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Shared with other mappings of the same file or memory.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file, 0 for none.
    pub inode: u64,
    /// Path or `[name]`, as the kernel prints it; empty for anonymous memory.
    pub path: Vec<u8>,
    /// Pages known to be readable, counted from the start of the range.
    pub verified: Vec<bool>,
}

impl Mapping {
    /// Whether a page of it can be read: a file may be shorter than its mapping. Asks the kernel
    /// about several pages at once.
    pub fn page_is_readable(&mut self, page: u64) -> bool {
        const PAGE: u64 = 4096;
        let index = ((page - self.range.start) / PAGE) as usize;
        if self.verified.get(index) == Some(&true) {
            return true;
        }
        let rest = (self.range.end - page) / PAGE;
        let readable = sys::readable_pages(page, rest as usize);
        if self.verified.len() < index + readable {
            self.verified.resize(index + readable, false);
        }
        self.verified[index..index + readable].fill(true);
        readable > 0
    }

    fn part(&self, start: u64, end: u64) -> Self {
        Self {
            range: Range { start, end },
            offset: self.offset + (start - self.range.start),
            verified: Vec::new(),
            path: self.path.clone(),
            ..*self
        }
    }
}

fn hex(text: &[u8]) -> Option<u64> {
    (!text.is_empty() && text.len() <= 16).then_some(())?;
    text.iter().try_fold(0u64, |n, &c| {
        Some(n << 4 | u64::from((c as char).to_digit(16)?))
    })
}

fn decimal(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |n, &c| {
        n.checked_mul(10)?
            .checked_add(u64::from((c as char).to_digit(10)?))
    })
}

/// Reads one line of `/proc/PID/maps`.
pub fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut words = line.splitn(6, |&c| c == b' ');
    let range = words.next()?;
    let dash = range.iter().position(|&c| c == b'-')?;
    let perms = words.next().filter(|p| p.len() == 4)?;
    let offset = hex(words.next()?)?;
    let _device = words.next()?;
    let inode = decimal(words.next()?)?;
    let path = words.next().unwrap_or_default();
    let start = path.iter().position(|&c| c != b' ').unwrap_or(path.len());
    Some(Mapping {
        range: Range {
            start: hex(&range[..dash])?,
            end: hex(&range[dash + 1..])?,
        },
        writable: perms[1] == b'w',
        executable: perms[2] == b'x',
        shared: perms[3] == b's',
        offset,
        inode,
        path: path[start..].to_vec(),
        verified: Vec::new(),
    })
}

/// Not that of `/proc/self`: when the first thread has ended, that is empty.
const MAPS: &core::ffi::CStr = c"/proc/thread-self/maps";

/// The whole map as it is now.
pub fn read_all() -> Option<Vec<Mapping>> {
    let fd = sys::open(MAPS).ok()?;
    let mut text = Vec::new();
    let mut buffer = [0u8; 4096];
    let complete = loop {
        match sys::read(fd, &mut buffer) {
            Ok(0) => break true,
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            Err(_) => break false,
        }
    };
    sys::close(fd);
    complete.then(|| text.split(|&c| c == b'\n').filter_map(parse_line).collect())
}

/// The mapping that holds `pc`, if there is one; the error of a kernel that cannot be asked.
fn query(pc: AppPc) -> Result<Option<Mapping>, sys::Errno> {
    const WRITABLE: u64 = 2;
    const EXECUTABLE: u64 = 4;
    const SHARED: u64 = 8;
    let mut name = [0; 4096];
    let fd = sys::open(MAPS)?;
    let answer = sys::mapping_at(fd, pc.0, &mut name);
    sys::close(fd);
    let m = match answer {
        Ok(m) => m,
        Err(sys::Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let path = name.get(..(m.name_size as usize).saturating_sub(1));
    Ok(Some(Mapping {
        range: Range {
            start: m.start,
            end: m.end,
        },
        writable: m.flags & WRITABLE != 0,
        executable: m.flags & EXECUTABLE != 0,
        shared: m.flags & SHARED != 0,
        offset: m.offset,
        inode: m.inode,
        path: path.unwrap_or_default().to_vec(),
        verified: Vec::new(),
    }))
}

/// What is known about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Code that can be translated: index in [`Regions::known`].
    Code(usize),
    /// Executable and writable at the same time, or shared: it could change unseen.
    Changeable,
    /// Nothing there may be executed.
    NotCode,
    /// The kernel's list could not be read.
    Unknown,
}

/// The known regions.
#[derive(Default)]
pub struct Regions {
    /// Known regions, in no order.
    pub known: Vec<Mapping>,
    last: usize,
}

impl Regions {
    /// Looks up an address, reading the map if it is new. The flag says that the region was new.
    pub fn find(&mut self, pc: AppPc) -> (Lookup, bool) {
        if self.known.get(self.last).is_some_and(|m| m.range.holds(pc)) {
            return (Lookup::Code(self.last), false);
        }
        if let Some(i) = self.known.iter().position(|m| m.range.holds(pc)) {
            self.last = i;
            return (Lookup::Code(i), false);
        }
        let found = match query(pc) {
            Ok(found) => found,
            Err(_) => match read_all() {
                Some(all) => all.into_iter().find(|m| m.range.holds(pc)),
                None => return (Lookup::Unknown, false),
            },
        };
        let Some(found) = found else {
            return (Lookup::NotCode, false);
        };
        if !found.executable {
            return (Lookup::NotCode, false);
        }
        if found.writable || (found.shared && found.inode != 0) {
            return (Lookup::Changeable, false);
        }
        self.known.retain(|m| !m.range.meets(&found.range));
        self.last = self.known.len();
        self.known.push(found);
        (Lookup::Code(self.last), true)
    }

    /// Forgets what is known about `range`; whether anything was. The parts of a region outside
    /// stay known: their fragments do.
    pub fn forget(&mut self, range: Range) -> bool {
        if !self.meets(range) {
            return false;
        }
        let mut rest = Vec::new();
        for m in self.known.drain(..) {
            if !m.range.meets(&range) {
                rest.push(m);
                continue;
            }
            if m.range.start < range.start {
                rest.push(m.part(m.range.start, range.start));
            }
            if range.end < m.range.end {
                rest.push(m.part(range.end, m.range.end));
            }
        }
        self.known = rest;
        self.last = 0;
        true
    }

    /// Whether any known region meets `range`.
    pub fn meets(&self, range: Range) -> bool {
        self.known.iter().any(|m| m.range.meets(&range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let m = parse_line(b"7ffff7fc5000-7ffff7fc7000 r-xp 00002000 08:01 1234                       /a b/c (deleted)")
            .expect("a line");
        assert_eq!(
            m.range,
            Range {
                start: 0x7fff_f7fc_5000,
                end: 0x7fff_f7fc_7000
            }
        );
        assert!(m.executable && !m.writable && !m.shared);
        assert_eq!(
            (m.offset, m.inode, &m.path[..]),
            (0x2000, 1234, &b"/a b/c (deleted)"[..])
        );
        let m = parse_line(
            b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
        )
        .expect("a line");
        assert_eq!(
            (m.range.start, &m.path[..]),
            (0xffff_ffff_ff60_0000, &b"[vsyscall]"[..])
        );
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"zz-1 r-xp 0 0 0"), None);
        assert_eq!(parse_line(b"1-2 r-x 0 0:0 0"), None);
    }

    #[test]
    fn an_entry_asked_for_is_the_one_in_the_text() {
        let all = read_all().expect("the kernel's list");
        let on_stack = 0u8;
        for at in [
            query as *const () as u64,
            &raw const on_stack as u64,
            MAPS.as_ptr() as u64,
        ] {
            let holds = |m: &&Mapping| m.range.holds(AppPc(at));
            match query(AppPc(at)) {
                Ok(found) => assert_eq!(found.as_ref(), all.iter().find(holds)),
                Err(error) => assert_eq!(error, sys::Errno::ENOTTY, "a kernel that cannot"),
            }
        }
        assert!(matches!(
            query(AppPc(8)),
            Ok(None) | Err(sys::Errno::ENOTTY)
        ));
    }

    #[test]
    fn own_code_is_found_and_data_is_not() {
        let mut regions = Regions::default();
        let code = AppPc(own_code_is_found_and_data_is_not as *const () as u64);
        assert_eq!(regions.find(code), (Lookup::Code(0), true));
        assert_eq!(regions.find(code), (Lookup::Code(0), false));
        let on_stack = 0u8;
        assert_eq!(
            regions.find(AppPc(&raw const on_stack as u64)).0,
            Lookup::NotCode
        );
        let page = code.0 & !0xfff;
        assert!(regions.forget(Range {
            start: page,
            end: page + 0x1000
        }));
        assert!(!regions.forget(Range {
            start: page,
            end: page + 0x1000
        }));
        assert!(regions.find(code).1, "read again");
    }
}
