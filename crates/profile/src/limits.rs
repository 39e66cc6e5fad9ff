//! Limits that counts and shares lie within.

/// The share of entries whose limits are meant to hold.
pub const LEVEL: f64 = 0.95;

/// Limits of a count, in events, or of a share, from 0 to 1. Both are included.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// At least this.
    pub low: f64,
    /// At most this.
    pub high: f64,
}
