//! Threads: each with an area of its own, from before its first instruction to after its last.
//!
//! # Problem
//! Generated code finds everything through GS, and the kernel gives a new thread its parent's GS.
//! The app chooses the new thread's stack, and what the kernel does to its memory at start and end;
//! all of that must happen as it would natively. Programs start and end thousands of threads.
//!
//! # Strategy
//! *Start.* The parent makes the child's area (`Thread::prepare`): the child's context holds the
//! app's registers as they are after the call, in the child. Then it makes the app's system call
//! with the app's arguments. The child sets GS before anything else, with the area in a register
//! and no stack in use, takes a chunk, and goes to the dispatcher like a thread that comes out of
//! the cache. All signals are blocked around the call, as until then the child has no alternate
//! stack.
//!
//! *End.* The thread publishes its chunk and is no longer listed. Its area goes to a list of free
//! ones with the last instruction but the system call itself, which uses registers only; the kernel
//! clears the thread's id and wakes who waits for it, in the app's memory. All signals are blocked
//! then too.
//!
//! *Areas* are kept for the next thread: their tables are warm.
//!
//! # Invariants
//! * The list of threads, under the runtime's lock, has every thread under control from before it
//!   starts until it comes to its end or is detached.
//! * A thread's [`Thread`] is used by itself alone, but for what is atomic.
#![allow(unsafe_code)] // reason: makes threads.

pub mod copied;
mod fork;
mod spawn;
mod starting;

use crate::crossing::arch::upcalls;
use crate::engine::parts::{Sequences, Spawned, Starting, Stepping, WayOut};
pub use fork::child;
pub use spawn::Flags;

use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::{Detached, State};

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::signals;
use crate::crossing::arch;
use crate::engine::native;
use crate::engine::signals::Pending;
use crate::engine::state::Runtime;
use crate::engine::state::{Node, Thread};
use crate::process::{give_back, syscall};

impl Thread {
    /// A new thread's area, with the app's state after the call that starts it.
    fn prepare(
        &self,
        runtime: &mut Runtime,
        context: &Context,
        next: AppPc,
        stack: u64,
    ) -> Option<&'static mut Self> {
        runtime.bury_ended(self.process);
        let child = Self::make(self.process, runtime)?;
        let new = child.context();
        new.regs = context.regs;
        new.flags = context.flags;
        new.xmm = context.xmm;
        new.next_pc = next;
        new.regs[0] = 0;
        syscall::finish(new, next);
        if stack != 0 {
            new.regs[4] = stack;
        }
        new.pending = 0;
        new.at_boundary = 1;
        child.begin_anew();
        child.enlist(runtime);
        Some(child)
    }

    /// Forgets the thread whose area it was.
    pub(super) fn begin_anew(&mut self) {
        let own = self.signals.own_stack;
        self.signals = Pending::new(own);
        self.signals.stack.flags = signals::SS_DISABLE;
        self.leaving = false;
        self.way_out = WayOut::None;
        self.stepping = Stepping::No;
        self.single = None;
        self.full = false;
        self.starting = Starting::default();
        self.spawned = None;
        self.call.made = None;
        self.call.reported = None;
        self.sequences = Sequences::default();
        self.writer.overdrawn = false;
        self.writer.awaits = None;
        self.call.interrupted = None;
        self.recording = None;
        self.begin_path();
        // Not known yet.
        self.thread_page().tid.store(0, Relaxed);
    }

    /// Starts a thread with the app's system call, which is before `next`. Returns the kernel's
    /// answer.
    pub fn start(
        &mut self,
        context: &mut Context,
        number: u32,
        args: &[u64; 6],
        next: AppPc,
        stack: u64,
    ) -> Result<i64, Detached> {
        let process = self.process;
        process.free_counter_arrays();
        let child = {
            let mut runtime = process.runtime.lock();
            runtime.be_joined();
            self.prepare(&mut runtime, context, next, stack)
                .ok_or(Detached::ManyThreads)?
        };
        child.spawned = self.spawned.as_ref().map(|own| Spawned {
            group: own.group.clone(),
            waited_for: false,
        });
        let mask = self.block_for_start();
        child.signals.first_mask = mask.app;
        let control = process.queue.control();
        control.process.threads.fetch_add(1, Relaxed);
        // SAFETY: the area is complete and the child's; signals are blocked.
        let result = unsafe { arch::clone_thread(args, u64::from(number), child.area) };
        self.call.made = Some(result);
        if result < 0 {
            control.process.threads.fetch_sub(1, Relaxed);
            child.end_counter_array();
            process.runtime.lock().remove(child);
            process.keep(child);
        }
        self.unblock_after_start(mask);
        Ok(result)
    }

    /// The app ends this thread, with the call `number`. Comes back only when a signal was faster.
    pub fn exit(&mut self, context: &mut Context, number: u32, status: u64) {
        let mask = signals::block_all();
        // SAFETY: a word of the context, which a handler of this thread may just have written.
        if unsafe { (&raw const context.pending).read_volatile() } != 0 {
            signals::set_mask(mask);
            return;
        }
        self.sequences.withdraw();
        self.process.runtime.lock().before_end();
        if self.spawned.is_some() {
            return self.exit_spawned(number, status);
        }
        let process = self.process;
        self.serve_no_more();
        process.queue.hand_in(&mut self.writer);
        self.end_counter_array();
        let last = {
            let mut runtime = process.runtime.lock();
            runtime.part_from(self);
            let last = runtime.threads.is_empty();
            if last && process.is_leaving() {
                runtime.actions.give_back();
            }
            last
        };
        if last {
            let state = &process.queue.control().process.state;
            let _ = state.compare_exchange(
                State::Controlled as u32,
                State::Exited as u32,
                Release,
                Relaxed,
            );
        }
        let mut node = &raw mut self.node;
        let mut last_node = Node { next: 0, thread: 0 };
        if last && process.is_leaving() && give_back::finish(self) {
            // Its own is no more.
            node = &raw mut last_node;
        }
        let (free, busy) = (process.free.as_ptr(), process.busy.as_ptr());
        // SAFETY: signals are blocked; nothing of the thread is used from here on.
        unsafe { arch::exit_thread(status, free, node.cast(), number.into(), busy) }
    }
}

/// A new thread's first steps, on its own stack with its own GS.
///
/// # Safety
/// Only `arch::clone_thread` may call this.
#[unsafe(export_name = "trommel_begin")]
pub unsafe extern "C" fn begin(context: &mut Context) {
    // SAFETY: the area is this thread's.
    let thread = unsafe { Thread::of(context) };
    thread.is_current();
    thread.name_group();
    signals::use_stack(&thread.signals.own_stack);
    let process = thread.process;
    if core::mem::take(&mut thread.starting.clear_handlers) {
        process.runtime.lock().actions_of(thread).cleared();
    }
    // First: who leaves here needs the trap, and must know the app's own mask.
    let mask = thread.signals.first_mask;
    signals::set_mask(process.runtime.lock().begins_with_mask(thread, mask));
    if process.queue.take(&mut thread.writer).is_err() {
        native::host_gone(thread, context);
    }
    let pc = context.next_pc;
    process.runtime.lock().go(thread, context, pc, None, false);
    thread.run_errand(context);
}

const _: upcalls::Entered = begin;
