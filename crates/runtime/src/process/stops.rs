//! Threads that a process stops in its own memory.
//!
//! # Problem
//! A process may trace threads of the one whose memory it shares: LeakSanitizer stops all threads so at a program's end. A
//! thread that is stopped while it has the runtime's lock keeps it, and its tracer soon waits for that lock, for ever.
//!
//! # Strategy
//! The tracer has the lock itself while it asks for the stop, and until the thread has stopped. Then the stopped thread cannot
//! have it. The kernel says if the thread has stopped, without taking the news from the tracer: other requests
//! are refused before. Once a stop is asked for, a thread executes next to nothing outside the kernel. So the wait has a limit,
//! for threads in calls that no signal ends.
//!
//! Stops by breakpoints, steps and system calls are in the program's code. They are not asked for here.
#![allow(unsafe_code)] // reason: asks the kernel with a pointer.

use linux_raw_sys::general as nr;

use crate::base::area::Context;
use crate::base::sys;
use crate::engine::state::Thread;
use crate::engine::vsyscall::raw;

const PTRACE_ATTACH: u64 = 16;
const PTRACE_GETEVENTMSG: u64 = 0x4201;
const PTRACE_INTERRUPT: u64 = 0x4207;
/// Nanoseconds between two looks at the thread.
const BETWEEN: u64 = 20_000;
/// Nanoseconds that the lock is kept at most.
const MOST: u64 = 100_000_000;

/// Returns true if `ptrace` with these arguments may stop a thread of the caller's memory.
pub(super) fn may_stop(thread: &Thread, a: &[u64; 6]) -> bool {
    matches!(a[0], PTRACE_ATTACH | PTRACE_INTERRUPT) && thread.process.runtime.may_lose_holders()
}

/// Makes the app's call of `ptrace`, which asks for a stop. Returns the kernel's answer.
pub(super) fn ask(thread: &mut Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    let result = {
        let _kept = thread.process.runtime.lock();
        let result = raw(context, number);
        if result == 0 {
            wait_until_stopped(a[1]);
        }
        result
    };
    thread.call.made = Some(result);
    result
}

fn wait_until_stopped(traced: u64) {
    let mut message = 0_u64;
    let ask = [
        PTRACE_GETEVENTMSG,
        traced,
        0,
        (&raw mut message) as u64,
        0,
        0,
    ];
    let end = sys::monotonic() + MOST;
    // SAFETY: writes a word, there.
    while unsafe { sys::call(nr::__NR_ptrace, ask) } != 0 && sys::monotonic() < end {
        sys::nap(BETWEEN);
    }
}
