//! The process that a module runs in, as we see it.
//!
//! # Strategy
//! A socket, waited for only in [`Helper::wait`]. Frames to send wait here until there is room, and replies until somebody asks. Replies come in
//! the order of the requests, whatever their instances.
//!
//! # Invariants
//! * A helper that has failed is gone and reaped, by us or by the process that reaps all children.
#![allow(unsafe_code)] // reason: forks.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::helper;
use super::terms::Refusal;
use super::wire::{self, Reply, Request};
use crate::kernel::clocks::cpu_of;

/// CPU time from one answer to the next.
pub(super) const MOST_CPU: Duration = Duration::from_secs(1);

/// Time from one answer to the next.
pub(super) const MOST_SILENCE: Duration = Duration::from_secs(10);

/// Time for all answers that wait when a process has ended.
pub(super) const MOST_AT_END: Duration = Duration::from_secs(20);

/// Bytes and answers that may wait while the program runs.
pub(super) const BACKLOG: (usize, usize) = (4 << 20, 64);

pub(super) const UNREADABLE: &str = "what its process sends cannot be read";
pub(super) const GONE: &str = "its process has ended";

/// Returns how a process ended, given a status as in a profile.
pub(super) fn ended(status: i32) -> String {
    match status {
        ..0 => {
            let signal = Signal::try_from(-status).map_or("a signal", Signal::as_str);
            format!("it crashed: its process was ended by {signal}")
        }
        _ => format!("it ended its process, with status {status}"),
    }
}

/// The other process, as we see it.
pub(super) struct Helper {
    socket: UnixStream,
    pub(super) pid: Pid,
    pub(super) instances: u32,
    /// Bytes still to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Bytes that have come, and are no whole frame yet.
    input: Vec<u8>,
    /// Instances in the order in which they will be answered.
    waiting: VecDeque<u32>,
    answers: BTreeMap<u32, VecDeque<Reply>>,
    /// Time of the last answer, or of the current request, and the CPU time then.
    since: (Instant, Duration),
    /// CPU time used so far.
    used: Duration,
    /// The end of the process, found by the reaper of children.
    pub(super) reaped: Option<String>,
    /// The reason why it is gone.
    failed: Option<String>,
}

