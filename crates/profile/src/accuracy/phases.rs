//! Intervals one by one, and the phases of a program found from them.
//!
//! Problem: means over intervals do not say when a program does what. A user wants each interval's candidates, and
//! to see which intervals are alike.
//!
//! Strategy: an interval is a distribution: the share of its events that each candidate has, and the share of all
//! others together. Two intervals are as far apart as the share of events that would have to move to make
//! them equal (total variation, 0 to 1). An interval joins the nearest phase if that is at most [`APART`] away, and
//! begins a new one otherwise. A phase is at the mean of its intervals.
//!
//! Invariants:
//! * Phases are numbered from 1 by their first interval. Equal candidates give equal numbers.
//! * Only what the profiler reports is looked at, never the perfect profile: hardware could do the same.
//!
//! The number of phases depends on the order of intervals, as with any method that sees each of them once.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, Message, Tuple};

/// Distance from which on an interval begins a phase of its own: a quarter of the events.
pub const APART: f64 = 0.25;

/// Shares of the events by tuple; what is left to 1 is all others.
type Shares = BTreeMap<(Kind, Tuple), f64>;

/// A phase: the sum of its intervals' shares, and their number.
#[derive(Default)]
struct Phase {
    sum: Shares,
    intervals: f64,
}

impl Phase {
    /// The distance to an interval.
    fn distance(&self, shares: &Shares) -> f64 {
        let mean = |share: &f64| share / self.intervals;
        let (mut apart, mut both) = (0.0, 0.0);
        for (tuple, share) in &self.sum {
            let other = shares.get(tuple).copied().unwrap_or(0.0);
            apart += (mean(share) - other).abs();
            both += mean(share) - other;
        }
        for share in shares
            .iter()
            .filter(|s| !self.sum.contains_key(s.0))
            .map(|s| s.1)
        {
            apart += share;
            both -= share;
        }
        // What all other tuples have more in one than in the other.
        (apart + both.abs()) / 2.0
    }

    fn join(&mut self, shares: Shares) {
        for (tuple, share) in shares {
            *self.sum.entry(tuple).or_default() += share;
        }
        self.intervals += 1.0;
    }
}

/// The phases so far.
#[derive(Default)]
pub struct Phases(Vec<Phase>);

impl Phases {
    /// Returns the number of the phase that an interval with these candidates is in.
    pub fn of(&mut self, events: u64, candidates: &[Message]) -> usize {
        let share = |m: &Message| ((m.kind, m.tuple), m.count as f64 / events as f64);
        let shares: Shares = candidates.iter().map(share).collect();
        let distances = self.0.iter().map(|phase| phase.distance(&shares));
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let number = match nearest {
            Some((number, distance)) if distance <= APART => number,
            _ => {
                self.0.push(Phase::default());
                self.0.len() - 1
            }
        };
        self.0[number].join(shares);
        number + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::Place;

    fn candidates(counts: &[(u64, u64)]) -> Vec<Message> {
        let message = |(at, count): &(u64, u64)| Message {
            kind: Kind::Value,
            tuple: Tuple::new(Place::from_word(*at), 7),
            count: *count,
            samples: 1,
        };
        counts.iter().map(message).collect()
    }

    #[test]
    fn phases_return_under_their_number() {
        let mut phases = Phases::default();
        let hot = candidates(&[(1, 400), (2, 300)]);
        let alike = candidates(&[(1, 350), (2, 290), (3, 20)]);
        let other = candidates(&[(4, 600)]);
        let order = [&hot, &alike, &other, &hot, &Vec::new(), &other, &Vec::new()];
        let found: Vec<usize> = order.iter().map(|c| phases.of(1000, c)).collect();
        assert_eq!(found, [1, 1, 2, 1, 3, 2, 3]);
    }

    #[test]
    fn distances_are_shares_of_events() {
        let mut phase = Phase::default();
        let shares = |counts: &[(u64, u64)]| -> Shares {
            let all = candidates(counts);
            all.iter()
                .map(|m| ((m.kind, m.tuple), m.count as f64 / 100.0))
                .collect()
        };
        phase.join(shares(&[(1, 50), (2, 30)]));
        for (other, distance) in [
            (&[(1, 50), (2, 30)][..], 0.0),
            (&[(1, 30), (2, 50)], 0.2),
            (&[(3, 50), (4, 30)], 0.8),
            (&[(1, 50)], 0.3),
            (&[], 0.8),
            (&[(3, 100)], 1.0),
        ] {
            let found = phase.distance(&shares(other));
            assert!((found - distance).abs() < 1e-12, "{other:?}: {found}");
        }
    }
}
