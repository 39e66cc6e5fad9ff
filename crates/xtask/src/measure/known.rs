//! Errors of the shares of values that were profiled until they were known (`record --converge`), against exact ones.
//!
//! Both runs have addresses that are the same (`setarch -R`). The measure is that of *Rapid Profiling via Stratified Sampling*, section 5.3.1:
//! of loads with at least 1000 executions the values with at least 10 % of those, if they are 40 % of them together; the difference of their shares,
//! weighted by how often each occurred. The loads that are executed most are compared. Where a load has none of its frequent values in the other
//! profile they are taken for addresses, which are others where trommel takes other memory, and compared by rank.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::corpus::directory;

use super::exact::{HOTTEST, list, place, record};

/// Programs of the corpus, in its directory: for less than a second, and for longer.
const WORKLOADS: [(&str, &[&str]); 8] = [
    ("deltablue_s", &["bin/deltablue", "300"]),
    ("lua_s", &["lua5.4", "bench.lua", "3"]),
    ("python_s", &["/usr/bin/python3", "bench.py", "3"]),
    ("gzip_s", &["gzip", "-9", "-c", "text4m.txt"]),
    ("deltablue", &["bin/deltablue", "1200"]),
    ("lua", &["lua5.4", "bench.lua", "12"]),
    ("python", &["/usr/bin/python3", "bench.py", "12"]),
    ("gzip", &["gzip", "-9", "-c", "text24m.txt"]),
];
/// Ways to profile.
const WAYS: [&[&str]; 6] = [
    &["--converge"],
    &["--converge=1"],
    &["-c", "P256"],
    &["-c", "P256", "--converge"],
    &["-c", "H:crc[P256]2048+A16"],
    &["-c", "H:crc[P256]2048+A16", "--converge"],
];
/// Loads that are read of the other profiles, in which their order is another, and values of each.
const MORE: &str = "3000";
/// Executions of a load at least; share of a value in it, and of all such values.
const EXECUTIONS: f64 = 1000.0;
const TUPLE: f64 = 0.1;
const LOAD: f64 = 0.4;

/// Executions of a load and the shares of its values.
type Load = (f64, BTreeMap<u64, f64>);

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let corpus = directory()?;
    println!(
        "| workload | loads | {} |",
        WAYS.map(|way| format!("`{}`, error % (profiled %)", way.join(" ")))
            .join(" | ")
    );
    println!("|---|---|{}", "---|".repeat(WAYS.len()));
    let given = |name: &str| args.is_empty() || args.iter().any(|arg| arg == name);
    for (name, words) in WORKLOADS.iter().filter(|(name, _)| given(name)) {
        let exact = record(&corpus, words, &["-e", "value", "--exact-values"], HOTTEST)?;
        let all = exact["events"]["value"]["seen"].as_f64().unwrap_or(1.0);
        let exact = loads(&exact);
        let mut row = Vec::new();
        for way in WAYS {
            let options = [&["-e", "value"], way].concat();
            let report = record(&corpus, words, &options, MORE)?;
            let seen = report["events"]["value"]["seen"].as_f64().unwrap_or(0.0);
            let error = error(&exact, &loads(&report));
            row.push(format!("{error:.2} ({:.1})", 100.0 * seen / all));
        }
        println!("| {name} | {} | {} |", exact.len(), row.join(" | "));
    }
    Ok(())
}

/// The loads of a report, by module and address.
fn loads(report: &Value) -> BTreeMap<(u64, u64), Load> {
    let each = list(report, "values").iter().map(|load| {
        let top = list(load, "top").iter();
        let top =
            top.filter_map(|value| Some((value["value"].as_u64()?, value["share"].as_f64()?)));
        let executions = load["executions"].as_f64().unwrap_or(0.0);
        (place(report, &load["at"]), (executions, top.collect()))
    });
    each.collect()
}

/// Shares, the highest first.
fn ranks(shares: &BTreeMap<u64, f64>) -> Vec<f64> {
    let mut ranks: Vec<f64> = shares.values().copied().collect();
    ranks.sort_by(|a, b| b.total_cmp(a));
    ranks
}

/// The invariance error, in percent.
fn error(exact: &BTreeMap<(u64, u64), Load>, seen: &BTreeMap<(u64, u64), Load>) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (at, (executions, shares)) in exact {
        let frequent = || shares.iter().filter(|(_, share)| **share >= TUPLE);
        if *executions < EXECUTIONS || frequent().map(|(_, share)| share).sum::<f64>() < LOAD {
            continue;
        }
        let none = BTreeMap::new();
        let there = seen.get(at).map_or(&none, |(_, shares)| shares);
        let moved = !frequent().any(|(value, _)| there.contains_key(value));
        let (ranks, ranks_there) = (ranks(shares), ranks(there));
        for (value, share) in frequent() {
            let share_there = match moved {
                false => there.get(value),
                true => (ranks.iter().position(|s| s == share)).and_then(|n| ranks_there.get(n)),
            };
            let count = share * executions;
            sum += count * (share - share_there.copied().unwrap_or(0.0)).abs();
            weight += count;
        }
    }
    match weight > 0.0 {
        true => 100.0 * sum / weight,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address of a load, its executions, and shares of its values.
    type Given<'a> = (u64, f64, &'a [(u64, f64)]);

    #[test]
    fn the_error_is_weighted_by_executions() {
        let of = |loads: &[Given<'_>]| {
            let load = |&(at, executions, shares): &Given<'_>| {
                ((0, at), (executions, shares.iter().copied().collect()))
            };
            loads.iter().map(load).collect()
        };
        let exact = of(&[
            (1, 3000.0, &[(7, 1.0)]),
            (2, 1000.0, &[(7, 1.0)]),
            // Too rarely, and without a frequent value.
            (3, 999.0, &[(7, 1.0)]),
            (4, 9000.0, &[(7, 0.3)]),
        ]);
        let seen = of(&[(1, 10.0, &[(7, 0.9)])]);
        assert!((error(&exact, &seen) - (3.0 * 10.0 + 100.0) / 4.0).abs() < 1e-9);
        assert!(error(&exact, &exact) < 1e-9);
    }
}
