//! The app's signal handlers, run under control and at exact places.
//!
//! # Problem
//! The kernel interrupts whatever runs: a fragment between two app instructions, in the middle of
//! one (a probe, a lookup), or the runtime itself. The app's handler must see, and may change, the
//! context of its own code, and must itself run in the cache.
//!
//! # Strategy
//! The kernel calls [`on_signal`] for every signal that the app handles, and for the synchronous
//! ones always; on a stack of the runtime's, all signals blocked. From the interrupted program
//! counter follows what to do:
//!
//! * *At a boundary* (the start of an app instruction, or a system call about to be made or just
//!   interrupted): deliver. The kernel's own frame is copied to the app's stack as the kernel would
//!   have put it, with the app's program counter, alternate stack and restorer; the frame being
//!   returned from is changed to enter the handler through the dispatcher.
//! * *Between boundaries in the cache*: the signal is kept, all others are blocked, and the trap
//!   flag leads on, one instruction at a time, to the next boundary. A step has a few dozen
//!   instructions at most, which bounds the delay.
//! * *In the runtime*: the signal is kept; the way back into the cache ends in a trap
//!   (`arch::resume`), where all registers are the app's, and it is delivered there. A call on which the
//!   runtime was about to wait is called off (`arch::calls`).
//! * *A fault of the app* is always at an app instruction; the fragment's description says which
//!   registers it must get back.
//! * *A fault of a probe*, whose stores are not aligned, in code that wants alignment checked: the
//!   check is off up to the next boundary.
//! * *A fault of the runtime* detaches the app, since its state is complete in the context
//!   ([`crate::process::failure`]).
//!
//! The app's return from its handler is a system call that the runtime sees: it lets the kernel
//! load the frame, with a landing place of its own as program counter.
//!
//! # Threads
//! The kernel delivers to whichever thread it likes; a handler finds its thread by GS. Dispositions
//! are shared, after the runtime's lock; masks, alternate stacks and what is kept are the
//! thread's. A handler that found its thread in the cache takes the lock to find out where; one
//! that interrupted the runtime must not, and need not.
//!
//! # Invariants
//! * At most one signal is kept: while there is one, all others are blocked in the kernel, but for
//!   the synchronous ones, which must not be when an instruction causes one. Those that
//!   somebody *sends* meanwhile, or had sent while the app blocked them, go back to the kernel when the
//!   kept one has been delivered.
//! * What goes back to the kernel is blocked before, until the handler returns: it would come at once.
//! * What was kept is delivered before a fault of the instruction after it: that is executed again.
//! * A kept signal is not sent again where its place among others of its number would be lost, but
//!   delivered first, when the thread leaves too.
//! * The app's mask is the kernel's, except while `Pending::true_mask` holds it, and but for SIGSEGV (`engine::blocked`).
//! * A default or ignored disposition is the kernel's business, except for the synchronous
//!   signals, whose default action is carried out on the app's own code, so that a core dump shows
//!   the app.
//!
//! **I7 (signals do not wait).** A signal waits neither for the host nor for a call of the runtime that has not been made yet.
#![allow(unsafe_code)] // reason: called by the kernel with raw frames.

mod depart;
mod handler;
mod instruction;
mod kept;
mod leave;
mod masks;
mod place;
mod reported;
mod waits;
mod written;

use crate::base::signals::Action;
use crate::base::signals::SIGABRT_IOT;
use crate::base::signals::set_action;
use crate::base::signals::{
    ALIGNMENT_CHECK, ALL_BUT_SYNCHRONOUS, Info, SIG_DFL, SIG_IGN, SIGTRAP, TRAP_BRKPT, TRAP_FLAG,
    TRAP_TRACE, Ucontext, bit, is_synchronous, requeue,
};
use crate::crossing::arch::upcalls;
use crate::engine::current;
use crate::engine::parts::Stepping;
use crate::engine::queries;

