//! A process that distinguishes signals to our process group from signals to us alone.
//!
//! # Problem
//! The kernel does not say whether a signal was sent to a process or to its whole group. The program is in
//! our group: of a signal to the group it got its own, and a second one passed on would be wrong.
//!
//! # Strategy
//! The sentinel is a child of ours in the same group, unknown to other processes. It blocks all signals, takes each
//! from its queue and counts it. A signal that the sentinel got, counted or still in its queue, was sent to
//! the group. The kernel merges pending signals, in us and in the sentinel apart, so that either may count
//! more of them. So a count that nobody has asked for in [`STALE`] milliseconds is dropped. The sentinel shares our memory and
//! descriptors, so that it costs a system call and no page tables. It
//! ends with us, whatever ends us.
//!
//! *A stopped program.* A shell that waits for us takes its terminal back when we stop. So we stop when the program has stopped
//! ([`stop_with`]). While we are stopped the sentinel watches the program, and continues us when it is not stopped any more.
//!
//! # Invariants
//! * The sentinel executes raw system calls only, on a stack of its own, and writes nothing but [`COUNTED`], [`WATCHED`],
//!   [`LAST`] and, where a call fails, `errno`.
// A process that shares our memory.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::time::Duration;

use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, raise, sigaction,
};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::kernel::proc;

/// Signals by number that the sentinel has taken from its queue.
static COUNTED: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
/// Counted signals for which [`got`] has answered.
static ASKED: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
/// The time at which the sentinel took the last of each, in milliseconds.
static LAST: [AtomicU64; 65] = [const { AtomicU64::new(0) }; 65];
/// The stopped program with which we stop; 0: there is none.
static WATCHED: AtomicI32 = AtomicI32::new(0);
/// [`turns_of_stopped`] of it, when we stopped.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// We were continued.
static CONTINUED: AtomicBool = AtomicBool::new(false);
/// Its process number, while it lives.
static PID: AtomicI32 = AtomicI32::new(0);

/// See the module's header.
const STALE: u64 = 1000;

/// Milliseconds after a signal to the group in which the same signal may be a merged one.
const MERGED: u64 = 100;

/// Bytes of its stack.
const STACK: usize = 64 << 10;

/// The running sentinel, ended when dropped.
pub(crate) struct Sentinel {
    pid: Pid,
    /// Its stack.
    _stack: memmap2::MmapRaw,
}

/// Runs the sentinel. Its one argument is our own process number.
extern "C" fn watch(host: *mut libc::c_void) -> i32 {
    let all = u64::MAX;
    // SAFETY: system calls on values that live here.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            0,
            8,
        );
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::syscall(libc::SYS_getppid) != host as libc::c_long {
            return 0;
        }
        loop {
            let watched = WATCHED.load(SeqCst);
            let often = libc::timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            let timeout = match watched {
                0 => std::ptr::null(),
                _ => &raw const often,
            };
            let signal = libc::syscall(libc::SYS_rt_sigtimedwait, &raw const all, 0, timeout, 8);
            if watched != 0 && turns_of_stopped(watched) != Some(TURNS.load(SeqCst)) {
                WATCHED.store(0, SeqCst);
                libc::syscall(libc::SYS_kill, host, libc::SIGCONT);
            }
            if let Some(n) = usize::try_from(signal).ok().filter(|&n| n < COUNTED.len()) {
                LAST[n].store(now(), SeqCst);
                COUNTED[n].fetch_add(1, SeqCst);
            }
        }
    }
}

/// Returns true while there is a sentinel.
pub(crate) fn is_there() -> bool {
    PID.load(SeqCst) > 0
}

/// Returns how often a process that a signal has stopped was given the processor: a number that changes once it was continued, also
/// where it has stopped again. `None`: it is not stopped. Async-signal-safe.
fn turns_of_stopped(pid: i32) -> Option<u32> {
    const STATE: &[u8] = b"\nState:\t";
    const TURNS: &[u8] = b"voluntary_ctxt_switches:\t";
    let mut room = [0; 4096];
    let text = proc::read(pid, b"status", &mut room)?;
    let mut state = text.windows(STATE.len() + 1);
    state.find(|w| w.strip_prefix(STATE) == Some(b"T"))?;
    // The second one is of switches that were not voluntary.
    let places = (0..text.len()).filter(|&at| text[at..].starts_with(TURNS));
    let numbers = places.map(|at| {
        let digits = text[at + TURNS.len()..].iter();
        let digits = digits.map_while(|b| (*b as char).to_digit(10));
        digits.fold(0_u32, |sum, digit| sum.wrapping_mul(10).wrapping_add(digit))
    });
    Some(numbers.fold(0, u32::wrapping_add))
}

extern "C" fn on_continue(_: i32) {
    CONTINUED.store(true, SeqCst);
}

