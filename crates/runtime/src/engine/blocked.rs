//! SIGSEGV, blocked by the app.
//!
//! # Problem
//! A store to a protected page (`memory::pages`) raises SIGSEGV. The kernel does not deliver what the thread blocks, but ends the
//! process. Programs block all signals while they start threads, in their handlers, or for good.
//!
//! # Strategy
//! In a process with protected pages the block is *hidden* from the kernel: that one signal is left out of each mask that
//! the app asks for, and put into each that it sees. So a store faults, and is resolved, as in any other thread.
//!
//! What natively differs for a blocked SIGSEGV is done here:
//!
//! * An instruction of the app's own that faults ends the process, whatever the handler (`process::signal`).
//! * One that is *sent* must wait in the kernel, where `sigwait`, `sigpending` and other threads find it. It is sent again
//!   with the signal really blocked ([`Blocked::Waiting`]), up to the next mask without it. No page is protected meanwhile.
//!
//! In a process that never had a protected page nothing is hidden. A thread that has blocked the signal there still has when the first
//! such page comes. Until it has come here once, no page is protected.
//!
//! # Invariants
//! * The app's mask is the kernel's, with SIGSEGV in it if the block is [`Blocked::Hidden`], or else [`Pending::true_mask`].
//! * While a thread under control has it blocked in the kernel, the state says so, and no page is protected.
//! * The state becomes that before the kernel blocks the signal, with the lock held: who protects pages sees it.
//! * It is another before the kernel unblocks. In between the thread executes nothing of the app's.
//! * A mask that was asked for in vain, as a signal came first, is undone ([`Runtime::blocks_as_before`]).
#![allow(unsafe_code)] // reason: reads the state of other threads.

use core::sync::atomic::Ordering::Relaxed;

use crate::base::address::Range;
use crate::base::blocked::Blocked;
use crate::base::signals::{SIG_UNBLOCK, SIGSEGV, bit, change_mask};
use crate::engine::signals::Pending;
use crate::engine::state::{Runtime, Thread};

impl Pending {
    /// Returns the app's mask, where the kernel's is `mask` or was that before a handler of the runtime's.
    pub fn app_mask(&self, mask: u64) -> u64 {
        self.true_mask
            .unwrap_or_else(|| self.blocked.get().to_app(mask))
    }
}

impl Thread {
    /// Tells on its page what of its mask is hidden from the kernel.
    pub fn tell_hidden(&self) {
        let hidden = self.signals.blocked.get().to_app(0);
        self.thread_page().hidden.store(hidden, Relaxed);
    }
}

impl Runtime {
    /// The app's mask in a thread becomes `mask`. Returns the one that the kernel is to have.
    pub fn take_mask(&mut self, thread: &Thread, mask: u64) -> u64 {
        let state = thread.signals.blocked.get().after(mask, self.hides());
        self.blocks(thread, state);
        state.to_kernel(mask)
    }

    /// A thread begins with the app's mask `mask`. Returns the kernel's.
    pub fn begins_with_mask(&mut self, thread: &Thread, mask: u64) -> u64 {
        thread.signals.blocked.set(Blocked::No);
        thread.tell_hidden();
        self.take_mask(thread, mask)
    }

    /// A thread has not got the mask that it asked for, but goes on with the one before, in which SIGSEGV was blocked so.
    pub fn blocks_as_before(&mut self, thread: &mut Thread, before: Blocked) {
        if thread.signals.blocked.get() == before {
            return;
        }
        self.blocks(thread, before);
        // Kept with the signal that came first, as if the mask had changed.
        if let Some(mask) = &mut thread.signals.true_mask {
            match before {
                Blocked::No => *mask &= !bit(SIGSEGV),
                _ => *mask |= bit(SIGSEGV),
            }
        }
    }

    /// One was sent to a thread that blocks it: it is to wait in the kernel. Returns the mask that the kernel is to have.
    pub fn lets_wait(&mut self, thread: &Thread, mask: u64) -> u64 {
        self.blocks(thread, Blocked::Waiting);
        mask | bit(SIGSEGV)
    }

    /// A thread is about to go on. What it has blocked in the kernel is hidden, if it can be.
    pub fn hide_block(&mut self, thread: &Thread) {
        let signals = &thread.signals;
        if signals.blocked.get() == Blocked::Really && signals.true_mask.is_none() && self.hides() {
            self.blocks(thread, Blocked::Hidden);
            change_mask(SIG_UNBLOCK, Some(&bit(SIGSEGV)));
        }
    }

    /// Returns what of the app's mask in a thread the kernel does not know.
    pub fn hidden_of(&self, tid: u32) -> u64 {
        let state = |&thread: &*const Thread| {
            // SAFETY: listed threads are there; the number does not change, and the state is atomic.
            let thread = unsafe { &*thread };
            (thread.writer.tid == tid).then(|| thread.signals.blocked.get())
        };
        (self.threads.iter().find_map(state)).map_or(0, |state| state.to_app(0))
    }

    /// Threads have come or gone.
    pub fn count_blocked(&mut self) {
        let blocks = |&thread: &*const Thread| {
            // SAFETY: listed threads are there; what is read is atomic.
            unsafe { &(*thread).signals.blocked }.get().in_kernel()
        };
        self.code_pages.blocked = self.threads.iter().any(blocks);
    }

    /// Returns whether blocks are hidden.
    fn hides(&self) -> bool {
        self.code_pages.has_any()
    }

    fn blocks(&mut self, thread: &Thread, state: Blocked) {
        let before = thread.signals.blocked.get();
        thread.signals.blocked.set(state);
        thread.tell_hidden();
        if before.in_kernel() == state.in_kernel() {
            return;
        }
        self.count_blocked();
        if state.in_kernel() {
            self.code_pages.blocked = true;
            self.written_by_kernel(Range {
                start: 0,
                end: u64::MAX,
            });
        }
    }
}
