//! Ways through a loop, and whether they get a second round.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::translate::optimise::{self, Way};
use crate::translate::piece::Piece;
use crate::translate::{Site, Translator};

/// App instructions in a loop with two rounds, and what their stubs may need.
const MOST: usize = 640;
const MOST_STUBS: usize = 30 << 10;

impl Translator {
    /// Plans a second round for a trace that goes on at `app` after its last instruction, which may be a
    /// branch back, and for other ways from there to there. `frame`: by how much `rbp` was above `rsp` there.
    pub(in crate::translate) fn plan_loop(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
        others: &[&[Piece]],
        frame: i64,
    ) {
        if !self.closes(0..self.job.count, app, end) {
            return;
        }
        let range = 0..self.job.count;
        self.job.looped.ways.push((Way { range, from: None }, end));
        for pieces in others {
            let (count, turns) = (self.job.count, self.job.turns.len());
            if self.add_way(site, app, pieces).is_none() {
                self.job.count = count;
                self.job.turns.truncate(turns);
            }
        }
        let decoded: Vec<Instruction> = (self.job.insns[..self.job.count].iter())
            .map(|insn| {
                // SAFETY: the instruction was decoded from these bytes.
                let bytes = unsafe {
                    core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size())
                };
                Decoder::with_ip(64, bytes, insn.pc().0, DecoderOptions::NONE).decode()
            })
            .collect();
        let ways: Vec<Way> = self
            .job
            .looped
            .ways
            .iter()
            .map(|way| way.0.clone())
            .collect();
        self.job.looped.plan = optimise::plan(&decoded, &ways, frame);
        if !self.job.looped.is_planned() {
            let count = self.job.looped.ways[0].0.range.end;
            self.job.count = count;
            self.job.turns.retain(|turn| turn.at < count);
            self.job.looped.ways.clear();
        }
    }

    /// Returns true if instructions lead back to `app`, and are few enough.
    fn closes(&self, range: Range<usize>, app: AppPc, end: Option<AppPc>) -> bool {
        let insns = &self.job.insns[range];
        let back = match (insns.last().map(|last| last.class), end) {
            (Some(Class::Jcc(_, to)), Some(_)) if to == app => true,
            (_, end) => end == Some(app),
        };
        let stubs = self.job.turns.len() * 140 + self.job.count * 20;
        let odd = |insn: &Insn| matches!(insn.class, Class::Popf | Class::Syscall);
        back && self.job.count <= MOST && stubs <= MOST_STUBS && !insns.iter().any(odd)
    }

    /// Adds another way to a loop, from where it leaves those that are there.
    fn add_way(&mut self, site: &mut Site<'_>, app: AppPc, pieces: &[Piece]) -> Option<()> {
        let start = self.job.count;
        let first_turn = self.job.turns.len();
        let end = self.follow(site, pieces, Some(app)).ok()?;
        if !self.closes(start..self.job.count, app, end) {
            return None;
        }
        // Along the ways that are there, up to the branch at which it leaves them all.
        let (mut along, mut new) = (0..self.job.looped.ways[0].0.range.end, start);
        let from = loop {
            let at = along.next()?;
            if self
                .job
                .insns
                .get(new)
                .filter(|_| new < self.job.count)?
                .pc()
                == self.job.insns[at].pc()
            {
                new += 1;
                continue;
            }
            // The first instruction that differs; the branch is before it.
            let branch = if new == start {
                return None;
            } else {
                at.checked_sub(1)?
            };
            let to = self.job.insns[new].pc();
            match self.job.insns[branch].class {
                Class::Jcc(_, exit) if exit == to => {}
                _ => return None,
            }
            let there = self
                .job
                .looped
                .ways
                .iter()
                .find(|way| way.0.from == Some(branch));
            match there {
                Some((way, _)) => along = way.range.clone(),
                None => break branch,
            }
        };
        let mut n = 0;
        self.job.turns.retain_mut(|turn| {
            let own = n >= first_turn;
            n += 1;
            if own && turn.at >= new {
                turn.at -= new - start;
                return true;
            }
            !own
        });
        let count = self.job.count - (new - start);
        self.job.insns.copy_within(new..self.job.count, start);
        self.job.count = count;
        let range = start..count;
        let from = Some(from);
        self.job.looped.ways.push((Way { range, from }, end));
        Some(())
    }
}
