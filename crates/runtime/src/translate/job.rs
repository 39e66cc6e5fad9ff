//! The fragment being made.

use alloc::vec::Vec;

use trommel_query::access::Accesses;
use trommel_queue::dict::Event;

use super::{MAX_INSNS, QUIET_WORDS, Tail, flags, looped, made, path, persisted, turns, ways};
use crate::base::address::{AppPc, CachePc, Range};
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, Reg, Rel32};
use crate::base::ids::ExitId;
use crate::base::prefix::{Midway, Prefix};
use crate::cache::{Spilled, UNLINKED};
use crate::observe::query;

/// One fragment's state, in memory that is kept between fragments.
pub(super) struct Job {
    /// Prefix of the fragment on an acyclic path, and prefix after the exit being made.
    pub(super) prefix: Prefix,
    pub(super) onward: Prefix,
    /// The path of the dictionary that ends at that exit, if the prefix after it is not known.
    pub(super) onward_path: u32,
    /// The events of its block, and how far they were followed: how many, what follows then, and whether a path has ended.
    pub(super) events: Vec<Event>,
    pub(super) followed: (usize, Option<Midway>, bool),
    /// Events of its block when control arrives.
    pub(super) arrivals: usize,
    /// The function that it is of, where that matters and is known.
    pub(super) function: Option<Range>,
    /// The query sites at the instruction at hand.
    pub(super) about: query::About,
    /// Places of query programs that the fragment has probes of, and operations of its instructions, by bit.
    pub(super) probes: u8,
    pub(super) operations: u8,
    /// Prefetches in it.
    pub(super) prefetches: usize,
    /// Instructions that have no events, by bit, and whether the one at hand is one of them.
    pub(super) unselected: [u64; QUIET_WORDS],
    pub(super) skips: bool,
    /// One bit for each of `insns`: it would have events with values, and is not profiled.
    pub(super) quiet: [u64; QUIET_WORDS],
    /// One bit for each of `insns`: it is after a call.
    pub(super) after_calls: [u64; QUIET_WORDS],
    /// Instructions, as many as a fragment has at most. The first `count` are its own.
    pub(super) insns: Vec<Insn>,
    pub(super) count: usize,
    /// Accesses of each of them, where they are recorded.
    pub(super) accesses: Vec<Accesses>,
    /// Place of its code, and of its stubs.
    pub(super) code: Code<'static>,
    pub(super) stubs: Code<'static>,
    pub(super) tails: Vec<Tail>,
    pub(super) constants: Vec<(Rel32, u64)>,
    /// The app addresses that `insns` are from.
    pub(super) span: Range,
    /// The pages that they are in.
    pub(super) pages: Vec<u64>,
    /// The way in which it gets the app's code.
    pub(super) from: made::From,
    /// Contents of slots at this point of the second pass.
    pub(super) spilled: Spilled,
    /// App instructions that have been executed when control leaves at this point.
    pub(super) passed: usize,
    /// The register that holds the write pointer.
    pub(super) stolen: Option<Reg>,
    /// Its indirect branches are counted.
    pub(super) pairs: bool,
    /// True if it is a trace.
    pub(super) trace: bool,
    /// Turns: places after transfers where it goes on, in order, and how many of them the second pass has reached.
    pub(super) turns: Vec<path::Turn>,
    pub(super) turned: usize,
    /// Number of events in its block before each instruction, and of all, for a trace with events.
    pub(super) listed: Vec<u16>,
    /// The first event in the block of the way that is being written.
    pub(super) first: usize,
    /// The app's flags at this point of the second pass.
    pub(super) flags: flags::Flags,
    /// The arena where it will be.
    pub(super) arena: usize,
    pub(super) misses: Vec<turns::Miss>,
    /// Events that it counts by strides.
    pub(super) strides: ways::strides::Strides,
    /// Messages of its counters, which are written after all else.
    pub(super) messages: Vec<ways::Pending>,
    /// State of the loop that is made of it, if it is one.
    pub(super) looped: looped::Looped,
    /// Parts of its code that do the app's work, with [`super::Config::audit`].
    pub(super) work: Vec<(u32, u32)>,
    /// Parts of it that depend on addresses.
    pub(super) notes: persisted::Notes,
    /// The instruction that the second pass is at.
    pub(super) here: AppPc,
    /// Class of that instruction.
    pub(super) class: Class,
    /// True if that instruction stores the x87 unit's record.
    pub(super) stores_x87: bool,
}

impl Job {
    /// One with room for so many instructions.
    pub(super) fn new(max_insns: usize) -> Self {
        Self {
            prefix: Prefix::NONE,
            onward: Prefix::NONE,
            onward_path: UNLINKED,
            events: Vec::new(),
            followed: (0, None, false),
            arrivals: 0,
            function: None,
            about: query::About::default(),
            probes: 0,
            operations: 0,
            prefetches: 0,
            unselected: [0; QUIET_WORDS],
            skips: false,
            quiet: [0; QUIET_WORDS],
            after_calls: [0; QUIET_WORDS],
            insns: alloc::vec![Insn::plain(); max_insns],
            count: 0,
            accesses: alloc::vec![Accesses::default(); max_insns],
            code: Code::new(CachePc(0), &mut []),
            stubs: Code::new(CachePc(0), &mut []),
            tails: Vec::with_capacity(MAX_INSNS),
            constants: Vec::new(),
            span: Range { start: 0, end: 0 },
            pages: Vec::with_capacity(4),
            from: made::From::default(),
            spilled: Spilled::NONE,
            passed: 0,
            stolen: None,
            pairs: false,
            trace: false,
            turns: Vec::new(),
            turned: 0,
            listed: Vec::new(),
            first: 0,
            flags: flags::Flags::default(),
            arena: 0,
            misses: Vec::new(),
            strides: ways::strides::Strides::default(),
            messages: Vec::new(),
            looped: looped::Looped::default(),
            work: Vec::new(),
            notes: persisted::Notes::default(),
            here: AppPc(0),
            class: Class::Plain,
            stores_x87: false,
        }
    }

    /// Begins a fragment: nothing has been decoded.
    pub(super) fn begin(&mut self, from: made::From, prefix: Prefix, trace: bool) {
        self.from = from;
        self.prefix = prefix;
        self.onward = Prefix::NONE;
        self.arrivals = 0;
        self.strides.clear();
        self.trace = trace;
        self.count = 0;
        self.quiet.fill(0);
        self.after_calls.fill(0);
        self.skips = false;
        self.pages.clear();
        self.stolen = None;
        self.turns.clear();
        self.turned = 0;
        self.flags = flags::Flags::default();
        self.listed.clear();
        self.first = 0;
        self.looped.clear();
    }

    /// Opens the code in this arena: nothing has been written.
    pub(super) fn open(&mut self, arena: usize, first_exit: (usize, ExitId)) {
        self.tails.clear();
        self.constants.clear();
        self.misses.clear();
        self.messages.clear();
        self.work.clear();
        self.arena = arena;
        self.notes.begin(first_exit);
        self.prefetches = 0;
        (self.probes, self.operations) = (0, 0);
    }
}
