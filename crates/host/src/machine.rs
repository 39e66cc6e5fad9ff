//! The whole machine, the kernel included, by samples of the processors' clocks.
//!
//! # Problem
//! Windows need a program that may be taken under control. The kernel may not, nor may programs of other users or those that
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
//! * Records wait until all that is older must have come ([`SETTLED`]).
//! * What is lost is counted: by the kernel where a ring is full, here where nobody knows what a process has at an address.
//! * No process's memory is read, and nothing that a process has named is opened before it is known what it is.
//!
//! # What samples do not tell
//! The clock is an interrupt. Where the kernel lets none come it waits, and finds what runs when they come again: time of such
//! code is told of the code behind it. Samples in functions that let them come again are counted ([`lets_interrupts_come`]).

mod control;
mod ended;
mod files;
mod found;
mod operands;
mod processes;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

use iced_x86::InstructionInfoFactory;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_profile::samples::{Function, Machine, Samples};
use trommel_profile::{Module, Origin, Profile};
use trommel_symbol::{Core, KERNEL, Kernel, kernel_build_id};
use trommel_tuple::ModuleId;

use crate::interrupt::Guard;
use crate::modules::Images;
use crate::perf::records::{Mode, Record, Records, Sample, What};
use crate::perf::ring::{PAGE, Ring};
use crate::perf::{Attributes, Clock};
use crate::toll;
use control::Control;
use ended::Ended;
use files::Files;
use found::Draws;
use processes::{Process, Shared};

/// From one reading of the rings to the next.
const OFTEN: Duration = Duration::from_millis(100);
/// Pages of a ring where nothing is said: what users may have is a little more.
const PAGES: usize = 128;
/// Samples that such a ring surely has room for.
const ROOM: usize = PAGES * PAGE / 2 / RECORD;
/// Bytes of a sample's record.
const RECORD: usize = 192;
/// How long a record may take from its time until it is in a ring.
const SETTLED: Duration = Duration::from_millis(10);
/// The kernel's number of processes that have none here: in other namespaces, or gone.
const NOBODY: u32 = u32::MAX;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What may be paid, in percent of all processors' time, where no rate is given.
    pub budget: f64,
    /// Samples in a second of each processor.
    pub rate: Option<f64>,
    /// Pages of each processor's ring; 0: as many as usual.
    pub pages: usize,
    /// For how long; `None`: until it is interrupted, or the program ends.
    pub duration: Option<Duration>,
    /// A program to start when samples are taken, natively: its file, and its arguments with its name in front.
    pub program: Option<(std::path::PathBuf, Vec<OsString>)>,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The kernel does not allow it.
    #[error("the kernel refuses samples of the whole machine: {0}")]
    Refused(Refused),
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

/// What is missing for samples of the whole machine, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{found}; {fix}")]
pub struct Refused {
    /// What was found.
    pub found: String,
    /// What to do.
    pub fix: &'static str,
}

/// What became of a recording.
#[derive(Debug)]
pub struct Recording {
    /// The machine, then each process that a sample found, in the order in which they ended.
    pub profiles: Vec<Profile>,
    /// How the program ended, if there was one.
    pub ended: Option<ExitStatus>,
}

/// Whether samples of the whole machine can be taken.
///
/// # Errors
/// What is missing.
pub fn permitted() -> Result<(), Refused> {
    let attributes = Attributes::of_machine(OFTEN);
    let first = processors().first().copied().unwrap_or(0);
    let clock = Clock::of_processor(&attributes, first as i32);
    clock.map(drop).map_err(|error| refused(&error))
}

/// What of the kernel's code can be told: whether its functions have addresses, and whether their bytes can be read.
pub fn kernel_is_readable() -> (bool, bool) {
    (read_kernel().is_some(), Core::open(Path::new(CORE)).is_ok())
}

const CORE: &str = "/proc/kcore";

fn read_kernel() -> Option<Kernel> {
    Kernel::parse(fs::read_to_string("/proc/kallsyms").ok()?)
}

