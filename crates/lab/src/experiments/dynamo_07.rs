//! Dynamo figure 7: speed under Dynamo, and what selection and optimisation contribute.

use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::{KERNELS, geomean};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dynamo-fig7",
    paper: Paper::Dynamo,
    title: "Figure 7: speedup over native, by what the engine does",
    needs: Vec::new,
    run,
};

const PROGRAMS: [&str; 6] = ["perl", "python", "lua", "sqlite", "gawk", "bzip2"];
/// Stress options, options, and what they show.
const WAYS: [(&str, &str); 4] = [
    ("TROMMEL_STRESS=no-traces --no-bail-out", "fragments only"),
    ("TROMMEL_STRESS=no-opt --no-bail-out", "trace selection"),
    ("--no-bail-out", "and optimisation"),
    ("", "and bail-out"),
];

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let names = WAYS.map(|(_, name)| name);
    let columns = [&["program", "native s"][..], &names].concat();
    let mut table = Table::new("", &columns);
    let own = lab.own();
    let programs: &[&str] = match &own {
        Some(name) => std::slice::from_ref(name),
        None if lab.is_quick() => &[],
        None => &PROGRAMS,
    };
    let subjects = programs.iter().filter_map(|name| lab.subject(name));
    let kernels = KERNELS.iter().filter(|_| own.is_none());
    let kernels = kernels.filter_map(|k| lab.build(k, "-O2"));
    let options = WAYS.map(|(options, _)| options);
    let mut groups = Vec::new();
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    for subject in subjects.chain(kernels) {
        let Some(times) = lab.times(&subject, &options) else {
            continue;
        };
        let speedups: Vec<f64> = times[1..]
            .iter()
            .map(|t| 100.0 * (times[0] / t - 1.0))
            .collect();
        let cells = speedups.iter().map(|s| (*s).into());
        table.row(
            [subject.name.as_str().into(), times[0].into()]
                .into_iter()
                .chain(cells),
        );
        let bar = |(n, time): (usize, &f64)| Bar {
            label: String::new(),
            parts: vec![(n, times[0] / time)],
        };
        groups.push(Group {
            label: subject.name.clone(),
            bars: times[1..].iter().enumerate().map(bar).collect(),
        });
        let ratios = times[1..].iter().map(|t| times[0] / t).collect();
        all.push((subject.name, ratios));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Speed against native".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("native time ÷ time under trommel run"),
                content: Content::Bars(Bars {
                    series: names.map(str::to_owned).to_vec(),
                    groups,
                    numbers: false,
                }),
                marks: vec![(1.0, "native".into())],
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    let mean = |n: usize| (!all.is_empty()).then(|| geomean(all.iter().map(|(_, r)| r[n])));
    let shown =
        |mean: Option<f64>| mean.map_or("–".into(), |m| format!("{:+.1} %", 100.0 * (m - 1.0)));
    found.claim(
        "On average programs become about 9 % faster than they are natively.",
        format!("{} (rule: more than 0).", shown(mean(2))),
        Verdict::when(mean(2).map(|m| m > 1.0)),
    );
    let best = all.iter().max_by(|a, b| a.1[2].total_cmp(&b.1[2]));
    found.claim(
        "The best become more than 22 % faster.",
        best.map_or("No data.".into(), |(name, ratios)| {
            format!(
                "{name}: {:+.1} % (rule: more than 22).",
                100.0 * (ratios[2] - 1.0)
            )
        }),
        Verdict::when(best.map(|(_, ratios)| ratios[2] > 1.22)),
    );
    let parts = mean(0)
        .zip(mean(1))
        .zip(mean(2))
        .map(|((a, b), c)| (b / a, c / b));
    found.claim(
        "Most of the gain comes from the selection of traces; their optimisation adds about 3 %.",
        parts.map_or("No data.".into(), |(selection, optimisation)| {
            format!(
                "Traces make {:+.1} % against linked fragments, their optimisation {:+.1} % (rule: the first is more, and both gain).",
                100.0 * (selection - 1.0),
                100.0 * (optimisation - 1.0)
            )
        }),
        Verdict::when(parts.map(|(s, o)| s > o && o > 1.0)),
    );
    found.claim(
        "With bail-out no program is much slower than natively.",
        format!(
            "At worst {} (rule: at most 10 % slower).",
            shown(all.iter().map(|(_, r)| r[3]).min_by(f64::total_cmp))
        ),
        Verdict::when((!all.is_empty()).then(|| all.iter().all(|(_, r)| r[3] > 1.0 / 1.1))),
    );
    found.notes.push(
        "CPU time of the whole process tree, start-up and trommel included, the least of three rounds that take turns; figures differ from run to run.".into(),
    );
    found
}
