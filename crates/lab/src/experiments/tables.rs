//! The best design by number of tables, at both settings: figures 12 and 14.

use trommel_profile::accuracy::ErrorParts;

use super::intervals::{
    EIGHT, SETTINGS, SINGLE_SEEDS, Setting, Stack, best_single, design, eight_sound, parts,
    parts_row, parts_table, seeds, stacks,
};
use crate::experiment::{exceptions, mean, percent};
use crate::findings::{Findings, Verdict};
use crate::plan::{Need, Results};
use crate::plot::Figure;
use crate::streams::Feed;

const FLAGS: &str = "C1R0P1";

/// A program's errors.
pub(super) struct Row {
    pub(super) program: &'static str,
    /// Error of the best single hash.
    pub(super) single: ErrorParts,
    /// By number of tables.
    pub(super) multiple: Vec<(u32, ErrorParts)>,
    /// Eight tables with a hash that is sound at their width.
    pub(super) eight: ErrorParts,
}

impl Row {
    /// The error with `n` tables; eight with the hash that is sound.
    pub(super) fn of(&self, n: u32) -> f64 {
        if n == 8 {
            return self.eight.total();
        }
        self.papers(n)
    }

    /// The error with `n` tables and the paper's hash.
    fn papers(&self, n: u32) -> f64 {
        let found = self.multiple.iter().find(|m| m.0 == n);
        found.map_or(f64::NAN, |m| m.1.total())
    }
}

pub(super) fn needs(feed: Feed, setting: Setting, tables: &[u32]) -> Vec<Need> {
    let of = |n: &u32| Need::of(feed, [design(*n, setting, FLAGS)]).seeds(seeds(*n));
    let single = Need::of(feed, [best_single(setting)]).seeds(SINGLE_SEEDS);
    let sound = Need::of(feed, [eight_sound(setting, FLAGS)]);
    tables.iter().map(of).chain([single, sound]).collect()
}

pub(super) fn rows(results: &Results, feed: Feed, setting: Setting, tables: &[u32]) -> Vec<Row> {
    let row = |program| {
        let single = parts(results, program, feed, &best_single(setting), SINGLE_SEEDS)?;
        let of = |n: &u32| {
            let spec = design(*n, setting, FLAGS);
            Some((*n, parts(results, program, feed, &spec, seeds(*n))?))
        };
        Some(Row {
            program,
            single,
            multiple: tables.iter().map(of).collect::<Option<_>>()?,
            eight: parts(results, program, feed, &eight_sound(setting, FLAGS), 1)?,
        })
    };
    results.programs(feed).into_iter().filter_map(row).collect()
}

pub(super) fn findings(results: &Results, feed: Feed, tables: &[u32], most: [f64; 2]) -> Findings {
    let mut found = Findings::default();
    let mut table = parts_table();
    let mut panels = Vec::new();
    for (setting, most) in SETTINGS.into_iter().zip(most) {
        let rows = rows(results, feed, setting, tables);
        let mut groups = Vec::new();
        for row in &rows {
            parts_row(
                &mut table,
                row.program,
                &best_single(setting),
                SINGLE_SEEDS,
                row.single,
            );
            for (n, p) in &row.multiple {
                parts_row(
                    &mut table,
                    row.program,
                    &design(*n, setting, FLAGS),
                    seeds(*n),
                    *p,
                );
            }
            let single = Stack {
                label: "BSH".into(),
                parts: row.single,
            };
            let sound = eight_sound(setting, FLAGS);
            parts_row(&mut table, row.program, &sound, 1, row.eight);
            let multiple = row.multiple.iter().map(|(n, parts)| Stack {
                label: n.to_string(),
                parts: *parts,
            });
            let mut stacks: Vec<_> = [single].into_iter().chain(multiple).collect();
            let at_eight = tables.iter().position(|n| *n == 8);
            let eight = Stack {
                label: "8 :mul".into(),
                parts: row.eight,
            };
            stacks.insert(at_eight.map_or(stacks.len(), |at| at + 2), eight);
            groups.push((row.program.to_owned(), stacks));
        }
        panels.push(stacks(setting.title, groups, most));
        judge(&mut found, setting, &rows, tables);
    }
    found.tables.push(table);
    let of = if feed == Feed::Values {
        "loaded values"
    } else {
        "branches"
    };
    found.figures.push((
        String::new(),
        Figure {
            title: format!("Error of 2048 counters by number of tables (C1R0P1), and of the best single hash (BSH), {of}"),
            panels,
            columns: 1,
            height: 320.0,
        },
    ));
    found.notes.push("Designs of one table are means over three seeds: a single hash is a lottery over its table.".into());
    found.notes.push(EIGHT.into());
    found
}

fn judge(found: &mut Findings, setting: Setting, rows: &[Row], tables: &[u32]) {
    let average = |n: u32| mean(rows.iter().map(|r| r.of(n)));
    let single = mean(rows.iter().map(|r| r.single.total()));
    let said: Vec<_> = tables
        .iter()
        .map(|n| format!("{n}: {}", percent(average(*n))))
        .collect();
    let cases: Vec<_> = rows
        .iter()
        .map(|r| (r.program, r.of(4) <= r.single.total() + 1e-9))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Four tables (C1R0P1, 2K counters) beat the best single hash.",
        format!(
            "At {}, mean over programs: {} against {}; not worse on {n} of {}{not}.",
            setting.spec,
            percent(average(4)),
            percent(single),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let best = tables
        .iter()
        .copied()
        .min_by(|a, b| average(*a).total_cmp(&average(*b)));
    // What is below a twentieth of a percent more is as good for any use.
    let near = best.is_some_and(|b| average(4) <= average(b) + 0.05);
    found.claim(
        "Four tables are the best number.",
        format!(
            "At {}, mean by tables {} (with the paper's hash 8: {}); the best is {} (rule: four is within 0.05 points of it).",
            setting.spec,
            said.join(", "),
            percent(mean(rows.iter().map(|r| r.papers(8)))),
            best.unwrap_or(0)
        ),
        Verdict::when((!rows.is_empty()).then_some(near)),
    );
    let beyond: Vec<_> = tables.iter().copied().filter(|n| *n > 4).collect();
    let worse = beyond.iter().filter(|n| average(**n) > average(4)).count();
    found.claim(
        "More than four tables are worse: false positives by aliasing.",
        format!(
            "At {}, worse on average with {worse} of {} larger numbers.",
            setting.spec,
            beyond.len()
        ),
        if rows.is_empty() {
            Verdict::NoData
        } else {
            Verdict::of_cases(worse, beyond.len())
        },
    );
    let below = rows.iter().filter(|r| r.of(4) < 1.0).count();
    found.claim(
        "The average error of the best design is below 1 %.",
        format!(
            "At {}, {} on average with four tables; below 1 % on {below} of {}.",
            setting.spec,
            percent(average(4)),
            rows.len()
        ),
        Verdict::when((!rows.is_empty()).then(|| average(4) < 1.0)),
    );
}
