//! Signals to the host while a program runs.
//!
//! # Problem
//! A signal that would end us loses the profile, and the program's status with it. Signals reach us in
//! three ways. The terminal, or the program, signals the whole process group: the program got its own, and
//! decides. Somebody signals us alone, as the process that was started: the signal is meant for the program.
//! A timer that was armed before our `exec` (`alarm 5; exec …`) expires: it would have been the program's.
//!
//! # Strategy
//! From before the program is started until its profile is written, each signal that would end us has a
//! handler. It drops what the program got too: signals of the kernel, but for timers; signals of the program
//! and its descendants; signals that the [`sentinel`] got as well, and so the whole
//! group. It passes all else on to the program. What asks us to end (INT, QUIT, TERM, HUP) before there is a
//! program waits for the program.
//!
//! # Invariants
//! * The handlers call only async-signal-safe functions.
//! * A fault of our own (a signal that the kernel sends for an instruction of ours) has the action that it had.
// Signal handlers cannot be installed safely.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use trommel_tuple::stream::outlet;

use crate::kernel::proc;
use crate::kernel::sentinel::{self, Sentinel};

static TARGET: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked us to end while there was no program to pass it on to.
static WAITING: AtomicI32 = AtomicI32::new(0);

/// Signals that ask for an end.
const ASK: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Timers that a process keeps across its `exec`.
const TIMERS: [i32; 3] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];

/// Signals of instructions.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Handlers of the same signals before ours: Rust's own report an exhausted stack.
static FAULT_HANDLERS: [AtomicUsize; 6] = [const { AtomicUsize::new(libc::SIG_DFL) }; 6];

/// Other signals that end a process by default, below the real-time ones.
const OTHERS: [i32; 7] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGABRT,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
];

