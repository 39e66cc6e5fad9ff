//! Relational profiling figure 8c: slow-down by sampling rate.

use super::rpa::{NETWORKS, NOTE, RATES, each, line, runs, slowdowns};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-fig8c",
    paper: Paper::Relational,
    title: "Figure 8c: slow-down by the rate at which branches are sampled",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut setups = vec![Setup::unrestricted(256)];
    for rate in RATES {
        setups.extend(NETWORKS.map(|n| Setup::eight(n, rate)));
    }
    let all = runs(lab, results, &setups);
    let mut table = Table::new(
        "",
        &["program", "one branch in", "networks", "slow-down in %"],
    );
    let mut panels = Vec::new();
    // With four networks and with one, at the highest rate and at the lowest.
    let mut ends: Vec<(&str, [[f64; 2]; 2])> = Vec::new();
    for (name, runs) in &all {
        let slow =
            |rate: usize, n: usize| 100.0 * runs[1 + rate * NETWORKS.len() + n].slowdown(&runs[0]);
        let mut lines = Vec::new();
        for (r, rate) in RATES.into_iter().enumerate() {
            let mut points = Vec::new();
            for (n, networks) in NETWORKS.into_iter().enumerate() {
                table.row([
                    (*name).into(),
                    u64::from(rate).into(),
                    (networks as u64).into(),
                    slow(r, n).into(),
                ]);
                points.push((networks as f64, slow(r, n)));
            }
            lines.push(line(format!("one branch in {rate}"), points));
        }
        panels.push(((*name).to_owned(), lines));
        ends.push((name, [3, 0].map(|n| [slow(0, n), slow(3, n)])));
    }
    found.tables.push(table);
    slowdowns(
        &mut found,
        "Slow-down by sampling rate, against the unrestricted machine at 1/256",
        panels,
    );
    for (at, networks) in [(0, "four networks"), (1, "one network")] {
        let cases: Vec<_> = ends
            .iter()
            .map(|(name, of)| (*name, of[at][0] - of[at][1] < 1.0))
            .collect();
        let (n, not) = exceptions(&cases);
        found.claim(
            "Overhead increases mildly as the sampling rate is increased, from one branch in 256 to one in 32.",
            format!(
                "With {networks}, at 1/32 and 1/256: {}. By less than a point on {n} of {}{not} (rule: all).",
                each(&ends, |of| format!("{:.2} {:.2} %", of[at][0], of[at][1])),
                cases.len()
            ),
            Verdict::of_cases(n, cases.len()),
        );
    }
    found.notes.push(NOTE.into());
    found
}
