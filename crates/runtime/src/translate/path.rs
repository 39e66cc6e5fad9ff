//! Traces: fragments led along a path that was executed.
//!
//! # Strategy
//! The first pass decodes piece after piece. Where a piece ends in a transfer the trace goes on
//! behind it:
//!
//! * a conditional branch that was taken is inverted, so that the path falls through;
//! * a call pushes the app's return address, as ever, and nothing else is left of it;
//! * an indirect branch compares its target with the one that was seen (a *turn*), and where
//!   that differs looks it up as any other does, out of line.
//!
//! The last piece ends as fragments do.
//!
//! # Why it is correct
//! * Each piece is decoded anew, and must lead to the next one as it says; otherwise no trace is made.
//! * A comparison leaves flags alone, like that of a checked entry. It destroys `rcx`, and `rdx` for
//!   targets beyond 2 GiB: both are in their slots before anything can fault, and are loaded again in
//!   front of the first instruction that uses them, as in fragments for indirect branches.

use super::{Refusal, Site, Translator, restartable};
use crate::area::INDIRECT_TABLE;
use crate::cache::{AppPc, Cache, Spilled};
use crate::decode::{Class, Insn, Reader};
use crate::emit::{Code, Reg, Rel32};
use crate::pages::page_of;
use crate::region::{Nature, Range};
use crate::slot;
use crate::trace::{MAX_INSNS, Piece};

/// Room a trace may need at most. Its main line takes 61 bytes an instruction (an operand far away,
/// and both registers loaded) and 50 more a turn, so it is within 64 KiB, as steps must be; tails
/// and misses take 35 and 50 more.
pub(super) const MAX_CODE: u64 = 128 << 10;
/// Room its stubs may need: 20 bytes an exit, 120 a turn.
pub(super) const MAX_STUBS: u64 = 64 << 10;

/// Where a trace goes on behind a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// The transfer, by its place in the trace.
    pub(super) at: usize,
    /// What is executed next.
    pub(super) to: AppPc,
}

/// An indirect branch of a trace that goes elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pc: AppPc,
    from: Rel32,
    expected: AppPc,
    spilled: Spilled,
}

/// A target that `lea` can subtract.
fn near(to: AppPc) -> Option<i32> {
    i32::try_from(to.0).ok()
}

impl Translator {
    /// Makes the trace of a path, which comes to its own start or not. `checked`: indirect branches
    /// lead to its start.
    pub fn translate_path(
        &mut self,
        site: &mut Site<'_>,
        (pieces, closed): (&[Piece], bool),
        checked: bool,
    ) -> Result<u32, Refusal> {
        let app = pieces.first().ok_or(Refusal::Native)?.start;
        self.begin(super::made::From::default(), true);
        if self.insns.len() < MAX_INSNS {
            self.insns.resize(MAX_INSNS, Insn::plain());
        }
        let end = self.follow(site, pieces, closed.then_some(app))?;
        self.write(site, app, end, checked)
    }

    /// First pass, over a path that goes on to `behind`, if a turn may be made of its last branch.
    /// Returns where the main line goes on, as [`Self::collect`] does.
    fn follow(
        &mut self,
        site: &mut Site<'_>,
        pieces: &[Piece],
        behind: Option<AppPc>,
    ) -> Result<Option<AppPc>, Refusal> {
        site.shared.open_block()?;
        let start = pieces[0].start.0;
        self.span = Range {
            start,
            end: start + 1,
        };
        let mut end = None;
        for (k, piece) in pieces.iter().enumerate() {
            let next = pieces.get(k + 1).map(|p| p.start);
            let mut pc = piece.start;
            let mut reader: Option<Reader<'_>> = None;
            for left in (0..piece.insns).rev() {
                let n = self.count;
                let open = match reader.take() {
                    Some(open) => open,
                    None => self.open_fixed(site, pc)?,
                };
                let r = reader.insert(open);
                let insn = self.insns.get_mut(n).ok_or(Refusal::Native)?;
                r.read(insn);
                let found = insn.rip_disp != 0 && insn.class == Class::Plain;
                let insn = self.insns[n];
                if found {
                    let region = site.regions.range_of(insn.pc());
                    let bytes = self.from.at(insn.pc());
                    if region.is_some_and(|r| restartable::begins(&insn, bytes, r)) {
                        return Err(Refusal::Restartable);
                    }
                }
                self.insns[n].load = None;
                self.note_pages(&insn);
                self.count = n + 1;
                let conditional = matches!(insn.class, Class::Jcc(..) | Class::ShortBranch(_));
                let to = match left {
                    // A loop is closed by its branch as it is.
                    0 if conditional => next,
                    0 => next.or(behind),
                    _ => None,
                };
                end = self.turn(n, to, left == 0)?;
                match (end, insn.class) {
                    (Some(on), Class::Jmp(_)) => {
                        pc = on;
                        reader = None;
                    }
                    _ => pc = insn.next(),
                }
            }
        }
        Ok(end)
    }