pub use depart::depart;
use handler::{call_handler, die};
use instruction::{is_general_fault, is_int1, is_popf, may_be_step, repeated, trap_address};
use kept::{give_back_aside, keep, restore_mask, set_aside};
pub use leave::{again, give_up, hand_on};
use leave::{landed_as_child, leave};
pub use masks::change_mask;
use place::{DeliveryPoint, Where, in_runtime, place};
use trommel_queue::Detached;
use trommel_queue::dict::Passed;
pub use waits::wait;

use crate::base::address::{AppPc, CachePc};
use crate::base::area::{CONTEXT_OFFSET, Context};
use crate::base::ids::EntryId;
use crate::base::knock;
use crate::base::recipe::STATUS;
use crate::base::stress::{self, FailurePoint};
use crate::base::sys;
use crate::cache::{Cache, Fragment, Spilled, Step};
use crate::crossing::arch::{self, Landmarks};
use crate::engine::native;
use crate::engine::native::PENDING;
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::process::attach;
use crate::process::failure::{self, Fault};
use crate::process::window;

const RED_ZONE: u64 = 128;

fn context() -> &'static mut Context {
    let this: u64;
    // SAFETY: GS points to the thread area while a thread is under control.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) this, const CONTEXT_OFFSET + core::mem::offset_of!(Context, this), options(nostack, readonly));
        &mut *((this + CONTEXT_OFFSET as u64) as *mut Context)
    }
}

/// The handler of everything. Called by `arch::on_signal` on the runtime's alternate stack. Returns
/// the app's handler if that is to be called in its place, else 0.
///
/// # Safety
/// Only `arch::on_signal` may call this.
#[unsafe(export_name = "trommel_on_signal")]
pub unsafe extern "C" fn on_signal(signal: i32, info: *const Info, frame: *mut Ucontext) -> u64 {
    let process = current::process();
    // SAFETY: the kernel passes valid pointers.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let request = attach::request(info);
    if process.has_windows() {
        let gs = arch::gs_base();
        if !process.has_area(gs) {
            // SAFETY: the thread is native: GS is not that of an area.
            return unsafe { window::signalled(process, info, frame, gs) };
        }
    } else if (process.is_leaving() || request.is_some()) && !process.has_area(arch::gs_base()) {
        return match request {
            Some(_) => 0,
            None if knock::is_knock(info) => 0,
            None => hand_on(process, info, frame),
        };
    }
    if knock::is_knock(info) {
        let own = process.has_area(arch::gs_base());
        if own && !in_runtime(process, frame.rip) && !is_resuming(frame.rip) {
            // SAFETY: the thread is this one, interrupted in the cache.
            let thread = unsafe { Thread::of(context()) };
            let at = CachePc(frame.rip);
            process.runtime.lock().knocked(thread, at, sys::ticks());
        }
        return 0;
    }
    let context = context();
    // SAFETY: the thread is this one, and where it was
    // interrupted itself only words that it reads once are changed.
    let thread = unsafe { Thread::of(context) };
    let caused = is_synchronous(signal) && info.code > 0;
    let pc = frame.rip;
    if caused && let Some(failed) = Landmarks::missed(pc) {
        frame.rip = failed;
        return 0;
    }
    let reported;
    let step = caused && signal == SIGTRAP && info.code == TRAP_TRACE;
    let info = if step && stress::tells_breakpoints() {
        reported = Info {
            code: TRAP_BRKPT,
            ..*info
        };
        &reported
    } else {
        info
    };
    let trace = caused && may_be_step(info);
    if trace && thread.stepping.is_on() && process.image.holds(AppPc(pc)) {
        // The flag works from the moment it is loaded: first come traps on the way there.
        return 0;
    }
    let resuming = is_resuming(pc);
    if resuming || in_runtime(process, pc) {
        if trace && thread.signals.rolling {
            thread.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
        } else if caused && resuming && thread.stepping.is_on() && is_general_fault(info) {
            // The way back ends in the one jump that can fault: to where no address is.
            stop_stepping(thread, context, frame);
            thread.nowhere = true;
            frame.rip = Landmarks::sigreturned();
            return 0;
        } else if caused {
            // SAFETY: if this thread holds the lock, it comes back to nothing that uses what is
            // guarded, but to leave.
            unsafe { process.runtime.release_if_held_on(&thread.stacks()) };
            failed(thread, context, info, frame);
            return 0;
        } else if info.reported_call() == Some(pc) {
            reported::not_made(thread, context, info, frame);
            return 0;
        } else if thread.signals.on_own_stack(*frame.rsp()) {
            // In this very handler, where only synchronous signals are not blocked: sent, so it can wait
            // until the handler is done.
            frame.sigmask |= bit(signal);
            requeue(info);
            return 0;
        } else if let Some(blocked) = request {
            thread.leaving = true;
            let mask = thread.signals.app_mask(frame.sigmask) | blocked;
            thread.signals.true_mask.get_or_insert(mask);
        } else {
            keep(thread, info, frame);
        }
        context.pending = PENDING;
        if resuming {
            frame.rip = Landmarks::resume_start();
        } else if let Some(to) = Landmarks::called_off(pc) {
            frame.rip = to;
        }
        return 0;
    }
    if pc == Landmarks::resume_end() && thread.signals.before_child.is_some() {
        landed_as_child(thread, context, frame);
        return 0;
    }
    stress::fail(FailurePoint::Deliver);
    // In a window it may be a stack of the app's.
    let mut runtime = match thread.windowed.now {
        Some(_) => process.runtime.lock_anywhere(),
        None => process.runtime.lock(),
    };
    match request {
        Some(blocked) => asked_to_leave(&mut runtime, thread, context, frame, blocked),
        None => found(&mut runtime, thread, context, info, frame, caused),
    }
    drop(runtime);
    if core::mem::take(&mut thread.full) && thread.publish_now().is_err() {
        native::host_gone(thread, context);
        if frame.sigmask & bit(SIGTRAP) != 0 {
            // The mask of the thread where it goes on, not that of this handler.
            thread.signals.true_mask = Some(thread.signals.app_mask(frame.sigmask));
            frame.sigmask &= !bit(SIGTRAP);
        }
    }
    if core::mem::take(&mut thread.left) {
        crate::engine::window::settle(thread);
        attach::depart(thread);
    }
    0
}

