//! Relational profiling: what the paper leaves open about its machine, decided otherwise.

use super::rpa::{NOTE, each, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::machines::{Otherwise, Setup};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-decisions",
    paper: Paper::Relational,
    title: "What the paper leaves open: stalls where the model decides otherwise",
    needs: Vec::new,
    run,
};

const WAYS: [(Option<Otherwise>, &str); 6] = [
    (None, "as decided"),
    (Some(Otherwise::QuickMessages), "messages in 1 cycle, not 4"),
    (Some(Otherwise::SlowMessages), "messages in 8 cycles"),
    (Some(Otherwise::TwoPorts), "2 memory ports, not 4"),
    (Some(Otherwise::SlowLoads), "loads take 4 cycles, not 2"),
    (Some(Otherwise::OneThread), "one barrier thread, not three"),
];
/// Points by which stalls may change.
const LITTLE: f64 = 0.5;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setups = WAYS.map(|(otherwise, _)| Setup {
        otherwise,
        ..Setup::eight(4, 256)
    });
    let all = runs(lab, results, &setups);
    let mut columns = vec!["program"];
    columns.extend(WAYS.map(|w| w.1));
    let mut table = Table::new("", &columns);
    let mut groups = Vec::new();
    let mut stalls: Vec<(&str, [f64; WAYS.len()])> = Vec::new();
    for (name, runs) in &all {
        let of = std::array::from_fn(|n| 100.0 * runs[n].stalled());
        let cells = of.iter().map(|v| Cell::from(*v));
        table.row(std::iter::once((*name).into()).chain(cells));
        groups.push(Group {
            label: (*name).to_owned(),
            bars: of
                .iter()
                .enumerate()
                .map(|(n, height)| Bar {
                    label: String::new(),
                    parts: vec![(n, *height)],
                })
                .collect(),
        });
        stalls.push((name, of));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Dispatch stalled, four networks and eight buffers, one branch in 256".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("stalled, % of cycles"),
                content: Content::Bars(Bars {
                    series: WAYS.map(|w| w.1.to_owned()).to_vec(),
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
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
    found.notes.push(NOTE.into());
    found
}
