//! Simulated caches and predictors, and lines that threads share: misses are those of cachegrind, mispredictions too, planted false
//! sharing is found, the mended program is clean, and what does not go together is refused.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::program::built;

fn main() {
    let args = Arguments::from_args();
    let trials = vec![
        Trial::test("misses are those of cachegrind", || Ok(misses()?)),
        Trial::test("sums are those of the events", || Ok(sums()?)),
        Trial::test("planted false sharing is found", || Ok(planted()?)),
        Trial::test("mended false sharing is not found", || Ok(mended()?)),
        Trial::test("several processes are said", || Ok(several()?)),
        Trial::test("what does not go together is refused", || Ok(refused()?)),
    ];
    libtest_mimic::run(&args, trials).exit();
}

/// Caches that the programs' data fill several times.
const CACHES: &str = "l1=16k/4,ll=256k/8,line=64";

fn number(of: &Value, path: &[&str]) -> Result<u64, String> {
    let found = path.iter().fold(of, |of, name| &of[*name]);
    found.as_u64().ok_or_else(|| format!("no {path:?}"))
}

/// Records a program; what a command says of it as JSON.
fn record(
    options: &[&str],
    program: &Path,
    argument: &str,
    shown: &[&str],
) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut command = Command::new(trommel());
    command.args(["record", "--quiet"]).args(options);
    output(
        command
            .arg("-o")
            .arg(&data)
            .arg("--")
            .arg(program)
            .arg(argument),
    )?;
    let (name, rest) = shown.split_first().ok_or("no command")?;
    // For people, too.
    output(Command::new(trommel()).arg(name).args(rest).arg(&data))?;
    let mut command = Command::new(trommel());
    let json = output(command.arg(name).args(rest).arg("--json").arg(&data))?;
    serde_json::from_str(&json).map_err(|e| e.to_string())
}

/// Sums of cachegrind's output file, by the name of an event.
fn cachegrind(program: &Path, argument: &str) -> Result<impl Fn(&str) -> u64 + use<>, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let file = scratch.path("out");
    let mut command = Command::new("valgrind");
    command.args([
        "-q",
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--branch-sim=yes",
    ]);
    command.args(["--I1=32768,8,64", "--D1=16384,4,64", "--LL=262144,8,64"]);
    command.arg(format!("--cachegrind-out-file={}", file.display()));
    output(command.arg(program).arg(argument))?;
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let line = |name: &str| -> Vec<String> {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found
            .unwrap_or("")
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let (names, sums) = (line("events:"), line("summary:"));
    if names.is_empty() || names.len() != sums.len() {
        return Err("cachegrind's file is not as expected".into());
    }
    Ok(move |name: &str| {
        let at = names.iter().position(|n| n == name);
        at.and_then(|at| sums[at].parse().ok()).unwrap_or(0)
    })
}

/// Both differ by at most so many parts in a thousand.
fn near(what: &str, ours: u64, theirs: u64, thousandth: u64) -> Result<(), String> {
    match theirs != 0 && ours.abs_diff(theirs) * 1000 <= theirs * thousandth {
        true => Ok(()),
        false => Err(format!("{what}: {ours}, and cachegrind has {theirs}")),
    }
}

fn program() -> Result<std::path::PathBuf, String> {
    built("tests/memory/misses.c", "misses", &["-O1", "-g"])
}

fn misses() -> Result<(), String> {
    let options = ["-e", "miss,llmiss,mispredict", "--cache", CACHES];
    let report = record(&options, &program()?, "1", &["report"])?;
    let theirs = cachegrind(&program()?, "1")?;
    let ours = |path: &[&str]| number(&report["simulated"], path);
    for (what, of, theirs) in [
        ("loads", ["loads", "accesses"], theirs("Dr")),
        ("stores", ["stores", "accesses"], theirs("Dw")),
        ("load misses", ["loads", "l1_misses"], theirs("D1mr")),
        ("store misses", ["stores", "l1_misses"], theirs("D1mw")),
        (
            "branches",
            ["conditional", "branches"],
            theirs("Bc") - REPEATED,
        ),
    ] {
        near(what, ours(&of)?, theirs, 10)?;
    }
    // Code is in their last-level cache, too.
    let last = ours(&["loads", "ll_misses"])? + ours(&["stores", "ll_misses"])?;
    near("last misses", last, theirs("DLmr") + theirs("DLmw"), 10)?;
    // Its repeated move is a branch for each byte, which is always predicted.
    let wrong = ours(&["conditional", "mispredicted"])?;
    near("mispredictions", wrong, theirs("Bcm"), 30)
}

/// Bytes of the program's repeated move.
const REPEATED: u64 = 1 << 19;

