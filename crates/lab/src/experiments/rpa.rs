//! Common parts of the figures of *Relational Profiling*.

use crate::Lab;
use crate::findings::{Findings, Verdict};
use crate::machines::{Runs, Setup};
use crate::plan::Results;
use crate::plot::{Axis, Content, Figure, Line, Panel};

/// Branch sampling rates of the paper: one in so many.
pub(super) const RATES: [u32; 4] = [32, 64, 128, 256];
/// Numbers of networks that figure 8 compares.
pub(super) const NETWORKS: [usize; 4] = [1, 2, 3, 4];

/// Note below each of these figures.
pub(super) const NOTE: &str = "A trace-driven model of Table 5, by a million instructions of each program, in 25 stretches spread over its run. The \
     paper's programs were Java's under a virtual machine, hundreds of millions of instructions long. Stores of references \
     are those that stored heap addresses and nulls only. No wrong paths are profiled, as there are none in a trace.";

/// The same setups on all programs.
pub(super) fn runs(lab: &Lab<'_>, results: &Results, setups: &[Setup]) -> Runs {
    lab.machines(&results.machines, setups)
}

/// A figure of slow-downs by the number of networks.
pub(super) fn slowdowns(found: &mut Findings, title: &str, panels: Vec<(String, Vec<Line>)>) {
    let axes = [
        Axis::linear("profile networks"),
        Axis::linear("slow-down in %"),
    ];
    figure(found, title, axes, panels);
}

/// A figure with a panel for each program.
pub(super) fn figure(
    found: &mut Findings,
    title: &str,
    [x, y]: [Axis; 2],
    panels: impl IntoIterator<Item = (String, Vec<Line>)>,
) {
    let panel = |(title, lines): (String, Vec<Line>)| Panel {
        title,
        x: x.clone(),
        y: y.clone(),
        content: Content::Lines(lines),
        marks: Vec::new(),
    };
    found.figures.push((
        String::new(),
        Figure {
            title: title.into(),
            panels: panels.into_iter().map(panel).collect(),
            columns: 3,
            height: 210.0,
        },
    ));
}

/// A marked line.
pub(super) fn line(label: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
    Line {
        label: label.into(),
        points,
        marked: true,
    }
}

/// "name a, name b".
pub(super) fn each<T>(all: &[(&str, T)], words: impl Fn(&T) -> String) -> String {
    let each = all
        .iter()
        .map(|(name, value)| format!("{name} {}", words(value)));
    each.collect::<Vec<_>>().join(", ")
}

/// A claim about all programs but one: it holds in part when it does on some.
pub(super) fn all_but_one(holding: usize, all: usize) -> Verdict {
    match Verdict::of_cases(holding, all) {
        Verdict::Partly if holding + 1 == all => Verdict::Holds,
        other => other,
    }
}
