//! Files of a database, as a listing of its directories finds them.

use std::path::PathBuf;

use super::name::Name;

/// A file of the database.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Listed {
    pub(super) name: Name,
    pub(super) path: PathBuf,
}

impl Listed {
    pub(super) fn file_name(&self) -> String {
        self.name.to_string()
    }
}
