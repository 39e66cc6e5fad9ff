//! Code that changes while the program runs.
//!
//! # Problem
//! Programs load and unload libraries, make code in memory that they then protect, make it in memory
//! that stays writable, and change code that other threads execute. Natively the processor sees each
//! change at once, or at the latest when an instruction serializes. The code cache must be as exact,
//! at a cost in proportion to what was executed of the code in question.
//!
//! # Strategy
//! *Calls that change the map* reach here ([`change_map`]). Fragments of the pages become suspect
//! (`cache::suspect`); the call is made while the lock is held, so nobody makes fragments meanwhile.
//!
//! *Stores* to pages with code fault (`pages`, `signal::written`): [`Runtime::open`]. If the store is
//! in a fragment of the page that it changes, that fragment is given up before it: the store's
//! instruction is executed by a fragment of its own ([`Runtime::single`]), and the next is looked up
//! anew.
//!
//! *Stores that cannot be seen*, through another mapping or because the page is unsteady, are found
//! by guarded fragments, which compare their code (`translate::made`): [`Runtime::recheck`].
//!
//! *Suspects* become live again in [`Runtime::revive`].
//!
//! # What other threads see
//! A thread that is in a fragment goes on to its next exit, at most as many instructions away as a
//! fragment has, with the code as it was: as if the change had come that much later. Fragments of
//! code that may change end at instructions that serialize.
//!
//! # The host
//! Records name addresses. Where there was code of a file, the host is done with all records before
//! the map changes. Code without a file has its addresses for names, which mean the same before
//! and after; so a program that makes code never waits.
#![allow(unsafe_code)] // reason: puts the app's pages back in a copy of the process.

use core::sync::atomic::Ordering::Relaxed;

use crate::base::address::{AppPc, Range};
use crate::base::ids::FragmentId;
use crate::base::keys::with_keys_lifted;
use crate::base::prefix::Prefix;
use crate::engine::state::{Process, Runtime};
use crate::memory::pages::{page_of, whole};
use crate::memory::region::Lookup;
use crate::translate::{Refusal, Shape, prepare};

impl Runtime {
    /// The app's code in `range` may have changed: fragments made from it are not entered any more
    /// before it has been compared.
    pub(crate) fn doubt(&mut self, range: Range) {
        if self.cache.doubt_range(range) {
            self.shared
                .control()
                .engine
                .invalidations
                .fetch_add(1, Relaxed);
        }
    }

    fn concerns(&self, range: Range) -> bool {
        self.regions.meets(range) || self.code_pages.any_protected(range)
    }

    /// The app stores to a page. Whether it was protected.
    pub fn open(&mut self, page: u64) -> bool {
        let range = Range {
            start: page,
            end: page + 1,
        };
        if !self.code_pages.any_protected(range) {
            return false;
        }
        self.doubt(range);
        self.code_pages.open(page)
    }

    /// All pages of `range` are about to be written to, by the kernel or the runtime.
    pub fn open_all(&mut self, range: Range) {
        if self.code_pages.any_protected(range) {
            self.doubt(range);
            self.code_pages.forget(range);
        }
    }

    /// No page that the app may write is protected from now on, if `all`: what is not writable any more could not be made so again
    /// (`PR_SET_MDWE`). Returns whether that was so before.
    pub fn leave_writable(&mut self, all: bool) -> bool {
        if all {
            self.open_all(Range {
                start: 0,
                end: u64::MAX,
            });
        }
        core::mem::replace(&mut self.code_pages.unsteady, all)
    }

    /// The fragment of `pc` that is live again because the code it was made from is there.
    pub fn revive(&mut self, pc: AppPc) -> Option<FragmentId> {
        let code = self.cache.suspects_of(pc)?;
        let guarded = self.code_is_there(code)?;
        with_keys_lifted(|| self.cache.revive(pc, guarded))
    }

