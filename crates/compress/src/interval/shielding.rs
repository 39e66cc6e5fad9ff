//! Multi-hash profilers, for those who count in their own way.
//!
//! Problem: where events come from, most are of a few tuples that are in the accumulator, and there an event is one
//! increment. Whoever counts those by itself, and comes here with the others, must come to the same messages as [`MultiHash`].
//!
//! Strategy: what such a profiler *is* is told by [`Shield`], and where the counters of a tuple are by [`Positions`], so that who
//! counts can do that too, in the table that [`Shielding::counters`] is. It has a count of its own for each tuple that is in the
//! accumulator ([`Shielding::promote`] says which), brings these here when they are looked at, and says when the interval has ended.
//!
//! The table has one counter more than the spec says, which is at the greatest number. Tuples have four counters: those that there are, and
//! else that one, which is never the least; so one way of counting does for one to four tables.
//!
//! Invariant: counts that were brought never shrink within an interval, as a slot that may not be replaced any more stays so.
//!
//! Source: *Multi-Hash*, sections 5.1 to 5.4.

use alloc::vec;

use trommel_tuple::{Kind, Message, Place, Tuple};

use super::MultiHash;
use crate::hash::{Cheap, Hash, HashKind, Layout};
use crate::{Algorithm, IntervalSpec, Level, Percent, Spec};

/// Tables at most.
pub const TABLES: usize = 4;

/// Words that a [`Shield`] can be told in.
pub const WORDS: usize = 12;

/// Counters at most, of all tables.
const COUNTERS: u32 = 1 << 16;
/// Entries of the accumulator at most.
const ENTRIES: u32 = 1 << 14;

/// `M n[interval,threshold]counters`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shield {
    /// Spec of the profiler.
    pub spec: IntervalSpec,
    /// Hash functions that choose the counters.
    pub hash: HashKind,
}

impl Shield {
    /// The profiler of a spec, if it is one of these, and small enough.
    pub fn of(spec: &Spec) -> Option<Self> {
        let Level::Interval(interval) = spec.level else {
            return None;
        };
        let shield = Self {
            spec: interval,
            hash: spec.hash,
        };
        (spec.thinning.is_none() && spec.tables.is_empty() && shield.fits()).then_some(shield)
    }

    fn fits(&self) -> bool {
        let spec = &self.spec;
        spec.algorithm == Algorithm::MultiHash
            && (1..=TABLES as u32).contains(&spec.tables)
            && spec.counters <= COUNTERS
            && spec.counters.is_multiple_of(spec.tables)
            && (spec.counters / spec.tables).is_power_of_two()
            && spec.counters > spec.tables
            && (1..=Percent::WHOLE.0).contains(&spec.threshold.0)
            && (1..=ENTRIES).contains(&spec.accumulator_entries())
            && spec.early >= 1
            && (1..1 << 30).contains(&spec.interval)
            && (spec.interval..1 << 30).contains(&spec.longest)
    }

    /// Returns true if a few instructions find the counters of a value.
    pub fn is_cheap(&self) -> bool {
        self.hash != HashKind::Paper
    }

    /// All of it in words.
    pub fn words(&self) -> [u32; WORDS] {
        let spec = &self.spec;
        [
            spec.tables,
            spec.interval,
            spec.longest,
            spec.threshold.0,
            spec.counters,
            spec.conservative.into(),
            spec.reset.into(),
            spec.retain.into(),
            spec.accumulator.is_some().into(),
            spec.accumulator.unwrap_or_default(),
            spec.early,
            match self.hash {
                HashKind::Paper => 0,
                HashKind::Crc => 1,
                HashKind::Multiply => 2,
            },
        ]
    }

