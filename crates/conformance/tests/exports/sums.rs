//! Formats of one profile have one sum of instructions, or say why not.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel, workspace};
use trommel_conformance::recorded::Recorded;

use super::Test;

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "sums: formats have the same instructions, whatever leaves calls",
        same,
    ),
    (
        "sums: where code after calls was not counted, that is said",
        said,
    ),
    (
        "sums: lines after calls that did not come back are not covered",
        lines,
    ),
];

/// Programs, some of which leave calls by exceptions and `longjmp`, end threads or the process in the midst of calls, or give up stacks.
/// The last has handlers of signals that no event leads to.
const PROGRAMS: [(&str, &str); 5] = [
    ("gcc", "export_calls.c"),
    ("g++", "contexts_exceptions.cpp"),
    ("gcc", "longjmp_deep.c"),
    ("gcc", "left_calls.c"),
    ("gcc", "signal_straight.c"),
];

/// Builds and records a program.
fn recorded(
    (compiler, source): (&str, &str),
    options: &[&str],
    stress: &str,
) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("app");
    let mut build = Command::new(compiler);
    build.args(["-O2", "-g", "-pthread", "-o"]).arg(&program);
    output(build.arg(workspace().join("tests/programs").join(source)))?;
    Recorded::stressed(scratch, program, options, stress)
}

fn same() -> Result<(), String> {
    for program in PROGRAMS {
        let with_contexts = recorded(program, &["-e", "edge,call,context"], "")?;
        let exact = last_fields(&with_contexts, "folded", |_| true)?;
        for format in ["csv", "callgrind", "cachegrind"] {
            let (file, said) = with_contexts.exported(format, &[])?;
            let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
            let derived = match format {
                "csv" => last_fields(&with_contexts, format, is_block)?,
                _ => summary(&text).ok_or(text)?,
            };
            if derived != exact || said.contains("ended calls") {
                return Err(format!(
                    "{program:?}, {format}: {derived} of {exact}\n{said}"
                ));
            }
        }
        // Traces go on past calls and returns. What libraries do at a start depends on the environment.
        let own = |line: &str| is_block(line) && line.contains("/app,");
        let traced = recorded(program, &["-e", "edge,call"], "trace")?;
        let both = [&traced, &with_contexts].map(|recorded| last_fields(recorded, "csv", own));
        if both[0] != both[1] {
            return Err(format!("{program:?}: with traces and without {both:?}"));
        }
    }
    Ok(())
}

fn is_block(line: &str) -> bool {
    line.starts_with("block,")
}

fn said() -> Result<(), String> {
    let recorded = recorded(("gcc", "left_calls.c"), &["-e", "edge,call,path"], "")?;
    let (_, said) = recorded.exported("csv", &[])?;
    let mut report = Command::new(trommel());
    let report = output(report.arg("report").arg(&recorded.data))?;
    for said in [said, report] {
        if !said.contains("longjmps ended calls") {
            return Err(said);
        }
    }
    for format in ["lcov", "drcov"] {
        match recorded.exported(format, &[]) {
            Err(why) if why.contains("longjmps ended calls") => {}
            other => return Err(format!("{format}: {other:?}")),
        }
        recorded.exported(format, &["--estimates"])?;
    }
    Ok(())
}

/// A line for each way to leave a call: the one after it is executed where that comes back, and nowhere else.
const LINES: &str = r#"
#include <setjmp.h>
#include <stdlib.h>
#define ALONE __attribute__((noinline))
static jmp_buf top;
static volatile int sink;
ALONE void far(int n) { if (n) longjmp(top, 1); }
ALONE void end(void) { exit(0); }
ALONE void other(void (*f)(void)) { if (f) f(); }
ALONE int jumps(int n) {
  far(n);
  return n + 1; } /* once */
ALONE int ends(void) {
  other(end);
  return 7; } /* never */
int main(void) {
  for (volatile int i = 0; i < 5; i++)
    if (!setjmp(top)) sink += jumps(i);
  return ends();
}
"#;

fn lines() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("lines.c"), scratch.path("app"));
    fs::write(&source, LINES).map_err(|e| e.to_string())?;
    output(
        Command::new("gcc")
            .args(["-O1", "-g", "-fno-optimize-sibling-calls", "-o"])
            .arg(&program)
            .arg(&source),
    )?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let text = fs::read_to_string(recorded.export("lcov", &[])?).map_err(|e| e.to_string())?;
    for (marked, times) in [("once", 1), ("never", 0)] {
        let line = LINES.lines().position(|line| line.contains(marked));
        let line = format!("DA:{},{times}", line.ok_or("no such line")? + 1);
        if !text.lines().any(|l| l == line) {
            return Err(format!("no {line} in\n{text}"));
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
