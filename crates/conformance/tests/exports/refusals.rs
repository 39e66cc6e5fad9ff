//! Profiles that a format cannot be made of: each is one line, and leaves no file.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel};

use super::{Test, text};
use trommel_conformance::recorded::Recorded;

pub(super) const ALL: &[(&str, Test)] = &[
    ("refusals: each is one line and leaves no file", refusals),
    ("refusals: a program that is gone is not left out", gone),
    ("refusals: estimates need a word", estimates),
    (
        "refusals: an exact profile without a branch is no matter of the budget",
        without_branches,
    ),
    (
        "names: the next command is shown, and --list names each format",
        names,
    ),
];

/// Expects that an export is refused with these words.
pub(super) fn refused(recorded: &Recorded, options: &[&str], wanted: &str) -> Result<(), String> {
    let out = recorded.scratch.path("refused");
    let mut export = Command::new(trommel());
    export
        .arg("export")
        .args(options)
        .arg("-o")
        .arg(&out)
        .arg(&recorded.data);
    let done = export.output().map_err(|e| e.to_string())?;
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    let whole = printed.lines().count() == 1 && printed.contains(wanted);
    let left = fs::read_dir(recorded.scratch.dir()).map_err(|e| e.to_string())?;
    let left = left
        .filter_map(Result::ok)
        .any(|f| f.file_name().to_string_lossy().starts_with("refused"));
    match !done.status.success() && whole && !left {
        true => Ok(()),
        false => Err(format!(
            "{options:?}: {} {left} {printed:?}, not {wanted:?}",
            done.status
        )),
    }
}

/// Runs a command. Returns true if it succeeds, and what it says.
pub(super) fn tried(command: &mut Command) -> Result<(bool, String), String> {
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((done.status.success(), said))
}

fn built() -> Result<Recorded, String> {
    Recorded::new("gcc", &["-O2", "-g"])
}

/// The program is gone: its part of the sums would be missing.
fn gone() -> Result<(), String> {
    let recorded = built()?;
    fs::remove_file(&recorded.program).map_err(|e| e.to_string())?;
    for format in ["callgrind", "cachegrind", "csv", "drcov", "pprof", "bolt"] {
        refused(
            &recorded,
            &["--format", format],
            "put that back, or record again",
        )?;
    }
    Ok(())
}

fn refusals() -> Result<(), String> {
    let recorded = built()?;
    refused(&recorded, &["-f", "folded"], "record -e stack")?;
    refused(&recorded, &["-f", "profdata"], "autofdo")?;
    refused(&recorded, &["-f", "elvish"], "no such format")?;
    refused(
        &recorded,
        &["-f", "bolt", "--module", "absent"],
        "no module is called absent",
    )?;
    refused(
        &recorded,
        &["-f", "bolt", "--module", "[anon]"],
        "[anon] is code in no file",
    )?;
    refused(
        &recorded,
        &["-f", "bolt", "--module", "app", "--module", "libc.so.6"],
        "describes one file",
    )?;
    refused(
        &recorded,
        &["-f", "bolt", "--pid", "1"],
        "holds no process 1",
    )?;
    output(Command::new("strip").arg("-g").arg(&recorded.program))?;
    refused(&recorded, &["-f", "lcov"], "no debug information")?;
    refused(&recorded, &["-f", "autofdo"], "no debug information")?;
    output(Command::new("strip").arg(&recorded.program))?;
    refused(&recorded, &["-f", "bolt"], "not stripped")?;
    fs::copy("/bin/true", &recorded.program).map_err(|e| e.to_string())?;
    refused(&recorded, &["-f", "bolt"], "other build id")?;
    fs::remove_file(&recorded.program).map_err(|e| e.to_string())?;
    refused(&recorded, &["-f", "bolt"], "No such file")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = built()?;
    let edges = Recorded::of(scratch, program.program.clone(), &["-e", "edge"])?;
    refused(&edges, &["-f", "callgrind"], "no call events")
}

fn estimates() -> Result<(), String> {
    let exact = built()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let sampled = Recorded::of(
        scratch,
        exact.program.clone(),
        &["-e", "edge,call", "-c", "R7"],
    )?;
    refused(&sampled, &["-f", "lcov"], "--estimates")?;
    sampled.export("lcov", &["--estimates"])?;
    let out = text(&sampled.scratch.path("e"));
    let mut export = Command::new(trommel());
    let done = export
        .args(["export", "-f", "callgrind", "-o", &out])
        .arg(&sampled.data)
        .output();
    let printed = done
        .map(|d| String::from_utf8_lossy(&d.stderr).into_owned())
        .map_err(|e| e.to_string())?;
    match printed.contains("estimates") {
        true => Ok(()),
        false => Err(printed),
    }
}

fn without_branches() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("exit.S"), scratch.path("exit"));
    let text = ".globl _start\n_start: mov $60, %eax\nxor %edi, %edi\nsyscall\n";
    fs::write(&source, text).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    build.args(["-nostdlib", "-static", "-o"]);
    output(build.arg(&program).arg(&source))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    refused(
        &recorded,
        &["-f", "csv"],
        "no branch and no call was executed",
    )
}

fn names() -> Result<(), String> {
    let recorded = built()?;
    let mut export = Command::new(trommel());
    export
        .args(["export", "-f", "bolt"])
        .arg(&recorded.data)
        .current_dir(recorded.scratch.dir());
    let done = export.output().map_err(|e| e.to_string())?;
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    if !printed.contains("next: llvm-bolt ") || !recorded.scratch.path("app.fdata").exists() {
        return Err(printed);
    }
    let list = output(Command::new(trommel()).args(["export", "--list"]))?;
    let lines: Vec<&str> = list.lines().filter(|line| !line.is_empty()).collect();
    match lines.len() == 16 && lines.iter().all(|line| line.len() < 80) {
        true => Ok(()),
        false => Err(list),
    }
}