    /// Returns what [`words`](Self::words) tell.
    pub fn of_words(words: [u32; WORDS]) -> Option<Self> {
        let [
            tables,
            interval,
            longest,
            threshold,
            counters,
            conservative,
            reset,
            retain,
            given,
            entries,
            early,
            hash,
        ] = words;
        let shield = Self {
            spec: IntervalSpec {
                algorithm: Algorithm::MultiHash,
                tables,
                interval,
                longest,
                threshold: Percent(threshold),
                counters,
                conservative: conservative != 0,
                reset: reset != 0,
                retain: retain != 0,
                accumulator: (given != 0).then_some(entries),
                early,
            },
            hash: match hash {
                0 => HashKind::Paper,
                1 => HashKind::Crc,
                2 => HashKind::Multiply,
                _ => return None,
            },
        };
        (threshold != 0 && early != 0 && shield.fits()).then_some(shield)
    }
}

/// Positions of tuples' counters.
#[derive(Clone, Debug)]
pub struct Positions {
    hash: Hash<u64>,
    bits: u32,
    first: [u32; TABLES],
    mask: [u32; TABLES],
}

impl Positions {
    /// Makes the positions of a profiler's tuples.
    pub fn new(of: &Shield, hash_seed: u64) -> Self {
        let tables = of.spec.tables;
        let size = of.spec.counters / tables;
        let bits = size.trailing_zeros();
        // As `MultiHash::new` has it, whose first word has all of them.
        let layout = Layout {
            first: 0,
            lanes: tables,
            lane_bits: 16,
            bits,
        };
        let has = |n: usize| n < tables as usize;
        Self {
            hash: Hash::new(of.hash, hash_seed, layout),
            bits,
            first: core::array::from_fn(|n| match has(n) {
                true => n as u32 * size,
                false => of.spec.counters,
            }),
            mask: core::array::from_fn(|n| if has(n) { size - 1 } else { 0 }),
        }
    }

    /// Returns the positions of one tuple.
    pub fn of(&mut self, tuple: Tuple) -> [u32; TABLES] {
        let lanes = self.hash.index(tuple);
        core::array::from_fn(|n| self.first[n] + ((lanes >> (16 * n)) as u32 & self.mask[n]))
    }

    /// Returns what is to be done for a value: an index is the bits of `mask` in its lane of 16 bits, after `first`.
    pub const fn lanes(&self) -> ([u32; TABLES], [u32; TABLES]) {
        (self.first, self.mask)
    }

    /// Bits of an index.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// The hash function, if it is a cheap one.
    pub const fn cheap(&self) -> Option<&Cheap> {
        match &self.hash {
            Hash::Cheap(cheap) => Some(cheap),
            Hash::Paper(_) => None,
        }
    }

    /// Returns what a place makes of the hash of its tuples, if that is a cheap one.
    pub fn begin(&self, pc: Place) -> u64 {
        self.cheap().map_or(0, |cheap| cheap.begin(pc))
    }
}

/// A profiler of whose events another counts those that are shielded, and may count the rest.
#[derive(Clone, Debug)]
pub struct Shielding {
    of: MultiHash,
    positions: Positions,
}

impl Shielding {
    /// Before the first event.
    pub fn new(shield: &Shield, hash_seed: u64) -> Self {
        let mut of = MultiHash::new(shield.spec, shield.hash, hash_seed);
        let mut counters = vec![0; shield.spec.counters as usize + 1];
        if let Some(last) = counters.last_mut() {
            *last = u32::MAX;
        }
        of.counters = counters.into_boxed_slice();
        Self {
            of,
            positions: Positions::new(shield, hash_seed),
        }
    }

    /// The counters: of an event, the least of its tuple's four are incremented, or all four with `C0`, but for those at the greatest
    /// number. If that was at least [`promotes_at`](Self::promotes_at) minus one, the tuple is promoted.
    pub fn counters(&mut self) -> &mut [u32] {
        &mut self.of.counters
    }

    /// Counts that promote.
    pub const fn promotes_at(&self) -> u32 {
        self.of.early
    }

    /// Events in this interval.
    pub const fn length(&self) -> u32 {
        self.of.length
    }

