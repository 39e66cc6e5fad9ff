//! Value sampling table 2(c): what looking costs at the same number of instructions, by how often it is done.

use crate::Lab;
use crate::costs::Method;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Verdict};
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "values-table2c",
    paper: Paper::Values,
    title: "Table 2(c): cost by frequency, at the same number of instructions",
    needs: Vec::new,
    run,
};

/// Interrupts in a second.
const INTERRUPTS: u32 = 8000;
/// Lengths, one in how many interrupts, and the paper's slowdown in percent.
const CASES: [(u32, u32, f64); 5] = [
    (4, 2, 10.7),
    (8, 4, 10.8),
    (16, 8, 9.7),
    (32, 16, 9.3),
    (64, 32, 9.2),
];

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let way = |(length, every, paper): (u32, u32, f64)| {
        let rate = INTERRUPTS / every;
        let options = format!("-e value --rate {rate} --window {length} --skip 1");
        let name = format!("{length} instructions every {every} interrupts");
        Method::new(name, paper, &options)
    };
    let costs = lab.costs(&CASES.map(way));
    let last = CASES.len() - 1;
    let both = costs.means[0].zip(costs.means[last]);
    found.claim(
        "At the same number of instructions the cost declines when windows are rare and long: what an interrupt costs is paid less often.",
        format!(
            "{} with 4 instructions every 2 interrupts, {} with 64 every 32 (rule: less).",
            costs.shown(0),
            costs.shown(last)
        ),
        Verdict::when(both.map(|(often, rare)| rare < often)),
    );
    found.claim(
        "It is roughly the same in each case.",
        format!(
            "{} and {} (rule: within a factor of 1.5).",
            costs.shown(0),
            costs.shown(last)
        ),
        Verdict::when(both.map(|(often, rare)| often.max(rare) <= 1.5 * often.min(rare))),
    );
    found.tables.push(costs.table);
    found.figures.push((String::new(), costs.figure));
    found.notes.push(costs.note);
    found.notes.push(
        "16 000 instructions in a second of CPU time are sampled in each case. Entering and leaving is most of what a short window costs here. The paper's interpreter \
         runs in the handler of the interrupt. How costs are measured: see values-table2a."
            .into(),
    );
    found
}
