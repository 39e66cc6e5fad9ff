//! gcc's execution tests (`gcc.c-torture/execute`): programs that end with 0 or abort, each built at
//! `-O0` and `-O2`.
//!
//! `--from` names a source tree of gcc; without it Debian's package `gcc-N-source`, N that of the
//! machine's gcc, is fetched once. Options are those that a test asks for (`dg-options`,
//! `dg-additional-options` without a target); a test of `builtins` comes with its library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir, difference};

use super::{Verdict, Way, all, compare, compile, prefix, shell};
use crate::common::trommel;

const LEVELS: [&str; 2] = ["-O0", "-O2"];

/// Natively each takes milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

struct Test {
    group: String,
    source: PathBuf,
    level: &'static str,
}

impl Test {
    fn name(&self) -> String {
        let stem = self
            .source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        format!("{}/{stem}{}", self.group, self.level)
    }
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let top = execute_dir(from)?;
    let mut tests = Vec::new();
    for (group, dir) in [("execute", ""), ("ieee", "ieee"), ("builtins", "builtins")] {
        let dir = top.join(dir);
        let files = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let mut files: Vec<PathBuf> = files.flatten().map(|f| f.path()).collect();
        files.sort();
        for source in files {
            let stem = source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if source.extension().is_none_or(|e| e != "c") || stem.ends_with("-lib") {
                continue;
            }
            if !names.is_empty() && !names.contains(&stem) {
                continue;
            }
            let (group, source) = (group.to_owned(), source.clone());
            tests.extend(LEVELS.map(|level| Test {
                group: group.clone(),
                source: source.clone(),
                level,
            }));
        }
    }
    let built = cache_dir().join("conform/gcc/built");
    fs::create_dir_all(&built).map_err(|e| format!("{}: {e}", built.display()))?;
    let label = |t: &Test| (format!("{} {}", t.group, t.level), t.name());
    all(&tests, 2, label, |test| judge(bin, ways, test, &built))
}

fn judge(bin: &Path, ways: &[Way], test: &Test, built: &Path) -> Result<Verdict, String> {
    let program = build(test, built)?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    compare(
        ways,
        |way| {
            let mut argv = prefix(bin, way, &data);
            argv.push(program.clone().into());
            Job::new(argv, &work)
                .native(LIMIT)
                .map_err(|e| e.to_string())
        },
        differs,
    )
}

fn differs(native: &Outcome, seen: &Outcome) -> Option<String> {
    let end = |o: &Outcome| (o.code, o.signal, o.timed_out);
    if end(native) != end(seen) {
        return Some(format!(
            "code, signal, out of time: natively {:?}, here {:?} {}",
            end(native),
            end(seen),
            String::from_utf8_lossy(&seen.stderr)
        ));
    }
    difference("output", &native.stdout, &seen.stdout)
        .or_else(|| difference("errors", &native.stderr, &seen.stderr))
}

/// The directory of the tests, fetched where none is given.
fn execute_dir(from: Option<PathBuf>) -> Result<PathBuf, String> {
    const INSIDE: &str = "gcc/testsuite/gcc.c-torture/execute";
    if let Some(from) = from {
        return Ok(from.join(INSIDE));
    }
    let dir = cache_dir().join("conform/gcc");
    let done = dir.join("source").join(INSIDE);
    if !done.exists() {
        fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        eprintln!("fetching gcc's source with apt-get");
        shell(
            r#"set -e; cd "$1"; v=$(gcc -dumpversion | cut -d. -f1); rm -rf part; mkdir part; cd part
               apt-get download "gcc-$v-source"; dpkg-deb --fsys-tarfile gcc-*.deb >all.tar
               tar xf all.tar --wildcards './usr/src/gcc-*/gcc-*.tar.xz'
               tar xJf usr/src/gcc-*/gcc-*.tar.xz --strip-components=1 --wildcards '*/gcc/testsuite/gcc.c-torture/execute/*'
               rm -rf all.tar usr ./*.deb ../source; mv ../part ../source"#,
            &[dir.as_os_str()],
        )?;
    }
    Ok(done)
}

/// Builds a test unless it is there. An error says why it cannot be.
fn build(test: &Test, built: &Path) -> Result<PathBuf, String> {
    let out = built.join(test.name().replace('/', "-"));
    if out.exists() {
        return Ok(out);
    }
    let text = fs::read(&test.source).map_err(|e| e.to_string())?;
    let mut sources = vec![test.source.clone()];
    if test.group == "builtins" {
        let stem = test
            .source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        sources.push(test.source.with_file_name(format!("{stem}-lib.c")));
        sources.push(test.source.with_file_name("lib/main.c"));
    }
    let asked = options(&String::from_utf8_lossy(&text));
    let arguments = |gcc: &mut Command| {
        gcc.arg(test.level).args(sources).args(asked).arg("-lm");
    };
    compile(arguments, &out)?;
    Ok(out)
}

/// Options that `{ dg-options "…" }` and `{ dg-additional-options "…" }` ask for on every target.
fn options(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line
            .split_once("dg-options")
            .or(line.split_once("dg-additional-options"))
        else {
            continue;
        };
        let mut parts = rest.split('"');
        if let (Some(_), Some(given), Some(after)) = (parts.next(), parts.next(), parts.next())
            && !after.contains("target")
        {
            found.extend(given.split_whitespace().map(str::to_owned));
        }
    }
    found
}
