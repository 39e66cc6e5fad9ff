//! Running programs that are attached and detached: they notice nothing, and nothing of ours remains.
//!
//! `TROMMEL_ATTACH_CYCLES` sets how often each is attached to.

mod bursts;
mod containers;
mod redis;
mod refusals;
mod sandboxes;
mod starts;
mod stops;
mod tracers;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Scratch, no_windows, output, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program;
use trommel_conformance::wait;

use bursts::{
    burst_counts, family_in_bursts, killed_in_bursts, made_anew, naps, other_kinds, paced, vforks,
};
use containers::of_a_container;
use redis::{attached_to, queries_changed};
use refusals::{dispatched, filters, limited, narrow, refusals, reported, without_descriptor};

/// A program, how it is built, and its arguments; the first is how many seconds it takes.
type Case = (&'static str, &'static str, &'static [&'static str]);
const CASES: [Case; 13] = [
    ("sleepers", "", &["{}", "1.5"]),
    ("threads", "", &["{}", "3", "0"]),
    ("threads", "", &["{}", "40", "0"]),
    ("threads", "", &["{}", "1", "2"]),
    ("threads", "-static", &["{}", "2", "1"]),
    ("signals", "", &["{}"]),
    ("signals", "-static", &["{}"]),
    ("vectors", "", &["{}"]),
    ("stampless", "", &["{}"]),
    ("stampless", "", &["{}", "all"]),
    ("blocked", "", &["{}"]),
    ("rings", "", &["{}"]),
    ("rings", "", &["{}", "workers"]),
];

/// A way to observe.
struct Way {
    options: &'static [&'static str],
    /// Seconds for which a program is attached to.
    duration: &'static str,
    /// Stress options.
    stress: &'static str,
    /// Times that a program is attached to, as a part of the usual number.
    part: u32,
}

