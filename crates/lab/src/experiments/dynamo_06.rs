//! Dynamo figure 6: the rate at which traces are selected, and what a change of the working set looks like.

use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::runs::Done;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dynamo-fig6",
    paper: Paper::Dynamo,
    title: "Figure 6: traces selected over time, and a working set that changes",
    needs: Vec::new,
    run,
};

/// A program that turns to other work twice, and one that does not.
const PHASES: &str = include_str!("../dynamo/phases.pl");
/// Seconds of CPU time that are looked at together.
const STEP: f64 = 0.02;
/// A flush is where traces are made when it is this near, in seconds.
const NEAR: f64 = 0.06;

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &["program", "CPU s", "traces", "flushes so far"]);
    let subjects = match lab.own() {
        Some(name) => vec![(name, lab.subject(name))],
        None => {
            let changing = lab.script("perl", "phases.pl", PHASES);
            Vec::from([(CHANGING, changing), (STEADY, lab.subject("lua"))])
        }
    };
    let mut panels = Vec::new();
    let mut watched: Vec<(&str, Done)> = Vec::new();
    for (title, subject) in subjects {
        let done = subject.and_then(|s| lab.watch(&s, "--no-bail-out"));
        let Some(done) = done else { continue };
        let rates = done.rates(STEP);
        for (cpu, traces, _) in &rates {
            let flushes = flushes_until(&done, *cpu);
            table.row([
                title.into(),
                (*cpu).into(),
                (*traces).into(),
                flushes.into(),
            ]);
        }
        let most = rates.iter().map(|r| r.1).fold(1.0, f64::max);
        let mut lines = vec![Line {
            label: "traces selected".into(),
            points: rates
                .iter()
                .map(|(cpu, traces, _)| (*cpu, *traces))
                .collect(),
            marked: false,
        }];
        lines.push(Line {
            label: "flush".into(),
            points: flushes(&done)
                .into_iter()
                .flat_map(|cpu| [(cpu, 0.0), (cpu, most), (cpu, 0.0)])
                .collect(),
            marked: false,
        });
        panels.push(Panel {
            title: title.into(),
            x: Axis::linear("CPU time in s"),
            y: Axis::linear("traces in 20 ms"),
            content: Content::Lines(lines),
            marks: Vec::new(),
        });
        watched.push((title, done));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Traces selected over time".into(),
            panels,
            columns: 1,
            height: 220.0,
        },
    ));
    let of = |title: &str| watched.iter().find(|(t, _)| *t == title).map(|(_, d)| d);
    changes(&mut found, of(lab.own().unwrap_or(CHANGING)));
    // Of a program of the user's own nobody knows that its working set is steady.
    if lab.own().is_none() {
        let steady = of(STEADY).map(|done| flushes(done).len());
        found.claim(
            "A program with a steady working set is not flushed.",
            format!(
                "Eight queens in Lua is flushed {} times (rule: never).",
                steady.map_or("–".to_owned(), |n| n.to_string())
            ),
            Verdict::when(steady.map(|n| n == 0)),
        );
    }
    found.notes.push(
        "Times are of one run on this machine and differ from run to run. With --no-bail-out, as the paper's figure is of a program that is kept."
            .into(),
    );
    found
}

const CHANGING: &str = "work that changes (perl)";
const STEADY: &str = "eight queens (lua)";

/// Holds each flush against the traces made near it.
fn changes(found: &mut Findings, done: Option<&Done>) {
    let changing = done.map(|done| {
        let rises = |at: f64| {
            let near = done.rates(STEP).into_iter();
            near.filter(|(cpu, ..)| (cpu - at).abs() < NEAR)
                .map(|(_, traces, _)| traces)
                .sum::<f64>()
        };
        let at = flushes(done);
        let each: Vec<f64> = at.iter().map(|at| rises(*at)).collect();
        (at, each)
    });
    let holds = changing
        .as_ref()
        .map(|(at, each)| !at.is_empty() && each.iter().all(|n| *n >= 8.0));
    let said = match &changing {
        Some((at, each)) if !at.is_empty() => {
            let list = at.iter().zip(each);
            let list: Vec<_> = list.map(|(at, n)| format!("{at:.2} s ({n:.0})")).collect();
            format!(
                "Flushed at {}: in brackets the traces made within {NEAR} s",
                list.join(", ")
            )
        }
        _ => "Never flushed".to_owned(),
    };
    found.claim(
        "A sharp rise of the rate at which traces are selected tells of a new working set, and everything is flushed there.",
        format!("{said} (rule: at least one flush, and 8 traces at each)."),
        Verdict::when(holds),
    );
}

/// Returns when flushes were, in seconds of CPU time.
fn flushes(done: &Done) -> Vec<f64> {
    let pairs = done.moments.windows(2);
    let more = pairs.filter(|pair| pair[1].flushes > pair[0].flushes);
    more.map(|pair| pair[1].cpu).collect()
}

fn flushes_until(done: &Done, cpu: f64) -> f64 {
    let until = done.moments.iter().take_while(|m| m.cpu <= cpu);
    until.last().map_or(0.0, |m| m.flushes)
}
