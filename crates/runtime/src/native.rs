//! Letting go: from the cache to the app's own code.
//!
//! # Problem
//! A thread that leaves must have every register, the vector state, the signal mask, handlers and
//! alternate stack exactly as if it had never been controlled, and nothing of ours may stay in
//! its way.
//!
//! # Strategy
//! The kernel can load a whole state at once: when it returns from a signal handler. So leaving is
//! a trap at a place where all registers are the app's (the end of `arch::resume`); its handler
//! gives back what belongs to the kernel, puts the app's program counter, mask and alternate stack
//! into the frame, and returns into the app's own code. GS is cleared in the handler's last step,
//! when nothing needs it any more.
//!
//! A single instruction that only the CPU can judge (an address that may not be executed, an
//! unknown encoding) is run in place with the trap flag set. If it faults, the fault is the app's,
//! at its own address; if not, the trap brings control back.
#![allow(unsafe_code)] // reason: entered from assembly.

use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::{LetGo, State};

use crate::area::Context;
use crate::dispatch::Runtime;
use crate::signal;

const TRAP_FLAG: u64 = 0x100;
/// [`Context::pending`]: resume with the trap.
pub const PENDING: u32 = 1;

/// Lets the process go at `context.next_pc`, telling the host why.
pub fn let_go(runtime: &mut Runtime, context: &mut Context, why: LetGo) {
    context.at_boundary = 1;
    // If the host is gone as well, nobody is left to tell.
    let _ = runtime.publish();
    let control = runtime.shared.control();
    control.let_go.store(why as u32, Relaxed);
    control.let_go_pc.store(context.next_pc.0, Relaxed);
    control.state.store(State::Native as u32, Release);
    leave(runtime, context);
}

/// The host disappeared while a record was being written: the app goes on at the next boundary.
pub fn host_gone(runtime: &mut Runtime, context: &mut Context) {
    let control = runtime.shared.control();
    control.let_go.store(LetGo::HostGone as u32, Relaxed);
    control.state.store(State::Native as u32, Release);
    leave(runtime, context);
}

fn leave(runtime: &mut Runtime, context: &mut Context) {
    runtime.leaving = true;
    context.pending = PENDING;
    signal::unblock_trap(&mut runtime.signals);
}

/// Runs the instruction at `context.next_pc` in place.
pub fn step(runtime: &mut Runtime, context: &mut Context) {
    runtime.stepping = true;
    runtime.stepping_there = false;
    context.target = crate::cache::CachePc(context.next_pc.0);
    context.flags |= TRAP_FLAG;
    signal::unblock_trap(&mut runtime.signals);
}

/// The child of a `fork` or `vfork` runs natively, from behind the system call. Runs on a stack of
/// its own with the registers of the child in the context.
///
/// # Safety
/// Only `arch::clone` may call this.
pub unsafe extern "C" fn child(context: &mut Context) {
    // SAFETY: the parent is stopped (vfork) or has a copy of its own (fork).
    let runtime = unsafe { Runtime::of(context) };
    context.next_pc = runtime.cache.exits[context.exit as usize].target;
    context.regs[1] = context.next_pc.0;
    context.at_boundary = 1;
    let saved = (
        runtime.leaving,
        context.pending,
        *runtime.signals.mask_override(),
    );
    leave(runtime, context);
    // In a vfork child the handler undoes this in the memory it shares with its parent.
    runtime.signals.after_child = Some(saved);
}
