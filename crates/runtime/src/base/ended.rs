//! The end of a thread, as the kernel knows it.
//!
//! # Problem
//! A thread that the kernel ends says nothing. Its number may soon be another thread's, its process may
//! be there as a zombie, and `kill` with signal 0 finds zombies too. A file system of processes may be absent.
//!
//! # Strategy
//! The kernel knows the owner of a futex with priority inheritance by its number, and refuses one that runs no more: it has ended,
//! or is a zombie. So it is asked for such a futex on the caller's stack, without waiting.
//! A number that is the caller's own, of the kernel's, or of another process, was used again. Newer kernels refuse one of other memory, too.
//! If another thread of the same memory uses it again, that thread finds so when it asks.
//!
//! Numbers are those of the caller's pid namespace. Where the kernel gives no answer, the thread is taken to be there.
#![allow(unsafe_code)] // reason: system calls.

use linux_raw_sys::general as nr;

use crate::base::sys;

const ESRCH: i64 = -3;

/// Returns true if no thread has the number `tid`, or one that executes nothing any more.
pub fn executes_nothing(tid: u32) -> bool {
    own(tid) == ESRCH
}

/// The kernel's answer about a futex that the thread `tid` owns.
fn own(tid: u32) -> i64 {
    const TRYLOCK_PI_PRIVATE: u64 = 8 | 128;
    let mut word = tid;
    let args = [&raw mut word as u64, TRYLOCK_PI_PRIVATE, 0, 0, 0, 0];
    // SAFETY: a word of the caller's, which nobody else knows.
    unsafe { sys::call(nr::__NR_futex, args) }
}

/// Returns true if the thread `tid` of the process `pid`, which was not the caller, executes nothing any more.
pub fn has_ended(pid: u32, tid: u32) -> bool {
    const EDEADLK: i64 = -35;
    const EPERM: i64 = -1;
    matches!(own(tid), ESRCH | EDEADLK | EPERM) || !sys::is_thread(pid, tid)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::process::Command;
    use std::sync::mpsc::channel;

    #[test]
    fn threads_end_and_zombies_have_ended() {
        let (tell, told) = channel();
        let (end, stay) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(sys::gettid() as u32).expect("somebody asks");
            let _ = stay.recv();
        });
        let tid = told.recv().expect("it tells");
        let pid = sys::getpid() as u32;
        assert!(!has_ended(pid, tid), "a thread that waits");
        drop(end);
        thread.join().expect("it ends");
        // The kernel says that a thread has ended a moment before it has.
        while !has_ended(pid, tid) {
            std::thread::yield_now();
        }
        assert!(
            has_ended(pid, sys::gettid() as u32),
            "the number used again"
        );
        let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep");
        assert!(has_ended(pid, child.id()), "a number used again elsewhere");
        child.kill().expect("it is killed");
        while !has_ended(child.id(), child.id()) || !executes_nothing(child.id()) {
            std::thread::yield_now();
        }
        assert!(sys::is_thread(child.id(), child.id()), "it is a zombie");
        child.wait().expect("it has ended");
        assert!(executes_nothing(child.id()));
    }
}
