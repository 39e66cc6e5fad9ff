//! What queries cost: of a program that stores references in a loop, what is not selected, what is looked at and
//! filtered out, what is counted, and what is sent and tabulated.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use trommel_conformance::exec::Scratch;

use crate::bench::median;

const ROUNDS: usize = 5;
const STORES: u64 = 20_000_000;

/// What is asked, and of how many events: one a store, or none.
const ASKED: [(&str, &str, u64); 6] = [
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
        "each store, sent and tabulated",
        "tag 1 symbol store_reference; for opSTORE 1 always collect op1 op2 op3; send 3 stop;",
        STORES,
    ),
];

pub(crate) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program, data] = ["queries.c", "queries", "data"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("queries.c")).map_err(|e| e.to_string())?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-w", "-o"]).arg(&program).arg(&source);
    if !cc.status().map_err(|e| format!("cc: {e}"))?.success() {
        return Err("cc failed".into());
    }
    let mut ways: Vec<(&str, Option<Vec<String>>, u64)> = vec![
        ("natively", None, 0),
        ("`-e none`, nothing asked", Some(Vec::new()), 0),
    ];
    for (n, (name, text, events)) in ASKED.into_iter().enumerate() {
        let file = scratch.path(&format!("{n}.rpa"));
        fs::write(&file, text).map_err(|e| e.to_string())?;
        let options = vec!["-q".to_owned(), file.to_string_lossy().into_owned()];
        ways.push((name, Some(options), events));
    }
    let mut times = vec![Vec::new(); ways.len()];
    let mut outputs = Vec::new();
    for _ in 0..ROUNDS {
        for ((_, options, _), list) in ways.iter().zip(&mut times) {
            let mut command = match options {
                None => Command::new(&program),
                Some(options) => {
                    let mut command = Command::new(super::trommel()?);
                    command.args(["record", "--quiet", "-e", "none", "-o"]);
                    command.arg(&data).args(options).arg("--").arg(&program);
                    command
                }
            };
            let clock = Instant::now();
            let output = command
                .arg(STORES.to_string())
                .stderr(Stdio::inherit())
                .output()
                .map_err(|e| e.to_string())?;
            if !output.status.success() {
                return Err(format!("it ended with {}", output.status));
            }
            list.push(clock.elapsed().as_secs_f64());
            outputs.push(output.stdout);
        }
    }
    if outputs.iter().any(|output| *output != outputs[0]) {
        return Err("the program does not print the same each time".into());
    }
    let medians: Vec<f64> = times.iter_mut().map(|list| median(list)).collect();
    println!("| what is asked | wall s | nanoseconds an event over `-e none` |\n|---|---|---|");
    for ((name, _, events), time) in ways.iter().zip(&medians) {
        let each = match events {
            0 => String::new(),
            n => format!("{:.1}", (time - medians[1]) / *n as f64 * 1e9),
        };
        println!("| {name} | {time:.3} | {each} |");
    }
    println!("\nMedians of {ROUNDS} interleaved rounds; {STORES} stores, and as many branches.");
    Ok(())
}
