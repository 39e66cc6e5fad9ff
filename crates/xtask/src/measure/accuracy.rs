//! Accuracy of profiles within a budget, of programs that run for ten seconds or so, against exact profiles.
//!
//! Both are made with addresses that are the same in each run (`setarch -R`). Of edges: the hottest that
//! together are 99 % of all executions, how many of them the profile has, and how far their shares of all executions are off.
//! Of values: of each load that is more than 1 % of all loads, the values that the profile lists, and how many
//! of their shares lie within the limits that it prints.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::corpus::{LONG_RUNS, directory};

use super::exact::{ALL, HOTTEST, list, place, record};
use super::known;

/// A branch, by module and address, and where it goes.
type Edge = (u64, u64, u64, u64);

/// Measures how accurate profiles within a budget are, or those that have converged.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask measure accuracy --budget 1 lua\n  cargo xtask measure accuracy --converge"
)]
pub(crate) struct Args {
    /// Budget of the profile, in percent.
    #[arg(long, value_name = "PCT", default_value = "1")]
    budget: String,
    /// Measure profiles that `--converge` has found instead.
    #[arg(long)]
    converge: bool,
    /// Programs of the corpus; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    match args.converge {
        true => known::run(&args.names),
        false => within(&args.budget, &args.names),
    }
}

/// Measures profiles within a budget.
fn within(budget: &str, given: &[String]) -> Result<(), String> {
    let corpus = directory()?;
    println!(
        "| workload | paid % | windows | hot edges | found | of executions % | error % | shares of values | within limits | with a lower limit above 0 | within limits |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    let (mut hold, mut all, mut limited, mut limited_held) = (0, 0, 0, 0);
    // Addresses of code that is made differ from run to run.
    for (name, words) in LONG_RUNS
        .iter()
        .filter(|(name, _)| !["node", "java"].contains(name))
    {
        if !given.is_empty() && !given.iter().any(|g| g == name) {
            continue;
        }
        let exact_edges = edges(&record(&corpus, words, &["-e", "edge"], ALL)?);
        let within = ["-e", "edge,value", "--budget", budget];
        let report = record(&corpus, words, &within, ALL)?;
        let exact_values = record(&corpus, words, &["-e", "value", "--exact-values"], HOTTEST)?;
        let paid = report["windows"]["paid_percent"].as_f64().unwrap_or(0.0);
        let windows = report["windows"]["counted"].as_f64().unwrap_or(0.0);
        let (hot, found, part, error) = compare(&exact_edges, &edges(&report));
        let shares = shares(&exact_values, &report);
        hold += shares.held;
        all += shares.all;
        limited += shares.limited;
        limited_held += shares.limited_held;
        println!(
            "| {name} | {paid:.2} | {windows:.0} | {hot} | {found} | {part:.2} | {error:.1} | {} | {} | {} | {} |",
            shares.all, shares.held, shares.limited, shares.limited_held
        );
    }
    println!(
        "\nWithin a budget of {budget} %. {hold} of {all} shares are within their limits ({:.1} %), {limited_held} of the {limited} with a lower limit above 0.",
        100.0 * f64::from(hold) / f64::from(all.max(1))
    );
    Ok(())
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

/// Shares that were compared.
#[derive(Default)]
struct Shares {
    all: u32,
    /// Within their limits.
    held: u32,
    /// Shares with a lower limit above 0: of others limits say little.
    limited: u32,
    /// Shares with such a limit that are within their limits.
    limited_held: u32,
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
            let is_limited = limit("share_low") > 0.0;
            // Shares are printed to six places.
            let holds = limit("share_low") - 1e-6 <= share && share <= limit("share_high") + 1e-6;
            shares.all += 1;
            shares.held += u32::from(holds);
            shares.limited += u32::from(is_limited);
            shares.limited_held += u32::from(is_limited && holds);
        }
    }
    shares
}
