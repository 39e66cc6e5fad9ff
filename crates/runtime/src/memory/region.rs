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
//! # Code that may have to be brought
//! The lock is held while code is read, and nobody waits while he holds it. A page that is not in memory may come from another thread
//! of the process (`userfaultfd`, a file system that the process serves). So it is not read: [`Regions::away`] names it, the
//! thread brings it with no lock held (`sys::reach`) and comes again.
//!
//! # Invariant
//! A known region has the attributes that the app believes it has. No call that could change
//! them has been seen since the region was read or modelled.

use alloc::vec::Vec;

use linux_raw_sys::general as nr;

use crate::base::address::{AppPc, Range};
use crate::memory::files::{File, is_any_open, is_open};
use crate::memory::mapping::{
    Mapping, Named, Nature, Presence, Reached, is_told_written, query, read_all,
};
use crate::memory::pages::Pages;

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

/// Files that are remembered because they are mapped shared.
const MOST_SHARED: usize = 256;

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
    /// Files that were mapped shared and may be written so, the last [`MOST_SHARED`] of them.
    shared: Vec<File>,
    /// The process had rings ([`Self::has_rings`]).
    rings: bool,
    /// The page that the thread has brought that holds the lock.
    pub reached: Option<Reached>,
    /// The page that must be brought with no lock held before its code can be read.
    pub away: Option<u64>,
}

