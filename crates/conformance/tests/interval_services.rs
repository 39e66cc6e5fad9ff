//! Services that are given intervals: each one that the report has, in order and while the program runs, whoever counts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};
use trommel_conformance::program::compile;

/// Two functions in turn, three times each, in each of two threads. With a file's name, the first until there is that file, and
/// the second from then on.
const TURNS: &str = r#"
#include <pthread.h>
#include <unistd.h>
static volatile unsigned sink;
__attribute__((noinline)) static void adds(void) { for (unsigned i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) static void walks(void) {
  for (unsigned i = 1; i < 400; i++) for (unsigned x = i; x != 1; ) x = x & 1 ? 3 * x + 1 : x / 2;
}
static void *turns(void *none) { for (int n = 0; n < 3; n++) { adds(); walks(); } return none; }
int main(int argc, char **argv) {
  pthread_t thread;
  if (argc > 1) {
    while (access(argv[1], F_OK)) for (int n = 0; n < 20; n++) adds();
    for (int n = 0; n < 20; n++) walks();
    return 0;
  }
  turns(0);
  pthread_create(&thread, 0, turns, 0);
  pthread_join(thread, 0);
}
"#;

fn library(source: &str, name: &str) -> PathBuf {
    let dir = cache_dir().join("services");
    fs::create_dir_all(&dir).expect("a directory");
    let out = dir.join(name);
    let include = format!("-I{}", workspace().join("include").display());
    let flags = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"];
    let flags: Vec<String> = flags
        .map(str::to_owned)
        .into_iter()
        .chain([include])
        .collect();
    compile(&workspace().join(source), &flags, &out).expect("it compiles");
    out
}

fn turns(scratch: &Scratch) -> String {
    let (source, program) = (scratch.path("turns.c"), scratch.path("turns"));
    fs::write(&source, TURNS).expect("written");
    let flags = ["-O1", "-g", "-pthread"].map(str::to_owned);
    compile(&source, &flags, &program).expect("it compiles");
    program.to_string_lossy().into_owned()
}

fn record(scratch: &Scratch, options: &[&str], command: &[&str]) -> Output {
    let mut record = Command::new("timeout");
    record.arg("100").arg(trommel()).args(["record", "-o"]);
    record.arg(scratch.path("data")).args(options).arg("--");
    record.args(command).output().expect("it runs")
}

fn report(scratch: &Scratch, options: &[&str]) -> Value {
    let mut report = Command::new(trommel());
    report.arg("report").args(options).arg("--json");
    let said = report.arg(scratch.path("data")).output().expect("it runs");
    assert!(said.status.success());
    serde_json::from_slice(&said.stdout).expect("JSON")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A candidate: thread, interval, start, kind, and two places.
type Candidate = ([u64; 4], [(u64, u64); 2]);

fn place(value: &Value) -> (u64, u64) {
    (number(&value["module"]), number(&value["vaddr"]))
}

/// Counts of candidates, as the report has them.
fn reported(intervals: &Value) -> BTreeMap<Candidate, u64> {
    let mut all = BTreeMap::new();
    for interval in intervals["per_interval"].as_array().expect("a list") {
        for of in interval["candidates"].as_array().expect("a list") {
            let kind = u64::from(of["kind"] == "call");
            let [thread, n, start] =
                ["thread", "interval", "start"].map(|at| number(&interval[at]));
            let places = [place(&of["at"]), place(&of["to"])];
            all.insert(([thread, n, start, kind], places), number(&of["count"]));
        }
    }
    all
}

/// The same, as the service has them.
fn served(service: &Value) -> BTreeMap<Candidate, u64> {
    let rows = service["rows"].as_array().expect("rows");
    let row = |row: &Value| {
        let words = ["thread", "interval", "start", "kind"].map(|at| number(&row[at]));
        let places = [place(&row["at"]), place(&row["to"])];
        ((words, places), number(&row["count"]))
    };
    rows.iter().map(row).collect()
}

#[test]
fn a_service_is_given_each_interval_that_the_report_has() {
    let scratch = Scratch::new().expect("a directory");
    let program = turns(&scratch);
    let service = library("tests/queries/intervals.c", "intervals.so");
    let service = service.to_string_lossy().into_owned();
    // In generated code, each thread by itself, and in the service thread, all together.
    for (spec, threads) in [
        ("M4[5k,1%]2048", 2),
        ("M2[1k..16k,2%]256", 2),
        ("S4[3k,2%]64", 1),
    ] {
        let options = ["-e", "edge,call", "-c", spec, "--service", &service];
        let done = record(&scratch, &options, &[&program]);
        let said = errors(&done);
        assert!(done.status.success(), "{spec}: {said}");
        let whole = report(&scratch, &["--top", "1000000"]);
        let of = &whole["services"][0];
        assert_eq!(of["failures"], serde_json::json!([]), "{spec}");
        let intervals = report(&scratch, &["--per-interval"]);
        assert_eq!(intervals["ended"], intervals["kept"]);
        assert_eq!(of["intervals"], intervals["ended"], "{spec}");
        assert!(number(&of["intervals"]) > 20, "{spec}");
        assert_eq!(of["messages"], Value::Null);
        let (served, reported) = (served(of), reported(&intervals));
        assert_eq!(served, reported, "{spec}");
        let mut found: Vec<u64> = served.keys().map(|(words, _)| words[0]).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), threads, "{spec}: {found:?}");
        let given = format!("service {service}: {} intervals", of["intervals"]);
        assert!(said.contains(&given), "{said}");
    }
}

