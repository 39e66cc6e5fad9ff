//! CPython's own tests, of the modules that come closest to the kernel: each test of a module has the result that it has natively.
//!
//! They are run by the `python3` of this machine, which needs its tests (Debian: `libpython3.11-testsuite`). `--from` names another
//! `python3`. A name is a module of tests (`test_signal`). A module is one process, so one that hangs or crashes ends all tests after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trommel_conformance::exec::{Job, Scratch};

use super::{Verdict, Way, all, compare, prefix};
use crate::common::trommel;

/// Modules: threads, processes, signals, memory, and calls of C.
const MODULES: [&str; 8] = [
    "test_signal",
    "test_threading",
    "test_subprocess",
    "test_faulthandler",
    "test_mmap",
    "test_ctypes",
    "test_asyncio",
    "test_multiprocessing_fork",
];

const LIMIT: Duration = Duration::from_secs(900);

/// A run of a module: the result of each test.
#[derive(Default)]
struct Seen {
    code: Option<i32>,
    results: BTreeMap<String, String>,
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let python = from.unwrap_or_else(|| "/usr/bin/python3".into());
    let names: Vec<String> = match names {
        [] => MODULES.map(str::to_owned).to_vec(),
        names => names.to_vec(),
    };
    let label = |name: &String| (name.clone(), name.clone());
    all(&names, 1, label, |module| judge(bin, ways, &python, module))
}

fn judge(bin: &Path, ways: &[Way], python: &Path, module: &str) -> Result<Verdict, String> {
    let natives = [0, 1].map(|_| once(bin, python, module, None));
    let [first, second] = natives;
    let (first, second) = (first?, second?);
    if first.results.is_empty() {
        return Err("no tests: are they installed (libpython3.11-testsuite)?".to_owned());
    }
    let unsteady = first.differences(&second, |_| true);
    println!(
        "{module}: {} tests, natively unsteady {}",
        first.results.len(),
        unsteady.len()
    );
    compare(
        ways,
        |way| once(bin, python, module, way),
        |native, seen| {
            let found = native.differences(seen, |name| !unsteady.contains_key(name));
            let lines = found.iter().map(|(name, how)| format!("{name}: {how}"));
            let lines: Vec<String> = lines.take(20).collect();
            let is_same = lines.is_empty() && native.code == seen.code;
            (!is_same).then(|| format!("exit {:?}\n    {}", seen.code, lines.join("\n    ")))
        },
    )
}

impl Seen {
    /// Tests whose results differ.
    fn differences(&self, other: &Self, counts: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
        let result = |of: &Self, name: &str| of.results.get(name).cloned().unwrap_or_default();
        let names = self.results.keys().chain(other.results.keys());
        names
            .filter(|name| counts(name) && result(self, name) != result(other, name))
            .map(|name| {
                let how = format!("{:?} became {:?}", result(self, name), result(other, name));
                (name.clone(), how)
            })
            .collect()
    }
}

fn once(bin: &Path, python: &Path, module: &str, way: Option<&Way>) -> Result<Seen, String> {
    let failed = |e: std::io::Error| e.to_string();
    let scratch = Scratch::new().map_err(failed)?;
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(failed)?;
    let mut argv = prefix(bin, way, &scratch.path("data"));
    argv.push(python.into());
    argv.extend(["-m", "test", "-v", module].map(Into::into));
    let mut job = Job::new(argv, &work);
    job.env.push(("TMPDIR".into(), work.into()));
    let limit = if way.is_some() { LIMIT * 2 } else { LIMIT };
    let outcome = job.native(limit).map_err(failed)?;
    if outcome.timed_out && way.is_none() {
        return Err(format!("natively it takes more than {LIMIT:?}"));
    }
    // Results go to one of the two, by version.
    let text = [&outcome.stdout[..], &outcome.stderr[..]].map(String::from_utf8_lossy);
    Ok(Seen {
        code: outcome.code,
        results: results(&text.concat()),
    })
}

/// The result of each test: `test_x (module.Class.test_x) … ok`, with what it printed in between.
fn results(text: &str) -> BTreeMap<String, String> {
    const RESULTS: [&str; 5] = [
        "ok",
        "FAIL",
        "ERROR",
        "expected failure",
        "unexpected success",
    ];
    let mut found = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if line.starts_with("test")
            && let Some((_, rest)) = line.split_once(" (")
            && let Some((name, _)) = rest.split_once(')')
        {
            current = Some(name.to_owned());
        }
        let end = line.rsplit(" ... ").next().unwrap_or(line);
        let result = match end.split_once(' ') {
            Some(("skipped", _)) => Some("skipped"),
            _ => RESULTS.into_iter().find(|result| end == *result),
        };
        if let (Some(result), Some(name)) = (result, current.clone()) {
            found.insert(name, result.to_owned());
            current = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_between_what_tests_print() {
        let text = "test_a (test.t.A.test_a) ... ok\n\
            test_b (test.t.A.test_b)\nWhat it tests. ... skipped 'no'\n\
            test_c (test.t.A.test_c) ... words of a thread\nFAIL\n\
            test_d (test.t.A.test_d) ... expected failure\nok\n";
        let found = results(text);
        let pairs: Vec<_> = found.iter().map(|(n, r)| (&n[9..], &r[..])).collect();
        let wanted = [
            ("test_a", "ok"),
            ("test_b", "skipped"),
            ("test_c", "FAIL"),
            ("test_d", "expected failure"),
        ];
        assert_eq!(pairs, wanted);
    }
}
