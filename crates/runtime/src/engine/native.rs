//! Detaching: from the cache to the app's own code.
//!
//! # Problem
//! A thread that leaves must have every register, the vector state, the signal mask, handlers and
//! alternate stack exactly as if it had never been controlled, and nothing of ours may stay in its
//! way. A process is detached as a whole, but its other threads are anywhere in the cache or wait in
//! the kernel, maybe for ever, and a signal to wake them could be seen by the app.
//!
//! # Strategy
//! The kernel can load a whole state at once: when it returns from a signal handler. So leaving is
//! a trap at a place where all registers are the app's (the end of `arch::resume`); its handler
//! gives back what belongs to the kernel, puts the app's program counter, mask and alternate stack
//! into the frame, and returns into the app's own code. GS is cleared in the handler's last step,
//! when nothing needs it any more.
//!
//! With several threads, all links are cut: each comes to the dispatcher at the next exit of its
//! fragment, or when its system call has returned, and leaves there. Until the last one has, the
//! kernel's signal dispositions stay the runtime's: a signal to a thread that is native already is
//! handed on to the app's handler (`signal::hand_on`), one to a thread under control is delivered
//! as ever. The last one gives back the dispositions. A thread that is native may set one meanwhile, which then is the kernel's;
//! that of traps is taken over again by each thread that leaves (`crate::engine::signals::Actions::take_trap`).
//!
//! A single instruction that only the CPU can judge (an address that may not be executed, an
//! unknown encoding) is run in place with the trap flag set. If it faults, the fault is the app's,
//! at its own address; if not, the trap brings control back.
//!
//! **I34 (without a host).** A target whose host is gone, or does not serve it any more, goes on natively.
#![allow(unsafe_code)] // reason: entered from assembly.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use trommel_queue::{Detached, State};

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::limits;
use crate::engine::parts::Stepping;
use crate::engine::state::{Process, Thread};
use crate::memory::locking;

const TRAP_FLAG: u64 = 0x100;
/// [`Context::pending`]: resume with the trap.
pub const PENDING: u32 = 1;

/// Detaches the process from now on, and reports the reason to the host.
pub fn announce(process: &Process, why: Detached, at: AppPc) {
    if process.leaving.swap(1, SeqCst) == 0 {
        let control = process.queue.control();
        control.process.detach.store(why as u32, Relaxed);
        control.process.detach_pc.store(at.0, Relaxed);
        control.process.state.store(State::Native as u32, Release);
        limits::detached();
        locking::detached();
    }
}

/// The host disappeared, maybe while a record was being written: the thread leaves at the next
/// boundary.
pub fn host_gone(thread: &mut Thread, context: &mut Context) {
    give_up_host(thread.process, context.next_pc);
    leave(thread, context);
}

/// The host disappeared: the process is detached. Takes the lock.
pub fn give_up_host(process: &Process, at: AppPc) {
    announce(process, Detached::HostGone, at);
    process.runtime.lock().cut_off();
}

/// The thread leaves where it comes to a boundary next.
pub fn leave(thread: &mut Thread, context: &mut Context) {
    thread.leaving = true;
    context.pending = PENDING;
    crate::engine::signals::unblock_trap(&mut thread.signals);
}

/// Runs the instruction at `context.next_pc` in place.
pub fn step(thread: &mut Thread, context: &mut Context) {
    thread.stepping = Stepping::OnTheWay;
    context.target = crate::base::address::CachePc(context.next_pc.0);
    context.flags |= TRAP_FLAG;
    crate::engine::signals::unblock_trap(&mut thread.signals);
}
