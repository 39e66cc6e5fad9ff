//! speedscope's own format: frames, and a list of openings and closings of them.
//!
//! A tree becomes one pass through it, children after what their caller cost by itself. So a file has two events for each node,
//! where samples would repeat whole stacks.

use std::io::Write;

use serde_json::{Value, json};
use trommel_profile::call_tree::Basis;
use trommel_symbol::Symbols;

use super::{CallPaths, PathFormat, PathFunction};
use crate::error::ExportError;
use crate::view::MOST_EXACT;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The format.
pub(super) const FORMAT: PathFormat = PathFormat {
    name: "speedscope",
    about: "call paths, for speedscope.app",
    extension: "speedscope.json",
    next,
    most: MOST_EXACT,
    tells_processes: false,
    whole_paths: false,
    write,
};

fn next(file: &str, _basis: Basis) -> String {
    format!("npx speedscope {file}")
}

fn write(
    paths: &CallPaths<'_>,
    _symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let frame = |function: &PathFunction| {
        let mut frame = json!({ "name": &*function.name });
        if let Some(file) = &function.file {
            frame["file"] = json!(&**file);
        }
        frame
    };
    let frames: Vec<Value> = paths.functions.iter().map(frame).collect();
    let (events, end) = events(paths);
    let unit = match paths.tree.basis {
        Basis::Stacks => "nanoseconds",
        Basis::Contexts => "none",
    };
    let profile = json!({
        "type": "evented",
        "name": super::unit(paths.tree.basis),
        "unit": unit,
        "startValue": 0,
        "endValue": end,
        "events": events,
    });
    let file = json!({
        "$schema": SCHEMA,
        "exporter": "trommel",
        "name": paths.program(),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [profile],
    });
    serde_json::to_writer(out, &file).map_err(std::io::Error::from)?;
    Ok(())
}

/// Openings and closings in their order, and the sum of all costs.
fn events(paths: &CallPaths<'_>) -> (Vec<Value>, u64) {
    let children = paths.children();
    let mut events = Vec::with_capacity(2 * paths.nodes.len());
    let mut at = 0_u64;
    // What is left: a node to open, or one to close.
    let mut left: Vec<(usize, bool)> = Vec::new();
    let open = |left: &mut Vec<(usize, bool)>, below: &[usize]| {
        left.extend(below.iter().rev().map(|child| (*child, true)));
    };
    open(&mut left, &children[paths.nodes.len()]);
    while let Some((number, opens)) = left.pop() {
        let node = &paths.nodes[number];
        let kind = if opens { "O" } else { "C" };
        events.push(json!({ "type": kind, "frame": node.function, "at": at }));
        if opens {
            at = at.saturating_add(node.weight.own);
            left.push((number, false));
            open(&mut left, &children[number]);
        }
    }
    (events, at)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{profile, written};
    use super::*;

    #[test]
    fn openings_and_closings_are_nested_and_end_at_the_sum() {
        let profile = profile(Basis::Contexts, &[(&[1, 2], 5), (&[3], 7), (&[1, 4], 1)]);
        let bytes = written(&FORMAT, &profile).expect("speedscope");
        let file: Value = serde_json::from_slice(&bytes).expect("JSON");
        let mut open = Vec::new();
        let mut last = 0;
        for event in file["profiles"][0]["events"].as_array().expect("events") {
            let (frame, at) = (event["frame"].as_u64(), event["at"].as_u64());
            assert!(at >= Some(last));
            last = at.expect("a number");
            match event["type"].as_str() {
                Some("O") => open.push(frame),
                _ => assert_eq!(open.pop(), Some(frame)),
            }
        }
        assert!(open.is_empty());
        assert_eq!((last, &file["profiles"][0]["endValue"]), (13, &json!(13)));
        assert_eq!(file["shared"]["frames"][1]["name"], "[m;2]");
    }
}
