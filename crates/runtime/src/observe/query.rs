//! Relational queries about the program, answered in the target (`docs/query.md`).
//!
//! # Problem
//! A query selects instructions by what they do and where they are, and wants facts about single executions
//! of them. It filters those, and sends the rest to numbered queues. Instructions that are not selected must cost
//! nothing. The queries must do what `trommel_query::Engine` does, message by message.
//!
//! # Strategy
//! When an instruction is translated, its class and tag decide whether a table entry of the program is about it
//! ([`Asked::site`]). Only then does it get a *probe* (`translate/ways/queries.rs`), and a [`Site`] that says where
//! its operands and results are. A probe counts down, inline, the executions up to the next that is profiled. With
//! `always` each is profiled. A profiled execution crosses into the runtime, which gives the record to the thread's own engine.
//! That is the reference engine itself, so there is one meaning. A query that profiles each execution and only compares and counts
//! does so inline, as far as registers tell (`translate/ways/quick.rs`).
//!
//! A message is a record in the thread's chunk (`trommel_queue::queries`): in order, and never lost. A full queue makes the
//! thread wait, or drop the message where the query says so. Messages to queues that the program serves itself go another way
//! ([`crate::engine::served`]). Counts of query instructions are added up in shared memory at once. An interrupt is a
//! record, too, which the host processes at once. After `interrupt sync` the thread waits until the host has processed it. A
//! signal ends that wait, and its handler runs. When the handler is back the wait goes on.
//!
//! With `every auto`, a thread measures how long each of its records takes, from the crossing on. Its own `Throttle`
//! says after a record which rates to put in force. No other thread has a part in it.
//!
//! All probes of a query on pairs count down one slot, that of the first of its entries. It leads to the first of a pair and to the second
//! by turns. The engine keeps the record of the first (`trommel_query::pair`).
//!
//! Several programs may be put at a time, each in a place of its own with its own counts, countdowns and engines. They come and go
//! while the process runs ([`crate::engine::queries::changes`]).
//!
//! # Why it is correct
//! * A probe stands at the boundary before its instruction, or after it within its step: a signal is
//!   delivered before both or after both. Of an instruction that faults, the part after it is not reached, and what
//!   the part before it had noted is forgotten (`forget`).
//! * All registers are the app's there except `rcx` and `rdx`. The probe says where those two are.
//! * Only one thread uses an engine, and the engine allocates no memory.
#![allow(unsafe_code)] // reason: reads the app's memory and data of probes, shares memory with the host.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};
use trommel_query::instruction::Action;
use trommel_query::observe::{Observation, When};
use trommel_query::quick::{MAX_TESTS, Node, Quick};
use trommel_query::{
    Class as Selected, Control, Entry, Operation, Program, QueryPc, Sampling, Subject, image, x86,
};
use trommel_queue::prefetch::MISSES;
use trommel_queue::protocol;
use trommel_queue::queries::{ENTRIES, LOADS, NO_WAYS, PROGRAM_WORDS, Queries};

use crate::base::address::{AppPc, Range};
use crate::base::decode::Class;
use crate::base::emit::GsOffset;
use crate::base::knock;
use crate::channel::slot::Mapped;
use crate::channel::tags::Tags;
use crate::slot;

/// Both sides of a crossing number table entries alike.
const _: () = assert!(ENTRIES == trommel_query::class::ENTRIES);

/// Tags of code.
const TAGS: usize = 4;

/// Query programs of a process.
pub struct Asked {
    /// Programs whose probes may be in code, by place.
    loads: [Option<Load>; LOADS],
    /// The kinds of instructions that any table entry is about, by bit.
    kinds: u8,
    info: InstructionInfoFactory,
    /// Executions are profiled in bursts ([`crate::observe::prefetch`]).
    pub(crate) in_bursts: bool,
    /// Programs may come and go ([`crate::engine::queries::changes`]).
    changing: bool,
    /// Counts are reported by window ([`crate::engine::queries::windows`]).
    by_window: bool,
    /// Code that is made now has no probes, as the program has asked for.
    paused: bool,
    /// All programs so far. Each stays, and is used again when it comes again.
    known: Vec<&'static Prepared>,
    /// Sites by program and address. They stay: code that leads to them may be executed at any time.
    sites: BTreeMap<(usize, AppPc), &'static Site>,
}

