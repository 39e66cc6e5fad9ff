//! Results of simulated caches and branch predictors, and lines that threads share.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use trommel_tuple::Place;

/// A set-associative cache that replaces the line of a set that was used least recently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Geometry {
    /// Bytes of it: `ways` times the line, times a power of two.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
}

/// Caches of data to simulate: each thread has a first one, and all threads of a process share the last one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caches {
    /// Bytes of a line of both, a power of two.
    pub line: u32,
    /// The first-level cache.
    pub first: Geometry,
    /// The last-level cache: it is accessed where the first one misses.
    pub last: Geometry,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            line: 64,
            first: Geometry {
                bytes: 32 << 10,
                ways: 8,
            },
            last: Geometry {
                bytes: 8 << 20,
                ways: 16,
            },
        }
    }
}

impl Geometry {
    /// Returns the number of sets for lines of so many bytes.
    pub const fn sets(&self, line: u32) -> u64 {
        self.bytes / (self.ways as u64 * line as u64)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            n if n % (1 << 20) == 0 => write!(f, "{}M/{}", n >> 20, self.ways),
            n if n % (1 << 10) == 0 => write!(f, "{}k/{}", n >> 10, self.ways),
            n => write!(f, "{n}/{}", self.ways),
        }
    }
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l1={},ll={},line={}", self.first, self.last, self.line)
    }
}

/// Lines of a first-level cache at most: each thread has one, which takes memory of ours.
const MOST_LINES: u64 = 1 << 20;

/// Parts of the form that caches are written in.
const FORM: &str = "write l1=SIZE/WAYS,ll=SIZE/WAYS,line=BYTES, as in l1=32k/8,ll=8M/16,line=64";

