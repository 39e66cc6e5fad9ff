//! Waits (`record --off-cpu`) of a program whose threads say how long each has waited, by its own clock (`tests/stacks/waits.c`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program;

use super::text;

/// Waits of each thread.
const ROUNDS: &str = "60";
const MS: f64 = 1e6;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("waits last as long as the program says", || Ok(reported()?)),
        Trial::test("waits of a program that runs already", || Ok(attached()?)),
        Trial::test("waits without privilege are samples", || Ok(looked()?)),
        Trial::test("waits are shown and exported", || Ok(shown()?)),
        Trial::test("waits do not go with everything", || Ok(refused()?)),
    ]
}

fn built() -> Result<PathBuf, String> {
    let flags = ["-O2", "-g", "-pthread"];
    program::built("tests/stacks/waits.c", "stack-waits", &flags)
}

/// Nanoseconds that each function has waited, as the program says, and how often.
fn said(out: &str) -> Result<BTreeMap<String, (f64, f64)>, String> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<f64>().ok();
        Some((name, (number()?, number()?)))
    };
    let all: Option<BTreeMap<_, _>> = out.lines().map(line).collect();
    all.filter(|all| all.len() == 5)
        .ok_or_else(|| format!("the program said {out:?}"))
}

fn report(data: &Path) -> Result<Value, String> {
    let mut command = Command::new(trommel());
    command.args(["report", "--json"]).arg(data);
    serde_json::from_str(&output(&mut command)?).map_err(text)
}

/// Time and number of the waits below each function.
fn below(report: &Value, times: &str) -> BTreeMap<String, (f64, f64)> {
    let nodes = report["waits"]["nodes"].as_array();
    let nodes = nodes.map_or(&[][..], Vec::as_slice);
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for node in nodes {
        let mut names: Vec<String> = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            names.extend(node["at"]["function"].as_str().map(str::to_owned));
            next = node["parent"].as_u64().and_then(|n| nodes.get(n as usize));
        }
        names.sort();
        names.dedup();
        for name in names {
            let sum = all.entry(name).or_default();
            sum.0 += node[times].as_f64().unwrap_or(0.0);
            sum.1 += node["time"].as_f64().unwrap_or(0.0);
        }
    }
    all
}

/// Checks that paths are whole, and that the thread that computes does not wait.
fn check_paths(report: &Value, all: &BTreeMap<String, (f64, f64)>) -> Result<(), String> {
    let waits = &report["waits"];
    let lost = ["truncated", "broken"].map(|name| waits[name].as_u64().unwrap_or(u64::MAX));
    let idle = all.get("computes").map_or(0.0, |(_, time)| *time);
    match lost == [0, 0] && idle == 0.0 {
        true => Ok(()),
        false => Err(format!(
            "{lost:?} paths are not whole, and {idle} ns of waits where it computes: {all:?}"
        )),
    }
}

fn record(data: &Path, options: &[&str]) -> Result<String, String> {
    let mut command = Command::new(trommel());
    command
        .args(["record", "--off-cpu", "--quiet", "-o"])
        .arg(data)
        .args(options)
        .arg("--")
        .arg(built()?)
        .arg(ROUNDS);
    output(&mut command)
}

/// Returns true if the kernel reports waits to us. If not, that is said.
fn are_reported(report: &Value) -> bool {
    let nodes = report["waits"]["nodes"].as_array();
    let reported = nodes.is_some_and(|nodes| nodes.iter().all(|node| node.get("waits").is_some()));
    if !reported {
        not_tested("reported waits: they need CAP_PERFMON");
    }
    reported
}

