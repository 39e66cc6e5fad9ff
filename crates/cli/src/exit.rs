//! Exit statuses.
//!
//! `record` ends as its program ended: with the same status, or by the same signal, so that shells
//! and scripts see what they would have seen. Own failures: 2 for wrong usage (clap), 127 and 126
//! for programs that are missing or cannot run, 1 for the rest.
#![allow(unsafe_code)] // reason: dying of a signal takes three calls that std does not have.

use std::process::ExitCode;

use trommel_host::machine::MachineError;
use trommel_host::serve::failure::RecordError;
use trommel_symbol::launch::LaunchError;

/// Status of shells for a program that is there and does not run.
const CANNOT_RUN: u8 = 126;
/// Status of shells for a program that is not there.
const MISSING: u8 = 127;

/// End of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgramEnd {
    /// It exited with this status.
    Exited(u8),
    /// This signal ended it.
    Signaled(i32),
}

/// Ends this process as `outcome` says, or gives the code to return from `main` with.
pub(crate) fn like(outcome: ProgramEnd) -> ExitCode {
    match outcome {
        ProgramEnd::Exited(status) => status.into(),
        ProgramEnd::Signaled(signal) => {
            die_of(signal);
            // The signal does not end processes: what a shell would have shown for it.
            (128_u8.wrapping_add(signal as u8)).into()
        }
    }
}

/// Raises `signal` with its default action and without a second core file.
fn die_of(signal: i32) {
    let no_core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain system calls on values that live here; the signal set is initialised by
    // `sigemptyset` before it is read. Nothing else of this process runs that could depend on the
    // signal's former action.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Makes a file that outgrows its limit an error, with words. By default it ends the process. A program that is started would inherit this.
pub(crate) fn survive_file_limit() {
    // SAFETY: a plain system call. No other thread depends on what the signal does.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The exit status for an error.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    if let Some(launch) = error.downcast_ref::<LaunchError>() {
        return launch.exit_code().into();
    }
    if let Some(MachineError::NotStarted { source, .. }) = error.downcast_ref::<MachineError>() {
        return match source.kind() {
            std::io::ErrorKind::NotFound => MISSING.into(),
            _ => CANNOT_RUN.into(),
        };
    }
    match error.downcast_ref::<RecordError>() {
        Some(RecordError::Launch { .. } | RecordError::NotStarted { .. }) => CANNOT_RUN.into(),
        _ => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Runs itself again, to die there.
    #[test]
    fn a_signal_is_passed_on() {
        const ASKED: &str = "TROMMEL_TEST_SIGNAL";
        if let Ok(signal) = std::env::var(ASKED) {
            like(ProgramEnd::Signaled(signal.parse().expect("a number")));
            unreachable!("the signal ended nothing");
        }
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGPIPE, libc::SIGSEGV] {
            let mut command = Command::new(std::env::current_exe().expect("own path"));
            command.args(["--exact", "exit::tests::a_signal_is_passed_on"]);
            let out = command
                .env(ASKED, signal.to_string())
                .output()
                .expect("runs");
            assert_eq!(out.status.signal(), Some(signal));
            assert!(!out.status.core_dumped());
        }
    }
}
