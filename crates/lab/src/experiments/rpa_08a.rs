//! Relational profiling figure 8a: cycles in which dispatch is stalled for want of profile hardware.

use super::rpa::{NETWORKS, NOTE, each, figure, line, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;
use crate::plot::Axis;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-fig8a",
    paper: Paper::Relational,
    title: "Figure 8a: cycles in which dispatch is stalled, with eight buffers and one to four networks",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let served = NETWORKS.map(|n| Setup::eight(n, 256));
    let alone = served.map(|setup| Setup {
        served: false,
        ..setup
    });
    let setups: Vec<Setup> = served.into_iter().chain(alone).collect();
    let all = runs(lab, results, &setups);
    let mut table = Table::new(
        "",
        &[
            "program",
            "networks",
            "stalled in % of cycles",
            "for want of a network in %",
            "for want of a buffer in %",
            "stalled if messages are read at once in %",
        ],
    );
    let mut panels = Vec::new();
    for (name, runs) in &all {
        let mut points = Vec::new();
        let mut at_once = Vec::new();
        for (n, (networks, run)) in NETWORKS.into_iter().zip(runs).enumerate() {
            let alone = 100.0 * runs[NETWORKS.len() + n].stalled();
            let of = |stalls: u64| 100.0 * stalls as f64 / run.core.cycles as f64;
            let [network, buffer] = run.core.stalled.map(of);
            table.row([
                (*name).into(),
                (networks as u64).into(),
                (network + buffer).into(),
                network.into(),
                buffer.into(),
                alone.into(),
            ]);
            points.push((networks as f64, network + buffer));
            at_once.push((networks as f64, alone));
        }
        panels.push((
            (*name).to_owned(),
            vec![
                line("with service processors", points),
                line("messages are read at once", at_once),
            ],
        ));
    }
    found.tables.push(table);
    let axes = [
        Axis::linear("profile networks"),
        Axis::linear("stalled, % of cycles"),
    ];
    figure(
        &mut found,
        "Dispatch stalled for want of profile hardware",
        axes,
        panels,
    );
    let stalls: Vec<(&str, [f64; 2])> = all
        .iter()
        .map(|(name, runs)| (*name, [&runs[0], &runs[3]].map(|r| 100.0 * r.stalled())))
        .collect();
    let worst = |n: usize| stalls.iter().map(|s| s.1[n]).fold(f64::NAN, f64::max);
    found.claim(
        "With a single network dispatch is stalled in up to 12.4 % of cycles; with four in at most 1.7 %.",
        format!(
            "With one and four networks: {}; at most {} and {} (rule: with four at most 1.7 % on all).",
            each(&stalls, |[one, four]| format!("{} {}", percent(*one), percent(*four))),
            percent(worst(0)),
            percent(worst(1)),
        ),
        Verdict::of_cases(
            stalls.iter().filter(|s| s.1[1] <= 1.7).count(),
            stalls.len(),
        ),
    );
    let some: Vec<_> = stalls.iter().filter(|s| s.1[0] >= 0.5).collect();
    let cases: Vec<_> = some
        .iter()
        .map(|(n, [one, four])| (*n, four * 4.0 <= *one))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "From one network to four stalls fall to about an eighth.",
        format!(
            "To a quarter or less on {n} of the {} that are stalled in 0.5 % of cycles with one{not} (rule: all).",
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = all
        .iter()
        .filter(|(_, runs)| runs[0].core.stalled != [0, 0])
        .map(|(name, runs)| (*name, runs[0].core.stalled[0] > runs[0].core.stalled[1]))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "It is networks that are missing, not buffers.",
        format!(
            "With one network and eight buffers, on {n} of the {} that are stalled at all{not} (rule: all).",
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let four: Vec<(&str, [f64; 2])> = all
        .iter()
        .map(|(name, runs)| (*name, [&runs[3], &runs[7]].map(|r| 100.0 * r.stalled())))
        .collect();
    let cases: Vec<_> = four
        .iter()
        .map(|(n, [_, alone])| (*n, *alone <= 1.7))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "(Ours.) The profile hardware itself stalls as little as the paper says; where more is stalled, service threads do not \
         keep up.",
        format!(
            "With four networks, as it is and when messages are read at once: {}. At most 1.7 % then on {n} of {}{not} (rule: \
             all).",
            each(&four, |[with, alone]| format!("{} {}", percent(*with), percent(*alone))),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
