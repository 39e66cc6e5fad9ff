//! Relational profiling section 3.2, example b: misses of the second cache, with their addresses.

use super::rpa::{NOTE, each};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-misses",
    paper: Paper::Relational,
    title: "Figure 2b: misses of the second cache, by the instructions that miss",
    needs: Vec::new,
    run,
};

/// Instructions that are few.
const FEW: usize = 10;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let all = lab.misses(&results.machines);
    let few = format!("of {FEW} instructions in %");
    let columns = [
        "program",
        "misses",
        "profiled in %",
        "instructions",
        &few,
        "slow-down in %",
    ];
    let mut table = Table::new("", &columns);
    let mut groups = Vec::new();
    let (mut kept, mut shares, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    for (name, misses) in &all {
        let profiled = 100.0 * misses.profiled() as f64 / misses.all.max(1) as f64;
        let share = 100.0 * misses.share(FEW);
        let slowdown = 100.0 * misses.slowdown;
        table.row([
            (*name).into(),
            misses.all.into(),
            profiled.into(),
            (misses.by_pc.len() as u64).into(),
            share.into(),
            slowdown.into(),
        ]);
        groups.push(Group {
            label: (*name).to_owned(),
            bars: vec![Bar {
                label: String::new(),
                parts: vec![(0, share)],
            }],
        });
        kept.push((*name, profiled));
        shares.push((*name, share));
        slow.push((*name, slowdown));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: format!("Misses of the {FEW} instructions that miss most"),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("% of all misses"),
                content: Content::Bars(Bars {
                    series: vec![format!("{FEW} instructions")],
                    groups,
                    numbers: true,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 280.0,
        },
    ));
    for (paper, rule, of, holds) in [
        (
            "For each miss of the second cache the instruction and the address are collected.",
            "Misses that found a buffer of eight",
            &kept,
            (|part| part >= 99.0) as fn(f64) -> bool,
        ),
        (
            "(Multi-hash, section 2.) A very large part of misses is caused by a very small number of instructions.",
            "Misses of the ten instructions that miss most, of which half is wanted",
            &shares,
            |part| part >= 50.0,
        ),
        (
            "Profiling overhead is less than 0.5 %.",
            "Slow-down",
            &slow,
            |part| part < 0.5,
        ),
    ] {
        let cases: Vec<_> = of
            .iter()
            .map(|(name, part)| (*name, holds(*part)))
            .collect();
        let (n, not) = exceptions(&cases);
        let limit = match paper.starts_with("For each") {
            true => " (99 % are wanted)",
            false => "",
        };
        found.claim(
            paper,
            format!(
                "{rule}{limit}: {}. So on {n} of {}{not} (rule: all).",
                each(of, |part| format!("{part:.2} %")),
                cases.len()
            ),
            Verdict::of_cases(n, cases.len()),
        );
    }
    found.notes.push(NOTE.into());
    found
        .notes
        .push("The second cache has 512 KB in 8 ways, and is empty at first.".into());
    found
}
