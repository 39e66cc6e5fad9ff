//! Multi-hash figure 13: the error of each interval, best single hash and best multi-hash.

use super::intervals::{SETTINGS, SINGLE_SEEDS, accuracy, best, best_single};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-13",
    paper: Paper::MultiHash,
    title: "Figure 13: error of each interval of 1M events",
    needs: || {
        vec![
            Need::of(Feed::Values, [best(SETTINGS[1])]),
            Need::of(Feed::Values, [best_single(SETTINGS[1])]).seeds(SINGLE_SEEDS),
        ]
    },
    run,
};

/// The errors of a program's intervals, each the mean over seeds.
fn series(results: &Results, program: &str, spec: &str, seeds: u64) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    for seed in 1..=seeds {
        let Some(e) = results.get(program, Feed::Values, spec, seed) else {
            return Vec::new();
        };
        let errors = accuracy(e).series;
        sums.resize(errors.len(), 0.0);
        for (sum, parts) in sums.iter_mut().zip(&errors) {
            *sum += parts.total() / seeds as f64;
        }
    }
    sums
}

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let designs = [
        (
            "best single hash (C0R1P1)",
            best_single(SETTINGS[1]),
            SINGLE_SEEDS,
        ),
        ("four tables (C1R0P1)", best(SETTINGS[1]), 1),
    ];
    let mut table = Table::new("", &["program", "spec", "interval", "error in %"]);
    let mut panels = Vec::new();
    let mut all: Vec<Vec<(&str, Vec<f64>)>> = Vec::new();
    for (title, spec, seeds) in designs {
        let mut lines = Vec::new();
        let mut of_design = Vec::new();
        for name in results.programs(Feed::Values) {
            let errors = series(results, name, &spec, seeds);
            for (n, error) in errors.iter().enumerate() {
                table.row([
                    name.into(),
                    spec.clone().into(),
                    (n as u64 + 1).into(),
                    (*error).into(),
                ]);
            }
            let points = errors.iter().enumerate().map(|(n, e)| (n as f64 + 1.0, *e));
            lines.push(Line {
                label: name.into(),
                points: points.collect(),
                marked: false,
            });
            of_design.push((name, errors));
        }
        panels.push(Panel {
            title: title.into(),
            x: Axis::linear("interval"),
            y: Axis::linear("error in %").up_to(100.0),
            content: Content::Lines(lines),
            marks: Vec::new(),
        });
        all.push(of_design);
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Error of each interval of 1M events at 0.1 %, loaded values".into(),
            panels,
            columns: 2,
            height: 330.0,
        },
    ));
    let [single, multiple] = &all[..] else {
        return found;
    };
    let most = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    let spikes = |list: &[(&str, Vec<f64>)]| {
        list.iter()
            .flat_map(|(_, e)| e)
            .filter(|e| **e > 10.0)
            .count()
    };
    let pairs = || single.iter().zip(multiple).filter(|(s, _)| !s.1.is_empty());
    let cases: Vec<_> = pairs()
        .map(|(s, m)| (s.0, most(&m.1) <= most(&s.1)))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "The multi-hash profiler brings down the magnitude and the number of spikes.",
        format!(
            "The worst interval is no worse on {n} of {}{not}; intervals above 10 %: {} with one table, {} with four.",
            cases.len(), spikes(single), spikes(multiple)
        ),
        match Verdict::of_cases(n, cases.len()) {
            Verdict::Holds if spikes(multiple) > spikes(single) => Verdict::Partly,
            verdict => verdict,
        },
    );
    let name = lab.subject_named("gcc");
    let subject = pairs().find(|(s, _)| s.0 == name);
    let means = subject.map(|(s, m)| {
        (
            mean(s.1.iter().copied()),
            mean(m.1.iter().copied()),
            most(&s.1),
            most(&m.1),
        )
    });
    found.claim(
        "Especially so for one program (the paper: gcc).",
        means.map_or(
            format!("{name} has no whole interval, or is not installed."),
            |(s, m, sm, mm)| {
                format!(
                    "{name}: mean {} against {}, worst interval {} against {}.",
                    percent(m),
                    percent(s),
                    percent(mm),
                    percent(sm)
                )
            },
        ),
        Verdict::when(means.map(|(s, m, sm, mm)| m <= s && mm <= sm)),
    );
    found
}
