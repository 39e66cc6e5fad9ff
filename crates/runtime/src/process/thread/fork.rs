//! Processes made by `fork`: a copy of everything, that goes on under control.
//!
//! # Problem
//! The child has a copy of the runtime, the cache and the tables, but what is shared with the host is
//! shared with its parent too: the thread page that generated code writes to, the chunks, the
//! dictionary, and the tables of indirect targets that all threads but the first use. It has one
//! thread; its parent's others are not there. Shells make thousands of such processes, most of which
//! live for a millisecond.
//!
//! # Strategy
//! All signals are blocked around the call, and the parent holds the runtime's lock, so the child's
//! copy is whole and nothing interrupts it. The parent claims a slot for it in the directory, so that
//! the host knows of the child before the parent can end. The child maps it over its parent's by
//! growing a second mapping out of the directory's ([`sys::map_forward`]): no descriptor, path or
//! permission is needed, so neither namespaces nor closed descriptors are in the way, and the app
//! sees nothing of it. Its code cache stays: exit numbers up to the `fork` mean in its records what
//! they mean in its parent's, and the slot says how many those are. The host need not answer.
//!
//! A child for which there is no slot runs natively, and is counted in its parent's.
//!
//! # Invariants
//! * Until its own slot is mapped the child writes to nothing that is shared.
//! * Afterwards no memory of its parent's is mapped in a place that its own code uses.
//!
//! **I36 (fork).** A child of `fork` writes nothing that its parent shares before it has a slot of its own. Exit numbers up to the `fork` are read in its parent's slot, which is kept as long.
#![allow(unsafe_code)] // reason: maps memory and sets up a thread.

use crate::base::signals;
use crate::crossing::arch::upcalls;
use crate::engine::native;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use trommel_queue::work::Flush;
use trommel_queue::{MAX_SLOTS, Slot, State, first_parts, mapped_bytes, slot_start};

use crate::base::area::{
    Context, INDIRECT_BYTES, INDIRECT_TABLE, SECOND_BYTES, SECOND_OFFSET, THREAD_PAGE,
};
use crate::base::hosted::ring;
use crate::base::limits;
use crate::base::sys;
use crate::cache::targets::Targets;
use crate::channel::slot::{Mapped, parts_begin};
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::engine::thread::SHARED_TABLES;
use crate::memory::locking;
use crate::observe::query::Asked;
use crate::process::advice;
use crate::process::syscall;

/// Processes wait this often for the host to make more slots, 100 ms each time.
const PATIENCE: usize = 50;

/// The child cannot be controlled, since there is no slot for it.
pub struct NoSlot;

/// Claims a slot, waiting for the host to make some if there is none.
fn claim(mapped: Mapped) -> Result<usize, NoSlot> {
    const NANOS: u64 = 100_000_000;
    let directory = mapped.directory();
    for _ in 0..PATIENCE {
        if !directory.host_is_there() {
            return Err(NoSlot);
        }
        let there = directory.slots.load(SeqCst);
        if let Some(slot) = directory.claim() {
            return Ok(slot);
        }
        if there as usize >= MAX_SLOTS {
            break;
        }
        directory.wanted.fetch_add(1, SeqCst);
        ring(directory);
        sys::futex_wait(&directory.slots, there, Some(NANOS), false);
    }
    Err(NoSlot)
}

