//! Programs on the modelled machine of *Relational Profiling*: recorded, run, and remembered.
//!
//! Problem: a figure of that paper is a dozen runs of each program on machines that differ in little, and several figures
//! share them.
//!
//! Strategy: a program is recorded once, instruction by instruction (`trommel_model::trace`), in 25 stretches of forty
//! thousand that are spread evenly over its run; the recording is kept in the cache directory. A [`Setup`] says which machine and which
//! queries; what it came to is kept until the lab ends. Runs that are missing are made in parallel.
//!
//! The queries are those of Figure 2 that the paper's section 6 simulates: a, edges, one branch in so many, and c, stores
//! of references that are not null. Edges go to one service thread, the stores in turns to three on a processor of
//! their own: one thread could not keep up with a burst of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trommel_model::core::MAX_WINDOW;
use trommel_model::machine::queries;
use trommel_model::parameters::{Cheap, QueryEngine, WrongPaths};
use trommel_model::profile::Load;
use trommel_model::service::{BARRIER, EDGES, Service};
use trommel_model::trace::Trace;
use trommel_model::trace::record::{RecordingSettings, cpu_time, record};
use trommel_model::{Parameters, Program as Recorded, RunFigures};
use trommel_query::Operation;
use trommel_query::engine::Effect;

use crate::Lab;
use crate::programs::Program;
use crate::streams::{make_private, unseeded};

/// Instructions of each program.
const INSTRUCTIONS: u64 = 1_000_000;
/// Instructions when the lab is only being tried out.
const FEW: u64 = 50_000;
/// More buffers than there are instructions.
const EVERYTHING: usize = 1 << 21;
/// In so many stretches.
const STRETCHES: u32 = 25;
/// CPU time between two stretches at least: ticks of the kernel's clock are not much shorter.
const LEAST: Duration = Duration::from_millis(4);

/// Services of the queues, by processor.
const SERVICES: [&[Service]; 2] = [&[(1, EDGES)], &[(3, BARRIER), (4, BARRIER), (5, BARRIER)]];

/// A machine and its queries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Setup {
    /// Profile networks.
    pub(crate) networks: usize,
    /// Profile buffers.
    pub(crate) buffers: usize,
    /// Facts that need no network.
    pub(crate) cheap: Cheap,
    /// Hardware that executes queries.
    pub(crate) engine: QueryEngine,
    /// The queries.
    pub(crate) asked: Asked,
    /// Service threads read the messages; otherwise they vanish, as if readers were infinitely fast.
    pub(crate) served: bool,
    /// Something that the paper leaves open, decided otherwise.
    pub(crate) otherwise: Option<Otherwise>,
}

/// Decisions that the paper leaves open, other than the model's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Otherwise {
    /// A message leaves its buffer in one cycle.
    QuickMessages,
    /// In eight.
    SlowMessages,
    /// Two memory accesses a cycle.
    TwoPorts,
    /// A load that hits takes four cycles with its address.
    SlowLoads,
    /// Stores of references are read by one thread.
    OneThread,
    /// Instructions of wrong paths take profile hardware.
    WrongPaths,
    /// All queries are taken out and loaded again by turns, after so many instructions each.
    Reloaded,
}

/// Instructions after which queries are changed, where they are.
pub(crate) const RELOADED: u64 = 10_000;

/// Queries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Asked {
    /// None at all.
    Nothing,
    /// One branch in so many, and all stores of references.
    Both(u32),
    /// One load in so many, its value sent to a queue or brought by an interrupt.
    Loads(u32, Brought),
}

/// Ways in which software gets profiles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Brought {
    /// By a message.
    Message,
    /// By an interrupt.
    Interrupt,
}

impl Setup {
    /// Both queries on a machine with so many networks and eight buffers.
    pub(crate) const fn eight(networks: usize, rate: u32) -> Self {
        Self {
            networks,
            buffers: 8,
            cheap: Cheap::Nothing,
            engine: QueryEngine::Barrel,
            asked: Asked::Both(rate),
            served: true,
            otherwise: None,
        }
    }

