//! Profiles made of windows within a budget (`record --budget`): what they say is true within the limits that they print, the
//! program notices nothing, and no more is paid than was said.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, need_windows, output, record_alike, reported, trommel};
use trommel_conformance::program;

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let trials = vec![
        Trial::test("a slow instruction is not seen more often", || Ok(skid()?)),
        Trial::test("shares of values are within their limits", || Ok(shares()?)),
        Trial::test("shares of branches are within their limits", || {
            Ok(branches()?)
        }),
        Trial::test("there are windows from the start", || Ok(start()?)),
        Trial::test("no system call is interrupted", || Ok(waits()?)),
        Trial::test("timers leave nothing", || Ok(timers()?)),
        Trial::test("forked processes are seen", || Ok(forks()?)),
        Trial::test(
            "a child forked after a call that ended a window is seen",
            || Ok(calls()?),
        ),
        Trial::test("executed programs are seen", || Ok(executes()?)),
        Trial::test("executed programs that cannot be are told", || {
            Ok(executes_restricted()?)
        }),
        Trial::test("instructions are worth the CPU time", || Ok(worth()?)),
        Trial::test("no more is paid than was said", || Ok(paid()?)),
        Trial::test("values that pay are ranked", || Ok(ranked()?)),
    ];
    libtest_mimic::run(&args, trials).exit();
}

/// A budget that is spent on windows.
const IN_WINDOWS: [&str; 3] = ["--budget", "10", "--windows"];

fn bin() -> &'static Path {
    trommel()
}

/// A program of `tests/budget`.
fn built(name: &str) -> Result<PathBuf, String> {
    let source = format!("tests/budget/{name}.c");
    program::built(&source, name, &["-O2", "-g", "-pthread"])
}

/// Records a program, which must say what it says natively, and gives the report.
fn record(options: &[&str], program: &Path, argument: &str) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    record_alike(options, &[&program.to_string_lossy(), argument], &data)?;
    reported(&data)
}

/// Records as [`record`] does a program that is given more to do, `turns` at first, until as many windows as asked for were counted: how
/// many there are in a second is the machine's affair, and what else it does.
fn record_windows(
    options: &[&str],
    program: &Path,
    turns: u64,
    windows: f64,
) -> Result<Value, String> {
    const MOST: u64 = 64;
    let mut times = 1;
    loop {
        let report = record(options, program, &(turns * times).to_string())?;
        let counted = real(&report["windows"], "counted");
        if counted >= windows {
            return Ok(report);
        }
        if times == MOST {
            let turns = turns * times;
            return Err(format!("{counted} of {windows} windows in {turns} turns"));
        }
        times *= 4;
    }
}

