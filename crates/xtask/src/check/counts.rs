//! Compares `report --json` of one program with an independent oracle's exact counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::trommel;
use trommel_conformance::counts::{Counts, compare, compare_transfers};
use trommel_conformance::elf::Image;
use trommel_conformance::exec::{Scratch, which};
use trommel_conformance::{callgrind as oracle, stepper as single};

/// Compares exact counts of a program with an independent oracle.
///
/// Edges and calls are compared with callgrind, or with single-stepping, which also has loaded values.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check counts --stepper ls /")]
pub(crate) struct Args {
    /// Compare with single-stepping, values too; it is slow.
    #[arg(long)]
    stepper: bool,
    /// Program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG ARGS"
    )]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    match args.stepper {
        true => stepper(&args.command),
        false => callgrind(&args.command),
    }
}

fn callgrind(argv: &[String]) -> Result<(), String> {
    let argv = resolve(argv)?;
    let image = Image::read(Path::new(&argv[0])).ok_or("not an ELF program")?;
    let expected = oracle::count(&argv, &[], std::path::Path::new("."))?;
    let got = recorded(&argv, "edge,call")?;
    same(&expected, &oracle::comparable(&got, &image))
}

fn stepper(argv: &[String]) -> Result<(), String> {
    let argv = resolve(argv)?;
    let expected = single::count(&argv, 200_000_000).map_err(|e| e.to_string())?;
    let got = recorded(&argv, "edge,call,value")?;
    same(&expected, &got)?;
    let said = compare("values", &expected.values, &got.values, |(at, value)| {
        format!("{at:#x} loads {value:#x}")
    })?;
    println!("{said}");
    Ok(())
}

fn resolve(argv: &[String]) -> Result<Vec<String>, String> {
    let name = argv.first().ok_or("which program?")?;
    let path = which(name).ok_or_else(|| format!("no program {name}"))?;
    let path = fs::canonicalize(path).map_err(|e| format!("{name}: {e}"))?;
    Ok([&[path.to_string_lossy().into_owned()][..], &argv[1..]].concat())
}

fn recorded(argv: &[String], mix: &str) -> Result<Counts, String> {
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    Command::new(bin)
        .args(["record", "-e", mix, "-c", "exact", "-o"])
        .arg(&data)
        .arg("--")
        .args(argv)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    let done = Command::new(bin)
        .arg("report")
        .arg(&data)
        .args(["--json", "--top", "1000000000"])
        .output()
        .map_err(|e| e.to_string())?;
    Counts::from_report(&String::from_utf8_lossy(&done.stdout), Path::new(&argv[0]))
}

fn same(expected: &Counts, got: &Counts) -> Result<(), String> {
    for (what, a, b) in [
        ("conditional branches", &expected.branches, &got.branches),
        ("indirect jumps", &expected.jumps, &got.jumps),
        ("calls", &expected.calls, &got.calls),
    ] {
        println!("{}", compare_transfers(what, a, b)?);
    }
    Ok(())
}