    /// The next instruction of a path, and where it leads: to `to`, if that is known; `last` of its
    /// piece. Returns where the app goes on behind it, unless it is a transfer of its own.
    fn turn(&mut self, n: usize, to: Option<AppPc>, last: bool) -> Result<Option<AppPc>, Refusal> {
        let insn = self.insns[n];
        let follows = |on: AppPc| match to {
            Some(to) if to != on => Err(Refusal::Native),
            _ => Ok(Some(on)),
        };
        match insn.class {
            Class::Unknown | Class::Unsupported | Class::Gs => Err(Refusal::Native),
            Class::Plain | Class::Popf => follows(insn.next()),
            Class::Jmp(on) => follows(on),
            Class::Jcc(condition, taken) if to == Some(taken) && taken != insn.next() => {
                self.insns[n].class = Class::Jcc(condition ^ 1, insn.next());
                Ok(to)
            }
            Class::Jcc(..) | Class::ShortBranch(_) => follows(insn.next()),
            Class::Call(callee) => {
                follows(callee)?;
                self.turn_at(n, to, last)
            }
            Class::CallIndirect | Class::JmpIndirect | Class::Ret(_) => self.turn_at(n, to, last),
            Class::Syscall if last && to.is_none() => Ok(None),
            Class::Syscall => Err(Refusal::Native),
        }
    }

    fn turn_at(
        &mut self,
        at: usize,
        to: Option<AppPc>,
        last: bool,
    ) -> Result<Option<AppPc>, Refusal> {
        match to {
            Some(to) => {
                self.turns.push(Turn { at, to });
                Ok(Some(to))
            }
            None if last => Ok(None),
            None => Err(Refusal::Native),
        }
    }

    /// Where the trace goes on behind the transfer at `n`, if it does.
    pub(super) fn turn_of(&mut self, n: usize) -> Option<AppPc> {
        let turn = self.turns.get(self.turned).filter(|turn| turn.at == n)?;
        self.turned += 1;
        Some(turn.to)
    }

