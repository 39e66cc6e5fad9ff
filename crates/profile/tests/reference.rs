//! Agreement with an independent implementation, to the last printed digit.
//!
//! The reference streams are large and not part of the repository: they are looked for in the
//! directory of `TROMMEL_SHARED`, else in `../shared` beside the workspace.

#[path = "../../conformance/src/not_tested.rs"]
#[allow(unreachable_pub)] // reason: it is a public module of its own crate.
mod not_tested;

use std::collections::BTreeMap;
use std::path::PathBuf;

use not_tested::not_tested;
use serde_json::Value;
use trommel_compress::Spec;
use trommel_profile::accuracy::{Options, evaluate, json};
use trommel_tuple::stream;

fn shared() -> PathBuf {
    match std::env::var_os("TROMMEL_SHARED") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

/// A number of ours by its name in the reference.
fn ours<'a>(evaluation: &'a Value, name: &str) -> &'a Value {
    let parts = &evaluation["error_parts"];
    match name {
        "FP" => &parts["false_positive"],
        "FN" => &parts["false_negative"],
        "NP" => &parts["neutral_positive"],
        "NN" => &parts["neutral_negative"],
        "nFP" => &evaluation["false_positives"],
        "nFN" => &evaluation["false_negatives"],
        "acc_full" => &evaluation["accumulator_full"],
        "change_mean" => &evaluation["candidate_change"]["mean"],
        "change_p25" => &evaluation["candidate_change"]["p25"],
        "change_p50" => &evaluation["candidate_change"]["p50"],
        "change_p75" => &evaluation["candidate_change"]["p75"],
        _ => &evaluation[name],
    }
}

#[test]
fn the_reference_is_met_to_the_last_digit() {
    let streams = shared().join("streams");
    let Ok(expected) = std::fs::read_to_string(streams.join("expected.jsonl")) else {
        not_tested(format_args!(
            "no reference streams at {}",
            streams.display()
        ));
        return;
    };
    let mut by_stream = BTreeMap::<String, Vec<Value>>::new();
    for line in expected.lines() {
        let line: Value = serde_json::from_str(line).expect("the reference is JSON");
        let name = line["stream"]
            .as_str()
            .expect("a stream's name")
            .to_string();
        by_stream.entry(name).or_default().push(line);
    }
    let mut wrong = Vec::new();
    let mut compared = 0;
    let all: usize = by_stream.values().map(Vec::len).sum();
    assert_eq!(all, expected.lines().count());
    for (name, lines) in by_stream {
        let specs: Vec<Spec> = lines
            .iter()
            .map(|line| match line["spec"].as_str() {
                Some(spec) => spec.parse().expect("specs of the reference are valid"),
                // A line about perfect intervals: any profiler of that interval tells.
                None => format!("M4[{},{}%]2048", line["interval"], line["threshold"])
                    .parse()
                    .expect("an interval profiler"),
            })
            .collect();
        let options = Options {
            checkpoints: vec![1_000_000],
            ..Options::default()
        };
        let mut reader = stream::open(streams.join(format!("{name}.raw16.zst"))).expect("a stream");
        let specs: Vec<Spec> = (specs.into_iter())
            .chain(["exact".parse().expect("a spec")])
            .collect();
        let mut evaluations = evaluate(&specs, options, &mut reader).expect("a whole stream");
        let exact = evaluations.pop().expect("the last spec's");
        let exact = exact
            .kinds
            .values()
            .fold((0, 0), |sum: (usize, usize), kind| {
                let tuples: usize = kind.counts.values().map(Vec::len).sum();
                (sum.0 + tuples, sum.1 + kind.counts.len())
            });
        assert_eq!(reader.end(), Some(stream::End::Complete));
        let evaluations = json::evaluations(&evaluations);
        assert_eq!(evaluations.as_array().map(Vec::len), Some(lines.len()));
        for (line, evaluation) in lines.iter().zip(evaluations.as_array().expect("a list")) {
            for (key, value) in line.as_object().expect("an object") {
                // What names the line.
                if ["stream", "spec", "threshold", "interval"].contains(&key.as_str()) {
                    continue;
                }
                compared += 1;
                // Distinct tuples and instructions of the whole stream: those of a perfect profile.
                let distinct =
                    [("tuples", exact.0), ("pcs", exact.1)].map(|(name, n)| (name, Value::from(n)));
                let ours = match distinct.iter().find(|d| d.0 == key) {
                    Some((_, n)) => n,
                    None => ours(evaluation, key),
                };
                if ours != value {
                    wrong.push(format!(
                        "{name} {}: {key} {ours} != {value}",
                        evaluation["spec"]
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{compared} values agree");
}
