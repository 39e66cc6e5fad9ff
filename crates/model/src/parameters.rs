//! The numbers of the machine: Table 5, and what the paper leaves open.
//!
//! | | the paper | decided here |
//! |---|---|---|
//! | core | 8 wide, 128 instructions in the window, out of order | 8 integer units, 2 multipliers, 4 + 2 for floating point, 4 memory ports; unlimited registers |
//! | branches | gshare of 4 KB, 8 cycles at least | 14 bits of history; a target buffer of 512 × 4 for indirect jumps, 8 return addresses (SimpleScalar's); direct targets are always known |
//! | caches | 32 KB 2-way, 64 KB 4-way, perfect L2, 12 cycles round trip | lines of 32 bytes, write-allocate, misses overlap without limit; a load that hits takes 2 cycles with its address |
//! | service processors | 3, scalar, 3 threads, 1 KB and 2 KB 4-way caches, no prediction, 4 cycles | one instruction a cycle of the threads that can go on, in turns |
//! | query engine | 4 stages, 4 queries, one instruction a cycle | two words a cycle leave a buffer: a message takes 4 cycles |
//! | queues | 128 messages | a full queue is looked at again after an access of 12 cycles |

pub mod text;

/// The shape of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Its size; of a TLB, what all its pages come to.
    pub bytes: u64,
    /// Lines in a set.
    pub ways: usize,
    /// Bytes of a line, or of a page.
    pub line: u64,
}

/// A second level that is not perfect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SecondLevel {
    /// Its shape.
    pub cache: Geometry,
    /// Cycles that a miss takes beyond a hit.
    pub memory: u32,
}

/// Translation of addresses, where it is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Translation {
    /// Each of both TLBs.
    pub pages: Geometry,
    /// Cycles of a miss.
    pub walk: u32,
}

/// Paths that a mispredicted branch leads to, until it is resolved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WrongPaths {
    /// The front end waits.
    None,
    /// Their instructions go through the pipeline and take profile hardware, as in the paper's execution-driven simulator. Nothing of
    /// them is delivered.
    Modelled,
    /// Those that are profiled make records too, with [`trommel_query::record::misc::SQUASHED`]: as ProfileMe does.
    Profiled,
}

/// The core and its memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Core {
    /// Instructions fetched, dispatched, issued and retired in a cycle.
    pub width: usize,
    /// Instructions between dispatch and retirement, at most 128.
    pub window: usize,
    /// Cycles from fetch to dispatch.
    pub front_end: u64,
    /// Cycles from the resolution of a mispredicted branch to the next fetch.
    pub redirect: u64,
    /// Units: integer, multiplier, floating point addition, floating point multiplication.
    pub units: [usize; 4],
    /// Memory accesses in a cycle.
    pub ports: usize,
    /// Bits of history, and of the index of the predictor's counters.
    pub history: u32,
    /// Wrong paths.
    pub wrong_paths: WrongPaths,
    /// First-level caches: instructions, data.
    pub first: [Geometry; 2],
    /// Cycles of a hit in the data cache.
    pub hit: u32,
    /// Cycles of a miss that hits the second level.
    pub round_trip: u32,
    /// The second level; none is perfect.
    pub second: Option<SecondLevel>,
    /// TLBs; none are perfect.
    pub translation: Option<Translation>,
}

/// Facts that need not travel on a profile network, as they are there when an instruction retires (section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cheap {
    /// Nothing: every profile takes a network.
    Nothing,
    /// The facts that the paper names: addresses of instructions, where branches go, effective addresses; and times of
    /// retirement.
    Retirement,
    /// Beyond that what stores write, which waits for retirement in the store queue, with its address.
    Stores,
}

/// Hardware that executes queries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueryEngine {
    /// Four queries at a time, in a pipeline (section 3.4.2).
    Barrel,
    /// A table that makes the comparisons of one query instruction in a cycle, and sends (section 3.3). Longer queries do not fit.
    Table,
}

/// The profile hardware.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Profiling {
    /// Profile networks.
    pub networks: usize,
    /// Profile buffers of one record each.
    pub buffers: usize,
    /// Profiles that are cheap.
    pub cheap: Cheap,
    /// Hardware that executes queries.
    pub engine: QueryEngine,
    /// Cycles for which an interrupt stops the fetching of instructions.
    pub interrupt: u32,
    /// Cycles that a message takes to be written.
    pub message: u64,
    /// Messages of a queue.
    pub queue: u64,
    /// The seed of the query engine.
    pub seed: u64,
    /// Cycles after which rates of `every auto` are adapted to the cycles in which dispatch has stalled for them; 0: they are rehearsed.
    pub period: u64,
}

/// A service processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServiceProcessor {
    /// Caches: instructions, data.
    pub caches: [Geometry; 2],
    /// Cycles lost at a taken branch.
    pub penalty: u64,
    /// Cycles of a miss.
    pub round_trip: u64,
}

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parameters {
    /// The core.
    pub core: Core,
    /// The profile hardware.
    pub profiling: Profiling,
    /// Each of the service processors.
    pub service: ServiceProcessor,
}

const fn cache(kilobytes: u64, ways: usize) -> Geometry {
    Geometry {
        bytes: kilobytes << 10,
        ways,
        line: 32,
    }
}

impl Parameters {
    /// Table 5, with four networks and eight buffers.
    pub const TABLE_5: Self = Self {
        core: Core {
            width: 8,
            window: 128,
            // With one cycle to issue, one to execute and one to redirect: a branch that waits for nothing and was
            // mispredicted costs eight cycles of fetching.
            front_end: 6,
            redirect: 1,
            units: [8, 2, 4, 2],
            ports: 4,
            history: 14,
            wrong_paths: WrongPaths::None,
            first: [cache(32, 2), cache(64, 4)],
            hit: 1,
            round_trip: 12,
            second: None,
            translation: None,
        },
        profiling: Profiling {
            networks: 4,
            buffers: 8,
            cheap: Cheap::Nothing,
            engine: QueryEngine::Barrel,
            interrupt: 30,
            message: 4,
            queue: 128,
            seed: 1,
            period: 40_000,
        },
        service: ServiceProcessor {
            caches: [cache(1, 4), cache(2, 4)],
            penalty: 4,
            round_trip: 12,
        },
    };

    /// Table 5, with a second level and TLBs that miss, as machines of the paper's time had: events happen.
    pub const WITH_EVENTS: Self = {
        let mut machine = Self::TABLE_5;
        machine.core.second = Some(SecondLevel {
            cache: Geometry {
                bytes: 512 << 10,
                ways: 8,
                line: 64,
            },
            memory: 80,
        });
        machine.core.translation = Some(Translation {
            pages: Geometry {
                bytes: 64 << 12,
                ways: 4,
                line: 4096,
            },
            walk: 30,
        });
        machine
    };

    /// With so many networks and buffers.
    #[must_use]
    pub const fn with(mut self, networks: usize, buffers: usize) -> Self {
        self.profiling.networks = networks;
        self.profiling.buffers = buffers;
        self
    }
}
