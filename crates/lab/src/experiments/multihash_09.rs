//! Multi-hash figure 9: the theoretical bound on false positives, beside what is measured.

use trommel_profile::accuracy::theory::false_positive_bound;

use super::intervals::{SETTINGS, accuracy, design};
use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-9",
    paper: Paper::MultiHash,
    title: "Figure 9: probability of a false positive, theory and measurement",
    needs: || {
        vec![Need::of(
            Feed::Values,
            MEASURED.map(|n| design(n, SETTINGS[0], "C1R0P1")),
        )]
    },
    run,
};

const COUNTERS: [u32; 5] = [500, 1000, 2000, 4000, 8000];
const TABLES: u32 = 16;
const MEASURED: [u32; 4] = [1, 2, 4, 8];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("theory", &["counters", "tables", "probability"]);
    let mut lines = Vec::new();
    for counters in COUNTERS {
        let points: Vec<_> = (1..=TABLES)
            .map(|n| (f64::from(n), false_positive_bound(n, counters, 1.0)))
            .collect();
        for (n, probability) in &points {
            table.row([
                u64::from(counters).into(),
                (*n).into(),
                (*probability).into(),
            ]);
        }
        lines.push(Line {
            label: format!("{counters} counters"),
            points,
            marked: true,
        });
    }
    found.tables.push(table);
    let mut measured = Table::new(
        "measured",
        &[
            "program",
            "tables",
            "false positives an interval",
            "others an interval",
            "probability",
            "bound",
        ],
    );
    let (mut below, mut all) = (0, 0);
    let mut worst = vec![0.0_f64; MEASURED.len()];
    for name in results.programs(Feed::Values) {
        for (most, n) in worst.iter_mut().zip(MEASURED) {
            let Some(e) = results.get(name, Feed::Values, &design(n, SETTINGS[0], "C1R0P1"), 1)
            else {
                continue;
            };
            let a = accuracy(e);
            let others = (a.shape.distinct - a.shape.candidates).max(1.0);
            let (rate, bound) = (
                a.false_positives / others,
                false_positive_bound(n, 2048, 1.0),
            );
            measured.row([
                name.into(),
                u64::from(n).into(),
                a.false_positives.into(),
                others.into(),
                rate.into(),
                bound.into(),
            ]);
            *most = most.max(rate);
            all += 1;
            below += usize::from(rate <= bound);
        }
    }
    found.tables.push(measured);
    let points = MEASURED.iter().zip(&worst).filter(|(_, w)| **w > 0.0);
    let points: Vec<_> = points.map(|(n, w)| (f64::from(*n), *w)).collect();
    if !points.is_empty() {
        lines.push(Line {
            label: "2048 counters, measured, worst program".into(),
            points,
            marked: true,
        });
    }
    found.figures.push((
        String::new(),
        Figure {
            title: "Probability that a tuple becomes a false positive, threshold 1 %".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear("hash tables"),
                y: Axis::log("probability").from(1e-6),
                content: Content::Lines(lines),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 400.0,
        },
    ));
    let at = |n| false_positive_bound(n, 1000, 1.0);
    let least = (1..=TABLES)
        .min_by(|a, b| at(*a).total_cmp(&at(*b)))
        .unwrap_or(0);
    found.claim(
        "With 1000 counters more tables help, up to four; beyond, aliasing makes it worse.",
        format!(
            "The bound is least, {:.3}, with {least} tables; one table has {:.3}, eight {:.3}.",
            at(least),
            at(1),
            at(8)
        ),
        Verdict::when(Some(least == 4)),
    );
    found.claim(
        "The probabilities are a loose upper bound on the false positives of the profiler.",
        format!("Measured with 2048 counters at 10k,1 %, they are at most the bound in {below} of {all} combinations of program and tables (rule: all)."),
        Verdict::of_cases(below, all),
    );
    found
}
