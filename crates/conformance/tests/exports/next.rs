//! Commands that `export` prints for the next tool: each runs as it stands, whatever the files are called.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel, which, workspace};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::recorded::{Recorded, source};
use trommel_conformance::wait;

use super::opened::{Paths, built, packages, record};
use super::refusals::tried;
use super::{Test, llvm, text};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "next: each command that is printed runs as it stands",
        commands,
    ),
    (
        "next: genhtml runs where sources of libraries are missing",
        without_sources,
    ),
    ("next: those of sampled call paths do too", || {
        paths(Paths::Sampled, &SAMPLED)
    }),
    ("next: those of exact call paths do too", || {
        paths(Paths::Exact, &EXACT)
    }),
];

/// Formats, with the tool of the next command, and a file that it makes.
const FORMATS: [(&str, &str, &str); 12] = [
    ("bolt", "llvm-bolt", "-odd 'app'.bolt"),
    ("bolt-preagg", "perf2bolt", "-odd 'app'.preagg.fdata"),
    ("profgen", "llvm-profgen", "-odd 'app'.profgen.prof"),
    ("autofdo", "llvm-profdata", ""),
    ("autofdo-extbinary", "llvm-profdata", ""),
    ("gcov-autofdo", "gcc", "-odd 'app'.o"),
    ("callgrind", "callgrind_annotate", ""),
    ("cachegrind", "cg_annotate", ""),
    ("pprof", "go", ""),
    ("lcov", "genhtml", "coverage/index.html"),
    ("drcov", "sh", ""),
    ("csv", "python3", ""),
];

/// Formats of sampled call paths, likewise.
const SAMPLED: [(&str, &str, &str); 5] = [
    ("folded", "inferno-flamegraph", "flame.svg"),
    ("perf-script", "inferno-collapse-perf", "flame.svg"),
    ("speedscope", "npx", "opened"),
    ("firefox", "samply", "opened"),
    ("pprof", "go", ""),
];

/// Those of exact ones, whose command is another one or another file.
const EXACT: [(&str, &str, &str); 2] = [
    ("folded", "inferno-flamegraph", "flame.svg"),
    ("pprof", "go", ""),
];

/// The work of DuckDB's own command with `-c`, by its module for Python.
const DUCKDB: &str = "#!/usr/bin/env python3\nimport duckdb, sys\nfor row in duckdb.sql(sys.argv[2]).fetchall(): print(*row)\n";

