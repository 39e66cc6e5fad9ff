//! Regions of memory that are code, and the files that they belong to.
//!
//! # Problem
//! Before an app address is translated we must know three things: that it may be executed, in which ways its bytes
//! can change, and which file it comes from. The app changes its map at any time. We change the
//! protection of some of its pages ([`crate::memory::pages`]).
//!
//! # Strategy
//! The kernel's own list, `/proc/thread-self/maps`, is the source. An executable region is read from it when an
//! address outside all known regions is about to be translated. The region is kept, with the protection that the
//! app gave it. One entry of the list is asked for. The text is read where the kernel cannot do that (before
//! Linux 6.11) or has entries that we split. System calls that change the map drop the known regions they touch.
//! The next translation there asks again. Only protection is modelled, as programs that generate code often switch
//! it between writable and executable. So the common calls cost one comparison.
//!
//! # Invariant
//! A known region has the attributes that the app believes it has. No call that could change
//! them has been seen since the region was read or modelled.

use crate::base::address::Range;
use alloc::vec::Vec;

use linux_raw_sys::general as nr;

use crate::base::address::AppPc;
use crate::base::sys;
use crate::memory::pages::Pages;

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
    /// Path or `[name]`, as the kernel prints it; empty for anonymous memory.
    pub path: Vec<u8>,
    /// Pages known to be readable, counted from the start of the range.
    pub verified: Vec<bool>,
    /// The host's name for the region's addresses.
    pub named: Named,
}

/// Names that the host has for the addresses of a region: the words of their places are the addresses and a *bias*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// A name with this bias. It is 0 for memory without a file, whose addresses are their own places.
    Bias(u64),
    /// A region that was reported to the host, under this number.
    Told(u32),
}

impl Mapping {
    /// Returns whether a page of it can be read: a file may be shorter than its mapping. Asks the kernel
    /// about several pages at once.
    pub fn page_is_readable(&mut self, page: u64) -> bool {
        const PAGE: u64 = 4096;
        if self.inode == 0 && !self.shared && self.readable {
            return true;
        }
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
            offset: self.offset.wrapping_add(start - self.range.start),
            verified: Vec::new(),
            path: self.path.clone(),
            ..*self
        }
    }

    /// Returns whether `next` follows it and is more of the same.
    fn goes_on(&self, next: &Self) -> bool {
        let attributes = |m: &Self| (m.readable, m.writable, m.executable, m.shared, m.inode);
        self.range.end == next.range.start
            && attributes(self) == attributes(next)
            && self.path == next.path
            && (self.inode == 0 || self.offset + (self.range.end - self.range.start) == next.offset)
    }

    /// Returns whether `other` says the same.
    fn is_same(&self, other: &Self) -> bool {
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
        if self.shared && self.inode != 0 || self.writable && self.path.starts_with(b"[stack") {
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
    let _device = words.next()?;
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
        path: path[start..].to_vec(),
        verified: Vec::new(),
        named: Named::Bias(0),
    })
}

/// Map of the calling thread. `/proc/self/maps` is empty when the first thread has ended.
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
    const READABLE: u64 = 1;
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
        readable: m.flags & READABLE != 0,
        writable: m.flags & WRITABLE != 0,
        executable: m.flags & EXECUTABLE != 0,
        shared: m.flags & SHARED != 0,
        offset: m.offset,
        inode: m.inode,
        path: path.unwrap_or_default().to_vec(),
        verified: Vec::new(),
        named: Named::Bias(0),
    }))
}

/// Returns whether no other process can write what is mapped at an address.
pub fn is_private(address: u64) -> bool {
    let at = AppPc(address);
    let found = query(at).unwrap_or_else(|_| read_all()?.into_iter().find(|m| m.range.holds(at)));
    found.is_some_and(|mapping| !mapping.shared)
}

/// Knowledge about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Code: index in [`Regions::known`].
    Code(usize),
    /// Code, where the host believes other code to be.
    Moved(Range),
    /// Memory that is not executable.
    NotCode,
    /// The kernel's list could not be read.
    Unknown,
}

