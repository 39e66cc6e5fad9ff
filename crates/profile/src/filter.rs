//! Places that were not profiled all the time: their values were known (`record --converge`).
//!
//! Counts of such a place are of the executions that were profiled, so shares are what is to be compared. How many there were besides is
//! known where branches were counted in the same run, and else not at all.

use std::collections::BTreeMap;

use trommel_tuple::Place;

/// Executions that were left out because their values were known.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filter {
    /// Percent by which shares of values differ at most that count as known.
    pub limit: f64,
    /// Times that places were profiled again, and the first time.
    pub rounds: u64,
    /// Times that code was made anew with fewer probes.
    pub tables: u64,
    /// The places that were left out for some time: loads, and calls whose method tables were collected.
    pub places: BTreeMap<Place, Filtered>,
}

/// Facts about a place that was left out for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filtered {
    /// Times that its probe was taken out.
    pub outs: u64,
    /// Times that its values had settled and were others later.
    pub changes: u64,
    /// Its values have settled.
    pub settled: bool,
    /// Executions that were not profiled; `None`: they were not counted.
    pub unprofiled: Option<u64>,
}

impl Filtered {
    /// One that was profiled all the time.
    pub const NEVER: Self = Self {
        outs: 0,
        changes: 0,
        settled: true,
        unprofiled: Some(0),
    };

    /// Adds what is known of the same place in another profile, or under another address.
    pub fn add(&mut self, other: &Self) {
        self.outs = self.outs.saturating_add(other.outs);
        self.changes = self.changes.saturating_add(other.changes);
        self.settled &= other.settled;
        self.unprofiled = (self.unprofiled.zip(other.unprofiled)).map(|(a, b)| a.saturating_add(b));
    }
}

impl Filter {
    /// Adds another; `place`: what a place of that is here.
    pub fn add(&mut self, other: Self, place: impl Fn(Place) -> Place) {
        self.limit = self.limit.max(other.limit);
        self.rounds = self.rounds.saturating_add(other.rounds);
        self.tables = self.tables.saturating_add(other.tables);
        for (at, filtered) in other.places {
            let sums = self.places.entry(place(at)).or_insert(Filtered::NEVER);
            sums.add(&filtered);
        }
    }

    /// Executions that were not profiled, of all places; `None` where those of one were not counted.
    pub fn unprofiled(&self) -> Option<u64> {
        let mut all = self.places.values().map(|place| place.unprofiled);
        all.try_fold(0_u64, |sum, n| Some(sum.saturating_add(n?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_known_where_its_parts_are() {
        let of = |unprofiled| Filter {
            limit: 2.0,
            rounds: 1,
            tables: 3,
            places: BTreeMap::from([(
                Place::from_word(0x10),
                Filtered {
                    outs: 1,
                    changes: 0,
                    settled: true,
                    unprofiled,
                },
            )]),
        };
        let mut sum = Filter::default();
        sum.add(of(Some(5)), |place| place);
        sum.add(of(Some(6)), |place| place);
        assert_eq!((sum.unprofiled(), sum.tables), (Some(11), 6));
        sum.add(of(None), |place| place);
        assert_eq!(sum.unprofiled(), None);
        assert_eq!(sum.places[&Place::from_word(0x10)].outs, 3);
    }
}
