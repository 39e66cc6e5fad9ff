//! Advice about memory that changes what is in it.
//!
//! # Problem
//! Advice may drop pages, and code with them. Some of it takes effect at once: `MADV_DONTNEED`, `MADV_REMOVE`, guard regions.
//! Some of it takes effect in each child: `MADV_DONTFORK`, `MADV_WIPEONFORK`, and `MAP_DROPPABLE`, which includes the latter.
//! A process may give advice about itself by `process_madvise`, too, with a list of ranges.
//! A page that is a guard (`MADV_GUARD_INSTALL`) is in memory that may be read and executed, and whoever touches it gets SIGSEGV.
//!
//! # Strategy
//! The ranges of advice that drops pages are taken for replaced, once the kernel has had it. A descriptor does not say which
//! process it is of, so the ranges of `process_madvise` are taken for this process's. Code is fetched again then, no more.
//! Once a child may have other memory than its parent, each child fetches all of its code again. `mremap` may move such
//! memory, so its ranges are not kept.
//!
//! Guards are installed under the runtime's lock, so that no code is read meanwhile. From the first one on each page of code is tried
//! before it is read. Execution of a guard is the program's own fault. The kernel gives fresh pages when guards are removed.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::sys;
use crate::engine::change::{replaced, take_away};
use crate::engine::state::Process;

/// `MADV_DONTNEED`, `MADV_FREE`, `MADV_REMOVE`, `MADV_DONTNEED_LOCKED`, `MADV_HWPOISON` and guards.
const DROPS: [u64; 6] = [4, 8, 9, 21, 100, GUARD_INSTALL];
/// `MADV_GUARD_INSTALL`
const GUARD_INSTALL: u64 = 102;
/// `MADV_DONTFORK` and `MADV_WIPEONFORK`.
const CHANGES_CHILDREN: [u64; 2] = [10, 18];
/// Ranges that the kernel takes at most.
const MOST_RANGES: u64 = 1024;
const MAP_TYPE: u64 = 0xf;
const MAP_DROPPABLE: u64 = 8;

/// Children may have other memory than their parent.
static CHILDREN_DIFFER: AtomicBool = AtomicBool::new(false);

/// Makes a call of the app's that gives advice, and sees to what follows.
pub(super) fn give(process: &Process, number: u32, a: &[u64; 6], call: impl FnMut() -> i64) -> i64 {
    let advice = match number {
        nr::__NR_process_madvise => a[3],
        _ => a[2],
    };
    if advice != GUARD_INSTALL {
        let mut call = call;
        let result = call();
        given(process, number, a, (advice, result));
        return result;
    }
    sys::expect_guards();
    let range = match number {
        // Of its list, which is rare.
        nr::__NR_process_madvise => bounded(0, u64::MAX),
        _ => bounded(a[0], a[1]),
    };
    take_away(process, range, call)
}

/// Sees to advice that the kernel has had from the process.
fn given(process: &Process, number: u32, a: &[u64; 6], (advice, result): (u64, i64)) {
    let succeeded = match number {
        nr::__NR_process_madvise => result > 0,
        _ => result == 0,
    };
    if succeeded && CHANGES_CHILDREN.contains(&advice) {
        CHILDREN_DIFFER.store(true, Relaxed);
    }
    // A call that fails may have dropped the first pages.
    if !DROPS.contains(&advice) {
        return;
    }
    match number {
        nr::__NR_process_madvise => listed(a).for_each(|part| replaced(process, part)),
        _ => replaced(process, bounded(a[0], a[1])),
    }
}

/// The ranges of a call of `process_madvise`.
fn listed(a: &[u64; 6]) -> impl Iterator<Item = Range> {
    let list = a[1];
    (0..a[2].min(MOST_RANGES)).map_while(move |n| {
        let mut part = [0u8; 16];
        let [start, len] = match sys::copy_checked(list.saturating_add(n * 16), &mut part) {
            true => words(part),
            false => return None,
        };
        Some(bounded(start, len))
    })
}

/// Sees to a mapping that was made with these flags.
pub(super) fn mapped(flags: u64) {
    if flags & MAP_TYPE == MAP_DROPPABLE {
        CHILDREN_DIFFER.store(true, Relaxed);
    }
}

/// Fetches all code again in a child whose memory may not be its parent's.
pub(super) fn forked(process: &Process) {
    if CHILDREN_DIFFER.load(Relaxed) {
        replaced(process, bounded(0, u64::MAX));
    }
}

fn bounded(start: u64, len: u64) -> Range {
    Range {
        start,
        end: start.saturating_add(len),
    }
}

/// The words of an element of the list.
fn words(part: [u8; 16]) -> [u64; 2] {
    let word = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&part[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    [word(0), word(8)]
}
