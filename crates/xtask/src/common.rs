//! Tools of several chores: the command under test, compiled helpers, medians, numbers of rounds.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use trommel_conformance::exec::output;

/// The `trommel` under test: `TROMMEL_BIN`, else the release build of this tree.
pub(crate) use trommel_conformance::exec::trommel;

/// The JSON report of a profile, with `top` entries of each kind.
pub(crate) fn report(data: &Path, top: &str) -> Result<Value, String> {
    let mut command = Command::new(trommel());
    let text = output(command.args(["report", "--json", "--top", top]).arg(data))?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// Compiles `source` with `options` to `out`.
pub(crate) fn cc(options: &[&str], source: &Path, out: &Path) -> Result<(), String> {
    let plus = source.extension().is_some_and(|e| e == "cpp");
    let compiler = if plus { "c++" } else { "cc" };
    let mut command = Command::new(compiler);
    command
        .arg("-w")
        .args(options)
        .arg("-o")
        .arg(out)
        .arg(source);
    match command
        .status()
        .map_err(|e| format!("{compiler}: {e}"))?
        .success()
    {
        true => Ok(()),
        false => Err(format!("{} cannot be compiled", source.display())),
    }
}

/// Runs cargo with these words, separated by spaces, in `dir`.
pub(crate) fn cargo(
    dir: &Path,
    line: &str,
    env: &[(&str, &std::ffi::OsStr)],
) -> Result<(), String> {
    eprintln!("$ cargo {line}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(line.split(' '))
        .current_dir(dir)
        .envs(env.iter().copied())
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("cargo {line} failed in {}", dir.display())),
    }
}

/// The median of some times, which are sorted by that.
pub(crate) fn median(list: &mut [f64]) -> f64 {
    list.sort_by(f64::total_cmp);
    list[list.len() / 2]
}

/// A number of rounds on the command line.
pub(crate) fn rounds(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// The variable of stress options.
pub(crate) const STRESS: &str = "TROMMEL_STRESS";

/// Splits stress options from the command after them: `TROMMEL_STRESS=no-opt run --no-bail-out`.
pub(crate) fn stressed(options: &str) -> (Option<&str>, &str) {
    let stress = options
        .strip_prefix(STRESS)
        .and_then(|o| o.strip_prefix('='));
    match stress.map(|stress| stress.split_once(' ').unwrap_or((stress, ""))) {
        Some((stress, options)) => (Some(stress), options),
        None => (None, options),
    }
}
