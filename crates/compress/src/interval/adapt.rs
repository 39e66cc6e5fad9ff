//! The length of the next interval, from what became of the candidates of the last one.
//!
//! Problem: a profile serves the next interval, so its candidates should be candidates again; at which
//! length they are depends on the program (*Multi-Hash*, figure 6). The paper says that one can pick the
//! length adaptively for a program, not how.
//!
//! Strategy: the profiler itself can see its *change*, 1 − |A∩B| ÷ |A∪B| for its candidates A of one
//! interval and B of the next, as the accumulator knows which entries were retained. Lengths are the
//! shortest, four times that and so on, and the longest. From its present length, *home*, the profiler
//! tries the next longer one for a few intervals, and moves there if the change is less by a margin,
//! again and again; if it is not, the next shorter one, and moves there unless the change is more by
//! the margin, since the shorter profile is the earlier one. Then it rests at home and measures, before it
//! tries again. A pair of intervals of different lengths is not compared.
//!
//! Two intervals without a candidate between them foretell nothing: that is full change.
//!
//! Invariant: where change does not vary over time a move is never undone: up needs a gain of more than the
//! margin, and down a loss of at most the margin.

use alloc::vec::Vec;

/// Candidates of the interval before and of this one, and those of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Turnover {
    pub(crate) before: u32,
    pub(crate) now: u32,
    pub(crate) both: u32,
}

/// Full change.
const WHOLE: u64 = 1 << 16;
/// Differences of change that make no difference: a twentieth.
const MARGIN: u64 = WHOLE / 20;
/// Pairs of intervals that a longer length is tried for.
const LONGER: u64 = 3;
/// Pairs of intervals that a shorter length is tried for, and that are measured at first.
const SHORTER: u64 = 12;
/// Pairs of intervals at home before another length is tried.
const REST: u64 = 24;
/// Each length is this many times the one before.
const STEP: u64 = 4;

impl Turnover {
    fn change(self) -> u64 {
        let union = u64::from(self.before) + u64::from(self.now) - u64::from(self.both);
        match union {
            0 => WHOLE,
            _ => (union - u64::from(self.both)) * WHOLE / union,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Home,
    Longer,
    Shorter,
}

/// The choice of lengths.
#[derive(Clone, Debug)]
pub(crate) struct Adapt {
    lengths: Vec<u32>,
    home: usize,
    stage: Stage,
    /// The change at home, as last measured.
    cost: u64,
    /// Pairs of the present measurement.
    pairs: u64,
    sum: u64,
    wanted: u64,
    /// The interval before had another length.
    switched: bool,
}

impl Adapt {
    /// Starts with the shortest.
    pub(crate) fn new(shortest: u32, longest: u32) -> Self {
        let steps = core::iter::successors(Some(u64::from(shortest)), |n| Some(n * STEP));
        let steps = steps.take_while(|n| *n < u64::from(longest));
        Self {
            lengths: steps.map(|n| n as u32).chain([longest]).collect(),
            home: 0,
            stage: Stage::Home,
            cost: WHOLE,
            pairs: 0,
            sum: 0,
            wanted: SHORTER,
            switched: true,
        }
    }

    fn at(&self) -> usize {
        match self.stage {
            Stage::Home => self.home,
            Stage::Longer => self.home + 1,
            Stage::Shorter => self.home - 1,
        }
    }

    /// The length of the present interval.
    pub(crate) fn length(&self) -> u32 {
        self.lengths[self.at()]
    }

    /// An interval ended; the length of the next one is [`length`](Self::length).
    pub(crate) fn ended(&mut self, turnover: Turnover) {
        if self.switched {
            self.switched = false;
            return;
        }
        self.sum += turnover.change();
        self.pairs += 1;
        if self.pairs < self.wanted {
            return;
        }
        let cost = self.sum / self.pairs;
        (self.sum, self.pairs) = (0, 0);
        let before = self.at();
        self.decide(cost);
        self.wanted = match self.stage {
            Stage::Home => REST,
            Stage::Longer => LONGER,
            Stage::Shorter => SHORTER,
        };
        self.switched = self.at() != before;
    }

    fn decide(&mut self, cost: u64) {
        let is_last = |at: usize| at + 1 == self.lengths.len();
        match self.stage {
            Stage::Home => {
                self.cost = cost;
                self.stage = match self.home {
                    home if !is_last(home) => Stage::Longer,
                    _ => Stage::Shorter,
                };
            }
            Stage::Longer if cost + MARGIN < self.cost => {
                self.home += 1;
                self.cost = cost;
                if is_last(self.home) {
                    self.stage = Stage::Home;
                }
            }
            Stage::Longer if self.home > 0 => self.stage = Stage::Shorter,
            Stage::Shorter if cost <= self.cost + MARGIN => {
                self.home -= 1;
                self.cost = cost;
                if self.home == 0 {
                    self.stage = Stage::Home;
                }
            }
            Stage::Longer | Stage::Shorter => self.stage = Stage::Home,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turnover(change: f64) -> Turnover {
        // |A| = |B| = 1000: 1 − both ÷ (2000 − both) = change.
        let both = (2000.0 * (1.0 - change) / (2.0 - change)).round() as u32;
        Turnover {
            before: 1000,
            now: 1000,
            both,
        }
    }

    /// Intervals of each length, and the home after `intervals` of them.
    fn settle(adapt: &mut Adapt, intervals: u32, change: impl Fn(u32) -> f64) -> u32 {
        for _ in 0..intervals {
            let length = adapt.length();
            adapt.ended(turnover(change(length)));
        }
        adapt.lengths[adapt.home]
    }

    #[test]
    fn lengths_go_in_steps_and_end_with_the_longest() {
        assert_eq!(
            Adapt::new(10_000, 1_000_000).lengths,
            [10_000, 40_000, 160_000, 640_000, 1_000_000]
        );
        assert_eq!(Adapt::new(10, 40).lengths, [10, 40]);
        assert_eq!(Adapt::new(1, u32::MAX).lengths.len(), 17);
    }

    #[test]
    fn it_finds_the_steadiest_length_and_follows_it() {
        let best =
            |best: u32| move |n: u32| 0.1 + 0.2 * f64::from(n.ilog2().abs_diff(best.ilog2()));
        let mut adapt = Adapt::new(1024, 1 << 18);
        assert_eq!(settle(&mut adapt, 400, best(1 << 14)), 1 << 14);
        assert_eq!(settle(&mut adapt, 1000, best(1 << 18)), 1 << 18);
        assert_eq!(settle(&mut adapt, 1000, best(1024)), 1024);
    }

    #[test]
    fn of_lengths_alike_the_shortest_is_taken() {
        let mut adapt = Adapt::new(1024, 1 << 18);
        settle(&mut adapt, 400, |n| if n > 5000 { 0.1 } else { 0.5 });
        assert_eq!(
            settle(&mut adapt, 1000, |n| 0.3 + f64::from(n) * 1e-9),
            1024
        );
    }

    #[test]
    fn no_candidate_is_full_change() {
        assert_eq!(Turnover::default().change(), WHOLE);
        let same = Turnover {
            before: 3,
            now: 3,
            both: 3,
        };
        assert_eq!(same.change(), 0);
    }
}