    /// Reads code at `pc` that does not change.
    fn open_fixed<'a>(&mut self, site: &mut Site<'_>, pc: AppPc) -> Result<Reader<'a>, Refusal> {
        let region = Self::region(site, pc)?;
        if site.regions.known[region].nature() != Nature::Fixed {
            return Err(Refusal::Made);
        }
        super::readable(site.regions, pc, region)
            .map(|code| Reader::new(code, pc))
            .ok_or(Refusal::Native)
    }

    /// Takes note of where an instruction is from.
    pub(super) fn note_pages(&mut self, insn: &Insn) {
        let (here, next) = (insn.pc(), insn.next());
        self.span.start = self.span.start.min(here.0);
        self.span.end = self.span.end.max(next.0);
        for page in [page_of(here.0), page_of(next.0 - 1)] {
            if self.pages.last() != Some(&page) && !self.pages.contains(&page) {
                self.pages.push(page);
            }
        }
    }

    /// `jmp`, `call` or `ret` to an address known only when it runs, which is most likely `to`. Says
    /// what is in slots if it faults.
    pub(super) fn predicted(&mut self, insn: &Insn, to: AppPc) -> Spilled {
        self.spill_rcx();
        if near(to).is_none() {
            self.spill_rdx();
        }
        let at_fault = self.spilled;
        match insn.class {
            Class::Ret(release) => {
                self.code.pop(Reg::RCX);
                if release != 0 {
                    self.code.lea(Reg::RSP, Reg::RSP, i32::from(release));
                }
            }
            _ => self.load_target(insn, Reg::RCX),
        }
        if insn.class == Class::CallIndirect {
            self.push_return(insn.next());
        }
        match near(to) {
            Some(to) => self.code.lea(Reg::RCX, Reg::RCX, -to),
            None => {
                self.code.mov_imm(Reg::RDX, to.0.wrapping_neg());
                self.code.add_rdx_to_rcx();
            }
        }
        self.code.patchable(3);
        let right = self.code.jrcxz();
        let from = self.code.jmp();
        self.misses.push(Miss {
            pc: insn.pc(),
            from,
            expected: to,
            spilled: self.spilled,
        });
        self.code.bind8_here(right);
        at_fault
    }

    /// The other ways of all indirect branches: looked up; counted at first.
    pub(super) fn write_misses(&mut self, cache: &mut Cache) {
        for n in 0..self.misses.len() {
            let Miss {
                from,
                expected,
                spilled,
                ..
            } = self.misses[n];
            self.spilled = spilled;
            let here = self.code.here();
            self.code.bind(from, here);
            let miss = self.misses[n];
            self.count_miss(cache, &miss);
            self.spill_rdx();
            find_target(&mut self.code, expected);
            self.code.low16_of_rcx_to_rdx();
            self.code.jmp_gs_rdx8(INDIRECT_TABLE);
        }
    }

    /// Leads the jump at `from`, which is bound to where the miss is looked up, to code that counts
    /// it first, if there is a counter.
    fn count_miss(&mut self, cache: &mut Cache, miss: &Miss) {
        let Miss {
            pc, from, expected, ..
        } = *miss;
        let lookup = self.code.at(self.code.here());
        let patch = self.code.at(from.0);
        let plain = (lookup.0 as i64 - patch.0 as i64 - 4) as i32;
        let Some((exit, counter)) = cache.new_site(self.arena, pc, patch, plain) else {
            return;
        };
        let stub = self.stubs.at(self.stubs.here());
        let rel = stub.0 as i64 - patch.0 as i64 - 4;
        self.code.put_u32(from.0, rel as i32 as u32);
        let c = &mut self.stubs;
        if !self.spilled.rdx {
            c.store_gs(slot!(spill_rdx), Reg::RDX);
        }
        c.load_rip(Reg::RDX, 4, counter);
        c.raw(&[0x8d, 0x52, 0xff]); // lea edx, [rdx - 1]
        c.store_rip(Reg::RDX, counter);
        c.raw(&[0x48, 0x87, 0xca]); // xchg rdx, rcx
        let hot = c.jrcxz();
        c.raw(&[0x48, 0x87, 0xca]);
        if !self.spilled.rdx {
            c.load_gs(Reg::RDX, slot!(spill_rdx));
        }
        let back = c.jmp();
        let rel = lookup.0 as i64 - c.at(back.0).0 as i64 - 4;
        c.put_u32(back.0, rel as i32 as u32);
        c.bind8_here(hot);
        c.raw(&[0x48, 0x87, 0xca]);
        find_target(c, expected);
        c.store_gs(slot!(next_pc), Reg::RCX);
        c.load_gs(Reg::RCX, slot!(spill_rcx));
        c.load_gs(Reg::RDX, slot!(spill_rdx));
        c.store_gs_imm32(slot!(exit), exit);
        c.jmp_gs(slot!(entry.hot));
    }
}

/// Makes `rcx`, the difference to what was expected, the target. `rdx` is in its slot.
fn find_target(code: &mut Code<'_>, expected: AppPc) {
    match near(expected) {
        Some(expected) => code.lea(Reg::RCX, Reg::RCX, expected),
        None => {
            code.mov_imm(Reg::RDX, expected.0);
            code.add_rdx_to_rcx();
        }
    }
}
