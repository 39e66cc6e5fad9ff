//! Messages against interrupts, and what the stratified paper's thirty cycles come to on an out-of-order core.

use trommel_query::Operation;

use super::rpa::{NOTE, each, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::{Asked, Brought, Setup};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-interrupts",
    paper: Paper::Relational,
    title: "Interrupts of 30 cycles against messages in memory: one load in 256",
    needs: Vec::new,
    run,
};

/// Cycles of an interrupt in the stratified paper.
const CYCLES: f64 = 30.0;
/// Cycles of an event in the lab's figures of that paper, which have no cycles.
const PER_EVENT: f64 = 4.0;
const RATE: u32 = 256;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setup = |brought| Setup {
        asked: Asked::Loads(RATE, brought),
        ..Setup::eight(4, RATE)
    };
    let setups = [
        Setup::UNPROFILED,
        setup(Brought::Interrupt),
        setup(Brought::Message),
    ];
    let all = runs(lab, results, &setups);
    let mut table = Table::new(
        "",
        &[
            "program",
            "samples",
            "cycles per load",
            "slow-down by interrupts in %",
            "30 cycles each in %",
            "cycles an interrupt",
            "slow-down by messages in %",
        ],
    );
    let mut groups = Vec::new();
    let (mut costs, mut slow, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for (name, runs) in &all {
        let [free, interrupts, messages] = [&runs[0], &runs[1], &runs[2]];
        let cycles = free.core.cycles as f64;
        let samples = interrupts.profile.interrupts;
        let estimate = 100.0 * CYCLES * samples as f64 / cycles;
        let cost = (interrupts.core.cycles as f64 - cycles) / samples.max(1) as f64;
        let of = [interrupts, messages].map(|run| 100.0 * run.slowdown(free));
        let per_load = cycles / free.core.classes[Operation::Load as usize].max(1) as f64;
        table.row([
            (*name).into(),
            samples.into(),
            per_load.into(),
            of[0].into(),
            estimate.into(),
            cost.into(),
            of[1].into(),
        ]);
        groups.push(Group {
            label: (*name).to_owned(),
            bars: [of[0], estimate, of[1]]
                .into_iter()
                .enumerate()
                .map(|(n, height)| Bar {
                    label: String::new(),
                    parts: vec![(n, height.max(0.0))],
                })
                .collect(),
        });
        costs.push((*name, cost));
        slow.push((*name, of));
        loads.push((*name, per_load));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Slow-down by sampling one load in 256".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("slow-down in %"),
                content: Content::Bars(Bars {
                    series: ["interrupts", "30 cycles each", "messages"]
                        .map(str::to_owned)
                        .to_vec(),
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    let cases: Vec<_> = slow
        .iter()
        .map(|(name, of)| (*name, of[1] < of[0]))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Messages in memory cost less than interrupts, and so can be sent more often.",
        format!(
            "Slow-down by interrupts and by messages, four networks and eight buffers: {}. Less on {n} of {}{not} (rule: all).",
            each(&slow, |[by, of]| format!("{} {}", percent(*by), percent(*of))),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = costs
        .iter()
        .map(|(name, cost)| (*name, (15.0..=45.0).contains(cost)))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "(Stratified sampling.) Overhead is 30 cycles a message.",
        format!(
            "Where an interrupt stops fetching for 30 cycles, the program takes so many more: {}. Between 15 and 45 on {n} of \
             {}{not} (rule: all).",
            each(&costs, |c| format!("{c:.1}")),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = loads
        .iter()
        .map(|(name, per)| (*name, (PER_EVENT / 2.0..=PER_EVENT * 2.0).contains(per)))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "(Ours.) The lab's figures of stratified sampling take four cycles a loaded value.",
        format!(
            "Cycles for each load: {}. Within a factor of two on {n} of {}{not} (rule: all).",
            each(&loads, |c| format!("{c:.1}")),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
