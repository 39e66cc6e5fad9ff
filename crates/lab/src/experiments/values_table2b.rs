//! Value sampling table 2(b): what looking costs, by the length of windows.

use crate::Lab;
use crate::costs::Method;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Verdict};
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "values-table2b",
    paper: Paper::Values,
    title: "Table 2(b): cost by the length of windows",
    needs: Vec::new,
    run,
};

/// Lengths, and the paper's slowdown in percent.
const LENGTHS: [(u32, f64); 4] = [(4, 10.7), (8, 14.8), (16, 22.7), (32, 40.4)];

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let way = |(length, paper): (u32, f64)| {
        let options = format!("-e value --rate 4000 --window {length} --skip 1");
        Method::new(format!("{length} instructions"), paper, &options)
    };
    let costs = lab.costs(&LENGTHS.map(way));
    let last = LENGTHS.len() - 1;
    let both = costs.means[0].zip(costs.means[last]);
    let more = f64::from(LENGTHS[last].0 - LENGTHS[0].0);
    let slope = both.map(|(short, long)| (long - short) / more);
    found.claim(
        "The slowdown increases by about 1 % for each instruction that is interpreted.",
        format!(
            "{} with 4 instructions, {} with 32: {} % for each (rule: 0.5 to 2).",
            costs.shown(0),
            costs.shown(last),
            slope.map_or_else(|| "–".to_owned(), |slope| format!("{slope:.2}"))
        ),
        Verdict::when(slope.map(|slope| (0.5..=2.0).contains(&slope))),
    );
    found.claim(
        "Longer windows cost more at the same rate.",
        format!(
            "{} with 4 instructions, {} with 32 (rule: more).",
            costs.shown(0),
            costs.shown(last)
        ),
        Verdict::when(both.map(|(short, long)| long > short)),
    );
    found.tables.push(costs.table);
    found.figures.push((String::new(), costs.figure));
    found.notes.push(costs.note);
    found.notes.push(
        "4000 windows in a second of CPU time: every second of 8000 interrupts. Instructions are not interpreted here but executed by their translation. \
         How costs are measured: see values-table2a."
            .into(),
    );
    found
}
