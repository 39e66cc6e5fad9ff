//! Indirect branches that are counted: which went where.
//!
//! # Problem
//! What an indirect branch or call did is known only when it runs, and a record of it costs more
//! than the branch. An interpreter executes little else.
//!
//! # Strategy
//! A branch that is counted looks into the same table as all others, but at another index: the low
//! 16 bits of the sum of the target and the branch's *key*, a number from 1 to 65535 that no other
//! branch has. So a place in the table belongs to a *pair* of branch and target, and leads to a few
//! instructions of the pair's own:
//!
//! ```text
//!   tag check               the target is the pair's
//!   count                   the path that ends in this branch to this target
//!   rcx, rdx from their slots
//!   jump                    an exit, linked to the target's fragment
//! ```
//!
//! That costs what the checked entry would have cost, and the count. A pair is made when it is met
//! first, by the dispatcher, which counts that time. Branches that are not counted, as returns, have
//! the key 0.
//!
//! Where the check fails, or the place in the table is empty, the key follows from the index and the
//! target, and the second table is searched for both together (`arch::mismatch`). So a branch says
//! nothing of itself where it is executed.
//!
//! # Why it is correct
//! A pair's check compares the whole target. Who passes it and reached the pair's index has the
//! pair's key, as keys are below 2^16; who reached the second table has both, as targets are below
//! 2^48. A key is given to another branch only when no thread can be in a fragment with the first, which
//! is when no old generation is left.

use crate::base::prefix::Key;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use trommel_queue::dict::{Event, Passed, TargetPc};

use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, GsOffset, Reg};
use crate::base::prefix::Prefix;
use crate::cache::{Exit, UNLINKED};
use crate::channel::deliver::DictionaryFull;
use crate::engine::dispatch::Runtime;
use crate::process::thread::Thread;
use crate::slot;
use crate::translate::{Refusal, Translator, pair_check};
use trommel_tuple::Kind;

/// What is known of a branch.
#[derive(Clone, Copy)]
pub struct Branch {
    /// Its fragment's block in the dictionary, and which of its events come before the branch.
    pub block: (u32, Passed),
    /// The branch.
    pub pc: AppPc,
    /// It is a call.
    pub call: bool,
    /// The variant of the code that it is in.
    pub variant: u32,
}

impl Branch {
    /// What it is as an event.
    pub fn kind(&self) -> Kind {
        if self.call { Kind::Call } else { Kind::Edge }
    }
}

/// A branch and a target of it.
#[derive(Clone, Copy)]
struct Pair {
    /// The path that ends there, or that of messages about it.
    path: u32,
    /// Where the sampler counts it, if that is what counts.
    sampled: Option<GsOffset>,
    /// Its code, and the exit at the end of that.
    code: Option<(CachePc, u32)>,
}

/// All of them.
#[derive(Default)]
pub struct Pairs {
    branches: Vec<Branch>,
    known: BTreeMap<(Key, u64), Pair>,
}

impl Pairs {
    /// Whether another branch can be counted.
    pub fn have_room(&self) -> bool {
        self.have_room_for(1)
    }

    /// Whether so many more can.
    pub fn have_room_for(&self, branches: usize) -> bool {
        self.branches.len() + branches <= Key::MAX
    }

    /// Gives a branch its key. There must be room.
    pub fn key(&mut self, branch: Branch) -> Key {
        let number = self.branches.len();
        self.branches.push(branch);
        Key::of(number)
    }

    /// All code of pairs is gone. `alone`: and no branch that was counted is executed any more.
    pub fn forget(&mut self, alone: bool) {
        if alone {
            self.branches.clear();
            self.known.clear();
        }
        for pair in self.known.values_mut() {
            pair.code = None;
        }
    }

    /// All branches that have keys.
    #[cfg(test)]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The path that ends in a branch to a target.
    pub fn path(&self, key: Key, to: AppPc) -> Option<u32> {
        self.known.get(&(key, to.0)).map(|pair| pair.path)
    }

    /// What is known of the branch that has a key.
    pub fn branch(&self, key: Key) -> Option<Branch> {
        self.branches.get(key.number()?).copied()
    }
}

/// Why a branch was not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncounted {
    /// There is no room in the dictionary.
    DictionaryFull,
    /// The host must say first what it calls the target.
    Unnamed,
}

impl From<DictionaryFull> for Uncounted {
    fn from(_: DictionaryFull) -> Self {
        Self::DictionaryFull
    }
}

/// Where a branch that was counted goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Its exit, if that can be linked.
    pub exit: Option<u32>,
}

