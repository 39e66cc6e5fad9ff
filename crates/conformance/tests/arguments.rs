//! Arguments of calls in windows (`record --rate`, `trommel values`): they are what functions are called with, each in its share, within the
//! limits that are printed; they are there for the registers that functions take and for no other; and windows without both values and calls have none.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, need_windows, output, record_alike, trommel};
use trommel_conformance::program;

/// Turns of the program.
const TURNS: &str = "60000000";
/// Registers that its functions take.
const TAKEN: [(&str, &str); 15] = [
    ("constant", "rdi"),
    ("constant", "rsi"),
    ("first", "rdi"),
    ("mostly", "rdx"),
    ("mostly", "rsi"),
    ("passes_on", "rdi"),
    ("passes_on", "rsi"),
    ("power", "xmm0"),
    ("power", "xmm1"),
    ("power", "xmm2"),
    ("second", "rdi"),
    ("sites", "rdi"),
    ("text", "rdi"),
    ("text", "rsi"),
    ("uniform", "rdi"),
];

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let trials = vec![
        Trial::test("shares of arguments are within their limits", || {
            Ok(shares()?)
        }),
        Trial::test("those that pay are ranked among loads", || Ok(ranked()?)),
        Trial::test("what is passed stands beside the call", || Ok(annotated()?)),
        Trial::test("functions of other files are known", || Ok(stubs()?)),
        Trial::test("processes add up", || Ok(added()?)),
        Trial::test(
            "nothing is recorded of them without values and calls",
            || Ok(without()?),
        ),
    ];
    libtest_mimic::run(&args, trials).exit();
}

fn bin() -> &'static Path {
    trommel()
}

fn built() -> Result<PathBuf, String> {
    program::built("tests/budget/arguments.c", "arguments", &["-O2", "-g"])
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Returns what `trommel values --json` says of a file.
fn values(data: &Path, options: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(bin());
    command.args(["values", "--json"]).args(options).arg(data);
    serde_json::from_str(&output(&mut command)?).map_err(text)
}

/// Returns the same of a recording with these options, of everything that has values.
fn recorded(options: &[&str]) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built()?;
    record_alike(options, &[&program.to_string_lossy(), TURNS], &data)?;
    values(&data, &["--all"])
}