/// A program that is put to the process.
struct Load {
    id: u32,
    prepared: &'static Prepared,
    tags: Tags,
    /// Table entries, by bit, that are not asked about any more.
    off: u64,
    /// The first of the ways of its trees, if there is room for counts of them.
    ways: Option<u16>,
    /// The load is to go: no new code has its probes. All threads have to come out of the cache in this epoch or later.
    leaves: Option<u64>,
}

/// A query program, and what follows from it.
pub struct Prepared {
    pub(crate) program: Program,
    bytes: Vec<u8>,
    /// Instructions of the program that count.
    pub(crate) counting: Vec<QueryPc>,
    /// Entries of the program's table.
    pub(crate) entries: Vec<Entry>,
    /// Kinds of instructions, by bit, that the table is about, for code of each tag.
    kinds: [u8; TAGS],
    /// Trees of the queries that only compare and count.
    quick: Quick,
}

/// An instruction that a table entry is about.
pub struct Site {
    pub(crate) prepared: &'static Prepared,
    pub(crate) entry: Entry,
    /// The entry whose countdown counts its executions.
    pub(crate) counted: Entry,
    pub(crate) control: Control,
    pub(crate) observation: Observation,
    /// The tree of its query, if generated code can follow it here.
    pub(crate) quick: Option<&'static Node>,
}

/// The sites of an instruction, by place of their program.
pub type About = [Option<Probe>; LOADS];

/// A probe of an instruction.
#[derive(Clone, Copy)]
pub struct Probe {
    pub(crate) site: &'static Site,
    /// Place of its program.
    pub(crate) place: u8,
    /// The tree that its code follows, and the number of the program's first way.
    pub(crate) quick: Option<(&'static Node, u16)>,
}

impl Site {
    /// Returns the time of the look at an execution.
    pub const fn when(&self) -> When {
        self.observation.when()
    }

    /// Returns true if it says the same.
    fn says(&self, other: &Self) -> bool {
        self.entry == other.entry
            && self.control == other.control
            && self.observation == other.observation
    }
}

impl Probe {
    /// Returns the slot that counts down executions up to the next that is profiled; `None` where all are.
    pub fn countdown(&self) -> Option<GsOffset> {
        let number = usize::from(self.place) * ENTRIES + self.site.counted.number();
        let sampled = self.site.control.sampling != Sampling::ALWAYS;
        sampled.then(|| GsOffset(slot!(left).0 + 4 * number as u32))
    }

    /// Returns the slot that is not 0 between the two looks at an execution.
    pub fn begun(&self) -> GsOffset {
        GsOffset(slot!(begun).0 + 8 * u32::from(self.place))
    }
}

impl Prepared {
    /// Reads the program of a place.
    fn read(area: &Queries) -> Option<(Program, Vec<u8>)> {
        let bytes = area.bytes.load(Acquire) as usize;
        let words = area.program[..bytes.div_ceil(8).min(PROGRAM_WORDS)].iter();
        let mut image: Vec<u8> = words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
        image.truncate(bytes);
        // The host has written what it had assembled.
        Some((image::decode(&image).ok()?, image))
    }

    fn new(program: Program, bytes: Vec<u8>) -> Self {
        let counts = |at: &QueryPc| program.code()[at.number()].action == Action::Count;
        let all = (0..program.code().len()).filter_map(QueryPc::new);
        let mut kinds = [0; TAGS];
        for (entry, _) in program.table().entries() {
            if let Subject::Class(class) = entry.subject() {
                kinds[usize::from(class.tag())] |= 1 << class.operation as u8;
            }
        }
        Self {
            counting: all.filter(counts).collect(),
            entries: program.table().entries().map(|(entry, _)| entry).collect(),
            kinds,
            quick: Quick::of(&program),
            program,
            bytes,
        }
    }

    /// Number of ways of its trees.
    pub(crate) fn ways(&self) -> usize {
        self.quick.ways().len()
    }

