//! Filters of instructions whose values are known, before the stratified sampler (`crates/compress/src/converge.rs`).
//!
//! The stratified paper (section 5.4) expects convergence checks and instruction filtering to improve its sampler further, the second by less
//! aliasing in the substreams, which makes profiles converge faster. It has neither, and its price of a message leaves out the 3 cycles of a check
//! (section 5.3.2). Here are both halves, in the bytes of the sampler without them and in those of a multi-hash profiler.

use trommel_compress::Spec;
use trommel_profile::accuracy::{Evaluation, Point};

use super::compressors::{H, H512, R, SEEDS, T};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::geomean;
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "convergence",
    paper: Paper::Ours,
    title: "Convergence checks and instruction filtering before a sampler",
    needs: || vec![Need::of(Feed::Values, SPECS).seeds(SEEDS)],
    run,
};

/// In the bytes of [`H`]: half the substreams, and a filter.
const BOTH: &str = "F[1%,64]96+H[P256]1024";
/// Its halves.
const CHECKS: &str = "F[1%,64]96:K3N0+H[P256]1024";
const FILTERING: &str = "F[1%,64]96:K0N63+H[P256]1024";
/// The sampler alone, in half the bytes.
const HALF: &str = "H[P256]1024";
/// At twice the rate: the messages that are saved are spent.
const SPENT: &str = "F[1%,64]96+H[P128]1024";
/// Before a sampler of all events.
const ALONE: &str = "F[1%,64]96+R256";
/// In the bytes of the multi-hash profiler.
const LARGE: &str = "F[1%,64]512+H[P256]2048";
const MULTI_HASH: &str = "M4[10k,1%]2048:C1R0P1";

const SPECS: [&str; 12] = [
    R, H, H512, T, HALF, BOTH, CHECKS, FILTERING, SPENT, ALONE, LARGE, MULTI_HASH,
];

/// An early checkpoint.
const EARLY: u64 = 1_000_000;
/// Errors that differ by less are equal.
const EQUAL: f64 = 0.005;

/// A spec on a program: means over seeds.
#[derive(Clone, Copy)]
struct Figures {
    /// The error at the end, of the profile that all messages make.
    error: f64,
    /// The error after [`EARLY`] events.
    early: f64,
    messages: f64,
    /// Cycles that software spends on them.
    cycles: f64,
}

/// A check takes 3 cycles beside what a message takes.
const CHECK: f64 = 3.0;

fn figures(results: &Results, program: &str, spec: &str) -> Option<Figures> {
    let of = |figure: &dyn Fn(&Evaluation) -> f64| {
        results.mean(program, Feed::Values, spec, SEEDS, figure)
    };
    let early = |e: &Evaluation| {
        let point = e
            .points
            .iter()
            .find(|p| p.events == EARLY)
            .or(e.points.last());
        point.and_then(Point::judged).unwrap_or(f64::NAN)
    };
    let cycles = |e: &Evaluation| {
        let checks = if e.spec.filter.is_some() { CHECK } else { 0.0 };
        e.overhead_cycles() as f64 + checks * e.messages as f64
    };
    Some(Figures {
        error: of(&|e| e.invariance.unwrap_or(f64::NAN))?,
        early: of(&early)?,
        messages: of(&|e| e.messages as f64)?,
        cycles: of(&cycles)?,
    })
}

/// A program with all specs.
struct Row {
    program: &'static str,
    of: Vec<Figures>,
}

impl Row {
    fn of(&self, spec: &str) -> Figures {
        let none = Figures {
            error: f64::NAN,
            early: f64::NAN,
            messages: f64::NAN,
            cycles: f64::NAN,
        };
        let n = SPECS.iter().position(|s| *s == spec);
        n.map_or(none, |n| self.of[n])
    }
}

fn bytes(spec: &str) -> Option<u64> {
    spec.parse::<Spec>().ok()?.bytes()
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let row = |program| {
        let of: Option<Vec<_>> = SPECS.iter().map(|s| figures(results, program, s)).collect();
        Some(Row { program, of: of? })
    };
    let rows = results.programs(Feed::Values).into_iter().filter_map(row);
    // Where no tuple passes the filter of errors there is nothing to compare.
    let rows: Vec<Row> = rows
        .filter(|r| r.of.iter().all(|f| f.error.is_finite()))
        .collect();
    let mut table = Table::new(
        "",
        &[
            "program",
            "spec",
            "bytes",
            "messages",
            "cycles of messages",
            "error after 1M in %",
            "error in %",
        ],
    );
    for row in &rows {
        for (spec, f) in SPECS.iter().zip(&row.of) {
            table.row([
                row.program.into(),
                (*spec).into(),
                bytes(spec).into(),
                f.messages.into(),
                f.cycles.into(),
                f.early.into(),
                f.error.into(),
            ]);
        }
    }
    found.tables.push(table);
    found.figures.push((String::new(), figure(&rows)));
    judge(&mut found, &rows);
    found.notes.push(format!(
        "Bytes: {}. Means over {SEEDS} seeds. The error is that of the profile which all messages make (section 5.3.1), for {MULTI_HASH} too. \
         A message takes 30 cycles, 33 after a filter. The filter's parameters were chosen after a look at lua and gzip.",
        SPECS
            .iter()
            .map(|s| format!("{s} {}", bytes(s).unwrap_or(0)))
            .collect::<Vec<_>>()
            .join(", "),
    ));
    found
}

