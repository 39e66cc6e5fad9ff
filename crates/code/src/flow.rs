//! Execution counts of each instruction of a function.
//!
//! # Problem
//! Events are of branches, calls and loads. An instruction between them was executed as often as control reached.
//!
//! # Strategy
//! A *run* is a sequence of instructions that are entered at the first and left after the last: no branch leads into it, nor
//! out of it, and a call ends it. Its instructions are executed equally often. So one of them that has events of its own gives
//! the count of all: a conditional branch, an indirect jump or a call was executed as often as it went anywhere, a load as often as it
//! loaded something. Flow conservation carries counts to a run without events:
//!
//! 1. what comes in: recorded branches, jumps and calls to its first instruction, the run before it, direct jumps (which are no
//!    events) in this function and in others, and what the call before it came back;
//! 2. else what goes on: the run after it, less what else came into that. That is preferred where nothing in the code leads to a run, as to a
//!    function's start, since such code may be entered in ways that are no events: by the kernel, by a `ret`.
//!
//! # Why it is right
//! Every branch with two ways is an event, so each run that has none leaves by one way only, and what comes into all runs is the
//! solution of a triangular system but for cycles of runs without events, which a program never leaves. That needs every event: of
//! estimates it makes estimates.
//!
//! Profiles that count in code also tell how often an instruction after a call was executed ([`Events::after_call`]). So calls need
//! not return.
//!
//! *Assumed* elsewhere, where a run has no event of its own: that what is called returns, but for functions that never do ([`Events::returned`]),
//! and that control reaches the ways named above. [`How::Derived`](crate::How::Derived) says so. In exact profiles a fault or an end in the middle of a run
//! makes a difference between its events: an instruction has the count of the next one that has events.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic};
use trommel_symbol::Code;

use crate::body::{Body, Line, always_faults, direct_target, falls_through};
use crate::count::Count;
use crate::exact::Exact;
use crate::kernel::never_comes_back;

/// Events of one module in a profile. `None` where the profile has no events of the kind.
pub trait Events {
    /// Every count is true.
    fn exact(&self) -> bool;
    /// The instructions in a range that have events.
    fn sites(&mut self, range: &Range<u64>) -> Vec<u64>;
    /// Returns where recorded branches, jumps and calls lead to in a range.
    fn targets(&mut self, range: &Range<u64>) -> Vec<u64>;
    /// Returns how often an instruction was executed, by its own events.
    fn executed(&mut self, at: u64, instruction: &Instruction) -> Option<Count>;
    /// Returns how often recorded branches, jumps and calls led to an instruction.
    fn arrivals(&mut self, at: u64) -> Option<Count>;
    /// Returns how often an instruction after a call was executed, if that was counted.
    fn after_call(&mut self, at: u64) -> Option<Count>;
    /// Returns how often a call that was executed so often came back: not from functions that are known to return never.
    fn returned(&mut self, at: u64, instruction: &Instruction, executed: Count) -> Count;
}

/// Number of times the instructions of a function were executed.
#[derive(Debug)]
pub struct Flow {
    /// The instructions.
    pub body: Body,
    counts: Vec<Option<Count>>,
}

impl Flow {
    /// Derives counts of the function in `ranges`. `functions` are all of the module, in the order of their starts: direct jumps come from them.
    pub fn new(
        code: &Code<'_>,
        functions: &[Range<u64>],
        ranges: &[Range<u64>],
        events: &mut dyn Events,
    ) -> Self {
        let mut all = All {
            code,
            functions,
            events,
            known: HashMap::new(),
        };
        all.flow(ranges, 0)
    }

    /// Returns how often the instruction of this number was executed; `None` where the profile does not tell.
    pub fn count(&self, line: usize) -> Option<Count> {
        self.counts.get(line).copied().flatten()
    }
}

/// So many functions in a row jump to each other, without an event between the jumps.
const MOST_DEEP: usize = 16;

/// All functions of a module, as far as they are needed.
struct All<'c, 'a> {
    code: &'c Code<'a>,
    functions: &'c [Range<u64>],
    events: &'c mut dyn Events,
    /// By start; `None` while it is solved.
    known: HashMap<u64, Option<Flow>>,
}

