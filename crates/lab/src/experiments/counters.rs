//! Experiments with the number of counters, and with resetting them in two tables.
//!
//! The paper (section 6.3) says of other sizes only that 2K performs almost as well as more and
//! better than 1K or less.

use super::intervals::{SETTINGS, Setting, accuracy};
use crate::Lab;
use crate::experiment::{Experiment, Paper, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "counters",
    paper: Paper::Ours,
    title: "How many counters: 1K to 8K, two and four tables",
    needs: || {
        let of = |s: &Setting| {
            DESIGNS
                .iter()
                .flat_map(|d| SIZES.map(|z| spec(d, *s, z)))
                .collect::<Vec<_>>()
        };
        vec![Need::of(Feed::Values, SETTINGS.iter().flat_map(of))]
    },
    run,
};

const SIZES: [u32; 4] = [1024, 2048, 4096, 8192];

/// Tables and flags.
const DESIGNS: [(u32, &str); 3] = [(4, "C1R0P1"), (2, "C1R0P1"), (2, "C1R1P1")];

fn spec((tables, flags): &(u32, &str), setting: Setting, size: u32) -> String {
    format!("M{tables}[{}]{size}:{flags}", setting.spec)
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &["program", "spec", "error in %"]);
    let mut panels = Vec::new();
    for setting in SETTINGS {
        let mut lines = Vec::new();
        let mut averages = Vec::new();
        for design in &DESIGNS {
            let mut points = Vec::new();
            for size in SIZES {
                let spec = spec(design, setting, size);
                let mut errors = Vec::new();
                for name in results.programs(Feed::Values) {
                    if let Some(e) = results.get(name, Feed::Values, &spec, 1) {
                        let error = accuracy(e).parts.total();
                        table.row([name.into(), spec.clone().into(), error.into()]);
                        errors.push(error);
                    }
                }
                points.push((f64::from(size), mean(errors)));
            }
            averages.push(points.iter().map(|p| p.1).collect::<Vec<_>>());
            lines.push(Line {
                label: format!("{} tables {}", design.0, &design.1[..4]),
                points,
                marked: true,
            });
        }
        panels.push(Panel {
            title: setting.title.into(),
            x: Axis::log("counters of all tables"),
            y: Axis::log("mean error in %"),
            content: Content::Lines(lines),
            marks: vec![(1.0, "1 %".into())],
        });
        judge(&mut found, setting, &averages);
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Mean error over all programs by number of counters, loaded values".into(),
            panels,
            columns: 2,
            height: 330.0,
        },
    ));
    found
}

fn judge(found: &mut Findings, setting: Setting, averages: &[Vec<f64>]) {
    let data = averages[0][0].is_finite();
    let four = &averages[0];
    found.claim(
        "2K counters perform almost as well as more, and better than 1K.",
        format!(
            "At {}, four tables C1R0: 1K {}, 2K {}, 4K {}, 8K {} (rule: 2K is below 1K and at most 1.5 times 4K, or below 0.2 %).",
            setting.spec, percent(four[0]), percent(four[1]), percent(four[2]), percent(four[3])
        ),
        Verdict::when(data.then(|| four[1] <= four[0] && (four[1] <= 1.5 * four[2] || four[1] < 0.2))),
    );
    let (two, reset) = (averages[1][1], averages[2][1]);
    found.claim(
        "Four tables without resetting are the best design for 2K counters.",
        format!("At {}: four C1R0 {}, two C1R0 {}, two C1R1 {} (rule: four C1R0 is within 0.05 points of the least).", setting.spec, percent(four[1]), percent(two), percent(reset)),
        Verdict::when(data.then(|| four[1] <= two.min(reset) + 0.05)),
    );
}
