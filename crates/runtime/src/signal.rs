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
//!   (`arch::resume`), where all registers are the app's, and it is delivered there.
//! * *A fault of the app* is always at an app instruction; the fragment's description says which
//!   registers it must get back.
//! * *A fault of the runtime* lets the app go, since its state is complete in the context.
//!
//! The app's return from its handler is a system call that the runtime sees: it lets the kernel
//! load the frame, with a landing place of its own as program counter.
//!
//! # Invariants
//! * At most one signal is kept: while there is one, all others are blocked in the kernel.
//! * The app's mask is the kernel's, except while `Signals::true_mask` holds it.
//! * A default or ignored disposition is the kernel's business, except for the synchronous
//!   signals, whose default action is carried out on the app's own code, so that a core dump shows
//!   the app.
#![allow(unsafe_code)] // reason: called by the kernel with raw frames.

mod frame;
mod handler;
mod state;

use core::sync::atomic::Ordering::{Relaxed, Release};

pub use frame::{Action, AltStack, Info, UCONTEXT_BYTES, Ucontext};
use handler::{call_handler, die, requeue};
use linux_raw_sys::general as nr;
pub use state::{Signals, unblock_trap};
use state::{bit, is_synchronous, set_action};
use trommel_queue::{FULL_WINDOW, LetGo, State};

use crate::arch::Landmarks;
use crate::area::{CONTEXT_OFFSET, Context};
use crate::cache::{AppPc, CachePc, Fragment, Spilled, Step};
use crate::dispatch::Runtime;
use crate::native::PENDING;
use crate::sys;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGABRT_IOT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
/// Signals that instructions cause.
pub const SYNCHRONOUS: [i32; 5] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];
/// One more than the last signal number.
pub const SIGNALS: usize = 65;
const TRAP_FLAG: u64 = 0x100;
const TRAP_TRACE: i32 = 2;
const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
/// `SS_DISABLE`
pub const SS_DISABLE: u32 = 2;
const RED_ZONE: u64 = 128;

/// Where a signal found the thread.
enum Where {
    /// At an app instruction, all registers the app's (but a stolen one).
    Boundary(AppPc, Option<(Fragment, Step)>),
    /// Inside the step of an app instruction.
    Inside(Fragment, Step),
    /// In a fragment, before its first step.
    Lead,
    /// In `arch::resume`.
    Resuming,
    /// Elsewhere in the runtime.
    Runtime,
}

fn place(runtime: &Runtime, context: &Context, pc: u64) -> Where {
    if pc == Landmarks::sigreturned() {
        return Where::Boundary(context.next_pc, None);
    }
    if (Landmarks::resume_start()..Landmarks::resume_end()).contains(&pc) {
        return Where::Resuming;
    }
    if Landmarks::lookup().contains(&pc) {
        return Where::Lead;
    }
    if runtime.image.holds(AppPc(pc)) {
        return Where::Runtime;
    }
    let Some(id) = runtime.cache.fragment_at(CachePc(pc)) else {
        return if runtime.cache.arena_of(CachePc(pc)).is_some() {
            Where::Lead
        } else {
            Where::Boundary(AppPc(pc), None)
        };
    };
    let fragment = runtime.cache.fragments[id as usize];
    let steps = runtime.cache.steps_of(&fragment);
    let Some(offset) = pc.checked_sub(fragment.entry.0) else {
        return Where::Lead;
    };
    let Some(n) = steps
        .partition_point(|s| u64::from(s.cache) <= offset)
        .checked_sub(1)
    else {
        return Where::Lead;
    };
    // A followed jump has no bytes of its own: the first step at an offset is where the app is.
    let first = steps[..=n].partition_point(|s| s.cache < steps[n].cache);
    let step = steps[n];
    let app = |relative: i32| AppPc((fragment.app.0 as i64 + i64::from(relative)) as u64);
    if u64::from(step.cache) == offset {
        return Where::Boundary(app(steps[first].app), Some((fragment, steps[first])));
    }
    if let Some(at) = step.app_at(offset) {
        return Where::Boundary(app(at), Some((fragment, step)));
    }
    // SAFETY: a cache address inside a fragment.
    let bytes = unsafe { (pc as *const [u8; 2]).read() };
    if bytes == [0x0f, 0x05] && n + 1 == steps.len() {
        // The system call that ends a fragment: its path is recorded, nothing is stolen.
        return Where::Boundary(app(step.app), None);
    }
    Where::Inside(fragment, step)
}

