//! Fragments: generated, loaded from earlier runs, found, and dropped.
#![allow(unsafe_code)] // reason: reads the app's code.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work;
use trommel_queue::work::{Flush, Part};

use crate::base::address::{AppPc, CachePc};
use crate::base::decode::{LONGEST_CALL, ends_with_call};
use crate::base::emit::{Code, Reg};
use crate::base::ids::{ExitId, FragmentId};
use crate::base::prefix::{Key, Prefix};
use crate::base::{stress, sys};
use crate::cache::entry::tag_check;
use crate::engine::runtime::Began;
use crate::engine::state::{Runtime, Thread};
use crate::memory::pages::PAGE;
use crate::slot;
use crate::translate::piece::Path;
use crate::translate::{AHEAD, Refusal, Shape};

impl Runtime {
    /// Makes a fragment.
    pub fn translate(&mut self, to: (AppPc, Prefix), shape: Shape) -> Result<FragmentId, Refusal> {
        let began = Began::short();
        let (translator, mut site) = self.site();
        let made = translator.translate(&mut site, to, shape);
        if let Ok(id) = made {
            let fragment = &self.cache.fragments[id.index()];
            let control = self.shared.control();
            control.engine.fragments.fetch_add(1, Relaxed);
            let insns = u64::from(fragment.insns);
            control.engine.instructions.fetch_add(insns, Relaxed);
            control
                .engine
                .cache_bytes
                .store(self.cache.bytes(), Relaxed);
            let bytes = fragment.end.0 - fragment.entry.0;
            work::add(&control.work.fragment_bytes, bytes);
            let app = self.translator.app_bytes();
            work::add(&control.work.fragment_app_bytes, app);
        }
        self.spent_in(Part::Translate, began);
        made
    }

    /// Makes a fragment that needs less room than others may.
    fn translate_short(
        &mut self,
        to: (AppPc, Prefix),
        shape: Shape,
    ) -> Result<FragmentId, Refusal> {
        self.translator.short = true;
        let made = self.translate(to, shape);
        self.translator.short = false;
        made
    }

    /// Takes the fragment of `pc` from an earlier run.
    fn load(&mut self, pc: AppPc) -> Option<FragmentId> {
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
        control.engine.kept_fragments.fetch_add(count, Relaxed);
        control.engine.fragments.fetch_add(count, Relaxed);
        control
            .engine
            .cache_bytes
            .store(self.cache.bytes(), Relaxed);
        let all = loaded[before..].iter();
        let all = all.map(|&id| &self.cache.fragments[id.index()]);
        let (insns, bytes) = all.fold((0, 0), |(insns, bytes), f| {
            (insns + u64::from(f.insns), bytes + f.end.0 - f.entry.0)
        });
        control.engine.instructions.fetch_add(insns, Relaxed);
        work::add(&control.work.fragment_bytes, bytes);
        let app = self.translator.loaded_app_bytes();
        work::add(&control.work.fragment_app_bytes, app);
        loaded.retain(|&id| self.cache.fragments[id.index()].checked.is_some());
        self.loaded = loaded;
        self.spent_in(Part::Translate, began);
        found
    }

    /// Makes the trace of a path. `checked`: indirect branches lead to its start.
    pub fn translate_path(
        &mut self,
        path: &Path<'_>,
        checked: bool,
    ) -> Result<FragmentId, Refusal> {
        let (translator, mut site) = self.site();
        let made = translator.translate_path(&mut site, path, checked);
        if let Ok(id) = made {
            let fragment = self.cache.fragments[id.index()];
            let traces = &self.shared.control().traces;
            traces.made.fetch_add(1, Relaxed);
            traces
                .instructions
                .fetch_add(u64::from(fragment.insns), Relaxed);
            let bytes = fragment.end.0 - fragment.entry.0;
            traces.bytes.fetch_add(bytes, Relaxed);
            let work = &self.shared.control().work;
            let class = work::length_class(fragment.insns.into());
            work::add(&work.lengths[class], 1);
            work::add(&work.trace_app_bytes, self.translator.app_bytes());
            let fragments = self.shared.control().engine.fragments.load(Relaxed);
            if self.phases.made(sys::process_cpu(), fragments) {
                self.evict = Some(Flush::Phase);
                self.ask_soon(sys::ticks());
            } else if stress::trace_made() {
                self.evict = Some(Flush::Asked);
            }
        }
        made
    }