fn real(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The loads of `main` in a report.
fn loads(report: &Value) -> impl Iterator<Item = &Value> {
    let all = list(report, "values").iter();
    all.filter(|v| v["at"]["function"] == "main")
}

/// The most of a sample's numbers over the least, of the loads after a division.
fn unevenness(skip: &str) -> Result<f64, String> {
    let program = built("skid")?;
    let options = [
        "--rate", "4000", "--window", "2", "--skip", skip, "-e", "value",
    ];
    let report = record(&options, &program, "60000000")?;
    let samples: Vec<f64> = loads(&report).map(|v| real(v, "samples")).collect();
    let most = samples.iter().copied().fold(0.0, f64::max);
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let seen: f64 = samples.iter().sum();
    match (samples.len(), seen) {
        (13, 400.0..) => Ok(most / least),
        // Without skipping most are never seen.
        (1..13, 400.0..) if skip == "1" => Ok(f64::INFINITY),
        (loads, _) => Err(format!("{loads} loads, {seen} samples")),
    }
}

fn skid() -> Result<(), String> {
    let (without, with) = (unevenness("1")?, unevenness("256")?);
    // By chance alone, 13 counts of 50 or more are within a factor of two or so.
    match without > 4.0 && with < 2.5 {
        true => Ok(()),
        false => Err(format!(
            "most over least: {without:.2} without passing instructions, {with:.2} with"
        )),
    }
}

/// Returns the exact share of every load and value.
fn exact(program: &Path, argument: &str) -> Result<BTreeMap<(u64, u64), f64>, String> {
    let report = record(&["-e", "value", "--exact-values"], program, argument)?;
    let mut shares = BTreeMap::new();
    for load in loads(&report) {
        let at = load["at"]["vaddr"].as_u64().ok_or("a load")?;
        for top in list(load, "top") {
            let value = top["value"].as_u64().ok_or("a value")?;
            shares.insert((at, value), real(top, "share"));
        }
    }
    Ok(shares)
}

/// The part of all limits that hold the truth is at least 90 of 100: 95, but for chance, as those of one load stand or fall
/// together.
fn judge(held: usize, all: usize, least: usize) -> Result<(), String> {
    match all >= least && 100 * held >= 90 * all {
        true => Ok(()),
        false => Err(format!("{held} of {all} limits hold")),
    }
}

fn shares() -> Result<(), String> {
    let program = built("values")?;
    // The shares do not depend on how many turns there are.
    let exact = exact(&program, "1000000")?;
    let (mut held, mut all) = (0, 0);
    // At ticks and in between, and twice at ticks alone.
    let ways = [["--budget", "10"], ["--rate", "200"], ["--rate", "200"]];
    for way in ways {
        let options = [&way[..], &["-e", "value"]].concat();
        let report = record_windows(&options, &program, 60_000_000, 40.0)?;
        for load in loads(&report) {
            let at = load["at"]["vaddr"].as_u64().ok_or("a load")?;
            for top in list(load, "top") {
                let value = top["value"].as_u64().ok_or("a value")?;
                let share = exact.get(&(at, value)).copied().unwrap_or(0.0);
                if share < 0.01 {
                    continue;
                }
                all += 1;
                let limits = real(top, "share_low")..=real(top, "share_high");
                held += usize::from(limits.contains(&share));
            }
        }
    }
    judge(held, all, 45)
}

/// Returns, of every conditional branch of a program's own, the share that is taken, and its limits.
fn taken(report: &Value) -> BTreeMap<u64, (f64, f64)> {
    let mut counts: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    let mut draws: BTreeMap<u64, f64> = BTreeMap::new();
    for edge in list(report, "edges") {
        let from = &edge["from"];
        let own = ["main", "one", "two", "three"];
        let function = from["function"].as_str().unwrap_or("");
        let (Some(at), true) = (from["vaddr"].as_u64(), own.contains(&function)) else {
            continue;
        };
        let way = match edge["kind"].as_str() {
            Some("taken") => 0,
            Some("fallthrough") => 1,
            _ => continue,
        };
        counts.entry(at).or_default()[way] += real(edge, "count");
        draws.insert(at, real(edge, "draws_of_site"));
    }
    let share = |(at, [taken, not]): (u64, [f64; 2])| (at, (taken / (taken + not), draws[&at]));
    counts.into_iter().map(share).collect()
}

fn branches() -> Result<(), String> {
    let program = built_work()?;
    let exact = taken(&record(&["-e", "edge"], &program, "20")?);
    let (mut held, mut all) = (0, 0);
    for _ in 0..3 {
        let options = ["--budget", "10", "--windows", "-e", "edge"];
        let seen = taken(&record_windows(&options, &program, 60, 100.0)?);
        for (at, (share, draws)) in seen {
            let Some(&(truth, _)) = exact.get(&at) else {
                continue;
            };
            // Once at the start or the end.
            if draws < 20.0 {
                continue;
            }
            all += 1;
            // Wilson's interval, for 999 of 1000: of so few, one of 95 of 100 would be missed every other time.
            const Z: f64 = 3.29;
            let z2 = Z * Z / draws;
            let middle = (share + z2 / 2.0) / (1.0 + z2);
            let off = Z * (share * (1.0 - share) / draws + z2 / draws / 4.0).sqrt() / (1.0 + z2);
            held += usize::from((truth - middle).abs() <= off + 1e-9);
        }
    }
    match all >= 9 && all - held <= 1 {
        true => Ok(()),
        false => Err(format!("{held} of {all} limits hold")),
    }
}

/// A program begins in a window, and a long one may take until after the first signal: there are windows all the same, and not
/// only from the next signal of the host's on, a second later.
fn start() -> Result<(), String> {
    let program = built("arguments")?;
    for run in 0..8 {
        let options = ["--rate", "200", "--window", "4096"];
        let report = record(&options, &program, "30000000")?;
        let windows = &report["windows"];
        // At 200 a second; a fifth of that, as the host too takes its time to begin.
        let expected = real(windows, "cpu_ns") * 1e-9 * 200.0 / 5.0;
        if real(windows, "counted") < expected {
            return Err(format!("run {run}: {windows}"));
        }
    }
    Ok(())
}

/// The program of the tests of windows.
fn built_work() -> Result<PathBuf, String> {
    program::built("tests/windows/work.c", "work-O1", &["-O1", "-g"])
}

fn waits() -> Result<(), String> {
    // The output is compared with that of a native run, which has none.
    for (rate, turns, least) in [("4000", "60", 100.0), ("200", "300", 20.0)] {
        let options = ["--rate", rate, "--window", "64"];
        let report = record(&options, &built("waits")?, turns)?;
        let windows = real(&report["windows"], "counted");
        let threads = real(&report["threads"], "started");
        if windows < least || threads != 4.0 {
            return Err(format!(
                "at {rate}, windows and threads: {windows}, {threads}"
            ));
        }
    }
    Ok(())
}

/// A process that was detached has none of the timers that began windows, whoever detach it, and lives.
fn timers() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut target = Command::new(built("values")?);
    let target = target.arg("100000000000").stdout(Stdio::null()).spawn();
    let mut target = target.map_err(|e| e.to_string())?;
    let pid = target.id();
    let record = || {
        let mut command = Command::new(bin());
        let options = ["record", "--quiet", "--rate", "200", "-e", "edge", "-p"];
        command
            .args(options)
            .arg(pid.to_string())
            .arg("-o")
            .arg(&data);
        command
    };
    let timers = || fs::read_to_string(format!("/proc/{pid}/timers")).map_err(|e| e.to_string());
    let mut check = || -> Result<(), String> {
        for _ in 0..5 {
            output(record().args(["--duration", "0.4"]))?;
            let report = reported(&data)?;
            let windows = &report["windows"];
            let pacing = windows["pacing"].as_str().unwrap_or("");
            // Half of what that much CPU time has at 200 a second: others may be using the processors.
            let expected = real(windows, "cpu_ns") * 1e-9 * 200.0 / 2.0;
            let few = real(windows, "counted") < expected.max(4.0);
            if few || !pacing.starts_with("CPU-time timers") {
                return Err(format!("hardly any windows by timers: {windows}"));
            }
            let left = timers()?;
            if !left.is_empty() {
                return Err(format!("timers are left:\n{left}"));
            }
        }
        // Killed, while there are timers.
        let mut command = record().spawn().map_err(|e| e.to_string())?;
        let began = Instant::now();
        let wait = |until: fn(&str) -> bool| {
            while !until(&timers()?) {
                if began.elapsed() > Duration::from_secs(20) {
                    return Err(format!("timers: {:?}", timers()));
                }
                sleep(Duration::from_millis(10));
            }
            Ok(())
        };
        let armed = wait(|timers| timers.contains("signal: 32"));
        command.kill().map_err(|e| e.to_string())?;
        command.wait().map_err(|e| e.to_string())?;
        armed?;
        wait(str::is_empty)?;
        sleep(Duration::from_millis(50));
        match target.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("the program has ended: {ended:?}")),
        }
    };
    let done = check();
    target.kill().map_err(|e| e.to_string())?;
    target.wait().map_err(|e| e.to_string())?;
    done
}

