//! The host's wait for many processes: it sleeps until one of them needs something, or a child has changed.
//!
//! Each family has a word that is 1 while the host sleeps. A process with something for the host clears the
//! word and wakes the host. The kernel lets a thread sleep on [`MOST`] words at once. With more families,
//! the host polls the rest every few milliseconds. SIGCHLD writes one more word.
// Signal handlers and futexes are system calls that the libraries lack.
#![allow(unsafe_code)]

use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::channel::family::Family;

/// Time between looks at processes that ask for nothing.
pub const IDLE: Duration = Duration::from_millis(100);

/// Words that the kernel lets a thread sleep on.
const MOST: usize = 127;
const POLL: Duration = Duration::from_millis(3);

/// 1 when a child has changed since it was last asked.
static CHILD: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_child(_: i32) {
    CHILD.store(1, SeqCst);
}

/// SIGCHLD as it was, put back when dropped.
pub struct Watch(Option<SigAction>);

/// Notes from now on when a child changes.
pub fn watch() -> Watch {
    let action = SigAction::new(
        SigHandler::Handler(on_child),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    CHILD.store(1, SeqCst);
    // SAFETY: the handler only stores to an atomic.
    Watch(unsafe { sigaction(Signal::SIGCHLD, &action) }.ok())
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            // SAFETY: what was there before.
            let _ = unsafe { sigaction(Signal::SIGCHLD, old) };
        }
    }
}

/// Returns whether a child has changed since this was last asked.
pub fn child_changed() -> bool {
    CHILD.swap(0, SeqCst) != 0
}

#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Sleeps until a bell rings, a child changes, or `until` has passed, unless `busy` says that there is
/// something to do.
pub fn sleep(families: &[Rc<Family>], until: Duration, busy: impl FnOnce() -> bool) {
    const SIZE_32: u32 = 2;
    const PRIVATE: u32 = 128;
    for family in families {
        family.bell().store(1, SeqCst);
    }
    if !busy() && CHILD.load(SeqCst) == 0 {
        let waiter = |word: &AtomicU32, value, flags| Waiter {
            value,
            address: word.as_ptr() as u64,
            flags,
            reserved: 0,
        };
        let mut waiters = vec![waiter(&CHILD, 0, SIZE_32 | PRIVATE)];
        let bells = families.iter().take(MOST);
        waiters.extend(bells.map(|family| waiter(family.bell(), 1, SIZE_32)));
        let until = if families.len() > MOST { POLL } else { until };
        if wait(&waiters, until) == Err(nix::errno::Errno::ENOSYS) {
            std::thread::sleep(until.min(POLL));
        }
    }
    for family in families {
        family.bell().store(0, SeqCst);
    }
}

fn wait(waiters: &[Waiter], until: Duration) -> nix::Result<()> {
    const FUTEX_WAITV: i64 = 449;
    // SAFETY: all-zero is a valid time.
    let mut end: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: a place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut end) };
    let nanos = end.tv_nsec + i64::from(until.subsec_nanos());
    end.tv_sec += until.as_secs() as i64 + nanos / 1_000_000_000;
    end.tv_nsec = nanos % 1_000_000_000;
    // SAFETY: as many waiters as said, of futex words that are there, and a time.
    let woken = unsafe {
        libc::syscall(
            FUTEX_WAITV,
            waiters.as_ptr(),
            waiters.len() as u32,
            0,
            &raw const end,
            libc::CLOCK_MONOTONIC,
        )
    };
    nix::errno::Errno::result(woken).map(drop)
}
