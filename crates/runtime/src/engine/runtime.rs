//! What threads use one at a time.
#![allow(unsafe_code)] // reason: the thread is reached through an address in the context.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work;
use trommel_queue::work::{Flush, LONG, Part};

use crate::base::phase::Phases;
use crate::base::sys;
use crate::cache::Cache;
use crate::cache::targets::Targets;
use crate::channel::deliver::Shared;
use crate::channel::persist::Persist;
use crate::engine::aware::Hints;
use crate::engine::signals::Actions;
use crate::engine::thread::Thread;
use crate::engine::window::Windows;
use crate::memory::pages::Pages;
use crate::memory::region::Regions;
use crate::observe::pairs::Pairs;
use crate::trace::balance::{Balance, Clocks};
use crate::translate::{Site, Translator};

/// What threads use one at a time, see [`crate::base::lock`].
pub struct Runtime {
    /// Makes fragments.
    pub translator: Translator,
    /// Holds them.
    pub cache: Cache,
    /// What memory is code.
    pub regions: Regions,
    /// Which of it is writable.
    pub code_pages: Pages,
    /// Calls that write memory are looked at.
    pub watching: bool,
    /// A file of a process's memory was opened for writing.
    pub memory_file: bool,
    /// The dictionary.
    pub shared: Shared,
    /// The app's signal handlers.
    pub actions: Actions,
    /// Where indirect branches lead: for the first thread, then for all others.
    pub targets: Vec<Targets>,
    /// Indirect branches that are counted.
    pub pairs: Pairs,
    /// Address of the tables that all threads but the first share; 0 before there is another.
    pub shared_tables: u64,
    /// Bytes of cache at which it is flushed; 0: when there is no more room.
    pub cache_limit: u64,
    /// Bytes of the current generation at which memory of old ones is asked for again.
    pub reclaim_at: u64,
    /// The threads under control.
    pub threads: Vec<*const Thread>,
    /// Stack frames are taken to be written by their own thread alone.
    pub aggressive: bool,
    /// Others than the one thread may write this memory.
    pub overflowing: bool,
    /// The next thread to go on drops everything.
    pub evict: Option<Flush>,
    /// The next thread to go on detaches the process (a stress option).
    pub leave: bool,
    /// True if control pays.
    pub balance: Balance,
    /// When traces were made.
    pub phases: Phases,
    /// What the program has said.
    pub hints: Hints,
    /// Cycles of the parts that the entry into the runtime has reach so far.
    pub parts: u64,
    /// Thread pages in use.
    pub pages: u32,
    /// Threads numbered so far.
    pub numbers: u32,
    /// Control for a number of instructions at a time.
    pub windows: Windows,
    /// What earlier runs have left, and what this one leaves.
    pub persist: Option<Persist>,
    /// Fragments that were taken from there and to which indirect branches may lead.
    pub loaded: Vec<u32>,
}

/// When a part of the runtime's work began.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    cycles: u64,
    /// Nanoseconds of the thread's CPU time, for what may take long.
    cpu: Option<u64>,
}

impl Began {
    /// What takes microseconds.
    pub fn short() -> Self {
        Self {
            cycles: sys::ticks(),
            cpu: None,
        }
    }

    /// What takes longer.
    pub fn long() -> Self {
        Self {
            cpu: Some(sys::thread_cpu()),
            ..Self::short()
        }
    }
}

// SAFETY: the threads are reached under the lock, and only what is atomic in them.
unsafe impl Send for Runtime {}

impl Runtime {
    /// Takes a thread from the list.
    pub fn remove(&mut self, thread: &Thread) {
        self.threads.retain(|t| !core::ptr::eq(*t, thread));
    }

    /// The translator, and what it works on.
    pub fn site(&mut self) -> (&mut Translator, Site<'_>) {
        let site = Site {
            cache: &mut self.cache,
            regions: &mut self.regions,
            pages: &mut self.code_pages,
            shared: &mut self.shared,
            pairs: &mut self.pairs,
            persist: &mut self.persist,
        };
        (&mut self.translator, site)
    }

    /// A part of what the runtime does has taken from `began` until now.
    pub fn spent_in(&mut self, part: Part, began: Began) {
        let cycles = sys::ticks().saturating_sub(began.cycles);
        self.parts += cycles;
        let spent = match began.cpu {
            Some(cpu) => sys::thread_cpu().saturating_sub(cpu),
            None => cycles.min(LONG),
        };
        work::add(&self.shared.control().work.spent[part as usize], spent);
    }

    /// The runtime has worked since `entered`.
    pub fn worked(&mut self, entered: u64) {
        let cycles = sys::ticks().saturating_sub(entered);
        let rest = cycles.saturating_sub(core::mem::take(&mut self.parts));
        let work = &self.shared.control().work;
        work::add(&work.spent[Part::Dispatch as usize], rest.min(LONG));
        work.links.store(self.cache.links, Relaxed);
        let trace = &self.shared.control().trace;
        if trace.audit.load(Relaxed) != 0 {
            for (told, start) in trace.arenas.iter().zip(self.cache.arena_starts()) {
                told.store(start, Relaxed);
            }
        }
        self.balance.spend(cycles, Clocks::now);
    }

    /// Returns whether nothing but the calling thread and the kernel writes the process's memory.
    pub(crate) fn is_alone(&self) -> bool {
        !self.overflowing
    }

    /// Returns whether loops may keep slots of the stack frame in registers.
    pub(crate) fn keeps_slots(&self) -> bool {
        (self.is_alone() || self.aggressive) && !self.hints.volatile
    }
}
