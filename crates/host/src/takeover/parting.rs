//! The end of control, also where another program traces the process.
//!
//! # Problem
//! A thread has one tracer. While a debugger or `strace` traces one, nobody else brings it out of the code cache. That may take hours,
//! and the command is to end when its user asks.
//!
//! # Strategy
//! The command is told who traces it, and ends. A process remains, a child of the keeper that is nobody's child then. It detaches the
//! process as soon as nobody traces it. Meanwhile threads leave the cache by themselves, as the command has ended; the memory remains.
//!
//! # Invariants
//! * What remains holds no descriptor of the command: who reads the command's output sees its end.
//! * It traces no thread while another program traces one.
// Forking, and descriptors.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{ForkResult, Pid, fork};

use crate::kernel::running::tracer_of;
use crate::ptrace::tracee::{StopFailure, Tracees};
use crate::takeover::detach::{Remains, stop};
use crate::takeover::failure::{AttachFailure, Result};

/// Longest time that threads may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Detaches a process for good.
pub(super) fn part(tracees: &mut Tracees, remains: Remains) -> Result<()> {
    stop(tracees, Instant::now() + PATIENCE)?;
    // It may have become another program.
    if Remains::find(tracees)? != Some(remains) {
        return Err(AttachFailure::Stop(StopFailure::Gone));
    }
    remains.detach(tracees)
}

/// Leaves a process that detaches `pid` when no other program traces it any more. `watched`: the descriptor of that process.
pub(super) fn part_later(pid: Pid, remains: Remains, watched: &OwnedFd) {
    // SAFETY: there is one thread, so the child may do whatever it likes.
    if let Ok(ForkResult::Child) = unsafe { fork() } {
        close_all_but(watched);
        remains.name_keeper(&Tracees::new(pid));
        wait_and_part(pid, remains, watched);
        // SAFETY: ends this process, which shares its exit handlers with its parent.
        unsafe { libc::_exit(0) }
    }
}

fn wait_and_part(pid: Pid, remains: Remains, watched: &OwnedFd) {
    const STEP: Duration = Duration::from_millis(100);
    Tracees::forget_late();
    loop {
        let mut fds = [PollFd::new(watched.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(STEP).unwrap_or(PollTimeout::MAX);
        if poll(&mut fds, timeout).is_ok_and(|ready| ready > 0) {
            return;
        }
        if is_traced(pid) {
            continue;
        }
        let mut tracees = Tracees::new(pid);
        match part(&mut tracees, remains) {
            Err(AttachFailure::Traced(..)) => {}
            _ => return,
        }
    }
}

/// Returns true if any thread of a process has a tracer.
fn is_traced(pid: Pid) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let names = tasks.into_iter().flatten().flatten();
    let tids = names.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.map(Pid::from_raw).any(|tid| tracer_of(tid).is_some())
}

/// Closes all descriptors but one, and has those of standard input and output lead nowhere.
fn close_all_but(kept: &OwnedFd) {
    let kept = kept.as_raw_fd() as u32;
    if let Ok(null) = fs::File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: both are descriptors, and nothing here uses the one that is replaced.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    for (first, last) in [
        (3, kept.saturating_sub(1)),
        (kept.saturating_add(1), u32::MAX),
    ] {
        if first <= last {
            // SAFETY: nothing in this process uses them any more.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
