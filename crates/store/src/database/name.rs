//! Names of files: when, where and by whom, so that a reader opens only what it wants.

use std::ffi::OsStr;
use std::fmt;

/// Suffix of epochs.
pub(super) const EXTENSION: &str = "epoch";
/// Prefix of files that are not to be read.
pub(super) const TEMPORARY: &str = ".new";
/// Prefix of the writers of merged files.
pub(super) const MERGED: &str = "m";
/// Characters of a name that come from outside.
const LONGEST: usize = 64;

/// A time from one moment to another, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    /// The first.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
}

impl Span {
    /// Returns true if both have a moment in common; one that is empty is a moment.
    pub fn meets(&self, other: &Self) -> bool {
        self.from < other.to.max(other.from + 1) && other.from < self.to.max(self.from + 1)
    }

    /// The shortest that has both in it.
    pub fn with(&self, other: &Self) -> Self {
        Self {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }
}

/// The name of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub(super) span: Span,
    /// The host, as it is in names.
    pub(super) host: String,
    /// Mark that distinguishes files of the same time and host.
    pub(super) writer: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, host, writer } = self;
        let Span { from, to } = span;
        // In the order of time, for people.
        write!(f, "{from:013}-{to:013}.{host}.{writer}.{EXTENSION}")
    }
}

impl Name {
    /// Returns true if it is of a file that was made of others.
    pub(super) fn is_merged(&self) -> bool {
        self.writer.starts_with(MERGED)
    }

    /// Returns what a name says; `None` where it is none of ours.
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        let mut parts = name.to_str()?.split('.');
        let (from, to) = parts.next()?.split_once('-')?;
        let name = Self {
            span: Span {
                from: from.parse().ok()?,
                to: to.parse().ok()?,
            },
            host: parts.next()?.to_owned(),
            writer: parts.next()?.to_owned(),
        };
        let whole = parts.next() == Some(EXTENSION) && parts.next().is_none();
        (whole && name.span.from <= name.span.to).then_some(name)
    }
}

/// A text of any origin as part of a name: without what has a meaning there, or in directories.
pub(super) fn part(text: &[u8]) -> String {
    let letter = |c: &u8| match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'+' | b'-' => char::from(*c),
        _ => '_',
    };
    match text.iter().take(LONGEST).map(letter).collect::<String>() {
        empty if empty.is_empty() => "_".to_owned(),
        name => name,
    }
}

/// The directory of a program.
pub(super) fn group(program: &[u8], build_id: &[u8]) -> String {
    const ENOUGH: usize = 8;
    let file = program.rsplit(|c| *c == b'/').next().unwrap_or_default();
    let hex: String = (build_id.iter().take(ENOUGH))
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match hex.is_empty() {
        true => format!("{}-none", part(file)),
        false => format!("{}-{hex}", part(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_sort_by_time() {
        let name = |from, to| Name {
            span: Span { from, to },
            host: part(b"a.b/c"),
            writer: "12-34".to_owned(),
        };
        let text = name(5, 70_000).to_string();
        assert_eq!(text, "0000000000005-0000000070000.a_b_c.12-34.epoch");
        assert_eq!(Name::parse(OsStr::new(&text)), Some(name(5, 70_000)));
        assert!(name(999, 1000).to_string() < name(1000, 1001).to_string());
        for wrong in [
            "",
            ".new.1.2",
            "5-4.h.w.epoch",
            "4-5.h.w.epoch.old",
            "4-5.h.epoch",
            "x-5.h.w.epoch",
        ] {
            assert_eq!(Name::parse(OsStr::new(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn programs_have_directories_of_their_own() {
        assert_eq!(
            group(b"/usr/bin/redis-server", &[0xab; 20]),
            "redis-server-abababababababab"
        );
        assert_eq!(group(b"", b""), "_-none");
        assert_eq!(group(b"/..", b""), "__-none");
    }

    #[test]
    fn spans_meet_where_they_have_a_moment_in_common() {
        let span = |from, to| Span { from, to };
        assert!(span(1, 3).meets(&span(2, 9)) && span(2, 9).meets(&span(1, 3)));
        assert!(!span(1, 3).meets(&span(3, 9)) && !span(3, 9).meets(&span(1, 3)));
        assert!(span(5, 5).meets(&span(5, 6)) && !span(5, 5).meets(&span(6, 7)));
        assert_eq!(span(1, 3).with(&span(2, 9)), span(1, 9));
    }
}