impl All<'_, '_> {
    fn flow(&mut self, ranges: &[Range<u64>], depth: usize) -> Flow {
        let mut places = Vec::new();
        let mut targets = Vec::new();
        for range in ranges {
            places.extend(self.events.sites(range));
            targets.extend(self.events.targets(range));
        }
        places.extend(&targets);
        let body = Body::new(self.code, ranges, &places);
        let elsewhere = self.jumps_into(&body);
        targets.extend(elsewhere.keys());
        let runs = Runs::new(&body, &targets);
        let counts = Solver {
            found: vec![None; runs.lines.len()],
            ends: vec![None; runs.lines.len()],
            elsewhere: &elsewhere,
            body: &body,
            runs: &runs,
            depth,
        }
        .solve(self);
        Flow { body, counts }
    }

    /// Returns how often the direct jump at `at`, in some other function, was executed; `None` where that is not known, as in code
    /// without names, and zero where there is no jump, but bytes that look like one.
    fn jump(&mut self, at: u64, depth: usize) -> Option<Count> {
        let after = self.functions.partition_point(|f| f.start <= at);
        let around = self.functions[..after].iter().rev().take(MOST_DEEP);
        let range = around.into_iter().find(|f| f.contains(&at)).cloned()?;
        self.in_function(range, depth, |flow| {
            let is = |n: &usize| flow.body.lines()[*n].instruction.is_jmp_short_or_near();
            match flow.body.index(at).filter(is) {
                Some(n) => flow.count(n),
                None => Some(Count::NONE),
            }
        })
    }

    /// Returns how often control fell into the instruction at `start` from the function that ends there.
    fn fell_into(&mut self, start: u64, depth: usize) -> Option<Count> {
        let after = self.functions.partition_point(|f| f.start < start);
        let before = self.functions[..after].iter().rev().take(MOST_DEEP);
        let Some(range) = before.into_iter().find(|f| f.end == start).cloned() else {
            return Some(Count::NONE);
        };
        self.in_function(range, depth, |flow| {
            let Some(last) = flow.body.lines().len().checked_sub(1) else {
                return Some(Count::NONE);
            };
            // After a call that ends a function nothing is meant to be executed; a branch's way on is an event.
            match is_plain(&flow.body.lines()[last].instruction) {
                true => flow.count(last),
                false => Some(Count::NONE),
            }
        })
    }

    fn in_function(
        &mut self,
        range: Range<u64>,
        depth: usize,
        ask: impl Fn(&Flow) -> Option<Count>,
    ) -> Option<Count> {
        if depth >= MOST_DEEP {
            return None;
        }
        let start = range.start;
        if !self.known.contains_key(&start) {
            self.known.insert(start, None);
            let flow = self.flow(&[range], depth + 1);
            self.known.insert(start, Some(flow));
        }
        self.known.get(&start)?.as_ref().and_then(ask)
    }

    /// Returns where direct jumps may be that lead into the function from elsewhere, by where they lead.
    fn jumps_into(&self, body: &Body) -> BTreeMap<u64, Vec<u64>> {
        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (start, bytes) in self.code.parts() {
            for (offset, byte) in bytes.iter().enumerate() {
                let displacement = match byte {
                    0xe9 => (bytes.get(offset + 1..).and_then(|b| b.first_chunk()))
                        .map(|b| (5, i64::from(i32::from_le_bytes(*b)))),
                    0xeb => bytes.get(offset + 1).map(|b| (2, i64::from(*b as i8))),
                    _ => continue,
                };
                let Some((length, displacement)) = displacement else {
                    continue;
                };
                let at = start.wrapping_add(offset as u64);
                let to = at.wrapping_add(length).wrapping_add_signed(displacement);
                if body.contains(to) && !body.contains(at) {
                    found.entry(to).or_default().push(at);
                }
            }
        }
        found
    }
}

/// An instruction that only ever goes on to the next.
fn is_plain(instruction: &Instruction) -> bool {
    falls_through(instruction)
        && !is_call(instruction)
        && instruction.flow_control() != FlowControl::ConditionalBranch
}

/// Not of system calls, which some decoders call so.
fn is_call(instruction: &Instruction) -> bool {
    instruction.is_call_near()
        || instruction.is_call_near_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
}

/// From where control comes to a run, but for what is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// From the end of this run.
    Run(usize),
    /// Back from the call at the end of this run.
    Call(usize),
}

/// The runs of a function.
struct Runs {
    /// The lines of each.
    lines: Vec<Vec<usize>>,
    /// From where each is entered.
    from: Vec<Vec<From>>,
    /// Successors of each run, unless these are elsewhere or recorded.
    to: Vec<Option<usize>>,
}