    /// Slots of the accumulator.
    pub fn slots(&self) -> usize {
        self.of.accumulator.len()
    }

    /// Returns true if a tuple is in a slot.
    pub fn is_used(&self, slot: usize) -> bool {
        self.of.accumulator.is_used(slot)
    }

    /// Returns true if another tuple would need a slot that has been used: then counts are to be brought first.
    pub fn is_full(&mut self) -> bool {
        self.of.accumulator.is_full()
    }

    /// Events of a slot's tuple in this interval, so far.
    pub fn has_counted(&mut self, slot: usize, count: u32) {
        let threshold = self.of.threshold;
        self.of.accumulator.has_counted(slot, count, threshold);
    }

    /// Counts an event whose tuple nobody else counts. Returns true if it is to be promoted.
    pub fn event(&mut self, kind: Kind, tuple: Tuple) -> bool {
        if let Some(slot) = self.of.accumulator.find(kind, tuple) {
            self.of.accumulator.count(slot, self.of.threshold);
            return false;
        }
        let at = self.positions.of(tuple);
        let counters = &mut self.of.counters;
        let least = at.iter().fold(u32::MAX, |least, at| {
            let counter = counters[*at as usize];
            least.min(counter)
        });
        for at in at {
            let counter = &mut counters[at as usize];
            if *counter != u32::MAX && (!self.of.spec.conservative || *counter == least) {
                *counter += 1;
            }
        }
        least.saturating_add(1) >= self.of.early
    }

    /// A tuple whose counters have come to [`promotes_at`](Self::promotes_at): the slot that it has got, with so many events. `None`: there
    /// is none before the interval has ended.
    pub fn promote(&mut self, kind: Kind, tuple: Tuple) -> Option<usize> {
        let at = self.positions.of(tuple).map(|at| at as usize);
        let tables = self.of.spec.tables as usize;
        self.of.promoted(0, kind, tuple, &at[..tables])
    }

