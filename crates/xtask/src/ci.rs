//! What a change has to pass.

use trommel_conformance::exec::workspace;

use crate::{common, tidy};

/// Formats, lints and tests the workspace, runs the README's first command, and tidies.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask ci")]
pub(crate) struct Args;

pub(crate) fn run(_: &Args) -> Result<(), String> {
    for line in [
        "fmt --all --check",
        "clippy --workspace --all-targets -- -D warnings",
        "test --workspace",
        // The README's first command, as a newcomer types it.
        "run --release -- record -o target/readme.data -- ls -l",
    ] {
        common::cargo(&workspace(), line, &[])?;
    }
    tidy::run(&tidy::Options::default())
}
