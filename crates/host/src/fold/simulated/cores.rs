//! Caches and predictors of threads, of as many threads as memory has room for.
//!
//! # Problem
//! A server may start a thread for each request. Nothing in the records says that a thread has ended, and each has caches of its own.
//!
//! # Strategy
//! A thread that others have run after, more of them than there is room for, is forgotten. If it runs again its caches are empty.

use std::collections::BTreeMap;

use trommel_profile::simulated::Caches;

use super::predictor::Predictor;
use super::{Core, cache};

/// Bytes of all of them.
const ROOM: u64 = 256 << 20;
/// Threads that have room in any case.
const LEAST: u64 = 64;

/// Cores of the threads that do not run now.
pub(super) struct Cores {
    caches: Caches,
    /// Cores at most.
    most: usize,
    /// Turns of threads so far.
    turns: u64,
    /// By thread, with its last turn.
    others: BTreeMap<u32, (u64, Core)>,
}

impl Cores {
    pub(super) fn new(caches: Caches) -> Self {
        let lines = caches.first.bytes / u64::from(caches.line);
        let each = lines * size_of::<u64>() as u64 + Predictor::BYTES;
        Self {
            caches,
            most: (ROOM / each).max(LEAST) as usize,
            turns: 0,
            others: BTreeMap::new(),
        }
    }

    /// A core that nothing has happened on.
    pub(super) fn fresh(&self) -> Core {
        Core {
            first: cache(self.caches.first, self.caches.line),
            predictor: Predictor::default(),
        }
    }

    /// Takes the core of a thread.
    pub(super) fn take(&mut self, thread: u32) -> Core {
        let known = self.others.remove(&thread);
        known.map_or_else(|| self.fresh(), |(_, core)| core)
    }

    /// Keeps the core of a thread that others run after.
    pub(super) fn keep(&mut self, thread: u32, core: Core) {
        self.turns += 1;
        self.others.insert(thread, (self.turns, core));
        if self.others.len() > self.most {
            let last = |(thread, (turn, _)): (&u32, &(u64, Core))| (*turn, *thread);
            if let Some((_, thread)) = self.others.iter().map(last).min() {
                self.others.remove(&thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_ran_last_are_kept() {
        const MOST: u32 = 8;
        let mut cores = Cores {
            most: MOST as usize,
            ..Cores::new(Caches::default())
        };
        let mut marked = cores.fresh();
        marked.first.access(0x40);
        cores.keep(1, marked);
        for round in 0..3 {
            for thread in 2..MOST {
                let core = cores.take(thread);
                cores.keep(thread, core);
            }
            let mut core = cores.take(1);
            assert!(core.first.access(0x40), "{round}");
            cores.keep(1, core);
        }
        for thread in 100..100 + MOST {
            let core = cores.take(thread);
            cores.keep(thread, core);
        }
        assert_eq!(cores.others.len(), MOST as usize);
        assert!(!cores.take(1).first.access(0x40));
    }

    #[test]
    fn usual_caches_of_thousands_of_threads_have_room_and_large_ones_of_some() {
        let most = |caches: &str| Cores::new(caches.parse().expect("caches")).most;
        assert!(most("l1=32k/8") > 8000);
        assert_eq!(most("l1=16M/16,line=16") as u64, LEAST);
    }
}
