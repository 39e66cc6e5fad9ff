//! Pages with code that the app may write to, and detection of the writes.
//!
//! # Problem
//! A program that generates code while it runs keeps it in memory that is writable and executable at
//! once. Fragments made from it must not outlive it. A store is an instruction like any other, and
//! memory that holds code holds data too.
//!
//! # Strategy
//! A page from which a fragment is made is *protected*: we ask the kernel to make it read-only,
//! while the app believes that it may be written. A store to it faults, and the page is *opened*: its
//! fragments become suspect ([`crate::cache`]) and the store goes on. Code of an open page is not
//! executed: the next fragment entered there protects it again. So a store next to code costs a
//! fault and a comparison of the code that is executed afterwards. Code that is not stored to costs
//! nothing.
//!
//! A page that is opened too often, or part of the stack, is *unsteady*: it stays writable, and fragments made from it
//! compare their code each time they are entered (they are *guarded*). It has a credit of
//! `CREDIT` openings, which grows by one each `PER_OPENING`. When it has been unsteady for
//! `PATIENCE`, it is tried again with a part of that.
//!
//! # Invariants
//! * A live fragment that is not guarded has its code in protected pages, or in memory that the app
//!   cannot write.
//! * Pages are opened after their fragments have become suspect, and protected before code is read.
//! * The kernel's protection of a page that is not protected here is the app's.
//!
//! # What shows
//! `/proc/PID/maps` shows the kernel's protection. Each run of protected pages takes one of the
//! mappings that the kernel gives a process. So there are at most `MAX_RUNS`.
//!
//! **I22 (code as translated).** A fragment is entered only while its app code is what it was made from: the app cannot write that code, its pages are write-protected, or the fragment compares it.
#![allow(unsafe_code)] // reason: changes the protection of the app's pages.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::address::Ranges;
use crate::base::sys;
use crate::memory::maybe::{Listed, MaybeProtected};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages so near to the stack pointer are unsteady: from here below it,
const BELOW_STACK: u64 = 64 << 10;
/// to here above.
const ABOVE_STACK: u64 = 256 << 10;
/// Runs of protected pages.
const MAX_RUNS: usize = 8192;
/// Openings that a page may have at once.
const CREDIT: u32 = 64;
/// Credit of a page that was unsteady.
const LESS_CREDIT: u32 = 8;
/// Nanoseconds in which a page earns another opening: a thousand times what one costs.
const PER_OPENING: u64 = 4_000_000;
/// Nanoseconds that a page is unsteady before it is tried again.
const PATIENCE: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Protected,
    Open,
    Unsteady,
}

struct Page {
    state: State,
    /// Protection that the app believes the page to have.
    believed: u32,
    credit: u32,
    /// Time when the page's credit was counted last, or when the page became unsteady.
    since: u64,
    /// The page's place in the list of pages that are to be made writable, while it is protected.
    listed: Listed,
}

/// Pages from which code was executed while they were writable.
#[derive(Default)]
pub struct Pages {
    pages: BTreeMap<u64, Page>,
    runs: usize,
    /// Smallest range that holds all pages that were ever protected: start, end.
    span: Option<(u64, u64)>,
    /// Every page is unsteady (a stress option).
    pub unsteady: bool,
    /// Memory that the app has marked for code generated at run time.
    jit: Ranges,
    /// A thread blocks the signal by which stores are seen.
    pub blocked: bool,
    /// Pages that the kernel writes to in its own time.
    given_up: BTreeSet<u64>,
    /// The stack pointer of the thread that is about to execute code.
    pub stack: u64,
    /// No page is protected any more: the app is detached.
    closed: bool,
    /// Pages that may be protected.
    maybe: MaybeProtected,
}

/// The pages from the start of a range on that are protected, or those that are not.
pub struct Run {
    /// After the last.
    pub end: u64,
    /// True if they are.
    pub protected: bool,
}

/// Start of the page that holds an address.
pub const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The pages that hold `range`.
pub const fn whole(range: Range) -> Range {
    Range {
        start: page_of(range.start),
        end: page_of(range.end.saturating_add(PAGE - 1)),
    }
}

fn protect(range: Range, protection: u32) -> bool {
    let args = [
        range.start,
        range.end - range.start,
        protection.into(),
        0,
        0,
        0,
    ];
    // SAFETY: pages of the app, which get the protection that it believes they have, or less.
    unsafe { sys::call(nr::__NR_mprotect, args) == 0 }
}

