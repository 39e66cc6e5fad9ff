//! Inclusive instructions of callgrind's format, by exact contexts: valgrind's own.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;

use super::{Test, run, text, tool};

pub(super) const ALL: &[(&str, Test)] = &[(
    "inclusive: what calls bring their caller is valgrind's, by contexts",
    as_valgrind,
)];

/// One function is cheap for one caller and dear for another, and functions call each other. What `main` calls of libraries goes through stubs.
const CALLS: &str = "
#include <stdlib.h>
#define ALONE __attribute__((noinline))
volatile int sum;
ALONE void leaf(int n) { for (int i = 0; i < n; i++) sum += i; }
ALONE void tail(int n) { sum++; leaf(n * 2); }
ALONE void cheap(void) { leaf(1); sum++; }
ALONE void dear(void) { leaf(1000); sum++; }
ALONE void other(int n);
ALONE void mutual(int n) { sum++; if (n) other(n - 1); leaf(3); sum++; }
ALONE void other(int n) { sum++; if (n) mutual(n - 1); sum++; }
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
  int values[64];
  for (int i = 0; i < 10; i++) { cheap(); dear(); tail(5); }
  mutual(9);
  for (int i = 0; i < 64; i++) values[i] = i * 37 % 64;
  qsort(values, 64, sizeof *values, compare);
  return values[0];
}
";

/// Instructions that calls of `main` brought it, by callee, and `main`'s own sum with all of them.
fn of_main(file: &str, recorded: &Recorded) -> Result<(u64, BTreeMap<String, u64>), String> {
    let annotate = tool(&["callgrind_annotate"], "inclusive").ok_or("no callgrind_annotate")?;
    let options = [
        "--inclusive=yes",
        "--tree=calling",
        "--threshold=100",
        "--auto=no",
        file,
    ];
    let printed = run(&annotate, &options, recorded.scratch.dir())?;
    let blocks = printed.split("\n\n");
    let block = blocks
        .into_iter()
        .find(|block| block.contains(" *  ") && block.contains(":main ["))
        .ok_or_else(|| printed.clone())?;
    let cost = |line: &str| {
        let word = line.split_whitespace().next()?;
        word.replace(',', "").parse::<u64>().ok()
    };
    let mut own = 0;
    let mut called = BTreeMap::new();
    for line in block.lines() {
        let (_, name) = line.rsplit_once(':').unwrap_or_default();
        match line.contains(" *  ") {
            true => own = cost(line).unwrap_or(0),
            false if line.contains(" >  ") => {
                let name = name.split([' ', '\'']).next().unwrap_or_default();
                *called.entry(name.to_owned()).or_default() += cost(line).unwrap_or(0);
            }
            false => {}
        }
    }
    Ok((own, called))
}

fn as_valgrind() -> Result<(), String> {
    let Some(valgrind) = tool(&["valgrind"], "inclusive") else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("calls.c"), scratch.path("app"));
    fs::write(&source, CALLS).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    build.args(["-O2", "-g", "-o"]).arg(&program);
    output(build.arg(&source))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call,context"])?;
    let (ours, said) = recorded.exported("callgrind", &[])?;
    let (whole, ours) = of_main(&text(&ours), &recorded)?;
    let theirs = recorded.scratch.path("valgrind.out");
    let out = format!("--callgrind-out-file={}", text(&theirs));
    let program = text(&recorded.program);
    run(
        &valgrind,
        &["--tool=callgrind", &out, &program],
        recorded.scratch.dir(),
    )?;
    let (_, theirs) = of_main(&text(&theirs), &recorded)?;
    for name in ["cheap", "dear", "tail", "mutual"] {
        if ours.get(name) != theirs.get(name) || !ours.contains_key(name) {
            return Err(format!("{name}: {ours:?}, not {theirs:?}\n{said}"));
        }
    }
    // Its own instructions and those of its calls are all that is below it, stubs included.
    let folded = fs::read_to_string(recorded.export("folded", &[])?).map_err(|e| e.to_string())?;
    let below = folded.lines().filter(|line| line.contains(";main"));
    let below: u64 = below
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    match whole == below && ours.contains_key("qsort@plt") {
        true => Ok(()),
        false => Err(format!("main: {whole}, not {below}: {ours:?}")),
    }
}
