//! A process of ours that detaches one of a run, at once and completely.
//!
//! # Problem
//! A program may ask for it: it is about to trace that process, or needs the addresses where the runtime is. Threads that leave may
//! wait for the session to read what they have recorded, so the session cannot wait for them. It may not be their tracer either: its
//! waits for changes of children would take their stops.
//!
//! # Strategy
//! A child of the session is the tracer. A thread that needs the addresses is held at its own call until they are free. It writes a byte to a pipe when it is done, and ends. The session is woken by that end.
// Forking, and a pipe.
#![allow(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::unistd::{ForkResult, Pid, fork, setsid};

use crate::ptrace::tracee::{StopFailure, Tracees};
use crate::takeover::detach::{Remains, stop};
use crate::takeover::failure::{AttachFailure, Result};

/// Longest time that it may take. The program waits.
const PATIENCE: Duration = Duration::from_secs(5);
const DONE: u8 = 1;

/// A detachment that goes on.
pub struct Release {
    answer: UnixStream,
}

impl Release {
    /// Starts to detach a process. Must be called while the calling process has one thread. `asker`: its thread that needs the
    /// addresses where the runtime is.
    ///
    /// # Errors
    /// There are too many processes or files.
    pub fn begin(pid: Pid, asker: Option<Pid>) -> std::io::Result<Self> {
        let (answer, mut its) = UnixStream::pair()?;
        answer.set_nonblocking(true)?;
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() }? {
            ForkResult::Parent { .. } => Ok(Self { answer }),
            ForkResult::Child => {
                // Interrupts of the terminal are for the command.
                let _ = setsid();
                let work = || detach(pid, asker).is_ok();
                if std::panic::catch_unwind(work).unwrap_or(false) {
                    // The session may be gone.
                    let _ = its.write_all(&[DONE]);
                }
                // SAFETY: ends this process, which shares its exit handlers with its parent.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Returns whether the process is detached, once that is known.
    pub fn outcome(&mut self) -> Option<bool> {
        let mut byte = [0];
        match self.answer.read(&mut byte) {
            Ok(n) => Some(n == 1 && byte == [DONE]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                None
            }
            Err(_) => Some(false),
        }
    }
}

fn detach(pid: Pid, asker: Option<Pid>) -> Result<()> {
    let limit = Instant::now() + PATIENCE;
    let mut tracees = Tracees::new(pid);
    stop(&mut tracees, limit)?;
    match Remains::find(&tracees)? {
        Some(remains) => remains.detach_until(&mut tracees, limit, asker),
        None => Err(AttachFailure::Stop(StopFailure::Gone)),
    }
}