    /// Both queries on a machine that has enough of everything, as in section 6.1.
    pub(crate) const fn unrestricted(rate: u32) -> Self {
        Self {
            networks: 32,
            buffers: 32,
            ..Self::eight(32, rate)
        }
    }

    /// The machine without queries.
    pub(crate) const UNPROFILED: Self = Self {
        asked: Asked::Nothing,
        ..Self::eight(4, 1)
    };

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::TABLE_5.with(self.networks, self.buffers);
        parameters.profiling.cheap = self.cheap;
        parameters.profiling.engine = self.engine;
        match self.otherwise {
            Some(Otherwise::QuickMessages) => parameters.profiling.message = 1,
            Some(Otherwise::SlowMessages) => parameters.profiling.message = 8,
            Some(Otherwise::TwoPorts) => parameters.core.ports = 2,
            Some(Otherwise::SlowLoads) => parameters.core.hit = 3,
            Some(Otherwise::WrongPaths) => parameters.core.wrong_paths = WrongPaths::Modelled,
            Some(Otherwise::OneThread | Otherwise::Reloaded) | None => {}
        }
        parameters
    }

    fn text(&self) -> String {
        match self.asked {
            Asked::Nothing => String::new(),
            Asked::Both(rate) => {
                let queues = match self.otherwise {
                    Some(Otherwise::OneThread) => "3",
                    _ => "3..5",
                };
                format!(
                    "for opBRANCH * every {rate} collect pc misc; send 1 stop;\n\
                     for opSTORE 1 always collect op1 op2 op3; \
                     if op1 <> 0 then send {queues} stop else stop;"
                )
            }
            Asked::Loads(rate, brought) => {
                let action = match brought {
                    Brought::Message => "send 1",
                    Brought::Interrupt => "interrupt",
                };
                format!("for opLOAD * every {rate} collect pc res1; {action} stop;")
            }
        }
    }
}

