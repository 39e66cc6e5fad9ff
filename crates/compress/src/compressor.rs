//! Compressors put together from their spec.
//!
//! Problem: specs are chosen at run time, and events reach the hundred million a second.
//!
//! Strategy: two layers. A [`Compress`](crate::Compress) is one concrete component, generic over its sink, so that
//! the loop over events is inlined and free of indirect calls. A [`FirstLevel`] is the enum of all
//! of them and dispatches once a block; a [`Compressor`] is a first level with the counter table
//! that may stand after it. Sinks may be `dyn`: they see messages, which are rare.
//!
//! How a service thread uses it:
//! ```
//! use trommel_compress::{Seeds, Spec};
//! use trommel_tuple::{Events, Kind, Message, Place, Tuple};
//!
//! let spec: Spec = "H[P2]2048+A16".parse().unwrap();
//! let mut compressor = spec.build(Seeds::default());
//! let mut counted = 0;
//! let mut sink = |message: Message| counted += message.count;
//! let tuples = [Tuple::new(Place::from_word(0x40_1000), 1); 5];
//! compressor.events(Events::of_kind(Kind::Value, &tuples), &mut sink);
//! compressor.finish(&mut sink);
//! assert_eq!(counted + compressor.held().unwrap(), 5);
//! ```

use trommel_tuple::Events;

use crate::component::Sink;
use crate::first_level::FirstLevel;
use crate::seeds::Seeds;
use crate::spec::Spec;
use crate::table::{CounterTables, Tabled};

impl Spec {
    /// Builds the compressor.
    pub fn build(&self, seeds: Seeds) -> Compressor {
        Compressor::new(self, seeds)
    }
}

/// A compressor as a spec describes it.
#[derive(Clone, Debug)]
pub struct Compressor {
    first: FirstLevel,
    table: Option<CounterTables>,
}

impl Compressor {
    /// The compressor of a spec. All its memory is taken here.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        Self {
            first: FirstLevel::new(spec, seeds),
            table: CounterTables::new(&spec.tables),
        }
    }

    /// Events in order. Block boundaries make no difference.
    pub fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match &mut self.table {
            Some(table) => self.first.events(events, &mut Tabled { table, out }),
            None => self.first.events(events, out),
        }
    }

    /// The end of the stream: the counter table, if there is one, sends what it has. What the first
    /// level counted and did not send stays held; the last incomplete interval is dropped.
    pub fn finish<S: Sink + ?Sized>(&mut self, out: &mut S) {
        if let Some(table) = &mut self.table {
            table.finish(out);
        }
    }

    /// Events counted inside and not sent; see [`Compress::held`](crate::Compress::held).
    pub fn held(&self) -> Option<u64> {
        let in_table = self.table.as_ref().map_or(0, CounterTables::held);
        self.first.held().map(|n| n + in_table)
    }

    /// The first level, for its statistics.
    pub const fn first_level(&self) -> &FirstLevel {
        &self.first
    }
}
