//! Tests that cannot run on this machine, and say so.
//!
//! A tool that `.ci/run` installs is required: a test that misses one fails. The rest may be missing: other tools, rights,
//! features of the processor or the kernel. A test that needs one of those reports it here and ends. `cargo xtask ci`
//! collects these lines and shows them at its end, so that nobody takes them for tests that passed.
//!
//! Tests of crates that do not know this one include this file by its path.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// The variable that names the file for the lines.
pub const VARIABLE: &str = "TROMMEL_NOT_TESTED";

/// Reports that this machine cannot test something, and why.
///
/// # Panics
/// When the file for the lines cannot be written.
pub fn not_tested(what: impl Display) {
    eprintln!("not tested: {what}");
    if let Some(path) = std::env::var_os(VARIABLE) {
        // One write a line: tests share the file.
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        let line = format!("{what}\n");
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("a file for what is not tested");
    }
}
