//! The derived view that all formats read: executed code of one module.
//!
//! # Problem
//! Tools ask for transfers of control that are no events: direct jumps, ways into a label, returns to a caller.
//!
//! # Strategy
//! Recorded branches and calls are transfers with their counts. A block that ends in a direct jump gives a transfer with the block's
//! count, and one that goes on into the next block likewise. How often a call came back to a block is what the block has more than all
//! else that came into it.
//!
//! # Invariants
//! Lines are in the order of their starts and do not overlap, but where two instructions share bytes. Transfers are in the order of
//! [`Transfer`], each once. Counts are whole numbers: estimates are rounded. Sums end at the greatest number of 64 bits.

use std::collections::HashMap;

use trommel_code::{Block, Count, Exit, Program};
use trommel_tuple::{ModuleId, Place, Vaddr};

/// The greatest number up to which a `f64` has all, as readers of JSON take numbers.
pub const MOST_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Ways in which control goes from one instruction to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Way {
    /// A conditional branch, taken.
    Taken,
    /// A conditional branch, not taken.
    NotTaken,
    /// A direct jump.
    Jump,
    /// An indirect jump.
    Indirect,
    /// A call, direct or not.
    Call,
    /// From a straight line into the next one, without a branch.
    Fall,
    /// From a call on to what follows it, by way of what was called.
    Back,
}

impl Way {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::NotTaken => "fallthrough",
            Self::Jump => "jump",
            Self::Indirect => "indirect",
            Self::Call => "call",
            Self::Fall => "next",
            Self::Back => "return",
        }
    }

    /// Returns true if the processor takes a branch: the next instruction in memory is not executed next.
    pub const fn is_taken(self) -> bool {
        matches!(self, Self::Taken | Self::Jump | Self::Indirect | Self::Call)
    }
}

/// A way that control went, and how often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Transfer {
    /// The instruction that control left.
    pub from: Place,
    /// The instruction that it came to.
    pub to: Place,
    /// The way.
    pub way: Way,
    /// Times.
    pub count: u64,
}

/// A straight line of instructions, entered at the first and left after the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Straight {
    /// Vaddr of the first instruction.
    pub start: u64,
    /// Vaddr of the last instruction.
    pub last: u64,
    /// Vaddr after it.
    pub end: u64,
    /// Number of instructions.
    pub instructions: u32,
    /// Times.
    pub count: u64,
}

/// Executed code of one module.
#[derive(Clone, Debug)]
pub struct ModuleFlow {
    /// The module.
    pub module: ModuleId,
    /// Executed straight lines.
    pub lines: Vec<Straight>,
    /// Transfers that begin or end in the module.
    pub transfers: Vec<Transfer>,
    /// Times that the kernel led control to an instruction for a signal, by vaddr.
    pub delivered: Vec<(u64, u64)>,
}

impl ModuleFlow {
    /// That of a module; `None` where nothing is known of it.
    pub fn new(program: &Program, module: ModuleId) -> Option<Self> {
        let code = program.modules.get(&module)?;
        let blocks = code.blocks.all();
        let mut found = Found(recorded(program, module, blocks));
        let place = |at: u64| Place::new(module, Vaddr(at));
        for block in blocks {
            let count = times(block);
            match block.exit {
                Exit::Jump(to) => found.add(place(block.last), place(to), Way::Jump, count),
                Exit::Next if code.blocks.at(block.end).is_some() => {
                    found.add(place(block.last), place(block.end), Way::Fall, count);
                }
                _ => {}
            }
        }
        found.add_up();
        let into = found.arrivals(module);
        for block in blocks {
            let comes_back = match block.exit {
                Exit::Call => !code.spans.end_at(block.end),
                exit => exit == Exit::System,
            };
            if let Some(next) = code.blocks.at(block.end).filter(|_| comes_back) {
                let came = into.get(&block.end).copied().unwrap_or(0);
                let count = times(next).saturating_sub(came).min(times(block));
                found.add(place(block.last), place(block.end), Way::Back, count);
            }
        }
        found.add_up();
        Some(Self {
            module,
            lines: blocks.iter().filter_map(straight).collect(),
            transfers: found.0,
            delivered: (code.blocks.transfers.delivered.iter())
                .map(|(at, count)| (*at, count.whole()))
                .collect(),
        })
    }

    /// Executed instructions.
    pub fn executed(&self) -> u64 {
        let each = self
            .lines
            .iter()
            .map(|l| l.count.saturating_mul(l.instructions.into()));
        each.fold(0, u64::saturating_add)
    }

    /// Returns true if a place is in the module.
    pub fn has(&self, place: Place) -> bool {
        place.module() == self.module
    }
}

/// Executions of a block, as far as they are known.
fn times(block: &Block) -> u64 {
    block.count.map_or(0, Count::whole)
}

fn straight(block: &Block) -> Option<Straight> {
    let count = times(block);
    (count > 0).then_some(Straight {
        start: block.start,
        last: block.last,
        end: block.end,
        instructions: block.instructions,
        count,
    })
}

/// The way of a recorded transfer.
fn way_of(call: bool, block: Option<&Block>, from: Place, to: Place) -> Way {
    match block.map(|block| (block.exit, block.end)) {
        _ if call => Way::Call,
        Some((Exit::Branch, end)) => {
            let next = to.module() == from.module() && to.vaddr().0 == end;
            if next { Way::NotTaken } else { Way::Taken }
        }
        _ => Way::Indirect,
    }
}

/// Recorded transfers that begin or end in a module.
fn recorded(program: &Program, module: ModuleId, blocks: &[Block]) -> Vec<Transfer> {
    let by_last: HashMap<u64, &Block> = blocks.iter().map(|b| (b.last, b)).collect();
    let mut all = Vec::new();
    for (of, other) in &program.modules {
        for (&to, arrivals) in &other.blocks.transfers.into {
            let to = Place::new(*of, Vaddr(to));
            for arrival in arrivals {
                let from = arrival.from;
                if *of != module && from.module() != module {
                    continue;
                }
                let block = (from.module() == module).then(|| by_last.get(&from.vaddr().0));
                let way = way_of(arrival.call, block.flatten().copied(), from, to);
                let count = arrival.count.whole();
                all.push(Transfer {
                    from,
                    to,
                    way,
                    count,
                });
            }
        }
    }
    all
}

/// Transfers as they are found.
struct Found(Vec<Transfer>);

impl Found {
    fn add(&mut self, from: Place, to: Place, way: Way, count: u64) {
        self.0.push(Transfer {
            from,
            to,
            way,
            count,
        });
    }

    /// Brings them in order, each once.
    fn add_up(&mut self) {
        self.0.retain(|transfer| transfer.count > 0);
        self.0.sort_unstable();
        self.0.dedup_by(|next, sum| {
            let same = (next.from, next.to, next.way) == (sum.from, sum.to, sum.way);
            if same {
                sum.count = sum.count.saturating_add(next.count);
            }
            same
        });
    }

    /// Transfers into each place of a module, added up.
    fn arrivals(&self, module: ModuleId) -> HashMap<u64, u64> {
        let mut into: HashMap<u64, u64> = HashMap::new();
        for transfer in self.0.iter().filter(|t| t.to.module() == module) {
            let sum = into.entry(transfer.to.vaddr().0).or_default();
            *sum = sum.saturating_add(transfer.count);
        }
        into
    }
}
