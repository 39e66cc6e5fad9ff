//! Exits of fragments, and links: from an exit straight to the fragment that follows.
//!
//! An exit leads to its stub at first, which goes to the dispatcher with the exit's number. A link is one store to the displacement
//! of the exit's jump. Exits that are linked to the same fragment form a list, so that they are found when the fragment is retired.
//! A fragment in another arena may be out of reach of a jump. Then the link leads to a jump beside the exit's own fragment.
#![allow(unsafe_code)] // reason: rewrites displacements of jumps.

use super::Cache;
use crate::base::address::{AppPc, CachePc};
use crate::base::emit::Code;
use crate::base::ids::{ExitId, FragmentId};
use crate::base::prefix::Prefix;
use crate::base::stress;

/// An exit.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The 32-bit displacement to rewrite; of an exit that is never linked, the system call that it
    /// is before, or 0.
    pub patch: CachePc,
    /// Address that the app goes to.
    pub target: AppPc,
    /// Prefix of the acyclic path at the target, where acyclic paths are counted.
    pub prefix: Prefix,
    /// The displacement that leads to the exit's stub, or 0 when this exit is never linked.
    pub stub: i32,
    /// App instructions of its fragment up to it, if that is recorded.
    pub insns: u16,
    /// Kind of transfer that leads through the exit.
    pub way: Way,
    /// True if a trace may start at the target.
    pub counts: bool,
    /// The fragment it is linked to, or [`FragmentId::NONE`].
    pub to: FragmentId,
    /// The next exit that is linked to the same, or [`UNLINKED`]. Before that, where only threads know what follows, the path of the dictionary that ends here.
    pub next_link: u32,
}

/// Kind of transfer that leads through an exit, as far as the selection of traces asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A branch that goes forward, or nothing.
    Forward,
    /// A branch that goes backward.
    Backward,
    /// A call.
    Call,
    /// A return.
    Return,
    /// An indirect jump.
    Indirect,
    /// A system call, made in place.
    Syscall,
    /// The branch back of a loop within a trace, which is linked to its own fragment only.
    Loop,
    /// An indirect branch of a trace that goes elsewhere than was seen; [`Exit::next_link`] is its
    /// number among the sites.
    Site,
    /// After an instruction that has stored the x87 unit's record of its last instruction. Such an exit is never linked.
    Stored,
}

/// The end of a list of exits.
pub const UNLINKED: u32 = u32::MAX;

impl Exit {
    /// Returns an exit that is never linked.
    pub const fn fixed(target: AppPc) -> Self {
        Self {
            patch: CachePc(0),
            target,
            prefix: Prefix::NONE,
            stub: 0,
            insns: 0,
            way: Way::Forward,
            counts: false,
            to: FragmentId::NONE,
            next_link: UNLINKED,
        }
    }
}

impl Cache {
    /// Numbers an exit of the current generation.
    pub fn new_exit(&mut self, exit: Exit) -> ExitId {
        let number = self.next_exit();
        self.exits.push(exit);
        number
    }

    /// Links exits from an index on to what there is already, but for those where a trace may start.
    pub fn link_among(&mut self, from: usize) {
        for n in from..self.exits.len() {
            let exit = self.exits[n];
            if exit.stub != 0
                && (!exit.counts || self.heads.threshold == 0)
                && exit.to == FragmentId::NONE
                && let Some(id) = self.lookup_on(exit.target, exit.prefix)
            {
                self.link(self.first_exit.plus(n), id);
            }
        }
    }

    /// Tells where the system call is that an exit of the current generation is before.
    pub fn call_is_at(&mut self, number: ExitId, at: CachePc) {
        if let Some(n) = self.current_exit(number) {
            self.exits[n].patch = at;
        }
    }

    /// An exit's place in [`Self::exits`], if it is of the current generation.
    pub(super) fn current_exit(&self, number: ExitId) -> Option<usize> {
        let n = number.since(self.first_exit) as usize;
        (n < self.exits.len()).then_some(n)
    }

    /// An exit by its number.
    pub fn exit(&self, number: ExitId) -> Exit {
        if let Some(n) = self.current_exit(number) {
            return self.exits[n];
        }
        let resting = self.resting.iter().map(|e| (e.first_exit, &e.exits));
        let old = self.old.iter().map(|g| (g.first_exit, &g.exits));
        let found = resting.chain(old).find_map(|(first, exits)| {
            let n = number.since(first) as usize;
            exits.get(n).copied()
        });
        // A thread that takes an exit has not come out of the cache since: its generation is there, or what it was in of that.
        let found = found.or_else(|| self.pinned_exit(number));
        found.unwrap_or(Exit::fixed(AppPc(0)))
    }

    /// Writes a displacement that other threads may be executing.
    pub(super) fn patch(patch: CachePc, rel: i32) {
        stress::delay();
        // SAFETY: `patch` is the displacement of a jump inside a fragment or stub of ours, in one
        // cache line; a single store, so that a thread fetches the old one or the new.
        unsafe {
            core::arch::asm!("mov dword ptr [{}], {:e}", in(reg) patch.0, in(reg) rel, options(nostack, preserves_flags));
        }
    }

    /// Lets an exit lead straight to a fragment, unless it is of another generation. A fragment in
    /// an arena too far away is reached through a stub.
    pub fn link(&mut self, number: ExitId, id: FragmentId) {
        const FAR_JUMP: u64 = 16;
        let Some(n) = self.current_exit(number) else {
            return;
        };
        let exit = self.exits[n];
        if exit.stub == 0
            || exit.to == id
            || self.unlinked
            || matches!(exit.way, Way::Loop | Way::Stored)
        {
            return;
        }
        let distance = |to: CachePc| i32::try_from(to.0 as i64 - exit.patch.0 as i64 - 4);
        let entry = match exit.counts {
            true => self.counted_entry(id),
            false => self.fragments[id.index()].entry,
        };
        let rel = match (distance(entry), self.arena_of(exit.patch)) {
            (Ok(rel), _) => rel,
            (Err(_), Some(arena)) if self.arenas[arena].room() >= FAR_JUMP => {
                let mut bytes = [0; FAR_JUMP as usize];
                let mut code = Code::new(self.arenas[arena].next(), &mut bytes);
                code.jmp_far(entry.0);
                let at = self.place_lead(arena, code.bytes());
                let Ok(rel) = distance(at) else { return };
                rel
            }
            _ => return,
        };
        let fragment = &mut self.fragments[id.index()];
        self.exits[n].to = id;
        self.exits[n].next_link = core::mem::replace(&mut fragment.first_link, n as u32);
        self.exits[n].prefix = fragment.prefix;
        self.links += 1;
        Self::patch(exit.patch, rel);
    }

    /// Takes note that the branch back of a loop leads into fragment `id`, as long as that is not retired.
    pub fn link_loop(&mut self, number: ExitId, id: FragmentId) {
        let Some(n) = self.current_exit(number) else {
            return;
        };
        let fragment = &mut self.fragments[id.index()];
        self.exits[n].to = id;
        self.exits[n].next_link = core::mem::replace(&mut fragment.first_link, n as u32);
    }
}