    /// The interval has ended, and all counts were brought. Reports the candidates, with their slots. Slots that are used afterwards count from 0 on.
    pub fn end_interval(&mut self, report: impl FnMut(usize, Message)) {
        self.of.turn_over(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use crate::{Seeds, Sink};
    use std::collections::BTreeMap;
    use std::vec::Vec;
    use trommel_tuple::Events;

    /// Messages; `None`: an interval has ended.
    #[derive(Default)]
    struct Sent(Vec<Option<Message>>);

    impl Sink for Sent {
        fn message(&mut self, message: Message) {
            self.0.push(Some(message));
        }

        fn interval_end(&mut self, _events: u64) {
            self.0.push(None);
        }
    }

    /// Counts shielded events by tuple, as generated code does.
    fn counted_apart(shield: &Shield, events: &[(Kind, Tuple)]) -> Vec<Option<Message>> {
        let mut shielding = Shielding::new(shield, Seeds::default().hash);
        let mut positions = Positions::new(shield, Seeds::default().hash);
        let mut counts: BTreeMap<(Kind, Tuple), (usize, u32)> = BTreeMap::new();
        let mut sent = Vec::new();
        let mut left = shielding.length();
        let bring = |shielding: &mut Shielding, counts: &BTreeMap<_, (usize, u32)>| {
            for (slot, count) in counts.values() {
                shielding.has_counted(*slot, *count);
            }
        };
        for &(kind, tuple) in events {
            match counts.get_mut(&(kind, tuple)) {
                Some((_, count)) => *count += 1,
                None => {
                    let at = positions.of(tuple).map(|at| at as usize);
                    let early = shielding.promotes_at();
                    let counters = shielding.counters();
                    let least = at.map(|at| counters[at]).into_iter().min().unwrap();
                    for at in at {
                        let counts = !shield.spec.conservative || counters[at] == least;
                        if counters[at] != u32::MAX && counts {
                            counters[at] += 1;
                        }
                    }
                    if least + 1 >= early {
                        if shielding.is_full() {
                            bring(&mut shielding, &counts);
                        }
                        if let Some(slot) = shielding.promote(kind, tuple) {
                            counts.retain(|_, (of, _)| *of != slot);
                            counts.insert((kind, tuple), (slot, early));
                        }
                    }
                }
            }
            left -= 1;
            if left == 0 {
                bring(&mut shielding, &counts);
                shielding.end_interval(|_, message| sent.push(Some(message)));
                sent.push(None);
                counts.retain(|_, (slot, _)| shielding.is_used(*slot));
                counts.values_mut().for_each(|(_, count)| *count = 0);
                left = shielding.length();
            }
        }
        sent
    }

    #[test]
    fn who_counts_alone_comes_to_the_same_messages() {
        let mut random = SplitMix64::new(9);
        let mut event = || {
            let some = random.draw() >> (52 + random.draw() % 12);
            let kind = [Kind::Edge, Kind::Call, Kind::Value][some as usize % 3];
            let pc = Place::from_word(0x1000 + some % 400);
            (kind, Tuple::new(pc, random.draw() >> 63))
        };
        let events: Vec<(Kind, Tuple)> = (0..60_000).map(|_| event()).collect();
        for text in [
            "M4[1000,1%]2048:C1R0P1",
            "M4[1000,1%]64:C1R1P1",
            "M2[500,2%]32:C0R0P1",
            "M1[500,2%]32:C1R0P0",
            "M4[1000,1%]128:C1R0P1A7",
            "M4[1000,1%]128:C1R0P1A1",
            "M2:crc[1000,1%]64:C1R1P1E2",
            "M4:mul[1000,1%]64:C1R0P1E4",
            "M1:mul[300,5%]16:C0R1P1",
            "M4:crc[100..3000,2%]256:C1R0P1",
            "M2[7,30%]4",
        ] {
            let spec: Spec = text.parse().unwrap();
            let shield = Shield::of(&spec).unwrap();
            assert_eq!(Shield::of_words(shield.words()), Some(shield));
            let mut sent = Sent::default();
            let mut compressor = spec.build(Seeds::default());
            for (kind, tuple) in &events {
                compressor.events(Events::of_kind(*kind, &[*tuple]), &mut sent);
            }
            assert!(sent.0.iter().flatten().count() > 10, "{text}");
            assert_eq!(counted_apart(&shield, &events), sent.0, "{text}");
        }
    }

    #[test]
    fn events_that_nobody_else_counts_come_to_the_same() {
        let spec: Spec = "M4:crc[1000,1%]64:C1R0P1A20".parse().unwrap();
        let mut random = SplitMix64::new(5);
        let mut sent = Sent::default();
        let mut compressor = spec.build(Seeds::default());
        let mut shielding = Shielding::new(&Shield::of(&spec).unwrap(), Seeds::default().hash);
        let mut here = Sent::default();
        for n in 1..=20_000 {
            let tuple = Tuple::new(Place::from_word(0x1000), random.draw() >> 57);
            compressor.events(Events::of_kind(Kind::Value, &[tuple]), &mut sent);
            if shielding.event(Kind::Value, tuple) {
                shielding.promote(Kind::Value, tuple);
            }
            if n % 1000 == 0 {
                shielding.end_interval(|_, message| here.message(message));
                here.interval_end(1000);
            }
        }
        assert_eq!(here.0, sent.0);
    }

    #[test]
    fn what_is_no_multi_hash_profiler_of_this_size_is_none() {
        for text in [
            "exact",
            "H[P256]2048",
            "M5[10k,1%]5",
            "M8[10k,1%]2048",
            "M2[10k,1%]131072",
            "M2[10k,1%]2",
            "M2[10k,0.001%]2048",
            "SS[10k,1%]538:P1",
            "S12[10k,1%]1536:P1",
        ] {
            assert_eq!(Shield::of(&text.parse().unwrap()), None, "{text}");
        }
    }
}
