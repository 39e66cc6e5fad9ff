//! Reports of accesses to memory from windows (`record -e address`, `-e latency`): addresses are those that the program accesses,
//! `replay` finds pairs that are in each other's way and no others, `latency` tells the caches apart, and the program notices nothing.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, need_windows, output, trommel};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program::built;

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let trials = vec![
        Trial::test("addresses are those that are accessed", || Ok(addresses()?)),
        Trial::test("loads that are timed do what they do", || Ok(timed()?)),
        Trial::test("pairs in each other's way are found", || Ok(pairs()?)),
        Trial::test("mended pairs are not found", || Ok(mended()?)),
        Trial::test("pairs and latencies are beside their instructions", || {
            Ok(annotated()?)
        }),
        Trial::test("caches are told apart", || Ok(caches()?)),
        Trial::test("what cannot be recorded is refused", || Ok(refused()?)),
    ];
    libtest_mimic::run(&args, trials).exit();
}

fn bin() -> &'static Path {
    trommel()
}

/// Records a program; what it said, and what a command says of it then.
fn record(
    options: &[&str],
    program: &Path,
    argument: &str,
    shown: &[&str],
) -> Result<(String, Value), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut command = Command::new(bin());
    command.arg("record").args(options).arg("-o").arg(&data);
    let said = output(command.arg("--").arg(program).arg(argument))?;
    let (name, rest) = shown.split_first().ok_or("no command")?;
    // For people, too.
    output(Command::new(bin()).arg(name).arg(&data))?;
    let json = output(
        Command::new(bin())
            .arg(name)
            .args(rest)
            .arg("--json")
            .arg(&data),
    )?;
    let json = serde_json::from_str(&json).map_err(|e| e.to_string())?;
    Ok((said, json))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn real(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

/// Returns the addresses of a program's labels.
fn labels(program: &Path) -> Result<BTreeMap<String, u64>, String> {
    let all = output(Command::new("nm").arg(program))?;
    let label = |line: &str| {
        let mut words = line.split_whitespace();
        let (at, _, name) = (words.next()?, words.next()?, words.next()?);
        let at = u64::from_str_radix(at, 16).ok()?;
        name.starts_with("at_").then(|| (name.to_owned(), at))
    };
    Ok(all.lines().filter_map(label).collect())
}

/// The program says what each of its instructions accesses.
fn addresses() -> Result<(), String> {
    let flags = ["-O1", "-g", "-no-pie", "-fno-pie", "-mno-red-zone"];
    let program = built("tests/memory/forms.c", "forms", &flags)?;
    let labels = labels(&program)?;
    let options = [
        "--rate",
        "2000",
        "--window",
        "500",
        "-e",
        "address,edge,call",
    ];
    let (said, report) = record(&options, &program, "8000000", &["report"])?;
    let mut seen: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for entry in list(&report, "addresses") {
        let at = entry["at"]["vaddr"].as_u64().ok_or("a place")?;
        let all = list(entry, "top")
            .iter()
            .filter_map(|t| t["value"].as_u64());
        seen.entry(at).or_default().extend(all);
    }
    let mut told = 0;
    for line in said.lines().filter(|l| l.starts_with("at_")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, first, second] = words[..] else {
            return Err(line.to_owned());
        };
        let at = labels.get(name).ok_or(name)?;
        let wanted: BTreeSet<u64> = [first, second]
            .into_iter()
            .filter_map(|n| n.parse().ok())
            .filter(|n| *n != 0)
            .collect();
        let found = seen.get(at).cloned().unwrap_or_default();
        if found != wanted {
            return Err(format!("{name}: {found:x?} in place of {wanted:x?}"));
        }
        told += 1;
    }
    match told {
        20.. => Ok(()),
        _ => Err(said),
    }
}