fn refused(error: &io::Error) -> Refused {
    /// Bits of `CapEff`.
    const PERFMON: u32 = 38;
    const ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = (status.lines())
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level = level.as_deref().map_or("not there", str::trim);
    let capable = held & (1 << PERFMON | 1 << ADMIN) != 0;
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if !capable => Refused {
            found: format!(
                "{error}: they need CAP_PERFMON, or kernel.perf_event_paranoid at -1, and it is {level}"
            ),
            fix: "be root, give the capability (setcap cap_perfmon,cap_syslog,cap_sys_ptrace+ep FILE), or \
                  sysctl kernel.perf_event_paranoid=-1",
        },
        Some(libc::EPERM | libc::EACCES) => Refused {
            found: format!(
                "{error}, although this process has CAP_PERFMON or CAP_SYS_ADMIN: a container's seccomp profile or user \
                 namespace, or the kernel's lockdown, is in the way (perf_event_paranoid is {level})"
            ),
            fix: "allow perf_event_open in the container's seccomp profile and give it CAP_PERFMON, or record outside of it",
        },
        Some(libc::ENOSYS) => Refused {
            found: format!("{error}: this kernel has no perf events, or hides them"),
            fix: "use a kernel with CONFIG_PERF_EVENTS, outside of sandboxes",
        },
        _ => Refused {
            found: error.to_string(),
            fix: "Linux 4.1 or later on x86-64 has what is needed",
        },
    }
}

/// The processors that are there.
fn processors() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let all = numbers(&text);
    match all.is_empty() {
        true => vec![0],
        false => all,
    }
}

/// As in `0-3,6`.
fn numbers(text: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<u32>(), high.parse::<u32>()) {
            all.extend(low..=high.min(low.saturating_add(MOST)));
        }
    }
    all
}

/// Whether a function of the kernel's lets interrupts come that have waited: samples in it are mostly of those.
pub fn lets_interrupts_come(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "exc_page_fault",
        "do_syscall_64",
        "do_int80_emulation",
        "syscall_enter_from_user_mode",
        "syscall_exit_to_user_mode",
        "exit_to_user_mode_loop",
        "exit_to_user_mode_prepare",
        "irqentry_exit",
        "irqentry_exit_to_user_mode",
        "finish_task_switch",
        "__do_softirq",
        "handle_softirqs",
        "native_irq_enable",
        "pv_native_irq_enable",
        "__local_bh_enable_ip",
    ];
    let name = name.split(".isra").next().unwrap_or(name);
    let unlocks = name.starts_with("_raw_") && name.contains("unlock_irq");
    unlocks || NAMES.contains(&name)
}

/// Samples of a processor.
struct Source {
    cpu: u32,
    clock: Clock,
    ring: Ring,
}

/// Nanoseconds of the clock that records have.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    time.map_or(0, |time| time.as_nanos() as u64)
}

