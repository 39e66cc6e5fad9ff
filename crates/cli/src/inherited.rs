//! What this process was given at its start, for handing it on unchanged.
//!
//! The program under observation must find what it would have found without us. Rust's start-up
//! code changes two things before `main`: it ignores SIGPIPE, and it opens `/dev/null` in the place
//! of standard descriptors that are closed. So both are noted before it runs, by a function that
//! the C library calls for each executable before `main` (`.init_array`).
#![allow(unsafe_code)] // reason: runs before Rust's own start-up code and asks the system directly.

use std::sync::atomic::{AtomicU8, Ordering};

use trommel_host::ptrace::launch::Inherited;

const SIGPIPE_IGNORED: u8 = 1 << 3;

/// Bits 0 to 2: the descriptor is closed. Bit 3: SIGPIPE is ignored.
static NOTED: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: `.init_array` holds pointers to functions of the C ABI that are called once, before
// `main`, with nothing else running; `note` needs no Rust runtime.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let mut noted = 0;
    // SAFETY: system calls that read state into a structure that lives here; no action is changed.
    unsafe {
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                noted |= 1 << fd;
            }
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
        {
            noted |= SIGPIPE_IGNORED;
        }
    }
    NOTED.store(noted, Ordering::Relaxed);
}

/// Returns what this process was given.
pub(crate) fn inherited() -> Inherited {
    let noted = NOTED.load(Ordering::Relaxed);
    Inherited {
        closed: std::array::from_fn(|fd| noted & (1 << fd) != 0),
        sigpipe_ignored: noted & SIGPIPE_IGNORED != 0,
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
        for (script, closed, sigpipe_ignored) in [
            ("exec \"$0\" \"$@\"", [false; 3], false),
            ("exec \"$0\" \"$@\" <&-", [true, false, false], false),
            (
                "trap '' PIPE; exec \"$0\" \"$@\" 2>&-",
                [false, false, true],
                true,
            ),
        ] {
            let wanted = Inherited {
                closed,
                sigpipe_ignored,
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
