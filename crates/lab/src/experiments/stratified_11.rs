//! Stratified figure 11 (section 5.7): branches and calls through one compressor at the same time; and how the profile gets on.

use trommel_profile::accuracy::Evaluation;
use trommel_tuple::Kind;

use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, percent};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-11",
    paper: Paper::Stratified,
    title: "Figure 11: simultaneous edge and call profiles after 4M events",
    needs: || {
        vec![
            Need::of(Feed::Transfers, [H]),
            Need::of(Feed::MoreTransfers, [H]),
        ]
    },
    run,
};

const H: &str = super::compressors::H;

const COLUMNS: [&str; 6] = [
    "program",
    "events",
    "error in %",
    "edge error in %",
    "call error in %",
    "overhead in %",
];

/// The error of both kinds together; `NaN` where nothing is judged.
fn both(e: &Evaluation) -> f64 {
    e.error.unwrap_or(f64::NAN)
}

/// The errors of both kinds together, of edges, and of calls.
fn errors_of(e: &Evaluation) -> (f64, Option<f64>, Option<f64>) {
    let of = |kind: Kind| {
        let mut kinds = e.kind_errors.iter();
        kinds.find(|k| k.kind == kind).and_then(|k| k.error)
    };
    (both(e), of(Kind::Edge), of(Kind::Call))
}

fn row(name: &'static str, e: &Evaluation) -> [Cell; 6] {
    let (error, edges, calls) = errors_of(e);
    [
        name.into(),
        e.events.into(),
        error.into(),
        edges.into(),
        calls.map_or(Cell::Missing, Into::into),
        e.overhead_percent().into(),
    ]
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &COLUMNS);
    let (mut errors, mut overheads) = (Vec::new(), Vec::new());
    let (mut error_groups, mut overhead_groups) = (Vec::new(), Vec::new());
    let single = |height| vec![(0, height)];
    for name in results.programs(Feed::Transfers) {
        let Some(e) = results.get(name, Feed::Transfers, H, 1) else {
            continue;
        };
        let (_, edges, calls) = errors_of(e);
        let overhead = e.overhead_percent();
        table.row(row(name, e));
        errors.push((name, both(e)));
        overheads.push((name, overhead));
        let three = [
            (0, both(e)),
            (1, edges.unwrap_or(0.0)),
            (2, calls.unwrap_or(0.0)),
        ];
        let bar = |part| Bar {
            label: String::new(),
            parts: vec![part],
        };
        error_groups.push(Group {
            label: name.into(),
            bars: three.map(bar).into(),
        });
        overhead_groups.push(Group {
            label: name.into(),
            bars: vec![Bar {
                label: String::new(),
                parts: single(overhead),
            }],
        });
    }
    found.tables.push(table);
    let panel = |title: &str, y: &str, series: &[&str], groups, marks| Panel {
        title: title.into(),
        x: Axis::linear(""),
        y: Axis::linear(y),
        content: Content::Bars(Bars {
            series: series.iter().map(|s| (*s).into()).collect(),
            groups,
            numbers: true,
        }),
        marks,
    };
    let series = ["both profiles", "edges alone", "calls alone"];
    found.figures.push((
        String::new(),
        Figure {
            title: format!("Edges and calls through one {H}, told apart in software"),
            panels: vec![
                panel(
                    "final error",
                    "error in %",
                    &series,
                    error_groups,
                    vec![(3.0, "the paper: below 3 %".into())],
                ),
                panel(
                    "overhead",
                    "overhead in %",
                    &series[..1],
                    overhead_groups,
                    vec![(4.5, "the paper: below 4.5 %".into())],
                ),
            ],
            columns: 2,
            height: 320.0,
        },
    ));
    let said = |list: &[(&str, f64)]| {
        let each = list
            .iter()
            .map(|(name, v)| format!("{name} {}", percent(*v)));
        each.collect::<Vec<_>>().join(", ")
    };
    let below = |list: &[(&'static str, f64)], limit: f64| -> Vec<(&'static str, bool)> {
        list.iter().map(|(name, v)| (*name, *v < limit)).collect()
    };
    let cases = below(&errors, 3.0);
    let (n, not) = exceptions(&cases);
    found.claim(
        "With edges and calls together the error is below 3 % for every benchmark.",
        format!("On {n} of {}{not}: {}.", cases.len(), said(&errors)),
        Verdict::of_cases(n, cases.len()),
    );
    let negligible = errors.iter().filter(|e| e.1 < 1.0).count();
    found.claim(
        "For six of the benchmarks (of ten) the error is negligible.",
        format!(
            "Below 1 % on {negligible} of {} (rule: six of ten or more).",
            errors.len()
        ),
        Verdict::when((!errors.is_empty()).then_some(10 * negligible >= 6 * errors.len())),
    );
    let cases = below(&overheads, 4.5);
    let (n, not) = exceptions(&cases);
    found.claim(
        "The overhead is below 4.5 % for every benchmark.",
        format!("On {n} of {}{not}: {}.", cases.len(), said(&overheads)),
        Verdict::of_cases(n, cases.len()),
    );
    further(&mut found, results);
    let gap = results.programs(Feed::Transfers).len();
    found.notes.push(format!(
        "One compressor, {gap} programs; branches and calls are told apart by their kind, which takes no part in the hash."
    ));
    found
}

/// The same after four times as many events.
fn further(found: &mut Findings, results: &Results) {
    let mut table = Table::new("further", &COLUMNS);
    let mut cases = Vec::new();
    let mut said = Vec::new();
    for name in results.programs(Feed::MoreTransfers) {
        let Some(e) = results.get(name, Feed::MoreTransfers, H, 1) else {
            continue;
        };
        table.row(row(name, e));
        let Some(before) = results.get(name, Feed::Transfers, H, 1) else {
            continue;
        };
        if e.events > before.events && e.error.is_ok() && before.error.is_ok() {
            cases.push((name, both(e) < both(before)));
            said.push(format!(
                "{name} {} to {}",
                percent(both(before)),
                percent(both(e))
            ));
        }
    }
    found.tables.push(table);
    // With short streams both have all events.
    if cases.is_empty() {
        return;
    }
    let (n, not) = exceptions(&cases);
    found.claim(
        "Four times as many events make the errors of both together smaller (not the paper's claim).",
        format!("On {n} of {}{not}: {}.", cases.len(), said.join(", ")),
        Verdict::of_cases(n, cases.len()),
    );
}
