//! A program recorded that runs already, until it ends or is detached.
//!
//! The keeper has the program under control (`keeper.rs`); this side serves the queue, also while
//! the keeper detaches the program, as its threads may wait for room. What they had recorded
//! and not published is read when all are native. Processes that the program starts run natively.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::State;

use super::{RecordError, RecordOptions, Recording, stream_for, toll};
use crate::channel::bell;
use crate::channel::family::Family;
use crate::channel::shared::Shared;
use crate::kernel::interrupt::Guard;
use crate::kernel::running::{self, Refusal};
use crate::ptrace::ended::Ended;
use crate::serve::process::Identity;
use crate::serve::session::{Epochs, Session};
use crate::takeover::detach::is_in;
use crate::takeover::keeper::{Keeper, Parting};

/// Why a running process was not recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAttached {
    /// It cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be.
    #[error("{why}{}", hint(.why))]
    Failed {
        /// In words.
        why: String,
    },
}

/// What to do about a refusal of the kernel's.
fn hint(why: &str) -> &'static str {
    match why.contains("may not be traced") {
        true => {
            "; be the process's user, or root; sysctl kernel.yama.ptrace_scope must be 0, or give this command CAP_SYS_PTRACE; `trommel doctor` tells which"
        }
        false => "",
    }
}

/// Takes a running process under control, collects its events until it ends, `guard` has been
/// interrupted or the time is over, and detaches it. With `epochs` the recording's profile is of the last of them. Must be called while this process has one
/// thread.
///
/// # Errors
/// Why there is nothing to record; the process is as it was.
pub fn record_running(
    options: &RecordOptions,
    pid: i32,
    duration: Option<Duration>,
    guard: &Guard,
    notice: &mut dyn FnMut(&str),
    epochs: Option<Epochs<'_>>,
) -> Result<Recording, RecordError> {
    let pid = Pid::from_raw(pid);
    let stream = stream_for(options)?;
    let cpu_before = running::cpu_time(pid).unwrap_or_default();
    let mut said = Vec::new();
    let mut no_others = |_, _| ();
    let toll = toll(options)?;
    let mut session = Session::new(options, toll, notice, &mut no_others)?;
    session.in_epochs(epochs.map(Epochs::shorter));
    let terms = session.terms();
    let mut made = None;
    let prepare = |file: OwnedFd| -> io::Result<()> {
        let family = Family::of(file)?;
        let shared = Shared::first(&family, terms)?;
        shared.warm();
        made = Some(shared);
        Ok(())
    };
    let failed = |why| RecordError::NotAttached {
        pid: pid.as_raw(),
        why: NotAttached::Failed { why },
    };
    let keeper = Keeper::start(pid, prepare).map_err(failed)?;
    let Some(shared) = made else {
        return Err(failed("its memory was not made".to_owned()));
    };
    let clock = session.begins();
    let watch = bell::watch();
    let identity = Identity::first(pid, &options.arguments);
    let mut hold = Hold {
        pid,
        keeper: &keeper,
        guard,
        until: duration.map(|d| clock + d),
        asked: false,
        cpu: cpu_before,
        said: &mut said,
    };
    let mut parted = |state: Option<State>, stop: &mut dyn FnMut()| {
        let ended = hold.look(state, stop);
        ended.map(|()| Ended {
            status: None,
            cpu: hold.cpu.saturating_sub(cpu_before),
        })
    };
    let stream = stream.map(|(file, limit)| (file.begin(), limit));
    session.first(identity, shared, stream);
    session.serve(Some(&mut parted));
    drop(watch);
    let recording = session.conclude();
    said.iter().for_each(|words| notice(words));
    recording
}

/// When control ends.
struct Hold<'a> {
    pid: Pid,
    keeper: &'a Keeper,
    guard: &'a Guard,
    until: Option<Instant>,
    asked: bool,
    /// CPU time that the program has used, when that was last asked.
    cpu: Duration,
    said: &'a mut Vec<String>,
}

impl Hold<'_> {
    /// Asks for the end of control when it is time, when no window begins any more: `stop`. Whether it has come.
    fn look(&mut self, state: Option<State>, stop: &mut dyn FnMut()) -> Option<()> {
        if let Some(cpu) = running::cpu_time(self.pid) {
            self.cpu = cpu;
        }
        if let Some(parting) = self.keeper.parted(Duration::ZERO) {
            if let Parting::Failed(why) = parting {
                let words = format!("it could not be detached cleanly: {why}");
                self.said.push(words);
            }
            return Some(());
        }
        let is_time = self.guard.asked()
            || self.until.is_some_and(|until| Instant::now() >= until)
            || state == Some(State::Native)
            || state == Some(State::Exec) && !is_in(self.pid);
        if is_time && !self.asked {
            self.asked = true;
            stop();
            self.keeper.detach();
        }
        None
    }
}
