//! `M n[interval,threshold]counters:C?R?P?`: the multi-hash interval profiler.
//!
//! Problem: find the tuples that make up at least a threshold share of each interval of events, with
//! a few KB of counters and a small table of full tuples.
//!
//! Strategy: n tables of counters, each with its own hash. An event increments its n counters; when
//! all of them have reached the threshold T its tuple is *promoted* to the accumulator table, which
//! counts it exactly from then on and *shields* the counters from it. A tuple that meets a hot one
//! in one table meets others in the other tables, so false positives need n collisions at once.
//! * `C1` conservative update: only the smallest of the n counters are incremented;
//! * `R1` resetting: the counters of a promoted tuple start again at 0;
//! * `E2` early promotion (ours): at half the threshold already, so that more of the count is exact; an
//!   entry is a candidate if it has reached T at the end of the interval;
//! * `P1` retaining: candidates stay in the accumulator through the next interval, at 0 and
//!   replaceable until they reach T again. `P0` empties it;
//! * `[10k..1M,1%]` adaptive intervals: the profiler picks the length of the next one (`adapt.rs`), and with
//!   it T.
//!
//! Two ways through the same tables: [`MultiHash::block`] for 1, 2 or 4 tables whose indices fit one
//! word and whose counters fit 16 bits of address, without a loop or a check in its path; and
//! [`MultiHash::event_of_any`] for every other shape.
//!
//! Invariants: at most 100 / threshold% tuples can reach T in an interval, so an accumulator of that
//! size overflows only by false positives; a replaceable entry is below T.
//!
//! Source: *Multi-Hash*, sections 5.1, 5.2, 5.4, 6.1; conservative update after Estan and Varghese.

pub(crate) mod accumulator;
mod adapt;
mod shielding;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use trommel_tuple::{Events, Kind, Kinds, Message, Tuple};

use crate::hash::{BLOCK, Hash, HashKind, Layout};
use crate::{Compress, IntervalSpec, Sink};
use accumulator::{Accumulator, Filter, MARKS};
use adapt::Adapt;
pub(crate) use adapt::Turnover;
pub use shielding::{Positions, Shield, Shielding, TABLES, WORDS};

/// The most tables.
pub const MAX_TABLES: u32 = 16;

/// Counters that 16 bits can address.
const NEAR: usize = 1 << 16;

const _: () = assert!(MARKS == 1 << 12, "`mark` takes twelve bits");

/// Figures since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Complete intervals.
    pub intervals: u64,
    /// Tuples put into the accumulator.
    pub promotions: u64,
    /// Events whose tuple was to be promoted and found no place.
    pub accumulator_full: u64,
}

/// The profiler.
#[derive(Clone, Debug)]
pub struct MultiHash {
    spec: IntervalSpec,
    /// Events of the current interval, and who picks the next one's.
    length: u32,
    adapt: Option<Adapt>,
    threshold: u32,
    /// Counts that promote: the threshold, or less with `E`.
    early: u32,
    /// Groups of hash functions side by side in one word.
    hashes: Vec<Hash<u64>>,
    lane_bits: u32,
    /// Table after table.
    counters: Box<[u32]>,
    /// Counters of a table.
    size: usize,
    /// Tables that [`block`](Self::block) is made for; 0 where it does not apply.
    near: u32,
    /// The number of each table's first counter, in its lane.
    base: u64,
    accumulator: Accumulator,
    /// Events in the current interval.
    seen: u64,
    statistics: Statistics,
}

impl MultiHash {
    /// The profiler of a checked spec.
    pub fn new(spec: IntervalSpec, kind: HashKind, hash_seed: u64) -> Self {
        let size = spec.counters / spec.tables;
        assert!(size.is_power_of_two(), "an index has whole bits");
        let bits = size.trailing_zeros();
        let lane_bits = if bits <= 16 { 16 } else { 32 };
        let in_a_word = 64 / lane_bits;
        let hashes = (0..spec.tables)
            .step_by(in_a_word as usize)
            .map(|first| {
                let layout = Layout {
                    first,
                    lanes: in_a_word.min(spec.tables - first),
                    lane_bits,
                    bits,
                };
                Hash::new(kind, hash_seed, layout)
            })
            .collect();
        let near = spec.counters as usize <= NEAR && matches!(spec.tables, 1 | 2 | 4);
        let counters = if near { NEAR } else { spec.counters as usize };
        Self {
            spec,
            length: spec.interval,
            adapt: (spec.is_adaptive()).then(|| Adapt::new(spec.interval, spec.longest)),
            threshold: spec.threshold_count(),
            early: spec.promotion_count(),
            hashes,
            lane_bits,
            counters: vec![0; counters].into_boxed_slice(),
            size: size as usize,
            near: if near { spec.tables } else { 0 },
            base: match near {
                true => (0..spec.tables).fold(0, |all, j| all | u64::from(j * size) << (16 * j)),
                false => 0,
            },
            accumulator: Accumulator::new(spec.accumulator_entries()),
            seen: 0,
            statistics: Statistics::default(),
        }
    }

