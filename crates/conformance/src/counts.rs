//! Exact event counts of one module, however they were obtained, and their comparison.
//!
//! Places are vaddrs of the *main executable*. A transfer that leaves it is kept with the target
//! [`Target::Elsewhere`], since oracles name other modules differently.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::built::kept;
use crate::exec::{Job, Scratch, output};

/// Target of a transfer of control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Target {
    /// A vaddr of the main executable.
    Here(u64),
    /// Another module, or code outside any.
    Elsewhere,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(at) => write!(f, "{at:#x}"),
            Self::Elsewhere => f.write_str("another module"),
        }
    }
}

/// (instruction, target) → times.
pub type Transfers = BTreeMap<(u64, Target), u64>;

/// Counts of the main executable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Conditional branches, both ways.
    pub branches: Transfers,
    /// Indirect jumps.
    pub jumps: Transfers,
    /// Direct and indirect calls.
    pub calls: Transfers,
    /// (load, value) → times.
    pub values: BTreeMap<(u64, u64), u64>,
}

impl Counts {
    /// Reads what `report --json` of the command `bin` says of the executable `main` in a profile.
    pub fn reported(bin: &Path, data: &Path, main: &Path) -> Result<Self, String> {
        Self::from_report(&report(bin, data)?, main)
    }

    /// Reads `trommel report --json` (schema `trommel.report/1`) for the module at `main`.
    pub fn from_report(json: &str, main: &Path) -> Result<Self, String> {
        let report: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let schema = report["schema"].as_str();
        if schema != Some("trommel.report/1") {
            return Err(format!("schema is {schema:?}, not trommel.report/1"));
        }
        let id = report["modules"]
            .as_array()
            .ok_or("no modules")?
            .iter()
            .find(|m| m["path"].as_str().map(Path::new) == Some(main))
            .ok_or_else(|| format!("no module {}", main.display()))?["id"]
            .clone();
        let place = |v: &Value| -> Result<Target, String> {
            if v["module"] != id {
                return Ok(Target::Elsewhere);
            }
            let at = number(&v["vaddr"]).ok_or_else(|| format!("no vaddr in {v}"))?;
            Ok(Target::Here(at))
        };
        let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
        let count = |v: &Value| number(&v["count"]).ok_or_else(|| format!("no count in {v}"));
        let mut counts = Self::default();
        for edge in list("edges") {
            let Target::Here(from) = place(&edge["from"])? else {
                continue;
            };
            let kind = edge["kind"].as_str().unwrap_or("");
            let map = match kind {
                "taken" | "fallthrough" => &mut counts.branches,
                "indirect" => &mut counts.jumps,
                _ => return Err(format!("edge of unknown kind {kind:?}")),
            };
            add(map, from, place(&edge["to"])?, count(&edge)?);
        }
        for call in list("calls") {
            if let Target::Here(from) = place(&call["from"])? {
                add(&mut counts.calls, from, place(&call["to"])?, count(&call)?);
            }
        }
        for load in list("values") {
            let Target::Here(at) = place(&load["at"])? else {
                continue;
            };
            for top in load["top"].as_array().unwrap_or(&Vec::new()) {
                let value = number(&top["value"]).ok_or_else(|| format!("no value in {top}"))?;
                *counts.values.entry((at, value)).or_default() += count(top)?;
            }
        }
        Ok(counts)
    }
}

/// `report --json` of a profile, whole.
fn report(bin: &Path, data: &Path) -> Result<String, String> {
    let mut command = Command::new(bin);
    command.arg("report").arg(data);
    output(command.args(["--json", "--no-debug-info", "--top", "1000000000"]))
}

/// Returns what `report --json` says of a run of `argv` with these kinds and this compressor, with `env` added to its environment, that ends
/// with this code, or by a signal.
pub fn recorded_by(
    bin: &Path,
    argv: &[String],
    how: (&str, &str),
    env: Vec<(OsString, OsString)>,
    dir: &Path,
    code: Option<i32>,
) -> Result<Counts, String> {
    let text = reported_by(bin, argv, how, env, dir, code)?;
    Counts::from_report(&text, Path::new(&argv[0]))
}

