//! Runs of events of several kinds, as they pass from stage to stage.
//!
//! Problem: events of all kinds come interleaved and go through *one* compressor (*Stratified Sampling*, section
//! 5.7), and software tells them apart afterwards. A place alone does not tell the kind: a virtual
//! call gives a `call` and a `type` event, a load may give `value`, `result` and `address` events,
//! even with equal values.
//!
//! Strategy: the kind travels beside the tuples in a lane of its own, one byte an event, or once
//! for the whole run. It takes no part in hashing, so the paper's hash and a stream without kinds
//! stay what they are; a compressor reads it only where it compares whole tuples or sends one.

use crate::{Kind, Tuple};

/// Events in the order they happened.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    tuples: &'a [Tuple],
    kinds: Kinds<'a>,
}

/// The kinds of a run of events.
#[derive(Clone, Copy, Debug)]
pub enum Kinds<'a> {
    /// Every event is of this kind.
    All(Kind),
    /// The kind of each event.
    Each(&'a [Kind]),
}

impl<'a> Events<'a> {
    /// Events that are all of one kind.
    pub const fn of_kind(kind: Kind, tuples: &'a [Tuple]) -> Self {
        Self {
            tuples,
            kinds: Kinds::All(kind),
        }
    }

    /// Events each with its kind. `None` when the lanes differ in length.
    pub const fn new(tuples: &'a [Tuple], kinds: &'a [Kind]) -> Option<Self> {
        if tuples.len() == kinds.len() {
            Some(Self {
                tuples,
                kinds: Kinds::Each(kinds),
            })
        } else {
            None
        }
    }

    /// The tuples.
    pub const fn tuples(self) -> &'a [Tuple] {
        self.tuples
    }

    /// The kinds.
    pub const fn kinds(self) -> Kinds<'a> {
        self.kinds
    }

    /// Returns the number of events.
    pub const fn len(self) -> usize {
        self.tuples.len()
    }

    /// Returns true if there is none.
    pub const fn is_empty(self) -> bool {
        self.tuples.is_empty()
    }

    /// The first `n` events (all of them when there are fewer) and the others.
    #[must_use]
    pub fn split_at(self, n: usize) -> (Self, Self) {
        let n = n.min(self.tuples.len());
        let (tuples, rest) = self.tuples.split_at(n);
        let (kinds, rest_kinds) = match self.kinds {
            Kinds::All(_) => (self.kinds, self.kinds),
            Kinds::Each(kinds) => {
                let (a, b) = kinds.split_at(n);
                (Kinds::Each(a), Kinds::Each(b))
            }
        };
        (
            Self { tuples, kinds },
            Self {
                tuples: rest,
                kinds: rest_kinds,
            },
        )
    }

    /// Calls `f` for each event. One loop for each form of the kinds, so that a kind for all costs nothing.
    #[inline]
    pub fn for_each(self, mut f: impl FnMut(Kind, Tuple)) {
        match self.kinds {
            Kinds::All(kind) => self.tuples.iter().for_each(|t| f(kind, *t)),
            Kinds::Each(kinds) => {
                for (tuple, kind) in self.tuples.iter().zip(kinds) {
                    f(*kind, *tuple);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use std::vec::Vec;

    #[test]
    fn both_forms_split_and_visit_alike() {
        let tuples: Vec<_> = (0..5)
            .map(|n| Tuple::new(Place::from_word(n), n * 2))
            .collect();
        let kinds = [Kind::Call; 5];
        let whole = Events::of_kind(Kind::Call, &tuples);
        let each = Events::new(&tuples, &kinds).unwrap();
        for at in 0..8 {
            for events in [whole, each] {
                let (a, b) = events.split_at(at);
                assert_eq!(a.len() + b.len(), 5);
                let mut seen = Vec::new();
                a.for_each(|k, t| seen.push((k, t)));
                b.for_each(|k, t| seen.push((k, t)));
                assert!(seen.iter().map(|(_, t)| t).eq(&tuples));
                assert!(seen.iter().all(|(k, _)| *k == Kind::Call));
            }
        }
        assert!(Events::new(&tuples, &kinds[1..]).is_none());
    }
}
