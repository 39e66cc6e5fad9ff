//! Indirect branches of traces, each compared with where it went when the trace was recorded.
//!
//! # Why it is correct
//! A comparison leaves flags alone, like that of a checked entry, or can make them again
//! ([`flags`]). What it destroys of `rcx` and `rdx` is in their slots before anything can fault, and is
//! loaded again before the first instruction that uses it, as in fragments for indirect branches.

use trommel_queue::dict::Passed;
use trommel_tuple::Kind;

use super::looped::give_promoted_back;
use super::ways::{Kept, Missed};
use super::{Site, Translator, flags};
use crate::base::address::{AppPc, CachePc};
use crate::base::area::INDIRECT_TABLE;
use crate::base::decode::{Class, Insn, Rm};
use crate::base::emit::{Code, Reg, Rel32};
use crate::base::ids::EntryId;
use crate::base::prefix::Key;
use crate::base::recipe::Recipe;
use crate::cache::{Cache, Spilled};
use crate::channel::dictionary::DictionaryFull;
use crate::slot;

/// An indirect branch of a trace that goes elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Miss {
    pc: AppPc,
    from: Rel32,
    expected: AppPc,
    spilled: Spilled,
    target: Target,
    /// Recipe that makes the flags again that the comparison has destroyed.
    recipe: Option<Recipe>,
    /// The events of the block before it, which are counted with it if it has no key.
    passed: Passed,
    /// Key under which it is counted.
    key: Key,
    /// State that ways keep there.
    kept: Kept,
}

/// Place of an indirect branch's target when a comparison has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// Its difference to what was expected is in `rcx`.
    Difference,
    /// In `rcx`.
    Rcx,
    /// In a register of the app's.
    Register(Reg),
    /// On the stack, with so many bytes to release after it.
    Stack(u16),
}

/// A target that `lea` can subtract.
fn near(to: AppPc) -> Option<i32> {
    i32::try_from(to.0).ok()
}

impl Translator {
    /// `jmp`, `call` or `ret` to an address known only when it runs, which is most likely `to`; the block, and its events
    /// before it. Says what is in slots if it faults.
    pub(super) fn predicted(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        to: AppPc,
        (block, events): (Option<EntryId>, usize),
    ) -> Result<Spilled, DictionaryFull> {
        let counted = match insn.class {
            Class::JmpIndirect => self.wants(Kind::Edge),
            Class::CallIndirect => self.wants(Kind::Call),
            _ => false,
        };
        let key = match counted {
            true => self.key(site, insn, block, events)?,
            false => Key::NONE,
        };
        let passed = self.passed_up_to(events);
        if let Some((recipe, target)) = self.with_flags(insn, to) {
            return self.compared(site, insn, to, (recipe, target), (passed, key));
        }
        self.make_flags();
        self.spill_rcx();
        if near(to).is_none() {
            self.spill_rdx();
        }
        let at_fault = self.job.spilled;
        self.target_to(insn, Reg::RCX);
        self.ways_table(site, insn)?;
        match near(to) {
            Some(to) => self.job.code.lea(Reg::RCX, Reg::RCX, -to),
            None => {
                self.job.code.mov_imm(Reg::RDX, to.0.wrapping_neg());
                self.job.code.add_rdx_to_rcx();
            }
        }
        self.room_for_jump(2);
        self.job.code.patchable(3);
        let right = self.job.code.jrcxz();
        let from = self.job.code.jmp();
        self.job.misses.push(Miss {
            pc: insn.pc(),
            from,
            expected: to,
            spilled: self.job.spilled,
            target: Target::Difference,
            recipe: None,
            passed,
            key,
            kept: self.kept(),
        });
        self.job.code.bind8_here(right);
        Ok(at_fault)
    }

