//! The program of benchmarks `benches/own.rs`, as `cargo bench` builds and runs it.
//!
//! `TROMMEL_BIN` names the command; `cargo xtask check benchmark` builds it and sets that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A directory that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trommel-benchmark-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program of benchmarks.
fn own() -> &'static Path {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    OWN.get_or_init(|| {
        let done = Command::new(env!("CARGO"))
            .args(["bench", "--locked", "--no-run", "--bench", "own"])
            .args(["--message-format", "json"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(done.status.success(), "{}", text(&done.stderr));
        let found = text(&done.stdout).lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let is = line["target"]["name"] == "own";
            Some(line["executable"].as_str().filter(|_| is)?.into())
        });
        found.expect("cargo names the executable")
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program of benchmarks with the command that is tested.
fn benchmarks(line: &str) -> Command {
    let trommel = std::env::var_os("TROMMEL_BIN");
    let trommel = trommel.expect("TROMMEL_BIN is not set: run `cargo xtask check benchmark`");
    let mut command = Command::new(own());
    command
        .env("TROMMEL", trommel)
        .args(line.split_whitespace());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

/// The results as JSON.
fn results(command: &mut Command) -> Vec<Value> {
    let done = run(command.arg("--json"));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let document: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(document["schema"], "trommel.benchmark/1");
    document["benchmarks"].as_array().expect("a list").clone()
}

fn instructions(result: &Value) -> u64 {
    result["instructions"].as_u64().expect("instructions")
}

/// Instructions of one benchmark by callgrind.
fn by_callgrind(name: &str, scratch: &Scratch) -> u64 {
    let out = scratch.path("callgrind.out");
    let done = Command::new("valgrind")
        .args(["-q", "--tool=callgrind"])
        .arg("--toggle-collect=trommel_benchmark::measured*")
        .arg(format!("--callgrind-out-file={out}"))
        .arg(own())
        .args(["--counted-by-trommel", name])
        .env("GLIBC_TUNABLES", BASELINE)
        .output()
        .expect("valgrind runs");
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = fs::read_to_string(&out).expect("callgrind's output");
    let sum = out.lines().find_map(|line| line.strip_prefix("summary: "));
    sum.and_then(|sum| sum.trim().parse().ok()).expect("a sum")
}

/// The C library has `memcpy` for each kind of processor, and valgrind simulates another one than this. So both take that of all processors.
const BASELINE: &str = "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS";

#[test]
fn counts_are_the_same_in_each_run_and_in_any_environment() {
    let scratch = Scratch::new();
    let kept = scratch.path("kept.json");
    let first = run(&mut benchmarks(&format!("--save-baseline {kept}")));
    assert!(first.status.success(), "{}", text(&first.stderr));
    // One benchmark alone, with a larger environment and from another directory.
    for name in ["nothing", "recursion", "sieve", "sorting", "copying"] {
        let mut again = benchmarks(&format!("--exact {name} --baseline {kept}"));
        again.env("OTHER", "x".repeat(7777)).current_dir(&scratch.0);
        let [result] = &results(&mut again)[..] else {
            panic!("{name} is one benchmark");
        };
        assert_eq!(result["change_percent"], 0.0, "{result}");
        assert_eq!(result["before"], result["instructions"]);
    }
}

#[test]
fn setup_and_dropping_are_not_counted() {
    let all = results(&mut benchmarks(""));
    let of = |name| all.iter().find(|one| one["name"] == name).expect(name);
    let nothing = instructions(of("nothing"));
    assert!(nothing < 5, "{nothing}");
    // 2000 bytes are set up, and freed.
    let sieve = of("sieve");
    assert_eq!(sieve["calls"], 0, "{sieve}");
    // Each call of the recursive function but the first, which may be a jump.
    let calls = of("recursion")["calls"].as_u64().expect("calls");
    assert!(calls > 100, "{calls}");
}

#[test]
fn counts_equal_those_of_callgrind() {
    let scratch = Scratch::new();
    let names = "nothing recursion sieve sorting copying";
    let all = results(benchmarks(names).env("GLIBC_TUNABLES", BASELINE));
    for one in &all {
        let name = one["name"].as_str().expect("a name");
        assert_eq!(instructions(one), by_callgrind(name, &scratch), "{name}");
    }
    assert_eq!(all.len(), 5);
}

#[test]
fn more_instructions_than_allowed_are_status_3() {
    let scratch = Scratch::new();
    let kept = scratch.path("kept.json");
    assert!(
        run(&mut benchmarks(&format!("sieve --save-baseline {kept}")))
            .status
            .success()
    );
    let written = fs::read_to_string(&kept).expect("a baseline");
    let document: Value = serde_json::from_str(&written).expect("JSON");
    let now = instructions(&document["benchmarks"][0]);
    let before = now * 100 / 102;
    let fewer = written.replace(&now.to_string(), &before.to_string());
    fs::write(&kept, fewer).expect("written");
    for (most, status) in [("1%", 3), ("3", 0)] {
        let line = format!("sieve nothing --baseline {kept} --fail-above {most}");
        let done = run(&mut benchmarks(&line));
        assert_eq!(done.status.code(), Some(status), "{}", text(&done.stdout));
        let out = text(&done.stdout);
        assert!(out.contains("+2.0") && out.contains("new"), "{out}");
        assert_eq!(text(&done.stderr).contains("sieve: +2.0"), status == 3);
    }
}

#[test]
fn a_baseline_that_is_not_there_is_an_error() {
    let done = run(&mut benchmarks("nothing --baseline no-such-baseline"));
    assert_eq!(done.status.code(), Some(1));
    let said = text(&done.stderr);
    assert!(said.contains("--save-baseline no-such-baseline"), "{said}");
}

#[test]
fn a_benchmark_that_panics_fails_and_the_others_are_counted() {
    let done = run(benchmarks("--bench nothing panicking").env("PANIC", "1"));
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stdout).contains("nothing "),
        "{}",
        text(&done.stdout)
    );
    assert!(
        text(&done.stderr).contains("as PANIC asks for"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn without_the_command_each_benchmark_runs_once_and_counts_cannot_be_asked_for() {
    let without = |line: &str| {
        let mut command = benchmarks(line);
        run(command.env_remove("TROMMEL").env("PATH", "/nowhere"))
    };
    let once = without("--bench");
    assert!(once.status.success(), "{}", text(&once.stderr));
    assert!(text(&once.stdout).contains("sorting: ran once"));
    assert!(text(&once.stderr).contains("`trommel` is not in PATH"));
    let asked = without("--bench --fail-above 1%");
    assert_eq!(asked.status.code(), Some(1));
    let wrong = run(benchmarks("--bench").env("TROMMEL", "/nowhere/trommel"));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("/nowhere/trommel"));
}

#[test]
fn runners_of_tests_find_the_benchmarks() {
    let list = run(&mut benchmarks("--list --format terse"));
    let lines = text(&list.stdout);
    assert_eq!(lines.lines().count(), 6, "{lines}");
    assert!(lines.contains("sieve: benchmark"), "{lines}");
    assert!(run(&mut benchmarks("--list --ignored")).stdout.is_empty());
    let test = run(&mut benchmarks("sieve --exact --nocapture"));
    assert_eq!(text(&test.stdout), "sieve: ran once\n");
    let unknown = run(&mut benchmarks("no_such_benchmark"));
    assert_eq!(unknown.status.code(), Some(1));
}