/// Signals that end a process by default, but for SIGKILL, SIGPIPE and SIGXFSZ, which are ignored, and those that the C library keeps for itself.
fn deadly() -> impl Iterator<Item = i32> {
    let named = ASK.into_iter().chain(TIMERS).chain(FAULTS).chain(OTHERS);
    named.chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Returns the parent of a process, as `/proc` reports it. Async-signal-safe.
fn parent(pid: i32) -> Option<i32> {
    let mut room = [0; 512];
    let text = proc::read(pid, b"stat", &mut room)?;
    // `PID (NAME) STATE PARENT …`; the name may hold any character.
    let name_ends = text.iter().rposition(|&b| b == b')')?;
    let mut words = text[name_ends + 1..].split(|&b| b == b' ').skip(2);
    let number = words.next()?.iter().try_fold(0_i32, |sum, digit| {
        let digit = i32::from(digit.wrapping_sub(b'0'));
        (digit < 10).then(|| sum.checked_mul(10)?.checked_add(digit))?
    });
    number.filter(|&parent| parent > 0)
}

/// Tells whether a process is `ancestor` or descends from it.
fn descends(pid: i32, ancestor: i32) -> bool {
    const GENERATIONS: usize = 64;
    let line = std::iter::successors(Some(pid), |&pid| parent(pid));
    line.take(GENERATIONS).any(|pid| pid == ancestor)
}

/// Decides about a signal from another process, or from a timer.
fn decide(signal: i32, info: &libc::siginfo_t) {
    // Asked for each signal, so that the next one is not taken for this one.
    let to_group = sentinel::got(signal);
    if ASK.contains(&signal) {
        outlet::interrupt();
    }
    let target = TARGET.load(Ordering::SeqCst);
    if target <= 0 {
        if ASK.contains(&signal) {
            WAITING.store(signal, Ordering::SeqCst);
        }
        return;
    }
    if info.si_code == libc::SI_KERNEL {
        // The terminal's, or a limit of our own.
        if TIMERS.contains(&signal) {
            // SAFETY: async-signal-safe.
            unsafe { libc::kill(target, signal) };
        }
        return;
    }
    // SAFETY: the signal is a process's, so the structure has a sender.
    if to_group || descends(unsafe { info.si_pid() }, target) {
        return;
    }
    // SAFETY: async-signal-safe; a queued signal keeps its value.
    unsafe {
        match info.si_code {
            libc::SI_QUEUE => {
                libc::syscall(
                    libc::SYS_rt_sigqueueinfo,
                    target,
                    signal,
                    ptr::from_ref(info),
                );
            }
            _ => {
                libc::kill(target, signal);
            }
        }
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `errno` of this thread, and what the kernel passes to a handler that asks for it.
    let (errno, info) = unsafe { (*libc::__errno_location(), &*info) };
    // SAFETY: async-signal-safe.
    let own = info.si_code <= 0 && unsafe { info.si_pid() == libc::getpid() };
    let fault = FAULTS.iter().position(|f| *f == signal && info.si_code > 0);
    if let Some(at) = fault {
        // The instruction comes again, and meets the action that there was.
        let before = FAULT_HANDLERS[at].load(Ordering::SeqCst);
        set(signal, &action(before, libc::SA_SIGINFO | libc::SA_ONSTACK));
    } else if own {
        // As by `abort`: it ends us when this handler returns.
        set(signal, &action(libc::SIG_DFL, 0));
        // SAFETY: async-signal-safe.
        unsafe { libc::raise(signal) };
    } else {
        decide(signal, info);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The actions as they were, put back when dropped. Hold it until everything is written that an interrupt must
/// not lose.
pub struct Guard {
    before: Actions,
    /// Runs from before the program is started.
    sentinel: OnceCell<Option<Sentinel>>,
}

/// Actions of signals.
#[derive(Clone)]
pub struct Actions(Vec<(i32, libc::sigaction)>);

impl Actions {
    /// Sets them. Async-signal-safe.
    pub fn restore(&self) {
        for (signal, action) in &self.0 {
            set(*signal, action);
        }
    }
}

/// Sets an action and returns the one that was there.
fn set(signal: i32, action: &libc::sigaction) -> Option<(i32, libc::sigaction)> {
    let mut old = MaybeUninit::uninit();
    // SAFETY: both structures live here; the handlers are async-signal-safe.
    let done = unsafe { libc::sigaction(signal, action, old.as_mut_ptr()) };
    // SAFETY: written by a call that succeeded.
    (done == 0).then(|| (signal, unsafe { old.assume_init() }))
}

fn action(handler: libc::sighandler_t, flags: i32) -> libc::sigaction {
    // SAFETY: a structure of numbers, for which zeros are an empty set and no restorer.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // One at a time: the stack for signals is small.
    // SAFETY: the set lives here.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    action
}

/// Returns a guard; from now on no signal ends this process but SIGKILL and its own faults. See
/// [`Guard::program`].
pub fn guard() -> Guard {
    let handler = on_signal as *const () as libc::sighandler_t;
    let usual = libc::SA_RESTART | libc::SA_SIGINFO;
    let handle = |signal: i32| {
        // An exhausted stack is a fault, too.
        let on_stack = i32::from(FAULTS.contains(&signal)) * libc::SA_ONSTACK;
        set(signal, &action(handler, usual | on_stack))
    };
    let mut before: Vec<_> = deadly().filter_map(handle).collect();
    for (signal, old) in &before {
        if let Some(at) = FAULTS.iter().position(|fault| fault == signal) {
            FAULT_HANDLERS[at].store(old.sa_sigaction, Ordering::SeqCst);
        }
    }
    // A write beyond the limit for file sizes shall fail and be reported, not kill us.
    before.extend(set(libc::SIGXFSZ, &action(libc::SIG_IGN, 0)));
    Guard {
        before: Actions(before),
        sentinel: OnceCell::new(),
    }
}

impl Guard {
    /// Prepares for a program of our process group, before it is started.
    pub fn expect_program(&self) {
        self.sentinel.get_or_init(Sentinel::start);
    }

    /// Names the program that decides about signals from now on. It also gets what came before.
    pub fn program(&self, pid: Pid) {
        TARGET.store(pid.as_raw(), Ordering::SeqCst);
        let waiting = WAITING.swap(0, Ordering::SeqCst);
        if waiting != 0 {
            // SAFETY: a plain system call.
            unsafe { libc::kill(pid.as_raw(), waiting) };
        }
    }

    /// Returns true if an interrupt came that no program got.
    pub fn asked(&self) -> bool {
        WAITING.load(Ordering::SeqCst) != 0
    }

    /// Notes that the program has ended.
    pub fn ended(&self) {
        TARGET.store(0, Ordering::SeqCst);
    }

    /// Puts the actions back. Async-signal-safe: a forked child does this before it execs.
    pub fn restore(&self) {
        self.before.restore();
    }

    /// Returns the actions as they were, for a child to restore.
    pub fn actions(&self) -> Actions {
        self.before.clone()
    }
}

/// Bytes that are said when a signal ends this process.
static LAST_WORDS: AtomicPtr<&'static [u8]> = AtomicPtr::new(ptr::null_mut());

/// From now on `words` are written to standard error when SIGINT or SIGTERM ends this process. A signal that was ignored stays so. For
/// commands without a [`Guard`]: the memory of words is not given back.
pub fn last_words(words: &str) {
    let words: &'static [u8] = Box::leak(words.to_owned().into_boxed_str()).as_bytes();
    let first = LAST_WORDS
        .swap(Box::leak(Box::new(words)), Ordering::SeqCst)
        .is_null();
    if first {
        let handler = on_end as *const () as libc::sighandler_t;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            if let Some((_, before)) = set(signal, &action(handler, 0))
                && before.sa_sigaction != libc::SIG_DFL
            {
                set(signal, &before);
            }
        }
    }
}

extern "C" fn on_end(signal: i32) {
    // SAFETY: words that stay.
    let words = unsafe { LAST_WORDS.load(Ordering::SeqCst).as_ref() };
    if let Some(words) = words {
        // SAFETY: async-signal-safe.
        unsafe { libc::write(2, words.as_ptr().cast(), words.len()) };
    }
    // It ends us when this handler returns.
    set(signal, &action(libc::SIG_DFL, 0));
    // SAFETY: async-signal-safe.
    unsafe { libc::raise(signal) };
}

/// Stops us as a signal has stopped a child of ours, until one of the two is continued. Then both go on.
pub fn stop_with(child: i32, signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else {
        return;
    };
    let _own = match sentinel::is_there() {
        true => None,
        false => Sentinel::start(),
    };
    sentinel::stop_with(Pid::from_raw(child), signal);
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ended();
        self.restore();
    }
}
