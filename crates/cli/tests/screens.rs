//! Screens of `record` on a terminal: the line about a run that goes on, and the summary, whose last line is the next command.

#[path = "common/compile.rs"]
mod compile;
#[path = "common/dir.rs"]
mod dir;
#[path = "common/pty.rs"]
mod pty;

use std::process::{Command, Stdio};

use compile::compile;
use dir::Dir;
use pty::Pty;

const SIZE: (u16, u16) = (80, 50);
/// Lines of a summary at most.
const LINES: usize = 12;

/// Functions, loads, calls through tables, and enough of each that every table is full.
const SOURCE: &str = r#"
static volatile long table[64];
static long a(long n) { return n + table[1]; }
static long b(long n) { return n - table[2]; }
static long c(long n) { return n ^ table[n & 63]; }
struct object { long (*const *methods)(long); };
static long (*const first[])(long) = { a, b };
static long (*const second[])(long) = { c, a };
static struct object objects[2] = { { first }, { second } };
__attribute__((noinline)) static long call(struct object *o, long n) { return o->methods[n & 1](n); }
__attribute__((noinline)) static long sum(long n) { long s = 0; for (long i = 0; i < n; i++) s += table[i & 63]; return s; }
__attribute__((noinline)) static long mix(long n) { for (long i = 0; i < 40; i++) n = n % 3 ? n * 5 + table[i] : n / 3; return n; }
int main(void) {
  long n = 1;
  for (long i = 0; i < 60000; i++) n += call(&objects[i % 3 == 0], i) + sum(i & 31) + mix(n);
  return n == 0;
}
"#;

/// Computes for so many milliseconds, and then, or each tenth of that, says so.
const SLOW: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
int main(int argc, char **argv) {
  long from = now(), most = atol(argv[1]), said = 0;
  volatile long n = 0;
  for (;;) {
    long since = now() - from;
    if (since > most) break;
    if (argc > 2 && since > (said + 1) * most / 20) { said++; printf("line %ld\n", said); fflush(stdout); }
    for (int i = 0; i < 10000; i++) n += i;
  }
  printf("the end");
  return 0;
}
"#;

/// The rows of the screen at the end, and whether the line of a run that goes on was seen on it.
fn shown(dir: &Dir, words: &[&str]) -> (Vec<String>, bool) {
    let pty = Pty::new(SIZE);
    let output = pty.output();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(words)
        .current_dir(&dir.0)
        .env("TERM", "xterm")
        .env("XDG_CACHE_HOME", dir.0.join("cache"))
        .stdin(Stdio::null())
        .stdout(pty.stream())
        .stderr(pty.stream())
        .spawn()
        .expect("runs");
    let mut screen = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    let mut seen = false;
    for bytes in &output {
        screen.process(&bytes);
        seen |= screen.screen().contents().contains("s; CPU time");
    }
    let ended = child.wait().expect("ended");
    let rows: Vec<String> = screen.screen().rows(0, SIZE.0).collect();
    assert!(ended.success(), "{words:?}: {rows:#?}");
    let last = rows.iter().rposition(|row| !row.trim().is_empty());
    (rows[..last.map_or(0, |last| last + 1)].to_vec(), seen)
}

