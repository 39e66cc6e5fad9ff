//! Multi-hash figure 5: candidate tuples in an interval, at thresholds of 1 % and 0.1 %.

use super::intervals::accuracy;
use super::multihash_04::{LENGTHS, spec};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel, short};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-5",
    paper: Paper::MultiHash,
    title: "Figure 5: candidate tuples in an interval",
    needs: || {
        let specs = THRESHOLDS.iter().flat_map(|t| LENGTHS.map(|l| spec(l, t)));
        vec![Need::of(Feed::Values, specs)]
    },
    run,
};

const THRESHOLDS: [&str; 2] = ["1%", "0.1%"];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "program",
            "threshold",
            "interval",
            "candidates",
            "most candidates",
            "distinct tuples",
            "share of events in %",
        ],
    );
    let mut panels = Vec::new();
    let (mut steady, mut few, mut covered) = (Vec::new(), Vec::new(), Vec::new());
    for threshold in THRESHOLDS {
        let mut groups = Vec::new();
        for name in results.programs(Feed::Values) {
            let mut counts = Vec::new();
            for length in LENGTHS {
                let Some(e) = results.get(name, Feed::Values, &spec(length, threshold), 1) else {
                    continue;
                };
                let shape = accuracy(e).shape;
                table.row([
                    name.into(),
                    threshold.into(),
                    length.into(),
                    shape.candidates.into(),
                    shape.max_candidates.into(),
                    shape.distinct.into(),
                    (100.0 * shape.candidate_coverage).into(),
                ]);
                if shape.intervals > 0 {
                    few.push((name, shape.candidates * 10.0 <= shape.distinct));
                    covered.push(100.0 * shape.candidate_coverage);
                    counts.push(shape.candidates);
                }
            }
            let high = counts.iter().copied().fold(0.0, f64::max);
            let low = counts.iter().copied().fold(f64::MAX, f64::min);
            if !counts.is_empty() {
                steady.push((name, threshold, high / low.max(1.0)));
            }
            let bar = |(series, height): (usize, f64)| Bar {
                label: String::new(),
                parts: vec![(series, height)],
            };
            groups.push(Group {
                label: name.into(),
                bars: counts.into_iter().enumerate().map(bar).collect(),
            });
        }
        panels.push(Panel {
            title: format!("threshold {threshold}"),
            x: Axis::linear(""),
            y: Axis::linear("candidates"),
            content: Content::Bars(Bars {
                series: LENGTHS.iter().map(|l| format!("{l} events")).collect(),
                groups,
                numbers: true,
            }),
            marks: Vec::new(),
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Candidate tuples in an interval, loaded values (mean)".into(),
            panels,
            columns: 2,
            height: 320.0,
        },
    ));
    let low = few.iter().filter(|c| c.1).count();
    found.claim(
        "Candidates are few compared with distinct tuples.",
        format!("Less than a tenth in {low} of {} combinations of program, interval and threshold (rule: all).", few.len()),
        Verdict::of_cases(low, few.len()),
    );
    let high = covered.iter().filter(|c| **c >= 30.0).count();
    found.claim(
        "Candidates account for a large percentage of the events.",
        format!(
            "At least 30 % in {high} of {} combinations (rule: all).",
            covered.len()
        ),
        Verdict::of_cases(high, covered.len()),
    );
    let cases: Vec<_> = steady
        .iter()
        .map(|(name, _, ratio)| (*name, *ratio <= 2.0))
        .collect();
    let (n, _) = exceptions(&cases);
    let not: Vec<_> = steady
        .iter()
        .filter(|s| s.2 > 2.0)
        .map(|(name, threshold, ratio)| format!("{name} at {threshold} {} times", short(*ratio)))
        .collect();
    let not = if not.is_empty() {
        "none".into()
    } else {
        not.join(", ")
    };
    found.claim(
        "The number of candidates is about the same whatever the interval length.",
        format!("Within a factor of 2 in {n} of {} combinations of program and threshold; the others: {not}.", cases.len()),
        Verdict::of_cases(n, cases.len()),
    );
    found
}
