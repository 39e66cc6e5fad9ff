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
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use trommel_query::instruction::Action;
use trommel_query::observe::{Observation, When};
use trommel_query::quick::{Node, Quick};
use trommel_query::{
    Class as Selected, Control, Entry, Operation, Program, QueryPc, Sampling, Subject, image, x86,
};
use trommel_queue::prefetch::MISSES;
use trommel_queue::queries::{ENTRIES, PROGRAM_WORDS};

use crate::base::address::AppPc;
use crate::base::decode::Class;
use crate::base::emit::GsOffset;
use crate::channel::slot::Mapped;
use crate::channel::tags::Tags;
use crate::slot;

/// Both sides of a crossing number table entries alike.
const _: () = assert!(ENTRIES == trommel_query::class::ENTRIES);

/// Query program of a process.
pub struct Asked {
    pub(crate) program: &'static Program,
    /// Instructions of the program that count.
    pub(crate) counting: &'static [QueryPc],
    /// Entries of the program's table.
    pub(crate) entries: &'static [Entry],
    /// The kinds of instructions that any table entry is about, by bit.
    pub(crate) kinds: u8,
    pub(crate) info: InstructionInfoFactory,
    pub(crate) tags: Tags,
    /// Executions are profiled in bursts ([`crate::observe::prefetch`]).
    pub(crate) in_bursts: bool,
    /// Trees of the queries that only compare and count.
    pub(crate) quick: &'static Quick,
    /// Sites by address. They stay: code that leads to them may be executed at any time.
    pub(crate) sites: BTreeMap<AppPc, &'static Site>,
}

/// An instruction that a table entry is about.
#[derive(PartialEq, Eq)]
pub struct Site {
    pub(crate) entry: Entry,
    pub(crate) control: Control,
    pub(crate) observation: Observation,
    /// The tree of its query, if generated code can follow it here.
    pub(crate) quick: Option<&'static Node>,
}

impl Site {
    /// Returns the time of the look at an execution.
    pub const fn when(&self) -> When {
        self.observation.when()
    }

    /// Returns the slot that counts down executions up to the next that is profiled; `None` where all are.
    pub fn countdown(&self) -> Option<GsOffset> {
        let number = self.entry.number() as u32;
        let sampled = self.control.sampling != Sampling::ALWAYS;
        sampled.then(|| GsOffset(slot!(left).0 + 4 * number))
    }
}

impl Asked {
    /// Creates the state from the host's query program, if there is one.
    pub fn of(mapped: Mapped) -> Option<Self> {
        let area = mapped.queries();
        let bytes = area.bytes.load(Acquire) as usize;
        if bytes == 0 {
            return None;
        }
        let words = area.program[..bytes.div_ceil(8).min(PROGRAM_WORDS)].iter();
        let mut program: Vec<u8> = words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
        program.truncate(bytes);
        // The host has written what it had assembled.
        let program: &'static Program = Box::leak(Box::new(image::decode(&program).ok()?));
        let counts = |at: &QueryPc| program.code()[at.number()].action == Action::Count;
        let all = (0..program.code().len()).filter_map(QueryPc::new);
        let mut kinds = 0;
        for (entry, _) in program.table().entries() {
            if let Subject::Class(class) = entry.subject() {
                kinds |= 1 << class.operation as u8;
            }
        }
        Some(Self {
            program,
            counting: Box::leak(all.filter(counts).collect()),
            entries: Box::leak(program.table().entries().map(|(entry, _)| entry).collect()),
            kinds,
            info: InstructionInfoFactory::new(),
            tags: Tags::default(),
            quick: Box::leak(Box::new(Quick::of(program))),
            in_bursts: mapped.prefetch().wanted.load(Acquire) == MISSES,
            sites: BTreeMap::new(),
        })
    }

    /// The site of an instruction whose bytes are `code`, if a table entry is about it.
    pub fn site(
        &mut self,
        mapped: Mapped,
        pc: AppPc,
        class: Class,
        code: &[u8],
    ) -> Option<&'static Site> {
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
        if self.kinds & possible == 0 {
            return None;
        }
        let decoded = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
        let operation = match known {
            Some(operation) => operation,
            None => x86::operation(&mut self.info, &decoded),
        };
        if self.kinds >> operation as u8 & 1 == 0 {
            return None;
        }
        let tag = self.tags.of(mapped, pc);
        let entry = Entry::of(Subject::Class(Selected::new(operation, tag)?));
        let control = self.program.table().get(entry)?;
        let observation = Observation::of(&mut self.info, &decoded, control.fields);
        let site = Site {
            entry,
            control,
            quick: self.quick_of(entry, &observation),
            observation,
        };
        // Made for another fragment, of the same bytes.
        if let Some(known) = self.sites.get(&pc).filter(|known| ***known == site) {
            return Some(known);
        }
        let site: &'static Site = Box::leak(Box::new(site));
        self.sites.insert(pc, site);
        Some(site)
    }

    /// The tree of an entry, where all that is compared can be read by generated code.
    fn quick_of(&self, entry: Entry, observation: &Observation) -> Option<&'static Node> {
        let tree = self.quick.tree(entry).filter(|_| !self.in_bursts)?;
        let is_held = |field| observation.held(field).is_some();
        tree.fields().iter().all(is_held).then_some(tree)
    }

    /// Returns true if any message goes to a queue.
    pub fn sends_to(&self, queue: u8) -> bool {
        let to = |action: Action| match action {
            Action::Send(queues) => queues.hold(queue),
            _ => false,
        };
        self.program.code().iter().any(|i| to(i.action))
    }

    /// Returns true if any instruction interrupts.
    pub fn interrupts(&self) -> bool {
        let interrupts = |action: Action| matches!(action, Action::Interrupt { .. });
        self.program.code().iter().any(|i| interrupts(i.action))
    }

    /// Goes on in the process's own slot, where the host has reported nothing yet.
    pub fn in_new_slot(&mut self) {
        self.tags.in_new_slot();
    }
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
}
