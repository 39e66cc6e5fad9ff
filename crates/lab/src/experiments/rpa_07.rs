//! Relational profiling figure 7: buffers and networks in use when there are enough of both.

use trommel_model::RunFigures;

use super::rpa::{NOTE, all_but_one, each, figure, line, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;
use crate::plot::Axis;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-fig7",
    paper: Paper::Relational,
    title: "Figure 7: profile buffers and profiled instructions in flight, with 32 of each",
    needs: Vec::new,
    run,
};

/// Up to so many are shown.
const SHOWN: usize = 16;
/// Share of excess below which a size is sufficient.
const RARE: f64 = 0.01;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let setup = Setup::unrestricted(256);
    let at_once = Setup {
        served: false,
        ..setup
    };
    let all = runs(lab, results, &[setup, at_once]);
    let part = |of: &RunFigures, n: usize| {
        [&of.profile.buffers, &of.profile.networks].map(|h| RunFigures::at_least(h, n))
    };
    let mut table = Table::new(
        "",
        &[
            "program",
            "at least",
            "buffers in use, % of cycles",
            "networks in use, % of cycles",
            "buffers in use if messages are read at once, % of cycles",
        ],
    );
    let mut panels = Vec::new();
    for (name, runs) in &all {
        let mut lines = [Vec::new(), Vec::new(), Vec::new()];
        for n in 1..=SHOWN {
            let parts = part(&runs[0], n);
            let [buffers, networks] = parts.map(|p| 100.0 * p);
            let alone = 100.0 * part(&runs[1], n)[0];
            table.row([
                (*name).into(),
                (n as u64).into(),
                buffers.into(),
                networks.into(),
                alone.into(),
            ]);
            lines[0].push((n as f64, buffers));
            lines[1].push((n as f64, networks));
            lines[2].push((n as f64, alone));
        }
        let [buffers, networks, alone] = lines;
        panels.push((
            (*name).to_owned(),
            vec![
                line("buffers in use", buffers),
                line("profiled instructions in flight", networks),
                line("buffers if messages are read at once", alone),
            ],
        ));
    }
    found.tables.push(table);
    let axes = [
        Axis::linear("at least so many"),
        Axis::linear("% of cycles"),
    ];
    figure(
        &mut found,
        "Profile resources in use; one branch in 256, every reference",
        axes,
        panels,
    );
    let of = |run: usize, n: usize, which: usize| -> Vec<(&str, f64)> {
        let value = |(name, runs): &(&'static str, Vec<std::sync::Arc<RunFigures>>)| {
            (*name, part(&runs[run], n)[which])
        };
        all.iter().map(value).collect()
    };
    let rare = |values: &[(&str, f64)]| -> (usize, String) {
        let cases: Vec<_> = values.iter().map(|(n, v)| (*n, *v < RARE)).collect();
        exceptions(&cases)
    };
    let shown = |values: &[(&str, f64)]| each(values, |v| percent(100.0 * v));
    let beyond = of(0, 9, 0);
    let (n, not) = rare(&beyond);
    found.claim(
        "Eight profile buffers are sufficient: one program at most can use more.",
        format!(
            "More than eight in use: {} of cycles. Less than 1 % on {n} of {}{not} (rule: all but one).",
            shown(&beyond),
            beyond.len()
        ),
        all_but_one(n, beyond.len()),
    );
    let alone = of(1, 9, 0);
    let (n, not) = rare(&alone);
    found.claim(
        "(Ours.) Where eight do not suffice it is service threads that do not keep up.",
        format!(
            "If messages are read at once more than eight are in use in {} of cycles. Less than 1 % on {n} of {}{not} (rule: \
             all but one).",
            shown(&alone),
            alone.len()
        ),
        all_but_one(n, alone.len()),
    );
    let more = of(0, 2, 0);
    let (n, not) = rare(&more);
    found.claim(
        "Half of the programs rarely use more than a single buffer, the others load the hardware more heavily.",
        format!(
            "Two or more buffers: {} of cycles. Less than 1 % on {n} of {}{not} (rule: on a third of them to two thirds).",
            shown(&more),
            more.len()
        ),
        Verdict::when((!more.is_empty()).then_some(3 * n >= more.len() && 3 * n <= 2 * more.len())),
    );
    let four = of(0, 5, 1);
    let (n, not) = rare(&four);
    found.claim(
        "Four networks are enough for all but one program, which seems to need eight.",
        format!(
            "More than four profiled instructions in flight: {} of cycles. Less than 1 % on {n} of {}{not} (rule: all but one).",
            shown(&four),
            four.len()
        ),
        all_but_one(n, four.len()),
    );
    let lower = |(name, runs): &(&'static str, Vec<std::sync::Arc<RunFigures>>)| {
        let below = (1..=32).all(|n| {
            let [buffers, networks] = part(&runs[0], n);
            networks <= buffers
        });
        (*name, below)
    };
    let cases: Vec<_> = all.iter().map(lower).collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Fewer instructions are in flight than buffers in use, as buffers stay allocated longer.",
        format!(
            "At every number on {n} of {}{not} (rule: all).",
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    found.notes.push(NOTE.into());
    found
}
