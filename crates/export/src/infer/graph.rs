//! The graph of a function, with sampled counts and prices.
//!
//! A block has two nodes, before and after it, and an arc between them with its count. One more node is the *world*: control comes from
//! there by calls and jumps of others, and goes there by returns. So a consistent function is a circulation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use trommel_code::{Balance, Body, Exit, Function, Line, Price};
use trommel_tuple::{Place, Vaddr};

use crate::view::{ModuleFlow, Straight, Transfer, Way};

/// Prices of changes.
mod prices {
    use super::Price;

    const fn price(raise: u32, lower: u32) -> Price {
        Price { raise, lower }
    }

    pub(super) const FREE: Price = price(0, 0);
    /// Price of a block that was sampled.
    pub(super) const BLOCK: Price = price(2, 4);
    /// Price of a block that no sample met.
    pub(super) const UNSEEN_BLOCK: Price = price(1, 0);
    /// Price of a way that was sampled.
    pub(super) const WAY: Price = price(3, 3);
    /// Price of a way that its branch was seen not to take.
    pub(super) const SEEN_0_TIMES: Price = price(5, 0);
    /// Price of a way of a branch that no sample met.
    pub(super) const UNSEEN_WAY: Price = price(1, 0);
    /// Price of the calls of the function.
    pub(super) const ENTRY: Price = price(1, 2);
    /// Price of ways that no instruction shows: from a table of jumps, or out of a call that does not return.
    pub(super) const HIDDEN: Price = price(6, 3);
}

/// A straight line of the function, executed or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) start: u64,
    pub(super) last: u64,
    pub(super) end: u64,
    pub(super) instructions: u32,
    exit: Exit,
    taken: Option<u64>,
}

/// A way out of a block, with the number of its arc.
type OneWay = (usize, Place, Place, Way);

/// The graph of a function.
pub(super) struct Graph {
    pub(super) blocks: Vec<Block>,
    /// Arcs that are ways from one instruction to another. The first arcs are blocks.
    pub(super) ways: Vec<OneWay>,
    balance: Balance,
}

/// The sampled counts of a module.
pub(super) struct Sampled<'f> {
    flow: &'f ModuleFlow,
    into: BTreeMap<u64, Vec<&'f Transfer>>,
}

impl<'f> Sampled<'f> {
    pub(super) fn new(flow: &'f ModuleFlow) -> Self {
        let mut into: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
        for transfer in flow.transfers.iter().filter(|t| flow.has(t.to)) {
            into.entry(transfer.to.vaddr().0)
                .or_default()
                .push(transfer);
        }
        Self { flow, into }
    }

    /// Executed lines that begin in a range.
    pub(super) fn lines(&self, range: &Range<u64>) -> &'f [Straight] {
        let lines = &self.flow.lines;
        let first = lines.partition_point(|line| line.start < range.start);
        let end = lines.partition_point(|line| line.start < range.end);
        lines.get(first..end).unwrap_or_default()
    }

    /// The count of the executed line that a vaddr is in.
    fn at(&self, at: u64) -> Option<u64> {
        let after = self.flow.lines.partition_point(|line| line.start <= at);
        let line = self.flow.lines[..after].last()?;
        (at < line.end).then_some(line.count)
    }

    /// Transfers out of an instruction that stay in the function, or jump away.
    fn from(&self, at: u64) -> Vec<&'f Transfer> {
        let from = Place::new(self.flow.module, Vaddr(at));
        let all = &self.flow.transfers;
        let first = all.partition_point(|transfer| transfer.from < from);
        let own = all[first..]
            .iter()
            .take_while(|transfer| transfer.from == from);
        own.filter(|transfer| transfer.way != Way::Call).collect()
    }

    /// The number of times that others came to a place: by calls, and from elsewhere.
    fn entered(&self, at: u64, body: &Body) -> u64 {
        let all = self.into.get(&at).into_iter().flatten();
        let of_others = all.filter(|transfer| {
            let inside =
                self.flow.has(transfer.from) && body.index(transfer.from.vaddr().0).is_some();
            transfer.way == Way::Call || !inside
        });
        of_others.fold(0, |sum, transfer| sum.saturating_add(transfer.count))
    }
}

/// A graph that is being made.
struct Builder<'f> {
    sampled: &'f Sampled<'f>,
    index: HashMap<u64, usize>,
    counts: Vec<Option<u64>>,
    graph: Graph,
    world: usize,
    /// Blocks that some instruction of the function leads to.
    led: Vec<bool>,
}

impl Graph {
    pub(super) fn new(body: &Body, sampled: &Sampled<'_>, function: &Function) -> Self {
        let blocks = blocks(body, sampled, function);
        let world = 2 * blocks.len();
        let mut builder = Builder {
            sampled,
            index: blocks
                .iter()
                .enumerate()
                .map(|(n, b)| (b.start, n))
                .collect(),
            counts: blocks.iter().map(|block| sampled.at(block.start)).collect(),
            led: vec![false; blocks.len()],
            world,
            graph: Self {
                balance: Balance::new(world + 1),
                ways: Vec::new(),
                blocks,
            },
        };
        for n in 0..builder.graph.blocks.len() {
            let (count, price) = match builder.counts[n] {
                Some(count) => (count, prices::BLOCK),
                None => (0, prices::UNSEEN_BLOCK),
            };
            builder.graph.balance.arc(2 * n, 2 * n + 1, count, price);
        }
        for n in 0..builder.graph.blocks.len() {
            builder.ways_out(n);
        }
        let start = function.ranges.first().map(|range| range.start);
        for n in 0..builder.graph.blocks.len() {
            let at = builder.graph.blocks[n].start;
            let count = sampled.entered(at, body);
            let price = match start == Some(at) {
                true => prices::ENTRY,
                false if count > 0 => prices::WAY,
                false if !builder.led[n] => prices::HIDDEN,
                false => continue,
            };
            builder.graph.balance.arc(world, 2 * n, count, price);
        }
        builder.graph
    }

