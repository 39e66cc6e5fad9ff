//! The whole machine, the kernel included, or a program with all that comes of it, by samples of clocks.
//!
//! # Problem
//! Windows need a program that may be attached. The kernel may not, nor may programs of other users or those that
//! use what the runtime cannot keep (`docs/limits.md`).
//!
//! # Strategy
//! A perf event of the CPU clock on each processor interrupts whatever runs there, and records where, in which thread, and with what in the
//! registers. No hardware counter is needed. A few times a second all rings are read, and their records put in the order of their times: what
//! processes map, execute and end is then told before the samples that depend on it. Each sample counts for its place
//! ([`processes`]), and, where the bytes of its instruction can be read, so do the values that this is about to read ([`operands`], [`found`]).
//! Between two readings the clock's period is drawn anew, from seven to nine eighths of its mean, so that nothing keeps step with
//! it. What it costs is measured, and a budget kept ([`control`]).
//!
//! # Invariants
//! * Records wait until all that is older must have come (`session.rs`).
//! * What is lost is counted: by the kernel where a ring is full, here where nobody knows what a process has at an address.
//! * No process's memory is read: stacks are in the samples, but for waits that the kernel does not report ([`looks`]). Nothing that a process has named is opened before it is known what it is.
//!
//! # What samples do not tell
//! The clock is an interrupt. Where the kernel lets none come it waits, and finds what runs when they come again: time of such
//! code is told of the code after it. Samples in functions that let them come again are counted ([`lets_interrupts_come`]).
//!
//! **I25 (no foreign memory).** With `--all` no process's memory is read. A path that a process has named is opened only if it is the regular file that was mapped.

mod calls;
mod clocks;
mod control;
mod deferred;
mod ended;
mod files;
mod found;
mod looks;
mod operands;
mod permission;
mod processes;
mod processors;
mod running;
mod session;
mod stacks;
mod waits;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_profile::Profile;

use crate::kernel::inherited::Inherited;
use crate::kernel::interrupt::Guard;
use crate::windows::toll;
use control::Control;
pub use deferred::lets_interrupts_come;
use permission::refused;
pub use permission::{Refused, kernel_is_readable, permitted};
use processors::processors;
use session::{Session, now, period};

/// Subject of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Subject {
    /// Whatever runs on the machine.
    #[default]
    Machine,
    /// The program that is started, and all that comes of it.
    Program,
    /// A process that runs, and all that comes of it.
    Process(i32),
}

/// Bytes of a program's stack that a sample has: of most programs, all there is.
const STACK: u32 = 32 << 10;

/// Options of a recording.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Subject of the recording.
    pub subject: Subject,
    /// Samples have call paths.
    pub stacks: bool,
    /// Waits of threads are recorded too, which needs `stacks`.
    pub waits: bool,
    /// Budget in percent of all processors' time, where no rate is given.
    pub budget: f64,
    /// Samples in a second of each processor.
    pub rate: Option<f64>,
    /// Pages of each processor's ring; 0: as many as usual.
    pub pages: usize,
    /// For how long; `None`: until it is interrupted, or the program ends.
    pub duration: Option<Duration>,
    /// A program to start when samples are taken, natively: its file, and its arguments with its name before.
    pub program: Option<(std::path::PathBuf, Vec<OsString>)>,
    /// State that this program is to find.
    pub inherited: Inherited,
}

/// Reasons why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The kernel does not allow it.
    #[error("the kernel refuses samples of the whole machine: {0}")]
    Refused(Refused),
    /// The kernel does not allow it for a program or process.
    #[error("the kernel refuses samples of the program: {0}")]
    RefusedProcesses(Refused),
    /// There is no memory for rings.
    #[error(
        "the kernel gives no memory for samples: {0}; raise `sysctl kernel.perf_event_mlock_kb`, or record as root"
    )]
    Memory(io::Error),
    /// The program cannot be started.
    #[error("{program}: cannot be started: {source}")]
    NotStarted {
        /// Its file.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recording {
    /// The machine, then each process that a sample found, in the order in which they ended.
    pub profiles: Vec<Profile>,
    /// Exit status of the program, if there was one.
    pub ended: Option<ExitStatus>,
}

/// Receiver of profiles while a recording goes on.
pub struct Every<'a> {
    length: Duration,
    give: &'a mut dyn FnMut(Vec<Profile>),
}