/// Checks that the program computes the same while it is looked at.
fn timed() -> Result<(), String> {
    let flags = ["-O1", "-g", "-no-pie", "-fno-pie", "-mno-red-zone"];
    let program = built("tests/memory/forms.c", "forms", &flags)?;
    let native = output(Command::new(&program).arg("1200000"))?;
    for (kinds, window) in [
        ("latency", "20"),
        ("address,latency,edge,call,type", "300"),
        ("latency,address", "4000"),
    ] {
        let options = ["--rate", "20000", "--window", window, "-e", kinds];
        let (said, report) = record(&options, &program, "1200000", &["report"])?;
        // The rest has addresses on the stack.
        if !said.lines().take(2).eq(native.lines().take(2)) {
            return Err(format!("{kinds}: {said:?} in place of {native:?}"));
        }
        let loads = list(&report, "latencies").len();
        if loads < 14 {
            return Err(format!("{kinds}: {loads} loads"));
        }
    }
    Ok(())
}

/// Kind, function of the store and function of the load of what meets at least a tenth of the loads.
fn met(program: &Path) -> Result<BTreeSet<[String; 3]>, String> {
    let options = ["--rate", "2000", "--window", "1000", "-e", "address"];
    let native = output(Command::new(program).arg("60000000"))?;
    let (said, found) = record(&options, program, "60000000", &["replay", "--share", "10"])?;
    if said != native {
        return Err(format!("{said:?} in place of {native:?}"));
    }
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let own = |pair: &&Value| text(&pair["load"]["function"]).starts_with("by_");
    let pair = |pair: &Value| {
        [
            text(&pair["kind"]),
            text(&pair["store"]["function"]),
            text(&pair["load"]["function"]),
        ]
    };
    let pairs = list(&found, "pairs");
    let wrong = pairs.iter().find(|p| {
        let (low, count, high) = (real(p, "low"), real(p, "count"), real(p, "high"));
        !(low <= count && count <= high && real(p, "share") <= real(p, "share_high"))
    });
    match wrong {
        Some(wrong) => Err(wrong.to_string()),
        None => Ok(pairs.iter().filter(own).map(pair).collect()),
    }
}

fn pairs() -> Result<(), String> {
    let found = met(&built(
        "tests/memory/conflicts.c",
        "conflicts",
        &["-O2", "-g"],
    )?)?;
    let planted = ["size", "order", "synonym"];
    let wanted: BTreeSet<[String; 3]> = planted
        .into_iter()
        .map(|kind| [kind.to_owned(), format!("by_{kind}"), format!("by_{kind}")])
        .collect();
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}

/// `trommel annotate` of a function, of a recording with these events.
fn annotate(kind: &str, program: &Path, argument: &str, function: &str) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut command = Command::new(bin());
    command.args([
        "record", "--rate", "2000", "--window", "1000", "-e", kind, "-o",
    ]);
    output(command.arg(&data).arg("--").arg(program).arg(argument))?;
    output(Command::new(bin()).arg("annotate").arg(&data).arg(function))?;
    let mut command = Command::new(bin());
    let json = output(
        command
            .args(["annotate", "--json"])
            .arg(&data)
            .arg(function),
    )?;
    serde_json::from_str(&json).map_err(|e| e.to_string())
}

fn annotated() -> Result<(), String> {
    let program = built("tests/memory/conflicts.c", "conflicts", &["-O2", "-g"])?;
    let said = annotate("address", &program, "60000000", "by_size")?;
    // On the store and on the load, of most executions of the load.
    let found = list(&said, "instructions").iter().filter(|line| {
        let pairs = list(line, "conflicts").iter();
        let is = |pair: &&Value| pair["kind"] == "size" && real(pair, "share") > 0.9;
        pairs.filter(is).count() == 1 && real(line, "executions") > 0.0
    });
    if found.count() != 2 {
        return Err(format!("conflicts: {said}"));
    }
    let program = built("tests/memory/chase.c", "chase", &["-O2", "-g"])?;
    if output(Command::new(&program).arg("1")).is_err() {
        not_tested("latencies of caches: the kernel does not report their sizes");
        return Ok(());
    }
    let said = annotate("latency", &program, "20", "in_memory")?;
    let mut lines = list(&said, "instructions").iter();
    let load = lines.find(|line| !line["latency"].is_null());
    let levels = list(load.map_or(&Value::Null, |load| &load["latency"]), "levels");
    let sum: f64 = levels.iter().map(|level| real(level, "share")).sum();
    match (0.99..1.01).contains(&sum) {
        true => Ok(()),
        false => Err(format!("latencies: {said}")),
    }
}