    /// Events to come before the current interval ends.
    pub const fn interval_left(&self) -> u64 {
        self.length as u64 - self.seen
    }

    /// Returns what happened since the start.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Counts the event in its counters. Returns true if all of them have reached the threshold. `at`
    /// receives the counters' positions.
    fn count(&mut self, tuple: Tuple, at: &mut [usize]) -> bool {
        let lanes = (64 / self.lane_bits) as usize;
        let mask = (1u64 << self.lane_bits) - 1;
        let mut base = 0;
        for (hash, group) in self.hashes.iter_mut().zip(at.chunks_mut(lanes)) {
            let mut indices = hash.index(tuple);
            for position in group {
                *position = base + (indices & mask) as usize;
                base += self.size;
                indices >>= self.lane_bits;
            }
        }
        let mut least = u32::MAX;
        for position in &*at {
            least = least.min(self.counters[*position]);
        }
        for position in &*at {
            let counter = &mut self.counters[*position];
            if !self.spec.conservative || *counter == least {
                *counter += 1;
            }
        }
        least + 1 >= self.early
    }

    /// Gives the tuple a place in the accumulator, if there is one.
    fn promote(&mut self, mark: usize, kind: Kind, tuple: Tuple, at: &[usize]) {
        let _ = self.promoted(mark, kind, tuple, at);
    }

    /// Promotes a tuple as [`promote`](Self::promote) does, and returns its slot.
    fn promoted(&mut self, mark: usize, kind: Kind, tuple: Tuple, at: &[usize]) -> Option<usize> {
        let slot = self.accumulator.promote(mark, kind, tuple, self.early);
        if slot.is_none() {
            self.statistics.accumulator_full += 1;
            return None;
        }
        self.statistics.promotions += 1;
        if self.spec.reset {
            for position in at {
                self.counters[*position] = 0;
            }
        }
        slot
    }

    #[cold]
    #[inline(never)]
    fn end_interval<S: Sink + ?Sized>(&mut self, out: &mut S) {
        let events = self.seen;
        self.turn_over(|_, message| out.message(message));
        out.interval_end(events);
    }

    /// The interval has ended. Reports the candidates, with their slots in the accumulator.
    fn turn_over(&mut self, report: impl FnMut(usize, Message)) {
        let (threshold, retain) = (self.threshold, self.spec.retain);
        let turnover = (self.accumulator).end_interval(threshold, retain, report);
        if let Some(adapt) = &mut self.adapt {
            adapt.ended(turnover);
            self.length = adapt.length();
            self.threshold = self.spec.threshold_of(self.length);
            self.early = self.spec.promotion_of(self.length);
        }
        self.counters[..self.spec.counters as usize].fill(0);
        self.seen = 0;
        self.statistics.intervals += 1;
    }

    /// One event, whatever the shape of the tables.
    fn event_of_any(&mut self, kind: Kind, tuple: Tuple) {
        if let Some(slot) = self.accumulator.find(kind, tuple) {
            self.accumulator.count(slot, self.threshold);
            return;
        }
        let mut at = [0; MAX_TABLES as usize];
        let at = &mut at[..self.spec.tables as usize];
        if self.count(tuple, at) {
            self.promote(0, kind, tuple, at);
        }
    }