    /// The fragment of `pc` with this after it on an acyclic path, made if need be. The flag says that everything was flushed.
    pub(crate) fn fragment(
        &mut self,
        (pc, prefix): (AppPc, Prefix),
        checked: bool,
    ) -> Result<(FragmentId, bool), Refusal> {
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

    /// A new fragment, as `Self::fragment`.
    pub fn make(
        &mut self,
        to: (AppPc, Prefix),
        shape: Shape,
    ) -> Result<(FragmentId, bool), Refusal> {
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

    /// Returns whether the cache has reached the size that it may have.
    pub fn is_full(&self) -> bool {
        self.cache_limit != 0 && self.cache.bytes() > self.cache_limit
    }

    /// Returns the entry of a fragment for indirect branches. Generates it at the first request.
    pub(crate) fn checked_entry(&mut self, id: FragmentId) -> Option<CachePc> {
        let fragment = self.cache.fragments[id.index()];
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
        self.cache.fragments[id.index()].checked = Some(at);
        Some(at)
    }

    /// Returns the address that tables hold for the fragment `id` of `pc`, whose checked entry is `checked`.
    pub fn arrival(&mut self, id: FragmentId, pc: AppPc, checked: CachePc) -> CachePc {
        let fragment = &self.cache.fragments[id.index()];
        // Code that may change is no trace, and may be kept from being read.
        let fixed = fragment.source.is_none() && !fragment.guarded;
        match fixed && is_return_site(pc) {
            true => self.cache.arrival(id, checked),
            false => checked,
        }
    }

    /// Leads to the fragment of `pc` without the dispatcher from here on: from the exit, and (`checked`) from
    /// the thread's indirect branches.
    pub fn lead_to(
        &mut self,
        id: FragmentId,
        thread: &Thread,
        pc: AppPc,
        from: Option<ExitId>,
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
            let fragment = &self.cache.fragments[id.index()];
            let app = fragment.app;
            if let Some(at) = fragment.checked {
                let at = self.arrival(id, app, at);
                self.targets[thread.targets].put(app, Key::NONE, at);
            }
        }
    }

    /// The fragment at `pc` has been counted to the end: a trace may start there, at time `now`.
    pub fn came_to_hot(&mut self, thread: &mut Thread, pc: AppPc, now: u64) {
        match self.is_full() {
            true => self.flush(Flush::Full),
            false if self.asks_first(now) => {}
            false => self.start_recording(thread, pc),
        }
    }

    /// A thread that runs beside others in this memory is about to be made: what was made for
    /// one alone is not entered any more.
    pub fn be_joined(&mut self) {
        if !core::mem::replace(&mut self.overflowing, true) && !self.aggressive {
            self.cache.retire_loops();
        }
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
        control.engine.invalidations.fetch_add(1, Relaxed);
        work::add(&control.work.flushes[why as usize], 1);
        if why != Flush::Phase && control.traces.made.load(Relaxed) != 0 {
            let fragments = control.engine.fragments.load(Relaxed);
            self.phases.flushed(sys::process_cpu(), fragments);
        }
        self.pairs.forget(false);
        for targets in &mut self.targets {
            targets.clear();
        }
        self.reclaim(alone);
        self.spent_in(Part::Flush, began);
    }
}

/// Returns whether what is before `pc`, where a fragment begins, is a call, as far as bytes of the same page can tell.
fn is_return_site(pc: AppPc) -> bool {
    if pc.0 % PAGE < LONGEST_CALL as u64 {
        return false;
    }
    // SAFETY: of a page of code that does not change, which was read to make the fragment, or compared to take it from the run before;
    // what takes such a page away retires the fragment first.
    let bytes = unsafe { ((pc.0 - LONGEST_CALL as u64) as *const [u8; LONGEST_CALL]).read() };
    ends_with_call(&bytes)
}
