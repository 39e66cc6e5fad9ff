//! Multi-hash figure 4: distinct tuples in an interval, by interval length.

use super::intervals::accuracy;
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel, short};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-4",
    paper: Paper::MultiHash,
    title: "Figure 4: distinct tuples in an interval",
    needs: || vec![Need::of(Feed::Values, LENGTHS.map(|l| spec(l, "1%")))],
    run,
};

/// Interval lengths, as specs write them.
pub(super) const LENGTHS: [&str; 3] = ["10k", "100k", "1M"];

/// A spec whose perfect intervals are looked at; the profiler itself does not matter.
pub(super) fn spec(length: &str, threshold: &str) -> String {
    format!("M1[{length},{threshold}]2048:C0R0P0")
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &["program", "interval", "intervals", "distinct tuples"]);
    let (mut groups, mut growth) = (Vec::new(), Vec::new());
    for name in results.programs(Feed::Values) {
        let mut distinct = Vec::new();
        for length in LENGTHS {
            let Some(e) = results.get(name, Feed::Values, &spec(length, "1%"), 1) else {
                continue;
            };
            let shape = accuracy(e).shape;
            table.row([
                name.into(),
                length.into(),
                shape.intervals.into(),
                shape.distinct.into(),
            ]);
            distinct.push(shape.distinct);
        }
        if let [first, .., last] = distinct[..]
            && first > 0.0
            && last > 0.0
        {
            // The power of the interval length with which distinct tuples grow.
            growth.push((name, (last / first).log10() / 2.0, last / first));
        }
        let bar = |(series, height): (usize, f64)| Bar {
            label: String::new(),
            parts: vec![(series, height)],
        };
        groups.push(Group {
            label: name.into(),
            bars: distinct.into_iter().enumerate().map(bar).collect(),
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Distinct tuples in an interval, loaded values (mean)".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::log("distinct tuples"),
                content: Content::Bars(Bars {
                    series: LENGTHS.iter().map(|l| format!("{l} events")).collect(),
                    groups,
                    numbers: true,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    let cases: Vec<_> = growth
        .iter()
        .map(|(name, power, _)| (*name, *power >= 0.8))
        .collect();
    let (n, not) = exceptions(&cases);
    let said: Vec<_> = growth
        .iter()
        .map(|(name, _, f)| format!("{name} {}", short(*f)))
        .collect();
    found.claim(
        "Distinct tuples grow in proportion to the interval length.",
        format!(
            "From 10k to 1M events, a hundred times longer, they grow so many times: {}. Near proportion (40 times or more) on {n} of {}{not}.",
            said.join(", "),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found
}
