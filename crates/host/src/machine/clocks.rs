//! The clocks that samples are taken by: those of the processors, or those of a program's threads.
//!
//! # Strategy
//! A processor's clock counts whatever runs there, which needs privilege. The clocks of a thread are inherited by all threads and processes that
//! it makes. The kernel gives an inherited clock a ring only on one processor, so there is one for each processor. A program that is started
//! inherits the clocks of the thread that starts it, where they never run: they begin with its first instruction. The threads
//! of a process that runs already get clocks of their own.
//! Waits come from events of the same threads, which have a second ring on each processor.
//!
//! # Invariants
//! * A processor has one ring, whatever number of clocks write to it.
//! * The rings are as large as the kernel allows, all alike.

use std::fs;
use std::io;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::permission::{refused, refused_processes};
use super::processors::processors;
use super::{MachineError, Subject};
use crate::kernel::perf::ring::{PAGE, Ring};
use crate::kernel::perf::{Attributes, Clock};

/// Pages of a ring where nothing is said: users may have a little more.
const PAGES: usize = 128;
/// Pages of all rings together, where the kernel allows as many.
const MOST_PAGES: usize = 8192;
const LEAST_PAGES: usize = 32;
/// Bytes of the stack in a record of a wait: the kernel writes as many into the ring, however deep the stack is.
const STACK_OF_WAIT: u32 = 16 << 10;
/// Bytes of a sample's record, without a stack.
const RECORD: usize = 192;

/// Samples of a processor, or waits there.
pub(super) struct Source {
    pub(super) cpu: u32,
    /// It reports waits.
    pub(super) waits: bool,
    /// The first has the ring.
    clocks: Vec<Clock>,
    pub(super) ring: Ring,
}

impl Source {
    pub(super) fn enable(&self) {
        self.clocks.iter().for_each(Clock::enable);
    }

    pub(super) fn disable(&self) {
        self.clocks.iter().for_each(Clock::disable);
    }

    /// Changes the time from one sample to the next. Waits are reported each.
    pub(super) fn set_period(&self, period: Duration) {
        if self.waits {
            return;
        }
        self.clocks
            .iter()
            .for_each(|clock| clock.set_period(period));
    }
}

/// The clocks of a recording.
pub(super) struct Clocks {
    pub(super) subject: Subject,
    pub(super) sources: Vec<Source>,
    /// Samples that a ring surely has room for.
    pub(super) room: usize,
    /// Samples have stacks.
    pub(super) stacks: bool,
    /// Waits are recorded too.
    pub(super) waits: bool,
    /// The kernel's time counts.
    pub(super) kernel: bool,
}

/// Opens clocks that do nothing yet. `stack`: bytes of the stack in a sample; 0: none. `waits`: waits are recorded too. `pages`: of each ring;
/// 0: as many as usual.
pub(super) fn open(
    subject: Subject,
    period: Duration,
    (stack, waits): (u32, bool),
    pages: usize,
) -> Result<Clocks, MachineError> {
    let kernel = sees_kernel(subject)?;
    let attributes = attributes(subject, period, stack, kernel);
    let reported = waits && kernel;
    let both = [
        Some(attributes),
        reported.then_some(attributes.of_waits(STACK_OF_WAIT)),
    ];
    let processors = processors();
    let rings_wanted = processors.len() * both.iter().flatten().count();
    let most = match (pages, stack) {
        (0, 0) => PAGES,
        // Nobody knows how many waits come.
        (0, _) => {
            let most = if reported {
                MOST_PAGES / 4
            } else {
                MOST_PAGES / 8
            };
            (MOST_PAGES / rings_wanted.max(1)).clamp(PAGES, most)
        }
        (pages, _) => pages,
    };
    let mut of_processors = Vec::new();
    for (waits, attributes) in [false, true].into_iter().zip(both) {
        let Some(attributes) = attributes else { break };
        for cpu in &processors {
            let clocks = of_subject(&attributes, *cpu, subject)?;
            if !clocks.is_empty() {
                of_processors.push(((*cpu, waits), clocks));
            }
        }
    }
    if of_processors.is_empty() {
        let gone = io::Error::from_raw_os_error(libc::ESRCH);
        return Err(MachineError::RefusedProcesses(refused_processes(&gone)));
    }
    let (rings, pages) = rings(&of_processors, most, pages != 0)?;
    let sources = of_processors.into_iter().zip(rings);
    Ok(Clocks {
        subject,
        sources: sources
            .map(|(((cpu, waits), clocks), ring)| Source {
                cpu,
                waits,
                clocks,
                ring,
            })
            .collect(),
        room: (pages * PAGE / 2 / (RECORD + 2 * stack.min(1) as usize * RECORD + stack as usize))
            .max(1),
        stacks: stack > 0,
        waits,
        kernel,
    })
}

