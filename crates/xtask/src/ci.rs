//! The checks that a change has to pass, and the time that they take.
//!
//! All steps but the first build with the profile `ci`, so that lints, tests, documents and the command share what is built.
//! Tests run under `cargo nextest`, which has a process for each and keeps all processors busy to the end. Where it is not
//! installed, `cargo test` does the same in more time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trommel_conformance::built::target_dir;
use trommel_conformance::exec::workspace;
use trommel_conformance::not_tested::VARIABLE;

use crate::tidy;

/// Formats, lints, tests and documents the workspace, runs the README's first command, and tidies.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask ci --limit 30")]
pub(crate) struct Args {
    /// Minutes that all of it may take; it fails above, on a quiet machine of two cores or more
    #[arg(long, value_name = "MINUTES", default_value_t = 15)]
    limit: u64,
    /// Time at which the work began, in seconds since 1970, where some was done before
    #[arg(long, value_name = "SECONDS", hide = true)]
    began: Option<u64>,
    /// Run the nightly tier too: ignored trials, the tests of the profile dev, the release build
    #[arg(long)]
    all: bool,
}

/// A step: its name in the table, the words after `cargo`, and what is added to the environment.
struct Step {
    name: &'static str,
    words: String,
    env: &'static [(&'static str, &'static str)],
}

impl Step {
    fn new(name: &'static str, words: impl Into<String>) -> Self {
        Self {
            name,
            words: words.into(),
            env: &[],
        }
    }

