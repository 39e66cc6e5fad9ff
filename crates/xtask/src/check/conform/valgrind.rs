//! Valgrind's regression tests, as programs: what its tools would report of them is not compared, but how they end
//! and what they print.
//!
//! `--from` names a source tree of Valgrind (`apt-get source valgrind`). It is copied, and the programs of [`DIRS`] are built there
//! once. A test is a `.vgtest` file: a program, its arguments for a shell, and what the machine has to have.
//! Several tests of Valgrind's are one program with other options of its tools, and are one test here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir};

use super::{Verdict, Way, all, compare, prefix, shell};
use crate::common::trommel;

/// Directories of tests for this system. Those for other processors are left out.
const DIRS: [&str; 13] = [
    "none/tests",
    "none/tests/linux",
    "none/tests/amd64",
    "none/tests/amd64-linux",
    "memcheck/tests",
    "memcheck/tests/linux",
    "memcheck/tests/amd64",
    "memcheck/tests/amd64-linux",
    "helgrind/tests",
    "drd/tests",
    "massif/tests",
    "cachegrind/tests",
    "callgrind/tests",
];

const LIMIT: Duration = Duration::from_secs(60);

/// A program with its arguments.
struct Test {
    group: &'static str,
    /// The first `.vgtest` file of this program and these arguments, without its ending.
    name: String,
    /// Words for a shell.
    program: String,
    needs: String,
    environment: Vec<String>,
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let tree = built(from)?;
    let mut tests = Vec::new();
    for dir in DIRS {
        tests.extend(listed(&tree, dir, names)?);
    }
    // One at a time: tests of a directory share files, and some count time.
    all(
        &tests,
        1,
        |test| {
            (
                test.group.to_owned(),
                format!("{}/{}", test.group, test.name),
            )
        },
        |test| judge(bin, ways, test, &tree),
    )
}

/// The tests of a directory, each program with the same arguments once.
fn listed(tree: &Path, dir: &'static str, names: &[String]) -> Result<Vec<Test>, String> {
    let path = tree.join(dir);
    let entries = fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|f| f.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "vgtest"));
    files.sort();
    let (mut tests, mut known) = (Vec::new(), BTreeSet::new());
    for file in files {
        let name = file.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let text = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let text = String::from_utf8_lossy(&text);
        let all_of = |key: &str| -> Vec<String> {
            let value = |line: &str| Some(line.strip_prefix(key)?.trim().to_owned());
            text.lines().filter_map(value).collect()
        };
        let mut words = all_of("prog:");
        words.extend(all_of("args:"));
        let mut program = words.join(" ");
        if !words.first().is_some_and(|word| word.contains('/')) {
            program.insert_str(0, "./");
        }
        let is_named = names.is_empty() || names.contains(&name);
        if is_named && known.insert(program.clone()) {
            tests.push(Test {
                group: dir,
                name,
                program,
                needs: all_of("prereq:").join(" && "),
                environment: all_of("env:"),
            });
        }
    }
    Ok(tests)
}

fn judge(bin: &Path, ways: &[Way], test: &Test, tree: &Path) -> Result<Verdict, String> {
    let dir = tree.join(test.group);
    if !test.needs.is_empty() {
        shell(
            r#"cd "$1" && eval "$2" >/dev/null"#,
            &[dir.as_os_str(), test.needs.as_ref()],
        )
        .map_err(|_| format!("needs {}", test.needs))?;
    }
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let once = |way: Option<&Way>| {
        let mut argv = vec!["sh".into(), "-c".into()];
        argv.push(format!(r#"exec "$@" {}"#, test.program).into());
        argv.push("sh".into());
        argv.extend(prefix(bin, way, &data));
        let is_native = argv.len() == 4;
        if is_native {
            argv.push("env".into());
        }
        let mut job = Job::new(argv, &dir);
        for word in &test.environment {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            job.env.push((key.into(), value.into()));
        }
        let limit = if is_native { LIMIT } else { LIMIT * 5 };
        let outcome = job.native(limit).map_err(|e| e.to_string())?;
        match (is_native, outcome.timed_out, outcome.code) {
            (true, true, _) => Err(format!("natively it takes more than {LIMIT:?}")),
            (true, _, Some(126 | 127)) => Err("not built here".to_owned()),
            _ => Ok(outcome),
        }
    };
    compare(ways, once, |native: &Outcome, seen| {
        let is_same = native.code == seen.code && native.signal == seen.signal;
        match is_same && native.timed_out == seen.timed_out {
            true => native.compare(seen).err(),
            false => Some(format!(
                "code, signal: natively {:?} {:?}, here {:?} {:?}\n    {}",
                native.code,
                native.signal,
                seen.code,
                seen.signal,
                String::from_utf8_lossy(&seen.stderr)
            )),
        }
    })
}

/// The tree with the programs built in it.
fn built(from: Option<PathBuf>) -> Result<PathBuf, String> {
    let tree = cache_dir().join("conform/valgrind");
    if !tree.join("built").exists() {
        let from = from.ok_or("--from DIR: what `apt-get source valgrind` unpacks")?;
        eprintln!("building in {}", tree.display());
        shell(
            r#"set -e; rm -rf "$2"; mkdir -p "$2"; cp -a "$1/." "$2"; cd "$2"
               ./configure --enable-only64bit >build.log 2>&1
               make -C include >>build.log 2>&1; make -C tests check >>build.log 2>&1
               for d in $3; do make -k -j2 -C $d check SUBDIRS=. >>build.log 2>&1 || echo "$d: not all built" >&2; done
               echo done >built"#,
            &[from.as_os_str(), tree.as_os_str(), DIRS.join(" ").as_ref()],
        )?;
    }
    Ok(tree)
}
