//! The way of messages of a stratified sampler whose counters are the target's own.
//!
//! Each thread has its counters. The table after them (`+A16`) is the thread's too. A message comes
//! when a counter has counted to its end. The rest in the counters when the thread or the program has ended is
//! *held*: counted + held = events. The kind of held events is known where all events of a counter are of
//! one kind. Else they are assumed to be of the counter's kinds in proportion to its messages.
//!
//! The table after the counters loses nothing and changes no sum, so a message is added to its tuple's sum at once ([`sums`]). The table is
//! followed for what it would send on.

mod followed;
pub(super) mod sums;

use std::collections::BTreeMap;

use trommel_compress::hash::Hash;
use trommel_compress::{Seeds, Strata};
use trommel_profile::KindProfile;
use trommel_profile::accuracy::PerKind;
use trommel_tuple::{Kind, Place, RECORDED_KINDS, Tuple};

use self::followed::Followed;
use self::sums::{About, At, Subject, Sums};

/// Kinds as bits.
type Bits = u8;

/// Messages that are added together at most.
const PENDING: usize = 1 << 10;

/// The sampler's stage after the target's counters.
pub(super) struct Messages {
    strata: Strata,
    /// Entries of the table after the counters, if there is one.
    table: Option<u32>,
    /// Tables of the threads, by the number that each has here: by slot of the tuple.
    tables: Vec<(u32, Option<Followed>)>,
    sums: Sums,
    /// Messages of one thread that are not added yet.
    pending: Vec<About>,
    /// Messages sent on, by kind.
    sent: PerKind,
    hash: Hash<u32>,
    /// Counters before the first event.
    start: Vec<u16>,
    /// Kinds that are counted in each counter, as far as paths were looked at.
    kinds: Vec<Bits>,
    /// Kinds that may be counted in every counter.
    anywhere: Bits,
    /// Paths that were looked at for that.
    pub(super) looked_at: usize,
}

impl Messages {
    /// Returns the state for a sampler with a table of `table` entries after it.
    pub(super) fn new(strata: Strata, table: Option<u32>) -> Self {
        let seeds = Seeds::default();
        let start: Vec<u16> = strata.table(seeds).collect();
        Self {
            strata,
            table,
            tables: Vec::new(),
            sums: Sums::default(),
            pending: Vec::with_capacity(PENDING),
            sent: PerKind::default(),
            hash: strata.hash(seeds),
            kinds: vec![0; start.len()],
            anywhere: 0,
            start,
            looked_at: 0,
        }
    }

    /// Events that a message stands for.
    pub(super) fn rate(&self) -> u64 {
        self.strata.rate.into()
    }

    /// Counters of a thread.
    pub(super) fn counters(&self) -> usize {
        self.start.len()
    }

    /// The number of a thread here.
    pub(super) fn thread(&mut self, thread: u32) -> usize {
        if let Some(n) = self.tables.iter().position(|(t, _)| *t == thread) {
            return n;
        }
        self.tables.push((thread, self.table.map(Followed::new)));
        self.tables.len() - 1
    }

    /// The number of a kind and a place.
    pub(super) fn subject(&mut self, kind: Kind, place: Place) -> Subject {
        self.sums.subject(kind, place)
    }

    /// A message of a thread. Those of another thread have been added ([`Self::add`]).
    #[inline]
    pub(super) fn message(&mut self, thread: usize, about: About, seen: &mut PerKind) {
        self.pending.push(about);
        if self.pending.len() >= PENDING {
            self.add(thread, seen);
        }
    }

    /// Adds the messages of a thread to the sums, and events that they stand for to `seen`.
    pub(super) fn add(&mut self, thread: usize, seen: &mut PerKind) {
        let (rate, sums, sent) = (self.rate(), &mut self.sums, &mut self.sent);
        let tables = &mut self.tables;
        sums.make_room(self.pending.len(), |to| {
            let tables = tables.iter_mut().filter_map(|(_, table)| table.as_mut());
            tables.for_each(|table| table.rename(|slot| to(At(slot)).0));
        });
        let mut table = self.tables[thread].1.as_mut();
        sums.add_all(&self.pending, |subject, At(slot)| {
            seen[subject.kind()] += rate;
            if table.as_mut().is_none_or(|table| table.begins(slot)) {
                sent[subject.kind()] += 1;
            }
        });
        self.pending.clear();
    }

