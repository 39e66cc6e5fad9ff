//! Hot traces: found while the program runs, by the tail that is executed next.
//!
//! # Problem
//! A fragment ends at each call, return and indirect branch, and goes on after every conditional
//! branch as if it were not taken. What a program spends its time in is a path that
//! does all of these. Made as one piece of code it needs no lookups, and falls through all the way;
//! but to make it takes thirty times as long as to execute it once.
//!
//! # Strategy
//! MRET, of Dynamo (Bala, Duesterwald, Banerjia, PLDI 2000, section 4.1), with fragments that are executed in
//! the place of an interpreter.
//!
//! *Starts.* A fragment is counted where a trace may start: where a branch goes backwards to it, or a
//! call that is not far, as recursion is; or an exit of a trace leads to it. Such exits are linked to the fragment's *counted
//! entry* (`cache::head`), which counts down and goes on. All others are linked past it. Where calls return to
//! is counted as well, if no trace leads there (`cache::arrival`). At zero control comes to the dispatcher, and the thread starts to record.
//!
//! *Recording.* The thread executes *recorded* fragments: like others, but each of their exits
//! comes back to the dispatcher, which learns which one was taken: a [`Piece`] of the path. They
//! are not found by others, and are kept for the next path that comes along.
//!
//! *Ends.* A trace ends after a branch that is taken backwards, and after a return from where it
//! started; where it comes to its own start, into a call of what it is in already or, unless in a call that it
//! contains, to one of its own pieces or the start of another trace; at a fickle branch; after a system call, or before
//! one that the dispatcher sees; before code that may change; and when it is long. So what is called twice is
//! there twice: a rotation, or a function of a library that is called for each character.
//!
//! *Unrolled traces.* Where an indirect branch of a trace goes elsewhere than was seen, it is counted
//! too. What is hot then is one of many targets, such as the handlers of an interpreter, and what follows
//! depends on how one came there. So a path that starts with it goes on through branches backwards and
//! the starts of other traces. If it comes to its own start again before it is long, that was a round of
//! the loop of the program that is interpreted, and becomes one trace. If not, the trace ends
//! where any other would have.
//!
//! *Fickle branches.* Where so many comparisons fail that they take a considerable part of the time, the
//! branch is fickle: the trace is given up, and those made later end there.
//!
//! *The trace* is made by the translator, led by the pieces (`translate::path`), and takes the
//! place of the fragment at its start: everything that led there leads to the trace, and the
//! counter is free for another. A trace has exits like any fragment, which count.
//! A path of one piece is what its fragment does already, unless it is a loop that keeps variables in registers
//! (`crate::translate::optimise`); then that is not counted any more.
//!
//! # Why it is correct
//! * What is recorded is a path that was executed, but nothing depends on that: a trace is a fragment
//!   whose conditional branches leave it when they go another way, and whose indirect ones compare
//!   their target. The path is checked against the code once more when the trace is made.
//! * Recorded fragments are never linked, and execute the app as others do. Whatever else brings
//!   the thread to the dispatcher (a signal, a call, a fault) ends the recording, with no trace.
//! * A trace has its code in unchanging memory, in pages that are all listed: when one of them is
//!   unmapped or its protection changes, the trace is retired as any fragment of several pieces is
//!   (`cache::suspect`), and recorded fragments are forgotten.
//! * Counters are shared between threads and not exact: two that count at once may count once. One
//!   that comes to zero is set again before recording starts.
//!
//! # With events
//! Branches, calls, values and types that are counted in the code are counted in traces as in fragments, and while a path is recorded: its
//! transfers are the trace's block of the dictionary, what it goes on after costs an exact profile nothing, and its exits tell
//! (`translate::counts`, `translate::probes`, `translate::values`). Where events are recorded one by one, or queries are put,
//! there are no traces; where places leave the profile (`crate::observe::converge`), there are in the variant without them. With values a loop has no second round, as that has no loads.
//!
//! **I11 (a trace is a fragment).** Whatever holds for fragments holds for traces. A trace has its code in memory that does not change, and is made only where events are counted in code or not at all.
pub mod balance;

use crate::translate::piece::{MAX_INSNS, Path, Piece};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::work::{self, Flush, Part};

use crate::base::address::AppPc;
use crate::base::area::{Context, Reason};
use crate::base::prefix::Prefix;
use crate::base::sys;
use crate::cache::{Exit, Way};
use crate::engine::dispatch::{Began, Runtime};
use crate::memory::region;
use crate::process::thread::Thread;
use crate::translate::{Refusal, Shape};

/// App instructions in any other.
const MAX_USUAL: usize = 256;
/// Rounds of a loop in which no new way shows up before all are taken to be known (`crate::translate::optimise`).
const STEADY: u32 = 10;
/// Rounds of a loop that are recorded at most, and the ways that are kept.
const MAX_ROUNDS: u32 = 60;
const MAX_WAYS: usize = 8;
/// Pieces of a path.
const MAX_PIECES: usize = 192;