    /// Returns the recipe of the flags and the place of the target if a comparison may destroy flags. They are used
    /// if the comparison fails.
    fn with_flags(&self, insn: &Insn, to: AppPc) -> Option<(Recipe, Target)> {
        let recipe = self.job.flags.recipe?;
        let target = match (insn.class, insn.rm) {
            (Class::Ret(release), _) if near(to).is_some() => Target::Stack(release),
            (Class::Ret(_), _) => Target::Rcx,
            (_, Rm::Register(r)) if r != Reg::RSP => Target::Register(r),
            (_, Rm::Memory(_)) => Target::Rcx,
            _ => return None,
        };
        let moved = match (insn.class, target) {
            (Class::Ret(release), Target::Rcx) => 8 + i32::from(release),
            (Class::CallIndirect, _) => -8,
            _ => 0,
        };
        let recipe = recipe.with_stack_moved(moved)?;
        let needs_rcx = recipe.uses() & Reg::RCX.bit() != 0;
        (target != Target::Rcx || !needs_rcx).then_some((recipe, target))
    }

    /// Writes the comparison like [`Self::predicted`], with flags.
    fn compared(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        to: AppPc,
        (recipe, target): (Recipe, Target),
        (passed, key): (Passed, Key),
    ) -> Result<Spilled, DictionaryFull> {
        const NOT_EQUAL: u8 = 5;
        if target == Target::Rcx {
            self.spill_rcx();
        }
        let at_fault = self.job.spilled;
        match target {
            Target::Rcx => {
                self.target_to(insn, Reg::RCX);
                // What it destroys can be made again.
                self.job.flags.lost = true;
                self.ways_table(site, insn)?;
            }
            Target::Register(_) if insn.class == Class::CallIndirect => {
                self.push_return(insn.next());
            }
            _ => {}
        }
        let register = match target {
            Target::Register(r) => r,
            _ => Reg::RCX,
        };
        self.room_for_jump(7 + 6);
        match (near(to), target) {
            (Some(to), Target::Stack(_)) => self.job.code.cmp_top(to),
            (Some(to), _) => self.job.code.cmp_imm(register, to),
            (None, _) => {
                let rel = self.job.code.cmp_rip(register);
                self.job.constants.push((rel, to.0));
            }
        }
        self.job.code.patchable(2);
        let from = self.job.code.jcc(NOT_EQUAL);
        if let Target::Stack(release) = target {
            self.job
                .code
                .lea(Reg::RSP, Reg::RSP, 8 + i32::from(release));
        }
        self.job.misses.push(Miss {
            pc: insn.pc(),
            from,
            expected: to,
            spilled: self.job.spilled,
            target,
            recipe: Some(recipe),
            passed,
            key,
            kept: self.kept(),
        });
        self.job.flags.lost = true;
        Ok(at_fault)
    }

    /// The other ways of all indirect branches: looked up; counted at first.
    pub(super) fn write_misses(
        &mut self,
        site: &mut Site<'_>,
        block: Option<EntryId>,
    ) -> Result<(), DictionaryFull> {
        for n in 0..self.job.misses.len() {
            let miss = self.job.misses[n];
            let here = self.job.code.here();
            self.job.code.bind(miss.from, here);
            miss.come_to_target(
                &mut self.job.code,
                self.job.stolen,
                self.job.looped.promoted(),
            );
            let lookup = self.job.code.at(self.job.code.here());
            let block = block.filter(|_| miss.key == Key::NONE);
            let missed = self.missed(site, (block, miss.passed), miss.pc, miss.kept)?;
            missed.count(&mut self.job.code, Reg::RDX);
            self.job.code.index_to_rdx(miss.key);
            self.job.code.jmp_gs_rdx8(INDIRECT_TABLE);
            self.count_miss(site.cache, &miss, (self.job.code.at(here), lookup), missed);
        }
        Ok(())
    }

