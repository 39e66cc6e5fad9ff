//! Hot traces: found while the program runs, by the tail that is executed next.
//!
//! # Problem
//! A fragment ends at each call, return and indirect branch, and goes on after every conditional
//! branch as if it were not taken. A program spends its time in paths that do all of these. Made as
//! one piece of code, such a path needs no lookups, and falls through all the way. Making it takes
//! thirty times as long as executing it once.
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
//! *The trace* is made by the translator along the pieces (`translate::path`), and takes the place of the fragment
//! at its start: every exit that went there leads to the trace, and the counter is free for another. A trace has
//! exits like any fragment, which count.
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

use crate::base::ids::ExitIds;
use crate::translate::piece::{MAX_INSNS, Piece};
use alloc::vec::Vec;

use crate::base::address::AppPc;
use crate::base::prefix::Prefix;
use crate::cache::{Exit, Way};

/// App instructions in any other.
pub(crate) const MAX_USUAL: usize = 256;
/// Rounds of a loop in which no new way shows up before all are taken to be known (`crate::translate::optimise`).
pub(crate) const STEADY: u32 = 10;
/// Rounds of a loop that are recorded at most, and the ways that are kept.
pub(crate) const MAX_ROUNDS: u32 = 60;
pub(crate) const MAX_WAYS: usize = 8;
/// Pieces of a path.
pub(crate) const MAX_PIECES: usize = 192;

/// A path that a thread is executing.
pub struct Recording {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) insns: usize,
    pub(crate) head: AppPc,
    /// Prefix of its start on an acyclic path.
    pub(crate) prefix: Prefix,
    /// True if it goes on after the ends of usual traces.
    pub(crate) unrolled: bool,
    /// Pieces up to the first of those ends, if it has reached one.
    pub(crate) usual: Option<usize>,
    /// Functions that it is in, as far as it has called them.
    pub(crate) calls: Vec<AppPc>,
    /// True if it ends at returns.
    pub(crate) no_returns: bool,
    /// The ways by which it has come to its own start, and how often by each.
    pub(crate) ways: Vec<(Vec<Piece>, u32)>,
    pub(crate) rounds: u32,
    /// Rounds since a new way showed up.
    pub(crate) known: u32,
    /// Start of the recorded fragment that the thread is in.
    pub(crate) at: AppPc,
    /// Exits of that fragment: the first, and how many.
    pub(crate) exits: ExitIds,
}

impl Recording {
    pub(crate) fn of((head, prefix): (AppPc, Prefix), unrolled: bool, no_returns: bool) -> Self {
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
            exits: ExitIds::default(),
        }
    }

    /// Takes note of a piece that goes on to `next`, its own start or not, where another trace starts or not, by a fickle branch or not.
    /// Whether that is the end.
    pub(crate) fn add(
        &mut self,
        exit: &Exit,
        next: AppPc,
        (own, trace): (bool, bool),
        fickle: bool,
    ) -> bool {
        self.insns += usize::from(exit.insns);
        self.pieces.push(Piece {
            start: self.at,
            insns: exit.insns,
        });
        let returns = self.no_returns && exit.way == Way::Return;
        let over = own || matches!(exit.way, Way::Syscall | Way::Stored) || returns;
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

    /// Closes the path at its own start. Returns true if enough is known of it.
    pub(crate) fn close(&mut self) -> bool {
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
    pub(crate) fn most(&self) -> usize {
        match self.unrolled {
            true => MAX_INSNS,
            false => MAX_USUAL,
        }
    }
}
