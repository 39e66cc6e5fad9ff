//! Public conformance suites, natively and under `trommel record`, or with `--run` under `trommel run`:
//! gcc's execution tests, FEX's tests of instructions, the Linux Test Project's tests of system calls, the Open POSIX Test
//! Suite, CPython's tests, and the programs that DynamoRIO, rr and Valgrind are tested with. None of their code is kept here.
//!
//! A suite's results are compared, not judged: a test that fails natively has to fail the same way.
//! A test that differs is repeated natively, which shows whether it differs from itself, and then under
//! trommel. Only a test that never agrees counts as different. One that agrees at a later attempt is named.

mod dynamorio;
mod fex;
mod gcc;
mod ltp;
mod posix;
mod program;
mod python;
mod rr;
mod valgrind;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ways::{COUNTED, FROM_START, Recorded, SAMPLED, STRESSED, Traced};

/// A way to run a test under trommel.
struct Way {
    /// `record` or `run`.
    command: &'static str,
    options: &'static [&'static str],
    /// Value of `TROMMEL_STRESS`.
    stress: &'static str,
}

/// The engine alone, the default events, and what is counted in traces.
const RECORDED: [Way; 4] = [
    Way::recorded(("", &["-e", "none"])),
    Way::recorded(("", &[])),
    Way::recorded(COUNTED),
    Way::recorded(SAMPLED),
];

const TRACED: [Way; 2] = [Way::traced(FROM_START), Way::traced(STRESSED)];

impl Way {
    const fn recorded((stress, options): Recorded) -> Self {
        Self {
            command: "record",
            options,
            stress,
        }
    }