impl<'a> Every<'a> {
    /// Makes one. `give` gets what a recording would have, each time after so long. What comes after the last time is the recording's own.
    pub fn new(length: Duration, give: &'a mut dyn FnMut(Vec<Profile>)) -> Self {
        Self { length, give }
    }
}

/// Records the machine.
///
/// # Errors
/// The kernel does not allow it, or the program cannot be started.
pub fn record(options: &Options, guard: &Guard) -> Result<Recording, MachineError> {
    record_in_pieces(options, guard, None)
}

/// Records as [`record`] does, and gives profiles away meanwhile.
///
/// # Errors
/// The same.
pub fn record_every(
    options: &Options,
    guard: &Guard,
    every: Every<'_>,
) -> Result<Recording, MachineError> {
    record_in_pieces(options, guard, Some(every))
}

fn record_in_pieces(
    options: &Options,
    guard: &Guard,
    every: Option<Every<'_>>,
) -> Result<Recording, MachineError> {
    let stack = if options.stacks { STACK } else { 0 };
    let toll = match options.subject {
        Subject::Machine => {
            permitted().map_err(MachineError::Refused)?;
            toll::of_samples(stack).map_err(|error| MachineError::Refused(refused(&error)))?
        }
        Subject::Program | Subject::Process(_) => toll::of_own_samples(stack),
    };
    let highest = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let highest = highest.ok().and_then(|text| text.trim().parse().ok());
    let control = Control::new(
        options.budget,
        options.rate,
        processors().len(),
        toll,
        highest.unwrap_or(f64::MAX),
    );
    let mut random = SplitMix64::new(now());
    let period = period(control.rate(), &mut random);
    let clocks = clocks::open(
        options.subject,
        Duration::from_nanos(period),
        (stack, options.waits),
        options.pages,
    )?;
    let mut session = Session::new(clocks, control, (toll, period), random);
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    session.begin();
    let mut child = match &options.program {
        None => None,
        Some((program, arguments)) => Some(start(program, arguments, options.inherited, guard)?),
    };
    let mut ended = session.run(child.as_mut(), options.duration, guard, every);
    let mut profiles = session.end();
    if let (Some(child), Some((_, arguments))) = (&child, &options.program) {
        name(&mut profiles, child.id(), arguments);
    }
    if let (Some(child), None) = (&mut child, ended) {
        // It goes on, and its end is ours.
        ended = child.wait().ok();
        guard.ended();
    }
    if let Some(first) = profiles.first_mut() {
        first.run.started = started.map_or(0, |time| time.as_nanos() as u64);
        first.run.status = ended.and_then(|status| {
            let signal = status.signal().map(|signal| -signal);
            status.code().or(signal)
        });
        if let Some((_, arguments)) = &options.program {
            first.command = arguments.iter().map(|a| a.as_bytes().to_vec()).collect();
        }
    }
    Ok(Recording { profiles, ended })
}

/// Gives the program's process its command, should it have ended before it could be asked.
fn name(profiles: &mut [Profile], pid: u32, arguments: &[OsString]) {
    let own = |profile: &&mut Profile| {
        let unknown = |command: &[Vec<u8>]| matches!(command, [name] if name.starts_with(b"["));
        profile.origin.pid == pid && !profile.origin.exec && unknown(&profile.command)
    };
    for profile in profiles.iter_mut().filter(own) {
        profile.command = arguments.iter().map(|a| a.as_bytes().to_vec()).collect();
    }
}

/// Starts the program as it is.
#[allow(unsafe_code)] // reason: what runs between fork and exec.
fn start(
    program: &Path,
    arguments: &[OsString],
    inherited: Inherited,
    guard: &Guard,
) -> Result<Child, MachineError> {
    let mut command = Command::new(program);
    let mut words = arguments.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    let (actions, inherited) = (guard.actions(), inherited);
    let restore = move || {
        actions.restore();
        inherited.restore(false);
        Ok(())
    };
    // SAFETY: makes system calls only, which may be made there; nothing is allocated or locked.
    unsafe { command.pre_exec(restore) };
    let failed = |source| MachineError::NotStarted {
        program: program.display().to_string(),
        source,
    };
    guard.expect_program();
    // No signal may come before its program is named.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let before = before.map_err(|e| failed(e.into()))?;
    let child = command.spawn();
    if let Ok(child) = &child {
        guard.program(Pid::from_raw(child.id() as i32));
    }
    let _ = before.thread_set_mask();
    child.map_err(failed)
}
