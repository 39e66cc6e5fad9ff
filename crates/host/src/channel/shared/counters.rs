//! Counter arrays, which are read by file offset: the mapping would make pages that were never written.

use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Damaged, Shared};
use trommel_profile::accuracy::PerKind;
use trommel_queue::{
    COUNTER_ARRAY_BYTES, COUNTER_ARRAY_COUNTERS, COUNTER_ARRAY_TABLE_OFFSET, COUNTER_ARRAYS,
    COUNTER_ARRAYS_OFFSET, COUNTS_NOTHING, CounterArray, Intervals, MOST_INTERRUPTED,
    ON_PATH_OFFSET, VALUE_COUNTERS, VALUE_COUNTERS_OFFSET, ValueCounter,
};
use trommel_tuple::RECORDED_KINDS;

/// The thread whose counters a counter array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Number of the thread.
    pub thread: u32,
    /// The thread's id in the kernel.
    pub tid: u32,
    /// True if it has ended.
    pub ended: bool,
}

impl Shared {
    /// Returns whether the target counts.
    pub fn has_counter_arrays(&self) -> bool {
        self.control().setup.counters.load(Relaxed) != COUNTS_NOTHING
    }

    /// Returns the thread whose counters a counter array holds. `None` when it is free.
    pub fn counter_array(&self, number: usize) -> Option<Counting> {
        let words = self.counter_array_words(number);
        let thread = words.thread.load(Acquire);
        (thread != 0).then(|| Counting {
            thread,
            tid: words.tid.load(Relaxed),
            ended: words.ended.load(Acquire) != 0,
        })
    }

    fn counter_array_words(&self, number: usize) -> &CounterArray {
        let offset =
            COUNTER_ARRAY_TABLE_OFFSET + number % COUNTER_ARRAYS * size_of::<CounterArray>();
        self.part(offset)
    }

    /// Counters of a counter array, from that of the path `first` on.
    pub fn read_counter_array(
        &self,
        number: usize,
        first: usize,
        to: &mut [u64],
    ) -> Result<(), Damaged> {
        assert!(number < COUNTER_ARRAYS && first + to.len() <= COUNTER_ARRAY_COUNTERS);
        let mut bytes = vec![0; size_of_val(to)];
        // Not through the mapping, where pages that were never written would be made.
        let read = (self.pages).read(
            COUNTER_ARRAYS_OFFSET + number * COUNTER_ARRAY_BYTES + 8 * first,
            &mut bytes,
        );
        for (word, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        read.map_err(|_| Damaged {
            what: "a counter array",
            number: number as u64,
        })
    }

    /// Paths that lead to where a counter array's thread was on acyclic paths last, as far as it has said so.
    pub fn on_paths(&self, number: usize) -> Result<Vec<u32>, Damaged> {
        let mut bytes = [0; 4 * (1 + MOST_INTERRUPTED)];
        let at =
            COUNTER_ARRAYS_OFFSET + number % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES + ON_PATH_OFFSET;
        let read = self.pages.read(at, &mut bytes);
        read.map_err(|_| Damaged {
            what: "a counter array",
            number: number as u64,
        })?;
        let words = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
        Ok(words.filter_map(|word| word.checked_sub(1)).collect())
    }

    /// Events that the profiler of a counter array has seen, by kind.
    pub fn intervals(&self, number: usize) -> Result<PerKind, Damaged> {
        const WORDS: usize = size_of::<Intervals>() / 8;
        let mut words = [0; WORDS];
        self.read_counter_array(number, 0, &mut words)?;
        let word = |at: usize| words[at / 8] >> (8 * (at % 8)) & 0xffff_ffff;
        let left = word(offset_of!(Intervals, left));
        let length = word(offset_of!(Intervals, length));
        let ended = words[offset_of!(Intervals, ended) / 8];
        let all = ended.wrapping_add(length.saturating_sub(left));
        let first = offset_of!(Intervals, kinds) / 8;
        let mut seen = PerKind::default();
        seen[..RECORDED_KINDS].copy_from_slice(&words[first..first + RECORDED_KINDS]);
        let others = seen.iter().fold(0_u64, |sum, n| sum.wrapping_add(*n));
        let rest = word(offset_of!(Intervals, rest)) as usize % RECORDED_KINDS;
        seen[rest] = all.saturating_sub(others);
        // A program may have written anything.
        match seen.iter().all(|&n| n <= 1 << 56) {
            true => Ok(seen),
            false => Err(Damaged {
                what: "a counter array of a profiler",
                number: number as u64,
            }),
        }
    }

    /// The value counters of a counter array that its thread uses.
    pub fn value_counters(&self, number: usize) -> Result<Vec<ValueCounter>, Damaged> {
        assert!(number < COUNTER_ARRAYS);
        if self.control().process.value_counters.load(Relaxed) == 0 {
            return Ok(Vec::new());
        }
        let used = self
            .counter_array_words(number)
            .value_counters
            .load(Acquire) as usize;
        let mut bytes = vec![0; used.min(VALUE_COUNTERS) * size_of::<ValueCounter>()];
        let at = COUNTER_ARRAYS_OFFSET + number * COUNTER_ARRAY_BYTES + VALUE_COUNTERS_OFFSET;
        let read = self.pages.read(at, &mut bytes);
        read.map_err(|_| Damaged {
            what: "a counter array of value counters",
            number: number as u64,
        })?;
        const _: () = assert!(size_of::<ValueCounter>() == size_of::<u128>());
        let (each, _) = bytes.as_chunks::<{ size_of::<ValueCounter>() }>();
        let each = each.iter().map(|bytes| {
            let word = u128::from_le_bytes(*bytes);
            ValueCounter {
                value: (word >> (8 * offset_of!(ValueCounter, value))) as u64,
                path: (word >> (8 * offset_of!(ValueCounter, path))) as u32,
                count: (word >> (8 * offset_of!(ValueCounter, count))) as u32,
            }
        });
        Ok(each.collect())
    }

    /// Makes a counter array zero, which its thread has left, and gives it back to the target.
    pub fn free_counter_array(&self, number: usize) {
        let start = COUNTER_ARRAYS_OFFSET + number % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES;
        self.pages.discard(start..start + COUNTER_ARRAY_BYTES);
        self.free_context_tree(number);
        self.counter_array_words(number).thread.store(0, Release);
    }
}