/// The known regions.
#[derive(Default)]
pub struct Regions {
    /// Known regions, by address.
    pub known: Vec<Mapping>,
    last: usize,
    /// Ranges where the host believes code of files to be.
    told: Vec<Range>,
    /// Ranges that were looked up since the last window began. Only with windows.
    fresh: Option<Vec<Range>>,
}

impl Regions {
    fn index_of(&self, pc: AppPc) -> Option<usize> {
        if self.known.get(self.last).is_some_and(|m| m.range.holds(pc)) {
            return Some(self.last);
        }
        let i = self.known.partition_point(|m| m.range.end <= pc.0);
        self.known.get(i)?.range.holds(pc).then_some(i)
    }

    /// Looks up an address, reading the map if it is new. `pages` knows where the kernel's
    /// protection is not the app's. The flag says that the region was new.
    pub fn find(&mut self, pc: AppPc, pages: &Pages) -> (Lookup, bool) {
        let known = self.index_of(pc).filter(|&i| self.known[i].executable);
        if let Some(i) = known.filter(|_| self.is_fresh(pc)) {
            self.last = i;
            return (Lookup::Code(i), false);
        }
        let split = pages.any_protected(Range {
            start: 0,
            end: u64::MAX,
        });
        let asked = if split { None } else { query(pc).ok() };
        let found = match asked {
            Some(found) => found,
            None => match read_all() {
                Some(all) => around(all, pc, pages),
                None => return (Lookup::Unknown, false),
            },
        };
        let Some(found) = found else {
            return (Lookup::NotCode, false);
        };
        if !found.executable {
            return (Lookup::NotCode, false);
        }
        if let Some(fresh) = &mut self.fresh {
            if let Some(i) = known.filter(|&i| self.known[i].is_same(&found)) {
                fresh.push(found.range);
                self.last = i;
                return (Lookup::Code(i), false);
            }
            if self.told.iter().any(|told| told.meets(&found.range)) {
                return (Lookup::Moved(found.range), false);
            }
            fresh.push(found.range);
        }
        self.known.retain(|m| !m.range.meets(&found.range));
        let i = self.known.partition_point(|m| m.range.end <= pc.0);
        self.known.insert(i, found);
        self.last = i;
        (Lookup::Code(i), true)
    }

    /// Returns whether what is known about an address need not be looked up again.
    fn is_fresh(&self, pc: AppPc) -> bool {
        let fresh = self.fresh.as_ref();
        fresh.is_none_or(|ranges| ranges.iter().any(|r| r.holds(pc)))
    }

    /// The app may have changed its map unseen: every region is looked up before it is translated
    /// again.
    pub fn doubt(&mut self) {
        self.fresh.get_or_insert_default().clear();
    }

    /// The word of the place of an address, as far as the host has said what it calls its region.
    pub fn word(&self, pc: AppPc) -> u64 {
        match self.index_of(pc).map(|i| self.known[i].named) {
            Some(Named::Bias(bias)) => pc.0.wrapping_add(bias),
            _ => pc.0,
        }
    }

    /// The host is done with all records of code in `range`, which is other code now.
    pub fn forget_told(&mut self, range: Range) {
        self.known.retain(|m| !m.range.meets(&range));
        self.told.retain(|told| !told.meets(&range));
        self.last = 0;
    }

    /// Returns true if a region must be reported to the host before code of it runs. The host takes unreported
    /// code for code without a file.
    pub fn tell(&mut self, region: usize) -> bool {
        let mapping = &self.known[region];
        let before = self.told.len();
        self.told.retain(|told| !told.meets(&mapping.range));
        if mapping.has_file() || mapping.path.starts_with(b"[v") {
            self.told.push(mapping.range);
            return true;
        }
        self.told.len() != before
    }

    /// Returns whether the host may believe that there is code of a file in `range`.
    pub fn is_told(&self, range: Range) -> bool {
        self.told.iter().any(|told| told.meets(&range))
    }

