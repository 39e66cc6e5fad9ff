//! Bursts of control: what was counted in each is one sample of the program.
//!
//! # Problem
//! In a burst generated code counts, as in a program that is under control all the time. The counts only grow, and nothing in them says
//! when. Estimates and their limits need what each burst has counted: events of one burst are of one phase of the program.
//!
//! # Strategy
//! When a burst has ended, no thread counts, and what its burst has added to each counter is found by comparing with the time before
//! ([`Bursts`]). Paths without counters are recorded, and wait for the same moment. The difference goes to the same places as what windows record ([`super::windowed`]), with the weight of the burst.
//!
//! # Why it is correct
//! * A counter array that is given back while a burst goes on is read then, and what it has beyond the time before belongs to the burst.
//! * A counter array of another thread begins with zeroes.
use trommel_queue::{COUNTER_ARRAY_COUNTERS, COUNTER_ARRAYS};

use crate::channel::shared::{Counting, Damaged, Shared};
use crate::fold::burst::Bursts;
use crate::fold::folder::{Folder, Mode};

/// Counters read at a time.
const PIECE: usize = 1 << 13;
/// Counters compared at a time: most have not changed.
const FEW: usize = 64;

impl Folder {
    /// Folds bursts of control. Their weights have this relative standard error in common.
    pub fn of_bursts(mut self, factor_error: f64) -> Self {
        self = self.of_windows(0.0, None);
        if let Mode::Windowed(windowed) = &mut self.mode {
            windowed.factor_error = factor_error;
        }
        self.bursts = Some(Box::default());
        self
    }

    /// Adds what a counter array has counted since the last burst. `freed`: it begins anew.
    pub(super) fn counted_in_burst(
        &mut self,
        shared: &Shared,
        number: usize,
        of: &Counting,
        freed: bool,
    ) -> Result<(), Damaged> {
        let Some(mut bursts) = self.bursts.take() else {
            return Ok(());
        };
        let done = self.compare(&mut bursts, shared, number, of);
        if freed {
            bursts.before[number] = (0, Vec::new());
        }
        self.bursts = Some(bursts);
        done
    }

    fn compare(
        &mut self,
        bursts: &mut Bursts,
        shared: &Shared,
        number: usize,
        of: &Counting,
    ) -> Result<(), Damaged> {
        bursts.before.resize(COUNTER_ARRAYS, (0, Vec::new()));
        if bursts.before[number].0 != of.thread {
            bursts.before[number] = (of.thread, Vec::new());
        }
        let paths = self.met.len().min(COUNTER_ARRAY_COUNTERS);
        bursts.before[number].1.resize(paths, 0);
        let mut words = vec![0_u64; PIECE];
        for first in (0..paths).step_by(PIECE) {
            let words = &mut words[..PIECE.min(paths - first)];
            shared.read_counter_array(number, first, words)?;
            let before = &mut bursts.before[number].1[first..first + words.len()];
            let mut counted = Vec::new();
            let few = words.chunks(FEW).zip(before.chunks_mut(FEW));
            for (n, (words, before)) in few.enumerate().filter(|(_, (now, old))| now != old) {
                let path = first + n * FEW;
                for ((path, &word), before) in (path..).zip(words).zip(before) {
                    // A program may have written anything.
                    let count = word.saturating_sub(std::mem::replace(before, word));
                    counted.push((path as u32, count));
                }
            }
            for (path, count) in counted.into_iter().filter(|(_, count)| *count != 0) {
                let met = self.path(shared, path)?;
                bursts.add(met, count);
            }
        }
        Ok(())
    }

    /// Adds records of paths that have no counters.
    pub(super) fn recorded_in_burst(
        &mut self,
        shared: &Shared,
        bytes: &[u8],
    ) -> Result<(), Damaged> {
        let mut rest = bytes;
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            let met = self.path(shared, number)?;
            let words = 8 * usize::from(self.counters[met].values);
            let (words, after) = (after.split_at_checked(words))
                .filter(|_| !self.counters[met].value_counters)
                .ok_or_else(|| Damaged::path(number))?;
            if let Some(bursts) = &mut self.bursts {
                match words.is_empty() {
                    true => bursts.add(met, 1),
                    false => bursts.records.push((met, words.to_vec())),
                }
            }
            rest = after;
        }
        Ok(())
    }

    /// A burst has ended, of which each event stands for `weight`. `covered`: its time, as native time in nanoseconds.
    ///
    /// # Errors
    /// The target has written what means nothing.
    pub fn burst(&mut self, shared: &Shared, weight: f64, covered: f64) -> Result<(), Damaged> {
        self.learn(shared);
        for number in 0..COUNTER_ARRAYS {
            if let Some(of) = shared.counter_array(number) {
                self.counted_in_burst(shared, number, &of, false)?;
            }
        }
        let Some(bursts) = &mut self.bursts else {
            return Ok(());
        };
        let since = std::mem::take(&mut bursts.since);
        let records = std::mem::take(&mut bursts.records);
        let Some(mut windowed) = self.take_windowed() else {
            return Ok(());
        };
        while windowed.paths.len() < self.paths.len() {
            let path = &self.paths[windowed.paths.len()];
            let steps = self.dictionary.steps(path).iter().chain(&path.tail);
            windowed.learn(steps.copied());
        }
        windowed.begin_burst(weight, covered);
        for (met, &count) in since.iter().enumerate().filter(|(_, count)| **count != 0) {
            windowed.executed(met, count, weight);
        }
        for (met, words) in records {
            windowed.path(met, &words, weight, &self.dictionary.modules);
        }
        self.mode = Mode::Windowed(windowed);
        Ok(())
    }
}