const _: upcalls::Signalled = on_signal;

/// The host wants the thread out of the cache: here, or at the next boundary.
fn asked_to_leave(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
    blocked: u64,
) {
    thread.leaving = true;
    let found = place(runtime, context, frame);
    let app = match &found {
        Where::Boundary(app, _) => *app,
        Where::Inside(_, step) => step.app,
        Where::Lead => context.next_pc,
    };
    runtime.give_up_if_lost(thread.process, app);
    match found {
        Where::Boundary(app, at) => {
            stop_stepping(thread, context, frame);
            frame.sigmask |= blocked;
            arrived(runtime, thread, context, frame, app, at);
        }
        Where::Inside(..) | Where::Lead => {
            let signals = &mut thread.signals;
            let mask = signals.app_mask(frame.sigmask) | blocked;
            signals.true_mask.get_or_insert(mask);
            frame.sigmask = ALL_BUT_SYNCHRONOUS;
            roll(runtime, thread, frame);
        }
    }
}

/// Found outside of the runtime: the lock is this thread's to take.
fn found(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    caused: bool,
) {
    let signal = info.signo;
    if frame.rip == Landmarks::resume_end() {
        // Only the trap leads here. The kernel drops it where one that was sent is pending already.
        if !(signal == SIGTRAP && caused) {
            set_aside(thread, info);
        }
        return landed(runtime, thread, context, frame);
    }
    let steps = thread.stepping.is_on() || thread.signals.rolling;
    let apps = thread.stepping == Stepping::There && is_int1(context.target.0);
    if caused && may_be_step(info) && steps && !apps {
        return stepped(runtime, thread, context, frame);
    }
    if caused {
        queries::forget(context);
    }
    if caused && written::resolve(runtime, thread, context, info, frame) {
        return;
    }
    match place(runtime, context, frame) {
        Where::Boundary(app, at) => {
            stop_stepping(thread, context, frame);
            let app = trap_address(runtime, info, app, frame, caused);
            in_order(
                runtime,
                thread,
                context,
                info,
                frame,
                DeliveryPoint { app, at, caused },
            );
        }
        Where::Inside(fragment, step) if caused => {
            let app = trap_address(runtime, info, step.app, frame, caused);
            if let Some(far) = step.far {
                *frame.reg(far.0) = context.spill_far;
            }
            let at = Step {
                spilled: step.at_fault,
                ..step
            };
            let at = Some((fragment, at));
            in_order(
                runtime,
                thread,
                context,
                info,
                frame,
                DeliveryPoint { app, at, caused },
            );
        }
        Where::Lead if caused => {
            if !written::cannot_compare(runtime, thread, context, frame) {
                failed(thread, context, info, frame);
            }
        }
        Where::Inside(..) | Where::Lead => {
            keep(thread, info, frame);
            roll(runtime, thread, frame);
        }
    }
}

