//! Dynamo figure 9: programs compiled at rising levels, natively and under Dynamo.

use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::{KERNELS, LEVELS, geomean};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dynamo-fig9",
    paper: Paper::Dynamo,
    title: "Figure 9: gcc -O0 to -O3 and profile feedback, natively and under trommel run",
    needs: Vec::new,
    run,
};

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &["program", "level", "native s", "run s", "run ÷ native"],
    );
    let mut groups = Vec::new();
    // By level, of each program: native and under control, against native -O2.
    let mut relative: Vec<Vec<(f64, f64)>> = vec![Vec::new(); LEVELS.len()];
    let kernels = if lab.is_quick() {
        &KERNELS[..1]
    } else {
        &KERNELS
    };
    for kernel in kernels {
        let times = LEVELS.map(|level| {
            let subject = lab.build(kernel, level)?;
            let times = lab.times(&subject, &[""])?;
            Some((times[0], times[1]))
        });
        let [_, _, Some((base, _)), ..] = times else {
            continue;
        };
        let mut bars = Vec::new();
        for (n, (level, time)) in LEVELS.iter().zip(times).enumerate() {
            let Some((native, run)) = time else { continue };
            table.row([
                kernel.name.into(),
                (*level).into(),
                native.into(),
                run.into(),
                (run / native).into(),
            ]);
            relative[n].push((native / base, run / base));
            for (series, time) in [(0, native), (1, run)] {
                bars.push(Bar {
                    label: if series == 0 {
                        (*level).into()
                    } else {
                        String::new()
                    },
                    parts: vec![(series, time)],
                });
            }
        }
        groups.push(Group {
            label: kernel.name.into(),
            bars,
        });
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "CPU time by level of optimisation".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear(""),
                y: Axis::linear("CPU time in s"),
                content: Content::Bars(Bars {
                    series: vec!["native".into(), "trommel run".into()],
                    groups,
                    numbers: false,
                }),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 340.0,
        },
    ));
    let native = |n: usize| mean(&relative[n], |r| r.0);
    let under = |n: usize| mean(&relative[n], |r| r.1);
    let shown = |m: Option<f64>| m.map_or("–".into(), |m| format!("{m:.2}"));
    found.claim(
        "Programs compiled as usual (+O2) come to the level of the highest (+O4) under Dynamo.",
        format!(
            "Against native -O2, -O3 takes {} natively, and -O2 {} under trommel run (rule: at most as long).",
            shown(native(3)),
            shown(under(2))
        ),
        Verdict::when(native(3).zip(under(2)).map(|(a, b)| b <= a)),
    );
    found.claim(
        "Highly optimised programs (+O4) become faster too.",
        format!(
            "-O3: {} natively, {} under trommel run.",
            shown(native(3)),
            shown(under(3))
        ),
        Verdict::when(native(3).zip(under(3)).map(|(a, b)| b < a)),
    );
    found.claim(
        "With profile feedback the gain disappears on average.",
        format!(
            "{} natively, {} under trommel run (rule: no gain).",
            shown(native(4)),
            shown(under(4))
        ),
        Verdict::when(native(4).zip(under(4)).map(|(a, b)| b >= a)),
    );
    found.claim(
        "(Ours.) Code that was not optimised has the most to gain.",
        format!(
            "-O0: {} natively, {} under trommel run (rule: a gain).",
            shown(native(0)),
            shown(under(0))
        ),
        Verdict::when(native(0).zip(under(0)).map(|(a, b)| b < a)),
    );
    found.notes.push(
        "+P is gcc -fprofile-generate, a run of a tenth of the work, -fprofile-use. CPU time of the whole process tree, start-up and trommel included, the least of three rounds that take turns; figures differ from run to run.".into(),
    );
    found
}

fn mean(list: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> Option<f64> {
    (!list.is_empty()).then(|| geomean(list.iter().map(of)))
}
