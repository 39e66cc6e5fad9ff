//! Numbers of threads, and what each thread did.

use std::collections::BTreeMap;

use trommel_profile::accuracy::PerKind;
use trommel_profile::{KindProfile, Thread};
use trommel_queue::SPAWNED;
use trommel_tuple::Kind;

/// Number of the thread that a program starts with. What it did is the rest of what all did.
pub(super) const FIRST_THREAD: u32 = 1;

/// Returns whether what a thread did counts as the first one's: its own, and what processes did that ran in
/// this one's memory.
pub(super) const fn is_first(thread: u32) -> bool {
    thread == FIRST_THREAD || thread & SPAWNED != 0
}

/// Each thread's share of what was seen: the first one has what the others have not.
pub(super) fn threads(
    folded: &BTreeMap<Kind, KindProfile>,
    first_tid: u32,
    others: &BTreeMap<u32, (u32, PerKind)>,
) -> Vec<Thread> {
    let thread = |number, tid, seen: &dyn Fn(Kind) -> u64| Thread {
        number,
        tid,
        seen: folded.keys().map(|&kind| (kind, seen(kind))).collect(),
    };
    let rest = |kind: Kind| {
        let of_others = others.values().map(|(_, seen)| seen[kind as usize]);
        folded[&kind].seen.saturating_sub(of_others.sum())
    };
    let others = others
        .iter()
        .map(|(&number, (tid, seen))| thread(number, *tid, &|kind| seen[kind as usize]));
    std::iter::once(thread(FIRST_THREAD, first_tid, &rest))
        .chain(others)
        .collect()
}
