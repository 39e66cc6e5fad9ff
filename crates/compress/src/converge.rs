//! `F[1%,64]96+…`: a filter before another compressor, for instructions whose values are known.
//!
//! Problem: software is sent the same distribution of values again and again, and the values of instructions that have no frequent one
//! fill the counters of all substreams. *Stratified Sampling*, section 5.4, expects both *profile convergence checks* and *instruction
//! filtering* to improve the stratified sampler, the second by less aliasing. It leaves both to Zilles and Sohi (*A programmable
//! co-processor for profiling*, HPCA 2001). Section 5.3.2 has their price: software spends at least 3 cycles more on a message. *Relational
//! Profiling*, section 7, tells of the hardware filter, which goes by the instruction's address.
//!
//! Strategy: software checks each instruction when it has sent so many messages. It is *settled* when the shares of its frequent values
//! have moved by no more than the limit since the last check. From then on it is looked at from time to time: a *look* of so
//! many messages, and then a *rest*, in which the hardware drops its next executions. A look that differs from what was settled is followed
//! by a last rest, and then the instruction is watched from the beginning.
//!
//! * A rest is k times as long as the look before it, counted in executions, so each message of a look stands for k + 1 times as
//!   many events. Counts stay estimates of all events, and shares weigh all of a run alike.
//! * `K` is k of the instructions that matter, `N` of the others. An instruction matters if values of 10 % each make up 40 % of it: the
//!   filter by which section 5.3.1 judges profiles.
//! * With 0 the instructions of that sort are never filtered, so that each half can be had alone.
//!
//! A look *differs* if the share of a frequent value is off by more than the limit and three standard deviations of so small a sample.
//! Lists of values are Space-Saving's, of 16. A value of a tenth is never missing in them.
//!
//! The hardware is a table of addresses in sets of four, each with a countdown ([`FilterSpec::bits`]). An instruction that finds no place in it is
//! watched on. One that has made up less than one in 64 of the messages of late gives its place away.
//!
//! Invariants:
//! * An event is dropped only if its instruction rests: events = dropped + those that pass.
//! * A message counts once if its instruction is not in the table, and k + 1 times if it is.
//!
//! What is after sees a stream with gaps. So an interval profiler, whose counts are of whole intervals, does not stand there, nor does `CR`,
//! whose counts are lengths of the stream. Nor do counter tables: they would hold back the messages that the checks wait for.

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Place, Tuple};

use crate::component::{Compress, Sink};
use crate::spec::FilterSpec;

/// Entries of a set, in both tables.
const WAYS: usize = 4;
/// Instructions that software checks at a time.
const TRACKED: usize = 2048;
/// Values in a list.
const SLOTS: usize = 16;
/// A frequent value makes up this part of its instruction.
const FREQUENT: f64 = 0.1;
/// An instruction matters if frequent values make up this part of it.
const COVERED: f64 = 0.4;
/// An instruction deserves its place in the hardware if it makes up one in so many messages.
const WORTH: u64 = 64;

/// An instruction: the kind of its events, and its address.
type Key = (Kind, Place);

