//! The design space of the multi-hash profiler, at one setting: figures 10 and 11.
//!
//! The paper shows its two programs with the most distinct tuples, gcc and go. Here all are
//! evaluated, the two with the most are shown, and claims are about all.

use trommel_profile::accuracy::ErrorParts;

use super::intervals::{
    EIGHT, SETTINGS, Setting, Stack, accuracy, design, eight_sound, parts, parts_row, parts_table,
    seeds, stacks,
};
use crate::experiment::{exceptions, mean, percent};
use crate::findings::{Findings, Verdict};
use crate::plan::{Need, Results};
use crate::plot::Figure;
use crate::streams::Feed;

/// Tables, and whether the hash is the multiplicative one.
const TABLES: [(u32, bool); 5] = [(1, false), (2, false), (4, false), (8, false), (8, true)];
/// Two, four and eight tables with a sound hash.
const MULTIPLE: [usize; 3] = [1, 2, 4];
const FLAGS: [&str; 4] = ["C0R0P1", "C1R0P1", "C0R1P1", "C1R1P1"];
/// The place of the paper's best among the flags.
const BEST: usize = 1;

fn spec((tables, sound): (u32, bool), setting: Setting, flags: &str) -> String {
    match sound {
        true => eight_sound(setting, flags),
        false => design(tables, setting, flags),
    }
}

pub(super) fn needs(setting: usize) -> Vec<Need> {
    let of = |(n, sound): (u32, bool)| {
        let specs = FLAGS.map(|f| spec((n, sound), SETTINGS[setting], f));
        Need::of(Feed::Values, specs).seeds(seeds(n))
    };
    TABLES.map(of).into()
}

/// Errors of a program: tables by flags.
type Grid = [[ErrorParts; 4]; TABLES.len()];

pub(super) fn findings(number: usize, results: &Results) -> Findings {
    let setting = SETTINGS[number];
    let mut found = Findings::default();
    let mut table = parts_table();
    let mut all: Vec<(&str, f64, Grid)> = Vec::new();
    for name in results.programs(Feed::Values) {
        let mut grid = Grid::default();
        let mut is_whole = true;
        for (row, design) in grid.iter_mut().zip(TABLES) {
            for (cell, flags) in row.iter_mut().zip(FLAGS) {
                let (spec, seeds) = (spec(design, setting, flags), seeds(design.0));
                match parts(results, name, Feed::Values, &spec, seeds) {
                    Some(p) => {
                        parts_row(&mut table, name, &spec, seeds, p);
                        *cell = p;
                    }
                    None => is_whole = false,
                }
            }
        }
        // A stream shorter than an interval has no errors to compare.
        if !is_whole {
            continue;
        }
        let shape = results.get(name, Feed::Values, &design(4, setting, FLAGS[BEST]), 1);
        all.push((
            name,
            shape.map_or(0.0, |e| accuracy(e).shape.distinct),
            grid,
        ));
    }
    found.tables.push(table);
    let mut shown: Vec<_> = all.iter().collect();
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    let panels = shown.iter().take(2).map(|(name, distinct, grid)| {
        let groups = TABLES.iter().zip(grid).map(|((n, sound), row)| {
            let stack = |(flags, parts): (&&str, &ErrorParts)| Stack {
                label: flags[..4].into(),
                parts: *parts,
            };
            let words = match (n, sound) {
                (1, _) => "table",
                (_, true) => ":mul",
                _ => "tables",
            };
            (
                format!("{n} {words}"),
                FLAGS.iter().zip(row).map(stack).collect(),
            )
        });
        let title = format!("{name}, {distinct:.0} distinct tuples an interval");
        stacks(
            &title,
            groups.collect(),
            if number == 0 { 60.0 } else { 200.0 },
        )
    });
    found.figures.push((
        String::new(),
        Figure {
            title: format!("Error of 2048 counters, {}, retaining", setting.title),
            panels: panels.collect(),
            columns: 2,
            height: 340.0,
        },
    ));
    judge(&mut found, &all);
    found.notes.push(EIGHT.into());
    found
}

fn judge(found: &mut Findings, all: &[(&str, f64, Grid)]) {
    let average = |n: usize, f: usize| mean(all.iter().map(|(_, _, g)| g[n][f].total()));
    let combinations = || (0..TABLES.len()).flat_map(|n| (0..4).map(move |f| (n, f)));
    let best = combinations().min_by(|a, b| average(a.0, a.1).total_cmp(&average(b.0, b.1)));
    let (n, f) = best.unwrap_or((2, BEST));
    let best_of = |n: usize| (0..4).all(|f| average(n, BEST) <= average(n, f));
    let multiple = MULTIPLE.into_iter().all(best_of);
    let said = |n: usize| {
        (0..4)
            .map(|f| format!("{} {}", &FLAGS[f][..4], percent(average(n, f))))
            .collect::<Vec<_>>()
            .join(", ")
    };
    found.claim(
        "Conservative update without resetting (C1R0) is the best of all configurations.",
        format!(
            "Mean over programs with 2 tables: {}; with 4: {}; with 8: {}; with 8 and :mul: {}. The least of all: {} tables {}, {} (rule: C1R0 is the best for 2, 4 and 8 tables).",
            said(1), said(2), said(3), said(4), TABLES[n].0, &FLAGS[f][..4], percent(average(n, f))
        ),
        match (all.is_empty(), multiple, f == BEST) {
            (true, ..) => Verdict::NoData,
            (_, true, _) => Verdict::Holds,
            (_, _, true) => Verdict::Partly,
            _ => Verdict::Fails,
        },
    );
    let negatives = |n: usize, f: usize| mean(all.iter().map(|(_, _, g)| g[n][f].false_negative));
    let rises = MULTIPLE
        .into_iter()
        .all(|n| average(n, 3) >= average(n, BEST));
    found.claim(
        "Resetting raises the error by false negatives, more so with more tables.",
        format!(
            "With conservative update, false negatives under resetting: 2 tables {}, 4 {}, 8 {}; without: {}, {}, {} (rule: it raises the total for 2, 4 and 8 tables, and false negatives from 2 to 8).",
            percent(negatives(1, 3)), percent(negatives(2, 3)), percent(negatives(4, 3)),
            percent(negatives(1, BEST)), percent(negatives(2, BEST)), percent(negatives(4, BEST))
        ),
        match (all.is_empty(), rises, negatives(4, 3) >= negatives(1, 3)) {
            (true, ..) => Verdict::NoData,
            (_, true, true) => Verdict::Holds,
            (_, false, false) => Verdict::Fails,
            _ => Verdict::Partly,
        },
    );
    let cases: Vec<_> = all
        .iter()
        .map(|(name, _, g)| (*name, g[2][BEST].total() <= g[2][0].total() + 1e-9))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Conservative update lowers the error significantly.",
        format!("With 4 tables without resetting from {} to {} on average, and not up on {n} of {}{not}.", percent(average(2, 0)), percent(average(2, BEST)), cases.len()),
        Verdict::of_cases(n, cases.len()),
    );
}
