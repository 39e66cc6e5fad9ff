//! Calls of the app's that a filter (seccomp) has had reported to its handler of SIGSYS, in place of making them.
//!
//! # Problem
//! The kernel names the address of the call, and it leaves all registers as they were. In the code cache or in the runtime
//! the address is another one, and so are some registers.
//!
//! # Strategy
//! * *Made from the cache*: the signal comes at a boundary, or just before one. The handler is told the app's address there
//!   ([`show`]).
//! * *Made by the runtime in the app's name* ([`not_made`]): to the runtime the call has failed. The signal is kept, and comes
//!   where the app goes on, with the number of the call as the answer.
//!
//! The runtime's own calls are never reported: a filter that would do that detaches the program
//! (`crate::process::restricts`).

use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
use crate::base::signals::{Action, Info, SIGSYS, Ucontext, bit, set_action};
use crate::engine::native::PENDING;
use crate::engine::state::{Process, Runtime, Thread};
use crate::process::signal::kept::keep;
use crate::process::syscall::SYSCALL_BYTES;

/// Lets a call of the app's fail that the runtime has just made, and keeps its signal.
pub(super) fn not_made(
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
) {
    const ENOSYS: i64 = -38;
    if thread.signals.app_mask(frame.sigmask) & bit(SIGSYS) != 0 {
        // Natively the kernel ends the program for it: the call is made again.
        set_action(SIGSYS, &Action::default());
        frame.rip -= SYSCALL_BYTES;
        return;
    }
    thread.call.reported = Some(*frame.reg(0));
    *frame.reg(0) = ENOSYS as u64;
    let mut told = *info;
    told.fields[0] = thread.call.at.0 + SYSCALL_BYTES;
    keep(thread, &told, frame);
    context.pending = PENDING;
}

/// Returns a signal as the app is told of it that goes on at `app`.
pub(super) fn show(runtime: &Runtime, process: &Process, info: &Info, app: u64) -> Info {
    let is_ours =
        |at: u64| process.image.holds(AppPc(at)) || runtime.cache.arena_of(CachePc(at)).is_some();
    let mut shown = *info;
    if info.reported_call().is_some_and(is_ours) {
        shown.fields[0] = app;
    }
    shown
}