fn forks() -> Result<(), String> {
    let report = record_windows(&IN_WINDOWS, &built("forks")?, 150_000_000, 400.0)?;
    let processes = list(&report, "processes").len();
    let of = |name: &str| -> f64 {
        let edges = list(&report, "edges").iter();
        let own = edges.filter(|e| {
            let function = e["from"]["function"].as_str().unwrap_or("");
            function.starts_with(name)
        });
        own.map(|e| real(e, "count")).sum()
    };
    let (parent, child) = (of("parent"), of("child"));
    // Eight times the work, but for what is done before they are found.
    match processes == 3 && (4.0..16.0).contains(&(child / parent)) {
        true => Ok(()),
        false => Err(format!(
            "{processes} processes, {parent} and {child} branches"
        )),
    }
}

/// The runtime begins to describe code at the call, and gives that up: the child describes other code there.
fn calls() -> Result<(), String> {
    let options = ["--rate", "8000", "--window", "1", "--by-caller"];
    let report = record(&options, &built("calls")?, "300000")?;
    let windows = &report["windows"];
    let (counted, whole) = (real(windows, "counted"), real(windows, "whole"));
    match list(&report, "processes").len() == 2 && whole > 50.0 && counted >= 0.95 * whole {
        true => Ok(()),
        false => Err(format!("{windows}")),
    }
}

