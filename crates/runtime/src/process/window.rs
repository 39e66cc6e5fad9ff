//! Signals that begin windows ([`crate::engine::window`]), in the thread that they find.
#![allow(unsafe_code)] // reason: changes signal frames, sets GS.

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_queue::WINDOW_SIGNAL;

use crate::base::address::AppPc;
use crate::base::signals::{self, Info, Ucontext};
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::frames::Frames;
use crate::engine::state::Process;
use crate::engine::window::state::{Phase, Window};
use crate::engine::window::{can_begin, lengths, set_left, timer, weight};
use crate::process::signal;
use crate::process::thread::copied;

/// A signal for a thread that is native, in a process with windows.
///
/// # Safety
/// Only for the signal handler of a thread that is native.
pub unsafe fn signalled(
    process: &'static Process,
    info: &Info,
    frame: &mut Ucontext,
    gs: u64,
) -> u64 {
    const NO_HANDLER: u64 = 0;
    if info.signo == WINDOW_SIGNAL {
        let timed = timer::is_of(process.timer_value(), info);
        if !timed && !info.is_from_kernel() {
            return signal::hand_on(process, info, frame);
        }
        let began = sys::thread_cpu();
        if !copied::is_own(process) {
            return NO_HANDLER;
        }
        if enter(process, frame, gs, began, timed).is_none() {
            let windows = &process.queue.control().windows;
            windows.skipped.fetch_add(1, Relaxed);
        }
        return NO_HANDLER;
    }
    // A synchronous one, in the middle of another thread's window.
    signals::set_mask(u64::MAX);
    wait_for_dispositions(process);
    signal::again(info, frame);
    NO_HANDLER
}

/// Leads a native thread into a window; `None`: not here, or not now. `timed`: by its timer.
fn enter(
    process: &'static Process,
    frame: &mut Ucontext,
    gs: u64,
    began: u64,
    timed: bool,
) -> Option<()> {
    if process.is_leaving() || !frame.is_plain() || process.image.holds(AppPc(frame.rip)) {
        return None;
    }
    let tid = sys::gettid() as u32;
    // The stack is the app's.
    let mut runtime = process.runtime.lock_anywhere();
    let (length, skip) = lengths(process);
    let passed = runtime.windows.below(skip);
    let thread = runtime.thread_of(process, tid)?;
    let below = |bound| runtime.windows.below(bound);
    let begins = thread.windowed.timer.go_on(
        &process.queue,
        process.timer_value(),
        tid,
        timed,
        began,
        below,
    );
    if !begins {
        // None is due yet.
        return Some(());
    }
    let has_room = !process.queue.lags() && process.queue.has_chunks(runtime.threads.len());
    if !has_room || !can_begin(process) {
        return None;
    }
    if thread.asking.is_none() {
        thread.take_queries(&mut runtime);
    }
    // While what the app blocks is blocked: it may be sent to the process, and would find the app's handler.
    if runtime.threads.is_empty() {
        runtime.actions.take_synchronous();
    }
    runtime.threads.push(&raw const *thread);
    drop(runtime);
    let context = thread.context();
    let mut window = Window::new(AppPc(frame.rip), length, began, gs);
    if skip != 0 {
        window.phase = Phase::Passing;
    }
    thread.windowed.now = Some(window);
    thread.windowed.weight = weight(&thread.windowed);
    thread.leaving = false;
    context.pending = 0;
    context.next_pc = AppPc(frame.rip);
    let first = if skip == 0 { length } else { passed };
    set_left(context, first.into());
    thread.windowed.frames = Frames::of(frame);
    thread.signals.borrow(frame);
    frame.rip = arch::window as *const () as u64;
    // SAFETY: the handler uses the area no more, and returns to where GS is the area's.
    unsafe { arch::set_gs_base(thread.area()) };
    Some(())
}

/// Waits until no thread is in a window: a disposition is the app's again.
fn wait_for_dispositions(process: &Process) {
    loop {
        let runtime = process.runtime.lock_anywhere();
        if runtime.threads.is_empty() {
            return;
        }
        drop(runtime);
        // SAFETY: no memory is involved.
        let _ = unsafe { sys::call(nr::__NR_sched_yield, [0; 6]) };
    }
}
