//! Units of executed code: what windows share out is time, and is called so wherever it is shown. What was counted is called instructions.

mod common;
#[path = "common/compile.rs"]
mod compile;

use std::process::Command;

use common::Dir;
use serde_json::Value;

/// A program that spends about as much time in code that waits for memory as in code that computes, and prints how much, in nanoseconds.
/// The first executes a hundredth of the instructions.
const SOURCE: &str = r#"
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    #define NODES (1 << 23)
    __attribute__((noinline)) uint64_t wait(const uint64_t *next, uint64_t at, long n) {
        while (n--) at = next[at];
        return at;
    }
    __attribute__((noinline)) uint64_t compute(uint64_t x, long n) {
        uint64_t y = x ^ 1, z = x ^ 2;
        while (n--) { x += x << 3; y ^= y << 5; z += z >> 7; }
        return x ^ y ^ z;
    }
    static double now(void) {
        struct timespec t;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec * 1e9 + t.tv_nsec;
    }
    int main(void) {
        uint64_t *next = malloc(NODES * sizeof *next), x = 1;
        // A random walk of full period.
        for (uint64_t n = 0; n < NODES; n++) next[n] = (n * 6364136223846793005u + 1442695040888963407u) % NODES;
        double of[2] = { 0, 0 };
        for (int turn = 0; turn < 24; turn++) {
            double begin = now();
            x = wait(next, x % NODES, 50000);
            double middle = now();
            x = compute(x, 3000000);
            of[0] += middle - begin;
            of[1] += now() - middle;
        }
        printf("%.0f %.0f %d\n", of[0], of[1], x == 0);
        return 0;
    }"#;

/// Records the program with options, and returns the report and the times that the program printed.
fn record(dir: &Dir, options: &[&str], data: &str) -> (Value, [f64; 2]) {
    let tail = ["-o", data, "--", "./app"];
    let out = dir.trommel(&[&["record", "--quiet"], options, &tail].concat());
    let out = String::from_utf8(out).expect("text");
    let times: Vec<f64> = out.split(' ').flat_map(|n| n.trim().parse()).collect();
    let report = dir.json(&["report", "--json", data]);
    (report, [times[0], times[1]])
}

/// The amount of `wait`, in parts of it and `compute`.
fn part(report: &Value) -> f64 {
    let functions = report["functions"].as_array().expect("functions");
    let of = |name: &str| {
        let found = functions.iter().find(|f| f["name"] == name);
        found.map_or(0.0, |f| f["self"].as_f64().expect("a number"))
    };
    of("wait") / (of("wait") + of("compute"))
}

fn text(dir: &Dir, args: &[&str]) -> String {
    String::from_utf8(dir.trommel(args)).expect("text")
}

#[test]
fn windows_share_out_time_and_counts_are_instructions() {
    let dir = Dir::new("units");
    compile::compile(&dir.0, "app", &["-O2"], SOURCE);
    let (windows, [waited, computed]) = record(&dir, &["--rate", "1000"], "w.data");
    assert_eq!(windows["unit"], "cycles");
    let time = waited / (waited + computed);
    // Of some hundred windows each, and the program's clock has the windows' own time in it.
    assert!(
        (part(&windows) - time).abs() < 0.15,
        "{} {time}",
        part(&windows)
    );
    let (exact, _) = record(&dir, &["-e", "edge,call"], "e.data");
    assert_eq!(exact["unit"], "instructions");
    // Three instructions a turn, and about nine.
    let executed = 150e3 / (150e3 + 3e6 * 9.0);
    assert!(
        (part(&exact) / executed - 1.0).abs() < 0.4,
        "{}",
        part(&exact)
    );
    assert!(time > 20.0 * executed, "it waits for memory: {time}");
    for (data, unit, column, event) in [
        ("w.data", "cycles of CPU time", "cycles", "events: Cycles"),
        ("e.data", "instructions", "executions", "events: Ir"),
    ] {
        let report = text(&dir, &["report", data]);
        let functions = report
            .lines()
            .find(|l| l.starts_with("# Functions of the program"));
        assert!(functions.is_some_and(|l| l.contains(unit)), "{report}");
        let loops = report.lines().find(|l| l.starts_with("# Loops"));
        assert!(loops.is_some_and(|l| l.contains(unit)), "{report}");
        let annotated = text(&dir, &["annotate", data, "compute"]);
        let head = annotated
            .lines()
            .find(|l| l.contains("address  instruction"));
        assert!(head.is_some_and(|l| l.contains(column)), "{annotated}");
        for format in ["callgrind", "cachegrind"] {
            let written = text(&dir, &["export", "-f", format, data, "-o", "-"]);
            assert!(written.lines().any(|l| l == event), "{format}");
        }
        let csv = text(&dir, &["export", "-f", "csv", data, "-o", "-"]);
        let titles = csv.lines().next().expect("titles");
        let last = unit.split(' ').next().expect("a word");
        assert!(titles.ends_with(&format!(",{last}")), "{titles}");
        let difference = dir.json(&["diff", "--json", data, data]);
        assert_eq!(difference["before"]["unit"], *last);
    }
    // Time and instructions have no difference.
    let done = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["diff", "w.data", "e.data"])
        .current_dir(&dir.0)
        .output()
        .expect("trommel runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        !done.status.success() && said.contains("record both in windows, or neither"),
        "{said}"
    );
}
