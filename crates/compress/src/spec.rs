//! The spec language: the papers' notation in ASCII.
//!
//! ```text
//! spec     = level [ "+A" number ]
//! level    = "exact" | sampler | "H" [ hash ] "[" sampler "]" number
//!          | "T" [ hash ] "[" number "]" number "/" number "way/" number "bit"
//!          | "M" number [ hash ] "[" number "," percent "]" number [ ":" flags ]
//! hash     = ":crc" | ":mul"                                                    default: the papers'
//! sampler  = ( "P" | "R" | "D" ) number | "CR" number [ ":sum" | ":ratio" ]
//! flags    = { "C" ( 0 | 1 ) | "R" ( 0 | 1 ) | "P" ( 0 | 1 ) | "A" number }     default C1R0P1
//! number   = digits [ "k" | "M" ]                                               thousands, millions
//! ```
//!
//! `A` in the flags of `M` sizes its accumulator, 100 / threshold% otherwise.
//!
//! Invariants: a [`Spec`] that was parsed can be built: every bound is checked here, and what is
//! wrong is said with its column and the fix. Parsing what a `Spec` prints gives the same `Spec`.

mod parse;

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use crate::hash::{HashKind, degenerate};
use crate::{Compressor, Seeds};

/// A compressor's description.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// What sees the events.
    pub level: Level,
    /// The hash function of splitters, tagged compressors and interval profilers.
    pub hash: HashKind,
    /// Entries of the associative counter table behind it.
    pub table: Option<u32>,
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
    /// `T`
    Tagged(TaggedSpec),
    /// `M`
    Interval(IntervalSpec),
}

/// A sampler and its rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sampler {
    /// `P`: periodic.
    Periodic(u32),
    /// `R`: random, stateless.
    Random(u32),
    /// `D`: random countdown.
    Countdown(u32),
    /// `CR`: random with a counter, and how software uses the counts.
    Counted(u32, Estimate),
}

/// What software makes of the counts of `CR`.
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
}

/// `M tables[interval,threshold]counters:C?R?P?`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntervalSpec {
    /// Hash tables.
    pub tables: u32,
    /// Events in an interval.
    pub interval: u32,
    /// Share of the interval that makes a candidate.
    pub threshold: Percent,
    /// Counters of all tables together.
    pub counters: u32,
    /// `C1`: conservative update.
    pub conservative: bool,
    /// `R1`: counters of a promoted tuple start again.
    pub reset: bool,
    /// `P1`: candidates are retained through the next interval.
    pub retain: bool,
    /// Accumulator entries where given.
    pub accumulator: Option<u32>,
}

impl IntervalSpec {
    /// Events that make a tuple a candidate: ⌈threshold × interval⌉.
    pub const fn threshold_count(&self) -> u32 {
        let product = self.threshold.0 as u64 * self.interval as u64;
        product.div_ceil(Percent::WHOLE.0 as u64) as u32
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

    /// Whether `part` is at least this share of `whole`.
    pub const fn reached(self, part: u64, whole: u64) -> bool {
        part as u128 * Self::WHOLE.0 as u128 >= self.0 as u128 * whole as u128
    }

    /// The share in percent.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl Spec {
    /// Builds the compressor.
    pub fn build(&self, seeds: Seeds) -> Compressor {
        Compressor::new(self, seeds)
    }

    /// Whether random numbers decide what is sent.
    pub const fn is_random(&self) -> bool {
        matches!(
            self.level,
            Level::Sample(Sampler::Random(_) | Sampler::Countdown(_) | Sampler::Counted(..))
                | Level::Split(
                    Sampler::Random(_) | Sampler::Countdown(_) | Sampler::Counted(..),
                    _
                )
        )
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
            Level::Tagged(t) => Some((t.entries / t.ways).trailing_zeros()),
            Level::Interval(m) => Some((m.counters / m.tables).trailing_zeros()),
            _ => None,
        }
    }
}

/// What a user should know about a spec that is valid all the same.
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

/// What is wrong with a spec.
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

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        write!(f, "{whole}")?;
        if part != 0 {
            let mut digits = Vec::new();
            for unit in [100_000, 10_000, 1000, 100, 10, 1] {
                digits.push(part / unit);
                part %= unit;
            }
            while digits.last() == Some(&0) {
                digits.pop();
            }
            f.write_str(".")?;
            for digit in digits {
                write!(f, "{digit}")?;
            }
        }
        f.write_str("%")
    }
}

impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Periodic(rate) => write!(f, "P{rate}"),
            Self::Random(rate) => write!(f, "R{rate}"),
            Self::Countdown(rate) => write!(f, "D{rate}"),
            Self::Counted(rate, Estimate::Ratio) => write!(f, "CR{rate}"),
            Self::Counted(rate, Estimate::Sum) => write!(f, "CR{rate}:sum"),
        }
    }
}

/// An interval length, as the paper writes them.
struct Short(u32);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n % 1_000_000 == 0 => write!(f, "{}M", n / 1_000_000),
            n if n % 1000 == 0 => write!(f, "{}k", n / 1000),
            n => write!(f, "{n}"),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self.hash;
        match &self.level {
            Level::Exact => f.write_str("exact")?,
            Level::Sample(sampler) => write!(f, "{sampler}")?,
            Level::Split(sampler, n) => write!(f, "H{hash}[{sampler}]{n}")?,
            Level::Tagged(t) => write!(
                f,
                "T{hash}[{}]{}/{}way/{}bit",
                t.rate, t.entries, t.ways, t.tag_bits
            )?,
            Level::Interval(m) => {
                write!(
                    f,
                    "M{}{hash}[{},{}]{}:C{}R{}P{}",
                    m.tables,
                    Short(m.interval),
                    m.threshold,
                    m.counters,
                    u8::from(m.conservative),
                    u8::from(m.reset),
                    u8::from(m.retain),
                )?;
                if let Some(entries) = m.accumulator {
                    write!(f, "A{entries}")?;
                }
            }
        }
        if let Some(entries) = self.table {
            write!(f, "+A{entries}")?;
        }
        Ok(())
    }
}
