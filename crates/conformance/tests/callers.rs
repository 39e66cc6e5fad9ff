//! Values by caller: what functions load is told apart by the calls that they were called by, in windows (`tests/budget/callers.c`).
//!
//! Each call in `main` gives its function a cell of its own, so the truth is in the source: the calls of a function in the order of their
//! addresses, and what each makes it load.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, need_windows, output, record_alike, trommel};
use trommel_conformance::generate::{on_alternate_stack, seeds};
use trommel_conformance::program;

/// Turns of the program.
const TURNS: &str = "12000000";
/// The same, where windows are so long that one sees many loads.
const FEWER: &str = "4000000";
/// Windows of further builds that are tried in CI, the others in the nightly tier.
const IN_CI: [(&str, &str); 2] = [("callers-fp", "1"), ("callers-o0", "1000")];
/// Builds of the program: without frame pointers, and with them.
const BUILDS: [(&str, &[&str]); 3] = [
    ("callers", &["-O2", "-g", "-fomit-frame-pointer"]),
    ("callers-fp", &["-O2", "-g", "-fno-omit-frame-pointer"]),
    ("callers-o0", &["-O0", "-g", "-mno-red-zone"]),
];
/// Functions that load, which function `main` calls for that, what its first call and its second make them load, and what others do.
const TRUTH: [(&str, &str, &[u64], Option<u64>); 6] = [
    ("leaf", "leaf", &[1001, 1002], None),
    ("framed", "framed", &[1003, 1004], None),
    ("staged", "staged", &[1005, 1006], None),
    ("tail", "hands_on", &[1007, 1008], None),
    ("caught", "caught", &[1009, 1010], None),
    ("nested", "nested", &[1012], Some(1011)),
];
/// All of these: what is loaded otherwise are addresses and registers.
const CELLS: RangeInclusive<u64> = 1001..=1012;
/// Loads of `staged`.
const STAGES: usize = 5;

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let mut trials = Vec::new();
    for (name, flags) in BUILDS {
        // In short windows hardly any call is seen: callers are known by the stack.
        for (window, turns) in [("1", TURNS), ("4", TURNS), ("1000", FEWER)] {
            let trial = Trial::test(format!("{name} {window}"), move || {
                Ok(told(name, flags, window, &[turns])?)
            });
            // In CI each build is tried, one of them in windows of each length.
            let in_ci = name == BUILDS[0].0 || IN_CI.contains(&(name, window));
            trials.push(trial.with_ignored_flag(!in_ci));
        }
    }
    let (name, flags) = BUILDS[0];
    trials.push(Trial::test("a forked process's are known", move || {
        Ok(told(name, flags, "1", &[TURNS, "forked"])?)
    }));
    for seed in seeds().take(2) {
        trials.push(Trial::test(format!("state {seed}"), move || {
            Ok(state(seed)?)
        }));
    }
    trials.extend([
        Trial::test("processes add up", || Ok(added()?)),
        Trial::test("of many callers the hottest are kept", || Ok(overflow()?)),
        Trial::test("callers stand beside their loads", || Ok(shown()?)),
        Trial::test("nothing is told apart unasked", || Ok(unasked()?)),
        Trial::test("what cannot be told apart is refused", || Ok(refused()?)),
    ]);
    libtest_mimic::run(&args, trials).exit();
}

fn bin() -> &'static Path {
    trommel()
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn built(name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    program::built("tests/budget/callers.c", name, flags)
}

/// Returns what a command says of a file, as JSON.
fn json(words: &[&str], data: &Path) -> Result<Value, String> {
    let said = output(Command::new(bin()).args(words).arg("--json").arg(data))?;
    serde_json::from_str(&said).map_err(text)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

fn function(place: &Value) -> &str {
    place["function"].as_str().unwrap_or("")
}

/// Calls of a function in `main`, in order.
fn calls(report: &Value, of: &str) -> Vec<u64> {
    let calls = list(report, "calls").iter();
    let calls = calls.filter(|c| function(&c["from"]) == "main" && function(&c["to"]) == of);
    let mut at: Vec<u64> = calls.map(|c| number(&c["from"]["vaddr"])).collect();
    at.sort_unstable();
    at
}

/// Loads of a cell in a function.
fn loads<'a>(report: &'a Value, of: &str) -> Vec<&'a Value> {
    let loads = list(report, "values").iter();
    let small = |load: &&Value| {
        list(load, "top")
            .iter()
            .all(|t| CELLS.contains(&number(&t["value"])))
    };
    let loads = loads
        .filter(|load| function(&load["at"]) == of)
        .filter(small);
    loads.collect()
}

