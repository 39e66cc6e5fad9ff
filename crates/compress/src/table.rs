//! `A k`: the associative counter table.
//!
//! Problem: the messages of a sampler repeat the same few tuples, and each costs software time.
//!
//! Strategy: k entries, each counting the messages of one tuple; a message goes on when its entry
//! has counted 255, when the entry is the least recently used and its place is needed, and at the
//! end of the stream. The compression loses nothing: it never changes the profile.
//!
//! Entries are kept in the order of use, most recent first. Tables are small (the paper's has 16
//! entries) and see messages, not events: a linear search is the fastest index.
//!
//! Invariant: counts and samples sent + counts and samples inside = counts and samples received.
//!
//! Source: *Stratified Sampling*, section 3.4; `docs/papers.md`, "Samplers".

use alloc::vec::Vec;

use trommel_tuple::{Kind, Message, Tuple};

use crate::{Sink, TableSpec, Tables};

/// Messages that one entry counts before it is sent on.
pub const FULL: u32 = 255;

/// The table, of messages about whatever `K` names.
#[derive(Clone, Debug)]
pub struct Recent<K> {
    capacity: usize,
    /// Messages that one entry counts before it is sent on.
    full: u32,
    /// Most recently used first.
    entries: Vec<Entry<K>>,
}

/// Messages about the same, added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<K> {
    /// Keys of the counters.
    pub about: K,
    /// Events that they stand for.
    pub count: u64,
    /// Number of samples.
    pub samples: u32,
}

impl<K: Copy + PartialEq> Recent<K> {
    /// A table of `capacity` entries, with counters of 8 bits.
    pub fn new(capacity: u32) -> Self {
        Self::until(capacity, FULL)
    }

    /// A table of `capacity` entries that count up to `full` messages.
    fn until(capacity: u32, full: u32) -> Self {
        assert!(capacity > 0, "a table has entries");
        Self {
            capacity: capacity as usize,
            full,
            entries: Vec::with_capacity(capacity as usize),
        }
    }

    /// A message from the first level: what is sent on because of it, if anything is.
    #[inline]
    pub fn add(&mut self, told: Entry<K>) -> Option<Entry<K>> {
        let Some(at) = self.entries.iter().position(|e| e.about == told.about) else {
            if told.samples >= self.full {
                return Some(told);
            }
            let oldest = match self.entries.len() == self.capacity {
                true => self.entries.pop(),
                false => None,
            };
            self.entries.insert(0, told);
            return oldest;
        };
        let entry = &mut self.entries[at];
        entry.count += told.count;
        entry.samples += told.samples;
        if entry.samples >= self.full {
            return Some(self.entries.remove(at));
        }
        if at != 0 {
            self.entries[..=at].rotate_right(1);
        }
        None
    }

    /// Takes the entry that was used least recently.
    pub fn take(&mut self) -> Option<Entry<K>> {
        self.entries.pop()
    }
}

/// Tables of messages about tuples, one after the other: each gets what the one before sends on.
#[derive(Clone, Debug)]
pub struct CounterTables(Vec<Recent<(Kind, Tuple)>>);

impl CounterTables {
    /// The tables of a spec; nothing where it has none.
    pub fn new(tables: &Tables) -> Option<Self> {
        let table = |of: TableSpec| Recent::until(of.entries, of.full());
        (!tables.is_empty()).then(|| Self(tables.iter().map(table).collect()))
    }

    /// A message from the first level.
    #[inline]
    pub fn message<S: Sink + ?Sized>(&mut self, message: Message, out: &mut S) {
        let told = Entry {
            about: (message.kind, message.tuple),
            count: message.count,
            samples: message.samples,
        };
        self.pass(0, told, out);
    }

    /// A message to table `from` and those after it.
    #[inline]
    fn pass<S: Sink + ?Sized>(&mut self, from: usize, told: Entry<(Kind, Tuple)>, out: &mut S) {
        let mut told = told;
        for table in &mut self.0[from..] {
            match table.add(told) {
                Some(sent) => told = sent,
                None => return,
            }
        }
        out.message(told.into());
    }

    /// Sends what is inside and empties the tables: the first one's least recently used entry first, through those after it, and then
    /// the next one's.
    pub fn finish<S: Sink + ?Sized>(&mut self, out: &mut S) {
        for n in 0..self.0.len() {
            while let Some(told) = self.0[n].take() {
                self.pass(n + 1, told, out);
            }
        }
    }

    /// Messages that would be sent if this were the end.
    pub fn len(&self) -> usize {
        match &self.0[..] {
            [one] => one.entries.len(),
            _ => {
                let mut sent = 0;
                self.clone().finish(&mut |_: Message| sent += 1);
                sent
            }
        }
    }

    /// Returns true if no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|table| table.entries.is_empty())
    }

    /// Events counted by the messages inside.
    pub fn held(&self) -> u64 {
        let inside = self.0.iter().flat_map(|table| &table.entries);
        inside.map(|e| e.count).sum()
    }
}

impl From<Entry<(Kind, Tuple)>> for Message {
    fn from(told: Entry<(Kind, Tuple)>) -> Self {
        let (kind, tuple) = told.about;
        Self {
            kind,
            tuple,
            count: told.count,
            samples: told.samples,
        }
    }
}

/// A sink with a table before it.
pub(crate) struct Tabled<'a, S: ?Sized> {
    pub(crate) table: &'a mut CounterTables,
    pub(crate) out: &'a mut S,
}

impl<S: Sink + ?Sized> Sink for Tabled<'_, S> {
    fn message(&mut self, message: Message) {
        self.table.message(message, self.out);
    }

    fn interval_end(&mut self, events: u64) {
        self.out.interval_end(events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use trommel_tuple::{Kind, Place, Tuple};

    fn of(entries: u32) -> CounterTables {
        let mut tables = Tables::NONE;
        assert!(tables.push(TableSpec { entries, bits: 8 }));
        CounterTables::new(&tables).expect("a table")
    }

    fn message(pc: u64, kind: Kind) -> Message {
        Message {
            kind,
            tuple: Tuple::new(Place::from_word(pc), 0),
            count: 10,
            samples: 1,
        }
    }

    fn run(table: &mut CounterTables, pcs: &[u64]) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let mut sink = |m: Message| out.push((m.tuple.pc.word(), m.samples));
        for pc in pcs {
            table.message(message(*pc, Kind::Value), &mut sink);
        }
        out
    }

    #[test]
    fn the_least_recently_used_entry_goes() {
        let mut table = of(2);
        assert_eq!(run(&mut table, &[1, 2, 1, 3, 1, 2]), [(2, 1), (3, 1)]);
        assert_eq!(table.held(), 40);
        let mut rest = Vec::new();
        table.finish(&mut |m: Message| rest.push(m.count));
        assert_eq!(rest, [30, 10]);
        assert!(table.is_empty());
    }

    #[test]
    fn a_full_entry_is_sent() {
        let mut table = of(2);
        assert_eq!(run(&mut table, &[7; 600]), [(7, 255), (7, 255)]);
        assert_eq!(table.held(), 900);
    }

    #[test]
    fn equal_tuples_of_two_kinds_are_two_entries() {
        let mut table = of(4);
        for kind in [Kind::Value, Kind::Result, Kind::Value] {
            table.message(message(1, kind), &mut |_: Message| panic!("room for all"));
        }
        assert_eq!(table.len(), 2);
    }
}
