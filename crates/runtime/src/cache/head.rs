//! Heads: places where traces may start. Counted entries, and traces in the place of fragments.
//!
//! A *counted entry* is code beside the stubs that counts down and goes on to the fragment:
//!
//! ```text
//!   mov gs:[spill], rcx
//!   mov ecx, [counter]      in a page of the arena that holds no code
//!   lea ecx, [rcx − 1]
//!   mov [counter], ecx
//!   jrcxz hot
//!   mov rcx, gs:[spill]
//!   jmp fragment
//! ```
//!
//! Flags are preserved. A signal that arrives in it is delivered at the start of the fragment.
//!
//! Counters are given out again when their fragment has become a trace. A thread that is just
//! about to count may then count for the next owner, which does no harm.
#![allow(unsafe_code)] // reason: writes counters.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use alloc::vec::Vec;

use super::entry::retired_entry;
use super::table::Table;
use super::{Cache, Exit, UNLINKED, Way};
use crate::base::address::Range;
use crate::base::address::Ranges;
use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, Reg};
use crate::base::ids::{ExitId, ExitIds, FragmentId};
use crate::base::prefix::Prefix;
use crate::slot;

/// Start value of the counters of fragments that are said to be hot.
const SOON: u32 = 16;

/// Room for one counted entry among the stubs.
const ROOM: u64 = 96;

/// State of a fragment in the selection of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// No exit that counts has been linked to the fragment yet.
    Unknown,
    /// Counted: address of the counted entry, and number of the counter.
    Counted(CachePc, u32),
    /// Not counted: a trace would gain nothing, or none can be made.
    Settled,
    /// A trace.
    Trace,
}

/// State of the selection of traces in the cache.
pub(super) struct Heads {
    /// Start value of counters; 0: there are no traces.
    pub(super) threshold: u32,
    /// Index in `recorded`, by address.
    by_address: Table,
    /// Recorded fragments and their exits.
    recorded: Vec<(FragmentId, ExitIds)>,
    /// Sites: places where indirect branches of traces go elsewhere and are counted.
    sites: Vec<Site>,
    /// Indirect branches that go to too many places.
    fickle: Table,
    /// Code that is said to be hot.
    soon: Ranges,
    /// Loops that turned out to have more ways than were known, and how often.
    grown: Table,
}

/// Site: a place where an indirect branch of a trace goes elsewhere.
#[derive(Clone, Copy)]
struct Site {
    /// The displacement that leads to code which counts, or past that.
    patch: CachePc,
    /// Displacement past the counting code.
    plain: i32,
    arena: usize,
    counter: u32,
    /// The branch.
    pc: AppPc,
    /// Times that it counted to the end.
    times: u32,
    /// Time when it did so last, in nanoseconds of the process's CPU time.
    last: u64,
}

impl Heads {
    pub(super) fn new() -> Self {
        Self {
            threshold: 0,
            by_address: Table::new(),
            recorded: Vec::new(),
            sites: Vec::new(),
            fickle: Table::new(),
            soon: Ranges::default(),
            grown: Table::new(),
        }
    }

    /// A new generation.
    pub(super) fn forget(&mut self) {
        self.forget_recorded();
        self.sites.clear();
    }

    /// No recorded fragment is executed again.
    pub(super) fn forget_recorded(&mut self) {
        if !self.recorded.is_empty() {
            self.by_address = Table::new();
            self.recorded.clear();
        }
    }
}

impl Cache {
    /// Traces are made of what was counted `threshold` times.
    pub fn make_traces(&mut self, threshold: u32) {
        self.heads.threshold = threshold;
    }

    /// Returns whether traces are made.
    pub fn makes_traces(&self) -> bool {
        self.heads.threshold != 0
    }

    /// Returns whether a fragment is a trace.
    pub fn is_trace(&self, id: FragmentId) -> bool {
        self.fragments[id.index()].head == Head::Trace
    }

    /// The number that the next exit will have.
    pub fn next_exit(&self) -> ExitId {
        self.first_exit.plus(self.exits.len())
    }

    /// The recorded fragment of an address, with this after it on an acyclic path, and its exits.
    pub fn recorded(&self, app: AppPc, prefix: Prefix) -> Option<(FragmentId, ExitIds)> {
        let n = self.heads.by_address.get(prefix.key(app))?;
        self.heads.recorded.get(n as usize).copied()
    }

    /// Keeps a recorded fragment for the next path.
    pub fn keep_recorded(&mut self, id: FragmentId, exits: ExitIds) {
        let n = self.heads.recorded.len() as u32;
        let key = self.fragments[id.index()].key();
        self.heads.recorded.push((id, exits));
        self.heads.by_address.insert(key, n);
    }

