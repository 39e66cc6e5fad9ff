//! Relational profiling figure 8b: how much slower programs become.

use super::rpa::{NETWORKS, NOTE, each, line, runs, slowdowns};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-fig8b",
    paper: Paper::Relational,
    title: "Figure 8b: slow-down by profiling, with eight buffers and one to four networks",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut setups = vec![Setup::unrestricted(256), Setup::UNPROFILED];
    setups.extend(NETWORKS.map(|n| Setup::eight(n, 256)));
    setups.push(Setup {
        served: false,
        ..Setup::eight(4, 256)
    });
    let all = runs(lab, results, &setups);
    let mut table = Table::new(
        "",
        &[
            "program",
            "networks",
            "slow-down in %",
            "slow-down against no profiling in %",
            "stalled in % of cycles",
        ],
    );
    // Slow-downs and stalls by number of networks.
    let mut slow: Vec<(&str, [f64; 4])> = Vec::new();
    let mut covered = Vec::new();
    let mut panels = Vec::new();
    for (name, runs) in &all {
        let mut points = Vec::new();
        let mut of = [0.0; 4];
        for (n, run) in runs[2..6].iter().enumerate() {
            of[n] = 100.0 * run.slowdown(&runs[0]);
            table.row([
                (*name).into(),
                (NETWORKS[n] as u64).into(),
                of[n].into(),
                (100.0 * run.slowdown(&runs[1])).into(),
                (100.0 * run.stalled()).into(),
            ]);
            points.push((NETWORKS[n] as f64, of[n]));
        }
        let stalled = 100.0 * runs[2].stalled();
        if stalled >= 0.5 {
            covered.push((*name, of[0] / stalled));
        }
        panels.push(((*name).to_owned(), vec![line("slow-down", points)]));
        slow.push((name, of));
    }
    found.tables.push(table);
    slowdowns(
        &mut found,
        "Slow-down against the unrestricted machine",
        panels,
    );
    for (n, limit, words) in [
        (
            2,
            0.5,
            "Three profile networks bring the overhead below 0.5 % for all programs.",
        ),
        (3, 0.1, "Four networks make it effectively zero."),
    ] {
        let cases: Vec<_> = slow
            .iter()
            .map(|(name, of)| (*name, of[n] < limit))
            .collect();
        let (holding, not) = exceptions(&cases);
        found.claim(
            words,
            format!(
                "With {}: {}. Below {limit} % on {holding} of {}{not} (rule: all).",
                n + 1,
                each(&slow, |of| format!("{:.2} %", of[n])),
                cases.len()
            ),
            Verdict::of_cases(holding, cases.len()),
        );
    }
    let share = mean(covered.iter().map(|c| 1.0 - c.1));
    found.claim(
        "The window of the out-of-order core covers about half of the stalls.",
        format!(
            "Slow-down for each stalled cycle, with one network, where 0.5 % of cycles are stalled: {}; on average {} of \
             the stalls are covered (rule: 35 to 65 %).",
            each(&covered, |c| format!("{c:.2}")),
            percent(100.0 * share)
        ),
        Verdict::when((!covered.is_empty()).then_some((0.35..=0.65).contains(&share))),
    );
    let none: Vec<(&str, [f64; 2])> = all
        .iter()
        .map(|(name, runs)| {
            (
                *name,
                [5, 6].map(|n: usize| 100.0 * runs[n].slowdown(&runs[1])),
            )
        })
        .collect();
    for (at, paper, how) in [
        (
            0,
            "(Abstract.) Profiling costs less than 0.5 % for concurrent garbage collection and edge profiling.",
            "against no profiling at all",
        ),
        (
            1,
            "(Ours.) Where it costs more it is service threads that do not keep up.",
            "against no profiling at all, if messages are read at once",
        ),
    ] {
        let cases: Vec<_> = none
            .iter()
            .map(|(name, of)| (*name, of[at] < 0.5))
            .collect();
        let (n, not) = exceptions(&cases);
        found.claim(
            paper,
            format!(
                "With four networks and eight buffers, {how}: {}. Below 0.5 % on {n} of {}{not} (rule: all).",
                each(&none, |of| format!("{:.2} %", of[at])),
                cases.len()
            ),
            Verdict::of_cases(n, cases.len()),
        );
    }
    found.notes.push(NOTE.into());
    found
}
