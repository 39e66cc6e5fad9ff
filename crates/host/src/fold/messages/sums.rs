//! Numbers of messages about each tuple.
//!
//! # Problem
//! A busy program sends millions of messages a second, about hundreds of thousands of tuples: more than fit a cache. The cost of a message
//! is the number of waits for memory.
//!
//! # Strategy
//! One open-addressed table has slots that hold everything about a tuple: the number of its kind and place, its value, and the number of
//! its messages, in 16 bytes. Messages are added in blocks ([`Sums::add_all`]), and the slots where their searches begin are
//! prefetched some messages ahead.
//!
//! # Invariants
//! * A slot without messages is free; at most three of four are not, so that a search ends.
//! * Slots stay where they are until [`Sums::make_room`] says otherwise.

use std::collections::{BTreeMap, HashMap};

use trommel_profile::KindProfile;
use trommel_tuple::{Kind, Place, RECORDED_KINDS};

use crate::kernel::large;

/// Messages before one that is added whose slots are on the way.
const AHEAD: usize = 32;
/// Slots at first.
const FEW: usize = 1 << 12;

/// A kind and a place, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::fold) struct Subject(u32);

impl Subject {
    /// Bits of the kind.
    const KIND: u32 = 3;

    /// The kind.
    #[inline]
    pub(super) const fn kind(self) -> usize {
        (self.0 & ((1 << Self::KIND) - 1)) as usize
    }

    const fn place(self) -> usize {
        (self.0 >> Self::KIND) as usize
    }
}

const _: () = assert!(RECORDED_KINDS <= 1 << Subject::KIND);

/// The subject of messages, of the kind and at the place of `0`, and the value.
pub(super) type About = (Subject, u64);

/// A tuple and its messages.
#[derive(Clone, Copy, Default)]
struct Slot {
    value: u64,
    subject: u32,
    messages: u32,
}

const _: () = assert!(size_of::<Slot>() == 16);

/// The number of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At(pub(super) u32);

/// The table.
#[derive(Default)]
pub(super) struct Sums {
    slots: Vec<Slot>,
    used: usize,
    /// Places by number, and how many slots are theirs.
    places: Vec<(Kind, Place, u32)>,
    numbers: HashMap<(Kind, Place), Subject>,
    /// Messages beyond those in the slot.
    carried: HashMap<(u32, u64), u64>,
}

impl Sums {
    /// The number of a kind and a place.
    pub(super) fn subject(&mut self, kind: Kind, place: Place) -> Subject {
        let places = &mut self.places;
        *self.numbers.entry((kind, place)).or_insert_with(|| {
            places.push((kind, place, 0));
            Subject((places.len() as u32 - 1) << Subject::KIND | kind as u32)
        })
    }

