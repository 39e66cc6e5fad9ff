//! Why control has left the cache, and who sees to it.
//!
//! [`dispatch`] runs on the thread's own stack with the app's state in the [`Context`]. It decides
//! where the app goes on and sets [`Context::target`]; the caller resumes there. Whatever cannot go
//! on in the cache is single-stepped natively or detached (see [`crate::engine::native`]).
#![allow(unsafe_code)] // reason: the thread is reached through an address in the context.

use crate::base::syscalls::SEEN;
use crate::crossing::arch::upcalls;
use crate::engine::intervals;
use crate::engine::queries;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work::Flush;

use crate::base::area::{Context, Reason};
use crate::base::lock::Guard;
use crate::base::prefix::Key;
use crate::base::signals;
use crate::base::stress::{self, Crossing, Place};
use crate::base::sys;
use crate::cache::Way;
use crate::engine::native;
use crate::engine::served::Full;
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::engine::vsyscall::args;
use crate::engine::window;
use crate::observe::pairs::{Counted, Uncounted};
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
    let process = thread.process;
    if thread.publish().is_err() {
        return native::host_gone(thread, context);
    }
    if process.queue.mapped().converge().wanted.load(Relaxed) != 0 {
        process.runtime.lock().go_by_table();
    }
}

fn work_for(thread: &mut Thread, context: &mut Context) {
    if context.reason == Reason::Query as u32 {
        context.at_boundary = 0;
        stress::delay();
        if queries::crossed(thread, context).is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    if context.reason == Reason::Counted as u32 {
        context.at_boundary = 0;
        stress::delay();
        if intervals::crossed(thread, context).is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    queries::look(thread, context);
    let process = thread.process;
    let control = process.queue.control();
    control.dispatches.fetch_add(1, Relaxed);
    if core::mem::take(&mut thread.unnamed) && process.queue.settle().is_err() {
        native::host_gone(thread, context);
    }
    thread.wait_for_room();
    // Where the app goes on is not known yet, should the runtime fail.
    context.at_boundary = 0;
    stress::fail(Place::Dispatch);
    stress::delay();
    if context.reason == Reason::Full as u32 && thread.windowed.now.is_some() {
        if thread.publish_now().is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    if context.reason == Reason::Full as u32 {
        fill_up(thread, context);
        return;
    }
    if let Some(mask) = thread.starting.locked.take() {
        // SAFETY: taken when the process was started, whose number is in `rax`.
        unsafe { process.runtime.release() };
        thread.starting.clear_handlers = false;
        thread.forked(context.regs[0] as i64);
        signals::set_mask(mask);
    }
    // Back from a handler, a thread that took more than its share for it waits for the host.
    let entering = core::mem::take(&mut thread.signals.entering);
    if thread.writer.overdrawn
        && !entering
        && context.reason == Reason::Sigreturn as u32
        && process.queue.catch_up(&mut thread.writer).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Sigreturn as u32
        && !entering
        && thread.send_spilled(Full::Wait).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Sigreturn as u32
        && !entering
        && process.queue.answered(&mut thread.writer).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Window as u32 && window::make_room(thread).is_err() {
        native::host_gone(thread, context);
    }
    let mut runtime = process.runtime.lock();
    runtime.returned(thread, context.next_pc.0);
    let entered = sys::ticks();
    runtime.ask_if_due(entered);
    runtime.go_by_table();
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
    match context.reason {
        r if r == Reason::Exit as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let target = exit.target;
            if exit.counts
                && thread.recording.is_none()
                && runtime.cache.counts_down(target, exit.prefix)
            {
                runtime.came_to_hot(thread, target, entered);
            }
            runtime.go(thread, context, target, Some(context.exit), false);
            runtime.worked(entered);
        }
        r if r == Reason::Indirect as u32 => {
            control.indirect_misses.fetch_add(1, Relaxed);
            let pc = context.next_pc;
            if thread.recording.is_none() && runtime.cache.arrival_is_hot(pc) {
                runtime.came_to_hot(thread, pc, entered);
            }
            runtime.go_counted(thread, context, counted);
            runtime.worked(entered);
        }
        r if r == Reason::Syscall as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let next = exit.target;
            // It may have seen to a signal, or to the process being detached, before the call.
            let first = context.pending != 0 || process.is_leaving();
            if first {
                return runtime.go(thread, context, syscall::before(next), None, false);
            }
            let number = context.regs[0] as u32;
            let args = args(context);
            runtime.before_call(number, &args);
            if !SEEN.contains(&number) && !runtime.writes_memory_file(number, &args) {
                // Made in place.
                context.next_pc = syscall::before(next);
                context.at_boundary = 1;
                context.target = exit.patch;
                return;
            }
            drop(runtime);
            syscall::handle(thread, context, next);
        }
        r if r == Reason::Cloned as u32 => {
            let next = runtime.cache.exit(context.exit).target;
            let natively = control.follow.load(Relaxed) == 0;
            if context.regs[0] as i64 > 0 && natively {
                control.children.fetch_add(1, Relaxed);
            }
            syscall::finish(context, next);
            runtime.go(thread, context, next, None, false);
        }
        r if r == Reason::Hot as u32 => {
            let exit = runtime.cache.exit(context.exit);
            if exit.way == Way::Site {
                match runtime.is_full() {
                    true => runtime.flush(Flush::Full),
                    _ if runtime.asks_first(entered) => {}
                    false => runtime.start_unrolled(thread, context.exit, context.next_pc),
                }
                runtime.go_counted(thread, context, counted);
            } else {
                match runtime.is_full() {
                    true => runtime.flush(Flush::Full),
                    _ if runtime.asks_first(entered) => {}
                    false => runtime.start_recording(thread, exit.target),
                }
                runtime.go(thread, context, exit.target, None, false);
            }
            runtime.worked(entered);
        }
        r if r == Reason::Changed as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let pc = exit.target;
            runtime.recheck(pc, exit.prefix);
            runtime.go(thread, context, pc, None, false);
        }
        r if r == Reason::Window as u32 => {
            thread.came_out(&runtime);
            context.at_boundary = 1;
            runtime.begin_window(thread, context);
        }
        _ => {
            let pc = context.next_pc;
            runtime.go(thread, context, pc, None, false);
        }
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
