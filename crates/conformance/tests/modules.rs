//! Customisation modules: the examples tell of a program what is known of it; each thing that can be wrong with a module is reported, and the
//! program that is observed does not notice.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, natively, need_windows, trommel, workspace};
use trommel_conformance::program::{self, compile};

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let mut trials = vec![
        Trial::test("strides of loads are those of the program", || {
            Ok(strides()?)
        }),
        Trial::test("loads are told the stores that they read of", || {
            Ok(stores()?)
        }),
        Trial::test("forked processes have instances, and texts", || {
            Ok(processes()?)
        }),
        Trial::test("a running program's windows are given to a module", || {
            Ok(attached()?)
        }),
        Trial::test("what is no module is refused", || Ok(refused()?)),
        Trial::test("texts that fail leave the values", || Ok(texts()?)),
    ];
    for (what, expected) in FAILURES {
        let name = format!("what fails is told, and the program goes on: {what}");
        trials.push(Trial::test(name, move || Ok(contained(what, expected)?)));
    }
    libtest_mimic::run(&args, trials).exit();
}

/// A module from a C source, built with further flags.
fn library(source: &str, name: &str, more: &[&str]) -> Result<PathBuf, String> {
    let dir = cache_dir().join("modules");
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let out = dir.join(name);
    let include = format!("-I{}", workspace().join("include").display());
    let flags = ["-O2", "-shared", "-fPIC", &include];
    let flags: Vec<String> = flags.iter().chain(more).map(|&f| f.to_owned()).collect();
    compile(&workspace().join(source), &flags, &out)?;
    Ok(out)
}

fn wrong(what: &str) -> Result<String, String> {
    let define = format!("-DWRONG_{what}");
    let built = library("tests/modules/wrong.c", &format!("{what}.so"), &[&define])?;
    Ok(format!("{}:a:b", built.display()))
}

/// The example in Rust, by the compiler that builds us.
fn rust(scratch: &Scratch) -> Result<PathBuf, String> {
    let out = scratch.path("libstores.so");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--crate-type", "cdylib"]);
    command.args(["--crate-name", "stores", "-O", "-D", "warnings", "-o"]);
    let source = workspace().join("examples/module-rs/src/lib.rs");
    let done = command.arg(&out).arg(source).output();
    let done = done.map_err(|e| e.to_string())?;
    match done.status.success() {
        true => Ok(out),
        false => Err(errors(&done)),
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program of which all is known.
fn accesses() -> Result<PathBuf, String> {
    program::built(
        "tests/modules/accesses.c",
        "module-accesses",
        &["-O2", "-g"],
    )
}

fn record(scratch: &Scratch, module: &str, command: &[&str]) -> Result<Output, String> {
    let mut record = Command::new(trommel());
    record.args(["record", "--rate", "1000", "--window", "1000"]);
    record.args(["--module-lib", module, "-o"]);
    record.arg(scratch.path("data")).arg("--").args(command);
    record.output().map_err(|e| e.to_string())
}

/// Returns what the report says of the module.
fn report(scratch: &Scratch) -> Result<Value, String> {
    let mut report = Command::new(trommel());
    let report = report
        .args(["report", "--json", "--no-debug-info"])
        .arg(scratch.path("data"));
    let said = report.output().map_err(|e| e.to_string())?;
    let all: Value = serde_json::from_slice(&said.stdout).map_err(|e| e.to_string())?;
    Ok(all["custom"].clone())
}

fn holds(truth: bool, what: impl std::fmt::Debug) -> Result<(), String> {
    match truth {
        true => Ok(()),
        false => Err(format!("{what:?}")),
    }
}

/// Returns the value with a text (or function) of this name, of the instruction in a function that has most pairs.
fn value<'a>(custom: &'a Value, function: &str, name: &str) -> Result<&'a Value, String> {
    let instructions = custom["instructions"].as_array().ok_or("no instructions")?;
    let there = |i: &&Value| i["at"]["function"] == function;
    let one = instructions.iter().find(there);
    let values = one.and_then(|one| one["top"].as_array());
    let named = |v: &&Value| v["text"] == name || v["value"]["function"] == name;
    let found = values.into_iter().flatten().find(named);
    found.ok_or_else(|| format!("{function}: no {name} in {custom}"))
}

/// Checks that a value's share is within its limits.
fn is_share(value: &Value, truth: f64) -> Result<(), String> {
    let limit = |name: &str| value[name].as_f64().ok_or("no limit");
    let (low, high) = (limit("share_low")?, limit("share_high")?);
    holds(low <= truth && truth <= high && high - low < 0.4, value)
}