    /// Adds all to profiles; what is left in the tables of all threads is sent on.
    pub(super) fn finish(self, folded: &mut BTreeMap<Kind, KindProfile>) {
        for kind in Kind::ALL {
            match self.sent[kind as usize] {
                0 => {}
                sent => folded.entry(kind).or_default().messages += sent,
            }
        }
        let rate = self.rate();
        self.sums.finish(rate, folded);
    }

    /// Events of a tuple may be counted.
    pub(super) fn may_count(&mut self, kind: Kind, tuple: Tuple) {
        self.kinds[self.hash.index(tuple) as usize] |= 1 << kind as u8;
    }

    /// Events of a kind may be counted in any counter.
    pub(super) fn may_count_anywhere(&mut self, kind: Kind) {
        self.anywhere |= 1 << kind as u8;
    }

    /// Returns the events that a thread's counters have seen beyond its messages, per kind; `seen` is what messages
    /// stand for. With counters that start at random it may be fewer than none.
    pub(super) fn held(&self, left: &[u16], seen: &PerKind) -> [i64; Kind::ALL.len()] {
        let mut held = [0_i64; Kind::ALL.len()];
        // By the kinds in a counter: events in all such counters.
        let mut mixed: BTreeMap<Bits, i64> = BTreeMap::new();
        for ((&start, &left), &bits) in self.start.iter().zip(left).zip(&self.kinds) {
            *mixed.entry(bits | self.anywhere).or_default() += i64::from(start) - i64::from(left);
        }
        for (bits, events) in mixed {
            let of = |k: &usize| bits >> k & 1 != 0;
            let kinds: Vec<usize> = (0..RECORDED_KINDS).filter(of).collect();
            let all: u64 = kinds.iter().map(|&k| seen[k]).sum();
            let mut rest = events;
            for (n, &k) in kinds.iter().enumerate() {
                let share = match all {
                    _ if n + 1 == kinds.len() => rest,
                    0 => events / kinds.len() as i64,
                    _ => (i128::from(events) * i128::from(seen[k]) / i128::from(all)) as i64,
                };
                held[k] += share;
                rest -= share;
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::Place;

    #[test]
    fn what_is_held_is_of_the_kinds_that_are_counted() {
        let strata = Strata::of(&"H[P10]4".parse().unwrap()).unwrap();
        let mut messages = Messages::new(strata, None);
        let mut seen = PerKind::default();
        // A tuple of each counter.
        let tuple = |index| {
            let mut hash = strata.hash(Seeds::default());
            let all = (0..).map(|n| Tuple::new(Place::from_word(0x1000 + n), 7));
            all.into_iter()
                .find(|t| hash.index(*t) == index)
                .expect("a hash reaches all")
        };
        messages.may_count(Kind::Edge, tuple(0));
        messages.may_count(Kind::Call, tuple(1));
        messages.may_count(Kind::Edge, tuple(2));
        messages.may_count(Kind::Call, tuple(2));
        seen[Kind::Edge as usize] = 30;
        seen[Kind::Call as usize] = 10;
        let held = messages.held(&[7, 8, 2, 10], &seen);
        assert_eq!(held[Kind::Edge as usize], 3 + 6);
        assert_eq!(held[Kind::Call as usize], 2 + 2);
        assert_eq!(held.iter().sum::<i64>(), 13);
        // Values may be in each of the four counters, and had as many messages as the others together.
        messages.may_count_anywhere(Kind::Value);
        seen[Kind::Value as usize] = 40;
        let held = messages.held(&[7, 8, 2, 10], &seen);
        assert_eq!(held[Kind::Value as usize], 2 + 2 + 4);
        assert_eq!(held.iter().sum::<i64>(), 13);
    }
}
