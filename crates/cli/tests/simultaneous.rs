//! Branches and calls through one compressor at the same time, told apart in software (section 5.7 of the
//! stratified sampling paper), on a program whose events are known.

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use common::Dir;

/// Direct and indirect calls, a switch and loops, in numbers that follow from the text.
const SOURCE: &str = "
#include <stdio.h>
#include <stdlib.h>
typedef long (*op)(long, long);
__attribute__((noinline)) static long plus(long a, long b) { return a + b; }
__attribute__((noinline)) static long minus(long a, long b) { return a - b; }
__attribute__((noinline)) static long times(long a, long b) { return a * b & 0xffff; }
static op volatile ops[] = { plus, minus, plus, times };
__attribute__((noinline)) static long walk(long n) { return n < 2 ? n : walk(n - 1) + 1; }
int main(int argc, char **argv) {
  long sum = 0, rounds = atol(argv[1]);
  for (long i = 0; i < rounds; i++) {
    sum = ops[i & 3](sum, i);
    sum = plus(sum, 1);
    switch (i % 7) {
      case 0: sum += 3; break;
      case 1: sum ^= 5; break;
      case 2: sum -= 9; break;
      case 5: sum += walk(5); break;
      default: sum++;
    }
  }
  printf(\"%ld\\n\", sum);
}
";
const ROUNDS: u64 = 140_000;

/// A directory with the program built in it.
fn with_app() -> Dir {
    let dir = Dir::new("simultaneous");
    std::fs::write(dir.0.join("app.c"), SOURCE).expect("source");
    let built = Command::new("cc")
        .args(["-O1", "-fno-inline", "-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("a C compiler").success());
    dir
}

/// A recording of both kinds, as its report has it.
fn record(dir: &Dir, spec: &str, stream: bool) -> Value {
    let mut record = vec!["record", "--quiet", "-e", "edge,call", "-c", spec];
    if stream {
        record.extend(["--stream", "s.tstream"]);
    }
    let rounds = ROUNDS.to_string();
    record.extend(["--", "./app", &rounds]);
    dir.trommel(&record);
    dir.json(&["report", "--json"])
}

/// The program's own entries of a list, by where they come from and go to.
fn entries(report: &Value, list: &str) -> BTreeMap<(u64, u64, String), u64> {
    let modules = report["modules"].as_array().expect("modules");
    let app = modules.iter().find(|m| {
        let path = m["path"].as_str().unwrap_or_default();
        path.ends_with("/app")
    });
    let app = &app.expect("the program is a module")["id"];
    let of_app = |place: &Value| (place["module"] == *app).then(|| place["vaddr"].as_u64())?;
    let all = report[list].as_array().expect("a list");
    all.iter()
        .filter_map(|entry| {
            let (from, to) = (of_app(&entry["from"])?, of_app(&entry["to"])?);
            let kind = entry["kind"].as_str()?.to_owned();
            Some(((from, to, kind), entry["count"].as_u64()?))
        })
        .collect()
}

#[test]
fn one_compressor_tells_branches_from_calls() {
    let dir = with_app();
    let exact = record(&dir, "exact", false);
    let sampled = record(&dir, "H[P64]2048", true);

    // What is known of the program: one indirect call a round, direct ones to `plus` and `walk`.
    let calls = entries(&exact, "calls");
    let counts = |how: &str| {
        let mut of: Vec<u64> = calls
            .iter()
            .filter(|(k, _)| k.2 == how)
            .map(|(_, n)| *n)
            .collect();
        of.sort_unstable();
        of
    };
    assert_eq!(counts("indirect"), [ROUNDS / 4, ROUNDS / 4, ROUNDS / 2]);
    let direct = counts("direct");
    for expected in [ROUNDS, ROUNDS / 7, ROUNDS / 7 * 4] {
        assert!(direct.contains(&expected), "{expected}: {direct:?}");
    }

    for list in ["edges", "calls"] {
        let (truth, found) = (entries(&exact, list), entries(&sampled, list));
        // Software puts every message where its kind belongs: all are branches (calls) of the exact profile.
        for (entry, count) in &found {
            assert!(truth.contains_key(entry), "{list}: {entry:x?} {count}");
        }
        let hot = truth.iter().filter(|(_, n)| **n >= 10_000);
        assert!(hot.clone().count() >= 5, "{list}: {truth:?}");
        for (entry, count) in hot {
            let estimate = found.get(entry).copied().unwrap_or(0);
            let off = estimate as f64 / *count as f64 - 1.0;
            assert!(off.abs() < 0.05, "{list}: {entry:x?} {count} as {estimate}");
        }
        let kind = list.trim_end_matches('s');
        let (truth, found) = (&exact["events"][kind], &sampled["events"][kind]);
        let seen = |v: &Value| v["seen"].as_f64().expect("a number");
        // Start-up differs a little from run to run.
        assert!(
            (seen(found) / seen(truth) - 1.0).abs() < 0.01,
            "{truth} {found}"
        );
        let messages = found["messages"].as_f64().expect("a number");
        assert!(messages * 64.0 <= seen(found) && messages * 64.0 > 0.8 * seen(found));
    }

    // The stream of the same run: the paper's measure, for each kind apart.
    let list = dir.json(&[
        "compress",
        "--json",
        "-c",
        "H[P64]2048",
        "-c",
        "exact",
        "s.tstream",
    ]);
    let kinds = &list[0]["kinds"];
    for kind in ["edge", "call"] {
        assert_eq!(kinds[kind]["messages"], sampled["events"][kind]["messages"]);
        let error = kinds[kind]["error"].as_f64().expect("an error");
        assert!(error < 3.0, "{kind}: {error}");
        assert_eq!(list[1]["kinds"][kind]["error"], 0.0);
    }
}
