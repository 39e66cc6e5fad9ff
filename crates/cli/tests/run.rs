//! `trommel run`: the program as it would be, and statistics of what the engine did.

#[path = "../../conformance/src/not_tested.rs"]
#[allow(unreachable_pub)] // reason: it is a public module of its own crate.
mod not_tested;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use not_tested::not_tested;
use trommel_aware::{Answer, Counts};

fn trommel(args: &[&str]) -> Output {
    stressed("", args)
}

/// Runs it under stress options.
fn stressed(stress: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(args)
        .env("TROMMEL_STRESS", stress)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs")
}

/// A program with one hot loop, whose path goes through calls of the C library.
const LOOP: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; echo $i; (exit 7)";

/// Returns the statistics of a run with `options`.
fn stats(stress: &str, options: &[&str]) -> Value {
    let dir = std::env::temp_dir().join(format!(
        "trommel-run-{}-{}",
        std::process::id(),
        stress.len()
    ));
    std::fs::create_dir_all(&dir).expect("temp dir");
    let file = dir.join("stats").to_string_lossy().into_owned();
    let mut args = vec!["run", "--stats", &file];
    args.extend(options);
    args.extend(["--", "sh", "-c", LOOP]);
    let out = stressed(stress, &args);
    assert_eq!(out.status.code(), Some(7));
    assert_eq!(out.stdout, b"3000\n");
    assert!(out.stderr.is_empty(), "{:?}", String::from_utf8(out.stderr));
    let text = std::fs::read(&file).expect("statistics");
    std::fs::remove_dir_all(dir).expect("clean");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn a_hot_loop_becomes_traces_unless_they_are_not_wanted() {
    let with = stats("", &["--no-bail-out"]);
    assert_eq!(with["schema"], "trommel.stats/1");
    assert_eq!(with["status"], 7);
    assert_eq!(with["command"][0], "sh");
    let number = |stats: &Value, name: &str| stats["processes"][0][name].as_u64().expect("number");
    let traces = number(&with, "traces");
    assert!(traces > 0, "{with}");
    assert!(number(&with, "trace_instructions") >= 2 * traces, "{with}");
    assert!(number(&with, "trace_bytes") > 0, "{with}");
    let without = stats("no-traces", &["--no-bail-out"]);
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
fn a_compiler_on_a_small_file_is_detach() {
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
    let detach = stats["processes"].as_array().into_iter().flatten();
    let bailed = detach.filter(|p| p["let_go"].to_string().contains("did not pay off"));
    assert!(bailed.count() > 0, "{stats}");
    std::fs::remove_dir_all(dir).expect("clean");
}

#[test]
fn a_program_that_stays_in_its_cache_is_kept_if_that_pays() {
    let program = std::env::temp_dir().join(format!("trommel-run-pays-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pays/pays.c");
    let built = Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let path = program.to_string_lossy();
    let shares = |stats: &Value| {
        let of = |name| number(stats, name);
        let (app, added) = (of("samples_app"), of("samples_added"));
        (app, app + added + of("samples_runtime"))
    };
    let kept = stats_of("loop", &[], &[&path, "loop"]);
    let (app, all) = shares(&kept);
    if all == 0 {
        not_tested("what is detached for its samples: perf events are refused here");
        return;
    }
    assert_eq!(kept["processes"][0]["let_go"], Value::Array(vec![]));
    assert!(app * 10 > all * 8, "{kept}");
    for kind in ["calls", "threads"] {
        let stats = stats_of(kind, &[], &[&path, kind]);
        let detach = stats["processes"][0]["let_go"].to_string();
        assert!(detach.contains("did not pay off"), "{kind}: {stats}");
        let (app, all) = shares(&stats);
        // Or before there were samples, as a return goes to either of two places.
        let fickle = number(&stats, "fickle_branches") > 0;
        assert!(fickle || app * 10 < all * 8, "{kind}: {stats}");
        // Nobody came to the dispatcher for it.
        assert!(number(&stats, "dispatches") < 20_000, "{stats}");
    }
    std::fs::remove_file(program).expect("clean");
}

/// A function that is called from so many places, between which there is no branch: as a hash function calls its rotation at `-O0`.
fn rounds(calls: u32) -> String {
    let calls: String = (0..calls)
        .map(|n| {
            format!(
                "    v[{}] = turn(v[{}] + {n}, {});\n",
                n % 7,
                n % 5,
                n % 31 + 1
            )
        })
        .collect();
    format!(
        r#"
#include <stdio.h>
static unsigned turn(unsigned x, unsigned by) {{ return x << by | x >> (32 - by); }}
static void far(void) {{ __asm__ volatile(".skip 16384, 0x90"); }}
static void rounds(unsigned *v)
{{
    for (int i = 0; i < 7; i++) v[i] ^= i;
{calls}}}
int main(int argc, char **argv)
{{
    unsigned v[7] = {{0}};
    if (argc > 100) far();
    for (int n = 0; n < 30000; n++) rounds(v);
    printf("%u\n", v[0] ^ v[3]);
    return 0;
}}
"#
    )
}

#[test]
fn what_lies_between_calls_becomes_traces() {
    const CALLS: u32 = 300;
    let name = format!("trommel-run-turns-{}", std::process::id());
    let program = std::env::temp_dir().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O0", "-x", "c", "-o"]).arg(&program).arg("-");
    let mut gcc = gcc.stdin(Stdio::piped()).spawn().expect("gcc");
    let source = gcc.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut { source }, rounds(CALLS).as_bytes()).expect("written");
    assert!(gcc.wait().is_ok_and(|status| status.success()));
    let path = program.to_string_lossy();
    let native = Command::new(&program).output().expect("it runs");
    let options = ["--after", "0", "--no-bail-out", "--no-persist"];
    let out = trommel(&[&["run"][..], &options, &["--", &path]].concat());
    assert_eq!((&out.stdout, out.status.code()), (&native.stdout, Some(0)));
    let stats = stats_of("rounds", &options, &[&path]);
    std::fs::remove_file(&program).expect("clean");
    // Each call and what it calls are at least twelve instructions, and lie in a trace once, or twice where one ends.
    let instructions = number(&stats, "trace_instructions");
    let least = u64::from(CALLS) * 12;
    assert!((least..2 * least + 4000).contains(&instructions), "{stats}");
    let lengths = stats["processes"][0]["trace_lengths"].as_array();
    let long = |class: &&Value| class["from"].as_u64() >= Some(128);
    let long = lengths.expect("a list").iter().filter(long);
    let long: u64 = long.filter_map(|class| class["traces"].as_u64()).sum();
    assert!(long >= 10, "{stats}");
}

/// The statistics of a program that ends well.
fn stats_of(name: &str, options: &[&str], program: &[&str]) -> Value {
    stressed_stats_of("", name, options, program)
}

fn stressed_stats_of(stress: &str, name: &str, options: &[&str], program: &[&str]) -> Value {
    let file = std::env::temp_dir().join(format!("trommel-run-{name}-{}", std::process::id()));
    let path = file.to_string_lossy().into_owned();
    let args = [&["run", "--stats", &path][..], options, &["--"], program].concat();
    let out = stressed(stress, &args);
    assert!(out.status.success(), "{args:?}: {out:?}");
    let text = std::fs::read(&file).expect("statistics");
    std::fs::remove_file(&file).expect("clean");
    serde_json::from_slice(&text).expect("JSON")
}

fn number(stats: &Value, name: &str) -> u64 {
    stats["processes"][0][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {stats}"))
}

/// Some work of a shell, again and again.
const WORK: &str =
    "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); case $i in *7) x=$i;; *3) x=${x#1};; esac; done";

#[test]
fn a_bounded_cache_is_flushed_and_stays_within_its_bounds() {
    let all = stats_of("whole", &["--no-bail-out"], &["sh", "-c", WORK]);
    assert_eq!(number(&all, "flushes_full"), 0, "{all}");
    let bound = 96 << 10;
    let options = ["--no-bail-out", "--cache", "96k"];
    let stats = stats_of("bounded", &options, &["sh", "-c", WORK]);
    assert!(number(&stats, "flushes_full") > 0, "{stats}");
    assert!(number(&all, "cache_bytes") > bound, "{all}");
    // A fragment or trace may come on top.
    let most = bound + (32 << 10);
    let series = stats["processes"][0]["series"].as_array().expect("list");
    assert!(
        series
            .iter()
            .all(|s| s["cache_bytes"].as_u64().is_some_and(|b| b < most))
    );
}

#[test]
fn a_working_set_that_changes_is_flushed() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/dynamo/phases.pl");
    // Each phase lasts for long enough to be one on a fast machine, too.
    let stats = stats_of("phases", &["--no-bail-out"], &["perl", script, "3"]);
    assert!(number(&stats, "flushes_phase") > 0, "{stats}");
    // Traces were made in each phase, and few in between.
    let series = stats["processes"][0]["series"].as_array().expect("list");
    let of = |sample: &Value, name: &str| sample[name].as_u64().expect("number");
    let flushed = series
        .windows(2)
        .find(|pair| of(&pair[1], "flushes_phase") == 1);
    let at = flushed.map(|pair| of(&pair[1], "cpu_ns")).expect("a flush");
    let traces = |from: u64, to: u64| {
        let within = series
            .iter()
            .filter(|s| (from..=to).contains(&of(s, "cpu_ns")));
        let counts: Vec<u64> = within.map(|s| of(s, "traces")).collect();
        counts.last().unwrap_or(&0) - counts.first().unwrap_or(&0)
    };
    let (calm, burst) = (
        traces(
            at.saturating_sub(250_000_000),
            at.saturating_sub(60_000_000),
        ),
        traces(at.saturating_sub(60_000_000), at + 60_000_000),
    );
    assert!(
        burst > 2 * calm,
        "{calm} traces before, {burst} at the flush at {at}"
    );
}

#[test]
fn each_of_the_engines_means_can_be_turned_off() {
    let run =
        |name, stress| stressed_stats_of(stress, name, &["--no-bail-out"], &["sh", "-c", WORK]);
    let all = run("all", "");
    assert!(
        number(&all, "links") > 0 && number(&all, "traces") > 0,
        "{all}"
    );
    let unlinked = run("unlinked", "no-link");
    assert_eq!(number(&unlinked, "links"), 0, "{unlinked}");
    assert!(number(&unlinked, "traces") > 0, "{unlinked}");
    assert!(number(&unlinked, "dispatches") > 10 * number(&all, "dispatches"));
    let no_returns = run("returns", "no-returns");
    assert!(number(&no_returns, "traces") > 0, "{no_returns}");
    let lengths = |stats: &Value| number(stats, "trace_instructions") / number(stats, "traces");
    assert!(lengths(&no_returns) < lengths(&all), "{no_returns}\n{all}");
    let sums = all["processes"][0]["trace_lengths"]
        .as_array()
        .expect("list");
    let sum: u64 = sums
        .iter()
        .filter_map(|class| class["traces"].as_u64())
        .sum();
    assert_eq!(sum, number(&all, "traces"));
}

/// Program that the next test runs under trommel. By itself it does what a program does without Trommel.
#[test]
fn a_program_that_knows_of_us() {
    let mut counts = Counts::default();
    let under = trommel_aware::present();
    assert!(under.is_none_or(|version| version == trommel_aware::VERSION));
    let expected = if under.is_some() {
        Answer::Done
    } else {
        Answer::Absent
    };
    let code = a_program_that_knows_of_us as *const u8;
    assert_eq!(trommel_aware::hot(code..code.wrapping_add(64)), expected);
    assert_eq!(trommel_aware::stop(), expected);
    assert_eq!(trommel_aware::start(), expected);
    assert_eq!(trommel_aware::counts(&mut counts), expected);
    assert_eq!(counts.requests > 0, under.is_some());
    if std::env::var_os("TROMMEL_AWARE").is_some() {
        assert!(under.is_some(), "it should have been");
        let wrong = trommel_aware::volatile(code..code);
        assert_eq!(wrong, Answer::Wrong);
        assert_eq!(trommel_aware::leave(), Answer::Done);
        assert_eq!(trommel_aware::present(), None);
    }
}

#[test]
fn requests_are_answered() {
    let me = std::env::current_exe().expect("this program");
    let me = me.to_string_lossy();
    let test = ["--exact", "a_program_that_knows_of_us", "--test-threads=1"];
    let aware = ["env", "TROMMEL_AWARE=1", &me];
    let stats = stats_of("aware", &["--no-bail-out"], &[&aware[..], &test].concat());
    let processes = stats["processes"].as_array().expect("list");
    let requests = |p: &Value| p["requests"].as_u64().unwrap_or(0);
    assert!(processes.iter().map(requests).sum::<u64>() >= 7, "{stats}");
}

#[test]
fn errors_name_what_is_wrong() {
    let out = trommel(&["run", "--cache", "10", "--", "/bin/true"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("64k"));
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
