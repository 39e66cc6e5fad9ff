//! Processes that run in this one's memory: `vfork`, `posix_spawn`, and `clone` with `CLONE_VM` alone.
//!
//! # Problem
//! Such a process is a thread to everything that lies in memory (the cache, the lock, the heap) and
//! none to the kernel: it has signal dispositions, descriptors and an end of its own, mostly after a
//! few dozen system calls, in `exec`. The one that made it with `vfork` waits until then.
//!
//! # Strategy
//! It gets an area, as a thread does, and is started as one. So do threads that it starts: they are of its [`Group`]. What it did counts as its maker's:
//! `trommel_queue::SPAWNED` marks its chunks. Its dispositions are copied ([`Thread::own_actions`]).
//!
//! After `vfork` its maker knows that it is done when its own call comes back, and reclaims the
//! area then, however the child ended. One that runs beside its maker puts its area among the free
//! ones when it exits. So do its threads. Threads that the kernel ends, as their process ends as a whole or is killed, say nothing: they
//! are found when the next is started, or memory is short ([`Runtime::bury_ended`]). One that executes a program is found when
//! that has ended. A thread that ends its process has the runtime's lock to the end, so that no other has it then. If one is killed
//! while it has the lock, the memory's other processes go on natively ([`crate::engine::inherit`]).
//!
//! # Invariants
//! * It never says that the process ends or becomes another program.
//! * It holds no chunk when it executes a program.
#![allow(unsafe_code)] // reason: starts and ends processes.

use crate::engine::parts::{Group, Spawned};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use linux_raw_sys::general as nr;
use trommel_queue::{Detached, SPAWNED};

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::call;
use crate::base::ended;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::state::{Process, Runtime, Thread};

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
        process.runtime.holders_may_end();
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
                group: Rc::new(Group {
                    actions: (!shared).then(|| runtime.actions_of(self).copy().into()),
                    pid: AtomicU32::new(0),
                    ended: AtomicBool::new(false),
                }),
                waited_for: flags.waits(),
            });
            child.starting.clear_handlers = flags.clears_handlers();
            if flags.waits() {
                child.signals.stack = self.signals.stack;
            }
            child
        };
        let mask = self.block_for_start();
        child.signals.first_mask = mask.app;
        let control = process.queue.control();
        control.process.spawned.fetch_add(1, Relaxed);
        // SAFETY: the area is complete and the child's; signals are blocked.
        let result = unsafe { arch::clone_thread(args, u64::from(number), child.area) };
        if result < 0 || flags.waits() {
            control.process.spawned.fetch_sub(1, Relaxed);
            // Killed, maybe, while it recorded.
            process.queue.hand_in(&mut child.writer);
            child.end_counter_array();
            let mut runtime = process.runtime.lock();
            runtime.remove(child);
            child.spawned = None;
            runtime.bury_ended(process);
            drop(runtime);
            process.keep(child);
        }
        self.unblock_after_start(mask);
        Ok(result)
    }

    /// The first thread of a spawned process says which process it is.
    pub fn name_group(&self) {
        if let Some(own) = &self.spawned {
            own.group.pid.store(sys::getpid() as u32, Relaxed);
        }
    }

    /// A thread of a spawned process ends, or all of that process. Comes back only when a signal was faster.
    pub fn exit_spawned(&mut self, number: u32, status: u64) {
        let process = self.process;
        process.queue.hand_in(&mut self.writer);
        if self.spawned.as_ref().is_some_and(|own| own.waited_for) {
            // The maker has the area still.
            // SAFETY: ends this process alone.
            unsafe { call::made(number, [status, 0, 0, 0, 0, 0]) };
        }
        self.end_counter_array();
        let mut runtime = process.runtime.lock();
        runtime.part_from(self);
        let mut others = false;
        if let Some(own) = self.spawned.take() {
            others = number == nr::__NR_exit_group && Rc::strong_count(&own.group) > 1;
            let all =
                number == nr::__NR_exit_group || own.group.pid.load(Relaxed) == self.writer.tid;
            if all && !own.group.ended.swap(true, Relaxed) {
                process
                    .queue
                    .control()
                    .process
                    .spawned
                    .fetch_sub(1, Relaxed);
            }
        }
        match others {
            // Otherwise one of those might have it when the kernel ends them.
            true => runtime.keep_to_the_end(),
            false => drop(runtime),
        }
        let node = &raw mut self.node;
        let (free, busy) = (process.free.as_ptr(), process.busy.as_ptr());
        // SAFETY: signals are blocked; nothing of the thread is used from here on.
        unsafe { arch::exit_thread(status, free, node.cast(), number.into(), busy) }
    }
}

impl Runtime {
    /// Frees what threads of spawned processes had that the kernel has ended: by a signal, or as another thread
    /// of theirs has ended the process. Nobody says so.
    pub fn bury_ended(&mut self, process: &Process) {
        if !process.numbers_mean_the_same() {
            return;
        }
        let ended = |thread: &&*const Thread| {
            // SAFETY: listed threads are there; what is read does not change.
            let thread = unsafe { &***thread };
            let group = thread.spawned.as_ref().filter(|own| !own.waited_for);
            let pid = group.map_or(0, |own| own.group.pid.load(Relaxed));
            let tid = thread.thread_page().tid.load(Relaxed);
            // A zombie is there, and has ended.
            pid != 0 && tid != 0 && (!sys::is_thread(pid, tid) || ended::executes_nothing(tid))
        };
        let ended: Vec<_> = self.threads.iter().filter(ended).copied().collect();
        for thread in ended {
            // SAFETY: nobody uses it any more.
            let thread = unsafe { &mut *thread.cast_mut() };
            process.queue.hand_in(&mut thread.writer);
            thread.end_counter_array();
            self.remove(thread);
            if let Some(own) = thread.spawned.take()
                && Rc::strong_count(&own.group) == 1
                && !own.group.ended.swap(true, Relaxed)
            {
                process
                    .queue
                    .control()
                    .process
                    .spawned
                    .fetch_sub(1, Relaxed);
            }
            process.keep(thread);
        }
    }
}

const _: () = assert!(nr::__NR_vfork == 58);