fn strides() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
    let module = library("examples/module/strides.c", "strides.so", &warnings)?;
    let (module, program) = (module.display().to_string(), accesses()?);
    let done = record(&scratch, &module, &[&program.to_string_lossy(), "3000000"])?;
    let said = errors(&done);
    holds(done.status.success(), &said)?;
    holds(said.contains("# strides of loads, in bytes: "), &said)?;
    // Which of them the few rows are of that the summary has room for is chance.
    let loops = ["by_lines+", "to_and_fro+", "from_stores+"];
    holds(loops.iter().any(|name| said.contains(name)), &said)?;
    let custom = report(&scratch)?;
    holds(custom["failures"] == serde_json::json!([]), &custom)?;
    is_share(value(&custom, "by_lines", "+64")?, 511.0 / 512.0)?;
    is_share(value(&custom, "to_and_fro", "+8")?, 0.75)?;
    is_share(value(&custom, "to_and_fro", "-24")?, 0.25)?;
    is_share(value(&custom, "from_stores", "+0")?, 1.0)
}

fn stores() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (module, program) = (rust(&scratch)?, accesses()?);
    let command = [&*program.to_string_lossy(), "3000000"];
    let done = record(&scratch, &module.display().to_string(), &command)?;
    let said = errors(&done);
    holds(done.status.success(), &said)?;
    // Named by the report: they are places.
    holds(said.contains("often ") && said.contains("rarely"), &said)?;
    let custom = report(&scratch)?;
    is_share(value(&custom, "from_stores", "often")?, 0.8)?;
    is_share(value(&custom, "from_stores", "rarely")?, 0.2)
}

fn processes() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let module = library("tests/modules/wrong.c", "right.so", &[])?;
    let module = format!("{}:a:b", module.display());
    let program = accesses()?;
    let done = record(
        &scratch,
        &module,
        &[&program.to_string_lossy(), "5000000", "2"],
    )?;
    holds(done.status.success(), errors(&done))?;
    holds(
        !String::from_utf8_lossy(&done.stdout).contains("not the program's"),
        "a module's output is not the program's",
    )?;
    let custom = report(&scratch)?;
    holds(custom["failures"] == serde_json::json!([]), &custom)?;
    let first = &custom["instructions"][0]["top"][0];
    holds(first["value"] == 7 && first["text"] == "seven\n", first)?;
    // Windows of all three.
    holds(
        custom["pairs"] == custom["windows"] && custom["windows"].as_u64() > Some(200),
        &custom,
    )?;
    let text = Command::new(trommel())
        .arg("report")
        .arg(scratch.path("data"))
        .output()
        .map_err(|e| e.to_string())?;
    // What a module writes does not get to the terminal as it is.
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    holds(text.contains("seven") && !text.contains("seven\n"), text)
}

fn attached() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let module = library("examples/module/strides.c", "strides-2.so", &[])?;
    let program = accesses()?;
    let mut running = Command::new(&program);
    let mut running = running
        .arg("12000000")
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut record = Command::new(trommel());
    record.args(["record", "--rate", "1000", "--duration", "1"]);
    record.arg("--module-lib").arg(module).arg("-o");
    record.arg(scratch.path("data"));
    let done = record.arg("-p").arg(running.id().to_string()).output();
    let ended = running.wait().map_err(|e| e.to_string())?;
    let done = done.map_err(|e| e.to_string())?;
    holds(done.status.success() && ended.success(), errors(&done))?;
    let custom = report(&scratch)?;
    holds(custom["pairs"].as_u64() > Some(0), &custom)
}

