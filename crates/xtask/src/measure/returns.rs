//! Cost of calls and returns in each of the ways in which a code cache can treat them, apart from all else: two
//! small programs written out in each way, one beside the other.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{cc, median};
use trommel_conformance::exec::Scratch;

const ROUNDS: usize = 5;

/// Measures what calls and returns cost, in each way of treating them.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure returns")]
pub(crate) struct Args;

pub(super) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program] = ["returns.c", "returns"].map(|name| scratch.path(name));
    fs::write(&source, include_str!("returns.c")).map_err(|e| e.to_string())?;
    cc(&["-O2"], &source, &program)?;
    // A way's name, and its times of the first program and of the second.
    let mut ways: Vec<(String, [Vec<f64>; 2])> = Vec::new();
    let mut results = Vec::new();
    for _ in 0..ROUNDS {
        let output = Command::new(&program).stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(format!("it ended with {}", output.status));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, first, second, result] = fields[..] else {
                return Err(format!("it printed {line}"));
            };
            let times = [first, second].map(|time| time.parse::<f64>().unwrap_or(f64::NAN));
            results.push(result.to_owned());
            let known = ways.iter().position(|(known, _)| known == name);
            let n = known.unwrap_or(ways.len());
            if n == ways.len() {
                ways.push((name.to_owned(), Default::default()));
            }
            for (list, time) in ways[n].1.iter_mut().zip(times) {
                list.push(time);
            }
        }
    }
    if results.iter().any(|result| *result != results[0]) {
        return Err("the ways come to different results".into());
    }
    println!("| way | fib | sites |\n|---|---|---|");
    let mut native = [f64::NAN; 2];
    for (n, (name, times)) in ways.iter_mut().enumerate() {
        let now = [0, 1].map(|k| median(&mut times[k]));
        if n == 0 {
            native = now;
        }
        println!(
            "| {name} | {:.2} | {:.2} |",
            now[0] / native[0],
            now[1] / native[1]
        );
    }
    println!(
        "\nMedians of {ROUNDS} rounds, in times of the native ones, {:.3} s and {:.3} s.",
        native[0], native[1]
    );
    Ok(())
}
