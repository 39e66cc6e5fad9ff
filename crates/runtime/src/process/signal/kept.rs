//! Signals kept for the next boundary, set aside after one that is kept, and given back.

use crate::base::signals::{ALL_BUT_SYNCHRONOUS, Info, SYNCHRONOUS, Ucontext, requeue};
use crate::engine::state::Thread;

/// The mask is the app's again, unless the thread is in a window: then it is when that has ended.
pub(super) fn restore_mask(thread: &mut Thread, frame: &mut Ucontext) {
    if thread.windowed.now.is_some() {
        return;
    }
    if let Some(mask) = thread.signals.true_mask.take() {
        frame.sigmask = mask;
    }
    give_back_aside(thread);
}

/// Signals that were set aside go back to the kernel.
pub(super) fn give_back_aside(thread: &mut Thread) {
    for info in &mut thread.signals.more {
        if let Some(info) = info.take() {
            requeue(&info);
        }
    }
}

/// Keeps a signal for the next boundary, with all others blocked until then.
pub(super) fn keep(thread: &mut Thread, info: &Info, frame: &mut Ucontext) {
    if thread.signals.kept.is_some() || thread.signals.is_masked(info.signo) {
        return set_aside(thread, info);
    }
    let signals = &mut thread.signals;
    signals.kept = Some(*info);
    signals.true_mask.get_or_insert(frame.sigmask);
    frame.sigmask = ALL_BUT_SYNCHRONOUS;
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
