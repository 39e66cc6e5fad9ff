//! Counting of one benchmark: the command, and what its report says.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::personality::{self, Persona};
use serde_json::Value;

use crate::options::COUNTED;

/// Counts of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Instructions of the benchmark, and of all that it called.
    pub(crate) instructions: u64,
    /// Calls that were made meanwhile.
    pub(crate) calls: u64,
}

/// The command, as it was found.
pub(crate) struct Trommel(OsString);

impl Trommel {
    /// Finds the command: the one that `TROMMEL` names, or `trommel`. `None`: there is none, and none was named.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let named = std::env::var_os("TROMMEL").filter(|name| !name.is_empty());
        let command = named.clone().unwrap_or_else(|| "trommel".into());
        let shown = command.to_string_lossy().into_owned();
        let done = Command::new(&command)
            .arg("--version")
            .stdin(Stdio::null())
            .output();
        match done {
            Ok(done) if done.status.success() => Ok(Some(Self(command))),
            Ok(done) => Err(format!("{shown} --version: {}", done.status)),
            Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(None),
            Err(e) => Err(format!("{shown}: {e}; TROMMEL names the command `trommel`")),
        }
    }

    /// Counts one benchmark of this program. `scratch` is a file that is written meanwhile.
    pub(crate) fn count(&self, name: &str, scratch: &Path) -> Result<Counts, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let mut record = Command::new(&self.0);
        record.args(["record", "--quiet", "-e", "context", "--context-depth", "2"]);
        record.arg("-o").arg(scratch).arg("--").arg(program);
        run(record.args([COUNTED, name]))?;
        let mut report = Command::new(&self.0);
        report.args(["report", "--json", "--no-debug-info"]);
        let text = run(report.arg(scratch))?;
        let report: Value = serde_json::from_slice(&text)
            .map_err(|e| format!("trommel report --json: no JSON: {e}"))?;
        counts(&report)
    }
}

/// Runs a command to its end. Returns its output; an error has its words.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let done = command.stdin(Stdio::null()).output();
    let words = command.get_args().map(|word| word.to_string_lossy());
    let words = words.collect::<Vec<_>>().join(" ");
    let done = done.map_err(|e| format!("trommel {words}: {e}"))?;
    match done.status.success() {
        true => Ok(done.stdout),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            let said = said.trim_end();
            Err(format!("trommel {words}: {}\n{said}", done.status))
        }
    }
}

/// Turns address-space randomisation off for what is started from now on. Returns false where the system refuses.
pub(crate) fn fix_addresses() -> bool {
    let fixed =
        personality::get().and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
    fixed.is_ok()
}

/// A file for one process of benchmarks.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("trommel-benchmark-{}.data", std::process::id()))
}

/// Returns true if a function is the one that calls benchmarks. Its type arguments are in its name where symbols are mangled that way.
fn is_measured(function: &str) -> bool {
    let rest = function.strip_prefix("trommel_benchmark::measured");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Counts of the function `measured` in a report of calling contexts.
fn counts(report: &Value) -> Result<Counts, String> {
    let contexts = &report["contexts"];
    let nodes = contexts["nodes"].as_array();
    let nodes = nodes.ok_or("trommel report --json: it has no calling contexts")?;
    let number = |value: &Value, name: &str| {
        let number = value[name].as_u64();
        number.ok_or_else(|| format!("trommel report --json: `{name}` is missing"))
    };
    if number(contexts, "folded")? != 0 {
        return Err("it has more calling contexts than trommel has memory for".into());
    }
    let (mut found, mut counts) = (false, Counts::default());
    // Nodes come after their parents.
    let mut inside: Vec<bool> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let parent = node["parent"].as_u64();
        let above = parent.is_some_and(|parent| inside.get(parent as usize) == Some(&true));
        let begins = !above && node["function"].as_str().is_some_and(is_measured);
        if begins {
            found = true;
            counts.instructions += number(node, "inclusive")?;
        }
        if above {
            counts.calls += number(node, "calls")?;
        }
        inside.push(above || begins);
    }
    match found {
        true => Ok(counts),
        false => Err("it has no symbols: [profile.bench] needs strip = false".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(parent: Option<u64>, function: &str, [calls, own, inclusive]: [u64; 3]) -> Value {
        json!({"parent": parent, "function": function, "calls": calls, "instructions": own, "inclusive": inclusive})
    }

    #[test]
    fn only_what_the_benchmark_calls_is_counted() {
        let mangled = "trommel_benchmark::measured::<u64, u64, own::fib::{closure#0}>";
        for measured in ["trommel_benchmark::measured", mangled] {
            let report = json!({"contexts": {"folded": 0, "nodes": [
                node(None, "main", [0, 5, 1000]),
                node(Some(0), "setup", [7, 800, 800]),
                node(Some(0), measured, [1, 4, 190]),
                node(Some(2), "fib", [3, 100, 186]),
                node(Some(3), "fib", [9, 86, 86]),
                node(Some(0), "drop", [2, 5, 5]),
            ]}});
            let wanted = Counts {
                instructions: 190,
                calls: 12,
            };
            assert_eq!(counts(&report), Ok(wanted));
        }
    }

    #[test]
    fn reports_without_the_function_are_refused() {
        let other = node(None, "trommel_benchmark::measured_by_another", [1, 4, 190]);
        let report = json!({"contexts": {"folded": 0, "nodes": [other]}});
        assert!(counts(&report).is_err_and(|e| e.contains("no symbols")));
        assert!(counts(&json!({})).is_err());
    }

    #[test]
    fn folded_calls_are_refused() {
        let nodes = [node(None, "trommel_benchmark::measured", [1, 4, 190])];
        let report = json!({"contexts": {"folded": 1, "nodes": nodes}});
        assert!(counts(&report).is_err());
    }
}