fn refused() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let text = scratch.path("text.so");
    fs::write(&text, "no library\n").map_err(|e| e.to_string())?;
    let strides = library("examples/module/strides.c", "strides-3.so", &[])?;
    let cases = [
        ("/nonexistent/x.so".into(), "cannot read it: No such file"),
        (
            text.display().to_string(),
            "it is not a library that can be loaded: ",
        ),
        (
            wrong("SYMBOL")?,
            "it does not export the function trommel_module, see include/trommel_module.h",
        ),
        (
            wrong("TABLE")?,
            "its function trommel_module returned no table",
        ),
        (
            wrong("VERSION")?,
            "it is built for version 2 of the interface",
        ),
        (wrong("SIZE")?, "its table has 16 bytes and should have 80"),
        (wrong("NULL")?, "its table has no `window`"),
        (wrong("TITLE")?, "its table has no `title`"),
        (wrong("VALUES")?, "its table has 2 in `values`"),
        (wrong("CAPTURE")?, "its table has bits in `capture[6]`"),
        (wrong("NOTHING")?, "its table captures nothing"),
        (wrong("CREATE")?, "no luck today"),
        (wrong("SILENT")?, "its function create returned NULL"),
        (
            wrong("LOAD")?,
            "it crashed: its process was ended by SIGSEGV",
        ),
        (
            format!("{}:argument", strides.display()),
            "it takes no argument",
        ),
        (String::new(), "no library is named"),
    ];
    for (module, expected) in cases {
        let done = record(&scratch, &module, &["echo", "it ran"])?;
        let said = errors(&done);
        holds(said.contains(expected), (expected, &said))?;
        holds(!done.status.success() && done.stdout.is_empty(), said)?;
    }
    // Without windows there is nothing to give it, and other kinds have records of their own.
    let strides = strides.to_string_lossy().into_owned();
    let lib = ["record", "--module-lib", &strides];
    let more: [(&[&str], &str); 4] = [
        (&[], "give them a budget, as in --budget 3"),
        (
            &["--budget", "3", "-e", "value"],
            "goes with the kinds edge and call only",
        ),
        (&["--budget", "3", "-q", "x.rpa"], "cannot be used with"),
        (
            &["--budget", "3", "--only", "libc.so.6"],
            "cannot be used with",
        ),
    ];
    for (options, expected) in more {
        let mut command = Command::new(trommel());
        command
            .args(lib)
            .args(options)
            .args(["--", "echo", "it ran"]);
        let done = command.output().map_err(|e| e.to_string())?;
        let said = errors(&done);
        holds(said.contains(expected), (expected, &said))?;
        holds(!done.status.success() && done.stdout.is_empty(), said)?;
    }
    Ok(())
}

/// Ways in which a module fails, and what is said then.
const FAILURES: [(&str, &str); 12] = [
    ("SEGV", "it crashed: its process was ended by SIGSEGV"),
    ("ABORT", "it crashed: its process was ended by SIGABRT"),
    ("EXIT", "it ended its process, with status 0"),
    ("LOOP", "a call of it did not return within 1 s of CPU time"),
    ("SLEEP", "a call of it did not return within 10 s"),
    ("CLOSE", "its process was ended by SIGKILL"),
    ("NOISE", "what its process sends cannot be read"),
    (
        "ELSEWHERE",
        "it gave a pair for 0x1234, which is no instruction of the window",
    ),
    ("MANY", "it gave more than 65536 pairs for a window"),
    ("RETURN", "its function window returned 17"),
    ("FAIL", "ten are enough"),
    ("MEMORY", "it crashed: its process was ended by SIGSEGV"),
];

fn contained(what: &str, expected: &str) -> Result<(), String> {
    let program = accesses()?;
    let program = program.to_string_lossy();
    // Windows by the hundred, of which it fails in the tenth.
    let command = [&*program, "1000000"];
    let native = natively(&command)?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let began = Instant::now();
    let done = record(&scratch, &wrong(what)?, &command)?;
    let said = errors(&done);
    holds(
        done.status.success() && done.stdout == native.as_bytes(),
        (what, &said),
    )?;
    holds(began.elapsed() < Duration::from_secs(30), what)?;
    holds(
        said.contains("FAILED after 9 windows of process ") && said.contains(expected),
        (what, expected, &said),
    )?;
    // What it had told by then is kept.
    let custom = report(&scratch)?;
    let failures = custom["failures"].as_array().map(Vec::len);
    holds(failures == Some(1), (what, &custom))?;
    holds(
        custom["pairs"] == 9 && custom["instructions"][0]["top"][0]["value"] == 7,
        (what, &custom),
    )
}

fn texts() -> Result<(), String> {
    let program = accesses()?;
    let command = [&*program.to_string_lossy(), "3000000"];
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let done = record(&scratch, &wrong("FORMAT")?, &command)?;
    holds(done.status.success(), errors(&done))?;
    let custom = report(&scratch)?;
    let first = &custom["instructions"][0]["top"][0];
    holds(first["value"] == 7 && first["text"].is_null(), first)?;
    let failure = custom["failures"][0].as_str().unwrap_or_default();
    holds(failure.ends_with("ended by SIGSEGV"), failure)?;
    // One that does not end is cut.
    let done = record(&scratch, &wrong("LONG")?, &command)?;
    holds(done.status.success(), errors(&done))?;
    let custom = report(&scratch)?;
    let text = custom["instructions"][0]["top"][0]["text"].as_str();
    holds(text.map(str::len) == Some(1023), text)
}
