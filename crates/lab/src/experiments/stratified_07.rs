//! Stratified figure 7: error and overhead of five compressors on gcc, over the run.

use trommel_profile::accuracy::convergence::{converges, reaches, settles};
use trommel_profile::accuracy::{Point, overhead};

use super::compressors::{FIVE, H, H512, P, R, T, curve, error_line, missing, needs, up_to};
use crate::Lab;
use crate::experiment::{Experiment, Paper, events, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Content, Figure, Line, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-7",
    paper: Paper::Stratified,
    title: "Figure 7: error and overhead of five compressors over the run (the paper: of gcc)",
    needs: || needs().into_iter().map(|n: Need| n.on(&["gcc"])).collect(),
    run,
};

/// Ends of the paper's short and long graphs.
const SHORT: u64 = 4_000_000;
const LONG: u64 = 16_000_000;

fn overhead_of(point: &Point) -> f64 {
    overhead::overhead_percent(point.messages, point.events)
}

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut table = Table::new(
        "",
        &[
            "compressor",
            "events",
            "messages",
            "error in %",
            "overhead in %",
        ],
    );
    let name = lab.subject_named("gcc");
    let curves = FIVE.map(|spec| curve(results, name, spec));
    for (spec, curve) in FIVE.iter().zip(&curves) {
        for point in curve {
            table.row([
                (*spec).into(),
                point.events.into(),
                point.messages.into(),
                point.error.into(),
                overhead_of(point).into(),
            ]);
        }
    }
    found.tables.push(table);
    let [r, p, h, h512, t] = &curves;
    if r.is_empty() {
        found.notes.push(missing(lab, results, name));
        return found;
    }
    let upto = |limit: u64| format!("up to {} events", events(Some(limit.min(last(r).events))));
    let panel = |title: &str, y: Axis, lines, marks| Panel {
        title: title.into(),
        x: Axis::linear("load events"),
        y,
        content: Content::Lines(lines),
        marks,
    };
    let errors = |limit| -> Vec<Line> {
        let both = FIVE.iter().zip(&curves);
        both.map(|(s, c)| error_line(s, up_to(c, limit))).collect()
    };
    let overheads = FIVE.iter().zip(&curves).map(|(spec, curve)| Line {
        label: (*spec).into(),
        points: up_to(curve, LONG)
            .iter()
            .map(|p| (p.events as f64, overhead_of(p)))
            .collect(),
        marked: false,
    });
    let five = || vec![(5.0, "5 %".into())];
    found.figures.push((
        String::new(),
        Figure {
            title: format!("{name}, loaded values"),
            panels: vec![
                panel(
                    &upto(SHORT),
                    Axis::linear("error in %"),
                    errors(SHORT),
                    five(),
                ),
                panel(
                    &upto(LONG),
                    Axis::linear("error in %"),
                    errors(LONG),
                    five(),
                ),
                panel(
                    "overhead",
                    Axis::linear("overhead in %"),
                    overheads.collect(),
                    Vec::new(),
                ),
            ],
            columns: 3,
            height: 320.0,
        },
    ));
    found.notes.push(
        "Curves of R and of hashed compressors are means over three seeds. Overhead is the paper's 30 cycles a \
         message, against 4 cycles an event as no cycle model is present."
            .into(),
    );
    let late = |c: &[Point]| -> Vec<f64> {
        c.iter()
            .filter(|p| p.events >= 1_000_000)
            .map(|p| p.error)
            .collect()
    };
    let apart = mean(
        late(r)
            .iter()
            .zip(late(p))
            .map(|(r, p)| (p / r - 1.0).abs()),
    );
    found.claim(
        "On real programs R and P are almost the same in error and overhead.",
        format!("{P} differs from {R} by {} of its error on average from 1M events on (rule: below 15 %).", percent(100.0 * apart)),
        Verdict::when(apart.is_finite().then_some(apart < 0.15)),
    );
    tagged(&mut found, &curves);
    stratified(&mut found, r, h);
    let (end, half) = (last(r), last(h512));
    let messages = half.messages as f64 / end.messages.max(1) as f64;
    found.claim(
        "H[P512]2048 is as accurate as R256 at half the overhead.",
        format!(
            "At the end {H512} has {} with {:.2} times the messages of {R}, which has {} (rule: error at most a tenth higher, messages at most 0.6 times).",
            percent(half.error), messages, percent(end.error)
        ),
        Verdict::when(Some(half.error <= 1.1 * end.error && messages <= 0.6)),
    );
    let stable = [r, h, t].map(|c| converges(c, 0.2));
    found.claim(
        "The stratified and the tagged compressor reach their final errors sooner than R.",
        format!(
            "Within a fifth of the final error for good: {R} after {}, {H} after {}, {T} after {}.",
            events(stable[0]),
            events(stable[1]),
            events(stable[2])
        ),
        Verdict::when(Some(stable[1] < stable[0] && stable[2] < stable[0])),
    );
    found
}