/// Lets the thread go on by single steps, to the next boundary.
fn roll(runtime: &mut Runtime, thread: &mut Thread, frame: &mut Ucontext) {
    if thread.process.is_leaving() {
        runtime.actions_of(thread).take_trap();
    }
    thread.signals.rolling = true;
    frame.eflags |= TRAP_FLAG;
}

/// A signal for the app's own instruction: delivered, or after the one that was kept.
fn in_order(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    found: DeliveryPoint,
) {
    let DeliveryPoint { app, at, caused } = found;
    if let Some(first) = thread.signals.kept.take() {
        // What the instruction causes it causes again.
        let app = if caused { repeated(info, app) } else { app };
        if !caused {
            set_aside(thread, info);
        }
        return kept_first(runtime, thread, context, &first, frame, app, at);
    }
    if !caused && thread.signals.is_masked(info.signo) {
        set_aside(thread, info);
        return arrived(runtime, thread, context, frame, app, at);
    }
    restore_mask(runtime, thread, frame);
    deliver(runtime, thread, context, info, frame, found);
}

/// Delivers what was kept, before the instruction at `app`.
fn kept_first(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    kept: &Info,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    thread.signals.rolling = false;
    frame.eflags &= !TRAP_FLAG;
    if thread.signals.waited_with.is_none() && thread.signals.is_masked(kept.signo) {
        // It came before a call that would have waited with another mask.
        set_aside(thread, kept);
        return arrived(runtime, thread, context, frame, app, at);
    }
    restore_mask(runtime, thread, frame);
    let caused = false;
    deliver(
        runtime,
        thread,
        context,
        kept,
        frame,
        DeliveryPoint { app, at, caused },
    );
}

fn unspill(context: &Context, frame: &mut Ucontext, spilled: Spilled) {
    if spilled.rcx {
        *frame.reg(1) = context.spill_rcx;
    }
    if spilled.rdx {
        *frame.reg(2) = context.spill_rdx;
    }
}

/// The trap at the end of `arch::resume`: every register is the app's.
fn landed(runtime: &mut Runtime, thread: &mut Thread, context: &mut Context, frame: &mut Ucontext) {
    context.pending = 0;
    stop_stepping(thread, context, frame);
    if context.at_boundary == 0 {
        // Inside a step (a chunk was full, a probe has crossed over): on to the boundary, unless that is just there.
        frame.rip = context.target.0;
        if let Where::Boundary(app, at @ Some(_)) = place(runtime, context, frame) {
            return arrived(runtime, thread, context, frame, app, at);
        }
        return roll(runtime, thread, frame);
    }
    arrived(runtime, thread, context, frame, context.next_pc, None);
}

