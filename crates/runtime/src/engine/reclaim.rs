//! Reclaims cache memory, and finds the threads that do not come out of it.
//!
//! # Problem
//! A full cache is dropped, but its memory is free only after all threads have left it. Code that is executed
//! meanwhile needs room beside it. Threads that sleep do not come out.
//!
//! # Strategy
//! With several threads everything is dropped while there is still room ([`Cache::is_low`](crate::cache::Cache::is_low)).
//! As the new generation grows, the memory that all others have left is reclaimed. If that does not suffice, the
//! kernel is asked for the other threads' program counters (`/proc/self/task/…/syscall`). A thread that waits after a
//! system call in a fragment holds no more than that fragment. A running thread will come out soon. Where there is
//! room only for a short fragment between those held, a short one is made. A thread whose code finds no room waits
//! for the running threads. A thread that the runtime makes a call for is out ([`Thread::goes_out`]). A thread that was
//! found in a fragment kept only for such threads stays there until it comes out, and is not asked about again.
//!
//! # Why it is correct
//! The kernel reports the program counter only of a thread that is off the processor while it is looked at.
//! The thread goes on from there: in a retired fragment it reaches an exit, which leads to the dispatcher. The
//! dispatcher holds the lock that protects all this. A thread without a reported program counter counts as running.
#![allow(unsafe_code)] // reason: threads are reached by their addresses.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;

use crate::base::address::CachePc;
use crate::base::keys::with_keys_lifted;
use crate::base::sys;
use crate::engine::state::{Runtime, Thread};
use crate::memory::mapping::Reached;

/// Bytes of cache that are generated between two attempts to reclaim memory.
const STEP: u64 = 1 << 20;
/// Number of times that a thread waits for room, a millisecond each.
const PATIENCE: u32 = 5000;

/// Threads that have come out, and places of the others.
struct Whereabouts {
    /// All but those held have come out in this epoch or later.
    seen: u64,
    /// Places where threads are held.
    held: Vec<CachePc>,
}

impl Thread {
    /// Takes note that the thread is out of the cache, and goes back by way of the dispatcher only, which says so
    /// ([`Self::came_out`]).
    pub fn goes_out(&self) {
        self.presence.seen.store(u64::MAX, Relaxed);
    }

    /// Waits a little, if code found no room.
    pub fn wait_for_room(&self) {
        const NANOS: u64 = 1_000_000;
        if self.presence.waits != 0 {
            sys::nap(NANOS);
        }
    }

    /// Returns whether a page of code is worth bringing: a bounded number of times, as pages may go as fast as they come. After that the
    /// processor executes what is there.
    pub fn brings_pages(&mut self) -> bool {
        const MOST: u32 = 16;
        self.presence.brought += 1;
        self.presence.brought <= MOST
    }

    /// Brings the page of code that was away, with no lock held: another thread of the program may have to.
    pub fn bring_page(&mut self) {
        if let Some(page) = self.presence.away.take() {
            let there = with_keys_lifted(|| sys::reach(page));
            self.presence.reached = Some(Reached { page, there });
        }
    }

    /// Code found no room. Whether it is worth while to wait.
    pub fn is_patient(&mut self) -> bool {
        self.presence.waits += 1;
        self.presence.waits <= PATIENCE
    }
}

impl Runtime {
    /// Reclaims what it can of old generations.
    /// `alone`: no thread is in the cache.
    pub(crate) fn reclaim(&mut self, alone: bool) {
        self.keep_own_x87();
        let seen = match alone {
            true => u64::MAX,
            false => self
                .all_threads()
                .map(|t| t.presence.seen.load(Relaxed))
                .min()
                .unwrap_or(0),
        };
        let mut forgot = self.cache.reclaim(seen, &[], alone);
        if self.cache.is_short() {
            let found = self.whereabouts();
            forgot |= self.cache.reclaim(found.seen, &found.held, alone);
        }
        if forgot {
            for targets in &mut self.targets {
                targets.clear();
            }
        }
        if self.cache.is_new() {
            self.pairs.forget(!self.cache.has_old());
        }
        self.reclaim_at = self.cache.bytes() + STEP;
    }

