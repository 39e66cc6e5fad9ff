//! System calls about addresses where the runtime's own memory is.
//!
//! # Problem
//! Nothing of the program's is there, and it does not know that there is something of ours. Calls that map, unmap or protect
//! memory at such addresses would take the ground from under the runtime, or fail.
//!
//! # Strategy
//! * A program that wants the place is detached by the host, which takes the runtime out ([`request::detach_own`]). Threads that wait in the
//!   kernel go on there. Meanwhile the thread comes here again and again with the call that it has not made.
//! * Where the host cannot do that, a program of one thread detaches itself. The runtime gives its memory back then, but for a remainder
//!   (`crate::process::give_back`), which the app's own call may replace.
//! * With further threads the runtime stays then. The call is answered like one that the kernel has no memory for.
//! * What is to be unmapped is unmapped around the runtime, if there are further threads.
//! * Protection and advice for the runtime's memory are refused as where nothing is.
//!
//! The list of the runtime's memory ([`own`]) has ranges that were unmapped again, too. That is no harm here.
#![allow(unsafe_code)] // reason: makes system calls of the app's.

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::own;
use crate::base::sys;
use crate::engine::change::change_map;
use crate::engine::state::Thread;
use crate::process::request;

/// Nanoseconds between two tries of a call that waits for the host.
const BETWEEN: u64 = 200_000;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;

/// Outcome of a call that concerns the runtime's memory.
pub(super) enum Outcome {
    /// The program is detached, and makes the call itself.
    Detach,
    /// The call is not made yet.
    Again,
    /// The answer.
    Answer(i64),
}

/// Ways in which a call concerns memory.
enum Concern {
    /// It puts something there.
    Replaces(Range, i64),
    /// It takes away what is there.
    Unmaps(Range),
    /// It changes what is there.
    Changes(Range),
    /// It moves what is there.
    Moves(Range),
}

/// Returns what becomes of a call that concerns the runtime's memory. `None`: it does not.
pub(super) fn look(thread: &mut Thread, number: u32, a: &[u64; 6]) -> Option<Outcome> {
    let concern = concern(number, a)?;
    let (Concern::Replaces(range, _)
    | Concern::Unmaps(range)
    | Concern::Changes(range)
    | Concern::Moves(range)) = concern;
    if !ranges(thread).any(|own| own.meets(&range)) {
        return None;
    }
    let alone = thread.spawned.is_none() && thread.process.runtime.lock().threads.len() == 1;
    let wants =
        matches!(concern, Concern::Replaces(..)) || alone && matches!(concern, Concern::Unmaps(_));
    if wants && waits_for_host(thread) {
        sys::nap(BETWEEN);
        return Some(Outcome::Again);
    }
    Some(match concern {
        Concern::Replaces(..) | Concern::Unmaps(_) if alone => Outcome::Detach,
        Concern::Replaces(_, refusal) => Outcome::Answer(refusal),
        Concern::Unmaps(_) => Outcome::Answer(unmap_around(thread, range)),
        Concern::Changes(_) => Outcome::Answer(ENOMEM),
        Concern::Moves(_) => Outcome::Answer(EFAULT),
    })
}

/// Asks the host to detach the program, if that has not been asked. Returns false if the host does not.
fn waits_for_host(thread: &mut Thread) -> bool {
    let waits = thread.spawned.is_none()
        && request::detach_own(thread, thread.wants_place) == request::Asked::Waits;
    thread.wants_place = waits;
    waits
}

fn concern(number: u32, a: &[u64; 6]) -> Option<Concern> {
    /// `MADV_NORMAL` to `MADV_WILLNEED`.
    const HARMLESS: u64 = 3;
    const MREMAP_FIXED: u64 = 2;
    let range = |start: u64, len: u64| Range {
        start,
        end: start.saturating_add(len),
    };
    let fixed = u64::from(nr::MAP_FIXED | nr::MAP_FIXED_NOREPLACE);
    Some(match number {
        nr::__NR_mmap if a[3] & fixed != 0 => Concern::Replaces(range(a[0], a[1]), ENOMEM),
        nr::__NR_mremap if a[3] & MREMAP_FIXED != 0 => Concern::Replaces(range(a[4], a[2]), ENOMEM),
        nr::__NR_mremap => Concern::Moves(range(a[0], a[1])),
        nr::__NR_shmat if a[1] != 0 => Concern::Replaces(range(a[1], segment_bytes(a[0])), EINVAL),
        nr::__NR_munmap => Concern::Unmaps(range(a[0], a[1])),
        nr::__NR_mprotect | nr::__NR_pkey_mprotect | nr::__NR_mseal | nr::__NR_remap_file_pages => {
            Concern::Changes(range(a[0], a[1]))
        }
        nr::__NR_madvise if a[2] > HARMLESS => Concern::Changes(range(a[0], a[1])),
        _ => return None,
    })
}

/// Returns how long a segment of shared memory is. A byte, where the kernel does not say.
fn segment_bytes(id: u64) -> u64 {
    const IPC_STAT: u64 = 2;
    // As `struct shmid_ds` has it: what may be done with it, and then its size.
    const SIZE: usize = 6;
    let mut segment = [0_u64; 14];
    let args = [id, IPC_STAT, segment.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: room for what the kernel writes.
    match unsafe { sys::call(nr::__NR_shmctl, args) } {
        0 => segment[SIZE],
        _ => 1,
    }
}

/// All memory of the runtime's.
fn ranges(thread: &Thread) -> impl Iterator<Item = Range> {
    let [start, end] = &thread.process.queue.control().attached.image;
    let image = Range {
        start: start.load(Relaxed),
        end: end.load(Relaxed),
    };
    own::ranges().chain([image])
}

/// Unmaps what is in `range` and not the runtime's.
fn unmap_around(thread: &Thread, range: Range) -> i64 {
    let mut at = range.start;
    while at < range.end {
        let holds = |own: &Range| own.start <= at && at < own.end;
        if let Some(own) = ranges(thread).find(holds) {
            at = own.end;
            continue;
        }
        let starts = ranges(thread).map(|own| own.start);
        let end = starts.filter(|&start| start > at).min();
        let end = end.unwrap_or(range.end).min(range.end);
        let part = Range { start: at, end };
        let result = change_map(thread.process, part, None, || {
            // SAFETY: memory of the app's, which asks for it.
            unsafe { sys::call(nr::__NR_munmap, [at, end - at, 0, 0, 0, 0]) }
        });
        if result < 0 {
            return result;
        }
        at = end;
    }
    0
}