/// The events of a subject on a processor; none where that was taken away, or the process is gone.
fn of_subject(
    attributes: &Attributes,
    cpu: u32,
    subject: Subject,
) -> Result<Vec<Clock>, MachineError> {
    match subject {
        Subject::Machine => of_processor(attributes, cpu),
        Subject::Program => Ok(of_thread(attributes, 0, cpu, subject)?
            .into_iter()
            .collect()),
        Subject::Process(pid) => of_process(attributes, pid, cpu),
    }
}

/// Attributes of the clocks.
pub(super) const fn attributes(
    subject: Subject,
    period: Duration,
    stack: u32,
    kernel: bool,
) -> Attributes {
    let plain = match subject {
        Subject::Machine => Attributes::of_machine(period),
        Subject::Program => Attributes::of_processes(period, kernel, true),
        Subject::Process(_) => Attributes::of_processes(period, kernel, false),
    };
    match stack {
        0 => plain,
        bytes => plain.with_stacks(bytes),
    }
}

/// Returns true if the kernel's time may be counted.
fn sees_kernel(subject: Subject) -> Result<bool, MachineError> {
    if subject == Subject::Machine {
        return Ok(true);
    }
    let trial = |kernel| {
        let attributes = Attributes::of_processes(Duration::from_secs(1), kernel, true);
        Clock::of_this_thread(&attributes)
    };
    match trial(true).or_else(|_| trial(false)) {
        Err(error) => Err(MachineError::RefusedProcesses(refused_processes(&error))),
        Ok(_) => Ok(trial(true).is_ok()),
    }
}

fn of_processor(attributes: &Attributes, cpu: u32) -> Result<Vec<Clock>, MachineError> {
    match Clock::of_processor(attributes, cpu as i32) {
        Ok(clock) => Ok(vec![clock]),
        // Taken away in the meantime.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Vec::new()),
        Err(error) => Err(MachineError::Refused(refused(&error))),
    }
}

/// The clock of a thread; `None`: the thread has ended, or the processor was taken away.
fn of_thread(
    attributes: &Attributes,
    tid: i32,
    cpu: u32,
    subject: Subject,
) -> Result<Option<Clock>, MachineError> {
    match Clock::of_thread_on(attributes, tid, cpu) {
        Ok(clock) => Ok(Some(clock)),
        Err(error) => match (error.raw_os_error(), subject) {
            (Some(libc::ENODEV), _) | (Some(libc::ESRCH), Subject::Process(_)) => Ok(None),
            _ => Err(MachineError::RefusedProcesses(refused_processes(&error))),
        },
    }
}

/// The clocks of the threads that a process has. Those that it makes later inherit them.
fn of_process(attributes: &Attributes, pid: i32, cpu: u32) -> Result<Vec<Clock>, MachineError> {
    let mut clocks: Vec<Clock> = Vec::new();
    more_descriptors();
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let threads = threads
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for tid in threads {
        let clock = of_thread(attributes, tid, cpu, Subject::Process(pid))?;
        clocks.extend(clock);
    }
    Ok(clocks)
}

/// Each thread has a descriptor for each processor: as many as are allowed are used.
fn more_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// A ring for each processor and kind of events, of so many pages or, unless that is what is wanted, fewer.
fn rings(
    of_processors: &[((u32, bool), Vec<Clock>)],
    most: usize,
    exactly: bool,
) -> Result<(Vec<Ring>, usize), MachineError> {
    let mut pages = most;
    loop {
        let all: io::Result<Vec<Ring>> = of_processors
            .iter()
            .map(|(_, clocks)| Ring::map(&clocks[0], pages))
            .collect();
        match all {
            Ok(rings) => {
                for (_, clocks) in of_processors {
                    for clock in &clocks[1..] {
                        clock.share(&clocks[0]).map_err(MachineError::Memory)?;
                    }
                }
                return Ok((rings, pages.next_power_of_two()));
            }
            Err(error) if exactly || pages / 2 < LEAST_PAGES => {
                return Err(MachineError::Memory(error));
            }
            Err(_) => pages /= 2,
        }
    }
}