fn sums() -> Result<(), String> {
    let options = ["-e", "miss,llmiss,mispredict,edge", "--cache", CACHES];
    let report = record(&options, &program()?, "1", &["report"])?;
    let list = |name: &str, member: &str| {
        let all = report[name].as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter_map(|of| of[member].as_u64()).sum::<u64>()
    };
    let sum = |member: &str| -> Result<u64, String> {
        let of = |name| number(&report["simulated"], &[name, member]);
        Ok(of("loads")? + of("stores")?)
    };
    let wrong = number(&report["simulated"], &["conditional", "mispredicted"])?
        + number(&report["simulated"], &["indirect", "mispredicted"])?;
    for (name, ours, events) in [
        ("misses", list("misses", "executions"), sum("l1_misses")?),
        ("last", list("last_misses", "executions"), sum("ll_misses")?),
        ("wrong", list("mispredictions", "count"), wrong),
    ] {
        if ours != events || ours == 0 {
            return Err(format!("{name}: {ours} in lists, {events} in sums"));
        }
    }
    // Of each instruction no more misses are reported than accesses, and of all no more accesses than there were.
    for (name, missed, of) in [
        ("misses", "executions", "accesses"),
        ("last_misses", "executions", "accesses"),
        ("mispredictions", "count", "branches_of_site"),
    ] {
        let all = report[name].as_array().map_or(&[][..], Vec::as_slice);
        let more = |of: u64, missed: u64| missed == 0 || missed > of;
        let wrong = all
            .iter()
            .find(|row| match (row[of].as_u64(), row[missed].as_u64()) {
                (Some(of), Some(missed)) => more(of, missed),
                _ => true,
            });
        if let Some(wrong) = wrong {
            return Err(format!("{name}: {wrong}"));
        }
    }
    if list("misses", "accesses") > sum("accesses")? {
        return Err("more accesses by instruction than in all".into());
    }
    // Edges are those of a run without simulation.
    let alone = record(&["-e", "edge"], &program()?, "1", &["report"])?;
    let edges = number(&report, &["events", "edge", "seen"])?;
    near(
        "edges",
        edges,
        number(&alone, &["events", "edge", "seen"])?,
        1,
    )
}

fn shared(flags: &[&str]) -> Result<Value, String> {
    let name = format!("sharing{}", flags.concat());
    let all = [&["-O1", "-g", "-pthread"], flags].concat();
    let program = built("tests/memory/sharing.c", &name, &all)?;
    let shown = ["c2c", "--least", "1000"];
    record(&["-e", "sharing"], &program, "60000", &shown)
}

fn lines(report: &Value) -> Vec<(String, String, usize)> {
    let all = report["lines"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or("").to_owned();
    all.iter()
        .map(|line| {
            let threads = line["threads"].as_array().map_or(0, Vec::len);
            (text(line, "object"), text(line, "sharing"), threads)
        })
        .collect()
}

fn planted() -> Result<(), String> {
    let report = shared(&[])?;
    let found = lines(&report);
    for wanted in [("counters", "false"), ("both", "true")] {
        let is = |(object, sharing, threads): &(String, String, usize)| {
            (&**object, &**sharing) == wanted && *threads >= 2
        };
        if found.iter().filter(|line| is(line)).count() != 1 {
            return Err(format!("{wanted:?} is not among {found:?}"));
        }
    }
    // Both counters are told apart by their bytes.
    let line = report["lines"]
        .as_array()
        .and_then(|all| all.iter().find(|line| line["object"] == "counters"));
    let parts = line
        .and_then(|line| line["parts"].as_array())
        .ok_or("no parts")?;
    for offset in [0, 8] {
        let of = parts.iter().filter(|part| part["offset"] == offset);
        let stores: u64 = of.filter_map(|part| part["stores"].as_u64()).sum();
        if !(1000..=60_001).contains(&stores) {
            return Err(format!("{stores} stores at {offset}"));
        }
    }
    Ok(())
}

fn mended() -> Result<(), String> {
    let found = lines(&shared(&["-DMENDED", "-DCLEAN"])?);
    match &found[..] {
        [] => Ok(()),
        found => Err(format!("{found:?}")),
    }
}

/// Lines that only processes share are not looked for, which is said.
fn several() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    for (script, several) in [("true", false), ("(true); (true)", true)] {
        let mut command = Command::new(trommel());
        command.args(["record", "--quiet", "-e", "sharing", "-o"]);
        output(command.arg(&data).args(["--", "/bin/sh", "-c", script]))?;
        let text = output(Command::new(trommel()).arg("c2c").arg(&data))?;
        let json = output(Command::new(trommel()).args(["c2c", "--json"]).arg(&data))?;
        let json: Value = serde_json::from_str(&json).map_err(|e| e.to_string())?;
        let said = text.contains("lines that only processes share");
        if said != several || (number(&json, &["processes"])? > 1) != several {
            return Err(format!("{script}: {text}{json}"));
        }
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    for (options, word) in [
        (&["-e", "miss", "--budget", "3"][..], "--budget"),
        (&["-e", "miss", "--only", "main"], "--only"),
        (&["-e", "mispredict,path"], "path"),
        (&["-e", "sharing,context"], "context"),
        (&["-e", "edge", "--cache", "l1=32k/8"], "--cache"),
        (&["-e", "miss", "--cache", "l1=33k/8"], "power of two"),
        (&["-e", "sharing,none"], "none"),
    ] {
        let mut command = Command::new(trommel());
        let done = command
            .arg("record")
            .args(options)
            .args(["--", "true"])
            .output();
        let done = done.map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() || !said.contains(word) {
            return Err(format!("{options:?}: {said}"));
        }
    }
    Ok(())
}
