//! Places that are not profiled for a while, because the host knows their values.
//!
//! # Problem
//! The values of most loads are distributed as they were a while ago. To go on counting them costs several times what the program
//! costs, and reports nothing new (Calder, Feller, Eustace, *Value Profiling*, JILP 1999: convergent profiling).
//!
//! # Strategy
//! The host sees the values, and decides (`trommel_host::ask::converge`). It reports a table of addresses of instructions
//! ([`trommel_queue::converge`]), and whether to go by it. There are two variants of the code (`cache::variant`): one with all probes, and one without those of the table.
//! However events are counted, the second treats the load as an instruction that loads nothing, and the call as one without a method table. A change of
//! variant makes no code, and a new table is a variant made anew. Traces are made in the variant without probes, as little is executed in the other.
//!
//! A thread reads the report when it enters the dispatcher or has filled a chunk. The host calls back threads that
//! do neither ([`crate::base::knock`]).
//!
//! Where paths are counted and branches are collected, there is a path for each way through a fragment. There the dictionary has an entry
//! for each such instruction ([`Event::Unprofiled`]). So the host knows exactly how often the instruction was executed.
//!
//! # Why it is correct
//! * Code is made as if it had fewer, or more, loads: nothing of the app's is touched.
//! * An execution is profiled, or counted as not profiled, or neither is promised: the fragment that it is in has the probe, or the entry in the
//!   dictionary, and never both.
//! * A thread leaves a variant that it is not to be in any more at its next exit.
//! * A forked child has another slot, where the host has reported nothing: it goes by no table.
//!
//! **I18 (places without probes).** A place without its probe is an entry of its block where branches are counted, so its executions are known; else nothing is promised of them. No table of such places is written before the target uses the last one.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::COUNTS_PATHS;
use trommel_queue::converge::MAX_PLACES;
use trommel_queue::dict::{Event, TargetPc};
use trommel_tuple::Kind;

use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::base::knock;
use crate::base::sys;
use crate::channel::slot::Mapped;

/// The places of a process.
pub struct Converge {
    mapped: Mapped,
    /// Number of the last report that was read.
    reported: u32,
    /// Number of the table in `quiet`.
    table: u32,
    /// Addresses, in order.
    quiet: Vec<u64>,
    /// Code is made with all probes.
    pub(crate) all: bool,
    /// Time stamp up to which code has all probes, if the host has given one.
    until: u64,
    /// True if the counts of paths show executions.
    counted: bool,
    /// Start value of counters at places where traces may start, in the variant without probes; 0: there are none.
    pub threshold: u32,
}

impl Converge {
    /// Creates the state, if the host wants tables of places.
    pub fn of(mapped: Mapped) -> Option<Self> {
        let wanted = mapped.converge().wanted.load(Acquire) != 0;
        if wanted {
            knock::await_knocks();
        }
        wanted.then(|| Self {
            mapped,
            reported: 0,
            table: 0,
            quiet: Vec::new(),
            all: true,
            until: u64::MAX,
            counted: mapped.control().setup.counters.load(Relaxed) == COUNTS_PATHS,
            threshold: 0,
        })
    }

    /// Goes by a table that is given here.
    #[cfg(test)]
    pub(crate) fn of_places(mapped: Mapped, mut places: Vec<u64>) -> Self {
        places.sort_unstable();
        Self {
            mapped,
            reported: 0,
            table: 0,
            quiet: places,
            all: false,
            until: u64::MAX,
            counted: mapped.control().setup.counters.load(Relaxed) == COUNTS_PATHS,
            threshold: 0,
        }
    }

    /// Returns true if the instruction at `pc` has no probe.
    pub fn is_quiet(&self, pc: AppPc) -> bool {
        !self.all && self.quiet.binary_search(&pc.0).is_ok()
    }

    /// Returns the event that the dictionary has for an instruction without its probe. `branches` is true if branches are collected.
    pub fn unprofiled(&self, insn: &Insn, branches: bool) -> Option<Event> {
        let kind = match insn.class {
            Class::CallIndirect => Kind::Type,
            _ => Kind::Value,
        };
        let pc = TargetPc(insn.pc().0);
        (self.counted && branches).then_some(Event::Unprofiled { kind, pc })
    }

    /// Returns true if the host has reported something new.
    pub(crate) fn is_news(&self) -> bool {
        self.mapped.converge().reported.load(Acquire) != self.reported
    }

    /// Returns true if the time for which all places have their probes is over.
    pub(crate) fn is_over(&self) -> bool {
        self.until != u64::MAX && sys::ticks() >= self.until
    }

    /// Returns true if all places are to have their probes.
    pub(crate) fn wants_all(&self) -> bool {
        self.is_news() && self.mapped.converge().all.load(Relaxed) != 0
    }

    /// Reads the host's table, if it is a new one.
    pub(crate) fn read(&mut self) -> bool {
        let host = self.mapped.converge();
        let table = host.table.load(Relaxed);
        if table == self.table {
            return false;
        }
        self.table = table;
        let places = (host.places.load(Relaxed) as usize).min(MAX_PLACES);
        self.quiet.clear();
        let all = host.place[..places].iter();
        self.quiet.extend(all.map(|place| place.load(Relaxed)));
        // The host's word: what is not in order is not found, and nothing worse.
        self.quiet.sort_unstable();
        true
    }

    /// Acknowledges the host's report: it is in effect from now on.
    pub(crate) fn settle(&mut self) {
        let host = self.mapped.converge();
        self.until = match self.all {
            true => sys::ticks().saturating_add(host.lasts.load(Relaxed)),
            false => u64::MAX,
        };
        if self.is_news() {
            self.reported = host.reported.load(Relaxed);
            host.stamp.store(sys::ticks(), Relaxed);
            host.seen.store(self.reported, Release);
        } else {
            host.back_stamp.store(sys::ticks(), Relaxed);
            host.back.store(self.reported, Release);
        }
    }

    /// Goes on in the process's own slot, where the host has reported nothing. Returns true if code lacks probes.
    pub fn in_new_slot(&mut self, mapped: Mapped) -> bool {
        self.mapped = mapped;
        self.reported = 0;
        self.table = 0;
        let lacks = !self.all;
        self.all = true;
        self.until = u64::MAX;
        self.quiet.clear();
        lacks
    }
}
