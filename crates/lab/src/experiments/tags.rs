//! Tag bits and ways of the tagged compressor.
//!
//! The stratified paper (section 5.4) shows tags of 2 bits in two ways only, and says that its results call these
//! best. Here are other widths, and other ways for two of them, with the bytes that each takes.

use super::compressors::{SEEDS, T};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tags",
    paper: Paper::Ours,
    title: "The tagged compressor: tags of 1 to 8 bits, one to four ways",
    needs: || vec![Need::of(Feed::Values, DESIGNS.map(spec)).seeds(SEEDS)],
    run,
};

/// Ways and tag bits.
const DESIGNS: [(u32, u32); 10] = [
    (2, 1),
    (2, 2),
    (2, 3),
    (2, 4),
    (2, 6),
    (2, 8),
    (1, 2),
    (1, 4),
    (4, 2),
    (4, 4),
];

fn spec((ways, bits): (u32, u32)) -> String {
    format!("T[256]2048/{ways}way/{bits}bit")
}

/// A program's error and messages with each design at the end of the stream, means over seeds.
struct Row {
    program: &'static str,
    of: Vec<(f64, f64)>,
}

impl Row {
    fn error(&self, design: (u32, u32)) -> f64 {
        let n = DESIGNS.iter().position(|d| *d == design);
        n.map_or(f64::NAN, |n| self.of[n].0)
    }
}

fn rows(results: &Results) -> Vec<Row> {
    let row = |program: &'static str| {
        let of = |design: &(u32, u32)| {
            let mean = |figure: fn(&trommel_profile::accuracy::Evaluation) -> f64| {
                results.mean(program, Feed::Values, &spec(*design), SEEDS, figure)
            };
            let error = mean(|e| e.error.unwrap_or(f64::NAN))?;
            Some((error, mean(|e| e.messages as f64)?))
        };
        let of: Option<Vec<_>> = DESIGNS.iter().map(of).collect();
        Some(Row { program, of: of? })
    };
    let programs = results.programs(Feed::Values).into_iter();
    // Where no tuple passes the filter there is nothing to compare.
    let judged = |row: &Row| row.of.iter().all(|(error, _)| error.is_finite());
    programs.filter_map(row).filter(judged).collect()
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let rows = rows(results);
    let mut table = Table::new("", &["program", "spec", "bytes", "error in %", "messages"]);
    for row in &rows {
        for (design, (error, messages)) in DESIGNS.iter().zip(&row.of) {
            let spec = spec(*design);
            let bytes = spec
                .parse()
                .ok()
                .and_then(|s: trommel_compress::Spec| s.bytes());
            table.row([
                row.program.into(),
                spec.into(),
                bytes.into(),
                (*error).into(),
                (*messages).into(),
            ]);
        }
    }
    found.tables.push(table);
    let line = |row: &Row| Line {
        label: row.program.into(),
        points: DESIGNS
            .iter()
            .filter(|d| d.0 == 2)
            .map(|d| (f64::from(d.1), row.error(*d)))
            .collect(),
        marked: true,
    };
    found.figures.push((
        String::new(),
        Figure {
            title: "Tagged compressor, two ways, loaded values".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear("bits of a tag"),
                y: Axis::log("error in %"),
                content: Content::Lines(rows.iter().map(line).collect()),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    widths(&mut found, &rows);
    ways(&mut found, &rows);
    found.notes.push(format!(
        "2048 entries and a hit limit of 256, as {T} has. Errors are means over {SEEDS} seeds at the end of the stream."
    ));
    found
}

/// The mean error of a design over programs.
fn average(rows: &[Row], design: (u32, u32)) -> f64 {
    mean(rows.iter().map(|r| r.error(design)))
}

fn widths(found: &mut Findings, rows: &[Row]) {
    let two: Vec<_> = DESIGNS.into_iter().filter(|d| d.0 == 2).collect();
    let said = two
        .iter()
        .map(|d| format!("{} {}", d.1, percent(average(rows, *d))));
    let best = two
        .iter()
        .copied()
        .min_by(|a, b| average(rows, *a).total_cmp(&average(rows, *b)));
    found.claim(
        "Tags of 2 bits are the best.",
        format!(
            "Mean error by bits of a tag: {}; best with {} (rule: 2 is).",
            said.collect::<Vec<_>>().join(", "),
            best.map_or(0, |d| d.1)
        ),
        Verdict::when((!rows.is_empty()).then_some(best == Some((2, 2)))),
    );
    let cases: Vec<_> = rows
        .iter()
        .map(|r| (r.program, r.error((2, 4)) <= r.error((2, 2))))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Tags of 4 bits are at least as good as tags of 2 (not the paper's claim).",
        format!(
            "On {n} of {}{not}: {} against {} on average (rule: all).",
            cases.len(),
            percent(average(rows, (2, 4))),
            percent(average(rows, (2, 2)))
        ),
        Verdict::of_cases(n, cases.len()),
    );
}

fn ways(found: &mut Findings, rows: &[Row]) {
    for (bits, claim) in [
        (
            2,
            "With tags of 2 bits, two ways are better than one (not the paper's claim).",
        ),
        (
            4,
            "With tags of 4 bits, four ways are better than two (not the paper's claim).",
        ),
    ] {
        let (more, fewer) = if bits == 2 { (2, 1) } else { (4, 2) };
        let better = |r: &Row| r.error((more, bits)) < r.error((fewer, bits));
        let cases: Vec<_> = rows.iter().map(|r| (r.program, better(r))).collect();
        let (n, not) = exceptions(&cases);
        let mean = |ways| percent(average(rows, (ways, bits)));
        found.claim(
            claim,
            format!(
                "On {n} of {}{not}: {} against {} on average (rule: all).",
                cases.len(),
                mean(more),
                mean(fewer)
            ),
            Verdict::of_cases(n, cases.len()),
        );
    }
}