/// Returns whether a mapping is of a ring by which the kernel is told where to write: of `io_uring`, or of asynchronous input.
fn is_ring(path: &[u8]) -> bool {
    path == b"anon_inode:[io_uring]" || path.starts_with(b"/[aio]")
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
    /// protection is not the app's. The flag says that the region is new: it was not reported to the host, whoever else looked it up.
    pub fn find(&mut self, pc: AppPc, pages: &Pages) -> (Lookup, bool) {
        let known = self.index_of(pc).filter(|&i| self.known[i].executable);
        if let Some(i) = known.filter(|_| self.is_fresh(pc)) {
            self.last = i;
            return self.code(i);
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
        let Some(mut found) = found else {
            return (Lookup::NotCode, false);
        };
        if !found.executable {
            return (Lookup::NotCode, false);
        }
        if let Some(fresh) = &mut self.fresh {
            if let Some(i) = known.filter(|&i| self.known[i].is_same(&found)) {
                fresh.push(found.range);
                self.last = i;
                if found.inode == 0 {
                    // Pages may have become guards, which the kernel's list does not tell.
                    self.known[i].verified.clear();
                }
                return self.code(i);
            }
            if self.told.iter().any(|told| told.meets(&found.range)) {
                return (Lookup::Moved(found.range), false);
            }
            fresh.push(found.range);
        }
        found.written = self.is_written(&found);
        self.known.retain(|m| !m.range.meets(&found.range));
        let i = self.known.partition_point(|m| m.range.end <= pc.0);
        self.known.insert(i, found);
        self.last = i;
        self.code(i)
    }

    /// A known region of code, and whether it is new.
    fn code(&self, region: usize) -> (Lookup, bool) {
        let new = self.known[region].named == Named::Unreported;
        (Lookup::Code(region), new)
    }

    /// Returns whether the process may write to the file of a mapping that it may not write to.
    fn is_written(&self, mapping: &Mapping) -> bool {
        if mapping.inode == 0 || mapping.shared || mapping.writable {
            return false;
        }
        let same = |file: &File| file.inode == mapping.inode && file.device == mapping.device;
        self.shared.iter().any(same)
            || is_open(&mapping.file())
            || is_told_written(AppPc(mapping.range.start))
    }

    /// The process may write to a file from now on, which `fd` is a descriptor of. Returns the known regions of its code that were not
    /// watched.
    pub fn written(&mut self, file: &File, fd: i32) -> Vec<Range> {
        let mut found = Vec::new();
        for mapping in &mut self.known {
            let watched = mapping.written || mapping.shared || mapping.writable;
            if !watched && file.is_of(&mapping.file(), fd) {
                mapping.written = true;
                found.push(mapping.range);
            }
        }
        found
    }

    /// A file is mapped shared, and may be written so.
    pub fn share(&mut self, file: File) {
        if !self.shared.contains(&file) {
            if self.shared.len() >= MOST_SHARED {
                self.shared.remove(0);
            }
            self.shared.push(file);
        }
    }

    /// Takes note of the files that a process maps shared which has run already, and of its rings.
    pub fn adopt_shared(&mut self) {
        self.share_all(&read_all().unwrap_or_default());
    }

    /// Returns whether the process had rings, when that was looked at last, by which the kernel writes to memory when it likes.
    pub fn has_rings(&self) -> bool {
        self.rings
    }

    fn share_all(&mut self, all: &[Mapping]) {
        self.rings |= all.iter().any(|mapping| is_ring(&mapping.path));
        for mapping in all {
            let file = File {
                device: mapping.device,
                inode: mapping.inode,
                regular: true,
            };
            let is_news = mapping.shared && mapping.inode != 0 && !self.shared.contains(&file);
            if is_news && self.shared.len() < MOST_SHARED {
                self.shared.push(file);
            }
        }
    }

    /// Forgets what may not hold any more in a process that has been native for a time: all but code of files that are mapped as before, and
    /// that it may not write to. Returns where that was.
    pub fn recall(&mut self) -> Vec<Range> {
        let all = read_all().unwrap_or_default();
        self.share_all(&all);
        let Self { known, shared, .. } = self;
        let stays = |m: &Mapping| {
            let start = all.partition_point(|other| other.range.end <= m.range.start);
            let is_of = |file: &File| file.inode == m.inode && file.device == m.device;
            m.nature() == Nature::Fixed
                && all.get(start).is_some_and(|found| m.is_same(found))
                && !shared.iter().any(is_of)
        };
        let mut gone = Vec::new();
        known.retain(|m| {
            let stays = stays(m);
            if !stays {
                gone.push(m.range);
            }
            stays
        });
        known.iter_mut().for_each(|m| m.verified.clear());
        let is_one = |file: &File, fd| known.iter().any(|m| file.is_of(&m.file(), fd));
        if is_any_open(is_one) {
            gone.extend(known.drain(..).map(|m| m.range));
        }
        self.last = 0;
        gone
    }

    /// Returns whether the code of a page of a known region can be read. If it must be brought first, `away` says so.
    pub fn page_is_readable(&mut self, region: usize, page: u64) -> bool {
        match self.known[region].presence(page, self.reached) {
            Presence::There => true,
            Presence::Nowhere => false,
            Presence::Away => {
                self.away = Some(page);
                false
            }
        }
    }

    /// Returns whether all of `code` is in known regions, and can be read.
    pub fn can_be_read(&mut self, code: Range) -> bool {
        const PAGE: u64 = 4096;
        let pages = (code.start & !(PAGE - 1)..code.end).step_by(PAGE as usize);
        pages.into_iter().all(|page| {
            let region = self.index_of(AppPc(page.max(code.start)));
            region.is_some_and(|region| self.page_is_readable(region, page))
        })
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

    /// Returns the address that has a place's word now. None has one whose region is gone.
    pub fn address(&self, word: u64) -> Option<AppPc> {
        self.known.iter().find_map(|mapping| match mapping.named {
            Named::Bias(bias) => {
                let pc = AppPc(word.wrapping_sub(bias));
                mapping.range.holds(pc).then_some(pc)
            }
            Named::Reported(_) | Named::Unreported => None,
        })
    }

    /// The host is done with all records of code in `range`, which is other code now.
    pub fn forget_reported(&mut self, range: Range) {
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
    pub fn is_reported(&self, range: Range) -> bool {
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
                if next.named == Named::Unreported {
                    before.named = next.named;
                }
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
    fn own_code_is_found_and_data_is_not() {
        let mut regions = Regions::default();
        let code = AppPc(own_code_is_found_and_data_is_not as *const () as u64);
        let pages = Pages::default();
        for _ in 0..2 {
            let found = regions.find(code, &pages);
            assert_eq!(found, (Lookup::Code(0), true), "until it is reported");
        }
        regions.known[0].named = Named::Bias(0);
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
