//! Intervals whose length the profiler picks.
//!
//! The multi-hash paper sees in its figure 6 that different lengths suit different programs, and says that
//! one can adaptively pick the appropriate one (section 5.6.1), not how; ours is
//! `crates/compress/src/interval/adapt.rs`. What is judged is figure 6's measure, how many candidates change
//! from one interval to the next, on perfect candidates. Pairs of intervals count by their events, and those
//! without any candidate, which foretell nothing, as full change.

use super::intervals::accuracy;
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel, short};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "adaptive",
    paper: Paper::MultiHash,
    title: "Section 5.6.1: intervals whose length the profiler picks",
    needs: || vec![Need::of(Feed::Values, SPECS)],
    run,
};

/// Every length that the last one can pick, and the last one.
const SPECS: [&str; 6] = [
    "M4[10k,0.1%]2048:C1R0P1",
    "M4[40k,0.1%]2048:C1R0P1",
    "M4[160k,0.1%]2048:C1R0P1",
    "M4[640k,0.1%]2048:C1R0P1",
    "M4[1M,0.1%]2048:C1R0P1",
    "M4[10k..1M,0.1%]2048:C1R0P1",
];
const LENGTHS: [&str; 6] = ["10k", "40k", "160k", "640k", "1M", "adaptive"];
const ADAPTIVE: usize = 5;

/// A program, the change at each length, and the mean length that the adaptive one came to.
type Row = (&'static str, Vec<f64>, f64);

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "program",
            "spec",
            "intervals",
            "mean length",
            "candidate change in %",
            "error in %",
        ],
    );
    let mut groups = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut errors = [const { Vec::new() }; SPECS.len()];
    for name in results.programs(Feed::Values) {
        let (mut changes, mut length) = (Vec::new(), 0.0);
        for (n, spec) in SPECS.iter().enumerate() {
            let Some(e) = results.get(name, Feed::Values, spec, 1) else {
                continue;
            };
            let a = accuracy(e);
            let change = 100.0 * a.shape.news;
            length = a.shape.mean_length();
            table.row([
                name.into(),
                (*spec).into(),
                a.shape.intervals.into(),
                length.into(),
                change.into(),
                a.parts.total().into(),
            ]);
            errors[n].push(a.parts.total());
            changes.push(change);
        }
        let bar = |(n, change): (usize, &f64)| Bar {
            label: String::new(),
            parts: vec![(n, *change)],
        };
        groups.push(Group {
            label: name.into(),
            bars: changes.iter().enumerate().map(bar).collect(),
        });
        rows.push((name, changes, length));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title:
                "Change of perfect candidates (0.1 %) from interval to interval, by interval length"
                    .into(),
            panels: vec![Panel {
                title: "loaded values".into(),
                x: Axis::linear(""),
                y: Axis::linear("change in %"),
                content: Content::Bars(Bars {
                    series: LENGTHS.iter().map(|s| (*s).into()).collect(),
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    rows.retain(|r| r.1.len() == SPECS.len());
    judge(&mut found, &rows, &errors.map(mean));
    found
}

fn judge(found: &mut Findings, rows: &[Row], errors: &[f64]) {
    let best = |changes: &[f64]| {
        let order = (0..ADAPTIVE).min_by(|a, b| changes[*a].total_cmp(&changes[*b]));
        order.unwrap_or(0)
    };
    let said: Vec<_> = rows
        .iter()
        .map(|(name, changes, _)| {
            let at = best(changes);
            format!("{name} {} ({})", LENGTHS[at], percent(changes[at]))
        })
        .collect();
    let mut lengths: Vec<_> = rows.iter().map(|r| best(&r.1)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    found.claim(
        "Different interval lengths suit different programs.",
        format!(
            "The length at which candidates change least: {} (rule: more than one length).",
            said.join(", ")
        ),
        Verdict::when((!rows.is_empty()).then_some(lengths.len() > 1)),
    );
    let picked: Vec<_> = rows
        .iter()
        .map(|(name, changes, length)| {
            format!(
                "{name} {} ({})",
                short(length.round()),
                percent(changes[ADAPTIVE])
            )
        })
        .collect();
    let near = |r: &Row| r.1[ADAPTIVE] <= r.1[best(&r.1)] + 5.0;
    let cases: Vec<_> = rows.iter().map(|r| (r.0, near(r))).collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "One can adaptively pick the appropriate interval length for a given program.",
        format!(
            "Mean lengths that the profiler came to, with their change: {}. At most 5 points above the best fixed length on {n} of {}{not} (rule: all).",
            picked.join(", "),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let of = |n: usize| mean(rows.iter().map(|r| r.1[n]));
    let fixed: Vec<_> = (0..ADAPTIVE)
        .map(|n| format!("{} {}", LENGTHS[n], percent(of(n))))
        .collect();
    let least = (0..ADAPTIVE).map(of).fold(f64::INFINITY, f64::min);
    found.claim(
        "Adapting is better than any one length for all programs.",
        format!(
            "Mean change over programs: {}; adaptive {} (rule: the least). Errors of the profiler: {} at 10k, {} at 1M, {} adaptive.",
            fixed.join(", "),
            percent(of(ADAPTIVE)),
            percent(errors[0]),
            percent(errors[4]),
            percent(errors[ADAPTIVE])
        ),
        Verdict::when((!rows.is_empty()).then(|| of(ADAPTIVE) <= least)),
    );
}