/// First entry of an instruction's set, in a table of `entries`.
fn set_of((kind, pc): Key, entries: usize) -> usize {
    let word = (pc.word() ^ kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sets = (entries / WAYS) as u64;
    (((word >> 32) * sets) >> 32) as usize * WAYS
}

/// A value of an instruction.
#[derive(Clone, Copy, Default, Debug)]
struct Slot {
    value: u64,
    count: u64,
    /// Its count at the last check.
    before: u64,
}

/// The most frequent values of an instruction.
#[derive(Clone, Copy, Default, Debug)]
struct List {
    slots: [Slot; SLOTS],
    /// Messages in all, and at the last check.
    messages: u64,
    before: u64,
}

impl List {
    const FREE: Self = Self {
        slots: [Slot {
            value: 0,
            count: 0,
            before: 0,
        }; SLOTS],
        messages: 0,
        before: 0,
    };

    /// Counts a message. A value without a slot takes the first free one, else the first of the least, whose count it inherits.
    fn add(&mut self, value: u64) {
        self.messages += 1;
        let known = |slot: &&mut Slot| slot.count > 0 && slot.value == value;
        if let Some(slot) = self.slots.iter_mut().find(known) {
            slot.count += 1;
        } else if let Some(least) = self.slots.iter_mut().min_by_key(|slot| slot.count) {
            *least = Slot {
                value,
                count: least.count + 1,
                before: 0,
            };
        }
    }

    /// The share of a value.
    fn share(&self, value: u64) -> f64 {
        let known = |slot: &&Slot| slot.count > 0 && slot.value == value;
        let slot = self.slots.iter().find(known);
        slot.map_or(0.0, |slot| slot.count as f64 / self.messages as f64)
    }

    /// Values with a share of a tenth.
    fn frequent(&self) -> impl Iterator<Item = (u64, f64)> {
        let share = |slot: &Slot| (slot.value, slot.count as f64 / self.messages as f64);
        self.slots
            .iter()
            .map(share)
            .filter(|(_, share)| *share >= FREQUENT)
    }

    /// Returns true if shares have hardly moved since the last check, and makes this the last one.
    fn check(&mut self, limit: f64) -> bool {
        let (now, before) = (self.messages as f64, self.before as f64);
        let steady = |slot: &Slot| {
            let shares = (slot.count as f64 / now, slot.before as f64 / before);
            shares.0.max(shares.1) < FREQUENT || (shares.0 - shares.1).abs() <= limit
        };
        let settled = self.before > 0 && self.slots.iter().all(steady);
        self.before = self.messages;
        for slot in &mut self.slots {
            slot.before = slot.count;
        }
        settled
    }

    /// Returns true if a look shows another distribution than this.
    fn differs(&self, look: &Self, limit: f64) -> bool {
        let off = |value: u64| {
            let (share, seen) = (self.share(value), look.share(value));
            let beyond = (share - seen).abs() - limit;
            let variance = share * (1.0 - share) / look.messages as f64;
            beyond > 0.0 && beyond * beyond > 9.0 * variance
        };
        let either = self.frequent().chain(look.frequent());
        either.into_iter().any(|(value, _)| off(value))
    }
}

/// Knowledge that software has of an instruction.
#[derive(Clone, Debug)]
struct Known {
    key: Option<Key>,
    /// Number of its last message.
    last: u64,
    /// Values since it is watched; those that it settled with.
    list: List,
    /// Values of the present look.
    look: List,
    /// Events that the messages of the look stand for, each once.
    looked: u64,
    /// Executions in a rest for each in a look; 0: it is watched.
    rests: u32,
    /// The look differed.
    changed: bool,
}

impl Known {
    const FREE: Self = Self {
        key: None,
        last: 0,
        list: List::FREE,
        look: List::FREE,
        looked: 0,
        rests: 0,
        changed: false,
    };

    /// An instruction that is watched from now on.
    fn watched(key: Key, last: u64) -> Self {
        Self {
            key: Some(key),
            last,
            ..Self::FREE
        }
    }
}

/// An entry of the hardware.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    /// Executions to be dropped.
    left: u32,
}

/// A compressor after the filter.
#[derive(Clone, Debug)]
pub struct Converging<C> {
    spec: FilterSpec,
    /// The limit as a share.
    limit: f64,
    known: Box<[Known]>,
    table: Box<[Option<Entry>]>,
    /// Messages so far.
    messages: u64,
    after: Box<C>,
}

/// Keeps the message of one event.
struct Caught(Option<Message>);

impl Sink for Caught {
    fn message(&mut self, message: Message) {
        self.0 = Some(message);
    }
}

impl<C> Converging<C> {
    /// `after` sees the events that the filter lets pass.
    pub fn new(spec: FilterSpec, after: C) -> Self {
        Self {
            spec,
            limit: spec.limit.value() / 100.0,
            known: vec![Known::FREE; TRACKED].into_boxed_slice(),
            table: vec![None; spec.entries as usize].into_boxed_slice(),
            messages: 0,
            after: Box::new(after),
        }
    }

    /// The place of an instruction in the hardware.
    #[inline]
    fn placed(&self, key: Key) -> Option<usize> {
        let set = set_of(key, self.table.len());
        let ways = &self.table[set..set + WAYS];
        let way = ways
            .iter()
            .position(|place| place.is_some_and(|p| p.key == key));
        way.map(|way| set + way)
    }

