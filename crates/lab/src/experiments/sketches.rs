//! The sketches of the last twenty years, and a design of ours, beside multi-hash in the same bytes.
//!
//! Bytes are those of hardware, as `IntervalSpec::bytes` counts them, accumulators and tables of candidates
//! included. Sizes that must be powers of two may stay below the others'.

use trommel_compress::Spec;
use trommel_profile::accuracy::ErrorParts;

use super::intervals::{SETTINGS, Setting, Stack, parts, parts_row, parts_table, stacks};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Content, Figure};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sketches",
    paper: Paper::Ours,
    title: "Sketches beside multi-hash in the same bytes",
    needs: || {
        let specs = SETTINGS.iter().flat_map(|s| specs(*s));
        let specs: Vec<_> = specs.collect();
        FEEDS.map(|(feed, _)| Need::of(feed, specs.clone())).into()
    },
    run,
};

const FEEDS: [(Feed, &str); 2] = [(Feed::Values, "values"), (Feed::Edges, "branches")];

/// Text before and after the setting in the specs, with `@` for the entries of full tuples that
/// fill the bytes of the first one.
const DESIGNS: [(&str, &str); 9] = [
    ("M4", "2048:C1R0P1"),
    ("M2", "2048:C1R1P1"),
    ("M2", "2048:C1R1P1E2"),
    ("SS", "@:P1"),
    ("MG", "@:P1"),
    ("CM4", "2048:C1P1"),
    ("HK2", "1024:P1"),
    ("S12", "1536:P1"),
    ("S12", "1536:P1E2"),
];
const PAPERS: usize = 0;
const SPACE_SAVING: usize = 3;
const MISRA_GRIES: usize = 4;
const COUNT_MIN: usize = 5;
const HEAVY_KEEPER: usize = 6;
const SIEVE: usize = 7;
const EARLY_SIEVE: usize = 8;

fn bytes(spec: &str) -> u64 {
    let spec: Result<Spec, _> = spec.parse();
    spec.ok().and_then(|s| s.bytes()).unwrap_or(0)
}

fn specs(setting: Setting) -> Vec<String> {
    let papers = format!("M4[{}]2048:C1R0P1", setting.spec);
    // An entry of a full tuple takes 14 bytes.
    let entries = bytes(&papers) / 14;
    DESIGNS
        .iter()
        .map(|(name, rest)| {
            let rest = rest.replace('@', &entries.to_string());
            format!("{name}[{}]{rest}", setting.spec)
        })
        .collect()
}

