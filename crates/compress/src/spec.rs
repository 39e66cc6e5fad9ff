//! The spec language: the papers' notation in ASCII.
//!
//! ```text
//! spec     = [ filter "+" ] [ thinning "+" ] level { "+A" number [ "/" number "bit" ] }   at most three tables
//! filter   = "F" "[" percent "," number "]" number [ ":" { ( "K" | "N" ) number } ]
//! thinning = ( "P" | "R" | "D" ) number
//! level    = "exact" | sampler | split
//!          | "T" [ hash ] "[" number "]" number "/" number "way/" number "bit" [ ":" tagged ]
//!          | "M" number [ hash ] "[" interval "]" number [ ":" options ]
//!          | ( "SS" | "MG" ) "[" interval "]" number [ ":" options ]
//!          | ( "CM" | "HK" | "S" ) number [ hash ] "[" interval "]" number [ ":" options ]
//! split    = "H" [ hash ] "[" ( sampler | split ) "]" number                      at most four deep
//! tagged   = { "E" number | "R" number | "B" number }
//! sampler  = "P" number [ ":phase" ] | ( "R" | "D" ) number | "CR" number [ ":sum" | ":ratio" ]
//! interval = number [ ".." number ] "," percent                                 events, threshold
//! hash     = ":crc" | ":mul"                                                    default: the papers'
//! options  = { "C" ( 0 | 1 ) | "R" ( 0 | 1 ) | "P" ( 0 | 1 ) | "A" number | "E" number }
//! number   = digits [ "k" | "M" ]                                               thousands, millions
//! ```
//!
//! Of a tagged compressor `E` divides the hits at which an entry in `Evict` is sent (4), `R` is the misses at which another tuple takes
//! it (8), and `B` the bits of its counter of misses (as many as `R` needs; without `R`, that is 2^B). A counter of a table has 8 bits
//! unless its width is given.
//!
//! Options default to C1R0P1; [`Algorithm::options`] tells which of them an algorithm has. `A` sizes the
//! accumulator, 100 / threshold% otherwise; `E` divides the threshold of promotion. Two interval lengths are
//! the bounds of an adaptive one (`M` with `P1` only). Thinning stands before samplers, not before interval
//! profilers. A filter stands before all else, and neither before interval profilers and `CR` nor with counter tables.
//!
//! Invariants: a [`Spec`] that was parsed can be built: every bound is checked here, and what is
//! wrong is said with its column and the fix. Parsing what a `Spec` prints gives the same `Spec`.

mod parse;
mod print;

use core::fmt;

use alloc::string::String;

use crate::hash::{HashKind, degenerate};

/// A compressor's description.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// The filter that all events pass first.
    pub filter: Option<FilterSpec>,
    /// The sampler that all events pass before the level: `P` (from 0), `R` or `D`.
    pub thinning: Option<Sampler>,
    /// The component that sees the events.
    pub level: Level,
    /// The hash function of splitters, tagged compressors and interval profilers.
    pub hash: HashKind,
    /// The associative counter tables after it.
    pub tables: Tables,
}

/// `F[limit,messages]entries`: instructions whose values are known are filtered out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FilterSpec {
    /// Largest change of a share from one check to the next at which an instruction is settled.
    pub limit: Percent,
    /// Messages of an instruction from one check to the next, and in a look.
    pub messages: u32,
    /// Instructions that the hardware holds.
    pub entries: u32,
    /// `K`: executions in a rest for each in a look, of instructions that matter. 0: these are not filtered.
    pub settled: u32,
    /// `N`: the same of those that do not.
    pub others: u32,
}

impl FilterSpec {
    /// `K` where nothing is said.
    pub const SETTLED: u32 = 3;
    /// `N` where nothing is said.
    pub const OTHERS: u32 = 63;

    /// Bits of the hardware: an address of 48 bits and a countdown of 32 for each entry.
    pub const fn bits(self) -> u64 {
        (48 + 32) * self.entries as u64
    }
}

/// Counter tables one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tables([Option<TableSpec>; Self::MOST]);

impl Tables {
    /// Tables at most.
    pub const MOST: usize = 3;
    /// No table.
    pub const NONE: Self = Self([None; Self::MOST]);

    /// Adds a table after the others. Returns false if there are as many as there may be.
    pub fn push(&mut self, table: TableSpec) -> bool {
        let free = self.0.iter_mut().find(|table| table.is_none());
        free.map(|free| *free = Some(table)).is_some()
    }

    /// The tables in the order in which messages pass them.
    pub fn iter(&self) -> impl Iterator<Item = TableSpec> {
        self.0.iter().copied().flatten()
    }