    /// At most [`BLOCK`] events of one interval, through `N` tables with conservative update if `C`.
    fn block<const N: usize, const C: bool>(
        &mut self,
        tuples: &[Tuple],
        kind: impl Fn(usize) -> Kind,
    ) {
        let mut lanes = [0u64; BLOCK];
        let lanes = &mut lanes[..tuples.len()];
        self.hashes[0].indices(tuples, lanes);
        for lanes in &mut *lanes {
            *lanes |= self.base;
        }
        let mut n = 0;
        while n < tuples.len() {
            let Ok(counters) = <&mut [u32; NEAR]>::try_from(&mut *self.counters) else {
                unreachable!("near profilers have this many counters")
            };
            let filter = self.accumulator.filter();
            let (quiet, stop) = quiet::<N, C>(counters, filter, self.early, &lanes[n..]);
            n += quiet;
            match stop {
                Stop::End => return,
                Stop::Marked => {
                    let (kind, tuple) = (kind(n), tuples[n]);
                    if let Some(slot) = self.accumulator.find(kind, tuple) {
                        self.accumulator.count(slot, self.threshold);
                    } else if count::<N, C>(counters, lanes[n]) + 1 >= self.early {
                        self.promote(mark(lanes[n]), kind, tuple, &positions::<N>(lanes[n]));
                    }
                }
                Stop::Reached => {
                    let lanes = lanes[n];
                    self.promote(mark(lanes), kind(n), tuples[n], &positions::<N>(lanes));
                }
            }
            n += 1;
        }
    }

    fn blocks<const N: usize, const C: bool, S: Sink + ?Sized>(
        &mut self,
        events: Events<'_>,
        out: &mut S,
    ) {
        let mut rest = events;
        while !rest.is_empty() {
            let left = self.interval_left().min(BLOCK as u64);
            let (block, others) = rest.split_at(left as usize);
            match block.kinds() {
                Kinds::All(kind) => self.block::<N, C>(block.tuples(), |_| kind),
                Kinds::Each(kinds) => self.block::<N, C>(block.tuples(), |n| kinds[n]),
            }
            self.seen += block.len() as u64;
            if self.interval_left() == 0 {
                self.end_interval(out);
            }
            rest = others;
        }
    }
}

/// Reasons why [`quiet`] stopped.
enum Stop {
    /// All events were quiet.
    End,
    /// The tuple may be in the accumulator; nothing was counted.
    Marked,
    /// The counters of the tuple reached the threshold.
    Reached,
}

/// Counts events up to the first that is more than counters: how many, and why it stopped. This is
/// all that most events see; apart from the rest, what it needs stays in registers.
#[inline(never)]
fn quiet<const N: usize, const C: bool>(
    counters: &mut [u32; NEAR],
    filter: &Filter,
    threshold: u32,
    lanes: &[u64],
) -> (usize, Stop) {
    for (n, lanes) in lanes.iter().enumerate() {
        if filter[mark(*lanes)] != 0 {
            return (n, Stop::Marked);
        }
        if count::<N, C>(counters, *lanes) + 1 >= threshold {
            return (n, Stop::Reached);
        }
    }
    (lanes.len(), Stop::End)
}

/// The mark of a tuple in the accumulator's filter.
#[inline(always)]
const fn mark(lanes: u64) -> usize {
    (lanes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The counters of a tuple. An index has 16 bits with its table's number on top, so that it needs no
/// bounds check in `NEAR` counters.
#[inline(always)]
fn positions<const N: usize>(lanes: u64) -> [usize; N] {
    core::array::from_fn(|j| usize::from((lanes >> (16 * j)) as u16))
}

/// Counts a tuple in its counters; the least of them before that.
#[inline(always)]
fn count<const N: usize, const C: bool>(counters: &mut [u32; NEAR], lanes: u64) -> u32 {
    let at = positions::<N>(lanes);
    let values = at.map(|at| counters[at]);
    let least = values.iter().fold(u32::MAX, |least, v| least.min(*v));
    for (at, value) in at.into_iter().zip(values) {
        counters[at] = value + u32::from(!C || value <= least);
    }
    least
}

impl Compress for MultiHash {
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        self.events(Events::of_kind(kind, &[tuple]), out);
    }

    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match (self.near, self.spec.conservative) {
            (1, true) => self.blocks::<1, true, S>(events, out),
            (1, false) => self.blocks::<1, false, S>(events, out),
            (2, true) => self.blocks::<2, true, S>(events, out),
            (2, false) => self.blocks::<2, false, S>(events, out),
            (4, true) => self.blocks::<4, true, S>(events, out),
            (4, false) => self.blocks::<4, false, S>(events, out),
            _ => events.for_each(|kind, tuple| {
                self.event_of_any(kind, tuple);
                self.seen += 1;
                if self.interval_left() == 0 {
                    self.end_interval(out);
                }
            }),
        }
    }

    fn held(&self) -> Option<u64> {
        None
    }
}