/// Programs that a shell executes, in its own place and in those of children: each is a process of the profile, with branches
/// of its own, and those that the shell waits for do not end its windows.
fn executes() -> Result<(), String> {
    let program = built("values")?;
    let program = program.to_string_lossy();
    let (once, half) = ("200000000", "100000000");
    for (script, runs, ends) in [
        (format!("exec {program} {once}"), 1, "exec"),
        (format!("{program} {once}; echo $?"), 1, "exit"),
        (
            format!("for i in 1 2; do {program} {half} & done; wait; exit 7"),
            2,
            "exit",
        ),
    ] {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let data = scratch.path("data");
        let mut command = Command::new(bin());
        let options = [
            "record",
            "--quiet",
            "--budget",
            "20",
            "--windows",
            "-e",
            "edge",
            "-o",
        ];
        command
            .args(options)
            .arg(&data)
            .args(["--", "bash", "-c", &script]);
        let seen = command.output().map_err(|e| e.to_string())?;
        let native = Command::new("bash").args(["-c", &script]).output();
        let native = native.map_err(|e| e.to_string())?;
        if (native.status, &native.stdout) != (seen.status, &seen.stdout) {
            return Err(format!("{script}: {seen:?} in place of {native:?}"));
        }
        let report = reported(&data)?;
        let named = |name: &str| {
            let all = list(&report, "processes").iter();
            let found = all.filter(|p| p["command"][0].as_str().is_some_and(|c| c.ends_with(name)));
            found
                .map(|p| p["ended"].as_str().unwrap_or(""))
                .collect::<Vec<_>>()
        };
        let own = list(&report, "edges")
            .iter()
            .filter(|edge| edge["from"]["function"].as_str() == Some("main"));
        let windows = real(&report["windows"], "counted");
        if named("bash") != [ends]
            || named("values").len() != runs
            || own.count() == 0
            || windows < 20.0
        {
            return Err(format!("{script}: {}", report["processes"]));
        }
    }
    Ok(())
}

/// An executed program that cannot be attached runs as it would alone, which is reported once.
fn executes_restricted() -> Result<(), String> {
    let program = built("values")?;
    let filtered = program::built("tests/attach/filtered.c", "filtered", &["-O1"])?;
    let (program, filtered) = (program.to_string_lossy(), filtered.to_string_lossy());
    let script = format!("{filtered} -310 {program} 100000000; exit 4");
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut command = Command::new(bin());
    let options = ["record", "--budget", "20", "--windows", "-e", "edge", "-o"];
    command
        .args(options)
        .arg(scratch.path("data"))
        .args(["--", "bash", "-c", &script]);
    let seen = command.output().map_err(|e| e.to_string())?;
    let native = Command::new("bash").args(["-c", &script]).output();
    let native = native.map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&seen.stderr);
    let told = said.matches("restricted its").count();
    match (native.status, &native.stdout) == (seen.status, &seen.stdout) && told == 1 {
        true => Ok(()),
        false => Err(format!("told {told} times: {seen:?}")),
    }
}

