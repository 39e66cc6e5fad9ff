//! `run --prefetch`: what misses by a regular distance is found and prefetched, what does not is left alone, and
//! programs do what they do natively.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, trommel};
use trommel_conformance::program;

/// Bytes that the target sends in a round, of one thread.
const ROUND: u64 = 8 * (16 << 10);

fn built(source: &str, flags: &[&str]) -> PathBuf {
    let name = Path::new(source).file_stem().and_then(OsStr::to_str);
    program::built(source, name.expect("a name"), flags).expect("it compiles")
}

/// Natively, and with prefetches: both outputs, and the first process of the statistics.
fn both(program: &PathBuf, arguments: &[&str], stress: &str) -> (Output, Output, Value) {
    let scratch = Scratch::new().expect("a directory");
    let native = Command::new(program).args(arguments).output();
    let native = native.expect("it runs");
    let stats = scratch.path("stats.json");
    let mut run = Command::new(trommel());
    run.env("TROMMEL_STRESS", stress);
    run.arg("run").arg("--prefetch").arg("--stats").arg(&stats);
    let seen = run.arg("--").arg(program).args(arguments).output();
    let seen = seen.expect("it runs");
    assert_eq!(seen.status, native.status, "{arguments:?}");
    assert_eq!(seen.stdout, native.stdout, "{arguments:?}");
    let text = fs::read(&stats).expect("statistics");
    let all: Value = serde_json::from_slice(&text).expect("JSON");
    (native, seen, all["processes"][0].clone())
}

fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The places in a function.
fn places<'v>(process: &'v Value, function: &str) -> Vec<&'v Value> {
    let all = process["prefetch"]["places"].as_array().expect("places");
    let within = all.iter().filter(|place| {
        let name = place["name"].as_str().expect("a name");
        name.split('+').next() == Some(function)
    });
    within.collect()
}

/// Walks, for longer each time until something is found in the function, which is called as the walk is.
fn walk(kind: &str, times: u64) -> (Output, Value) {
    let program = built("tests/prefetch/walks.c", &["-O2", "-g"]);
    let mut last = None;
    for longer in [1, 3, 9, 27] {
        let times = (times * longer).to_string();
        let (_, seen, process) = both(&program, &[kind, &times], "");
        let found = !places(&process, kind).is_empty();
        last = Some((seen, process));
        if found {
            break;
        }
    }
    last.expect("it ran")
}

fn is_placed(place: &&&Value, stride: i64) -> bool {
    let ahead = place["ahead"].as_i64().unwrap_or(0);
    place["verdict"] == "placed"
        && place["stride"].as_i64() == Some(stride)
        && place["stride_share"]
            .as_f64()
            .is_some_and(|share| share > 0.9)
        && ahead > 0
        && place["by"].as_i64() == Some(stride * ahead)
}

#[test]
fn a_list_allocated_in_order_is_found_with_its_stride_and_prefetched() {
    let (seen, process) = walk("list", 400);
    let found = places(&process, "list");
    let placed = found.iter().filter(|p| is_placed(p, 4160)).count();
    assert_eq!(placed, 1, "{process}");
    let prefetch = &process["prefetch"];
    assert!(number(prefetch, "put") > 0);
    let said = String::from_utf8_lossy(&seen.stderr);
    let row = said.lines().find(|line| line.contains("list"));
    assert!(row.is_some_and(|row| row.contains("ahead (+")), "{said}");
}

#[test]
fn pointers_in_an_array_are_found_with_the_stride_of_what_they_point_to() {
    let (_, process) = walk("array", 400);
    let found = places(&process, "array");
    let placed = |stride| found.iter().filter(|p| is_placed(p, stride)).count();
    assert_eq!((placed(4160), placed(2560)), (1, 1), "{process}");
}

#[test]
fn a_chase_is_found_and_left_alone() {
    let (_, process) = walk("chase", 400);
    let found = places(&process, "chase");
    assert!(!found.is_empty(), "{process}");
    assert!(
        found.iter().all(|p| p["verdict"] == "irregular"),
        "{process}"
    );
}

#[test]
fn what_a_processor_sees_by_itself_is_left_to_it() {
    let program = built("tests/prefetch/walks.c", &["-O2", "-g"]);
    let (_, _, process) = both(&program, &["dense", "400"], "");
    let found = places(&process, "dense");
    assert!(found.iter().all(|p| p["verdict"] != "placed"), "{process}");
}

#[test]
fn when_a_round_is_answered_its_probes_are_gone() {
    let (_, process) = walk("list", 400);
    let prefetch = &process["prefetch"];
    let rounds = number(prefetch, "rounds");
    assert!(rounds > 0);
    // Each round sends what it is made of, and code without probes sends nothing.
    let sent = number(prefetch, "accesses");
    assert!(
        (rounds * ROUND..(rounds + 1) * ROUND).contains(&sent),
        "{process}"
    );
    // The program may end in another round.
    let dropped = number(prefetch, "probes_dropped");
    assert!(dropped == rounds || dropped + 1 == rounds, "{process}");
    let flushes = number(&process, "flushes_asked");
    assert!(
        (2 * dropped..=2 * dropped + 1).contains(&flushes),
        "{process}"
    );
}

#[test]
fn with_little_of_everything_and_dropped_code_the_program_is_the_same() {
    let program = built("tests/prefetch/walks.c", &["-O2", "-g"]);
    for (kind, stress) in [
        ("list", "trace"),
        ("array", "trace"),
        ("list", "evict=97"),
        ("array", "insns=2"),
        ("array", "far"),
        ("list", "pages=24"),
        ("array", "delay=20"),
    ] {
        both(&program, &[kind, "40"], stress);
    }
}

#[test]
fn several_threads_and_processes_are_asked_and_answered() {
    let program = built("tests/prefetch/threads.c", &["-O2", "-g", "-pthread"]);
    let (_, _, process) = both(&program, &[], "");
    let prefetch = &process["prefetch"];
    assert!(number(prefetch, "rounds") > 0, "{process}");
    let found = places(&process, "walk");
    let placed = found.iter().filter(|p| is_placed(p, 4160)).count();
    assert_eq!(placed, 1, "{process}");
}