fn last(curve: &[Point]) -> Point {
    curve.last().copied().unwrap_or(Point {
        events: 0,
        messages: 0,
        error: f64::NAN,
        tuples: 0,
        loads: 0,
        coverage: 0.0,
    })
}

fn tagged(found: &mut Findings, curves: &[Vec<Point>; 5]) {
    let t = &curves[4];
    let best = |n: usize| curves.iter().all(|c| c[n].error >= t[n].error - 1e-9);
    let times = (0..t.len()).filter(|n| best(*n)).count();
    let until = t
        .iter()
        .enumerate()
        .filter(|(n, _)| best(*n))
        .map(|(_, p)| p.events)
        .max();
    found.claim(
        "The tagged compressor has the best accuracy of all.",
        format!("It is the most accurate at {times} of {} checkpoints, the last time at {} events (rule: at nine of ten).", t.len(), events(until)),
        match times * 10 {
            n if n >= 9 * t.len() => Verdict::Holds,
            n if n >= 2 * t.len() => Verdict::Partly,
            _ => Verdict::Fails,
        },
    );
    let ratio = last(t).messages as f64 / last(&curves[0]).messages.max(1) as f64;
    found.claim(
        "The tagged compressor costs almost three times the overhead of R.",
        format!("{ratio:.1} times the messages of {R} (rule: 2 to 4)."),
        Verdict::when(Some((2.0..4.0).contains(&ratio))),
    );
}

fn stratified(found: &mut Findings, r: &[Point], h: &[Point]) {
    let (first, for_good) = (
        (reaches(r, 5.0), reaches(h, 5.0)),
        (settles(r, 5.0), settles(h, 5.0)),
    );
    let never = u64::MAX;
    let sooner = for_good.1.unwrap_or(never) < for_good.0.unwrap_or(never);
    let level = last(r).error;
    let reached = settles(h, level);
    let factor = last(r).events as f64 / reached.unwrap_or(never) as f64;
    found.claim(
        "H[P256]2048 reaches 5 % after 200k events and stays from 300k on, R256 after 600k and from 7M on.",
        format!(
            "5 % first: {H} {}, {R} {}; for good: {H} {}, {R} {} (rule: H is sooner for good).",
            events(first.1), events(first.0), events(for_good.1), events(for_good.0)
        ),
        Verdict::when(Some(sooner)),
    );
    found.claim(
        "H[P256]2048 converges to a given accuracy about twice as fast as random sampling (the paper: on gcc).",
        format!(
            "The error that {R} has after {} events, {}, {H} has for good after {}: {factor:.1} times as fast (rule: 2 times or more).",
            events(Some(last(r).events)), percent(level), events(reached)
        ),
        Verdict::when(Some(factor >= 2.0)),
    );
    let below = r
        .iter()
        .zip(h)
        .all(|(r, h)| h.messages <= r.messages + r.messages / 20);
    let (begin, end) = (ratio(&r[0], &h[0]), ratio(&last(r), &last(h)));
    found.claim(
        "H[P256]2048 always costs less than R256; the advantage fades in long runs.",
        format!("Its messages are {begin:.2} of {R}'s at the first checkpoint and {end:.2} at the last (rule: never a twentieth more, above 0.9 at last)."),
        Verdict::when(Some(below && begin < end && end > 0.9)),
    );
    let end = last(h);
    found.claim(
        "H[P256]2048 profiles with less than 3 % error at 3.5 % overhead (the paper: gcc).",
        format!(
            "{} error at {} overhead after {} events (rule: at most 3 % and 4.5 %).",
            percent(end.error),
            percent(overhead_of(&end)),
            events(Some(end.events))
        ),
        Verdict::when(Some(end.error < 3.0 && overhead_of(&end) < 4.5)),
    );
}

fn ratio(r: &Point, h: &Point) -> f64 {
    h.messages as f64 / r.messages.max(1) as f64
}