const SHORT: Way = Way {
    options: &[],
    duration: "0.05",
    stress: "",
    part: 1,
};
const WITHIN_A_BUDGET: Way = Way {
    options: &["--budget", "10", "--windows"],
    ..SHORT
};
const AT_A_RATE: Way = Way {
    options: &["--rate", "400"],
    ..SHORT
};
/// Bursts that begin and end at random, some hundred times in a second.
const IN_BURSTS: Way = Way {
    options: &["--budget", "20", "--bursts"],
    duration: "0.4",
    stress: "bursts=1500",
    part: 3,
};

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for (name, flags, words) in CASES {
        let label = format!("{name}{flags} {}", words[1..].join(" "));
        trials.push(Trial::test(label, move || {
            Ok(cycles(name, flags, words, &SHORT)?)
        }));
    }
    for n in [0, 1, 5, 7, 9, 10, 11, 12] {
        let (name, flags, words) = CASES[n];
        let label = format!("{name}{flags} {} within a budget", words[1..].join(" "));
        trials.push(Trial::test(label, move || {
            Ok(cycles(name, flags, words, &WITHIN_A_BUDGET)?)
        }));
        let label = format!("{name}{flags} {} in bursts", words[1..].join(" "));
        trials.push(Trial::test(label, move || {
            Ok(cycles(name, flags, words, &IN_BURSTS)?)
        }));
    }
    trials.push(Trial::test("counts of the rest", || Ok(counts()?)));
    trials.push(Trial::test("counts of bursts", || Ok(burst_counts()?)));
    trials.push(Trial::test("short sleeps in bursts", || Ok(naps()?)));
    for words in [&["60"][..], &["60", "files"]] {
        let label = format!("code made anew between bursts {}", words[1..].join(" "));
        trials.push(Trial::test(label, move || Ok(made_anew(words)?)));
    }
    trials.push(Trial::test("counts of bursts of a started program", || {
        Ok(paced()?)
    }));
    trials.push(Trial::test(
        "processes of a started program in bursts",
        || Ok(family_in_bursts()?),
    ));
    trials.push(Trial::test("bursts of a program in vforks", || {
        Ok(vforks()?)
    }));
    trials.push(Trial::test("bursts of other kinds", || Ok(other_kinds()?)));
    trials.push(Trial::test("the command killed at any moment", || {
        Ok(killed(&SHORT)?)
    }));
    trials.push(Trial::test(
        "the command killed at any moment in bursts",
        || Ok(killed(&IN_BURSTS)?),
    ));
    trials.push(Trial::test(
        "the program killed at any moment in bursts",
        || Ok(killed_in_bursts()?),
    ));
    trials.push(Trial::test("interrupted", || Ok(interrupted()?)));
    if which("redis-server").is_some() {
        trials.push(Trial::test("a loaded redis-server", || {
            Ok(attached_to(&SHORT)?)
        }));
        trials.push(Trial::test("a loaded redis-server in bursts", || {
            Ok(attached_to(&IN_BURSTS)?)
        }));
        if no_windows().is_none() {
            trials.push(Trial::test("a loaded redis-server within a budget", || {
                Ok(attached_to(&AT_A_RATE)?)
            }));
        }
        trials.push(Trial::test("queries of a loaded redis-server", || {
            Ok(queries_changed()?)
        }));
    }
    trials.push(Trial::test("a program of a container", || {
        Ok(of_a_container()?)
    }));
    trials.push(Trial::test("refusals", || Ok(refusals()?)));
    trials.push(Trial::test("filters of system calls", || Ok(filters()?)));
    trials.push(Trial::test("reported system calls", || Ok(reported()?)));
    for how in sandboxes::HOWS {
        for (name, way) in [("", &SHORT), (" in bursts", &IN_BURSTS)] {
            trials.push(Trial::test(format!("a sandbox, {how}{name}"), move || {
                Ok(sandboxes::sandboxed(how, way)?)
            }));
        }
    }
    trials.push(Trial::test("a sandbox, late", || Ok(sandboxes::late()?)));
    trials.push(Trial::test("dispatched system calls", || Ok(dispatched()?)));
    for (name, way) in [
        ("", &SHORT),
        (" within a budget", &WITHIN_A_BUDGET),
        (" in bursts", &IN_BURSTS),
    ] {
        trials.push(Trial::test(format!("traced by another{name}"), || {
            Ok(tracers::traced(way)?)
        }));
        trials.push(Trial::test(format!("stopped by a signal{name}"), || {
            Ok(stops::stopped(way)?)
        }));
        trials.push(Trial::test(
            format!("a program that stops itself{name}"),
            || Ok(stops::stops_itself(way)?),
        ));
    }
    trials.push(Trial::test("limits", || Ok(limited()?)));
    trials.push(Trial::test("limits near what is used", || Ok(narrow()?)));
    trials.push(Trial::test("faults that a thread serves", || {
        Ok(cycles("served", "", &["{}"], &SHORT)?)
    }));
    trials.push(Trial::test("limits without a descriptor", || {
        Ok(without_descriptor()?)
    }));
    trials.push(Trial::test("starts that fail", || Ok(starts::failed()?)));
    trials.push(Trial::test("starts without mappings", || {
        Ok(starts::without_mappings()?)
    }));
    trials.push(Trial::test("starts without cpuid", || {
        Ok(starts::without_cpuid()?)
    }));
    trials.push(Trial::test("a command that takes over", || Ok(replaced()?)));
    libtest_mimic::run(&args, trials).exit();
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

fn build(scratch: &Scratch, name: &str, flags: &str) -> Result<PathBuf, String> {
    let source = format!("tests/attach/{name}.c");
    let flags = format!("-O1 -g -pthread {flags}");
    let all: Vec<&str> = flags.split_whitespace().collect();
    let kept = program::built(&source, &format!("{name}{}", all.join("")), &all)?;
    // Each has its own: what others have open for writing is watched.
    let program = scratch.path(name);
    std::fs::copy(kept, &program).map_err(text)?;
    Ok(program)
}

/// A program that is ended when this is dropped.
struct Running(Child);

