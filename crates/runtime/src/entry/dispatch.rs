//! Handles the reasons for which control has left the cache.
//!
//! [`dispatch`] runs on the thread's own stack with the app's state in the [`Context`]. It decides
//! where the app goes on and sets [`Context::target`]; the caller resumes there. Whatever cannot go
//! on in the cache is single-stepped natively or detached (see [`crate::engine::native`]).
#![allow(unsafe_code)] // reason: the thread is reached through an address in the context.

use crate::base::syscalls::{self, Role};
use crate::channel::deliver::HostGone;
use crate::crossing::arch::upcalls;
use crate::engine::contexts;
use crate::engine::descriptors;
use crate::engine::intervals;
use crate::engine::queries;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work::Flush;

use crate::base::area::{Context, Reason};
use crate::base::lock::Guard;
use crate::base::prefix::Key;
use crate::base::stress::{self, Crossing, FailurePoint};
use crate::base::sys;
use crate::cache::Way;
use crate::engine::native;
use crate::engine::own_status;
use crate::engine::served::Full;
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::engine::vsyscall::args;
use crate::engine::window;
use crate::observe::pairs::{Counted, Uncounted};
use crate::process::failure;
use crate::process::signal;
use crate::process::syscall;

/// Entered from `arch::enter` with the app's state in `context`.
///
/// # Safety
/// Only `arch::enter` may call this.
#[unsafe(export_name = "trommel_dispatch")]
pub unsafe extern "C" fn dispatch(context: &mut Context) {
    // SAFETY: entered once at a time by each thread; the context is a started thread's.
    let thread = unsafe { Thread::of(context) };
    work_for(thread, context);
    thread.run_errand(context);
    // A mark may have filled the chunk.
    if core::mem::take(&mut thread.full) {
        let done = match thread.windowed.now {
            Some(_) => thread.publish_now(),
            None => thread.publish(),
        };
        if done.is_err() {
            native::host_gone(thread, context);
        }
    }
    if thread.end_due_interval().is_err() {
        native::host_gone(thread, context);
    }
    if thread.windowed.now.is_some() && thread.leaving && context.at_boundary != 0 {
        signal::depart(thread, context);
    }
}

const _: upcalls::Entered = dispatch;

/// A chunk is full, inside a fragment.
fn fill_up(thread: &mut Thread, context: &mut Context) {
    if thread.windowed.now.is_some() {
        let queue = &thread.process.queue;
        if queue.is_short() {
            // Where the kernel refuses memory, the host gives back what was published.
            let runtime = thread.process.runtime.lock();
            queue.has_chunks(runtime.threads.len());
        }
        if thread.publish_now().is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    let process = thread.process;
    if thread.publish().is_err() {
        return native::host_gone(thread, context);
    }
    if process.queue.mapped().converge().wanted.load(Relaxed) != 0 {
        process.runtime.lock().go_by_table();
    }
    if process.queue.mapped().queries().changing.load(Relaxed) != 0 {
        process.runtime.lock().heed_queries();
    }
}

/// Sees to what has brought the thread here.
fn work_for(thread: &mut Thread, context: &mut Context) {
    if context.reason == Reason::Query as u32 {
        return inside(thread, context, queries::crossed);
    }
    if context.reason == Reason::Counted as u32 {
        return inside(thread, context, intervals::crossed);
    }
    if context.reason == Reason::Context as u32 {
        return inside(thread, context, contexts::crossed);
    }
    queries::look(thread, context);
    let process = thread.process;
    process
        .queue
        .control()
        .engine
        .dispatches
        .fetch_add(1, Relaxed);
    if core::mem::take(&mut thread.unnamed) && process.queue.settle().is_err() {
        native::host_gone(thread, context);
    }
    thread.wait_for_room();
    thread.bring_page();
    // Where the app goes on is not known yet, should the runtime fail.
    context.at_boundary = 0;
    stress::fail(FailurePoint::Dispatch);
    stress::delay();
    if context.reason == Reason::Full as u32 {
        return fill_up(thread, context);
    }
    come_back(thread, context);
    if context.reason == Reason::Window as u32 && window::make_room(thread).is_err() {
        native::host_gone(thread, context);
    }
    Left::enter(thread, context).go_on();
}

/// An event is looked at in the midst of a fragment.
fn inside(
    thread: &mut Thread,
    context: &mut Context,
    look: fn(&mut Thread, &mut Context) -> Result<(), HostGone>,
) {
    context.at_boundary = 0;
    stress::delay();
    if look(thread, context).is_err() {
        native::host_gone(thread, context);
    }
}

/// The thread may come back from a call that started a process, or from a handler.
fn come_back(thread: &mut Thread, context: &mut Context) {
    let process = thread.process;
    if let Some(mask) = thread.starting.locked.take() {
        // SAFETY: taken when the process was started, whose number is in `rax`.
        unsafe { process.runtime.release() };
        thread.starting.clear_handlers = false;
        thread.forked(context.regs[0] as i64);
        thread.unblock_after_start(mask);
    }
    let entering = core::mem::take(&mut thread.signals.entering);
    if entering || context.reason != Reason::Sigreturn as u32 {
        return;
    }
    // Back from a handler, a thread that took more than its share for it waits for the host.
    if thread.writer.overdrawn && process.queue.catch_up(&mut thread.writer).is_err() {
        native::host_gone(thread, context);
    }
    if thread.send_spilled(Full::Wait).is_err() {
        native::host_gone(thread, context);
    }
    if process.queue.answered(&mut thread.writer).is_err() {
        native::host_gone(thread, context);
    }
}

/// A thread that has left the cache, with the lock held.
struct Left<'a> {
    thread: &'a mut Thread,
    context: &'a mut Context,
    runtime: Guard<'static, Runtime>,
    /// The indirect branch that it left by, as far as that was counted.
    counted: Result<Option<Counted>, Uncounted>,
    /// The time at which the lock was taken.
    entered: u64,
}