impl Runs {
    fn new(body: &Body, targets: &[u64]) -> Self {
        let lines = body.lines();
        let mut next: Vec<Option<usize>> = (lines.iter())
            .map(|line| {
                body.index(line.end())
                    .filter(|_| falls_through(&line.instruction))
            })
            .collect();
        let mut before = vec![0_u32; lines.len()];
        let mut head = vec![false; lines.len()];
        for (n, line) in lines.iter().enumerate() {
            if let Some(next) = next[n] {
                before[next] += 1;
                head[next] |= !is_plain(&line.instruction);
            }
            if let Some(target) = direct_target(&line.instruction).and_then(|t| body.index(t)) {
                head[target] = true;
            }
        }
        for at in targets
            .iter()
            .copied()
            .chain(body.ranges().iter().map(|r| r.start))
        {
            if let Some(n) = body.index(at) {
                head[n] = true;
            }
        }
        for (n, next) in next.iter_mut().enumerate() {
            if let Some(after) = next.filter(|_| is_last(lines, &head, n)) {
                before[after] -= 1;
                *next = None;
            }
        }
        let mut all: Vec<Vec<usize>> = Vec::new();
        let mut run_of = vec![usize::MAX; lines.len()];
        for n in 0..lines.len() {
            if !head[n] && before[n] == 1 {
                continue;
            }
            let mut run = vec![n];
            let mut last = n;
            while let Some(next) = next[last].filter(|next| !head[*next] && before[*next] == 1) {
                run.push(next);
                last = next;
            }
            for line in &run {
                run_of[*line] = all.len();
            }
            all.push(run);
        }
        let mut from = vec![Vec::new(); all.len()];
        let mut to = vec![None; all.len()];
        for (run, members) in all.iter().enumerate() {
            let Some(&last) = members.last() else {
                continue;
            };
            let instruction = &lines[last].instruction;
            let there = match (is_plain(instruction), next[last]) {
                (true, next) => next,
                (false, Some(next)) if is_call(instruction) => {
                    if !always_faults(&lines[next].instruction) {
                        from[run_of[next]].push(From::Call(run));
                    }
                    None
                }
                (false, _) if instruction.is_jmp_short_or_near() => {
                    body.index(instruction.near_branch_target())
                }
                _ => None,
            };
            if let Some(there) = there.map(|line| run_of[line]) {
                from[there].push(From::Run(run));
                to[run] = Some(there);
            }
        }
        Self {
            lines: all,
            from,
            to,
        }
    }
}

/// Returns true of a system call that never comes back, by the straight line that leads to it.
fn is_last(lines: &[Line], head: &[bool], n: usize) -> bool {
    if !matches!(
        lines[n].instruction.mnemonic(),
        Mnemonic::Syscall | Mnemonic::Int
    ) {
        return false;
    }
    let goes_on = |m: &usize| {
        let (one, other) = (&lines[m - 1], &lines[*m]);
        !head[*m] && one.end() == other.at && is_plain(&one.instruction)
    };
    let first = (1..=n).rev().take_while(goes_on).last();
    let first = first.map_or(n, |m| m - 1);
    let line: Vec<Instruction> = lines[first..=n].iter().map(|l| l.instruction).collect();
    never_comes_back(&line).is_some()
}

struct Solver<'b> {
    body: &'b Body,
    runs: &'b Runs,
    depth: usize,
    /// Number of times each run was entered.
    found: Vec<Option<Count>>,
    /// Number of times each came to its last instruction.
    ends: Vec<Option<Count>>,
    /// Destinations of direct jumps from elsewhere, and the places of these jumps.
    elsewhere: &'b BTreeMap<u64, Vec<u64>>,
}

