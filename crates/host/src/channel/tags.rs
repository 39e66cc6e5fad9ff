//! Tags of code for a target: the run-time addresses that have them ([`trommel_queue::queries`]).

use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::queries::Queries;

/// Number of ranges reported to a target. The number in shared memory may be forged by the target.
#[derive(Debug, Default)]
pub(crate) struct Told(usize);

impl Told {
    /// Tells of one range more. False where there is no room for it.
    pub(crate) fn tell(&mut self, to: &Queries, range: &Range<u64>, tag: u8) -> bool {
        let Some(entry) = to.range.get(self.0) else {
            return false;
        };
        entry.start.store(range.start, Relaxed);
        entry.end.store(range.end, Relaxed);
        entry.tag.store(tag.into(), Relaxed);
        self.0 += 1;
        to.ranges.store(self.0 as u32, Release);
        true
    }
}
