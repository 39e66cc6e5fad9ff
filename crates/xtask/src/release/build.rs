//! The program of a release: built with paths mapped away, its debug information split off.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::output;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A stripped program and its debug information.
pub(super) struct Program {
    /// The stripped program, which prints its manual pages.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) debug: Vec<u8>,
}

/// Builds the program of the tree at `root` in the directory `target`.
pub(super) fn program(root: &Path, target: &Path, time: u64) -> Result<Program, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--locked", "--profile", "dist", "--bin", "trommel"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(target)
        .current_dir(root)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            flags("--remap-path-prefix=", root, target, "\x1f"),
        )
        // What is compiled from C.
        .env("CFLAGS", flags("-ffile-prefix-map=", root, target, " "))
        .env("SOURCE_DATE_EPOCH", time.to_string())
        .env_remove("RUSTFLAGS")
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("the release does not build".into());
    }
    let built = target.join(TARGET).join("dist/trommel");
    let (path, debug) = (target.join("trommel"), target.join("trommel.debug"));
    let objcopy = |args: &[&str], from: &Path, to: &Path| {
        output(Command::new("objcopy").args(args).arg(from).arg(to))
    };
    objcopy(&["--only-keep-debug"], &built, &debug)?;
    // The link names the file alone: debuggers look beside the program and below /usr/lib/debug.
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-all", &link], &built, &path)?;
    let read = |path: &Path| fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    Ok(Program {
        bytes: read(&path)?,
        debug: read(&debug)?,
        path,
    })
}

/// Flags that map the paths of this machine to fixed ones. The last that fits counts.
fn flags(flag: &str, root: &Path, target: &Path, between: &str) -> OsString {
    let home = std::env::var_os("HOME").map_or_else(|| "/root".into(), PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let mut all = OsString::new();
    for (from, to) in [
        (cargo.as_path(), "/cargo"),
        (root, "/trommel"),
        (target, "/target"),
    ] {
        if !all.is_empty() {
            all.push(between);
        }
        all.push(flag);
        all.push(from);
        all.push("=");
        all.push(to);
    }
    all
}
