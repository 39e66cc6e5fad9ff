//! Values of instructions by caller: what they were when their function was called by one call.
//!
//! The values of an instruction by its callers are no parts of a whole: callers that were seen rarely are given up, and a window that sees
//! several of them is one draw of each.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, Place};

/// Values, kept as those of a register at calls are.
pub use crate::arguments::Argument as Values;

/// An instruction in a function that was called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Called {
    /// Kind of the values.
    pub kind: Kind,
    /// The instruction.
    pub at: Place,
    /// The call that comes back where the function returns to; `None`: which that is was not found out.
    pub call: Option<Place>,
}

/// Values of all instructions, by caller.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Callers {
    /// Their values.
    pub lists: BTreeMap<Called, Values>,
    /// Samples of callers that were given up for others which were seen more.
    pub dropped: u64,
}

impl Callers {
    /// Adds what other windows saw, whose places are `renumbered` here.
    pub fn add(&mut self, other: Self, renumbered: impl Fn(Place) -> Place) {
        self.dropped = self.dropped.saturating_add(other.dropped);
        for (called, values) in other.lists {
            let called = Called {
                at: renumbered(called.at),
                call: called.call.map(&renumbered),
                ..called
            };
            self.lists.entry(called).or_default().add(values);
        }
    }

    /// Returns the values of an instruction, by call.
    pub fn of(&self, kind: Kind, at: Place) -> impl Iterator<Item = (Option<Place>, &Values)> {
        let first = Called {
            kind,
            at,
            call: None,
        };
        let all = self.lists.range(first..);
        let of = all.take_while(move |(called, _)| (called.kind, called.at) == (kind, at));
        of.map(|(called, values)| (called.call, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::sampled::Sampled;
    use crate::thin::thin;
    use crate::windows::Windows;
    use trommel_tuple::{ModuleId, Vaddr};

    fn place(module: u16, vaddr: u64) -> Place {
        Place::new(ModuleId(module), Vaddr(vaddr))
    }

    fn values(counts: &[(u64, u64)]) -> Values {
        let sum: u64 = counts.iter().map(|(_, count)| count).sum();
        Values {
            sampled: Sampled {
                samples: sum,
                executions: sum as f64,
                variance: sum as f64,
                probability: 1.0,
                factor_error: 0.0,
            },
            counts: counts.to_vec(),
        }
    }

    fn called(kind: Kind, at: Place, call: Option<Place>) -> Called {
        Called { kind, at, call }
    }

    #[test]
    fn what_other_processes_saw_is_added_where_their_files_have_other_numbers() {
        let at = |module| called(Kind::Value, place(module, 8), Some(place(module, 100)));
        let unknown = |module| called(Kind::Value, place(module, 8), None);
        let of = |module, count, dropped| Callers {
            lists: [
                (at(module), values(&[(7, count)])),
                (unknown(module), values(&[(9, 1)])),
            ]
            .into(),
            dropped,
        };
        let mut sum = of(1, 10, 2);
        sum.add(of(2, 5, 3), |p| place(p.module().0 - 1, p.vaddr().0));
        assert_eq!((sum.dropped, sum.lists.len()), (5, 2));
        assert_eq!(sum.lists[&at(1)].counts, [(7, 15)]);
        assert_eq!(sum.lists[&at(1)].sampled.samples, 15);
        let all: Vec<_> = sum.of(Kind::Value, place(1, 8)).collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].0.is_none() && all[1].0 == Some(place(1, 100)));
        assert_eq!(sum.of(Kind::Type, place(1, 8)).count(), 0);
        assert_eq!(sum.of(Kind::Value, place(1, 7)).count(), 0);
    }

    #[test]
    fn values_of_callers_are_thinned_as_others_are() {
        const MOST: usize = 16;
        let mut counts: Vec<(u64, u64)> = (0..100).map(|n| (n, 3)).collect();
        counts[50].1 = 10_000;
        let one = called(Kind::Value, place(1, 8), Some(place(1, 100)));
        let callers = Callers {
            lists: [(one, values(&counts))].into(),
            dropped: 0,
        };
        let mut profile = Profile {
            windows: Some(Windows {
                callers: Some(callers),
                ..Windows::default()
            }),
            ..Profile::default()
        };
        thin(&mut profile, MOST);
        let callers = profile.windows.and_then(|w| w.callers).expect("callers");
        let left = &callers.lists[&one];
        assert!(left.counts.len() <= MOST && left.counts.contains(&(50, 10_000)));
        assert!(left.sampled.probability < 1.0, "limits are wider");
    }
}