    /// Kinds of instructions, by bit, that the table is about.
    fn all_kinds(&self) -> u8 {
        self.kinds.iter().fold(0, |all, kinds| all | kinds)
    }
}

/// Effect of a change on code.
#[derive(Default)]
pub(crate) struct Changed {
    /// Places whose probes go, by bit.
    pub(crate) goes: u8,
    /// Places whose probes come, by bit.
    pub(crate) comes: u8,
}

impl Asked {
    /// Returns true if there are query programs or tags of code, or may be some.
    pub fn is_there(mapped: Mapped) -> bool {
        let area = mapped.queries();
        let words = [&area.bytes, &area.changing, &area.tagged];
        words.iter().any(|word| word.load(Acquire) != 0)
    }

    /// Creates the state from the host's query programs, if there are any or may be some.
    pub fn of(mapped: Mapped) -> Option<Self> {
        let area = mapped.queries();
        let changing = area.changing.load(Acquire) != 0;
        if area.bytes.load(Acquire) == 0 && !changing {
            return None;
        }
        let by_window = area.by_window.load(Acquire) != 0;
        // The next window makes a change: between windows nothing of ours is there to be called.
        if changing && !by_window {
            knock::await_knocks();
        }
        let mut asked = Self {
            loads: [const { None }; LOADS],
            kinds: 0,
            info: InstructionInfoFactory::new(),
            in_bursts: mapped.prefetch().wanted.load(Acquire) == MISSES,
            changing,
            by_window,
            paused: false,
            known: Vec::new(),
            sites: BTreeMap::new(),
        };
        asked.change(mapped);
        Some(asked)
    }

    /// Goes by what the host has written.
    pub(crate) fn change(&mut self, mapped: Mapped) -> Changed {
        let mut changed = Changed::default();
        for place in 0..LOADS {
            let area = mapped.load(place);
            let wanted = protocol::offered(&area.id);
            match &mut self.loads[place] {
                Some(load) if load.leaves.is_some() => {}
                Some(load) if load.id != wanted => {
                    load.leaves = Some(u64::MAX);
                    changed.goes |= 1 << place;
                }
                Some(load) => {
                    let off = area.off.load(Relaxed);
                    if core::mem::replace(&mut load.off, off) != off {
                        changed.goes |= 1 << place;
                    }
                }
                None if wanted == 0 => {}
                None => {
                    if self.put(area, place, wanted) {
                        changed.comes |= 1 << place;
                    }
                }
            }
        }
        self.count_kinds();
        changed
    }

    /// Puts the program of a place to the process.
    fn put(&mut self, area: &Queries, place: usize, id: u32) -> bool {
        let Some((program, bytes)) = Prepared::read(area) else {
            return false;
        };
        let known = self.known.iter().find(|known| known.bytes == bytes);
        let prepared: &'static Prepared = match known {
            Some(known) => known,
            None => {
                let new = Box::leak(Box::new(Prepared::new(program, bytes)));
                self.known.push(new);
                new
            }
        };
        let ways = area.ways.load(Relaxed);
        self.loads[place] = Some(Load {
            id,
            prepared,
            tags: Tags::default(),
            off: area.off.load(Relaxed),
            ways: (ways != NO_WAYS).then_some(ways as u16),
            leaves: None,
        });
        area.put.store(id, Release);
        true
    }

    /// Notes which kinds any table is about.
    fn count_kinds(&mut self) {
        let all = self.loads.iter().flatten();
        let all = all.filter(|load| load.leaves.is_none());
        self.kinds = all.fold(0, |kinds, load| kinds | load.prepared.all_kinds());
    }

    /// Returns true if counts are reported by window.
    pub(crate) const fn is_by_window(&self) -> bool {
        self.by_window
    }

    /// Returns the load at a place that is asked, its program, and the first of its ways.
    pub(crate) fn in_force(&self, place: usize) -> Option<(u32, &'static Prepared, Option<u16>)> {
        let load = self.loads.get(place)?.as_ref();
        let load = load.filter(|load| load.leaves.is_none())?;
        Some((load.id, load.prepared, load.ways))
    }

    /// From now on code is made without probes, or with them again. Returns true if that makes a difference. What is executed in bursts
    /// is trommel's own question, which stays.
    pub(crate) fn pause(&mut self, paused: bool) -> bool {
        self.paused = paused;
        !self.in_bursts
    }