impl Helper {
    pub(super) fn fork(path: &Path, argument: &CString) -> Result<Self, Refusal> {
        let failed = |e: io::Error| Refusal::Failed(format!("no process for it: {e}"));
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() }.map_err(|e| failed(e.into()))? {
            ForkResult::Child => {
                drop(ours);
                helper::live(its, path, argument);
                // SAFETY: ends this process, which shares its exit handlers with its parent.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => Ok(Self {
                socket: ours,
                pid: child,
                instances: 0,
                out: Vec::new(),
                sent: 0,
                input: Vec::new(),
                // That the library is loaded.
                waiting: [0].into(),
                answers: BTreeMap::new(),
                since: (Instant::now(), Duration::ZERO),
                used: Duration::ZERO,
                reaped: None,
                failed: None,
            }),
        }
    }

    pub(super) fn cpu(&self) -> Duration {
        match self.failed {
            None => cpu_of(self.pid).unwrap_or(self.used).max(self.used),
            Some(_) => self.used,
        }
    }

    pub(super) fn lags(&self) -> bool {
        self.out.len() - self.sent > BACKLOG.0 || self.waiting.len() >= BACKLOG.1
    }

    pub(super) fn send(&mut self, instance: u32, request: &Request<'_>) {
        if self.failed.is_some() {
            return;
        }
        if request.is_answered() {
            if self.waiting.is_empty() {
                self.since = (Instant::now(), self.cpu());
            }
            self.waiting.push_back(instance);
        }
        request.write(instance, &mut self.out);
        self.pump();
    }

    /// The next reply to an instance if it is there.
    pub(super) fn look(&mut self, instance: u32) -> Option<Result<Reply, String>> {
        self.pump();
        self.impatient();
        let found = self.answers.get_mut(&instance);
        if let Some(reply) = found.and_then(VecDeque::pop_front) {
            return Some(Ok(reply));
        }
        self.failed.clone().map(Err)
    }

    /// Waits for the next reply to an instance.
    pub(super) fn wait(&mut self, instance: u32, deadline: Instant) -> Result<Reply, String> {
        const OFTEN: u16 = 20;
        loop {
            if let Some(reply) = self.look(instance) {
                return reply;
            }
            if Instant::now() >= deadline {
                let seconds = MOST_AT_END.as_secs();
                self.fail(format!(
                    "it took more than {seconds} s for what waited at the end of a process"
                ));
                continue;
            }
            let flags = match self.sent < self.out.len() {
                true => PollFlags::POLLIN | PollFlags::POLLOUT,
                false => PollFlags::POLLIN,
            };
            let mut polled = [PollFd::new(self.socket.as_fd(), flags)];
            // Interrupted: as if nothing had come.
            let _ = poll(&mut polled, PollTimeout::from(OFTEN));
        }
    }

    /// Sends and reads what can be without waiting.
    fn pump(&mut self) {
        while self.failed.is_none() && self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // What it said before is read below.
                Err(_) => break,
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        let mut buffer = [0; 1 << 16];
        while self.failed.is_none() {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.gone(),
                Ok(n) => self.came(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.gone(),
            }
        }
    }

    fn came(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let Ok(split) = wire::split(&self.input[used..]) else {
                return self.fail(UNREADABLE.into());
            };
            let Some((frame, length)) = split else {
                break;
            };
            let (Some(reply), Some(instance)) = (Reply::read(frame), self.waiting.pop_front())
            else {
                return self.fail(UNREADABLE.into());
            };
            self.answers.entry(instance).or_default().push_back(reply);
            used += length;
        }
        if used != 0 {
            self.input.drain(..used);
            self.since = (Instant::now(), self.cpu());
        }
    }

    /// Ends the helper if it has taken too long.
    fn impatient(&mut self) {
        let (when, used) = self.since;
        if self.failed.is_some() || self.waiting.is_empty() || when.elapsed() < MOST_CPU {
            return;
        }
        if self.cpu().saturating_sub(used) >= MOST_CPU {
            let seconds = MOST_CPU.as_secs();
            self.fail(format!(
                "a call of it did not return within {seconds} s of CPU time"
            ));
        } else if when.elapsed() >= MOST_SILENCE {
            let seconds = MOST_SILENCE.as_secs();
            self.fail(format!("a call of it did not return within {seconds} s"));
        }
    }

    /// Notes that it has closed its end.
    fn gone(&mut self) {
        self.used = self.cpu();
        // What has crashed has a status already; else it is still there.
        let _ = kill(self.pid, Signal::SIGKILL);
        let how = self.reap();
        self.failed = Some(how);
    }

    fn fail(&mut self, why: String) {
        self.used = self.cpu();
        let _ = kill(self.pid, Signal::SIGKILL);
        self.reap();
        self.failed = Some(why);
    }

    /// Waits until it has ended, which it is about to; how it has.
    fn reap(&mut self) -> String {
        if let Some(how) = self.reaped.take() {
            return how;
        }
        loop {
            return match waitpid(self.pid, None) {
                Ok(WaitStatus::Exited(_, status)) => ended(status),
                Ok(WaitStatus::Signaled(_, signal, _)) => ended(-(signal as i32)),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => GONE.into(),
            };
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        const MOMENT: Duration = Duration::from_millis(200);
        if self.failed.is_some() {
            return;
        }
        // It destroys what instances there are, and ends.
        let deadline = Instant::now() + MOMENT;
        while self.sent < self.out.len() && Instant::now() < deadline && self.failed.is_none() {
            self.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        while self.failed.is_none() && Instant::now() < deadline {
            self.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.failed.is_none() {
            self.fail(String::new());
        }
    }
}
