//! Threads of a running process, attached and detached from outside.
//!
//! # Problem
//! The host stops all threads of a process that runs natively, puts the runtime in, and wants each
//! thread to go on under control exactly where it is: in its code, or in a system call that it
//! waits in. Later it wants all of it undone, and nothing may remain.
//!
//! # Strategy
//! *In.* One of the stopped threads is made to run `start`, which for each of them makes an area
//! and takes over the signals that the app handles; then it stops itself for the host
//! (`stop_for_host`). The host puts every thread's state on its thread page
//! (`trommel_queue::thread_page`), sets its GS base to its area and its program counter to `arch::join`,
//! blocks its signals, and lets it run. [`join`] is then what `thread::begin` is for a new thread.
//!
//! *A system call that was interrupted* by being stopped is made again: the host has put the app
//! back to the call, with the number by which the kernel wants it continued (its own, or
//! `restart_syscall`). Nothing that `join` does touches what the kernel remembers of the call; in
//! particular there is no `rt_sigreturn`, and a thread that is to leave just then makes the call first. If a signal with a handler comes before the call is
//! made again, the app gets what the kernel would have told it ([`Interrupted::finish`]).
//!
//! *Out.* The host sends a signal of its own, SIGTRAP with a value that only it sends, to each thread
//! that it has found in the cache. All others leave when they come to the dispatcher next. A leaving
//! thread ends up in a signal handler whose frame is the app's whole state, and waits there
//! ([`depart`]). A thread that waits in a system call made from the cache is put back to the app's
//! own call by the host itself, so that the kernel continues it there. When all threads are out,
//! one of them runs [`farewell`]. Then they go on, and the host unmaps everything.
//!
//! # Why nothing is lost
//! A thread is counted up to the instruction that it leaves at: what it has recorded lies in its
//! chunk up to its write pointer, where the host finds it. Signals kept for it are queued again.
#![allow(unsafe_code)] // reason: entered from assembly, and by the host.

use crate::base::signals;
use crate::crossing::arch::upcalls;
use crate::engine::current;
use crate::engine::interrupted::Interrupted;
use core::convert::Infallible;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use trommel_queue::seccomp::Without;
use trommel_queue::thread_page::{Attached, GO, LEAVE, REQUEST, REQUEST_BLOCKED};
use trommel_queue::{Control, Detached, State};

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::call;
use crate::base::limits;
use crate::base::own;
use crate::base::signals::Info;
use crate::base::start::StartArgs;
use crate::base::stress::{self, FailurePoint};
use crate::base::sys;
use crate::crossing::arch::{self, Landmarks};
use crate::engine::native;
use crate::engine::parts::Sequences;
use crate::engine::signals::Actions;
use crate::engine::state::{Process, Thread};
use crate::engine::window;
use crate::memory::locking;
use crate::process::bursts;
use crate::process::give_back;
use crate::process::loan::{stop_for_host, with_filters_suspended};
use crate::process::signal;

const SIGTRAP: u64 = 5;

/// Tells where things are in the target.
pub fn tell(attached: &Attached, args: &StartArgs) {
    attached.join.store(arch::join as *const () as u64, Relaxed);
    attached
        .farewell
        .store(arch::farewell as *const () as u64, Relaxed);
    attached.wake.store(arch::wake as *const () as u64, Relaxed);
    let (after, called_off) = Landmarks::wait();
    attached.wait[0].store(after, Relaxed);
    attached.wait[1].store(called_off, Relaxed);
    attached.image[0].store(args.base, Relaxed);
    attached.image[1].store(args.stack_top, Relaxed);
    attached
        .owned
        .store(&raw const *own::list() as u64, Relaxed);
}

/// The last part of `start` in a process that has been running: areas for all its threads, of which
/// `first` is one.
pub fn prepare(
    process: &'static Process,
    first: &mut Thread,
    args: &StartArgs,
) -> Option<Infallible> {
    let control = process.queue.control();
    let mut runtime = process.runtime.lock();
    if runtime.has_windows() {
        // Its threads stay native; each gets an area with its first window.
        first.writer.tid = sys::gettid() as u32;
        first.thread_page().tid.store(first.writer.tid, Relaxed);
        control.process.threads.store(1, Relaxed);
        window::begin(&mut runtime, first);
        drop(runtime);
        stop_for_host()
    }
    runtime.regions.adopt_shared();
    runtime.meet_rings();
    first.take_counter_array(&mut runtime);
    first.take_queries(&mut runtime);
    runtime.threads.push(&raw const *first);
    for _ in 1..args.threads {
        Thread::make(process, &mut runtime)?.enlist(&mut runtime);
    }
    control.attached.threads.store(args.threads as u32, Relaxed);
    control.process.threads.store(args.threads as u32, Relaxed);
    stress::fail(FailurePoint::Start);
    // The last step: the host does not take it back.
    runtime.actions = Actions::adopt();
    drop(runtime);
    control
        .process
        .state
        .store(State::Controlled as u32, Release);
    stop_for_host()
}