fn context() -> &'static mut Context {
    let this: u64;
    // SAFETY: GS points to the thread area while handlers of the runtime are installed, and only
    // one thread is controlled.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) this, const CONTEXT_OFFSET + core::mem::offset_of!(Context, this), options(nostack, readonly));
        &mut *((this + CONTEXT_OFFSET as u64) as *mut Context)
    }
}

/// The handler of everything. Called by the kernel on the runtime's alternate stack.
///
/// # Safety
/// Only the kernel may call this.
pub unsafe extern "C" fn on_signal(signal: i32, info: *const Info, frame: *mut Ucontext) {
    let context = context();
    // SAFETY: the kernel passes valid pointers; the runtime is the thread's own, and where it was
    // interrupted itself only words that it reads once are changed.
    let (runtime, info, frame) = unsafe { (Runtime::of(context), &*info, &mut *frame) };
    let caused = is_synchronous(signal) && info.code > 0;
    if signal == SIGTRAP && caused {
        if frame.rip == Landmarks::resume_end() {
            return landed(runtime, context, frame);
        }
        if info.code == TRAP_TRACE && (runtime.stepping || runtime.signals.rolling) {
            return stepped(runtime, context, frame);
        }
    }
    match place(runtime, context, frame.rip) {
        Where::Boundary(app, at) => {
            stop_stepping(runtime, context, frame);
            let app = trap_address(runtime, info, app, frame, caused);
            restore_mask(runtime, frame);
            deliver(runtime, context, info, frame, app, at, caused);
        }
        Where::Inside(fragment, step) if caused => {
            let app = AppPc((fragment.app.0 as i64 + i64::from(step.app)) as u64);
            let app = if info.code > 0 && signal == SIGTRAP {
                AppPc(app.0 + 1)
            } else {
                app
            };
            if let Some(far) = step.far {
                *frame.reg(far.0) = context.spill_far;
            }
            let at = Step {
                spilled: step.at_fault,
                ..step
            };
            restore_mask(runtime, frame);
            deliver(
                runtime,
                context,
                info,
                frame,
                app,
                Some((fragment, at)),
                true,
            );
        }
        Where::Runtime | Where::Resuming if caused => failed(runtime, context, info, frame),
        Where::Lead if caused => failed(runtime, context, info, frame),
        Where::Inside(..) | Where::Lead => {
            keep(runtime, info, frame);
            runtime.signals.rolling = true;
            frame.eflags |= TRAP_FLAG;
        }
        Where::Resuming => {
            keep(runtime, info, frame);
            frame.rip = Landmarks::resume_start();
            context.pending = PENDING;
        }
        Where::Runtime => {
            keep(runtime, info, frame);
            context.pending = PENDING;
        }
    }
}

/// A breakpoint instruction reports the address behind itself.
fn trap_address(
    runtime: &Runtime,
    info: &Info,
    app: AppPc,
    frame: &Ucontext,
    caused: bool,
) -> AppPc {
    if !caused || info.signo != SIGTRAP || info.code == TRAP_TRACE {
        return app;
    }
    // In the cache the next step begins there, but its app address may be elsewhere (a followed
    // jump); the breakpoint itself is one byte before.
    match runtime.cache.fragment_at(CachePc(frame.rip - 1)) {
        Some(id) => {
            let fragment = runtime.cache.fragments[id as usize];
            let offset = frame.rip - 1 - fragment.entry.0;
            runtime
                .cache
                .steps_of(&fragment)
                .iter()
                .rev()
                .find(|s| u64::from(s.cache) <= offset)
                .map_or(app, |s| {
                    let at = s.app_at(offset).unwrap_or(s.app);
                    AppPc((fragment.app.0 as i64 + i64::from(at)) as u64 + 1)
                })
        }
        None => app,
    }
}

