//! Rows of the doctor's table.

use std::fs;

/// Results of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Good, or of no consequence.
    Ok,
    /// Works, with a restriction.
    Warn,
    /// Keeps Trommel from working.
    Fail,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    /// The finding.
    pub(crate) found: String,
    /// Its consequence.
    pub(crate) means: &'static str,
    /// The remedy; empty where none is needed.
    pub(crate) fix: &'static str,
}

pub(super) fn check(
    name: &'static str,
    status: Status,
    found: impl Into<String>,
    means: &'static str,
    fix: &'static str,
) -> Check {
    Check {
        name,
        status,
        found: found.into(),
        means,
        fix,
    }
}

/// The trimmed content of a small file; `None` where it cannot be read.
pub(super) fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}
