//! Lock files of the crates outside of the workspace, whose dependencies inside it may change.

use std::path::Path;
use std::process::Command;

use super::{Tidy, shown, subdirectories};

/// Asks cargo for each crate of `extra` whether its lock file is up to date. Nothing is downloaded.
pub(crate) fn check(root: &Path, tidy: &mut Tidy) {
    for folder in subdirectories(&root.join("extra")) {
        if !folder.join("Cargo.toml").is_file() {
            continue;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let done = Command::new(cargo)
            .args(["metadata", "--locked", "--offline", "--format-version=1"])
            .arg("--filter-platform=x86_64-unknown-linux-gnu")
            .current_dir(&folder)
            .output();
        let at = shown(root, &folder.join("Cargo.lock"));
        match done {
            Ok(done) if done.status.success() => {}
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr);
                if said.contains("--locked was passed") {
                    tidy.wrong(format!("{at}:1: stale: run cargo update --workspace there"));
                } else {
                    let line = said.lines().next().unwrap_or_default();
                    println!("{at}: not checked: {line}");
                }
            }
            Err(e) => tidy.wrong(format!("{at}:1: cargo: {e}")),
        }
    }
}
