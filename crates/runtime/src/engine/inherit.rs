//! The lock of a thread that was killed while it had it.
//!
//! # Problem
//! Processes that run in one memory (`process::thread::spawn`) share the runtime, and one of them can be killed, or ended by a thread of its
//! own, at any instruction. If that is while one of its threads changes what the lock guards, the others have a
//! runtime that is half changed.
//!
//! # Strategy
//! Whoever finds that out ([`crate::base::lock`]) detaches the process. From then on nobody makes fragments, or reads
//! what may be half changed, but for what leads each thread back to the app's own code: exits, which are only added, the list of
//! threads, and the app's dispositions. Links and tables of targets are cut off without a look at any list, so threads that stay in the cache
//! come out at their next exit.
//!
//! # Which thread it was
//! The holder's stack pointer lies in the stacks of an area, and each area's page says which area it is of, and whose.
//! Pages are numbered without gaps and never go away, so they are read without the lock.
//! Numbers of threads mean nothing in another pid namespace. Where threads of this memory are in several, nobody asks.
#![allow(unsafe_code)] // reason: pages of areas, and the state of a thread that is no more.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::thread_page::ThreadPage;
use trommel_queue::{Detached, MAX_THREADS};

use crate::base::address::AppPc;
use crate::base::area::{Context, STACKS, STACKS_END};
use crate::base::ended;
use crate::base::heap;
use crate::base::lock::Guarded;
use crate::engine::state::{Process, Runtime, Thread};
use crate::engine::{current, native};

/// Children are in another pid namespace.
const ELSEWHERE: u32 = 1;
/// Threads of this memory are in several.
const SEVERAL: u32 = 2;

impl Process {
    /// A thread has changed the namespace of its children's numbers, maybe.
    pub fn children_are_elsewhere(&self) {
        self.namespaces.fetch_or(ELSEWHERE, Relaxed);
    }

    /// A process is started in this memory, in a pid namespace of its own if `foreign`.
    pub fn memory_is_shared(&self, foreign: bool) {
        if foreign || self.namespaces.load(Relaxed) & ELSEWHERE != 0 {
            self.namespaces.fetch_or(SEVERAL, Relaxed);
        }
    }

    /// Returns true if the number of a thread of this memory names it for every other.
    pub fn numbers_mean_the_same(&self) -> bool {
        self.namespaces.load(Relaxed) & SEVERAL == 0
    }

    /// The memory is a copy, of one thread alone.
    pub fn is_a_copy(&self) {
        self.namespaces.store(0, Relaxed);
        self.busy.store(0, Relaxed);
    }

    /// Returns the process and the thread that has a stack at `at`, unless none has, or it has not begun.
    fn thread_at(&self, at: u64) -> Option<(u32, u32)> {
        let mapped = self.queue.mapped();
        let pages = (0..MAX_THREADS as u32).map(|page| {
            // SAFETY: a page of the shared file, all atomics.
            unsafe { &*(mapped.thread_page(page) as *const ThreadPage) }
        });
        let area = |page: &&ThreadPage| page.area.load(Relaxed);
        pages
            .take_while(|page| area(page) != 0)
            .find(|page| (area(page) + STACKS..area(page) + STACKS_END).contains(&at))
            .map(|page| (page.pid.load(Relaxed), page.tid.load(Relaxed)))
            .filter(|&(pid, tid)| pid != 0 && tid != 0)
    }
}

impl Guarded for Runtime {
    fn has_ended(at: u64) -> bool {
        let process = current::process();
        let ended = |(pid, tid)| ended::has_ended(pid, tid);
        process.numbers_mean_the_same() && process.thread_at(at).is_some_and(ended)
    }

    fn inherit(&mut self) {
        heap::undo_move();
        self.broken = true;
        self.evict = None;
        self.leave = false;
        native::announce(current::process(), Detached::Killed, AppPc(0));
        self.code_pages.unprotect();
        self.cache.abandon();
        for targets in &mut self.targets {
            targets.abandon();
        }
    }
}

impl Runtime {
    /// The thread goes on natively at `context.next_pc`, as the runtime may be half changed.
    pub fn go_from_broken(&mut self, thread: &mut Thread, context: &mut Context) {
        context.at_boundary = 1;
        thread.recording = None;
        self.actions_of(thread).take_trap();
        native::leave(thread, context);
    }
}
