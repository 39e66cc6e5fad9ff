//! The parser of specs: one pass, no backtracking, an error at the column where reading stopped.

mod cursor;

use alloc::format;
use alloc::string::String;
use core::str::FromStr;

use super::{
    Algorithm, Estimate, FilterSpec, IntervalSpec, Level, NestedSpec, Percent, Sampler, Spec,
    SpecError, Start, TableSpec, Tables, TaggedSpec,
};
use crate::hash::HashKind;
use crate::interval::MAX_TABLES;
use crate::sketch::count_min::MAX_ROWS;
use cursor::Cursor;

const MAX_ENTRIES: u64 = 1 << 24;
const MAX_TABLE: u64 = 4096;
const MAX_ACCUMULATOR: u64 = 1 << 20;
const MAX_EARLY: u64 = 1000;
/// Messages of a check, and executions in a rest for each in a look.
const MAX_CHECK: u64 = 65_535;
/// Instructions of a filter: software checks so many.
const MAX_FILTERED: u64 = 2048;
const MAX_WAYS: u32 = 64;
/// Bits of a counter of misses, or of messages.
const MAX_COUNTER_BITS: u64 = 16;

/// Longer names before those that they begin with.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::MisraGries,
    Algorithm::SpaceSaving,
    Algorithm::CountMin,
    Algorithm::HeavyKeeper,
    Algorithm::MultiHash,
    Algorithm::Sieve,
];

type Result<T> = core::result::Result<T, SpecError>;

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self> {
        let mut at = Cursor::new(text);
        let filter = at.filter()?;
        let start = at.position;
        let mut level = at.level()?;
        let mut thinning = None;
        if at.rest().starts_with('+') && !at.rest().starts_with("+A") {
            thinning = at.thinning(level)?;
            if thinning.is_some() {
                level = at.thinned(thinning)?;
            }
        }
        if filter.is_some() {
            at.filtered(start, level)?;
        }
        let tables = at.tables(level)?;
        if !at.rest().is_empty() {
            let found = at.found();
            return Err(at.error(&format!(
                "{found} follows a complete spec ({}); remove it, or add a counter table as +A16",
                &text[..at.position]
            )));
        }
        Ok(Self {
            filter,
            thinning,
            level,
            hash: at.hash,
            tables,
        })
    }
}

