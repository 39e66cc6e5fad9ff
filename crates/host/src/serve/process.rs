//! One process under observation, from its first record to its profile.
//!
//! A process is here what runs one program: one that executes another is another afterwards, with the
//! same number. What its threads had recorded and not published when it ended is read up to their
//! write pointers, so nothing they delivered is lost, however it ended. The same is done while it runs
//! when its code is about to change, as records must be understood while the code that they name is
//! what it was; and early in its life whenever it is served, which is often then: so little is left to
//! fold when a short program ends.
// A descriptor for a process is a system call that the libraries lack.
#![allow(unsafe_code)]

mod profile;
mod queue;
mod turns;

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use trommel_profile::Profile;
use trommel_queue::{Detached, State};

use crate::channel::family::Family;
use crate::channel::shared::{Damaged, Shared};
use crate::fold::Folder;
use crate::fold::exact::Lost;
use crate::kernel::births::Births;
use crate::serve::audit::Audit;
use crate::serve::failure;
use crate::serve::progress::Rate;
use crate::serve::record::Engine;
use crate::serve::series::Series;
use crate::takeover::detach;
use crate::windows::Windows;
pub use profile::Ancestor;
use queue::Queue;
pub use turns::{Moment, Taken, Turns};

/// What stands for a compressor in profiles that are made of windows.
pub const WINDOWS: &str = "windows";
/// How long processes that ask for nothing are left alone.
pub const IDLE: Duration = Duration::from_millis(100);

/// Where a process comes from.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number, as the host sees it.
    pub pid: Pid,
    /// That of the process that started it; 0 for the first.
    pub parent: u32,
    /// Its program and arguments.
    pub command: Vec<Vec<u8>>,
}

impl Identity {
    /// Of the process that a run starts with, whose arguments are these.
    pub fn first(pid: Pid, arguments: &[OsString]) -> Self {
        Self {
            pid,
            parent: 0,
            command: arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
        }
    }
}

/// A process that is observed.
pub struct Process {
    /// Who it is.
    pub identity: Identity,
    /// What it shares with us.
    pub shared: Shared,
    folder: Folder,
    queue: Queue,
    served: Served,
    clock: Instant,
    /// When that began which its profile is to tell of.
    since: (SystemTime, Instant),
    /// What is written is folded now, published or not.
    hurried: bool,
    /// Tells of its end.
    handle: Option<OwnedFd>,
    /// How it was found to have ended.
    pub end: End,
    /// It is the first.
    first: bool,
    /// What its engine does over time, if that was asked for.
    series: Option<Series>,
    /// What part of its time is its own work, if that is wanted.
    audit: Option<Audit>,
    windows: Option<Windows>,
    /// When and why it was attached, and when it was detached.
    turns: Turns,
    /// When the run began.
    run: Instant,
}

/// How a process ends for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// It goes on.
    #[default]
    No,
    /// It has ended, with a status as in [`Run::status`].
    Ended(Option<i32>),
    /// It is another program now, which is observed.
    Exec,
    /// It was detached, and is under control again: as another.
    Back,
    /// It was detached, and stays native.
    Stays,
    /// It goes on without us.
    Left,
}

#[derive(Default)]
struct Served {
    bytes: u64,
    detach: Vec<String>,
    failed: bool,
    /// The runtime has failed, and that was told.
    told: bool,
    /// Children run natively that should not, and that was told.
    children_told: bool,
    stream_failed: bool,
    /// Rarely values are dropped, and that was told.
    drops: bool,
}

/// What a process came to.
pub struct Done {
    /// Its profile.
    pub profile: Profile,
    /// What its engine did.
    pub engine: Engine,
    /// Whether all of its stream, if one was wanted, is in its file.
    pub stream_whole: bool,
}