fn real(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The arguments of the program's own functions.
fn own(all: &Value) -> Vec<&Value> {
    let taken: BTreeSet<&str> = TAKEN.iter().map(|(function, _)| *function).collect();
    let own = list(all, "arguments").iter();
    own.filter(|a| taken.contains(a["function"]["function"].as_str().unwrap_or("")))
        .collect()
}

fn name(argument: &Value) -> (&str, &str) {
    let function = argument["function"]["function"].as_str();
    (
        function.unwrap_or(""),
        argument["register"].as_str().unwrap_or(""),
    )
}

/// The true shares of an argument's values, if there are few: of all calls of its function, or of one.
fn truth(argument: &Value) -> Option<BTreeMap<u64, f64>> {
    let by_all = argument["call"].is_null();
    let hundred = argument["value"] == 100;
    Some(match name(argument) {
        ("constant" | "passes_on", "rdi") => [(42, 1.0)].into(),
        ("mostly", "rdx") => [(7, 0.9)].into(),
        ("power", "xmm1") => [(40_f64.to_bits(), 1.0)].into(),
        ("power", "xmm2") => [(2.5, 0.75), (0.5, 0.25)]
            .map(|(z, share): (f32, f64)| (z.to_bits().into(), share))
            .into(),
        ("uniform", "rdi") => (0..4).map(|n| (n, 0.25)).collect(),
        ("sites", "rdi") if by_all => [(100, 0.5)].into(),
        ("sites", "rdi") if hundred => [(100, 1.0)].into(),
        ("first", "rdi") => [(111, 2.0 / 3.0), (222, 1.0 / 3.0)].into(),
        ("second", "rdi") => [(222, 1.0)].into(),
        ("text", "rsi") => [(0, 0.5), (1, 0.5)].into(),
        _ => return None,
    })
}

/// Checks one recording: which arguments there are, and, of each that is reported, how many limits hold the truth, of how many.
fn judge(all: &Value) -> Result<(usize, usize), String> {
    let own = own(all);
    let found: BTreeSet<_> = own.iter().map(|a| name(a)).collect();
    if found != TAKEN.into() {
        return Err(format!("arguments {found:?}"));
    }
    let of = |function: &str, by_all: bool| {
        let own = own.iter().filter(|a| a["call"].is_null() == by_all);
        let own: Vec<_> = own.filter(|a| name(a) == (function, "rdi")).collect();
        own
    };
    let calls = ["constant", "sites", "first", "second"].map(|f| of(f, false).len());
    if calls != [2, 2, 1, 1] {
        return Err(format!("calls of functions: {calls:?}"));
    }
    // One call through a pointer.
    if of("first", false)[0]["call"] != of("second", false)[0]["call"] {
        return Err("the call through a pointer is two".into());
    }
    let executions = |function| real(of(function, true)[0], "executions");
    let ratio = executions("first") / executions("second");
    let whole = executions("constant") / executions("uniform");
    if !(2.2..4.0).contains(&ratio) || !(1.7..2.3).contains(&whole) {
        return Err(format!("calls compare as {ratio} and {whole}"));
    }
    let (mut held, mut told) = (0, 0);
    for argument in own {
        for (value, share) in truth(argument).into_iter().flatten() {
            let mut top = list(argument, "top").iter();
            let seen = top.find(|t| t["value"].as_u64() == Some(value));
            let Some(seen) = seen else {
                return Err(format!("{value} is missing: {argument}"));
            };
            let limits = real(seen, "share_low")..=real(seen, "share_high");
            told += 1;
            held += usize::from(limits.contains(&share));
        }
    }
    Ok((held, told))
}

fn shares() -> Result<(), String> {
    let (mut held, mut told) = (0, 0);
    // Many and few windows, long and short.
    for way in [
        ["--rate", "4000", "--window", "300"],
        ["--rate", "200", "--window", "4096"],
        ["--budget", "10", "--window", "1000"],
    ] {
        let options = [&way[..], &["-e", "edge,call,value,type"]].concat();
        let all = recorded(&options)?;
        let mut text = own(&all).into_iter();
        let text = text.find(|a| name(a) == ("text", "rdi"));
        let shown = text.and_then(|a| a["shown"].as_str()).unwrap_or("");
        if !shown.contains("\"frequent\"") {
            return Err(format!("the text is shown as {shown}: {}", all["windows"]));
        }
        let (holds, of) = judge(&all)?;
        held += holds;
        told += of;
    }
    // 95 of 100, but for chance; those of a function and of its only call stand or fall together.
    match told >= 60 && 100 * held >= 85 * told {
        true => Ok(()),
        false => Err(format!("{held} of {told} limits hold")),
    }
}

fn ranked() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built()?;
    let program = program.to_string_lossy();
    record_alike(&["--rate", "2000"], &[&program, TURNS], &data)?;
    let all = values(&data, &[])?;
    let found: BTreeSet<_> = own(&all)
        .iter()
        .map(|a| (name(a), a["call"].is_null()))
        // With nine in ten it pays if there were windows enough to be sure.
        .filter(|found| *found != (("mostly", "rdx"), false) && *found != (("mostly", "rdx"), true))
        .collect();
    let pays = [
        (("constant", "rdi"), true),
        (("constant", "rdi"), false),
        (("second", "rdi"), true),
        (("second", "rdi"), false),
        (("power", "xmm1"), true),
        (("power", "xmm1"), false),
        // At one of two calls.
        (("sites", "rdi"), false),
        (("text", "rdi"), true),
        (("text", "rdi"), false),
    ];
    if found != pays.into() {
        return Err(format!("these pay: {found:?}"));
    }
    let people = output(Command::new(bin()).arg("values").arg(&data))?;
    let lines: Vec<&str> = people.lines().filter(|l| l.contains(" of ")).collect();
    let has = |what: &str| lines.iter().any(|l| l.contains(what));
    // What is reported of a function is not reported again of each call.
    let right = has("rdi of constant ")
        && !has("rdi of constant, by")
        && has("rdi of sites, by main+")
        && has("\"frequent\"")
        && lines
            .iter()
            .any(|l| l.contains("xmm1 of power ") && l.contains(" 40.0 "))
        && people.contains("Loads and arguments worth specialising");
    if !right {
        return Err(people);
    }
    let mut command = Command::new(bin());
    let everything = output(command.args(["values", "--all", "--top", "0"]).arg(&data))?;
    let seen = [
        "rdi of sites ",
        "rdi of sites, by main+",
        "rdi of uniform ",
        "rdi of uniform, by",
    ];
    let seen = seen.map(|what| everything.matches(what).count());
    // Both calls of one pass something else most than it is given by all, or pay where it does not.
    match seen == [1, 2, 1, 0] {
        true => Ok(()),
        false => Err(format!("{seen:?}\n{everything}")),
    }
}

