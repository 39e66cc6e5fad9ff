//! Stratified figure 9: the number of substreams, on gcc and li (here Lua).

use super::compressors::{SEEDS, curve, error_line, up_to};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Panel};
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-9",
    paper: Paper::Stratified,
    title: "Figure 9: sensitivity to the number of counters (the paper: of gcc and li)",
    needs: || {
        vec![
            Need::of(Feed::Values, SIZES)
                .seeds(SEEDS)
                .on(&["gcc", "lua"]),
        ]
    },
    run,
};

const SIZES: [&str; 4] = ["H[P256]512", "H[P256]1024", "H[P256]2048", "H[P256]4096"];
const LIMIT: u64 = 4_000_000;

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &["program", "compressor", "events", "error in %"]);
    let (mut panels, mut late, mut early) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = 0;
    let subjects = match lab.own() {
        Some(name) => vec![(name, name)],
        None => vec![("gcc", "gcc"), ("lua", "li (eight queens in Lua)")],
    };
    for (name, title) in subjects {
        let curves = SIZES.map(|spec| curve(results, name, spec));
        if up_to(&curves[0], LIMIT).is_empty() {
            continue;
        }
        let short: Vec<_> = curves.iter().map(|c| up_to(c, LIMIT)).collect();
        for (spec, curve) in SIZES.iter().zip(&short) {
            for point in *curve {
                table.row([
                    name.into(),
                    (*spec).into(),
                    point.events.into(),
                    point.error.into(),
                ]);
            }
        }
        let at = |n: usize| short.iter().map(|c| c[n].error).collect::<Vec<f64>>();
        last = last.max(short[0].last().map_or(0, |point| point.events));
        late.push((name, at(short[0].len() - 1)));
        early.push((name, at(0)));
        let lines = SIZES
            .iter()
            .zip(&short)
            .map(|(spec, curve)| error_line(spec, curve));
        panels.push(Panel {
            title: title.into(),
            x: Axis::linear("load events"),
            y: Axis::linear("error in %"),
            content: Content::Lines(lines.collect()),
            marks: Vec::new(),
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Error by number of substreams".into(),
            panels,
            columns: 2,
            height: 320.0,
        },
    ));
    let said = |list: &[(&str, Vec<f64>)]| -> String {
        let each = list.iter().map(|(name, errors)| {
            let errors: Vec<_> = errors.iter().map(|e| percent(*e)).collect();
            format!("{name} {}", errors.join(", "))
        });
        each.collect::<Vec<_>>().join("; ")
    };
    // Differences below a twentieth are within those between seeds.
    let falls = |errors: &[f64]| errors.windows(2).all(|w| w[1] <= 1.05 * w[0]);
    let cases: Vec<_> = late.iter().map(|(name, e)| (*name, falls(e))).collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "More counters give smaller errors once enough events have been seen.",
        format!(
            "At {} events, 512 to 4096 counters: {}. Falling on {n} of {}{not}.",
            crate::plot::short(last as f64),
            said(&late),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let some = early.iter().any(|(_, e)| e[0] < e[3]);
    found.claim(
        "In the first phase fewer counters are better on some programs (li), as they hold back fewer events.",
        format!("At the first checkpoint: {} (rule: on one program 512 beats 4096).", said(&early)),
        Verdict::when((!early.is_empty()).then_some(some)),
    );
    found
}