/// The report of such a run, as text.
pub fn reported_by(
    bin: &Path,
    argv: &[String],
    (mix, spec): (&str, &str),
    env: Vec<(OsString, OsString)>,
    dir: &Path,
    code: Option<i32>,
) -> Result<String, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut job = Job::new(argv.to_vec(), dir);
    job.env = env;
    let run = job
        .record_by(bin, (mix, spec), &data, Duration::from_secs(120))
        .map_err(|e| e.to_string())?;
    if run.code != code {
        return Err(format!("record ended with {run:?}"));
    }
    report(bin, &data)
}

/// [`recorded_by`] under stress, of a program that does the same each time: the report is kept for other tests, as long as
/// the command and the program are the same files, and the environment is the same.
pub fn recorded_once(
    bin: &Path,
    argv: &[String],
    how: (&str, &str),
    stress: &str,
    code: Option<i32>,
) -> Result<Counts, String> {
    let files = [bin, Path::new(&argv[0])].map(|file| {
        let changed = file.metadata().and_then(|file| file.modified());
        format!("{} {:?}", file.display(), changed.ok())
    });
    let name = [&argv.join(" "), how.0, how.1, stress].join("\0");
    // The dynamic linker looks at each letter of it.
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.sort();
    let state = format!("{}\n{environment:?}", files.join("\n"));
    let text = kept("reports", &name, &state, || {
        let env = vec![("TROMMEL_STRESS".into(), stress.into())];
        reported_by(bin, argv, how, env, Path::new("/"), code)
    })?;
    Counts::from_report(&text, Path::new(&argv[0]))
}

/// Adds to a transfer's count; zero counts are not kept.
pub fn add(map: &mut Transfers, from: u64, to: Target, count: u64) {
    if count > 0 {
        *map.entry((from, to)).or_default() += count;
    }
}

/// A JSON number, or a string holding one in decimal or `0x` hexadecimal.
fn number(v: &Value) -> Option<u64> {
    v.as_u64().or_else(|| {
        let s = v.as_str()?;
        s.strip_prefix("0x")
            .map_or_else(|| s.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
    })
}

/// Lists up to 20 differences of two count tables; `Ok` holds how many rows and events agree.
pub fn compare<K: Ord + Copy>(
    what: &str,
    expected: &BTreeMap<K, u64>,
    got: &BTreeMap<K, u64>,
    show: impl Fn(&K) -> String,
) -> Result<String, String> {
    let mut wrong = Vec::new();
    let keys: std::collections::BTreeSet<K> = expected.keys().chain(got.keys()).copied().collect();
    for key in &keys {
        let (a, b) = (
            expected.get(key).copied().unwrap_or(0),
            got.get(key).copied().unwrap_or(0),
        );
        if a != b {
            wrong.push(format!("  {}: expected {a}, got {b}", show(key)));
        }
    }
    if wrong.is_empty() {
        let events: u64 = expected.values().sum();
        return Ok(format!(
            "{what}: {} rows, {events} events agree",
            keys.len()
        ));
    }
    let total = wrong.len();
    wrong.truncate(20);
    Err(format!(
        "{what}: {total} of {} rows differ\n{}",
        keys.len(),
        wrong.join("\n")
    ))
}

/// [`compare`] for transfers.
pub fn compare_transfers(what: &str, a: &Transfers, b: &Transfers) -> Result<String, String> {
    compare(what, a, b, |(from, to)| format!("{from:#x} -> {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_for_one_module() {
        let json = r#"{"schema":"trommel.report/1","modules":[{"id":1,"path":"/a"},{"id":2,"path":"/b"}],
            "edges":[{"from":{"module":1,"vaddr":"0x10"},"to":{"module":1,"vaddr":"0x20"},"kind":"taken","count":3},
                     {"from":{"module":2,"vaddr":"0x10"},"to":{"module":1,"vaddr":"0x20"},"kind":"taken","count":9}],
            "calls":[{"from":{"module":1,"vaddr":18},"to":{"module":2,"vaddr":7},"kind":"direct","count":4}],
            "values":[{"at":{"module":1,"vaddr":"0x30"},"executions":2,"top":[{"value":"0x5","count":2,"share":1.0}]}]}"#;
        let counts = Counts::from_report(json, Path::new("/a")).unwrap();
        assert_eq!(counts.branches, [((16, Target::Here(32)), 3)].into());
        assert_eq!(counts.calls, [((18, Target::Elsewhere), 4)].into());
        assert_eq!(counts.values, [((48, 5), 2)].into());
        assert!(Counts::from_report("{}", Path::new("/a")).is_err());
    }
}
