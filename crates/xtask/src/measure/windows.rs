//! Cost of a window: the program of `tests/windows/work.c`, which prints its own CPU time, natively and with
//! windows of several lengths, begun every millisecond and ten times as often, in turns.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{cc, median, trommel};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, workspace};

const ROUNDS: usize = 5;
/// Microseconds of user time between windows.
const PACES: [u32; 2] = [1000, 100];
const LENGTHS: [u32; 4] = [4, 64, 1024, 8000];
const KINDS: [&str; 3] = ["none", "edge,call", "edge,call,value,type"];
/// Half a second or so.
const WORK: &str = "60";

/// One way to run it.
struct Row {
    length: u32,
    pace: u32,
    kinds: &'static str,
    /// CPU seconds of the program, and of trommel; windows.
    cpu: Vec<f64>,
    windows: Vec<f64>,
}

/// Measures what a window of N instructions costs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure windows")]
pub(crate) struct Args;

pub(super) fn run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [source, program, data] = ["timed.c", "timed", "data"].map(|name| scratch.path(name));
    let work = workspace().join("tests/windows/work.c");
    let text = format!(
        "#define main work\n#include \"{}\"\n#undef main\n#include <time.h>\n\
         static double now(void) {{ struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); \
         return t.tv_sec + t.tv_nsec * 1e-9; }}\n\
         int main(int c, char **v) {{ double from = now(); work(c, v); \
         printf(\"%.6f\\n\", now() - from); return 0; }}\n",
        work.display()
    );
    fs::write(&source, text).map_err(|e| e.to_string())?;
    cc(&["-O2"], &source, &program)?;
    let mut native = Vec::new();
    let mut rows = Vec::new();
    for pace in PACES {
        for length in LENGTHS {
            for kinds in KINDS {
                let (cpu, windows) = (Vec::new(), Vec::new());
                rows.push(Row {
                    length,
                    pace,
                    kinds,
                    cpu,
                    windows,
                });
            }
        }
    }
    for _ in 0..ROUNDS {
        native.push(timed(Command::new(&program).arg(WORK))?.0);
        for row in &mut rows {
            let (cpu, windows) = row.once(&program, &data)?;
            row.cpu.push(cpu);
            row.windows.push(windows);
        }
    }
    let native = median(&mut native);
    println!("| instructions | events | µs between | windows | time to native | µs a window |");
    println!("|---|---|---|---|---|---|");
    for row in &mut rows {
        let cpu = median(&mut row.cpu);
        let windows = median(&mut row.windows);
        println!(
            "| {} | {} | {} | {windows:.0} | {:.3} | {:.1} |",
            row.length,
            row.kinds,
            row.pace,
            cpu / native,
            (cpu - native) / windows * 1e6
        );
    }
    println!("\nMedians of {ROUNDS} interleaved rounds; natively {native:.3} s of CPU time.");
    begun(&program, &data)
}

/// Prints the cost of beginning a window by rate, from the profile's own account.
fn begun(program: &Path, data: &Path) -> Result<(), String> {
    const LONG: &str = "300";
    println!(
        "\n| windows a second | begun by | µs in the kernel | µs in windows |\n|---|---|---|---|"
    );
    for rate in ["200", "500", "1000", "4000"] {
        let mut command = Command::new(trommel());
        let fixed = ["--window", "4", "--skip", "1", "-e", "none", "--rate", rate];
        command
            .args(["record", "--quiet", "-o"])
            .arg(data)
            .args(fixed);
        timed(command.arg("--").arg(program).arg(LONG))?;
        let mut report = Command::new(trommel());
        let report = output(report.args(["report", "--json"]).arg(data))?;
        let report: Value = serde_json::from_str(&report).map_err(|e| e.to_string())?;
        let windows = &report["windows"];
        let number = |name: &str| windows[name].as_f64().unwrap_or(0.0);
        let each = |name| number(name) / number("taken").max(1.0) / 1e3;
        let how = windows["pacing"].as_str().unwrap_or("");
        let how = how.split(", at random").next().unwrap_or("");
        println!(
            "| {rate} | {how} | {:.1} | {:.1} |",
            each("in_kernel_ns"),
            each("in_windows_ns")
        );
    }
    Ok(())
}

impl Row {
    fn once(&self, program: &Path, data: &Path) -> Result<(f64, f64), String> {
        let mut command = Command::new(trommel());
        command.args(["record", "-e", self.kinds, "-o"]).arg(data);
        command.arg("--").arg(program).arg(WORK);
        let stress = format!("window={},pace={}", self.length, self.pace);
        let (cpu, stderr) = timed(command.env("TROMMEL_STRESS", stress))?;
        let ended = stderr
            .split_once("windows: ended ")
            .and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        Ok((cpu, ended.ok_or("the runtime printed nothing of windows")?))
    }
}

/// The CPU seconds that the program prints, and what is on standard error.
fn timed(command: &mut Command) -> Result<(f64, String), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("it ended with {}:\n{stderr}", output.status));
    }
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds = stdout.lines().last().and_then(|line| line.parse().ok());
    Ok((seconds.ok_or("no time")?, stderr))
}