/// A path that a thread is executing.
pub struct Recording {
    pieces: Vec<Piece>,
    insns: usize,
    head: AppPc,
    /// What follows that on an acyclic path.
    prefix: Prefix,
    /// It goes on after the ends of usual traces.
    unrolled: bool,
    /// Pieces up to the first of those ends, if it has reach one.
    usual: Option<usize>,
    /// Functions that it is in, as far as it has called them.
    calls: Vec<AppPc>,
    /// It ends at returns.
    no_returns: bool,
    /// The ways by which it has come to its own start, and how often by each.
    ways: Vec<(Vec<Piece>, u32)>,
    rounds: u32,
    /// Rounds since a new way showed up.
    known: u32,
    /// Where the recorded fragment starts that the thread is in.
    at: AppPc,
    /// That fragment's exits: the first, and how many.
    exits: (u32, u32),
}

impl Recording {
    fn of((head, prefix): (AppPc, Prefix), unrolled: bool, no_returns: bool) -> Self {
        Self {
            pieces: Vec::new(),
            insns: 0,
            head,
            prefix,
            unrolled,
            usual: None,
            calls: Vec::new(),
            no_returns,
            ways: Vec::new(),
            rounds: 0,
            known: 0,
            at: head,
            exits: (0, 0),
        }
    }

    /// Takes note of a piece that goes on to `next`, its own start or not, where another trace starts or not, by a fickle branch or not.
    /// Whether that is the end.
    fn add(&mut self, exit: &Exit, next: AppPc, (own, trace): (bool, bool), fickle: bool) -> bool {
        self.insns += usize::from(exit.insns);
        self.pieces.push(Piece {
            start: self.at,
            insns: exit.insns,
        });
        let returns = self.no_returns && exit.way == Way::Return;
        let over = own || exit.way == Way::Syscall || returns;
        if over || self.pieces.len() >= MAX_PIECES {
            return true;
        }
        let ends = match exit.way {
            Way::Backward => true,
            Way::Return => self.calls.pop().is_none() || self.no_returns,
            Way::Call => {
                let known = trace && self.calls.is_empty();
                let recurs = self.calls.contains(&next);
                self.calls.push(next);
                known || recurs
            }
            _ => false,
        };
        let outside = self.calls.is_empty();
        let revisits = !self.unrolled && self.pieces.iter().any(|p| p.start == next);
        if ends || fickle || outside && (trace || revisits) || self.insns >= MAX_USUAL {
            self.usual.get_or_insert(self.pieces.len());
        }
        self.usual.is_some() && !self.unrolled
    }

    /// It has come to its own start. Whether enough is known of it.
    fn close(&mut self) -> bool {
        let pieces = core::mem::take(&mut self.pieces);
        self.known += 1;
        match self.ways.iter().position(|way| way.0 == pieces) {
            Some(n) => self.ways[n].1 += 1,
            None if self.ways.len() < MAX_WAYS => {
                self.ways.push((pieces, 1));
                self.known = 0;
            }
            None => {}
        }
        self.rounds += 1;
        self.insns = 0;
        self.calls.clear();
        self.usual = None;
        self.known >= STEADY || self.rounds >= MAX_ROUNDS
    }

    /// App instructions that it may have.
    fn most(&self) -> usize {
        match self.unrolled {
            true => MAX_INSNS,
            false => MAX_USUAL,
        }
    }
}

impl Runtime {
    fn path_from(&self, head: (AppPc, Prefix), unrolled: bool) -> Recording {
        let trace = &self.shared.control().trace;
        Recording::of(head, unrolled, trace.no_returns.load(Relaxed) != 0)
    }

    /// Whether a path may be recorded now.
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
    pub fn start_unrolled(&mut self, thread: &mut Thread, exit: u32, next: AppPc) {
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
        let (first, count) = recording.exits;
        let of_fragment = context.exit.wrapping_sub(first) < count;
        let exit = self.cache.exit(context.exit);
        let next = match context.reason {
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
            let frame = (steady && region::is_private(context.regs[4])).then_some(frame);
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
        context.target = self.cache.fragments[id as usize].entry;
        true
    }

    /// A fragment all of whose exits lead to the dispatcher, and these.
    pub fn recorded_fragment(&mut self, to: (AppPc, Prefix)) -> Result<(u32, (u32, u32)), Refusal> {
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
        let exits = (first, self.cache.next_exit().wrapping_sub(first));
        self.cache.keep_recorded(id, exits);
        Ok((id, exits))
    }

    fn abandon(&self) {
        let control = self.shared.control();
        control.trace.abandoned.fetch_add(1, Relaxed);
    }

    /// Makes the trace of a path, which came to its own start or not; `frame`: by how much `rbp` is above
    /// `rsp` there, of a loop all of whose ways are known.
    fn finish(&mut self, recording: &Recording, closed: bool, frame: Option<i64>) {
        let old = self.cache.lookup_on(recording.head, recording.prefix);
        if old.is_some_and(|id| self.cache.is_trace(id)) {
            return;
        }
        let began = Began::long();
        let checked = |id: u32| self.cache.fragments[id as usize].checked.is_some();
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
