//! `trommel merge`: reports of sums are sums of reports, whatever is refused leaves no file, and builds are kept apart.

mod common;

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use common::Dir;
use serde_json::Value;

const SOURCE: &str = r#"
    #include <stdlib.h>
    __attribute__((noinline)) int step(int n) { return n % 3 ? n / 2 : n + 1; }
    int main(int argc, char **argv) {
        volatile int sum = 0;
        for (int n = 0; n < atoi(argv[1]); n++) sum += step(n);
        return 0;
    }"#;

/// Compiles the source, or what is made of it, into `name`.
fn compile(dir: &Dir, name: &str, source: &str) {
    let path = dir.0.join(name);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("directory");
    let file = dir.0.join("program.c");
    std::fs::write(&file, source).expect("source");
    let done = Command::new("cc")
        .args(["-O1", "-Wl,--build-id", "-o"])
        .args([&path, &file])
        .status();
    assert!(done.expect("cc").success());
}

fn record(dir: &Dir, options: &[&str], file: &str, program: &str, turns: &str) {
    let head = ["record", "--quiet"];
    let tail = ["-o", file, "--", program, turns];
    dir.trommel(&[&head, options, &tail].concat());
}

/// Runs a command that may fail.
fn run(dir: &Dir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command.args(args).current_dir(&dir.0).stdin(Stdio::null());
    command.output().expect("trommel runs")
}

type Place = (String, Option<String>, u64);

/// Counts of a report's branches and calls, by places that do not depend on the profile.
fn counts(report: &Value) -> BTreeMap<(String, Place, Place), u64> {
    let place = |at: &Value| {
        let module = &report["modules"][at["module"].as_u64().expect("module") as usize];
        let text = |name: &str| module[name].as_str().map(str::to_owned);
        (
            text("path").expect("path"),
            text("build_id"),
            at["vaddr"].as_u64().expect("vaddr"),
        )
    };
    let mut all = BTreeMap::new();
    for list in ["edges", "calls"] {
        for entry in report[list].as_array().expect("list") {
            let kind = format!("{list} {}", entry["kind"]);
            let key = (kind, place(&entry["from"]), place(&entry["to"]));
            all.insert(key, entry["count"].as_u64().expect("count"));
        }
    }
    all
}

/// Self instructions and calls of each function.
fn functions(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let list = report["functions"].as_array().expect("functions");
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for function in list {
        let module = &report["modules"][function["module"].as_u64().expect("module") as usize];
        let key = format!(
            "{}:{}:{}",
            module["path"], function["name"], function["start"]
        );
        let number = |name: &str| function[name].as_u64().expect("number");
        let sum = all.entry(key).or_default();
        *sum = (sum.0 + number("self"), sum.1 + number("calls"));
    }
    all
}

fn plus<K: Ord + Clone>(a: &BTreeMap<K, u64>, b: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let mut sum = a.clone();
    for (key, count) in b {
        *sum.entry(key.clone()).or_default() += count;
    }
    sum
}