fn unspill(context: &Context, frame: &mut Ucontext, spilled: Spilled) {
    if spilled.rcx {
        *frame.reg(1) = context.spill_rcx;
    }
    if spilled.rdx {
        *frame.reg(2) = context.spill_rdx;
    }
}

fn restore_mask(runtime: &mut Runtime, frame: &mut Ucontext) {
    if let Some(mask) = runtime.signals.true_mask.take() {
        frame.sigmask = mask;
    }
}

/// Keeps a signal for the next boundary, with all others blocked until then.
fn keep(runtime: &mut Runtime, info: &Info, frame: &mut Ucontext) {
    let signals = &mut runtime.signals;
    signals.kept = Some(*info);
    signals.true_mask.get_or_insert(frame.sigmask);
    frame.sigmask = !SYNCHRONOUS.iter().fold(0, |mask, s| mask | bit(*s));
}

/// The trap at the end of `arch::resume`: every register is the app's.
fn landed(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    context.pending = 0;
    stop_stepping(runtime, context, frame);
    if context.at_boundary == 0 {
        // Inside a step (a chunk was full): on to the boundary.
        frame.rip = context.target.0;
        frame.eflags |= TRAP_FLAG;
        runtime.signals.rolling = true;
        return;
    }
    arrived(runtime, context, frame, context.next_pc, None);
}

fn stop_stepping(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    if runtime.stepping {
        runtime.stepping = false;
        context.flags &= !TRAP_FLAG;
        frame.eflags &= !TRAP_FLAG;
    }
}

/// One instruction was executed with the trap flag.
fn stepped(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    if runtime.stepping {
        // The flag works from the moment it is loaded: first come traps on the way there, the last
        // of them in front of the instruction.
        if runtime.image.holds(AppPc(frame.rip)) {
            return;
        }
        if !runtime.stepping_there {
            runtime.stepping_there = true;
            return;
        }
        stop_stepping(runtime, context, frame);
        let pc = AppPc(frame.rip);
        return arrived(runtime, context, frame, pc, None);
    }
    match place(runtime, context, frame.rip) {
        Where::Boundary(app, at) => {
            runtime.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
            arrived(runtime, context, frame, app, at);
        }
        Where::Runtime | Where::Resuming => {
            runtime.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
            context.pending = PENDING;
        }
        Where::Inside(..) | Where::Lead => {}
    }
}

/// At a boundary with something to do: leave, deliver what was kept, or just go on.
fn arrived(
    runtime: &mut Runtime,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    if runtime.leaving {
        to_app_state(runtime, context, frame, app, at);
        return leave(runtime, context, frame);
    }
    restore_mask(runtime, frame);
    match runtime.signals.kept.take() {
        Some(info) => deliver(runtime, context, &info, frame, app, at, false),
        None => go_on(runtime, context, frame, app, at),
    }
}

/// Makes the frame the app's own context at `app`, and records the events of the part of the
/// fragment that was executed.
fn to_app_state(
    runtime: &mut Runtime,
    context: &Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    frame.rip = app.0;
    let Some((fragment, step)) = at else { return };
    if let Some(n) = fragment.stolen {
        *frame.reg(n) = context.spill_stolen;
    }
    unspill(context, frame, step.spilled);
    if let (Some(block), true) = (fragment.block, step.events > 0) {
        record_part(runtime, block, step);
    }
}

fn record_part(runtime: &mut Runtime, block: u32, step: Step) {
    let Ok(path) = runtime.shared.path(block, u16::from(step.events), None) else {
        return;
    };
    // SAFETY: the write pointer leads to room for a whole record, whose values are in place.
    let full = unsafe {
        let at = runtime.write_pointer.read();
        (at as *mut u32).write_unaligned(path);
        let next = at + 4 + 8 * u64::from(step.values);
        runtime.write_pointer.write(next);
        next as usize & 0xffff < FULL_WINDOW
    };
    if full {
        let _ = runtime.publish();
    }
}

