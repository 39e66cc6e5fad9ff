//! List of the runtime's memory in the target, so that all of it can be unmapped.
//!
//! The runtime's mappings lie together in one window of addresses, where the app has nothing. A
//! mapping that the kernel put elsewhere is a range of its own. Parts of the window that are
//! unmapped stay listed: the kernel gives nobody addresses there. So the list is short.
//!
//! Invariant: a thread that maps or unmaps holds the runtime's lock, or is the only thread yet.
//! The host reads the list when all threads are stopped. It finds the list by its name.
#![allow(unsafe_code)] // reason: an exported name.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::thread_page::{MAX_OWNED, Owned};

use crate::base::address::Range;

#[unsafe(export_name = "trommel_owned")]
static OWNED: Owned = Owned {
    count: AtomicU64::new(0),
    missed: AtomicU64::new(0),
    ranges: [const { [const { AtomicU64::new(0) }; 2] }; MAX_OWNED],
};

/// The list.
pub fn list() -> &'static Owned {
    &OWNED
}

/// The ranges in it.
pub fn ranges() -> impl Iterator<Item = Range> {
    let count = OWNED.count.load(Relaxed) as usize;
    OWNED.ranges.iter().take(count).map(|[start, end]| Range {
        start: start.load(Relaxed),
        end: end.load(Relaxed),
    })
}

/// Lists a mapping just made.
pub fn add(start: u64, bytes: u64) {
    let end = start + bytes;
    let count = OWNED.count.load(Relaxed) as usize;
    for [first, last] in &OWNED.ranges[..count] {
        if last.load(Relaxed) == start {
            return last.store(end, Relaxed);
        }
        if first.load(Relaxed) == end {
            return first.store(start, Relaxed);
        }
    }
    let Some([first, last]) = OWNED.ranges.get(count) else {
        OWNED.missed.fetch_add(1, Relaxed);
        return;
    };
    first.store(start, Relaxed);
    last.store(end, Relaxed);
    OWNED.count.store(count as u64 + 1, Relaxed);
}

/// Takes a mapping outside of the window from the list: the app may get its addresses.
pub fn remove(start: u64, bytes: u64) {
    let end = start + bytes;
    let count = OWNED.count.load(Relaxed) as usize;
    let holds =
        |[first, last]: &&[AtomicU64; 2]| first.load(Relaxed) <= start && end <= last.load(Relaxed);
    let Some([first, last]) = OWNED.ranges[..count].iter().find(holds) else {
        return;
    };
    let old_end = last.load(Relaxed);
    if first.load(Relaxed) == start {
        first.store(end, Relaxed);
    } else {
        last.store(start, Relaxed);
        if end < old_end {
            add(end, old_end - end);
        }
    }
}

/// Takes all that is listed in a range from the list, and what a range before it has of it.
pub fn clear(start: u64, bytes: u64) {
    let end = start + bytes;
    let count = OWNED.count.load(Relaxed) as usize;
    for [first, last] in &OWNED.ranges[..count] {
        let (from, to) = (first.load(Relaxed), last.load(Relaxed));
        if from < end && start < to && to <= end {
            // An empty one, if it begins there.
            last.store(from.max(start), Relaxed);
        }
    }
}

/// Makes these the only ones in the list: all else was unmapped, and the app may get its addresses.
pub fn keep(kept: &[Range]) {
    OWNED.count.store(0, Relaxed);
    for range in kept {
        add(range.start, range.end - range.start);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn neighbours_are_one_range_and_holes_are_not_listed() {
        let listed = || -> Vec<(u64, u64)> {
            // Other tests of this process map memory, far above these addresses.
            let some = ranges().filter(|r| r.start < r.end && r.end < 0x200_0000);
            some.map(|r| (r.start, r.end)).collect()
        };
        add(0x10_0000, 0x1000);
        add(0x10_1000, 0x2000);
        add(0x0f_f000, 0x1000);
        add(0x90_0000, 0x1000);
        assert_eq!(listed(), [(0x0f_f000, 0x10_3000), (0x90_0000, 0x90_1000)]);
        remove(0x10_1000, 0x1000);
        remove(0x90_0000, 0x1000);
        remove(0x70_0000, 0x1000);
        assert_eq!(listed(), [(0x0f_f000, 0x10_1000), (0x10_2000, 0x10_3000)]);
        clear(0x10_0000, 0x10_0000);
        assert_eq!(listed(), [(0x0f_f000, 0x10_0000)]);
        (0..2 * MAX_OWNED as u64).for_each(|n| add(0x100_0000 + n * 0x2000, 0x1000));
        assert!(list().missed.load(Relaxed) >= MAX_OWNED as u64);
        let range = |start, end| Range { start, end };
        keep(&[
            range(0x10_0000, 0x10_2000),
            range(0x10_2000, 0x10_3000),
            range(0x20_0000, 0x20_1000),
        ]);
        assert_eq!(listed(), [(0x10_0000, 0x10_3000), (0x20_0000, 0x20_1000)]);
    }
}
