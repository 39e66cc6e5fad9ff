//! State that threads use one at a time.
#![allow(unsafe_code)] // reason: the thread is reached through an address in the context.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use trommel_queue::work;
use trommel_queue::work::{LONG, Part};

use crate::base::sys;
use crate::engine::signals::Actions;
use crate::engine::state::{Runtime, Thread};
use crate::trace::balance::Clocks;
use crate::translate::{Site, Translator};

/// Start of a part of the runtime's work.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    cycles: u64,
    /// Nanoseconds of the thread's CPU time, for what may take long.
    cpu: Option<u64>,
}

impl Began {
    /// Begins work that takes microseconds.
    pub fn short() -> Self {
        Self {
            cycles: sys::ticks(),
            cpu: None,
        }
    }

    /// Begins work that takes longer.
    pub fn long() -> Self {
        Self {
            cpu: Some(sys::thread_cpu()),
            ..Self::short()
        }
    }
}

impl Runtime {
    /// Takes a thread from the list.
    pub fn remove(&mut self, thread: &Thread) {
        self.threads.retain(|t| !core::ptr::eq(*t, thread));
        self.count_blocked();
    }

    /// Takes a thread from the list that is on its way out, or ends, and uses memory of the runtime meanwhile. [`crate::engine::state::Process::busy`] counts it.
    pub fn part_from(&mut self, thread: &Thread) {
        thread.process.busy.fetch_add(1, SeqCst);
        self.remove(thread);
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
        let control = self.shared.control();
        if control.trace.audit.load(Relaxed) != 0 {
            for (shown, start) in control.traces.arenas.iter().zip(self.cache.arena_starts()) {
                shown.store(start, Relaxed);
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

impl Runtime {
    /// The dispositions of the process that a thread belongs to.
    pub fn actions_of<'a>(&'a mut self, thread: &'a mut Thread) -> &'a mut Actions {
        let group = thread.spawned.as_ref().map(|own| &own.group);
        match group.and_then(|group| group.actions.as_ref()) {
            // SAFETY: the threads of the group reach it under the lock, which the caller holds.
            Some(own) => unsafe { &mut *own.get() },
            None => &mut self.actions,
        }
    }
}
