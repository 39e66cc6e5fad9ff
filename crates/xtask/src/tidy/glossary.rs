//! Words that have a better one, and the first words of doc comments.
//!
//! `crates/xtask/tidy/words.txt` lists the words. Names count too: `put_out` and `PutOut` are *put out*.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Tidy, files, shown, subdirectories};

/// The list of words, their replacements and exceptions.
const FILE: &str = "crates/xtask/tidy/words.txt";

/// First words that a doc comment does not begin with.
const NOT_FIRST: [&str; 7] = ["What", "Whether", "Where", "How", "Of", "As", "If"];

/// A phrase that has a better one.
struct Phrase {
    words: Vec<String>,
    instead: String,
    /// Longer phrases in which it is right.
    right: Vec<Vec<String>>,
    /// Beginnings of paths of files in which it is right.
    places: Vec<String>,
}

/// Checks the words of the tree at `root`.
pub(crate) fn check(root: &Path, tidy: &mut Tidy) {
    let text = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let (list, keys) = (phrases(&text), keys(&text));
    for (set, paths) in sets(root) {
        for path in paths {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let at = shown(root, &path);
            let words = words(&without(&text, &keys));
            let positions = positions(&words);
            for phrase in &list {
                if phrase.places.iter().any(|p| at.starts_with(p.as_str())) {
                    continue;
                }
                for line in phrase.lines(&words, &positions) {
                    let (found, instead) = (phrase.words.join(" "), &phrase.instead);
                    let text = format!("{at}:{line}: \"{found}\": say {instead}");
                    tidy.found("word", &set, 1, text);
                }
            }
            if at.ends_with(".rs") {
                for (line, word) in first_words(&text) {
                    let text = format!(
                        "{at}:{line}: a doc comment begins with \"{word}\": begin with a noun or a verb"
                    );
                    tidy.found("first-word", &set, 1, text);
                }
            }
        }
    }
}

/// Files by the set that they count for: crates, documents, examples, headers.
fn sets(root: &Path) -> Vec<(String, Vec<PathBuf>)> {
    let kinds = ["rs", "md", "c", "h", "S"];
    let crates = subdirectories(&root.join("crates")).into_iter().map(|dir| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), files(&dir, &kinds))
    });
    let mut sets: Vec<(String, Vec<PathBuf>)> = crates.collect();
    for name in ["docs", "examples", "extra", "include"] {
        sets.push((name.to_owned(), files(&root.join(name), &kinds)));
    }
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        sets.push((name.to_owned(), vec![root.join(name)]));
    }
    sets
}

/// Reads the list: `phrase, phrase => instead | right: phrase, phrase | in: path, path`.
fn phrases(text: &str) -> Vec<Phrase> {
    let split = |part: &str| -> Vec<String> {
        let items = part.split(',').map(|p| p.trim().to_owned());
        items.filter(|p| !p.is_empty()).collect()
    };
    let sequence = |phrase: &String| phrase.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut list = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let Some((left, rest)) = line.split_once("=>") else {
            continue;
        };
        let mut parts = rest.split('|').map(str::trim);
        let instead = parts.next().unwrap_or_default().to_owned();
        let (mut right, mut places) = (Vec::new(), Vec::new());
        for part in parts {
            match part.split_once(':') {
                Some(("right", phrases)) => right = split(phrases).iter().map(sequence).collect(),
                Some(("in", paths)) => places = split(paths),
                _ => {}
            }
        }
        for phrase in split(left) {
            list.push(Phrase {
                words: sequence(&phrase),
                instead: instead.clone(),
                right: right.clone(),
                places: places.clone(),
            });
        }
    }
    list
}

/// Names of files and JSON that may stay: `keys: name, name`.
fn keys(text: &str) -> Vec<String> {
    let line = text.lines().find_map(|l| l.strip_prefix("keys:"));
    let names = line.unwrap_or_default().split(',');
    names.map(|n| n.trim().to_owned()).collect()
}

/// Text without the keys that stand in quotes.
fn without(text: &str, keys: &[String]) -> String {
    keys.iter().fold(text.to_owned(), |text, key| {
        let text = text.replace(&format!("\"{key}\""), "\"\"");
        let text = text.replace(&format!("\\\"{key}\\\""), "\"\"");
        text.replace(&format!("`{key}`"), "``")
    })
}

impl Phrase {
    /// Lines on which the phrase stands.
    fn lines(&self, words: &[(usize, String)], positions: &Positions<'_>) -> Vec<usize> {
        let is = |at: usize, phrase: &[String]| {
            words.len() >= at + phrase.len()
                && phrase.iter().zip(&words[at..]).all(|(a, b)| *a == b.1)
        };
        let right = |at: usize| {
            self.right.iter().any(|longer| {
                let from = at.saturating_sub(longer.len() - 1);
                (from..=at)
                    .any(|begin| is(begin, longer) && begin + longer.len() >= at + self.words.len())
            })
        };
        let first = self.words.first().and_then(|word| positions.get(&**word));
        let found = first.into_iter().flatten().copied();
        found
            .filter(|at| is(*at, &self.words) && !right(*at))
            .map(|at| words[at].0)
            .collect()
    }
}

/// Places of each word of a text among all.
type Positions<'w> = HashMap<&'w str, Vec<usize>>;

fn positions(words: &[(usize, String)]) -> Positions<'_> {
    let mut all = Positions::new();
    for (at, (_, word)) in words.iter().enumerate() {
        all.entry(word).or_default().push(at);
    }
    all
}

/// Words of a text in small letters, with their lines. Names are taken apart. A comma or semicolon is an empty word: no phrase goes
/// over one.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut small = false;
        for c in line.chars().chain(Some(' ')) {
            let begins = c.is_uppercase() && small;
            if (!c.is_alphanumeric() || begins) && !word.is_empty() {
                out.push((number + 1, std::mem::take(&mut word)));
            }
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
            }
            if [',', ';'].contains(&c) {
                out.push((number + 1, String::new()));
            }
            small = c.is_lowercase();
        }
    }
    out
}

/// First words of doc comments that are no nouns or verbs, with their lines.
fn first_words(text: &str) -> Vec<(usize, &'static str)> {
    let mut out = Vec::new();
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|m| bare.starts_with(m));
        if let Some(mark) = mark.filter(|m| !before.starts_with(m)) {
            let rest = bare[mark.len()..].trim_start();
            let end = rest.find(|c: char| !c.is_alphanumeric());
            let first = &rest[..end.unwrap_or(rest.len())];
            out.extend(
                NOT_FIRST
                    .iter()
                    .filter(|w| **w == first)
                    .map(|w| (number + 1, *w)),
            );
        }
        before = bare;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_in_names_and_text_but_where_they_are_right() {
        let list = phrases("# no\nput out, old => new | right: old age | in: a/");
        assert_eq!(list.len(), 2);
        let kept = words(&without("`old_old` \"old_old\"", &["old_old".to_owned()]));
        assert_eq!(list[1].lines(&kept, &positions(&kept)), [0; 0]);
        let words = words("put\n// out putOut PUT_OUT output\nold old age\n(put, out)");
        assert_eq!(list[0].lines(&words, &positions(&words)), [1, 2, 2]);
        assert_eq!(list[1].lines(&words, &positions(&words)), [3]);
        assert_eq!(list[1].places, ["a/"]);
    }

    #[test]
    fn only_first_lines_of_doc_comments_count() {
        let text =
            "//! How it is\n//! How\n\n/// Asks\n/// If\nfn f() {} // As\n    /// Whether so";
        assert_eq!(first_words(text), [(1, "How"), (7, "Whether")]);
    }
}