impl Process {
    /// A process that starts.
    pub fn new(
        identity: Identity,
        shared: Shared,
        folder: Folder,
        first: bool,
        series: Option<Series>,
        audit: Option<Audit>,
        windows: Option<Windows>,
    ) -> Self {
        Self {
            handle: handle(identity.pid),
            identity,
            shared,
            folder,
            queue: Queue::default(),
            served: Served::default(),
            clock: Instant::now(),
            since: (SystemTime::now(), Instant::now()),
            hurried: false,
            end: End::No,
            first,
            series,
            audit,
            windows,
            turns: Turns::default(),
            run: Instant::now(),
        }
    }

    /// Notes why it has just been attached, in a run that began at `run`.
    pub fn taken(mut self, run: Instant, why: Taken) -> Self {
        self.run = run;
        self.turns.taken = Some((why, Moment::now(run, self.identity.pid)));
        self
    }

    /// It could not be taken back.
    pub fn stays(&mut self, why: &str) {
        let words = format!("it could not be taken back: {why}");
        self.served.detach.push(words);
        self.end = End::Stays;
    }

    /// User time that it lost under control since that paid last, as far as is known.
    pub fn lost(&self) -> Duration {
        self.audit.as_ref().map_or(Duration::ZERO, Audit::lost)
    }

    /// Begins windows, if there are to be any. `host`: our own CPU time so far; `births`: whether there may be new threads.
    pub fn pace(
        &mut self,
        host: impl FnOnce() -> Duration,
        births: &mut Births,
        notice: &mut dyn FnMut(&str),
    ) {
        if self.end != End::No {
            return;
        }
        let Some(windows) = &mut self.windows else {
            return;
        };
        if let Err(error) = windows.look(&self.shared, host, births) {
            notice(&format!("no windows: {error}"));
        }
    }

    /// The time between its windows, while they are to go on.
    pub fn period_of_windows(&self) -> Option<Duration> {
        let goes_on = self.end == End::No;
        self.windows.as_ref().filter(|_| goes_on)?.period()
    }

    /// From one look at its windows to the next.
    pub fn often(&self) -> Option<Duration> {
        self.windows.as_ref()?.often()
    }

    /// Whether it does nothing, as far as is known by looking at its windows.
    pub fn sleeps(&self) -> bool {
        self.windows.as_ref().is_some_and(Windows::are_idle)
    }

