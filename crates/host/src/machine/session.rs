//! A recording while it goes on: rings are read, records put in order, samples counted where they belong.
// A descriptor of a process is in no library that we have.
#![allow(unsafe_code)]

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant};

use iced_x86::InstructionInfoFactory;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_profile::call_tree::Basis;
use trommel_profile::samples::{Function, Machine, Samples};
use trommel_profile::{Module, Origin, Profile};
use trommel_symbol::unwind::Rule;
use trommel_symbol::{Core, KERNEL, Kernel, kernel_build_id};
use trommel_tuple::ModuleId;

use super::clocks::{Clocks, Source};
use super::control::Control;
use super::deferred::lets_interrupts_come;
use super::ended::Ended;
use super::files::Files;
use super::found::Draws;
use super::looks::{Looks, threads};
use super::operands;
use super::permission::{CORE, read_kernel};
use super::processes::{Process, Shared};
use super::running::Running;
use super::waits::Waits;
use super::{Every, Subject};
use crate::channel::modules::Images;
use crate::kernel::interrupt::Guard;
use crate::kernel::perf::records::{Mode, Record, Records, Sample, What};
use crate::kernel::sentinel;

/// From one reading of the rings to the next.
const OFTEN: Duration = Duration::from_millis(100);
/// Longest time from that of a record until it is in a ring.
const SETTLED: Duration = Duration::from_millis(10);

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

/// Said where threads are looked at.
const LOOKED: &str = "the number of waits, and most of those that are shorter than 10 ms: threads were looked at; each wait is reported with CAP_PERFMON, \
     or kernel.perf_event_paranoid at 1 or less";
/// Said where they cannot be.
const UNREADABLE: &str = "waits: /proc/PID/syscall cannot be read (kernel.yama.ptrace_scope, or the process is another user's)";

/// A record, and whether it is from the ring of waits.
struct Held {
    record: Record,
    waits: bool,
}

/// The way in which waits are recorded.
enum Off {
    /// They are not.
    None,
    /// The kernel reports each.
    Reported(Waits),
    /// Threads are looked at.
    Looked(Looks),
}

/// A recording while it goes on.
pub(super) struct Session {
    subject: Subject,
    sources: Vec<Source>,
    /// Samples that a ring surely has room for.
    room: usize,
    control: Control,
    toll: Duration,
    random: SplitMix64,
    began: Instant,
    cpu: Duration,
    /// The same when the profiles were taken last, and samples before that.
    since: (Instant, Duration),
    taken: u64,
    /// Periods with the times from which on they hold; the last two are of use.
    periods: Vec<(u64, u64)>,
    held: Vec<Held>,
    bytes: Vec<u8>,
    machine: Machine,
    of_processors: BTreeMap<u32, Draws>,
    /// Read for a program when the first sample is the kernel's: there are many functions.
    kernel: LazyCell<Option<Kernel>>,
    core: Option<Core>,
    build_id: Vec<u8>,
    /// Functions that were met, by their address.
    met: HashMap<u64, Function>,
    shared: Shared,
    running: Running,
    waits: Off,
    ended: Ended,
}

impl Session {
    pub(super) fn new(
        clocks: Clocks,
        control: Control,
        (toll, period): (Duration, u64),
        random: SplitMix64,
    ) -> Self {
        let Clocks {
            subject,
            sources,
            room,
            stacks,
            waits,
            kernel: kernel_counts,
        } = clocks;
        let operands = subject == Subject::Machine;
        let mut missing = Vec::new();
        let core = match operands {
            true => Core::open(Path::new(CORE))
                .map_err(|error| {
                    missing.push(format!(
                        "operands and code of the kernel: {CORE}: {error} (CONFIG_PROC_KCORE, CAP_SYS_RAWIO, lockdown)"
                    ));
                })
                .ok(),
            false => None,
        };
        if !kernel_counts {
            missing.push(
                "time in the kernel: it needs CAP_PERFMON, or kernel.perf_event_paranoid at 1 or less"
                    .to_owned(),
            );
        }
        if waits && !kernel_counts {
            missing.push(LOOKED.to_owned());
        }
        let kernel_functions: LazyCell<Option<Kernel>> = LazyCell::new(read_kernel);
        if subject == Subject::Machine {
            // Surely needed, and records wait meanwhile once the clocks run.
            LazyCell::force(&kernel_functions);
        }
        let of_processors = sources.iter().map(|s| (s.cpu, Draws::default())).collect();
        let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
        Self {
            subject,
            sources,
            room,
            random,
            began: Instant::now(),
            cpu: Duration::ZERO,
            since: (Instant::now(), Duration::ZERO),
            taken: 0,
            periods: vec![(0, period)],
            held: Vec::new(),
            bytes: Vec::new(),
            machine: Machine {
                toll: toll.as_nanos() as u64,
                missing,
                of_processes: subject != Subject::Machine,
                ..Machine::default()
            },
            control,
            toll,
            of_processors,
            kernel: kernel_functions,
            core,
            build_id: kernel_build_id(&notes),
            met: HashMap::new(),
            shared: Shared {
                images: Images::default(),
                files: Files::new(),
                infos: InstructionInfoFactory::new(),
                operands,
                stacks,
                likely: Rc::new(Rule::frame_pointer()),
            },
            running: Running::default(),
            waits: match (waits, kernel_counts) {
                (false, _) => Off::None,
                (true, true) => Off::Reported(Waits::default()),
                (true, false) => Off::Looked(Looks::new()),
            },
            ended: Ended::default(),
        }
    }

