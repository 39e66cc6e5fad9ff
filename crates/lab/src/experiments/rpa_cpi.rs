//! Relational profiling section 3.2, example d: cycles per instruction and per region from retirement records.

use std::collections::BTreeMap;

use super::rpa::{NOTE, each};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Cycles;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-cpi",
    paper: Paper::Relational,
    title: "Figure 2d: where cycles go, from retirement rates of one instruction in 64",
    needs: Vec::new,
    run,
};

const RATE: u32 = 64;
/// Bytes of code that are taken together, as a power of two; and so many of the costliest are judged.
const REGION: u32 = 8;
const JUDGED: usize = 10;

/// Cycles by region.
fn regions(cycles: &Cycles) -> BTreeMap<u64, f64> {
    let mut regions = BTreeMap::new();
    for (pc, took) in &cycles.by_pc {
        *regions.entry(pc >> REGION).or_default() += took;
    }
    regions
}

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let all = lab.cycles(&results.machines, RATE);
    let mut table = Table::new("", &["program", "region", "cycles in %", "estimated in %"]);
    let (mut totals, mut errors) = (Vec::new(), Vec::new());
    let mut groups = Vec::new();
    for (name, [exact, sampled]) in &all {
        let (truth, estimate) = (regions(exact), regions(sampled));
        let mut costliest: Vec<(&u64, &f64)> = truth.iter().collect();
        costliest.sort_by(|a, b| b.1.total_cmp(a.1));
        costliest.truncate(JUDGED);
        let mut off = Vec::new();
        for (region, took) in costliest {
            let guess = estimate.get(region).copied().unwrap_or(0.0);
            let parts = [took / exact.total, guess / sampled.total];
            table.row([
                (*name).into(),
                format!("{:#x}", region << REGION).into(),
                (100.0 * parts[0]).into(),
                (100.0 * parts[1]).into(),
            ]);
            off.push((parts[1] / parts[0] - 1.0).abs());
        }
        let error = 100.0 * mean(off);
        groups.push(Group {
            label: (*name).to_owned(),
            bars: vec![Bar {
                label: String::new(),
                parts: vec![(0, error)],
            }],
        });
        errors.push((*name, error));
        let lost = 100.0 * (exact.total / exact.run.max(1) as f64 - 1.0);
        let total = 100.0 * (sampled.total / exact.run.max(1) as f64 - 1.0);
        totals.push((*name, [lost, total]));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Error of the cycles of the ten costliest regions of 256 bytes".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("mean error in %"),
                content: Content::Bars(Bars {
                    series: vec!["one instruction in 64".into()],
                    groups,
                    numbers: true,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 280.0,
        },
    ));
    let cases: Vec<_> = totals
        .iter()
        .map(|(name, of)| (*name, of[0].abs() < 0.01))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "The cycles of an instruction are those in which nothing retired before it, and its share of its own: C = c + 1/n.",
        format!(
            "Summed over all executions they come to the cycles of the run, within 0.01 %, on {n} of {}{not} (rule: all).",
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = totals
        .iter()
        .map(|(name, of)| (*name, of[1].abs() < 5.0))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Total cycles are the sum over samples divided by the sampling rate.",
        format!(
            "Against the cycles of the run, with one in {RATE}, four networks and eight buffers: {}. Within 5 % on {n} of {}{not} \
             (rule: all).",
            each(&totals, |of| format!("{:+.1} %", of[1])),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = errors
        .iter()
        .map(|(name, error)| (*name, *error < 15.0))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "The time spent in a region of code is the sum of its instructions' cycles.",
        format!(
            "Mean error of the ten costliest regions of 256 bytes: {}. Below 15 % on {n} of {}{not} (rule: all).",
            each(&errors, |e| percent(*e)),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
