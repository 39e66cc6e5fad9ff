//! Programs that BOLT has rewritten: each format is right, or is refused in words.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::Scratch;
use trommel_conformance::recorded::Recorded;

use super::optimisers::{accepted, by_clang, taken};
use super::refusals::refused;
use super::{Test, llvm, llvms, run, said, text};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "rewritten: formats are right of what BOLT made, or refused",
        rewritten,
    ),
    (
        "rewritten: lines are known of functions that BOLT moved",
        moved,
    ),
];

fn rewritten() -> Result<(), String> {
    let all = llvms("llvm-bolt", "rewritten");
    let (false, Some(original)) = (all.is_empty(), by_clang(false, "rewritten")?) else {
        return Ok(());
    };
    let profile = original.export("bolt", &[])?;
    for bolt in all {
        let of = |e| format!("{}: {e}", bolt.display());
        without_tables(&made(&original, &bolt, &profile, &[])?).map_err(of)?;
        let tables = ["--enable-bat", "--update-debug-sections"];
        let new = made(&original, &bolt, &profile, &tables)?;
        with_tables(&original, &new, &bolt).map_err(of)?;
    }
    Ok(())
}

/// The rewritten program, recorded.
fn made(
    original: &Recorded,
    bolt: &Path,
    profile: &Path,
    options: &[&str],
) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("app");
    let mut command = Command::new(bolt);
    command.arg(&original.program).arg("-o").arg(&program);
    command.arg(format!("--data={}", text(profile)));
    let layout = ["--reorder-blocks=ext-tsp", "--split-functions"];
    said(command.args(layout).args(options))?;
    Recorded::of(scratch, program, &["-e", "edge,call"])
}

fn without_tables(new: &Recorded) -> Result<(), String> {
    let words = "record the original program; or rewrite that with --enable-bat";
    for format in ["bolt", "bolt-preagg"] {
        refused(new, &["-f", format], words)?;
    }
    for format in ["autofdo", "gcov-autofdo", "lcov"] {
        refused(new, &["-f", format], "--update-debug-sections")?;
    }
    Ok(())
}

/// Lines and functions are executed as before, whatever code there is of them. A profile of the new program is one of the original.
fn with_tables(original: &Recorded, new: &Recorded, bolt: &Path) -> Result<(), String> {
    refused(new, &["-f", "bolt"], "use bolt-preagg")?;
    let lines = |of: &Recorded| {
        let info = fs::read_to_string(of.export("lcov", &[])?).map_err(|e| e.to_string())?;
        let counts = info.lines().filter(|line| line.contains("DA:"));
        Ok::<_, String>(counts.map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let (before, after) = (lines(original)?, lines(new)?);
    if before != after || before.len() < 10 {
        return Err(format!("lcov: {before:?}\nafter BOLT: {after:?}"));
    }
    for format in ["callgrind", "csv", "drcov", "pprof", "profgen", "autofdo"] {
        new.export(format, &[])?;
    }
    // The command that is printed, with a word on which program to rewrite.
    let (profile, printed) = new.exported("bolt-preagg", &[])?;
    let (_, next) = printed.split_once("trommel: next: ").ok_or(&*printed)?;
    let bin = bolt.parent().map_or(String::new(), text);
    let path = format!("{bin}:{}", env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let printed = said(shell.args(["-c", next]).env("PATH", path))?;
    let converted = PathBuf::from(format!("{}.fdata", text(&profile)));
    if !next.contains("# of the program before BOLT") {
        return Err(next.to_owned());
    }
    if !printed.contains("traces mismatching disassembled function contents: 0") {
        return Err(printed);
    }
    let again = accepted(original, bolt, &converted)?;
    let dir = original.scratch.dir();
    let outputs = (run(&original.program, &[], dir)?, run(&again, &[], dir)?);
    let branches = (taken(&original.program, dir)?, taken(&again, dir)?);
    match outputs.0 == outputs.1 && branches.1 < branches.0 {
        true => Ok(()),
        false => Err(format!("{outputs:?}, taken branches {branches:?}")),
    }
}

/// Two functions that are not executed stay where they are, and others are moved. BOLT 16 ends the ranges of their unit after the former.
const UNIT: &str = "
static volatile int sink;
__attribute__((noinline)) int never(int n) { while (n > 3) n -= sink; return n; }
__attribute__((noinline)) int neither(int n) { while (n > 4) n += sink; return n; }
__attribute__((noinline)) static int often(int n) { for (int i = 0; i < n; i++) if (i % 3) sink += i; return sink; }
int main(int argc, char **argv) { return (argc > 1 ? never(argc) + neither(argc) : often(1000)) & 0; }
";

fn moved() -> Result<(), String> {
    let all = llvms("llvm-bolt", "moved");
    let (Some(clang), Some(lld)) = (llvm("clang", "moved"), llvm("ld.lld", "moved")) else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let source = scratch.path("unit.c");
    let program = scratch.path("unit");
    fs::write(&source, UNIT).map_err(|e| e.to_string())?;
    let mut build = Command::new(clang);
    build.args(["-O1", "-g", "-gdwarf-5", "-ffunction-sections"]);
    build.args(["-Wl,--emit-relocs", "-o"]).arg(&program);
    said(build.arg(format!("-fuse-ld={}", text(&lld))).arg(&source))?;
    let original = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let profile = original.export("bolt", &[])?;
    for bolt in all {
        let new = made(&original, &bolt, &profile, &["--update-debug-sections"])?;
        let table = fs::read_to_string(new.export("csv", &[])?).map_err(|e| e.to_string())?;
        let rows = table.lines().filter(|line| line.starts_with("block,"));
        let of = |row: &&str| row.contains(",main,") || row.contains(",often,");
        let own: Vec<&str> = rows.filter(of).collect();
        let known = own.iter().filter(|row| row.contains("/unit.c,")).count();
        if own.len() < 4 || known < own.len() {
            return Err(format!("{}: {own:#?}", bolt.display()));
        }
    }
    Ok(())
}