/// Checks all loads against the truth; the least share of a load's executions whose callers are known.
fn judge(report: &Value) -> Result<f64, String> {
    let mut least: f64 = 1.0;
    for (name, called, cells, others) in TRUTH {
        let loads = loads(report, name);
        let wanted = if name == "staged" { STAGES } else { 1 };
        if loads.len() != wanted {
            let all = list(report, "values").iter();
            let all: Vec<&Value> = all.filter(|l| function(&l["at"]) == name).collect();
            let windows = &report["windows"];
            return Err(format!(
                "{name}: {} loads of {all:?}: {windows}",
                loads.len()
            ));
        }
        let calls = calls(report, called);
        if calls.len() != cells.len() {
            return Err(format!("{called}: calls at {calls:x?}"));
        }
        let truth: BTreeMap<u64, u64> = calls.into_iter().zip(cells.iter().copied()).collect();
        for load in loads {
            let known = one(load, &truth, others).map_err(|e| format!("{name}: {e}: {load}"))?;
            // An exception is come back to by nothing that was called.
            if name != "caught" {
                least = least.min(known);
            }
        }
    }
    Ok(least)
}

/// Checks a load; the share of its executions whose callers are known.
fn one(load: &Value, truth: &BTreeMap<u64, u64>, others: Option<u64>) -> Result<f64, String> {
    let callers = list(load, "by_caller");
    let samples: u64 = callers.iter().map(|c| number(&c["samples"])).sum();
    if samples != number(&load["samples"]) {
        return Err(format!("{samples} samples of callers"));
    }
    let mut found = BTreeMap::new();
    let mut known = 0;
    for caller in callers {
        let values: Vec<u64> = (list(caller, "top").iter())
            .map(|t| number(&t["value"]))
            .collect();
        if caller["call"].is_null() {
            continue;
        }
        known += number(&caller["samples"]);
        let at = number(&caller["call"]["vaddr"]);
        let wanted = match function(&caller["call"]) {
            "main" => truth.get(&at).copied(),
            // Itself.
            inner if inner == function(&load["at"]) => others,
            _ => None,
        };
        let wanted = wanted.ok_or("a call that is none of it")?;
        if values != [wanted] {
            return Err(format!("{values:?} in place of {wanted}, from {at:#x}"));
        }
        found.insert(at, wanted);
    }
    if found.len() != truth.len() + usize::from(others.is_some()) {
        return Err(format!("callers {found:x?} of {truth:x?}"));
    }
    Ok(known as f64 / samples.max(1) as f64)
}

fn told(name: &str, flags: &[&str], window: &str, args: &[&str]) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built(name, flags)?;
    let options = ["--by-caller", "--rate", "8000", "--window", window];
    let program = program.to_string_lossy();
    let command = [&[&*program], args].concat();
    record_alike(&options, &command, &data)?;
    let report = json(&["report", "--no-debug-info"], &data)?;
    let known = judge(&report)?;
    let windows = &report["windows"];
    // The loader has functions with more callers than are kept, so some may be dropped there.
    let missing = missing(&report);
    match known > 0.95 && number(&windows["caller_samples_dropped"]) == missing {
        true => Ok(()),
        false => Err(format!(
            "callers of {known} are known, {missing} samples have none: {windows}"
        )),
    }
}

/// Samples of all loads that are in no list of a caller's.
fn missing(report: &Value) -> u64 {
    let missing = |load: &Value| {
        let callers = list(load, "by_caller").iter();
        number(&load["samples"]) - callers.map(|c| number(&c["samples"])).sum::<u64>()
    };
    list(report, "values").iter().map(missing).sum()
}

/// Random sequences, whose registers hold anything, end in the same state.
fn state(seed: u64) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new().map_err(text)?;
    let job = on_alternate_stack(seed, &scratch)?;
    let native = job.native(LIMIT).map_err(text)?;
    for window in ["1", "300"] {
        let options = ["--by-caller", "--rate", "20000", "--window", window];
        let data = scratch.path("data");
        let seen = job.record_with(bin(), &options, &data, LIMIT);
        native.compare(&seen.map_err(text)?)?;
    }
    Ok(())
}

fn added() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built(BUILDS[0].0, BUILDS[0].1)?;
    let program = program.to_string_lossy();
    let script = format!("{program} {TURNS} & {program} {TURNS}; wait");
    let options = ["--by-caller", "--rate", "2000", "--window", "300"];
    record_alike(&options, &["sh", "-c", &script], &data)?;
    judge(&json(&["report", "--no-debug-info"], &data)?).map(drop)
}

