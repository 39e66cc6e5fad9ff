//! Formats of one profile have one sum of instructions, or say why not.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, workspace};
use trommel_conformance::recorded::Recorded;

use super::Test;

pub(super) const ALL: &[(&str, Test)] = &[(
    "sums: formats have the same instructions, or say that calls were left",
    same,
)];

/// Programs, with the greatest share by which calls that were left are too many; `None` where all calls come back.
const PROGRAMS: [(&str, &str, Option<f64>); 3] = [
    ("gcc", "export_calls.c", None),
    ("g++", "contexts_exceptions.cpp", Some(0.001)),
    // It leaves hundreds of calls by each jump.
    ("gcc", "longjmp_deep.c", Some(1.0)),
];

fn same() -> Result<(), String> {
    for (compiler, source, left) in PROGRAMS {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let program = scratch.path("app");
        let mut build = Command::new(compiler);
        build.args(["-O2", "-g", "-o"]).arg(&program);
        output(build.arg(workspace().join("tests/programs").join(source)))?;
        let recorded = Recorded::of(scratch, program, &["-e", "edge,call,context"])?;
        let exact = last_fields(&recorded, "folded", |_| true)?;
        for format in ["csv", "callgrind", "cachegrind"] {
            let (file, said) = recorded.exported(format, &[])?;
            let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
            let derived = match format {
                "csv" => last_fields(&recorded, format, |line| line.starts_with("block,"))?,
                _ => summary(&text).ok_or(text)?,
            };
            let more = derived as f64 / exact as f64 - 1.0;
            let is_said = said.contains("exceptions and longjmps ended calls");
            let right = match left {
                None => more == 0.0,
                Some(most) => (0.0..most).contains(&more),
            };
            if !right || is_said != left.is_some() {
                return Err(format!("{source}, {format}: {derived} of {exact}\n{said}"));
            }
        }
    }
    Ok(())
}

/// The sum of the last field of lines.
fn last_fields(recorded: &Recorded, format: &str, wanted: fn(&str) -> bool) -> Result<u64, String> {
    let text = fs::read_to_string(recorded.export(format, &[])?).map_err(|e| e.to_string())?;
    let lines = text.lines().filter(|line| wanted(line));
    let fields = lines.filter_map(|line| line.rsplit([' ', ',']).next()?.parse::<u64>().ok());
    Ok(fields.sum())
}

fn summary(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("summary:"));
    line?.trim().parse().ok()
}
