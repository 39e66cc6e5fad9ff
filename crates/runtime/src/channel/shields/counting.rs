//! A thread's part of a multi-hash profiler: its accumulator, and where each tuple in that is counted.
#![allow(unsafe_code)] // reason: reads and writes counters.

use crate::base::counted::VALUE_COUNTERS_AT;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use trommel_compress::Seeds;
use trommel_compress::interval::Shielding;
use trommel_queue::{CELLS, Intervals, ValueCounter};

use super::{FULL, Profiler, key};
use crate::base::area::{COUNTERS_OFFSET, Context};
use crate::base::counted::{CONTESTED, Subject};
use crate::base::counted::{first_of_value_counter, mask_of_value_counters};
use crate::base::emit::GsOffset;

/// Value of [`Context::promotes_at`]: nothing is promoted before the interval has ended.
const NEVER: u32 = u32::MAX;

/// Place where the events of a slot's tuple are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    /// No place.
    None,
    /// The cell of the subject.
    Cell,
    /// The value counter of this index.
    ValueCounter(u32),
    /// The accumulator: the value counter is contested.
    Slot,
}

/// A slot of the accumulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) home: Home,
    pub(crate) subject: u32,
    pub(crate) value: u64,
}

/// A candidate to be reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) slot: usize,
    pub(crate) count: u32,
}

/// The last interval, kept for a program that asks for it.
pub(crate) struct Kept {
    /// Number of the interval, from 1; 0: none has ended since it is kept.
    pub(crate) number: u64,
    pub(crate) events: u32,
    /// Subjects, values where these are not the subjects', and counts.
    pub(crate) candidates: Vec<(u32, u64, u32)>,
}

/// A thread's part of the profiler.
pub struct Counting {
    pub(crate) shielding: Shielding,
    pub(crate) slots: Vec<Slot>,
    /// Value counters that are contested: a slot is in one at most when an interval begins, and in another when it has a new tuple.
    pub(crate) contested: Vec<u32>,
    pub(crate) candidates: Vec<Candidate>,
    /// The thread's area, and where subjects are.
    pub(crate) area: u64,
    pub(crate) subjects: u64,
    /// Value counters in use.
    pub(crate) value_counters: usize,
    /// The interval has ended in the dispatcher, with the lock held.
    pub(crate) is_due: bool,
    /// Intervals that have ended.
    ended: u64,
    /// The last one, if the program has asked for it.
    kept: Option<Kept>,
}

impl Counting {
    pub(crate) fn new(profiler: &Profiler, area: u64) -> Self {
        let shielding = Shielding::new(&profiler.shield, Seeds::default().hash);
        let empty = Slot {
            home: Home::None,
            subject: 0,
            value: 0,
        };
        let slots = shielding.slots();
        Self {
            slots: vec![empty; slots],
            contested: Vec::with_capacity(2 * slots),
            candidates: Vec::with_capacity(slots),
            shielding,
            area,
            subjects: profiler.at,
            value_counters: profiler.value_counters,
            is_due: false,
            ended: 0,
            kept: None,
        }
    }

    /// Keeps the candidates of the interval that has just ended, if the program asks for them.
    pub(crate) fn keep(&mut self, events: u32) {
        self.ended += 1;
        let Some(kept) = &mut self.kept else {
            return;
        };
        (kept.number, kept.events) = (self.ended, events);
        kept.candidates.clear();
        let slots = &self.slots;
        // There is room for all slots.
        kept.candidates.extend(self.candidates.iter().map(|of| {
            let Slot { subject, value, .. } = slots[of.slot];
            (subject, value, of.count)
        }));
    }

    /// Returns the last interval that has ended since this was called first.
    pub(crate) fn kept(&mut self) -> &Kept {
        let slots = self.slots.len();
        self.kept.get_or_insert_with(|| Kept {
            number: 0,
            events: 0,
            candidates: Vec::with_capacity(slots),
        })
    }

    pub(crate) fn subject(&self, number: u32) -> Subject {
        let number = number as usize % CELLS;
        // SAFETY: inside the mapping of subjects, which are plain numbers.
        unsafe { (self.subjects as *const Subject).add(number).read() }
    }

    pub(crate) fn seen(&self) -> &Intervals {
        // SAFETY: before the counter array that is mapped at the end of the thread's area; all atomics.
        unsafe { &*((self.area + COUNTERS_OFFSET as u64) as *const Intervals) }
    }

    pub(crate) fn cell(&self, subject: u32) -> *mut u32 {
        (self.area + u64::from(Profiler::cell(subject).0)) as *mut u32
    }

    fn value_counter(&self, index: u32) -> *mut ValueCounter {
        let GsOffset(value_counters) = VALUE_COUNTERS_AT;
        (self.area + u64::from(value_counters) + u64::from(index)) as *mut ValueCounter
    }

    /// Brings the accumulator what was counted elsewhere.
    fn bring(&mut self) {
        for (n, slot) in self.slots.iter().enumerate() {
            // SAFETY: words of the thread's own counter array, in which nobody else counts.
            let count = unsafe {
                match slot.home {
                    Home::None | Home::Slot => continue,
                    Home::Cell => FULL.wrapping_sub(self.cell(slot.subject).read_volatile()),
                    Home::ValueCounter(at) => {
                        (&raw const (*self.value_counter(at)).count).read_volatile()
                    }
                }
            };
            self.shielding.has_counted(n, count);
        }
    }