/// The functions that lead a thread on, by the reason for which it has left. Any other reason leaves the next
/// instruction in the context.
const BY_REASON: [(Reason, fn(Left<'_>)); 7] = [
    (Reason::Exit, |left| left.by_exit()),
    (Reason::Indirect, |left| left.by_indirect()),
    (Reason::Syscall, |left| left.by_call()),
    (Reason::Cloned, |left| left.after_clone()),
    (Reason::Hot, |left| left.at_hot()),
    (Reason::Changed, |left| left.at_changed()),
    (Reason::Window, |left| left.into_window()),
];

impl<'a> Left<'a> {
    /// Takes the lock, and does what is due whatever the reason.
    fn enter(thread: &'a mut Thread, context: &'a mut Context) -> Self {
        let mut runtime = thread.process.runtime.lock();
        if runtime.broken {
            return Self {
                thread,
                context,
                runtime,
                counted: Ok(None),
                entered: 0,
            };
        }
        runtime.returned(thread, context.next_pc.0);
        let entered = sys::ticks();
        runtime.ask_if_due(entered);
        runtime.go_by_table();
        runtime.heed_queries();
        match stress::crossing() {
            Crossing::Usual => {}
            Crossing::Evict => runtime.evict = Some(Flush::Asked),
            Crossing::Turn => runtime.turn_over(),
            Crossing::Leave => runtime.leave = true,
        }
        // What a flush takes away is what says how an indirect branch is counted.
        let by_target = context.reason == Reason::Indirect as u32
            || context.reason == Reason::Hot as u32
                && runtime.cache.exit(context.exit).way == Way::Site;
        let mut counted = Ok(None);
        if by_target {
            (counted, runtime) = count_indirect(runtime, thread, context);
        }
        runtime.find_path(thread, context);
        if thread.recording.is_some() {
            runtime.record_piece(thread, context);
        }
        Self {
            thread,
            context,
            runtime,
            counted,
            entered,
        }
    }

    /// Leads the thread on.
    fn go_on(mut self) {
        if self.runtime.broken {
            failure::settle(self.thread, self.context);
            return (self.runtime).go_from_broken(self.thread, self.context);
        }
        let reason = self.context.reason;
        let known = BY_REASON.iter().find(|(by, _)| *by as u32 == reason);
        match known {
            Some((_, lead)) => lead(self),
            None => self.at_next(),
        }
    }

    fn at_next(mut self) {
        let pc = self.context.next_pc;
        self.runtime.go(self.thread, self.context, pc, None, false);
    }

    fn by_exit(mut self) {
        let runtime = &mut *self.runtime;
        let exit = runtime.cache.exit(self.context.exit);
        let target = exit.target;
        if exit.counts
            && self.thread.recording.is_none()
            && runtime.cache.counts_down(target, exit.prefix)
        {
            runtime.came_to_hot(self.thread, target, self.entered);
        }
        if exit.way == Way::Stored {
            runtime.show_own_stored(self.context, &exit);
        }
        let from = Some(self.context.exit);
        runtime.go(self.thread, self.context, target, from, false);
        runtime.worked(self.entered);
    }

    fn by_indirect(mut self) {
        let runtime = &mut *self.runtime;
        runtime
            .shared
            .control()
            .engine
            .indirect_misses
            .fetch_add(1, Relaxed);
        let pc = self.context.next_pc;
        if self.thread.recording.is_none() && runtime.cache.arrival_is_hot(pc) {
            runtime.came_to_hot(self.thread, pc, self.entered);
        }
        runtime.go_counted(self.thread, self.context, self.counted);
        runtime.worked(self.entered);
    }

    fn by_call(mut self) {
        let (thread, context) = (self.thread, self.context);
        let exit = self.runtime.cache.exit(context.exit);
        let next = exit.target;
        // It may have seen to a signal, or to the process being detached, before the call. The two must agree on whether it leaves there
        // (`go`), or it comes back here for ever.
        let here = syscall::before(next);
        if context.pending != 0 || thread.is_to_leave(here) {
            return self.runtime.go(thread, context, here, None, false);
        }
        let number = context.regs[0] as u32;
        let args = args(context);
        if syscalls::role(number) == Role::Opens {
            // It has not come out: the fragment that makes the call stays.
            drop(self.runtime);
            if descriptors::opens_for_writing(number, &args) {
                descriptors::before_opening(thread.process, number, &args);
            }
            let status = own_status::opens(number, &args);
            self.runtime = thread.process.runtime.lock();
            if status {
                self.runtime.watch_reads();
            }
        }
        self.runtime.before_call(number, &args);
        if !syscalls::is_made(number)
            && !self.runtime.writes_memory_file(number, &args)
            && !self.runtime.reads_status(number, &args)
        {
            // Made in place.
            context.next_pc = syscall::before(next);
            context.at_boundary = 1;
            context.target = exit.patch;
            return;
        }
        drop(self.runtime);
        syscall::handle(thread, context, next);
    }

    fn after_clone(mut self) {
        let next = self.runtime.cache.exit(self.context.exit).target;
        let control = self.runtime.shared.control();
        let natively = control.setup.follow.load(Relaxed) == 0;
        if self.context.regs[0] as i64 > 0 && natively {
            control.process.children.fetch_add(1, Relaxed);
        }
        if let Some(number) = self.thread.call.reported.take() {
            self.context.regs[0] = number;
        }
        syscall::finish(self.context, next);
        self.runtime
            .go(self.thread, self.context, next, None, false);
    }

    fn at_hot(mut self) {
        let runtime = &mut *self.runtime;
        let exit = runtime.cache.exit(self.context.exit);
        let site = exit.way == Way::Site;
        match runtime.is_full() {
            true => runtime.flush(Flush::Full),
            _ if runtime.asks_first(self.entered) => {}
            false if site => {
                runtime.start_unrolled(self.thread, self.context.exit, self.context.next_pc);
            }
            false => runtime.start_recording(self.thread, exit.target),
        }
        match site {
            true => runtime.go_counted(self.thread, self.context, self.counted),
            false => runtime.go(self.thread, self.context, exit.target, None, false),
        }
        runtime.worked(self.entered);
    }

    fn at_changed(mut self) {
        let exit = self.runtime.cache.exit(self.context.exit);
        let pc = exit.target;
        self.runtime.recheck(pc, exit.prefix);
        self.runtime.go(self.thread, self.context, pc, None, false);
    }

    fn into_window(mut self) {
        self.thread.came_out(&self.runtime);
        self.context.at_boundary = 1;
        self.runtime.begin_window(self.thread, self.context);
    }
}

/// Counts what a branch that is in neither table has done, or a trace's that goes elsewhere.
fn count_indirect(
    mut runtime: Guard<'static, Runtime>,
    thread: &mut Thread,
    context: &Context,
) -> (Result<Option<Counted>, Uncounted>, Guard<'static, Runtime>) {
    let (key, pc) = (Key::in_context(context), context.next_pc);
    let counted = runtime.count_pair(thread, key, pc);
    if counted != Err(Uncounted::Unnamed) {
        return (counted, runtime);
    }
    drop(runtime);
    let process = thread.process;
    let _ = process.queue.settle();
    let mut runtime = process.runtime.lock();
    (runtime.count_pair(thread, key, pc), runtime)
}
