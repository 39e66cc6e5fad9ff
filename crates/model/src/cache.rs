//! Caches: which lines are there, and from when on.
//!
//! A cache of sets with replacement of the least recently used line. What is looked for and not there is
//! brought in; it counts as there from then on, with the time at which it arrives, so that an access to a line on its
//! way waits for what is left of it.

use crate::parameters::Geometry;

/// A cache, or a TLB.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Number of the line and when it is there; the ways of a set lie together, the last used first.
    lines: Vec<(u64, u64)>,
    ways: usize,
    sets: u64,
    shift: u32,
    /// Accesses that found nothing.
    pub misses: u64,
}

/// An access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// It is there.
    Hit,
    /// It is on its way, and there at that time.
    Coming(u64),
    /// It is not. Who asked says when it will be ([`Cache::fill`]).
    Miss,
}

const NOWHERE: u64 = u64::MAX;

impl Cache {
    /// An empty cache.
    pub fn new(geometry: Geometry) -> Self {
        let ways = geometry.ways.max(1);
        let sets = (geometry.bytes / geometry.line / ways as u64).max(1);
        Self {
            lines: vec![(NOWHERE, 0); sets as usize * ways],
            ways,
            sets,
            shift: geometry.line.trailing_zeros(),
            misses: 0,
        }
    }

    /// The number of the line of an address.
    pub const fn line(&self, address: u64) -> u64 {
        address >> self.shift
    }

    fn set(&mut self, line: u64) -> &mut [(u64, u64)] {
        let at = (line % self.sets) as usize * self.ways;
        &mut self.lines[at..at + self.ways]
    }

    /// Looks for a line, which is the set's last used one then.
    pub fn look(&mut self, line: u64, now: u64) -> Lookup {
        let set = self.set(line);
        let Some(way) = set.iter().position(|l| l.0 == line) else {
            self.misses += 1;
            return Lookup::Miss;
        };
        set[..=way].rotate_right(1);
        match set[0].1 {
            at if at > now => Lookup::Coming(at),
            _ => Lookup::Hit,
        }
    }

    /// Brings a line in, which is there at `at`.
    pub fn fill(&mut self, line: u64, at: u64) {
        let set = self.set(line);
        set.rotate_right(1);
        set[0] = (line, at);
    }

    /// Drops a line: somebody else has written to it.
    pub fn drop_line(&mut self, line: u64) {
        if let Some(entry) = self.set(line).iter_mut().find(|l| l.0 == line) {
            entry.0 = NOWHERE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_of_a_set_goes() {
        // Two sets of two lines.
        let mut cache = Cache::new(Geometry {
            bytes: 128,
            ways: 2,
            line: 32,
        });
        assert_eq!(cache.line(0x5f), 2);
        let mut access = |line: u64| {
            let found = cache.look(line, 100) == Lookup::Hit;
            if !found {
                cache.fill(line, 100);
            }
            found
        };
        assert_eq!([0, 2, 1, 0].map(&mut access), [false, false, false, true]);
        // 4 takes the place of 2, which was used before 0.
        assert_eq!([4, 0, 2, 1].map(&mut access), [false, true, false, true]);
        assert_eq!(cache.misses, 5);
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let mut cache = Cache::new(Geometry {
            bytes: 64,
            ways: 1,
            line: 32,
        });
        assert_eq!(cache.look(7, 10), Lookup::Miss);
        cache.fill(7, 22);
        assert_eq!(cache.look(7, 11), Lookup::Coming(22));
        assert_eq!(cache.look(7, 22), Lookup::Hit);
        cache.drop_line(7);
        assert_eq!(cache.look(7, 30), Lookup::Miss);
    }
}
