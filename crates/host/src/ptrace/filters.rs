//! Filters of system calls (seccomp), as a tracer may read them.
// Raw ptrace requests.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use nix::unistd::Pid;
use trommel_queue::seccomp::{self, Instruction, Terms};

use crate::channel::pids;
use crate::kernel::bases;
use crate::kernel::running::restricts_itself;
use crate::ptrace::tracee::Tracees;

/// The filter of a stopped thread with this number, the newest first. `None`: there are no more.
pub(crate) fn filter(tid: Pid, number: u64) -> io::Result<Option<Vec<Instruction>>> {
    const GET_FILTER: libc::c_uint = 0x420c;
    let mut filter = vec![Instruction::default(); seccomp::MAX_INSTRUCTIONS];
    // SAFETY: no filter has more instructions than there is room for.
    let count = unsafe { libc::ptrace(GET_FILTER, tid.as_raw(), number, filter.as_mut_ptr()) };
    match usize::try_from(count) {
        Ok(count) => {
            filter.truncate(count);
            Ok(Some(filter))
        }
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            error => Err(error),
        },
    }
}

/// The way in which a process is observed. `suspended`: its filters are suspended while it is attached and detached, and what it starts runs natively.
pub(crate) fn terms(pid: Pid, suspended: bool) -> Terms {
    Terms {
        pid: pids::seen_by_itself(pid),
        suspended,
        bases: bases::has_instructions(),
    }
}

/// Reason why no windows may begin in a process with filters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWindows {
    /// Its threads cannot be stopped now.
    #[error("its threads do not stop")]
    NotNow,
    /// A filter refuses a call.
    #[error("it has restricted its own system calls (seccomp), and windows need {0}")]
    Refused(&'static str),
    /// Filters cannot be read.
    #[error(
        "it has restricted its own system calls (seccomp), and only root, outside of any container, may read what it allows"
    )]
    Unreadable,
}

/// Stops the threads of a process for a moment, to find out whether their filters allow windows.
pub(crate) fn allow_windows(pid: Pid) -> Result<(), NoWindows> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut tracees = Tracees::new(pid);
    let stopped = tracees.stop_all(PATIENCE);
    stopped.map_err(|_| NoWindows::NotNow)?;
    let terms = terms(pid, false);
    for &tid in tracees.threads() {
        if !restricts_itself(tid) {
            continue;
        }
        let mut number = 0;
        while let Some(filter) = filter(tid, number).map_err(|_| NoWindows::Unreadable)? {
            if let Some(call) = seccomp::refused_in_windows(&filter, terms) {
                return Err(NoWindows::Refused(call));
            }
            number += 1;
        }
    }
    Ok(())
}
