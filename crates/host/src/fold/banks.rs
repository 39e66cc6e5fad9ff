//! The way of paths that the target counts by itself.
//!
//! A bank is read when its thread has ended and another may need it, or the program has. What its
//! counters mean has been worked out by then, if other code was found in the place of theirs: a region
//! says how many paths there were before it.

use trommel_queue::{BANK_COUNTERS, BANKS};

use super::{Folder, NEVER, Sizes, damaged, is_first};
use crate::shared::{Counting, Damaged, Shared};

/// Counters read at a time.
const PIECE: usize = 1 << 13;

impl Folder {
    /// Adds what was counted by threads that have ended, or by all of them when the program is `over`,
    /// and frees their banks.
    pub fn banks(&mut self, shared: &Shared, over: bool) -> Result<(), Damaged> {
        if !shared.has_banks() {
            return Ok(());
        }
        for number in 0..BANKS {
            let Some(counting) = shared.bank(number).filter(|bank| bank.ended || over) else {
                continue;
            };
            self.learn(shared);
            let done = self.bank(shared, number, &counting);
            shared.free_bank(number);
            done?;
        }
        Ok(())
    }

    fn bank(&mut self, shared: &Shared, number: usize, of: &Counting) -> Result<(), Damaged> {
        let other = !is_first(of.thread);
        if !other && of.thread == super::FIRST_THREAD {
            self.first_tid = of.tid;
        }
        let mut events = [0_u64; 8];
        let mut words = vec![0_u64; PIECE];
        let paths = self.met.len().min(BANK_COUNTERS);
        for first in (0..paths).step_by(PIECE) {
            let words = &mut words[..PIECE.min(paths - first)];
            shared.read_bank(number, first, words)?;
            for (path, &count) in (first as u32..).zip(&*words) {
                if count != 0 {
                    self.executed(shared, path, count, other.then_some(&mut events))?;
                }
            }
        }
        if other {
            self.threads.entry(of.thread).or_default().0 = of.tid;
            self.add_to(of.thread, events);
        }
        Ok(())
    }

    /// A path was executed so often. Adds the events, per kind, to `events`.
    fn executed(
        &mut self,
        shared: &Shared,
        path: u32,
        count: u64,
        events: Option<&mut [u64; 8]>,
    ) -> Result<(), Damaged> {
        let met = self.path(shared, path)?;
        if self.counters[met].values != 0 {
            return Err(damaged(path));
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