/// Puts the child's slot in place of its parent's. Runs in the child.
pub(super) fn take_slot(mapped: Mapped, runtime: &Runtime, number: usize) -> Result<(), NoSlot> {
    let directory = mapped.directory();
    let slot = &directory.slot[number];
    let parent = mapped.control();
    let options = parent.setup.options.load(Relaxed);
    let words = [
        &parent.setup.kinds,
        &parent.host.pid,
        &parent.setup.follow,
        &parent.process.foreign,
        &parent.setup.counters,
        &parent.process.value_counters,
        &parent.window.length,
        &parent.window.skip,
        &parent.setup.stacks,
        &parent.setup.contexts,
    ];
    let [
        kinds,
        host_pid,
        follow,
        foreign,
        counters,
        value_counters,
        window,
        window_skip,
        stacks,
        contexts,
    ] = words.map(|word| word.load(Relaxed));
    let of_parent = mapped.queries();
    let [tagged, seed, changing] = [
        u64::from(of_parent.tagged.load(Relaxed)),
        of_parent.seed.load(Relaxed),
        of_parent.changing.load(Relaxed).into(),
    ];
    let converges = mapped.converge().wanted.load(Relaxed);
    let start = slot_start(0) as u64;
    let (whole, base) = (mapped_bytes(window != 0), mapped.base());
    let (directory_at, offset) = (base - start, slot_start(number));
    // SAFETY: the directory is mapped from the start of the file; what is replaced is the parent's
    // slot, which this process has no use for.
    let done = unsafe {
        match window {
            0 => sys::map_forward(directory_at, offset, whole, base).map(drop),
            _ => {
                let parts = first_parts(Asked::is_there(mapped));
                sys::map_parts_forward(directory_at, offset, whole, base, parts)
            }
        }
    };
    if done.is_err() {
        parent.process.children.fetch_add(1, Relaxed);
        slot.state.store(Slot::FREE, SeqCst);
        return Err(NoSlot);
    }
    if window != 0 {
        parts_begin();
    }
    // SAFETY: all of the slot is mapped there, after the directory.
    let control = unsafe { Mapped::new(mapped.base()) }.control();
    let (paths, words, regions) = runtime.shared.extent();
    let queries = mapped.queries();
    queries.tagged.store(tagged as u32, Relaxed);
    queries.seed.store(seed, Relaxed);
    queries.changing.store(changing as u32, Relaxed);
    if let Some(asked) = &runtime.translator.ways.asked {
        asked.tell(mapped);
    }
    mapped.converge().wanted.store(converges, Relaxed);
    control.setup.options.store(options, Relaxed);
    control.setup.kinds.store(kinds, Relaxed);
    control.host.pid.store(host_pid, Relaxed);
    control.setup.follow.store(follow, Relaxed);
    control.process.foreign.store(foreign, Relaxed);
    control.setup.counters.store(counters, Relaxed);
    // Its code is its parent's.
    control
        .process
        .value_counters
        .store(value_counters, Relaxed);
    control.window.length.store(window, Relaxed);
    control.window.skip.store(window_skip, Relaxed);
    control.setup.stacks.store(stacks, Relaxed);
    control.setup.contexts.store(contexts, Relaxed);
    control.identity.slot.store(number as u32, Relaxed);
    control.process.threads.store(1, Relaxed);
    control.extent.paths.store(paths, Relaxed);
    control.extent.words.store(words, Relaxed);
    control.extent.regions.store(regions, Relaxed);
    control
        .work
        .stops
        .store(runtime.hints.paused.into(), Relaxed);
    control
        .process
        .state
        .store(State::Controlled as u32, Release);
    slot.pid.store(sys::getpid() as u32, Relaxed);
    slot.state.store(Slot::USED, SeqCst);
    ring(directory);
    Ok(())
}

impl Thread {
    /// Claims a slot for a child.
    pub fn reserve(&mut self) {
        self.before_fork();
        let process = self.process;
        self.starting.slot = match process.is_leaving() {
            true => None,
            false => claim(process.queue.mapped()).ok(),
        };
    }

    /// Says that a child is about to be made, with the runtime's lock held.
    pub fn expect(&self, runtime: &Runtime) {
        let Some(number) = self.starting.slot else {
            return;
        };
        let mapped = self.process.queue.mapped();
        let slot = &mapped.directory().slot[number];
        let (paths, words, regions) = runtime.shared.extent();
        slot.parent
            .store(mapped.control().identity.slot.load(Relaxed), Relaxed);
        slot.pid.store(0, Relaxed);
        let foreign = mapped.control().process.foreign.load(Relaxed);
        slot.foreign.store(foreign, Relaxed);
        slot.paths.store(paths, Relaxed);
        slot.words.store(words, Relaxed);
        slot.regions.store(regions, Relaxed);
        slot.state.store(Slot::EXPECTED, SeqCst);
    }

    /// Finishes a fork in the parent: the child is `result`, or there is none. Gives up what was claimed too early.
    pub fn forked(&mut self, result: i64) {
        let mapped = self.process.queue.mapped();
        let Some(number) = self.starting.slot.take() else {
            // One that is made while the process is detached is told with that.
            if result > 0 && !self.process.is_leaving() {
                mapped.control().process.children.fetch_add(1, Relaxed);
            }
            return;
        };
        let slot = &mapped.directory().slot[number];
        match result > 0 {
            // Should it die before it can say so itself.
            true => drop(slot.pid.compare_exchange(0, result as u32, SeqCst, Relaxed)),
            false => slot.state.store(Slot::FREE, SeqCst),
        }
    }

