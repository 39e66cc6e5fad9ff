//! Trees that break a rule each: tidy fails on them, with the file and the line.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Options, check};

/// A tree of files that is removed in the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = std::env::temp_dir().join(format!("tidy-{name}-{}", std::process::id()));
        let tree = Tree(root);
        tree.write(
            "crates/xtask/tidy/rooms.txt",
            "crates: a xtask\na: low high\n",
        );
        tree.write("crates/a/Cargo.toml", "[package]\nname = \"trommel-a\"\n");
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Words of tidy; an empty text if all is well.
    fn tidy(&self, bless: bool) -> String {
        let options = Options {
            bless,
            ..Options::default()
        };
        check(&self.0, &options).err().unwrap_or_default()
    }

    /// Words of tidy, once the index is written.
    fn blessed(&self) -> String {
        self.tidy(true);
        self.tidy(false)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A crate of two files.
fn two(name: &str, first: &str, second: &str) -> Tree {
    Tree::new(
        name,
        &[
            ("crates/a/src/lib.rs", "//! Crate.\nmod low;\nmod high;\n"),
            ("crates/a/src/low.rs", first),
            ("crates/a/src/high.rs", second),
        ],
    )
}

#[test]
fn an_import_of_an_earlier_room_is_right() {
    let tree = two(
        "right",
        "//! Low.\n// use crate::high::B;\npub struct A;\n#[cfg(test)]\nmod tests { use crate::high::B; }\n",
        "//! High: see `crate::low`.\nuse crate::low::A;\npub struct B(A, &'static str);\n",
    );
    assert_eq!(tree.blessed(), "");
}

#[test]
fn an_upward_import_fails() {
    let tree = two(
        "upward",
        "//! Low.\n\npub fn a() { crate::high::b() }\n",
        "//! High.\npub fn b() {}\n",
    );
    let said = tree.blessed();
    assert!(
        said.contains("low.rs:3: low imports high, which comes after it"),
        "{said}"
    );
}

#[test]
fn a_circle_fails() {
    let tree = two(
        "circle",
        "//! Low.\npub struct A;\nuse super::high::{self};\nfn f(_: high::B) {}\n",
        "//! High.\nuse crate::{low::A as C};\npub struct B(C);\n",
    );
    let said = tree.blessed();
    assert!(
        said.contains("2 files import each other in a circle"),
        "{said}"
    );
    assert!(
        said.contains("low.rs:4: imports crates/a/src/high.rs (B)"),
        "{said}"
    );
    assert!(
        said.contains("high.rs:2: imports crates/a/src/low.rs (A)"),
        "{said}"
    );
}

/// A parent that hands on what its child defines, and the child's text.
fn family(name: &str, child: &str) -> Tree {
    Tree::new(
        name,
        &[
            ("crates/a/src/lib.rs", "//! Crate.\nmod low;\n"),
            (
                "crates/a/src/low/mod.rs",
                "//! Low.\nmod child;\nmod other;\npub use child::C;\npub use other::O;\npub struct P;\n",
            ),
            ("crates/a/src/low/other.rs", "//! Other.\npub struct O;\n"),
            ("crates/a/src/low/child.rs", child),
        ],
    )
}

#[test]
fn a_child_that_names_its_sibling_by_the_parent_makes_no_circle() {
    let tree = family("sibling", "//! Child.\nuse super::O;\npub struct C(O);\n");
    assert_eq!(tree.blessed(), "");
}

#[test]
fn a_child_may_name_what_its_parent_defines() {
    let tree = family("parent", "//! Child.\nuse super::*;\npub struct C(P);\n");
    assert_eq!(tree.blessed(), "");
}

#[test]
fn a_child_that_imports_what_imports_its_parent_makes_a_circle() {
    let tree = family(
        "face",
        "//! Child.\nuse crate::high::H;\npub struct C(H);\n",
    );
    tree.write("crates/a/src/lib.rs", "//! Crate.\nmod low;\nmod high;\n");
    tree.write(
        "crates/a/src/high.rs",
        "//! High.\npub struct H(crate::low::P);\n",
    );
    let said = tree.blessed();
    assert!(
        said.contains("3 files import each other in a circle"),
        "{said}"
    );
}

#[test]
fn names_by_a_glob_tie_to_the_file_that_defines_them() {
    let tree = family(
        "glob",
        "//! Child.\nuse super::other::*;\npub struct C(O);\n",
    );
    tree.write(
        "crates/a/src/low/other.rs",
        "//! Other.\npub struct O(super::child::C);\n",
    );
    let said = tree.blessed();
    assert!(
        said.contains("child.rs:2: imports crates/a/src/low/other.rs (O)"),
        "{said}"
    );
}

#[test]
fn a_room_that_is_not_listed_fails() {
    let tree = Tree::new(
        "unlisted",
        &[
            ("crates/a/src/lib.rs", "//! Crate.\nmod new;\n"),
            ("crates/a/src/new.rs", "//! New.\n"),
        ],
    );
    let said = tree.blessed();
    assert!(
        said.contains("new.rs:1: new is not in the list of rooms"),
        "{said}"
    );
}

#[test]
fn a_crate_that_depends_on_a_later_one_fails() {
    let tree = two("depends", "//! Low.\n", "//! High.\n");
    tree.write(
        "crates/a/Cargo.toml",
        "[package]\nname = \"trommel-a\"\n[dependencies]\ntrommel-xtask = \"1\"\n",
    );
    let said = tree.blessed();
    assert!(
        said.contains("crates/a/Cargo.toml:4: a depends on xtask"),
        "{said}"
    );
}

#[test]
fn a_long_sentence_fails() {
    let tree = two("sentence", "//! Low.\n", "//! High.\n");
    let long = format!(
        "# Title\n\nShort is right.\nBut {}this is not.\n",
        "and ".repeat(40)
    );
    tree.write("README.md", &long);
    let said = tree.blessed();
    assert!(
        said.contains("README.md:4: a sentence of 44 words"),
        "{said}"
    );
}

#[test]
fn a_word_that_has_a_better_one_fails_above_what_is_known() {
    let tree = two("word", "//! Low: old.\n", "//! High: old.\n");
    tree.write("crates/xtask/tidy/words.txt", "old => new\n");
    assert!(tree.blessed().contains("low.rs:1: \"old\": say new"));
    tree.write("crates/xtask/tidy/known.txt", "word a 2\n");
    assert_eq!(tree.blessed(), "");
    // The number sinks with the faults, and never rises again.
    tree.write("crates/a/src/low.rs", "//! Low.\n");
    assert_eq!(tree.blessed(), "");
    tree.write("crates/a/src/low.rs", "//! Low: old.\n");
    assert!(tree.blessed().contains("word in a (2, 1 are allowed"));
}

#[test]
fn a_stale_index_of_invariants_fails() {
    let tree = two("index", "//! Low.\n//!\n//! I3: it holds.\n", "//! High.\n");
    assert!(
        tree.tidy(false)
            .contains("docs/design/invariants.md:1: stale")
    );
    assert_eq!(tree.blessed(), "");
    tree.write(
        "crates/a/src/low.rs",
        "//! Low.\n//!\n//! I3: it holds still.\n",
    );
    assert!(
        tree.tidy(false)
            .contains("docs/design/invariants.md:7: stale")
    );
    tree.write(
        "crates/a/src/low.rs",
        "//! Low.\n//! I3: one.\n//! I3: two.\n",
    );
    assert!(
        tree.blessed()
            .contains("low.rs:3: I3 is the number of another invariant")
    );
}

#[test]
fn a_stale_lock_file_outside_of_the_workspace_fails() {
    let tree = two("lock", "//! Low.\n", "//! High.\n");
    tree.write("extra/b/src/lib.rs", "//! B.\n");
    tree.write(
        "extra/b/Cargo.toml",
        "[package]\nname = \"b\"\n[workspace]\n",
    );
    assert!(tree.blessed().contains("extra/b/Cargo.lock:1: stale"));
    tree.write(
        "extra/b/Cargo.lock",
        "version = 4\n\n[[package]]\nname = \"b\"\nversion = \"0.0.0\"\n",
    );
    assert_eq!(tree.blessed(), "");
}

#[test]
fn a_name_of_no_file_fails_in_comments_and_documents() {
    // The marks of comments are put in, so that these texts are no comments of this file.
    let low = "#! Low: see `high.rs`, `src/high.rs` and `*.rs`.\n#/ Why: `a/gone.rs`.\nconst A: &str = \"`lost.rs`\"; # not `stale.rs`\n";
    let high = "#! High.\n#! ```\n#! # `of_yours.rs`\n#! ```\n";
    let [low, high] = [low, high].map(|text| text.replace('#', "//"));
    let tree = two("names", &low, &high);
    tree.write(
        "docs/a.md",
        "See `crates/a/src`, `crates/b/` and `low.rs`.\n\n```console\n$ vi `yours.rs`\n```\n",
    );
    let found = tree.blessed();
    for (place, name) in [
        ("crates/a/src/low.rs:2", "a/gone.rs"),
        ("crates/a/src/low.rs:3", "stale.rs"),
        ("docs/a.md:1", "crates/b/"),
    ] {
        let expected = format!("{place}: `{name}` names no file of the tree");
        assert!(found.contains(&expected), "{found}");
    }
    assert_eq!(found.matches("names no file").count(), 3, "{found}");
}

#[test]
fn a_name_whose_file_was_renamed_fails() {
    let tree = two("renamed", "//! Low: see `high.rs`.\n", "//! High.\n");
    assert_eq!(tree.blessed(), "");
    tree.write("crates/a/src/lib.rs", "//! Crate.\nmod low;\nmod higher;\n");
    let from = tree.0.join("crates/a/src/high.rs");
    fs::rename(&from, from.with_file_name("higher.rs")).expect("a file");
    assert!(tree.blessed().contains("low.rs:1: `high.rs` names no file"));
}
