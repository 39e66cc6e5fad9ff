//! Profiles of another build, and of a part of a run: neither is taken for a whole one.

use std::fs;
use std::process::{Command, Stdio};

use trommel_conformance::exec::{Scratch, copy, output, trommel};
use trommel_conformance::recorded::{Recorded, compiled};

use super::Test;
use super::refusals::{refused, tried};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "parts: a program without a build id is known by its code",
        by_code,
    ),
    ("parts: coverage of a part of a run needs a word", of_a_run),
    ("parts: coverage of a process that ran needs a word", late),
    (
        "parts: a program that is sampled from its start is whole",
        sampled,
    ),
    ("parts: code in no file is said to be left out", anonymous),
];

/// A copy, another time and stripped symbols are the same build. Other code is not, whatever command reads the profile.
fn by_code() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let flags = ["-O2", "-g", "-Wl,--build-id=none"];
    let program = compiled(&scratch, "gcc", &flags)?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call,context"])?;
    let (program, scratch) = (&recorded.program, &recorded.scratch);
    let other = scratch.path("other");
    fs::copy(program, &other).map_err(|e| e.to_string())?;
    fs::rename(&other, program).map_err(|e| e.to_string())?;
    output(Command::new("strip").arg("-g").arg(program))?;
    let csv = fs::read_to_string(recorded.export("csv", &[])?).map_err(|e| e.to_string())?;
    if !csv.contains(",mix,") {
        return Err("the functions of a copy have no names".into());
    }
    // One instruction differs, and nothing else: neither the size nor where functions are.
    let source = scratch.path("changed.c");
    let text = fs::read_to_string(trommel_conformance::recorded::source());
    let text = text
        .map_err(|e| e.to_string())?
        .replace("0xedb88320u", "0xedb88321u");
    fs::write(&source, text).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    output(build.args(flags).arg(&source).arg("-o").arg(program))?;
    for format in ["bolt", "callgrind", "lcov", "autofdo", "csv"] {
        refused(
            &recorded,
            &["-f", format],
            "changed since the recording (other code)",
        )?;
    }
    let (_, said) = recorded.exported("folded", &[])?;
    let (_, report) = tried(Command::new(trommel()).arg("report").arg(&recorded.data))?;
    let mut annotate = Command::new(trommel());
    let (succeeded, annotated) = tried(annotate.arg("annotate").arg(&recorded.data).arg("mix"))?;
    if succeeded {
        return Err(format!("other code is annotated:\n{annotated}"));
    }
    for said in [said, report, annotated] {
        if !said.contains("(other code)") {
            return Err(format!("nothing is said of other code:\n{said}"));
        }
    }
    // Both builds in one sum are two modules.
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let again = Recorded::of(scratch, program.clone(), &["-e", "edge,call,context"])?;
    let sum = again.scratch.path("sum.data");
    let mut merge = Command::new(trommel());
    merge.arg("merge").args([&recorded.data, &again.data]);
    let (_, said) = tried(merge.arg("-o").arg(&sum))?;
    match said.contains("app: 2 builds") {
        true => Ok(()),
        false => Err(said),
    }
}

/// Formats that say what was not executed.
const COVERAGE: [&str; 2] = ["lcov", "drcov"];

/// Expects that coverage is refused with these words, but for `--estimates`, and that other formats say them.
fn needs_a_word(recorded: &Recorded, words: &str, formats: &[&str]) -> Result<(), String> {
    for format in formats {
        refused(recorded, &["-f", format], words)?;
        recorded.export(format, &["--estimates"])?;
    }
    let (_, said) = recorded.exported("csv", &[])?;
    match said.contains(words) {
        true => Ok(()),
        false => Err(format!("not {words:?}: {said}")),
    }
}

/// Some code alone, and a program without its children.
fn of_a_run() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = compiled(&scratch, "gcc", &["-O1", "-g"])?;
    let only = ["-e", "edge,call", "--only", "mix", "--only", "0x10-0x20"];
    let recorded = Recorded::of(scratch, program, &only)?;
    let words = "in part: only mix, 0x10-0x20 was observed";
    needs_a_word(&recorded, words, &COVERAGE)?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("app.sh");
    fs::write(&program, "#!/bin/sh\n/bin/true\n:\n").map_err(|e| e.to_string())?;
    output(Command::new("chmod").arg("+x").arg(&program))?;
    let alone = Recorded::of(scratch, program, &["-e", "edge,call", "--no-follow"])?;
    needs_a_word(&alone, "ran natively", &["drcov"])
}

/// `cat` waits for a line when it is attached, and ends after it.
fn late() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("app");
    copy("/bin/cat".as_ref(), &program)?;
    let mut cat = Command::new(&program);
    cat.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut cat = cat.spawn().map_err(|e| e.to_string())?;
    let data = scratch.path("app.data");
    let mut record = Command::new(trommel());
    record.args(["record", "-e", "edge,call", "--duration", "0.3", "-p"]);
    let done = tried(record.arg(cat.id().to_string()).arg("-o").arg(&data));
    drop(cat.stdin.take());
    cat.wait().map_err(|e| e.to_string())?;
    let (succeeded, said) = done?;
    if !succeeded {
        return Err(said);
    }
    let recorded = Recorded {
        scratch,
        program,
        data,
    };
    let (_, report) = tried(Command::new(trommel()).arg("report").arg(&recorded.data))?;
    let words = "it ran already when observation began";
    match report.contains(words) {
        true => refused(&recorded, &["-f", "drcov"], words),
        false => Err(report),
    }
}

const BUSY: &str = "
int main(void) {
  volatile int sum = 0;
  for (int i = 0; i < 400000000; i++) if (i & 1) sum += i;
}
";

/// Bursts begin at a moment of their own. A program that was attached to has another word.
fn sampled() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("busy.c"), scratch.path("app"));
    fs::write(&source, BUSY).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    output(build.arg("-O1").arg(&source).arg("-o").arg(&program))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call", "--budget", "50"])?;
    let (_, said) = recorded.exported("csv", &[])?;
    let (_, report) = tried(Command::new(trommel()).arg("report").arg(&recorded.data))?;
    for said in [said, report] {
        if said.contains("ran already") || said.contains("in part") {
            return Err(said);
        }
    }
    Ok(())
}

const MADE: &str = "
#include <string.h>
#include <sys/mman.h>
int main(void) {
  // mov $9, %ecx; 1: dec %ecx; jnz 1b; ret
  static const unsigned char code[] = {0xb9, 9, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
  void *made = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(made, code, sizeof code);
  for (int i = 0; i < 7; i++) ((void (*)(void))made)();
}
";

fn anonymous() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("made.c"), scratch.path("app"));
    fs::write(&source, MADE).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    output(
        build
            .args(["-O1", "-g"])
            .arg(&source)
            .arg("-o")
            .arg(&program),
    )?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    for format in ["callgrind", "cachegrind", "csv", "drcov", "pprof"] {
        let (_, said) = recorded.exported(format, &[])?;
        if !said.contains("([anon]), such as that of a JIT compiler, with 63 branches and calls") {
            return Err(format!("{format}: {said}"));
        }
    }
    Ok(())
}
