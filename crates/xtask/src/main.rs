//! The project's chores, so that people and CI run the same ones.
//!
//! `cargo xtask ci` is what a change has to pass. `check` compares with oracles at length, `measure`
//! makes the tables of `docs/performance.md`, and `release` makes what is handed out.

mod check;
mod ci;
mod common;
mod corpus;
mod gc;
mod measure;
mod old;
mod pictures;
mod release;
mod tidy;
mod ways;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Example:\n  cargo xtask ci        what a change has to pass"
)]
struct Line {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    Ci(ci::Args),
    Tidy(tidy::Options),
    /// Compares behaviour and counts with oracles.
    #[command(subcommand, after_help = "Example:\n  cargo xtask check corpus gzip")]
    Check(check::Chore),
    /// Measures costs and accuracy.
    #[command(
        subcommand,
        after_help = "Example:\n  cargo xtask measure bench --rounds 3"
    )]
    Measure(measure::Chore),
    Release(release::Args),
    Pictures(pictures::Args),
}

fn main() -> ExitCode {
    let line = Line::parse_from(old::renamed(std::env::args_os().collect()));
    let done = match &line.chore {
        Chore::Ci(args) => ci::run(args),
        Chore::Tidy(options) => tidy::run(options),
        Chore::Check(chore) => chore.run(),
        Chore::Measure(chore) => chore.run(),
        Chore::Release(args) => release::run(args),
        Chore::Pictures(args) => pictures::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};
    use trommel_conformance::exec::workspace;

    use super::{Line, old, tidy};

    /// Chores without others below them, and their full names.
    fn leaves(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands() {
            let name = format!("{name} {}", inner.get_name());
            match inner.has_subcommands() {
                true => leaves(inner, &name, found),
                false => found.push((name, inner.clone())),
            }
        }
    }

    #[test]
    fn every_chore_says_what_it_does_and_has_an_example() {
        Line::command().debug_assert();
        let mut found = Vec::new();
        leaves(&Line::command(), "cargo xtask", &mut found);
        for (name, command) in found {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.contains(&name), "{name} has no example");
            assert!(
                command.get_about().is_some(),
                "{name} does not say what it does"
            );
        }
    }

    #[test]
    fn documents_name_chores_that_exist() {
        let mut files = tidy::files(&workspace().join("docs"), &["md"]);
        files.extend(["README.md", "ARCHITECTURE.md"].map(|name| workspace().join(name)));
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            for rest in text.split("cargo xtask ").skip(1) {
                let plain = |w: &&str| w.bytes().all(|b| b.is_ascii_lowercase());
                let words = rest.split([' ', '`', '\n']).take_while(plain).take(2);
                let line = ["xtask"].into_iter().chain(words).map(Into::into).collect();
                let mut command = &Line::command();
                for word in &old::renamed(line)[1..] {
                    if !command.has_subcommands() {
                        break;
                    }
                    command = command
                        .find_subcommand(word)
                        .unwrap_or_else(|| panic!("{}: cargo xtask {rest:.40}", file.display()));
                }
            }
        }
    }
}