fn stop_stepping(thread: &mut Thread, context: &mut Context, frame: &mut Ucontext) {
    if thread.stepping.is_on() {
        thread.stepping = Stepping::No;
        context.flags &= !TRAP_FLAG;
        frame.eflags &= !TRAP_FLAG;
    }
}

/// One instruction was executed with the trap flag.
fn stepped(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
) {
    if thread.stepping.is_on() {
        // The last trap on the way is before the instruction.
        if thread.stepping == Stepping::OnTheWay {
            thread.stepping = Stepping::There;
            return;
        }
        let popped = frame.eflags & TRAP_FLAG != 0 && is_popf(context.target.0);
        stop_stepping(thread, context, frame);
        thread.count_instructions(1);
        let pc = AppPc(frame.rip);
        if popped {
            // The app wants to see traps of its own, from the next instruction on.
            thread.signals.own_traps = true;
            native::announce(thread.process, Detached::SingleStep, pc);
            runtime.cut_off();
            thread.leaving = true;
        }
        return arrived(runtime, thread, context, frame, pc, None);
    }
    match place(runtime, context, frame) {
        Where::Boundary(app, at) => {
            thread.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
            arrived(runtime, thread, context, frame, app, at);
        }
        Where::Inside(..) | Where::Lead => {}
    }
}

/// Returns whether the thread is on its way back to the cache.
fn is_resuming(pc: u64) -> bool {
    (Landmarks::resume_start()..Landmarks::resume_end()).contains(&pc)
}

/// Handles a thread at a boundary: leaves, delivers a kept signal, or goes on.
fn arrived(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    if let Some(info) = thread.signals.kept.take() {
        // One that leaves does so at the start of the handler.
        return kept_first(runtime, thread, context, &info, frame, app, at);
    }
    if thread.leaving {
        to_app_state(runtime, thread, context, frame, app, at);
        return leave(runtime, thread, context, frame);
    }
    restore_mask(runtime, thread, frame);
    go_on(runtime, thread, context, frame, app, at);
}

/// Makes the frame the app's own context at `app`, and records the events of the part of the
/// fragment that was executed.
fn to_app_state(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    frame.rip = app.0;
    if core::mem::take(&mut thread.signals.unaligned) {
        frame.eflags |= ALIGNMENT_CHECK;
    }
    let Some((fragment, step)) = at else {
        runtime.find_path_at_call(thread);
        return;
    };
    if let Some(n) = fragment.stolen.filter(|_| step.spilled.stolen) {
        *frame.reg(n) = context.spill_stolen;
    }
    unspill(context, frame, step.spilled);
    if step.spilled.flags {
        let kept = *frame.reg(0);
        let flags = kept >> 8 & 0xff | (kept & 1) << 11;
        frame.eflags = frame.eflags & !STATUS | flags & STATUS;
        *frame.reg(0) = context.spill_flags;
    }
    if step.spilled.promoted {
        for n in (0..16).filter(|n| fragment.promoted >> n & 1 != 0) {
            *frame.reg(n) = context.spill_promoted[usize::from(n)];
        }
    }
    if let Some(recipe) = runtime.cache.recipe(&step) {
        let flags = recipe.flags(|r| *frame.reg(r.0));
        frame.eflags = frame.eflags & !STATUS | flags;
    }
    thread.count_part(&runtime.cache, &fragment, &step);
    if fragment.strides {
        return thread.take_passed(step.events);
    }
    runtime.come_to_path(thread, &fragment, step.events);
    if let (Some(block), true) = (fragment.block, step.events > 0) {
        record_part(runtime, thread, (&fragment, block), step);
    }
}

