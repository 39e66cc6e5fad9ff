//! Retired fragments that are kept, and the reclaiming of memory.
//!
//! # Problem
//! Old fragments may be executed until every thread has come out of the cache. A thread that sleeps in a system call made
//! in place (one that reads from a pipe, say) may not come out for as long as the program lives. A server has hundreds
//! of such threads. If each held all code that was made since it went to sleep, a program that generates code as it goes
//! would fill the cache in the end.
//!
//! # Strategy
//! [`Cache::reclaim`] knows of each thread in which epoch it came out last, or else exactly where it is *held*: after a
//! system call in a fragment. Such a call ends its fragment. The thread will execute only the few instructions after the
//! call, and a stub. When the generation goes, the fragment stays as a *pin*: its code, the stub, its steps (a signal may
//! find the thread there) and that exit. A pin goes when no thread is held in it and those that were have come out.
//!
//! # Why it is correct
//! * A fragment that is pinned was retired: no link and no table leads to it, and its exits lead to their stubs. So only
//!   a thread that is in it already executes it. From there the thread goes to the dispatcher.
//! * A thread that was held and is not any more has an epoch before the pin's, until it comes out.
//! * The number of an exit is given to no other as long as anybody may hold it ([`anew`]). Those of pins are left out
//!   ([`Cache::exits_from`]).
#![allow(unsafe_code)] // reason: reads displacements of jumps.

use alloc::vec::Vec;
use core::mem::take;

use super::arena::{Arena, Extent};
use super::{Cache, Exit, Fragment, Part, Step};
use crate::base::address::CachePc;
use crate::base::ids::ExitId;

/// Distance between the numbers of the exits of a generation's first variant and those of its second.
pub(super) const APART: ExitId = ExitId(1 << 31);

/// Returns the number that exits begin with when no generation but a new one is left, after `next`. Numbers go on, so that one of a
/// generation that is gone is nobody's: who dropped it may still hold that number. They begin anew where they come near the others'.
fn anew(next: ExitId) -> ExitId {
    const MOST: u32 = APART.0 / 2;
    let base = ExitId(next.0 & APART.0);
    match next.since(base) < MOST {
        true => next,
        false => base,
    }
}

/// Fragments that were retired together.
#[derive(Default)]
pub(super) struct Generation {
    /// Threads that came out of the cache in this epoch or later are not in it.
    pub(super) epoch: u64,
    /// The tables of indirect targets were emptied since the last of them came out.
    pub(super) forgotten: bool,
    pub(super) first_exit: ExitId,
    pub(super) fragments: Vec<Fragment>,
    pub(super) steps: Vec<Step>,
    pub(super) exits: Vec<Exit>,
    pub(super) parts: Vec<Part>,
    /// Ranges of its fragments and of its stubs, by arena.
    pub(super) extents: Vec<[Extent; 2]>,
}

impl Generation {
    /// Creates a generation that has ended now.
    pub(super) fn of(epoch: u64, parts: Vec<Part>, arenas: &[Arena]) -> Self {
        let extents = parts.iter().zip(arenas);
        let extents = extents.map(|(part, a)| [a.code.since(part.code), a.stubs.since(part.stubs)]);
        Self {
            epoch,
            extents: extents.collect(),
            parts,
            ..Self::default()
        }
    }

