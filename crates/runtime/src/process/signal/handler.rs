//! The app's handler entered, or its default action carried out.
#![allow(unsafe_code)] // reason: writes frames to the app's stack.

use crate::process::signal::reported;
use crate::process::signal::requeue;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::dict::Mark;

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::area::Context;
use crate::base::signals::{Action, AltStack, Info, UCONTEXT_BYTES, Ucontext};
use crate::base::signals::{
    SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SIG_DFL, SIG_IGN, SIGFPE, SIGILL, SIGSEGV, SIGTRAP,
    SS_AUTODISARM, SS_DISABLE, TRAP_FLAG,
};
use crate::base::signals::{bit, is_synchronous, set_action};
use crate::base::sys;
use crate::crossing::arch::Landmarks;
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::process::signal::RED_ZONE;
use crate::process::signal::leave::leave;

/// Number of the exception that follows a step.
const DEBUG_TRAP: u64 = 1;

/// The default action of a synchronous signal, on the app's own code: by executing the faulting
/// instruction again, or by sending the signal again.
pub(super) fn die(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    send: bool,
) {
    context.next_pc = AppPc(frame.rip);
    // The others are not detached, they end too; but from here on this one is native.
    if thread.spawned.is_none() {
        thread.process.leaving.store(1, Relaxed);
    }
    runtime.actions_of(thread).0[info.signo as usize] = Action::default();
    set_action(info.signo, &Action::default());
    if send {
        // What is delivered is not blocked.
        let mask = thread.signals.app_mask(frame.sigmask) & !bit(info.signo);
        frame.sigmask = runtime.take_mask(thread, mask);
        requeue(info);
    }
    leave(runtime, thread, context, frame);
}

