//! Instructions a tuple of each compressor, counted under valgrind: a gate that noise does not move.
//!
//! The bench `tuples` sends its synthetic stream through one compressor, once and three times; the
//! difference of the two counts is that of two passes, free of what building and loading cost. The
//! copies of the stream that `repeat` makes are copied by `memcpy`, two instructions a tuple at most.

use std::path::PathBuf;
use std::process::Command;

/// Tuples of the synthetic stream.
const TUPLES: u64 = 1 << 20;

/// Instructions a tuple that a spec may take: what it took when the line was written, and a tenth.
const LIMITS: [(&str, f64); 10] = [
    ("P256", 6.0),
    ("H[P256]2048", 53.0),
    ("H:crc[P256]2048", 32.0),
    ("H:mul[P256]2048", 31.0),
    ("D16+H[P16:phase]4096", 9.0),
    ("T[256]2048/2way/2bit", 198.0),
    ("M4[10k,1%]2048:C1R0P1", 102.0),
    ("M4[1M,0.1%]2048:C1R0P1", 106.0),
    ("SS[10k,1%]538:P1", 363.0),
    ("S12[10k,1%]1536:P1", 333.0),
];

/// Counts instructions a tuple of each compressor, under valgrind, against limits.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure instructions")]
pub(crate) struct Args;

pub(super) fn run() -> Result<(), String> {
    let bench = build()?;
    let mut over = Vec::new();
    println!("| spec | instructions a tuple | limit |");
    println!("|---|---|---|");
    for (spec, limit) in LIMITS {
        let passes = |n| count(&bench, spec, n);
        let each = (passes(3)? - passes(1)?) as f64 / (2 * TUPLES) as f64;
        println!("| `{spec}` | {each:.1} | {limit} |");
        if each > limit {
            over.push(spec);
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than allowed: {}",
        over.join(", ")
    ))
}

/// Builds the bench; where it is.
fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args("bench -p trommel-compress --bench tuples --no-run --message-format=json".split(' '))
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    // The last artifact that names an executable is the bench.
    let text = String::from_utf8_lossy(&output.stdout);
    let key = "\"executable\":\"";
    let found = text.lines().rev().find_map(|line| {
        let at = line.find(key)? + key.len();
        Some(PathBuf::from(line[at..].split('"').next()?))
    });
    found.ok_or_else(|| "the bench was not built".into())
}

/// Instructions of one run.
fn count(bench: &PathBuf, spec: &str, passes: u32) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bench)
        .args(["--passes", &passes.to_string(), spec])
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let found = text.lines().find_map(|line| {
        let count = line.split_once("Collected :")?.1;
        count.trim().parse().ok()
    });
    found.ok_or_else(|| format!("{spec}: valgrind counted nothing\n{text}"))
}
