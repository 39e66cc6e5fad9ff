//! Stream compressors: what lies between the events of a program and its profile.
//!
//! Problem: a program makes hundreds of millions of events a second, and software can look at few.
//! A compressor turns the events into far fewer [`Message`](trommel_tuple::Message)s, each a tuple and the number
//! of events it stands for. The profile of the messages is to be close to the profile of all events.
//!
//! Strategy: the components of *Stratified Sampling* (section 3) and *Multi-Hash* (sections 5 and 6), each small and
//! exact, composed by a [`Spec`]:
//!
//! | spec | component | file |
//! |---|---|---|
//! | `exact` | every event is a message | [`sample`] |
//! | `P256` `R256` `D256` `CR256` | samplers | [`sample`] |
//! | `H[P256]2048` | hash-based splitter over any sampler | [`sample`] |
//! | `P256` `H[P256]2048` | the same, for code that counts by itself | `strata.rs` |
//! | `…+A16` | associative counter table after any of them | [`table`] |
//! | `D16+…` | a sampler before any of them | [`thin`] |
//! | `F[1%,64]96+…` | a filter of instructions whose values are known, before samplers | [`converge`] |
//! | `T[256]2048/2way/2bit` | tagged stratified compressor | [`tagged`] |
//! | `M4[10k,1%]2048:C1R0P1` | multi-hash interval profiler | [`interval`] |
//! | `M4[10k..1M,1%]2048` | the same, with intervals whose length it picks | [`interval`] |
//! | `SS…` `MG…` `CM…` `HK…` `S…` | sketches beyond the papers, as interval profilers | [`sketch`] |
//! | `H:crc[…]…` `M4:mul[…]…` | a cheap hash in place of the papers' | [`hash`] |
//!
//! Values sampled in windows go to a [`hotlist`] (*Value Sampling*, section 2.2). It is no compressor of tuples.
//!
//! [`Spec::build`] makes a [`Compressor`]. Blocks of [`Events`](trommel_tuple::Events) go in by [`Compressor::events`],
//! messages come out at a [`Sink`], and [`Compressor::finish`] ends the stream.
//! Dispatch happens once a block. Inside, every component is monomorphic.
//!
//! Architecture invariants:
//! * No std. No unsafe, except for the CRC instruction (`hash/crc32c.rs`).
//! * Memory is taken when a compressor is built, never while events pass.
//! * The same events in the same order give the same messages, whatever the block boundaries.
//! * Nothing here knows where events come from or where messages go.
//!
//! # Example
//! ```
//! use trommel_compress::{Seeds, Spec};
//! use trommel_tuple::{Events, Kind, Message, Place, Tuple};
//!
//! let spec: Spec = "P256".parse()?;
//! let mut sampler = spec.build(Seeds::default());
//!
//! // A thousand executions of one load that loads 7.
//! let load = Tuple::new(Place::from_word(0x401000), 7);
//! let mut messages: Vec<Message> = Vec::new();
//! let mut sink = |message| messages.push(message);
//! sampler.events(Events::of_kind(Kind::Value, &[load; 1000]), &mut sink);
//! sampler.finish(&mut sink);
//!
//! assert_eq!(messages.len(), 3);
//! assert_eq!(sampler.held(), Some(1000 - 3 * 256));
//! # Ok::<(), trommel_compress::SpecError>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod binomial;
mod component;
mod compressor;
pub mod converge;
mod first_level;
pub mod hash;
pub mod hotlist;
mod index;
pub mod interval;
pub mod nested;
pub mod random;
pub mod sample;
mod seeds;
pub mod sketch;
mod spec;
mod strata;
pub mod table;
pub mod tagged;
pub mod thin;

pub use component::{Compress, Sink};
pub use compressor::Compressor;
pub use first_level::FirstLevel;
pub use seeds::Seeds;
pub use spec::{
    Algorithm, Estimate, FilterSpec, IntervalSpec, Level, NestedSpec, Percent, Sampler, Spec,
    SpecError, Start, TableSpec, Tables, TaggedSpec, note,
};
pub use strata::{MAX_RATE, MAX_SUBSTREAMS, Strata};
