//! All executed code of a module as straight lines, each with how often it was executed.
//!
//! # Problem
//! A profile counts branches and calls. Reports, exports and layouts ask how often each instruction of a whole program was executed.
//! [`crate::Flow`] answers for one function and searches the module for each.
//!
//! # Strategy
//! [`Reached`] gives the executed instructions. They are cut into *blocks*: entered at the first instruction, left after the
//! last. A block's count is, the first of these that is known:
//!
//! 1. that of the events of its last instruction: a branch, an indirect jump or a call;
//! 2. that of other events in it, such as of loads;
//! 3. what comes in: arrivals, the block before it, direct jumps, and what the call before it came back;
//! 4. what goes on, less what else came there. Where nothing in the code leads to a block it is preferred to 3: such code may be entered
//!    in ways that are no events. A system call goes on into what follows it; that is asked only where no event leads to the block, as the
//!    kernel may come back another number of times.
//!
//! # Why it is right
//! Every transfer with two ways is an event. So each block that ends without one has one way out, and the counts solve a
//! triangular system but for cycles without events, which a program never leaves. Exact events give exact counts.
//! *Assumed* in the cases 3 and 4: calls return, but for those of functions that never do ([`Returns`]), and of a
//! block that a fault or the end of the program cuts short, the rest counts too.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};
use trommel_symbol::Code;
use trommel_tuple::Place;

use crate::count::Count;
use crate::exit::Exit;
use crate::reach::Reached;
use crate::transfers::Transfers;

/// Answers whether functions return.
pub trait Returns {
    /// Returns true if a call to a place may come back.
    fn returns(&mut self, target: Place) -> bool;
    /// Returns true if a function is known to end at a vaddr, so that a call before it does not come back.
    fn ends_function(&self, _at: u64) -> bool {
        false
    }
}

/// A straight line of executed instructions.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Vaddr of its first instruction.
    pub start: u64,
    /// Vaddr after its last one.
    pub end: u64,
    /// Vaddr of its last instruction.
    pub last: u64,
    /// Number of instructions.
    pub instructions: u32,
    /// The way that control leaves it.
    pub exit: Exit,
    /// Executions; `None` where nothing tells.
    pub count: Option<Count>,
}

impl Block {
    /// Vaddrs of its instructions.
    pub fn places(&self, code: &Code<'_>) -> Vec<u64> {
        let Some(bytes) = code.at(self.start) else {
            return Vec::new();
        };
        let mut decoder = Decoder::with_ip(64, bytes, self.start, DecoderOptions::NONE);
        let mut places = Vec::with_capacity(self.instructions as usize);
        for _ in 0..self.instructions {
            places.push(decoder.ip());
            let _ = decoder.decode();
        }
        places
    }

    /// Instructions that were executed in it.
    pub fn executed(&self) -> Option<Count> {
        let count = self.count?;
        Some(count.times_of(f64::from(self.instructions)))
    }
}

/// The executed blocks of a module, in the order of their vaddrs.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    all: Vec<Block>,
    /// Recorded transfers.
    pub transfers: Transfers,
}

impl Blocks {
    /// Derives the blocks of a module. `functions` are all of it, in the order of their starts.
    pub fn new(
        code: &Code<'_>,
        functions: &[Range<u64>],
        transfers: Transfers,
        returns: &mut dyn Returns,
    ) -> Self {
        let ends = |at| returns.ends_function(at);
        let reached = Reached::new(code, functions, &transfers, &ends);
        let mut all = cut(&reached);
        let counts = Solver::new(&all, &transfers, returns).solve();
        for (block, count) in all.iter_mut().zip(counts) {
            block.count = count;
        }
        Self { all, transfers }
    }

    /// Records of code that has no bytes.
    pub fn without_code(transfers: Transfers) -> Self {
        Self {
            all: Vec::new(),
            transfers,
        }
    }

    /// The blocks.
    pub fn all(&self) -> &[Block] {
        &self.all
    }

