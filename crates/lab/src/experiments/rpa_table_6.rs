//! Relational profiling table 6: instructions and cycles per profiled instruction.

use super::rpa::{NOTE, RATES, each, figure, line, runs};
use crate::Lab;
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::machines::Setup;
use crate::plan::Results;
use crate::plot::Axis;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rpa-table6",
    paper: Paper::Relational,
    title: "Table 6: instructions and cycles per sample, by the rate at which branches are sampled",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut setups = RATES.map(Setup::unrestricted).to_vec();
    let four = [32, 256].map(|rate| Setup::eight(4, rate));
    setups.extend(four);
    setups.extend(four.map(|setup| Setup {
        served: false,
        ..setup
    }));
    let all = runs(lab, results, &setups);
    let mut columns = vec!["program".to_owned()];
    columns.extend(RATES.map(|r| format!("instructions per sample, 1/{r}")));
    columns.extend(RATES.map(|r| format!("cycles per sample, 1/{r}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("", &columns);
    let mut panels = Vec::new();
    let mut loads: Vec<(&str, [[f64; 4]; 2])> = Vec::new();
    for (name, runs) in &all {
        let per = |n: usize, what: u64| what as f64 / runs[n].profile.records.max(1) as f64;
        let load = [
            std::array::from_fn(|n| per(n, runs[n].core.instructions)),
            std::array::from_fn(|n| per(n, runs[n].core.cycles)),
        ];
        let cells = load.iter().flatten().map(|v| Cell::from(*v));
        table.row(std::iter::once((*name).into()).chain(cells));
        let points = |of: [f64; 4]| RATES.into_iter().map(f64::from).zip(of).collect();
        panels.push((
            (*name).to_owned(),
            vec![
                line("instructions per sample", points(load[0])),
                line("cycles per sample", points(load[1])),
            ],
        ));
        loads.push((name, load));
    }
    found.tables.push(table);
    let axes = [Axis::log("one branch in"), Axis::log("per sample")];
    figure(
        &mut found,
        "Instructions and cycles for each profiled instruction",
        axes,
        panels,
    );
    let both = |of: &[[f64; 4]; 2]| format!("{:.0}/{:.0}", of[0][3], of[1][3]);
    let cases: Vec<_> = loads
        .iter()
        .map(|(name, of)| (*name, (1.6..=3.2).contains(&(of[0][3] / of[1][3]))))
        .collect();
    let (n, not) = exceptions(&cases);
    found.claim(
        "Instructions per sample are about twice the cycles per sample, as a little more than two instructions are \
         executed in a cycle (2.3 to 3.0 in the table).",
        format!(
            "At 1/256: {}; between 1.6 and 3.2 times on {n} of {}{not} (rule: all).",
            each(&loads, both),
            cases.len()
        ),
        Verdict::of_cases(n, cases.len()),
    );
    let at = |n: usize| loads.iter().map(move |l| l.1[0][n]);
    let (least, most) = (
        at(3).fold(f64::NAN, f64::min),
        at(3).fold(f64::NAN, f64::max),
    );
    found.claim(
        "Programs differ by a factor of twenty at one branch in 256: 42 to 869 instructions per sample.",
        format!("{least:.0} to {most:.0}, a factor of {:.0} (rule: more than five).", most / least),
        Verdict::when((!loads.is_empty()).then_some(most > 5.0 * least)),
    );
    let busiest = all
        .iter()
        .zip(&loads)
        .min_by(|a, b| a.1.1[1][3].total_cmp(&b.1.1[1][3]));
    found.claim(
        "A program with a sample every 15 cycles can be profiled with four networks (1.7 % of its cycles stalled); at higher \
         rates profiling begins to stall the processor.",
        busiest.map_or("–".into(), |((name, runs), (_, load))| {
            format!(
                "The most demanding is {name}: a sample every {:.0} cycles at 1/256 and {:.0} at 1/32, where {:.2} % and \
                 {:.2} % of cycles are stalled, {:.2} % and {:.2} % if messages are read at once (rule: less than 1.7 % and, at 1/32, more than that).",
                load[1][3],
                load[1][0],
                100.0 * runs[5].stalled(),
                100.0 * runs[4].stalled(),
                100.0 * runs[7].stalled(),
                100.0 * runs[6].stalled()
            )
        }),
        Verdict::when(busiest.map(|((_, runs), _)| {
            runs[5].stalled() < 0.017 && runs[4].stalled() > runs[5].stalled()
        })),
    );
    found.notes.push(NOTE.into());
    found
}
