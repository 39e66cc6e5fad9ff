//! Processes that run in this one's memory: `vfork`, `posix_spawn`, and `clone` with `CLONE_VM` alone.
//!
//! # Problem
//! Such a process is a thread to everything that lies in memory (the cache, the lock, the heap) and
//! none to the kernel: it has signal dispositions, descriptors and an end of its own, mostly after a
//! few dozen system calls, in `exec`. The one that made it with `vfork` waits until then.
//!
//! # Strategy
//! It gets an area, as a thread does, and is started as one. What it did counts as its maker's:
//! `trommel_queue::SPAWNED` marks its chunks. Its dispositions are copied ([`Thread::own_actions`]).
//!
//! After `vfork` its maker knows that it is done when its own call comes back, and reclaims the
//! area then, however the child ended. One that runs beside its maker puts its area among the free
//! ones when it exits; when it executes a program, its area is lost.
//!
//! # Invariants
//! * It never says that the process ends or becomes another program.
//! * It holds no chunk when it executes a program.
#![allow(unsafe_code)] // reason: starts and ends processes.

use crate::base::signals;
use crate::engine::parts::Spawned;
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_queue::{Detached, SPAWNED};

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::state::Thread;

/// Flags with which a process is started.
#[derive(Clone, Copy)]
pub struct Flags(pub u64);

impl Flags {
    const CLONE_VM: u64 = 0x100;
    const CLONE_SIGHAND: u64 = 0x800;
    const CLONE_VFORK: u64 = 0x4000;
    const CLONE_THREAD: u64 = 0x1_0000;
    /// Flag of `clone` that `unshare` has, too.
    const CLONE_NEWPID: u64 = 0x2000_0000;
    const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

    /// Flags of the call `vfork`.
    pub const VFORK: Self = Self(Self::CLONE_VM | Self::CLONE_VFORK);

    /// Returns true if it is in the same memory.
    pub const fn shares_memory(self) -> bool {
        self.0 & Self::CLONE_VM != 0
    }

    /// No process, but a thread.
    pub const fn is_thread(self) -> bool {
        self.0 & Self::CLONE_THREAD != 0
    }

    /// The maker waits for it.
    pub const fn waits(self) -> bool {
        self.0 & Self::CLONE_VFORK != 0
    }

    /// Returns true if it sees other process numbers than its maker.
    pub const fn is_foreign(self) -> bool {
        self.0 & Self::CLONE_NEWPID != 0
    }

    /// Its handlers are gone.
    pub const fn clears_handlers(self) -> bool {
        self.0 & Self::CLONE_CLEAR_SIGHAND != 0
    }
}

impl Thread {
    /// Starts a process in this one's memory with the app's system call, which is before `next`.
    /// Returns the kernel's answer.
    pub fn spawn(
        &mut self,
        context: &mut Context,
        number: u32,
        args: &[u64; 6],
        next: AppPc,
        stack: u64,
        flags: Flags,
    ) -> Result<i64, Detached> {
        let process = self.process;
        process.free_counter_arrays();
        let child = {
            let mut runtime = process.runtime.lock();
            if !flags.waits() {
                runtime.be_joined();
            }
            let child = self
                .prepare(&mut runtime, context, next, stack)
                .ok_or(Detached::ManyThreads)?;
            child.writer.number |= SPAWNED;
            child.name_counter_array();
            let shared = flags.0 & Flags::CLONE_SIGHAND != 0;
            child.spawned = Some(Spawned {
                actions: (!shared).then(|| Box::new(runtime.actions_of(self).copy())),
                waited_for: flags.waits(),
            });
            child.starting.clear_handlers = flags.clears_handlers();
            if flags.waits() {
                child.signals.stack = self.signals.stack;
            }
            child
        };
        let mask = signals::block_all();
        child.signals.first_mask = self.signals.mask_override().unwrap_or(mask);
        let control = process.queue.control();
        control.spawned.fetch_add(1, Relaxed);
        // SAFETY: the area is complete and the child's; signals are blocked.
        let result = unsafe { arch::clone_thread(args, u64::from(number), child.area) };
        if result < 0 || flags.waits() {
            control.spawned.fetch_sub(1, Relaxed);
            // Killed, maybe, while it recorded.
            process.queue.hand_in(&mut child.writer);
            child.end_counter_array();
            let mut runtime = process.runtime.lock();
            runtime.remove(child);
            child.forget_actions();
            drop(runtime);
            process.keep(child);
        }
        signals::set_mask(mask);
        Ok(result)
    }

    /// The process has no dispositions of its own any more. Called with the runtime's lock held.
    fn forget_actions(&mut self) {
        if let Some(own) = &mut self.spawned {
            own.actions = None;
        }
    }

    /// The spawned process ends. Comes back only when a signal was faster.
    pub fn exit_spawned(&mut self, number: u32, status: u64) {
        let process = self.process;
        process.queue.hand_in(&mut self.writer);
        if self.spawned.as_ref().is_some_and(|own| own.waited_for) {
            // The maker has the area still.
            // SAFETY: ends this process alone.
            unsafe { sys::call(number, [status, 0, 0, 0, 0, 0]) };
        }
        self.end_counter_array();
        {
            let mut runtime = process.runtime.lock();
            runtime.remove(self);
            self.forget_actions();
        }
        process.queue.control().spawned.fetch_sub(1, Relaxed);
        let node = &raw mut self.node;
        // SAFETY: signals are blocked; nothing of the thread is used from here on.
        unsafe { arch::exit_thread(status, process.free.as_ptr(), node.cast()) }
    }
}

const _: () = assert!(nr::__NR_vfork == 58);
