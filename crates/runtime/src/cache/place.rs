//! Placement: the arena of a piece of app code, and the memory in it that the next fragment takes.
#![allow(unsafe_code)] // reason: opens memory of arenas for code.

use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::arena::{Arena, LINE};
use super::{Cache, Fragment, FragmentState, Head, Part};
use crate::base::address::{CachePc, Range};
use crate::base::emit::Code;
use crate::base::ids::FragmentId;
use crate::base::stress;

impl Cache {
    /// The arena for code in `range`, made if there is none; `None` when there is no room.
    pub fn arena_for(&mut self, range: Range) -> Option<usize> {
        let far = self.far;
        let reaches = |a: &Arena| far || a.reaches(range);
        let mut arenas = self.arenas.iter();
        if let Some(i) = arenas.position(|a| reaches(a) && !a.is_cut()) {
            return Some(i);
        }
        let cut = self.arenas.iter().rposition(reaches);
        if cut.is_some() && self.confined {
            return cut;
        }
        let Some(arena) = Arena::reserve(range, far, self.grows) else {
            self.confined = cut.is_some();
            return cut;
        };
        self.parts.push(Part {
            code: arena.code.next,
            stubs: arena.stubs.next,
            fragments: Vec::new(),
        });
        self.arenas.push(arena);
        Some(self.arenas.len() - 1)
    }

    /// An arena.
    pub fn arena(&self, i: usize) -> &Arena {
        &self.arenas[i]
    }

    /// Returns whether there is as much room for a fragment of an arena and its stubs.
    pub fn has_room(&mut self, arena: usize, code: u64, stubs: u64) -> bool {
        self.arenas[arena].has_room(code, stubs)
    }

    /// Memory for the next fragment of an arena and for its stubs. [`Self::place`] takes what was
    /// used of it.
    ///
    /// # Safety
    /// Neither is used any more when something is placed in the arena.
    ///
    /// # Panics
    /// When there is not as much room.
    pub unsafe fn open(
        &mut self,
        arena: usize,
        code: u64,
        stubs: u64,
    ) -> (Code<'static>, Code<'static>) {
        let a = &mut self.arenas[arena];
        // SAFETY: handed on to the caller.
        unsafe { (a.code.open(code), a.stubs.open(stubs)) }
    }

    /// Takes a finished fragment and its stubs, of these lengths, where they were made. `pages` are
    /// those that its app code is in. One that is not live is not found by its address.
    pub fn place(
        &mut self,
        arena: usize,
        code: usize,
        stubs: usize,
        fragment: Fragment,
        pages: &[u64],
    ) -> FragmentId {
        let line = self.line(fragment.head == Head::Trace);
        let a = &mut self.arenas[arena];
        a.stubs.take(stubs as u64, 1);
        stress::delay();
        let at = a.code.take(code as u64, line);
        let id = FragmentId(self.fragments.len() as u32);
        self.parts[arena].fragments.push((CachePc(at), id));
        self.fragments.push(fragment);
        if fragment.state == FragmentState::Live {
            self.table.insert(fragment.key(), id);
            self.index.add(id, pages);
        }
        id
    }

    /// Returns the alignment of what follows a fragment.
    fn line(&self, trace: bool) -> u64 {
        /// Alignment of fragments when there are traces: hot code is made anew as a trace, and the rest is packed.
        const PACKED: u64 = 16;
        match self.heads.threshold != 0 && !trace {
            true => PACKED,
            false => LINE,
        }
    }

    /// Marks what does the app's work in `len` bytes of code at `at`.
    pub fn mark(&mut self, arena: usize, at: CachePc, len: usize, work: &[(u32, u32)]) {
        self.arenas[arena].mark(at, len, work);
    }

    /// Returns the start addresses of arenas.
    pub fn arena_starts(&self) -> impl Iterator<Item = u64> {
        self.arenas.iter().map(Arena::base)
    }

    /// The next fragment of an arena starts a cache line.
    pub fn align_code(&mut self, arena: usize) {
        self.arenas[arena].code.take(0, LINE);
    }

    /// The next fragment of an arena begins so many bytes after the start of a cache line.
    pub fn align_to(&mut self, arena: usize, phase: u64) {
        let code = &mut self.arenas[arena].code;
        let gap = phase.wrapping_sub(code.next) % LINE;
        code.take(gap, 1);
    }

    /// Places code on the way to a fragment that is not part of it (a tag check made later, a jump to another
    /// arena, what counts a pair) where `Arena::next` says: among the fragments, as it is executed as often
    /// as they are. Jumps from where the stubs are and back cost ten nanoseconds each on some processors.
    pub fn place_lead(&mut self, arena: usize, code: &[u8]) -> CachePc {
        let line = self.line(false);
        CachePc(self.arenas[arena].code.put(code, line))
    }

    /// The arena that holds a cache address.
    pub fn arena_of(&self, pc: CachePc) -> Option<usize> {
        self.arenas.iter().position(|a| a.holds(pc))
    }

    /// Memory that the next fragments of an arena will take is on its way to the processor.
    pub fn prefetch_room(&self, arena: usize) {
        /// Fragments ahead, and bytes of each of their parts.
        const AHEAD: usize = 3;
        const CODE: usize = 128;
        const STUBS: usize = 40;
        let arena = &self.arenas[arena];
        let code = (arena.code.next as *const u8).wrapping_add(AHEAD * CODE);
        let stubs = (arena.stubs.next as *const u8).wrapping_add(AHEAD * STUBS);
        fn end<T>(list: &[T], ahead: usize) -> *const u8 {
            list.as_ptr().wrapping_add(list.len() + ahead).cast()
        }
        let fragment = end(&self.fragments, AHEAD);
        let lines = [
            code,
            code.wrapping_add(LINE as usize),
            stubs,
            fragment,
            fragment.wrapping_add(LINE as usize),
            end(&self.steps, 4 * AHEAD),
            end(&self.steps, 4 * AHEAD + 2),
            end(&self.exits, 2 * AHEAD),
            end(&self.exits, 2 * AHEAD + 1),
        ];
        for line in lines {
            // SAFETY: a prefetch reads nothing and does not fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_within_reach_of_its_code() {
        let code = an_arena_is_within_reach_of_its_code as *const () as u64;
        let range = Range {
            start: code & !0xfff,
            end: (code & !0xfff) + 0x1000,
        };
        let mut cache = Cache::new();
        let i = cache.arena_for(range).expect("room");
        assert_eq!(cache.arena_for(range), Some(i));
        assert!(cache.arena(i).next().0.abs_diff(code) < 1 << 31);
    }
}