    /// Returns the address where an exit that counts enters a fragment.
    pub(super) fn counted_entry(&mut self, id: FragmentId) -> CachePc {
        let fragment = self.fragments[id.index()];
        let fixed = fragment.source.is_none() && !fragment.guarded;
        match fragment.head {
            Head::Counted(at, _) => at,
            Head::Unknown if self.heads.threshold != 0 && fixed => {
                self.make_counted_entry(id).unwrap_or(fragment.entry)
            }
            _ => fragment.entry,
        }
    }

    /// Counts an exit that counts, where exits are not linked. Returns true if the counter of the fragment of
    /// `app` has reached zero.
    pub fn counts_down(&mut self, app: AppPc, prefix: Prefix) -> bool {
        if !self.unlinked {
            return false;
        }
        let Some(id) = self.lookup_on(app, prefix) else {
            return false;
        };
        self.counted_entry(id);
        let fragment = self.fragments[id.index()];
        let (Head::Counted(_, counter), Some(n)) = (fragment.head, self.arena_of(fragment.entry))
        else {
            return false;
        };
        let at = self.arenas[n].counter(counter);
        // SAFETY: a counter of the arena, aligned.
        unsafe { &*(at as *const AtomicU32) }.fetch_sub(1, Relaxed) <= 1
    }

    fn make_counted_entry(&mut self, id: FragmentId) -> Option<CachePc> {
        let fragment = self.fragments[id.index()];
        let n = self.arena_of(fragment.entry)?;
        if self.arenas[n].room() < ROOM {
            return None;
        }
        let (counter, address) = self.arenas[n].take_counter()?;
        let exit = self.new_exit(Exit {
            prefix: fragment.prefix,
            ..Exit::fixed(fragment.app)
        });
        let at = self.arenas[n].next();
        let mut bytes = [0; ROOM as usize];
        let mut code = Code::new(at, &mut bytes);
        code.store_gs(slot!(spill_rcx), Reg::RCX);
        code.load_rip(Reg::RCX, 4, address);
        code.raw(&[0x8d, 0x49, 0xff]); // lea ecx, [rcx - 1]
        code.store_rip(Reg::RCX, address);
        let hot = code.jrcxz();
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        let from = code.jmp();
        let rel = fragment.entry.0 as i64 - code.at(from.0).0 as i64 - 4;
        code.put_u32(from.0, rel as i32 as u32);
        code.bind8_here(hot);
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        code.store_gs_imm32(slot!(exit), exit.0);
        code.jmp_gs(slot!(entry.hot));
        self.place_lead(n, code.bytes());
        self.fragments[id.index()].head = Head::Counted(at, counter);
        self.count_again(id);
        Some(at)
    }

    /// Sets a fragment's counter to what it started at.
    pub fn count_again(&self, id: FragmentId) {
        let fragment = &self.fragments[id.index()];
        if let (Head::Counted(_, counter), Some(n)) = (fragment.head, self.arena_of(fragment.entry))
        {
            let at = self.arenas[n].counter(counter);
            // SAFETY: a counter of the arena, aligned; generated code reads and writes it whole.
            unsafe { &*(at as *const AtomicU32) }.store(self.threshold_of(fragment.app), Relaxed);
        }
    }

    fn threshold_of(&self, app: AppPc) -> u32 {
        match self.heads.soon.hold(app.0) {
            true => self.heads.threshold.min(SOON),
            false => self.heads.threshold,
        }
    }

    /// Fragments in `range` become traces sooner.
    pub fn count_soon(&mut self, range: Range) {
        self.heads.soon.add(range);
        for id in self.ids() {
            let fragment = &self.fragments[id.index()];
            if (range.start..range.end).contains(&fragment.app.0) {
                self.count_again(id);
            }
        }
    }

    /// A site of a trace that is being made for an arena: the exit for when it has counted to its end,
    /// and the address of its counter.
    pub fn new_site(
        &mut self,
        arena: usize,
        pc: AppPc,
        patch: CachePc,
        plain: i32,
    ) -> Option<(ExitId, u64)> {
        let (counter, address) = self.arenas[arena].take_counter()?;
        // SAFETY: a counter of the arena, aligned.
        unsafe { &*(address as *const AtomicU32) }.store(self.heads.threshold, Relaxed);
        let number = self.heads.sites.len() as u32;
        self.heads.sites.push(Site {
            patch,
            plain,
            arena,
            counter,
            pc,
            times: 0,
            last: 0,
        });
        let exit = self.new_exit(Exit {
            way: Way::Site,
            next_link: number,
            ..Exit::fixed(AppPc(0))
        });
        Some((exit, address))
    }

