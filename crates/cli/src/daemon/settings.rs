//! Settings of all sessions.

use std::time::Duration;

use trommel_query::Program;
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
    /// Queries to ask, and their name.
    pub(super) question: Option<(String, Program)>,
}
