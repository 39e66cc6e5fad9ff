//! Accesses to lines that have not been handed over yet.
//!
//! # Problem
//! Most lines are used by one thread for ever, and nobody asks about them. Of a line that is handed over, all accesses are to be known,
//! those before that too: it may be used once by each thread.
//!
//! # Strategy
//! Counts are in short lists, one for each line, in one array. A list ends when its line is handed over, and what it took is used again.
//!
//! # Invariants
//! * Memory is bounded: there are at most [`MOST`] counts, and [`MOST_OF_LINE`] of a line.

use trommel_tuple::Place;

/// Counts of all lines.
const MOST: usize = 1 << 22;
/// Counts of a line.
const MOST_OF_LINE: usize = 32;
/// No count.
const NONE: u32 = u32::MAX;

/// A thread, its instruction, and the first byte and the number of bytes that this touches.
pub(super) type Part = (u32, Place, u16, u16);

/// The counts of a line.
#[derive(Clone, Copy)]
pub(super) struct List {
    first: u32,
    /// Accesses that found no room.
    missed: u32,
}

impl List {
    /// No access yet.
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        missed: 0,
    };
}

struct Count {
    part: Part,
    /// Loads and stores.
    counts: [u32; 2],
    next: u32,
}

/// Counts of all lines that were not handed over.
pub(super) struct Earlier {
    all: Vec<Count>,
    /// The first of those that are not used.
    free: u32,
}

impl Earlier {
    /// No line has a count.
    pub(super) const fn new() -> Self {
        Self {
            all: Vec::new(),
            free: NONE,
        }
    }

    /// Counts an access. The part that was touched last is the first of the list.
    pub(super) fn add(&mut self, list: &mut List, part: Part, counts: [bool; 2]) {
        let (mut before, mut at, mut length) = (NONE, list.first, 0);
        while at != NONE && self.all[at as usize].part != part {
            (before, at) = (at, self.all[at as usize].next);
            length += 1;
        }
        if at == NONE {
            let found = (length < MOST_OF_LINE).then(|| self.place(part)).flatten();
            let Some(new) = found else {
                list.missed = list.missed.saturating_add(1);
                return;
            };
            at = new;
        } else if before != NONE {
            self.all[before as usize].next = self.all[at as usize].next;
        }
        let count = &mut self.all[at as usize];
        if at != list.first {
            count.next = std::mem::replace(&mut list.first, at);
        }
        for (sum, is) in count.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(is.into());
        }
    }

    /// A place for a count, if there is room.
    fn place(&mut self, part: Part) -> Option<u32> {
        let new = Count {
            part,
            counts: [0; 2],
            next: NONE,
        };
        if self.free != NONE {
            let at = self.free;
            let old = std::mem::replace(&mut self.all[at as usize], new);
            self.free = old.next;
            return Some(at);
        }
        let at = self.all.len();
        (at < MOST).then(|| {
            self.all.push(new);
            at as u32
        })
    }

    /// Ends a list: gives each count to `to`. Returns the accesses that found no room.
    pub(super) fn end(&mut self, list: &mut List, mut to: impl FnMut(Part, [u64; 2])) -> u64 {
        let mut at = list.first;
        while at != NONE {
            let count = &mut self.all[at as usize];
            to(count.part, count.counts.map(u64::from));
            let next = std::mem::replace(&mut count.next, self.free);
            self.free = at;
            at = next;
        }
        let missed = u64::from(list.missed);
        *list = List::EMPTY;
        missed
    }
}
