//! Results of a customisation module from windows: pairs of an instruction and a value.

use std::collections::BTreeMap;

use trommel_tuple::Place;

use crate::sampled::Sampled;

/// Results of a customisation module, of one process or several.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Custom {
    /// Name of the module, as given to the command.
    pub name: String,
    /// Title that the module gives its pairs.
    pub title: String,
    /// Values are words of places.
    pub places: bool,
    /// Windows that it has answered.
    pub windows: u64,
    /// Windows that it was not given, as it was after or had failed.
    pub lost: u64,
    /// Pairs.
    pub pairs: u64,
    /// By instruction.
    pub sites: BTreeMap<Place, Valued>,
    /// Failures: when, and why.
    pub failures: Vec<String>,
}

/// The pairs of an instruction.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Valued {
    /// Samples of the pairs.
    pub sampled: Sampled,
    /// The most frequent values.
    pub values: BTreeMap<u64, Value>,
}

/// A value of an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Value {
    /// Number of pairs it was in, estimated.
    pub count: u64,
    /// Text that the module has for the value.
    pub text: Option<String>,
}

impl Valued {
    /// Adds what another process's say of the same instruction; `word`: what their values are here.
    pub fn add(&mut self, other: Self, word: impl Fn(u64) -> u64) {
        self.sampled.add(&other.sampled);
        for (value, more) in other.values {
            let sum = self.values.entry(word(value)).or_default();
            sum.count = sum.count.saturating_add(more.count);
            if sum.text.is_none() {
                sum.text = more.text;
            }
        }
    }
}

impl Custom {
    /// Adds that of another process; `place`: what its places are here.
    pub fn add(&mut self, other: Self, place: impl Fn(Place) -> Place) {
        for (sum, more) in [
            (&mut self.windows, other.windows),
            (&mut self.lost, other.lost),
            (&mut self.pairs, other.pairs),
        ] {
            *sum = sum.saturating_add(more);
        }
        let word = |value| match other.places {
            true => place(Place::from_word(value)).word(),
            false => value,
        };
        for (at, valued) in other.sites {
            self.sites.entry(place(at)).or_default().add(valued, word);
        }
        self.failures.extend(other.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::{ModuleId, Vaddr};

    fn at(module: u16, vaddr: u64) -> Place {
        Place::new(ModuleId(module), Vaddr(vaddr))
    }

    fn one(value: u64, count: u64, text: Option<&str>, places: bool) -> Custom {
        let valued = Valued {
            sampled: Sampled {
                samples: count,
                executions: count as f64,
                variance: 1.0,
                probability: 1.0,
                factor_error: 0.0,
            },
            values: [(
                value,
                Value {
                    count,
                    text: text.map(str::to_owned),
                },
            )]
            .into(),
        };
        Custom {
            places,
            windows: 1,
            pairs: count,
            sites: [(at(1, 4), valued)].into(),
            ..Custom::default()
        }
    }

    #[test]
    fn values_of_processes_add_up_and_places_are_renumbered() {
        let to = |place: Place| at(place.module().0 + 1, place.vaddr().0);
        for places in [false, true] {
            let (there, here) = match places {
                true => (at(1, 8).word(), at(2, 8).word()),
                false => (7, 7),
            };
            let mut sum = one(here, 5, None, places);
            sum.sites = [(at(2, 4), sum.sites[&at(1, 4)].clone())].into();
            sum.add(one(there, 3, Some("seven"), places), to);
            let valued = &sum.sites[&at(2, 4)];
            assert_eq!((sum.sites.len(), valued.values.len()), (1, 1));
            assert_eq!(valued.values[&here].count, 8);
            assert_eq!(valued.values[&here].text.as_deref(), Some("seven"));
            assert_eq!((valued.sampled.samples, sum.pairs, sum.windows), (8, 8, 2));
        }
    }
}
