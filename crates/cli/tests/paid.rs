//! Cost of a budget: one definition, for programs that sleep, compute, and compute in threads.

mod common;
#[path = "common/compile.rs"]
mod compile;

use std::process::{Command, Stdio};

use common::Dir;
use serde_json::Value;

/// Computes so many turns in each of some threads, with as many naps, of a millisecond each, between them.
const SOURCE: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    static long turns, naps;
    static void *run(void *unused) {
        volatile unsigned long sum = 1;
        for (long nap = 0; nap <= naps; nap++) {
            for (long turn = 0; turn < turns / (naps + 1); turn++) sum = sum * 31 + (sum >> 7);
            if (naps) usleep(1000);
        }
        return unused;
    }
    int main(int count, char **words) {
        pthread_t threads[2];
        int number = atoi(words[1]);
        turns = atol(words[2]);
        naps = atol(words[3]);
        for (int n = 0; n < number; n++) pthread_create(&threads[n], 0, run, 0);
        for (int n = 0; n < number; n++) pthread_join(threads[n], 0);
        return count - 4;
    }"#;

/// Turns of a second and a half of CPU time or so.
const BUSY: &str = "1200000000";

/// Checks the account of a report, and returns it with its line in words.
fn account(dir: &Dir) -> (Value, String) {
    let report = dir.json(&["report", "--json", "p.data"]);
    let windows = report["windows"].clone();
    let of = |name: &str| windows[name].as_f64().expect("a number");
    let percent = |part: f64| 100.0 * part / of("cpu_ns").max(1.0);
    let target = percent(of("in_windows_ns") + of("in_kernel_ns"));
    let host = percent(of("host_ns"));
    for (name, is) in [
        ("paid_target_percent", target),
        ("paid_host_percent", host),
        ("paid_percent", target + host),
    ] {
        assert!((of(name) - is).abs() < 0.01, "{name} {is} {windows}");
    }
    assert_eq!(windows["paid_tells"], of("cpu_ns") >= 1e9, "{windows}");
    let text = String::from_utf8(dir.trommel(&["report", "p.data"])).expect("text");
    let line = text.lines().find(|line| line.starts_with("# paid"));
    (windows, line.expect("a line").to_owned())
}

#[test]
fn a_sleeping_process_has_used_too_little_to_tell() {
    let dir = Dir::new("paid-sleeping");
    compile::compile(&dir.0, "app", &["-O1", "-pthread"], SOURCE);
    for way in ["--bursts", "--windows"] {
        let mut app = Command::new("./app")
            .args(["1", "30000000", "3000"])
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .spawn()
            .expect("app runs");
        let pid = app.id().to_string();
        let run = [
            "record",
            "--quiet",
            "--budget",
            "1",
            way,
            "--duration",
            "0.5",
            "-o",
            "p.data",
        ];
        dir.trommel(&[&run[..], &["-p", &pid]].concat());
        app.kill().expect("it goes on");
        app.wait().expect("it ended");
        let (windows, paid) = account(&dir);
        assert_eq!(windows["paid_tells"], false);
        assert!(
            paid.contains("too little to tell") && !paid.contains('%'),
            "{paid}"
        );
    }
}

/// Threads use CPU time side by side, and what is paid is a part of all of it.
#[test]
fn a_busy_process_pays_a_part_of_its_cpu_time() {
    /// Nanoseconds that it takes to begin, which so short a run does not earn; more where files must be read first.
    const BEGINNING: f64 = 60e6;
    let dir = Dir::new("paid-busy");
    compile::compile(&dir.0, "app", &["-O1", "-pthread"], SOURCE);
    for (way, threads) in [("--bursts", 1), ("--windows", 2)] {
        let turns = (BUSY.parse::<u64>().expect("turns") / threads).to_string();
        let run = [
            "record", "--quiet", "--budget", "5", way, "-o", "p.data", "--", "./app",
        ];
        dir.trommel(&[&run[..], &[&threads.to_string(), &turns, "0"]].concat());
        let (windows, paid) = account(&dir);
        assert_eq!(windows["paid_tells"], true, "{windows}");
        assert!(
            paid.contains(" by the program ") && paid.contains(" by trommel "),
            "{paid}"
        );
        let [cpu, percent] = ["cpu_ns", "paid_percent"].map(|n| windows[n].as_f64().expect(n));
        let most = 5.0 + 100.0 * BEGINNING / cpu;
        assert!(0.5 < percent && percent < most, "{windows}");
    }
}

/// `cargo run` executes the program that it has built: its CPU time, and that of its children, goes on as the program's.
#[test]
fn what_executed_trommel_is_not_paid_by_it() {
    let dir = Dir::new("paid-before");
    let burn = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let script = format!("{burn}; times; exec \"$0\" record --quiet -e call -o p.data -- true");
    let out = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_trommel")])
        .current_dir(&dir.0)
        .output()
        .expect("sh runs");
    assert!(out.status.success(), "{out:?}");
    // Its user time, as 0m0.41s.
    let times = String::from_utf8(out.stdout).expect("text");
    let user = times
        .split_whitespace()
        .next()
        .and_then(|t| t.strip_suffix('s'));
    let (minutes, seconds) = user.and_then(|t| t.split_once('m')).expect("a time");
    let [minutes, seconds] = [minutes, seconds].map(|t| t.parse::<f64>().expect("a number"));
    let before = 60.0 * minutes + seconds;
    let report = dir.json(&["report", "--json", "p.data"]);
    let own = report["run"]["host_cpu_ns"].as_f64().expect("a number") / 1e9;
    assert!(
        own > 0.0 && own < before,
        "{own} s of trommel, {before} s before"
    );
}
