//! Threads of a process that a signal has stopped (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU), run for a moment all the same.
//!
//! # Problem
//! Threads that are to come out of the code cache must run. Those of a stopped process stand still when they are released, until
//! SIGCONT comes, which may be never.
//!
//! # Strategy
//! A tracer may run a thread of a stopped process. The process remains stopped for its parent, and the thread stops again when it is
//! released. So threads run traced, in short turns, and stop before the first system call of the program's own.
//!
//! # Why it is correct
//! * What a thread does meanwhile, it could have done before it was stopped.
//! * If SIGCONT comes meanwhile, the kernel stops none of them any more.
// Raw ptrace requests, and structures that the kernel fills in.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::Tracees;
use super::stops::{Event, add_late, interrupt, is_at_fault, resume_to_call, wait};

/// Longest time that a thread takes to stop.
const STOP: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

/// Outcome of a look at a running thread.
enum Seen {
    Runs,
    Stopped,
    Gone,
}

impl Tracees {
    /// Returns true for a stopped thread that a signal to the whole process keeps stopped when it is released.
    pub fn is_held(&self, tid: Pid) -> bool {
        const EVENT_STOP: i32 = 128;
        // SAFETY: all-zero is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        // SAFETY: the kernel writes one structure.
        let got = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid.as_raw(), 0, &raw mut info) };
        got == 0 && info.si_code >> 8 == EVENT_STOP && info.si_signo != libc::SIGTRAP
    }

    /// Lets stopped threads run on for a time, whether the process is stopped or not, and stops them again. One that comes to a system
    /// call in code that `is_own` stops before it.
    pub fn run_held(&mut self, tids: &[Pid], time: Duration, is_own: impl Fn(u64) -> bool) {
        self.stopped.retain(|tid| !tids.contains(tid));
        let mut running = tids.to_vec();
        running.iter().for_each(|&tid| resume_to_call(tid, 0));
        let began = Instant::now();
        let mut is_over = false;
        while !running.is_empty() && began.elapsed() < time + STOP {
            if !is_over && began.elapsed() >= time {
                is_over = true;
                running.iter().for_each(|&tid| interrupt(tid));
            }
            running.retain(|&tid| match self.look_at(tid, is_over, &is_own) {
                Seen::Runs => true,
                Seen::Gone => false,
                Seen::Stopped => {
                    self.stopped.push(tid);
                    false
                }
            });
            std::thread::sleep(PAUSE);
        }
        add_late(running);
    }

    /// Looks at a thread that runs. `is_over`: it has been asked to stop.
    fn look_at(&self, tid: Pid, is_over: bool, is_own: &impl Fn(u64) -> bool) -> Seen {
        let stopped = |done: std::io::Result<()>| match done {
            Ok(()) => Seen::Stopped,
            Err(_) => Seen::Gone,
        };
        match wait(tid, libc::WNOHANG) {
            Event::Nothing => Seen::Runs,
            Event::Gone => Seen::Gone,
            Event::Stopped if is_over && !is_at_fault(tid) => Seen::Stopped,
            // It takes part in the stop of the process, or SIGCONT has come.
            Event::Stopped => {
                resume_to_call(tid, 0);
                Seen::Runs
            }
            Event::Signal(signal) => stopped(self.stop_again(tid, signal)),
            Event::Call => match self.step_back(tid, is_own) {
                Ok(true) => Seen::Stopped,
                Ok(false) => {
                    if is_over {
                        // The stop just seen stands for the one that was asked for.
                        interrupt(tid);
                    }
                    resume_to_call(tid, 0);
                    Seen::Runs
                }
                Err(_) => Seen::Gone,
            },
        }
    }
}
