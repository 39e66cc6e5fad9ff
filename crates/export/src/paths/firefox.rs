//! The processed profile format of the Firefox Profiler, version 55.
//!
//! Its stack table is a tree with parents, as [`CallPaths`] is, so nodes become rows as they are. Each node with a cost is one sample
//! with a weight. Each process is a process with one thread. When samples were taken is not known: they follow each other, in the order of the tree.
//!
//! The crate for this format has whole numbers of 32 bits as weights, too few for instructions and nanoseconds.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};
use trommel_profile::call_tree::Basis;
use trommel_symbol::{Symbols, printable};
use trommel_tuple::ModuleId;

use super::apart::Owner;
use super::{CallPaths, PathFormat};
use crate::error::ExportError;
use crate::view::MOST_EXACT;

/// The version of the format that is written; the profiler converts it to its own.
const VERSION: u32 = 55;
const MS: f64 = 1e6;

/// The format.
pub(super) const FORMAT: PathFormat = PathFormat {
    name: "firefox",
    about: "call paths, for profiler.firefox.com",
    extension: "firefox.json",
    next,
    most: MOST_EXACT,
    tells_processes: true,
    whole_paths: false,
    write,
};

fn next(file: &str, _basis: Basis) -> String {
    format!("samply load {file}  # or load it in profiler.firefox.com")
}

fn write(
    paths: &CallPaths<'_>,
    symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let run = &paths.profile.run;
    let meta = json!({
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "debug": false,
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        "interval": 1.0,
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": printable(&paths.program()),
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
        "startTime": run.started as f64 / MS,
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
    });
    let used = modules(paths);
    let libs: Vec<Value> = used.iter().map(|id| lib(paths, *id)).collect();
    let libs = json!(libs);
    write!(
        out,
        "{{\"meta\":{meta},\"libs\":{libs},\"pages\":[],\"profilerOverhead\":[],\"counters\":[],\"threads\":["
    )?;
    let mut number = 0;
    let mut pids = BTreeSet::new();
    let whole = paths.total().own;
    paths.each(symbols, |owner, own, _| {
        if number > 0 {
            out.write_all(b",")?;
        }
        number += 1;
        // The profiler has one process of a number: one that executed another program is two, and so are those whose number is not known.
        let pid = match owner.pid != 0 && pids.insert(owner.pid) {
            true => owner.pid.to_string(),
            false => format!("{}.{number}", owner.pid),
        };
        let thread = thread(own, owner, &used, (&pid, time(paths, own, whole)));
        serde_json::to_writer(&mut *out, &thread).map_err(io::Error::from)?;
        Ok(())
    })?;
    Ok(out.write_all(b"]}")?)
}

/// The time that the samples of a process take. Of exact paths, its share of the run's.
fn time(whole: &CallPaths<'_>, own: &CallPaths<'_>, sum: u64) -> f64 {
    let total = own.total().own as f64;
    match own.tree.basis.is_time() {
        false => whole.profile.run.wall as f64 / MS * total / sum.max(1) as f64,
        true => total / MS,
    }
}

