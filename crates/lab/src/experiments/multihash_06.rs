//! Multi-hash figure 6: how candidates change from one interval to the next.

use super::intervals::{SETTINGS, Setting, accuracy, design};
use crate::Lab;
use crate::experiment::{Experiment, Paper, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-6",
    paper: Paper::MultiHash,
    title: "Figure 6: change of candidates between intervals",
    needs: || vec![Need::of(Feed::Values, SETTINGS.map(spec))],
    run,
};

fn spec(setting: Setting) -> String {
    design(1, setting, "C0R0P0")
}

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "program",
            "interval",
            "share of intervals in %",
            "change in %",
        ],
    );
    let mut panels = Vec::new();
    let mut changes = Vec::new();
    for setting in SETTINGS {
        let mut lines = Vec::new();
        for name in results.programs(Feed::Values) {
            let Some(e) = results.get(name, Feed::Values, &spec(setting), 1) else {
                continue;
            };
            let shape = accuracy(e).shape;
            if shape.changes.is_empty() {
                continue;
            }
            let points: Vec<_> = (0..=20)
                .map(|n| {
                    (
                        f64::from(n) * 5.0,
                        100.0 * shape.change_at(f64::from(n) / 20.0),
                    )
                })
                .collect();
            for (share, change) in &points {
                table.row([
                    name.into(),
                    setting.spec.into(),
                    (*share).into(),
                    (*change).into(),
                ]);
            }
            changes.push((
                name,
                setting,
                100.0 * shape.mean_change(),
                100.0 * shape.change_at(0.5),
            ));
            lines.push(Line {
                label: name.into(),
                points,
                marked: false,
            });
        }
        panels.push(Panel {
            title: setting.title.into(),
            x: Axis::linear("share of intervals in %"),
            y: Axis::linear("change of candidates, at most, in %"),
            content: Content::Lines(lines),
            marks: Vec::new(),
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Candidates that change from one interval to the next, loaded values".into(),
            panels,
            columns: 2,
            height: 330.0,
        },
    ));
    let mean_of = |name: &str, setting: Setting| {
        changes
            .iter()
            .find(|c| c.0 == name && c.1 == setting)
            .map(|c| c.2)
    };
    let (mut shorter, mut longer) = (Vec::new(), Vec::new());
    for name in results.programs(Feed::Values) {
        if let (Some(short), Some(long)) = (mean_of(name, SETTINGS[0]), mean_of(name, SETTINGS[1]))
        {
            let words = format!("{name} {}/{}", percent(short), percent(long));
            if short < long {
                shorter.push(words)
            } else {
                longer.push(words)
            }
        }
    }
    let none = |list: &[String]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    let any = !shorter.is_empty() || !longer.is_empty();
    found.claim(
        "Some programs are steadier over intervals of 1M events, others over 10k.",
        format!(
            "Mean change at 10k/1M; steadier at 1M: {}; at 10k: {} (rule: both kinds exist).",
            none(&longer),
            none(&shorter)
        ),
        Verdict::when(any.then_some(!shorter.is_empty() && !longer.is_empty())),
    );
    let name = lab.subject_named("gcc");
    let subject = changes
        .iter()
        .find(|c| c.0 == name && c.1 == SETTINGS[1])
        .map(|c| c.3);
    found.claim(
        "At 1M events candidates vary by less than 35 % for half of the execution (the paper: of gcc).",
        format!(
            "{name}: by {} at most in half of the intervals.",
            percent(subject.unwrap_or(f64::NAN))
        ),
        Verdict::when(subject.map(|c| c < 35.0)),
    );
    found.notes.push(
        "Change is 1 − |A∩B| ÷ |A∪B| of the perfect candidates A and B of neighbouring intervals."
            .into(),
    );
    found
}
