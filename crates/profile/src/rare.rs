//! Edges that few windows saw: what the unseen mass is estimated from ([`crate::coverage`]).

use std::collections::BTreeMap;

use trommel_tuple::{Kind, Place};

use crate::sampled::Sampled;

/// Draws that few saw, at most.
pub const FEW: u8 = 2;

/// Kinds whose events are edges.
pub const EDGES: [Kind; 2] = [Kind::Edge, Kind::Call];

/// Edges that few windows saw, and the events of all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rare {
    /// Events of all edges.
    pub all: Sampled,
    /// Edges that at most [`FEW`] windows saw, with the number of these.
    pub edges: BTreeMap<Edge, u8>,
}

/// A way of a branch, or a call and its target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Edge {
    /// Branch or call.
    pub kind: Kind,
    /// The instruction.
    pub from: Place,
    /// Destination of it.
    pub to: Place,
}
