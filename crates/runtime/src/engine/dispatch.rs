//! What happens when control leaves the cache: translate, link, look up.
//!
//! [`dispatch`] runs on the thread's own stack with the app's state in the [`Context`]. It decides
//! where the app goes on and sets [`Context::target`]; the caller resumes there. Whatever cannot go
//! on in the cache is single-stepped natively or detached (see [`crate::process::native`]).
#![allow(unsafe_code)] // reason: the thread is reached through an address in the context.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::Detached;
use trommel_queue::dict::Mark;
use trommel_queue::work::{self, Flush, LONG, Part};

use crate::base::address::{AppPc, CachePc};
use crate::base::area::{Context, Reason};
use crate::base::decode::{LONGEST_CALL, ends_with_call};
use crate::base::emit::{Code, Reg};
use crate::base::lock::Guard;
use crate::base::phase::Phases;
use crate::base::prefix::Key;
use crate::base::prefix::Prefix;
use crate::base::stress::{self, Crossing, Place};
use crate::base::sys;
use crate::cache::entry::tag_check;
use crate::cache::targets::Targets;
use crate::cache::{Cache, Way};
use crate::channel::deliver::Shared;
use crate::channel::persist::Persist;
use crate::channel::shields;
use crate::crossing::arch::Landmarks;
use crate::memory::pages::{PAGE, Pages};
use crate::memory::region::Regions;
use crate::observe::aware::Hints;
use crate::observe::pairs::{Counted, Pairs, Uncounted};
use crate::observe::query;
use crate::observe::served::Full;
use crate::process::native;
use crate::process::signal::{self, Actions};
use crate::process::syscall;
use crate::process::thread::{Process, Thread};
use crate::process::window::{self, Windows};
use crate::slot;
use crate::trace::balance::{Balance, Clocks};
use crate::translate::piece::Path;
use crate::translate::{AHEAD, Refusal, Shape, Site, Translator};

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
    /// Whether control pays.
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

    /// Makes a fragment.
    pub fn translate(&mut self, to: (AppPc, Prefix), shape: Shape) -> Result<u32, Refusal> {
        let began = Began::short();
        let (translator, mut site) = self.site();
        let made = translator.translate(&mut site, to, shape);
        if let Ok(id) = made {
            let fragment = &self.cache.fragments[id as usize];
            let control = self.shared.control();
            control.fragments.fetch_add(1, Relaxed);
            let insns = u64::from(fragment.insns);
            control.instructions.fetch_add(insns, Relaxed);
            control.cache_bytes.store(self.cache.bytes(), Relaxed);
            let bytes = fragment.end.0 - fragment.entry.0;
            work::add(&control.work.fragment_bytes, bytes);
            let app = self.translator.app_bytes();
            work::add(&control.work.fragment_app_bytes, app);
        }
        self.spent_in(Part::Translate, began);
        made
    }

    /// Makes a fragment that needs less room than others may.
    fn translate_short(&mut self, to: (AppPc, Prefix), shape: Shape) -> Result<u32, Refusal> {
        self.translator.short = true;
        let made = self.translate(to, shape);
        self.translator.short = false;
        made
    }

    /// Takes the fragment of `pc` from an earlier run.
    fn load(&mut self, pc: AppPc) -> Option<u32> {
        self.persist.as_ref()?;
        let began = Began::short();
        let mut loaded = core::mem::take(&mut self.loaded);
        let before = loaded.len();
        let limited = self.cache_limit != 0;
        let (translator, mut site) = self.site();
        // A small cache is for what is executed.
        let ahead = if limited { 0 } else { AHEAD };
        let found = translator.load(&mut site, pc, ahead, &mut loaded);
        let control = self.shared.control();
        let count = (loaded.len() - before) as u64;
        control.kept_fragments.fetch_add(count, Relaxed);
        control.fragments.fetch_add(count, Relaxed);
        control.cache_bytes.store(self.cache.bytes(), Relaxed);
        let all = loaded[before..].iter();
        let all = all.map(|&id| &self.cache.fragments[id as usize]);
        let (insns, bytes) = all.fold((0, 0), |(insns, bytes), f| {
            (insns + u64::from(f.insns), bytes + f.end.0 - f.entry.0)
        });
        control.instructions.fetch_add(insns, Relaxed);
        work::add(&control.work.fragment_bytes, bytes);
        let app = self.translator.loaded_app_bytes();
        work::add(&control.work.fragment_app_bytes, app);
        loaded.retain(|&id| self.cache.fragments[id as usize].checked.is_some());
        self.loaded = loaded;
        self.spent_in(Part::Translate, began);
        found
    }

    /// Makes the trace of a path. `checked`: indirect branches lead to its start.
    pub fn translate_path(&mut self, path: &Path<'_>, checked: bool) -> Result<u32, Refusal> {
        let (translator, mut site) = self.site();
        let made = translator.translate_path(&mut site, path, checked);
        if let Ok(id) = made {
            let fragment = self.cache.fragments[id as usize];
            let trace = &self.shared.control().trace;
            trace.made.fetch_add(1, Relaxed);
            trace
                .instructions
                .fetch_add(u64::from(fragment.insns), Relaxed);
            let bytes = fragment.end.0 - fragment.entry.0;
            trace.bytes.fetch_add(bytes, Relaxed);
            let work = &self.shared.control().work;
            let class = work::length_class(fragment.insns.into());
            work::add(&work.lengths[class], 1);
            work::add(&work.trace_app_bytes, self.translator.app_bytes());
            let fragments = self.shared.control().fragments.load(Relaxed);
            if self.phases.made(sys::process_cpu(), fragments) {
                self.evict = Some(Flush::Phase);
                self.ask_soon(sys::ticks());
            } else if stress::trace_made() {
                self.evict = Some(Flush::Asked);
            }
        }
        made
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
    fn worked(&mut self, entered: u64) {
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

    /// Whether nothing but the calling thread and the kernel writes the process's memory.
    pub(crate) fn is_alone(&self) -> bool {
        !self.overflowing
    }

    /// Whether loops may keep slots of the stack frame in registers.
    pub(crate) fn keeps_slots(&self) -> bool {
        (self.is_alone() || self.aggressive) && !self.hints.volatile
    }

    /// A thread that runs beside others in this memory is about to be made: what was made for
    /// one alone is not entered any more.
    pub fn be_joined(&mut self) {
        if !core::mem::replace(&mut self.overflowing, true) && !self.aggressive {
            self.cache.retire_loops();
        }
    }

    /// The fragment of `pc` with this after it on an acyclic path, made if need be. The flag says that everything was flushed.
    pub(crate) fn fragment(
        &mut self,
        (pc, prefix): (AppPc, Prefix),
        checked: bool,
    ) -> Result<(u32, bool), Refusal> {
        if let Some(id) = self.cache.lookup_on(pc, prefix) {
            return Ok((id, false));
        }
        if prefix == Prefix::NONE
            && let Some(id) = self.revive(pc)
        {
            return Ok((id, false));
        }
        let shape = match checked {
            true => Shape::Checked,
            false => Shape::Usual,
        };
        self.make((pc, prefix), shape)
    }

    /// A new fragment, as [`Self::fragment`].
    pub fn make(&mut self, to: (AppPc, Prefix), shape: Shape) -> Result<(u32, bool), Refusal> {
        /// Bytes of dead code that are not worth a flush.
        const LITTLE: u64 = 16 << 20;
        let dead = self.cache.dead_bytes();
        self.reclaim_if_due();
        if !self.is_full()
            && !self.is_overflowing()
            && (dead < LITTLE || dead < self.cache.bytes() / 2)
        {
            if matches!(shape, Shape::Usual | Shape::Checked)
                && to.1 == Prefix::NONE
                && let Some(id) = self.load(to.0)
            {
                return Ok((id, false));
            }
            match self.translate(to, shape) {
                Err(Refusal::CacheFull) => {}
                made => return made.map(|id| (id, false)),
            }
        }
        // What waits for room has dropped everything already.
        if !(self.cache.is_new() && self.cache.has_old()) {
            self.flush(Flush::Full);
        }
        let made = match self.translate(to, shape) {
            // There may be room between what is kept.
            Err(Refusal::CacheFull) => self.translate_short(to, shape),
            made => made,
        };
        match made {
            Err(Refusal::CacheFull) if self.cache.has_old() => Err(Refusal::Overflowing),
            Err(Refusal::CacheFull) => Err(Refusal::OutOfSpace),
            made => made.map(|id| (id, true)),
        }
    }

    /// Whether the cache has reached the size that it may have.
    fn is_full(&self) -> bool {
        self.cache_limit != 0 && self.cache.bytes() > self.cache_limit
    }

    /// Drops all fragments, for a thread that is out of the cache.
    pub fn flush(&mut self, why: Flush) {
        self.drop_all(why, self.threads.len() == 1);
    }

    /// Drops all fragments. `alone`: no thread is in the cache.
    pub fn drop_all(&mut self, why: Flush, alone: bool) {
        let began = Began::long();
        self.loaded.clear();
        self.cache.next_generation(alone);
        let control = self.shared.control();
        control.invalidations.fetch_add(1, Relaxed);
        work::add(&control.work.flushes[why as usize], 1);
        if why != Flush::Phase && control.trace.made.load(Relaxed) != 0 {
            let fragments = control.fragments.load(Relaxed);
            self.phases.flushed(sys::process_cpu(), fragments);
        }
        self.pairs.forget(false);
        for targets in &mut self.targets {
            targets.clear();
        }
        self.reclaim(alone);
        self.spent_in(Part::Flush, began);
    }

    /// Where indirect branches enter a fragment; made when first asked for.
    pub(crate) fn checked_entry(&mut self, id: u32) -> Option<CachePc> {
        let fragment = self.cache.fragments[id as usize];
        if fragment.checked.is_some() {
            return fragment.checked;
        }
        let arena = self.cache.arena_of(fragment.entry)?;
        if self.cache.arena(arena).room() < 64 {
            return None;
        }
        let at = self.cache.arena(arena).next();
        let mut bytes = [0; 64];
        let mut code = Code::new(at, &mut bytes);
        tag_check(&mut code, fragment.app);
        code.load_gs(Reg::RDX, slot!(spill_rdx));
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        let from = code.jmp();
        let rel = fragment.entry.0 as i64 - code.at(from.0).0 as i64 - 4;
        code.put_u32(from.0, rel as i32 as u32);
        self.cache.place_lead(arena, code.bytes());
        self.cache.fragments[id as usize].checked = Some(at);
        Some(at)
    }

    /// The fragment at `pc` has been counted to the end: a trace may start there, at time `now`.
    fn came_to_hot(&mut self, thread: &mut Thread, pc: AppPc, now: u64) {
        match self.is_full() {
            true => self.flush(Flush::Full),
            false if self.asks_first(now) => {}
            false => self.start_recording(thread, pc),
        }
    }

    /// Where the tables lead for the fragment `id` of `pc`, whose checked entry is `checked`.
    pub fn arrival(&mut self, id: u32, pc: AppPc, checked: CachePc) -> CachePc {
        let fragment = &self.cache.fragments[id as usize];
        // Code that may change is no trace, and may be kept from being read.
        let fixed = fragment.source.is_none() && !fragment.guarded;
        match fixed && is_return_site(pc) {
            true => self.cache.arrival(id, checked),
            false => checked,
        }
    }

    /// All code is left at its next exit: for threads that are to be detached.
    pub fn cut_off(&mut self) {
        self.cache.retire_all();
        self.close_pages();
        for targets in &mut self.targets {
            targets.clear();
        }
    }

    /// Leads to the fragment of `pc` without the dispatcher from here on: from the exit, and (`checked`) from
    /// the thread's indirect branches.
    pub fn lead_to(
        &mut self,
        id: u32,
        thread: &Thread,
        pc: AppPc,
        from: Option<u32>,
        checked: bool,
    ) {
        if let Some(exit) = from {
            self.cache.link(exit, id);
        }
        if checked && let Some(at) = self.checked_entry(id) {
            let at = self.arrival(id, pc, at);
            self.targets[thread.targets].put(pc, Key::NONE, at);
        }
        for id in core::mem::take(&mut self.loaded) {
            let fragment = &self.cache.fragments[id as usize];
            let app = fragment.app;
            if let Some(at) = fragment.checked {
                let at = self.arrival(id, app, at);
                self.targets[thread.targets].put(app, Key::NONE, at);
            }
        }
    }

    /// Lets the app go on at `pc`. `from` is the exit to link with it.
    pub fn go(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        pc: AppPc,
        from: Option<u32>,
        checked: bool,
    ) {
        context.next_pc = pc;
        context.at_boundary = 1;
        thread.came_out(self);
        self.hand_path_over(thread);
        if thread.window.is_some() {
            self.evict_if_asked();
            return self.go_in_window(thread, context, pc, from, checked);
        }
        if core::mem::take(&mut self.leave) {
            return self.detach(thread, context, Detached::Stress);
        }
        if self.is_lost() && !thread.process.is_leaving() {
            return self.detach(thread, context, Detached::BailOut);
        }
        let sampled = from.is_some_and(|exit| self.cache.exit(exit).prefix == Prefix::SAMPLED);
        let from = from.filter(|_| !self.evict_if_asked());
        let fragile = thread.interrupted.is_some_and(|call| call.is_fragile(pc));
        if thread.process.is_leaving() && !fragile {
            self.actions_of(thread).take_trap();
            return native::leave(thread, context);
        }
        let mut prefix = match sampled {
            true => Prefix::SAMPLED,
            false => self.arrive_on_path(thread, pc),
        };
        if thread.single.take() == Some(pc) {
            let prefix = self.prefix(thread, pc);
            match self.single(pc, prefix) {
                Ok((id, _)) => context.target = self.cache.fragments[id as usize].entry,
                Err(_) => {
                    self.mark(thread, Mark::Arrived, [pc.0, 0]);
                    native::step(thread, context);
                }
            }
            return;
        }
        self.code_pages.stack = context.regs[4];
        if thread.recording.is_some() && self.record_at(thread, context, pc) {
            self.watch_calls();
            return;
        }
        if prefix == Prefix::UNKNOWN {
            if self.collect_path(thread, context, pc) {
                self.watch_calls();
                thread.overflowed = 0;
                return;
            }
            prefix = self.prefix(thread, pc);
        }
        // Only where a path begins is there a way by a table.
        let checked = checked && prefix == Prefix::NONE;
        match self.fragment((pc, prefix), checked) {
            Ok((id, flushed)) => {
                // Paths may be counted no more.
                self.hand_path_over(thread);
                self.watch_calls();
                thread.overflowed = 0;
                context.target = self.cache.fragments[id as usize].entry;
                let from = from.filter(|_| !flushed);
                self.lead_to(id, thread, pc, from, checked);
            }
            Err(Refusal::Native | Refusal::Made) => {
                self.mark(thread, Mark::Arrived, [pc.0, 0]);
                native::step(thread, context);
            }
            Err(Refusal::Vsyscall) => {
                self.mark(thread, Mark::Called, [pc.0, 0]);
                syscall::vsyscall(context, pc);
                let next = context.next_pc;
                self.go(thread, context, next, None, false);
            }
            Err(Refusal::Request) => {
                self.mark(thread, Mark::Arrived, [pc.0, 0]);
                if self.request(thread, context, pc) {
                    self.detach(thread, context, Detached::Asked);
                }
            }
            Err(Refusal::Instruction) => self.detach(thread, context, Detached::Instruction),
            Err(Refusal::Restartable) => self.detach(thread, context, Detached::Restartable),
            Err(Refusal::Gs) => self.detach(thread, context, Detached::GsBase),
            Err(Refusal::NoMaps) => self.detach(thread, context, Detached::NoMaps),
            Err(Refusal::Unnamed) => {
                // Comes back when the host has been asked, with the lock free.
                thread.unnamed = true;
                context.target = CachePc(Landmarks::sigreturned());
            }
            // Comes back when others have come out of what is in the way, with the lock free.
            Err(Refusal::Overflowing) if thread.is_patient() => {
                context.target = CachePc(Landmarks::sigreturned());
            }
            // The last two are met in windows only.
            Err(
                Refusal::OutOfSpace
                | Refusal::Overflowing
                | Refusal::CacheFull
                | Refusal::Call
                | Refusal::Moved(_),
            ) => {
                self.detach(thread, context, Detached::OutOfSpace);
            }
        }
    }

    /// Lets the app go on where an indirect branch leads that was counted, or not.
    fn go_counted(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        counted: Result<Option<Counted>, Uncounted>,
    ) {
        let pc = context.next_pc;
        match counted {
            Ok(Some(Counted { exit })) => self.go(thread, context, pc, exit, false),
            // There is no host to say what it calls the target.
            Ok(None) | Err(Uncounted::Unnamed) => self.go(thread, context, pc, None, true),
            Err(Uncounted::DictionaryFull) => self.detach(thread, context, Detached::OutOfSpace),
        }
    }

    /// Whether the program had better run natively: as the runtime knows, or the host.
    fn is_lost(&self) -> bool {
        let lost = &self.shared.control().trace.lost;
        self.balance.is_lost() || lost.load(Relaxed) != 0
    }

    /// All threads are to go, and this one has been fetched, at `pc`: the host has found that control
    /// does not pay.
    pub fn give_up_if_lost(&mut self, process: &Process, pc: AppPc) {
        if self.shared.control().trace.lost.load(Relaxed) != 0 && !process.is_leaving() {
            native::announce(process, Detached::BailOut, pc);
            self.cut_off();
        }
    }

    /// Drops everything, if that is asked for.
    fn evict_if_asked(&mut self) -> bool {
        let evict = self.evict.take();
        if let Some(why) = evict {
            self.flush(why);
        }
        evict.is_some()
    }

    /// Detaches the process, this thread at `context.next_pc`.
    pub fn detach(&mut self, thread: &mut Thread, context: &mut Context, why: Detached) {
        context.at_boundary = 1;
        native::announce(thread.process, why, context.next_pc);
        self.cut_off();
        native::leave(thread, context);
    }
}

/// Entered from `arch::enter` with the app's state in `context`.
///
/// # Safety
/// Only `arch::enter` may call this.
pub unsafe extern "C" fn dispatch(context: &mut Context) {
    // SAFETY: entered once at a time by each thread; the context is a started thread's.
    let thread = unsafe { Thread::of(context) };
    work_for(thread, context);
    thread.run_errand(context);
    // A mark may have filled the chunk.
    if core::mem::take(&mut thread.full) {
        let done = match thread.window {
            Some(_) => thread.publish_now(),
            None => thread.publish(),
        };
        if done.is_err() {
            native::host_gone(thread, context);
        }
    }
    if thread.end_due_interval().is_err() {
        native::host_gone(thread, context);
    }
    if thread.window.is_some() && thread.leaving && context.at_boundary != 0 {
        signal::depart(thread, context);
    }
}

/// A chunk is full, inside a fragment.
fn fill_up(thread: &mut Thread, context: &mut Context) {
    let process = thread.process;
    if thread.publish().is_err() {
        return native::host_gone(thread, context);
    }
    if process.queue.mapped().converge().wanted.load(Relaxed) != 0 {
        process.runtime.lock().go_by_table();
    }
}

fn work_for(thread: &mut Thread, context: &mut Context) {
    if context.reason == Reason::Query as u32 {
        context.at_boundary = 0;
        stress::delay();
        if query::crossed(thread, context).is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    if context.reason == Reason::Counted as u32 {
        context.at_boundary = 0;
        stress::delay();
        if shields::crossed(thread, context).is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    query::look(thread, context);
    let process = thread.process;
    let control = process.queue.control();
    control.dispatches.fetch_add(1, Relaxed);
    if core::mem::take(&mut thread.unnamed) && process.queue.settle().is_err() {
        native::host_gone(thread, context);
    }
    thread.wait_for_room();
    // Where the app goes on is not known yet, should the runtime fail.
    context.at_boundary = 0;
    stress::fail(Place::Dispatch);
    stress::delay();
    if context.reason == Reason::Full as u32 && thread.window.is_some() {
        if thread.publish_now().is_err() {
            native::host_gone(thread, context);
        }
        return;
    }
    if context.reason == Reason::Full as u32 {
        fill_up(thread, context);
        return;
    }
    if core::mem::take(&mut thread.forking) {
        // SAFETY: taken when the process was started, whose number is in `rax`.
        unsafe { process.runtime.release() };
        thread.clear_handlers = false;
        thread.forked(context.regs[0] as i64);
        signal::set_mask(thread.fork_mask);
    }
    // Back from a handler, a thread that took more than its share for it waits for the host.
    let entering = core::mem::take(&mut thread.signals.entering);
    if thread.writer.overdrawn
        && !entering
        && context.reason == Reason::Sigreturn as u32
        && process.queue.catch_up(&mut thread.writer).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Sigreturn as u32
        && !entering
        && thread.send_spilled(Full::Wait).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Sigreturn as u32
        && !entering
        && process.queue.answered(&mut thread.writer).is_err()
    {
        native::host_gone(thread, context);
    }
    if context.reason == Reason::Window as u32 && window::make_room(thread).is_err() {
        native::host_gone(thread, context);
    }
    let mut runtime = process.runtime.lock();
    runtime.returned(thread, context.next_pc.0);
    let entered = sys::ticks();
    runtime.ask_if_due(entered);
    runtime.go_by_table();
    match stress::crossing() {
        Crossing::Usual => {}
        Crossing::Evict => runtime.evict = Some(Flush::Asked),
        Crossing::Turn => runtime.turn_over(),
        Crossing::Leave => runtime.leave = true,
    }
    // What a flush takes away is what says how an indirect branch is counted.
    let by_target = context.reason == Reason::Indirect as u32
        || context.reason == Reason::Hot as u32
            && runtime.cache.exit(context.exit).way == Way::Site;
    let mut counted = Ok(None);
    if by_target {
        (counted, runtime) = count_indirect(runtime, thread, context);
    }
    runtime.find_path(thread, context);
    if thread.recording.is_some() {
        runtime.record_piece(thread, context);
    }
    match context.reason {
        r if r == Reason::Exit as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let target = exit.target;
            if exit.counts
                && thread.recording.is_none()
                && runtime.cache.counts_down(target, exit.prefix)
            {
                runtime.came_to_hot(thread, target, entered);
            }
            runtime.go(thread, context, target, Some(context.exit), false);
            runtime.worked(entered);
        }
        r if r == Reason::Indirect as u32 => {
            control.indirect_misses.fetch_add(1, Relaxed);
            let pc = context.next_pc;
            if thread.recording.is_none() && runtime.cache.arrival_is_hot(pc) {
                runtime.came_to_hot(thread, pc, entered);
            }
            runtime.go_counted(thread, context, counted);
            runtime.worked(entered);
        }
        r if r == Reason::Syscall as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let next = exit.target;
            // It may have seen to a signal, or to the process being detached, before the call.
            let first = context.pending != 0 || process.is_leaving();
            if first {
                return runtime.go(thread, context, syscall::before(next), None, false);
            }
            let number = context.regs[0] as u32;
            let args = syscall::args(context);
            runtime.before_call(number, &args);
            if !syscall::SEEN.contains(&number) && !runtime.writes_memory_file(number, &args) {
                // Made in place.
                context.next_pc = syscall::before(next);
                context.at_boundary = 1;
                context.target = exit.patch;
                return;
            }
            drop(runtime);
            syscall::handle(thread, context, next);
        }
        r if r == Reason::Cloned as u32 => {
            let next = runtime.cache.exit(context.exit).target;
            let natively = control.follow.load(Relaxed) == 0;
            if context.regs[0] as i64 > 0 && natively {
                control.children.fetch_add(1, Relaxed);
            }
            syscall::finish(context, next);
            runtime.go(thread, context, next, None, false);
        }
        r if r == Reason::Hot as u32 => {
            let exit = runtime.cache.exit(context.exit);
            if exit.way == Way::Site {
                match runtime.is_full() {
                    true => runtime.flush(Flush::Full),
                    _ if runtime.asks_first(entered) => {}
                    false => runtime.start_unrolled(thread, context.exit, context.next_pc),
                }
                runtime.go_counted(thread, context, counted);
            } else {
                match runtime.is_full() {
                    true => runtime.flush(Flush::Full),
                    _ if runtime.asks_first(entered) => {}
                    false => runtime.start_recording(thread, exit.target),
                }
                runtime.go(thread, context, exit.target, None, false);
            }
            runtime.worked(entered);
        }
        r if r == Reason::Changed as u32 => {
            let exit = runtime.cache.exit(context.exit);
            let pc = exit.target;
            runtime.recheck(pc, exit.prefix);
            runtime.go(thread, context, pc, None, false);
        }
        r if r == Reason::Window as u32 => {
            thread.came_out(&runtime);
            context.at_boundary = 1;
            runtime.begin_window(thread, context);
        }
        _ => {
            let pc = context.next_pc;
            runtime.go(thread, context, pc, None, false);
        }
    }
}

/// Counts what a branch that is in neither table has done, or a trace's that goes elsewhere.
fn count_indirect(
    mut runtime: Guard<'static, Runtime>,
    thread: &mut Thread,
    context: &Context,
) -> (Result<Option<Counted>, Uncounted>, Guard<'static, Runtime>) {
    let (key, pc) = (Key::in_context(context), context.next_pc);
    let counted = runtime.count_pair(thread, key, pc);
    if counted != Err(Uncounted::Unnamed) {
        return (counted, runtime);
    }
    drop(runtime);
    let process = thread.process;
    let _ = process.queue.settle();
    let mut runtime = process.runtime.lock();
    (runtime.count_pair(thread, key, pc), runtime)
}

/// Whether what is before `pc`, where a fragment begins, is a call, as far as bytes of the same page can tell.
fn is_return_site(pc: AppPc) -> bool {
    if pc.0 % PAGE < LONGEST_CALL as u64 {
        return false;
    }
    // SAFETY: of a page of code that does not change, which was read to make the fragment, or compared to take it from the run before;
    // what takes such a page away retires the fragment first.
    let bytes = unsafe { ((pc.0 - LONGEST_CALL as u64) as *const [u8; LONGEST_CALL]).read() };
    ends_with_call(&bytes)
}
