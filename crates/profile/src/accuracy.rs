//! Accuracy of a compressor's profile against the perfect one.
//!
//! Problem: judge many compressors on one stream of events by the papers' own measures, in one pass
//! over the stream, so that figures can be compared to the last digit.
//!
//! Strategy: every distinct tuple of the stream gets a number ([`Tuples`]); the perfect profile and
//! each compressor's profile are arrays by that number. The stream is cut into pieces at every
//! checkpoint and interval end that some spec needs; each piece goes through all compressors before
//! the next one. [`evaluate`] does all of it; [`json`] prints it.
//!
//! What is told apart: tuples of different kinds are different tuples, though they go through one
//! compressor and hash alike. The first level decides the error, so a message counts when the first
//! level emits it; a counter table after decides how many messages software gets.
//!
//! Source: *Stratified Sampling*, sections 5.3.1 and 5.3.2, *Multi-Hash*, section 5.5; `docs/papers.md`, "Error of a
//! profile" and "Interval profilers".

pub mod convergence;
mod estimate;
mod evaluate;
mod filter;
mod intervals;
mod invariance;
pub mod json;
pub mod overhead;
pub mod phases;
pub mod theory;
mod tuples;

pub use estimate::{Estimates, Estimator, PerKind};
pub use evaluate::{
    Evaluation, Evaluator, KindError, LimitsHeld, Options, Point, Unjudged, evaluate,
};
pub use filter::{Filter, FilterError};
pub use intervals::{ErrorParts, Interval, IntervalAccuracy, IntervalShape};
pub use invariance::{Selection, invariance_error};
pub use overhead::{CYCLES_PER_EVENT, CYCLES_PER_MESSAGE, Model};
pub use tuples::Tuples;
