//! Value sampling figure 1: latencies of the two loads that a multiplication waits for.

use crate::Lab;
use crate::experiment::{Experiment, Paper, percent};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::latencies::Load;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::Kernel;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "values-fig1",
    paper: Paper::Values,
    title: "Figure 1: latencies of the two loads of a product",
    needs: Vec::new,
    run,
};

const PRODUCT: Kernel = Kernel {
    name: "product",
    source: include_str!("../values/product.c"),
    work: 60,
};

/// The paper's loads: first and second cache, memory, in percent.
const PAPER: [(&str, f64, f64, f64); 2] = [
    ("the paper's first load", 94.26, 2.15, 3.58),
    ("the paper's second load", 15.07, 0.01, 84.91),
];

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &["load", "L1 in %", "L2 in %", "L3 in %", "memory in %"],
    );
    for (name, first, second, memory) in PAPER {
        let none = Cell::from(f64::NAN);
        table.row([
            name.into(),
            first.into(),
            second.into(),
            none,
            memory.into(),
        ]);
    }
    let loads = lab.latencies(&PRODUCT, &["--budget", "10"]);
    let mut loads: Vec<Load> = loads.unwrap_or_default();
    loads.retain(|load| load.function == "product");
    loads.sort_by_key(|load| load.at);
    for (n, load) in loads.iter().enumerate() {
        let share = |level| Cell::from(100.0 * load.share(level));
        table.row([
            format!("load {} of the product", n + 1).into(),
            share("L1"),
            share("L2"),
            share("L3"),
            share("memory"),
        ]);
    }
    found.tables.push(table);
    found.figures.push((String::new(), figure(&loads)));
    let beyond = |load: &Load| load.share("L3") + load.share("memory");
    let both = match &loads[..] {
        [near, far] => Some((near.share("L1"), beyond(far))),
        _ => None,
    };
    found.claim(
        "Latencies tell which of two loads a multiplication waits for: one mostly hits, the other is mostly served by memory.",
        match both {
            Some((near, far)) => format!(
                "{} of the first load's executions hit the first cache, {} of the second's are found in neither of the first two (rule: more than half of each).",
                percent(100.0 * near),
                percent(100.0 * far)
            ),
            None => "No windows were taken.".to_owned(),
        },
        Verdict::when(both.map(|(near, far)| near > 0.5 && far > 0.5)),
    );
    found.notes.push(
        "The paper's benchmark is not named. Here the first load is of 2 KB, the second of 128 MB, both at random; the levels' limits are measured before the run. \
         Other programs on the machine push lines out of caches that they share."
            .into(),
    );
    found
}

/// Returns where the loads were served, the paper's and ours.
fn figure(loads: &[Load]) -> Figure {
    const LEVELS: [&str; 4] = ["L1", "L2", "L3", "memory"];
    let group = |label: String, shares: [f64; 4]| Group {
        label,
        bars: vec![Bar {
            label: String::new(),
            parts: shares.into_iter().enumerate().collect(),
        }],
    };
    let paper = PAPER
        .map(|(name, first, second, memory)| group(name.to_owned(), [first, second, 0.0, memory]));
    let ours = loads.iter().enumerate().map(|(n, load)| {
        let shares = LEVELS.map(|level| 100.0 * load.share(level));
        group(format!("load {} of the product", n + 1), shares)
    });
    Figure {
        title: "Where the two loads of a product are served".into(),
        panels: vec![Panel {
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear("executions, %"),
            content: Content::Bars(Bars {
                series: LEVELS.map(str::to_owned).to_vec(),
                groups: paper.into_iter().chain(ours).collect(),
                numbers: false,
            }),
            marks: Vec::new(),
        }],
        columns: 1,
        height: 320.0,
    }
}