    /// A slot's tuple is not in the accumulator any more.
    fn leave(&mut self, slot: usize) {
        let Slot { home, subject, .. } = self.slots[slot];
        self.slots[slot].home = Home::None;
        // SAFETY: as in `bring`.
        unsafe {
            match home {
                Home::None | Home::Slot => {}
                Home::Cell => self.cell(subject).write_volatile(0),
                Home::ValueCounter(at) => self
                    .value_counter(at)
                    .write_volatile(ValueCounter::default()),
            }
        }
    }

    /// A slot's tuple is in the accumulator, with so many events.
    fn enter(&mut self, slot: usize, count: u32) {
        let Slot { subject, value, .. } = self.slots[slot];
        if self.subject(subject).cell != 0 {
            // SAFETY: as in `bring`.
            unsafe { self.cell(subject).write_volatile(FULL - count) };
            self.slots[slot].home = Home::Cell;
            return;
        }
        let index = value_counter_of(subject, value, self.value_counters);
        // SAFETY: as in `bring`.
        let path = unsafe { (&raw const (*self.value_counter(index)).path).read_volatile() };
        let (path, count, home) = match path {
            0 => (key(subject), count, Home::ValueCounter(index)),
            CONTESTED => {
                self.shielding.has_counted(slot, count);
                self.slots[slot].home = Home::Slot;
                return;
            }
            _ => {
                self.bring();
                for other in &mut self.slots {
                    if other.home == Home::ValueCounter(index) {
                        other.home = Home::Slot;
                    }
                }
                self.shielding.has_counted(slot, count);
                self.contested.push(index);
                (CONTESTED, 0, Home::Slot)
            }
        };
        self.slots[slot].home = home;
        // SAFETY: as in `bring`.
        unsafe {
            self.value_counter(index)
                .write_volatile(ValueCounter { value, path, count })
        };
    }

    /// The counters of a tuple have come to where it is promoted.
    pub(crate) fn promote(&mut self, number: u32, value: u64, context: &mut Context) {
        let subject = self.subject(number);
        if self.shielding.is_full() {
            self.bring();
        }
        let count = self.shielding.promotes_at();
        match self.shielding.promote(subject.kind(), subject.tuple(value)) {
            Some(slot) => {
                self.leave(slot);
                self.slots[slot] = Slot {
                    home: Home::None,
                    subject: number,
                    value,
                };
                self.enter(slot, count);
            }
            None => context.promotes_at = NEVER,
        }
    }

    /// An event that code does not count.
    pub(crate) fn event(&mut self, number: u32, value: u64, context: &mut Context) {
        let subject = self.subject(number);
        let reached = self.shielding.event(subject.kind(), subject.tuple(value));
        if reached && context.promotes_at != NEVER {
            self.promote(number, value, context);
        }
    }

    /// The interval has ended: finds the candidates. Returns its events.
    pub(crate) fn end_interval(&mut self, context: &mut Context) -> u32 {
        self.bring();
        let candidates = &mut self.candidates;
        candidates.clear();
        self.shielding.end_interval(|slot, message| {
            let count = message.count as u32;
            candidates.push(Candidate { slot, count });
        });
        for slot in 0..self.slots.len() {
            match (self.slots[slot].home, self.shielding.is_used(slot)) {
                (Home::None | Home::Slot, _) => {}
                (_, false) => self.leave(slot),
                // SAFETY: as in `bring`.
                (Home::Cell, true) => unsafe {
                    self.cell(self.slots[slot].subject).write_volatile(FULL);
                },
                // SAFETY: as in `bring`.
                (Home::ValueCounter(at), true) => unsafe {
                    (&raw mut (*self.value_counter(at)).count).write_volatile(0);
                },
            }
        }
        if !self.contested.is_empty() {
            self.settle();
        }
        let seen = self.seen();
        let length = self.shielding.length();
        let ended = seen.length.load(Relaxed);
        let all = seen.ended.load(Relaxed) + u64::from(ended);
        seen.ended.store(all, Relaxed);
        seen.length.store(length, Relaxed);
        seen.left.store(length, Relaxed);
        context.promotes_at = self.shielding.promotes_at() - 1;
        ended
    }

    /// Looks for value counters again of those in the accumulator whose own were contested.
    #[cold]
    fn settle(&mut self) {
        while let Some(index) = self.contested.pop() {
            // SAFETY: as in `bring`.
            unsafe {
                self.value_counter(index)
                    .write_volatile(ValueCounter::default())
            };
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].home == Home::Slot {
                self.slots[slot].home = Home::None;
                if self.shielding.is_used(slot) {
                    self.enter(slot, 0);
                }
            }
        }
    }
}

/// The value counter of a value, from the first, of so many.
fn value_counter_of(subject: u32, value: u64, value_counters: usize) -> u32 {
    let mask = mask_of_value_counters(value_counters);
    let first = u64::from(first_of_value_counter(key(subject)));
    // SAFETY: generated code has the instruction, too.
    let sum = unsafe { core::arch::x86_64::_mm_crc32_u64(first, value) };
    sum as u32 & mask
}
