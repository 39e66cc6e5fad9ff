//! Counts above 2^53, which a `f64` does not hold: no exact count is rounded, in any format.
//!
//! A recorded profile is multiplied by an odd number. All that follows from it is sums and differences, so each number of an export is the
//! same, as addresses and lines are, or so many times as great.

use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;

use super::{Test, llvm, run, text, tool};

pub(super) const ALL: &[(&str, Test)] = &[(
    "great: counts near 2^60 are exact in each format",
    multiplied,
)];

/// The sum of all bytes of executed instructions, which `autofdo` has, stays below 2^63.
const TIMES: u64 = (1 << 42) + 1;
/// Debug information of libraries would take most of the time.
const OWN: [&str; 2] = ["--module", "app"];
/// Formats whose numbers are in the text.
const TEXTS: [&str; 8] = [
    "bolt",
    "bolt-preagg",
    "profgen",
    "autofdo",
    "callgrind",
    "cachegrind",
    "lcov",
    "csv",
];

fn multiplied() -> Result<(), String> {
    let small = Recorded::new("gcc", &["-O1", "-g"])?;
    let mut profiles = trommel_store::read(&small.data).map_err(|e| e.to_string())?;
    for kind in profiles.iter_mut().flat_map(|p| p.kinds.values_mut()) {
        kind.seen *= TIMES;
        let counts = kind.counts.values_mut().flatten();
        counts.for_each(|(_, count)| *count *= TIMES);
    }
    let after_calls = profiles.iter_mut().flat_map(|p| &mut p.after_calls);
    let counts = after_calls.flat_map(|all| all.values_mut());
    counts.for_each(|count| *count *= TIMES);
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let great = Recorded {
        data: scratch.path("app.data"),
        program: small.program.clone(),
        scratch,
    };
    trommel_store::write(&great.data, &profiles).map_err(|e| e.to_string())?;
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| e.to_string());
    for format in TEXTS {
        let [small, great] = [&small, &great].map(|of| {
            let text = read(&of.export(format, &OWN)?)?;
            Ok::<_, String>(without_shares(&text))
        });
        compared(format, &small?, &great?)?;
    }
    let of_samples = [&small, &great].map(samples);
    let [Some(before), Some(after)] = of_samples else {
        return Ok(());
    };
    compared("autofdo-extbinary", &before?, &after?)?;
    let of_lines = [&small, &great].map(lines);
    let [Some(before), Some(after)] = of_lines else {
        return Ok(());
    };
    compared("pprof", &before?, &after?)
}

/// The binary profile as LLVM writes it as text.
fn samples(recorded: &Recorded) -> Option<Result<String, String>> {
    let profdata = llvm("llvm-profdata", "great")?;
    let of = || {
        let file = text(&recorded.export("autofdo-extbinary", &OWN)?);
        let merge = ["merge", "--sample", "--text", &file, "-o", "-"];
        run(&profdata, &merge, recorded.scratch.dir())
    };
    Some(of())
}

/// Samples as `go tool pprof` prints them.
fn lines(recorded: &Recorded) -> Option<Result<String, String>> {
    let tool = tool(&["go"], "great")?;
    let of = || {
        let file = text(&recorded.export("pprof", &OWN)?);
        let printed = output(Command::new(&tool).args(["tool", "pprof", "-raw", &file]))?;
        let samples = printed.split_once("Samples:").ok_or("no samples")?.1;
        let samples = samples.split("Locations").next().unwrap_or_default();
        Ok(samples.to_owned())
    };
    Some(of())
}

/// The text without what `callgrind` has of calls: inclusive costs are shares, and rounded.
fn without_shares(text: &str) -> String {
    let mut after_calls = false;
    let own = text.lines().filter(|line| {
        let is_share = std::mem::replace(&mut after_calls, line.starts_with("calls="));
        !is_share
    });
    own.flat_map(|line| [line, "\n"]).collect()
}

/// Compares all numbers of two texts that are otherwise the same.
fn compared(format: &str, small: &str, great: &str) -> Result<(), String> {
    let words = |text: &str| -> Vec<String> {
        let split = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$');
        let words = text.split(split).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let (small, great) = (words(small), words(great));
    let mut multiplied = 0;
    for (before, after) in small.iter().zip(&great) {
        let numbers = [before, after].map(|word| word.parse::<u128>().ok());
        match numbers {
            _ if before == after => {}
            [Some(before), Some(after)] if before * u128::from(TIMES) == after => multiplied += 1,
            _ => return Err(format!("{format}: {after} of {before}")),
        }
    }
    match small.len() == great.len() && multiplied > 20 {
        true => Ok(()),
        false => Err(format!("{format}: {multiplied} of {} numbers", small.len())),
    }
}
