//! Lines that one thread writes and another touches.
//!
//! # Problem
//! Two threads that write different variables of one line slow each other down, and nothing in their code shows it.
//!
//! # Strategy
//! Each line has the state that a coherence protocol gives it: the thread that wrote it last, and those that have touched it since.
//! A thread that writes a line which others have, or touches one that another has written since, is *handed* the line. A line has a
//! count for each thread, instruction and part that is touched: before its first handoff in [`Earlier`], and then in a table.
//!
//! Threads are seen in turns of a chunk each, some thousands of accesses, so a program hands lines over more often than is seen.
//!
//! # Invariants
//! * Nothing is looked at while there is one thread. A line is new then to all threads.
//! * Memory is bounded: accesses to lines beyond [`MOST`] are counted, and not looked at.

use rustc_hash::FxHashMap;
use trommel_profile::simulated::{SharedLine, Sharing, Toucher};
use trommel_query::access::Access;
use trommel_tuple::Place;

use super::earlier::{Earlier, List, Part};
use crate::channel::modules::Modules;
use crate::fold::threads::FIRST_THREAD;

/// Lines that are looked at.
const MOST: usize = 1 << 21;
/// Lines with counts.
const MOST_SHARED: usize = 1 << 16;
/// Counts of a line.
const MOST_TOUCHERS: usize = 1 << 10;
/// Lines that are reported.
const REPORTED: usize = 10_000;
/// Threads that are told apart in a state; others share numbers with these.
const THREADS: usize = 64;

/// State of a line.
struct State {
    writer: Option<u8>,
    /// Threads that have touched it since it was written.
    touched: u64,
    /// Index of its counts.
    shared: Option<u32>,
    /// Counts, before there is an index.
    earlier: List,
}

/// Counts of a line.
struct Shared {
    address: u64,
    handoffs: u64,
    touchers: FxHashMap<Part, [u64; 2]>,
}

/// All lines of a process.
pub(super) struct Lines {
    line: u64,
    /// Numbers of threads, in the order in which they came.
    threads: Vec<u32>,
    states: FxHashMap<u64, State>,
    shared: Vec<Shared>,
    earlier: Earlier,
    untracked: u64,
}

impl Lines {
    /// No line of `line` bytes has been touched.
    pub(super) fn new(line: u32) -> Self {
        Self {
            line: line.into(),
            threads: vec![FIRST_THREAD],
            states: FxHashMap::default(),
            shared: Vec::new(),
            earlier: Earlier::new(),
            untracked: 0,
        }
    }

    /// An instruction of a thread accesses so many bytes.
    pub(super) fn access(
        &mut self,
        (thread, at): (u32, Place),
        address: u64,
        bytes: u64,
        access: &Access,
    ) {
        let number = match self.threads.iter().position(|known| *known == thread) {
            Some(number) => number,
            None => {
                self.threads.push(thread);
                self.threads.len() - 1
            }
        };
        if self.threads.len() == 1 || bytes == 0 {
            return;
        }
        let last = address.saturating_add(bytes - 1) / self.line;
        for line in address / self.line..=last {
            let start = line * self.line;
            let from = address.max(start);
            let to = address
                .saturating_add(bytes)
                .min(start.saturating_add(self.line));
            let part = ((from - start) as u16, (to - from) as u16);
            self.touch((number % THREADS) as u8, (thread, at), start, part, access);
        }
    }

    fn touch(
        &mut self,
        number: u8,
        (thread, at): (u32, Place),
        address: u64,
        (offset, size): (u16, u16),
        access: &Access,
    ) {
        if self.states.len() >= MOST && !self.states.contains_key(&address) {
            self.untracked += 1;
            return;
        }
        let state = self.states.entry(address).or_insert(State {
            writer: None,
            touched: 0,
            shared: None,
            earlier: List::EMPTY,
        });
        let own = 1 << number;
        let elsewhere = state.writer.is_some_and(|writer| writer != number);
        let handed = match access.writes {
            true => elsewhere || state.touched & !own != 0,
            false => elsewhere && state.touched & own == 0,
        };
        if access.writes {
            state.writer = Some(number);
            state.touched = own;
        } else {
            state.touched |= own;
        }
        let key = (thread, at, offset, size);
        if handed && state.shared.is_none() && self.shared.len() < MOST_SHARED {
            state.shared = Some(self.shared.len() as u32);
            let mut touchers = FxHashMap::default();
            let list = &mut state.earlier;
            self.untracked += self.earlier.end(list, |part, counts| {
                touchers.insert(part, counts);
            });
            self.shared.push(Shared {
                address,
                handoffs: 0,
                touchers,
            });
        }
        let Some(shared) = state.shared.map(|n| &mut self.shared[n as usize]) else {
            self.untracked += u64::from(handed);
            let counts = [access.reads, access.writes];
            self.earlier.add(&mut state.earlier, key, counts);
            return;
        };
        shared.handoffs += u64::from(handed);
        if shared.touchers.len() >= MOST_TOUCHERS && !shared.touchers.contains_key(&key) {
            self.untracked += 1;
            return;
        }
        let [loads, stores] = shared.touchers.entry(key).or_default();
        *loads += u64::from(access.reads);
        *stores += u64::from(access.writes);
    }

    /// Returns the lines that were handed over.
    pub(super) fn finish(self, modules: &Modules) -> Sharing {
        let object = |address: u64| {
            let mut all = modules.list.iter();
            all.find_map(|module| {
                let vaddr = module.loaded?.vaddr(address)?;
                Some(Place::new(module.id, vaddr))
            })
        };
        let line = |shared: Shared| {
            let touchers = shared.touchers.into_iter();
            let mut touchers: Vec<Toucher> = touchers
                .map(|((thread, at, offset, size), [loads, stores])| Toucher {
                    thread,
                    at,
                    offset,
                    size,
                    loads,
                    stores,
                })
                .collect();
            touchers.sort_unstable();
            SharedLine {
                process: 0,
                address: shared.address,
                object: object(shared.address),
                handoffs: shared.handoffs,
                touchers,
            }
        };
        let mut sharing = Sharing {
            untracked: self.untracked,
            lines: self.shared.into_iter().map(line).collect(),
        };
        sharing.sort();
        sharing.lines.truncate(REPORTED);
        sharing
    }
}
