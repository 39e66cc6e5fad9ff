//! The interface for programs that know about trommel: natively nothing happens, and under trommel what was
//! asked for, in C and in Rust.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use trommel_aware::{Answer, MARK, Request};
use trommel_conformance::exec::{Scratch, trommel, workspace};
use trommel_conformance::program;

/// The program of `tests/aware`. Each test builds its own, as they run side by side.
fn built(test: &str) -> PathBuf {
    let flags = ["-O2", "-static", "-Wall", "-Werror"];
    program::built("tests/aware/heard.c", test, &flags).expect("it compiles")
}

fn run(command: &mut Command) -> Output {
    let done = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {stderr}", done.status);
    done
}

/// Returns what a program prints natively, and under `trommel` with these arguments: standard output and error.
fn both(program: &Path, words: &[&str], trommel_args: &[&str]) -> [String; 3] {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let native = run(Command::new(program).args(words));
    let mut command = Command::new(trommel());
    command
        .args(trommel_args)
        .arg("--")
        .arg(program)
        .args(words);
    let seen = run(&mut command);
    [text(native.stdout), text(seen.stdout), text(seen.stderr)]
}

#[test]
fn answers_are_zero_natively_and_tell_what_was_done_here() {
    const EXPECTED: &str = "present 1\nhot 1 -2\naround -2\nchanged 1\njit 1\nvolatile 1\nstop 1\nstart 1\n\
                            counts 1 1\nnowhere -2\nunknown -1\n";
    let program = built("answers");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data").to_string_lossy().into_owned();
    for args in [
        &["run"][..],
        &[
            "record",
            "-e",
            "edge,call,value,type",
            "--exact-values",
            "-o",
            &data,
        ],
        &["record", "-e", "none", "--no-persist", "-o", &data],
    ] {
        let [native, seen, _] = both(&program, &["answers"], args);
        let zero = |line: &str| line.split(' ').skip(1).all(|n| n == "0");
        assert!(native.lines().all(zero), "{native}");
        assert_eq!(seen, EXPECTED, "{args:?}");
    }
}

#[test]
fn what_happens_between_stop_and_start_is_not_counted() {
    let program = built("part");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data").to_string_lossy().into_owned();
    let [native, seen, told] = both(&program, &["part"], &["record", "-e", "call", "-o", &data]);
    assert_eq!(native, seen);
    assert!(told.contains("it stopped the observation itself"), "{told}");
    let mut report = Command::new(trommel());
    let report = run(report.args(["report", "--json", &data]));
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let calls = report["calls"].as_array().expect("a list");
    let of = calls.iter().filter(|c| c["to"]["function"] == "counted");
    let counts: Vec<u64> = of.map(|c| c["count"].as_u64().expect("a number")).collect();
    assert_eq!(counts.iter().sum::<u64>(), 1250, "{counts:?}");
    // Its child was made in between.
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["processes"][1]["events"]["call"]["seen"], 0);
}

/// Whatever observes: queries that send, that only count in generated code and that sample, and events beside them.
#[test]
fn nothing_observes_between_stop_and_start() {
    const COUNTED: &str = "tag 1 symbol \"counted\";\nfor opSTORE 1";
    let program = built("part_asked");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data").to_string_lossy().into_owned();
    let file = scratch.path("q.rpa").to_string_lossy().into_owned();
    for (query, events) in [
        ("always collect pc op1; send 1 stop;", "none"),
        ("always collect pc op1; send 1 stop;", "call"),
        ("always collect pc; count stop;", "none"),
        ("every 2 collect pc res2; count send 1 stop;", "none"),
    ] {
        std::fs::write(&file, format!("{COUNTED} {query}\n")).expect("written");
        let args = ["record", "-q", &file, "-e", events, "-o", &data];
        let [native, seen, told] = both(&program, &["part"], &args);
        assert_eq!(native, seen);
        assert!(told.contains("it stopped the observation itself"), "{told}");
        let report = run(Command::new(trommel()).args(["report", "--json", &data]));
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let executed = report["queries"][0]["executed"].as_u64().expect("a number");
        // Of a sampled query those up to the last profiled one.
        let least = if query.starts_with("always") {
            1250
        } else {
            1200
        };
        assert!(
            (least..=1250).contains(&executed),
            "{query} {events}: {executed}"
        );
    }
}

