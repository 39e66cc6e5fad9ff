//! Rules of the tree that need no judgement.
//!
//! | module | rule |
//! |---|---|
//! | [`crates`] | a crate depends only on crates before it; `unsafe` is opted into; files have a header |
//! | [`rooms`] | no circle of imports inside a crate, and no import to a later room |
//! | [`sentences`] | sentences of documents are short |
//! | [`glossary`] | words that have a better one do not come back; doc comments begin with a noun or a verb |
//! | [`invariants`] | the index of named invariants is fresh |
//! | [`names`] | names of files in comments and documents name files of the tree |
//! | [`lock`] | lock files outside of the workspace are fresh |
//!
//! [`lex`], [`modules`] and [`imports`] read code. [`ratchet`] holds the faults that are known already.

mod crates;
mod glossary;
mod imports;
mod invariants;
mod lex;
mod lock;
mod modules;
mod names;
mod ratchet;
mod rooms;
mod sentences;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use trommel_conformance::exec::workspace;

/// Checks rules of crates, rooms, imports, words and documents.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Example:\n  cargo xtask tidy --words crates/host")]
pub(crate) struct Options {
    /// Lower the numbers of known faults, and write the index of invariants.
    #[arg(long)]
    bless: bool,
    /// Print the known faults of words and sentences.
    #[arg(long)]
    words: bool,
    /// Print the known circles and imports to later rooms.
    #[arg(long)]
    imports: bool,
    /// Beginnings of paths of which known faults are printed.
    #[arg(value_name = "PATH")]
    only: Vec<String>,
}

/// A fault of a rule that has known faults.
struct Fault {
    weight: usize,
    text: String,
}

/// All faults of a tree.
#[derive(Default)]
pub(crate) struct Tidy {
    wrong: Vec<String>,
    found: BTreeMap<(String, String), Vec<Fault>>,
}

impl Tidy {
    /// Notes a fault that is never allowed.
    fn wrong(&mut self, text: String) {
        self.wrong.push(text);
    }

    /// Notes a fault of `rule` in a set of files. The text begins with its file and line.
    fn found(&mut self, rule: &str, set: &str, weight: usize, text: String) {
        let key = (rule.to_owned(), set.to_owned());
        self.found
            .entry(key)
            .or_default()
            .push(Fault { weight, text });
    }

    /// Number of faults, by rule and set.
    fn numbers(&self) -> BTreeMap<(String, String), usize> {
        let sum = |faults: &Vec<Fault>| faults.iter().map(|f| f.weight).sum();
        let numbers = self.found.iter().map(|(key, f)| (key.clone(), sum(f)));
        numbers.collect()
    }
}

/// Checks the workspace.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    check(&workspace(), options)
}

/// Checks the tree at `root`.
fn check(root: &Path, options: &Options) -> Result<(), String> {
    let mut tidy = Tidy::default();
    let order = rooms::Rooms::read(root);
    crates::check(root, &order, &mut tidy);
    rooms::check(root, &order, &mut tidy);
    lock::check(root, &mut tidy);
    sentences::check(root, &mut tidy);
    glossary::check(root, &mut tidy);
    names::check(root, &mut tidy);
    invariants::check(root, options.bless, &mut tidy)?;
    let numbers = tidy.numbers();
    let mut known = ratchet::Known::read(root);
    if options.bless {
        known.bless(root, &numbers)?;
    }
    let mut wrong = tidy.wrong;
    for ((rule, set), faults) in &tidy.found {
        let number: usize = faults.iter().map(|f| f.weight).sum();
        let allowed = known.allowed(rule, set);
        let texts = faults.iter().map(|f| f.text.as_str());
        let asked = if ["circle", "upward"].contains(&rule.as_str()) {
            options.imports
        } else {
            options.words
        };
        if number > allowed {
            let limit = match allowed {
                0 => String::new(),
                _ => format!(" ({number}, {allowed} are allowed: {})", ratchet::FILE),
            };
            wrong.push(format!("{rule} in {set}{limit}:"));
            wrong.extend(texts.map(str::to_owned));
            continue;
        }
        if asked {
            let chosen = |t: &&str| {
                options.only.is_empty() || options.only.iter().any(|o| t.starts_with(o.as_str()))
            };
            texts.filter(chosen).for_each(|t| println!("{t}"));
        }
        let lower = if number < allowed {
            ": lower it by --bless"
        } else {
            ""
        };
        println!("known: {rule} in {set}: {number} of {allowed}{lower}");
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("tidy:\n  {}", wrong.join("\n  ")))
    }
}

/// A path as people type it: below `root`.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut list: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    list.sort();
    list
}

/// Rust files below `dir`.
fn sources(dir: &Path) -> Vec<PathBuf> {
    files(dir, &["rs"])
}

/// Files below `dir` whose names end in one of `endings`, sorted.
pub(crate) fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            list.extend(files(&path, endings));
        } else if path
            .extension()
            .is_some_and(|e| endings.iter().any(|w| e == *w))
        {
            list.push(path);
        }
    }
    list.sort();
    list
}