impl Solver<'_> {
    /// The count of each line.
    fn solve(mut self, all: &mut All<'_, '_>) -> Vec<Option<Count>> {
        let mut counts = vec![None; self.body.lines().len()];
        for run in 0..self.runs.lines.len() {
            self.by_events(run, all, &mut counts);
        }
        let is_entry = |run: &usize| self.runs.from[*run].is_empty();
        let (entries, others): (Vec<usize>, Vec<usize>) =
            (0..self.runs.lines.len()).partition(is_entry);
        // What is better known first; each step may make more known to those before it.
        loop {
            if self.step(&others, |s, run| s.inflow(run, None, all))
                || self.step(&entries, |s, run| s.outflow(run, all))
                || self.step(&entries, |s, run| s.inflow(run, None, all))
                || self.step(&others, |s, run| s.outflow(run, all))
            {
                continue;
            }
            break;
        }
        for (run, members) in self.runs.lines.iter().enumerate() {
            for line in members {
                counts[*line] = counts[*line].or(self.found[run]);
            }
        }
        counts
    }

    /// Adds what the events of a run's own instructions say.
    fn by_events(&mut self, run: usize, all: &mut All<'_, '_>, counts: &mut [Option<Count>]) {
        let members = &self.runs.lines[run];
        let lines = self.body.lines();
        let mut told = Vec::new();
        if self.is_after_call(run)
            && let Some(count) = all.events.after_call(lines[members[0]].at)
        {
            told.push((members[0], count));
        }
        for &line in members {
            let instruction = &lines[line].instruction;
            if !instruction.is_invalid()
                && let Some(count) = all.events.executed(lines[line].at, instruction)
            {
                // Its own events are as good, and those of a run are one for each line.
                told.pop_if(|(at, _)| *at == line);
                told.push((line, count));
            }
        }
        if !all.events.exact() {
            let seen = || told.iter().map(|(_, c)| *c).filter(|c| c.times > 0.0);
            let best = seen().min_by(|a, b| a.doubt().total_cmp(&b.doubt()));
            let count = best.map(|best| match best.limits {
                Some(_) => best,
                None => {
                    let sum: f64 = seen().map(|c| c.times).sum();
                    Count::of_events(sum / seen().count() as f64, None)
                }
            });
            let count = count.or(told.first().map(|_| Count::NONE));
            (self.found[run], self.ends[run]) = (count, count);
            return;
        }
        let mut told = told.into_iter().peekable();
        let mut latest = told.peek().map(|(_, count)| *count);
        self.found[run] = latest;
        for &line in members {
            // Up to the next one that has events its count, after the last one that of the last.
            if let Some((_, count)) = told.peek() {
                latest = Some(*count);
            }
            counts[line] = latest;
            told.next_if(|(at, _)| *at == line);
        }
        self.ends[run] = latest;
    }

    /// Returns true if a call leads to a run by coming back.
    fn is_after_call(&self, run: usize) -> bool {
        let from = &self.runs.from[run];
        from.iter().any(|from| matches!(from, From::Call(_)))
    }

    /// Asks of each run that is not known. Returns true if any became known.
    fn step(
        &mut self,
        runs: &[usize],
        mut ask: impl FnMut(&mut Self, usize) -> Option<Count>,
    ) -> bool {
        let mut some = false;
        for &run in runs {
            if self.found[run].is_none()
                && let Some(count) = ask(self, run)
            {
                (self.found[run], self.ends[run]) = (Some(count), Some(count));
                some = true;
            }
        }
        some
    }

    /// Returns what came into a run, but for what came from the end of another.
    fn inflow(&mut self, run: usize, but: Option<usize>, all: &mut All<'_, '_>) -> Option<Count> {
        let at = self.body.lines()[*self.runs.lines[run].first()?].at;
        let mut sum = Count::derived(Exact::default(), None);
        for from in &self.runs.from[run] {
            let came = match *from {
                From::Run(other) if Some(other) == but => continue,
                From::Run(other) => self.ends[other]?,
                From::Call(caller) => {
                    // Where instructions after calls are counted, calls need not come back.
                    if but.is_some() && all.events.after_call(at).is_some() {
                        return None;
                    }
                    let executed = self.ends[caller]?;
                    let line = &self.body.lines()[*self.runs.lines[caller].last()?];
                    all.events.returned(line.at, &line.instruction, executed)
                }
            };
            sum = sum.plus(came);
        }
        sum = sum.plus(all.events.arrivals(at)?);
        for jump in self.elsewhere.get(&at).into_iter().flatten() {
            sum = sum.plus(all.jump(*jump, self.depth)?);
        }
        if self.body.ranges().iter().any(|range| range.start == at) {
            sum = sum.plus(all.fell_into(at, self.depth)?);
        }
        Some(sum)
    }

    /// Returns what went on from a run: what came to where it leads, less what came there from elsewhere.
    fn outflow(&mut self, run: usize, all: &mut All<'_, '_>) -> Option<Count> {
        let to = self.runs.to[run].filter(|to| *to != run)?;
        let there = self.found[to]?;
        Some(there.less(self.inflow(to, Some(run), all)?))
    }
}