    /// Cuts known regions where `range` begins and ends. Returns which of them it covers.
    fn cut(&mut self, range: Range) -> core::ops::Range<usize> {
        for at in [range.start, range.end] {
            let i = self.known.partition_point(|m| m.range.end <= at);
            if let Some(m) = self.known.get(i).filter(|m| m.range.start < at) {
                let (low, high) = (m.part(m.range.start, at), m.part(at, m.range.end));
                self.known[i] = low;
                self.known.insert(i + 1, high);
            }
        }
        self.last = 0;
        let first = self.known.partition_point(|m| m.range.end <= range.start);
        let end = self.known.partition_point(|m| m.range.start < range.end);
        first..end.max(first)
    }

    /// Forgets what is known about `range`. The parts of a region outside stay known: their
    /// fragments do.
    pub fn forget(&mut self, range: Range) {
        if self.meets(range) {
            let covered = self.cut(range);
            self.known.drain(covered);
        }
    }

    /// The app has given `range` another protection.
    pub fn protect(&mut self, range: Range, protection: u32) {
        const ALL: u32 = nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC;
        if !self.meets(range) {
            return;
        }
        if protection & !ALL != 0 {
            return self.forget(range);
        }
        let covered = self.cut(range);
        for mapping in &mut self.known[covered.clone()] {
            mapping.readable = protection & nr::PROT_READ != 0;
            mapping.writable = protection & nr::PROT_WRITE != 0;
            mapping.executable = protection & nr::PROT_EXEC != 0;
        }
        // Put together again what is one region again.
        let mut i = covered.start.max(1);
        let mut left = covered.len() + 1;
        while left > 0 && i < self.known.len() {
            left -= 1;
            if self.known[i - 1].goes_on(&self.known[i]) {
                let next = self.known.remove(i);
                let before = &mut self.known[i - 1];
                before.range.end = next.range.end;
                before.verified.clear();
            } else {
                i += 1;
            }
        }
    }

    /// Returns whether any known region meets `range`.
    pub fn meets(&self, range: Range) -> bool {
        let i = self.known.partition_point(|m| m.range.end <= range.start);
        self.known.get(i).is_some_and(|m| m.range.meets(&range))
    }

    /// The known region that holds `pc`.
    pub fn range_of(&self, pc: AppPc) -> Option<Range> {
        self.index_of(pc).map(|i| self.known[i].range)
    }
}

/// The region that holds `pc`, as the app believes it to be: what we have split is one again.
fn around(all: Vec<Mapping>, pc: AppPc, pages: &Pages) -> Option<Mapping> {
    let mut found: Option<Mapping> = None;
    for mapping in all {
        if mapping.range.end <= pc.0 && !mapping.executable {
            found = None;
            continue;
        }
        let mut start = mapping.range.start;
        while start < mapping.range.end {
            let run = pages.run(Range {
                start,
                end: mapping.range.end,
            });
            let mut part = mapping.part(start, run.end);
            part.writable |= run.protected;
            start = run.end;
            match &mut found {
                Some(before) if before.goes_on(&part) => before.range.end = part.range.end,
                Some(before) if before.range.holds(pc) => return found,
                _ => found = Some(part),
            }
        }
    }
    found.filter(|m| m.range.holds(pc))
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
        let pages = Pages::default();
        assert_eq!(regions.find(code, &pages), (Lookup::Code(0), true));
        assert_eq!(regions.find(code, &pages), (Lookup::Code(0), false));
        let on_stack = 0u8;
        assert_eq!(
            regions.find(AppPc(&raw const on_stack as u64), &pages).0,
            Lookup::NotCode
        );
        let page = code.0 & !0xfff;
        let range = Range {
            start: page,
            end: page + 0x1000,
        };
        let before = regions.known.clone();
        regions.protect(range, nr::PROT_READ | nr::PROT_WRITE);
        assert!(regions.known.len() > 1, "cut");
        assert!(
            regions.find(code, &pages).1,
            "not code any more: read again"
        );
        regions.protect(range, nr::PROT_READ | nr::PROT_EXEC);
        let ranges = |known: &[Mapping]| known.iter().map(|m| m.range).collect::<Vec<_>>();
        assert_eq!(ranges(&regions.known), ranges(&before), "one again");
        regions.forget(range);
        assert!(!regions.meets(range));
        assert!(regions.find(code, &pages).1, "read again");
    }
}
