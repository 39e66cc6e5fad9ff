//! Signals of threads that leave, or have left while others are under control.
#![allow(unsafe_code)] // reason: the last system call before the app's own code; frames changed in place.

use crate::base::area::Context;
use crate::base::blocked::Blocked;
use crate::base::limits;
use crate::base::signals::{Action, Info, Ucontext};
use crate::base::signals::{
    SA_NODEFER, SA_RESETHAND, SIG_DFL, SIG_IGN, SIGSEGV, SIGTRAP, SS_DISABLE, TRAP_FLAG,
};
use crate::base::signals::{bit, block, is_synchronous, set_action, set_mask};
use crate::base::signals::{requeue, send_again};
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::parts::WayOut;
use crate::engine::state::Runtime;
use crate::engine::state::{Process, Thread};
use crate::memory::locking;
use crate::process::give_back;
use crate::process::signal::{give_back_aside, stop_stepping};

/// The last step of detaching, in a signal handler: everything of the kernel's is the app's again.
pub(super) fn leave(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
) {
    if thread.windowed.now.is_some() {
        // It has the app's mask again when the handler returns. Whatever it blocks may be sent to the process
        // before that, and would find the app's handler once no thread is in a window.
        set_mask(u64::MAX);
    }
    leave_blocked(runtime, thread, context, frame);
}

/// [`leave`], where all signals are blocked if the thread is in a window.
pub(super) fn leave_blocked(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
) {
    if let Some(window) = thread.windowed.now.take() {
        runtime.close_window(thread, &window, context, frame.rip);
        thread.windowed.app_gs = window.gs();
        give_back_aside(thread);
        return become_native(thread, context, frame);
    }
    if !runtime.broken {
        runtime.leave_path(thread);
    }
    if thread.signals.blocked.get() == Blocked::Hidden {
        // The app's disposition is the kernel's once the last thread has parted. One that is sent must not find it.
        block(SIGSEGV);
    }
    runtime.part_from(thread);
    if runtime.broken {
        runtime.bury_ended(thread.process);
    }
    thread.way_out = match runtime.threads.is_empty() {
        true => WayOut::Last,
        false => WayOut::One,
    };
    // Others need the runtime's handlers still, unless they are not theirs.
    if runtime.threads.is_empty() || thread.has_own_actions() {
        runtime.actions_of(thread).give_back();
    }
    if runtime.threads.is_empty() {
        locking::hide(thread.process.queue.mapped().tables());
    }
    become_native(thread, context, frame);
}

fn become_native(thread: &mut Thread, context: &mut Context, frame: &mut Ucontext) {
    let signals = &mut thread.signals;
    frame.eflags &= !TRAP_FLAG;
    if core::mem::take(&mut signals.own_traps) {
        frame.eflags |= TRAP_FLAG;
    }
    frame.stack = signals.stack;
    if signals.stack.size == 0 {
        // The kernel takes none of no size, unless it is said to be none.
        frame.stack.flags = SS_DISABLE;
    }
    frame.sigmask = signals.app_mask(frame.sigmask);
    signals.true_mask = None;
    if let Some(mut info) = signals.kept.take() {
        if info.reported_call().is_some() {
            info.fields[0] = frame.rip;
        }
        send_again(&info);
    }
    signals.rolling = false;
    if let Some(saved) = signals.before_child.take() {
        thread.leaving = saved.leaving;
        thread.starting.locked = saved.locked;
        context.pending = saved.pending;
        signals.true_mask = saved.mask;
    }
    thread.left = true;
}

/// The thread's last step under control, in a signal handler. Newer kernels give back the alternate
/// stack of a frame only if the frame is not on the one before.
pub fn give_up(thread: &Thread) {
    let mut stack = thread.signals.stack;
    if stack.size == 0 {
        stack.flags = SS_DISABLE;
    }
    // SAFETY: signals are blocked, and the thread has come out of the runtime.
    unsafe { arch::change_stack(&raw const stack, thread.context().stack) };
    // SAFETY: nothing uses GS from here on: the handler returns straight to the kernel.
    unsafe { arch::set_gs_base(thread.windowed.app_gs) };
}

/// [`landed`] in a child process, where the runtime's lock is not to be taken: it may have been
/// copied while it was held, and what it guards is the parent's.
pub(super) fn landed_as_child(thread: &mut Thread, context: &mut Context, frame: &mut Ucontext) {
    context.pending = 0;
    stop_stepping(thread, context, frame);
    frame.rip = context.next_pc.0;
    // SAFETY: a fork's copy was made by the holder of the lock. A vfork's memory is the parent's:
    // another thread may change a disposition meanwhile, and the child gets the old or the new one.
    let runtime = unsafe { thread.process.runtime.peek() };
    runtime.actions.give_back();
    let is_copy = (thread.signals.before_child).is_some_and(|saved| saved.locked.is_some());
    if is_copy {
        limits::detached();
        runtime.code_pages.unprotect();
    }
    become_native(thread, context, frame);
    thread.left = false;
    give_up(thread);
    if is_copy {
        give_back::in_copy(thread);
    }
}

/// A synchronous signal has found a native thread while the dispositions were not the app's. Now
/// they are: the instruction causes it again, or it is sent again.
pub fn again(info: &Info, frame: &mut Ucontext) {
    const SI_KERNEL: i32 = 0x80;
    const BREAKPOINT: u8 = 0xcc;
    let caused = is_synchronous(info.signo) && info.code > 0;
    if !caused {
        return requeue(info);
    }
    if info.signo != SIGTRAP {
        return;
    }
    let mut before = [0];
    let _ = sys::copy_checked(frame.rip - 1, &mut before);
    match info.code == SI_KERNEL && before == [BREAKPOINT] {
        true => frame.rip -= 1,
        false => requeue(info),
    }
}

/// A signal for a thread that runs natively while others are under control still: the app's handler
/// is called on the frame that the kernel has made, or the signal's other action is carried out.
/// Takes no lock but for `SA_RESETHAND`: in a child of such a thread, its holder may not be there.
pub fn hand_on(process: &Process, info: &Info, frame: &mut Ucontext) -> u64 {
    const NO_HANDLER: u64 = 0;
    let signal = info.signo;
    let caused = is_synchronous(signal) && info.code > 0;
    // SAFETY: a disposition that another thread changes meanwhile may be the old or the new one.
    let app = unsafe { process.runtime.peek() }.actions.0[signal as usize];
    if app.handler <= SIG_IGN {
        if caused || app.handler == SIG_DFL {
            set_action(signal, &Action::default());
        }
        if !caused && app.handler == SIG_DFL {
            requeue(info);
        }
        return NO_HANDLER;
    }
    if app.flags & SA_RESETHAND != 0 {
        let reset = Action {
            handler: SIG_DFL,
            ..app
        };
        process.runtime.lock().actions.0[signal as usize] = reset;
        set_action(signal, &reset);
    }
    // SAFETY: the frame's first word, where the kernel put the return address, is before the
    // context.
    unsafe { (&raw mut *frame).cast::<u64>().sub(1).write(app.restorer) };
    let own = if app.flags & SA_NODEFER == 0 {
        bit(signal)
    } else {
        0
    };
    set_mask(frame.sigmask | app.mask | own);
    app.handler
}
