//! Test on real programs of the limits that reports print for sampled counts.

use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "limits",
    paper: Paper::Ours,
    title: "Do the 95 % limits of sampled counts hold on real programs?",
    needs: || vec![Need::of(Feed::Values, SPECS), Need::of(Feed::Edges, SPECS)],
    run,
};

const SPECS: [&str; 8] = [
    "R256",
    "D256",
    "P256",
    "H[P256]2048",
    "H[D256]2048",
    "H[CR256]2048",
    "H[P256:phase]2048",
    "D16+H[P16:phase]4096",
];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "program",
            "events",
            "compressor",
            "entries",
            "within limits in %",
            "hot entries",
            "hot within limits in %",
        ],
    );
    let mut panels = Vec::new();
    let mut cases: Vec<Vec<(String, bool)>> = vec![Vec::new(); SPECS.len()];
    let mut worst = vec![f64::MAX; SPECS.len()];
    for (feed, title) in [(Feed::Values, "loaded values"), (Feed::Edges, "branches")] {
        let mut groups = Vec::new();
        for name in results.programs(feed) {
            let mut bars = Vec::new();
            for (index, spec) in SPECS.iter().enumerate() {
                let held = results.get(name, feed, spec, 1).and_then(|e| e.limits);
                let Some(held) = held.filter(|h| h.entries > 0) else {
                    continue;
                };
                let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
                let all = share(held.held, held.entries);
                table.row([
                    name.into(),
                    title.into(),
                    (*spec).into(),
                    held.entries.into(),
                    all.into(),
                    held.hot_entries.into(),
                    share(held.hot_held, held.hot_entries).into(),
                ]);
                // Chance alone puts a share this far below 95 % once in 700 streams.
                let chance = 300.0 * (0.95 * 0.05 / held.entries as f64).sqrt();
                cases[index].push((format!("{name}'s {title}"), all >= 95.0 - chance));
                worst[index] = worst[index].min(all);
                bars.push(Bar {
                    label: String::new(),
                    parts: vec![(index, all)],
                });
            }
            groups.push(Group {
                label: name.into(),
                bars,
            });
        }
        panels.push(Panel {
            title: title.into(),
            x: Axis::linear(""),
            y: Axis::linear("entries within limits in %"),
            content: Content::Bars(Bars {
                series: SPECS.iter().map(|s| (*s).into()).collect(),
                groups,
                numbers: false,
            }),
            marks: vec![(95.0, String::new())],
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Reported tuples whose true count lies within the printed limits; dashed: 95 %"
                .into(),
            panels,
            columns: 1,
            height: 280.0,
        },
    ));
    for (index, spec) in SPECS.iter().enumerate() {
        let (n, not) = exceptions(&cases[index]);
        let claim = match *spec {
            "R256" => "Limits of independent random samples hold whatever the program does.",
            "D256" => "Limits of countdown samples hold in 95 of 100 entries.",
            "P256" => "Limits of periodic samples hold unless the program keeps step.",
            "D16+H[P16:phase]4096" => {
                "Limits of events that were sampled twice hold in 95 of 100 entries."
            }
            _ => "Limits of samples in strata hold in 95 of 100 entries.",
        };
        found.claim(
            claim,
            format!(
                "{spec}: on {n} of {} streams{not}, the least {:.1} % (rule: 95 % or less than three standard deviations below).",
                cases[index].len(),
                worst[index].min(100.0)
            ),
            Verdict::of_cases(n, cases[index].len()),
        );
    }
    found.notes.push("These claims are ours: `report` prints such limits. Hot entries are tuples of one event in 10 000 or more.".into());
    found
}
