//! The garbage collector whose store barrier is a query (`examples/gc`): its cost beside a barrier that is compiled
//! in and beside none at all, and the long run of its oracle.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::common::{median, rounds, trommel};
use trommel_conformance::exec::{Scratch, workspace};

/// Stores of the table, by one thread, and of the long run, by several.
const STORES: u64 = 20_000_000;
const LONG: u64 = 100_000_000;
const THREADS: u64 = 3;
const MEGABYTES: u64 = 64;
/// Megabytes of the long run: few, so that there are many collections.
const FEW: u64 = 16;

/// Ways to run it: name, build with a barrier, options of `record`, and the barrier that it must report.
const WAYS: [(&str, bool, Option<&[&str]>, &str); 5] = [
    ("none, natively", false, None, "stopped"),
    ("compiled in, natively", true, None, "compiled"),
    (
        "none, `record -e none`",
        false,
        Some(&["-e", "none"]),
        "stopped",
    ),
    (
        "compiled in, `record -e none`",
        true,
        Some(&["-e", "none"]),
        "compiled",
    ),
    ("a query, `record -q`", false, Some(&["-q"]), "query"),
];

struct Programs {
    scratch: Scratch,
    plain: PathBuf,
    barrier: PathBuf,
}

/// Figures that a run prints of itself.
type Said = BTreeMap<String, String>;

/// Measures what a store barrier by query costs, beside one that is compiled in.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure gc --rounds 3")]
pub(crate) struct Table {
    /// Interleaved rounds.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
}

/// Checks a collector whose store barrier is a query against one that stops the program.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check gc 20000000")]
pub(crate) struct Stress {
    /// Stores of each thread.
    #[arg(value_name = "STORES", default_value_t = LONG)]
    stores: u64,
}

pub(crate) fn measure(args: &Table) -> Result<(), String> {
    table(&build()?, args.rounds)
}

pub(crate) fn stress(args: &Stress) -> Result<(), String> {
    let programs = build()?;
    let mut numbers: Vec<String> = [args.stores, THREADS, FEW].map(|n| n.to_string()).into();
    numbers.push("check".into());
    let stress = std::env::var("TROMMEL_STRESS").unwrap_or_default();
    let (seconds, said) = programs.run(false, Some(&["-q"]), &numbers)?;
    for (name, value) in &said {
        println!("{name} {value}");
    }
    let of = |key: &str| said.get(key).and_then(|n| n.parse::<u64>().ok());
    println!("seconds {seconds:.1}, stress `{stress}`");
    if of("lost") != Some(0) || of("checked").unwrap_or(0) == 0 {
        return Err("objects were lost, or nothing was checked".into());
    }
    match said.get("ended").map(String::as_str) {
        Some("query") => Ok(()),
        _ => Err("the barrier was not there to the end".into()),
    }
}

fn build() -> Result<Programs, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let sources = workspace().join("examples/gc");
    let [plain, barrier] = ["gc", "gc-barrier"].map(|name| scratch.path(name));
    for (out, options) in [(&plain, &[][..]), (&barrier, &["-DBARRIER"][..])] {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread", "-o"])
            .arg(out)
            .args(options);
        cc.args(["main.c", "heap.c", "collect.c"].map(|file| sources.join(file)));
        if !cc.status().map_err(|e| format!("cc: {e}"))?.success() {
            return Err("cc failed".into());
        }
    }
    Ok(Programs {
        scratch,
        plain,
        barrier,
    })
}

impl Programs {
    /// Runs it in a way, with these arguments. Seconds, and what it said.
    fn run(
        &self,
        compiled: bool,
        options: Option<&[&str]>,
        args: &[String],
    ) -> Result<(f64, Said), String> {
        let program = if compiled { &self.barrier } else { &self.plain };
        let mut command = match options {
            None => Command::new(program),
            Some(options) => {
                let mut command = Command::new(trommel());
                command.args(["record", "--quiet"]).args(options);
                if options.contains(&"-q") {
                    command.arg(workspace().join("examples/gc/gc.rpa"));
                }
                command.arg("-o").arg(self.scratch.path("data"));
                command.arg("--").arg(program);
                command
            }
        };
        let clock = Instant::now();
        let done = command.args(args).output().map_err(|e| e.to_string())?;
        let seconds = clock.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        if !done.status.success() {
            let errors = String::from_utf8_lossy(&done.stderr);
            return Err(format!("it ended with {}: {text}{errors}", done.status));
        }
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let said = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok((seconds, said.collect()))
    }
}

fn table(programs: &Programs, rounds: usize) -> Result<(), String> {
    let args = [STORES, 1, MEGABYTES].map(|n| n.to_string());
    let mut times = [const { Vec::new() }; WAYS.len()];
    let mut pauses = [const { [Vec::new(), Vec::new()] }; WAYS.len()];
    let mut last: [Said; WAYS.len()] = Default::default();
    for _ in 0..rounds {
        for (n, (name, compiled, options, barrier)) in WAYS.iter().enumerate() {
            let (seconds, said) = programs.run(*compiled, *options, &args)?;
            let of = |key: &str| said.get(key).cloned().unwrap_or_default();
            if [of("barrier"), of("ended")] != [*barrier; 2] {
                return Err(format!("{name}: the barrier is {}", of("barrier")));
            }
            times[n].push(seconds);
            for (list, key) in pauses[n].iter_mut().zip(["pause_mean_us", "pause_most_us"]) {
                list.push(of(key).parse::<f64>().unwrap_or(0.0) / 1e3);
            }
            last[n] = said;
        }
    }
    println!(
        "| barrier | wall s | nanoseconds a store more | collections | pause ms, mean | longest | messages |\n\
         |---|---|---|---|---|---|---|"
    );
    let native = median(&mut times[0]);
    for (n, (name, ..)) in WAYS.iter().enumerate() {
        let time = median(&mut times[n]);
        let more = (time - native) / STORES as f64 * 1e9;
        let [mean, most] = [0, 1].map(|k| median(&mut pauses[n][k]));
        let of = |key: &str| last[n].get(key).map_or("", String::as_str);
        println!(
            "| {name} | {time:.3} | {more:.1} | {} | {mean:.2} | {most:.1} | {} |",
            of("collections"),
            of("messages"),
        );
    }
    println!(
        "\nMedians of {rounds} interleaved rounds; {STORES} stores by one thread, {MEGABYTES} MB of heap."
    );
    Ok(())
}
