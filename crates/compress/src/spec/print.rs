//! Specs in the notation that the parser reads.

use alloc::vec::Vec;
use core::fmt;

use super::{
    Estimate, FilterSpec, IntervalSpec, Level, NestedSpec, Percent, Sampler, Spec, Start,
    TaggedSpec,
};
use crate::hash::HashKind;

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
            Self::Periodic(rate, Start::Zero) => write!(f, "P{rate}"),
            Self::Periodic(rate, Start::Random) => write!(f, "P{rate}:phase"),
            Self::Random(rate) => write!(f, "R{rate}"),
            Self::Countdown(rate) => write!(f, "D{rate}"),
            Self::Counted(rate, Estimate::Ratio) => write!(f, "CR{rate}"),
            Self::Counted(rate, Estimate::Sum) => write!(f, "CR{rate}:sum"),
        }
    }
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            messages,
            entries,
            settled,
            others,
        } = self;
        write!(f, "F[{limit},{messages}]{entries}")?;
        if (*settled, *others) != (Self::SETTLED, Self::OTHERS) {
            write!(f, ":K{settled}N{others}")?;
        }
        Ok(())
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
        if let Some(filter) = self.filter {
            write!(f, "{filter}+")?;
        }
        if let Some(thinning) = self.thinning {
            write!(f, "{thinning}+")?;
        }
        match &self.level {
            Level::Exact => f.write_str("exact")?,
            Level::Sample(sampler) => write!(f, "{sampler}")?,
            Level::Split(sampler, n) => write!(f, "H{hash}[{sampler}]{n}")?,
            Level::Nested(nested) => nested.write(hash, f)?,
            Level::Tagged(t) => t.write(hash, f)?,
            Level::Interval(m) => m.write(hash, f)?,
        }
        for table in self.tables.iter() {
            write!(f, "+A{}", table.entries)?;
            if table.bits != 8 {
                write!(f, "/{}bit", table.bits)?;
            }
        }
        Ok(())
    }
}

impl NestedSpec {
    /// The hash function is that of all splitters, and named once.
    fn write(&self, hash: HashKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "H{hash}[")?;
        self.splits().skip(1).try_for_each(|_| f.write_str("H["))?;
        write!(f, "{}", self.sampler)?;
        let mut inwards = self.splits().rev();
        inwards.try_for_each(|n| write!(f, "]{n}"))
    }
}

impl TaggedSpec {
    fn write(&self, hash: HashKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rate,
            entries,
            ways,
            tag_bits,
            enough,
            misses,
            miss_bits,
        } = self;
        write!(f, "T{hash}[{rate}]{entries}/{ways}way/{tag_bits}bit")?;
        let usual = (Self::ENOUGH, Self::MISSES, Self::bits_of(Self::MISSES));
        if (*enough, *misses, *miss_bits) != usual {
            write!(f, ":E{enough}R{misses}B{miss_bits}")?;
        }
        Ok(())
    }
}

impl IntervalSpec {
    fn write(&self, hash: HashKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name())?;
        if self.algorithm.has_tables() {
            write!(f, "{}", self.tables)?;
        }
        write!(f, "{hash}[{}", Short(self.interval))?;
        if self.is_adaptive() {
            write!(f, "..{}", Short(self.longest))?;
        }
        write!(f, ",{}]{}:", self.threshold, self.counters)?;
        for option in self.algorithm.options().chars() {
            match option {
                'C' => write!(f, "C{}", u8::from(self.conservative))?,
                'R' => write!(f, "R{}", u8::from(self.reset))?,
                'P' => write!(f, "P{}", u8::from(self.retain))?,
                'E' if self.early > 1 => write!(f, "E{}", self.early)?,
                'A' => {
                    if let Some(entries) = self.accumulator {
                        write!(f, "A{entries}")?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