    const fn traced((stress, options): Traced) -> Self {
        Self {
            command: "run",
            options,
            stress,
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let words = self.options.join(" ");
        match (self.command, words.as_str(), self.stress) {
            ("record", "", _) => f.write_str("default events"),
            ("record", _, "") => f.write_str(&words),
            ("record", _, stress) => write!(f, "{words} {stress}"),
            (command, _, "") => write!(f, "{command} {words}"),
            (command, _, stress) => write!(f, "{command} {words} {stress}"),
        }
    }
}

/// Repetitions of a test that differs, natively and in the way in which it differed.
const REPEATS: usize = 4;

/// Compares results of a public conformance suite.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check conform ltp --from ~/ltp --run")]
pub(crate) struct Args {
    suite: Suite,
    /// Run them under `trommel run` instead of `trommel record`.
    #[arg(long)]
    run: bool,
    /// Directory of the suite's sources.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Tests; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Suites that are compared.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Suite {
    /// Programs that DynamoRIO is tested with.
    Dynamorio,
    /// FEX's tests of instructions.
    Fex,
    /// Execution tests of gcc.
    Gcc,
    /// Tests of system calls of the Linux Test Project.
    Ltp,
    /// The Open POSIX Test Suite.
    Posix,
    /// CPython's tests.
    Python,
    /// Programs that rr is tested with.
    Rr,
    /// Programs that Valgrind is tested with.
    Valgrind,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let ways: &[Way] = if args.run { &TRACED } else { &RECORDED };
    let (from, names) = (args.from.clone(), args.names.as_slice());
    match args.suite {
        Suite::Dynamorio => dynamorio::run(ways, from, names),
        Suite::Fex => fex::run(ways, from, names),
        Suite::Gcc => gcc::run(ways, from, names),
        Suite::Ltp => ltp::run(ways, from, names),
        Suite::Posix => posix::run(ways, from, names),
        Suite::Python => python::run(ways, from, names),
        Suite::Rr => rr::run(ways, from, names),
        Suite::Valgrind => valgrind::run(ways, from, names),
    }
}

/// The words before a program: none natively, else the command under test, writing a recording to `data`.
fn prefix(bin: &Path, way: Option<&Way>, data: &Path) -> Vec<OsString> {
    let Some(way) = way else {
        return Vec::new();
    };
    let mut words: Vec<OsString> = Vec::new();
    if !way.stress.is_empty() {
        words.push("env".into());
        words.push(format!("TROMMEL_STRESS={}", way.stress).into());
    }
    words.extend([bin.into(), way.command.into()]);
    if way.command == "record" {
        words.extend(["--quiet".into(), "-o".into(), data.into()]);
    }
    words.extend(way.options.iter().map(Into::into));
    words.push("--".into());
    words
}

/// Compiles a test with `options`, so that there is either all of `out` or nothing. An error says why not.
fn compile(options: impl FnOnce(&mut Command), out: &Path) -> Result<(), String> {
    let part = out.with_extension("part");
    let mut command = Command::new("gcc");
    options(command.arg("-w").arg("-o").arg(&part));
    let done = command.output().map_err(|e| format!("gcc: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let line = said
            .lines()
            .find(|l| l.contains("error") || l.contains("undefined"));
        return Err(format!("gcc: {}", line.unwrap_or("fails")));
    }
    fs::rename(&part, out).map_err(|e| e.to_string())
}

/// The verdict on one test.
enum Verdict {
    /// The same as natively, each way.
    Same,
    /// The same at a later attempt, or native runs differ among themselves: how.
    Unsteady(String),
    /// Never as natively: how.
    Different(String),
    /// Could not be run natively: why.
    NotRun(String),
}

/// Compares one test: `run(None)` is a native run, `run(Some(way))` one under trommel.
fn compare<R>(
    ways: &[Way],
    run: impl Fn(Option<&Way>) -> Result<R, String>,
    differs: impl Fn(&R, &R) -> Option<String>,
) -> Result<Verdict, String> {
    let native = run(None)?;
    let mut unsteady = String::new();
    for way in ways {
        let Some(mut how) = differs(&native, &run(Some(way))?) else {
            continue;
        };
        let mut natives = vec![run(None)?];
        for _ in 1..REPEATS {
            natives.push(run(None)?);
        }
        if let Some(itself) = natives.iter().find_map(|n| differs(&native, n)) {
            unsteady = format!("natively too: {itself}");
            continue;
        }
        let mut agreed = 0;
        for _ in 0..REPEATS {
            match differs(&native, &run(Some(way))?) {
                None => agreed += 1,
                Some(again) => how = again,
            }
        }
        let how = format!("{way}, {} of {}: {how}", REPEATS + 1 - agreed, REPEATS + 1);
        if agreed == 0 {
            return Ok(Verdict::Different(how));
        }
        unsteady = how;
    }
    Ok(match unsteady.is_empty() {
        true => Verdict::Same,
        false => Verdict::Unsteady(unsteady),
    })
}

/// Judges each of `tests` with two workers, prints what is not the same, and sums up by group.
fn all<T: Sync>(
    tests: &[T],
    workers: usize,
    name: impl Fn(&T) -> (String, String) + Sync,
    judge: impl Fn(&T) -> Result<Verdict, String> + Sync,
) -> Result<(), String> {
    if tests.is_empty() {
        return Err("no test has such a name".to_owned());
    }
    let (next, sums) = (
        AtomicUsize::new(0),
        Mutex::new(BTreeMap::<String, [usize; 4]>::new()),
    );
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (group, name) = name(test);
                    let verdict = judge(test).unwrap_or_else(Verdict::NotRun);
                    let (n, line) = match verdict {
                        Verdict::Same => (0, None),
                        Verdict::Unsteady(how) => (1, Some(("unsteady", how))),
                        Verdict::Different(how) => (2, Some(("DIFFERENT", how))),
                        Verdict::NotRun(why) => (3, Some(("not run", why))),
                    };
                    let mut sums = sums.lock().unwrap_or_else(|e| e.into_inner());
                    sums.entry(group).or_default()[n] += 1;
                    if let Some((word, how)) = line {
                        println!("{name:<32} {word}: {}", how.trim_end());
                    }
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap_or_else(|e| e.into_inner());
    println!("\n| tests | same | unsteady | different | not run |\n|---|---|---|---|---|");
    for (group, [same, unsteady, different, not_run]) in &sums {
        println!("| {group} | {same} | {unsteady} | {different} | {not_run} |");
    }
    match sums.values().map(|s| s[2]).sum::<usize>() {
        0 => Ok(()),
        n => Err(format!("{n} tests differ")),
    }
}

/// Runs a shell command and gives its output, or an error that ends with what it said.
fn shell(command: &str, args: &[&std::ffi::OsStr]) -> Result<String, String> {
    let done = std::process::Command::new("sh")
        .args(["-c", command, "sh"])
        .args(args)
        .output()
        .map_err(|e| format!("sh: {e}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    Err(format!(
        "{command}: {}",
        last.into_iter().rev().collect::<Vec<_>>().join("\n")
    ))
}
