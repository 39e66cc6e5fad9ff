//! Dynamo figure 8: the part of the time that is spent in the runtime, and bail-out.

use crate::Lab;
use crate::experiment::{Experiment, Paper, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Content, Figure, Line, Panel};
use crate::runs::Done;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dynamo-fig8",
    paper: Paper::Dynamo,
    title: "Figure 8: overhead over time, with and without bail-out",
    needs: Vec::new,
    run,
};

/// Seconds of CPU time that are looked at together.
const STEP: f64 = 0.02;
/// Program, options, and the label; gcc stands for go, the others for m88ksim.
const RUNS: [(&str, &str, &str); 4] = [
    ("gcc", "--no-bail-out", "gcc"),
    ("gcc", "--no-retake", "gcc (with bail-out)"),
    ("lua", "", "lua"),
    ("bzip2", "", "bzip2"),
];
/// Programs that repeat small work.
const STEADY: [&str; 2] = ["lua", "bzip2"];

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new("", &["program", "CPU s", "time in the runtime in %"]);
    let mut lines = Vec::new();
    let mut watched = Vec::new();
    let runs: Vec<(&str, &str, String)> = match lab.own() {
        None => RUNS
            .map(|(name, options, label)| (name, options, label.to_owned()))
            .into(),
        Some(name) => vec![
            (name, "--no-bail-out", name.to_owned()),
            (name, "--no-retake", format!("{name} (with bail-out)")),
        ],
    };
    for (program, options, label) in runs {
        let done = lab.subject(program).and_then(|s| lab.watch(&s, options));
        let Some(done) = done else { continue };
        let mut points = Vec::new();
        for (cpu, _, part) in done.rates(STEP) {
            table.row([label.as_str().into(), cpu.into(), (100.0 * part).into()]);
            points.push((cpu, 100.0 * part));
        }
        lines.push(Line {
            label: label.clone(),
            points,
            marked: false,
        });
        watched.push((label, done));
    }
    found.tables.push(table);
    found.figures.push((
        String::new(),
        Figure {
            title: "Time in the runtime".into(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear("CPU time in s"),
                y: Axis::linear("time in the runtime in %"),
                content: Content::Lines(lines),
                marks: Vec::new(),
            }],
            columns: 1,
            height: 320.0,
        },
    ));
    let of = |label: &str| watched.iter().find(|(l, _)| l == label).map(|(_, d)| d);
    match lab.own() {
        None => {
            detached(&mut found, "gcc's cc1", of(RUNS[1].2));
            let steady = STEADY.iter().filter_map(|l| Some((*l, of(l)?)));
            kept(&mut found, &steady.collect::<Vec<_>>());
        }
        // One of both claims is about it: by which the engine took it for.
        Some(name) => match of(&format!("{name} (with bail-out)")) {
            Some(done) if done.bailed_out => detached(&mut found, name, Some(done)),
            Some(done) => kept(&mut found, &[(name, done)]),
            None => kept(&mut found, &[]),
        },
    }
    found
        .notes
        .push("Times are of one run on this machine and differ from run to run.".into());
    found
}

/// Judges a program that is to be detached.
fn detached(found: &mut Findings, name: &str, gone: Option<&Done>) {
    let late = gone.map(|done| {
        let rates = done.rates(STEP);
        let late = &rates[rates.len().div_ceil(2)..];
        late.iter().map(|(.., part)| part).sum::<f64>() / late.len().max(1) as f64
    });
    found.claim(
        "A program without a stable working set is detached, and has no overhead from then on.",
        format!(
            "{name} is {}detached; in the second half of its run {} of its time is spent in the runtime (rule: detached, and less than 1 %).",
            if gone.is_some_and(|d| d.bailed_out) { "" } else { "not " },
            late.map_or("–".into(), |part| percent(100.0 * part)),
        ),
        Verdict::when(gone.zip(late).map(|(done, late)| done.bailed_out && late < 0.01)),
    );
}

/// Judges programs that are to be kept.
fn kept(found: &mut Findings, steady: &[(&str, &Done)]) {
    let holds = |done: &Done| !done.bailed_out && done.overhead() < 0.05;
    let each = steady.iter().map(|(label, done)| {
        let kept = if done.bailed_out { "detached" } else { "kept" };
        format!("{label} is {kept}, {}", percent(100.0 * done.overhead()))
    });
    found.claim(
        "The overhead of a program with a stable working set drops, and it is kept.",
        format!(
            "Of its time in the runtime: {} (rule: kept, and less than 5 %).",
            each.collect::<Vec<_>>().join("; ")
        ),
        Verdict::of_cases(
            steady.iter().filter(|(_, d)| holds(d)).count(),
            steady.len(),
        ),
    );
}