#[test]
fn a_summary_has_twelve_lines_and_ends_with_the_next_command() {
    let dir = Dir::new("screens");
    compile(&dir.0, "app", &["-O1", "-g"], SOURCE);
    let loads = "for opLOAD * every 64 collect pc res1;\n    send 1 stop;\n";
    let others = "for opSTORE * always collect pc; count stop;\nfor opBRANCH * every auto collect pc; send 2 stop;\n";
    for (name, text) in [
        ("loads.rpa", loads),
        ("three.rpa", &[loads, others].concat()),
    ] {
        std::fs::write(dir.0.join(name), text).expect("a file");
    }
    for (options, next) in [
        ("", "report"),
        ("-e edge,call", "report"),
        ("-e value", "values"),
        ("-e edge,call,value --exact-values", "values"),
        ("-e edge,call,type", "report -e type"),
        ("-e path", "report -e path"),
        ("-e context", "report --html report.html"),
        ("-e edge,call,context", "report --html report.html"),
        ("-e stack --rate 9973", "report --html report.html"),
        ("--samples --rate 9973", "report"),
        ("-q loads.rpa", "report"),
        ("-q three.rpa", "report"),
        ("-c P257", "report"),
        ("-e value -c P257", "values"),
        ("--stream s.tstream --stream-limit 20000", "report"),
        ("--budget 10 --windows", "report"),
        ("--budget 10 -e latency", "latency"),
        ("--budget 10 -e address", "replay"),
        ("-e none", "report"),
    ] {
        let words = options.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&str> = ["record"].into_iter().chain(words).collect();
        let (rows, _) = shown(&dir, &[&words[..], &["--", "./app"]].concat());
        // What a recording will cost is said before it begins.
        let begins = |row: &String| {
            row.starts_with("trommel: ")
                && [
                    "events in",
                    "events (est",
                    "contexts in",
                    "samples: ",
                    "messages of",
                    "messages and",
                ]
                .iter()
                .any(|part| row.contains(part))
        };
        let first = rows.iter().position(begins);
        let summary = &rows[first.unwrap_or_else(|| panic!("{options}: {rows:#?}"))..];
        assert!(summary.len() <= LINES, "{options}: {rows:#?}");
        // Counts of windows may be off by one factor, and the lines say so.
        let says = summary
            .join(" ")
            .contains("limits hold in 95 of 100 entries");
        assert_eq!(
            says,
            options.starts_with("--budget"),
            "{options}: {rows:#?}"
        );
        assert_eq!(
            summary.last().map(|row| row.trim_end()),
            Some(&*format!("trommel: next: trommel {next}")),
            "{options}"
        );
        let table = summary.iter().filter(|row| row.starts_with("  ")).count();
        assert!(table > 0 || options == "-e none", "{options}: {rows:#?}");
        // And the command works.
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        let done = command.args(next.split(' ')).current_dir(&dir.0).output();
        let done = done.expect("runs");
        assert!(done.status.success(), "{next}: {done:?}");
    }
}

#[test]
fn a_run_that_is_quiet_has_a_line_which_goes_away() {
    let dir = Dir::new("screens-quiet");
    compile(&dir.0, "slow", &["-O1"], SLOW);
    let (rows, seen) = shown(&dir, &["record", "--", "./slow", "3200"]);
    assert!(seen, "{rows:#?}");
    assert!(rows[0].starts_with("the end"), "{rows:#?}");
    assert!(
        !rows.iter().any(|row| row.contains("s; CPU time")),
        "{rows:#?}"
    );
}

#[test]
fn a_program_that_writes_has_the_terminal_for_itself() {
    let dir = Dir::new("screens-loud");
    compile(&dir.0, "slow", &["-O1"], SLOW);
    let (rows, seen) = shown(&dir, &["record", "--", "./slow", "3200", "loud"]);
    assert!(!seen, "{rows:#?}");
    for n in 1..=15 {
        assert_eq!(rows[n - 1].trim_end(), format!("line {n}"), "{rows:#?}");
    }
}

#[test]
fn what_costs_much_is_said_before_the_program_starts() {
    let dir = Dir::new("screens-costs");
    compile(&dir.0, "slow", &["-O1"], SLOW);
    let words = [
        "record",
        "-e",
        "value",
        "--exact-values",
        "--",
        "./slow",
        "1",
    ];
    let (rows, _) = shown(&dir, &words);
    assert!(
        rows[0].starts_with("trommel: each loaded value is counted"),
        "{rows:#?}"
    );
    assert!(
        rows.iter().any(|row| row.starts_with("the end")),
        "{rows:#?}"
    );
}
