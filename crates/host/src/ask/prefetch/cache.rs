//! A simulated second-level cache: which accesses of a thread would miss.
//!
//! The cache is set-associative, and replaces the least recently used line of a set. No first level is simulated before it: lines
//! of the first level are in the second too. A first level would change only the order of use.

use std::fs;
use std::path::Path;

/// Geometry of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Sets.
    pub sets: u32,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line, a power of two.
    pub line: u32,
    /// True if it is this machine's; else it was assumed.
    pub known: bool,
}

impl Geometry {
    /// A geometry for machines that report none: 1 MiB, as many have.
    pub const ASSUMED: Self = Self {
        sets: 1024,
        ways: 16,
        line: 64,
        known: false,
    };

    /// Returns this machine's second-level cache, or an assumed one.
    pub fn of_machine() -> Self {
        Self::told(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or(Self::ASSUMED)
    }

    /// Reads the kernel's report of the caches of a processor.
    fn told(directory: &Path) -> Option<Self> {
        let indexes = fs::read_dir(directory).ok()?;
        indexes
            .flatten()
            .find_map(|entry| Self::of_index(&entry.path()))
    }

    fn of_index(index: &Path) -> Option<Self> {
        let text = |name: &str| fs::read_to_string(index.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u32>().ok();
        if number("level") != Some(2) || text("type")?.trim() == "Instruction" {
            return None;
        }
        let found = Self {
            sets: number("number_of_sets")?,
            ways: number("ways_of_associativity")?,
            line: number("coherency_line_size")?,
            known: true,
        };
        let possible = (1..=1 << 20).contains(&found.sets)
            && (1..=64).contains(&found.ways)
            && (16..=4096).contains(&found.line)
            && found.line.is_power_of_two();
        possible.then_some(found)
    }

    /// Bytes of it.
    pub const fn bytes(&self) -> u64 {
        self.sets as u64 * self.ways as u64 * self.line as u64
    }
}

/// A cache with what is in it.
#[derive(Clone, Debug)]
pub struct Cache {
    geometry: Geometry,
    /// Numbers of the lines of each set, the one used last before. [`FREE`] after them.
    lines: Vec<u64>,
}

/// A number that no line has: line numbers are shorter than addresses.
const FREE: u64 = u64::MAX;

impl Cache {
    /// An empty one.
    pub fn new(geometry: Geometry) -> Self {
        let lines = geometry.sets as usize * geometry.ways as usize;
        Self {
            geometry,
            lines: vec![FREE; lines],
        }
    }

    /// Accesses an address. Whether its line was there.
    pub fn access(&mut self, address: u64) -> bool {
        let Geometry {
            sets, ways, line, ..
        } = self.geometry;
        let number = address >> line.trailing_zeros();
        let first = (number % u64::from(sets)) as usize * ways as usize;
        let set = &mut self.lines[first..first + ways as usize];
        let at = set.iter().position(|&there| there == number);
        let until = at.unwrap_or(ways as usize - 1);
        set[..=until].rotate_right(1);
        set[0] = number;
        at.is_some()
    }

    /// Accesses all bytes from one address to another one, that included. Returns true if all their lines were there.
    pub fn hits(&mut self, from: u64, to: u64) -> bool {
        let line = u64::from(self.geometry.line);
        let first = self.access(from);
        let others = (from / line + 1..=to / line).map(|number| number * line);
        // Each is brought in, whatever the others do.
        others.fold(first, |all, address| self.access(address) && all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small(sets: u32, ways: u32) -> Geometry {
        Geometry {
            sets,
            ways,
            line: 64,
            known: true,
        }
    }

    #[test]
    fn the_least_recently_used_line_of_a_set_goes() {
        let mut cache = Cache::new(small(2, 2));
        let at = |set: u64, tag: u64| (tag * 2 + set) * 64;
        let seen = [
            (at(0, 0), false),
            (at(0, 0) + 63, true),
            (at(0, 1), false),
            (at(1, 7), false),
            (at(0, 0), true),
            (at(0, 2), false),
            (at(0, 0), true),
            (at(0, 1), false),
            (at(1, 7), true),
        ];
        for (address, hit) in seen {
            assert_eq!(cache.access(address), hit, "{address:#x}");
        }
    }

    #[test]
    fn the_machine_is_asked_and_what_it_says_checked() {
        let directory = std::env::temp_dir().join(format!("trommel-cache-{}", std::process::id()));
        let write = |index: &str, files: &[(&str, &str)]| {
            let index = directory.join(index);
            fs::create_dir_all(&index).expect("made");
            for (name, text) in files {
                fs::write(index.join(name), text).expect("written");
            }
        };
        assert_eq!(Geometry::told(&directory), None);
        write("index0", &[("level", "1\n"), ("type", "Data\n")]);
        let second = [
            ("level", "2\n"),
            ("type", "Unified\n"),
            ("number_of_sets", "2048\n"),
            ("ways_of_associativity", "16\n"),
        ];
        write("index2", &second);
        assert_eq!(Geometry::told(&directory), None);
        write("index2", &[("coherency_line_size", "64\n")]);
        let found = Geometry::told(&directory).expect("told");
        assert_eq!((found.bytes(), found.known), (2 << 20, true));
        write("index2", &[("coherency_line_size", "63\n")]);
        assert_eq!(Geometry::told(&directory), None);
        fs::remove_dir_all(&directory).expect("removed");
        assert!(Geometry::of_machine().bytes() > 0);
    }

    proptest! {
        /// An access hits exactly where fewer other lines of its set than ways were accessed since
        /// the last access to its line.
        #[test]
        fn it_hits_by_the_distance_in_its_set(
            accesses in proptest::collection::vec(0_u64..4096, 1..400),
            sets in 1_u32..6,
            ways in 1_u32..5,
        ) {
            let mut cache = Cache::new(small(sets, ways));
            for (n, address) in accesses.iter().enumerate() {
                let line = |a: &u64| a / 64;
                let set = |a: &u64| line(a) % u64::from(sets);
                let before = accesses[..n].iter().rev();
                let since: Vec<u64> = before
                    .filter(|a| set(a) == set(address))
                    .map(line)
                    .take_while(|l| *l != line(address))
                    .collect();
                let seen = accesses[..n].iter().any(|a| line(a) == line(address));
                let mut others = since;
                others.sort_unstable();
                others.dedup();
                let hits = seen && others.len() < ways as usize;
                prop_assert_eq!(cache.access(*address), hits);
            }
        }
    }
}
