//! Relational profiling sections 3.3 and 8: a table in place of the query engine.

use trommel_model::parameters::QueryEngine;

use super::rpa::{NOTE, each, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

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
    let mut table = Table::new("", &["program", "engine", "stalled in % of cycles"]);
    let mut groups = Vec::new();
    let mut stalls: Vec<(&str, [f64; 2])> = Vec::new();
    for (name, runs) in &all {
        let of = [0, 1].map(|n: usize| 100.0 * runs[n].stalled());
        let mut bars = Vec::new();
        for (n, (_, words)) in ENGINES.iter().enumerate() {
            table.row([(*name).into(), (*words).into(), of[n].into()]);
            bars.push(Bar {
                label: String::new(),
                parts: vec![(n, of[n])],
            });
        }
        groups.push(Group {
            label: (*name).to_owned(),
            bars,
        });
        stalls.push((name, of));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Dispatch stalled, four networks and eight buffers, one branch in 32".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("stalled, % of cycles"),
                content: Content::Bars(Bars {
                    series: ENGINES.map(|k| k.1.to_owned()).to_vec(),
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
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