/// Stops us as a signal has stopped the program, until one of the two is continued. Then both go on.
pub(crate) fn stop_with(program: Pid, signal: Signal) {
    const LOOKS: u32 = 50;
    let sentinel = PID.load(SeqCst);
    let Some(turns) = turns_of_stopped(program.as_raw()) else {
        return;
    };
    // One that has stopped anew has another stop to tell of.
    let is_anew = || stopped(program, libc::WNOWAIT).is_some();
    if sentinel <= 0 || is_anew() {
        return;
    }
    TURNS.store(turns, SeqCst);
    let on_continue = SigAction::new(
        SigHandler::Handler(on_continue),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    CONTINUED.store(false, SeqCst);
    // SAFETY: the handler only stores to an atomic.
    let Ok(before) = (unsafe { sigaction(Signal::SIGCONT, &on_continue) }) else {
        return;
    };
    WATCHED.store(program.as_raw(), SeqCst);
    // Out of its wait, by a signal that nobody asks for.
    let _ = kill(Pid::from_raw(sentinel), Signal::SIGURG);
    let _ = raise(signal);
    // Another thread may have the handler. A group without a shell is not stopped, and not continued.
    for _ in 0..LOOKS {
        if CONTINUED.load(SeqCst) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    WATCHED.store(0, SeqCst);
    // SAFETY: what was there before.
    let _ = unsafe { sigaction(Signal::SIGCONT, &before) };
    if CONTINUED.load(SeqCst) && !is_anew() && turns_of_stopped(program.as_raw()) == Some(turns) {
        let _ = kill(program, Signal::SIGCONT);
    }
}

/// Returns the signal that has stopped a child of ours that nobody traces, if that was not told before.
pub(crate) fn take_stop(child: Pid) -> Option<Signal> {
    Signal::try_from(stopped(child, 0)?).ok()
}

fn stopped(child: Pid, how: i32) -> Option<i32> {
    // SAFETY: all-zero is a valid structure.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG | how;
    // SAFETY: a valid place to write to.
    let done = unsafe { libc::waitid(libc::P_PID, child.as_raw() as u32, &raw mut found, flags) };
    // SAFETY: written by the kernel, or zero.
    (done == 0 && found.si_signo != 0).then(|| unsafe { found.si_status() })
}

/// Returns the monotonic time in milliseconds. Async-signal-safe.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a structure that lives here.
    unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            &raw mut time,
        )
    };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

impl Sentinel {
    /// Starts it. Returns nothing where the system refuses a process or memory: signals of processes that have
    /// ended are then passed on even if the group got them.
    pub(crate) fn start() -> Option<Self> {
        let stack = memmap2::MmapOptions::new().len(STACK).map_anon().ok()?;
        let stack = memmap2::MmapRaw::from(stack);
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::SIGCHLD;
        // No handler of ours may run in the sentinel.
        let all = SigSet::all();
        let before = all.thread_swap_mask(SigmaskHow::SIG_SETMASK).ok()?;
        // SAFETY: the stack is as long as said, page-aligned, and lives until the sentinel has ended.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            libc::clone(watch, top, flags, std::process::id() as usize as *mut _)
        };
        let _ = before.thread_set_mask();
        if pid < 0 {
            return None;
        }
        PID.store(pid, SeqCst);
        Some(Self {
            pid: Pid::from_raw(pid),
            _stack: stack,
        })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        PID.store(0, SeqCst);
        // Only a child that is not waited for yet has this number.
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// Tells whether a signal is in the sentinel's queue.
fn is_queued(pid: i32, signal: i32) -> bool {
    // Stacks for signals are small.
    static ROOM: Mutex<[u8; 4096]> = Mutex::new([0; 4096]);
    let mut room = loop {
        // Handlers block all signals, so who holds it runs, in another thread.
        if let Ok(room) = ROOM.try_lock() {
            break room;
        }
    };
    let Some(text) = proc::read(pid, b"status", &mut *room) else {
        return false;
    };
    const NAME: &[u8] = b"\nShdPnd:\t";
    let Some(at) = text.windows(NAME.len()).position(|w| w == NAME) else {
        return false;
    };
    let digits = text[at + NAME.len()..]
        .iter()
        .map_while(|b| (*b as char).to_digit(16));
    let set = digits.fold(0_u64, |set, digit| set << 4 | u64::from(digit));
    set & (1 << (signal - 1)) != 0
}

/// Tells whether the sentinel got a signal that has just reached us, for which this was not asked before.
/// Waits a little, as the kernel signals one process of a group after the other. Async-signal-safe.
pub(crate) fn got(signal: i32) -> bool {
    const TURNS: u32 = 4;
    const TURN: Duration = Duration::from_micros(500);
    let pid = PID.load(SeqCst);
    let Some(n) = usize::try_from(signal).ok().filter(|&n| n < COUNTED.len()) else {
        return false;
    };
    for turn in 0..TURNS {
        let (counted, asked) = (COUNTED[n].load(SeqCst), ASKED[n].load(SeqCst));
        // One that was seen in the queue may not have been counted yet.
        let more = counted.wrapping_sub(asked) as i32;
        if more > 0 && now().saturating_sub(LAST[n].load(SeqCst)) > STALE {
            ASKED[n].store(counted, SeqCst);
        } else if more > 0 {
            ASKED[n].store(asked.wrapping_add(1), SeqCst);
            return true;
        } else if pid > 0 && is_queued(pid, signal) {
            // Of a signal that is no real-time one the queue holds one.
            let merged = signal < libc::SIGRTMIN();
            let from = if merged { counted } else { asked };
            ASKED[n].store(from.wrapping_add(1), SeqCst);
            return true;
        }
        if pid <= 0 || turn + 1 == TURNS {
            // Two that were merged in the sentinel's queue and not in ours.
            let merged = signal < libc::SIGRTMIN() && counted > 0;
            return merged && now().saturating_sub(LAST[n].load(SeqCst)) < MERGED;
        }
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: TURN.as_nanos() as i64,
        };
        // SAFETY: async-signal-safe, on a structure that lives here.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    false
}