/// Leaves a chunk that this fills to be published when the lock is free.
fn record_part(
    runtime: &mut Runtime,
    thread: &mut Thread,
    (fragment, block): (&Fragment, EntryId),
    step: Step,
) {
    let passed = match runtime.cache.fragment_at(fragment.entry) {
        Some((_, steps)) => Cache::passed(steps, &step),
        None => Passed::first(step.events),
    };
    if passed.is_empty() || runtime.counts_nothing(block, passed) {
        return;
    }
    let Ok(path) = runtime.shared.path(block, passed, None) else {
        return;
    };
    thread.count_or_record(path, step.values);
}

/// Lets the app go on at `app` through the dispatcher.
fn go_on(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    to_app_state(runtime, thread, context, frame, app, at);
    context.next_pc = app;
    frame.rip = Landmarks::sigreturned();
}

/// Runs the app's handler, or does what the app chose instead.
fn deliver(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    found: DeliveryPoint,
) {
    let DeliveryPoint { app, at, caused } = found;
    if thread.windowed.now.is_some() {
        // It is caused natively again, or delivered there.
        let app = if caused { repeated(info, app) } else { app };
        if !caused {
            thread.signals.kept = Some(*info);
        }
        runtime.cut_window(thread, context, app, at.map(|(fragment, _)| fragment));
        to_app_state(runtime, thread, context, frame, app, at);
        return leave(runtime, thread, context, frame);
    }
    let signal = info.signo;
    let action = match caused && thread.signals.app_mask(frame.sigmask) & bit(signal) != 0 {
        // Natively the kernel ends a process for a fault that is blocked.
        true => Action::default(),
        false => runtime.actions_of(thread).0[signal as usize],
    };
    match action.handler {
        // The kernel has refused the frame that a handler returned to. No instruction would cause that again.
        SIG_DFL | SIG_IGN if caused && frame.rip == Landmarks::sigreturned() => {
            to_app_state(runtime, thread, context, frame, app, at);
            die(runtime, thread, context, info, frame, true);
        }
        // The kernel does not let an instruction's fault be ignored.
        SIG_DFL | SIG_IGN if caused => {
            let app = repeated(info, app);
            to_app_state(runtime, thread, context, frame, app, at);
            die(runtime, thread, context, info, frame, false);
        }
        SIG_IGN => go_on(runtime, thread, context, frame, app, at),
        SIG_DFL if is_synchronous(signal) || signal == SIGABRT_IOT => {
            to_app_state(runtime, thread, context, frame, app, at);
            die(runtime, thread, context, info, frame, true);
        }
        // The app changed its mind between the signal and its delivery; the kernel decides anew.
        SIG_DFL => {
            requeue(info);
            go_on(runtime, thread, context, frame, app, at);
        }
        _ => {
            to_app_state(runtime, thread, context, frame, app, at);
            if let Some(call) = thread.call.interrupted.take() {
                call.finish(frame, action.flags);
            }
            call_handler(runtime, thread, context, info, frame, &action, caused);
        }
    }
}

/// The runtime itself failed: the thread is detached, or the program ends.
fn failed(thread: &mut Thread, context: &mut Context, info: &Info, frame: &mut Ucontext) {
    let fault = Fault {
        signal: info.signo,
        code: info.code,
        flags: frame.eflags,
        address: info.fields[0],
        pc: frame.rip,
        rsp: *frame.rsp(),
    };
    if failure::failed(thread, context, &fault) {
        frame.rip = failure::way_out();
        // The context has the app's flags.
        frame.eflags &= !ALIGNMENT_CHECK;
        let signals = &mut thread.signals;
        if frame.sigmask & bit(SIGTRAP) != 0 && signals.true_mask.is_none() {
            // The way out ends in a trap.
            signals.true_mask = Some(signals.app_mask(frame.sigmask));
            frame.sigmask &= !bit(SIGTRAP);
        }
    } else {
        set_action(info.signo, &Action::default());
    }
}