    /// The fragments in which threads are held at these addresses.
    fn pins(&self, arenas: &[Arena], held: &[CachePc]) -> Vec<Pin> {
        let mut pins: Vec<Pin> = Vec::new();
        for &pc in held {
            let Some(arena) = arenas.iter().position(|a| a.holds(pc)) else {
                continue;
            };
            let list = self.parts.get(arena).map_or(&[][..], |p| &p.fragments);
            let after = list.partition_point(|&(start, _)| start <= pc);
            let Some(&(start, id)) = after.checked_sub(1).and_then(|n| list.get(n)) else {
                continue;
            };
            let fragment = self.fragments[id.index()];
            if pc >= fragment.end || pins.iter().any(|p| p.fragment.entry == fragment.entry) {
                continue;
            }
            let first = fragment.first_step as usize;
            pins.push(Pin {
                epoch: self.epoch,
                arena,
                fragment,
                steps: self.steps[first..first + fragment.steps as usize].to_vec(),
                exits: Vec::new(),
                code: Extent {
                    start: start.0,
                    end: fragment.end.0,
                },
                stubs: Vec::new(),
                after: pc,
            });
        }
        if pins.is_empty() {
            return pins;
        }
        for (n, exit) in self.exits.iter().enumerate() {
            let taken = |p: &&mut Pin| p.after <= exit.patch && exit.patch.0 < p.code.end;
            if let Some(pin) = pins.iter_mut().find(taken) {
                pin.keep_exit(self.first_exit.plus(n), *exit);
            }
        }
        pins
    }
}

/// A fragment of a generation that is gone, in which threads wait.
pub(super) struct Pin {
    /// Threads that came out of the cache in this epoch or later are not in it.
    epoch: u64,
    arena: usize,
    fragment: Fragment,
    steps: Vec<Step>,
    exits: Vec<(ExitId, Exit)>,
    code: Extent,
    stubs: Vec<Extent>,
    /// Address after the call, where the threads go on.
    after: CachePc,
}

impl Pin {
    /// The jump after the call, which leads to its stub since the fragment was retired.
    fn keep_exit(&mut self, number: ExitId, exit: Exit) {
        /// Bytes of a stub at most.
        const STUB: u64 = 32;
        // SAFETY: the displacement of a jump in a fragment that is still there; written under the lock only, which is held.
        let rel = unsafe { (exit.patch.0 as *const i32).read_unaligned() };
        let start = (exit.patch.0 + 4).wrapping_add_signed(rel.into());
        self.exits.push((number, exit));
        self.stubs.push(Extent {
            start,
            end: start + STUB,
        });
    }
}

impl Cache {
    /// Reclaims the memory of generations that no thread can be in. All threads have come out of the
    /// cache in epoch `seen` or later, but for those that wait in system calls which return to addresses in `held`.
    /// `alone`: there is one thread, which is out of it. Returns whether tables of indirect targets have to be emptied.
    ///
    /// The current generation goes on where there is room then.
    pub fn reclaim(&mut self, seen: u64, held: &[CachePc], alone: bool) -> bool {
        let next = self.epoch + 1;
        let mut forgot = false;
        let mut pins = take(&mut self.pins);
        pins.retain(|p| p.epoch > seen || held.iter().any(|pc| p.code.holds(pc.0)));
        let arenas = &self.arenas;
        self.old.retain_mut(|g| {
            if g.epoch > seen && !alone {
                return true;
            }
            // A thread may have put an entry back, and another have read it just now: once more.
            let again = !g.forgotten && !alone;
            if again {
                (g.forgotten, g.epoch, forgot) = (true, next, true);
            } else {
                pins.extend(g.pins(arenas, held));
            }
            again
        });
        self.pins = pins;
        if forgot {
            self.epoch = next;
        }
        self.make_gaps();
        if self.old.is_empty() && self.is_new() {
            self.first_exit = self.exits_from(anew(self.first_exit));
            self.spare_exit = self.exits_from(anew(self.spare_exit));
            self.renumber_recipes();
        }
        forgot
    }

    /// Frees all ranges that are not kept any more.
    fn make_gaps(&mut self) {
        let resting = self.resting.is_some();
        for (n, (arena, part)) in self.arenas.iter_mut().zip(&mut self.parts).enumerate() {
            let anew = !resting && is_untouched(arena, part);
            let old = self.old.iter().filter_map(|g| g.extents.get(n));
            let pins = || self.pins.iter().filter(|p| p.arena == n);
            let code = old.clone().map(|e| e[0]).chain(pins().map(|p| p.code));
            let stubs = old
                .map(|e| e[1])
                .chain(pins().flat_map(|p| p.stubs.iter().copied()));
            arena.code.keep(code.collect(), anew);
            arena.stubs.keep(stubs.collect(), anew);
            if anew {
                (part.code, part.stubs) = (arena.code.next, arena.stubs.next);
            }
        }
    }