fn figure(rows: &[Row]) -> Figure {
    const SHOWN: [&str; 6] = [R, H, BOTH, SPENT, LARGE, MULTI_HASH];
    let panel = |title: &str, y: Axis, of: fn(Figures) -> f64| Panel {
        title: title.into(),
        x: Axis::linear(""),
        y,
        content: Content::Bars(Bars {
            series: SHOWN.iter().map(|s| (*s).to_owned()).collect(),
            groups: rows
                .iter()
                .map(|row| Group {
                    label: row.program.into(),
                    bars: SHOWN
                        .iter()
                        .enumerate()
                        .map(|(n, spec)| Bar {
                            label: String::new(),
                            parts: vec![(n, of(row.of(spec)))],
                        })
                        .collect(),
                })
                .collect(),
            numbers: false,
        }),
        marks: Vec::new(),
    };
    Figure {
        title: "A filter of settled instructions before samplers, loaded values".into(),
        panels: vec![
            panel("error", Axis::linear("error in %").up_to(12.0), |f| f.error),
            panel("messages", Axis::linear("thousands of messages"), |f| {
                f.messages / 1000.0
            }),
        ],
        columns: 1,
        height: 260.0,
    }
}

/// Ratios of a spec to another over programs: of errors and cycles, as geometric means, and how many programs are not worse.
struct Against {
    error: f64,
    early: f64,
    cycles: f64,
    words: String,
    verdict: Verdict,
}

fn against(rows: &[Row], spec: &str, other: &str) -> Against {
    let ratio = |of: fn(Figures) -> f64| {
        geomean(
            rows.iter()
                .map(|r| (of(r.of(spec)) + EQUAL) / (of(r.of(other)) + EQUAL)),
        )
    };
    let cases: Vec<_> = rows
        .iter()
        .map(|r| (r.program, r.of(spec).error <= r.of(other).error + EQUAL))
        .collect();
    let (n, not) = exceptions(&cases);
    Against {
        error: ratio(|f| f.error),
        early: ratio(|f| f.early),
        cycles: ratio(|f| f.cycles),
        words: format!("not worse on {n} of {}{not}", cases.len()),
        verdict: Verdict::of_cases(n, cases.len()),
    }
}

impl Against {
    /// The verdict by cases, if a condition on the means holds.
    fn verdict_if(&self, holds: bool) -> Verdict {
        match self.verdict {
            Verdict::Holds | Verdict::Partly if !holds => Verdict::Fails,
            verdict => verdict,
        }
    }
}

fn judge(found: &mut Findings, rows: &[Row]) {
    let both = against(rows, BOTH, H);
    // Errors of sampling fall with the root of the samples.
    let scaled = both.error * both.cycles.sqrt();
    found.claim(
        "Convergence checks and instruction filtering improve the stratified sampler further.",
        format!(
            "{BOTH}, in the bytes of {H}: {:.2} of its error at {:.2} of its cycles (geometric means), {scaled:.2} when scaled to the same cycles; {} (rule: scaled below 1; on all programs).",
            both.error, both.cycles, both.words
        ),
        both.verdict_if(scaled < 1.0),
    );
    let spent = against(rows, SPENT, H);
    found.claim(
        "The messages that are saved, spent on a higher rate, make profiles better at the same cost (not the paper's claim).",
        format!(
            "{SPENT}: {:.2} of the error of {H} at {:.2} of its cycles; {} (rule: error below 1 and cycles at most 1.05; on all programs).",
            spent.error, spent.cycles, spent.words
        ),
        spent.verdict_if(spent.error < 1.0 && spent.cycles <= 1.05),
    );
    let filtering = against(rows, FILTERING, HALF);
    found.claim(
        "Instruction filtering reduces aliasing in the substreams, and profiles converge faster.",
        format!(
            "{FILTERING} has {:.2} of the error of {HALF} after 1M events and {:.2} at the end, at {:.2} of its cycles; {} at the end (rule: both below 1; on all programs).",
            filtering.early, filtering.error, filtering.cycles, filtering.words
        ),
        filtering.verdict_if(filtering.early < 1.0 && filtering.error < 1.0),
    );
    let checks = against(rows, CHECKS, HALF);
    found.claim(
        "Checks alone save messages at no loss of accuracy (not the paper's claim).",
        format!(
            "{CHECKS} has {:.2} of the error of {HALF} at {:.2} of its cycles, with 3 more on each message; {} (rule: error at most 1.05 and cycles below 1).",
            checks.error, checks.cycles, checks.words
        ),
        Verdict::when((!rows.is_empty()).then_some(checks.error <= 1.05 && checks.cycles < 1.0)),
    );
    let alone = against(rows, ALONE, R);
    found.claim(
        "A filter pays before a random sampler, too (not the paper's claim).",
        format!(
            "{ALONE} has {:.2} of the error of {R} at {:.2} of its cycles, {:.2} when scaled to the same (rule: scaled below 1).",
            alone.error,
            alone.cycles,
            alone.error * alone.cycles.sqrt()
        ),
        Verdict::when((!rows.is_empty()).then_some(alone.error * alone.cycles.sqrt() < 1.0)),
    );
    let multi = against(rows, LARGE, MULTI_HASH);
    let average = |spec: &str| percent(mean(rows.iter().map(|r| r.of(spec).error)));
    found.claim(
        "In the bytes of a multi-hash profiler it makes the better profile of a whole run (not the papers' claim).",
        format!(
            "{LARGE} has an error of {} on average, the candidates of {MULTI_HASH} {}, at {:.2} of its cycles; {} (rule: on all).",
            average(LARGE),
            average(MULTI_HASH),
            multi.cycles,
            multi.words
        ),
        multi.verdict,
    );
}