/// Stops for the host, which sees that `start` did not succeed, and undoes it.
pub fn give_up() -> ! {
    stop_for_host()
}

/// A stopped thread's first steps under control, with all signals blocked.
///
/// # Safety
/// Only `arch::join` may call this.
#[unsafe(export_name = "trommel_join")]
pub unsafe extern "C" fn join(context: &mut Context) {
    // SAFETY: the host leads each thread to an area of its own.
    let thread = unsafe { Thread::of(context) };
    let attached = &thread.process.queue.control().attached;
    call::do_without(Without(attached.without.load(Relaxed)));
    let thread_page = thread.thread_page();
    for (to, from) in context.regs.iter_mut().zip(&thread_page.regs) {
        *to = from.load(Relaxed);
    }
    context.flags = thread_page.flags.load(Relaxed);
    let pc = AppPc(thread_page.pc.load(Relaxed));
    let code = thread_page.interrupted.load(Relaxed);
    thread.call.interrupted = (code != 0).then_some(Interrupted {
        at: pc,
        number: context.regs[0],
        code,
    });
    thread.sequences = Sequences::of(thread_page.sequences.each_ref().map(|w| w.load(Relaxed)));
    thread.signals.stack = signals::get_stack();
    // Told by its size alone.
    thread.signals.stack.flags &= !signals::SS_DISABLE;
    signals::use_stack(&thread.signals.own_stack);
    thread.is_current();
    let process = thread.process;
    if attached.faults_served.load(Relaxed) != 0 {
        sys::serve_faults();
    }
    sys::expect_filters();
    context.next_pc = pc;
    let mask = thread_page.mask.load(Relaxed);
    signals::set_mask(process.runtime.lock().begins_with_mask(thread, mask));
    if process.queue.take(&mut thread.writer).is_err() {
        if thread
            .call
            .interrupted
            .is_some_and(|call| call.is_fragile(pc))
        {
            // It leaves behind the call, which has nothing to record.
            native::announce(process, Detached::HostGone, pc);
            process.runtime.lock().cut_off();
        } else {
            native::host_gone(thread, context);
        }
    }
    let mut runtime = process.runtime.lock();
    if thread.sequences.at != 0 {
        runtime.area_is_named(thread.sequences.area());
    }
    runtime.go(thread, context, pc, None, false);
}

const _: upcalls::Entered = join;

/// Returns whether a signal is the host's, and then which bits to put back into the app's mask.
pub fn request(info: &Info) -> Option<u64> {
    let value = info.queued_value()?;
    (info.signo == SIGTRAP as i32 && value & !REQUEST_BLOCKED == REQUEST)
        .then_some((value & REQUEST_BLOCKED) << (SIGTRAP - 1))
}

/// Leaves in a signal handler that returns to the app's own code.
pub fn depart(thread: &Thread) {
    wait_to_depart(thread);
    signal::give_up(thread);
    give_back::leave(thread);
}

/// Waits, on the way to the app's own code, until the host has all threads out, if it wants that.
pub fn wait_to_depart(thread: &Thread) {
    const NANOS: u64 = 2_000_000;
    let attached = &thread.process.queue.control().attached;
    let parked = &thread.thread_page().parked;
    parked.store(1, SeqCst);
    // Without a host there may be nobody to wait for.
    let mut alone = 0;
    while attached.detach.load(SeqCst) == LEAVE && alone < 1000 {
        sys::futex_wait(&attached.detach, LEAVE, Some(NANOS), false);
        alone += u32::from(thread.process.queue.host_is_there().is_err());
    }
    parked.store(0, SeqCst);
}

/// Run by one thread when all are out of the cache.
///
/// # Safety
/// Only `arch::farewell` may call this, when no thread is under control.
#[unsafe(export_name = "trommel_farewell")]
pub unsafe extern "C" fn farewell() -> ! {
    with_filters_suspended(|control| match give_back::is_done() {
        true => limits::exact(),
        false => part(control),
    });
    let attached = &current::process().queue.control().attached;
    attached.bid_farewell.store(1, SeqCst);
    stop_for_host()
}

/// Gives the kernel back what it keeps for the app.
fn part(control: &Control) {
    let attached = &control.attached;
    let mut runtime = current::process().runtime.lock();
    match runtime.has_windows() {
        true => {
            runtime.delete_timers();
            runtime.actions.give_back_window_signal();
        }
        false => runtime.actions.give_back(),
    }
    match attached.rests.load(SeqCst) {
        0 => runtime.code_pages.close(),
        _ => bursts::rest(&mut runtime),
    }
    limits::farewell(control);
    locking::detached();
    drop(runtime);
}

const _: upcalls::Left = farewell;

const _: () = assert!(LEAVE < GO);