    /// The blocks that begin in a range.
    pub fn within(&self, range: &Range<u64>) -> &[Block] {
        let first = self.all.partition_point(|b| b.start < range.start);
        let end = self.all.partition_point(|b| b.start < range.end);
        self.all.get(first..end).unwrap_or_default()
    }

    /// The block that begins at a vaddr.
    pub fn at(&self, start: u64) -> Option<&Block> {
        let found = self.all.binary_search_by_key(&start, |b| b.start).ok()?;
        self.all.get(found)
    }
}

/// Cuts what was executed into blocks.
fn cut(reached: &Reached) -> Vec<Block> {
    let steps = &reached.steps;
    let mut all = Vec::with_capacity(steps.heads());
    for start in steps.all_heads() {
        let (mut at, mut last, mut instructions) = (start, start, 0_u32);
        let mut exit = Exit::Nowhere;
        while let Some(step) = steps.get(at) {
            last = at;
            instructions += 1;
            exit = step.exit;
            at += u64::from(step.length);
            if exit != Exit::Next || steps.is_head(at) {
                break;
            }
        }
        if instructions > 0 {
            all.push(Block {
                start,
                end: at,
                last,
                instructions,
                exit,
                count: None,
            });
        }
    }
    all
}

/// Ways into a block, but for what is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// From the end of this block.
    Block(usize),
    /// Back from the call at its end.
    Call(usize),
}

struct Solver<'s> {
    blocks: &'s [Block],
    transfers: &'s Transfers,
    returns: &'s mut dyn Returns,
    found: Vec<Option<Count>>,
    from: Vec<Vec<From>>,
    /// The block that the end of each leads to, if it is no event. A call leads to what follows it.
    next: Vec<Option<usize>>,
    /// The number of blocks that lead to each, of which nothing is known.
    unknown: Vec<usize>,
}

impl<'s> Solver<'s> {
    fn new(blocks: &'s [Block], transfers: &'s Transfers, returns: &'s mut dyn Returns) -> Self {
        let index: HashMap<u64, usize> = (blocks.iter().enumerate())
            .map(|(n, block)| (block.start, n))
            .collect();
        let mut found: Vec<_> = blocks.iter().map(|b| by_events(b, transfers)).collect();
        let mut from = vec![Vec::new(); blocks.len()];
        let mut next = vec![None; blocks.len()];
        for (n, block) in blocks.iter().enumerate() {
            let (target, way) = match block.exit {
                Exit::Next => (block.end, From::Block(n)),
                Exit::Jump(target) => (target, From::Block(n)),
                Exit::Call if returns.ends_function(block.end) => continue,
                Exit::Call | Exit::System => (block.end, From::Call(n)),
                Exit::Branch | Exit::IndirectJump | Exit::Return | Exit::Nowhere => {
                    continue;
                }
            };
            if let Some(&there) = index.get(&target) {
                from[there].push(way);
                next[n] = Some(there);
                if block.exit == Exit::Call
                    && let Some(known) = &transfers.after_calls
                    && found[there].is_none()
                {
                    let count = known.get(&target).copied();
                    found[there] = Some(count.unwrap_or(Count::of_events(0.0, None)));
                }
            }
        }
        let mut unknown = vec![0; blocks.len()];
        for there in (0..blocks.len()).filter(|n| found[*n].is_none()) {
            next[there].into_iter().for_each(|n: usize| unknown[n] += 1);
        }
        Self {
            found,
            blocks,
            transfers,
            returns,
            from,
            next,
            unknown,
        }
    }

    /// The count of each block.
    fn solve(mut self) -> Vec<Option<Count>> {
        let unknown = (0..self.blocks.len()).filter(|n| self.found[*n].is_none());
        let (mut entries, mut others): (Vec<usize>, Vec<usize>) =
            unknown.partition(|n| self.from[*n].is_empty());
        let ready = others.iter().filter(|n| self.unknown[**n] == 0);
        self.go_on(ready.copied().collect());
        // What is better known first. Each step may make more known to those before it.
        while self.step(&mut entries, Self::outflow)
            || self.step(&mut entries, |s, n| s.inflow(n, None))
            || self.step(&mut others, Self::outflow)
        {}
        self.found
    }

