//! What windows cost: CPU time of programs that run for ten seconds or so, natively and with each budget, and
//! at fixed rates, in turns.
//!
//! The cost is that of the whole: the program's CPU time and trommel's, from `getrusage` of children, against the
//! program's alone. `paid` is what the profile itself says. Ratios are of medians.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use trommel_conformance::exec::{Scratch, children_cpu, which};

use crate::bench::{median, number_of_rounds};

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
    let mut rounds = 3;
    let mut given: Vec<&str> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = number_of_rounds(args.next())?,
            name => given.push(name),
        }
    }
    let corpus = corpus()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let titles = CONFIGURATIONS[1..].join(" | ");
    println!("| workload | native s | {titles} |");
    println!("|{}", "---|".repeat(CONFIGURATIONS.len() + 1));
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); CONFIGURATIONS.len()];
    for (name, words) in WORKLOADS {
        if !given.is_empty() && !given.contains(&name) {
            continue;
        }
        if !corpus.join(words[0]).exists() && which(words[0]).is_none() {
            println!("| {name} | not installed |");
            continue;
        }
        let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); CONFIGURATIONS.len()];
        let mut paid = vec![0.0; CONFIGURATIONS.len()];
        for _ in 0..rounds {
            for (n, options) in CONFIGURATIONS.iter().enumerate() {
                let mut command = match n {
                    0 => Command::new(words[0]),
                    _ => {
                        let mut command = Command::new(super::trommel()?);
                        command.args(["record", "--quiet", "-o"]).arg(&data);
                        command.args(options.split(' ')).arg("--").arg(words[0]);
                        command
                    }
                };
                command.args(&words[1..]).current_dir(&corpus);
                let before = children_cpu().map_err(|e| e.to_string())?;
                let status = command.stdout(Stdio::null()).status();
                let status = status.map_err(|e| format!("{name}: {e}"))?;
                if !status.success() {
                    return Err(format!("{name} with {options} ended with {status}"));
                }
                cpu[n].push(children_cpu().map_err(|e| e.to_string())? - before);
                if n > 0 {
                    paid[n] = told(&data)?;
                }
            }
        }
        let native = median(&mut cpu[0]);
        let mut row = format!("| {name} | {native:.2} |");
        for n in 1..CONFIGURATIONS.len() {
            let cost = 100.0 * (median(&mut cpu[n]) / native - 1.0);
            costs[n].push(cost);
            row += &format!(" {cost:.1} ({:.1}) |", paid[n]);
        }
        println!("{row}");
    }
    let mut row = "| **median** | |".to_owned();
    for list in &mut costs[1..] {
        if !list.is_empty() {
            row += &format!(" **{:.1}** |", median(list));
        }
    }
    println!(
        "{row}\n\nPercent of native CPU time, trommel's own included (as the profile itself says), medians of {rounds}."
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
