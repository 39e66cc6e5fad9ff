//! A busy program for minutes: memory of both sides stays bounded, nothing is lost, and the program's waits are reported.
//!
//! The program (`long.c`) knows how often it called two functions and executed one load; a profile of exact counts must say the same. With a
//! compressor the number of events that it was given must be the same.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{cc, report, trommel};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, workspace};

/// Ten minutes, and threads of the program.
const SECONDS: u64 = 600;
const THREADS: u64 = 3;
/// Time between two measurements of their memory.
const OFTEN: Duration = Duration::from_millis(250);
/// MiB that the second half of the run may need beyond the first.
const GROWTH: u64 = 16;

/// Records a busy program for minutes: memory is bounded, and nothing is lost.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check long 60 'M4[10k,1%]2048:C1R0P1'")]
pub(crate) struct Args {
    /// Seconds that the program runs.
    #[arg(default_value_t = SECONDS)]
    seconds: u64,
    /// Compressor.
    #[arg(default_value = "exact")]
    spec: String,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let (seconds, spec) = (args.seconds, args.spec.as_str());
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("long");
    let source = workspace().join("crates/xtask/src/check/long.c");
    cc(&["-O1", "-pthread"], &source, &program)?;
    let data = scratch.path("data");
    let mut command = Command::new(trommel());
    command
        .args([
            "record",
            "--quiet",
            "-e",
            "edge,call,value",
            "-c",
            spec,
            "-o",
        ])
        .arg(&data)
        .arg("--")
        .arg(&program);
    command
        .args([seconds.to_string(), THREADS.to_string()])
        .stdout(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let most = memory(&mut child, Duration::from_secs(seconds / 2))?;
    let done = child.wait_with_output().map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(format!("record: {}", done.status));
    }
    let said = String::from_utf8_lossy(&done.stdout);
    let rounds: u64 = said.trim().parse().map_err(|e| format!("{said:?}: {e}"))?;
    let profile = report(&data, "1000000")?;
    let run = |name: &str| profile["run"][name].as_u64().unwrap_or(0);
    println!(
        "{spec}, {seconds} s, {THREADS} threads: {rounds} rounds of two calls and a load, in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    println!(
        "dropped {}, undercount {}; waited {} times, {:.1} s in all threads",
        run("dropped"),
        run("undercount"),
        run("waits"),
        run("wait_ns") as f64 / 1e9
    );
    for (n, name) in ["trommel", "the program"].into_iter().enumerate() {
        println!(
            "resident set of {name}: at most {} MiB in the first half, {} MiB in the second",
            most[0][n], most[1][n]
        );
        if most[1][n] > most[0][n] + GROWTH {
            return Err(format!("the memory of {name} grows"));
        }
    }
    if run("dropped") != 0 {
        return Err("events are lost".into());
    }
    check(&profile, rounds, spec == "exact")
}

/// The most memory of trommel and of the program, until `half` and after it.
fn memory(child: &mut Child, half: Duration) -> Result<[[u64; 2]; 2], String> {
    let started = Instant::now();
    let mut most = [[0; 2]; 2];
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        let half = usize::from(started.elapsed() >= half);
        let pids = [Some(child.id()), first_child(child.id())];
        for (most, pid) in most[half].iter_mut().zip(pids) {
            *most = pid.map_or(0, resident).max(*most);
        }
        sleep(OFTEN);
    }
    Ok(most)
}

/// Compares the profile with the program's own counts.
fn check(profile: &Value, rounds: u64, exact: bool) -> Result<(), String> {
    let seen = |kind: &str| profile["events"][kind]["seen"].as_u64().unwrap_or(0);
    // Two calls and a load in each round at least; a call of `time` in 10 000 rounds, and what starts and ends the program.
    for (kind, least) in [("call", 2 * rounds), ("value", rounds)] {
        if seen(kind) < least {
            return Err(format!(
                "{} events of {kind}, where there were {least} at least",
                seen(kind)
            ));
        }
    }
    let calls: Vec<u64> = ["step", "look"]
        .map(|name| calls_of(profile, name))
        .to_vec();
    if exact && calls != [rounds; 2] {
        return Err(format!(
            "calls of step and look: {calls:?}, where there were {rounds} of each"
        ));
    }
    let extra = seen("call") - 2 * rounds;
    if extra > rounds / 100 + 10_000 {
        return Err(format!("{extra} calls more than there were"));
    }
    println!(
        "as the program has it: {} calls, {} loads",
        seen("call"),
        seen("value")
    );
    Ok(())
}

fn calls_of(profile: &Value, name: &str) -> u64 {
    let all = profile["calls"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |call: &&Value| call["to"]["function"] == name;
    all.iter()
        .filter(of)
        .filter_map(|call| call["count"].as_u64())
        .sum()
}

/// MiB of a process that are in memory; 0 when it is gone.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

fn first_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}