type Key = (&'static str, Setup);

/// Recordings and runs so far.
#[derive(Default)]
pub(crate) struct Machines {
    recorded: Mutex<BTreeMap<&'static str, Option<Arc<Recorded>>>>,
    outcomes: Mutex<BTreeMap<Key, Arc<RunFigures>>>,
}

/// A program's outcomes, in the order of the setups.
pub(crate) type Runs = Vec<(&'static str, Vec<Arc<RunFigures>>)>;

impl Lab<'_> {
    /// Runs all programs that there are, with each of the setups.
    pub(crate) fn machines(&self, machines: &Machines, setups: &[Setup]) -> Runs {
        let programs = self.each(self.programs.iter().collect(), |program| {
            Some((program.name, self.recorded(machines, program)?))
        });
        let programs: Vec<_> = programs.into_iter().flatten().collect();
        let mut missing = Vec::new();
        {
            let known = lock(&machines.outcomes);
            for (name, recorded) in &programs {
                for setup in setups {
                    if !known.contains_key(&(*name, *setup)) {
                        missing.push((*name, *setup, Arc::clone(recorded)));
                    }
                }
            }
        }
        self.each(missing, |(name, setup, recorded)| {
            (self.progress)(&format!("{name} on the modelled machine"));
            let parameters = setup.parameters();
            let services: &[&[Service]] = if setup.served { &SERVICES } else { &[] };
            let (asked, nothing) = (queries(&setup.text()), queries(""));
            let load = |n: u64| Load {
                after: n * RELOADED,
                queries: if n.is_multiple_of(2) {
                    &asked
                } else {
                    &nothing
                },
            };
            let later: Vec<Load<'_>> = match setup.otherwise {
                Some(Otherwise::Reloaded) => {
                    (1..recorded.trace().len() / RELOADED).map(load).collect()
                }
                _ => Vec::new(),
            };
            let done = recorded.run_loads(parameters, load(0), &later, services, false);
            lock(&machines.outcomes).insert((name, setup), Arc::new(done));
        });
        let known = lock(&machines.outcomes);
        let of = |name: &'static str| {
            let runs = setups.iter().filter_map(|s| known.get(&(name, *s)));
            (name, runs.map(Arc::clone).collect())
        };
        programs.iter().map(|(name, _)| of(name)).collect()
    }

    /// Cycles by address of instruction, of each program: as retirement records of all instructions tell them on a machine
    /// whose profile hardware never stalls, and as those of one in `rate` do on that of Table 5.
    pub(crate) fn cycles(
        &self,
        machines: &Machines,
        rate: u32,
    ) -> Vec<(&'static str, [Cycles; 2])> {
        let of = |program: &'static Program| {
            let recorded = self.recorded(machines, program)?;
            (self.progress)(&format!("cycles of {}", program.name));
            let mut free = Parameters::TABLE_5.with(MAX_WINDOW, EVERYTHING);
            free.profiling.message = 0;
            let ways = [(free, 1), (Parameters::TABLE_5, rate)];
            let told = ways.map(|(parameters, rate)| {
                let queries = queries(&retirements(rate));
                let run = recorded.run(parameters, &queries, &[], true);
                Cycles::of(&run, rate)
            });
            Some((program.name, told))
        };
        let done = self.each(self.programs.iter().collect(), of);
        done.into_iter().flatten().collect()
    }

    /// Misses of the second cache of each program, on a machine that has some: Figure 2b.
    pub(crate) fn misses(&self, machines: &Machines) -> Vec<(&'static str, Misses)> {
        let of = |program: &'static Program| {
            let recorded = self.recorded(machines, program)?;
            (self.progress)(&format!("misses of {}", program.name));
            let run =
                |text: &str, logs| recorded.run(Parameters::WITH_EVENTS, &queries(text), &[], logs);
            Some((
                program.name,
                Misses::of(&run(MISSES, true), &run("", false)),
            ))
        };
        let done = self.each(self.programs.iter().collect(), of);
        done.into_iter().flatten().collect()
    }

    /// Does a thing for each, in as many threads as the lab may use; results in the order of `items`.
    fn each<T: Clone + Send + Sync, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let worker = || {
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(item) = items.get(at) else { return };
                let result = work(item.clone());
                lock(&done).push((at, result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(items.len()) {
                scope.spawn(worker);
            }
            worker();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|d| d.0);
        done.into_iter().map(|d| d.1).collect()
    }

    /// A program's recording, made now if need be; `None`, and said, when that cannot be.
    fn recorded(&self, machines: &Machines, program: &Program) -> Option<Arc<Recorded>> {
        if let Some(known) = lock(&machines.recorded).get(program.name) {
            return known.clone();
        }
        let path = self.trace(program);
        let trace = path.and_then(|path| {
            let read = fs::read(&path).map_err(|e| e.to_string());
            let trace = read.and_then(|b| Trace::decode(&b).map_err(|e| e.to_string()));
            if let Err(error) = &trace {
                let file = path.display();
                (self.say)(&format!(
                    "{file}: {error}; delete it, and it will be recorded again"
                ));
            }
            trace.ok()
        });
        let recorded = trace.map(|trace| Arc::new(Recorded::new(trace)));
        lock(&machines.recorded).insert(program.name, recorded.clone());
        recorded
    }

    /// The file of a program's recording.
    fn trace(&self, program: &Program) -> Option<PathBuf> {
        let wanted = if self.is_quick() { FEW } else { INSTRUCTIONS };
        let file = |n: u64| self.cache.join(format!("{}-{n}.itrace", program.name));
        let known = [wanted, INSTRUCTIONS].map(file);
        if let Some(path) = known.into_iter().find(|path| path.exists()) {
            return Some(path);
        }
        self.trommel.as_ref()?;
        let made = self.make_trace(program, wanted, &file(wanted));
        if let Err(error) = &made {
            let name = program.name;
            (self.say)(&format!(
                "{name} could not be recorded instruction by instruction and is left out: {error}"
            ));
        }
        made.ok()?.then(|| file(wanted))
    }

    /// Records a program. Returns true if it is there, and ran long enough.
    fn make_trace(&self, program: &Program, wanted: u64, path: &Path) -> Result<bool, String> {
        make_private(&self.cache).map_err(|e| e.to_string())?;
        let named = |e: std::io::Error| format!("{}: {e}", path.display());
        let ready = program.prepare(&self.cache.join("inputs")).map_err(named)?;
        let Some(ready) = ready else {
            (self.say)(&format!(
                "{} is not installed and is left out (package {})",
                program.name, program.package
            ));
            return Ok(false);
        };
        (self.progress)(&format!(
            "recording {wanted} instructions of {}",
            program.name
        ));
        let command = || {
            let mut command = Command::new(&ready.command[0]);
            command.args(&ready.command[1..]);
            if !program.is_own() {
                command
                    .env_clear()
                    .env("LC_ALL", "C")
                    .current_dir(&self.cache);
            }
            unseeded(&mut command);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let told = |e: std::io::Error| e.to_string();
        let whole = cpu_time(&mut command()).map_err(told)?;
        let every = (whole / (STRETCHES + 1)).max(LEAST);
        let instructions = wanted / u64::from(STRETCHES);
        let wanted = RecordingSettings {
            every,
            stretches: STRETCHES,
            instructions,
            finish: false,
        };
        let trace = record(&mut command(), &wanted).map_err(told)?;
        if trace.is_empty() {
            return Err(format!(
                "it ends before its first stretch, which is after {} ms of CPU time; give it more work",
                every.as_millis()
            ));
        }
        let half = path.with_extension(format!("{}.half", std::process::id()));
        let written = fs::write(&half, trace.encode()).and_then(|()| fs::rename(&half, path));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written.map_err(named)?;
        Ok(true)
    }
}

/// Figure 2b: all misses of the second cache.
const MISSES: &str = "for evL2DMISS * always collect pc res2; send 2 stop;";

/// Misses that were profiled.
#[derive(Debug, Default)]
pub(crate) struct Misses {
    /// Misses by address of instruction.
    pub(crate) by_pc: BTreeMap<u64, u64>,
    /// All that there were.
    pub(crate) all: u64,
    /// Cycles with the query over those without.
    pub(crate) slowdown: f64,
}

impl Misses {
    fn of(run: &RunFigures, free: &RunFigures) -> Self {
        let mut misses = Self {
            all: run.loads[0].seen.iter().map(|seen| seen.executed).sum(),
            slowdown: run.slowdown(free),
            ..Self::default()
        };
        for effect in run.log().into_iter().flat_map(|log| &log.0) {
            if let Effect::Message { record, .. } = effect {
                *misses.by_pc.entry(record.0[0]).or_default() += 1;
            }
        }
        misses
    }

    /// Returns the number of those that were profiled.
    pub(crate) fn profiled(&self) -> u64 {
        self.by_pc.values().sum()
    }

    /// Returns the part of the misses that the `n` instructions with most have.
    pub(crate) fn share(&self, n: usize) -> f64 {
        let mut all: Vec<u64> = self.by_pc.values().copied().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let most: u64 = all.iter().take(n).sum();
        most as f64 / self.profiled().max(1) as f64
    }
}

/// Cycles in retirement records.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    /// Cycles by address.
    pub(crate) by_pc: BTreeMap<u64, f64>,
    /// Cycles of all records.
    pub(crate) total: f64,
    /// Cycles of the whole run, as the machine counts them.
    pub(crate) run: u64,
}

/// Figure 2d: of all instructions one in `rate`.
fn retirements(rate: u32) -> String {
    let rate = if rate == 1 {
        "always".to_owned()
    } else {
        format!("every {rate}")
    };
    let classes = Operation::ALL.map(|o| format!("{} *", o.name()));
    let classes = classes.join(" ");
    format!("for {classes} {rate} collect pc rrate; send 4 stop;")
}

impl Cycles {
    /// An instruction took C = c + 1/n (section 3.2), and stands for `rate` of them.
    fn of(run: &RunFigures, rate: u32) -> Self {
        let mut cycles = Self {
            run: run.core.cycles,
            ..Self::default()
        };
        for effect in run.log().into_iter().flat_map(|log| &log.0) {
            if let Effect::Message { record, .. } = effect {
                let [pc, word, ..] = record.0;
                let took = (word >> 32) as f64 + 1.0 / (word & 0xffff) as f64;
                let all = took * f64::from(rate);
                *cycles.by_pc.entry(pc).or_default() += all;
                cycles.total += all;
            }
        }
        cycles
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