    /// No window begins any more.
    pub fn stop_windows(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.stop(&self.shared);
        }
    }

    /// The family of its file.
    pub fn family(&self) -> &std::rc::Rc<Family> {
        self.shared.pages().family()
    }

    /// Its threads so far; 0 where there was only one.
    fn threads(&self) -> u64 {
        let started = u64::from(self.shared.control().threads.load(Relaxed));
        if started > 1 { started } else { 0 }
    }

    /// Whether the stream has all the events that were wanted.
    pub fn is_full(&self) -> bool {
        self.folder.is_full()
    }

    /// Whether it has said that it ends, and only the kernel is busy with it.
    pub fn is_ending(&self) -> bool {
        self.shared.is_ending()
    }

    /// Whether it runs under control, as far as it has said.
    pub fn is_controlled(&self) -> bool {
        self.shared.state() == Some(State::Controlled)
    }

    /// Whether it was detached, as far as it has said.
    pub fn is_detach(&self) -> bool {
        self.shared.state() == Some(State::Native)
    }

    /// Whether there is nothing to do for it.
    pub fn is_idle(&self) -> bool {
        self.shared.is_idle(self.queue.taken) && !self.is_ending()
    }

    /// How long it may be before it is served again, if it does not ask. What looks at windows fills little.
    pub fn pause(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_micros(200);
        let age = self.clock.elapsed();
        match self.windows.as_ref().and_then(Windows::often) {
            None => {
                let longest = self.folder.converge_pause().unwrap_or(IDLE);
                (age / 16).clamp(SHORTEST, longest)
            }
            Some(often) => (age / 4).clamp(SHORTEST * 4, often),
        }
    }

    /// What it got on by natively, as in [`Audit::compare_with`].
    pub(crate) fn compare_with(&mut self, native: Rate, times: u32, prove: bool) {
        if let Some(audit) = &mut self.audit {
            audit.compare_with(native, times, prove);
        }
    }

    /// How it got on under control, as in [`Audit::under_control`].
    pub(crate) fn under_control(&self) -> Option<(Rate, u32)> {
        self.audit.as_ref()?.under_control()
    }

    /// How long it may be before its samples are looked at.
    pub fn audit_pause(&self) -> Duration {
        match &self.audit {
            Some(audit) if !self.is_detach() => audit.pause(),
            _ => Duration::MAX,
        }
    }

    /// What it says that it exits with.
    pub fn exit_status(&self) -> Option<i32> {
        let said = self.shared.control().exit_status.load(Relaxed);
        said.checked_sub(1).map(|status| (status & 0xff) as i32)
    }

    /// Finds out whether it is there.
    pub fn look(&mut self) {
        let gone = match &self.handle {
            Some(handle) => {
                let mut handles = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
                poll(&mut handles, PollTimeout::ZERO).is_ok_and(|n| n > 0)
            }
            // Number 0 is nobody's.
            None => {
                self.identity.pid.as_raw() == 0
                    || nix::sys::signal::kill(self.identity.pid, None).is_err()
            }
        };
        if gone && self.end == End::No {
            self.end = End::Ended(self.exit_status().or_else(|| self.status()));
        }
    }

    /// The status with which it has ended, from the kernel.
    fn status(&self) -> Option<i32> {
        let reaped = self.handle.as_ref().and_then(reaped_with);
        if reaped.is_some() {
            return reaped.map(said_by);
        }
        let stat = std::fs::read(format!("/proc/{}/stat", self.identity.pid)).ok()?;
        let end = stat.iter().rposition(|&c| c == b')')?;
        let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let mut words = rest.split_ascii_whitespace();
        if !matches!(words.next(), Some("Z" | "X")) {
            return None;
        }
        words.last()?.parse().ok().map(said_by)
    }

    /// Does what there is to do now.
    pub fn serve(&mut self, notice: &mut dyn FnMut(&str)) {
        let over = self.end != End::No;
        if let Some(series) = &mut self.series {
            series.look(self.identity.pid, self.shared.control());
        }
        if let Some(audit) = &mut self.audit
            && self.shared.state() == Some(State::Controlled)
            && audit.look(self.shared.control())
        {
            // Refused: who traces it keeps it as it is.
            let _ = detach::fetch(self.identity.pid);
        }
        let early = self.pause() < IDLE || self.hurried || self.folder.converge_pause().is_some();
        let Self {
            shared,
            folder,
            queue,
            served,
            ..
        } = self;
        let asked = shared.settle_asked();
        let interrupts = shared.interrupts_asked();
        // All of its messages are published.
        let round = shared.prefetch().rounds.load(Acquire);
        // No further: threads may publish as fast as this folds.
        let until = shared.published_count();
        while queue.taken < until && queue.take(shared, over, folder, served, notice) {
            if folder.is_full() && !over {
                break;
            }
        }
        if !over && shared.state() == Some(State::Controlled) {
            folder.answer(shared, round);
        }
        if over || asked.is_some() || interrupts.is_some() || early {
            // What was not published, or only just: for each thread the chunk it has, or had when it
            // asked or ended.
            for chunk in shared.oldest(queue.taken) {
                if let Some(filled) = shared.filled(chunk) {
                    queue.rest(shared, filled, folder, served, notice);
                }
            }
        }
        match shared.state() {
            Some(State::Controlled) if !over => folder.converge(shared),
            Some(State::Fresh) => {}
            _ => folder.hush(),
        }
        if let Some(asked) = interrupts {
            shared.interrupts_answered(asked);
        }
        let mut done = Ok(());
        if let Some(asked) = asked {
            done = folder.asked(shared);
            shared.settled(asked);
        }
        report(done, folder, served, notice);
        let (identity, first) = (&self.identity, self.first);
        let who = || match first {
            true => "the program".to_owned(),
            false => identity.to_string(),
        };
        let control = shared.control();
        if !served.children_told
            && control.children.load(Relaxed) != 0
            && control.follow.load(Relaxed) != 0
        {
            served.children_told = true;
            notice(&format!(
                "not observed: children of {}, for which there is no room, run natively",
                who()
            ));
        }
        if let Some(words) = detach(shared)
            && served.detach.is_empty()
        {
            self.turns.detach = Some(Moment::now(self.run, self.identity.pid));
            let mut words = words;
            if let Some(audit) = &mut self.audit {
                audit.stop();
                if audit.is_proving() {
                    words = "it is found out how fast it is natively".to_owned();
                }
            }
            // Nothing is wrong with that, and nothing was to be observed.
            if !is_wanted(shared) {
                let who = who();
                notice(&format!(
                    "not observed from here on: {who} runs natively because {words}"
                ));
            }
            served.detach.push(words);
        }
        if !served.told
            && let Some(words) = failure::words(shared)
        {
            notice(&words);
            served.told = true;
        }
        if !served.drops && folder.lost() != Lost::default() {
            served.drops = true;
            notice(&format!(
                "the values of {} take all the memory that counting may have: rare ones are dropped from here on. \
                 --memory gives more, -c 'H[P256]2048+A16' needs less",
                if self.first {
                    "the program".to_owned()
                } else {
                    self.identity.to_string()
                },
            ));
        }
        if let Some(why) = folder.news_of_custom() {
            notice(&format!(
                "the customisation module has FAILED {why}; the program goes on"
            ));
        }
        if folder.is_unobserved() {
            notice(&format!(
                "--only selects more than {} ranges of code: what comes after them is NOT observed; record with -c exact, \
                 which has no such limit",
                crate::ask::queries::RANGES
            ));
        }
        if folder.is_overflowing() {
            notice(&format!(
                "code has more than {} ranges with profile tags: what comes after them has tag 0",
                crate::ask::queries::RANGES
            ));
        }
        if over {
            let done = folder.end(shared);
            report(done, folder, served, notice);
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.command.first().map(|n| String::from_utf8_lossy(n));
        write!(
            f,
            "process {} ({})",
            self.pid,
            name.as_deref().unwrap_or("?")
        )
    }
}