fn reported() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    let said = said(&record(&data, &[])?)?;
    let report = report(&data)?;
    if !are_reported(&report) {
        return Ok(());
    }
    let all = below(&report, "waits");
    check_paths(&report, &all)?;
    // On a busy machine some records may have no room, and that is told. Each may be of the end of one wait and the beginning of another.
    let lost = report["stacks"]["lost"].as_f64();
    let missing = 2.0 * lost.ok_or("no records lost")?;
    for (name, (times, nanos)) in &said {
        let (waits, waited) = all.get(name).copied().unwrap_or_default();
        // The program's clock also has the way into the kernel, and what an interrupt takes.
        let least = 0.9 * nanos - 2.0 * MS - missing * nanos / times;
        // A lock may be free. Those that are told may find another with the lock.
        let counted = match name.as_str() {
            "sleeps" | "polls" => (times - missing..=*times).contains(&waits),
            _ => waits <= 3.0 * times,
        };
        if !(least..=nanos + MS).contains(&waited) || !counted {
            return Err(format!(
                "{name}: {waits} waits of {waited} ns, and it says {times} of {nanos}; {lost:?} records lost: {all:?}"
            ));
        }
    }
    Ok(())
}

fn attached() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    let mut program = Command::new(built()?)
        .arg("400")
        .stdout(Stdio::null())
        .spawn()
        .map_err(text)?;
    let pid = program.id().to_string();
    let options = ["record", "--off-cpu", "--quiet", "--duration", "0.5"];
    let mut command = Command::new(trommel());
    command.args(options).args(["-p", &pid, "-o"]).arg(&data);
    let recorded = output(&mut command);
    let _ = program.kill();
    let _ = program.wait();
    recorded?;
    let report = report(&data)?;
    if !are_reported(&report) {
        return Ok(());
    }
    let all = below(&report, "waits");
    check_paths(&report, &all)?;
    // It sleeps for 3 ms at a time, and does nothing else. On a busy machine some records may have no room, and that is told.
    let slept = all.get("sleeps").map_or(0.0, |(_, time)| *time);
    let lost = report["stacks"]["lost"].as_u64();
    let least = if lost == Some(0) { 0.35e9 } else { 0.0 };
    match slept > least && slept < 0.55e9 {
        true => Ok(()),
        false => Err(format!(
            "{slept} ns of half a second, {lost:?} records lost: {all:?}"
        )),
    }
}

/// Waits of a user who may see his own programs only.
fn looked() -> Result<(), String> {
    let nobody = [
        "--reuid",
        "65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ];
    if which("setpriv").is_none() {
        not_tested("waits without privilege: no setpriv");
        return Ok(());
    }
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(scratch.dir(), open).map_err(text)?;
    let mut copies = Vec::new();
    for (from, name) in [(trommel().to_owned(), "trommel"), (built()?, "waits")] {
        let to = scratch.path(name);
        std::fs::copy(from, &to).map_err(text)?;
        copies.push(to);
    }
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&copies[0]);
    command.args(["record", "--off-cpu", "-o"]).arg(&data);
    command.arg("--").arg(&copies[1]).arg("200");
    let out = command.output().map_err(text)?;
    let words = String::from_utf8_lossy(&out.stderr);
    if words.contains("setpriv:") || words.contains("the kernel refuses") {
        not_tested(format!("waits without privilege: {words}"));
        return Ok(());
    }
    let said = said(&String::from_utf8_lossy(&out.stdout))?;
    let report = report(&data)?;
    let all = below(&report, "samples");
    check_paths(&report, &all)?;
    if !words.contains("threads were looked at") {
        return Err(format!("nothing tells that these are samples: {words}"));
    }
    // A sample a hundredth of a second, or less often on a busy machine.
    let of = |name| all.get(name).copied().unwrap_or_default();
    let waited: f64 = said.keys().map(|name| of(name).1).sum();
    let wanted: f64 = said.values().map(|(_, nanos)| nanos).sum();
    let is_right = (0.6 * wanted..1.4 * wanted).contains(&waited);
    match is_right && said.keys().all(|name| of(name).0 > 0.0) {
        true => Ok(()),
        false => Err(format!("{waited} ns, and it says {said:?}: {all:?}")),
    }
}

