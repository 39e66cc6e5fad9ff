//! Traces: fragments along a path that was executed.
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
//! * Comparisons: [`turns`](super::turns).

use alloc::vec::Vec;

use trommel_tuple::KindSet;

use super::{Refusal, Site, Translator, restartable};
use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::decode::{Class, Insn, Reader};
use crate::base::emit::Reg;
use crate::base::ids::FragmentId;
use crate::channel::counters;
use crate::memory::mapping::Nature;
use crate::memory::pages::page_of;
use crate::translate::piece::{MAX_INSNS, Path, Piece};

/// Room a trace may need at most: its main line [`FURTHEST`], a tail 190 bytes (which counts with flags that live, and gives ten promoted registers
/// back), a miss 240 and a message about a value 145; no instruction has more than two of these.
pub(super) const MAX_CODE: u64 = 384 << 10;
/// Room like [`MAX_CODE`], where events are counted by a profiler: one that is not shielded, and its interval's end, take up to
/// 240 bytes. With [strides](super::strides), each of these may be there twice.
pub(super) const MAX_SHIELDED: u64 = 640 << 10;
/// Room its stubs may need: 20 bytes an exit, 170 a turn.
pub(super) const MAX_STUBS: u64 = 256 << 10;
/// Bytes that steps may be apart, which are within 64 KiB.
pub(super) const FURTHEST: usize = 60 << 10;

/// Place where a trace goes on after a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// The transfer, by its place in the trace.
    pub(super) at: usize,
    /// Address of the next instruction.
    pub(super) to: AppPc,
}

impl Translator {
    /// Makes the trace of a path. `checked`: indirect branches lead to its start.
    pub fn translate_path(
        &mut self,
        site: &mut Site<'_>,
        path: &Path<'_>,
        checked: bool,
    ) -> Result<FragmentId, Refusal> {
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
    ) -> Result<FragmentId, Refusal> {
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

    /// Runs the first pass over a path that goes on to `after`, if a turn may be made of its last branch.
    /// Returns where the main line goes on, as [`Self::collect`] does.
    pub(super) fn follow(
        &mut self,
        site: &mut Site<'_>,
        pieces: &[Piece],
        after: Option<AppPc>,
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
                    0 => next.or(after),
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
            // The runtime sees what it has stored.
            Class::Plain if insn.stores_x87 && !(last && to.is_none()) => Err(Refusal::Native),
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

    /// Returns true if the trace goes on after the transfer at `n`.
    pub(super) fn turns_at(&self, n: usize) -> bool {
        let turn = self.job.turns.get(self.job.turned);
        turn.is_some_and(|turn| turn.at == n)
    }

    /// Returns the same as [`Self::turn_of`], which is asked afterwards.
    pub(super) fn next_turn(&self, n: usize) -> Option<AppPc> {
        let turn = self
            .job
            .turns
            .get(self.job.turned)
            .filter(|turn| turn.at == n)?;
        Some(turn.to)
    }

    /// Returns the address at which the trace goes on after the transfer at `n`, if it does.
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
}