    /// The site of an exit has counted to its end. It counts again, a few times, each time longer;
    /// then no more. Returns true if there was one miss in less than `OFTEN` nanoseconds: then its branch is
    /// fickle. Also returns how many misses it has counted.
    pub fn site_is_hot(&mut self, exit: ExitId, now: u64) -> (bool, u64) {
        const TIMES: u32 = 6;
        /// A miss takes about 8.
        const OFTEN: u64 = 100;
        let Some(n) = self.current_exit(exit) else {
            return (false, 0);
        };
        let Some(site) = self.heads.sites.get_mut(self.exits[n].next_link as usize) else {
            return (false, 0);
        };
        site.times += 1;
        let since = now.wrapping_sub(core::mem::replace(&mut site.last, now));
        let site = *site;
        let misses = u64::from(self.heads.threshold) << (site.times - 1);
        let fickle = site.times > 2 && since < misses * OFTEN && self.give_up(&site);
        let arena = &mut self.arenas[site.arena];
        if site.times < TIMES {
            let at = arena.counter(site.counter);
            // SAFETY: a counter of the arena, aligned.
            unsafe { &*(at as *const AtomicU32) }
                .store(self.heads.threshold << site.times, Relaxed);
        } else if site.times == TIMES {
            arena.give_counter_back(site.counter);
            Self::patch(site.patch, site.plain);
        }
        (fickle, misses)
    }

    /// The branch of a site goes to too many places: usual traces end there, and the trace is given up.
    /// False if that was done before.
    fn give_up(&mut self, site: &Site) -> bool {
        let Some((fragment, _)) = self.fragment_at(site.patch) else {
            return false;
        };
        let entry = fragment.entry;
        let Some(id) = self.table.get(fragment.key()) else {
            return false;
        };
        let fragment = &self.fragments[id.index()];
        if fragment.entry != entry || fragment.head != Head::Trace {
            return false;
        }
        self.heads.fickle.insert(site.pc, 0);
        self.cut_off(id);
        self.bury(id);
        true
    }

    /// Gives a loop up that keeps slots of the stack frame in registers, as a hot way leads out of it and back to
    /// its start. False if that has been done several times.
    pub fn give_up_loop(&mut self, id: FragmentId) -> bool {
        const TIMES: u32 = 3;
        let fragment = self.fragments[id.index()];
        let times = self.heads.grown.get(fragment.app).unwrap_or(0);
        if fragment.promoted == 0 || times >= TIMES {
            return false;
        }
        self.heads.grown.insert(fragment.app, times + 1);
        self.cut_off(id);
        self.bury(id);
        true
    }

    /// Returns whether an exit of a recorded fragment is an indirect branch that goes to too many places.
    pub fn is_fickle(&self, exit: &Exit) -> bool {
        exit.patch == CachePc(0) && self.heads.fickle.get(exit.target).is_some()
    }

    /// Counts a fragment no more.
    pub fn settle(&mut self, id: FragmentId) {
        self.give_counter_back(id);
        self.fragments[id.index()].head = Head::Settled;
        self.lead_links(id, id);
    }

    pub(super) fn give_counter_back(&mut self, id: FragmentId) {
        self.settle_arrival(id);
        let fragment = &self.fragments[id.index()];
        if let (Head::Counted(_, counter), Some(n)) = (fragment.head, self.arena_of(fragment.entry))
        {
            self.arenas[n].give_counter_back(counter);
        }
    }

    /// Links everything to `to` that was linked to `from`.
    fn lead_links(&mut self, from: FragmentId, to: FragmentId) {
        let first = &mut self.fragments[from.index()].first_link;
        let mut link = core::mem::replace(first, UNLINKED);
        while let Some(exit) = self.exits.get_mut(link as usize) {
            let next = core::mem::replace(&mut exit.next_link, UNLINKED);
            exit.to = FragmentId::NONE;
            self.link(self.first_exit.plus(link as usize), to);
            let exit = self.exits[link as usize];
            if exit.to == FragmentId::NONE {
                Self::patch(exit.patch, exit.stub);
            }
            link = next;
        }
    }

    /// Puts a trace, which is found by its address already, in the place of the fragment that was.
    pub fn supersede(&mut self, old: FragmentId, new: FragmentId) {
        Self::lead_entry(&self.fragments[old.index()], retired_entry());
        self.lead_links(old, new);
        self.bury(old);
    }

    /// Links the exits from number `first` on whose targets are there.
    pub fn link_ahead(&mut self, first: ExitId) {
        let from = first.since(self.first_exit) as usize;
        for n in from..self.exits.len() {
            let exit = self.exits[n];
            if let Some(id) = self.lookup_on(exit.target, exit.prefix) {
                self.link(self.first_exit.plus(n), id);
            }
        }
    }
}
