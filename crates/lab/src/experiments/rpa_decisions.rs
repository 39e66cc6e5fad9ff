//! Relational profiling: what the paper leaves open about its machine, decided otherwise.

use super::rpa::{NOTE, each, runs, stalls};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::machines::{Otherwise, RELOADED, Setup};
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-decisions",
    paper: Paper::Relational,
    title: "What the paper leaves open: stalls where the model decides otherwise",
    needs: Vec::new,
    run,
};

const WAYS: [(Option<Otherwise>, &str); 7] = [
    (None, "as decided"),
    (Some(Otherwise::QuickMessages), "messages in 1 cycle, not 4"),
    (Some(Otherwise::SlowMessages), "messages in 8 cycles"),
    (Some(Otherwise::TwoPorts), "2 memory ports, not 4"),
    (Some(Otherwise::SlowLoads), "loads take 4 cycles, not 2"),
    (Some(Otherwise::OneThread), "one barrier thread, not three"),
    (
        Some(Otherwise::WrongPaths),
        "wrong paths that take hardware",
    ),
];
/// Points by which stalls may change.
const LITTLE: f64 = 0.5;

/// Cycles that software may take to change all queries: it writes some ten registers and instructions, and the pipeline is drained.
const CYCLES_OF_LOAD: f64 = 200.0;

/// Queries that are changed while the program runs, by SET_PCR (section 3.4).
fn loads(lab: &Lab<'_>, results: &Results, found: &mut Findings) {
    let setup = Setup {
        otherwise: Some(Otherwise::Reloaded),
        ..Setup::eight(4, 256)
    };
    let all = runs(lab, results, &[setup]);
    let costs = all.iter().map(|(name, runs)| {
        let run = &runs[0];
        let loads = run.loads.len() - 1;
        (*name, run.core.loading as f64 / loads as f64)
    });
    let costs: Vec<(&str, f64)> = costs.collect();
    let cases: Vec<_> = (costs.iter())
        .map(|(name, cycles)| (*name, *cycles < CYCLES_OF_LOAD))
        .collect();
    let (holding, not) = exceptions(&cases);
    let told: Vec<String> = (costs.iter())
        .map(|(name, cycles)| format!("{name} {cycles:.0}"))
        .collect();
    found.claim(
        "(Ours.) Software can change queries often: SET_PCR takes little.",
        format!(
            "Cycles in which nothing is dispatched, for each change of both queries, one in {RELOADED} instructions: {}. Less than {CYCLES_OF_LOAD} on {holding} of {}{not} (rule: all).",
            told.join(", "),
            cases.len()
        ),
        Verdict::of_cases(holding, cases.len()),
    );
}

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setups = WAYS.map(|(otherwise, _)| Setup {
        otherwise,
        ..Setup::eight(4, 256)
    });
    let all = runs(lab, results, &setups);
    let words = WAYS.map(|(_, words)| words);
    let title = "Dispatch stalled, four networks and eight buffers, one branch in 256";
    let stalls = stalls(&mut found, &all, words, title);
    let mut columns = vec!["program"];
    columns.extend(words);
    let mut table = Table::new("", &columns);
    for (name, of) in &stalls {
        let cells = of.iter().map(|v| Cell::from(*v));
        table.row(std::iter::once((*name).into()).chain(cells));
    }
    found.tables.push(table);
    for (n, (_, words)) in WAYS.iter().enumerate().skip(1) {
        let cases: Vec<_> = stalls
            .iter()
            .map(|(name, of)| (*name, (of[n] - of[0]).abs() < LITTLE))
            .collect();
        let (holding, not) = exceptions(&cases);
        found.claim(
            "(Ours.) Stalls hang little on what the paper leaves open.",
            format!(
                "As decided, and with {words}: {}. Less than {LITTLE} points apart on {holding} of {}{not} (rule: all).",
                each(&stalls, |of| format!("{:.2} {:.2} %", of[0], of[n])),
                cases.len()
            ),
            Verdict::of_cases(holding, cases.len()),
        );
    }
    loads(lab, results, &mut found);
    found.notes.push(NOTE.into());
    found
}