#[test]
fn hot_code_becomes_a_trace_when_it_runs_the_second_time() {
    let program = built("hot");
    let [native, seen, told] = both(&program, &["hot"], &["run", "--no-bail-out"]);
    assert_eq!(native, seen);
    assert_eq!(told, "traces 1\n");
    let [_, _, told] = both(&program, &["hot", "quiet"], &["run", "--no-bail-out"]);
    assert_eq!(told, "traces 0\n");
}

#[test]
fn code_that_another_process_has_changed_is_executed() {
    let program = built("changed");
    let [native, seen, _] = both(&program, &["changed"], &["run", "--no-bail-out"]);
    assert_eq!(native, seen);
}

#[test]
fn pages_of_jit_code_stay_writable() {
    let program = built("jit");
    let [native, seen, told] = both(&program, &["jit"], &["run", "--no-bail-out"]);
    assert_eq!((native, told), (seen, "writable 1\n".to_owned()));
    let [_, _, told] = both(&program, &["jit", "quiet"], &["run", "--no-bail-out"]);
    assert_eq!(told, "writable 0\n");
}

#[test]
fn requests_without_end_are_answered() {
    let [native, seen, _] = both(&built("many"), &["many"], &["run", "--no-bail-out"]);
    assert_eq!(native, seen);
}

/// Runs once natively, and once more, started by itself, under trommel.
#[test]
fn a_rust_program_is_heard() {
    const INNER: &str = "TROMMEL_AWARE_INNER";
    let name = "a_rust_program_is_heard";
    let mut counts = trommel_aware::Counts::default();
    let bytes = name.as_bytes().as_ptr_range();
    if std::env::var_os(INNER).is_some() {
        assert_eq!(trommel_aware::present(), Some(trommel_aware::VERSION));
        assert_eq!(trommel_aware::counts(&mut counts), Answer::Done);
        assert!(counts.fragments > 100 && counts.dispatches > 100);
        assert_eq!(trommel_aware::hot(bytes), Answer::Done);
        return;
    }
    assert_eq!(trommel_aware::present(), None);
    assert_eq!(trommel_aware::counts(&mut counts), Answer::Absent);
    assert_eq!(trommel_aware::candidates(&mut [Default::default(); 4]), 0);
    assert_eq!(trommel_aware::hot(bytes), Answer::Absent);
    let mut command = Command::new(trommel());
    command.args(["run", "--no-bail-out", "--"]);
    command.arg(std::env::current_exe().expect("this test"));
    run(command.args(["--exact", name]).env(INNER, "1"));
}

/// The program is told what is hot now, in each thread, by whichever profiler counts in generated code.
#[test]
fn a_program_is_told_the_candidates_of_its_last_interval() {
    let flags = ["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"];
    let built = program::built("tests/aware/candidates.c", "candidates", &flags);
    let program = built.expect("it compiles");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data").to_string_lossy().into_owned();
    let parts = |found: &str, loads: &str| {
        let once = format!("adds {found}\nwalks {found}\nloads {loads}\nadds {found}\n");
        format!("before 0\n{once}{once}")
    };
    let record = |events: &str, spec: &str| {
        let args = ["record", "-e", events, "-c", spec, "-o", &data];
        both(&program, &[], &args)
    };
    for (events, spec, expected) in [
        ("edge", "M4[5k,1%]2048", parts("found", "found")),
        (
            "edge,value",
            "M4:crc[5k,1%]2048",
            parts("found", "found, with its value"),
        ),
        // Counted in the service thread, or not by intervals: not known in the program.
        (
            "edge",
            "S4[5k,1%]512",
            "before 0\nno intervals\n".to_owned(),
        ),
        ("edge", "P257", "before 0\nno intervals\n".to_owned()),
    ] {
        let [native, seen, told] = record(events, spec);
        assert_eq!(native, "before 0\n");
        assert_eq!(seen, expected, "{spec}: {told}");
    }
}

