//! Accesses to memory that windows have seen: pairs that are in each other's way, and the levels of loads.

use trommel_tuple::Place;

/// Conflicts between a store and a load after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Conflict {
    /// The load needs bytes that the store has and others: it waits until the store is in the cache.
    Size,
    /// The load could be executed while the store's address was not known, and needs its bytes.
    Order,
    /// Other bytes, at addresses that are equal up to a multiple of 4 KiB, the part that is compared first.
    Synonym,
}

impl Conflict {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Size, Self::Order, Self::Synonym];

    /// In tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Order => "order",
            Self::Synonym => "synonym",
        }
    }

    /// Returns the conflict of a number, as in files.
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n)).copied()
    }
}

/// Two instructions that are in each other's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pair {
    /// The conflict.
    pub conflict: Conflict,
    /// The one that stores.
    pub store: Place,
    /// The one that loads after it.
    pub load: Place,
}

/// Levels in which a load finds its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cache {
    /// The first cache.
    L1,
    /// The second.
    L2,
    /// The third.
    L3,
    /// None.
    Memory,
}

impl Cache {
    /// Every one, nearest first.
    pub const ALL: [Self; 4] = [Self::L1, Self::L2, Self::L3, Self::Memory];

    /// In tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Memory => "memory",
        }
    }

    /// Returns the level of a number, as in files.
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n)).copied()
    }
}

/// A level as it was measured on the machine of the recording. Cycles are those of the time stamp counter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Level {
    /// The level.
    pub cache: Cache,
    /// Cycles of most loads that find their bytes there.
    pub typical: u64,
    /// A load of fewer cycles than these, and not of a nearer level, is assigned to it.
    pub below: u64,
    /// The part of its own loads, when it was measured, that are assigned to another.
    pub mistaken: f64,
}

/// Latencies that separate the levels of loads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Levels {
    /// Cycles that looking at a load takes, which are subtracted.
    pub own: u64,
    /// Nanoseconds of a cycle.
    pub cycle: f64,
    /// Nearest first; there is no limit to the last.
    pub levels: Vec<Level>,
}

impl Levels {
    /// The number of the level of a load that took so long.
    pub fn of(&self, cycles: u64) -> usize {
        let last = self.levels.len().saturating_sub(1);
        let limits = self.levels.iter().take(last);
        limits.take_while(|level| cycles >= level.below).count()
    }

    /// Cycles of most loads of the nearest level: what no placing of data saves.
    pub fn least(&self) -> u64 {
        self.levels.first().map_or(0, |level| level.typical)
    }
}

/// The value by which a latency is kept: itself up to 32, then five bits of it, so that an instruction has few.
pub fn rounded(cycles: u64) -> u64 {
    const KEPT: u32 = 5;
    /// Nobody waits so long for memory.
    const MOST: u64 = 1 << 24;
    let cycles = cycles.min(MOST);
    let bits = u64::BITS - cycles.leading_zeros();
    let drop = bits.saturating_sub(KEPT);
    // The middle of those that are alike.
    match drop {
        0 => cycles,
        _ => (cycles >> drop << drop) + (1 << drop >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for (n, conflict) in (0..).zip(Conflict::ALL) {
            assert_eq!(Conflict::from_number(n), Some(conflict));
            assert_eq!(conflict as u8, n);
        }
        for (n, cache) in (0..).zip(Cache::ALL) {
            assert_eq!(Cache::from_number(n), Some(cache));
            assert_eq!(cache as u8, n);
        }
        assert_eq!(Conflict::from_number(3), None);
        assert_eq!(Cache::from_number(4), None);
    }

    #[test]
    fn latencies_are_kept_to_three_percent() {
        let mut last = 0;
        let mut kept = 0;
        for cycles in 0..10_000 {
            let rounded = rounded(cycles);
            assert!(
                rounded.abs_diff(cycles) * 32 <= cycles,
                "{cycles} {rounded}"
            );
            assert!(rounded >= last, "{cycles}");
            kept += u32::from(rounded != last);
            last = rounded;
        }
        assert!(kept < 200, "{kept}");
        assert_eq!(super::rounded(u64::MAX), super::rounded(1 << 24));
    }

    #[test]
    fn a_load_is_of_the_first_level_that_reaches_so_far() {
        let level = |cache, typical, below| Level {
            cache,
            typical,
            below,
            mistaken: 0.0,
        };
        let levels = Levels {
            own: 30,
            cycle: 0.4,
            levels: vec![
                level(Cache::L1, 4, 8),
                level(Cache::L2, 12, 40),
                level(Cache::Memory, 200, u64::MAX),
            ],
        };
        let of = [0, 7, 8, 39, 40, u64::MAX].map(|cycles| levels.of(cycles));
        assert_eq!(of, [0, 0, 1, 1, 2, 2]);
        assert_eq!(Levels::default().of(7), 0);
    }
}