impl FromStr for Percent {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self> {
        let mut at = Cursor::new(text);
        let percent = at.percent("percentage")?;
        if at.rest().is_empty() {
            Ok(percent)
        } else {
            let found = at.found();
            Err(at.error(&format!("{found} follows a percentage; remove it")))
        }
    }
}
impl Cursor<'_> {
    /// The filter, if there is one, with the `+` after it.
    fn filter(&mut self) -> Result<Option<FilterSpec>> {
        if !self.take("F") {
            return Ok(None);
        }
        let form = "a filter is written F[1%,64]96, before another compressor, as in F[1%,64]96+H[P256]1024";
        self.expect("[", form)?;
        let limit = self.percent("limit of change")?;
        self.expect(",", form)?;
        let messages = self.number("messages of a check", 1, MAX_CHECK)?;
        self.expect("]", form)?;
        let start = self.position;
        let entries = self.number("entries of the filter", 4, MAX_FILTERED)?;
        if !entries.is_multiple_of(4) {
            let message = format!(
                "the entries of the filter ({entries}) are in sets of four; take {}",
                entries.next_multiple_of(4)
            );
            return Err(self.error_at(start, &message));
        }
        let mut filter = FilterSpec {
            limit,
            messages,
            entries,
            settled: FilterSpec::SETTLED,
            others: FilterSpec::OTHERS,
        };
        if self.take(":") {
            self.rests(&mut filter)?;
        }
        self.expect("+", form)?;
        Ok(Some(filter))
    }

    fn rests(&mut self, filter: &mut FilterSpec) -> Result<()> {
        let form =
            "options are K (rests of instructions that matter) and N (of the others), as in :K3N63";
        let start = self.position;
        let [mut settled, mut others] = [None; 2];
        while let Some(option) = self.rest().chars().next().filter(|c| *c != '+') {
            let to = match option {
                'K' => &mut settled,
                'N' => &mut others,
                _ => {
                    let found = self.found();
                    return Err(self.error(&format!("{found} is no option of F; {form}")));
                }
            };
            if to.is_some() {
                return Err(self.error(&format!("{option} was given before; remove one")));
            }
            self.position += 1;
            *to = Some(self.number("executions in a rest for each in a look", 0, MAX_CHECK)?);
        }
        if self.position == start {
            return Err(self.error(&format!("options follow the colon; {form}")));
        }
        filter.settled = settled.unwrap_or(filter.settled);
        filter.others = others.unwrap_or(filter.others);
        if (filter.settled, filter.others) == (0, 0) {
            let message = "with K0 and N0 nothing is filtered; remove the filter, or give one of them another number";
            return Err(self.error_at(start, message));
        }
        Ok(())
    }

    /// Checks that a filter may stand before a level, which began at `start`, and that no table follows.
    fn filtered(&self, start: usize, level: Level) -> Result<()> {
        match level {
            Level::Interval(_) => {
                return Err(self.error_at(
                    start,
                    "an interval profiler counts every event of its intervals; remove the filter before it",
                ));
            }
            Level::Sample(Sampler::Counted(..)) | Level::Split(Sampler::Counted(..), _) => {
                return Err(self.error_at(
                    start,
                    "the counts of CR are lengths of the stream, which a filter makes shorter; take P256, R256 or D256 after it",
                ));
            }
            _ => {}
        }
        if self.rest().starts_with("+A") {
            return Err(self.error(
                "a counter table holds back the messages that the filter's checks wait for; remove one of both",
            ));
        }
        Ok(())
    }

    /// The sampler that was read as a level, if what follows its `+` is a level in its turn.
    fn thinning(&mut self, level: Level) -> Result<Option<Sampler>> {
        let next = self.rest()[1..].chars().next();
        if next == Some('F') {
            return Err(
                self.error("a filter stands before all else, as in F[1%,64]96+D16+H[P16]2048")
            );
        }
        if !next.is_some_and(|c| "ePRDCHTMS".contains(c)) {
            return Ok(None);
        }
        match level {
            Level::Sample(
                sampler @ (Sampler::Periodic(_, Start::Zero)
                | Sampler::Random(_)
                | Sampler::Countdown(_)),
            ) => {
                self.position += 1;
                Ok(Some(sampler))
            }
            _ => Err(self.error(
                "only P256, R256 or D256 stands before another compressor, as in D16+H[P16]4096; \
                 after one stands a counter table, as +A16",
            )),
        }
    }

    /// The level after the thinning.
    fn thinned(&mut self, thinning: Option<Sampler>) -> Result<Level> {
        let start = self.position;
        let level = self.level()?;
        let rate = match level {
            Level::Interval(_) => {
                return Err(self.error_at(
                    start,
                    "an interval profiler counts every event of its intervals; remove what stands \
                     before it",
                ));
            }
            Level::Exact => 1,
            Level::Sample(sampler)
            | Level::Split(sampler, _)
            | Level::Nested(NestedSpec { sampler, .. }) => sampler.rate(),
            Level::Tagged(tagged) => tagged.rate,
        };
        let all = u64::from(rate) * u64::from(thinning.map_or(1, Sampler::rate));
        if all > u64::from(u32::MAX) {
            let message = format!("both rates together ({all}) must not be above {}", u32::MAX);
            return Err(self.error_at(start, &message));
        }
        Ok(level)
    }

    /// Counter tables after a level.
    fn tables(&mut self, level: Level) -> Result<Tables> {
        let mut tables = Tables::NONE;
        while self.rest().starts_with('+') {
            if matches!(level, Level::Interval(_)) {
                return Err(self.error(
                    "an interval profiler sends each candidate once an interval, so a counter \
                     table after it has nothing to combine; remove it",
                ));
            }
            let start = self.position;
            self.expect("+A", "a counter table is written +A16")?;
            let entries = self.number("entries of the counter table", 1, MAX_TABLE)?;
            let bits = match self.take("/") {
                true => {
                    let bits = self.number("bits of its counters", 1, MAX_COUNTER_BITS)?;
                    self.expect("bit", "counters of another width are written +A16/6bit")?;
                    bits
                }
                false => 8,
            };
            if !tables.push(TableSpec { entries, bits }) {
                let message = format!("at most {} counter tables follow each other", Tables::MOST);
                return Err(self.error_at(start, &message));
            }
        }
        Ok(tables)
    }

    /// A splitter, its letter taken, with what is in it.
    fn split(&mut self, outer: bool) -> Result<NestedSpec> {
        let form = "a splitter is written H[P256]2048";
        let (start, before) = (self.position, self.hash);
        self.hash_name()?;
        if !outer && self.position != start && self.hash != before {
            let message =
                "splitters in each other have one hash function; name it at the outermost";
            return Err(self.error_at(start, message));
        }
        self.expect("[", form)?;
        let inside = self.position;
        if self.rest().starts_with(['T', 'M', 'e']) {
            return Err(self.error(
                "inside H[…] stands a sampler or another splitter: P256, R256, D256, CR256 or H[P256]16",
            ));
        }
        let inner = match self.take("H") {
            true => Some(self.split(false)?),
            false => None,
        };
        let sampler = match inner {
            Some(inner) => inner.sampler,
            None => self.sampler()?,
        };
        self.expect("]", form)?;
        let number = self.position;
        let n = self.power("number of substreams")?;
        let Some(inner) = inner else {
            return Ok(NestedSpec::new(sampler, n));
        };
        if matches!(sampler, Sampler::Counted(..)) {
            let message = "inside two splitters stands P256, R256 or D256: software cannot tell the substreams of CR there";
            return Err(self.error_at(inside, message));
        }
        let message = format!("at most {} splitters stand in each other", NestedSpec::MOST);
        let nested = inner.within(n);
        let nested = nested.ok_or_else(|| self.error_at(inside, &message))?;
        if nested.substreams() > MAX_ENTRIES {
            let message = format!(
                "all substreams together ({}) must not be above {MAX_ENTRIES}",
                nested.substreams()
            );
            return Err(self.error_at(number, &message));
        }
        Ok(nested)
    }

    fn level(&mut self) -> Result<Level> {
        if self.take("exact") {
            Ok(Level::Exact)
        } else if let Some(algorithm) = ALGORITHMS.into_iter().find(|a| self.take(a.name())) {
            self.interval(algorithm)
        } else if self.take("H") {
            let nested = self.split(true)?;
            let mut splits = nested.splits();
            Ok(match (splits.next(), splits.next()) {
                (Some(n), None) => Level::Split(nested.sampler, n),
                _ => Level::Nested(nested),
            })
        } else if self.take("T") {
            self.tagged()
        } else {
            self.sampler().map(Level::Sample)
        }
    }

    fn hash_name(&mut self) -> Result<()> {
        if !self.take(":") {
            return Ok(());
        }
        for kind in [HashKind::Crc, HashKind::Multiply] {
            if self.take(&kind.suffix()[1..]) {
                self.hash = kind;
                return Ok(());
            }
        }
        let found = self.found();
        Err(self.error(&format!(
            "expected the name of a hash function, found {found}; there are :crc and :mul, and \
             without a name it is the papers'"
        )))
    }

    fn sampler(&mut self) -> Result<Sampler> {
        let rate = |at: &mut Self| at.number("sampling rate", 1, u64::from(u32::MAX));
        if self.take("P") {
            let rate = rate(self)?;
            let start = match self.take(":phase") {
                true => Start::Random,
                false => Start::Zero,
            };
            Ok(Sampler::Periodic(rate, start))
        } else if self.take("R") {
            rate(self).map(Sampler::Random)
        } else if self.take("D") {
            rate(self).map(Sampler::Countdown)
        } else if self.take("C") {
            self.expect("R", "a random sampler with a counter is written CR256")?;
            let rate = rate(self)?;
            let start = self.position;
            let estimate = if !self.take(":") || self.take("ratio") {
                Estimate::Ratio
            } else if self.take("sum") {
                Estimate::Sum
            } else {
                let message = "the counts of CR are used as :ratio (the default) or :sum";
                return Err(self.error_at(start + 1, message));
            };
            Ok(Sampler::Counted(rate, estimate))
        } else {
            let found = self.found();
            Err(self.error(&format!(
                "expected a compressor, found {found}; there are exact, P256, R256, D256, CR256, \
                 H[P256]2048, T[256]2048/2way/2bit, M4[10k,1%]2048:C1R0P1, in place of M4 the \
                 sketches SS, MG, CM4, HK2 and S8, and before samplers a filter, F[1%,64]96"
            )))
        }
    }

    fn tagged(&mut self) -> Result<Level> {
        let form = "a tagged compressor is written T[256]2048/2way/2bit";
        self.hash_name()?;
        self.expect("[", form)?;
        let rate = self.number("hit limit", 1, 1 << 31)?;
        self.expect("]", form)?;
        let start = self.position;
        let entries = self.number("number of entries", 1, MAX_ENTRIES)?;
        self.expect("/", form)?;
        let ways = self.number("ways of a set", 1, u64::from(entries))?;
        self.whole_bits(start, "number of entries", entries, ways)?;
        self.expect("way/", form)?;
        let tag_bits = self.number("tag bits", 1, 16)?;
        self.expect("bit", form)?;
        let mut spec = TaggedSpec {
            rate,
            entries,
            ways,
            tag_bits,
            enough: TaggedSpec::ENOUGH,
            misses: TaggedSpec::MISSES,
            miss_bits: TaggedSpec::bits_of(TaggedSpec::MISSES),
        };
        if self.take(":") {
            self.tagged_options(&mut spec)?;
        }
        Ok(Level::Tagged(spec))
    }

    fn tagged_options(&mut self, spec: &mut TaggedSpec) -> Result<()> {
        let form = "options are E (divisor of enough hits), R (misses to replace) and B (bits of misses), as in :E4R8B3";
        let [mut enough, mut misses, mut bits] = [None; 3];
        let start = self.position;
        while let Some(option) = self.rest().chars().next().filter(|c| *c != '+') {
            let (to, what, most) = match option {
                'E' => (&mut enough, "divisor of enough hits", 1 << 31),
                'R' => (&mut misses, "misses to replace", 1 << MAX_COUNTER_BITS),
                'B' => (&mut bits, "bits of misses", MAX_COUNTER_BITS),
                _ => {
                    let found = self.found();
                    return Err(self.error(&format!("{found} is no option of T; {form}")));
                }
            };
            if to.is_some() {
                return Err(self.error(&format!("{option} was given before; remove one")));
            }
            self.position += 1;
            let least = u64::from(option != 'B');
            *to = Some(self.number(what, least, most)?);
        }
        if self.position == start {
            return Err(self.error(&format!("options follow the colon; {form}")));
        }
        spec.enough = enough.unwrap_or(spec.enough);
        spec.misses = misses.or_else(|| Some(1 << bits?)).unwrap_or(spec.misses);
        spec.miss_bits = bits.unwrap_or(TaggedSpec::bits_of(spec.misses));
        if TaggedSpec::bits_of(spec.misses) > spec.miss_bits {
            let message = format!(
                "{} bits cannot count to {} misses; take at least B{}",
                spec.miss_bits,
                spec.misses - 1,
                TaggedSpec::bits_of(spec.misses)
            );
            return Err(self.error_at(start, &message));
        }
        Ok(())
    }

    /// An interval profiler, its letters already taken.
    fn interval(&mut self, algorithm: Algorithm) -> Result<Level> {
        let form = algorithm.form();
        let tables = if algorithm.has_tables() {
            let (what, most) = match algorithm {
                Algorithm::MultiHash => ("number of tables", MAX_TABLES),
                Algorithm::Sieve => ("ways of a set", MAX_WAYS),
                _ => ("number of rows", MAX_ROWS),
            };
            self.number(what, 1, u64::from(most))?
        } else {
            1
        };
        if algorithm.has_tables() {
            self.hash_name()?;
        }
        self.expect("[", form)?;
        let interval = self.number("interval length", 1, u64::from(u32::MAX))?;
        let longest = self.longest(algorithm, interval)?;
        self.expect(",", form)?;
        let threshold_at = self.position;
        let threshold = self.percent("threshold")?;
        self.expect("]", form)?;
        let start = self.position;
        let counters = self.counters(algorithm, tables)?;
        let mut spec = IntervalSpec {
            algorithm,
            tables,
            interval,
            longest,
            threshold,
            counters,
            conservative: true,
            reset: false,
            retain: true,
            accumulator: None,
            early: 1,
        };
        if self.take(":") {
            self.flags(&mut spec)?;
        }
        let rows = matches!(algorithm, Algorithm::CountMin | Algorithm::HeavyKeeper);
        if rows && counters / tables > 1 << 16 {
            let message = "a row has at most 65536 cells; take more rows or fewer cells";
            return Err(self.error_at(start, message));
        }
        if !algorithm.options().contains('A') {
            return Ok(Level::Interval(spec));
        }
        if u64::from(spec.accumulator_entries()) > MAX_ACCUMULATOR {
            let message = format!(
                "a threshold of {threshold} asks for {} accumulator entries; at most \
                 {MAX_ACCUMULATOR} are possible, so give their number as :C1R0P1A1000",
                spec.accumulator_entries()
            );
            return Err(self.error_at(threshold_at, &message));
        }
        Ok(Level::Interval(spec))
    }

    /// The longest interval, if it is adaptive.
    fn longest(&mut self, algorithm: Algorithm, interval: u32) -> Result<u32> {
        let start = self.position;
        if !self.take("..") {
            return Ok(interval);
        }
        if algorithm != Algorithm::MultiHash {
            let message = format!("{} has intervals of one length", algorithm.name());
            return Err(self.error_at(start, &message));
        }
        let start = self.position;
        let longest = self.number("longest interval", 1, u64::from(u32::MAX))?;
        if longest <= interval {
            let message = format!("the longest interval must be above the shortest ({interval})");
            return Err(self.error_at(start, &message));
        }
        Ok(longest)
    }

    fn counters(&mut self, algorithm: Algorithm, tables: u32) -> Result<u32> {
        let start = self.position;
        if !algorithm.has_tables() {
            return self.number("number of entries", 1, MAX_ACCUMULATOR);
        }
        let what = match algorithm {
            Algorithm::MultiHash | Algorithm::CountMin => "number of counters",
            _ => "number of cells",
        };
        let counters = self.number(what, 1, MAX_ENTRIES)?;
        self.whole_bits(start, what, counters, tables)?;
        Ok(counters)
    }

    fn flags(&mut self, spec: &mut IntervalSpec) -> Result<()> {
        let mut given = String::new();
        while let Some(flag) = self.rest().chars().next().filter(|c| *c != '+') {
            if given.contains(flag) {
                return Err(self.error(&format!("{flag} was given before; remove one")));
            }
            if !spec.algorithm.options().contains(flag) {
                return Err(self.error(&format!(
                    "{flag:?} is no option of {}; there are {}",
                    spec.algorithm.name(),
                    meanings(spec.algorithm)
                )));
            }
            given.push(flag);
            self.position += 1;
            match flag {
                'A' => {
                    let entries = self.number("accumulator entries", 1, MAX_ACCUMULATOR)?;
                    spec.accumulator = Some(entries);
                }
                'E' => {
                    spec.early = self.number("divisor of early promotion", 1, MAX_EARLY)?;
                }
                'C' => spec.conservative = self.switch(flag)?,
                'R' => spec.reset = self.switch(flag)?,
                _ => {
                    let start = self.position;
                    spec.retain = self.switch(flag)?;
                    if !spec.retain && spec.is_adaptive() {
                        return Err(self.error_at(
                            start,
                            "an adaptive interval compares the candidates that it retains; write P1",
                        ));
                    }
                }
            }
        }
        if given.is_empty() {
            let form = spec.algorithm.form();
            return Err(self.error(&format!("options follow the colon; {form}")));
        }
        Ok(())
    }

    fn switch(&mut self, flag: char) -> Result<bool> {
        if self.take("1") {
            return Ok(true);
        }
        if self.take("0") {
            return Ok(false);
        }
        let found = self.found();
        Err(self.error(&format!(
            "expected 0 or 1 after {flag}, found {found}; write {flag}1 for on"
        )))
    }
}

/// The options of an algorithm, for errors.
fn meanings(algorithm: Algorithm) -> String {
    let mut all = String::new();
    for option in algorithm.options().chars() {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(match option {
            'C' => "C (conservative update)",
            'R' => "R (resetting)",
            'P' => "P (retaining)",
            'A' => "A (accumulator entries)",
            _ => "E (early promotion)",
        });
    }
    all
}

#[cfg(test)]
mod tests;
