//! Entries of the kernel's list of mappings: asked for one by one, or read as text.
//!
//! The kernel is asked for one entry where it can answer that (from Linux 6.11 on). The text is read elsewhere, and where the runtime has
//! split entries. For a program that may not open `/proc` the host is asked ([`crate::base::hosted`]).

use alloc::vec::Vec;

use crate::base::address::{AppPc, Range};
use crate::base::hosted;
use crate::base::ids::RegionId;
use crate::base::sys;
use crate::memory::files::Mapped;

/// A line of `/proc/self/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The addresses.
    pub range: Range,
    /// True if the region may be read.
    pub readable: bool,
    /// True if the region may be written.
    pub writable: bool,
    /// True if the region may be executed.
    pub executable: bool,
    /// Shared with other mappings of the same file or memory.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file, 0 for none.
    pub inode: u64,
    /// Device of the file: major and minor number.
    pub device: [u32; 2],
    /// Path or `[name]`, as the kernel prints it; empty for anonymous memory.
    pub path: Vec<u8>,
    /// Pages known to be readable, counted from the start of the range.
    pub verified: Vec<bool>,
    /// True if the process writes to the file, or may.
    pub written: bool,
    /// The host's name for the region's addresses.
    pub named: Named,
}

/// Names that the host has for the addresses of a region: the words of their places are the addresses and a *bias*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// Nothing was reported of it yet: it was looked at, and no code of it was translated.
    Unreported,
    /// A name with this bias. It is 0 for memory without a file, whose addresses are their own places.
    Bias(u64),
    /// A region that was reported to the host, under this number.
    Reported(RegionId),
}

impl Mapping {
    /// Returns its file.
    pub fn file(&self) -> Mapped<'_> {
        Mapped {
            device: self.device,
            inode: self.inode,
            path: &self.path,
        }
    }

    /// Looks at a page whose code is about to be read. The processor may execute what may not be read. A file may be shorter
    /// than its mapping, and become so. Asks the kernel about several pages of a file at once.
    pub(super) fn presence(&mut self, page: u64, reached: Option<Reached>) -> Presence {
        const PAGE: u64 = 4096;
        if let Some(reached) = reached.filter(|reached| reached.page == page) {
            return match reached.there {
                true => Presence::There,
                false => Presence::Nowhere,
            };
        }
        let served = sys::faults_are_served();
        let is_plain = self.inode == 0 && !self.shared && self.readable;
        if is_plain && !served && !sys::has_guards() {
            return Presence::There;
        }
        let index = ((page - self.range.start) / PAGE) as usize;
        let steady = self.inode == 0 || self.nature() == Nature::Fixed;
        if steady && !served && self.verified.get(index) == Some(&true) {
            return Presence::There;
        }
        if !sys::is_resident(page) {
            return Presence::Away;
        }
        let rest = match self.inode == 0 || served {
            true => 1,
            false => (self.range.end - page) / PAGE,
        };
        let readable = sys::readable_pages(page, rest as usize);
        if self.verified.len() < index + readable {
            self.verified.resize(index + readable, false);
        }
        self.verified[index..index + readable].fill(true);
        match readable {
            0 => Presence::Nowhere,
            _ => Presence::There,
        }
    }

    pub(super) fn part(&self, start: u64, end: u64) -> Self {
        Self {
            range: Range { start, end },
            offset: self.offset.wrapping_add(start - self.range.start),
            verified: Vec::new(),
            path: self.path.clone(),
            ..*self
        }
    }

    /// Returns whether `next` follows it and is more of the same.
    pub(super) fn goes_on(&self, next: &Self) -> bool {
        let attributes = |m: &Self| {
            let kind = (m.shared, m.inode, m.written);
            (m.readable, m.writable, m.executable, kind)
        };
        self.range.end == next.range.start
            && attributes(self) == attributes(next)
            && self.path == next.path
            && (self.inode == 0 || self.offset + (self.range.end - self.range.start) == next.offset)
    }

    /// Returns whether `other` says the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let attributes = |m: &Self| {
            let file = (m.offset, m.inode);
            (
                m.range,
                m.readable,
                m.writable,
                m.executable,
                m.shared,
                file,
            )
        };
        attributes(self) == attributes(other) && self.path == other.path
    }

    /// Returns whether it has a file that the host can look into.
    pub fn has_file(&self) -> bool {
        const IN_MEMORY: [&[u8]; 3] = [b"/memfd:", b"/dev/zero", b"/SYSV"];
        self.inode != 0 && !IN_MEMORY.iter().any(|name| self.path.starts_with(name))
    }

    /// Returns the ways in which the region's code can change.
    pub fn nature(&self) -> Nature {
        let by_others = self.inode != 0 && (self.shared || self.written && !self.writable);
        if by_others || self.writable && self.path.starts_with(b"[stack") {
            Nature::Unseen
        } else if self.writable {
            Nature::Writable
        } else if self.has_file() || self.path.starts_with(b"[v") {
            Nature::Fixed
        } else {
            Nature::Made
        }
    }
}

