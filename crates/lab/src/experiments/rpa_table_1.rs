//! Relational profiling tables 1 and 4: instructions by class, and what the machine makes of the programs.

use trommel_query::Operation;

use super::rpa::{NOTE, each, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-table1",
    paper: Paper::Relational,
    title: "Tables 1 and 4: instructions by class, and the programs on the machine without profiling",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let all = runs(lab, results, &[Setup::UNPROFILED]);
    let names = Operation::ALL.map(Operation::name);
    let mut columns = vec!["program".to_owned()];
    columns.extend(names.map(|n| format!("{n} in %")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut classes = Table::new("", &columns);
    let mut machine = Table::new(
        "machine",
        &[
            "program",
            "instructions",
            "cycles",
            "instructions per cycle",
            "mispredicted per 1000 instructions",
            "I-cache misses per 1000",
            "D-cache misses per 1000",
            "window full in % of cycles",
        ],
    );
    let mut groups = Vec::new();
    for (name, runs) in &all {
        let core = &runs[0].core;
        let part = |n: u64| 100.0 * n as f64 / core.instructions.max(1) as f64;
        let shares = core.classes.map(part);
        let cells = shares.iter().map(|v| Cell::from(*v));
        classes.row(std::iter::once((*name).into()).chain(cells));
        machine.row([
            (*name).into(),
            core.instructions.into(),
            core.cycles.into(),
            runs[0].ipc().into(),
            (10.0 * part(core.mispredicted)).into(),
            (10.0 * part(core.misses[0])).into(),
            (10.0 * part(core.misses[1])).into(),
            (100.0 * core.full as f64 / core.cycles.max(1) as f64).into(),
        ]);
        groups.push(Group {
            label: (*name).to_owned(),
            bars: vec![Bar {
                label: String::new(),
                parts: shares.into_iter().enumerate().collect(),
            }],
        });
    }
    found.tables.extend([classes, machine]);
    found.figures.push((
        String::new(),
        Figure {
            title: "Executed instructions by class of Table 1".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("% of instructions"),
                content: Content::Bars(Bars {
                    series: names.map(str::to_owned).to_vec(),
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    let ipc: Vec<(&str, f64)> = all
        .iter()
        .map(|(name, runs)| (*name, runs[0].ipc()))
        .collect();
    let cases: Vec<_> = ipc
        .iter()
        .map(|(n, v)| (*n, (2.0..3.2).contains(v)))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "A little more than two instructions are executed in a cycle (Table 4: 2.3 to 2.9).",
        format!(
            "{}; between 2 and 3.2 on {n} of {}{not} (rule: all).",
            each(&ipc, |v| format!("{v:.2}")),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