/// Builds the app's frame, as the kernel would, and enters the handler through the dispatcher.
pub(super) fn call_handler(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    action: &Action,
    caused: bool,
) {
    let signals = &mut thread.signals;
    runtime
        .shared
        .control()
        .engine
        .signals
        .fetch_add(1, Relaxed);
    let rsp = *frame.rsp();
    let mut top = rsp - RED_ZONE;
    let already = signals.on_stack(rsp);
    let entered = action.flags & SA_ONSTACK != 0 && signals.stack.size != 0 && !already;
    if entered {
        top = signals.stack.sp + signals.stack.size;
    }
    let vector_bytes = vector_state_bytes(frame.fpstate);
    let vector_at = (top - vector_bytes as u64) & !63;
    let frame_bytes = 8 + UCONTEXT_BYTES as u64 + size_of::<Info>() as u64;
    let at = ((vector_at - frame_bytes) & !15) - 8;
    let (uc_at, info_at) = (at + 8, at + 8 + UCONTEXT_BYTES as u64);
    runtime.show_own_x87(frame);
    let signals = &mut thread.signals;
    let mut shown = *frame;
    shown.stack = signals.stack;
    shown.sigmask = signals.app_mask(frame.sigmask);
    shown.oldmask = shown.sigmask;
    shown.fpstate = if frame.fpstate == 0 { 0 } else { vector_at };
    // The kernel shows the fault that was the last to raise a signal. Its own may be one of the runtime's.
    let stepped = shown.trapno == DEBUG_TRAP && info.signo != SIGTRAP;
    match caused && !stepped {
        true => signals.last_fault = [shown.trapno, shown.err, shown.cr2],
        false => [shown.trapno, shown.err, shown.cr2] = signals.last_fault,
    }
    let mut told = reported::show(runtime, thread.process, info, frame.rip);
    // Faults of an instruction itself (not of its operand) carry its address.
    if caused && matches!(info.signo, SIGILL | SIGFPE) {
        told.fields[0] = frame.rip;
    }
    runtime.open_all(Range {
        start: at,
        end: top,
    });
    let bytes = |p: *const u8, n| {
        // SAFETY: both structures are plain and alive.
        unsafe { core::slice::from_raw_parts(p, n) }
    };
    let vector: &[u8] = if frame.fpstate == 0 {
        &[]
    } else {
        bytes(frame.fpstate as *const u8, vector_bytes)
    };
    // A frame does not go beyond the end of an alternate stack, whatever lies there.
    let fits = !(already || entered) || signals.in_stack(at);
    let written = fits
        && sys::write_checked(vector, vector_at)
        && sys::write_checked(&action.restorer.to_le_bytes(), at)
        && sys::write_checked(bytes((&raw const shown).cast(), UCONTEXT_BYTES), uc_at)
        && sys::write_checked(bytes((&raw const told).cast(), size_of::<Info>()), info_at);
    if !written {
        return no_room(runtime, thread, context, info, frame);
    }
    if action.flags & SA_RESETHAND != 0 {
        let reset = Action {
            handler: SIG_DFL,
            ..*action
        };
        runtime.actions_of(thread).0[info.signo as usize] = reset;
        if !is_synchronous(info.signo) {
            set_action(info.signo, &reset);
        }
    }
    thread.enters_handler(context, at, AppPc(action.handler));
    runtime.delivered(thread, AppPc(action.handler));
    runtime.returned(thread, frame.rip);
    runtime.mark(thread, Mark::Signal, [frame.rip, uc_at]);
    let signals = &mut thread.signals;
    // A wait with a mask of its own leaves that to the handler.
    let mut mask = (signals.waited_with.take()).unwrap_or(shown.sigmask) | action.mask;
    if signals.stack.flags & SS_AUTODISARM != 0 {
        signals.stack = AltStack {
            sp: 0,
            flags: SS_DISABLE,
            pad: 0,
            size: 0,
        };
    }
    signals.entering = true;
    if action.flags & SA_NODEFER == 0 {
        mask |= bit(info.signo);
    }
    frame.sigmask = runtime.take_mask(thread, mask);
    frame.use_plain_segments();
    // Registers as at the start of a handler; the kernel gives it fresh vector state.
    *frame.rsp() = at;
    *frame.reg(7) = info.signo as u64;
    *frame.reg(6) = info_at;
    *frame.reg(2) = uc_at;
    *frame.reg(0) = 0;
    const DIRECTION_TRAP_RESUME: u64 = 0x400 | TRAP_FLAG | 0x1_0000;
    frame.eflags &= !DIRECTION_TRAP_RESUME;
    frame.fpstate = 0;
    context.next_pc = AppPc(action.handler);
    frame.rip = Landmarks::sigreturned();
}

/// Handles a stack with no room for a frame: raises a SIGSEGV, which the app may handle on another
/// stack, unless the frame is that signal's own.
fn no_room(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
) {
    const SI_KERNEL: i32 = 0x80;
    thread.signals.waited_with = None;
    let fault = Info {
        signo: SIGSEGV,
        errno: 0,
        code: SI_KERNEL,
        pad: 0,
        fields: [0; 14],
    };
    let action = runtime.actions_of(thread).0[SIGSEGV as usize];
    let blocked = thread.signals.app_mask(frame.sigmask) & bit(SIGSEGV) != 0;
    if info.signo != SIGSEGV && action.handler > SIG_IGN && !blocked {
        return call_handler(runtime, thread, context, &fault, frame, &action, false);
    }
    runtime.actions_of(thread).0[SIGSEGV as usize] = Action::default();
    die(runtime, thread, context, &fault, frame, true);
}

/// Bytes of the vector state that a frame points to.
pub(super) fn vector_state_bytes(fpstate: u64) -> usize {
    const LEGACY: usize = 512;
    const MAGIC: u32 = 0x4650_5853;
    if fpstate == 0 {
        return 0;
    }
    // SAFETY: the kernel wrote the state there, and describes it in the bytes software may use.
    let [magic, size] = unsafe { ((fpstate + 464) as *const [u32; 2]).read() };
    if magic == MAGIC {
        size as usize
    } else {
        LEGACY
    }
}