/// CPU time of this process.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Records the machine.
///
/// # Errors
/// The kernel does not allow it, or the program cannot be started.
pub fn record(options: &Options, guard: &Guard) -> Result<Recording, MachineError> {
    permitted().map_err(MachineError::Refused)?;
    let toll = toll::of_samples().map_err(|error| MachineError::Refused(refused(&error)))?;
    let highest = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let highest = highest.ok().and_then(|text| text.trim().parse().ok());
    let processors = processors();
    let control = Control::new(
        options.budget,
        options.rate,
        processors.len(),
        toll,
        highest.unwrap_or(f64::MAX),
    );
    let mut random = SplitMix64::new(now());
    let pages = if options.pages == 0 {
        PAGES
    } else {
        options.pages
    };
    let period = period(control.rate(), &mut random);
    let mut sources = Vec::new();
    for cpu in processors {
        let attributes = Attributes::of_machine(Duration::from_nanos(period));
        let clock = match Clock::of_processor(&attributes, cpu as i32) {
            Ok(clock) => clock,
            // Taken away in the meantime.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
            Err(error) => return Err(MachineError::Refused(refused(&error))),
        };
        let ring = Ring::map(&clock, pages).map_err(MachineError::Memory)?;
        sources.push(Source { cpu, clock, ring });
    }
    let mut session = Session::new(sources, control, toll, period, random);
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    session.begin();
    let mut child = match &options.program {
        None => None,
        Some((program, arguments)) => Some(start(program, arguments, guard)?),
    };
    let mut ended = session.run(child.as_mut(), options.duration, guard);
    let mut profiles = session.end();
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

/// Starts the program as it is.
#[allow(unsafe_code)] // reason: what runs between fork and exec.
fn start(program: &Path, arguments: &[OsString], guard: &Guard) -> Result<Child, MachineError> {
    let mut command = Command::new(program);
    let mut words = arguments.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    let old = guard.before();
    let restore = move || {
        old.iter().for_each(|(signal, action)| {
            // SAFETY: what was there before.
            let _ = unsafe { nix::sys::signal::sigaction(*signal, action) };
        });
        Ok(())
    };
    // SAFETY: calls `sigaction` only, which may be called there; nothing is allocated or locked.
    unsafe { command.pre_exec(restore) };
    let child = command.spawn().map_err(|source| MachineError::NotStarted {
        program: program.display().to_string(),
        source,
    })?;
    guard.program(Pid::from_raw(child.id() as i32));
    Ok(child)
}

/// Nanoseconds from one sample to the next, at about this rate.
fn period(rate: f64, random: &mut SplitMix64) -> u64 {
    const PARTS: u64 = 1 << 20;
    let part = 0.875 + 0.25 * random.below(PARTS) as f64 / PARTS as f64;
    (1e9 / rate.max(0.1) * part) as u64
}

/// A recording while it goes on.
struct Session {
    sources: Vec<Source>,
    control: Control,
    toll: Duration,
    random: SplitMix64,
    began: Instant,
    cpu: Duration,
    /// Periods with the times from which on they hold; the last two are of use.
    periods: Vec<(u64, u64)>,
    held: Vec<Record>,
    bytes: Vec<u8>,
    machine: Machine,
    of_processors: BTreeMap<u32, Draws>,
    kernel: Option<Kernel>,
    core: Option<Core>,
    build_id: Vec<u8>,
    /// Functions that were met, by their address.
    met: HashMap<u64, Function>,
    shared: Shared,
    running: HashMap<u32, Process>,
    /// What nobody is known for.
    nobody: Process,
    ended: Ended,
}

impl Session {
    fn new(
        sources: Vec<Source>,
        control: Control,
        toll: Duration,
        period: u64,
        random: SplitMix64,
    ) -> Self {
        let kernel = read_kernel();
        let core = Core::open(Path::new(CORE));
        let mut missing = Vec::new();
        if kernel.is_none() {
            missing.push(
                "functions of the kernel: /proc/kallsyms has no addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)"
                    .to_owned(),
            );
        }
        if let Err(error) = &core {
            missing.push(format!(
                "operands and code of the kernel: {CORE}: {error} (CONFIG_PROC_KCORE, CAP_SYS_RAWIO, lockdown)"
            ));
        }
        let of_processors = sources.iter().map(|s| (s.cpu, Draws::default())).collect();
        let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
        Self {
            sources,
            random,
            began: Instant::now(),
            cpu: Duration::ZERO,
            periods: vec![(0, period)],
            held: Vec::new(),
            bytes: Vec::new(),
            machine: Machine {
                toll: toll.as_nanos() as u64,
                missing,
                ..Machine::default()
            },
            control,
            toll,
            of_processors,
            kernel,
            core: core.ok(),
            build_id: kernel_build_id(&notes),
            met: HashMap::new(),
            shared: Shared {
                images: Images::default(),
                files: Files::new(),
                infos: InstructionInfoFactory::new(),
            },
            running: HashMap::new(),
            nobody: Process::default(),
            ended: Ended::default(),
        }
    }

    /// Samples are taken from now on; what runs already is looked up.
    fn begin(&mut self) {
        (self.began, self.cpu) = (Instant::now(), own_cpu());
        self.sources.iter().for_each(|source| source.clock.enable());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(pid) = pid {
                self.running.insert(pid, Process::found_running(pid));
            }
        }
    }

    /// Until it is enough.
    fn run(
        &mut self,
        mut child: Option<&mut Child>,
        duration: Option<Duration>,
        guard: &Guard,
    ) -> Option<ExitStatus> {
        let watched = child.as_ref().and_then(|child| watch(child.id()));
        let mut ended = None;
        loop {
            let left = duration.map(|all| all.saturating_sub(self.began.elapsed()));
            let full = Duration::from_secs_f64(ROOM as f64 / self.control.rate().max(1.0));
            let pause = OFTEN.min(full).min(left.unwrap_or(OFTEN));
            wait(watched.as_ref(), pause);
            self.read(false);
            if let Some(child) = &mut child
                && let Ok(Some(status)) = child.try_wait()
            {
                guard.ended();
                ended = Some(status);
            }
            let is_over = duration.is_some_and(|all| self.began.elapsed() >= all);
            let is_done = ended.is_some() || child.is_none() && guard.asked();
            if is_over || is_done {
                return ended;
            }
            self.pace();
        }
    }

    /// The account, and the next period.
    fn pace(&mut self) {
        let samples = self.toll.mul_f64(self.machine.taken as f64);
        let paid = own_cpu().saturating_sub(self.cpu) + samples;
        self.control
            .look(self.began.elapsed(), paid, self.machine.taken);
        let period = period(self.control.rate(), &mut self.random);
        let all = Duration::from_nanos(period);
        self.sources
            .iter()
            .for_each(|source| source.clock.set_period(all));
        self.periods.push((now(), period));
    }

    /// Takes what is in the rings. `all`: nothing more comes.
    fn read(&mut self, all: bool) {
        let began = now();
        for source in &self.sources {
            self.bytes.clear();
            source.ring.take(&mut self.bytes);
            self.held.extend(Records::new(&self.bytes));
        }
        // In this order on one processor, and by their times on several.
        self.held.sort_by_key(|record| record.time);
        let settled = match all {
            true => u64::MAX,
            false => began.saturating_sub(SETTLED.as_nanos() as u64),
        };
        let count = self.held.partition_point(|record| record.time <= settled);
        let mut held = std::mem::take(&mut self.held);
        let rest = held.split_off(count);
        held.into_iter().for_each(|record| self.record(record));
        self.held = rest;
        let of_use = self.periods.partition_point(|(from, _)| *from <= settled);
        self.periods.drain(..of_use.saturating_sub(1));
    }

    fn record(&mut self, record: Record) {
        match record.what {
            What::Sample(sample) => self.sample(&sample),
            What::Map(map) => self.process(map.pid).maps(map),
            What::Name {
                pid,
                tid,
                name,
                by_exec,
            } => {
                let process = self.process(pid);
                match by_exec {
                    true => {
                        let before = process.executes(name);
                        self.keep(before, true);
                    }
                    false => process.named(tid, name),
                }
            }
            What::Fork { pid, parent } if pid != parent => {
                let child = self.process(parent).forked(pid);
                if let Some(before) = self.running.insert(pid, child) {
                    self.keep(before, false);
                }
            }
            What::Exit { pid, tid } if pid == tid => {
                // Should other threads go on, they are another process of the recording.
                if let Some(process) = self.running.remove(&pid) {
                    self.keep(process, false);
                }
            }
            What::Lost(records) => self.machine.lost += records,
            What::Throttled => self.machine.throttled += 1,
            What::Fork { .. } | What::Exit { .. } | What::Other => {}
        }
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        if pid == 0 || pid == NOBODY {
            return &mut self.nobody;
        }
        (self.running.entry(pid)).or_insert_with(|| Process::found_running(pid))
    }

    fn keep(&mut self, process: Process, exec: bool) {
        let profile = process.profile(exec, &self.build_id);
        profile
            .into_iter()
            .for_each(|profile| self.ended.add(profile));
    }

    fn sample(&mut self, sample: &Sample) {
        let behind = self
            .periods
            .partition_point(|(from, _)| *from <= sample.time);
        let weight = self.periods[behind.saturating_sub(1)].1 as f64;
        self.machine.taken += 1;
        self.of_processors
            .entry(sample.cpu)
            .or_default()
            .add(weight);
        if sample.mode == Mode::Kernel {
            return self.in_kernel(sample, weight);
        }
        let process = match sample.pid {
            0 | NOBODY => &mut self.nobody,
            pid => (self.running.entry(pid)).or_insert_with(|| Process::found_running(pid)),
        };
        let (decoded, known) = process.in_program(sample, weight, &mut self.shared);
        self.machine.decoded += u64::from(decoded);
        self.machine.unknown += u64::from(!known);
    }

    fn in_kernel(&mut self, sample: &Sample, weight: f64) {
        self.machine.kernel += 1;
        let found = self.kernel.as_ref().and_then(|k| k.find(sample.pc));
        let at = match &found {
            Some(function) => (function.module, sample.pc - function.base),
            // By its address, as far as a place has room for it.
            None => (KERNEL, sample.pc),
        };
        let core = &self.core;
        let met = found.map(|function| {
            self.machine.deferred += u64::from(lets_interrupts_come(function.name));
            &*self.met.entry(function.start).or_insert_with(|| Function {
                module: function.module.into(),
                start: function.start - function.base,
                size: function.end - function.start,
                name: function.name.into(),
                code: (core.as_ref())
                    .and_then(|core| core.read(function.start..function.end))
                    .unwrap_or_default(),
            })
        });
        let bytes = || {
            let met = met.filter(|met| !met.code.is_empty())?;
            let within = usize::try_from(at.1.checked_sub(met.start)?).ok()?;
            let code = met.code.get(within..)?;
            Some(code[..code.len().min(operands::LONGEST)].to_vec())
        };
        let process = match sample.pid {
            0 | NOBODY => &mut self.nobody,
            pid => (self.running.entry(pid)).or_insert_with(|| Process::found_running(pid)),
        };
        let decoded = process.in_kernel(sample, weight, at, bytes, &mut self.shared);
        self.machine.decoded += u64::from(decoded);
    }

    /// Stops the clocks; the profiles, that of the machine first.
    fn end(mut self) -> Vec<Profile> {
        self.sources
            .iter()
            .for_each(|source| source.clock.disable());
        let wall = self.began.elapsed();
        self.read(true);
        let mut running: Vec<Process> = self.running.drain().map(|(_, process)| process).collect();
        running.sort_by_key(Process::pid);
        for process in running {
            self.keep(process, false);
        }
        let host = own_cpu().saturating_sub(self.cpu);
        let of_processors = self.of_processors.into_iter();
        let mut functions: Vec<Function> = self.met.into_values().collect();
        functions.sort_by(|a, b| (&a.module, a.start).cmp(&(&b.module, b.start)));
        let machine = Machine {
            budget: self.control.budget(),
            rate: self.control.rate(),
            wall: wall.as_nanos() as u64,
            host: host.as_nanos() as u64,
            processors: of_processors
                .map(|(n, draws)| (n, draws.sampled()))
                .collect(),
            functions,
            ..self.machine
        };
        let mut first = (self.nobody)
            .profile(false, &self.build_id)
            .unwrap_or_else(|| Profile {
                compressor: "samples".into(),
                modules: vec![Module {
                    id: ModuleId::ANON,
                    path: b"[anon]".to_vec(),
                    ..Module::default()
                }],
                ..Profile::default()
            });
        first.origin = Origin::default();
        first.command.clear();
        first.run.wall = machine.wall;
        first.run.host_cpu = machine.host;
        let busy = machine.processors.values().map(|p| p.executions);
        first.run.target_cpu = busy.sum::<f64>() as u64;
        first.samples.get_or_insert_with(Samples::default).machine = Some(machine);
        self.ended.behind(first)
    }
}

/// A descriptor that says when a process has ended.
#[allow(unsafe_code)] // reason: in no library that we have.
fn watch(pid: u32) -> Option<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: just made, nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// For so long, or until what is watched has ended.
fn wait(watched: Option<&OwnedFd>, pause: Duration) {
    let mut watched: Vec<PollFd<'_>> = (watched.iter())
        .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(pause.as_millis().max(1)).unwrap_or(PollTimeout::MAX);
    // An interrupt ends the pause as well.
    let _ = poll(&mut watched, timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_the_kernel_lists_them() {
        assert_eq!(numbers("0-3,6\n"), [0, 1, 2, 3, 6]);
        assert_eq!(numbers("0\n"), [0]);
        assert!(numbers("").is_empty() && numbers("x,3-1,-").is_empty());
    }

    #[test]
    fn functions_that_let_interrupts_come_are_known() {
        for name in [
            "_raw_spin_unlock_irqrestore",
            "finish_task_switch.isra.0",
            "do_syscall_64",
        ] {
            assert!(lets_interrupts_come(name), "{name}");
        }
        for name in ["read_zero", "_raw_spin_lock_irqsave", "_raw_spin_unlock"] {
            assert!(!lets_interrupts_come(name), "{name}");
        }
    }
}
