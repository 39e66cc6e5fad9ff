//! Tags of code, which the host assigns: by queries, or by the selection of `--only`.
//!
//! When the target reaches new code it reports the region to the host and waits. Then the ranges with tags in it are there
//! ([`trommel_queue::queries`]).

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use trommel_queue::queries::{EVERYTHING, MAX_RANGES, Queries};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::channel::slot::Mapped;

/// The tags that are known.
#[derive(Default)]
pub struct Tags {
    /// Code with tags; of those that hold an address the last one counts.
    ranges: Vec<(Range, u8)>,
    /// Number of ranges read from the slot in use: the next range to read has this index.
    read: usize,
}

impl Tags {
    /// Returns the selection of `--only`, if it is given.
    pub fn selected(mapped: Mapped) -> Option<Self> {
        let area = mapped.queries();
        let queried = area.bytes.load(Acquire) != 0 || area.changing.load(Acquire) != 0;
        let selects = area.tagged.load(Relaxed) != 0 && !queried;
        selects.then(Self::default)
    }

    /// The tag of the code at an address, of which the host was asked. `area`: the place of the program that it is a tag of.
    pub fn of(&mut self, area: &Queries, pc: AppPc) -> u8 {
        self.read(area);
        let last = self.ranges.iter().rev().find(|(range, _)| range.holds(pc));
        last.map_or(0, |(_, tag)| *tag)
    }

    /// Returns true if code in `span` may have one of the tags of `bits`.
    pub fn may_be_in(&mut self, area: &Queries, span: Range, bits: u8) -> bool {
        self.read(area);
        let meets = |range: &Range| range.start < span.end && span.start < range.end;
        let mut tagged = self.ranges.iter();
        bits & 1 != 0 || tagged.any(|(range, tag)| bits >> tag & 1 != 0 && meets(range))
    }

    /// Reads the ranges that the host has listed since.
    fn read(&mut self, area: &Queries) {
        let listed = (area.ranges.load(Acquire) as usize).min(MAX_RANGES);
        while self.read < listed {
            let range = &area.range[self.read];
            let span = Range {
                start: range.start.load(Relaxed),
                end: range.end.load(Relaxed),
            };
            self.ranges.push((span, range.tag.load(Relaxed) as u8 & 3));
            self.read += 1;
        }
    }

    /// Returns true if the code at an address is selected. May be true for more than the host selects, if the host says so.
    pub fn selects(&mut self, mapped: Mapped, pc: AppPc) -> bool {
        mapped.queries().tagged.load(Relaxed) == EVERYTHING || self.of(mapped.queries(), pc) != 0
    }

    /// Goes on in the process's own slot, where the host has reported nothing yet.
    pub fn in_new_slot(&mut self) {
        self.read = 0;
    }
}