impl Pages {
    fn is_protected(&self, page: u64) -> bool {
        (self.pages.get(&page)).is_some_and(|p| p.state == State::Protected)
    }

    fn count_run(&mut self, page: u64, is: bool) {
        let beside =
            [page.wrapping_sub(PAGE), page + PAGE].map(|p| usize::from(self.is_protected(p)));
        let change = 1 - (beside[0] + beside[1]) as isize;
        self.runs = self
            .runs
            .wrapping_add_signed(if is { change } else { -change });
    }

    /// Prepares a page with the protection `believed`, whose code is about to be read. Returns true if
    /// fragments made from it must be guarded.
    pub fn ready(&mut self, page: u64, believed: u32) -> bool {
        let stack = self.stack.saturating_sub(BELOW_STACK)..self.stack.saturating_add(ABOVE_STACK);
        let full = self.runs >= MAX_RUNS || self.unsteady || self.closed || stack.contains(&page);
        let full = full || self.blocked || self.jit.hold(page) || self.given_up.contains(&page);
        let known = self.pages.entry(page).or_insert(Page {
            state: State::Open,
            believed,
            credit: CREDIT,
            since: 0,
            listed: Listed::default(),
        });
        match known.state {
            State::Protected => return false,
            State::Unsteady if full || sys::monotonic() - known.since < PATIENCE => return true,
            State::Unsteady => known.credit = LESS_CREDIT,
            State::Open => {}
        }
        known.believed = believed;
        let range = Range {
            start: page,
            end: page + PAGE,
        };
        // What may be written can be read, whatever was asked for.
        let less = believed & !nr::PROT_WRITE | nr::PROT_READ;
        if !full {
            known.listed = self.maybe.list(page, believed);
        }
        if full || !protect(range, less) {
            if !full {
                self.maybe.strike(known.listed);
            }
            known.state = State::Unsteady;
            known.since = sys::monotonic();
            return true;
        }
        known.state = State::Protected;
        let (low, high) = self.span.unwrap_or((page, page));
        self.span = Some((low.min(page), high.max(page + PAGE)));
        self.count_run(page, true);
        false
    }