fn mended() -> Result<(), String> {
    let found = met(&built(
        "tests/memory/conflicts.c",
        "mended",
        &["-O2", "-g", "-DMENDED"],
    )?)?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}

/// By ring, where most of its load's executions find their bytes.
fn levels_of(found: &Value) -> BTreeMap<String, String> {
    let loads = list(found, "loads").iter();
    let own = loads.filter_map(|load| {
        let function = load["at"]["function"].as_str()?;
        let levels = list(load, "levels").iter();
        let most = levels.max_by(|a, b| real(a, "share").total_cmp(&real(b, "share")))?;
        let ring = function.strip_prefix("in_")?;
        Some((ring.to_owned(), most["name"].as_str()?.to_owned()))
    });
    own.collect()
}

/// The program knows where its lines should be, and how long a step took: other programs push lines out of caches that they
/// share. A ring whose steps took longer than its cache does is not judged, nor one of a level that `trommel` itself says it
/// mistakes: a machine whose neighbours are loud has nothing to tell apart. What is judged has to be right once.
fn caches() -> Result<(), String> {
    /// Neighbours on the machine come and go: each run sees others.
    const RUNS: usize = 4;
    /// Beside loads there is little else; some of them are of another level.
    const MORE: f64 = 1.25;
    /// More than a known access of a level in so many is taken for another's: the level is not there to be told.
    const MISTAKEN: f64 = 0.25;
    /// Rings that have to be judged for a run to count.
    const ENOUGH: usize = 2;
    let program = built("tests/memory/chase.c", "chase", &["-O2", "-g"])?;
    if output(Command::new(&program).arg("1")).is_err() {
        not_tested("latencies of caches: the kernel does not report their sizes");
        return Ok(());
    }
    let mut all = Vec::new();
    let mut wrong = false;
    for _ in 0..RUNS {
        let options = ["--budget", "10", "-e", "latency"];
        let (said, found) = record(&options, &program, "20", &["latency"])?;
        let told = levels_of(&found);
        let limit = |level: &str| {
            let mut levels = list(&found, "levels").iter();
            let level = levels.find(|l| l["name"] == level && real(l, "mistaken") <= MISTAKEN)?;
            // There is none beyond the last.
            Some(level["below_cycles"].as_f64().unwrap_or(f64::INFINITY))
        };
        let mut judged = 0;
        let mut right = true;
        for (line, level) in said.lines().zip(["L1", "L2", "L3", "memory"]) {
            let (ring, step) = line.split_once(' ').ok_or("a ring")?;
            let step: f64 = step.parse().map_err(|_| "a number")?;
            let step = step / real(&found, "cycle_ns");
            if limit(level).is_some_and(|limit| MORE * step < limit) {
                judged += 1;
                right &= told.get(ring).is_some_and(|told| told == level);
            }
        }
        if right && judged >= ENOUGH {
            return Ok(());
        }
        wrong |= !right;
        all.push(format!(
            "{told:?}, steps of {said:?}, by {}",
            found["levels"]
        ));
    }
    let all = all.join("\n");
    if wrong {
        return Err(all);
    }
    let all = all.replace('\n', " ");
    not_tested(format_args!(
        "levels of caches: they are mistaken for each other here: {all}"
    ));
    Ok(())
}

fn refused() -> Result<(), String> {
    for (options, words) in [
        (&["-e", "latency"][..], "--budget"),
        (&["-e", "address"], "--budget"),
        (&["-e", "latency,value", "--budget", "5"], "two recordings"),
        (
            &["-e", "address", "--budget", "5", "--only", "main"],
            "--only",
        ),
        (&["-e", "result"], "query"),
    ] {
        let done = Command::new(bin())
            .arg("record")
            .args(options)
            .args(["--", "true"])
            .output();
        let done = done.map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() || !said.contains(words) {
            return Err(format!("{options:?}: {said}"));
        }
    }
    let program = built("tests/memory/conflicts.c", "conflicts", &["-O2", "-g"])?;
    for command in ["latency", "replay"] {
        let found = record(
            &["-e", "value", "--budget", "5"],
            &program,
            "1000",
            &[command],
        );
        match found {
            Err(said) if said.contains("record them with") => {}
            other => return Err(format!("{command}: {other:?}")),
        }
    }
    Ok(())
}
