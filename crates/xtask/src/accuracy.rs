//! What profiles within a budget know of programs that run for ten seconds or so, against exact ones.
//!
//! Both are made with addresses that are the same in each run (`setarch -R`). Of edges: the hottest that
//! together are 99 % of all executions, how many of them the profile has, and how far their shares of all executions are off.
//! Of values: of each load that is more than 1 % of all loads, the values that the profile lists, and how many
//! of their shares lie within the limits that it prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, output};

use crate::budget::{WORKLOADS, corpus};

/// All entries of a report.
const ALL: &str = "0";
/// Loads of an exact profile, and values of each: of all of them there are gigabytes.
pub(crate) const HOTTEST: &str = "500";

/// A branch, by module and address, and where it goes.
type Edge = (u64, u64, u64, u64);

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut budget = "1".to_owned();
    let mut given: Vec<&str> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--budget" => budget = args.next().ok_or("--budget wants a number")?.clone(),
            name => given.push(name),
        }
    }
    let corpus = corpus()?;
    println!(
        "| workload | paid % | windows | hot edges | found | of executions % | error % | shares of values | within limits | with a lower limit above 0 | within limits |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    let (mut hold, mut all, mut told, mut told_held) = (0, 0, 0, 0);
    // Addresses of code that is made differ from run to run.
    for (name, words) in WORKLOADS
        .iter()
        .filter(|(name, _)| !["node", "java"].contains(name))
    {
        if !given.is_empty() && !given.contains(name) {
            continue;
        }
        let exact_edges = edges(&record(&corpus, words, &["-e", "edge"], ALL)?);
        let within = ["-e", "edge,value", "--budget", &budget];
        let report = record(&corpus, words, &within, ALL)?;
        let exact_values = record(&corpus, words, &["-e", "value"], HOTTEST)?;
        let paid = report["windows"]["paid_percent"].as_f64().unwrap_or(0.0);
        let windows = report["windows"]["counted"].as_f64().unwrap_or(0.0);
        let (hot, found, part, error) = compare(&exact_edges, &edges(&report));
        let shares = shares(&exact_values, &report);
        hold += shares.held;
        all += shares.all;
        told += shares.told;
        told_held += shares.told_held;
        println!(
            "| {name} | {paid:.2} | {windows:.0} | {hot} | {found} | {part:.2} | {error:.1} | {} | {} | {} | {} |",
            shares.all, shares.held, shares.told, shares.told_held
        );
    }
    println!(
        "\nWithin a budget of {budget} %. {hold} of {all} shares are within their limits ({:.1} %), {told_held} of the {told} with a lower limit above 0.",
        100.0 * f64::from(hold) / f64::from(all.max(1))
    );
    Ok(())
}

/// `top`: entries of each kind that are read.
pub(crate) fn record(
    corpus: &Path,
    words: &[&str],
    options: &[&str],
    top: &str,
) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let trommel = super::trommel()?;
    let mut command = Command::new("setarch");
    command
        .arg("-R")
        .arg(trommel)
        .args(["record", "--quiet", "-o"]);
    command.arg(&data).args(options).arg("--").args(words);
    command
        .env("PYTHONHASHSEED", "0")
        .env("PERL_HASH_SEED", "0");
    let status = command.current_dir(corpus).stdout(Stdio::null()).status();
    let status = status.map_err(|e| format!("setarch: {e}"))?;
    if !status.success() {
        return Err(format!("{} with {options:?}: {status}", words[0]));
    }
    let mut report = Command::new(trommel);
    let report = output(report.args(["report", "--json", "--top", top]).arg(&data))?;
    serde_json::from_str(&report).map_err(|e| e.to_string())
}

pub(crate) fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

/// The file of a place and its address there.
pub(crate) fn place(report: &Value, at: &Value) -> (u64, u64) {
    let number = at["module"].as_u64().unwrap_or(0);
    let mut modules = list(report, "modules").iter();
    let module = modules.find(|m| m["id"].as_u64() == Some(number));
    let path = module.and_then(|m| m["path"].as_str()).unwrap_or("");
    // Numbers of modules are those of one profile.
    let file = path.bytes().fold(0, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    (file, at["vaddr"].as_u64().unwrap_or(0))
}

fn edges(report: &Value) -> BTreeMap<Edge, f64> {
    let each = list(report, "edges").iter().map(|edge| {
        let (from, to) = (place(report, &edge["from"]), place(report, &edge["to"]));
        let count = edge["count"].as_f64().unwrap_or(0.0);
        ((from.0, from.1, to.0, to.1), count)
    });
    each.collect()
}

/// Hot edges, those found, the percentage of their executions that those are, and the mean error of their shares in percent,
/// each weighted by its executions.
fn compare(exact: &BTreeMap<Edge, f64>, seen: &BTreeMap<Edge, f64>) -> (usize, usize, f64, f64) {
    const HOT: f64 = 0.99;
    let sum = |counts: &BTreeMap<Edge, f64>| counts.values().sum::<f64>().max(1.0);
    let (all, all_seen) = (sum(exact), sum(seen));
    let mut order: Vec<(&Edge, f64)> = exact.iter().map(|(edge, &count)| (edge, count)).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (mut covered, mut hot, mut found, mut part, mut error) = (0.0, 0, 0, 0.0, 0.0);
    for (edge, count) in order {
        if covered >= HOT * all {
            break;
        }
        covered += count;
        hot += 1;
        let there = seen.get(edge).copied();
        if there.is_some() {
            found += 1;
            part += count;
        }
        error += (there.unwrap_or(0.0) / all_seen - count / all).abs();
    }
    let covered = covered.max(1.0);
    (
        hot,
        found,
        100.0 * part / covered,
        100.0 * error * all / covered,
    )
}

/// Shares that were looked at.
#[derive(Default)]
struct Shares {
    all: u32,
    /// Within their limits.
    held: u32,
    /// Of all, those with a lower limit above 0: of others limits say little.
    told: u32,
    /// Of those, the ones within their limits.
    told_held: u32,
}

fn shares(exact: &Value, seen: &Value) -> Shares {
    const HOT: f64 = 0.01;
    let mut truth = BTreeMap::new();
    let mut all = 0.0;
    for load in list(exact, "values") {
        let executions = load["executions"].as_f64().unwrap_or(0.0);
        all += executions;
        let values = list(load, "top").iter();
        let values = values.filter_map(|v| Some((v["value"].as_u64()?, v["share"].as_f64()?)));
        let values: BTreeMap<u64, f64> = values.collect();
        truth.insert(place(exact, &load["at"]), (executions, values));
    }
    let mut shares = Shares::default();
    for load in list(seen, "values") {
        let Some((executions, values)) = truth.get(&place(seen, &load["at"])) else {
            continue;
        };
        if *executions < HOT * all {
            continue;
        }
        for value in list(load, "top") {
            let Some(number) = value["value"].as_u64() else {
                continue;
            };
            let share = values.get(&number).copied().unwrap_or(0.0);
            let limit = |name: &str| value[name].as_f64().unwrap_or(0.0);
            let is_told = limit("share_low") > 0.0;
            // Shares are printed to six places.
            let holds = limit("share_low") - 1e-6 <= share && share <= limit("share_high") + 1e-6;
            shares.all += 1;
            shares.held += u32::from(holds);
            shares.told += u32::from(is_told);
            shares.told_held += u32::from(is_told && holds);
        }
    }
    shares
}
