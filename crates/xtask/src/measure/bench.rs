//! Cost of recording and gain of `trommel run`: CPU and wall time of the corpus, natively and in
//! each configuration. The peer is valgrind's callgrind, as `callgrind`.
//!
//! Rounds are interleaved (native, then every configuration, then again), so that a noisy machine
//! disturbs all alike; ratios are of medians. CPU time is that of the whole process tree, the host
//! included, from `getrusage` of children.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use trommel_conformance::exec::Scratch;

use crate::common::{STRESS, median, rounds, stressed, trommel};
use crate::corpus::{names, script};

/// Usual configurations: event kinds for `record` and its options, or `run` or `stat` and its options.
const CONFIGURATIONS: [&str; 27] = [
    "native",
    "run",
    "run --after 0",
    "run --after 0.1",
    "run --after 0.5",
    "TROMMEL_STRESS=no-traces run --after 0",
    "TROMMEL_STRESS=no-opt run --after 0",
    "run --no-bail-out",
    "TROMMEL_STRESS=no-opt run --no-bail-out",
    "none",
    "edge",
    "call",
    "edge,call",
    "edge,call -c H[P256]2048+A16",
    "value --exact-values",
    "value --converge",
    "value -c H:crc[P256]2048+A16",
    "value -c H:crc[P256]2048+A16 --converge",
    "type",
    "edge,call,value,type --exact-values",
    "edge,call,value,type -c H:crc[P256]2048+A16",
    "path",
    "context",
    "edge,call -c M4[10k,1%]2048:C1R0P1",
    "value -c M4[10k,1%]2048:C1R0P1",
    "value -c M4:crc[10k,1%]2048:C1R0P1",
    "edge,call -c M4[1M,0.1%]2048:C1R0P1",
];

/// Each of the engine's means turned off, one at a time, for programs that stay attached.
const ABLATION: [&str; 6] = [
    "native",
    "run --no-bail-out",
    "TROMMEL_STRESS=no-opt run --no-bail-out",
    "TROMMEL_STRESS=no-returns run --no-bail-out",
    "TROMMEL_STRESS=no-traces run --no-bail-out",
    "TROMMEL_STRESS=no-link run --no-bail-out",
];

/// Measures what recording and `run` cost: CPU and wall time of the corpus against native.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask measure bench --rounds 3 --configuration none --configuration 'run --after 0' gzip_s"
)]
pub(crate) struct Args {
    /// Interleaved rounds, of which medians are taken.
    #[arg(long, value_name = "N", default_value = "5", value_parser = rounds)]
    rounds: usize,
    /// Event kinds for `record` and its options, or `run` or `stat` and its options, after `TROMMEL_STRESS=…` if wanted; or `callgrind`; all
    /// usual ones but that if none is given.
    #[arg(long = "configuration", value_name = "C", allow_hyphen_values = true)]
    configurations: Vec<String>,
    /// Turn each of the engine's means off, one at a time.
    #[arg(long, conflicts_with = "configurations")]
    ablation: bool,
    /// Write each time to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Workloads of the corpus; the short ones if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Args {
    /// The configurations that are run, natively first.
    fn configurations(&self) -> Vec<&str> {
        match (self.ablation, self.configurations.is_empty()) {
            (true, _) => ABLATION.to_vec(),
            (_, true) => CONFIGURATIONS.to_vec(),
            (_, false) => {
                let given = self.configurations.iter().map(String::as_str);
                std::iter::once("native").chain(given).collect()
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let (rounds, configurations) = (args.rounds, args.configurations());
    let script = script()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data").to_string_lossy().into_owned();
    let mut table = String::from("workload,configuration,round,cpu_s,wall_s\n");
    let mut ratios: Vec<Vec<(f64, f64)>> = vec![Vec::new(); configurations.len()];
    println!(
        "| workload | native s | {} |",
        configurations[1..].join(" | ")
    );
    println!("|{}", "---|".repeat(configurations.len() + 1));
    for name in names(&args.names, |n| n.ends_with("_s") || n == "gcctiny")? {
        let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); configurations.len()];
        let mut wall = cpu.clone();
        for round in 0..rounds {
            for (n, configuration) in configurations.iter().enumerate() {
                let options = (n > 0).then_some(*configuration);
                let mut command = workload(&script, &name, options, &data)?;
                let (before, start) = (children_cpu()?, Instant::now());
                let status = command.status().map_err(|e| e.to_string())?;
                let (w, c) = (start.elapsed().as_secs_f64(), children_cpu()? - before);
                if !status.success() {
                    return Err(format!("{name} with {configuration} ended with {status}"));
                }
                cpu[n].push(c);
                wall[n].push(w);
                let _ = writeln!(table, "{name},\"{configuration}\",{round},{c:.4},{w:.4}");
            }
        }
        let native = (median(&mut cpu[0]), median(&mut wall[0]));
        let mut row = format!("| {name} | {:.2} |", native.0);
        for n in 1..configurations.len() {
            let ratio = median(&mut cpu[n]) / native.0.max(0.001);
            let wall = median(&mut wall[n]) / native.1;
            ratios[n].push((ratio, wall));
            let _ = write!(row, " {ratio:.2} ({wall:.2}) |");
        }
        println!("{row}");
    }
    let row = means(&ratios[1..]);
    println!("{row}\n\nCPU time against native (wall time in brackets), medians of {rounds}.");
    args.csv.as_ref().map_or(Ok(()), |file| {
        fs::write(file, table).map_err(|e| format!("{}: {e}", file.display()))
    })
}

/// The command that runs a workload natively, or in a configuration with a profile in `data`.
fn workload(
    script: &Path,
    name: &str,
    configuration: Option<&str>,
    data: &str,
) -> Result<Command, String> {
    let mut command = Command::new(script);
    command.arg(name).stderr(Stdio::null());
    if configuration == Some("callgrind") {
        command.args(["valgrind", "-q", "--tool=callgrind"]);
        command.arg(format!("--callgrind-out-file={data}"));
    } else if let Some(configuration) = configuration {
        let (stress, configuration) = stressed(configuration);
        command.envs(stress.map(|stress| (STRESS, stress)));
        command.arg(trommel());
        if !["run", "stat"].contains(&configuration.split(' ').next().unwrap_or_default()) {
            command.args(["record", "-o", data, "-e"]);
        }
        command.args(configuration.split(' ')).arg("--");
    }
    Ok(command)
}

/// The last row: geometric means of the ratios of each configuration.
fn means(ratios: &[Vec<(f64, f64)>]) -> String {
    let mut row = String::from("| **geomean** | |");
    for list in ratios {
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
            (list.iter().map(|r| of(r).ln()).sum::<f64>() / list.len().max(1) as f64).exp()
        };
        let (cpu, wall) = (mean(&|r| r.0), mean(&|r| r.1));
        let _ = write!(row, " **{cpu:.2}** ({wall:.2}) |");
    }
    row
}

/// User and system seconds of the children waited for.
fn children_cpu() -> Result<f64, String> {
    trommel_conformance::exec::children_cpu().map_err(|e| e.to_string())
}