    /// The entry of an instruction in software, made now if there is room for it.
    fn entry(&mut self, key: Key) -> Option<usize> {
        let set = set_of(key, self.known.len());
        let ways = &self.known[set..set + WAYS];
        if let Some(way) = ways.iter().position(|known| known.key == Some(key)) {
            return Some(set + way);
        }
        // Free entries have had no message at all.
        let watched = ways
            .iter()
            .enumerate()
            .filter(|(_, known)| known.rests == 0);
        let (way, _) = watched.min_by_key(|(_, known)| known.last)?;
        self.known[set + way] = Known::watched(key, self.messages);
        Some(set + way)
    }

    /// Gives an instruction a place in the hardware: a free one, or that of one that hardly sends messages any more.
    fn place(&mut self, key: Key) -> bool {
        let set = set_of(key, self.table.len());
        let mut stale = None;
        for at in set..set + WAYS {
            let Some(place) = self.table[at] else {
                self.table[at] = Some(Entry { key, left: 0 });
                return true;
            };
            let known = self.entry(place.key);
            let idle = known.filter(|n| self.is_idle(&self.known[*n]));
            stale = stale.or(idle.map(|n| (at, n)));
        }
        let Some((at, loser)) = stale else {
            return false;
        };
        let last = self.known[loser].last;
        if let Some(of) = self.table[at] {
            self.known[loser] = Known::watched(of.key, last);
        }
        self.table[at] = Some(Entry { key, left: 0 });
        true
    }

    /// Returns true if an instruction makes up less than one in [`WORTH`] of the messages.
    fn is_idle(&self, known: &Known) -> bool {
        let turn = u64::from(self.spec.messages) * (u64::from(known.rests) + 1);
        self.messages - known.last > WORTH * turn
    }

    /// Checks the instruction of a message.
    fn checked(&mut self, message: &Message) {
        self.messages += 1;
        let key = (message.kind, message.tuple.pc);
        let Some(at) = self.entry(key) else { return };
        let known = &mut self.known[at];
        known.last = self.messages;
        match known.rests {
            0 => self.watch(at, message.tuple.value),
            _ => self.look(at, message),
        }
    }

    fn watch(&mut self, at: usize, value: u64) {
        let known = &mut self.known[at];
        known.list.add(value);
        let due = known
            .list
            .messages
            .is_multiple_of(self.spec.messages.into());
        if !due || !known.list.check(self.limit) {
            return;
        }
        let covered: f64 = known.list.frequent().map(|(_, share)| share).sum();
        let rests = match covered >= COVERED {
            true => self.spec.settled,
            false => self.spec.others,
        };
        let Some(key) = known.key.filter(|_| rests > 0) else {
            return;
        };
        if self.place(key) {
            self.known[at].rests = rests;
        }
    }

    fn look(&mut self, at: usize, message: &Message) {
        let known = &mut self.known[at];
        known.look.add(message.tuple.value);
        known.looked += message.count;
        if known.look.messages < self.spec.messages.into() {
            return;
        }
        known.changed = known.list.differs(&known.look, self.limit);
        known.look = List::default();
        let rest = core::mem::take(&mut known.looked) * u64::from(known.rests);
        let Some(key) = known.key else { return };
        if let Some(place) = self.placed(key)
            && let Some(place) = &mut self.table[place]
        {
            place.left = u32::try_from(rest).unwrap_or(u32::MAX);
        }
    }

    /// The end of a rest. An instruction that has changed is watched, and gives its place away.
    fn rested(&mut self, place: usize, key: Key) {
        if let Some(at) = self.entry(key)
            && self.known[at].changed
        {
            self.known[at] = Known::watched(key, self.known[at].last);
            self.table[place] = None;
        }
    }
}

impl<C: Compress> Compress for Converging<C> {
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        let key = (kind, tuple.pc);
        if let Some(at) = self.placed(key)
            && let Some(place) = &mut self.table[at]
            && place.left > 0
        {
            place.left -= 1;
            if place.left == 0 {
                self.rested(at, key);
            }
            return;
        }
        let mut caught = Caught(None);
        self.after.event(kind, tuple, &mut caught);
        let Some(message) = caught.0 else { return };
        // As it is at this event: the check may find it settled.
        let known = self.entry(key).map(|at| self.known[at].rests);
        let weight = 1 + u64::from(known.unwrap_or(0));
        self.checked(&message);
        out.message(Message {
            count: message.count * weight,
            ..message
        });
    }

    /// Counts are estimates.
    fn held(&self) -> Option<u64> {
        None
    }
}
