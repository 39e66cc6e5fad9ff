//! Requests of a process to the host, which the host's ptrace carries out.
//!
//! # The rule
//! * A thread that is about to execute a program asks the host to follow it.
//! * A process that is about to trace another one asks the host to detach that one first: its registers would be those of the code cache.
//! * A process that needs addresses where the runtime is asks the host to detach it.
//!
//! A process has one place for requests, and one thread at a time has it. Whoever waits for the place gives up when the process is being
//! detached, as the host waits for all threads then.
#![allow(unsafe_code)] // reason: memory that is shared with the host.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use trommel_queue::{Request, Unfollowed};

use crate::base::sys;
use crate::engine::state::Thread;

/// Nanoseconds after which a wait for the host checks that it is there.
const NANOS: u64 = 100_000_000;

/// The state of the request.
fn state(thread: &Thread) -> &AtomicU32 {
    // SAFETY: inside the mapping, which stays; an atomic.
    unsafe { &(*thread.process.queue.mapped().request()).state }
}

/// The place for requests, for this thread alone. `None`: the host is gone, or wants all threads to leave.
#[allow(
    clippy::mut_from_ref,
    reason = "the thread that has claimed the place is the only one"
)]
fn claim(thread: &Thread) -> Option<&mut Request> {
    let state = state(thread);
    let claimed = || {
        let claim = state.compare_exchange(Request::IDLE, Request::CLAIMED, SeqCst, Relaxed);
        claim.is_ok()
    };
    while !claimed() {
        let now = state.load(SeqCst);
        if now != Request::IDLE {
            sys::futex_wait(state, now, Some(NANOS), false);
        }
        if thread.process.is_leaving() || thread.process.queue.host_is_there().is_err() {
            return None;
        }
    }
    // SAFETY: inside the mapping; only the thread that has claimed the request writes all but its state.
    let request = unsafe { &mut *thread.process.queue.mapped().request() };
    request.tid.store(thread.writer.tid, Relaxed);
    let spawned = thread.spawned.is_some().into();
    request.spawned.store(spawned, Relaxed);
    request.process.store(0, Relaxed);
    Some(request)
}

/// Gives the place back.
fn release(thread: &Thread) {
    let state = state(thread);
    state.store(Request::IDLE, SeqCst);
    sys::futex_wake(state, u32::MAX >> 1, false);
}

/// Waits until the request's state is no longer `asked`: the new one, unless the host is gone.
fn answer(thread: &Thread, asked: u32) -> Option<u32> {
    let queue = &thread.process.queue;
    let state = state(thread);
    queue.wake_host();
    loop {
        let now = state.load(SeqCst);
        if now != asked {
            return Some(now);
        }
        sys::futex_wait(state, asked, Some(NANOS), false);
        if queue.host_is_there().is_err() {
            return None;
        }
    }
}

/// Asks the host to follow; whether it traces the thread now.
pub(super) fn program(thread: &Thread, path: u64, why: Option<Unfollowed>) -> bool {
    let Some(request) = claim(thread) else {
        return false;
    };
    request.why.store(why.map_or(0, |why| why as u32), Relaxed);
    let mut len = 0;
    // A page at a time, as far as it is there.
    while len < request.path.len() {
        let from = path + len as u64;
        let page = 4096 - (from & 0xfff) as usize;
        let end = (len + page).min(request.path.len());
        if !sys::copy_checked(from, &mut request.path[len..end]) {
            break;
        }
        match request.path[len..end].iter().position(|&c| c == 0) {
            Some(n) => {
                len += n;
                break;
            }
            None => len = end,
        }
    }
    request.path_len.store(len as u64, Relaxed);
    request.state.store(Request::ASKED, SeqCst);
    let answered = answer(thread, Request::ASKED);
    if answered != Some(Request::GO) {
        release(thread);
    }
    answered == Some(Request::GO)
}

/// Handles a failed exec: there is no new program, and the host is asked to release the thread.
pub(super) fn failed(thread: &Thread) {
    state(thread).store(Request::FAILED, SeqCst);
    answer(thread, Request::FAILED);
}

/// Has the host detach another process, one of whose threads is `tid`, if it is observed. Comes back when that is done, or cannot be.
pub(super) fn detach_other(thread: &Thread, tid: u32) {
    // The kernel refuses that a process traces itself.
    if sys::is_thread(sys::getpid() as u32, tid) {
        return;
    }
    let Some(request) = claim(thread) else {
        return;
    };
    request.process.store(tid, Relaxed);
    request.state.store(Request::ASKED, SeqCst);
    answer(thread, Request::ASKED);
    release(thread);
}

/// State of the request that [`detach_own`] makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// The host is about to detach the process.
    Waits,
    /// It does not.
    Refused,
}

/// Has the host detach this process. The thread must go on to where it leaves, and may ask again: it does not wait here. `is_asked`: it has
/// asked before, and not been refused.
pub(super) fn detach_own(thread: &Thread, is_asked: bool) -> Asked {
    if !is_asked {
        let Some(request) = claim(thread) else {
            return match thread.process.is_leaving() {
                true => Asked::Waits,
                false => Asked::Refused,
            };
        };
        request.process.store(sys::getpid() as u32, Relaxed);
        request.state.store(Request::ASKED, SeqCst);
        thread.process.queue.wake_host();
    }
    let is_there = thread.process.queue.host_is_there().is_ok();
    if thread.process.is_leaving() || is_there && state(thread).load(SeqCst) == Request::ASKED {
        return Asked::Waits;
    }
    release(thread);
    Asked::Refused
}
