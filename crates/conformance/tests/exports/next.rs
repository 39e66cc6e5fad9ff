//! Commands that `export` prints for the next tool: each runs as it stands, whatever the files are called.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::recorded::{Recorded, source};

use super::refusals::tried;
use super::{Test, llvm, text};

pub(super) const ALL: &[(&str, Test)] = &[(
    "next: each command that is printed runs as it stands",
    commands,
)];

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

/// The work of DuckDB's own command with `-c`, by its module for Python.
const DUCKDB: &str = "#!/usr/bin/env python3\nimport duckdb, sys\nfor row in duckdb.sql(sys.argv[2]).fetchall(): print(*row)\n";

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
    let bin = scratch.path("bin");
    fs::create_dir(&bin).map_err(|e| e.to_string())?;
    fs::write(bin.join("duckdb"), DUCKDB).map_err(|e| e.to_string())?;
    output(Command::new("chmod").arg("+x").arg(bin.join("duckdb")))?;
    let path = [
        text(&bin),
        text(clang.parent().unwrap_or(Path::new("/"))),
        env::var("PATH").unwrap_or_default(),
    ]
    .join(":");
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    for (format, tool, made) in FORMATS {
        let by_llvm = clang.with_file_name(tool).exists();
        if !by_llvm && which(tool).is_none() || format == "csv" && !has_duckdb() {
            not_tested(format!(
                "exports next: the tool of {format} is not installed"
            ));
            continue;
        }
        let mut export = Command::new(trommel());
        export.args(["export", "-f", format]).arg(&recorded.data);
        let (succeeded, said) = tried(export.current_dir(&dir))?;
        let next = said.split_once("; next: ").filter(|_| succeeded);
        let (_, next) = next.ok_or_else(|| format!("{format}: {said}"))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", next.trim_end()]).current_dir(&dir);
        let done = tried(shell.env("PATH", &path));
        let (succeeded, said) = done.map_err(|e| format!("{format}: {e}"))?;
        let made = made.is_empty() || dir.join(made).exists();
        if next.contains('…') || !succeeded || !made {
            return Err(format!("{format}: {next}\n{said}"));
        }
    }
    Ok(())
}

fn has_duckdb() -> bool {
    let mut there = Command::new("python3");
    let there = there.args(["-c", "import duckdb"]).output();
    there.is_ok_and(|done| done.status.success())
}
