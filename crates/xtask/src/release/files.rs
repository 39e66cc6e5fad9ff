//! The files of a release, by their paths below `usr`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::archive::{Tree, gzip};
use super::build::Program;

/// Shells, and where their completions belong.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/trommel"),
    ("zsh", "share/zsh/vendor-completions/_trommel"),
    ("fish", "share/fish/vendor_completions.d/trommel.fish"),
];

/// All files: the program, what it prints of itself, headers and documents.
pub(super) fn of(root: &Path, program: &Program) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.add("bin/trommel", 0o755, program.bytes.clone());
    let ask = |args: &[&str]| {
        let done = Command::new(&program.path).args(args).output();
        let done = done.map_err(|e| format!("{}: {e}", program.path.display()))?;
        match done.status.success() {
            true => Ok(done.stdout),
            false => Err(format!("trommel {} failed", args.join(" "))),
        }
    };
    let page = ask(&["man"])?;
    for command in commands(&String::from_utf8_lossy(&page)) {
        let page = gzip(&ask(&["man", &command])?);
        tree.add(
            &format!("share/man/man1/trommel-{command}.1.gz"),
            0o644,
            page,
        );
    }
    tree.add("share/man/man1/trommel.1.gz", 0o644, gzip(&page));
    for (shell, path) in SHELLS {
        tree.add(path, 0o644, ask(&["completions", shell])?);
    }
    let mut copy = |from: &Path, to: &str| {
        let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
        tree.add(to, 0o644, bytes);
        Ok::<(), String>(())
    };
    for path in crate::tidy::files(&root.join("include"), &["h"]) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        copy(&path, &format!("include/{name}"))?;
    }
    for path in crate::tidy::files(&root.join("docs"), &["md"]) {
        let name = path.strip_prefix(root).unwrap_or(&path).display();
        copy(&path, &format!("share/doc/trommel/{name}"))?;
    }
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        copy(&root.join(name), &format!("share/doc/trommel/{name}"))?;
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root.join(name), &format!("share/doc/trommel/{name}"))?;
    }
    Ok(tree)
}

/// The tree of a tarball: everything below a directory `name`.
pub(super) fn portable(common: &Tree, name: &str) -> Tree {
    let moved = common.0.iter();
    Tree(
        moved
            .map(|(path, file)| (format!("{name}/{path}"), file.clone()))
            .collect(),
    )
}

/// Names of the commands in the manual page of trommel itself.
fn commands(page: &str) -> Vec<String> {
    let plain = page.replace('\\', "");
    let mut names: Vec<String> = plain
        .split("trommel-")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("(1)")?.0.to_owned()))
        .filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
        .filter(|name| name != "help")
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_those_that_the_manual_page_names() {
        let page = ".TP\ntrommel\\-record(1)\nRecords\n.TP\ntrommel\\-help(1)\ntrommel\\-record(1)";
        assert_eq!(super::commands(page), ["record"]);
    }
}
