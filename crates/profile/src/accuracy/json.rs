//! Evaluations as JSON, schema `trommel.compress/1`.
//!
//! Numbers that are not whole are rounded to the digits that two implementations agree on: four
//! decimals for errors, fewer for means of counts.

use serde_json::{Value, json};

use super::{Evaluation, IntervalAccuracy, Point};

/// The schema's name.
pub const SCHEMA: &str = "trommel.compress/1";

/// A list with an object for each evaluation.
pub fn evaluations(evaluations: &[Evaluation]) -> Value {
    evaluations.iter().map(evaluation).collect()
}

/// Rounded as it would be printed; a sum of nothing is -0.
fn rounded(x: f64, decimals: usize) -> f64 {
    format!("{x:.decimals$}").parse().unwrap_or(x) + 0.0
}

fn evaluation(e: &Evaluation) -> Value {
    let mut value = json!({
        "schema": SCHEMA,
        "spec": e.spec.to_string(),
        "events": e.events,
        "messages": e.messages,
        "error": e.error.ok().map(|error| rounded(error, 4)),
        "overhead_cycles": e.overhead_cycles(),
        "overhead_percent": (e.events > 0).then(|| rounded(e.overhead_percent(), 4)),
        "counted": e.counted,
        "held": e.held,
        "hash_seed": e.seeds.hash,
        "kinds": {},
    });
    for (kind, profile) in &e.kinds {
        value["kinds"][kind.name()] = json!({
            "events": profile.seen,
            "messages": profile.messages,
            "tuples": profile.counts.values().map(Vec::len).sum::<usize>(),
            "counted": profile.counts.values().flatten().map(|(_, n)| n).sum::<u64>(),
        });
    }
    if let Err(reason) = e.error {
        value["no_error"] = json!(reason.to_string());
    }
    if e.spec.is_random() {
        value["random_seed"] = json!(e.seeds.random);
    }
    if e.kind_errors.len() > 1 {
        for k in &e.kind_errors {
            value["kinds"][k.kind.name()]["error"] = json!(k.error.map(|error| rounded(error, 4)));
        }
    }
    match &e.interval {
        Some(interval) => add_interval(&mut value, interval),
        None => value["points"] = e.points.iter().map(point).collect(),
    }
    value
}

fn point(p: &Point) -> Value {
    json!({
        "events": p.events,
        "messages": p.messages,
        "error": p.judged().map(|error| rounded(error, 4)),
        "tuples": p.tuples,
        "loads": p.loads,
        "coverage": rounded(p.coverage, 2),
    })
}

/// The figures of intervals: null where there was none, and of changes where there were no two.
fn add_interval(value: &mut Value, i: &IntervalAccuracy) {
    let rounded = |x, decimals| (i.shape.intervals > 0).then(|| rounded(x, decimals));
    let change = |x, decimals| rounded(x, decimals).filter(|_| i.shape.intervals > 1);
    value["intervals"] = json!(i.shape.intervals);
    value["mean_interval"] = json!(rounded(i.shape.mean_length(), 1));
    value["distinct"] = json!(rounded(i.shape.distinct, 1));
    value["candidates"] = json!(rounded(i.shape.candidates, 2));
    value["max_candidates"] = json!((i.shape.intervals > 0).then_some(i.shape.max_candidates));
    value["candidate_coverage"] = json!(rounded(i.shape.candidate_coverage, 4));
    value["candidate_change"] = json!({
        "mean": change(i.shape.mean_change(), 4),
        "p25": change(i.shape.change_at(0.25), 4),
        "p50": change(i.shape.change_at(0.5), 4),
        "p75": change(i.shape.change_at(0.75), 4),
        "news": change(i.shape.news, 4),
    });
    value["error_parts"] = json!({
        "false_positive": rounded(i.parts.false_positive, 4),
        "false_negative": rounded(i.parts.false_negative, 4),
        "neutral_positive": rounded(i.parts.neutral_positive, 4),
        "neutral_negative": rounded(i.parts.neutral_negative, 4),
    });
    value["false_positives"] = json!(rounded(i.false_positives, 3));
    value["false_negatives"] = json!(rounded(i.false_negatives, 3));
    value["promotions"] = json!(i.promotions);
    value["accumulator_full"] = json!(i.accumulator_full);
    value["unfinished"] = json!(i.unfinished);
}
