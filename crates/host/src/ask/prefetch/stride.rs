//! Differences between the addresses of an instruction, some executions apart.
//!
//! For each number of executions of [`AHEAD`], a table of [`ENTRIES`] counts the differences (Misra and
//! Gries). A difference that is more than a fifth of them is in the table at the end. Its count there is too low by at most a fifth
//! of the other differences. So the share of a difference that is nearly always the same is nearly exact. Executions in
//! different bursts are not compared.

use std::collections::VecDeque;

/// Executions apart that are looked at.
pub const AHEAD: [u32; 5] = [1, 2, 4, 8, 16];
/// Differences that are counted of each.
const ENTRIES: usize = 4;
/// Accesses between two executions above which the loop is taken to have been left in between.
const LONG: u64 = 4096;

/// The addresses of one instruction in one thread.
#[derive(Clone, Debug, Default)]
pub struct Strides {
    /// The last addresses, the newest before.
    last: VecDeque<u64>,
    /// The thread's accesses up to the last execution.
    clock: u64,
    /// Differences for each entry of [`AHEAD`].
    tables: [Differences; AHEAD.len()],
    /// Accesses from one execution to the next, all together, and how many times that was.
    apart: (u64, u64),
}

/// Differences counted.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    counts: [(i64, u64); ENTRIES],
    all: u64,
}

impl Differences {
    fn add(&mut self, difference: i64) {
        self.all += 1;
        let counts = &mut self.counts;
        if let Some(entry) = counts.iter_mut().find(|e| e.1 != 0 && e.0 == difference) {
            entry.1 += 1;
        } else if let Some(free) = counts.iter_mut().find(|e| e.1 == 0) {
            *free = (difference, 1);
        } else {
            counts.iter_mut().for_each(|entry| entry.1 -= 1);
        }
    }
}

impl Strides {
    /// The next execution accesses `address`; `clock` is the number of that access, of all of its
    /// thread's.
    pub fn add(&mut self, address: u64, clock: u64) {
        let apart = clock.wrapping_sub(self.clock);
        if apart > LONG {
            self.last.clear();
        } else if !self.last.is_empty() {
            self.apart.0 += apart;
            self.apart.1 += 1;
        }
        self.clock = clock;
        for (table, ahead) in self.tables.iter_mut().zip(AHEAD) {
            if let Some(before) = self.last.get(ahead as usize - 1) {
                table.add(address.wrapping_sub(*before) as i64);
            }
        }
        self.last.truncate(AHEAD[AHEAD.len() - 1] as usize - 1);
        self.last.push_front(address);
    }

    /// The most frequent difference of addresses so many executions apart, a number of [`AHEAD`], and its share.
    pub fn most(&self, ahead: u32) -> Option<(i64, f64)> {
        let at = AHEAD.iter().position(|&a| a == ahead)?;
        let table = &self.tables[at];
        let (difference, count) = table.counts.into_iter().max_by_key(|e| e.1)?;
        (count != 0).then(|| (difference, count as f64 / table.all as f64))
    }

    /// Accesses of the thread from one execution to the next, on average.
    pub fn accesses_apart(&self) -> Option<f64> {
        let (sum, times) = self.apart;
        (times != 0).then(|| sum as f64 / times as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(addresses: impl IntoIterator<Item = u64>) -> Strides {
        let mut strides = Strides::default();
        for (n, address) in addresses.into_iter().enumerate() {
            strides.add(address, n as u64 * 3);
        }
        strides
    }

    #[test]
    fn a_walk_has_its_stride_and_the_multiples() {
        let walk = of((0..100).map(|n| 1_000_000 - n * 4160));
        for ahead in AHEAD {
            let by = -4160 * i64::from(ahead);
            assert_eq!(walk.most(ahead), Some((by, 1.0)));
        }
        assert_eq!(walk.accesses_apart(), Some(3.0));
        assert_eq!(of([7]).most(1), None);
        assert_eq!(of([7]).accesses_apart(), None);
    }

    #[test]
    fn rows_that_end_count_against_what_is_far_ahead() {
        let rows = of((0..1000).map(|n| n / 10 * 1_000_000 + n % 10 * 5000));
        let share = |ahead| {
            rows.most(ahead)
                .map(|(by, share)| (by, (share * 10.0).round()))
        };
        assert_eq!(share(1), Some((5000, 9.0)));
        assert_eq!(share(4), Some((20_000, 6.0)));
    }

    #[test]
    fn other_bursts_are_not_compared() {
        let mut strides = Strides::default();
        for n in 0..10 {
            strides.add(n * 64, n * (LONG + 1));
        }
        assert_eq!(strides.most(1), None);
        assert_eq!(strides.accesses_apart(), None);
    }

    proptest! {
        /// A difference of more than a fifth is found, and its share is told within what others are.
        #[test]
        fn what_is_frequent_is_found(
            mut others in proptest::collection::vec(any::<u32>(), 0..100),
            stride in 1_i64..1 << 40,
            seed in any::<u64>(),
        ) {
            let times = others.len() / 3 + 1;
            let mut differences: Vec<i64> = others.drain(..).map(|o| -i64::from(o) - 1).collect();
            differences.extend(std::iter::repeat_n(stride, times));
            // In some order.
            let mut random = seed | 1;
            for n in (1..differences.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                differences.swap(n, (random >> 33) as usize % (n + 1));
            }
            let mut table = Differences::default();
            differences.iter().for_each(|d| table.add(*d));
            let found = table.counts.iter().find(|e| e.0 == stride && e.1 != 0);
            let count = found.map_or(0, |e| e.1);
            let rest = (differences.len() - times) as u64;
            prop_assert!(count <= times as u64);
            prop_assert!(times as u64 - count <= (differences.len() as u64) / (ENTRIES as u64 + 1), "{rest}");
            prop_assert!(count > 0);
        }
    }
}