    fn run(&self, not_tested: &Path) -> Result<(), String> {
        eprintln!("$ cargo {}", self.words);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(self.words.split(' '))
            .envs(self.env.iter().copied())
            .env(VARIABLE, not_tested)
            .current_dir(workspace())
            .stdin(Stdio::null())
            .status()
            .map_err(|e| format!("cargo: {e}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("cargo {} failed", self.words)),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let began = Instant::now();
    let before = before(args.began);
    // Nextest keeps its results in the workspace, wherever the target directory is.
    let results = workspace().join("target/nextest/ci/junit.xml");
    let not_tested = target_dir().join("not-tested.txt");
    // Those of another run are not this one's.
    let _ = std::fs::remove_file(&results);
    let _ = std::fs::remove_file(&not_tested);
    let mut table = Vec::new();
    if args.began.is_some() {
        table.push(("built before", before.as_secs_f64()));
    }
    let mut passed = timed("tidy", &mut table, || tidy::run(&tidy::Options::default()));
    for step in steps(args.all) {
        if passed.is_err() {
            break;
        }
        passed = timed(step.name, &mut table, || step.run(&not_tested));
    }
    print_table(&table, &results);
    print_not_tested(&not_tested);
    passed?;
    let took = before + began.elapsed();
    eprintln!("\nall: {:.0} s of {} min", took.as_secs_f64(), args.limit);
    if took > Duration::from_secs(args.limit * 60) && !args.all {
        return Err(format!(
            "it took more than {} minutes: see the table for what did, or say --limit MINUTES on a busy machine",
            args.limit
        ));
    }
    Ok(())
}

/// Time that has passed since `began`, in seconds since 1970.
fn before(began: Option<u64>) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    Duration::from_secs(began.map_or(0, |began| now.saturating_sub(began)))
}

fn timed(
    name: &'static str,
    table: &mut Vec<(&'static str, f64)>,
    step: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let began = Instant::now();
    let done = step();
    table.push((name, began.elapsed().as_secs_f64()));
    done
}

fn steps(all: bool) -> Vec<Step> {
    let nextest = has_nextest();
    if !nextest {
        eprintln!(
            "cargo nextest is not installed: tests run one file after another, and take longer"
        );
    }
    // One trial more than processors: many wait, for timers, windows and signals.
    let threads = 1 + std::thread::available_parallelism().map_or(1, |n| n.get());
    let tests = match nextest {
        true => format!(
            "nextest run --workspace --cargo-profile ci --profile ci --test-threads {threads}{}",
            if all { " --run-ignored all" } else { "" }
        ),
        false => format!(
            "test --workspace --tests --profile ci{}",
            if all { " -- --include-ignored" } else { "" }
        ),
    };
    // The README's first command, as a newcomer types it, but for the profile.
    let data = target_dir().join("readme.data");
    let readme = |profile: &str| {
        let data = data.display();
        format!("run --profile {profile} -- record -o {data} -- ls -l")
    };
    let mut steps = vec![
        Step::new("format", "fmt --all --check"),
        Step::new(
            "lints",
            "clippy --workspace --all-targets --profile ci -- -D warnings",
        ),
        Step {
            env: &[("RUSTDOCFLAGS", "-D warnings")],
            ..Step::new("documents", "doc --no-deps --workspace --profile ci")
        },
        Step::new("tests built", "test --workspace --no-run --profile ci"),
        // Nothing is left to build here. Seconds tell that a package has other features in the tests than in the command.
        Step::new("command built", "build --profile ci --bin trommel"),
        Step::new("tests", tests),
        Step::new("examples of code", "test --workspace --doc --profile ci"),
        Step::new("README", readme("ci")),
    ];
    if all {
        steps.push(Step::new("tests, profile dev", "test --workspace"));
        steps.push(Step::new("README, released", readme("release")));
        let installed = target_dir().join("installed");
        steps.push(Step::new(
            "installed",
            format!(
                "install --quiet --locked --force --path crates/cli --root {}",
                installed.display()
            ),
        ));
        steps.push(Step::new(
            "files of a release",
            "run --quiet --profile ci --bin xtask -- release",
        ));
    }
    steps
}

fn has_nextest() -> bool {
    let version = Command::new("cargo-nextest")
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Prints the seconds of each step, and those of each test binary's trials, which run side by side.
fn print_table(steps: &[(&str, f64)], results: &Path) {
    eprintln!("\n  seconds  step");
    for (name, seconds) in steps {
        eprintln!("{seconds:9.1}  {name}");
    }
    let Ok(text) = std::fs::read_to_string(results) else {
        return;
    };
    let mut binaries: Vec<_> = of_binaries(&text).into_iter().collect();
    binaries.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    eprintln!("\n  seconds  trials  longest  binary");
    for (name, sum) in binaries {
        let Sum {
            seconds,
            trials,
            longest,
        } = sum;
        eprintln!("{seconds:9.1}  {trials:6}  {longest:7.1}  {name}");
    }
}

/// Prints what this machine could not test.
fn print_not_tested(lines: &Path) {
    let text = std::fs::read_to_string(lines).unwrap_or_default();
    let lines: BTreeSet<&str> = text.lines().collect();
    if !lines.is_empty() {
        eprintln!("\nnot tested on this machine:");
    }
    for line in lines {
        eprintln!("  {line}");
    }
}

/// Sum of the trials of a binary.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    seconds: f64,
    trials: usize,
    longest: f64,
}

/// Sums of a JUnit file, by binary.
fn of_binaries(junit: &str) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for suite in junit.split("<testsuite ").skip(1) {
        let name = attribute(suite, "name").unwrap_or_default();
        let sum = sums.entry(name.to_owned()).or_default();
        for case in suite.split("<testcase ").skip(1) {
            let seconds = attribute(case, "time").and_then(|time| time.parse().ok());
            let seconds: f64 = seconds.unwrap_or(0.0);
            sum.seconds += seconds;
            sum.trials += 1;
            sum.longest = sum.longest.max(seconds);
        }
    }
    sums
}

/// An attribute of the first tag of a text that begins in it.
fn attribute<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let tag = text.split('>').next()?;
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_summed_by_binary() {
        let junit = r#"<testsuites name="ci" tests="3" time="9.0">
            <testsuite name="a::b" tests="2" failures="0">
              <testcase name="x" classname="a::b" timestamp="t" time="1.5"></testcase>
              <testcase name="y" classname="a::b" timestamp="t" time="2.0"></testcase>
            </testsuite>
            <testsuite name="c" tests="1"><testcase name="z" classname="c" time="0.25"></testcase></testsuite>
        </testsuites>"#;
        let sums = of_binaries(junit);
        let ab = Sum {
            seconds: 3.5,
            trials: 2,
            longest: 2.0,
        };
        assert_eq!(sums["a::b"], ab);
        assert_eq!(sums["c"].trials, 1);
    }
}