#[test]
fn the_report_of_a_sum_is_the_sum_of_reports() {
    let dir = Dir::new("merge-sums");
    compile(&dir, "app", SOURCE);
    record(
        &dir,
        &["--exact-values", "-e", "edge,call,value"],
        "a.data",
        "./app",
        "1000",
    );
    record(
        &dir,
        &["--exact-values", "-e", "edge,call,value"],
        "b.data",
        "./app",
        "700",
    );
    let said = dir.json(&["merge", "--json", "a.data", "b.data", "-o", "ab.data"]);
    assert_eq!(said["schema"], "trommel.merge/1");
    assert_eq!(
        (&said["recordings"], &said["processes"]),
        (&2.into(), &2.into())
    );
    assert_eq!(said["basis"], "exact");
    assert_eq!(said["builds"], Value::Array(Vec::new()));
    dir.trommel(&["merge", "b.data", "a.data", "-o", "ba.data"]);
    dir.trommel(&["merge", "a.data", "-o", "alone.data"]);
    let bytes = |name: &str| std::fs::read(dir.0.join(name)).expect("file");
    assert!(
        bytes("ab.data") == bytes("ba.data"),
        "the order of the inputs shows"
    );

    let [a, b, ab, alone] = ["a.data", "b.data", "ab.data", "alone.data"]
        .map(|file| dir.json(&["report", "--json", file]));
    assert_eq!(counts(&ab), plus(&counts(&a), &counts(&b)));
    assert_eq!(counts(&alone), counts(&a));
    assert_eq!(functions(&alone), functions(&a));
    for kind in ["edge", "call"] {
        let seen = |report: &Value| report["events"][kind]["seen"].as_u64().expect("seen");
        assert_eq!(seen(&ab), seen(&a) + seen(&b));
    }
    assert_eq!(ab["sum"]["recordings"], 2);
    assert!(a.get("sum").is_none());

    // What all commands read.
    dir.trommel(&["annotate", "ab.data", "step"]);
    let csv = dir.trommel(&["export", "--format", "csv", "-o", "-", "ab.data"]);
    assert!(!csv.is_empty());
    dir.trommel(&["values", "ab.data"]);
    let twice = dir.json(&["diff", "--json", "a.data", "ab.data"]);
    assert!(twice["change_percent"].as_f64().expect("change") > 1.0);
    let same = dir.json(&["diff", "--json", "a.data", "alone.data"]);
    assert_eq!(same["change_percent"], 0.0);
    // A sum is an input, and may be the output.
    dir.trommel(&["merge", "ab.data", "a.data", "-o", "ab.data"]);
    let more = dir.json(&["report", "--json", "ab.data"]);
    assert_eq!(counts(&more), plus(&counts(&ab), &counts(&a)));
    assert_eq!(
        (&more["sum"]["recordings"], &more["sum"]["processes"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn what_is_refused_says_why_and_leaves_no_file() {
    let dir = Dir::new("merge-refused");
    compile(&dir, "app", SOURCE);
    record(&dir, &["-e", "edge,call"], "exact.data", "./app", "1000");
    record(
        &dir,
        &["-e", "edge,call", "-c", "P16"],
        "sampled.data",
        "./app",
        "1000",
    );
    record(&dir, &["-e", "edge"], "edges.data", "./app", "1000");
    let whole = std::fs::read(dir.0.join("exact.data")).expect("file");
    std::fs::write(dir.0.join("cut.data"), &whole[..whole.len() / 2]).expect("file");
    let mut wrong = whole.clone();
    wrong[whole.len() / 2] ^= 1;
    std::fs::write(dir.0.join("wrong.data"), wrong).expect("file");
    std::fs::create_dir(dir.0.join("empty")).expect("directory");
    std::fs::write(dir.0.join("kept.data"), "before").expect("file");
    for (input, words) in [
        ("sampled.data", "estimates of P16"),
        ("edges.data", "holds the kinds edge,"),
        ("cut.data", "cut.data"),
        ("wrong.data", "wrong.data"),
        ("nowhere.data", "no such file"),
        ("empty", "no epochs"),
    ] {
        let out = run(&dir, &["merge", "exact.data", input, "-o", "kept.data"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{input}: {said}");
        assert!(
            said.contains(words) && said.contains(input),
            "{input}: {said}"
        );
        let kept = std::fs::read(dir.0.join("kept.data")).expect("file");
        assert_eq!(kept, b"before", "{input}");
    }
    let out = run(&dir, &["merge", "exact.data", "-o", "no/where.data"]);
    assert_eq!(out.status.code(), Some(1));
    let out = run(
        &dir,
        &["merge", "--since", "2h", "exact.data", "-o", "x.data"],
    );
    assert!(String::from_utf8_lossy(&out.stderr).contains("--since"));
    let names: Vec<String> = std::fs::read_dir(&dir.0)
        .expect("directory")
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.contains("tmp") || name.starts_with("x.") || name.contains("old"))
        .collect();
    assert_eq!(names, [""; 0], "left behind");
}

#[test]
fn builds_are_kept_apart_and_it_is_said_how_much_of_the_older_one_fits() {
    let dir = Dir::new("merge-builds");
    compile(&dir, "old/app", SOURCE);
    compile(
        &dir,
        "new/app",
        &SOURCE.replace(
            "sum += step(n);",
            "if (n & 1) sum += step(n); else sum ^= n;",
        ),
    );
    record(
        &dir,
        &["-e", "edge,call", "--only", "app"],
        "old.data",
        "old/app",
        "1000",
    );
    record(
        &dir,
        &["-e", "edge,call", "--only", "app"],
        "new.data",
        "new/app",
        "1000",
    );
    let said = dir.json(&["merge", "--json", "new.data", "old.data", "-o", "both.data"]);
    let builds = said["builds"].as_array().expect("builds");
    let paths: Vec<_> = builds
        .iter()
        .map(|b| b["path"].as_str().expect("path"))
        .collect();
    assert!(
        paths[0].ends_with("new/app") && paths[1].ends_with("old/app"),
        "{paths:?}"
    );
    assert_eq!(
        (&builds[0]["newest"], &builds[0]["fits"]),
        (&true.into(), &Value::Null)
    );
    // `step` has 1000 branches in it, and `main` is another function now.
    let (fits, events) = (&builds[1]["fits"], &builds[1]["events"]);
    let kept = fits.as_f64().expect("known") * events.as_f64().expect("events");
    assert!((kept.round() as u64).abs_diff(1000) < 20, "{said}");
    // Each is as it was.
    let [old, new, both] = ["old.data", "new.data", "both.data"]
        .map(|file| counts(&dir.json(&["report", "--json", file])));
    assert_eq!(both, plus(&old, &new));
    // A file that is gone tells nothing.
    std::fs::remove_file(dir.0.join("old/app")).expect("removed");
    let out = run(&dir, &["merge", "new.data", "old.data", "-o", "both.data"]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.contains("2 builds") && text.contains("is not known: "),
        "{text}"
    );
    let said = dir.json(&["merge", "--json", "old.data", "new.data", "-o", "both.data"]);
    assert_eq!(said["builds"][1]["fits"], Value::Null);
    assert!(said["builds"][1]["fits_unknown"].is_string());
}
