//! How the values of one place are distributed, interval by interval, and what follows from that.

use std::time::Duration;

use super::weight::{Stretch, Weights};

/// Values that a sketch keeps.
const KEPT: usize = 8;
/// Intervals one behind the other that have to be as the one before.
const ALIKE: u8 = 2;
/// Intervals whose executions are enough to give up a place that does not settle, and how many it must have had.
const MOST: u64 = 16;
const SOME: u8 = 3;
/// Rounds that a place is left out of, at most.
const LONGEST: u32 = 64;

/// The most frequent values of an interval, in constant space: counts of Misra and Gries, which are too low by a ninth of the executions at
/// most, and by nothing with eight values or less. In two sketches of one distribution they are too low alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sketch {
    kept: [(u64, u64); KEPT],
    total: u64,
}

impl Sketch {
    /// A value was seen so often.
    pub fn add(&mut self, value: u64, count: u64) {
        self.total += count;
        let mut rest = count;
        while rest != 0 {
            let mut least = 0;
            for n in 0..KEPT {
                if self.kept[n].1 != 0 && self.kept[n].0 == value {
                    self.kept[n].1 += rest;
                    return;
                }
                if self.kept[n].1 < self.kept[least].1 {
                    least = n;
                }
            }
            let less = self.kept[least].1.min(rest);
            if self.kept[least].1 == 0 {
                self.kept[least] = (value, rest);
                return;
            }
            self.kept.iter_mut().for_each(|kept| kept.1 -= less);
            rest -= less;
        }
    }

    /// So many of a value were not of this interval.
    pub fn take_back(&mut self, value: u64, count: u64) {
        self.total = self.total.saturating_sub(count);
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.0 == value) {
            kept.1 = kept.1.saturating_sub(count);
        }
    }

    /// Executions in it.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The values that are kept, with their counts.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.kept.iter().copied().filter(|kept| kept.1 != 0)
    }

    fn share(&self, value: u64) -> f64 {
        let kept = self.kept.iter().find(|kept| kept.0 == value);
        kept.map_or(0, |kept| kept.1) as f64 / self.total.max(1) as f64
    }

    /// By how much the share of a value differs, of that which differs most.
    pub fn distance(&self, other: &Self) -> f64 {
        let values = self.kept.iter().chain(&other.kept).map(|kept| kept.0);
        let differences = values.map(|value| (self.share(value) - other.share(value)).abs());
        differences.fold(0.0, f64::max)
    }
}

/// When values count as known.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Shares that differ by less are alike.
    pub limit: f64,
    /// Executions of an interval.
    pub interval: u64,
}

/// Whether a place is profiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is, and watched.
    Watched,
    /// It is, and need not be.
    Known,
    /// It is not, up to a round.
    Out {
        /// The round in which it is profiled again.
        until: u32,
    },
}

/// One place, and what is known of it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Address of the instruction.
    pub pc: u64,
    /// Number of its table of values; none where nobody asked for them.
    pub table: Option<u32>,
    /// Whether it is profiled.
    pub state: State,
    /// Executions seen since code was made anew.
    pub events: u64,
    /// Times that its probe was taken out.
    pub outs: u32,
    /// Times that it was put back and values were others.
    pub changes: u32,
    /// When its probe was taken out last its values had settled.
    pub settled: bool,
    /// What each stretch of profiling stands for.
    pub weights: Weights,
    /// The last one, what was seen in it, and when it ended, if it has.
    stretch: Stretch,
    seen: Sketch,
    ended: Duration,
    now: Sketch,
    before: Option<Box<Sketch>>,
    /// What was known when the probe was taken out.
    known: Option<Box<Sketch>>,
    alike: u8,
    intervals: u8,
    /// Rounds to leave out the next time.
    rest: u32,
}

impl Place {
    /// One that nothing is known of.
    pub fn new(pc: u64, table: Option<u32>, at: Duration) -> Self {
        Self {
            pc,
            table,
            state: match table {
                Some(_) => State::Watched,
                None => State::Known,
            },
            events: 0,
            outs: 0,
            changes: 0,
            settled: false,
            weights: Weights::default(),
            stretch: Stretch {
                from: at,
                before: Duration::ZERO,
            },
            seen: Sketch::default(),
            ended: Duration::ZERO,
            now: Sketch::default(),
            before: None,
            known: None,
            alike: 0,
            intervals: 0,
            rest: 1,
        }
    }

    /// A value was seen so often. Whether an interval is over.
    pub fn add(&mut self, value: u64, count: u64, rules: Rules) -> bool {
        self.events += count;
        self.seen.add(value, count);
        let before = self.now.total;
        self.now.add(value, count);
        before < rules.interval && self.now.total >= rules.interval
    }

    /// So many executions with a value were counted before.
    pub fn take_back(&mut self, value: u64, count: u64) {
        self.events = self.events.saturating_sub(count);
        self.seen.take_back(value, count);
        self.now.take_back(value, count);
    }

