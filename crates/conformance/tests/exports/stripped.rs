//! Programs that lack symbols or debug information: an export has all that it can have, or says what it lacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::recorded::{Recorded, compiled};

use super::optimisers::accepted;
use super::refusals::refused;
use super::{Test, llvm, llvms, run, said, text, tool};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "stripped: parts of functions are found without symbols",
        parts,
    ),
    (
        "stripped: llvm-profgen gets lines and symbols, or nothing",
        profgen,
    ),
    ("stripped: what a format lacks is said", lacking),
    (
        "stripped: functions have the names that reports show",
        as_reported,
    ),
    (
        "stripped: where debug information is elsewhere is said",
        elsewhere,
    ),
    ("stripped: debug information of a part is said", in_part),
];

/// `f` and `g` have parts that are rarely executed. Only `main` and `f` are global.
const SOURCE: &str = "#include <stdio.h>
static volatile long sink;
__attribute__((cold, noinline)) static void rare(long n) { sink += n; }
__attribute__((noinline)) long f(long n) { long s = 0; for (long i = 0; i < n; i++) {
    if (__builtin_expect(i % 97 == 0, 0)) { rare(i); s ^= sink; if (s & 1) rare(2); s *= 3; }
    s += i; } return s; }
__attribute__((noinline)) static long g(long n) {
    if (__builtin_expect(n % 5 == 0, 0)) { rare(n); rare(n + 1); if (sink > 3) sink = 1; return sink; }
    return n + sink; }
int main() { long s = 0; for (int i = 0; i < 50; i++) s += f(100 + i) + g(i); printf(\"%ld\\n\", s); }
";

fn recorded(flags: &[&str]) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("parts.c"), scratch.path("app"));
    fs::write(&source, SOURCE).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    build.args(["-O2", "-g", "-Wl,--emit-relocs"]).args(flags);
    output(build.arg(source).arg("-o").arg(&program))?;
    Recorded::of(scratch, program, &["-e", "edge,call"])
}

/// The function with most instructions was compiled without `-g`.
fn in_part() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let heavy =
        "int heavy(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }";
    let main = "int heavy(int); int main(void) { return heavy(9999) & 0; }";
    let compiled = |name: &str, text: &str, flag: &str| {
        fs::write(scratch.path(name), text).map_err(|e| e.to_string())?;
        let mut build = Command::new("gcc");
        output(
            build
                .args(["-O1", "-c", flag, name])
                .current_dir(scratch.dir()),
        )
    };
    compiled("heavy.c", heavy, "-g0")?;
    compiled("main.c", main, "-g")?;
    let mut link = Command::new("gcc");
    link.args(["heavy.o", "main.o", "-o", "app"]);
    output(link.current_dir(scratch.dir()))?;
    let program = scratch.path("app");
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    for format in ["autofdo", "gcov-autofdo", "lcov", "profgen"] {
        let (_, said) = recorded.exported(format, &[])?;
        let words = format!(
            "no debug information of functions with 100 % of its instructions, and {format}"
        );
        if !said.contains(&words) {
            return Err(said);
        }
    }
    let whole = self::recorded(&[])?;
    let (_, said) = whole.exported("lcov", &[])?;
    match said.contains("no debug information") {
        true => Err(said),
        false => Ok(()),
    }
}

/// Module and start, in each format that names functions.
fn as_reported() -> Result<(), String> {
    let recorded = recorded(&[])?;
    output(Command::new("strip").arg(&recorded.program))?;
    let mut report = Command::new(trommel());
    let report = output(report.args(["report", "--top", "0"]).arg(&recorded.data))?;
    let table = report
        .split("\n\n")
        .find(|part| part.starts_with("# Functions"));
    let names = table.unwrap_or_default().split_whitespace();
    let names: BTreeSet<&str> = names.filter(|w| w.starts_with("app+0x")).collect();
    if names.len() < 3 {
        return Err(report);
    }
    for format in ["callgrind", "cachegrind", "csv", "pprof"] {
        let file = recorded.export(format, &[])?;
        let printed = match format {
            "pprof" => match tool(&["go"], "stripped") {
                Some(go) => run(
                    &go,
                    &["tool", "pprof", "-raw", &text(&file)],
                    recorded.scratch.dir(),
                )?,
                None => continue,
            },
            _ => fs::read_to_string(file).map_err(|e| e.to_string())?,
        };
        let found: BTreeSet<&str> = printed.split([' ', ',', '=', '\n']).collect();
        if !found.is_superset(&names) {
            return Err(format!("{format}: {found:?}, not {names:?}"));
        }
    }
    Ok(())
}

/// Lines of an export that begin so, without what names the program's directory.
fn lines(recorded: &Recorded, format: &str, begin: &str) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(recorded.export(format, &[])?).map_err(|e| e.to_string())?;
    let lines = text.lines().filter(|line| line.starts_with(begin));
    Ok(lines.map(str::to_owned).collect())
}