/// Modules of the functions, each once.
fn modules(paths: &CallPaths<'_>) -> Vec<ModuleId> {
    let mut used: Vec<ModuleId> = paths.functions.iter().map(|f| f.module).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn lib(paths: &CallPaths<'_>, id: ModuleId) -> Value {
    let path = paths.module(id);
    let path = printable(&path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    let module = paths.profile.module(id);
    let build_id = module.map_or(&[][..], |module| &module.build_id);
    let hex: String = build_id.iter().map(|b| format!("{b:02X}")).collect();
    // As breakpad names files: 16 bytes, and an age of 0.
    let breakpad = format!("{:0<32.32}0", hex);
    json!({
        "name": name,
        "path": path,
        "debugName": name,
        "debugPath": path,
        "breakpadId": breakpad,
        "codeId": hex.to_lowercase(),
        "arch": "x86_64",
    })
}

/// The tables of a process, with its number and its time.
fn thread(
    paths: &CallPaths<'_>,
    owner: Owner<'_>,
    used: &[ModuleId],
    (pid, time): (&str, f64),
) -> Value {
    let (functions, program) = (&paths.functions, printable(owner.program));
    let mut strings: Vec<String> = functions
        .iter()
        .map(|f| printable(&f.name).into_owned())
        .collect();
    let first_module = strings.len();
    strings.extend(used.iter().map(|id| {
        let path = paths.module(*id);
        printable(path.rsplit('/').next().unwrap_or(&path)).into_owned()
    }));
    let files: Vec<Value> = functions
        .iter()
        .map(|function| match &function.file {
            Some(file) => {
                strings.push(printable(file).into_owned());
                json!(strings.len() - 1)
            }
            None => Value::Null,
        })
        .collect();
    let resource = |f: &super::PathFunction| used.binary_search(&f.module).unwrap_or_default();
    json!({
        "frameTable": frame_table(functions.len()),
        "funcTable": {
            "length": functions.len(),
            "name": (0..functions.len()).collect::<Vec<_>>(),
            "isJS": vec![false; functions.len()],
            "relevantForJS": vec![false; functions.len()],
            "resource": functions.iter().map(resource).collect::<Vec<_>>(),
            "fileName": files,
            "lineNumber": vec![Value::Null; functions.len()],
            "columnNumber": vec![Value::Null; functions.len()],
        },
        "resourceTable": {
            "length": used.len(),
            "lib": (0..used.len()).collect::<Vec<_>>(),
            "name": (first_module..first_module + used.len()).collect::<Vec<_>>(),
            "host": vec![Value::Null; used.len()],
            "type": vec![1; used.len()],
        },
        "stackTable": {
            "length": paths.nodes.len(),
            "prefix": paths.nodes.iter().map(|node| node.parent).collect::<Vec<_>>(),
            "frame": paths.nodes.iter().map(|node| node.function).collect::<Vec<_>>(),
        },
        "samples": samples(paths, time),
        "markers": { "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [] },
        "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
        "stringArray": strings,
        "name": program,
        "isMainThread": true,
        "pausedRanges": [],
        "pid": pid,
        "tid": owner.tid.to_string(),
        "processName": program,
        "processType": "default",
        "processStartupTime": 0.0,
        "processShutdownTime": Value::Null,
        "registerTime": 0.0,
        "unregisterTime": Value::Null,
        "showMarkersInTimeline": false,
    })
}

/// A frame for each function.
fn frame_table(length: usize) -> Value {
    json!({
        "length": length,
        "address": vec![-1; length],
        "inlineDepth": vec![0; length],
        "category": vec![0; length],
        "subcategory": vec![0; length],
        "func": (0..length).collect::<Vec<_>>(),
        "nativeSymbol": vec![Value::Null; length],
        "innerWindowID": vec![0; length],
        "line": vec![Value::Null; length],
        "column": vec![Value::Null; length],
    })
}

/// A sample for each node with a cost. They divide the time in the proportion of their weights.
fn samples(paths: &CallPaths<'_>, time: f64) -> Value {
    let exact = paths.tree.basis == Basis::Contexts;
    let total = paths.total().own.max(1) as f64;
    let hot = || {
        paths
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, n)| n.weight.own > 0)
    };
    let weight = |own: u64| {
        if exact {
            json!(own)
        } else {
            json!(own as f64 / MS)
        }
    };
    let deltas: Vec<f64> = hot()
        .map(|(_, n)| time * n.weight.own as f64 / total)
        .collect();
    json!({
        "length": deltas.len(),
        "weightType": if exact { "samples" } else { "tracing-ms" },
        "stack": hot().map(|(number, _)| number).collect::<Vec<_>>(),
        "weight": hot().map(|(_, n)| weight(n.weight.own)).collect::<Vec<_>>(),
        "timeDeltas": deltas,
        "threadCPUDelta": vec![Value::Null; hot().count()],
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{profile, written};
    use super::*;

    fn thread_of(basis: Basis) -> Value {
        let profile = profile(basis, &[(&[1, 2], 5_000_000_000), (&[3], 7), (&[1, 4], 1)]);
        let bytes = written(&FORMAT, &profile).expect("firefox");
        let file: Value = serde_json::from_slice(&bytes).expect("JSON");
        file["threads"][0].clone()
    }

    #[test]
    fn tables_refer_to_rows_that_are_there() {
        let thread = thread_of(Basis::Contexts);
        for (table, column, other) in [
            ("samples", "stack", "stackTable"),
            ("stackTable", "prefix", "stackTable"),
            ("stackTable", "frame", "frameTable"),
            ("frameTable", "func", "funcTable"),
            ("funcTable", "resource", "resourceTable"),
        ] {
            let length = thread[other]["length"].as_u64();
            let rows = thread[table][column].as_array().expect("a column");
            assert_eq!(Some(rows.len() as u64), thread[table]["length"].as_u64());
            let inside = |row: &Value| row.is_null() || row.as_u64() < length;
            assert!(rows.iter().all(inside), "{table}.{column}");
        }
    }

    #[test]
    fn weights_add_up() {
        let sum = |thread: &Value| {
            let all = thread["samples"]["weight"].as_array().expect("weights");
            all.iter().filter_map(Value::as_f64).sum::<f64>()
        };
        assert!((sum(&thread_of(Basis::Contexts)) - 5_000_000_008.0).abs() < 0.5);
        assert!((sum(&thread_of(Basis::Stacks)) - 5_000.000_008).abs() < 1e-6);
    }
}
