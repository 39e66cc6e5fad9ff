//! Landings of exceptions and of `longjmp` in the format of callgrind: they are no calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;

use super::Test;

pub(super) const ALL: &[(&str, Test)] = &[(
    "callgrind: landings of exceptions and of longjmp are no calls",
    landings,
)];

const SOURCE: &str = r#"
#include <csetjmp>
static volatile int sink;
static std::jmp_buf back;
struct Guard { ~Guard() { sink = sink + 1; } };
extern "C" __attribute__((noinline)) int thrower(int n) { if (n % 2) throw n; return n; }
extern "C" __attribute__((noinline)) int passes(int n) { Guard guard; return thrower(n) + 1; }
extern "C" __attribute__((noinline)) void jumper(int n) { if (n % 4 == 0) std::longjmp(back, 1); sink = n; }
extern "C" __attribute__((noinline)) int tail(int n) { sink = n; return passes(n); }
int main() {
  for (volatile int i = 0; i < 40; i = i + 1) {
    try { sink = tail(i); } catch (int) { sink = 0; }
    if (!setjmp(back)) jumper(i);
  }
}
"#;

/// Calls of each function.
fn calls(file: &Path) -> Result<BTreeMap<String, u64>, String> {
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let (mut names, mut calls) = (BTreeMap::new(), BTreeMap::new());
    let mut called = "";
    for line in text.lines() {
        let (key, rest) = line.split_once('=').unwrap_or_default();
        match key {
            "fn" | "cfn" => {
                let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
                called = match name {
                    "" => names.get(number).copied().unwrap_or_default(),
                    _ => names.entry(number).or_insert(name),
                };
            }
            "calls" => {
                let count = rest.split(' ').next().unwrap_or_default();
                *calls.entry(called.to_owned()).or_default() += count.parse().unwrap_or(0);
            }
            _ => {}
        }
    }
    Ok(calls)
}

fn landings() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("lands.cc"), scratch.path("lands"));
    fs::write(&source, SOURCE).map_err(|e| e.to_string())?;
    let mut build = Command::new("g++");
    output(
        build
            .args(["-O2", "-g"])
            .arg(&source)
            .arg("-o")
            .arg(&program),
    )?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let calls = calls(&recorded.export("callgrind", &[])?)?;
    let expected = [
        ("main", 1),
        ("tail", 40),
        ("passes", 40),
        ("thrower", 40),
        ("jumper", 40),
    ];
    for (name, count) in expected {
        if calls.get(name) != Some(&count) {
            return Err(format!("{name}: {:?} calls, not {count}", calls.get(name)));
        }
    }
    Ok(())
}
