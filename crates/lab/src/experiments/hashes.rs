//! Hash functions: the papers' and two cheap ones, where tables decide the error.
//!
//! The papers use one hash (randomize, flip, xor-fold) and leave others to future work. With one table the result
//! depends on its random bytes, so all designs are judged over three seeds. `:crc` is linear: its seed changes nothing.

use trommel_compress::Spec;

use super::compressors::SEEDS;
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hashes",
    paper: Paper::Ours,
    title: "Hash functions: the papers', multiplication and CRC",
    needs: || {
        let of_design = |design| HASHES.map(move |hash| spec(design, hash));
        vec![Need::of(Feed::Values, DESIGNS.into_iter().flat_map(of_design)).seeds(SEEDS)]
    },
    run,
};

/// In a spec, and in titles.
const HASHES: [(&str, &str); 3] = [
    ("", "the papers'"),
    (":mul", "multiplication"),
    (":crc", "CRC"),
];

/// Parts of a spec before the hash, and after it.
const DESIGNS: [(&str, &str); 3] = [
    ("H", "[P256]2048"),
    ("M1", "[10k,1%]2048:C0R1P1"),
    ("M4", "[10k,1%]2048:C1R0P1"),
];

fn spec((before, after): (&str, &str), (hash, _): (&str, &str)) -> String {
    format!("{before}{hash}{after}")
}

/// The error of a spec with each seed, and the spread of those: the greatest less the least.
struct Errors {
    mean: f64,
    spread: f64,
}

fn errors(results: &Results, program: &str, spec: &str) -> Option<Errors> {
    let of_seed = |seed| {
        let e = results.get(program, Feed::Values, spec, seed)?;
        e.error.ok()
    };
    let all: Vec<f64> = (1..=SEEDS).map(of_seed).collect::<Option<_>>()?;
    let most = all.iter().copied().fold(f64::MIN, f64::max);
    let least = all.iter().copied().fold(f64::MAX, f64::min);
    Some(Errors {
        mean: mean(all),
        spread: most - least,
    })
}

/// A program's errors with each hash, of one design.
type Row = (&'static str, [Errors; HASHES.len()]);

fn rows(results: &Results, design: (&str, &str)) -> Vec<Row> {
    let of = |program: &'static str| {
        let [papers, mul, crc] = HASHES.map(|h| errors(results, program, &spec(design, h)));
        Some((program, [papers?, mul?, crc?]))
    };
    results
        .programs(Feed::Values)
        .into_iter()
        .filter_map(of)
        .collect()
}

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &["program", "spec", "error in %", "spread over seeds in %"],
    );
    let mut panels = Vec::new();
    for design in DESIGNS {
        let rows = rows(results, design);
        for (program, errors) in &rows {
            for (hash, errors) in HASHES.into_iter().zip(errors) {
                let spec = spec(design, hash).parse::<Spec>();
                table.row([
                    (*program).into(),
                    spec.map(|s| s.to_string()).unwrap_or_default().into(),
                    errors.mean.into(),
                    errors.spread.into(),
                ]);
            }
        }
        panels.push(panel(&format!("{}{}", design.0, design.1), &rows));
        judge(&mut found, design, &rows);
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Errors by hash function, loaded values, means over three seeds".into(),
            panels,
            columns: 1,
            height: 210.0,
        },
    ));
    found
}

fn panel(title: &str, rows: &[Row]) -> Panel {
    let bar = |(n, errors): (usize, &Errors)| Bar {
        label: String::new(),
        parts: vec![(n, errors.mean)],
    };
    let group = |(program, errors): &Row| Group {
        label: (*program).into(),
        bars: errors.iter().enumerate().map(bar).collect(),
    };
    Panel {
        title: title.into(),
        x: Axis::linear(""),
        y: Axis::linear("error in %"),
        content: Content::Bars(Bars {
            series: HASHES.iter().map(|h| h.1.into()).collect(),
            groups: rows.iter().map(group).collect(),
            numbers: true,
        }),
        marks: Vec::new(),
    }
}

/// Two hashes are equally good on a program if their errors differ by less than a tenth, or by less than the
/// papers' hash does over its own seeds.
fn judge(found: &mut Findings, design: (&str, &str), rows: &[Row]) {
    let equal = |errors: &[Errors; 3], other: usize| {
        let apart = (errors[other].mean - errors[0].mean).max(0.0);
        apart <= (0.1 * errors[0].mean).max(errors[0].spread)
    };
    let average = |hash: usize| percent(mean(rows.iter().map(|r| r.1[hash].mean)));
    for other in [1, 2] {
        let cases: Vec<_> = rows
            .iter()
            .map(|(p, errors)| (*p, equal(errors, other)))
            .collect();
        let (n, not) = exceptions(&cases);
        found.claim(
            match other {
                1 => "Multiplication serves as well as the papers' hash (not the papers' claim).",
                _ => "A CRC serves as well as the papers' hash (not the papers' claim).",
            },
            format!(
                "{}{}: on {n} of {}{not}; {} against {} on average (rule: at most a tenth worse, or within the spread of the papers' over seeds).",
                design.0, design.1, cases.len(), average(other), average(0)
            ),
            Verdict::of_cases(n, cases.len()),
        );
    }
}