/// A function with 64 callers, two of which are most of its calls.
fn overflow() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = program::built("tests/budget/places.c", "places", &["-O2", "-g"])?;
    let program = program.to_string_lossy();
    let options = ["--by-caller", "--rate", "8000", "--window", "100"];
    record_alike(&options, &[&program, "60000000"], &data)?;
    let report = json(&["report", "--no-debug-info"], &data)?;
    let mut loads = list(&report, "values").iter();
    let load = loads.find(|load| function(&load["at"]) == "load");
    let load = load.ok_or("no load")?;
    let callers = list(load, "by_caller");
    let dropped = number(&report["windows"]["caller_samples_dropped"]);
    let samples: u64 = callers.iter().map(|c| number(&c["samples"])).sum();
    let values = |c: &Value| -> Vec<u64> {
        let top = list(c, "top").iter();
        top.map(|t| number(&t["value"])).collect()
    };
    let mut hottest: Vec<u64> = callers.iter().take(2).flat_map(&values).collect();
    hottest.sort_unstable();
    // Each has one value, also those that have come back after they were given up.
    let alone = callers
        .iter()
        .filter(|c| !c["call"].is_null())
        .all(|c| values(c).len() == 1);
    let right = callers.len() <= 16
        && alone
        && hottest == [1017, 1042]
        && dropped > 0
        && samples + dropped >= number(&load["samples"])
        && samples < number(&load["samples"]);
    match right {
        true => Ok(()),
        false => Err(format!("{dropped} dropped: {load}")),
    }
}

fn shown() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built(BUILDS[0].0, BUILDS[0].1)?;
    let options = ["--by-caller", "--rate", "4000"];
    record_alike(&options, &[&program.to_string_lossy(), TURNS], &data)?;
    let mut command = Command::new(bin());
    let people = output(command.args(["values", "--top", "0"]).arg(&data))?;
    let lines = people.lines().filter(|l| l.contains(" leaf, from main+"));
    let lines: Vec<&str> = lines.collect();
    let has = |lines: &[&str], what: &str| lines.iter().any(|l| l.contains(what));
    if lines.len() != 2 || !has(&lines, "100.0%") || !people.contains("# callers ") {
        return Err(people);
    }
    let all = json(&["values", "--all"], &data)?;
    let leaf = list(&all, "by_caller").iter();
    let leaf = leaf.filter(|c| function(&c["at"]) == "leaf" && function(&c["call"]) == "main");
    let mut values: Vec<u64> = leaf.map(|c| number(&c["value"])).collect();
    values.sort_unstable();
    if values != [1001, 1002] {
        return Err(format!("{values:?}: {}", all["by_caller"]));
    }
    // The load itself is reported as ever, once.
    let whole = list(&all, "loads")
        .iter()
        .filter(|l| function(&l["at"]) == "leaf");
    if whole.count() != 1 {
        return Err(all.to_string());
    }
    let people = output(Command::new(bin()).arg("annotate").arg(&data).arg("leaf"))?;
    let load: Vec<&str> = people
        .lines()
        .filter(|l| l.contains("from main+0x"))
        .collect();
    let mut command = Command::new(bin());
    let all = output(command.args(["annotate", "--json"]).arg(&data).arg("leaf"))?;
    let all: Value = serde_json::from_str(&all).map_err(text)?;
    let lines = list(&all, "instructions").iter();
    let told = lines.flat_map(|line| list(line, "by_caller"));
    match load.iter().any(|l| l.matches(" = ").count() == 3) && told.count() >= 2 {
        true => Ok(()),
        false => Err(format!("{people}\n{all}")),
    }
}

fn unasked() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built(BUILDS[0].0, BUILDS[0].1)?;
    record_alike(
        &["--rate", "1000"],
        &[&program.to_string_lossy(), TURNS],
        &data,
    )?;
    let report = json(&["report", "--no-debug-info"], &data)?.to_string();
    match report.contains("by_caller") || report.contains("caller_samples") {
        true => Err(report),
        false => Ok(()),
    }
}

fn refused() -> Result<(), String> {
    for (options, why) in [
        (&["--by-caller"][..], "--budget"),
        (
            &["--by-caller", "--budget", "1", "-e", "edge,call"],
            "value",
        ),
        (
            &["--by-caller", "--budget", "1", "--module-lib", "x.so"],
            "--module-lib",
        ),
    ] {
        let mut command = Command::new(bin());
        command.arg("record").args(options).args(["--", "true"]);
        let done = command.output().map_err(text)?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() || !said.contains(why) {
            return Err(format!("{options:?}: {said}"));
        }
    }
    Ok(())
}
