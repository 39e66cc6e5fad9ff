//! Value sampling table 1: how many lines of the first cache the profiler's own work displaces.

use crate::Lab;
use crate::experiment::{Experiment, Paper, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::latencies::Load;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::Kernel;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "values-table1",
    paper: Paper::Values,
    title: "Table 1: lines of the first cache that are displaced by being looked at",
    needs: Vec::new,
    run,
};

const BLOCKS: Kernel = Kernel {
    name: "blocks",
    source: include_str!("../values/blocks.c"),
    work: 8000,
};

/// Miss rates in percent up to which a line counts, and the part of all lines that the paper found there.
const CLASSES: [(&str, f64, f64); 6] = [
    ("0 %", 0.5, 88.0),
    ("1-20 %", 20.5, 4.0),
    ("21-40 %", 40.5, 2.0),
    ("41-60 %", 60.5, 2.0),
    ("61-80 %", 80.5, 1.0),
    ("81-100 %", 101.0, 3.0),
];
/// Instructions of a window.
const WINDOWS: [(&str, &str); 3] = [
    ("512", "windows of 512, in %"),
    ("4096", "windows of 4096, in %"),
    ("60000", "windows of 60 000, in %"),
];
/// A line that was seen less often has no rate.
const FEW: f64 = 20.0;

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let columns = WINDOWS.map(|(_, title)| title);
    let head = [["miss rate", "the paper, in %"].as_slice(), &columns].concat();
    let mut table = Table::new("", &head);
    let measured = WINDOWS.map(|(window, _)| {
        let options = ["--rate", "200", "--window", window];
        parts(&lab.latencies(&BLOCKS, &options).unwrap_or_default())
    });
    for (n, (title, _, paper)) in CLASSES.into_iter().enumerate() {
        let ours = measured.map(|parts| parts.map_or(f64::NAN, |parts| parts[n]));
        let [short, usual, long] = ours.map(Into::into);
        table.row([title.into(), paper.into(), short, usual, long]);
    }
    found.tables.push(table);
    found.figures.push((String::new(), figure(&measured)));
    let usual = measured[1];
    found.claim(
        "Nine of ten lines of the first cache stay there while the program is looked at; a few are displaced nearly always.",
        match usual {
            Some(parts) => format!(
                "In windows of 4096 instructions {} of 512 lines are never missed, {} in one to 20 of 100 loads, {} in more than 80 (rule: over 80 %, and under 5 %).",
                percent(parts[0]),
                percent(parts[1]),
                percent(parts[5])
            ),
            None => "No windows were taken.".to_owned(),
        },
        Verdict::when(usual.map(|parts| parts[0] > 80.0 && parts[5] < 5.0)),
    );
    found.claim(
        "So most latencies are right.",
        match usual {
            Some(parts) => format!(
                "{} of the lines are missed in at most 20 of 100 loads (rule: more than half).",
                percent(parts[0] + parts[1])
            ),
            None => "No windows were taken.".to_owned(),
        },
        Verdict::when(usual.map(|parts| parts[0] + parts[1] > 50.0)),
    );
    found.notes.push(
        "All 512 lines fit into the first cache, so natively none is missed but by what else runs on the machine. The paper's profiler interprets 4 instructions at a time; \
         here a window's first loads find what its beginning has displaced."
            .into(),
    );
    found
}

/// The lines of each class, side by side for the paper and each length of windows.
fn figure(measured: &[Option<[f64; 6]>; WINDOWS.len()]) -> Figure {
    let mut series = vec!["the paper".to_owned()];
    series.extend(WINDOWS.map(|(window, _)| format!("windows of {window}")));
    let bar = |of: usize, height: f64| Bar {
        label: String::new(),
        parts: vec![(of, height)],
    };
    let groups = CLASSES.iter().enumerate().map(|(n, (rate, _, paper))| {
        let ours = measured.iter().enumerate();
        let ours = ours.filter_map(|(of, parts)| Some(bar(of + 1, (*parts)?[n])));
        Group {
            label: (*rate).to_owned(),
            bars: std::iter::once(bar(0, *paper)).chain(ours).collect(),
        }
    });
    Figure {
        title: "Lines of the first cache by how often they were displaced".into(),
        panels: vec![Panel {
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear("lines, %"),
            content: Content::Bars(Bars {
                series,
                groups: groups.collect(),
                numbers: false,
            }),
            marks: Vec::new(),
        }],
        columns: 1,
        height: 320.0,
    }
}

/// The part of the lines in each class, in percent.
fn parts(loads: &[Load]) -> Option<[f64; 6]> {
    let mut counts = [0.0; 6];
    let own = |load: &&Load| load.function == "turn" && load.samples >= FEW;
    for load in loads.iter().filter(own) {
        let missed = 100.0 * (1.0 - load.share("L1"));
        let class = CLASSES.iter().position(|(_, below, _)| missed < *below);
        counts[class.unwrap_or(CLASSES.len() - 1)] += 1.0;
    }
    let all: f64 = counts.iter().sum();
    (all > 0.0).then(|| counts.map(|count| 100.0 * count / all))
}