/// A browser that notes which page it was given. The page of a server asks the server for a profile, and the server ends then.
const BROWSER: &str = r#"#!/bin/sh
case $1 in
*/from-url/*)
    python3 - "$1" > opened.part <<'END'
import sys, json, urllib.parse, urllib.request
url = urllib.parse.unquote(sys.argv[1].split('/from-url/')[1].split('/')[0])
print(json.load(urllib.request.urlopen(url))['meta']['product'])
END
    mv opened.part opened
    kill -INT $PPID ;;
*)
    printf '%s\n' "$1" > opened.part
    mv opened.part opened ;;
esac
"#;

fn commands() -> Result<(), String> {
    let test = "next";
    let (Some(clang), Some(lld)) = (llvm("clang", test), llvm("ld.lld", test)) else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let dir = scratch.path("a \"dir\" of $x");
    fs::create_dir(&dir).map_err(|e| e.to_string())?;
    // The source beside it: gcc compiles the one that the debug information names.
    fs::copy(source(), dir.join("it's.c")).map_err(|e| e.to_string())?;
    let program = dir.join("-odd 'app'");
    let mut build = Command::new(&clang);
    build.args([
        "-O2",
        "-g",
        "-fdebug-info-for-profiling",
        "-Wl,--emit-relocs",
    ]);
    build.arg("-Wl,--build-id");
    build.arg(format!("-fuse-ld={}", text(&lld)));
    build.arg(dir.join("it's.c")).arg("-o").arg(&program);
    output(&mut build)?;
    let path = commands_of(&scratch, &[clang.parent().unwrap_or(Path::new("/"))])?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    for (format, tool, made) in FORMATS {
        let by_llvm = clang.with_file_name(tool).exists();
        if !by_llvm && which(tool).is_none() || format == "csv" && !has_duckdb() {
            missing(format);
            continue;
        }
        runs(&recorded, &dir, &path, format, made)?;
    }
    Ok(())
}

/// Like a program of Rust, it has code of a library whose sources are on another machine.
const FOREIGN: &str = "
volatile int sink;
int main(void) { for (int i = 0; i < 9; i++) sink += i; return 0; }
#line 1 \"/rust/deps/library.rs\"
int library(int n) { return sink + n; }
";

fn without_sources() -> Result<(), String> {
    if which("genhtml").is_none() {
        missing("lcov");
        return Ok(());
    }
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("foreign.c"), scratch.path("app"));
    fs::write(&source, FOREIGN).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    output(build.args(["-O1", "-g", "-o"]).arg(&program).arg(&source))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let path = commands_of(&recorded.scratch, &[])?;
    let dir = recorded.scratch.dir();
    runs(&recorded, dir, &path, "lcov", "coverage/index.html")
}

/// Formats of call paths: viewers open what they are given.
fn paths(paths: Paths, formats: &[(&str, &str, &str)]) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let dir = scratch.path("a \"dir\" of $x");
    fs::create_dir(&dir).map_err(|e| e.to_string())?;
    let program = built(paths, &dir, "-odd 'app'")?;
    let cargo = workspace().join("target/viewers/bin");
    let path = commands_of(&scratch, &[&cargo])?;
    let is_there = |tool: &str| match tool {
        // Only what is there already: nothing is fetched.
        "npx" => packages("speedscope", "next").is_some() && which(tool).is_some(),
        _ => which(tool).is_some() || cargo.join(tool).exists(),
    };
    if let Some(packages) = packages("speedscope", "next") {
        symlink(packages, dir.join("node_modules")).map_err(|e| e.to_string())?;
    }
    let Some(recorded) = record(paths, scratch, program, "next")? else {
        return Ok(());
    };
    for &(format, tool, made) in formats {
        match is_there(tool) {
            true => runs(&recorded, &dir, &path, format, made)?,
            false => missing(format),
        }
    }
    Ok(())
}

/// A list of directories for commands: our own DuckDB and browser, these, and those of all.
fn commands_of(scratch: &Scratch, more: &[&Path]) -> Result<String, String> {
    let bin = scratch.path("bin");
    fs::create_dir(&bin).map_err(|e| e.to_string())?;
    for (name, text) in [("duckdb", DUCKDB), ("browser", BROWSER)] {
        fs::write(bin.join(name), text).map_err(|e| e.to_string())?;
        output(Command::new("chmod").arg("+x").arg(bin.join(name)))?;
    }
    let more = more.iter().map(|path| text(path));
    let all = [text(&bin)].into_iter().chain(more);
    let all = all.chain(env::var("PATH"));
    Ok(all.collect::<Vec<_>>().join(":"))
}

fn missing(format: &str) {
    not_tested(format!(
        "exports next: the tool of {format} is not installed"
    ));
}

/// Exports into a directory, and runs the next command there. It makes the file.
fn runs(
    recorded: &Recorded,
    dir: &Path,
    path: &str,
    format: &str,
    made: &str,
) -> Result<(), String> {
    let mut export = Command::new(trommel());
    export.args(["export", "-f", format]).arg(&recorded.data);
    let (succeeded, said) = tried(export.current_dir(dir))?;
    let next = said.split_once("trommel: next: ").filter(|_| succeeded);
    let (_, next) = next.ok_or_else(|| format!("{format}: {said}"))?;
    let made = Some(dir.join(made)).filter(|_| !made.is_empty());
    if let Some(made) = made.as_ref().filter(|made| made.exists()) {
        fs::remove_file(made).map_err(|e| e.to_string())?;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", next.trim_end()]).current_dir(dir);
    // Nothing is fetched.
    shell.env("npm_config_offline", "true").env("PATH", path);
    shell
        .env("BROWSER", "browser")
        .env("TMPDIR", recorded.scratch.dir());
    let done = tried(&mut shell);
    let (succeeded, said) = done.map_err(|e| format!("{format}: {e}"))?;
    let is_there = || made.as_ref().is_none_or(|made| made.exists());
    // A viewer does not wait for the browser.
    if succeeded && format == "speedscope" {
        wait::until("speedscope opens a browser", is_there)?;
    }
    let there = made
        .as_ref()
        .is_none_or(|made| fs::metadata(made).is_ok_and(|m| m.len() > 0));
    match !next.contains('…') && succeeded && there {
        true => Ok(()),
        false => Err(format!("{format}: {next}\n{said}")),
    }
}
fn has_duckdb() -> bool {
    let mut there = Command::new("python3");
    let there = there.args(["-c", "import duckdb"]).output();
    there.is_ok_and(|done| done.status.success())
}
