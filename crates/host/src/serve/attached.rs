//! A program recorded that runs already, until it ends or is detached.
//!
//! The keeper has the program under control (`keeper.rs`); this side serves the queue, also while
//! the keeper detaches the program, as its threads may wait for room. What they had recorded
//! and not published is read when all are native. Processes that the program starts run natively.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::State;

use crate::channel::bell;
use crate::channel::family::Family;
use crate::channel::pids;
use crate::channel::shared::Shared;
use crate::kernel::clocks;
use crate::kernel::interrupt::Guard;
use crate::ptrace::ended::Ended;
use crate::serve::epochs::Epochs;
use crate::serve::failure::{NotAttached, RecordError};
use crate::serve::identity::Identity;
use crate::serve::news::News;
use crate::serve::options::RecordOptions;
use crate::serve::process::bursts::Line;
use crate::serve::recording::Recording;
use crate::serve::session::Session;
use crate::takeover::detach::is_in;
use crate::takeover::keeper::{Inbox, Keeper, Message, Parting};

/// Attaches to a running process, collects its events until it ends, `guard` has been
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
    notice: &mut dyn FnMut(News),
    epochs: Option<Epochs<'_>>,
) -> Result<Recording, RecordError> {
    let pid = Pid::from_raw(pid);
    let stream = options.stream()?;
    let cpu_before = clocks::cpu_of(pid).unwrap_or_default();
    let mut said = Vec::new();
    let mut no_others = |_, _| ();
    let toll = options.toll()?;
    let mut session = Session::new(options, toll, notice, &mut no_others)?;
    session.in_epochs(epochs.map(Epochs::shorter));
    let terms = session.terms();
    let mut made = None;
    let prepare = |file: OwnedFd| -> io::Result<()> {
        let family = Family::of(file)?;
        let shared = Shared::first(&family, terms)?;
        shared.set_foreign(pids::are_other(pid));
        shared.warm();
        made = Some(shared);
        Ok(())
    };
    let failed = |why| RecordError::NotAttached {
        pid: pid.as_raw(),
        why: NotAttached::Failed { why },
    };
    let keeper = Keeper::begin(pid, options.length_of_bursts(), prepare).map_err(failed)?;
    let keeper = Rc::new(keeper);
    let inbox = Inbox::default();
    let Some(shared) = made else {
        return Err(failed("its memory was not made".to_owned()));
    };
    let clock = session.begins();
    let watch = bell::watch();
    let identity = Identity::first(pid, &options.arguments);
    let mut hold = Hold {
        pid,
        keeper: &keeper,
        inbox: &inbox,
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
    session.finds_running();
    session.first(identity, shared, stream);
    if options.bursts {
        let line = Line {
            keeper: Rc::clone(&keeper),
            inbox: Some(Rc::clone(&inbox)),
        };
        session.in_bursts(line, false);
    }
    session.serve(Some(&mut parted));
    drop(watch);
    let recording = session.conclude();
    said.into_iter()
        .for_each(|why| notice(News::NotDetached(why)));
    recording
}

/// State of the wait for the end of control.
struct Hold<'a> {
    pid: Pid,
    keeper: &'a Keeper,
    /// News of bursts are put there.
    inbox: &'a Inbox,
    guard: &'a Guard,
    until: Option<Instant>,
    asked: bool,
    /// CPU time that the program has used, when that was last asked.
    cpu: Duration,
    said: &'a mut Vec<String>,
}

impl Hold<'_> {
    /// Asks for the end of control when it is time, when no window begins any more: `stop`. Returns true if it has come.
    fn look(&mut self, state: Option<State>, stop: &mut dyn FnMut()) -> Option<()> {
        if let Some(cpu) = clocks::cpu_of(self.pid) {
            self.cpu = cpu;
        }
        while let Some(news) = self.keeper.news(Duration::ZERO) {
            let parting = match news {
                Message::Parted(parting) => parting,
                burst => {
                    self.inbox.borrow_mut().push(burst);
                    continue;
                }
            };
            if let Parting::Failed(why) = parting {
                self.said.push(why);
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