fn paid() -> Result<(), String> {
    const BEGINNING_NS: f64 = 6e6;
    let program = built_work()?;
    // The smallest budget needs the longest run: the command itself takes some tens of milliseconds to begin.
    for (budget, rounds) in [(1.0, "400"), (3.0, "120"), (10.0, "80")] {
        let text = budget.to_string();
        let report = record(&["--budget", &text, "--windows"], &program, rounds)?;
        let windows = &report["windows"];
        let paid = real(windows, "paid_percent");
        let sum = real(windows, "paid_target_percent") + real(windows, "paid_host_percent");
        let shown = real(windows, "budget_percent").total_cmp(&budget).is_eq();
        // A run this short does not earn what it takes to begin: some milliseconds, more where files must be read first.
        let beginning = 100.0 * BEGINNING_NS / real(windows, "cpu_ns");
        if !(shown
            && paid <= budget + 1.0 + beginning
            && paid > budget / 4.0
            && (paid - sum).abs() < 0.01)
        {
            return Err(format!("{budget}: {windows}"));
        }
    }
    Ok(())
}

/// `trommel values` of a windows profile and of an exact one: both put the same loads first, and neither has those
/// that do not pay. Windows of a budget are few where other work wants the processors too: where one is not known
/// yet the program runs for longer.
fn ranked() -> Result<(), String> {
    let program = built("values")?;
    let exact = best_values(&program, &["-e", "value", "--exact-values"], 1_000_000)?;
    let sampled = |turns| best_values(&program, &["-e", "value", "--budget", "10"], turns);
    let mut turns = 80_000_000;
    let mut seen = sampled(turns)?;
    while [42, 7].starts_with(&seen) && seen != exact && turns < 5_000_000_000 {
        turns *= 4;
        seen = sampled(turns)?;
    }
    match exact == [42, 7] && seen == exact {
        true => Ok(()),
        false => Err(format!("values {exact:?}, in windows {seen:?}")),
    }
}

/// The two values of loads in `main` that pay best.
fn best_values(program: &Path, options: &[&str], turns: u64) -> Result<Vec<u64>, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut command = Command::new(bin());
    command.arg("record").args(options).arg("-o").arg(&data);
    output(command.arg("--").arg(program).arg(turns.to_string()))?;
    let text = output(Command::new(bin()).args(["values", "--json"]).arg(&data))?;
    let all: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let in_main = list(&all, "loads").iter();
    let found = in_main.filter(|v| v["at"]["function"] == "main");
    let found = found.filter_map(|v| v["value"].as_u64()).take(2).collect();
    let people = output(Command::new(bin()).arg("values").arg(&data))?;
    match people.contains("worth specialising") {
        true => Ok(found),
        false => Err(people),
    }
}

/// Instructions of windows are worth the CPU time, whatever threads do: at one a cycle, as reports say.
fn worth() -> Result<(), String> {
    /// Factor that chance may make, with some tens of windows.
    const FAR: f64 = 1.3;
    for budget in ["1", "10"] {
        let program = built("worth")?;
        let report = record(&["--budget", budget, "--windows"], &program, "3000")?;
        let functions = report["functions"].as_array().cloned().unwrap_or_default();
        let counts = functions.iter().filter_map(|f| f["self"].as_f64());
        let counted: f64 = counts.sum();
        let cpu = report["run"]["target_cpu_ns"].as_f64().unwrap_or(0.0);
        let windows = &report["windows"];
        let cycles = real(windows, "instructions") / real(windows, "covered_ns");
        let worth = counted / (cpu * cycles);
        // Some of the time is the kernel's, and the runtime's.
        if !(0.5 / FAR..FAR).contains(&worth) {
            return Err(format!(
                "--budget {budget}: {counted} instructions for {cpu} ns of CPU time, {worth} of what they are worth"
            ));
        }
    }
    Ok(())
}