    /// Returns true if there are several programs.
    pub(crate) fn are_many(&self) -> bool {
        self.loads.iter().flatten().count() > 1
    }

    /// Returns true if a fragment may have instructions that the programs of `places` are about.
    pub(crate) fn concerns(
        &mut self,
        mapped: Mapped,
        places: u8,
        span: Range,
        operations: u8,
    ) -> bool {
        (0..LOADS)
            .filter(|n| places >> n & 1 != 0)
            .any(|place| match &mut self.loads[place] {
                Some(load) => {
                    let kinds = load.prepared.kinds.iter().enumerate();
                    let bits = kinds.filter(|(_, kinds)| **kinds & operations != 0);
                    let bits = bits.fold(0, |bits, (tag, _)| bits | 1 << tag);
                    bits != 0 && load.tags.may_be_in(mapped.load(place), span, bits)
                }
                None => false,
            })
    }

    /// Threads that come out of the cache in an epoch have left what is to go.
    pub(crate) fn leave_in(&mut self, epoch: u64) {
        for load in self.loads.iter_mut().flatten() {
            load.leaves = load.leaves.map(|leaves| leaves.min(epoch));
        }
    }

    /// The last epoch in which anything is to go, if anything is.
    pub(crate) fn leaves(&self) -> Option<u64> {
        self.loads.iter().flatten().filter_map(|l| l.leaves).max()
    }

    /// Places, by bit, of what is to go.
    pub(crate) fn leaving(&self) -> u8 {
        let loads = self.loads.iter().enumerate();
        let leaves = loads.filter(|(_, load)| load.as_ref().is_some_and(|l| l.leaves.is_some()));
        leaves.fold(0, |places, (place, _)| places | 1 << place)
    }

    /// Takes away what no thread executes any more: the places, by bit, of what was to go by an epoch.
    pub(crate) fn left(&mut self, mapped: Mapped, epoch: u64) -> u8 {
        let mut places = 0;
        for (place, load) in self.loads.iter_mut().enumerate() {
            let left = |load: &mut Load| load.leaves.is_some_and(|leaves| leaves <= epoch);
            if load.take_if(left).is_some() {
                mapped.load(place).put.store(0, Relaxed);
                places |= 1 << place;
            }
        }
        places
    }

    /// The site at an instruction whose bytes are `code`, of each program that is about it, and the instruction's operation by bit, if
    /// that matters.
    pub fn sites(
        &mut self,
        mapped: Mapped,
        pc: AppPc,
        class: Class,
        code: &[u8],
    ) -> Option<(About, u8)> {
        if self.paused && !self.in_bursts {
            return None;
        }
        let known = match class {
            Class::Jcc(..) | Class::ShortBranch(_) => Some(Operation::Branch),
            Class::Jmp(_)
            | Class::Call(_)
            | Class::JmpIndirect
            | Class::CallIndirect
            | Class::Ret(_) => Some(Operation::Jump),
            Class::Syscall => Some(Operation::System),
            _ => None,
        };
        const TRANSFERS: u8 = 1 << Operation::Branch as u8 | 1 << Operation::Jump as u8;
        let possible = match known {
            Some(operation) => 1 << operation as u8,
            None => !TRANSFERS,
        };
        if self.kinds & possible == 0 && !self.changing {
            return None;
        }
        let decoded = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
        let operation = match known {
            Some(operation) => operation,
            None => x86::operation(&mut self.info, &decoded),
        };
        let bit = 1 << operation as u8;
        let mut about = About::default();
        if self.kinds & bit != 0 {
            let mut tests = 0;
            for (place, to) in about.iter_mut().enumerate() {
                let site = self.site(mapped.load(place), place, pc, operation, &decoded);
                *to = site.map(|site| self.probe(place as u8, site, &mut tests));
            }
        }
        Some((about, bit))
    }

    /// The probe of a site. `tests`: those of the trees at its instruction so far, as there is room for so many.
    fn probe(&self, place: u8, site: &'static Site, tests: &mut usize) -> Probe {
        let load = self.loads[usize::from(place)].as_ref();
        let ways = load.and_then(|load| load.ways);
        let fits = |tree: &&Node| *tests + tree.tests() <= MAX_TESTS;
        let tree = site.quick.filter(fits);
        let quick = tree.zip(ways);
        *tests += quick.map_or(0, |(tree, _)| tree.tests());
        Probe { site, place, quick }
    }

