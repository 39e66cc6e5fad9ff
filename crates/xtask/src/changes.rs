//! What it costs when code changes: a small program that changes its code in the ways that JITs do,
//! timed by itself, natively and under `record -e none`, in turns.

use std::fs;
use std::process::{Command, Stdio};

use trommel_conformance::exec::Scratch;

const ROUNDS: usize = 5;

pub(crate) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program, data] = ["changes.c", "changes", "data"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("changes.c")).map_err(|e| e.to_string())?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-w", "-o"]).arg(&program).arg(&source);
    if !cc.status().map_err(|e| format!("cc: {e}"))?.success() {
        return Err("cc failed".into());
    }
    let mut names = Vec::new();
    let mut times: [Vec<Vec<f64>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (n, list) in times.iter_mut().enumerate() {
            let mut command = Command::new(if n == 0 { &program } else { super::trommel()? });
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
        let (native, ours) = (super::bench::median(native), super::bench::median(ours));
        println!("| {name} | {native:.0} | {ours:.0} |");
    }
    println!("\nMedians of {ROUNDS} interleaved rounds.");
    Ok(())
}
