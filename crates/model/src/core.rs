//! The core: eight instructions wide, out of order, driven by a trace.
//!
//! # Problem
//! Profiles cost time only through the core: an instruction that cannot be dispatched stops those after it, and
//! whether that matters depends on how much is in the window. So the core is modelled cycle by cycle: what is fetched,
//! dispatched, issued and retired in each.
//!
//! # Strategy
//! In every cycle the stages are gone through from the last to the first, so that each sees what the others
//! left in the cycle before:
//!
//! ```text
//!           6 cycles                 registers there, unit free       latency
//! fetch ───────────────▶ dispatch ──────────────────────────▶ issue ───────────▶ done ──▶ retire
//!   ▲  gshare, I-cache     │ window of 128, profile hardware    │ D-cache                  in order
//!   └──── a cycle after ───┼──────────── resolution of a branch ┘
//! ```
//!
//! * An instruction issued in cycle *i* with latency *l* is done in *i + l*: those that wait for it can be issued then,
//!   and it can retire.
//! * The oldest of those that are ready are issued first. Each list of those that wait hangs at what it waits for,
//!   so a cycle costs what happens in it.
//! * A load waits for the last store before it to the same eight bytes. Stores write when they are done, and never wait
//!   for a miss: there is a buffer.
//! * The front end stops at taken branches for the rest of the cycle. At a branch that is predicted wrongly it stops until that is
//!   resolved, or goes astray, if the machine says so: `core/astray.rs`.
//!
//! # Why it is right
//! `tests/traces/cycles.rs` has traces whose cycles can be counted by hand. Everything that was fetched retires, once and in
//! order, whatever stalls (`tests/traces/machine.rs`).

mod astray;
mod dispatch;
mod fetch;
mod issue;
mod load;
mod retire;
mod stage;

use std::collections::{HashMap, VecDeque};

use trommel_query::Facts;

use crate::instruction::{Instruction, REGISTERS};
use crate::memory::Memory;
use crate::parameters::{Core as Parameters, WrongPaths};
use crate::predictor::Predictor;
use crate::profile::{Answers, Load, Selected, Unit};
use crate::trace::{Execution, Replay};

use astray::Astray;
use stage::Stage;

/// Places in the window at most: the bits of a set of them.
pub const MAX_WINDOW: usize = 128;
/// Registers and stores that an instruction waits for at most.
const SOURCES: usize = 12;
/// Cycles ahead for which things can be put on the calendar.
const CALENDAR: usize = 256;
/// Entries of the table of last stores.
const STORES: usize = 4096;
const NOBODY: u16 = u16::MAX;
const NEVER: u64 = u64::MAX;

/// Figures of the core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreFigures {
    /// Cycles.
    pub cycles: u64,
    /// Instructions that retired.
    pub instructions: u64,
    /// By class, in the order of their numbers.
    pub classes: [u64; 8],
    /// Conditional branches, indirect jumps, calls and returns that were predicted wrongly.
    pub mispredicted: u64,
    /// Cycles in which the next instruction could not be dispatched for want of a network, of a buffer.
    pub stalled: [u64; 2],
    /// Cycles in which it could not for want of room in the window.
    pub full: u64,
    /// Misses of the first-level caches: instructions, data. With wrong paths, also of their code.
    pub misses: [u64; 2],
    /// Instructions of wrong paths that were dispatched.
    pub squashed: u64,
    /// Cycles in which the next instruction could not be dispatched as queries were loaded.
    pub loading: u64,
}

/// An instruction between fetch and dispatch.
struct Fetched {
    execution: Execution,
    cycle: u64,
    mispredicted: bool,
    /// It is on a wrong path.
    astray: bool,
    /// The fetch rate.
    rate: u64,
    /// Says whether it is profiled: asked once, when it first comes to dispatch.
    asked: bool,
    selected: Option<Selected>,
    /// Events of the memory, by bit.
    events: u8,
}

/// An instruction in the window.
struct Entry {
    execution: Execution,
    sequence: u64,
    dispatched: u64,
    issued: u64,
    /// Time at which it is done; never, before it was issued.
    done: u64,
    /// Operands it still waits for, and the time at which the last of those before was done.
    pending: u8,
    ready: u64,
    /// The first of those that wait for it: place × SOURCES + number.
    waiters: u16,
    mispredicted: bool,
    /// It is on a wrong path: nobody knows its addresses.
    astray: bool,
    profiled: Option<Box<Profiled>>,
    events: u8,
}

/// A profiled instruction, and what is known of it so far.
struct Profiled {
    selected: Selected,
    facts: Facts,
}

