//! Upcalls: functions that the assembly calls and that rooms above define.
//!
//! # Problem
//! Control comes into the runtime by assembly, which lies below everything that it calls. It may import nothing from there.
//!
//! # Strategy
//! The assembly declares what it calls, by a name of the linker. A room above defines a function of that name (`export_name`)
//! and a constant of the type here, which the compiler checks. The call stays a direct one.

use trommel_queue::wake::Wake;

use crate::base::area::Context;
use crate::base::signals::{Info, Ucontext};

/// Entry with the thread's context.
pub type Entered = unsafe extern "C" fn(&mut Context);
/// Entry for a signal. Returns the app's handler if that is to be called in place of the runtime's, else 0.
pub type Signalled = unsafe extern "C" fn(i32, *const Info, *mut Ucontext) -> u64;
/// Entry that never returns.
pub type Left = unsafe extern "C" fn() -> !;
/// Entry of a process that rests, which never returns.
pub type Woken = unsafe extern "C" fn(*mut Wake) -> !;

unsafe extern "C" {
    /// Control has left the cache.
    pub(super) fn trommel_dispatch(context: &mut Context);
    /// A call of the app was called off for a signal.
    pub(super) fn trommel_called_off(context: &mut Context);
    /// The child of a system call that starts a process.
    pub(super) fn trommel_child(context: &mut Context);
    /// A new thread's first steps.
    pub(super) fn trommel_begin(context: &mut Context);
    /// A stopped thread's first steps under control.
    pub(super) fn trommel_join(context: &mut Context);
    /// Entry for one thread when all are out of the cache.
    pub(super) fn trommel_farewell() -> !;
    /// Entry for one thread of a process that rests.
    pub(super) fn trommel_wake(told: *mut Wake) -> !;
    /// A signal has come.
    pub(super) fn trommel_on_signal(signal: i32, info: *const Info, frame: *mut Ucontext) -> u64;
}
