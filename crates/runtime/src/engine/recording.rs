//! Paths recorded, and traces made of them ([`crate::trace`]).

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work;
use trommel_queue::work::{Flush, Part};

use crate::base::address::AppPc;
use crate::base::area::{Context, Reason};
use crate::base::ids::{ExitId, ExitIds, FragmentId};
use crate::base::prefix::Prefix;
use crate::base::sys;
use crate::cache::Way;
use crate::engine::runtime::Began;
use crate::engine::state::{Runtime, Thread};
use crate::memory::mapping;
use crate::trace::{Recording, STEADY};
use crate::translate::piece::Path;
use crate::translate::{Refusal, Shape};

impl Runtime {
    fn path_from(&self, head: (AppPc, Prefix), unrolled: bool) -> Recording {
        let trace = &self.shared.control().trace;
        Recording::of(head, unrolled, trace.no_returns.load(Relaxed) != 0)
    }

    /// Returns whether a path may be recorded now.
    fn may_record(&self) -> bool {
        self.cache.makes_traces() && !self.hints.paused && !self.asks()
    }

    /// The counter of the fragment at `head` has come to zero.
    pub fn start_recording(&mut self, thread: &mut Thread, head: AppPc) {
        let prefix = self.prefix(thread, head);
        let Some(id) = self.cache.lookup_on(head, prefix) else {
            return;
        };
        self.cache.count_again(id);
        if self.may_record() && !self.cache.is_trace(id) {
            thread.recording = Some(self.path_from((head, prefix), false));
        }
    }

    /// An indirect branch of a trace goes elsewhere, to `next`, once more.
    pub fn start_unrolled(&mut self, thread: &mut Thread, exit: ExitId, next: AppPc) {
        let (fickle, misses) = self.cache.site_is_hot(exit, sys::process_cpu());
        let work = &self.shared.control().work;
        work::add(&work.turns_missed, misses);
        if fickle {
            work::add(&work.fickle, 1);
            self.balance.fickle();
        }
        let prefix = self.prefix(thread, next);
        let there = self.cache.lookup_on(next, prefix);
        if self.may_record() && !there.is_some_and(|id| self.cache.is_trace(id)) {
            thread.recording = Some(self.path_from((next, prefix), true));
        }
    }

    /// Takes note of how a thread that records has come to the dispatcher, and makes the trace if
    /// that ends it.
    pub fn record_piece(&mut self, thread: &mut Thread, context: &Context) {
        let Some(mut recording) = thread.recording.take() else {
            return;
        };
        if self.asks() || !self.cache.makes_traces() {
            return self.abandon();
        }
        let of_fragment = recording.exits.hold(context.exit);
        let exit = self.cache.exit(context.exit);
        let next = match context.reason {
            r if r == Reason::Exit as u32 && exit.way == Way::Stored => {
                return self.finish(&recording, false, None);
            }
            r if r == Reason::Exit as u32 => exit.target,
            r if r == Reason::Indirect as u32 => context.next_pc,
            r if r == Reason::Syscall as u32 => return self.finish(&recording, false, None),
            _ => return self.abandon(),
        };
        if !of_fragment {
            return self.abandon();
        }
        let prefix = self.prefix(thread, next);
        let own = (next, prefix) == (recording.head, recording.prefix);
        let there = self.cache.lookup_on(next, prefix);
        let trace = there.is_some_and(|id| self.cache.is_trace(id));
        let fickle = self.cache.is_fickle(&exit);
        let fits = recording.insns + usize::from(exit.insns) <= recording.most();
        if fits && !recording.add(&exit, next, (own, trace), fickle) {
            thread.recording = Some(recording);
            return;
        }
        let predicted = !(recording.no_returns && exit.way == Way::Return);
        let closed = fits && own && predicted;
        if closed && self.keeps_slots() && !recording.close() {
            thread.recording = Some(recording);
            return;
        }
        if !recording.ways.is_empty() {
            recording.ways.sort_by_key(|way| core::cmp::Reverse(way.1));
            let frame = context.regs[5].wrapping_sub(context.regs[4]) as i64;
            let steady = closed && recording.rounds >= STEADY;
            let frame = (steady && mapping::is_private(context.regs[4])).then_some(frame);
            return self.finish(&recording, closed, frame);
        }
        if recording.unrolled && !closed {
            let usual = recording.usual.unwrap_or(recording.pieces.len());
            recording.pieces.truncate(usual);
        }
        self.finish(&recording, closed, None);
        if !closed && there.is_some_and(|id| self.cache.give_up_loop(id)) {
            // A way that was not known: all are found out once more.
            thread.recording = Some(self.path_from((next, prefix), false));
        }
    }