    /// Renumbers the recipes of pins: only pins still have steps.
    fn renumber_recipes(&mut self) {
        let recipes = take(&mut self.recipes);
        let mut pins = take(&mut self.pins);
        for step in pins.iter_mut().flat_map(|p| &mut p.steps) {
            let n = (step.recipe as usize).checked_sub(1);
            step.recipe = self.new_recipe(n.and_then(|n| recipes.get(n).copied()));
        }
        self.pins = pins;
    }

    /// Returns whether nothing was placed since the current generation began.
    pub fn is_new(&self) -> bool {
        let mut all = self.arenas.iter().zip(&self.parts);
        self.resting.is_none() && all.all(|(arena, part)| is_untouched(arena, part))
    }

    /// Returns whether threads may be in earlier generations.
    pub fn has_old(&self) -> bool {
        !self.old.is_empty()
    }

    /// Returns whether it is worth while to find out where each thread is: so much of the arenas, or so many generations, are kept.
    pub fn is_short(&self) -> bool {
        const MANY: usize = 16;
        self.has_old() && (self.old.len() > MANY || self.arenas.iter().any(Arena::is_short))
    }

    /// Returns whether what followed on the current generation, with threads still in this one, would find little room.
    pub fn is_low(&self) -> bool {
        self.arenas.iter().any(Arena::is_low)
    }

    /// Returns the first number for exits of a generation, from `first` on. Numbers of pins' exits are left out.
    pub(super) fn exits_from(&self, mut first: ExitId) -> ExitId {
        /// More than a generation has.
        const MANY: u32 = 1 << 26;
        let taken = || self.pins.iter().flat_map(|p| &p.exits);
        while let Some(&(number, _)) = taken().find(|(n, _)| n.since(first) < MANY) {
            first = number.plus(1);
        }
        first
    }

    /// Returns true if a fragment at this address is kept for a thread that waits there.
    pub fn is_pinned(&self, pc: CachePc) -> bool {
        self.pins.iter().any(|p| p.code.holds(pc.0))
    }

    pub(super) fn pinned_exit(&self, number: ExitId) -> Option<Exit> {
        let mut all = self.pins.iter().flat_map(|p| &p.exits);
        all.find(|(n, _)| *n == number).map(|&(_, exit)| exit)
    }

    pub(super) fn pinned_at(&self, pc: CachePc) -> Option<(Fragment, &[Step])> {
        let pin = self.pins.iter().find(|p| p.code.holds(pc.0))?;
        Some((pin.fragment, &pin.steps))
    }
}

fn is_untouched(arena: &Arena, part: &Part) -> bool {
    arena.code.next == part.code && arena.stubs.next == part.stubs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::address::AppPc;

    #[test]
    fn the_number_of_an_exit_that_is_gone_is_nobodys() {
        let mut cache = Cache::new();
        let mut gone = Vec::new();
        for generation in 0..8_u64 {
            let exit = cache.new_exit(Exit::fixed(AppPc(generation)));
            assert!(!gone.contains(&exit));
            gone.push(exit);
            cache.next_generation(true);
            cache.reclaim(u64::MAX, &[], true);
            cache.new_exit(Exit::fixed(AppPc(!0)));
            for &number in &gone {
                assert!(cache.current_exit(number).is_none());
            }
        }
    }

    #[test]
    fn numbers_begin_anew_in_their_own_half() {
        for base in [0, APART.0] {
            assert_eq!(anew(ExitId(base + 7)), ExitId(base + 7));
            assert_eq!(anew(ExitId(base + (1 << 30))), ExitId(base));
        }
    }
}