/// The linker leaves local symbols out. Lines and their counts are the same, and BOLT knows the parts.
fn parts() -> Result<(), String> {
    let (whole, stripped) = (recorded(&[])?, recorded(&["-Wl,--discard-all"])?);
    for (format, begin) in [("lcov", ""), ("autofdo", "")] {
        let of = |recorded| {
            let lines = lines(recorded, format, begin)?;
            let lines = lines.into_iter().filter(|line| !line.starts_with("SF:"));
            Ok::<_, String>(lines.collect::<Vec<_>>())
        };
        let (before, after) = (of(&whole)?, of(&stripped)?);
        if before != after || before.len() < 4 {
            return Err(format!("{format}: {before:#?}\nstripped: {after:#?}"));
        }
    }
    // Of functions of the program itself: others begin or end in no file's code.
    let inside = |recorded: &Recorded| {
        let lines = lines(recorded, "bolt", "1 ")?;
        let unknown = |line: &&String| !line.contains("[unknown]") && !line.contains("crtstuff");
        Ok::<_, String>(lines.iter().filter(unknown).count())
    };
    let (before, after) = (inside(&whole)?, inside(&stripped)?);
    if before != after || before < 20 {
        return Err(format!("bolt: {before} ways, stripped {after}"));
    }
    let profile = stripped.export("bolt", &[])?;
    for bolt in llvms("llvm-bolt", "stripped") {
        accepted(&stripped, &bolt, &profile)?;
        let converted = converted(&stripped, &bolt)?;
        let ours = fs::read_to_string(&profile).map_err(|e| e.to_string())?;
        let named = |line: &&str| line.contains("__BOLT_FDE") && !line.contains("[unknown]");
        let theirs: Vec<&str> = converted.lines().filter(named).collect();
        let missing = theirs
            .iter()
            .find(|line| !ours.lines().any(|l| l == **line));
        if theirs.is_empty() || missing.is_some() {
            return Err(format!("{}: not {missing:?} in\n{ours}", bolt.display()));
        }
    }
    Ok(())
}

/// The profile that `perf2bolt` makes, with its own names.
fn converted(recorded: &Recorded, bolt: &Path) -> Result<String, String> {
    let converted = recorded.scratch.path("converted.fdata");
    let mut convert = Command::new(bolt.with_file_name("perf2bolt"));
    convert
        .args(["-pa", "-p"])
        .arg(recorded.export("bolt-preagg", &[])?);
    said(convert.arg("-o").arg(&converted).arg(&recorded.program))?;
    fs::read_to_string(converted).map_err(|e| e.to_string())
}

/// Debug information in a file of its own is named to the tool. Without any, or without symbols, there is no profile.
fn profgen() -> Result<(), String> {
    let Some(tool) = llvm("llvm-profgen", "stripped") else {
        return Ok(());
    };
    let whole = recorded(&[])?;
    let dir = whole.scratch.dir();
    let made = |recorded: &Recorded| {
        let (_, said_by_us) = recorded.exported("profgen", &[])?;
        let (_, next) = said_by_us
            .split_once("trommel: next: llvm-profgen ")
            .ok_or(&*said_by_us)?;
        let out = recorded.scratch.path("app.profgen.prof");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{} {next}", text(&tool))]);
        said(shell.current_dir(recorded.scratch.dir()))?;
        fs::read(out).map_err(|e| e.to_string())
    };
    let before = made(&whole)?;
    let debug = dir.join("app.debug");
    let objcopy = |args: &[&str]| output(Command::new("objcopy").args(args).current_dir(dir));
    objcopy(&["--only-keep-debug", "app", "app.debug"])?;
    objcopy(&["--strip-debug", "--add-gnu-debuglink=app.debug", "app"])?;
    let after = made(&whole)?;
    let has_functions = before.windows(4).any(|name| name == b"rare");
    if before != after || !has_functions {
        return Err("separate debug information makes another profile".into());
    }
    fs::remove_file(debug).map_err(|e| e.to_string())?;
    refused(&whole, &["-f", "profgen"], "has no debug information")?;
    objcopy(&["--strip-all", "app"])?;
    refused(&whole, &["-f", "profgen"], "not stripped")
}

/// Expects that an export says these words.
fn says(recorded: &Recorded, format: &str, words: &str) -> Result<PathBuf, String> {
    let (file, said) = recorded.exported(format, &[])?;
    match said.contains(words) {
        true => Ok(file),
        false => Err(format!("{format}: not {words:?}: {said}")),
    }
}

fn lacking() -> Result<(), String> {
    let local = recorded(&["-Wl,--discard-all"])?;
    says(
        &local,
        "profgen",
        "executed functions have no symbol, and llvm-profgen leaves",
    )?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = compiled(&scratch, "gcc", &["-O2", "-s"])?;
    let bare = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    says(
        &bare,
        "bolt-preagg",
        "# newer versions take a stripped program with --allow-stripped",
    )?;
    for format in ["callgrind", "cachegrind", "pprof"] {
        says(&bare, format, "has no debug information, so")?;
    }
    Ok(())
}

/// Debug information in files of their own, which are not read, and packed as LLVM does not read it.
fn elsewhere() -> Result<(), String> {
    let split = recorded(&["-gsplit-dwarf"])?;
    for format in ["autofdo", "autofdo-extbinary", "gcov-autofdo"] {
        refused(
            &split,
            &["-f", format],
            "without -gsplit-dwarf, or use profgen",
        )?;
    }
    let packed = recorded(&["-gz=zlib-gnu"])?;
    refused(
        &packed,
        &["-f", "profgen"],
        "link with -gz=zlib, or use autofdo",
    )?;
    let (_, said) = packed.exported("callgrind", &[])?;
    match said.contains("debug information") {
        true => Err(said),
        false => packed.export("autofdo", &[]).map(drop),
    }
}
