//! Common parts of the figures of *Relational Profiling*.

use crate::Lab;
use crate::findings::{Findings, Table, Verdict};
use crate::machines::{Runs, Setup};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Line, Panel};

/// Branch sampling rates of the paper: one in so many.
pub(super) const RATES: [u32; 4] = [32, 64, 128, 256];
/// Numbers of networks that figure 8 compares.
pub(super) const NETWORKS: [usize; 4] = [1, 2, 3, 4];

/// Note below each of these figures.
pub(super) const NOTE: &str = "A trace-driven model of Table 5, by a million instructions of each program, in 25 stretches spread over its run. \
     They begin by CPU time, so each recording has others, and figures differ by some percent. The \
     paper's programs were Java's under a virtual machine, hundreds of millions of instructions long. Stores of references \
     are those that stored heap addresses and nulls only. Wrong paths take no profile hardware, but where it is said.";

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

/// Percent of cycles that dispatch was stalled, of each program's first runs, and a figure of them: a bar for each of the words.
pub(super) fn stalls<'r, const N: usize>(
    found: &mut Findings,
    all: &'r Runs,
    words: [&str; N],
    title: &str,
) -> Vec<(&'r str, [f64; N])> {
    let stalls: Vec<(&str, [f64; N])> = (all.iter())
        .map(|(name, runs)| (&**name, std::array::from_fn(|n| 100.0 * runs[n].stalled())))
        .collect();
    let bar = |(n, height): (usize, &f64)| Bar {
        label: String::new(),
        parts: vec![(n, *height)],
    };
    let group = |(name, of): &(&str, [f64; N])| Group {
        label: (*name).to_owned(),
        bars: of.iter().enumerate().map(bar).collect(),
    };
    let bars = Bars {
        series: words.map(str::to_owned).to_vec(),
        groups: stalls.iter().map(group).collect(),
        numbers: false,
    };
    let panel = Panel {
        title: String::new(),
        x: Axis::linear(""),
        y: Axis::linear("stalled, % of cycles"),
        content: Content::Bars(bars),
        marks: Vec::new(),
    };
    found.figures.push((
        String::new(),
        Figure {
            title: title.into(),
            panels: vec![panel],
            columns: 1,
            height: 320.0,
        },
    ));
    stalls
}

/// A table of stalls: a row for each program and each of the words.
pub(super) fn table_of_stalls<const N: usize>(
    column: &str,
    words: [&str; N],
    stalls: &[(&str, [f64; N])],
) -> Table {
    let mut table = Table::new("", &["program", column, "stalled in % of cycles"]);
    for (name, of) in stalls {
        for (words, stalled) in words.iter().zip(of) {
            table.row([(*name).into(), (*words).into(), (*stalled).into()]);
        }
    }
    table
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
