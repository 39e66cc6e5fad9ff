//! `trommel values` leaves out loads that only keep a function's frame in order, says how many, and shows them when asked: in programs that gcc
//! made, judged by what `objdump` shows there.

mod common;
#[path = "common/compile.rs"]
mod compile;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use common::Dir;
use compile::compile;
use serde_json::Value;

/// Its loop has constants in registers that belong to the caller, which `work` puts aside and back; all functions have a canary.
const SOURCE: &str = r#"
#include <stdio.h>
static volatile unsigned long step[1] = { 3 };
asm(".section .rodata\n.align 8\ntable: .quad 5, 7\n.text\n");
extern const volatile unsigned long table[2] __attribute__((visibility("hidden")));
__attribute__((noinline)) unsigned long add(unsigned long a, unsigned long b) { return a + b * step[0] + table[1]; }
__attribute__((noinline)) unsigned long work(unsigned long a, unsigned long b, unsigned long c) {
  unsigned long x = add(a, b), y = add(b, x), z = add(c, y);
  return add(x, y) + add(y, z) + add(z, x);
}
int main(int argc, char **argv) {
  unsigned long a = argc + 6, b = argc + 8, c = argc + 20, sum = 0;
  for (unsigned long i = 0; i < 3000; i++)
    sum += work(a, b, c ^ i);
  printf("%lx\n", sum);
}
"#;

/// Returns the purpose of each load of the program, by the text of its instruction and the next ones.
fn by_objdump(dir: &Dir) -> BTreeMap<u64, Option<&'static str>> {
    let out = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-M", "intel", "app"])
        .current_dir(&dir.0)
        .output()
        .expect("objdump, of binutils");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let lines: Vec<(u64, &str)> = (text.lines())
        .filter_map(|line| {
            let (at, text) = line.trim().split_once(":\t")?;
            Some((u64::from_str_radix(at, 16).ok()?, text))
        })
        .collect();
    let what = |n: usize| {
        let (_, text) = lines[n];
        let next = lines.get(n + 1).map_or("", |line| line.1);
        if text.contains("fs:0x28") || next.contains("fs:0x28") && text.starts_with("mov") {
            return Some("canary");
        }
        // `table` alone is read from constants, and by an address in the instruction.
        if text.contains("<table+") {
            return Some("fixed");
        }
        // gcc takes nothing else from the stack by `pop`, and registers of the caller not only so.
        let pops = text.starts_with("pop") || text.starts_with("leave");
        let moves = text.starts_with("mov    rbx,") && next.starts_with("leave");
        (pops || moves).then_some("restored")
    };
    (0..lines.len()).map(|n| (lines[n].0, what(n))).collect()
}

/// The loads of the program's own functions: where they are, and what they are said to be for.
fn loads(said: &Value) -> BTreeMap<u64, Option<String>> {
    let all = said["loads"].as_array().expect("loads").iter();
    let own = ["main", "work", "add"].map(Value::from);
    all.filter(|load| own.contains(&load["at"]["function"]))
        .map(|load| {
            let at = load["at"]["vaddr"].as_u64().expect("a number");
            (at, load["upkeep"].as_str().map(str::to_owned))
        })
        .collect()
}

fn left_out_of(level: &str) {
    let dir = Dir::new(&format!("upkeep{level}"));
    compile(&dir.0, "app", &[level, "-fstack-protector-all"], SOURCE);
    dir.trommel(&[
        "record",
        "--quiet",
        "-e",
        "value",
        "--exact-values",
        "--",
        "./app",
    ]);
    let truth = by_objdump(&dir);
    let all = dir.json(&["values", "--json", "--all"]);
    let found = loads(&all);
    for (at, why) in &found {
        assert_eq!(why.as_deref(), truth[at], "{level} {at:#x}");
    }
    let kinds: BTreeSet<Option<&str>> = found.values().map(|why| why.as_deref()).collect();
    let wanted = BTreeSet::from([None, Some("canary"), Some("fixed"), Some("restored")]);
    assert_eq!(kinds, wanted, "{level}: {found:x?}");
    let none =
        |said: &Value| ["canary", "restored", "fixed"].map(|why| said["left_out"][why].as_u64());
    assert_eq!(none(&all), [Some(0); 3]);

    let some = dir.json(&["values", "--json"]);
    // Those that save nothing are left out too, and not counted.
    let pays = |load: &&Value| load["saved_cycles"].as_f64() > Some(0.0);
    let paying: BTreeSet<u64> = (all["loads"].as_array().expect("loads").iter())
        .filter(pays)
        .map(|load| load["at"]["vaddr"].as_u64().expect("a number"))
        .collect();
    let rest: BTreeMap<_, _> = (found.into_iter())
        .filter(|(at, why)| why.is_none() && paying.contains(at))
        .collect();
    assert_eq!(loads(&some), rest, "{level}");
    let why = |said: &Value, why: &str| {
        let all = said["loads"].as_array().expect("loads").iter();
        all.filter(pays)
            .filter(|load| load["upkeep"] == why)
            .count() as u64
    };
    let counted = ["canary", "restored", "fixed"].map(|name| Some(why(&all, name)));
    assert_eq!(none(&some), counted);
    // Nothing but those is missing.
    let length = |said: &Value| {
        let all = said["loads"].as_array().expect("loads").iter();
        all.filter(pays).count() as u64
    };
    assert_eq!(
        length(&some) + counted.iter().flatten().sum::<u64>(),
        length(&all)
    );

    let text = String::from_utf8(dir.trommel(&["values"])).expect("UTF-8");
    let line = text.lines().find(|line| line.starts_with("# left out: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let number = |n: Option<u64>| format!("{} load", n.expect("a number"));
    let numbers = counted.map(number);
    let parts = numbers.iter().map(String::as_str).chain(["--all"]);
    assert!(parts.into_iter().all(|part| line.contains(part)), "{line}");
    let text = String::from_utf8(dir.trommel(&["values", "--all", "--top", "0"])).expect("UTF-8");
    assert!(
        !text.contains("left out")
            && text.contains(" canary ")
            && text.contains(" restored ")
            && text.contains(" fixed "),
        "{text}"
    );
}

#[test]
fn canaries_and_restored_registers_of_optimised_code_are_left_out() {
    left_out_of("-O2");
}

#[test]
fn canaries_and_restored_registers_of_plain_code_are_left_out() {
    left_out_of("-O0");
}
