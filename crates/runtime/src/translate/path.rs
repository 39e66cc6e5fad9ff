//! Traces: fragments led along a path that was executed.
//!
//! # Strategy
//! The first pass decodes piece after piece. Where a piece ends in a transfer the trace goes on
//! after it:
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
//! * A comparison leaves flags alone, like that of a checked entry, or can make them again
//!   ([`flags`]). What it destroys of `rcx` and `rdx` is in their slots before anything can fault, and is
//!   loaded again before the first instruction that uses it, as in fragments for indirect branches.

use alloc::vec::Vec;

use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, Passed};
use trommel_tuple::{Kind, KindSet};

use super::looped::give_homes_back;
use super::{Refusal, Site, Translator, flags, restartable, target};
use crate::base::address::Range;
use crate::base::address::{AppPc, CachePc};
use crate::base::area::INDIRECT_TABLE;
use crate::base::decode::{Class, Insn, Reader, Rm};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::base::prefix::Key;
use crate::base::recipe::Recipe;
use crate::cache::{Cache, Spilled};
use crate::channel::counters;
use crate::channel::deliver::DictionaryFull;
use crate::memory::pages::page_of;
use crate::memory::region::Nature;
use crate::observe::acyclic::pass;
use crate::slot;
use crate::translate::piece::{MAX_INSNS, Path, Piece};

/// Room a trace may need at most: its main line [`FURTHEST`], a tail 190 bytes (which counts with flags that live, and gives ten homes
/// back), a miss 240 and a message about a value 145; no instruction has more than two of these.
pub(super) const MAX_CODE: u64 = 384 << 10;
/// As [`MAX_CODE`], where events are counted by a profiler: one that is not shielded, and its interval's end, take up to 240 bytes. And where there are
/// [strides](super::strides), each of which may be there twice.
pub(super) const MAX_SHIELDED: u64 = 640 << 10;
/// Room its stubs may need: 20 bytes an exit, 170 a turn.
pub(super) const MAX_STUBS: u64 = 256 << 10;
/// Bytes that steps may be apart, which are within 64 KiB.
pub(super) const FURTHEST: usize = 60 << 10;

/// Where a trace goes on after a transfer.
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
    target: Target,
    /// How the flags are made again that the comparison has destroyed.
    recipe: Option<Recipe>,
    /// The events of the block before it, which are counted with it if it has no key.
    passed: Passed,
    /// Where it is counted.
    key: Key,
    /// Events that were passed in strides.
    strides: u16,
}

