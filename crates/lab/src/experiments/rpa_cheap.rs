//! Relational profiling section 6.3: profiles of what is known at retirement take no network.

use trommel_model::parameters::Cheap;

use super::rpa::{NOTE, each, runs, stalls, table_of_stalls};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Verdict};
use crate::machines::Setup;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-cheap",
    paper: Paper::Relational,
    title: "Section 6.3: cheap profiles, of what is known when an instruction retires",
    needs: Vec::new,
    run,
};

/// Cheap facts, and words for them.
const KINDS: [(Cheap, &str); 3] = [
    (Cheap::Nothing, "all expensive"),
    (Cheap::Retirement, "branches cheap"),
    (Cheap::Stores, "stores cheap too"),
];
/// At the highest rate, where most is to be had.
const RATE: u32 = 32;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setups = KINDS.map(|(cheap, _)| Setup {
        cheap,
        ..Setup::eight(1, RATE)
    });
    let all = runs(lab, results, &setups);
    let words = KINDS.map(|(_, words)| words);
    let title = "Dispatch stalled, one network and eight buffers, one branch in 32";
    let stalls = stalls(&mut found, &all, words, title);
    let table = table_of_stalls("profiles", words, &stalls);
    found.tables.push(table);
    for (n, paper) in [
        (
            1,
            "Allocating no network to profiles of what is known at retirement reduces stalls.",
        ),
        (
            2,
            "(Ours.) What a store writes waits for retirement too: with that cheap, networks are hardly needed.",
        ),
    ] {
        let cases: Vec<_> = stalls
            .iter()
            .filter(|(_, of)| of[0] >= 0.05)
            .map(|(name, of)| {
                (
                    *name,
                    if n == 1 {
                        of[1] < of[0]
                    } else {
                        of[2] < 0.1 * of[0]
                    },
                )
            })
            .collect();
        let (holding, not) = exceptions(&cases);
        let rule = if n == 1 { "fewer" } else { "a tenth" };
        found.claim(
            paper,
            format!(
                "Cycles stalled with one network, before and after: {}; {rule} on {holding} of the {} stalled in 0.05 % of \
                 cycles{not} (rule: all).",
                each(&stalls, |of| format!("{:.2} {:.2} %", of[0], of[n])),
                cases.len()
            ),
            Verdict::of_cases(holding, cases.len()),
        );
    }
    found.notes.push(NOTE.into());
    found
}