/// The words of each row of the table of waits.
fn rows(words: &str) -> Vec<Vec<&str>> {
    let table = words.split("# Off-CPU: ").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2);
    rows.map(|row| row.split_whitespace().collect())
        .take_while(|row: &Vec<&str>| row.iter().any(|word| word.ends_with('%')))
        .collect()
}

/// The end of a recording shows what was asked for, in twelve lines: the longest waits, as the report does.
fn ends_with_waits() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    let mut command = Command::new(trommel());
    command.args(["record", "--off-cpu", "-o"]).arg(&data);
    command.arg("--").arg(built()?).arg("100");
    let end = String::from_utf8_lossy(&command.output().map_err(text)?.stderr).into_owned();
    let all = output(Command::new(trommel()).arg("report").arg(&data))?;
    let (shown, all) = (rows(&end), rows(&all));
    match !shown.is_empty() && all.starts_with(&shown) && end.lines().count() <= 12 {
        true => Ok(()),
        false => Err(format!(
            "the end of a recording shows {shown:?}, and the report {all:?}: {end}"
        )),
    }
}

fn shown() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    record(&data, &[])?;
    ends_with_waits()?;
    let run = |words: &[&str]| output(Command::new(trommel()).args(words).arg(&data));
    let table = run(&["report"])?;
    let rows = table.split("# Off-CPU: ").nth(1).unwrap_or_default();
    if !rows.contains("sleeps+") || !rows.contains("nanosleep") || !rows.contains("waits.c:") {
        return Err(table);
    }
    let tree = run(&["report", "--tree", "--off-cpu"])?;
    if !tree.contains("in which threads waited") || !tree.contains("sleeper") {
        return Err(tree);
    }
    let page = scratch.path("page.html");
    let to = page.to_string_lossy();
    run(&["report", "--off-cpu", "--html", &to])?;
    let page = std::fs::read_to_string(&page).map_err(text)?;
    if !page.contains("\"sleeper\"") {
        return Err("the page has no sleeper".to_owned());
    }
    let all = report(&data)?;
    let nodes = all["waits"]["nodes"].as_array().cloned();
    let times = nodes
        .iter()
        .flatten()
        .filter_map(|node| node["time"].as_u64());
    let sum: u64 = times.sum();
    let folded = run(&["export", "-f", "folded", "--off-cpu", "-o", "-"])?;
    let numbers = folded
        .lines()
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    match numbers.sum::<u64>() == sum && folded.contains(";sleeper;sleeps;") {
        true => Ok(()),
        false => Err(format!("{sum} ns, and folded: {folded}")),
    }
}

fn refused() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    for (options, words) in [
        (&["--samples"][..], "cannot be used with"),
        (&["-e", "edge"], "--off-cpu counts no events"),
        (&["--budget", "1"], "--off-cpu samples the program natively"),
    ] {
        match record(&data, options) {
            Err(error) if error.contains(words) => {}
            other => return Err(format!("{options:?}: {other:?}")),
        }
    }
    let mut command = Command::new(trommel());
    command
        .args(["record", "-e", "stack", "--quiet", "-o"])
        .arg(&data);
    output(command.arg("--").arg(built()?).arg("10"))?;
    for words in [
        &["report", "--tree", "--off-cpu"][..],
        &["report", "--html", "x.html", "--off-cpu"],
        &["export", "-f", "folded", "--off-cpu", "-o", "-"],
    ] {
        match output(Command::new(trommel()).args(words).arg(&data)) {
            Err(error) if error.contains("holds no waits") => {}
            other => return Err(format!("{words:?}: {other:?}")),
        }
    }
    match output(
        Command::new(trommel())
            .args(["export", "-f", "csv", "--off-cpu"])
            .arg(&data),
    ) {
        Err(error) if error.contains("--off-cpu is for formats of call paths") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
