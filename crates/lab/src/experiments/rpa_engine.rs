//! Relational profiling sections 3.3 and 8: a table in place of the query engine.

use trommel_model::parameters::QueryEngine;

use super::rpa::{NOTE, each, runs, stalls, table_of_stalls};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Verdict};
use crate::machines::Setup;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-engine",
    paper: Paper::Relational,
    title: "Sections 3.3 and 8: a table that compares and sends, in place of the query engine",
    needs: Vec::new,
    run,
};

/// Engines, and words for them.
const ENGINES: [(QueryEngine, &str); 2] = [
    (QueryEngine::Barrel, "query engine"),
    (QueryEngine::Table, "table"),
];
/// At the highest rate, where an engine has most to do.
const RATE: u32 = 32;
/// Points of a percent by which the table's stalls may be more.
const MORE: f64 = 0.05;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setups = ENGINES.map(|(engine, _)| Setup {
        engine,
        ..Setup::eight(4, RATE)
    });
    let all = runs(lab, results, &setups);
    let words = ENGINES.map(|(_, words)| words);
    let title = "Dispatch stalled, four networks and eight buffers, one branch in 32";
    let stalls = stalls(&mut found, &all, words, title);
    let table = table_of_stalls("engine", words, &stalls);
    found.tables.push(table);
    let cases: Vec<_> = stalls
        .iter()
        .map(|(name, of)| (*name, of[1] < of[0] + MORE))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "A simple table-driven engine, which makes a few comparisons and then sends, may be sufficient.",
        format!(
            "Both queries of section 6 fit the table. Cycles stalled with the query engine and with the table: {}. At most {MORE} \
             points more on {n} of {}{not} (rule: all).",
            each(&stalls, |of| format!("{:.2} {:.2} %", of[0], of[1])),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
