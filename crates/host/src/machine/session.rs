//! A recording while it goes on: rings are read, records put in order, samples counted where they belong.
// A descriptor of a process is in no library that we have.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use iced_x86::InstructionInfoFactory;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use trommel_compress::random::SplitMix64;
use trommel_profile::samples::{Function, Machine, Samples};
use trommel_profile::{Module, Origin, Profile};
use trommel_symbol::{Core, KERNEL, Kernel, kernel_build_id};
use trommel_tuple::ModuleId;

use super::control::Control;
use super::deferred::lets_interrupts_come;
use super::ended::Ended;
use super::files::Files;
use super::found::Draws;
use super::operands;
use super::permission::{CORE, read_kernel};
use super::processes::{Process, Shared};
use crate::channel::modules::Images;
use crate::kernel::interrupt::Guard;
use crate::kernel::perf::Clock;
use crate::kernel::perf::records::{Mode, Record, Records, Sample, What};
use crate::kernel::perf::ring::{PAGE, Ring};

/// From one reading of the rings to the next.
const OFTEN: Duration = Duration::from_millis(100);
/// Pages of a ring where nothing is said: users may have a little more.
pub(super) const PAGES: usize = 128;
/// Samples that a ring of the usual size surely has room for.
const ROOM: usize = PAGES * PAGE / 2 / RECORD;
/// Bytes of a sample's record.
const RECORD: usize = 192;
/// Longest time from that of a record until it is in a ring.
const SETTLED: Duration = Duration::from_millis(10);
/// The kernel's number of processes that have none here: in other namespaces, or gone.
const NOBODY: u32 = u32::MAX;

/// Samples of a processor.
pub(super) struct Source {
    pub(super) cpu: u32,
    pub(super) clock: Clock,
    pub(super) ring: Ring,
}

/// Nanoseconds of the clock that records have.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    time.map_or(0, |time| time.as_nanos() as u64)
}

/// CPU time of this process.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Nanoseconds from one sample to the next, at about this rate.
pub(super) fn period(rate: f64, random: &mut SplitMix64) -> u64 {
    const PARTS: u64 = 1 << 20;
    let part = 0.875 + 0.25 * random.below(PARTS) as f64 / PARTS as f64;
    (1e9 / rate.max(0.1) * part) as u64
}

/// A recording while it goes on.
pub(super) struct Session {
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
    /// Samples of which no process is known.
    nobody: Process,
    ended: Ended,
}

impl Session {
    pub(super) fn new(
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
    pub(super) fn begin(&mut self) {
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
    pub(super) fn run(
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
    pub(super) fn end(mut self) -> Vec<Profile> {
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
