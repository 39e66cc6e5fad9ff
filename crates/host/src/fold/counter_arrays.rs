//! The way of the target's own counts: paths and values, or the events of a stratified sampler.
//!
//! A counter array is read when its thread has ended and another may need it, or when the program has ended. The meaning of its
//! counters has been worked out by then, if other code took the place of theirs: a region
//! says how many paths there were before it.

use trommel_queue::{COUNTER_ARRAY_COUNTERS, COUNTER_ARRAYS};
use trommel_tuple::Kind;

use super::folder::{Folder, Mode, NEVER, Sizes, Sums};
use super::threads::is_first;
use crate::channel::shared::{Counting, Damaged, Shared};
use crate::fold::dictionary::Step;

/// Counters read at a time.
const PIECE: usize = 1 << 13;

impl Folder {
    /// Adds what was counted by threads that have ended, or by all of them when the program is `over`,
    /// and frees their counter arrays.
    pub fn counter_arrays(&mut self, shared: &Shared, over: bool) -> Result<(), Damaged> {
        if !shared.has_counter_arrays() {
            return Ok(());
        }
        for number in 0..COUNTER_ARRAYS {
            let Some(counting) = shared
                .counter_array(number)
                .filter(|counter_array| counter_array.ended || over)
            else {
                continue;
            };
            self.learn(shared);
            let done = self
                .counter_array(shared, number, &counting)
                .and_then(|()| match &mut self.contexts {
                    Some(contexts) => contexts.read(shared, number, &self.dictionary.modules),
                    None => Ok(()),
                });
            shared.free_counter_array(number);
            self.forget_value_counters(counting.thread);
            done?;
        }
        Ok(())
    }

    fn counter_array(
        &mut self,
        shared: &Shared,
        number: usize,
        of: &Counting,
    ) -> Result<(), Damaged> {
        let other = !is_first(of.thread);
        if !other && of.thread == super::threads::FIRST_THREAD {
            self.first_tid = of.tid;
        }
        if self.bursts.is_some() {
            return self.counted_in_burst(shared, number, of, true);
        }
        if self.has_messages() {
            return self.held(shared, number, of, other);
        }
        if let Some(ordered) = self.ordered_mut().filter(|ordered| ordered.intervals) {
            let seen = shared.intervals(number)?;
            for (all, seen) in ordered.seen.iter_mut().zip(seen) {
                *all = all.saturating_add(seen);
            }
            if other {
                self.threads.entry(of.thread).or_default().0 = of.tid;
                self.add_to(of.thread, seen);
            }
            return Ok(());
        }
        let mut events = Sums::default();
        let mut words = vec![0_u64; PIECE];
        let paths = self.met.len().min(COUNTER_ARRAY_COUNTERS);
        for first in (0..paths).step_by(PIECE) {
            let words = &mut words[..PIECE.min(paths - first)];
            shared.read_counter_array(number, first, words)?;
            for (path, &count) in (first as u32..).zip(&*words) {
                if count == 0 {
                    continue;
                }
                if self.counts_acyclic() {
                    let met = self.path(shared, path)?;
                    self.passed(met, count, &mut events);
                    continue;
                }
                self.executed(shared, path, count, other.then_some(&mut events))?;
            }
        }
        if self.counts_acyclic() {
            for path in shared.on_paths(number)? {
                let met = self.path(shared, path)?;
                self.left(met, &mut events);
            }
        }
        // A process that is killed while it makes a record of a value counter may have both.
        let recorded = self.last_value_counters.remove(&of.thread);
        for value_counter in shared.value_counters(number)? {
            if value_counter.count != 0 && Some(value_counter) != recorded {
                let met = self.path(shared, value_counter.path)?;
                if !self.counters[met].value_counters {
                    return Err(Damaged::path(value_counter.path));
                }
                let split = other.then_some(&mut events);
                self.counted_values(met, &value_counter, split);
            }
        }
        if other {
            self.threads.entry(of.thread).or_default().0 = of.tid;
            self.add_to(of.thread, events);
        }
        Ok(())
    }

    /// Adds what a thread's sampler has counted and not told.
    fn held(
        &mut self,
        shared: &Shared,
        number: usize,
        of: &Counting,
        other: bool,
    ) -> Result<(), Damaged> {
        // Taken out while paths are resolved, and back whatever happens.
        let Some(mut ordered) = self.take_ordered() else {
            return Ok(());
        };
        let mut held = Ok([0; Kind::ALL.len()]);
        if let Some(messages) = &mut ordered.messages {
            for path in messages.looked_at..shared.paths() {
                if let Ok((header, Some(tail))) = shared.path(path)
                    && header.message
                {
                    match self.dictionary.resolve(&tail) {
                        Step::Static(kind, tuple) => messages.may_count(kind, tuple),
                        Step::Dynamic(kind, _) => messages.may_count_anywhere(kind),
                        _ => {}
                    }
                }
            }
            messages.looked_at = shared.paths();
            let mut words = vec![0_u64; messages.counters().div_ceil(4)];
            held = shared.read_counter_array(number, 0, &mut words).map(|()| {
                let left: Vec<u16> = words.iter().flat_map(|w| halves(*w)).collect();
                messages.held(&left, &ordered.seen)
            });
            if let Ok(held) = &held {
                for (seen, held) in ordered.seen.iter_mut().zip(held) {
                    *seen = seen.saturating_add_signed(*held);
                }
            }
        }
        self.mode = Mode::Ordered(ordered);
        if other {
            let (tid, events) = self.threads.entry(of.thread).or_default();
            *tid = of.tid;
            for (seen, held) in events.iter_mut().zip(held?) {
                *seen = seen.saturating_add_signed(held);
            }
        }
        Ok(())
    }

    /// A path was executed so often. Adds the events, per kind, to `events`.
    fn executed(
        &mut self,
        shared: &Shared,
        path: u32,
        count: u64,
        events: Option<&mut Sums>,
    ) -> Result<(), Damaged> {
        let met = self.path(shared, path)?;
        if self.counters[met].values != 0 || self.counters[met].value_counters {
            return Err(Damaged::path(path));
        }
        let sum = &mut self.counters[met].count;
        *sum = sum.wrapping_add(count);
        if let Some(events) = events {
            if self.sizes.len() <= met {
                self.measure();
            }
            let sizes: Sizes = self.sizes[met];
            for (sum, n) in events.iter_mut().zip(sizes) {
                *sum = sum.wrapping_add(u64::from(n).wrapping_mul(count));
            }
        }
        Ok(())
    }

    /// Works out what the first `paths` mean: code of theirs is about to be replaced.
    pub(super) fn meet_all(&mut self, shared: &Shared, paths: usize) {
        let paths = paths.min(shared.paths());
        self.met.resize(self.met.len().max(paths), NEVER);
        for number in 0..paths {
            if self.met[number] == NEVER {
                // Damage is told where such a path has been executed.
                let _ = self.meet(shared, number as u32);
            }
        }
    }
}

/// The four numbers of 16 bits in a word, in the order of memory.
fn halves(word: u64) -> [u16; 4] {
    std::array::from_fn(|n| (word >> (16 * n)) as u16)
}
