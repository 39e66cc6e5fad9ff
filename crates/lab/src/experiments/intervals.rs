//! Parts that the multi-hash experiments share: the two settings, the specs, stacks of error parts.

use trommel_profile::accuracy::{ErrorParts, Evaluation, IntervalAccuracy};

use crate::findings::Table;
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Group, Panel};
use crate::streams::Feed;

/// An interval length with its threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    /// In a spec.
    pub(super) spec: &'static str,
    /// In titles.
    pub(super) title: &'static str,
}

/// The two settings that the paper evaluates.
pub(super) const SETTINGS: [Setting; 2] = [
    Setting {
        spec: "10k,1%",
        title: "intervals of 10k events, threshold 1 %",
    },
    Setting {
        spec: "1M,0.1%",
        title: "intervals of 1M events, threshold 0.1 %",
    },
];

/// The seeds over which designs of one table are averaged: with one table the result is a lottery
/// over the hash.
pub(super) const SINGLE_SEEDS: u64 = 3;

/// Returns the number of seeds over which a design of `tables` is averaged.
pub(super) const fn seeds(tables: u32) -> u64 {
    if tables == 1 { SINGLE_SEEDS } else { 1 }
}

/// `tables` tables of 2048 counters together.
pub(super) fn design(tables: u32, setting: Setting, flags: &str) -> String {
    format!("M{tables}[{}]2048:{flags}", setting.spec)
}

/// Eight tables of 256 counters with a hash that is sound at an index of 8 bits.
pub(super) fn eight_sound(setting: Setting, flags: &str) -> String {
    format!("M8:mul[{}]2048:{flags}", setting.spec)
}

/// Reason why they stand beside those with the papers' hash.
pub(super) const EIGHT: &str = "Eight tables of 256 counters have indices of 8 bits, where the paper's hash is \
    degenerate: bytes of pc and value meet in the same lane. Beside them stand eight tables with a multiplicative hash \
    (8 :mul), and it is these that claims about eight tables are judged by.";

/// The paper's best single hash: retaining and resetting.
pub(super) fn best_single(setting: Setting) -> String {
    design(1, setting, "C0R1P1")
}

/// The paper's best design.
pub(super) fn best(setting: Setting) -> String {
    design(4, setting, "C1R0P1")
}

/// The interval part of an evaluation: a zero one where there was no complete interval.
pub(super) fn accuracy(e: &Evaluation) -> IntervalAccuracy {
    e.interval.clone().unwrap_or_default()
}

/// The mean error of a spec over seeds 1 to `n`, by parts.
pub(super) fn parts(
    results: &Results,
    program: &str,
    feed: Feed,
    spec: &str,
    n: u64,
) -> Option<ErrorParts> {
    let mean = |part: fn(&ErrorParts) -> f64| {
        results.mean(program, feed, spec, n, |e| {
            e.interval.as_ref().map_or(0.0, |i| part(&i.parts))
        })
    };
    Some(ErrorParts {
        false_positive: mean(|p| p.false_positive)?,
        false_negative: mean(|p| p.false_negative)?,
        neutral_positive: mean(|p| p.neutral_positive)?,
        neutral_negative: mean(|p| p.neutral_negative)?,
    })
}

/// The parts of an interval error, as legends name them.
const PARTS: [&str; 4] = [
    "false positive",
    "false negative",
    "neutral positive",
    "neutral negative",
];

/// A column with one bar of a group.
pub(super) struct Stack {
    pub(super) label: String,
    pub(super) parts: ErrorParts,
}

/// A panel of stacked errors, cut off at `most` percent.
pub(super) fn stacks(title: &str, groups: Vec<(String, Vec<Stack>)>, most: f64) -> Panel {
    let bar = |stack: Stack| {
        let ErrorParts {
            false_positive,
            false_negative,
            neutral_positive,
            neutral_negative,
        } = stack.parts;
        Bar {
            label: stack.label,
            parts: [
                false_positive,
                false_negative,
                neutral_positive,
                neutral_negative,
            ]
            .into_iter()
            .enumerate()
            .collect(),
        }
    };
    let group = |(label, stacks): (String, Vec<Stack>)| Group {
        label,
        bars: stacks.into_iter().map(bar).collect(),
    };
    Panel {
        title: title.into(),
        x: Axis::linear(""),
        y: Axis::linear("error in %").up_to(most),
        content: Content::Bars(Bars {
            series: PARTS.iter().map(|p| (*p).into()).collect(),
            groups: groups.into_iter().map(group).collect(),
            numbers: true,
        }),
        marks: Vec::new(),
    }
}

/// A table for errors by parts.
pub(super) fn parts_table() -> Table {
    Table::new(
        "",
        &[
            "program",
            "spec",
            "seeds",
            "error in %",
            "false positive",
            "false negative",
            "neutral positive",
            "neutral negative",
        ],
    )
}

/// Its rows.
pub(super) fn parts_row(
    table: &mut Table,
    program: &str,
    spec: &str,
    seeds: u64,
    parts: ErrorParts,
) {
    table.row([
        program.into(),
        spec.into(),
        seeds.into(),
        parts.total().into(),
        parts.false_positive.into(),
        parts.false_negative.into(),
        parts.neutral_positive.into(),
        parts.neutral_negative.into(),
    ]);
}
