//! Faults that are known: a number for each rule and set of files, which may only sink.
//!
//! The file has a line for each: the rule, the set, the number. `--bless` writes lower numbers, never
//! higher ones. A rule and set without a line have none, or the rule's own limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The file of known faults.
pub(crate) const FILE: &str = "crates/xtask/tidy/known.txt";

const HEAD: &str = "\
# Faults that are known: rule, set of files, number. `cargo xtask tidy` fails above a number.
# Numbers only sink: `cargo xtask tidy --bless` lowers them. The list is to be empty in the end.
";

/// Known faults, by rule and set.
pub(crate) struct Known(BTreeMap<(String, String), usize>);

impl Known {
    /// Reads the known faults of the tree at `root`.
    pub(crate) fn read(root: &Path) -> Known {
        let text = fs::read_to_string(root.join(FILE)).unwrap_or_default();
        let mut known = BTreeMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [rule, set, number] = words[..]
                && let Ok(number) = number.parse::<usize>()
            {
                // Merges leave both sides' lines: the lower number counts.
                known
                    .entry((rule.to_owned(), set.to_owned()))
                    .and_modify(|n: &mut usize| *n = number.min(*n))
                    .or_insert(number);
            }
        }
        Known(known)
    }

    /// The number of faults that `rule` allows in `set`.
    pub(crate) fn allowed(&self, rule: &str, set: &str) -> usize {
        let key = (rule.to_owned(), set.to_owned());
        self.0.get(&key).copied().unwrap_or_else(|| limit(rule))
    }

    /// Lowers the numbers to those of `found`, and writes the file.
    pub(crate) fn bless(
        &mut self,
        root: &Path,
        found: &BTreeMap<(String, String), usize>,
    ) -> Result<(), String> {
        self.0.retain(|key, allowed| {
            *allowed = (*allowed).min(found.get(key).copied().unwrap_or(0));
            *allowed > limit(&key.0)
        });
        let mut text = HEAD.to_owned();
        for ((rule, set), number) in &self.0 {
            let _ = writeln!(text, "{rule} {set} {number}");
        }
        fs::write(root.join(FILE), text).map_err(|e| format!("{FILE}: {e}"))
    }
}

/// The number that a rule allows everywhere.
fn limit(rule: &str) -> usize {
    match rule {
        "median" => super::sentences::MEDIAN,
        _ => 0,
    }
}
