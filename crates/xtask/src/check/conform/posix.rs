//! The Open POSIX Test Suite: assertions of the standard, interface by interface, each a program that
//! ends with 0 (passed), 1 (failed), 2 (unresolved), 4 (unsupported) or 5 (untested).
//!
//! It is part of the Linux Test Project's tree; `--from` names that, or is what `conform ltp` built. How
//! a test ends is compared; what it prints holds numbers of processes and times. A name is an
//! interface (`sigaction`), or a test of one (`sigaction/4-2`). Those of `clock_settime` set the machine's
//! clock, and run only when they are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir};

use super::{Way, all, compare, compile, prefix, shell};
use crate::common::trommel;

const LIMIT: Duration = Duration::from_secs(60);

struct Test {
    interface: String,
    source: PathBuf,
}

impl Test {
    fn name(&self) -> String {
        let stem = self.source.file_stem().unwrap_or_default();
        format!("{}/{}", self.interface, stem.to_string_lossy())
    }

    fn group(&self) -> &'static str {
        let starts = |list: &[&str]| list.iter().any(|p| self.interface.starts_with(p));
        if starts(&["pthread_", "sem_"]) {
            "threads, semaphores"
        } else if starts(&["sig", "kill", "raise", "alarm", "pthread_kill"]) {
            "signals"
        } else if starts(&["timer_", "clock", "nanosleep", "time"]) {
            "timers, clocks"
        } else if starts(&["m", "shm_"]) {
            "memory, message queues"
        } else {
            "other"
        }
    }
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let tree = from.unwrap_or_else(|| cache_dir().join("conform/ltp"));
    let suite = tree.join("testcases/open_posix_testsuite");
    let interfaces = suite.join("conformance/interfaces");
    let failed = |dir: &Path, e: std::io::Error| format!("{}: {e}", dir.display());
    let mut tests = Vec::new();
    for dir in fs::read_dir(&interfaces)
        .map_err(|e| failed(&interfaces, e))?
        .flatten()
    {
        let interface = dir.file_name().to_string_lossy().into_owned();
        for file in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
            let source = file.path();
            let stem = source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // Others are parts of tests, or are only compiled.
            let is_test = source.extension().is_some_and(|e| e == "c")
                && stem.starts_with(|c: char| c.is_ascii_digit())
                && !stem.contains("buildonly");
            let test = Test {
                interface: interface.clone(),
                source,
            };
            let wanted = |n: &String| *n == interface || *n == test.name();
            if is_test
                && (names.is_empty() && interface != "clock_settime" || names.iter().any(wanted))
            {
                tests.push(test);
            }
        }
    }
    tests.sort_by_key(Test::name);
    let built = cache_dir().join("conform/posix");
    fs::create_dir_all(&built).map_err(|e| failed(&built, e))?;
    shell(
        r#"cd "$2"; gcc -w -c -I"$1/include" "$1"/lib/*.c && rm -f lib.a && ar rc lib.a ./*.o && rm ./*.o"#,
        &[suite.as_os_str(), built.as_os_str()],
    )?;
    let label = |t: &Test| (t.group().to_owned(), t.name());
    all(&tests, 2, label, |test| {
        let program = build(test, &suite, &built)?;
        compare(ways, |way| once(bin, &program, way), differs)
    })
}

fn once(bin: &Path, program: &Path, way: Option<&Way>) -> Result<Outcome, String> {
    let failed = |e: std::io::Error| e.to_string();
    let scratch = Scratch::new().map_err(failed)?;
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(failed)?;
    let mut argv = prefix(bin, way, &scratch.path("data"));
    argv.push(program.into());
    let mut job = Job::new(argv, &work);
    job.env.push(("TMPDIR".into(), work.into()));
    let limit = if way.is_some() { LIMIT * 5 } else { LIMIT };
    let outcome = job.native(limit).map_err(failed)?;
    match outcome.timed_out && way.is_none() {
        true => Err(format!("natively it takes more than {LIMIT:?}")),
        false => Ok(outcome),
    }
}

fn differs(native: &Outcome, seen: &Outcome) -> Option<String> {
    let end = |o: &Outcome| (o.code, o.signal, o.timed_out);
    (end(native) != end(seen)).then(|| {
        let said = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let last: Vec<&str> = text.lines().rev().take(4).collect();
            last.into_iter().rev().collect::<Vec<_>>().join("\n    ")
        };
        format!(
            "code, signal, out of time: natively {:?}, here {:?}\n    {}\n    {}",
            end(native),
            end(seen),
            said(&seen.stdout),
            said(&seen.stderr)
        )
    })
}

/// Builds a test unless it is there. An error says why it cannot be.
fn build(test: &Test, suite: &Path, built: &Path) -> Result<PathBuf, String> {
    let out = built.join(test.name().replace('/', "-"));
    if out.exists() {
        return Ok(out);
    }
    let arguments = |gcc: &mut Command| {
        gcc.args(["-O2", "-pthread", "-I"])
            .arg(suite.join("include"))
            .arg("-I")
            .arg(test.source.with_file_name(""))
            .arg(&test.source)
            .arg(built.join("lib.a"))
            .args(["-lrt", "-lm"]);
    };
    compile(arguments, &out)?;
    Ok(out)
}