/// A program's errors by design.
type Row = (&'static str, Feed, Vec<ErrorParts>);

fn rows(results: &Results, setting: Setting) -> Vec<Row> {
    let specs = specs(setting);
    let of = |feed: Feed| {
        let specs = &specs;
        results.programs(feed).into_iter().filter_map(move |name| {
            let all = specs.iter().map(|s| parts(results, name, feed, s, 1));
            Some((name, feed, all.collect::<Option<_>>()?))
        })
    };
    FEEDS.into_iter().flat_map(|(feed, _)| of(feed)).collect()
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut means = Table::new(
        "means",
        &[
            "spec",
            "bytes",
            "values: error in %",
            "branches: error in %",
        ],
    );
    let mut panels = Vec::new();
    let mut tables = FEEDS.map(|(_, what)| {
        let mut table = parts_table();
        table.name = what.into();
        table
    });
    for (setting, most) in SETTINGS.into_iter().zip([12.0, 60.0]) {
        let specs = specs(setting);
        let rows = rows(results, setting);
        for ((feed, _), table) in FEEDS.iter().zip(&mut tables) {
            for (name, _, errors) in rows.iter().filter(|r| r.1 == *feed) {
                for (spec, parts) in specs.iter().zip(errors) {
                    parts_row(table, name, spec, 1, *parts);
                }
            }
        }
        let mut groups = Vec::new();
        for (n, spec) in specs.iter().enumerate() {
            let of = FEEDS.map(|(feed, _)| average(&rows, feed, n));
            means.row([
                spec.clone().into(),
                bytes(spec).into(),
                of[0].total().into(),
                of[1].total().into(),
            ]);
            let stacks = FEEDS.iter().zip(of).map(|((_, what), parts)| Stack {
                label: (*what).into(),
                parts,
            });
            let (name, rest) = DESIGNS[n];
            let flags = rest.split(':').nth(1).unwrap_or_default();
            groups.push((format!("{name} {flags}"), stacks.collect()));
        }
        let mut panel = stacks(setting.title, groups, most);
        if let Content::Bars(bars) = &mut panel.content {
            bars.numbers = true;
        }
        panels.push(panel);
        judge(&mut found, setting, &rows);
    }
    found.tables.push(means);
    found.tables.extend(tables);
    found.figures.push((
        String::new(),
        Figure {
            title: "Mean error over all programs, in the bytes of four tables of 512 counters and their accumulator"
                .into(),
            panels,
            columns: 1,
            height: 320.0,
        },
    ));
    found.notes.push(
        "M: multi-hash; SS: Space-Saving; MG: Misra–Gries; CM: count-min with a table of candidates; HK: HeavyKeeper with \
         one; S: the sieve, ours. All retain candidates, all with seed 1. The sieve was shaped on other recordings, of gcc, \
         gzip and a Lisp interpreter."
            .into(),
    );
    found
}

fn average(rows: &[Row], feed: Feed, design: usize) -> ErrorParts {
    let of = |part: fn(&ErrorParts) -> f64| {
        let here = rows.iter().filter(|r| r.1 == feed);
        mean(here.map(|r| part(&r.2[design])))
    };
    ErrorParts {
        false_positive: of(|p| p.false_positive),
        false_negative: of(|p| p.false_negative),
        neutral_positive: of(|p| p.neutral_positive),
        neutral_negative: of(|p| p.neutral_negative),
    }
}

fn judge(found: &mut Findings, setting: Setting, rows: &[Row]) {
    let of = |feed, design| average(rows, feed, design).total();
    let both = |design| mean(FEEDS.map(|(feed, _)| of(feed, design)));
    let said = |design: usize| {
        let [values, edges] = FEEDS.map(|(feed, _)| percent(of(feed, design)));
        format!("{values} and {edges}")
    };
    let name = |design: usize| specs(setting).swap_remove(design);
    let data = !rows.is_empty();
    let at = setting.spec;
    let best = (0..DESIGNS.len()).min_by(|a, b| both(*a).total_cmp(&both(*b)));
    let best = best.unwrap_or(PAPERS);
    found.claim(
        "Multi-hash with four tables (C1R0) is the best use of its bytes.",
        format!(
            "At {at}, mean errors on values and branches: {}; the least mean of both has {}, {} (rule: it is the paper's design).",
            said(PAPERS), name(best), said(best)
        ),
        Verdict::when(data.then_some(best == PAPERS)),
    );
    let cases = |design: usize| -> Vec<(String, bool)> {
        let case = |r: &Row| {
            let what = FEEDS.iter().find(|f| f.0 == r.1).map_or("", |f| f.1);
            let holds = r.2[design].total() <= r.2[PAPERS].total() + 0.05;
            (format!("{}'s {what}", r.0), holds)
        };
        rows.iter().map(case).collect()
    };
    for (design, words) in [
        (
            SPACE_SAVING,
            "Space-Saving beats multi-hash in the same bytes.",
        ),
        (
            SIEVE,
            "The sieve, ours, beats multi-hash in the same bytes.",
        ),
        (
            EARLY_SIEVE,
            "The sieve with early promotion beats multi-hash in the same bytes.",
        ),
    ] {
        let cases = cases(design);
        let (n, not) = exceptions(&cases);
        found.claim(
            words,
            format!(
                "At {at}, mean errors {} against {}; not worse by 0.05 points on {n} of {} streams{not} (rule: all).",
                said(design),
                said(PAPERS),
                cases.len()
            ),
            match Verdict::of_cases(n, cases.len()) {
                Verdict::Holds | Verdict::Partly if both(design) > both(PAPERS) => Verdict::Fails,
                verdict => verdict,
            },
        );
    }
    let missed = |design: usize| {
        let parts = FEEDS.map(|(feed, _)| average(rows, feed, design));
        let lost = |p: &ErrorParts| p.false_negative + p.neutral_negative;
        parts.iter().map(lost).sum::<f64>() / parts.iter().map(ErrorParts::total).sum::<f64>()
    };
    let low = [MISRA_GRIES, HEAVY_KEEPER];
    found.claim(
        "Misra–Gries and HeavyKeeper, which count too low, lose to multi-hash.",
        format!(
            "At {at}: {} and {}; {} and {} of it candidates missed or counted too low.",
            said(low[0]),
            said(low[1]),
            percent(100.0 * missed(low[0])),
            percent(100.0 * missed(low[1]))
        ),
        Verdict::when(data.then(|| low.iter().all(|d| both(*d) > both(PAPERS)))),
    );
    found.claim(
        "Count-min with conservative update is multi-hash without shielding, and no better.",
        format!("At {at}: {} against {}.", said(COUNT_MIN), said(PAPERS)),
        Verdict::when(data.then(|| both(COUNT_MIN) >= both(PAPERS) - 0.05)),
    );
}