/// A page that was brought with no lock held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Address of the page.
    pub page: u64,
    /// True if it is there.
    pub there: bool,
}

/// Presence of a page of code.
pub(super) enum Presence {
    /// It can be read, and nobody must be waited for.
    There,
    /// It must be brought first, which may take another thread.
    Away,
    /// There is nothing.
    Nowhere,
}

/// Ways in which the code of a region can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    /// Calls that change the map, for the region as a whole: code of a file.
    Fixed,
    /// Calls that change the map, for parts of the region: code that the program generated.
    Made,
    /// Stores.
    Writable,
    /// Stores that cannot be seen, or that are too many to look at.
    Unseen,
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
    let (major, minor) = core::str::from_utf8(words.next()?).ok()?.split_once(':')?;
    let inode = decimal(words.next()?)?;
    let path = words.next().unwrap_or_default();
    let start = path.iter().position(|&c| c != b' ').unwrap_or(path.len());
    Some(Mapping {
        range: Range {
            start: hex(&range[..dash])?,
            end: hex(&range[dash + 1..])?,
        },
        readable: perms[0] == b'r',
        writable: perms[1] == b'w',
        executable: perms[2] == b'x',
        shared: perms[3] == b's',
        offset,
        inode,
        device: [hex(major.as_bytes())? as u32, hex(minor.as_bytes())? as u32],
        path: path[start..].to_vec(),
        verified: Vec::new(),
        written: false,
        named: Named::Unreported,
    })
}

/// Map of the calling thread. `/proc/self/maps` is empty when the first thread has ended.
const MAPS: &core::ffi::CStr = c"/proc/thread-self/maps";

/// The whole map as it is now.
pub fn read_all() -> Option<Vec<Mapping>> {
    let lines = |text: Vec<u8>| text.split(|&c| c == b'\n').filter_map(parse_line).collect();
    let mut text = Vec::new();
    let fd = match sys::open(MAPS) {
        Ok(fd) => fd,
        Err(sys::Errno::ENOSYS) => {
            hosted::text(|piece| text.extend_from_slice(piece))?;
            return Some(lines(text));
        }
        Err(_) => return None,
    };
    let mut buffer = [0u8; 4096];
    let complete = loop {
        match sys::read(fd, &mut buffer) {
            Ok(0) => break true,
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            Err(_) => break false,
        }
    };
    sys::close(fd);
    complete.then(|| lines(text))
}

/// The mapping that holds `pc`, if there is one; the error of a kernel that cannot be asked.
pub(super) fn query(pc: AppPc) -> Result<Option<Mapping>, sys::Errno> {
    const READABLE: u64 = 1;
    const WRITABLE: u64 = 2;
    const EXECUTABLE: u64 = 4;
    const SHARED: u64 = 8;
    let mut name = [0; 4096];
    let fd = match sys::open(MAPS) {
        Err(sys::Errno::ENOSYS) => return told(pc, &mut name),
        opened => opened?,
    };
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
        readable: m.flags & READABLE != 0,
        writable: m.flags & WRITABLE != 0,
        executable: m.flags & EXECUTABLE != 0,
        shared: m.flags & SHARED != 0,
        offset: m.offset,
        inode: m.inode,
        device: m.device,
        path: path.unwrap_or_default().to_vec(),
        verified: Vec::new(),
        written: false,
        named: Named::Unreported,
    }))
}

/// The mapping that holds `pc`, as the host says. `line`: room for its text.
fn told(pc: AppPc, line: &mut [u8]) -> Result<Option<Mapping>, sys::Errno> {
    let (bytes, written) = hosted::entry(pc.0, line).ok_or(sys::Errno::ENOSYS)?;
    let found = parse_line(&line[..bytes]);
    Ok(found.map(|mapping| Mapping { written, ..mapping }))
}

/// Returns whether the process has the file of the code at `pc` open for writing, as far as the host must be asked.
pub(super) fn is_told_written(pc: AppPc) -> bool {
    // Silence is no promise.
    !sys::opens_files() && hosted::entry(pc.0, &mut []).is_none_or(|(_, written)| written)
}

/// Returns whether no other process can write what is mapped at an address.
pub fn is_private(address: u64) -> bool {
    let at = AppPc(address);
    let found = query(at).unwrap_or_else(|_| read_all()?.into_iter().find(|m| m.range.holds(at)));
    found.is_some_and(|mapping| !mapping.shared)
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
}
