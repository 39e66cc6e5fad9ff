//! speedscope's own format: frames, and a list of openings and closings of them.
//!
//! A tree becomes one pass through it, children after what their caller cost by itself. So a file has two events for each node,
//! where samples would repeat whole stacks. Each process is a profile of its own, and the functions of all of them follow at the end: nothing but one
//! process is in memory.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use serde_json::json;
use trommel_profile::call_tree::Basis;
use trommel_symbol::{Symbols, printable};
use trommel_tuple::ModuleId;

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
    tells_processes: true,
    whole_paths: false,
    write,
};

fn next(file: &str, _basis: Basis) -> String {
    format!("npx speedscope {file}")
}

fn write(
    paths: &CallPaths<'_>,
    symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let head = json!({ "$schema": SCHEMA, "exporter": "trommel", "name": printable(&paths.program()), "activeProfileIndex": 0 });
    // The object goes on.
    let head = head.to_string();
    write!(out, "{},\"profiles\":[", head.trim_end_matches('}'))?;
    let mut frames = Frames::default();
    let mut first = true;
    paths.each(symbols, |owner, own, _| {
        if !std::mem::take(&mut first) {
            out.write_all(b",")?;
        }
        let numbers: Vec<usize> = own.functions.iter().map(|f| frames.number(f)).collect();
        profile(own, owner.name, &numbers, out)
    })?;
    out.write_all(b"],\"shared\":{\"frames\":[")?;
    for (number, function) in frames.all.iter().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        let mut frame = json!({ "name": printable(&function.name) });
        if let Some(file) = &function.file {
            frame["file"] = json!(printable(file));
        }
        write!(out, "{frame}")?;
    }
    Ok(out.write_all(b"]}}")?)
}

/// Functions of all profiles, each once.
#[derive(Default)]
struct Frames {
    numbers: HashMap<(ModuleId, Rc<str>), usize>,
    all: Vec<PathFunction>,
}

impl Frames {
    fn number(&mut self, function: &PathFunction) -> usize {
        let key = (function.module, Rc::clone(&function.name));
        *self.numbers.entry(key).or_insert_with(|| {
            self.all.push(function.clone());
            self.all.len() - 1
        })
    }
}

/// Writes the call paths of a process, whose functions have these numbers: openings and closings in their order.
fn profile(
    paths: &CallPaths<'_>,
    name: &str,
    numbers: &[usize],
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let unit = match paths.tree.basis.is_time() {
        true => "nanoseconds",
        false => "none",
    };
    let name = json!(format!("{}: {}", printable(name), paths.tree.basis.unit()));
    let end = paths.total().own;
    write!(
        out,
        "{{\"type\":\"evented\",\"name\":{name},\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{end},\"events\":["
    )?;
    let children = paths.children();
    let mut at = 0_u64;
    let mut comma = "";
    // What is left: a node to open, or one to close.
    let mut left: Vec<(usize, bool)> = Vec::new();
    let open = |left: &mut Vec<(usize, bool)>, below: &[usize]| {
        left.extend(below.iter().rev().map(|child| (*child, true)));
    };
    open(&mut left, &children[paths.nodes.len()]);
    while let Some((number, opens)) = left.pop() {
        let node = &paths.nodes[number];
        let kind = if opens { 'O' } else { 'C' };
        let frame = numbers[node.function];
        write!(
            out,
            "{comma}{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}"
        )?;
        comma = ",";
        if opens {
            at = at.saturating_add(node.weight.own);
            left.push((number, false));
            open(&mut left, &children[number]);
        }
    }
    Ok(out.write_all(b"]}")?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{profile, written};
    use serde_json::Value;

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