/// The program goes on with other work when the service has seen what it does now: it is given intervals while the program runs.
#[test]
fn a_service_acts_on_what_is_hot_now() {
    let scratch = Scratch::new().expect("a directory");
    let program = turns(&scratch);
    let service = library("tests/queries/intervals.c", "intervals-2.so");
    for spec in ["M4[10k,1%]2048", "S4[10k,1%]512"] {
        let file = scratch.path("second");
        let _ = fs::remove_file(&file);
        let file = file.to_string_lossy().into_owned();
        let service = format!("{}:{file}", service.display());
        let options = ["-e", "edge", "-c", spec, "--service", &service];
        let done = record(&scratch, &options, &[&program, &file]);
        assert!(done.status.success(), "{spec}: {}", errors(&done));
        let whole = report(&scratch, &["--top", "1000000"]);
        let rows = whole["services"][0]["rows"]
            .as_array()
            .expect("rows")
            .iter();
        // Intervals by the function that is hottest, before and after the service has acted.
        let mut sums: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for row in rows {
            let function = row["at"]["function"].as_str().unwrap_or("?").to_owned();
            *sums
                .entry((number(&row["interval"]), function))
                .or_default() += number(&row["count"]);
        }
        let of = |made: u64, function: &str| sums.get(&(made, function.to_owned())).copied();
        assert!(of(0, "adds") >= Some(50), "{spec}: {sums:?}");
        assert!(of(1, "walks") >= Some(20), "{spec}: {sums:?}");
        assert_eq!(of(0, "walks"), None, "{spec}: {sums:?}");
    }
}

/// Services of a query's queue have intervals of the events beside it, and those that were built before there were any still work.
#[test]
fn services_of_queues_have_intervals_where_they_ask_for_them() {
    let scratch = Scratch::new().expect("a directory");
    let program = turns(&scratch);
    let query = scratch.path("q.rpa");
    fs::write(
        &query,
        "for opBRANCH * every 64 collect pc misc; send 1 stop;",
    )
    .expect("written");
    let query = query.to_string_lossy().into_owned();
    let named = |path: &Path| format!("1={}", path.display());
    let new = named(&library("examples/service/hot.c", "hot.so"));
    let old = named(&library("examples/service/edges.c", "edges-old.so"));
    let services = ["--service", &new, "--service", &old];
    let spec = ["-e", "edge", "-c", "M4[5k,1%]2048", "-q", &query];
    let done = record(&scratch, &[&spec[..], &services].concat(), &[&program]);
    assert!(done.status.success(), "{}", errors(&done));
    let whole = report(&scratch, &["--top", "1000000"]);
    let services = whole["services"].as_array().expect("services");
    let of = |name: &str| {
        let found = services.iter().find(|service| service["name"] == name);
        found.expect("a service").clone()
    };
    for name in [&new, &old] {
        assert_eq!(of(name)["failures"], serde_json::json!([]));
        assert_eq!(of(name)["messages"], whole["queries"][0]["sent"]);
    }
    let rows = of(&new)["rows"].as_array().expect("rows").clone();
    let intervals: u64 = rows.iter().map(|row| number(&row["count"])).sum();
    let ended = number(&report(&scratch, &["--per-interval"])["ended"]);
    assert!(
        intervals > 20 && intervals <= ended,
        "{intervals} of {ended}"
    );
    let adds = |row: &&Value| row["hottest"]["function"] == "adds";
    assert!(rows.iter().any(|row| adds(&row)), "{rows:?}");
}

#[test]
fn a_service_that_has_nothing_to_be_given_is_refused() {
    let scratch = Scratch::new().expect("a directory");
    let hot = library("examples/service/hot.c", "hot-2.so");
    let edges = library("examples/service/edges.c", "edges-5.so");
    let [hot, edges] = [hot, edges].map(|path| path.to_string_lossy().into_owned());
    let queue = format!("1={hot}");
    let wrong = format!("{hot}:nonsense");
    let profiler = "M4[5k,1%]2048";
    for (spec, service, expected) in [
        ("exact", &hot, "name events and an interval profiler"),
        ("P257", &hot, "name events and an interval profiler"),
        (profiler, &edges, "no function `interval`"),
        (profiler, &queue, "no query that sends to queue 1"),
        (profiler, &wrong, "its argument is `changes`"),
    ] {
        let options = ["-e", "edge", "-c", spec, "--service", service];
        let done = record(&scratch, &options, &["echo", "it ran"]);
        let said = errors(&done);
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!done.status.success() && done.stdout.is_empty(), "{said}");
    }
}
