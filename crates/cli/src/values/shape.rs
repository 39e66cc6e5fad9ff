//! The shape of the output, of both kinds of profile.

/// Places that people are shown unless they ask for more.
pub(super) const DEFAULT_TOP: usize = 20;

/// The schema's name. Fields may be added to it; none is removed or changed.
pub(super) const SCHEMA: &str = "trommel.values/1";
