//! Places of a report as numbers: each has its names once, in one table.

use std::collections::HashMap;

use trommel_tuple::Place;

/// Places of a report, each once, in the order in which they were met.
#[derive(Debug, Default)]
pub(crate) struct Places {
    numbers: HashMap<Place, u64>,
    pub(super) all: Vec<Place>,
}

impl Places {
    /// The number of a place.
    pub(super) fn number(&mut self, place: Place) -> u64 {
        let next = self.all.len() as u64;
        *self.numbers.entry(place).or_insert_with(|| {
            self.all.push(place);
            next
        })
    }
}
