//! Processes of our own that do one thing each, as attaching must begin in a process with one thread.
//!
//! A child is asked to end (SIGTERM) when its parent dies, however that dies; so what it holds is detached, and what
//! it has collected is written.
// Forking, and a setting of the process that the libraries lack.
#![allow(unsafe_code)]

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

/// A child.
#[derive(Debug)]
pub struct Child(Pid);

/// End of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// It was killed.
    Killed,
}

impl Child {
    /// Starts one that does `work` and exits with what that gives. Must be called while this process has one thread.
    ///
    /// # Errors
    /// There are too many processes.
    pub fn start(work: impl FnOnce() -> u8) -> std::io::Result<Self> {
        let parent = getpid();
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Self(child)),
            ForkResult::Child => {
                // SAFETY: a signal's number.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
                // It may have died before that.
                if getppid() != parent {
                    let _ = kill(getpid(), Signal::SIGTERM);
                }
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends this process, which shares its exit handlers with its parent.
                unsafe { libc::_exit(done.map_or(101, i32::from)) }
            }
        }
    }

    /// Returns its process number.
    pub fn id(&self) -> i32 {
        self.0.as_raw()
    }

    /// Asks it to end.
    pub fn ask(&self) {
        // It may have ended by itself just now.
        let _ = kill(self.0, Signal::SIGTERM);
    }

    /// Returns the end of the child, if it has ended. Not to be asked again then.
    pub fn ended(&self) -> Option<Ending> {
        match waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, status)) => Some(Ending::Exited(status)),
            Ok(WaitStatus::StillAlive) => None,
            _ => Some(Ending::Killed),
        }
    }
}

/// Asks a program that was started to end.
pub fn ask(program: &std::process::Child) {
    // It may have ended by itself just now, and is not forgotten before it was waited for.
    let _ = kill(Pid::from_raw(program.id() as i32), Signal::SIGTERM);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn end_of(child: &Child) -> Ending {
        let began = Instant::now();
        loop {
            if let Some(ending) = child.ended() {
                return ending;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "it hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn children_end_as_they_say_and_when_they_are_asked() {
        // Nothing is locked in the child but what std takes care of.
        let child = Child::start(|| 7).expect("forks");
        assert_eq!(end_of(&child), Ending::Exited(7));
        let child = Child::start(|| {
            std::thread::sleep(Duration::from_secs(100));
            0
        });
        let child = child.expect("forks");
        assert_eq!(child.ended(), None);
        child.ask();
        assert_eq!(end_of(&child), Ending::Killed);
    }
}