/// What `wait` would have said, as in [`Run::status`].
fn said_by(status: i32) -> i32 {
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}

/// What a process was reaped with, by its parent. Since Linux 6.15.
fn reaped_with(handle: &OwnedFd) -> Option<i32> {
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    const PIDFD_INFO_EXIT: u64 = 8;
    /// `struct pidfd_info`, its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<Info>() == 64);
    let mut info = Info {
        mask: PIDFD_INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: the kernel writes a structure of the size that is part of the request.
    let done = unsafe { libc::ioctl(handle.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// A descriptor that tells of the end of a process.
fn handle(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: no memory is passed; the descriptor is checked before it is owned.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    // SAFETY: just made, nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Tells, once, what went wrong.
fn report(
    done: Result<(), Damaged>,
    folder: &mut Folder,
    served: &mut Served,
    notice: &mut dyn FnMut(&str),
) {
    if let Err(error) = done
        && !std::mem::replace(&mut served.failed, true)
    {
        notice(&format!("the profile is incomplete: {error}"));
    }
    if let Some(error) = folder.stream_error() {
        served.stream_failed = true;
        notice(&format!(
            "{error}; the stream ends there, the profile does not"
        ));
    }
}

/// It was detached as control does not pay, or as it asked for that.
fn is_wanted(shared: &Shared) -> bool {
    let why = shared.control().detach.load(Relaxed);
    [Detached::BailOut, Detached::Asked]
        .map(|w| w as u32)
        .contains(&why)
}

fn detach(shared: &Shared) -> Option<String> {
    let control = shared.control();
    if shared.state() != Some(State::Native) {
        return None;
    }
    let why = Detached::from_number(control.detach.load(Relaxed));
    let at = control.detach_pc.load(Relaxed);
    Some(format!(
        "{} (at {at:#x})",
        why.map_or("for a reason it did not report", Detached::words)
    ))
}
