//! `trommel stat`: runs that are alike, and comparison with a baseline.

#[path = "common/compile.rs"]
mod compile;
#[path = "common/dir.rs"]
mod dir;

use std::process::{Command, Stdio};

use compile::compile;
use dir::Dir;
use serde_json::Value;

/// Turns a loop as often as its addresses say, and so much longer as its argument says.
const SOURCE: &str = r#"
#include <stdint.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    uintptr_t all = (uintptr_t)&argc ^ (uintptr_t)malloc(100) ^ (uintptr_t)malloc(1 << 20) ^ (uintptr_t)main;
    uintptr_t turns = (all >> 12 & 0xffff) + (argc > 1 ? strtoul(argv[1], 0, 10) : 0);
    for (volatile uintptr_t i = 0; i < turns; i++) ;
    return 0;
}
"#;

fn stage(name: &str) -> Dir {
    let dir = Dir::new(name);
    compile(&dir.0, "p", &["-O1"], SOURCE);
    dir
}

/// Returns the exit status of `stat`, and what it says.
fn stat(dir: &Dir, args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .arg("stat")
        .args(args)
        .current_dir(&dir.0)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code(), said)
}

/// Returns the instructions of each run.
fn instructions(dir: &Dir, args: &[&str]) -> (Vec<u64>, Value) {
    let (status, said) = stat(
        dir,
        &[&["--json", "--no-native"], args, &["--", "./p"]].concat(),
    );
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&said).expect("JSON");
    let runs = json["runs"].as_array().expect("runs").iter();
    let counts = runs.map(|run| run["instructions"].as_u64().expect("a number"));
    (counts.collect(), json)
}

#[test]
fn deterministic_runs_of_a_program_have_the_same_counts() {
    let dir = stage("stat-alike");
    // Of 65536 numbers of turns, three are the same by chance once in four thousand million times.
    let (runs, json) = instructions(&dir, &["-r", "3"]);
    assert!(runs.iter().any(|n| *n != runs[0]), "{runs:?}");
    assert_eq!(json["deterministic"], false);
    let (runs, json) = instructions(&dir, &["-r", "2", "--deterministic"]);
    assert!(runs[0] > 1000 && runs[0] == runs[1], "{runs:?}");
    assert_eq!(
        (&json["deterministic"], &json["spread_percent"]),
        (&true.into(), &0.0.into())
    );
    // In other words: by another command, too, with everything that is counted.
    let (_, other) = instructions(&dir, &["-r", "2", "--deterministic"]);
    assert_eq!(json["counts"], other["counts"]);
}

#[test]
fn more_instructions_than_a_baseline_allows_end_with_three() {
    let dir = stage("stat-baseline");
    let alike = ["--deterministic", "--no-native"];
    let write = ["--json", "-o", "base.json"];
    let (status, said) = stat(&dir, &[&alike[..], &write, &["--", "./p"]].concat());
    assert_eq!(status, Some(0), "{said}");
    let compare = ["--baseline", "base.json", "--fail-above", "1", "--", "./p"];
    let (status, said) = stat(&dir, &[&alike[..], &compare].concat());
    assert_eq!(status, Some(0), "{said}");
    // It is the same program with other arguments.
    let (status, said) = stat(&dir, &[&alike[..], &compare, &["500000"]].concat());
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("# baseline   +"), "{said}");
}