    /// Returns the slot where a search begins.
    #[inline]
    fn home(&self, (subject, value): About) -> usize {
        let sum =
            (value ^ u64::from(subject.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sum = (sum ^ sum >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (sum >> 32) as usize & (self.slots.len() - 1)
    }

    /// Makes room for so many tuples more. Where that moves the others, `moved` gets the function from the old number of a slot to the
    /// new one.
    pub(super) fn make_room(&mut self, more: usize, moved: impl FnOnce(&dyn Fn(At) -> At)) {
        if 4 * (self.used + more) <= 3 * self.slots.len() {
            return;
        }
        let room = (2 * self.slots.len()).max(FEW);
        let before = std::mem::replace(&mut self.slots, large::filled(room));
        for slot in before.iter().filter(|slot| slot.messages != 0) {
            let at = self.find((Subject(slot.subject), slot.value), None);
            self.slots[at] = *slot;
        }
        moved(&|At(old)| {
            let slot = before[old as usize];
            At(self.find((Subject(slot.subject), slot.value), None) as u32)
        });
    }

    /// The slot of a tuple, or the free one that is to be its.
    #[inline]
    fn find(&self, about: About, home: Option<usize>) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home.unwrap_or_else(|| self.home(about)) & mask;
        loop {
            let slot = &self.slots[at];
            if slot.messages == 0 || slot.value == about.1 && slot.subject == about.0.0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches and returns the slot where a later search begins.
    #[inline]
    fn expect(&self, about: About) -> usize {
        let home = self.home(about);
        large::prefetch(&raw const self.slots[home]);
        home
    }

    /// Adds a message about each of these, in order; `each` is told where. There is room for them.
    #[inline]
    pub(super) fn add_all(&mut self, all: &[About], mut each: impl FnMut(Subject, At)) {
        let mut homes = [0; AHEAD];
        let begun = all.get(..AHEAD).unwrap_or(all);
        for (home, about) in homes.iter_mut().zip(begun) {
            *home = self.expect(*about);
        }
        for (n, about) in all.iter().enumerate() {
            let home = homes[n % AHEAD];
            if let Some(later) = all.get(n + AHEAD) {
                homes[n % AHEAD] = self.expect(*later);
            }
            let at = self.find(*about, Some(home));
            let slot = &mut self.slots[at];
            match slot.messages {
                0 => {
                    *slot = Slot {
                        value: about.1,
                        subject: about.0.0,
                        messages: 1,
                    };
                    self.used += 1;
                    self.places[about.0.place()].2 += 1;
                }
                u32::MAX => {
                    let key = (about.0.0, about.1);
                    *self.carried.entry(key).or_default() += u64::from(u32::MAX);
                    slot.messages = 1;
                }
                messages => slot.messages = messages + 1,
            }
            each(about.0, At(at as u32));
        }
    }

    /// Adds it all to profiles; a message stands for `rate` events.
    pub(super) fn finish(self, rate: u64, folded: &mut BTreeMap<Kind, KindProfile>) {
        let room = |(_, _, slots): &(Kind, Place, u32)| Vec::with_capacity(*slots as usize);
        let mut values: Vec<Vec<(u64, u64)>> = self.places.iter().map(room).collect();
        for slot in self.slots.into_iter().filter(|slot| slot.messages != 0) {
            let carried = match self.carried.is_empty() {
                true => 0,
                false => (self.carried.get(&(slot.subject, slot.value))).map_or(0, |n| *n),
            };
            let messages = carried + u64::from(slot.messages);
            values[Subject(slot.subject).place()].push((slot.value, messages * rate));
        }
        for ((kind, place, _), mut values) in self.places.into_iter().zip(values) {
            if values.is_empty() {
                continue;
            }
            values.sort_unstable();
            let all = folded.entry(kind).or_default().counts.entry(place);
            let all = all.or_default();
            match all.is_empty() {
                true => *all = values,
                false => *all = both(all, &values),
            }
        }
    }
}

/// The counts of two lists that are sorted by value.
fn both(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sums = BTreeMap::new();
    for (value, count) in one.iter().chain(other) {
        *sums.entry(*value).or_default() += count;
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(sums: &mut Sums, kind: Kind, place: Place, value: u64) -> About {
        (sums.subject(kind, place), value)
    }

    #[test]
    fn sums_are_those_of_a_map_and_slots_are_followed() {
        let mut sums = Sums::default();
        let mut wanted: BTreeMap<(Kind, Place, u64), u64> = BTreeMap::new();
        let mut n = 1_u64;
        let mut events = Vec::new();
        let mut last: Vec<(About, At)> = Vec::new();
        for _ in 0..100_000 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let kind = [Kind::Value, Kind::Edge][(n >> 40) as usize % 2];
            let place = Place::from_word((n >> 33) % 700);
            let value = (n >> 50) % 40;
            *wanted.entry((kind, place, value)).or_default() += 3;
            let about = about(&mut sums, kind, place, value);
            assert_eq!(about.0.kind(), kind as usize);
            events.push(about);
        }
        for block in events.chunks(77) {
            sums.make_room(block.len(), |to| {
                last.iter_mut().for_each(|(_, at)| *at = to(*at));
            });
            for (about, at) in &last {
                assert_eq!(sums.find(*about, None), at.0 as usize);
            }
            last.clear();
            let mut told = Vec::new();
            sums.add_all(block, |subject, at| told.push((subject, at)));
            assert!(told.iter().map(|t| t.0).eq(block.iter().map(|b| b.0)));
            last = block
                .iter()
                .copied()
                .zip(told.iter().map(|t| t.1))
                .collect();
        }
        // One of them has been told elsewhere, and one has more messages than its slot holds.
        let mut folded: BTreeMap<Kind, KindProfile> = BTreeMap::new();
        let (&(kind, place, value), count) = wanted.iter_mut().next().expect("there are");
        let counts = &mut folded.entry(kind).or_default().counts;
        counts.insert(place, vec![(value, 5), (1 << 40, 7)]);
        *count += 5;
        wanted.insert((kind, place, 1 << 40), 7);
        let (&(kind, place, value), count) = wanted.iter_mut().last().expect("there are");
        let about = about(&mut sums, kind, place, value);
        let at = sums.find(about, None);
        let rest = u32::MAX - sums.slots[at].messages;
        sums.slots[at].messages = u32::MAX;
        sums.add_all(&[about], |_, _| {});
        *count += 3 * (u64::from(rest) + 1);
        sums.finish(3, &mut folded);
        let found: BTreeMap<(Kind, Place, u64), u64> = folded
            .iter()
            .flat_map(|(kind, profile)| profile.counts.iter().map(move |(p, v)| (*kind, *p, v)))
            .flat_map(|(kind, p, values)| values.iter().map(move |(v, n)| ((kind, p, *v), *n)))
            .collect();
        assert_eq!(found, wanted);
    }
}
