//! What taking back is worth: a program compiled at `-O0` for whose first second control does not pay, and for whose loop after that it does
//! (`retake.c`).

use std::process::Command;

use trommel_conformance::exec::{Scratch, output, workspace};

use crate::bench::number_of_rounds;
use crate::unoptimised::row;

const WAYS: [&str; 2] = ["run --opt aggressive", "run --opt aggressive --no-retake"];
/// Calls, and millions of turns.
const ARGUMENTS: [&str; 2] = ["80000000", "5000"];

/// `[--rounds N]`
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let rounds = match args {
        [] => 3,
        [flag, rounds] if flag == "--rounds" => number_of_rounds(Some(rounds))?,
        _ => return Err("retake [--rounds N]".into()),
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("retake");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O0", "-o"]).arg(&program);
    output(gcc.arg(workspace().join("crates/xtask/src/retake.c")))?;
    println!("| program | native s | {} |", WAYS.join(" | "));
    println!("|{}", "---|".repeat(WAYS.len() + 2));
    let mut command = vec![program.to_string_lossy().into_owned()];
    command.extend(ARGUMENTS.map(str::to_owned));
    row(
        "calls at random, then a loop",
        &command,
        None,
        &WAYS,
        rounds,
    )
}