    /// Returns true if there is none.
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Entries of the papers' own table: one, with counters of 8 bits. Nothing where there is another or none.
    pub fn plain(&self) -> Option<u32> {
        match self.0 {
            [Some(TableSpec { entries, bits: 8 }), None, None] => Some(entries),
            _ => None,
        }
    }
}

/// `A entries`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TableSpec {
    /// Entries.
    pub entries: u32,
    /// Bits of the counter of messages in each.
    pub bits: u32,
}

impl TableSpec {
    /// Messages that an entry counts before it is sent on.
    pub const fn full(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// A first level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// `exact`
    Exact,
    /// A sampler on the whole stream.
    Sample(Sampler),
    /// `H[sampler]n`: a sampler on each of n substreams.
    Split(Sampler, u32),
    /// `H[H[sampler]n]m`: splitters in each other.
    Nested(NestedSpec),
    /// `T`
    Tagged(TaggedSpec),
    /// `M`
    Interval(IntervalSpec),
}

/// Splitters in each other, with a sampler on each of the innermost substreams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NestedSpec {
    /// The sampler.
    pub sampler: Sampler,
    /// Substreams of each splitter, the outermost one first; 0 after the innermost.
    splits: [u32; Self::MOST],
}

impl NestedSpec {
    /// Splitters at most.
    pub const MOST: usize = 4;

    /// A nest of one splitter.
    pub const fn new(sampler: Sampler, substreams: u32) -> Self {
        let mut splits = [0; Self::MOST];
        splits[0] = substreams;
        Self { sampler, splits }
    }

    /// With another splitter around it; nothing if it is as deep as it may be.
    pub fn within(self, substreams: u32) -> Option<Self> {
        if self.splits[Self::MOST - 1] != 0 {
            return None;
        }
        let mut splits = [0; Self::MOST];
        splits[0] = substreams;
        splits[1..].copy_from_slice(&self.splits[..Self::MOST - 1]);
        Some(Self { splits, ..self })
    }

    /// Substreams of each splitter, the outermost one first.
    pub fn splits(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + use<> {
        self.splits.into_iter().filter(|n| *n != 0)
    }

    /// Innermost substreams of all together.
    pub fn substreams(&self) -> u64 {
        self.splits().map(u64::from).product()
    }
}

/// A sampler and its rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sampler {
    /// `P`: periodic.
    Periodic(u32, Start),
    /// `R`: random, stateless.
    Random(u32),
    /// `D`: random countdown.
    Countdown(u32),
    /// `CR`: random with a counter, and how software uses the counts.
    Counted(u32, Estimate),
}

/// Start value of the counters of a periodic sampler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Start {
    /// At 0, as the papers' do: the first r − 1 events of a substream are never sent.
    Zero,
    /// `:phase`: at random, which makes counts right on average from the first event on.
    Random,
}

/// Estimates that software makes of the counts of `CR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Estimate {
    /// Samples of the tuple ÷ samples × length, for each substream.
    Ratio,
    /// The sum of the counts of the tuple's messages, as the paper's text has it.
    Sum,
}

/// `T[rate]entries/ways/tag bits`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaggedSpec {
    /// Hits at which a tuple is sent.
    pub rate: u32,
    /// Entries in all.
    pub entries: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Width of a tag.
    pub tag_bits: u32,
    /// `ShouldEvict`: a hit in `Evict` sends at the rate divided by this.
    pub enough: u32,
    /// `ShouldReplace`: misses in `Evict` at which another tuple takes the entry.
    pub misses: u32,
    /// Width of the counter of misses.
    pub miss_bits: u32,
}

impl TaggedSpec {
    /// `ShouldEvict` where nothing is said: r/4 gives the paper's almost threefold messages.
    pub const ENOUGH: u32 = 4;
    /// `ShouldReplace` where nothing is said.
    pub const MISSES: u32 = 8;

    /// Bits that count to one less than `misses`.
    pub const fn bits_of(misses: u32) -> u32 {
        u32::BITS - (misses - 1).leading_zeros()
    }
}

/// Algorithms by which interval profilers find their candidates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// `M`: the papers' multi-hash.
    MultiHash,
    /// `SS`: Space-Saving.
    SpaceSaving,
    /// `MG`: Misra–Gries.
    MisraGries,
    /// `CM`: count-min with a table of candidates.
    CountMin,
    /// `HK`: HeavyKeeper with a table of candidates.
    HeavyKeeper,
    /// `S`: the sieve, our own.
    Sieve,
}

