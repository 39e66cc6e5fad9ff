//! Cost of queries, in a program that stores references in a loop: events that are not selected, that are
//! filtered out, that are counted, and that are sent and tabulated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::{cc, median, trommel};
use serde_json::Value;
use trommel_conformance::exec::Scratch;

const ROUNDS: usize = 5;
const STORES: u64 = 20_000_000;
/// Stores, where each waits for a service.
const SYNCHRONOUS: u64 = 100_000;

/// Name and text of a query, and its number of events: one a store, or none.
const ASKED: [(&str, &str, u64); 9] = [
    (
        "nothing is selected",
        "tag 1 symbol never; for opSTORE 1 always collect op1 op2 op3; send 3 stop;",
        0,
    ),
    (
        "one branch in 65536",
        "for opBRANCH * every 65536 collect pc misc; send 1 stop;",
        STORES,
    ),
    (
        "one branch in 256",
        "for opBRANCH * every 256 collect pc misc; send 1 stop;",
        STORES,
    ),
    (
        "each store, filtered out",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; if op1 = 1 then send 3 stop else stop;",
        STORES,
    ),
    (
        "each store, counted",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; count stop;",
        STORES,
    ),
    (
        "each store, counted after a comparison",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then count; stop;",
        STORES,
    ),
    (
        "each branch, counted",
        "for opBRANCH * always collect pc; count stop;",
        STORES,
    ),
    (
        "each store, half of them sent by `or drop`",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1; if op1 bset 8 then send 3 or drop; stop;",
        STORES,
    ),
    (
        "each store, sent and tabulated",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; send 3 stop;",
        STORES,
    ),
];

/// Measures what queries cost, by what they ask.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure queries")]
pub(crate) struct Args;

pub(super) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program, data] = ["queries.c", "queries", "data"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("queries.c")).map_err(|e| e.to_string())?;
    cc(&["-O2"], &source, &program)?;
    let ways = ways(&scratch)?;
    // Wall times, and CPU times of the program, in seconds.
    let mut times = vec![(Vec::new(), Vec::new()); ways.len()];
    let mut outputs = Vec::new();
    for _ in 0..ROUNDS {
        for ((_, options, events), list) in ways.iter().zip(&mut times) {
            let mut command = match options {
                None => Command::new(&program),
                Some(options) => {
                    let mut command = Command::new(trommel());
                    command.args(["record", "--quiet", "-e", "none", "-o"]);
                    command.arg(&data).args(options).arg("--").arg(&program);
                    command
                }
            };
            let _ = fs::remove_file(&data);
            let clock = Instant::now();
            let stores = if *events == 0 { STORES } else { *events };
            let output = command
                .arg(stores.to_string())
                .stderr(Stdio::inherit())
                .output()
                .map_err(|e| e.to_string())?;
            if !output.status.success() {
                return Err(format!("it ended with {}", output.status));
            }
            list.0.push(clock.elapsed().as_secs_f64());
            if options.is_some() {
                list.1.push(target_cpu(&data)?);
            }
            outputs.push(output.stdout);
        }
    }
    if outputs.iter().any(|output| *output != outputs[0]) {
        return Err("the program does not print the same each time".into());
    }
    let medians = times.iter_mut().map(|(wall, cpu)| {
        let cpu = (!cpu.is_empty()).then(|| median(cpu));
        (median(wall), cpu)
    });
    let medians: Vec<(f64, Option<f64>)> = medians.collect();
    println!(
        "| what is asked | wall s | CPU s of the program | nanoseconds an event over `-e none`: wall | CPU |\n|---|---|---|---|---|"
    );
    let base = (medians[1].0, medians[1].1.unwrap_or(0.0));
    for ((name, _, events), (wall, cpu)) in ways.iter().zip(&medians) {
        let each = |over: f64| match events {
            0 => String::new(),
            n => format!("{:.1}", over / *n as f64 * 1e9),
        };
        let shown = cpu.map_or(String::new(), |cpu| format!("{cpu:.3}"));
        let of_cpu = cpu.map_or(String::new(), |cpu| each(cpu - base.1));
        println!(
            "| {name} | {wall:.3} | {shown} | {} | {of_cpu} |",
            each(wall - base.0)
        );
    }
    println!("\nMedians of {ROUNDS} interleaved rounds; {STORES} stores, and as many branches.");
    budgets(&scratch, &program)
}