    /// Returns whether a page was ever protected: a store to it may have faulted because of that.
    pub fn knows(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Returns whether there is any protected page in `range`.
    pub fn any_protected(&self, range: Range) -> bool {
        let reaches = |(low, high)| range.start < high && low < range.end;
        if self.runs == 0 || !self.span.is_some_and(reaches) {
            return false;
        }
        let mut within = self.pages.range(page_of(range.start)..range.end);
        within.any(|(_, p)| p.state == State::Protected)
    }

    /// Makes a page writable, as the app stores to it. Returns true if it was protected.
    pub fn open(&mut self, page: u64) -> bool {
        let unsteady = self.unsteady;
        let Some(known) = self.pages.get_mut(&page) else {
            return false;
        };
        if known.state != State::Protected {
            return false;
        }
        let now = sys::monotonic();
        let earned = (now - known.since) / PER_OPENING;
        if earned > 0 {
            known.credit = (u64::from(known.credit) + earned).min(CREDIT.into()) as u32;
            known.since = now;
        }
        known.state = match known.credit.checked_sub(1) {
            Some(credit) if !unsteady => {
                known.credit = credit;
                State::Open
            }
            _ => {
                known.since = now;
                State::Unsteady
            }
        };
        let (believed, listed) = (known.believed, known.listed);
        protect(
            Range {
                start: page,
                end: page + PAGE,
            },
            believed,
        );
        self.maybe.strike(listed);
        self.count_run(page, false);
        true
    }

    /// Returns whether a page was ever protected.
    pub fn has_any(&self) -> bool {
        !self.pages.is_empty()
    }

    /// The pages of `range` that are known.
    fn covered(&self, range: Range) -> Vec<u64> {
        let covered = self.pages.range(page_of(range.start)..range.end);
        covered.map(|(&page, _)| page).collect()
    }

    /// Makes the protected pages of `range` writable, as somebody writes to them in his own time.
    pub fn loosen(&mut self, range: Range) {
        let now = sys::monotonic();
        for page in self.covered(range) {
            if self.open(page)
                && let Some(known) = self.pages.get_mut(&page)
            {
                known.state = State::Unsteady;
                known.since = now;
            }
        }
    }

    /// Makes the protected pages of `range`, whole ones, writable for good.
    pub fn give_up(&mut self, range: Range) {
        self.loosen(range);
        self.given_up
            .extend((range.start..range.end).step_by(PAGE as usize));
    }

    /// The app says that it makes code in `range`, of which no fragment is entered any more: whole pages of it are
    /// not protected from now on.
    pub fn expect_changes(&mut self, range: Range) {
        self.forget(range);
        let (start, end) = (range.start.next_multiple_of(PAGE), page_of(range.end));
        self.jit.add(Range { start, end });
    }

    /// Makes all pages of `range` writable that are protected, and forgets about all.
    pub fn forget(&mut self, range: Range) {
        let mut run: Option<(Range, u32)> = None;
        let mut listed = Vec::new();
        for page in self.covered(range) {
            let protected = self.is_protected(page);
            if protected {
                self.count_run(page, false);
            }
            let known = self.pages.remove(&page).filter(|_| protected);
            let Some(Page {
                believed,
                listed: at,
                ..
            }) = known
            else {
                continue;
            };
            listed.push(at);
            match &mut run {
                Some((range, same)) if range.end == page && *same == believed => range.end += PAGE,
                _ => {
                    if let Some((range, believed)) = run {
                        protect(range, believed);
                    }
                    let end = page + PAGE;
                    run = Some((Range { start: page, end }, believed));
                }
            }
        }
        if let Some((range, believed)) = run {
            protect(range, believed);
        }
        for at in listed {
            self.maybe.strike(at);
        }
    }

    /// Makes every page writable that is protected, in a copy of the process, or in one that has failed: nothing here changes.
    pub fn unprotect(&self) {
        for (start, believed) in self.maybe.pages() {
            let end = start + PAGE;
            protect(Range { start, end }, believed);
        }
    }

    /// No page is protected from now on.
    pub fn close(&mut self) {
        self.closed = true;
        for page in self.pages.keys().copied().collect::<Vec<_>>() {
            self.open(page);
        }
    }

    /// No page is protected while the process rests.
    pub fn rest(&mut self) {
        self.close();
        *self = Self {
            unsteady: self.unsteady,
            ..Self::default()
        };
    }

    /// The pages from the start of `range` on of which the same is true.
    pub fn run(&self, range: Range) -> Run {
        let mut within = (self.pages.range(range.start..range.end))
            .filter(|(_, p)| p.state == State::Protected)
            .map(|(&page, _)| page);
        match within.next() {
            None => Run {
                end: range.end,
                protected: false,
            },
            Some(first) if first != range.start => Run {
                end: first,
                protected: false,
            },
            Some(first) => {
                let mut end = first + PAGE;
                for page in within {
                    if page != end {
                        break;
                    }
                    end += PAGE;
                }
                Run {
                    end: end.min(range.end),
                    protected: true,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: u32 = nr::PROT_READ | nr::PROT_WRITE;

    fn memory(pages: u64) -> u64 {
        sys::anonymous((pages * PAGE) as usize).expect("memory")
    }

    fn kernel_says_writable(page: u64) -> bool {
        let maps = crate::memory::mapping::read_all().expect("maps");
        let found = maps
            .into_iter()
            .find(|m| m.range.holds(crate::base::address::AppPc(page)));
        found.expect("mapped").writable
    }

    #[test]
    fn what_the_kernel_says_follows() {
        let at = memory(4);
        let mut pages = Pages::default();
        assert!(!pages.ready(at + PAGE, RW) && !pages.ready(at + 2 * PAGE, RW));
        assert_eq!(pages.runs, 1);
        assert!(kernel_says_writable(at) && !kernel_says_writable(at + PAGE));
        let all = Range {
            start: at,
            end: at + 4 * PAGE,
        };
        let run = pages.run(all);
        assert!(!run.protected && run.end == at + PAGE);
        let run = pages.run(Range {
            start: at + PAGE,
            ..all
        });
        assert!(run.protected && run.end == at + 3 * PAGE);
        assert!(pages.open(at + PAGE) && !pages.open(at + PAGE) && !pages.open(at));
        assert!(kernel_says_writable(at + PAGE) && !kernel_says_writable(at + 2 * PAGE));
        assert!(pages.any_protected(all));
        pages.forget(all);
        assert!(kernel_says_writable(at + 2 * PAGE) && pages.runs == 0);
    }

    #[test]
    fn a_page_that_is_opened_too_often_is_left_alone() {
        let at = memory(1);
        let mut pages = Pages::default();
        let mut opened = 0;
        while !pages.ready(at, RW) {
            assert!(pages.open(at));
            opened += 1;
        }
        assert!((CREDIT..100 * CREDIT).contains(&opened), "{opened}");
        assert!(kernel_says_writable(at));
    }
}
