//! The file that a format of one file describes, where none is named.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::recorded::Recorded;

use super::Test;
use super::refusals::refused;

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "chosen: of several programs, the hottest that the format can have",
        several,
    ),
    ("chosen: of a process, its own program", of_process),
    ("chosen: of what was observed alone, that", alone),
];

const LIBRARY: &str = "
int heavy(int n) {
  volatile int sum = 0;
  for (int i = 0; i < n; i++) if (i % 3) sum += i;
  return sum;
}
";

const CALLER: &str = "
int heavy(int);
int main(void) { return heavy(50000) & 0; }
";

const ALONE: &str = "
__attribute__((noinline)) int own(int n) {
  volatile int sum = 0;
  for (int i = 0; i < n; i++) if (i & 1) sum += i;
  return sum;
}
int main(void) { return own(20000) & 0; }
";

/// Programs without symbols are executed too, and by far more of the library.
const SCRIPT: &str = "#!/bin/sh\n./caller\n./alone\n./bare\n./bare\n:\n";

/// Programs in a directory, of which the script or another one is recorded.
fn recorded(name: &str, options: &[&str]) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let dir = scratch.dir().to_owned();
    let build = |source: &str, text: &str, args: &[&str]| {
        fs::write(dir.join(source), text).map_err(|e| e.to_string())?;
        let mut build = Command::new("gcc");
        build.current_dir(&dir).args(["-O1", "-g", source]);
        output(build.args(args)).map(drop)
    };
    build(
        "heavy.c",
        LIBRARY,
        &["-fPIC", "-shared", "-o", "libheavy.so"],
    )?;
    let library = ["-o", "caller", "-L.", "-lheavy", "-Wl,-rpath,$ORIGIN"];
    build("caller.c", CALLER, &library)?;
    build("alone.c", ALONE, &["-o", "alone"])?;
    build("bare.c", ALONE, &["-o", "bare", "-s"])?;
    let script = dir.join("script.sh");
    fs::write(&script, SCRIPT).map_err(|e| e.to_string())?;
    output(Command::new("chmod").arg("+x").arg(&script))?;
    let options = [&["-e", "edge,call"], options].concat();
    Recorded::of(scratch, dir.join(name), &options)
}

/// Expects that an export describes this file, and names these others.
fn describes(
    recorded: &Recorded,
    format: &str,
    options: &[&str],
    (file, others): (&str, &[&str]),
) -> Result<(), String> {
    let (_, said) = recorded.exported(format, options)?;
    let path = recorded.scratch.path(file);
    let of = format!("format {format} of {}", path.display());
    let is_of = said
        .split(&of)
        .nth(1)
        .is_some_and(|rest| rest.starts_with([',', ';', '\n']));
    let one_line = said.lines().find(|line| line.contains(&of)).unwrap_or("");
    let named = |other: &&str| one_line.contains(&format!("--module {other}: "));
    match is_of && others.iter().all(named) && said.contains("--module") != others.is_empty() {
        true => Ok(()),
        false => Err(format!("{format} {options:?}, not {file}: {said}")),
    }
}

fn several() -> Result<(), String> {
    let recorded = recorded("script.sh", &[])?;
    for format in ["bolt", "profgen", "autofdo", "gcov-autofdo", "lcov"] {
        describes(&recorded, format, &[], ("alone", &["libheavy.so"]))?;
    }
    // The option that is printed chooses that file alone.
    let library = ["--module", "libheavy.so"];
    describes(&recorded, "bolt", &library, ("libheavy.so", &[]))
}

fn of_process() -> Result<(), String> {
    let script = recorded("script.sh", &[])?;
    let mut report = Command::new(trommel());
    let report = output(report.args(["report", "--json"]).arg(&script.data))?;
    let report: serde_json::Value = serde_json::from_str(&report).map_err(|e| e.to_string())?;
    let pid_of = |name: &str| {
        let all = report["processes"].as_array()?;
        let is = |row: &&serde_json::Value| row["command"].to_string().contains(name);
        Some(all.iter().rfind(is)?["pid"].to_string())
    };
    let pid = |name: &str| pid_of(name).ok_or_else(|| format!("no {name} in {report}"));
    let (caller, bare) = (pid("caller")?, pid("bare")?);
    let of_caller = ["--pid", &*caller];
    describes(&script, "bolt", &of_caller, ("caller", &["libheavy.so"]))?;
    refused(
        &script,
        &["-f", "bolt", "--pid", &*bare],
        "bare: has no function symbols",
    )?;
    // The program is refused by its name, and not another file written in its place.
    let caller = recorded("caller", &[])?;
    describes(&caller, "lcov", &[], ("caller", &["libheavy.so"]))?;
    output(Command::new("strip").arg("-g").arg(&caller.program))?;
    refused(
        &caller,
        &["-f", "lcov"],
        "caller: has no debug information, and lcov counts source lines; compile with -g; or choose another file (--module libheavy.so: ",
    )
}

fn alone() -> Result<(), String> {
    let only = ["--only", "libheavy.so"];
    describes(
        &recorded("caller", &only)?,
        "bolt",
        &[],
        ("libheavy.so", &[]),
    )
}
