//! Multi-hash figure 7: one hash table, with and without retaining and resetting.

use trommel_profile::accuracy::ErrorParts;

use super::intervals::{
    SETTINGS, SINGLE_SEEDS, Stack, design, parts, parts_row, parts_table, stacks,
};
use crate::Lab;
use crate::experiment::{Experiment, Paper, mean, percent};
use crate::findings::{Findings, Verdict};
use crate::plan::{Need, Results};
use crate::plot::Figure;
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-7",
    paper: Paper::MultiHash,
    title: "Figure 7: one hash table, retaining (P) and resetting (R)",
    needs: || {
        let specs = SETTINGS
            .iter()
            .flat_map(|s| FLAGS.map(|f| design(1, *s, f)));
        vec![Need::of(Feed::Values, specs).seeds(SINGLE_SEEDS)]
    },
    run,
};

const FLAGS: [&str; 4] = ["C0R0P0", "C0R1P0", "C0R0P1", "C0R1P1"];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = parts_table();
    let mut panels = Vec::new();
    for setting in SETTINGS {
        let mut groups = Vec::new();
        let mut all: Vec<[ErrorParts; 4]> = Vec::new();
        for name in results.programs(Feed::Values) {
            let specs = FLAGS.map(|flags| design(1, setting, flags));
            let of_each = specs
                .each_ref()
                .map(|spec| parts(results, name, Feed::Values, spec, SINGLE_SEEDS));
            // A stream that is shorter than an interval has no errors.
            let [Some(a), Some(b), Some(c), Some(d)] = of_each else {
                continue;
            };
            let of_program = [a, b, c, d];
            for (spec, parts) in specs.iter().zip(of_program) {
                parts_row(&mut table, name, spec, SINGLE_SEEDS, parts);
            }
            let stack = |(flags, parts): (&str, &ErrorParts)| Stack {
                label: flags[2..].into(),
                parts: *parts,
            };
            let stacks = FLAGS.into_iter().zip(&of_program).map(stack);
            groups.push((name.to_owned(), stacks.collect()));
            all.push(of_program);
        }
        panels.push(stacks(setting.title, groups, 150.0));
        judge(&mut found, setting.spec, &all);
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Error of one table of 2048 counters, loaded values, mean of three seeds".into(),
            panels,
            columns: 1,
            height: 330.0,
        },
    ));
    found
}

fn judge(found: &mut Findings, setting: &str, all: &[[ErrorParts; 4]]) {
    let totals = |n: usize| mean(all.iter().map(|p| p[n].total()));
    let [plain, reset, retain, both] = [0, 1, 2, 3].map(totals);
    let data = plain.is_finite();
    found.claim(
        "Resetting and retaining both lower the error, and both together are best overall.",
        format!(
            "At {setting}, mean over programs: neither {}, resetting {}, retaining {}, both {} (rule: in this order of size, both the least).",
            percent(plain), percent(reset), percent(retain), percent(both)
        ),
        match (reset <= plain, retain <= plain, both <= reset.min(retain)) {
            _ if !data => Verdict::NoData,
            (true, true, true) => Verdict::Holds,
            (_, _, true) | (true, true, _) => Verdict::Partly,
            _ => Verdict::Fails,
        },
    );
    let lower = all
        .iter()
        .filter(|p| p[2].false_positive <= p[0].false_positive + 1e-9)
        .count();
    found.claim(
        "Retaining lowers false positives for most programs.",
        format!(
            "At {setting}, on {lower} of {} (rule: more than half).",
            all.len()
        ),
        Verdict::when((!all.is_empty()).then_some(2 * lower > all.len())),
    );
    let more = all
        .iter()
        .filter(|p| p[3].false_negative > p[2].false_negative)
        .count();
    found.claim(
        "Resetting costs false negatives in some programs.",
        format!(
            "At {setting}, in {more} of {} (rule: at least one).",
            all.len()
        ),
        Verdict::when((!all.is_empty()).then_some(more > 0)),
    );
}