    /// Samples are taken from now on; what runs already is looked up.
    pub(super) fn begin(&mut self) {
        (self.began, self.cpu) = (Instant::now(), own_cpu());
        self.since = (self.began, self.cpu);
        let found: Vec<u32> = match self.subject {
            // Its clocks begin when it is executed.
            Subject::Program => return,
            Subject::Process(pid) => vec![pid as u32],
            Subject::Machine => fs::read_dir("/proc")
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect(),
        };
        self.sources.iter().for_each(Source::enable);
        for pid in found {
            self.running.process(pid);
        }
    }

    /// Until it is enough.
    pub(super) fn run(
        &mut self,
        mut child: Option<&mut Child>,
        duration: Option<Duration>,
        guard: &Guard,
        mut every: Option<Every<'_>>,
    ) -> Option<ExitStatus> {
        let watched = match (&child, self.subject) {
            (Some(child), _) => watch(child.id()),
            (None, Subject::Process(pid)) => watch(pid as u32),
            (None, _) => None,
        };
        let mut ended = None;
        loop {
            let left = duration.map(|all| all.saturating_sub(self.began.elapsed()));
            let full = Duration::from_secs_f64(self.room as f64 / self.control.rate().max(1.0));
            let often = match &self.waits {
                // Nobody knows how many come.
                Off::Reported(_) => OFTEN / 10,
                Off::Looked(looks) => OFTEN.min(looks.due()),
                Off::None => OFTEN,
            };
            let pause = often.min(full).min(left.unwrap_or(often));
            let is_gone = wait(watched.as_ref(), pause);
            self.read(false);
            self.look();
            if let Some(child) = &mut child {
                let pid = Pid::from_raw(child.id() as i32);
                if let Some(signal) = sentinel::take_stop(pid) {
                    sentinel::stop_with(pid, signal);
                }
                if let Ok(Some(status)) = child.try_wait() {
                    guard.ended();
                    ended = Some(status);
                }
            }
            let is_over = duration.is_some_and(|all| self.began.elapsed() >= all);
            let is_done = ended.is_some() || child.is_none() && (is_gone || guard.asked());
            if is_over || is_done {
                return ended;
            }
            self.pace();
            if let Some(every) = &mut every
                && self.since.0.elapsed() >= every.length
            {
                let profiles = self.take();
                (every.give)(profiles);
            }
        }
    }

    /// The account, and the next period.
    fn pace(&mut self) {
        let taken = self.taken + self.machine.taken;
        let samples = self.toll.mul_f64(taken as f64);
        let paid = own_cpu().saturating_sub(self.cpu) + samples;
        self.control.look(self.began.elapsed(), paid, taken);
        // Clocks that processes have inherited keep their periods.
        if self.subject != Subject::Machine {
            return;
        }
        let period = period(self.control.rate(), &mut self.random);
        let all = Duration::from_nanos(period);
        self.sources
            .iter()
            .for_each(|source| source.set_period(all));
        self.periods.push((now(), period));
    }