    fn site(
        &mut self,
        area: &Queries,
        place: usize,
        pc: AppPc,
        operation: Operation,
        decoded: &Instruction,
    ) -> Option<&'static Site> {
        let load = self.loads[place].as_mut()?;
        let prepared = load.prepared;
        if load.leaves.is_some() || prepared.all_kinds() >> operation as u8 & 1 == 0 {
            return None;
        }
        let tag = load.tags.of(area, pc);
        let entry = Entry::of(Subject::Class(Selected::new(operation, tag)?));
        let control = prepared.program.table().get(entry)?;
        if load.off >> entry.number() & 1 != 0 {
            return None;
        }
        let observation = Observation::of(&mut self.info, decoded, control.fields);
        let site = Site {
            prepared,
            entry,
            counted: prepared.program.leader(entry),
            control,
            quick: quick_of(prepared, entry, &observation).filter(|_| !self.in_bursts),
            observation,
        };
        // Made for another fragment, of the same bytes.
        let key = (core::ptr::from_ref(prepared) as usize, pc);
        if let Some(known) = self.sites.get(&key).filter(|known| known.says(&site)) {
            return Some(known);
        }
        let site: &'static Site = Box::leak(Box::new(site));
        self.sites.insert(key, site);
        Some(site)
    }

    /// Returns true if any message goes to a queue.
    pub fn sends_to(&self, queue: u8) -> bool {
        self.does(|action| match action {
            Action::Send(queues) => queues.hold(queue),
            _ => false,
        })
    }

    /// Returns true if any instruction interrupts.
    pub fn interrupts(&self) -> bool {
        self.does(|action| matches!(action, Action::Interrupt { .. }))
    }

    fn does(&self, what: impl Fn(Action) -> bool) -> bool {
        let all = self.loads.iter().flatten();
        let mut code = all.flat_map(|load| load.prepared.program.code());
        code.any(|i| what(i.action))
    }

    /// Writes to a new slot which programs are put to its process.
    pub fn tell(&self, mapped: Mapped) {
        for (place, load) in self.loads.iter().enumerate() {
            let Some(load) = load.as_ref().filter(|load| load.leaves.is_none()) else {
                continue;
            };
            let area = mapped.load(place);
            area.off.store(load.off, Relaxed);
            let ways = load.ways.map_or(NO_WAYS, u32::from);
            area.ways.store(ways, Relaxed);
            area.id.store(load.id, Relaxed);
            area.put.store(load.id, Release);
        }
    }

    /// Goes on in the process's own slot, where the host has reported nothing yet. The process has one thread, out of the cache.
    pub fn in_new_slot(&mut self) {
        for load in &mut self.loads {
            // Its code was retired, and nobody is in it.
            load.take_if(|load| load.leaves.is_some());
            if let Some(load) = load {
                load.tags.in_new_slot();
            }
        }
    }
}

/// The tree of an entry, where all that is compared can be read by generated code.
fn quick_of(
    prepared: &'static Prepared,
    entry: Entry,
    observation: &Observation,
) -> Option<&'static Node> {
    let tree = prepared.quick.tree(entry)?;
    let is_held = |field| observation.held(field).is_some();
    tree.fields().iter().all(is_held).then_some(tree)
}

/// Data of a probe's crossing, in its code.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Crossing {
    /// Address of the [`Site`].
    pub site: u64,
    /// Distance from here to where the code goes on.
    pub after: i32,
    /// [`Crossing::RDX_IN_SLOT`] and so on.
    pub flags: u32,
}

impl Crossing {
    /// The app's `rdx` is in its slot.
    pub const RDX_IN_SLOT: u32 = 1;
    /// The instruction follows, and then another crossing.
    pub const FIRST: u32 = 2;
    /// The second crossing of an instruction.
    pub const SECOND: u32 = 4;
    /// Bits below the place of the program.
    pub const PLACE: u32 = 8;

    /// Place of the program.
    pub const fn place(self) -> usize {
        (self.flags >> Self::PLACE) as usize % LOADS
    }
}