/// A name, options of `record` if it is not native, and the number of events.
type Way = (&'static str, Option<Vec<String>>, u64);

/// Ways to run the program: natively, with nothing asked, and with each query.
fn ways(scratch: &Scratch) -> Result<Vec<Way>, String> {
    let mut ways: Vec<Way> = vec![
        ("natively", None, 0),
        ("`-e none`, nothing asked", Some(Vec::new()), 0),
    ];
    for (n, (name, text, events)) in ASKED.into_iter().enumerate() {
        let file = scratch.path(&format!("{n}.rpa"));
        fs::write(&file, text).map_err(|e| e.to_string())?;
        let options = vec!["-q".to_owned(), file.to_string_lossy().into_owned()];
        ways.push((name, Some(options), events));
    }
    let library = service(scratch)?;
    let sent = scratch.path(&format!("{}.rpa", ASKED.len() - 1));
    for (name, query) in [
        ("and given to a service in a library", sent.clone()),
        (
            "each store, `interrupt sync`, by such a service",
            interrupts(scratch)?,
        ),
    ] {
        let service = format!("3={}", library.display());
        let query = query.to_string_lossy().into_owned();
        let options = ["-q".to_owned(), query, "--service".to_owned(), service];
        let events = match name.contains("sync") {
            true => SYNCHRONOUS,
            false => STORES,
        };
        ways.push((name, Some(options.into()), events));
    }
    Ok(ways)
}

/// Reads a profile as JSON.
fn report(data: &Path) -> Result<Value, String> {
    let mut report = Command::new(trommel());
    let report = report.args(["report", "--json", "--top", "1"]).arg(data);
    let report = report.output().map_err(|e| e.to_string())?.stdout;
    serde_json::from_slice(&report).map_err(|e| e.to_string())
}

/// CPU time of the program of a profile, in seconds.
fn target_cpu(data: &Path) -> Result<f64, String> {
    let time = report(data)?["run"]["target_cpu_ns"].as_u64();
    Ok(time.ok_or("no times")? as f64 / 1e9)
}

/// A service that reads each message and no more.
fn service(scratch: &Scratch) -> Result<PathBuf, String> {
    let [source, library] = ["service.c", "service.so"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("service.c")).map_err(|e| e.to_string())?;
    let include = trommel_conformance::exec::workspace().join("include");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-I"]).arg(include);
    cc.arg("-o").arg(&library).arg(&source);
    match cc.status().map_err(|e| format!("cc: {e}"))?.success() {
        true => Ok(library),
        false => Err("cc failed".into()),
    }
}

/// The query that interrupts at each store.
fn interrupts(scratch: &Scratch) -> Result<PathBuf, String> {
    let file = scratch.path("interrupts.rpa");
    let text = "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; interrupt sync stop;";
    fs::write(&file, text).map_err(|e| e.to_string())?;
    Ok(file)
}

/// Rounds, and branches, for what `every auto` costs.
const BUDGET_ROUNDS: usize = 9;
const BRANCHES: u64 = 600_000_000;
/// The base of the comparison: the countdown, and next to no records.
const COUNTDOWN: &str = "every 999424";
const AUTO: [&str; 4] = [
    "every auto 1%",
    "every auto 5%",
    "every auto 20%",
    "every auto 50%",
];

/// Measures how `every auto` keeps its budget: least CPU times of the program, of interleaved rounds.
fn budgets(scratch: &Scratch, program: &Path) -> Result<(), String> {
    let (file, data) = (scratch.path("auto.rpa"), scratch.path("auto"));
    let rates = [COUNTDOWN].into_iter().chain(AUTO);
    let rates: Vec<&str> = rates.collect();
    let mut least = vec![(u64::MAX, 0); rates.len()];
    for _ in 0..BUDGET_ROUNDS {
        for (rate, least) in rates.iter().zip(&mut least) {
            let text = format!("for opBRANCH * {rate} collect pc misc; send 1 stop;");
            fs::write(&file, text).map_err(|e| e.to_string())?;
            let mut record = Command::new(trommel());
            record.args(["record", "--quiet", "-e", "none", "-q"]);
            record.arg(&file).arg("-o").arg(&data).arg("--");
            record.arg(program).arg(BRANCHES.to_string());
            let done = record.stdout(Stdio::null()).status();
            if !done.map_err(|e| e.to_string())?.success() {
                return Err(format!("{rate}: it failed"));
            }
            let report = report(&data)?;
            let time = report["run"]["target_cpu_ns"].as_u64();
            let profiled = report["queries"][0]["profiled"].as_u64();
            let both = time.zip(profiled).ok_or("no times")?;
            *least = both.min(*least);
        }
    }
    println!(
        "\n| rate | CPU s | share of records, % | records | nanoseconds a record |\n|---|---|---|---|---|"
    );
    let base = least[0].0 as f64;
    for (rate, (time, records)) in rates.iter().zip(&least) {
        let over = *time as f64 - base;
        println!(
            "| `{rate}` | {:.3} | {:.1} | {records} | {:.0} |",
            *time as f64 / 1e9,
            100.0 * over / *time as f64,
            over / *records as f64,
        );
    }
    println!(
        "\nLeast CPU times of the program of {BUDGET_ROUNDS} interleaved rounds; {BRANCHES} branches."
    );
    Ok(())
}