/// Lets the app go on at `app` through the dispatcher.
fn go_on(
    runtime: &mut Runtime,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    to_app_state(runtime, context, frame, app, at);
    context.next_pc = app;
    frame.rip = Landmarks::sigreturned();
}

/// Runs the app's handler, or does what the app chose instead.
fn deliver(
    runtime: &mut Runtime,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
    caused: bool,
) {
    let signal = info.signo;
    let action = runtime.signals.actions[signal as usize];
    match action.handler {
        // The kernel does not let an instruction's fault be ignored.
        SIG_DFL | SIG_IGN if caused => {
            let app = if signal == SIGTRAP && info.code != TRAP_TRACE {
                AppPc(app.0 - 1)
            } else {
                app
            };
            to_app_state(runtime, context, frame, app, at);
            die(runtime, context, info, frame, false);
        }
        SIG_IGN => go_on(runtime, context, frame, app, at),
        SIG_DFL if is_synchronous(signal) || signal == SIGABRT_IOT => {
            to_app_state(runtime, context, frame, app, at);
            die(runtime, context, info, frame, true);
        }
        // The app changed its mind between the signal and its delivery; the kernel decides anew.
        SIG_DFL => {
            requeue(info);
            go_on(runtime, context, frame, app, at);
        }
        _ => {
            to_app_state(runtime, context, frame, app, at);
            call_handler(runtime, context, info, frame, &action, caused);
        }
    }
}

/// The last step of letting go: everything of the kernel's is the app's again.
fn leave(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    const ARCH_SET_GS: u64 = 0x1001;
    let signals = &mut runtime.signals;
    frame.eflags &= !TRAP_FLAG;
    frame.stack = signals.stack;
    if let Some(mask) = signals.true_mask.take() {
        frame.sigmask = mask;
    }
    for signal in 1..SIGNALS {
        if signals.is_own(signal) {
            set_action(signal as i32, &signals.actions[signal]);
        }
    }
    if let Some(info) = signals.kept.take() {
        requeue(&info);
    }
    signals.rolling = false;
    if let Some((leaving, pending, mask)) = signals.after_child.take() {
        runtime.leaving = leaving;
        context.pending = pending;
        signals.true_mask = mask;
    }
    // SAFETY: nothing uses GS from here on: the handler returns straight to the kernel.
    let _ = unsafe { sys::call(nr::__NR_arch_prctl, [ARCH_SET_GS, 0, 0, 0, 0, 0]) };
}

/// The runtime itself failed. While it runs, the app's state is complete in the context, and
/// nothing of the app has changed: the app is let go.
fn failed(runtime: &mut Runtime, context: &mut Context, info: &Info, frame: &mut Ucontext) {
    let control = runtime.shared.control();
    let text = b"trommel: internal error: signal 00 in the runtime at offset 0x0000000000000000\n";
    let mut line = *text;
    let hex = |n: u64| b"0123456789abcdef"[(n & 15) as usize];
    line[33] = b'0' + (info.signo / 10) as u8;
    line[34] = b'0' + (info.signo % 10) as u8;
    for n in 0..16 {
        line[text.len() - 2 - n] = hex(frame.rip.wrapping_sub(runtime.image.start) >> (4 * n));
    }
    sys::complain(&line);
    if runtime.leaving || !runtime.image.holds(AppPc(frame.rip)) {
        // Nothing sound is left: the default action, here.
        set_action(info.signo, &Action::default());
        return;
    }
    control.let_go.store(LetGo::Internal as u32, Relaxed);
    control.let_go_pc.store(context.next_pc.0, Relaxed);
    control.state.store(State::Native as u32, Release);
    runtime.leaving = true;
    context.pending = PENDING;
    context.at_boundary = 1;
    frame.rip = Landmarks::resume_start();
}
