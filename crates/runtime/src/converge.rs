//! Places that are not profiled for a while, as the host knows their values.
//!
//! # Problem
//! The values of most loads are distributed as they were a while ago. To go on counting them costs several times what the program
//! does, and tells nothing new (Calder, Feller, Eustace, *Value Profiling*, JILP 1999: convergent profiling).
//!
//! # Strategy
//! It is the host that sees values, and decides (`trommel_host::converge`). What it tells is a table of addresses of instructions
//! ([`trommel_queue::converge`]). When there is a new one, all code is dropped, and what is made from then on has no probe at those
//! instructions, however events are counted: the load is taken for an instruction that loads nothing, the call for one without a method table.
//! Probes that come back do so in the same way.
//!
//! The table is looked at when a thread enters the dispatcher or has filled a chunk; the host calls threads back that
//! do neither ([`crate::knock`]).
//!
//! Where paths are counted and branches are collected, so that there is a path for each way through a fragment, the dictionary says of each
//! such instruction that it is there ([`Event::Unprofiled`]): so the host knows how often it was executed, exactly.
//!
//! # Why it is correct
//! * What is dropped is made anew as it would have been with fewer, or more, loads: nothing of the app's is touched.
//! * An execution is profiled, or counted as not profiled, or neither is promised: the fragment that it is in has the probe, or the entry in the
//!   dictionary, and never both.
//! * To drop code while threads execute it is what [`Runtime::drop_all`] is for.
//! * A child of `fork` has another slot, whose host-side knows nothing: it goes by no table.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::COUNTS_PATHS;
use trommel_queue::converge::MAX_PLACES;
use trommel_queue::dict::{Event, TargetPc};
use trommel_queue::work::Flush;
use trommel_tuple::Kind;

use crate::cache::AppPc;
use crate::decode::{Class, Insn};
use crate::deliver::Mapped;
use crate::dispatch::Runtime;
use crate::knock;

/// The places of a process.
pub struct Converge {
    mapped: Mapped,
    /// Number of the table that is gone by.
    table: u32,
    /// Addresses, in order.
    quiet: Vec<u64>,
    /// Executions are told by the counts of paths.
    counted: bool,
}

impl Converge {
    /// As the host wants it, if it does.
    pub fn of(mapped: Mapped) -> Option<Self> {
        let wanted = mapped.converge().wanted.load(Acquire) != 0;
        if wanted {
            knock::await_knocks();
        }
        wanted.then(|| Self {
            mapped,
            table: 0,
            quiet: Vec::new(),
            counted: mapped.control().counters.load(Relaxed) == COUNTS_PATHS,
        })
    }

    /// Whether the instruction at `pc` has no probe.
    pub fn is_quiet(&self, pc: AppPc) -> bool {
        self.quiet.binary_search(&pc.0).is_ok()
    }

    /// What the dictionary says of an instruction without its probe; `branches`: whether they are collected.
    pub fn unprofiled(&self, insn: &Insn, branches: bool) -> Option<Event> {
        let kind = match insn.class {
            Class::CallIndirect => Kind::Type,
            _ => Kind::Value,
        };
        let pc = TargetPc(insn.pc().0);
        (self.counted && branches).then_some(Event::Unprofiled { kind, pc })
    }

    /// Reads the host's table, if it is a new one.
    fn read(&mut self) -> bool {
        let told = self.mapped.converge();
        let table = told.told.load(Acquire);
        if table == self.table {
            return false;
        }
        self.table = table;
        let places = (told.places.load(Relaxed) as usize).min(MAX_PLACES);
        self.quiet.clear();
        let all = told.place[..places].iter();
        self.quiet.extend(all.map(|place| place.load(Relaxed)));
        // The host's word: what is not in order is not found, and nothing worse.
        self.quiet.sort_unstable();
        told.seen.store(table, Release);
        true
    }

    /// The process goes on in a slot of its own, where nothing is told. Whether code lacks probes.
    pub fn in_new_slot(&mut self, mapped: Mapped) -> bool {
        self.mapped = mapped;
        self.table = 0;
        let lacks = !self.quiet.is_empty();
        self.quiet.clear();
        lacks
    }
}

impl Runtime {
    /// The host may have told a table: for a thread that is out of the cache, and drops everything when it goes on.
    pub fn go_by_table(&mut self) {
        if self.reads_table() {
            self.evict = Some(Flush::Asked);
        }
    }

    /// As [`Self::go_by_table`], for a thread that goes on in its fragment.
    pub fn go_by_table_at_once(&mut self) {
        if self.reads_table() {
            self.drop_all(Flush::Asked, false);
        }
    }

    fn reads_table(&mut self) -> bool {
        let converge = self.translator.converge.as_mut();
        converge.is_some_and(Converge::read)
    }
}