impl Algorithm {
    /// The letters in the spec.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MultiHash => "M",
            Self::SpaceSaving => "SS",
            Self::MisraGries => "MG",
            Self::CountMin => "CM",
            Self::HeavyKeeper => "HK",
            Self::Sieve => "S",
        }
    }

    /// Returns true if a number of tables (rows, ways) follows the letters.
    pub const fn has_tables(self) -> bool {
        !matches!(self, Self::SpaceSaving | Self::MisraGries)
    }

    /// The options after the colon, in the order they are printed.
    pub const fn options(self) -> &'static str {
        match self {
            Self::MultiHash => "CRPAE",
            Self::SpaceSaving | Self::MisraGries => "P",
            Self::CountMin => "CPA",
            Self::HeavyKeeper => "PA",
            Self::Sieve => "PAE",
        }
    }

    /// An example, for errors.
    pub const fn form(self) -> &'static str {
        match self {
            Self::MultiHash => "an interval profiler is written M4[10k,1%]2048:C1R0P1",
            Self::SpaceSaving => "Space-Saving is written SS[10k,1%]500:P1",
            Self::MisraGries => "Misra-Gries is written MG[10k,1%]500:P1",
            Self::CountMin => "a count-min sketch is written CM4[10k,1%]2048:C1P1",
            Self::HeavyKeeper => "HeavyKeeper is written HK2[10k,1%]1024:P1",
            Self::Sieve => "a sieve is written S8[10k,1%]1024:P1E2",
        }
    }
}

/// `M tables[interval,threshold]counters:C?R?P?`, and the sketches in its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntervalSpec {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Hash tables; rows of a sketch, ways of a sieve; 1 where there is nothing of the kind.
    pub tables: u32,
    /// Events in an interval; of an adaptive one, in the shortest.
    pub interval: u32,
    /// Events in the longest interval: more than `interval` if it is adaptive.
    pub longest: u32,
    /// Share of the interval that makes a candidate.
    pub threshold: Percent,
    /// Counters of all tables together; entries or cells of a sketch.
    pub counters: u32,
    /// `C1`: conservative update.
    pub conservative: bool,
    /// `R1`: counters of a promoted tuple start again.
    pub reset: bool,
    /// `P1`: candidates are retained through the next interval.
    pub retain: bool,
    /// Accumulator entries where given.
    pub accumulator: Option<u32>,
    /// `E`: tuples are promoted at the threshold divided by this.
    pub early: u32,
}

impl IntervalSpec {
    /// Returns true if the profiler picks the length of its intervals.
    pub const fn is_adaptive(&self) -> bool {
        self.longest > self.interval
    }

    /// Events that make a tuple a candidate in an interval of `length`: ⌈threshold × length⌉.
    pub const fn threshold_of(&self, length: u32) -> u32 {
        let product = self.threshold.0 as u64 * length as u64;
        product.div_ceil(Percent::WHOLE.0 as u64) as u32
    }

    /// The same of the (shortest) interval.
    pub const fn threshold_count(&self) -> u32 {
        self.threshold_of(self.interval)
    }

    /// Events at which a tuple is promoted: ⌈threshold count ÷ `E`⌉.
    pub const fn promotion_of(&self, length: u32) -> u32 {
        self.threshold_of(length).div_ceil(self.early)
    }

    /// The same of the (shortest) interval.
    pub const fn promotion_count(&self) -> u32 {
        self.promotion_of(self.interval)
    }

    /// Bytes that the tables take in hardware: 3 for a counter (*Multi-Hash*, section 7), 2 for a tag, 2
    /// for a counter that is emptied at a threshold below 65536, and 14 for a full entry (the
    /// paper's 10 are for words of 32 bits).
    pub const fn bytes(&self) -> u64 {
        const COUNTER: u64 = 3;
        const ENTRY: u64 = 14;
        let cells = self.counters as u64;
        let accumulator = ENTRY * self.accumulator_entries() as u64;
        match self.algorithm {
            Algorithm::MultiHash | Algorithm::CountMin => COUNTER * cells + accumulator,
            Algorithm::SpaceSaving | Algorithm::MisraGries => ENTRY * cells,
            Algorithm::HeavyKeeper => (2 + COUNTER) * cells + accumulator,
            Algorithm::Sieve if self.promotion_of(self.longest) > 0xffff => {
                (2 + COUNTER) * cells + accumulator
            }
            Algorithm::Sieve => (2 + 2) * cells + accumulator,
        }
    }

    /// Entries of the accumulator table: as given, else as many tuples as can be candidates.
    pub const fn accumulator_entries(&self) -> u32 {
        match self.accumulator {
            Some(entries) => entries,
            None => Percent::WHOLE.0 / self.threshold.0,
        }
    }
}

/// A share between 0 and 100 %, in millionths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent(
    /// Millionths of a percent.
    pub u32,
);

impl Percent {
    /// 100 %.
    pub const WHOLE: Self = Self(100_000_000);

    /// Returns true if `part` is at least this share of `whole`.
    pub const fn reached(self, part: u64, whole: u64) -> bool {
        part as u128 * Self::WHOLE.0 as u128 >= self.0 as u128 * whole as u128
    }

