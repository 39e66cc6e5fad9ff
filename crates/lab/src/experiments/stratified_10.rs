//! Stratified figure 10: what an associative counter table of 16 entries saves.

use super::compressors::{H, R, T};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-10",
    paper: Paper::Stratified,
    title: "Figure 10: overhead with and without a 16-entry counter table after it",
    needs: || {
        let with = PAIRS.iter().map(|(_, spec)| format!("{spec}+A16"));
        let without = PAIRS.iter().map(|(_, spec)| (*spec).to_owned());
        vec![Need::of(Feed::Values, with.chain(without))]
    },
    run,
};

const PAIRS: [(&str, &str); 3] = [("random", R), ("stratified", H), ("tagged", T)];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "program",
            "compressor",
            "messages",
            "messages with A16",
            "overhead in %",
            "overhead with A16 in %",
            "saving",
        ],
    );
    let (mut groups, mut savings) = (Vec::new(), Vec::new());
    for name in results.programs(Feed::Values) {
        let mut bars = Vec::new();
        for (index, (short, spec)) in PAIRS.iter().enumerate() {
            let get = |spec: &str| results.get(name, Feed::Values, spec, 1);
            let (Some(alone), Some(tabled)) = (get(spec), get(&format!("{spec}+A16"))) else {
                continue;
            };
            // Without messages there is nothing to save.
            let saving =
                (alone.messages > 0).then(|| alone.messages as f64 / tabled.messages.max(1) as f64);
            savings.extend(saving.map(|saving| (name, *short, saving)));
            table.row([
                name.into(),
                (*spec).into(),
                alone.messages.into(),
                tabled.messages.into(),
                alone.overhead_percent().into(),
                tabled.overhead_percent().into(),
                saving.into(),
            ]);
            for (offset, of) in [(0, alone), (1, tabled)] {
                bars.push(Bar {
                    label: String::new(),
                    parts: vec![(2 * index + offset, of.overhead_percent())],
                });
            }
        }
        groups.push(Group {
            label: name.into(),
            bars,
        });
    }
    found.tables.push(table);
    let series = PAIRS
        .iter()
        .flat_map(|(_, spec)| [(*spec).to_owned(), format!("{spec}+A16")]);
    found.figures.push((
        String::new(),
        Figure {
            title: "Overhead with and without A16, loaded values".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("overhead in %"),
                content: Content::Bars(Bars {
                    series: series.collect(),
                    groups,
                    numbers: true,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 340.0,
        },
    ));
    let cases: Vec<_> = savings
        .iter()
        .map(|(name, _, s)| (*name, *s >= 1.0))
        .collect();
    let (n, not) = exceptions(&cases);
    let range = |of: &str| {
        let list = savings.iter().filter(|s| s.1 == of).map(|s| s.2);
        let (low, high) = list.fold((f64::MAX, 0.0_f64), |(l, h), s| (l.min(s), h.max(s)));
        format!("{of} {low:.2}–{high:.2}")
    };
    let ranges = PAIRS.map(|(short, _)| range(short)).join(", ");
    found.claim(
        "A16 lowers the overhead of every compressor on every benchmark.",
        format!("It does in {n} of {} cases{not}.", cases.len()),
        Verdict::of_cases(n, cases.len()),
    );
    let inside = savings.iter().filter(|s| s.2 >= 1.15).count();
    found.claim(
        "A16 compresses the messages 1.15 to 2.5 times more.",
        format!(
            "{ranges} times fewer messages; at least 1.15 in {inside} of {} cases (rule: all).",
            savings.len()
        ),
        Verdict::of_cases(inside, savings.len()),
    );
    found
}
