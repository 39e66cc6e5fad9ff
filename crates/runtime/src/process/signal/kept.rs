//! Signals kept for the next boundary, set aside after one that is kept, and given back.

use crate::base::signals::{
    ALL_BUT_SYNCHRONOUS, Info, SIGSEGV, SIGSYS, SYNCHRONOUS, Ucontext, bit, requeue, send_again,
};
use crate::base::sys;
use crate::engine::state::{Runtime, Thread};

/// The mask is the app's again, unless the thread is in a window: then it is when that has ended.
pub(super) fn restore_mask(runtime: &mut Runtime, thread: &mut Thread, frame: &mut Ucontext) {
    if thread.windowed.now.is_some() {
        return;
    }
    if let Some(mask) = thread.signals.true_mask.take() {
        frame.sigmask = runtime.take_mask(thread, mask);
    }
    let_wait(runtime, thread, frame);
    give_back_aside(thread);
}

/// A SIGSEGV that was sent while the app blocks it goes back to the kernel, for the thread or the whole process as it came, and is blocked there.
fn let_wait(runtime: &mut Runtime, thread: &mut Thread, frame: &mut Ucontext) {
    if !thread.signals.is_masked(SIGSEGV) {
        return;
    }
    let mut aside = thread.signals.more.iter_mut();
    let sent = aside.find(|place| place.is_some_and(|info| info.signo == SIGSEGV));
    if let Some(info) = sent.and_then(Option::take) {
        frame.sigmask = runtime.lets_wait(thread, frame.sigmask);
        send_again(&info);
    }
}

/// Signals that were set aside go back to the kernel.
pub(super) fn give_back_aside(thread: &mut Thread) {
    for info in &mut thread.signals.more {
        if let Some(info) = info.take() {
            send_again(&info);
        }
    }
}

/// Keeps a signal for the next boundary, or sets it aside up to there, with all others blocked until then: the way there may be by traps.
pub(super) fn keep(thread: &mut Thread, info: &Info, frame: &mut Ucontext) {
    if info.reported_call().is_some() {
        // It belongs to the call that was made last, so it comes first.
        if let Some(first) = thread.signals.kept.replace(*info) {
            set_aside(thread, &first);
        }
    } else if thread.signals.kept.is_some() || thread.signals.is_masked(info.signo) {
        set_aside(thread, info);
    } else {
        thread.signals.kept = Some(*info);
    }
    let signals = &mut thread.signals;
    let mask = signals.app_mask(frame.sigmask);
    signals.true_mask.get_or_insert(mask);
    frame.sigmask = ALL_BUT_SYNCHRONOUS;
    if sys::may_report_calls() && info.signo != SIGSYS {
        // A call that is made before the boundary may still be reported.
        frame.sigmask &= !bit(SIGSYS) | mask;
    }
}

/// A synchronous signal that was sent while another is kept, or while the app blocks it. Like any
/// other standard signal, it counts once however often it is sent.
pub(super) fn set_aside(thread: &mut Thread, info: &Info) {
    let place = SYNCHRONOUS.iter().position(|s| *s == info.signo);
    match place.and_then(|n| thread.signals.more.get_mut(n)) {
        Some(aside) => {
            aside.get_or_insert(*info);
        }
        // All others are blocked while one is kept.
        None => requeue(info),
    }
}
