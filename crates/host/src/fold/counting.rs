//! Records counted in no order: paths and their values, expanded once at the end.

use trommel_queue::dict::TargetPc;
use trommel_queue::{MAX_PATHS, ValueCounter};

use crate::channel::shared::{Damaged, Shared};
use crate::fold::dictionary::Step;
use crate::fold::exact::UNSELECTED;
use crate::fold::folder::{Folder, Sums};

impl Folder {
    /// The way for exact counts. `SPLIT`: adds the events, per kind, to `events`.
    pub(super) fn count<const SPLIT: bool>(
        &mut self,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
        events: &mut Sums,
    ) -> Result<(), Damaged> {
        let mut rest = bytes;
        let mut last = None;
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            if number >= MAX_PATHS as u32 {
                rest = self.message(thread, number, after)?;
                continue;
            }
            let met = self.path(shared, number)?;
            last = None;
            if SPLIT && !self.counters[met].value_counters {
                if self.sizes.len() <= met {
                    self.measure();
                }
                for (sum, n) in events.iter_mut().zip(self.sizes[met]) {
                    *sum += u64::from(n);
                }
            }
            let counter = &mut self.counters[met];
            if counter.value_counters {
                let (Some(value), Some(count)) = (
                    after.first_chunk::<8>(),
                    after.get(8..12).and_then(|c| c.first_chunk::<4>()),
                ) else {
                    return Err(Damaged::path(number));
                };
                let value_counter = ValueCounter {
                    value: u64::from_le_bytes(*value),
                    path: number,
                    count: u32::from_le_bytes(*count),
                };
                let count = u64::from(value_counter.count);
                self.tables.add(counter.tables, value_counter.value, count);
                self.watch_record(thread, met, &value_counter);
                if SPLIT {
                    self.add_to_kind(met, count, events);
                }
                last = Some(value_counter);
                rest = &after[12..];
                continue;
            }
            counter.count += 1;
            rest = after;
            if counter.values != 0 {
                let Some((words, after)) = rest.split_at_checked(8 * usize::from(counter.values))
                else {
                    return Err(Damaged::path(number));
                };
                let tables = &self.dictionary.tables[counter.tables as usize..];
                for (&table, word) in tables.iter().zip(words.as_chunks::<8>().0) {
                    self.tables.add(table, u64::from_le_bytes(*word), 1);
                }
                rest = after;
            }
        }
        if let Some(last) = last {
            self.last_value_counters.insert(thread, last);
        } else if !bytes.is_empty() {
            self.last_value_counters.remove(&thread);
        }
        Ok(())
    }

    /// A message's event was seen so often with a value. Adds that, by kind, to `events`.
    pub(super) fn counted_values(
        &mut self,
        met: usize,
        value_counter: &ValueCounter,
        events: Option<&mut Sums>,
    ) {
        let (counter, count) = (&self.counters[met], u64::from(value_counter.count));
        self.tables.add(counter.tables, value_counter.value, count);
        if let Some(events) = events {
            self.add_to_kind(met, count, events);
        }
    }

    /// Adds to the events of the kind that a message is about.
    pub(super) fn add_to_kind(&self, met: usize, count: u64, events: &mut Sums) {
        if let Some(Step::Dynamic(kind, _)) = self.paths[met].tail {
            events[kind as usize] += count;
        }
    }

    /// Adds the count of each path to its events, whose places are known now.
    pub(super) fn settle(&mut self) {
        let taken = self
            .paths
            .iter()
            .zip(&mut self.counters)
            .filter_map(|(p, c)| {
                let count = std::mem::take(&mut c.count);
                (count != 0).then_some((p, count))
            });
        let settled = &mut self.settled;
        let unprofiled = &mut self.unprofiled;
        let after_calls = &mut self.after_calls;
        let deliveries = &mut self.deliveries;
        self.dictionary.counts(
            taken,
            |kind, tuple, count| settled.tuple(kind, tuple, count),
            |place, count| *unprofiled.entry(place).or_default() += count,
            |place, count| {
                let sum = after_calls.entry(place).or_default();
                *sum = sum.wrapping_add(count);
            },
            |place, count| *deliveries.entry(place).or_default() += count,
        );
        self.tables.flush();
        for (n, &(kind, place)) in self.dictionary.dynamic.iter().enumerate() {
            let mut values = self.tables.take(n as u32 + 1 + UNSELECTED);
            if kind.value_is_place() {
                for (value, _) in &mut values {
                    *value = self.dictionary.modules.place_at(TargetPc(*value)).word();
                }
            }
            if !values.is_empty() {
                settled.values(kind, place, values);
            }
        }
    }
}