    /// Attaches to the child of a `fork`, whose registers are in the context. Runs in the child. If it
    /// fails, nothing has changed but that the lock is free.
    pub fn adopt(&mut self, context: &mut Context) -> Result<(), NoSlot> {
        let process = self.process;
        let mask = self.starting.locked.take();
        {
            // SAFETY: taken by this thread's parent before the call; the copy is this thread's.
            let mut runtime = unsafe { process.runtime.held() };
            let number = self.starting.slot.take().ok_or(NoSlot)?;
            self.inherit_contexts();
            take_slot(process.queue.mapped(), &runtime, number)?;
            limits::settle();
            locking::forget();
            process.queue.start_over();
            self.alone(&mut runtime);
            process.served.forget();
            if let Some(persist) = &mut runtime.persist {
                persist.in_new_slot();
            }
            self.forget_spilled();
            self.begin_path();
            self.writer.awaits = None;
            self.own_tables(&mut runtime).map_err(|_| NoSlot)?;
            self.writer.number = 1;
            self.writer.tid = sys::gettid() as u32;
            // None of its parent's is free in the child's slot, where all are.
            if self.counter_array.take().is_some() {
                self.take_counter_array(&mut runtime);
                self.name_counter_array();
            }
            if let Some(asked) = runtime.translator.asked() {
                asked.in_new_slot();
            }
            if let Some(selected) = &mut runtime.translator.ways.selected {
                selected.in_new_slot();
            }
            if let Some(prefetch) = &runtime.translator.ways.prefetch {
                prefetch.in_new_slot(process.queue.mapped());
            }
            if let Some(converge) = &mut runtime.translator.ways.converge {
                if converge.in_new_slot(process.queue.mapped()) {
                    runtime.evict = Some(Flush::Asked);
                }
                runtime.cache.make_traces(0);
            }
            self.take_queries(&mut runtime);
            if core::mem::take(&mut self.starting.clear_handlers) {
                runtime.actions.cleared();
            }
        }
        self.writer.page = 0;
        let page = process.queue.mapped().thread_page(0);
        // SAFETY: in this thread's area, in place of the parent's page.
        unsafe { sys::map_again(page, sys::PAGE, self.area + THREAD_PAGE as u64) }
            .map_err(|_| NoSlot)?;
        self.name_area();
        process.is_a_copy();
        self.tell_numbers();
        self.take_contexts(&mut process.runtime.lock());
        process.queue.take(&mut self.writer).map_err(|_| NoSlot)?;
        context.at_boundary = 1;
        syscall::finish(context, context.next_pc);
        if let Some(mask) = mask {
            signals::set_mask(mask.kernel);
        }
        advice::forked(process);
        let next = context.next_pc;
        process.runtime.lock().go(self, context, next, None, false);
        self.run_errand(context);
        Ok(())
    }

    /// Forgets the threads that are not in this process.
    fn alone(&self, runtime: &mut Runtime) {
        let process = self.process;
        let gone = core::mem::take(&mut runtime.threads);
        let give_up = |thread: *const Self| {
            // SAFETY: listed threads, and free ones, are there.
            let thread = unsafe { &*thread };
            // The first thread's area holds the heap's first memory, and costs nothing.
            if !core::ptr::eq(thread, self) && thread.targets == SHARED_TABLES {
                // SAFETY: the area of a thread that does not exist here.
                unsafe { sys::munmap(thread.area, process.area_bytes()) };
            }
        };
        while let Some(thread) = process.free_area() {
            give_up(&raw const *thread);
        }
        gone.into_iter().for_each(give_up);
        runtime.threads.push(&raw const *self);
        runtime.count_blocked();
        runtime.pages = 1;
        runtime.numbers = 1;
    }

    /// Gives the thread tables of indirect targets that are not its parent's.
    pub(super) fn own_tables(&self, runtime: &mut Runtime) -> Result<(), sys::Errno> {
        const BYTES: usize = INDIRECT_BYTES + SECOND_BYTES;
        let shared = core::mem::take(&mut runtime.shared_tables);
        if shared != 0 {
            // SAFETY: a mapping of the tables that only they were made with.
            unsafe { sys::munmap(shared, BYTES) };
            runtime.targets.truncate(SHARED_TABLES);
        }
        if self.targets == SHARED_TABLES {
            let at = sys::shareable(BYTES)?;
            // SAFETY: fresh zero memory, which stays.
            let targets = unsafe { Targets::new(at, at + INDIRECT_BYTES as u64) };
            runtime.targets.push(targets);
            runtime.shared_tables = at;
            let parts = [
                (at, INDIRECT_BYTES, INDIRECT_TABLE.0 as usize),
                (at + INDIRECT_BYTES as u64, SECOND_BYTES, SECOND_OFFSET),
            ];
            for (from, len, to) in parts {
                // SAFETY: in this thread's area, in place of its parent's tables.
                unsafe { sys::map_again(from, len, self.area + to as u64) }?;
            }
        }
        Ok(())
    }
}

/// The child of a `fork` goes on under control, or else natively, from after the system call, as
/// does that of a `vfork` that is not followed. Runs on a stack of its own with the registers of the
/// child in the context. The parent's lock is of no concern when it leaves: it is copied, or belongs
/// to others.
///
/// # Safety
/// Only `arch::clone` may call this.
#[unsafe(export_name = "trommel_child")]
pub unsafe extern "C" fn child(context: &mut Context) {
    // SAFETY: the parent is stopped (vfork) or has a copy of its own (fork).
    let thread = unsafe { Thread::of(context) };
    context.regs[1] = context.next_pc.0;
    context.at_boundary = 1;
    let locked = thread.starting.locked;
    if let Some(mask) = locked {
        if mask.shows {
            thread.signals.true_mask = None;
        }
        if thread.adopt(context).is_ok() {
            return;
        }
        signals::set_mask(mask.kernel);
    }
    let saved = crate::engine::signals::BeforeChild {
        leaving: thread.leaving,
        pending: context.pending,
        mask: thread.signals.true_mask,
        locked,
    };
    native::leave(thread, context);
    // In a vfork child the handler undoes this in the memory it shares with its parent.
    thread.signals.before_child = Some(saved);
}

const _: upcalls::Entered = child;