    /// Looks at an interval that is over.
    pub fn judge(&mut self, rules: Rules) {
        if self.now.total < rules.interval || self.table.is_none() {
            return;
        }
        let last = std::mem::take(&mut self.now);
        let alike = |other: &Sketch| last.distance(other) < rules.limit;
        if self.state != State::Watched {
            // Code that was made before is executed still, or there was no time to make it anew.
            if self.state == State::Known && !self.known.as_deref().is_some_and(alike) {
                self.state = State::Watched;
                self.alike = 0;
                self.before = Some(Box::new(last));
            }
            return;
        }
        self.intervals = self.intervals.saturating_add(1);
        if self.intervals == 1
            && let Some(known) = self.known.as_deref()
        {
            if alike(known) {
                self.rest = (self.rest * 2).min(LONGEST);
                self.state = State::Known;
                self.settled = true;
                return;
            }
            self.changes += u32::from(self.settled);
            self.rest = 1;
        }
        match self.before.as_deref().is_some_and(alike) {
            true => self.alike += 1,
            false => self.alike = 0,
        }
        self.settled = self.alike >= ALIKE;
        let much = self.seen.total >= MOST * rules.interval && self.intervals >= SOME;
        if self.settled || much {
            self.state = State::Known;
            self.known = Some(Box::new(last));
        }
        self.before = Some(Box::new(last));
    }

    /// Its probe is taken out in a round.
    pub fn take_out(&mut self, round: u32, at: Duration) {
        self.outs += 1;
        self.ended = at;
        let until = match self.table {
            Some(_) => round.saturating_add(self.rest),
            None => u32::MAX,
        };
        self.state = State::Out { until };
    }

    /// Its probe is put back.
    pub fn put_back(&mut self, at: Duration) {
        if let State::Out { .. } = self.state {
            let half = at.saturating_sub(self.ended) / 2;
            self.weigh(self.ended, half);
            self.stretch = Stretch {
                from: at,
                before: half,
            };
        }
        self.state = State::Watched;
        self.now = Sketch::default();
        self.before = None;
        self.alike = 0;
        self.intervals = 0;
    }

    /// No more is to come.
    pub fn finish(&mut self, at: Duration) {
        match self.state {
            State::Out { .. } => self.weigh(self.ended, at.saturating_sub(self.ended)),
            State::Watched | State::Known => self.weigh(at, Duration::ZERO),
        }
    }

    fn weigh(&mut self, to: Duration, behind: Duration) {
        let seen = std::mem::take(&mut self.seen);
        self.weights.add(self.stretch, to, behind, &seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        limit: 0.02,
        interval: 1000,
    };

    fn interval(place: &mut Place, values: &[(u64, u64)]) {
        for &(value, count) in values {
            place.add(value, count, RULES);
        }
        place.judge(RULES);
    }

    #[test]
    fn three_intervals_alike_settle() {
        let mut place = Place::new(1, Some(1), Duration::ZERO);
        interval(&mut place, &[(5, 700), (6, 300)]);
        interval(&mut place, &[(5, 710), (6, 290)]);
        assert_eq!(place.state, State::Watched);
        interval(&mut place, &[(5, 705), (6, 295)]);
        assert_eq!((place.state, place.settled), (State::Known, true));
    }

    #[test]
    fn values_that_are_all_different_settle() {
        let mut place = Place::new(1, Some(1), Duration::ZERO);
        for n in 0..3 {
            let values: Vec<_> = (0..1000).map(|v| (1000 * n + v, 1)).collect();
            interval(&mut place, &values);
        }
        assert_eq!((place.state, place.settled), (State::Known, true));
    }

    #[test]
    fn values_that_alternate_are_left_open() {
        let mut place = Place::new(1, Some(1), Duration::ZERO);
        for n in 0..MOST {
            assert_eq!(place.state, State::Watched);
            interval(&mut place, &[(n & 1, 1000)]);
        }
        assert_eq!((place.state, place.settled), (State::Known, false));
    }

    #[test]
    fn what_is_as_it_was_rests_twice_as_long_and_a_change_is_noticed() {
        let mut place = Place::new(1, Some(1), Duration::ZERO);
        for _ in 0..3 {
            interval(&mut place, &[(5, 1000)]);
        }
        place.take_out(1, Duration::ZERO);
        assert_eq!(place.state, State::Out { until: 2 });
        place.put_back(Duration::ZERO);
        interval(&mut place, &[(5, 1000)]);
        assert_eq!(place.state, State::Known);
        place.take_out(2, Duration::ZERO);
        assert_eq!(place.state, State::Out { until: 4 });
        place.put_back(Duration::ZERO);
        interval(&mut place, &[(6, 1000)]);
        assert_eq!((place.state, place.changes), (State::Watched, 1));
        interval(&mut place, &[(6, 1000)]);
        interval(&mut place, &[(6, 1000)]);
        assert_eq!(place.state, State::Known);
        place.take_out(4, Duration::ZERO);
        assert_eq!(place.state, State::Out { until: 5 });
    }

    #[test]
    fn what_nobody_asked_for_is_out_for_good() {
        let mut place = Place::new(1, None, Duration::ZERO);
        assert_eq!(place.state, State::Known);
        place.take_out(1, Duration::ZERO);
        assert_eq!(place.state, State::Out { until: u32::MAX });
    }

    #[test]
    fn a_sketch_keeps_the_frequent_ones_of_many() {
        let mut sketch = Sketch::default();
        for n in 0..10_000_u64 {
            sketch.add(if n % 2 == 0 { 7 } else { 100 + n }, 1);
        }
        assert!((0.4..=0.5).contains(&sketch.share(7)), "{sketch:?}");
        sketch.take_back(7, 1000);
        assert_eq!(sketch.total, 9000);
    }
}
