//! The distribution of one place's values, interval by interval, and the decision to profile it.

use std::time::Duration;

use super::sketch::Sketch;
use super::weight::{Stretch, Weights};

/// Intervals one after the other that have to be as the one before.
const ALIKE: u8 = 2;

/// A place need not be profiled all the time when it has had one of so many parts of an interval.
const SOME: u64 = 16;

/// Rules by which values count as known.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Shares that differ by less are alike.
    pub limit: f64,
    /// Executions of an interval.
    pub interval: u64,
}

/// True if a place is profiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Profiled all the time.
    Watched,
    /// Profiled, and need not be.
    Known,
    /// Profiled in bursts.
    Out,
}

/// State of one place.
#[derive(Clone, Debug)]
pub struct ProfiledPlace {
    /// Address of the instruction.
    pub pc: u64,
    /// Number of its table of values; none where nobody asked for them.
    pub table: Option<u32>,
    /// True if it is profiled.
    pub state: State,
    /// Executions seen since code was made anew.
    pub events: u64,
    /// Times that its probe was taken out.
    pub outs: u32,
    /// Times that its values had settled and were others later.
    pub changes: u32,
    /// Its values have settled.
    pub settled: bool,
    /// Weights of its stretches of profiling.
    pub weights: Weights,
    /// The last one, what was seen in it, and when it ended, if it has.
    stretch: Stretch,
    seen: Sketch,
    ended: Duration,
    now: Sketch,
    before: Option<Box<Sketch>>,
    /// Values that the place settled at.
    known: Option<Box<Sketch>>,
    alike: u8,
}

impl ProfiledPlace {
    /// Begins with a place that nothing is known of.
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
        }
    }

    /// A value was seen so often. Whether an interval is over.
    pub fn add(&mut self, value: u64, count: u64, rules: Rules) -> bool {
        self.events += count;
        self.seen.add(value, count);
        let before = self.now.total();
        self.now.add(value, count);
        before < rules.interval && self.now.total() >= rules.interval
    }

    /// Returns whether its probe may be taken out: it is executed often enough to be seen in bursts.
    pub fn is_ripe(&self, rules: Rules) -> bool {
        match self.state {
            State::Known => true,
            State::Watched => self.events >= rules.interval / SOME,
            State::Out => false,
        }
    }

    /// Looks at an interval that is over.
    pub fn judge(&mut self, rules: Rules) {
        if self.now.total() < rules.interval || self.table.is_none() {
            return;
        }
        let last = std::mem::take(&mut self.now);
        if self.state == State::Watched {
            self.state = State::Known;
        }
        let alike = |other: &Sketch| last.distance(other) < rules.limit;
        if self.settled {
            if self.known.as_deref().is_some_and(alike) {
                return;
            }
            self.changes += 1;
            self.settled = false;
            self.before = None;
        }
        match self.before.as_deref().is_some_and(alike) {
            true => self.alike += 1,
            false => self.alike = 0,
        }
        if self.alike >= ALIKE {
            self.settled = true;
            self.known = Some(Box::new(last));
        }
        self.before = Some(Box::new(last));
    }

    /// Begins to profile the place in bursts.
    pub fn take_out(&mut self, at: Duration) {
        self.state = State::Out;
        self.leave_out(at);
    }

    /// Notes that its probe has been taken out, for the first time or again.
    pub fn leave_out(&mut self, at: Duration) {
        self.outs += 1;
        self.ended = at;
    }

    /// Notes that its probe has been put back, for a burst.
    pub fn put_back(&mut self, at: Duration) {
        let half = at.saturating_sub(self.ended) / 2;
        self.weigh(self.ended, half);
        self.stretch = Stretch {
            from: at,
            before: half,
        };
    }

    /// Notes that other code is in its place.
    pub fn forget(&mut self, at: Duration) {
        if self.state == State::Out {
            self.put_back(at);
        }
        self.state = State::Watched;
        self.now = Sketch::default();
        self.before = None;
        self.alike = 0;
    }

    /// No more is to come; `burst`: it is profiled although it is out.
    pub fn finish(&mut self, at: Duration, burst: bool) {
        match self.state {
            State::Out if !burst => self.weigh(self.ended, at.saturating_sub(self.ended)),
            _ => self.weigh(at, Duration::ZERO),
        }
    }

    /// Executions of the last stretch.
    #[cfg(test)]
    pub(super) fn seen_now(&self) -> u64 {
        self.seen.total()
    }

    fn weigh(&mut self, to: Duration, after: Duration) {
        let seen = std::mem::take(&mut self.seen);
        if seen.total() == 0 {
            return;
        }
        self.weights.add(self.stretch, to, after, &seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        limit: 0.02,
        interval: 1000,
    };

    fn interval(place: &mut ProfiledPlace, values: &[(u64, u64)]) {
        for &(value, count) in values {
            place.add(value, count, RULES);
        }
        place.judge(RULES);
    }

    #[test]
    fn three_intervals_alike_settle() {
        let mut place = ProfiledPlace::new(1, Some(1), Duration::ZERO);
        interval(&mut place, &[(5, 700), (6, 300)]);
        assert_eq!((place.state, place.settled), (State::Known, false));
        interval(&mut place, &[(5, 710), (6, 290)]);
        assert!(!place.settled);
        interval(&mut place, &[(5, 705), (6, 295)]);
        assert!(place.settled);
    }

    #[test]
    fn values_that_are_all_different_settle() {
        let mut place = ProfiledPlace::new(1, Some(1), Duration::ZERO);
        for n in 0..3 {
            let values: Vec<_> = (0..1000).map(|v| (1000 * n + v, 1)).collect();
            interval(&mut place, &values);
        }
        assert!(place.settled);
    }

    #[test]
    fn values_that_alternate_are_left_open() {
        let mut place = ProfiledPlace::new(1, Some(1), Duration::ZERO);
        for n in 0..16 {
            interval(&mut place, &[(n & 1, 1000)]);
            assert!(!place.settled);
        }
    }

    #[test]
    fn a_change_in_a_burst_is_noticed_once() {
        let mut place = ProfiledPlace::new(1, Some(1), Duration::ZERO);
        for _ in 0..3 {
            interval(&mut place, &[(5, 1000)]);
        }
        place.take_out(Duration::ZERO);
        let burst = |place: &mut ProfiledPlace, value| {
            place.put_back(Duration::ZERO);
            interval(place, &[(value, 1000)]);
            place.leave_out(Duration::ZERO);
        };
        burst(&mut place, 5);
        assert_eq!((place.changes, place.settled), (0, true));
        for _ in 0..3 {
            burst(&mut place, 6);
        }
        assert_eq!((place.changes, place.settled), (1, true));
        assert_eq!((place.state, place.outs), (State::Out, 5));
    }

    #[test]
    fn what_nobody_asked_for_is_known_from_the_start() {
        let place = ProfiledPlace::new(1, None, Duration::ZERO);
        assert_eq!(place.state, State::Known);
    }

    #[test]
    fn a_sketch_keeps_the_frequent_ones_of_many() {
        let mut sketch = Sketch::default();
        for n in 0..10_000_u64 {
            sketch.add(if n % 2 == 0 { 7 } else { 100 + n }, 1);
        }
        assert!((0.4..=0.5).contains(&sketch.share(7)), "{sketch:?}");
        assert_eq!(sketch.total(), 10_000);
    }
}