    /// The arcs with their counts and prices.
    pub(super) const fn balance(&self) -> &Balance {
        &self.balance
    }
}

impl Builder<'_> {
    /// Adds the arcs out of a block.
    fn ways_out(&mut self, n: usize) {
        let block = self.graph.blocks[n];
        let count = self.counts[n].unwrap_or(0);
        let recorded = self.sampled.from(block.last);
        let recorded: Vec<_> = recorded.iter().map(|t| (t.to, t.way, t.count)).collect();
        match block.exit {
            Exit::Branch => self.branch(n, &recorded),
            Exit::Jump(to) => self.way(n, to, Way::Jump, count, prices::FREE),
            Exit::Next => self.way(n, block.end, Way::Fall, count, prices::FREE),
            Exit::Call | Exit::System => {
                let returns = count == 0
                    || recorded
                        .iter()
                        .any(|(_, way, n)| *way == Way::Back && *n > 0);
                let (back, away) = match returns {
                    true => (prices::FREE, prices::HIDDEN),
                    false => (prices::HIDDEN, prices::FREE),
                };
                let returned = if returns { count } else { 0 };
                self.way(n, block.end, Way::Back, returned, back);
                self.graph
                    .balance
                    .arc(2 * n + 1, self.world, count - returned, away);
            }
            Exit::IndirectJump => {
                for (to, way, count) in &recorded {
                    self.way_to(n, *to, *way, *count, prices::WAY);
                }
                let seen = recorded
                    .iter()
                    .fold(0_u64, |sum, (.., n)| sum.saturating_add(*n));
                let price = if recorded.is_empty() {
                    prices::FREE
                } else {
                    prices::HIDDEN
                };
                let rest = count.saturating_sub(seen);
                self.graph.balance.arc(2 * n + 1, self.world, rest, price);
            }
            Exit::Return | Exit::Nowhere => {
                self.graph
                    .balance
                    .arc(2 * n + 1, self.world, count, prices::FREE);
            }
        }
    }

    fn branch(&mut self, n: usize, recorded: &[(Place, Way, u64)]) {
        let block = self.graph.blocks[n];
        let ways = [(block.taken, Way::Taken), (Some(block.end), Way::NotTaken)];
        for (to, way) in ways {
            let Some(to) = to else { continue };
            let of_way = recorded.iter().filter(|(_, w, _)| *w == way);
            let count = of_way.fold(0_u64, |sum, (.., n)| sum.saturating_add(*n));
            let price = match count {
                1.. => prices::WAY,
                0 if recorded.is_empty() => prices::UNSEEN_WAY,
                0 => prices::SEEN_0_TIMES,
            };
            self.way(n, to, way, count, price);
        }
    }

    /// Adds a way to a vaddr of the module.
    fn way(&mut self, n: usize, to: u64, way: Way, count: u64, price: Price) {
        self.way_to(
            n,
            Place::new(self.sampled.flow.module, Vaddr(to)),
            way,
            count,
            price,
        );
    }

    fn way_to(&mut self, n: usize, to: Place, way: Way, count: u64, price: Price) {
        let inside = self
            .sampled
            .flow
            .has(to)
            .then(|| self.index.get(&to.vaddr().0))
            .flatten();
        let node = match inside.copied() {
            Some(there) => {
                self.led[there] = true;
                2 * there
            }
            None => self.world,
        };
        let arc = self.graph.balance.arc(2 * n + 1, node, count, price);
        let last = Place::new(self.sampled.flow.module, Vaddr(self.graph.blocks[n].last));
        // Of what falls out of the function, or comes back to no code, nobody asks.
        if inside.is_some() || way.is_taken() || way == Way::NotTaken {
            self.graph.ways.push((arc, last, to, way));
        }
    }
}

/// Cuts a function into blocks: at targets of its branches, and where executed lines begin and end.
fn blocks(body: &Body, sampled: &Sampled<'_>, function: &Function) -> Vec<Block> {
    let lines = body.lines();
    let mut leaders: BTreeSet<u64> = lines.iter().filter_map(target).collect();
    for range in &function.ranges {
        for line in sampled.lines(range) {
            leaders.extend([line.start, line.end]);
        }
        leaders.extend(sampled.into.range(range.clone()).map(|(to, _)| *to));
    }
    let mut all: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for line in lines {
        let exit = Exit::of(&line.instruction);
        if open.is_some_and(|block| block.end != line.at || leaders.contains(&line.at)) {
            all.extend(open.take());
        }
        let mut block = open.unwrap_or(Block {
            start: line.at,
            last: line.at,
            end: line.at,
            instructions: 0,
            exit,
            taken: None,
        });
        block.last = line.at;
        block.end = line.end();
        block.instructions += 1;
        block.exit = exit;
        block.taken = target(line);
        match exit {
            Exit::Next => open = Some(block),
            _ => {
                all.push(block);
                open = None;
            }
        }
    }
    all.extend(open);
    all
}

/// The target of a direct jump or branch.
fn target(line: &Line) -> Option<u64> {
    let leads = matches!(Exit::of(&line.instruction), Exit::Branch | Exit::Jump(_));
    leads.then(|| line.instruction.near_branch_target())
}