    /// The share in percent.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl Sampler {
    /// Events for each that is sent, on average.
    pub const fn rate(self) -> u32 {
        match self {
            Self::Periodic(rate, _)
            | Self::Random(rate)
            | Self::Countdown(rate)
            | Self::Counted(rate, _) => rate,
        }
    }

    /// Returns true if random numbers decide what is sent.
    pub const fn is_random(self) -> bool {
        !matches!(self, Self::Periodic(_, Start::Zero))
    }

    /// Bits of the state of one substream.
    fn bits(self) -> u64 {
        let counts_to = |most: u64| u64::from(64 - (most - 1).leading_zeros());
        match self {
            Self::Periodic(rate, _) => counts_to(u64::from(rate)),
            Self::Random(_) => 0,
            Self::Countdown(rate) => counts_to(2 * u64::from(rate) - 1),
            Self::Counted(..) => 16,
        }
    }
}

impl Spec {
    /// Returns true if random numbers decide what is sent.
    pub const fn is_random(&self) -> bool {
        if let Some(thinning) = self.thinning
            && thinning.is_random()
        {
            return true;
        }
        match self.level {
            Level::Sample(sampler)
            | Level::Split(sampler, _)
            | Level::Nested(NestedSpec { sampler, .. }) => sampler.is_random(),
            Level::Interval(spec) => matches!(spec.algorithm, Algorithm::HeavyKeeper),
            Level::Exact | Level::Tagged(_) => false,
        }
    }

    /// Bytes that the compressor takes in hardware; `None` where that has no bound (`exact`). Counters
    /// have as many bits as they need to count to their rate (`CR`'s, which have no bound, 16); an entry of
    /// the tagged compressor also its tag, its counter of misses and 1 bit of state (*Stratified Sampling*, section 4.2); an
    /// entry of a counter table 16 bytes and its counter (section 3.4). Of a filter it is the addresses and countdowns: its checks are software.
    pub fn bytes(&self) -> Option<u64> {
        let bits = match self.level {
            Level::Exact => return None,
            Level::Sample(sampler) => sampler.bits(),
            Level::Split(sampler, n) => sampler.bits() * u64::from(n),
            Level::Nested(nested) => nested.sampler.bits() * nested.substreams(),
            Level::Tagged(t) => {
                let hits = Sampler::Periodic(t.rate, Start::Zero).bits();
                u64::from(t.entries) * (hits + u64::from(t.tag_bits + t.miss_bits) + 1)
            }
            Level::Interval(spec) => 8 * spec.bytes(),
        };
        let filter = self.filter.map_or(0, FilterSpec::bits);
        let before = filter + self.thinning.map_or(0, Sampler::bits);
        let of_table = |t: TableSpec| u64::from(t.entries) * u64::from(128 + t.bits);
        let tables: u64 = self.tables.iter().map(of_table).sum();
        Some((bits + before).div_ceil(8) + tables.div_ceil(8))
    }

    /// The interval profiler, if it is one.
    pub const fn interval(&self) -> Option<&IntervalSpec> {
        match &self.level {
            Level::Interval(spec) => Some(spec),
            _ => None,
        }
    }

    /// The width of the indices into the hash tables, if there are any.
    pub const fn index_bits(&self) -> Option<u32> {
        match &self.level {
            Level::Split(_, n) => Some(n.trailing_zeros()),
            // The first that is degenerate, or the outermost.
            Level::Nested(nested) => {
                let mut widths = [0; NestedSpec::MOST];
                let mut n = 0;
                while n < NestedSpec::MOST && nested.splits[n] != 0 {
                    widths[n] = nested.splits[n].trailing_zeros();
                    if degenerate(widths[n]) {
                        return Some(widths[n]);
                    }
                    n += 1;
                }
                Some(widths[0])
            }
            Level::Tagged(t) => Some((t.entries / t.ways).trailing_zeros()),
            Level::Interval(m) => match m.algorithm {
                Algorithm::SpaceSaving | Algorithm::MisraGries => None,
                _ => Some((m.counters / m.tables).trailing_zeros()),
            },
            _ => None,
        }
    }
}

/// Returns what a user should know about a spec that is valid all the same.
pub fn note(spec: &Spec) -> Option<String> {
    let papers = spec.hash == HashKind::Paper;
    let bits = spec
        .index_bits()
        .filter(|bits| papers && degenerate(*bits))?;
    Some(alloc::format!(
        "{spec}: an index of {bits} bits is degenerate, as pc and value bytes meet in the same \
         lanes and cancel; half or twice the entries hash better, or a cheap hash (:mul)"
    ))
}

/// An error in a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The offending column, from 1.
    pub column: usize,
    /// The problem and its fix.
    pub message: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl core::error::Error for SpecError {}