/// For each instruction, whether it can be profiled.
fn concerned(code: &[Instruction], unit: &Unit<'_>) -> Vec<bool> {
    code.iter().map(|i| unit.concerns(i)).collect()
}

/// The core and all that it needs.
pub struct Core<'t, 'p> {
    parameters: Parameters,
    code: &'t [Instruction],
    /// For each instruction, whether it can be profiled.
    concerned: Vec<bool>,
    replay: Replay<'t>,
    /// The execution that is fetched next on the right path.
    coming: Option<Execution>,
    /// The wrong path that the front end is on.
    astray: Option<Astray>,
    /// Numbers of the instructions, by address, for wrong paths.
    by_address: HashMap<u64, u32>,
    memory: Memory,
    predictor: Predictor,
    /// The profile hardware.
    pub unit: Unit<'p>,
    /// Loads of queries that are to come.
    pub loads: VecDeque<Load<'p>>,
    /// Time at which the last one is over.
    loaded: u64,
    /// Answers of each load that is over.
    pub answers: Vec<Answers>,
    now: u64,

    queue: VecDeque<Fetched>,
    /// Time at which the front end continues; never, while a branch is unresolved.
    fetches: u64,
    /// Time at which it continues after interrupts.
    held: u64,
    /// Events of fetches that had to wait, of the instruction that comes next.
    pending_events: u8,
    /// The line of code that was looked for last.
    line: u64,

    window: Vec<Entry>,
    head: u64,
    tail: u64,
    /// Producer of each register: sequence number plus one; 0, nobody in the window.
    makers: [u64; REGISTERS],
    /// The last store to a group of eight bytes, likewise.
    stores: Vec<(u64, u64)>,
    /// Links of the lists of those that wait.
    links: Vec<u16>,
    ready: u128,
    calendar: Vec<u128>,
    /// Time at which each unit takes the next instruction.
    busy: [Vec<u64>; 4],
    stages: [Stage; 4],

    /// Figures so far.
    pub counts: CoreFigures,
}

impl<'t, 'p> Core<'t, 'p> {
    /// A core that is about to fetch the first instruction, with empty caches.
    pub fn new(
        parameters: Parameters,
        code: &'t [Instruction],
        mut replay: Replay<'t>,
        unit: Unit<'p>,
    ) -> Self {
        let window = parameters.window.clamp(1, MAX_WINDOW);
        let concerned = concerned(code, &unit);
        let by_address = match parameters.wrong_paths {
            WrongPaths::None => HashMap::new(),
            _ => code.iter().zip(0..).map(|(i, n)| (i.pc, n)).collect(),
        };
        Self {
            parameters: Parameters {
                window,
                ..parameters
            },
            code,
            concerned,
            coming: replay.next(),
            astray: None,
            by_address,
            replay,
            memory: Memory::new(&parameters),
            predictor: Predictor::new(parameters.history),
            unit,
            loads: VecDeque::new(),
            loaded: 0,
            answers: Vec::new(),
            now: 0,
            queue: VecDeque::new(),
            fetches: 0,
            held: 0,
            pending_events: 0,
            line: NEVER,
            window: Vec::with_capacity(window),
            head: 0,
            tail: 0,
            makers: [0; REGISTERS],
            stores: vec![(0, 0); STORES],
            links: vec![NOBODY; window * SOURCES],
            ready: 0,
            calendar: vec![0; CALENDAR],
            busy: parameters.units.map(|n| vec![0; n]),
            stages: [const { Stage::new() }; 4],
            counts: CoreFigures::default(),
        }
    }

    /// Runs until everything has retired and every query has ended.
    pub fn run(&mut self) {
        while self.cycle() {}
        // The program's time ends with its last instruction; what it sent is still worked off.
        while !self.unit.is_idle() {
            self.unit.cycle(self.now);
            self.now += 1;
        }
        self.answers.push(self.unit.finish());
        self.counts.misses = self.memory.misses();
    }

    /// One cycle. Returns true if there is anything left to do.
    pub fn cycle(&mut self) -> bool {
        self.come_back();
        self.retire();
        self.issue();
        self.dispatch();
        self.fetch();
        let interrupted = self.unit.cycle(self.now);
        if interrupted > 0 {
            self.held = self.held.max(self.now + 1) + interrupted;
        }
        self.now += 1;
        let left = self.coming.is_some() || !self.queue.is_empty() || self.head != self.tail;
        self.counts.cycles += 1;
        left
    }

    fn instruction(&self, execution: &Execution) -> &'t Instruction {
        &self.code[execution.code as usize]
    }

    const fn place(&self, sequence: u64) -> usize {
        (sequence % self.parameters.window as u64) as usize
    }
}