impl Running {
    fn start(program: &Path, args: &[String]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let running = Self(command.spawn().map_err(text)?);
        std::thread::sleep(Duration::from_millis(200));
        wait::until("a program is at work", || running.is_at_work())?;
        Ok(running)
    }

    /// Returns true if it is past its beginning: it has worked for longer than that takes, or sleeps, is stopped or has ended. Where many programs run,
    /// 200 ms may be over before it has begun.
    fn is_at_work(&self) -> bool {
        const TICKS: u64 = 3;
        let stat = self.file("stat").unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            return true;
        };
        let words: Vec<&str> = rest.split(' ').collect();
        let of = |n: usize| words.get(n).and_then(|w| w.parse::<u64>().ok());
        // User and system time.
        let worked = of(11).unwrap_or(0) + of(12).unwrap_or(0);
        worked >= TICKS || matches!(words.first(), Some(&("S" | "T" | "Z" | "X")))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Its state, and the status with which it ended, for messages.
    fn about(&mut self) -> String {
        let stat = self.file("stat").unwrap_or_default();
        format!("{:?}, {stat}", self.0.try_wait())
    }

    /// Asks it to end, if it has not.
    fn stop(&mut self) -> Result<(), String> {
        if self.is_there() {
            let mut kill = Command::new("kill");
            kill.args(["-TERM", &self.pid()]).status().map_err(text)?;
        }
        Ok(())
    }

