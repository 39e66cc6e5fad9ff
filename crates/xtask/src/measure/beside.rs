//! CPU times of two commands that run beside each other, on a processor each.
//!
//! Both meet the same neighbours of a virtual machine and the same clock of the processor at the same time. So their ratio
//! is good to a percent, where times of runs after each other differ by half. Each pair is run there and back, with the processors
//! exchanged, and the ratio is the geometric mean: what one processor has ahead of the other cancels out. A command's helpers share
//! its processor. Their time counts the same, but wall times say nothing.

use std::process::{Child, Command, Stdio};

use trommel_conformance::exec::children_cpu;

/// Result of a pair.
pub(crate) struct Pair {
    /// CPU seconds of the first command, with all that it has waited for: the mean of both runs.
    pub(crate) first: f64,
    /// The second's over the first's.
    pub(crate) ratio: f64,
}

/// Runs both beside each other, twice.
pub(crate) fn pair(first: &Command, second: &Command) -> Result<Pair, String> {
    let (there, over) = once(first, second, ["0", "1"])?;
    let (back, under) = once(first, second, ["1", "0"])?;
    Ok(Pair {
        first: (there + back) / 2.0,
        ratio: (over / there * under / back).sqrt(),
    })
}

fn once(first: &Command, second: &Command, on: [&str; 2]) -> Result<(f64, f64), String> {
    let mut one = start(first, on[0])?;
    let other = start(second, on[1]);
    // Both are waited for, whatever has become of either: children count when they have been.
    let one = ended(&mut one, first);
    let other = other.and_then(|mut child| ended(&mut child, second));
    Ok((one?, other?))
}

fn start(command: &Command, on: &str) -> Result<Child, String> {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", on]).arg(command.get_program());
    pinned.args(command.get_args());
    for (name, value) in command.get_envs() {
        pinned.env(name, value.unwrap_or_default());
    }
    if let Some(dir) = command.get_current_dir() {
        pinned.current_dir(dir);
    }
    let (stdout, stderr) = (Stdio::null(), Stdio::inherit());
    let child = pinned.stdout(stdout).stderr(stderr).spawn();
    child.map_err(|e| format!("{pinned:?}: {e}"))
}

/// CPU seconds of a child, which is waited for.
fn ended(child: &mut Child, command: &Command) -> Result<f64, String> {
    let before = children_cpu().map_err(|e| e.to_string())?;
    let status = child.wait().map_err(|e| e.to_string())?;
    match status.success() {
        true => Ok(children_cpu().map_err(|e| e.to_string())? - before),
        false => Err(format!("{command:?} ended with {status}")),
    }
}