impl Runtime {
    /// A branch with this key to `to` has come to the dispatcher: counts it, and makes its way
    /// shorter. `None`: it is not counted.
    pub fn count_pair(
        &mut self,
        thread: &mut Thread,
        key: Key,
        to: AppPc,
    ) -> Result<Option<Counted>, Uncounted> {
        let Some(branch) = self.pairs.branch(key) else {
            return Ok(None);
        };
        let pair = match self.pairs.known.get(&(key, to.0)) {
            Some(&pair) => pair,
            None => {
                let tail = Event::Indirect {
                    pc: TargetPc(branch.pc.0),
                    target: TargetPc(to.0),
                    call: branch.call,
                };
                // The host finds out what is there when it meets the path.
                let (translator, mut site) = self.site();
                let region = Translator::region(&mut site, to);
                if region == Err(Refusal::Unnamed) {
                    return Err(Uncounted::Unnamed);
                }
                let (path, sampled) = match translator.message(&mut site, tail)? {
                    Some((counter, path)) => (path, Some(counter)),
                    None => {
                        let (block, passed) = branch.block;
                        (site.shared.path(block, passed, Some(tail))?, None)
                    }
                };
                let code = None;
                Pair {
                    path,
                    sampled,
                    code,
                }
            }
        };
        // Its code is of the variant in which its exit can be linked: a thread that is leaving another has none made.
        let place = branch.variant == self.cache.variant();
        let code = pair.code;
        let code = match code.is_none() && place {
            true => self.place_pair(branch, key, to, pair),
            false => code,
        };
        self.pairs.known.insert((key, to.0), Pair { code, ..pair });
        match pair.sampled {
            Some(counter) => match self.translator.profiler() {
                Some(profiler) => {
                    thread.count_known(pair.path, profiler.of_kind(branch.kind()));
                }
                None => thread.count_event(counter, pair.path),
            },
            None => thread.count_or_record(pair.path, 0),
        }
        if let Some((at, _)) = code {
            self.targets[thread.targets].put(to, key, at);
        }
        let exit = code.map(|(_, exit)| exit);
        Ok(Some(Counted { exit }))
    }

    /// Writes the code of a pair.
    fn place_pair(
        &mut self,
        branch: Branch,
        key: Key,
        to: AppPc,
        pair: Pair,
    ) -> Option<(CachePc, u32)> {
        const ROOM: usize = 384;
        let counter = match pair.sampled {
            Some(counter) => counter,
            None => self.translator.counter(pair.path)?,
        };
        let mut prefix = Prefix::NONE;
        if self.translator.ways.acyclic.is_some() {
            let on = self.path_of_pair(key, to)?;
            if let Some(acyclic) = self.translator.counting_acyclic() {
                prefix = acyclic.number_if_few(to, on);
            }
        }
        let near = |pc| self.regions.range_of(pc);
        let region = near(to).or_else(|| near(branch.pc))?;
        let arena = self.cache.arena_for(region)?;
        if to.0 >> 47 != 0 || self.cache.arena(arena).room() < ROOM as u64 {
            return None;
        }
        let at = self.cache.arena(arena).next();
        let mut bytes = [0; ROOM];
        let mut code = Code::new(at, &mut bytes);
        pair_check(&mut code, to, key);
        let mut ends = None;
        let mut ways = None;
        if let Some(profiler) = self
            .translator
            .profiler()
            .filter(|_| pair.sampled.is_some())
        {
            let found = code.shield_with_rcx(counter, profiler.of_kind(branch.kind()));
            ways = Some((found, code.at(code.here())));
        } else if pair.sampled.is_some() {
            let (end, _) = code.count_down_with_rcx(counter);
            ends = Some((end, code.at(code.here())));
        } else {
            code.count_with(Reg::RDX, counter);
        }
        code.load_gs(Reg::RDX, slot!(spill_rdx));
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        code.patchable(1);
        let from = code.jmp();
        // What is not linked goes on one byte behind: a distance of 0 is that of exits that never are.
        code.raw(&[0x90]);
        code.bind(from, code.here());
        let exit = self.cache.new_exit(Exit {
            patch: code.at(from.0),
            prefix,
            next_link: match prefix {
                Prefix::UNKNOWN => pair.path,
                _ => UNLINKED,
            },
            stub: 1,
            ..Exit::fixed(to)
        });
        code.store_gs_imm32(slot!(exit), exit);
        code.jmp_gs(slot!(entry.exit));
        if let Some((end, back)) = ends {
            code.bind(end, code.here());
            let start = self.translator.sampler().map_or(0, |s| s.rate());
            code.send_message(true, [counter.0, pair.path, start], back);
        }
        if let Some((ways, behind)) = ways {
            code.unshielded(true, pair.path, &ways);
            code.interval_ended(ways.ended, behind, None);
        }
        self.cache.place_lead(arena, code.bytes());
        Some((at, exit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_branch_has_a_key_of_its_own() {
        let mut seen = alloc::vec![false; 1 << 16];
        for number in 0..Key::MAX {
            let key = Key::of(number);
            assert_eq!(key.number(), Some(number));
            assert!(
                key != Key::NONE && !core::mem::replace(&mut seen[key.offset() as usize], true)
            );
        }
        assert_eq!(Key::NONE.number(), None);
    }
}
