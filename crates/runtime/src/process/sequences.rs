//! Memory with a thread's area of restartable sequences, when the thread takes that memory away.
//!
//! # Problem
//! A thread registers an area with the kernel (`rseq`). When the kernel has interrupted the thread it writes there, and it kills the
//! process if it cannot. A thread may unmap its own stack, with the area in it, and end a few instructions later. Natively it
//! is hardly ever interrupted in between. Under control the way to its end is long, and may wait for the runtime's lock.
//!
//! # Strategy
//! The runtime knows the area from the thread's own call, or from the host (`ThreadPage::sequences`).
//! * A thread withdraws its registration before a call that may take the area's memory away. Afterwards it registers again
//!   if that memory can be written. If not it tries again after each later call that concerns this memory.
//! * A thread that ends withdraws its registration first. Another one may be about to unmap its memory.
//! * Filters of system calls may forbid `rseq`. From then on registrations stay, as nothing is in danger but
//!   threads that take their own memory away.
#![allow(unsafe_code)] // reason: makes calls of the thread's.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::area::Context;
use crate::base::sys;
use crate::engine::parts::Sequences;
use crate::engine::state::Thread;
use crate::engine::vsyscall::raw;
use crate::memory::pages::whole;

const UNREGISTER: u64 = 1;

/// A filter forbids the call.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// The process has set a filter that may refuse `rseq`.
pub(super) fn forbid() {
    FORBIDDEN.store(true, Relaxed);
}

impl Sequences {
    /// Returns what the host reports of a thread: an address, then length and signature in a word.
    pub fn of([at, rest]: [u64; 2]) -> Self {
        Self {
            at,
            len: rest as u32,
            signature: (rest >> 32) as u32,
            withdrawn: false,
        }
    }

    /// Memory of the area.
    pub fn area(&self) -> Range {
        Range {
            start: self.at,
            end: self.at.saturating_add(self.len.into()),
        }
    }

    fn is_in(&self, range: Range) -> bool {
        let (own, range) = (self.area(), whole(range));
        self.at != 0 && own.start < range.end && range.start < own.end
    }

    fn ask(&self, flags: u64) -> bool {
        let args = [self.at, self.len.into(), flags, self.signature.into(), 0, 0];
        // SAFETY: the thread's own registration, by its own words.
        unsafe { sys::call(nr::__NR_rseq, args) == 0 }
    }

    /// The kernel writes to the area no more.
    pub fn withdraw(&mut self) {
        if self.at != 0 && !self.withdrawn && !FORBIDDEN.load(Relaxed) {
            self.withdrawn = self.ask(UNREGISTER);
        }
    }

    fn register_again(&mut self) {
        let mut first = [0; 4];
        // An area lies within a page.
        if self.withdrawn
            && sys::copy_checked(self.at, &mut first)
            && sys::write_checked(&first, self.at)
        {
            self.withdrawn = !self.ask(0);
        }
    }
}

/// Makes the app's own `rseq`.
pub(super) fn register(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> i64 {
    let named = Sequences::of([a[0], a[1] & 0xffff_ffff | a[3] << 32]);
    thread.process.runtime.lock().area_is_named(named.area());
    let result = raw(context, nr::__NR_rseq);
    thread.call.made = Some(result);
    if result == 0 {
        thread.sequences = match a[2] & UNREGISTER {
            0 => named,
            _ => Sequences::default(),
        };
    }
    result
}

/// Makes a call that may take memory away, or give it.
pub(super) fn around(
    thread: &mut Thread,
    number: u32,
    a: &[u64; 6],
    call: impl FnOnce(&mut Thread) -> i64,
) -> i64 {
    let concerned = taken(number, a)
        .into_iter()
        .flatten()
        .any(|range| thread.sequences.is_in(range));
    if !concerned {
        return call(thread);
    }
    thread.sequences.withdraw();
    let result = call(thread);
    thread.sequences.register_again();
    result
}

/// Memory that may come or go with a call.
fn taken(number: u32, a: &[u64; 6]) -> [Option<Range>; 2] {
    const SHM_REMAP: u64 = 0x4000;
    const GUARDS: [u64; 2] = [102, 103];
    let range = |start: u64, len: u64| {
        Some(Range {
            start,
            end: start.saturating_add(len),
        })
    };
    match number {
        nr::__NR_munmap
        | nr::__NR_mprotect
        | nr::__NR_pkey_mprotect
        | nr::__NR_remap_file_pages => [range(a[0], a[1]), None],
        nr::__NR_mmap if a[3] & u64::from(nr::MAP_FIXED) != 0 => [range(a[0], a[1]), None],
        nr::__NR_madvise if GUARDS.contains(&a[2]) => [range(a[0], a[1]), None],
        nr::__NR_mremap if a[3] & u64::from(nr::MREMAP_FIXED) != 0 => {
            [range(a[0], a[1]), range(a[4], a[2])]
        }
        nr::__NR_mremap => [range(a[0], a[1]), None],
        // Its length is that of the segment.
        nr::__NR_shmat if a[2] & SHM_REMAP != 0 => [range(a[1], u64::MAX), None],
        _ => [None, None],
    }
}
