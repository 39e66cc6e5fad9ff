//! Reports of simulated caches and predictors, and of shared lines: in the field's words, with rates of each instruction.

mod common;

use std::process::Command;

use common::Dir;

/// One load misses each time, one never does, and a branch is taken at random.
const SOURCE: &str = "
#include <stdint.h>
#include <stdlib.h>
static volatile char far[64 << 20];
static volatile char near_by;
static int sum;
__attribute__((noinline)) void misses(unsigned n) { sum += far[(n * 4096u) % sizeof far]; }
__attribute__((noinline)) void hits(void) { sum += near_by; }
__attribute__((noinline)) void guess(unsigned x) { if (x & 1) sum += far[0]; else sum ^= near_by; }
int main(void) {
  uint32_t x = 1;
  for (unsigned n = 0; n < 16384; n++) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    misses(n), hits(), guess(x >> 7);
  }
  return sum == 1;
}
";

fn stage() -> Dir {
    let dir = Dir::new("misses");
    std::fs::write(dir.0.join("app.c"), SOURCE).expect("a file");
    let built = Command::new("cc")
        .args([
            "-O1",
            "-g",
            "-fno-if-conversion",
            "-fno-if-conversion2",
            "-o",
            "app",
            "app.c",
        ])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("cc").success());
    dir
}

/// Returns the words of a command on standard error.
fn said(dir: &Dir, args: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    let ended = dir.ended(command.args(args.split(' ')));
    String::from_utf8(ended.stderr).expect("UTF-8")
}

/// The cells of the row of a function: a number with its groups of digits is one.
fn row(text: &str, titles: &str, function: &str) -> Vec<String> {
    let after = text
        .split(titles)
        .nth(1)
        .unwrap_or_else(|| panic!("{titles}:\n{text}"));
    let rows = after.lines().take_while(|line| !line.is_empty());
    let rows = rows.filter(|line| !line.starts_with('#'));
    let row = rows
        .into_iter()
        .skip(1)
        .find(|line| line.contains(function));
    let row = row.unwrap_or_else(|| panic!("{function}:\n{text}"));
    let cells = row
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty());
    cells.map(|cell| cell.replace(' ', "")).collect()
}

#[test]
fn each_instruction_has_its_misses_its_accesses_and_the_rate() {
    let dir = stage();
    let summary = said(&dir, "record -e miss,mispredict -o m -- ./app");
    assert!(summary.contains(" first-level misses, ") && summary.contains(" mispredictions in "));
    assert!(!summary.contains(" events"), "{summary}");
    let text = String::from_utf8(dir.trommel(&["report", "m"])).expect("UTF-8");
    for wrong in ["executions  ", "most frequent value", " events"] {
        assert!(!text.contains(wrong), "{wrong}:\n{text}");
    }
    let cells = row(&text, "# Misses of the first-level cache: ", " misses");
    let [misses, _, accesses, rate, ..] = &cells[..] else {
        panic!("{cells:?}")
    };
    assert_eq!((&**accesses, &**rate), ("16384", "100.00%"), "{misses}");
    assert!(!text.contains(" hits"), "{text}");
    let cells = row(&text, "# Mispredicted branches: ", " guess+");
    let [wrong, _, executed, rate, ..] = &cells[..] else {
        panic!("{cells:?}")
    };
    let wrong: f64 = wrong.parse().expect("a number");
    assert_eq!(&**executed, "16384");
    assert_eq!(*rate, format!("{:.2}%", wrong / 163.84));
    assert!((4000.0..12000.0).contains(&wrong), "{wrong}");
    // The same in JSON, and in sums of recordings.
    said(&dir, "record --quiet -e miss,mispredict -o n -- ./app");
    said(&dir, "merge -o sum m n");
    for (file, times) in [("m", 1), ("sum", 2)] {
        let report = dir.json(&["report", "--json", file]);
        let all = |list: &str| report[list].as_array().expect(list).clone();
        let first = &all("misses")[0];
        assert_eq!(first["accesses"], 16384 * times, "{first}");
        let at = |branch: &serde_json::Value| branch["from"]["function"] == "guess";
        let guess = all("mispredictions").into_iter().find(at).expect("guess");
        assert_eq!(guess["branches_of_site"], 16384 * times, "{guess}");
    }
}

#[test]
fn a_recording_of_shared_lines_leads_to_c2c() {
    let dir = stage();
    let summary = said(&dir, "record -e sharing -o s -- ./app");
    assert!(
        summary.starts_with("trommel: 0 lines handed over between threads in "),
        "{summary}"
    );
    assert!(summary.contains("next: trommel c2c s"), "{summary}");
    let text = String::from_utf8(dir.trommel(&["report", "s"])).expect("UTF-8");
    assert!(text.contains("\n# next        trommel c2c s\n"), "{text}");
    assert!(!text.contains("0 events"), "{text}");
}
