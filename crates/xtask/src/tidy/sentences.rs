//! Lengths of sentences in documents: `README.md`, `ARCHITECTURE.md`, `CONTRIBUTING.md` and `docs`.
//!
//! Code blocks, tables, headings, comments and generated parts are no sentences. A span of code is one
//! word, and a link is its text. Generated parts stand between `<!-- generated -->` and
//! `<!-- end of generated -->`, or in a file whose first line holds `<!-- generated`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Tidy, files, shown};

/// The most words that a sentence in the middle of a set may have.
pub(crate) const MEDIAN: usize = 16;

/// The most words that any sentence may have.
const LONGEST: usize = 40;

/// Fewer words make a label, not a sentence.
const SHORTEST: usize = 3;

/// Checks the documents of the tree at `root`.
pub(crate) fn check(root: &Path, tidy: &mut Tidy) {
    let single = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let mut sets: Vec<(&str, Vec<PathBuf>)> = single
        .iter()
        .map(|name| (*name, vec![root.join(name)]))
        .collect();
    sets.push(("docs", files(&root.join("docs"), &["md"])));
    for (set, paths) in sets {
        let mut lengths = Vec::new();
        let mut by_file = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let at = shown(root, &path);
            let found = sentences(&text);
            let mut own: Vec<usize> = found.iter().map(|s| s.1).collect();
            for (line, words, begin) in found {
                if words > LONGEST {
                    let text = format!("{at}:{line}: a sentence of {words} words: {begin} …");
                    tidy.found("long-sentence", set, 1, text);
                }
            }
            lengths.extend(&own);
            by_file.push(format!(
                "{at}: median of {} words a sentence",
                median(&mut own)
            ));
        }
        let all = median(&mut lengths);
        if all > MEDIAN {
            let text = by_file.join("\n  ");
            tidy.found("median", set, all, text);
        }
    }
}

fn median(lengths: &mut [usize]) -> usize {
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// Sentences of a document: line, number of words, first words.
fn sentences(text: &str) -> Vec<(usize, usize, String)> {
    let mut out = Vec::new();
    let mut block: Vec<(usize, String)> = Vec::new();
    let (mut fenced, mut generated) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let bare = line.trim().trim_start_matches('>').trim();
        if bare.starts_with("<!-- generated") {
            generated = true;
        }
        let fence = bare.starts_with("```") || bare.starts_with("~~~");
        fenced ^= fence;
        let skipped = fenced || fence || generated || bare.starts_with(['#', '|', '<']);
        if bare.starts_with("<!-- end of generated") {
            generated = false;
        }
        let item = list_item(bare);
        if skipped || bare.is_empty() || item.is_some() {
            end(&mut block, &mut out);
        }
        if !skipped {
            let words = spans(item.unwrap_or(bare));
            block.extend(words.split_whitespace().map(|w| (number + 1, w.to_owned())));
        }
    }
    end(&mut block, &mut out);
    out
}

/// The text of a list's item.
fn list_item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["* ", "- ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(|| number.strip_prefix(". ").filter(|_| number != line))
}

/// Replaces spans of code by a word each, and links by their text.
fn spans(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at % 2 == 0 || at + 1 == parts.len() {
            text.push_str(part);
        } else {
            text.push_str("`code`");
        }
    }
    while let Some(from) = text.find("](") {
        let until = text[from..].find(')').map_or(text.len(), |p| from + p + 1);
        text.replace_range(from..until, "");
    }
    text.replace(['[', '*'], "")
}

/// Cuts the words of a paragraph into sentences.
fn end(block: &mut Vec<(usize, String)>, out: &mut Vec<(usize, usize, String)>) {
    let mut from = 0;
    for at in 0..block.len() {
        let bare = block[at].1.trim_end_matches([')', '"', '\'', '”', '_']);
        let ended = bare.ends_with(['.', '!', '?'])
            && !["e.g.", "i.e.", "vs.", "cf.", "etc."].contains(&bare.trim_start_matches('('));
        let begins = block
            .get(at + 1)
            .is_none_or(|(_, next)| !next.starts_with(|c: char| c.is_lowercase()));
        if (ended && begins) || at + 1 == block.len() {
            let words = block[from..=at]
                .iter()
                .filter(|(_, w)| w.contains(char::is_alphanumeric));
            let number = words.count();
            if number >= SHORTEST {
                let begin = block[from..=at].iter().take(8).map(|w| w.1.as_str());
                let begin = begin.collect::<Vec<_>>().join(" ");
                out.push((block[from].0, number, begin));
            }
            from = at + 1;
        }
    }
    block.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_counted_and_other_parts_are_not() {
        let text = "# A heading of five words\n\nOne two three [four](five six). Two of `a b c`\n\
                    here, e.g. now.\n\n```\nnot counted at all\n```\n| no | table |\n\
                    * An item of a list\n  with two lines\n* Another item here\n\
                    <!-- generated -->\nNothing here counts.\n<!-- end of generated -->\nThe end is here.";
        let found: Vec<(usize, usize)> = sentences(text).iter().map(|s| (s.0, s.1)).collect();
        assert_eq!(found, [(3, 4), (3, 6), (10, 8), (12, 3), (16, 4)]);
    }
}
