//! Relational queries handed to a target: programs without the rules for tags.
//!
//! A run begins with one program. Others may be loaded while it goes on, and each query may be removed. Every load has a number of its
//! own. A process has the programs in places ([`trommel_queue::queries`]), which differ from process to process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trommel_query::throttle::Together;
use trommel_query::{Entry, Program, image};
use trommel_queue::protocol;
use trommel_queue::queries::{LOADS, NO_WAYS, Queries};

/// The queries of a run.
#[derive(Debug)]
pub struct Question {
    /// The program that the run begins with.
    pub program: Program,
    /// Seed of random numbers.
    pub seed: u64,
    /// Rates of `every auto` do not depend on time.
    pub rehearsed: bool,
    /// Programs may come and go.
    changing: bool,
    /// Counts are reported by window.
    by_window: bool,
    /// Budget that all queries with `every auto` have together.
    together: Option<Together>,
    loads: Mutex<Vec<Load>>,
}

/// A program that was loaded.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its number, from 1.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program.
    pub program: Arc<Program>,
    /// Table entries, by bit, whose queries were removed.
    pub off: u64,
}

impl Load {
    /// Returns true if any of its queries is wanted.
    pub fn is_wanted(&self) -> bool {
        let all = self.program.table().entries();
        all.into_iter().any(|(entry, _)| !self.is_off(entry))
    }

    /// Returns true if the query of an entry was removed.
    pub const fn is_off(&self, entry: Entry) -> bool {
        self.off >> entry.number() & 1 != 0
    }
}

impl Question {
    /// A question that stays as it is.
    pub fn new(program: Program, seed: u64, rehearsed: bool) -> Self {
        let load = Load {
            id: 1,
            name: String::new(),
            program: Arc::new(program.clone()),
            off: 0,
        };
        Self {
            program,
            seed,
            rehearsed,
            changing: false,
            by_window: false,
            together: None,
            loads: Mutex::new(vec![load]),
        }
    }

    /// Makes it one that may change. Its first program has the name `name`.
    #[must_use]
    pub fn changing(mut self, name: String) -> Self {
        self.changing = true;
        self.named(&name)
    }

    /// Makes it one whose counts are reported by window.
    #[must_use]
    pub const fn by_window(mut self) -> Self {
        self.by_window = true;
        self
    }

    /// Gives all queries with `every auto` a common budget, whatever their own.
    #[must_use]
    pub const fn together(mut self, budget: Option<Together>) -> Self {
        self.together = budget;
        self
    }

    fn named(mut self, name: &str) -> Self {
        for load in self.loads.get_mut().into_iter().flatten() {
            name.clone_into(&mut load.name);
        }
        self
    }

    /// Returns true if counts are reported by window.
    pub const fn is_by_window(&self) -> bool {
        self.by_window
    }

    /// Returns true if it may change.
    pub const fn may_change(&self) -> bool {
        self.changing
    }

    /// Returns all loads so far.
    pub fn loads(&self) -> MutexGuard<'_, Vec<Load>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the programs to a process that has not started. `place`: its places for them.
    pub fn write<'a>(&self, place: impl Fn(usize) -> &'a Queries) {
        let first = place(0);
        first.seed.store(self.seed, Relaxed);
        first.rehearsed.store(self.rehearsed.into(), Relaxed);
        first.tagged.store(self.names_code().into(), Relaxed);
        first.changing.store(self.changing.into(), Relaxed);
        first.by_window.store(self.by_window.into(), Relaxed);
        let together = self.together.map_or(0, Together::word);
        first.together.store(together, Relaxed);
        let loads = self.loads();
        let mut ways = Ways::default();
        let wanted = loads.iter().filter(|load| load.is_wanted());
        for (n, load) in wanted.take(LOADS).enumerate() {
            let first = ways.take(load.program.as_ref());
            write(place(n), load, first);
        }
    }

    /// Returns whether the target waits for tags of new code: some has tags, or a program with tags may come.
    pub fn names_code(&self) -> bool {
        self.changing || self.is_tagged()
    }

    /// Returns whether some code has tags.
    pub fn is_tagged(&self) -> bool {
        let loads = self.loads();
        let mut wanted = loads.iter().filter(|load| load.is_wanted());
        wanted.any(|load| !load.program.tags().is_empty())
    }
}

/// Writes a load to a place that no thread uses. `ways`: the number of its first way, if it has counts of them.
pub fn write(to: &Queries, load: &Load, ways: Option<u16>) {
    let (table, code) = (load.program.table().clone(), load.program.code().to_vec());
    // Its parts are those of a program already.
    let Ok(bare) = Program::new(table, code, Vec::new()) else {
        return;
    };
    let bytes = image::encode(&bare);
    for (word, bytes) in to.program.iter().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(eight), Relaxed);
    }
    to.ways.store(ways.map_or(NO_WAYS, u32::from), Relaxed);
    to.off.store(load.off, Relaxed);
    to.bytes.store(bytes.len() as u32, Relaxed);
    protocol::offer(&to.id, load.id);
}

/// Counts of ways in use, of all programs of a process.
#[derive(Debug, Default)]
pub struct Ways {
    used: Vec<std::ops::Range<u16>>,
}

impl Ways {
    /// Takes as many as a program has. Returns the number of the first; `None` if there is no room, or it has none.
    pub fn take(&mut self, program: &Program) -> Option<u16> {
        let count = trommel_query::quick::Quick::of(program).ways().len() as u16;
        let all = trommel_queue::thread_page::WAYS as u16;
        let fits = |start: u16| {
            let end = start.checked_add(count)?;
            let free = (self.used.iter()).all(|used| end <= used.start || used.end <= start);
            (end <= all && free).then_some(start..end)
        };
        let ends = self.used.iter().map(|used| used.end);
        let range = std::iter::once(0).chain(ends).find_map(fits)?;
        let first = range.start;
        self.keep(range);
        (count != 0).then_some(first)
    }

    /// Takes these.
    pub fn keep(&mut self, range: std::ops::Range<u16>) {
        if !range.is_empty() {
            self.used.push(range);
        }
    }

    /// Frees those from `first` on.
    pub fn free(&mut self, first: u16) {
        self.used.retain(|used| used.start != first);
    }
}