    /// Finds what comes into blocks of which all that leads to them is known, and then into those after them.
    fn go_on(&mut self, mut ready: Vec<usize>) {
        while let Some(n) = ready.pop() {
            if self.found[n].is_none() {
                let count = self.inflow(n, None);
                ready.extend(self.find(n, count));
            }
        }
    }

    /// Notes the count of a block, if there is one. Returns the block after it if all that leads there is known now.
    fn find(&mut self, n: usize, count: Option<Count>) -> Option<usize> {
        self.found[n] = Some(count?);
        let next = self.next[n]?;
        self.unknown[next] -= 1;
        (self.unknown[next] == 0).then_some(next)
    }

    /// Finds what can be found, and what follows from it. Returns true if something was.
    fn step(
        &mut self,
        unknown: &mut Vec<usize>,
        mut ask: impl FnMut(&mut Self, usize) -> Option<Count>,
    ) -> bool {
        let mut ready = Vec::new();
        unknown.retain(|n| self.found[*n].is_none());
        let before = unknown.len();
        unknown.retain(|n| {
            let count = ask(self, *n);
            ready.extend(self.find(*n, count));
            self.found[*n].is_none()
        });
        self.go_on(ready);
        unknown.len() < before
    }

    /// Returns what came into a block, but for what came from the end of another.
    fn inflow(&mut self, n: usize, but: Option<usize>) -> Option<Count> {
        let mut sum = self.transfers.arrivals(self.blocks[n].start);
        for way in 0..self.from[n].len() {
            sum = sum.plus(match self.from[n][way] {
                From::Block(other) | From::Call(other) if Some(other) == but => continue,
                From::Block(other) => self.found[other]?,
                From::Call(caller) => {
                    let is_call = self.blocks[caller].exit == Exit::Call;
                    // Where instructions after calls are counted, calls need not come back.
                    if but.is_some() && is_call && self.transfers.after_calls.is_some() {
                        return None;
                    }
                    let executed = self.found[caller]?;
                    self.returned(caller, executed)
                }
            });
        }
        Some(sum)
    }

    /// Returns what went on from a block.
    fn outflow(&mut self, n: usize) -> Option<Count> {
        let to = self.next[n].filter(|to| *to != n)?;
        let block = &self.blocks[n];
        if block.exit == Exit::Call {
            return None;
        }
        if block.exit == Exit::System && self.transfers.arrivals(block.start).times > 0.0 {
            return None;
        }
        let there = self.found[to]?;
        Some(there.less(self.inflow(to, Some(n))?))
    }

    /// Returns how often the call at the end of a block came back.
    fn returned(&mut self, n: usize, executed: Count) -> Count {
        let block = &self.blocks[n];
        let Some(targets) = self.transfers.called.get(&block.last) else {
            // A system call, or a call without events.
            return executed;
        };
        let all = targets
            .iter()
            .fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
        let mut back = 0_u64;
        for (target, times) in targets {
            if self.returns.returns(*target) {
                back = back.saturating_add(*times);
            }
        }
        executed.part(back, all)
    }
}

/// Returns what the events of a block's own instructions say.
fn by_events(block: &Block, transfers: &Transfers) -> Option<Count> {
    if let Some(count) = transfers.control.get(&block.last) {
        return Some(*count);
    }
    let is_event = matches!(block.exit, Exit::Branch | Exit::IndirectJump | Exit::Call);
    if is_event {
        // All are recorded: it was not executed.
        return Some(Count::of_events(0.0, None));
    }
    let others = transfers.others.range(block.start..block.end);
    let others = others.map(|(_, count)| *count).filter(|c| c.times > 0.0);
    match transfers.exact {
        true => others.max_by(|a, b| a.times.total_cmp(&b.times)),
        false => others.min_by(|a, b| a.doubt().total_cmp(&b.doubt())),
    }
}
