//! Stratified figure 8: the error curves of five compressors on every program.

use trommel_profile::accuracy::Point;
use trommel_profile::accuracy::convergence::settles;

use super::compressors::{FIVE, H, H512, P, R, T, curve, error_line, missing, needs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, events, exceptions};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Content, Figure, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-8",
    paper: Paper::Stratified,
    title: "Figure 8: error of five compressors over the run, every program",
    needs,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let programs = results.programs(Feed::Values);
    let all = programs
        .iter()
        .map(|name| (*name, FIVE.map(|spec| curve(results, name, spec))));
    let is_judged = |(_, curves): &(&str, [Vec<Point>; 5])| curves.iter().all(|c| !c.is_empty());
    let (all, without): (Vec<_>, Vec<_>) = all.partition(is_judged);
    let without = without.iter().map(|(name, _)| missing(lab, results, name));
    found.notes.extend(without);
    let mut table = Table::new(
        "",
        &[
            "program",
            "compressor",
            "error at 1M in %",
            "error at 4M in %",
            "error at the end in %",
            "messages",
            "below 5 % for good after",
        ],
    );
    let mut panels = Vec::new();
    for (name, curves) in &all {
        for (spec, curve) in FIVE.iter().zip(curves) {
            let at = |events| curve.iter().find(|p| p.events == events).map(|p| p.error);
            table.row([
                (*name).into(),
                (*spec).into(),
                at(1_000_000).into(),
                at(4_000_000).into(),
                curve.last().map(|p| p.error).into(),
                curve.last().map(|p| p.messages).into(),
                settles(curve, 5.0).map_or(Cell::Missing, Into::into),
            ]);
        }
        let lines = FIVE
            .iter()
            .zip(curves)
            .map(|(spec, curve)| error_line(spec, curve));
        panels.push(Panel {
            title: (*name).into(),
            x: Axis::log("load events"),
            y: Axis::log("error in %"),
            content: Content::Lines(lines.collect()),
            marks: vec![(5.0, String::new())],
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Error of five compressors, loaded values; dashed: 5 %".into(),
            panels,
            columns: 3,
            height: 230.0,
        },
    ));
    judge(&mut found, &all);
    found
}

fn judge(found: &mut Findings, all: &[(&str, [Vec<Point>; 5])]) {
    let never = u64::MAX;
    let (mut words, mut cases) = (Vec::new(), Vec::new());
    for (name, [r, _, h, ..]) in all {
        let (r, h) = (settles(r, 5.0), settles(h, 5.0));
        words.push(format!("{name} {}/{}", events(h), events(r)));
        if r != h || r.is_none() {
            cases.push((*name, h.unwrap_or(never) < r.unwrap_or(never)));
        }
    }
    let (n, not) = exceptions(&cases);
    found.claim(
        "H[P256]2048 reaches an error of 5 % at least twice as fast as R256.",
        format!(
            "Events until 5 % for good, {H}/{R}: {}. Sooner on {n} of the {} that differ or never get there{not} (rule: all).",
            words.join(", "), cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let end = |c: &[Point]| c.last().map_or((f64::NAN, 0), |p| (p.error, p.messages));
    let cases: Vec<_> = all
        .iter()
        .map(|(name, [r, _, _, h512, _])| {
            let (r, h) = (end(r), end(h512));
            (*name, h.0 <= 1.1 * r.0 && h.1 as f64 <= 0.6 * r.1 as f64)
        })
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "H[P512]2048 is as accurate as R256 at half the messages; by how much depends on the program.",
        format!("At the end of the run on {n} of {}{not} (rule: {H512}'s error at most a tenth higher).", cases.len()),
        Verdict::of_cases(n, cases.len()),
    );
    let cases: Vec<_> = all
        .iter()
        .map(|(name, [r, p, ..])| (*name, (end(p).0 / end(r).0 - 1.0).abs() < 0.25))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "P256 is no better than R256 on real programs.",
        format!("At the end within a quarter of {R}'s error on {n} of {}{not}: {P} keeps step with loops (rule: all).", cases.len()),
        Verdict::of_cases(n, cases.len()),
    );
    let best = |at: u64| {
        let cases = all.iter().filter(|(_, curves)| {
            let error = |c: &[Point]| {
                c.iter()
                    .find(|p| p.events == at)
                    .map_or(f64::NAN, |p| p.error)
            };
            curves[..4].iter().all(|c| error(&curves[4]) <= error(c))
        });
        cases.count()
    };
    let last = all
        .first()
        .and_then(|(_, c)| c[0].last())
        .map_or(0, |p| p.events);
    // A short stream has its end alone.
    let first = last.min(500_000);
    let (early, late) = (best(first), best(last));
    found.claim(
        "The tagged compressor is the most accurate.",
        format!("{T} is on {early} of {} programs at {} events and on {late} at {} (rule: on all at both).", all.len(), events(Some(first)), events(Some(last))),
        Verdict::of_cases(early + late, 2 * all.len()),
    );
    let cases: Vec<_> = all
        .iter()
        .map(|(name, [r, _, h, ..])| (*name, end(h).0 <= end(r).0))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "The stratified sampler has the best error for its overhead.",
        format!(
            "At the end {H} has at most {R}'s error on {n} of {}{not}.",
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
}