    /// Leads a thread that records to the next piece of its path. False when the path has come to
    /// an end; the thread goes on as others do.
    pub fn record_at(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) -> bool {
        let Some(mut recording) = thread.recording.take() else {
            return false;
        };
        if !self.cache.makes_traces() {
            self.abandon();
            return false;
        }
        let prefix = self.prefix(thread, pc);
        let found = self.cache.recorded(pc, prefix);
        let made = found.map_or_else(|| self.recorded_fragment((pc, prefix)), Ok);
        let Ok((id, exits)) = made else {
            self.finish(&recording, false, None);
            return false;
        };
        recording.at = pc;
        recording.exits = exits;
        thread.recording = Some(recording);
        context.target = self.cache.fragments[id.index()].entry;
        true
    }

    /// A fragment all of whose exits lead to the dispatcher, and these.
    pub fn recorded_fragment(
        &mut self,
        to: (AppPc, Prefix),
    ) -> Result<(FragmentId, ExitIds), Refusal> {
        let first = self.cache.next_exit();
        let counted = self.translator.counting_acyclic().is_some();
        let id = match self.translate(to, Shape::Recorded) {
            // Paths are counted no more: what counts them must not lead to what does not.
            Err(why) if counted && self.translator.counting_acyclic().is_none() => {
                self.flush(Flush::Full);
                return Err(why);
            }
            made => made?,
        };
        let exits = ExitIds {
            first,
            count: self.cache.next_exit().since(first),
        };
        self.cache.keep_recorded(id, exits);
        Ok((id, exits))
    }

    fn abandon(&self) {
        let control = self.shared.control();
        control.traces.abandoned.fetch_add(1, Relaxed);
    }

    /// Makes the trace of a path, which came to its own start or not; `frame`: by how much `rbp` is above
    /// `rsp` there, of a loop all of whose ways are known.
    fn finish(&mut self, recording: &Recording, closed: bool, frame: Option<i64>) {
        let old = self.cache.lookup_on(recording.head, recording.prefix);
        if old.is_some_and(|id| self.cache.is_trace(id)) {
            return;
        }
        let began = Began::long();
        let checked = |id: FragmentId| self.cache.fragments[id.index()].checked.is_some();
        let begins = recording.prefix == Prefix::NONE;
        let checked = begins && recording.unrolled || old.is_some_and(checked);
        let first = self.cache.next_exit();
        let (pieces, closed) = match recording.ways.first() {
            None => (&recording.pieces[..], closed),
            Some((way, _)) => (&way[..], true),
        };
        let made = match pieces.len() {
            0 => None,
            1 if frame.is_none() => None,
            _ => {
                let others = recording.ways.get(1..).unwrap_or_default();
                let path = Path {
                    pieces,
                    prefix: recording.prefix,
                    closed,
                    others: others.iter().map(|way| &way.0[..]).collect(),
                    frame: frame.filter(|_| self.keeps_slots()),
                };
                self.translate_path(&path, checked).ok()
            }
        };
        match (old, made) {
            (old, Some(new)) => {
                if let Some(old) = old {
                    self.cache.supersede(old, new);
                }
                self.cache.link_ahead(first);
            }
            (Some(old), None) => {
                if let Some((from, to)) = self.cache.counted_arrival(old) {
                    for targets in &mut self.targets {
                        targets.replace(recording.head, from, to);
                    }
                }
                self.cache.settle(old);
            }
            (None, None) => self.abandon(),
        }
        self.spent_in(Part::Trace, began);
    }
}
