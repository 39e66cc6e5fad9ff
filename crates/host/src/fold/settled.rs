//! Counts on their way from what the counting loop keeps to a profile's lists.

use trommel_tuple::{Kind, Place, Tuple};

/// Counts that were settled: in no order, and what is counted may occur more than once.
#[derive(Default)]
pub(super) struct Settled {
    /// Of what was known at translation.
    pub(super) tuples: Vec<(Kind, Tuple, u64)>,
    /// Of values, by the place that had them.
    pub(super) values: Vec<((Kind, Place), Counted)>,
}

/// Values and how often each was counted.
pub(super) type Counted = Vec<(u64, u64)>;

/// Places in order, each with its values in order.
pub(super) type Places = Vec<(Place, Counted)>;

impl Settled {
    /// Everything, sorted and added up.
    pub(super) fn by_kind(self) -> Vec<(Kind, Places)> {
        let Self {
            mut tuples,
            mut values,
        } = self;
        tuples.sort_unstable_by_key(|(kind, tuple, _)| (*kind, tuple.pc, tuple.value));
        for group in tuples.chunk_by(|a, b| (a.0, a.1.pc) == (b.0, b.1.pc)) {
            let (kind, Tuple { pc, .. }, _) = group[0];
            let counted = group.iter().map(|(_, tuple, count)| (tuple.value, *count));
            values.push(((kind, pc), counted.collect()));
        }
        values.sort_unstable_by_key(|(key, _)| *key);
        values.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1.append(&mut later.1);
            }
            same
        });
        let mut kinds: Vec<(Kind, Places)> = Vec::new();
        for ((kind, place), mut counts) in values {
            merge(&mut counts);
            match kinds.last_mut() {
                Some((last, places)) if *last == kind => places.push((place, counts)),
                _ => kinds.push((kind, vec![(place, counts)])),
            }
        }
        kinds
    }
}

/// Sorts counted values and adds up the counts of equal ones.
fn merge(values: &mut Counted) {
    values.sort_unstable();
    values.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 += later.1;
        }
        same
    });
}