    fn is_there(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Returns its output, if it ended well.
    fn output(mut self) -> Result<String, String> {
        drop(self.0.stdin.take());
        let mut out = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut out).map_err(text)?;
        }
        let status = self.0.wait().map_err(text)?;
        match status.success() {
            true => Ok(out),
            false => Err(format!("{status}, having said: {out}")),
        }
    }

    fn file(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(format!("/proc/{}/{name}", self.pid())).map_err(text)
    }

    /// Returns what must be as it was: mappings but for the program's own heaps and stacks, descriptors, and
    /// handlers.
    fn traces(&self) -> Result<String, String> {
        let status = self.file("status")?;
        let signals = status
            .lines()
            .filter(|l| l.starts_with("SigIgn") || l.starts_with("SigCgt"));
        let maps = self.file("maps")?;
        let named = |l: &&str| {
            l.split_whitespace().count() > 5 && !l.ends_with("[heap]") && !l.ends_with("[stack]")
        };
        let own = |l: &&str| l.starts_with("5500") || l.contains("rwxp") || l.contains("trommel");
        let maps = maps.lines().filter(|l| named(l) || own(l));
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid())).map_err(text)?;
        let mut files: Vec<String> = files
            .flatten()
            .map(|f| f.file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let all: Vec<&str> = signals.chain(maps).collect();
        Ok(format!("{}\n{files:?}\n", all.join("\n")))
    }

    /// Returns the number of its mappings.
    fn mappings(&self) -> Result<usize, String> {
        Ok(self.file("maps")?.lines().count())
    }

    /// Asks about it, unless its time is over meanwhile.
    fn while_there<T>(
        &mut self,
        ask: impl Fn(&Self) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let answer = ask(self);
        // Its memory is gone before it can be waited for.
        let limit = Instant::now() + Duration::from_secs(1);
        while answer.is_err() && self.is_there() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.is_there() {
            true => answer.map(Some),
            false => Ok(None),
        }
    }

    fn resident(&self) -> Result<u64, String> {
        let status = self.file("status")?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let words = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
        words.ok_or_else(|| "no resident size".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(scratch: &Scratch, args: &[&str]) -> Result<Output, String> {
    record_by(scratch, &SHORT, args)
}

fn record_by(scratch: &Scratch, way: &Way, args: &[&str]) -> Result<Output, String> {
    let bin = trommel();
    let mut command = Command::new(bin);
    command
        .env("TROMMEL_STRESS", way.stress)
        .args(["record", "--quiet", "-e", "edge,call", "-o"])
        .arg(scratch.path("data"))
        .args(args);
    command.output().map_err(text)
}

fn well(output: &Output) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() && said.is_empty() {
        true => Ok(()),
        false => Err(format!("{}: {said}", output.status)),
    }
}

/// Returns how often each program is attached to.
fn number_of_cycles() -> u32 {
    let number = std::env::var("TROMMEL_ATTACH_CYCLES");
    number.ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

fn cycles(name: &str, flags: &str, words: &[&str], way: &Way) -> Result<(), String> {
    let number = number_of_cycles().div_ceil(way.part);
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, name, flags)?;
    let seconds = (2 + number * 3 / 4).to_string();
    let args: Vec<String> = words.iter().map(|w| w.replace("{}", &seconds)).collect();
    let mut running = Running::start(&program, &args)?;
    let before = running.traces()?;
    let mut sizes = Vec::new();
    for cycle in 1..=number {
        if !running.is_there() {
            // Slow machines: its time was over before all the cycles were done.
            break;
        }
        let pid = running.pid();
        let shortly = ["-p", &pid, "--duration", way.duration];
        let output = record_by(&scratch, way, &[way.options, &shortly].concat())?;
        if running.is_there() {
            well(&output).map_err(|e| format!("cycle {cycle}: {e}"))?;
            sizes.extend(running.while_there(Running::resident)?);
        }
    }
    if let Some(after) = running.while_there(Running::traces)?
        && before != after
    {
        return Err(format!("left behind: before\n{before}after\n{after}"));
    }
    if let [_, first, .., last] = sizes[..]
        && last > first + 1024
    {
        return Err(format!("it grew: {sizes:?} KiB"));
    }
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// The report of what [`record`] has written, as JSON.
fn report_of(scratch: &Scratch) -> Result<String, String> {
    let mut report = Command::new(trommel());
    report.args(["report", "--json", "--no-debug-info"]);
    output(report.arg(scratch.path("data")))
}

/// Counts of branches in function `work`, by line of the report.
fn counts_of(scratch: &Scratch) -> Result<Vec<(String, u64)>, String> {
    let report: serde_json::Value = serde_json::from_str(&report_of(scratch)?).map_err(text)?;
    let mut counts = Vec::new();
    for list in ["edges", "calls"] {
        let list = report[list].as_array().ok_or("no such list")?;
        for entry in list.iter().filter(|e| e["from"]["function"] == "work") {
            let key = format!(
                "{} {} {}",
                entry["from"]["vaddr"], entry["to"]["vaddr"], entry["kind"]
            );
            counts.push((key, entry["count"].as_u64().unwrap_or(0)));
        }
    }
    counts.sort();
    Ok(counts)
}

fn counts() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "counted", "")?;
    // All of it.
    let bin = trommel();
    let mut child = Command::new(bin)
        .args(["record", "--quiet", "-e", "edge,call", "-o"])
        .arg(scratch.path("data"))
        .arg("--")
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(text)?;
    child
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(b"x")
        .map_err(text)?;
    child.wait().map_err(text)?;
    let whole = counts_of(&scratch)?;
    if whole.iter().map(|c| c.1).max() != Some(1_000_000) {
        return Err(format!("not the counts of this program: {whole:?}"));
    }
    // What is left of it when it waits.
    let mut running = Running::start(&program, &[])?;
    let mut lines = BufReader::new(running.0.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(text)?;
    let pid = running.pid();
    let mut recording = Command::new(bin)
        .args(["record", "--quiet", "-e", "edge,call", "-p", &pid, "-o"])
        .arg(scratch.path("data"))
        .spawn()
        .map_err(text)?;
    while !running.file("maps")?.contains("memfd:trommel") {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    running
        .0
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(b"x")
        .map_err(text)?;
    line.clear();
    lines.read_line(&mut line).map_err(text)?;
    running.0.wait().map_err(text)?;
    if !recording.wait().map_err(text)?.success() || line != "333334 499999500000\n" {
        return Err(format!("it said {line}"));
    }
    let rest = counts_of(&scratch)?;
    match rest == whole {
        true => Ok(()),
        false => Err(format!("{rest:?} instead of {whole:?}")),
    }
}

fn signal(pid: &str, name: &str) -> Result<(), String> {
    let status = Command::new("kill")
        .args([&format!("-{name}"), pid])
        .status();
    status.map(|_| ()).map_err(text)
}

fn killed(way: &Way) -> Result<(), String> {
    let bin = trommel();
    let scratch = Scratch::new().map_err(text)?;
    for (name, args) in [("threads", ["4", "2", "1"]), ("sleepers", ["4", "2", ""])] {
        let program = build(&scratch, name, "")?;
        let mut running = Running::start(&program, &args.map(str::to_owned))?;
        let before = running.traces()?;
        for moment in 0..24_u64 {
            let mut command = Command::new(bin)
                .env("TROMMEL_STRESS", way.stress)
                .args(["record", "--quiet", "-e", "edge,call", "--duration", "0.03"])
                .args(way.options)
                .args(["-p", &running.pid(), "-o"])
                .arg(scratch.path("data"))
                .stderr(Stdio::null())
                .spawn()
                .map_err(text)?;
            std::thread::sleep(Duration::from_micros(moment * 2900));
            let _ = command.kill();
            let _ = command.wait();
            if !running.is_there() {
                return Err(format!("{name} has ended at moment {moment}"));
            }
        }
        // The keeper works on when the command is gone.
        let limit = Instant::now() + Duration::from_secs(20);
        while let Some(traces) = running.while_there(Running::traces)?
            && traces != before
        {
            if Instant::now() > limit {
                return Err(format!("{name}: something is left:\n{traces}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if running.output()?.trim() != "good" {
            return Err(format!("{name} has noticed"));
        }
    }
    Ok(())
}

fn interrupted() -> Result<(), String> {
    let bin = trommel();
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let running = Running::start(&program, &["2", "2", "0"].map(str::to_owned))?;
    let before = running.traces()?;
    let mut command = Command::new(bin)
        .args([
            "record",
            "--quiet",
            "-e",
            "edge",
            "-p",
            &running.pid(),
            "-o",
        ])
        .arg(scratch.path("data"))
        .spawn()
        .map_err(text)?;
    std::thread::sleep(Duration::from_millis(300));
    signal(&command.id().to_string(), "INT")?;
    let status = command.wait().map_err(text)?;
    if !status.success() || !scratch.path("data").exists() {
        return Err(format!(
            "{status}, and a profile: {}",
            scratch.path("data").exists()
        ));
    }
    if running.traces()? != before {
        return Err("something is left".to_owned());
    }
    running.output().map(drop)
}

/// The command is killed in the middle of a session, and another is started at once.
fn replaced() -> Result<(), String> {
    const TIMES: usize = 10;
    let bin = trommel();
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let mut running = Running::start(&program, &["60", "2", "0"].map(str::to_owned))?;
    let before = running.traces()?;
    for options in [
        &["--budget", "5", "--windows"][..],
        &["--rate", "2000"],
        &[],
    ] {
        for n in 0..TIMES {
            let mut first = Command::new(bin)
                .args(["record", "--quiet", "-e", "edge,call", "-p", &running.pid()])
                .args(options)
                .arg("-o")
                .arg(scratch.path("killed"))
                .stderr(Stdio::null())
                .spawn()
                .map_err(text)?;
            std::thread::sleep(Duration::from_millis(150));
            first.kill().map_err(text)?;
            let pid = running.pid();
            let args = [&["--duration", "0.05", "-p", &pid], options].concat();
            let second = record(&scratch, &args)?;
            first.wait().map_err(text)?;
            if !running.is_there() {
                return Err(format!("{options:?}: the program has ended at time {n}"));
            }
            well(&second)?;
        }
    }
    match running.traces()? == before {
        true => Ok(()),
        false => Err("something is left".to_owned()),
    }
}