    /// Prepares the pages of `code` to be compared. Returns whether a fragment of it must be guarded, or `None` where there is no code to be
    /// read.
    fn code_is_there(&mut self, code: Range) -> Option<bool> {
        let mut guarded = false;
        let mut at = code.start;
        while at < code.end {
            // Otherwise the map has changed; what there is now is found out by who translates it.
            let (Lookup::Code(region), false) = self.regions.find(AppPc(at), &self.code_pages)
            else {
                return None;
            };
            let windows = self.has_windows();
            if !self.regions.page_is_readable(region, page_of(at)) {
                return None;
            }
            let mapping = &self.regions.known[region];
            guarded |= windows || prepare(&mut self.code_pages, mapping, page_of(at));
            at = whole(Range {
                start: at,
                end: at + 1,
            })
            .end;
        }
        Some(guarded)
    }

    /// The guarded fragment of `pc` found its code changed.
    pub fn recheck(&mut self, pc: AppPc, prefix: Prefix) {
        self.cache.drop_parts(pc);
        let live = self.cache.lookup_on(pc, prefix);
        let Some(id) = live.filter(|&id| self.cache.fragments[id.index()].guarded) else {
            return;
        };
        self.shared
            .control()
            .engine
            .invalidations
            .fetch_add(1, Relaxed);
        self.cache.doubt(id);
    }

    /// A fragment of the one instruction at `pc`, which may change the code after it.
    pub fn single(&mut self, pc: AppPc, prefix: Prefix) -> Result<(FragmentId, bool), Refusal> {
        if prefix == Prefix::NONE
            && let Some(span) = self.cache.span_of_single(pc)
            && self.regions.can_be_read(span)
            && let Some(id) = with_keys_lifted(|| self.cache.single(pc))
        {
            return Ok((id, false));
        }
        let (id, flushed) = self.make((pc, prefix), Shape::Single)?;
        self.cache.keep_single(pc, id);
        Ok((id, flushed))
    }

    /// The app is detached: it finds its pages as it believes they are.
    pub fn close_pages(&mut self) {
        self.code_pages.close();
    }
}

/// Makes a call of the app that changes the map in `range`, to `protection` if that is all it
/// changes. Returns the kernel's answer.
pub fn change_map(
    process: &Process,
    range: Range,
    protection: Option<u32>,
    mut call: impl FnMut() -> i64,
) -> i64 {
    let range = whole(range);
    let mut runtime = process.runtime.lock();
    if runtime.concerns(range) && runtime.regions.is_reported(range) {
        drop(runtime);
        // Records that name this code must be understood while it is what it was.
        let _ = process.queue.settle();
        runtime = process.runtime.lock();
    }
    if !runtime.concerns(range) {
        drop(runtime);
        let result = call();
        // Another thread may have come meanwhile.
        runtime = process.runtime.lock();
        if runtime.concerns(range) {
            runtime.doubt(range);
            runtime.code_pages.forget(range);
            runtime.regions.forget(range);
        }
        return result;
    }
    runtime.doubt(range);
    runtime.code_pages.forget(range);
    let result = call();
    match protection {
        Some(protection) if result == 0 => runtime.regions.protect(range, protection),
        _ => runtime.regions.forget(range),
    }
    result
}

/// Makes a call of the app after which nobody may read what is in `range`. Nobody reads code meanwhile, also where none is known yet.
pub fn take_away(process: &Process, range: Range, mut call: impl FnMut() -> i64) -> i64 {
    let range = whole(range);
    let mut runtime = process.runtime.lock();
    if runtime.regions.is_reported(range) {
        drop(runtime);
        let _ = process.queue.settle();
        runtime = process.runtime.lock();
    }
    runtime.doubt(range);
    runtime.code_pages.forget(range);
    let result = call();
    runtime.regions.forget(range);
    result
}

/// Handles a call that has replaced the contents of `range`.
pub fn replaced(process: &Process, range: Range) {
    change_map(process, range, None, || 0);
}