/// Checks that the values that are passed stand beside the call.
fn annotated() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = built()?;
    let program = program.to_string_lossy();
    record_alike(&["--rate", "2000"], &[&program, TURNS], &data)?;
    let mut command = Command::new(bin());
    let people = output(command.arg("annotate").arg(&data).arg("main"))?;
    let of_sites = |line: &&str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.windows(2).any(|pair| pair == ["call", "sites"])
    };
    let calls = people.lines().filter(of_sites);
    // The hottest block is shown before the function, and in it.
    let constant = calls
        .filter(|l| l.contains("rdi = 0x64 100 100.0%"))
        .collect::<BTreeSet<_>>()
        .len();
    let mut command = Command::new(bin());
    let all = output(command.args(["annotate", "--json"]).arg(&data).arg("main"))?;
    let all: Value = serde_json::from_str(&all).map_err(text)?;
    let given: Vec<_> = (list(&all, "instructions").iter())
        .filter(|line| !list(line, "arguments").is_empty())
        .map(|line| {
            let passed = list(line, "arguments").iter();
            passed
                .map(|p| (p["to"]["function"].as_str(), p["register"].as_str()))
                .collect::<Vec<_>>()
        })
        .collect();
    let pointer = [(Some("first"), Some("rdi")), (Some("second"), Some("rdi"))];
    // But for those of `strtoull` and `printf`.
    match constant == 1 && given.iter().any(|g| g[..] == pointer) && given.len() >= 8 {
        true => Ok(()),
        false => Err(format!("{constant}, {}: {given:?}\n{people}", given.len())),
    }
}

/// A function of a library, which is called by a stub: where branches are recorded too, it is reported by its own name.
fn stubs() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("data");
    let program = program::built("tests/budget/stubs.c", "stubs", &["-O1", "-g", "-fplt"])?;
    let program = program.to_string_lossy();
    record_alike(&["--rate", "2000"], &[&program, "30000000"], &data)?;
    let all = values(&data, &[])?;
    // Of all calls, and of the only one; a call or two of the loader's may have been seen too, far below them.
    let first = list(&all, "arguments").iter().take(2);
    let right = |a: &Value| {
        name(a) == ("rand_r", "rdi") && a["shown"].as_str().is_some_and(|s| s.contains("<state>"))
    };
    match first.clone().count() == 2 && first.clone().all(right) {
        true => Ok(()),
        false => Err(format!("{}", all["arguments"])),
    }
}

/// Two processes of one recording say of each argument what both have seen.
fn added() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = built()?;
    let program = program.to_string_lossy();
    let script = format!("{program} {TURNS} & {program} {TURNS}; wait");
    let both = scratch.path("both");
    record_alike(&["--rate", "1000"], &["sh", "-c", &script], &both)?;
    let all = values(&both, &["--all"])?;
    let (held, told) = judge(&all)?;
    match told >= 15 && 100 * held >= 80 * told {
        true => Ok(()),
        false => Err(format!("{held} of {told} limits hold")),
    }
}

fn without() -> Result<(), String> {
    let data_of = |kinds: &str| -> Result<(Value, usize), String> {
        let scratch = Scratch::new().map_err(text)?;
        let data = scratch.path("data");
        let program = built()?;
        let options = ["--rate", "1000", "-e", kinds];
        record_alike(&options, &[&program.to_string_lossy(), TURNS], &data)?;
        let report = output(
            Command::new(bin())
                .args(["report", "--json", "--no-debug-info"])
                .arg(&data),
        )?;
        let profiles = trommel_store::read(&data).map_err(text)?;
        let windows = profiles.iter().filter_map(|p| p.windows.as_ref());
        let arguments = windows.map(|w| w.arguments.len()).sum();
        Ok((serde_json::from_str(&report).map_err(text)?, arguments))
    };
    for kinds in ["call", "edge,value,type"] {
        let (report, arguments) = data_of(kinds)?;
        if arguments != 0 {
            return Err(format!("{kinds}: {arguments} arguments"));
        }
        // Each call of the program's own functions is executed once a turn, whatever else is looked at.
        let own = |name: &Value| TAKEN.iter().any(|(function, _)| name == *function);
        let calls: Vec<f64> = (list(&report, "calls").iter())
            .filter(|call| call["from"]["function"] == "main" && call["kind"] == "direct")
            .filter(|call| own(&call["to"]["function"]))
            .map(|call| real(call, "count"))
            .collect();
        let most = calls.iter().copied().fold(0.0, f64::max);
        let least = calls.iter().copied().fold(f64::INFINITY, f64::min);
        let asked = kinds.contains("call");
        if asked && (calls.len() < 7 || most > 1.1 * least) || !asked && !calls.is_empty() {
            return Err(format!("{kinds}: calls {calls:?}"));
        }
    }
    let (_, arguments) = data_of("call,value")?;
    match arguments {
        0 => Err("with values and calls there are no arguments".into()),
        _ => Ok(()),
    }
}
