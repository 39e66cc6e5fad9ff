//! State that this process was given at its start, for handing it on unchanged.
//!
//! The program under observation must find what it would have found without us. Rust's start-up
//! code changes two things before `main`: it ignores SIGPIPE, and it opens `/dev/null` in the place
//! of standard descriptors that are closed. We change two more: we unblock all signals, and we stop
//! ignoring SIGCHLD, since a host that is not told about its children waits forever. So all of it is
//! noted before Rust's code runs, by a function that the C library calls for each executable before
//! `main` (`.init_array`).
#![allow(unsafe_code)] // reason: runs before Rust's own start-up code and asks the system directly.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use trommel_host::kernel::inherited::{Inherited, RAISED, raise_limit, set_action, set_blocked};

/// Bits 0 to 2: the descriptor is closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// Signals that were ignored, and that were blocked: bit `n - 1` is signal `n`.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Limits, soft and hard, before they were raised.
static LIMITS: OnceLock<[[u64; 2]; RAISED.len()]> = OnceLock::new();

#[used]
// SAFETY: `.init_array` holds pointers to functions of the C ABI that are called once, before
// `main`, with nothing else running; `note` needs no Rust runtime.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let (mut closed, mut ignored, mut blocked) = (0, 0_u64, 0_u64);
    // SAFETY: system calls that write state into structures that live here.
    unsafe {
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                closed |= 1 << fd;
            }
        }
        for signal in 1..=64 {
            // The kernel's structure: handler, flags, restorer, mask.
            let mut action = [0_u64; 4];
            let got = libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                0,
                &raw mut action,
                size_of::<u64>(),
            );
            if got == 0 && action[0] == libc::SIG_IGN as u64 {
                ignored |= 1 << (signal - 1);
            }
        }
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            0,
            &raw mut blocked,
            size_of::<u64>(),
        );
    }
    if ignored & (1 << (libc::SIGCHLD - 1)) != 0 {
        set_action(libc::SIGCHLD, libc::SIG_DFL);
    }
    set_blocked(0);
    CLOSED.store(closed, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Returns true if a standard descriptor was closed at the start of this process.
pub(crate) fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Returns the state at the start of this process. From then on limits that are meant for the program do not stand in our way.
pub(crate) fn inherited() -> Inherited {
    let closed = CLOSED.load(Ordering::Relaxed);
    Inherited {
        closed: std::array::from_fn(|fd| closed & (1 << fd) != 0),
        ignored: IGNORED.load(Ordering::Relaxed),
        blocked: BLOCKED.load(Ordering::Relaxed),
        limits: Some(*LIMITS.get_or_init(|| RAISED.map(raise_limit))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs itself again under a shell that takes things away first.
    #[test]
    fn what_was_taken_away_is_noted() {
        const ASKED: &str = "TROMMEL_TEST_INHERITED";
        if let Ok(wanted) = std::env::var(ASKED) {
            assert_eq!(format!("{:?}", inherited()), wanted);
            return;
        }
        const PIPE: u64 = 1 << (libc::SIGPIPE - 1);
        const CHLD: u64 = 1 << (libc::SIGCHLD - 1);
        const TERM: u64 = 1 << (libc::SIGTERM - 1);
        for (script, closed, ignored, blocked) in [
            ("exec \"$0\" \"$@\"", [false; 3], 0, 0),
            ("exec \"$0\" \"$@\" <&-", [true, false, false], 0, 0),
            (
                "trap '' PIPE; exec \"$0\" \"$@\" 2>&-",
                [false, false, true],
                PIPE,
                0,
            ),
            (
                "exec env --ignore-signal=CHLD --block-signal=TERM \"$0\" \"$@\"",
                [false; 3],
                CHLD,
                TERM,
            ),
        ] {
            // The rest of what this process ignored goes on to its children.
            let rest = inherited().ignored & !(PIPE | CHLD);
            let wanted = Inherited {
                closed,
                ignored: rest | ignored,
                blocked,
                limits: inherited().limits,
            };
            let status = Command::new("sh")
                .args(["-c", script])
                .arg(std::env::current_exe().expect("own path"))
                .args(["--exact", "inherited::tests::what_was_taken_away_is_noted"])
                .env(ASKED, format!("{wanted:?}"))
                .stdout(std::process::Stdio::null())
                .status();
            assert!(status.expect("sh runs").success(), "{script}");
        }
    }
}
