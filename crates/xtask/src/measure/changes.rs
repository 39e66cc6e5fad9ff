//! Cost of changes of code: a small program that changes its code in the ways that JITs do,
//! timed by itself, natively and under `record -e none`, in turns.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{cc, median, trommel};
use trommel_conformance::exec::Scratch;

const ROUNDS: usize = 5;

/// Measures what it costs when a program changes its code.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure changes")]
pub(crate) struct Args;

pub(super) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program, data] = ["changes.c", "changes", "data"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("changes.c")).map_err(|e| e.to_string())?;
    cc(&["-O2"], &source, &program)?;
    let mut names = Vec::new();
    let mut times: [Vec<Vec<f64>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (n, list) in times.iter_mut().enumerate() {
            let mut command = Command::new(if n == 0 { &program } else { trommel() });
            if n == 1 {
                command.args(["record", "-e", "none", "-o"]);
                command.arg(&data).arg("--").arg(&program);
            }
            let output = command.stderr(Stdio::null()).output();
            let output = output.map_err(|e| e.to_string())?;
            if !output.status.success() {
                return Err(format!("it ended with {}", output.status));
            }
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let rows: Vec<(&str, f64)> = (text.lines())
                .filter_map(|line| line.split_once('\t'))
                .filter_map(|(name, time)| Some((name, time.parse().ok()?)))
                .collect();
            names = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
            list.resize(rows.len(), Vec::new());
            for (row, (_, time)) in list.iter_mut().zip(rows) {
                row.push(time);
            }
        }
    }
    println!("| nanoseconds of | native | -e none |\n|---|---|---|");
    let [native, ours] = &mut times;
    for ((name, native), ours) in names.iter().zip(native).zip(ours) {
        let (native, ours) = (median(native), median(ours));
        println!("| {name} | {native:.0} | {ours:.0} |");
    }
    println!("\nMedians of {ROUNDS} interleaved rounds.");
    Ok(())
}