    /// Leads the jump of a miss, which is bound to `plain`, to code that counts it first, if there is
    /// a counter. `lookup` is where its events are counted, in `counter` or by its key, and its target is looked up.
    fn count_miss(
        &mut self,
        cache: &mut Cache,
        miss: &Miss,
        (plain, lookup): (CachePc, CachePc),
        missed: Missed,
    ) {
        let patch = self.job.code.at(miss.from.0);
        let distance = |to: CachePc| (to.0 as i64 - patch.0 as i64 - 4) as i32;
        let site = cache.new_site(self.job.arena, miss.pc, patch, distance(plain));
        let Some((exit, counter)) = site else { return };
        let stub = self.job.stubs.at(self.job.stubs.here());
        self.job.code.put_u32(miss.from.0, distance(stub) as u32);
        let c = &mut self.job.stubs;
        miss.come_to_target(c, self.job.stolen, self.job.looped.promoted());
        c.load_rip(Reg::RDX, 4, counter);
        c.raw(&[0x8d, 0x52, 0xff]); // lea edx, [rdx - 1]
        c.store_rip(Reg::RDX, counter);
        c.raw(&[0x48, 0x87, 0xca]); // xchg rdx, rcx
        let hot = c.jrcxz();
        c.raw(&[0x48, 0x87, 0xca]);
        let back = c.jmp();
        let rel = lookup.0 as i64 - c.at(back.0).0 as i64 - 4;
        c.put_u32(back.0, rel as i32 as u32);
        c.bind8_here(hot);
        c.store_gs(slot!(next_pc), Reg::RDX);
        missed.count(c, Reg::RCX);
        c.store_gs_imm32(slot!(key), miss.key.offset().into());
        c.load_gs(Reg::RCX, slot!(spill_rcx));
        c.load_gs(Reg::RDX, slot!(spill_rdx));
        c.store_gs_imm32(slot!(exit), exit.0);
        c.jmp_gs(slot!(entry.hot));
    }
}

impl Miss {
    /// Writes the way from the jump that failed: the target in `rcx`, `rcx` and `rdx` in their slots, and flags the
    /// app's.
    fn come_to_target(&self, code: &mut Code<'_>, stolen: Option<Reg>, promoted: u16) {
        if let Some(p) = stolen.filter(|_| self.spilled.stolen) {
            code.load_gs(p, slot!(spill_stolen));
        }
        if let Some(recipe) = &self.recipe {
            flags::load_for(code, recipe, self.spilled);
        }
        if !self.spilled.rcx {
            code.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        if !self.spilled.rdx {
            code.store_gs(slot!(spill_rdx), Reg::RDX);
        }
        if let Some(recipe) = &self.recipe {
            let scratch = match self.target {
                Target::Rcx | Target::Register(Reg::RCX) => Reg::RDX,
                _ => Reg::RCX,
            };
            flags::write(code, recipe, scratch);
        }
        if self.spilled.promoted {
            give_promoted_back(code, promoted);
        }
        match self.target {
            Target::Rcx | Target::Register(Reg::RCX) => {}
            Target::Register(r) => code.mov(Reg::RCX, r),
            Target::Stack(release) => {
                code.pop(Reg::RCX);
                release_stack(code, release);
            }
            Target::Difference => match near(self.expected) {
                Some(expected) => code.lea(Reg::RCX, Reg::RCX, expected),
                None => {
                    code.mov_imm(Reg::RDX, self.expected.0);
                    code.add_rdx_to_rcx();
                }
            },
        }
    }
}

/// Writes the release of the stack by `ret` with a number, after its pop.
fn release_stack(code: &mut Code<'_>, release: u16) {
    if release != 0 {
        code.lea(Reg::RSP, Reg::RSP, i32::from(release));
    }
}

impl Code<'_> {
    /// `cmp qword [rsp], imm`
    fn cmp_top(&mut self, imm: i32) {
        self.raw(&[0x48, 0x81, 0x3c, 0x24]);
        self.raw(&imm.to_le_bytes());
    }

    /// `cmp reg, imm` (64 bits)
    fn cmp_imm(&mut self, reg: Reg, imm: i32) {
        self.raw(&[0x48 | u8::from(reg.0 >= 8), 0x81, 0xf8 | reg.0 & 7]);
        self.raw(&imm.to_le_bytes());
    }

    /// `cmp reg, [rip + …]` (64 bits)
    fn cmp_rip(&mut self, reg: Reg) -> Rel32 {
        let rex = 0x48 | u8::from(reg.0 >= 8) << 2;
        self.raw(&[rex, 0x3b, 0x05 | (reg.0 & 7) << 3]);
        self.raw(&[0; 4]);
        Rel32(self.here() - 4)
    }
}
