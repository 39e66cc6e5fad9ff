//! Memory of the runtime that is given back when control has ended for good.
//!
//! # Problem
//! A detached program goes on in an address space with gigabytes of the runtime's reservations. They count for its `RLIMIT_AS`,
//! `mlockall` locks them, its map and its size show them, and they lie where it may want memory.
//!
//! # The rule
//! Once no thread is under control any more, in whatever way that has come, the program has the address space that it would have natively, but
//! for a small remainder.
//!
//! # Strategy
//! The last thread that leaves, or ends, waits until the others before it are done with the runtime's memory
//! ([`Process::busy`]). Then it unmaps all but what may still be used:
//!
//! * the image, as the kernel may have entered a handler before the dispositions were given back;
//! * the words of the [`Process`], which such a handler reads;
//! * the stacks of signal handlers, as threads make their last steps there;
//! * the head of the shared file, by which the host finds what is left.
//!
//! The list of the runtime's memory has that and no more from then on. The program may map what it likes in the gaps, and who takes out what is
//! left must not touch that.
//!
//! # What keeps its memory
//! * Programs with windows: threads come back at any time.
//! * Programs that the host is just detaching, which unmaps everything.
//! * Those where another thread does not come out within a second, or that have more than a thousand threads.
#![allow(unsafe_code)] // reason: unmaps the runtime's memory.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use linux_raw_sys::general as nr;
use trommel_queue::{CHUNKS_OFFSET, DIRECTORY_BYTES};

use crate::base::address::Range;
use crate::base::area::SIGNAL_STACK_BYTES;
use crate::base::{limits, own, sys};
use crate::engine::parts::WayOut;
use crate::engine::state::{Process, Thread};

/// Nanoseconds between two looks at the others, and looks.
const BETWEEN: u64 = 50_000;
const LOOKS: u32 = 20_000;
/// Areas of threads at most whose stacks can be told apart: on a stack there is no room for more.
const MOST_AREAS: usize = 1022;

/// The memory has been given back.
static DONE: AtomicBool = AtomicBool::new(false);

/// Returns whether little more than the image is left.
pub(super) fn is_done() -> bool {
    DONE.load(Acquire)
}

/// A thread's last step on its way out: nothing that is not kept is used after it.
pub(super) fn leave(thread: &Thread) {
    let process = thread.process;
    match thread.way_out {
        // Out of a window.
        WayOut::None => return,
        WayOut::One => {}
        WayOut::Last => {
            finish(thread);
        }
    }
    process.busy.fetch_sub(1, SeqCst);
}

/// The last thread is leaving, or ends. Gives the memory back, if it may: then nothing is left of what the thread had but its stacks.
pub(super) fn finish(thread: &Thread) -> bool {
    let process = thread.process;
    let is_in_charge =
        || !process.has_windows() && process.queue.control().attached.detach.load(SeqCst) == 0;
    let is_alone = || process.busy.load(SeqCst) == 1;
    for _ in 0..LOOKS {
        if is_alone() || !is_in_charge() {
            break;
        }
        sys::nap(BETWEEN);
    }
    if !is_alone() || !is_in_charge() {
        return false;
    }
    // SAFETY: no thread is under control, and none is on its way out but this one.
    let areas = &unsafe { process.runtime.peek() }.areas;
    if areas.len() > MOST_AREAS {
        return false;
    }
    let mut kept = Kept::new(thread);
    for other in areas.iter().filter(|other| !core::ptr::eq(**other, thread)) {
        // SAFETY: areas and their threads are there until now.
        let other = unsafe { &**other };
        if other.way_out != WayOut::None {
            kept.add(signal_stack(other));
        }
    }
    unmap_all_but(&mut kept);
    true
}

/// The child of a `fork` goes on natively: its one thread gives back its copy.
pub(super) fn in_copy(thread: &Thread) {
    if !thread.process.has_windows() {
        unmap_all_but(&mut Kept::new(thread));
    }
}

fn signal_stack(thread: &Thread) -> Range {
    let end = thread.stacks().end;
    Range {
        start: end - SIGNAL_STACK_BYTES,
        end,
    }
}

/// Ranges that stay, in order.
struct Kept {
    ranges: [Range; Self::MOST],
    count: usize,
}

impl Kept {
    const MOST: usize = MOST_AREAS + 2;

    /// Ranges that stay in any case, and the stacks of a thread.
    fn new(thread: &Thread) -> Self {
        const PAGE: u64 = sys::PAGE as u64;
        let mut kept = Self {
            ranges: [Range { start: 0, end: 0 }; Self::MOST],
            count: 0,
        };
        let slot = thread.process.queue.mapped().base();
        kept.add(Range {
            start: slot - DIRECTORY_BYTES as u64,
            end: slot + CHUNKS_OFFSET as u64,
        });
        let words = &raw const *thread.process as u64;
        kept.add(Range {
            start: words & !(PAGE - 1),
            end: (words + size_of::<Process>() as u64).next_multiple_of(PAGE),
        });
        kept.add(thread.stacks());
        kept
    }

    fn add(&mut self, range: Range) {
        if let Some(to) = self.ranges.get_mut(self.count) {
            *to = range;
            self.count += 1;
        }
    }

    fn sort(&mut self) -> &[Range] {
        let ranges = &mut self.ranges[..self.count];
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

/// Unmaps all that is listed but for some ranges.
fn unmap_all_but(kept: &mut Kept) {
    let kept = kept.sort();
    DONE.store(true, Release);
    for range in own::ranges() {
        gaps(range, kept, |gap| {
            let args = [gap.start, gap.end - gap.start, 0, 0, 0, 0];
            // SAFETY: nothing of it is used any more.
            let _ = unsafe { sys::call(nr::__NR_munmap, args) };
        });
    }
    own::keep(kept);
    limits::exact();
}

/// Calls `with` for each part of a range that is in none of some others, which are in order.
fn gaps(range: Range, kept: &[Range], mut with: impl FnMut(Range)) {
    let mut at = range.start;
    for kept in kept.iter().filter(|kept| kept.meets(&range)) {
        if at < kept.start {
            with(Range {
                start: at,
                end: kept.start,
            });
        }
        at = at.max(kept.end);
    }
    if at < range.end {
        with(Range {
            start: at,
            end: range.end,
        });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn gaps_are_what_is_not_kept() {
        let range = |start, end| Range { start, end };
        let found = |whole: (u64, u64), kept: &[Range]| {
            let mut found = Vec::new();
            gaps(range(whole.0, whole.1), kept, |gap| {
                found.push((gap.start, gap.end))
            });
            found
        };
        assert_eq!(found((10, 20), &[]), [(10, 20)]);
        assert_eq!(found((10, 20), &[range(0, 10), range(20, 30)]), [(10, 20)]);
        assert_eq!(
            found((10, 20), &[range(5, 12), range(11, 14), range(19, 25)]),
            [(14, 19)]
        );
        assert_eq!(
            found((10, 20), &[range(12, 13), range(15, 16)]),
            [(10, 12), (13, 15), (16, 20)]
        );
        assert_eq!(found((10, 20), &[range(0, 100)]), []);
        assert_eq!(found((10, 10), &[]), []);
    }
}