    /// Takes what is in the rings. `all`: nothing more comes.
    fn read(&mut self, all: bool) {
        let began = now();
        for source in &self.sources {
            self.bytes.clear();
            source.ring.take(&mut self.bytes);
            let records = match self.shared.stacks {
                true => Records::with_stacks(&self.bytes),
                false => Records::new(&self.bytes),
            };
            let waits = source.waits;
            self.held
                .extend(records.map(|record| Held { record, waits }));
        }
        // In this order on one processor, and by their times on several.
        self.held.sort_by_key(|held| held.record.time);
        let settled = match all {
            true => u64::MAX,
            false => began.saturating_sub(SETTLED.as_nanos() as u64),
        };
        let count = self
            .held
            .partition_point(|held| held.record.time <= settled);
        let mut held = std::mem::take(&mut self.held);
        let rest = held.split_off(count);
        held.into_iter().for_each(|held| self.record(held));
        self.held = rest;
        for process in self.running.read() {
            self.keep(process, false);
        }
        let of_use = self.periods.partition_point(|(from, _)| *from <= settled);
        self.periods.drain(..of_use.saturating_sub(1));
    }

    fn record(&mut self, Held { record, waits }: Held) {
        match record.what {
            What::Sample(sample) if waits => self.stops(&sample),
            What::Sample(sample) => self.sample(&sample),
            What::Switch {
                tid,
                out,
                preempted,
            } => self.switch(tid, record.time, (out, preempted)),
            What::Map(map) => self.running.process(map.pid).maps(map),
            What::Name {
                pid,
                tid,
                name,
                by_exec,
            } => {
                let process = self.running.process(pid);
                match by_exec {
                    true => {
                        let before = process.executes(name);
                        self.keep(before, true);
                        self.forget(pid, None);
                    }
                    false => process.named(tid, name),
                }
            }
            What::Fork { pid, parent } if pid != parent => {
                let child = self.running.process(parent).forked(pid);
                for before in self.running.begins(pid, child) {
                    self.keep(before, false);
                }
            }
            What::Exit { pid, tid } => {
                self.forget(pid, Some(tid));
                // Should other threads go on for long, they are another process of the recording.
                if pid == tid {
                    self.running.ends(pid);
                }
            }
            What::Lost(records) => self.machine.lost += records,
            What::Throttled => self.machine.throttled += 1,
            What::Fork { .. } | What::Other => {}
        }
    }

    fn keep(&mut self, process: Process, exec: bool) {
        let profile = process.profile(exec, &self.build_id);
        profile
            .into_iter()
            .for_each(|profile| self.ended.add(profile));
    }

    fn sample(&mut self, sample: &Sample) {
        let after = self
            .periods
            .partition_point(|(from, _)| *from <= sample.time);
        let weight = self.periods[after.saturating_sub(1)].1 as f64;
        self.machine.taken += 1;
        self.of_processors
            .entry(sample.cpu)
            .or_default()
            .add(weight);
        if sample.mode == Mode::Kernel {
            return self.in_kernel(sample, weight);
        }
        let process = self.running.process(sample.pid);
        let (decoded, known) = process.in_program(sample, weight, &mut self.shared);
        self.machine.decoded += u64::from(decoded);
        self.machine.unknown += u64::from(!known);
    }

    /// A thread is about to give up its processor.
    fn stops(&mut self, sample: &Sample) {
        let process = self.running.process(sample.pid);
        let path = process.stops(sample, &mut self.shared);
        if let (Off::Reported(waits), Some(path)) = (&mut self.waits, path) {
            waits.stops(sample.pid, sample.tid, path);
        }
    }

    /// Looks at threads, if it is time to.
    fn look(&mut self) {
        let Off::Looked(looks) = &mut self.waits else {
            return;
        };
        if !looks.due().is_zero() {
            return;
        }
        for found in looks.look(threads(self.running.pids())) {
            let process = self.running.process(found.pid);
            let path = process.found_waiting(&found.stack, &mut self.shared);
            process.waited(&path, found.weight, Basis::WaitSamples);
        }
    }

    /// A thread has given up its processor, or has got one.
    fn switch(&mut self, tid: u32, time: u64, (out, preempted): (bool, bool)) {
        let Off::Reported(waits) = &mut self.waits else {
            return;
        };
        if out {
            return waits.gone(tid, time, preempted);
        }
        if let Some(wait) = waits.back(tid, time) {
            self.running
                .process(wait.pid)
                .waited(&wait.path, wait.weight, Basis::Waits);
        }
    }

    fn forget(&mut self, pid: u32, tid: Option<u32>) {
        if let Off::Reported(waits) = &mut self.waits {
            waits.forget(pid, tid);
        }
    }