#[test]
fn the_header_says_what_the_crate_says() {
    let header = std::fs::read_to_string(workspace().join("include/trommel.h"));
    let header = header.expect("the header");
    let bytes: Vec<String> = MARK.iter().map(|b| format!("0x{b:02x}")).collect();
    assert!(header.contains(&bytes.join(", ")));
    let version = trommel_aware::VERSION;
    assert!(header.contains(&format!("#define TROMMEL_VERSION {version}\n")));
    let numbers = || (1..).map_while(|n| Request::from_number(u64::from(version) << 32 | n));
    for request in numbers() {
        let name = format!("{request:?}").to_uppercase();
        let line = format!("TROMMEL_{name} = {}", request as u32);
        assert!(header.contains(&line), "{line}");
    }
    let next = numbers().count() + 1;
    assert!(next > 9 && !header.contains(&format!(" = {next}")));
    let fields = "fragments traces dispatches indirect_misses links flushes cache_bytes requests";
    let mut rest = &header[header
        .find("struct trommel_counts {")
        .expect("the structure")..];
    for field in fields.split_whitespace() {
        let at = rest.find(&format!("uint64_t {field};")).expect(field);
        rest = &rest[at + 1..];
    }
    let count = fields.split_whitespace().count();
    assert_eq!(size_of::<trommel_aware::Counts>(), 8 * count);
    let fields = ["at", "value", "count", "kind", "interval", "events"];
    let at = header.find("struct trommel_last_candidate {");
    let mut rest = &header[at.expect("the structure")..];
    for field in fields {
        let at = rest.find(&format!("uint64_t {field};")).expect(field);
        rest = &rest[at + 1..];
    }
    assert_eq!(size_of::<trommel_aware::Candidate>(), 8 * fields.len());
}

/// The program loads and removes queries itself: in threads, in handlers that interrupt that, and in children. What it has loaded sends to the
/// queue that it serves.
#[test]
fn a_program_loads_and_removes_queries() {
    const ASKED: &str = "load 1\n\
        again -5: stores is loaded already: remove it first, or give another name by --name\n\
        number -5: a name is 1 to 64 of letters, digits and ._-, and not a number\n";
    const ANSWERS: &str = "no name -2\nbad text 1\ntwice -5: ";
    const REST: &str = "unmapped -2\nshort -5: ";
    const LAST: &str = "long -2\nremove 1\nunknown -5: -\n\
        opened 1 flushed 1 got 1000\nremove 1\nafterwards 0 close 1\nthreads 0\n\
        between handlers 0 0 1\nchild 1\nof the child 1\n";
    let flags = ["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"];
    let program = program::built("tests/aware/asking.c", "asking", &flags).expect("it compiles");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data").to_string_lossy().into_owned();
    let (file, sends) = (scratch.path("first.rpa"), scratch.path("sends.rpa"));
    let first = "tag 1 symbol never; for opSTORE 1 always collect op1; count stop;";
    std::fs::write(&file, first).expect("queries");
    let file = file.to_string_lossy().into_owned();
    for stress in ["", "delay=20", "evict=97,insns=3"] {
        let mut command = Command::new(trommel());
        command.env("TROMMEL_STRESS", stress);
        command.args(["record", "-q", &file, "-o", &data, "--"]);
        let done = run(command.arg(&program).arg("all"));
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.starts_with(ASKED), "{stress}: {said}");
        assert!(said.ends_with(LAST), "{stress}: {said}");
        assert!(
            said.contains(ANSWERS) && said.contains(REST),
            "{stress}: {said}"
        );
        assert!(said.contains("wrong -5: 2:"), "{stress}: {said}");
        assert!(
            said.contains("empty -5: there is no query"),
            "{stress}: {said}"
        );
    }
    let alone = |args: &[&str]| both(&program, &[], args);
    let [native, seen, _] = alone(&["record", "-e", "edge", "-o", &data]);
    assert_eq!([&*native, &*seen], ["load 0\n", "load -3\n"]);
    std::fs::write(&sends, first.replace("count", "send 9")).expect("queries");
    let sends = sends.to_string_lossy().into_owned();
    let [_, seen, _] = alone(&["record", "-q", &sends, "-c", "P4", "-o", &data]);
    assert!(
        seen.starts_with("load -5: a session that gives messages to a compressor"),
        "{seen}"
    );
    let [_, seen, _] = alone(&["record", "-q", &file, "--budget", "20", "-o", &data]);
    assert_eq!(seen, "load 0\n");
}