/// Where the target of an indirect branch is when a comparison has failed.
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
    /// Makes the trace of a path. `checked`: indirect branches lead to its start.
    pub fn translate_path(
        &mut self,
        site: &mut Site<'_>,
        path: &Path<'_>,
        checked: bool,
    ) -> Result<u32, Refusal> {
        let made = self.path(site, path, checked);
        match made {
            // It may do without a second round.
            Err(_) if self.job.looped.is_planned() => {
                let frame = None;
                let others = Vec::new();
                let alone = Path {
                    frame,
                    others,
                    ..*path
                };
                self.path(site, &alone, checked)
            }
            made => made,
        }
    }

    fn path(
        &mut self,
        site: &mut Site<'_>,
        path: &Path<'_>,
        checked: bool,
    ) -> Result<u32, Refusal> {
        let app = path.pieces.first().ok_or(Refusal::Native)?.start;
        self.begin(super::made::From::default(), path.prefix, true);
        self.job.pairs = self.needs.keys;
        self.ways_begin(site, app)?;
        let room =
            site.pairs.have_room_for(2 * MAX_INSNS) && counters::have_room(site.shared.paths());
        if self.config.kinds != KindSet::NONE && !(self.job.pairs && room) {
            return Err(Refusal::Native);
        }
        if self.job.insns.len() < MAX_INSNS {
            self.job.insns.resize(MAX_INSNS, Insn::plain());
        }
        let end = self.follow(site, path.pieces, path.closed.then_some(app))?;
        // The optimiser takes loads away, and its ways begin in the midst of paths.
        let looped = path.closed && self.config.optimise && !self.needs.one_round;
        if let Some(frame) = path.frame.filter(|_| looped) {
            self.plan_loop(site, app, end, &path.others, frame);
        }
        if path.pieces.len() == 1 && !self.job.looped.is_planned() {
            return Err(Refusal::Native);
        }
        if self.needs.operands {
            self.job.stolen = self.least_used();
        }
        self.list_path(site, app, end)?;
        self.write(site, app, end, checked)
    }

    /// The register that fewest instructions use, but for those that serve otherwise.
    fn least_used(&self) -> Option<Reg> {
        let serve = [Reg::RAX, Reg::RCX, Reg::RDX, Reg::RSP];
        let free = (0..16).map(Reg).filter(|r| !serve.contains(r));
        let uses = |r: &Reg| {
            let insns = self.job.insns[..self.job.count].iter();
            insns.filter(|insn| insn.used & r.bit() != 0).count()
        };
        free.min_by_key(uses)
    }

    /// Lists the events of a trace in its block, those of one way after those of the other.
    fn list_path(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
    ) -> Result<(), Refusal> {
        if !self.job.pairs || self.needs.each_event {
            return Ok(());
        }
        let acyclic = self.counting_acyclic().is_some();
        // Of an acyclic path that ends and another that begins there are two for an instruction.
        if acyclic && 1 + 2 * self.job.count > MAX_BLOCK_EVENTS {
            return Err(Refusal::Native);
        }
        let mut on = None;
        let (planned, mut events, mut turn) = (self.job.looped.is_planned(), 0, 0);
        if acyclic {
            let arrival = self.arrival(app);
            pass(&mut on, &arrival, site.regions);
            site.shared.event(arrival);
            events += 1;
        }
        for k in 0..self.job.looped.ways().max(1) {
            let range = self.job.looped.range_of(k).unwrap_or(0..self.job.count);
            let end = self.job.looped.end_of(k + 1, end);
            for n in range.clone() {
                let next = match n + 1 < range.end {
                    true => Some(self.job.insns[n + 1].pc()),
                    false => end,
                };
                let to = self.job.turns.get(turn).filter(|turn| turn.at == n);
                let to = to.map(|turn| turn.to);
                turn += usize::from(to.is_some());
                let closes = (planned && n + 1 == range.end).then_some(app);
                self.ways_turn_to(n);
                let insn = self.job.insns[n];
                let (main, _) = self.sides(&insn, to, next, closes);
                let main = main.or_else(|| self.ends_path(&insn));
                self.job.listed.push(events);
                let unprofiled = self.unprofiled(n, &insn);
                if let Some(main) = &main {
                    pass(&mut on, main, site.regions);
                }
                let ends = acyclic && on.is_none();
                let begin = next
                    .filter(|_| ends)
                    .map(|pc| Event::Begin { pc: target(pc) });
                if let Some(begin) = &begin {
                    pass(&mut on, begin, site.regions);
                }
                for event in unprofiled.into_iter().chain(main).chain(begin) {
                    site.shared.event(event);
                    events += 1;
                }
            }
        }
        self.job.listed.push(events);
        Ok(())
    }

    /// What an instruction that is no event of the program's means for acyclic paths.
    pub(super) fn ends_path(&self, insn: &Insn) -> Option<Event> {
        let pc = target(insn.pc());
        match insn.class {
            Class::Ret(_) if self.wants(Kind::Path) => Some(Event::Return { pc }),
            Class::Jmp(back) if self.config.cuts_at(insn) => Some(Event::Jump {
                pc,
                target: target(back),
            }),
            _ => None,
        }
    }

    /// First pass, over a path that goes on to `behind`, if a turn may be made of its last branch.
    /// Returns where the main line goes on, as [`Self::collect`] does.
    pub(super) fn follow(
        &mut self,
        site: &mut Site<'_>,
        pieces: &[Piece],
        behind: Option<AppPc>,
    ) -> Result<Option<AppPc>, Refusal> {
        if self.job.count == 0 {
            site.shared.open_block()?;
            let start = pieces[0].start.0;
            self.job.span = Range {
                start,
                end: start + 1,
            };
        }
        let mut end = None;
        for (k, piece) in pieces.iter().enumerate() {
            let next = pieces.get(k + 1).map(|p| p.start);
            let mut pc = piece.start;
            let mut reader: Option<Reader<'_>> = None;
            for left in (0..piece.insns).rev() {
                let n = self.job.count;
                let open = match reader.take() {
                    Some(open) => open,
                    None => self.open_fixed(site, pc)?,
                };
                let r = reader.insert(open);
                let insn = self.job.insns.get_mut(n).ok_or(Refusal::Native)?;
                r.read(insn);
                let found = insn.rip_disp != 0 && insn.class == Class::Plain;
                let insn = self.job.insns[n];
                if found {
                    let region = site.regions.range_of(insn.pc());
                    let bytes = self.job.from.at(insn.pc());
                    if region.is_some_and(|r| restartable::begins(&insn, bytes, r)) {
                        return Err(Refusal::Restartable);
                    }
                }
                if !self.needs.loads {
                    self.job.insns[n].load = None;
                }
                self.ways_decoded(site, n);
                self.note_pages(&insn);
                self.job.count = n + 1;
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
    /// piece. Returns where the app goes on after it, unless it is a transfer of its own.
    fn turn(&mut self, n: usize, to: Option<AppPc>, last: bool) -> Result<Option<AppPc>, Refusal> {
        let insn = self.job.insns[n];
        let follows = |on: AppPc| match to {
            Some(to) if to != on => Err(Refusal::Native),
            _ => Ok(Some(on)),
        };
        match insn.class {
            Class::Unknown | Class::Unsupported | Class::Gs | Class::Request => {
                Err(Refusal::Native)
            }
            Class::Plain | Class::Popf => follows(insn.next()),
            Class::Jmp(on) => follows(on),
            Class::Jcc(condition, taken) if to == Some(taken) && taken != insn.next() => {
                self.job.insns[n].class = Class::Jcc(condition ^ 1, insn.next());
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
                self.job.turns.push(Turn { at, to });
                Ok(Some(to))
            }
            None if last => Ok(None),
            None => Err(Refusal::Native),
        }
    }

    /// Whether the trace goes on after the transfer at `n`.
    pub(super) fn turns_at(&self, n: usize) -> bool {
        let turn = self.job.turns.get(self.job.turned);
        turn.is_some_and(|turn| turn.at == n)
    }

    /// As [`Self::turn_of`], which is asked afterwards.
    pub(super) fn next_turn(&self, n: usize) -> Option<AppPc> {
        let turn = self
            .job
            .turns
            .get(self.job.turned)
            .filter(|turn| turn.at == n)?;
        Some(turn.to)
    }

    /// Where the trace goes on after the transfer at `n`, if it does.
    pub(super) fn turn_of(&mut self, n: usize) -> Option<AppPc> {
        let turn = self
            .job
            .turns
            .get(self.job.turned)
            .filter(|turn| turn.at == n)?;
        self.job.turned += 1;
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
        self.job.span.start = self.job.span.start.min(here.0);
        self.job.span.end = self.job.span.end.max(next.0);
        for page in [page_of(here.0), page_of(next.0 - 1)] {
            if self.job.pages.last() != Some(&page) && !self.job.pages.contains(&page) {
                self.job.pages.push(page);
            }
        }
    }

    /// `jmp`, `call` or `ret` to an address known only when it runs, which is most likely `to`; the block, and its events in
    /// front of it. Says what is in slots if it faults.
    pub(super) fn predicted(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        to: AppPc,
        (block, events): (Option<u32>, usize),
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
            strides: self.job.strides.passed,
        });
        self.job.code.bind8_here(right);
        Ok(at_fault)
    }

    /// Whether a comparison may destroy flags: how they are made again if it fails, and where the
    /// target is then.
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

    /// As [`Self::predicted`], with flags.
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
            strides: self.job.strides.passed,
        });
        self.job.flags.lost = true;
        Ok(at_fault)
    }

    /// The other ways of all indirect branches: looked up; counted at first.
    pub(super) fn write_misses(
        &mut self,
        site: &mut Site<'_>,
        block: Option<u32>,
    ) -> Result<(), DictionaryFull> {
        for n in 0..self.job.misses.len() {
            let miss = self.job.misses[n];
            let here = self.job.code.here();
            self.job.code.bind(miss.from, here);
            miss.come_to_target(&mut self.job.code, self.job.stolen, self.job.looped.homes());
            let lookup = self.job.code.at(self.job.code.here());
            let passed = block.filter(|_| miss.key == Key::NONE && !miss.passed.is_empty());
            let counter = match passed {
                Some(block) => {
                    // What has no key is a return.
                    let pc = target(miss.pc);
                    let ends = self.wants(Kind::Path).then_some(Event::Return { pc });
                    let path = site.shared.path(block, miss.passed, ends)?;
                    Some(self.counter(path).ok_or(DictionaryFull)?)
                }
                None => None,
            };
            if let Some(counter) = counter {
                self.job.code.count_with(Reg::RDX, counter);
            }
            if miss.strides != 0 {
                self.job.code.take_from_left_with(Reg::RDX, miss.strides);
            }
            self.job.code.index_to_rdx(miss.key);
            self.job.code.jmp_gs_rdx8(INDIRECT_TABLE);
            self.count_miss(site.cache, &miss, (self.job.code.at(here), lookup), counter);
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
        counts: Option<GsOffset>,
    ) {
        let patch = self.job.code.at(miss.from.0);
        let distance = |to: CachePc| (to.0 as i64 - patch.0 as i64 - 4) as i32;
        let site = cache.new_site(self.job.arena, miss.pc, patch, distance(plain));
        let Some((exit, counter)) = site else { return };
        let stub = self.job.stubs.at(self.job.stubs.here());
        self.job.code.put_u32(miss.from.0, distance(stub) as u32);
        let c = &mut self.job.stubs;
        miss.come_to_target(c, self.job.stolen, self.job.looped.homes());
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
        if let Some(counter) = counts {
            c.count_with(Reg::RCX, counter);
        }
        if miss.strides != 0 {
            c.take_from_left_with(Reg::RCX, miss.strides);
        }
        c.store_gs_imm32(slot!(key), miss.key.offset().into());
        c.load_gs(Reg::RCX, slot!(spill_rcx));
        c.load_gs(Reg::RDX, slot!(spill_rdx));
        c.store_gs_imm32(slot!(exit), exit);
        c.jmp_gs(slot!(entry.hot));
    }
}

impl Miss {
    /// From the jump that failed: the target in `rcx`, `rcx` and `rdx` in their slots, and flags the
    /// app's.
    fn come_to_target(&self, code: &mut Code<'_>, stolen: Option<Reg>, homes: u16) {
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
        if self.spilled.homes {
            give_homes_back(code, homes);
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

/// What `ret` with a number does after its pop.
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
