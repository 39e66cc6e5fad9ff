//! Settings of all sessions.

use std::time::Duration;

use trommel_host::channel::question::Question;
use trommel_store::database::Database;
use trommel_tuple::KindSet;

/// Settings of all sessions.
pub(super) struct Settings {
    pub(super) database: Database,
    pub(super) host: String,
    pub(super) kinds: KindSet,
    pub(super) budget: f64,
    pub(super) by_caller: bool,
    pub(super) epoch: Duration,
    /// Queries to ask.
    pub(super) question: Option<&'static Question>,
}