    fn in_kernel(&mut self, sample: &Sample, weight: f64) {
        self.machine.kernel += 1;
        let Self {
            core, kernel, met, ..
        } = self;
        let kernel = kernel.as_ref();
        // The callers wait at calls, which are before these addresses.
        let callers = sample
            .kernel
            .iter()
            .skip(1)
            .map(|address| address.wrapping_sub(1));
        let mut frames = Vec::with_capacity(1 + sample.kernel.len());
        for (n, address) in std::iter::once(sample.pc).chain(callers).enumerate() {
            let Some(function) = kernel.and_then(|kernel| kernel.find(address)) else {
                // By its address, as far as a place has room for it.
                frames.push((KERNEL, address));
                continue;
            };
            if n == 0 {
                self.machine.deferred += u64::from(lets_interrupts_come(function.name));
            }
            met.entry(function.start).or_insert_with(|| Function {
                module: function.module.into(),
                start: function.start - function.base,
                size: function.end - function.start,
                name: function.name.into(),
                code: (core.as_ref())
                    .and_then(|core| core.read(function.start..function.end))
                    .unwrap_or_default(),
            });
            frames.push((function.module, address - function.base));
        }
        let innermost = kernel.and_then(|kernel| kernel.find(sample.pc));
        let met = innermost.and_then(|function| met.get(&function.start));
        let bytes = || {
            let met = met.filter(|met| !met.code.is_empty())?;
            let within = usize::try_from(frames.first()?.1.checked_sub(met.start)?).ok()?;
            let code = met.code.get(within..)?;
            Some(code[..code.len().min(operands::LONGEST)].to_vec())
        };
        let process = self.running.process(sample.pid);
        let decoded = process.in_kernel(sample, weight, &frames, bytes, &mut self.shared);
        self.machine.decoded += u64::from(decoded);
    }

    /// Stops the clocks; the profiles, that of the machine first.
    pub(super) fn end(mut self) -> Vec<Profile> {
        self.sources.iter().for_each(Source::disable);
        self.read(true);
        self.take()
    }

    /// Returns the profiles since the last time, that of the machine first. What runs goes on.
    fn take(&mut self) -> Vec<Profile> {
        if let Off::Reported(waits) = &mut self.waits {
            self.machine.lost += std::mem::take(&mut waits.lost);
            for wait in waits.so_far(now()) {
                self.running
                    .process(wait.pid)
                    .waited(&wait.path, wait.weight, Basis::Waits);
            }
        }
        let (taken, nobody) = self.running.taken(&self.build_id);
        taken
            .into_iter()
            .for_each(|profile| self.ended.add(profile));
        let machine = self.take_machine();
        let mut first = nobody.unwrap_or_else(|| Profile {
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
        std::mem::take(&mut self.ended).after(first)
    }

    /// Returns the facts of the machine since the last time.
    fn take_machine(&mut self) -> Machine {
        let (since, cpu) = std::mem::replace(&mut self.since, (Instant::now(), own_cpu()));
        let goes_on = Machine {
            toll: self.machine.toll,
            missing: self.machine.missing.clone(),
            of_processes: self.machine.of_processes,
            ..Machine::default()
        };
        let mut machine = std::mem::replace(&mut self.machine, goes_on);
        if let Off::Looked(looks) = &self.waits
            && looks.found == 0
            && looks.refused > 0
        {
            machine.missing.push(UNREADABLE.to_owned());
        }
        self.taken += machine.taken;
        if (self.subject == Subject::Machine || machine.kernel > 0) && self.kernel.is_none() {
            machine.missing.insert(
                0,
                "functions of the kernel: /proc/kallsyms has no addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)"
                    .to_owned(),
            );
        }
        let none = self
            .of_processors
            .keys()
            .map(|cpu| (*cpu, Draws::default()));
        let none: BTreeMap<u32, Draws> = none.collect();
        let of_processors = std::mem::replace(&mut self.of_processors, none);
        let mut functions: Vec<Function> = self.met.values().cloned().collect();
        functions.sort_by(|a, b| (&a.module, a.start).cmp(&(&b.module, b.start)));
        Machine {
            budget: self.control.budget(),
            rate: self.control.rate(),
            wall: since.elapsed().as_nanos() as u64,
            host: own_cpu().saturating_sub(cpu).as_nanos() as u64,
            processors: (of_processors.into_iter())
                .map(|(n, draws)| (n, draws.sampled()))
                .collect(),
            functions,
            ..machine
        }
    }
}

/// A descriptor that says when a process has ended.
fn watch(pid: u32) -> Option<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: just made, nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// For so long, or until what is watched has ended. Returns true if it has.
fn wait(watched: Option<&OwnedFd>, pause: Duration) -> bool {
    let mut watched: Vec<PollFd<'_>> = (watched.iter())
        .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(pause.as_millis().max(1)).unwrap_or(PollTimeout::MAX);
    // An interrupt ends the pause as well.
    poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
}
