//! `trommel run`: the program as it would be, and statistics of what the engine did.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn trommel(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs")
}

/// A program with one hot loop, whose path goes through calls of the C library.
const LOOP: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; echo $i; (exit 7)";

/// What a run with `options` wrote to its statistics.
fn stats(options: &[&str]) -> Value {
    let dir = std::env::temp_dir().join(format!(
        "trommel-run-{}-{}",
        std::process::id(),
        options.len()
    ));
    std::fs::create_dir_all(&dir).expect("temp dir");
    let file = dir.join("stats").to_string_lossy().into_owned();
    let mut args = vec!["run", "--stats", &file];
    args.extend(options);
    args.extend(["--", "sh", "-c", LOOP]);
    let out = trommel(&args);
    assert_eq!(out.status.code(), Some(7));
    assert_eq!(out.stdout, b"3000\n");
    assert!(out.stderr.is_empty(), "{:?}", String::from_utf8(out.stderr));
    let text = std::fs::read(&file).expect("statistics");
    std::fs::remove_dir_all(dir).expect("clean");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn a_hot_loop_becomes_traces_unless_they_are_not_wanted() {
    let with = stats(&["--no-bail-out"]);
    assert_eq!(with["schema"], "trommel.stats/1");
    assert_eq!(with["status"], 7);
    assert_eq!(with["command"][0], "sh");
    let number = |stats: &Value, name: &str| stats["processes"][0][name].as_u64().expect("number");
    let traces = number(&with, "traces");
    assert!(traces > 0, "{with}");
    assert!(number(&with, "trace_instructions") >= 2 * traces, "{with}");
    assert!(number(&with, "trace_bytes") > 0, "{with}");
    let without = stats(&["--no-traces", "--no-bail-out"]);
    assert_eq!(number(&without, "traces"), 0, "{without}");
    assert!(number(&without, "fragments") > 0, "{without}");
}

#[test]
fn every_process_is_in_the_statistics() {
    let args = ["run", "--stats", "-", "--", "sh", "-c", "/bin/true; exit 0"];
    let out = trommel(&args);
    let stats: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let commands = stats["processes"].as_array().expect("list");
    let is_true = |p: &&Value| p["command"][0] == "/bin/true";
    assert!(commands.iter().filter(is_true).count() == 1, "{stats}");
}

#[test]
fn a_compiler_on_a_small_file_is_let_go() {
    let dir = std::env::temp_dir().join(format!("trommel-run-cc-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temp dir");
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    std::fs::write(path("x.c"), "int f(int x) { return x * 3; }\n").expect("source");
    let (stats, source, object) = (path("stats"), path("x.c"), path("x.o"));
    let compiler = ["gcc", "-O2", "-c", &source, "-o", &object];
    let out = trommel(&[&["run", "--stats", &stats, "--"][..], &compiler].concat());
    assert!(out.status.success() && out.stderr.is_empty());
    assert!(std::fs::metadata(&object).is_ok_and(|m| m.len() > 0));
    let text = std::fs::read(&stats).expect("statistics");
    let stats: Value = serde_json::from_slice(&text).expect("JSON");
    let let_go = stats["processes"].as_array().into_iter().flatten();
    let bailed = let_go.filter(|p| p["let_go"].to_string().contains("not made faster"));
    assert!(bailed.count() > 0, "{stats}");
    std::fs::remove_dir_all(dir).expect("clean");
}

#[test]
fn errors_name_what_is_wrong() {
    let out = trommel(&["run", "--", "/no/such/program"]);
    assert_eq!(out.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/no/such/program"));
    let out = trommel(&["run", "--stats", "/no/such/dir/file", "--", "/bin/true"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/no/such/dir/file"));
    let out = trommel(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    let signal = std::os::unix::process::ExitStatusExt::signal(&out.status);
    assert_eq!(signal, Some(15));
}
