//! What windows cost: CPU time of programs that run for ten seconds or so, with each budget and at fixed rates.
//!
//! The cost is that of the whole: the program's CPU time and trommel's, against the program's alone, both at the same time, on
//! a processor each ([`crate::beside`]): on a virtual machine whose speed changes by half within a minute, runs after each other tell nothing of
//! a few percent. `paid` is what the profile itself says. The first column is the program beside itself, which tells what the others are worth.

use std::path::PathBuf;
use std::process::Command;

use trommel_conformance::exec::{Scratch, which};

use crate::bench::median;
use crate::beside::{self, Chosen};

/// Programs of the corpus, in its directory, with arguments for a longer run.
pub(crate) const WORKLOADS: [(&str, &[&str]); 9] = [
    ("perl", &["perl", "bench.pl", "sqlite3.c", "10"]),
    ("python", &["/usr/bin/python3", "bench.py", "60"]),
    ("lua", &["lua5.4", "bench.lua", "60"]),
    ("deltablue", &["bin/deltablue", "6000"]),
    ("icpred", &["bin/icpred", "4000000000"]),
    (
        "gzip",
        &[
            "gzip",
            "-9",
            "-c",
            "text24m.txt",
            "text24m.txt",
            "text24m.txt",
        ],
    ),
    ("bzip2", &["bzip2", "-c", "text24m.txt", "text24m.txt"]),
    ("node", &["node", "bench.js", "40"]),
    ("java", &["java", "-cp", ".", "Bench", "50"]),
];
/// Options of `record`; none: natively.
const CONFIGURATIONS: [&str; 6] = [
    "",
    "--budget 1",
    "--budget 3",
    "--budget 10",
    // The paper's: 8000 interrupts a second, 4 instructions in every second of them; and an eighth of that.
    "--rate 4000 --window 4 --skip 1",
    "--rate 500 --window 4 --skip 1",
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Chosen {
        rounds,
        given,
        configurations,
    } = Chosen::of(args, &CONFIGURATIONS)?;
    let corpus = corpus()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let titles: Vec<&str> = configurations
        .iter()
        .map(|options| {
            if options.is_empty() {
                "natively"
            } else {
                options
            }
        })
        .collect();
    println!("| workload | native s | {} |", titles.join(" | "));
    println!("|{}", "---|".repeat(configurations.len() + 2));
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); configurations.len()];
    for (name, words) in WORKLOADS {
        if !given.is_empty() && !given.contains(&name) {
            continue;
        }
        if !corpus.join(words[0]).exists() && which(words[0]).is_none() {
            println!("| {name} | not installed |");
            continue;
        }
        let command = |options: &str| -> Result<Command, String> {
            let mut command = match options {
                "" => Command::new(words[0]),
                _ => {
                    let mut command = Command::new(super::trommel()?);
                    command.args(["record", "--quiet", "-o"]).arg(&data);
                    command.args(options.split(' ')).arg("--").arg(words[0]);
                    command
                }
            };
            command.args(&words[1..]).current_dir(&corpus);
            Ok(command)
        };
        let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); configurations.len()];
        let mut paid: Vec<Vec<f64>> = ratios.clone();
        let mut native = Vec::new();
        for _ in 0..rounds {
            for (n, options) in configurations.iter().enumerate() {
                let pair = beside::pair(&command("")?, &command(options)?)?;
                ratios[n].push(pair.ratio);
                native.push(pair.first);
                if !options.is_empty() {
                    paid[n].push(told(&data)?);
                }
            }
        }
        let mut row = format!("| {name} | {:.2} |", median(&mut native));
        for n in 0..configurations.len() {
            let cost = 100.0 * (median(&mut ratios[n]) - 1.0);
            costs[n].push(cost);
            row += &match paid[n].is_empty() {
                true => format!(" {cost:.1} |"),
                false => format!(" {cost:.1} ({:.1}) |", median(&mut paid[n])),
            };
        }
        println!("{row}");
    }
    let mut row = "| **median** | |".to_owned();
    for list in costs.iter_mut().filter(|list| !list.is_empty()) {
        row += &format!(" **{:.1}** |", median(list));
    }
    println!(
        "{row}\n\nPercent of native CPU time, trommel's own included (as the profile itself says), medians of {rounds} pairs there and back."
    );
    Ok(())
}

/// Where the corpus is, which must be there.
pub(crate) fn corpus() -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").ok_or("no HOME")?;
    let corpus = std::env::var_os("TROMMEL_CORPUS").map_or_else(
        || PathBuf::from(home).join(".cache/trommel-corpus"),
        PathBuf::from,
    );
    match corpus.join("bin").is_dir() {
        true => Ok(corpus),
        false => Err(format!(
            "{}: no corpus is there; its prepare.sh makes it",
            corpus.display()
        )),
    }
}

/// What the profile says was paid, in percent.
fn told(data: &std::path::Path) -> Result<f64, String> {
    let mut command = Command::new(super::trommel()?);
    let output = command
        .args(["report", "--json", "--top", "1"])
        .arg(data)
        .output();
    let text = output.map_err(|e| e.to_string())?.stdout;
    let text = String::from_utf8_lossy(&text);
    let rest = text.split_once("\"paid_percent\":").map(|(_, rest)| rest);
    let number = rest.and_then(|r| r.split([',', '}']).next()?.trim().parse().ok());
    number.ok_or_else(|| "the profile does not say what was paid".to_owned())
}