impl FromStr for Caches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut caches = Self::default();
        let mut named = Vec::new();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` names no cache: {FORM}"))?;
            if named.contains(&name) {
                return Err(format!("`{name}` is there twice: {FORM}"));
            }
            named.push(name);
            match name {
                "l1" => caches.first = geometry(value)?,
                "ll" => caches.last = geometry(value)?,
                "line" => {
                    let line = value.parse().ok();
                    let line =
                        line.filter(|n: &u32| n.is_power_of_two() && (16..=4096).contains(n));
                    caches.line = line.ok_or_else(|| {
                        format!("a line has a power of two of bytes, 16 to 4096, and not `{value}`")
                    })?;
                }
                _ => return Err(format!("`{name}` is no cache: {FORM}")),
            }
        }
        for (name, of) in [("l1", caches.first), ("ll", caches.last)] {
            let set = u64::from(of.ways) * u64::from(caches.line);
            if of.bytes % set != 0 || !(of.bytes / set).is_power_of_two() {
                return Err(format!(
                    "{name}={of}: sets of {} lines of {} bytes, {set} bytes each, must be a power of two in number",
                    of.ways, caches.line
                ));
            }
            let lines = of.bytes / u64::from(caches.line);
            if name == "l1" && lines > MOST_LINES {
                return Err(format!(
                    "{name}={of}: {lines} lines of {} bytes, and each thread has such a cache: {MOST_LINES} at most",
                    caches.line
                ));
            }
        }
        Ok(caches)
    }
}

/// Reads `32k/8`.
fn geometry(text: &str) -> Result<Geometry, String> {
    const MOST: u64 = 1 << 30;
    let wrong = || format!("`{text}` is no cache of 1 GiB at most and 64 ways at most: {FORM}");
    let (size, ways) = text.split_once('/').ok_or_else(wrong)?;
    let (digits, unit) = match size.char_indices().last() {
        Some((at, 'k' | 'K')) => (&size[..at], 1 << 10),
        Some((at, 'M')) => (&size[..at], 1 << 20),
        _ => (size, 1),
    };
    let bytes = digits.parse().ok().and_then(|n: u64| n.checked_mul(unit));
    let bytes = bytes.filter(|n| (1..=MOST).contains(n)).ok_or_else(wrong)?;
    let ways = ways.parse().ok().filter(|n| (1..=64).contains(n));
    Ok(Geometry {
        bytes,
        ways: ways.ok_or_else(wrong)?,
    })
}

/// Accesses of one sort, and how many of them missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accessed {
    /// Executions; those of a repeated instruction are its repetitions.
    pub accesses: u64,
    /// Misses of the first-level cache.
    pub first: u64,
    /// Misses of the last-level cache.
    pub last: u64,
}

/// Branches of one sort, and how many of them were mispredicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Predicted {
    /// Executions.
    pub branches: u64,
    /// Mispredictions.
    pub wrong: u64,
}

/// Results of simulation in a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Simulated {
    /// The caches, where loads and stores were recorded.
    pub caches: Caches,
    /// Accesses that read, those that write too included.
    pub loads: Accessed,
    /// Accesses that only write.
    pub stores: Accessed,
    /// Conditional branches.
    pub conditional: Predicted,
    /// Indirect jumps and calls.
    pub indirect: Predicted,
    /// Accesses of each instruction, where misses were asked for. Recordings of earlier versions have none.
    pub accesses: BTreeMap<Place, u64>,
    /// Branches of each instruction that can be mispredicted, where mispredictions were asked for. Recordings of earlier versions have none.
    pub branches: BTreeMap<Place, u64>,
    /// Lines that threads share, where that was asked for.
    pub sharing: Option<Sharing>,
}

impl Simulated {
    /// Adds those of another process or run. What caches of several geometries have seen adds up too: the smallest is reported.
    pub fn add(&mut self, other: &Self) {
        self.caches = self.caches.min(other.caches);
        for (sum, of) in [
            (&mut self.loads, other.loads),
            (&mut self.stores, other.stores),
        ] {
            sum.accesses = sum.accesses.saturating_add(of.accesses);
            sum.first = sum.first.saturating_add(of.first);
            sum.last = sum.last.saturating_add(of.last);
        }
        for (sum, of) in [
            (&mut self.conditional, other.conditional),
            (&mut self.indirect, other.indirect),
        ] {
            sum.branches = sum.branches.saturating_add(of.branches);
            sum.wrong = sum.wrong.saturating_add(of.wrong);
        }
        for (sum, of) in [
            (&mut self.accesses, &other.accesses),
            (&mut self.branches, &other.branches),
        ] {
            for (at, count) in of {
                let sum = sum.entry(*at).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        if let Some(other) = &other.sharing {
            let sharing = self.sharing.get_or_insert_default();
            sharing.untracked = sharing.untracked.saturating_add(other.untracked);
            sharing.lines.extend(other.lines.iter().cloned());
            sharing.sort();
        }
    }

    /// Gives places other numbers of modules.
    pub fn renumber(&mut self, place: impl Fn(Place) -> Place) {
        for of in [&mut self.accesses, &mut self.branches] {
            let renumbered = std::mem::take(of).into_iter();
            for (at, count) in renumbered.map(|(at, count)| (place(at), count)) {
                let sum: &mut u64 = of.entry(at).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let lines = self.sharing.iter_mut().flat_map(|s| &mut s.lines);
        for line in lines {
            line.object = line.object.map(&place);
            for toucher in &mut line.touchers {
                toucher.at = place(toucher.at);
            }
        }
    }
}

/// Lines that one thread writes and another touches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// Accesses to lines beyond the number that was kept.
    pub untracked: u64,
    /// The lines, those that may have been handed over most often first.
    pub lines: Vec<SharedLine>,
}

impl Sharing {
    /// Puts the lines in their order.
    pub fn sort(&mut self) {
        let order =
            |a: &SharedLine, b: &SharedLine| a.order().cmp(&b.order()).then_with(|| a.cmp(b));
        self.lines.sort_by(order);
    }
}

/// A line that threads share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SharedLine {
    /// The process that it is of.
    pub process: u32,
    /// Its address.
    pub address: u64,
    /// The same as a place, where it belongs to a file.
    pub object: Option<Place>,
    /// Times that a thread needed it while another one had it, written by either.
    pub handoffs: u64,
    /// Accesses to it, since there were two threads.
    pub touchers: Vec<Toucher>,
}

/// An instruction of a thread that touches a part of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Toucher {
    /// The thread's number.
    pub thread: u32,
    /// The instruction.
    pub at: Place,
    /// The first byte, from the start of the line.
    pub offset: u16,
    /// Bytes of it in this line.
    pub size: u16,
    /// Times that it was read.
    pub loads: u64,
    /// Times that it was written.
    pub stores: u64,
}

/// The way in which threads share a line. Threads with less than a hundredth of its accesses are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// No byte that one thread writes is touched by another.
    False,
    /// Each byte that is touched is written by one thread and touched by another.
    True,
    /// Some are, and some are not.
    Both,
}

impl Way {
    /// In tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::False => "false",
            Self::True => "true",
            Self::Both => "both",
        }
    }
}

impl SharedLine {
    fn order(&self) -> (Reverse<u64>, u32, u64) {
        (Reverse(self.possible()), self.process, self.address)
    }

    /// Accesses of each thread, in their order.
    fn accesses(&self) -> BTreeMap<u32, u64> {
        let mut of = BTreeMap::<u32, u64>::new();
        for toucher in &self.touchers {
            let sum = of.entry(toucher.thread).or_default();
            *sum = sum
                .saturating_add(toucher.loads)
                .saturating_add(toucher.stores);
        }
        of
    }

    /// The most handoffs that there can have been, whatever the order of accesses was: each needs an access of another thread than the
    /// busiest, or one of the busiest after it, and after each store at most all threads need the line.
    pub fn possible(&self) -> u64 {
        let of = self.accesses();
        let all = of.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let most = of.values().max().copied().unwrap_or_default();
        let stores = self.touchers.iter().map(|t| t.stores);
        let stores = stores.fold(0, u64::saturating_add);
        let by_stores = stores.saturating_mul(of.len() as u64);
        (all - most)
            .saturating_mul(2)
            .min(by_stores)
            .max(self.handoffs)
    }

    /// Returns how the threads share it.
    pub fn way(&self) -> Way {
        let of = self.accesses();
        let all = of.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let counts = |thread: u32| {
            of.get(&thread)
                .is_some_and(|n| n.saturating_mul(100) >= all)
        };
        let mut bytes: BTreeMap<u16, Vec<(u32, bool)>> = BTreeMap::new();
        for t in self.touchers.iter().filter(|t| counts(t.thread)) {
            for byte in t.offset..t.offset.saturating_add(t.size) {
                bytes
                    .entry(byte)
                    .or_default()
                    .push((t.thread, t.stores != 0));
            }
        }
        let shared = |all: &Vec<(u32, bool)>| {
            all.iter()
                .any(|(writer, writes)| *writes && all.iter().any(|(other, _)| other != writer))
        };
        let shared_bytes = bytes.values().filter(|all| shared(all)).count();
        match shared_bytes {
            0 => Way::False,
            n if n == bytes.len() => Way::True,
            _ => Way::Both,
        }
    }

    /// The threads that touch it, in their order.
    pub fn threads(&self) -> Vec<u32> {
        self.accesses().into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_they_are_written() {
        for text in [
            "l1=32k/8,ll=8M/16,line=64",
            "l1=1M/16,ll=64M/64,line=128",
            "l1=512/4,ll=3k/3,line=16",
            "l1=16M/8,ll=1024M/8,line=16",
        ] {
            assert_eq!(
                text.parse::<Caches>().map(|c| c.to_string()),
                Ok(text.into())
            );
        }
        assert_eq!("l1=32k/8".parse(), Ok(Caches::default()));
        for wrong in [
            "",
            "32k/8",
            "l1=32k",
            "l1=32k/0",
            "l1=33k/8",
            "l2=32k/8",
            "line=63",
            "l1=2G/8",
            "l1=32k/8,l1=32k/8",
            "l1=k/8",
            "l1=48k/8",
            "l1=32M/8,line=16",
        ] {
            assert!(wrong.parse::<Caches>().is_err(), "{wrong}");
        }
    }

    fn line(touchers: &[(u32, u16, u16, u64)]) -> SharedLine {
        let touchers = touchers
            .iter()
            .map(|&(thread, offset, size, stores)| Toucher {
                thread,
                at: Place::from_word(1),
                offset,
                size,
                loads: 1,
                stores,
            });
        SharedLine {
            process: 1,
            address: 0x1000,
            object: None,
            handoffs: 9,
            touchers: touchers.collect(),
        }
    }

    #[test]
    fn sharing_is_false_where_no_byte_is_shared() {
        let way = |touchers: &[_]| line(touchers).way();
        assert_eq!(way(&[(1, 0, 8, 1), (2, 8, 8, 1)]), Way::False);
        assert_eq!(way(&[(1, 0, 8, 1), (2, 8, 8, 0)]), Way::False);
        assert_eq!(way(&[(1, 0, 8, 1), (2, 0, 8, 0)]), Way::True);
        assert_eq!(way(&[(1, 0, 8, 1), (2, 4, 8, 1)]), Way::Both);
        // What both only read is not shared.
        let read = [(1, 0, 8, 0), (2, 0, 8, 0), (1, 8, 8, 1)];
        assert_eq!(way(&read), Way::False);
        assert_eq!(line(&read).threads(), [1, 2]);
        // A thread that looks once does not make it true.
        let mut line = line(&[(1, 0, 8, 900), (2, 8, 8, 900), (3, 0, 16, 0)]);
        assert_eq!(line.way(), Way::False);
        line.touchers[2].loads = 900;
        assert_eq!(line.way(), Way::True);
    }

    #[test]
    fn there_are_no_more_handoffs_than_accesses_allow() {
        let possible = |touchers: &[_]| line(touchers).possible();
        // One load and so many stores each: 901 of the second thread, and one after each.
        assert_eq!(possible(&[(1, 0, 8, 5000), (2, 8, 8, 900)]), 2 * 901);
        // What is written once is handed to each thread once after that, or as often as was seen.
        assert_eq!(possible(&[(1, 0, 8, 6), (2, 0, 8, 0), (3, 0, 8, 0)]), 9);
        assert_eq!(possible(&[(1, 0, 8, 1), (2, 0, 8, 0)]), 9);
    }
}
