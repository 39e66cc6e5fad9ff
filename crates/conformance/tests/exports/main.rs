//! Exports, each read by the tool that it is for.
//!
//! One small program is recorded exactly. What a tool makes of the export is compared with what it makes of its own source, where it
//! has one: callgrind's counts, gcov's lines, BOLT's checks, `llvm-profgen`'s profile. Viewers open the file, and show the report's sums.
//! A test whose tool is missing says so.

mod called;
mod chosen;
mod ends;
mod great;
mod inclusive;
mod interrupted;
mod kcachegrind;
mod landings;
mod names;
mod next;
mod obeyed;
mod opened;
mod optimisers;
mod parts;
mod paths;
mod pprof;
mod refusals;
mod rewritten;
mod stripped;
mod sums;
mod viewers;
mod ways;

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{output, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::settled;

/// A test; an error says what differs.
type Test = fn() -> Result<(), String>;

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let all = viewers::ALL
        .iter()
        .chain(names::ALL)
        .chain(called::ALL)
        .chain(chosen::ALL)
        .chain(inclusive::ALL)
        .chain(landings::ALL)
        .chain(optimisers::ALL)
        .chain(paths::ALL)
        .chain(obeyed::ALL)
        .chain(opened::ALL)
        .chain(refusals::ALL)
        .chain(rewritten::ALL)
        .chain(ends::ALL)
        .chain(interrupted::ALL)
        .chain(pprof::ALL)
        .chain(great::ALL)
        .chain(ways::ALL)
        .chain(parts::ALL)
        .chain(next::ALL)
        .chain(sums::ALL)
        .chain(stripped::ALL);
    let trials = all.map(|&(name, test): &(&str, Test)| Trial::test(name, move || Ok(test()?)));
    libtest_mimic::run(&args, trials.collect()).exit();
}

/// The first of these commands that is there; says so if none is.
fn tool(names: &[&str], test: &str) -> Option<PathBuf> {
    let known = |name: &&str| match name.starts_with('/') {
        true => Some(PathBuf::from(name)).filter(|path| path.exists()),
        false => which(name),
    };
    let found = names.iter().find_map(known);
    if found.is_none() {
        not_tested(format!("exports {test}: {} is not installed", names[0]));
    }
    found
}

/// Versions of LLVM that can be installed beside each other, in the order of preference.
const VERSIONS: [u32; 6] = [16, 19, 22, 21, 15, 14];

fn of_version(name: &str, version: u32) -> String {
    format!("/usr/lib/llvm-{version}/bin/{name}")
}

/// A tool of LLVM, of the first version that is there.
fn llvm(name: &str, test: &str) -> Option<PathBuf> {
    let all = VERSIONS.map(|version| of_version(name, version));
    let mut names: Vec<&str> = all.iter().map(|path| &**path).collect();
    names.push(name);
    tool(&names, test)
}

/// A tool of LLVM, of each version that is there.
fn llvms(name: &str, test: &str) -> Vec<PathBuf> {
    let all = VERSIONS.map(|version| PathBuf::from(of_version(name, version)));
    let there: Vec<PathBuf> = all.into_iter().filter(|path| path.exists()).collect();
    match there.is_empty() {
        true => llvm(name, test).into_iter().collect(),
        false => there,
    }
}

fn run(program: &Path, args: &[&str], dir: &Path) -> Result<String, String> {
    output(Command::new(program).args(args).current_dir(dir))
}

/// A command's output with its messages.
fn said(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = [&done.stdout[..], &done.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    match done.status.success() {
        true => Ok(text),
        false => Err(format!("{command:?}: {}\n{text}", done.status)),
    }
}

/// Path as text.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
