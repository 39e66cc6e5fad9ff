//! Counts on their way from what the counting loop keeps to a profile's lists.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, Place, Tuple};

/// Counts that were settled: in no order, and what is counted may occur more than once.
#[derive(Default)]
pub(super) struct Settled(BTreeMap<Kind, OfKind>);

#[derive(Default)]
struct OfKind {
    /// Counts of tuples known at translation.
    tuples: Vec<(Tuple, u64)>,
    /// Counts of values, by their place.
    values: Places,
}

/// Values and how often each was counted.
pub(super) type Counted = Vec<(u64, u64)>;

/// Places, each with its values.
pub(super) type Places = Vec<(Place, Counted)>;

impl Settled {
    /// Adds to the count of an event.
    pub(super) fn tuple(&mut self, kind: Kind, tuple: Tuple, count: u64) {
        self.0.entry(kind).or_default().tuples.push((tuple, count));
    }

    /// Adds the values of a place.
    pub(super) fn values(&mut self, kind: Kind, place: Place, values: Counted) {
        self.0.entry(kind).or_default().values.push((place, values));
    }

    /// Everything, sorted and added up.
    pub(super) fn by_kind(self) -> impl Iterator<Item = (Kind, Places)> {
        self.0.into_iter().map(|(kind, of)| (kind, of.places()))
    }
}

impl OfKind {
    fn places(self) -> Places {
        let Self {
            mut tuples,
            values: mut places,
        } = self;
        tuples.sort_unstable_by_key(|(tuple, _)| (tuple.pc, tuple.value));
        for group in tuples.chunk_by(|(a, _), (b, _)| a.pc == b.pc) {
            let counted = group.iter().map(|(tuple, count)| (tuple.value, *count));
            places.push((group[0].0.pc, counted.collect()));
        }
        places.sort_unstable_by_key(|(place, _)| *place);
        places.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1.append(&mut later.1);
            }
            same
        });
        for (_, counts) in &mut places {
            merge(counts);
        }
        places
    }
}

/// Sorts counted values and adds up the counts of equal ones.
fn merge(values: &mut Counted) {
    if values.len() < 2 {
        return;
    }
    values.sort_unstable_by_key(|(value, _)| *value);
    values.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 += later.1;
        }
        same
    });
}