    /// Reclaims what it can, if the current generation has grown since, or waits for it.
    pub(crate) fn reclaim_if_due(&mut self) {
        let due = self.cache.bytes() >= self.reclaim_at || self.cache.is_new();
        if self.cache.has_old() && due {
            self.reclaim(self.threads.len() == 1);
        }
    }

    /// Returns whether everything should be dropped as long as there is room for what follows.
    pub(crate) fn is_overflowing(&self) -> bool {
        self.threads.len() > 1 && self.cache.is_low() && !self.cache.has_old()
    }

    /// A thread that may be in code with probes that were retired before `epoch` began. `thorough`: the kernel is asked where those are that
    /// are not known to be out of it. One that waits in a system call has only an exit before it. In windows: one whose window began before.
    pub(crate) fn in_old_probes(&self, epoch: u64, thorough: bool) -> Option<&Thread> {
        self.all_threads().find(|thread| {
            let presence = &thread.presence;
            if self.has_windows() {
                // What it counts is of the programs that it began with.
                return presence.since.load(Relaxed) < epoch;
            }
            let clear = presence.clear.load(Relaxed);
            let waits = || {
                let at = waits_at(thread.thread_page().tid.load(Relaxed));
                at.is_some_and(|pc| self.cache.arena_of(CachePc(pc)).is_some())
            };
            presence.seen.load(Relaxed).max(clear) < epoch && !(thorough && waits())
        })
    }

    pub(crate) fn all_threads(&self) -> impl Iterator<Item = &Thread> {
        // SAFETY: listed threads are there; of others than the calling one only what is atomic or fixed is read.
        self.threads.iter().map(|&thread| unsafe { &*thread })
    }

    fn whereabouts(&self) -> Whereabouts {
        let epoch = self.cache.epoch();
        let mut found = Whereabouts {
            seen: u64::MAX,
            held: Vec::new(),
        };
        for thread in self.all_threads() {
            let seen = thread.presence.seen.load(Relaxed);
            let tid = thread.thread_page().tid.load(Relaxed);
            let at = match thread.presence.held.load(Relaxed) {
                _ if seen >= epoch => None,
                0 => waits_at(tid).map(CachePc),
                at => Some(CachePc(at)),
            };
            let Some(pc) = at.filter(|&pc| self.cache.arena_of(pc).is_some()) else {
                found.seen = found.seen.min(seen);
                continue;
            };
            if self.cache.is_pinned(pc) {
                thread.presence.held.store(pc.0, Relaxed);
            }
            found.held.push(pc);
        }
        found
    }
}

/// Returns the address after the system call in which a thread of this process waits, if it does.
fn waits_at(tid: u32) -> Option<u64> {
    let path = format!("/proc/self/task/{tid}/syscall\0");
    let path = CStr::from_bytes_with_nul(path.as_bytes()).ok()?;
    let fd = sys::open(path).ok()?;
    let mut text = [0; 256];
    let len = sys::read(fd, &mut text);
    sys::close(fd);
    after_call(text.get(..len.ok()?)?)
}

/// The program counter in what the kernel says of a thread: the number of its call, six arguments, the stack pointer, the program
/// counter. In no call it runs, or waits for a page (−1).
fn after_call(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let pc = words.nth(7)?.strip_prefix("0x")?;
    u64::from_str_radix(pc, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_threads_is_read() {
        let waiting = b"0 0x3 0x7ffd 0x1 0x0 0x0 0x5d 0x7ffde0 0x7f0abc12\n";
        assert_eq!(after_call(waiting), Some(0x7f0a_bc12));
        assert_eq!(after_call(b"running\n"), None);
        assert_eq!(after_call(b"-1 0x7ffde0 0x7f0abc12\n"), None);
        assert_eq!(after_call(b""), None);
        assert_eq!(after_call(b"0 0x3 0x7ffd 0x1"), None);
    }
}
