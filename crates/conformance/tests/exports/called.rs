//! Programs and profiles by the names that people know them by: titles of servers, sums of several programs, programs of Go.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::recorded::{Recorded, compiled};
use trommel_conformance::wait;

use super::refusals::{refused, tried};
use super::{Test, text};

pub(super) const ALL: &[(&str, Test)] = &[
    ("called: a title over the command names the program", title),
    (
        "called: a sum of several programs says what it is of",
        several,
    ),
    ("called: optimisers take no program of Go", go),
];

/// Writes a title over its arguments, as servers do, and works until it is ended.
const SERVER: &str = r#"
#include <string.h>
int main(int argc, char **argv) {
  char *end = argv[argc - 1] + strlen(argv[argc - 1]);
  memset(argv[0], 0, end - argv[0]);
  strcpy(argv[0], "app: at work");
  for (volatile unsigned i = 0;; i++) if (i % 3) i++;
}
"#;

fn title() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("server.c"), scratch.path("app"));
    fs::write(&source, SERVER).map_err(|e| e.to_string())?;
    output(Command::new("gcc").arg(&source).arg("-o").arg(&program))?;
    let mut server = Command::new(&program);
    server.args(["--port", "1234"]).stdout(Stdio::null());
    let mut server = server.spawn().map_err(|e| e.to_string())?;
    let pid = server.id().to_string();
    let cmdline = format!("/proc/{pid}/cmdline");
    let renamed = || fs::read(&cmdline).is_ok_and(|text| text.starts_with(b"app: at work"));
    let begun = wait::until("the server writes its title", renamed);
    let done = begun.and_then(|()| by_title(&scratch, &pid));
    let ended = server.kill().and_then(|()| server.wait());
    ended.map_err(|e| e.to_string()).and(done)
}

fn by_title(scratch: &Scratch, pid: &str) -> Result<(), String> {
    for (events, format) in [("edge,call", "callgrind"), ("stack", "folded")] {
        let mut record = Command::new(trommel());
        record.args(["record", "-e", events, "--duration", "0.2", "-p", pid]);
        output(record.args(["-o", "app.data"]).current_dir(scratch.dir()))?;
        let mut export = Command::new(trommel());
        export.args(["export", "-f", format, "app.data"]);
        let (_, said) = tried(export.current_dir(scratch.dir()))?;
        let made = scratch.path(&format!("app.{format}"));
        let made = fs::read_to_string(made).map_err(|e| format!("{e}: {said}"))?;
        if format == "callgrind" && !made.contains("\ncmd: app: at work\n") {
            return Err(made);
        }
    }
    Ok(())
}

fn several() -> Result<(), String> {
    let record = |name: &str| {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let program = scratch.path(name);
        fs::copy("/bin/true", &program).map_err(|e| e.to_string())?;
        Recorded::of(scratch, program, &["-e", "edge,call"])
    };
    let (mut one, other) = (record("one")?, record("other")?);
    let sum = one.scratch.path("sum.data");
    let mut merge = Command::new(trommel());
    merge.arg("merge").arg(&one.data).arg(&other.data);
    output(merge.arg("-o").arg(&sum))?;
    one.data = sum;
    for format in ["callgrind", "cachegrind"] {
        let text = fs::read_to_string(one.export(format, &[])?).map_err(|e| e.to_string())?;
        if !text.contains("\ncmd: [2 recordings, 2 processes]\n") {
            return Err(text);
        }
    }
    Ok(())
}

/// Go's own table of code, which a program reads while it runs, is known by the name of its section.
fn go() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = compiled(&scratch, "gcc", &["-O1", "-g"])?;
    let table = scratch.path("table");
    fs::write(&table, [0; 16]).map_err(|e| e.to_string())?;
    let section = format!(".gopclntab={}", text(Path::new(&table)));
    let mut objcopy = Command::new("objcopy");
    output(objcopy.arg("--add-section").arg(section).arg(&program))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    for format in [
        "bolt",
        "bolt-preagg",
        "profgen",
        "autofdo",
        "autofdo-extbinary",
        "gcov-autofdo",
    ] {
        refused(&recorded, &["-f", format], "is a Go program")?;
    }
    recorded.export("pprof", &[]).map(drop)
}
