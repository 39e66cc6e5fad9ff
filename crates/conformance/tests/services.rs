//! Services in libraries: what they make of messages is what `record` makes of them; each thing that can be wrong
//! with one is told; one that fails does not disturb the program.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};
use trommel_conformance::program::compile;

const EDGES: &str = "for opBRANCH * every 16 collect pc misc; send 1 stop;";

/// A library from a C source, built with further flags.
fn library(source: &str, name: &str, more: &[&str]) -> PathBuf {
    let dir = cache_dir().join("services");
    fs::create_dir_all(&dir).expect("a directory");
    let out = dir.join(name);
    let include = format!("-I{}", workspace().join("include").display());
    let flags = ["-O2", "-shared", "-fPIC", &include];
    let flags: Vec<String> = flags.iter().chain(more).map(|&f| f.to_owned()).collect();
    compile(&workspace().join(source), &flags, &out).expect("it compiles");
    out
}

fn wrong(what: &str) -> PathBuf {
    let define = format!("-DWRONG_{what}");
    library("tests/queries/wrong.c", &format!("{what}.so"), &[&define])
}

/// The example in Rust, by the compiler that builds us.
fn rust(dir: &Path) -> PathBuf {
    let out = dir.join("libedges.so");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(compiler)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "edges",
        ])
        .args(["-O", "-D", "warnings", "-o"])
        .arg(&out)
        .arg(workspace().join("examples/service-rs/src/lib.rs"))
        .output()
        .expect("rustc");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    out
}

/// `record -q QUERY --service …`, of a command.
fn record(scratch: &Scratch, query: &str, services: &[String], command: &[&str]) -> Output {
    let file = scratch.path("q.rpa");
    fs::write(&file, query).expect("written");
    let mut record = Command::new(trommel());
    record.arg("record").arg("-q").arg(&file);
    for service in services {
        record.arg("--service").arg(service);
    }
    record.arg("-o").arg(scratch.path("data")).arg("--");
    record.args(command).output().expect("it runs")
}

fn report(scratch: &Scratch) -> Value {
    report_of(scratch, "0")
}

/// A report with so many rows of each sort, or all with 0.
fn report_of(scratch: &Scratch, rows: &str) -> Value {
    let mut report = Command::new(trommel());
    report.args(["report", "--top", rows, "--json", "--no-debug-info"]);
    let said = report.arg(scratch.path("data")).output().expect("it runs");
    assert!(said.status.success());
    serde_json::from_slice(&said.stdout).expect("JSON")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Counts of (place, outcome) among rows.
fn edges(rows: &Value, place: &str, outcome: &str) -> BTreeMap<(String, u64), u64> {
    let mut edges = BTreeMap::new();
    for row in rows.as_array().expect("rows") {
        let taken = row[outcome].as_u64().expect("a number") & 1;
        let key = (row[place].to_string(), taken);
        *edges.entry(key).or_default() += row["count"].as_u64().expect("a count");
    }
    edges
}

#[test]
fn tables_in_c_and_rust_are_that_of_record() {
    let scratch = Scratch::new().expect("a directory");
    let warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
    let c = library("examples/service/edges.c", "edges.so", &warnings);
    let c = format!("1={}", c.display());
    let rust = format!("1={}", rust(scratch.dir()).display());
    let text = scratch.path("text");
    let lines: Vec<String> = (0..5000)
        .map(|n| format!("{} {n}\n", n * n % 977))
        .collect();
    fs::write(&text, lines.concat()).expect("written");
    let text = text.to_string_lossy().into_owned();
    // One process, and several.
    let both = format!("gzip -c {text} > {text}.gz; gzip -d -c {text}.gz > {text}.2");
    for command in [&["gzip", "-9", "-c", &text][..], &["sh", "-c", &both]] {
        let done = record(&scratch, EDGES, &[c.clone(), rust.clone()], command);
        assert!(done.status.success(), "{}", errors(&done));
        assert!(
            errors(&done).contains(&format!("trommel: service {c}: ")),
            "{}",
            errors(&done)
        );
        let report = report(&scratch);
        let messages = edges(&report["queries"][0]["messages"], "pc", "misc");
        assert!(messages.len() > 100, "{}", messages.len());
        let services = report["services"].as_array().expect("services");
        let names: Vec<&Value> = services.iter().map(|s| &s["name"]).collect();
        assert_eq!(names, [&c, &rust]);
        for service in services {
            assert_eq!(edges(&service["rows"], "branch", "taken"), messages);
            assert_eq!(service["messages"], report["queries"][0]["sent"]);
            assert_eq!(service["columns"], serde_json::json!(["branch", "taken"]));
            assert_eq!(service["failures"], serde_json::json!([]));
        }
    }
}

#[test]
fn what_is_wrong_with_a_service_is_told_before_the_program_starts() {
    let scratch = Scratch::new().expect("a directory");
    let edges = library("examples/service/edges.c", "edges-2.so", &[]);
    let edges = edges.display();
    let text = scratch.path("text.so");
    fs::write(&text, "no library\n").expect("written");
    let built = |what: &str| format!("1={}", wrong(what).display());
    let cases = [
        ("1=/nonexistent/x.so".into(), "cannot read it: No such file"),
        (
            format!("1={}", text.display()),
            "it is not a library that can be loaded: ",
        ),
        (
            built("SYMBOL"),
            "it does not export the function trommel_service",
        ),
        (
            built("TABLE"),
            "its function trommel_service returned no table",
        ),
        (
            built("VERSION"),
            "it is built for version 2 of the interface",
        ),
        (built("SIZE"), "its table has 16 bytes and should have 40"),
        (built("NULL"), "its table has no function `finish`"),
        (built("CREATE"), "no luck today"),
        (built("SILENT"), "its function create returned NULL"),
        (format!("1={edges}:argument"), "it takes no argument"),
        (format!("{edges}"), "write QUEUE=LIB"),
        (format!("256={edges}"), "`256` is not the number of a queue"),
        ("1=".into(), "no library is named"),
    ];
    for (service, expected) in cases {
        let done = record(&scratch, EDGES, &[service], &["echo", "it ran"]);
        let said = errors(&done);
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(
            !done.status.success() && done.stdout.is_empty(),
            "{expected}"
        );
    }
}

#[test]
fn the_program_goes_on_when_a_service_fails() {
    let scratch = Scratch::new().expect("a directory");
    let service = format!("1={}:a:b", wrong("MESSAGE").display());
    let edges = library("examples/service/edges.c", "edges-3.so", &[]);
    let edges = format!("1={}", edges.display());
    let query = "for opJMP * always collect pc; send 1 stop;";
    let done = record(&scratch, query, &[service, edges], &["echo", "it ran"]);
    let said = errors(&done);
    assert!(
        done.status.success() && done.stdout == b"it ran\n",
        "{said}"
    );
    assert!(
        said.contains("FAILED after 10 messages of process ") && said.contains(": ten are enough"),
        "{said}"
    );
    assert!(
        said.contains("should be on opBRANCH and collect pc and misc"),
        "{said}"
    );
    let report = report(&scratch);
    let services = &report["services"];
    assert_eq!(services[0]["messages"], 10);
    // What it had by then is kept.
    assert_eq!(
        services[0]["rows"],
        serde_json::json!([{"count": 18, "n": 7}])
    );
    assert_eq!(services[1]["messages"], 1);
    assert_eq!(services[1]["failures"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_service_may_fail_at_its_end() {
    let scratch = Scratch::new().expect("a directory");
    let service = format!("1={}:a", wrong("FINISH").display());
    let query = "for opJMP * always collect pc; send 1 stop;";
    let done = record(&scratch, query, &[service], &["echo", "it ran"]);
    assert!(done.status.success() && done.stdout == b"it ran\n");
    let report = report(&scratch);
    let service = &report["services"][0];
    assert_eq!(service["messages"], report["queries"][0]["sent"]);
    let failures = service["failures"].as_array().expect("failures");
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    let failure = failure.as_str().expect("a text");
    assert!(failure.ends_with(": the last page is missing"), "{failure}");
    // Its rows are kept, the last one too.
    let rows = serde_json::json!([
        {"count": service["messages"], "n": 7},
        {"count": 1, "n": 8},
    ]);
    assert_eq!(service["rows"], rows);
}

#[test]
fn a_service_may_be_refused_to_a_later_process() {
    let scratch = Scratch::new().expect("a directory");
    let service = format!("1={}:a", wrong("LATER").display());
    let query = "for opJMP * always collect pc; send 1 stop;";
    let done = record(
        &scratch,
        query,
        &[service],
        &["sh", "-c", "echo one; (echo two); echo three"],
    );
    assert!(done.status.success() && done.stdout == b"one\ntwo\nthree\n");
    let report = report(&scratch);
    let service = &report["services"][0];
    let sent = report["queries"][0]["sent"].as_u64().expect("a number");
    let messages = service["messages"].as_u64().expect("a number");
    assert!(0 < messages && messages < sent, "{messages} of {sent}");
    let rows = serde_json::json!([{"count": messages, "n": 7}]);
    assert_eq!(service["rows"], rows);
    let failures = service["failures"].as_array().expect("failures");
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    let failure = failure.as_str().expect("a text");
    assert!(
        failure.starts_with("after 0 messages of process "),
        "{failure}"
    );
    assert!(failure.ends_with(": one is enough"), "{failure}");
}

#[test]
fn rows_beyond_the_limit_are_told() {
    let scratch = Scratch::new().expect("a directory");
    let service = format!("1={}:a", wrong("ROWS").display());
    let query = "for opJMP * always collect pc; send 1 stop;";
    let done = record(&scratch, query, &[service], &["echo", "it ran"]);
    let said = errors(&done);
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains("ROWS WERE NOT KEPT, of a count of 15"),
        "{said}"
    );
    let report = report(&scratch);
    let service = &report["services"][0];
    assert_eq!(service["failures"], serde_json::json!([]));
    assert_eq!(service["count_not_kept"], 15);
    let first = serde_json::json!({"count": 4, "n": 7});
    assert_eq!(service["rows"][0], first);
}

/// The program that interrupts, and its file for a service.
fn interrupted(scratch: &Scratch) -> (String, String) {
    let program = scratch.path("interrupted");
    let flags = ["-O2", "-pthread"].map(str::to_owned);
    compile(
        &workspace().join("tests/queries/interrupted.c"),
        &flags,
        &program,
    )
    .expect("it compiles");
    let file = scratch.path("file");
    fs::write(&file, [0; 64]).expect("written");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    (text(program), text(file))
}

fn interrupts(how: &str) -> String {
    format!("tag 1 symbol store; for opSTORE 1 always collect op1; interrupt{how} stop;")
}

#[test]
fn a_service_is_told_of_interrupts_at_once() {
    let scratch = Scratch::new().expect("a directory");
    let (program, file) = interrupted(&scratch);
    let library = library("tests/queries/interrupting.c", "interrupting.so", &[]);
    let service = format!("0={}:{file}", library.display());
    for (how, mode, stores) in [(" sync", "sync", 500_u64), ("", "async", 20_000)] {
        let query = interrupts(how);
        let number = stores.to_string();
        let command = [&program[..], &file, &number, mode];
        let done = record(&scratch, &query, std::slice::from_ref(&service), &command);
        let said = errors(&done);
        // Of two threads and a child, no store that the service had not been told of in time.
        assert_eq!(done.stdout, b"0\n0\n0\n", "{mode}: {said}");
        assert!(done.status.success(), "{said}");
        let report = report(&scratch);
        assert_eq!(report["queries"][0]["interrupts"], 3 * stores);
        let kind = u64::from(mode == "sync");
        let rows = serde_json::json!([{"count": 3 * stores, "sync": kind}]);
        assert_eq!(report["services"][0]["rows"], rows, "each, in order");
        assert_eq!(report["services"][0]["failures"], serde_json::json!([]));
    }
}

#[test]
fn nobody_waits_for_a_service_that_has_failed() {
    let scratch = Scratch::new().expect("a directory");
    let (program, file) = interrupted(&scratch);
    let flags = ["-DFAILS=10"];
    let library = library("tests/queries/interrupting.c", "interrupting-10.so", &flags);
    let service = format!("0={}:{file}", library.display());
    let command = [&program[..], &file, "2000", "sync"];
    let done = record(&scratch, &interrupts(" sync"), &[service], &command);
    assert!(done.status.success(), "{}", errors(&done));
    let report = report(&scratch);
    assert_eq!(report["queries"][0]["interrupts"], 6000);
    // One in each process.
    let failures = &report["services"][0]["failures"];
    assert_eq!(failures.as_array().map(Vec::len), Some(2), "{failures}");
    // And nobody waits for one that knows nothing of interrupts.
    let old = format!("1={}:a", wrong("ROWS").display());
    let done = record(&scratch, &interrupts(" sync"), &[old], &command);
    assert!(done.status.success(), "{}", errors(&done));
}

#[test]
fn a_thread_that_waits_for_a_service_goes_on_when_trommel_is_killed() {
    let scratch = Scratch::new().expect("a directory");
    let (program, file) = interrupted(&scratch);
    let flags = ["-DPAUSE=100000000"];
    let library = library(
        "tests/queries/interrupting.c",
        "interrupting-long.so",
        &flags,
    );
    let query = scratch.path("q.rpa");
    fs::write(&query, interrupts(" sync")).expect("written");
    let mut record = Command::new(trommel());
    record.arg("record").arg("-q").arg(&query).arg("--service");
    record.arg(format!("0={}:{file}", library.display()));
    record.arg("-o").arg(scratch.path("data")).arg("--");
    record.args([&program, &file, "1000", "sync"]);
    let mut running = record.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = running.stdout.take().expect("piped");
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut said = String::new();
        let _ = out.read_to_string(&mut said);
        let _ = send.send(said);
    });
    // By then the service sleeps, for minutes.
    let early = receive.recv_timeout(Duration::from_secs(2));
    assert!(early.is_err(), "it did not wait: {early:?}");
    running.kill().expect("killed");
    running.wait().expect("waited for");
    // Natively, nothing is written into the file: all are wrong.
    let said = receive.recv_timeout(Duration::from_secs(60));
    assert_eq!(said.as_deref(), Ok("1000\n1000\n1000\n"));
    reader.join().expect("it has ended");
}

#[test]
fn nobody_waits_with_or_drop_for_a_slow_service() {
    nobody_waits("1");
}

#[test]
fn neither_of_two_threads_waits_with_or_drop() {
    nobody_waits("2");
}

#[test]
fn none_of_many_threads_waits_with_or_drop() {
    nobody_waits("8");
}

/// A service that takes its time, or keeps the first message until the program has ended, costs the program messages and no time.
fn nobody_waits(threads: &str) {
    /// More than the queue takes.
    const STORES: u64 = 500_000;
    const QUERY: &str =
        "tag 1 symbol store; for opSTORE 1 always collect op1; send 3 or drop stop;";
    let scratch = Scratch::new().expect("a directory");
    let program = scratch.path("dropped").to_string_lossy().into_owned();
    let flags = ["-O2", "-pthread"].map(str::to_owned);
    let source = workspace().join("tests/queries/dropped.c");
    compile(&source, &flags, Path::new(&program)).expect("it compiles");
    let library = library("tests/queries/holding.c", "holding.so", &[]);
    let file = scratch.path("ended").to_string_lossy().into_owned();
    // Time up to the program's end, when it writes to the file.
    let recorded = |services: &[String]| {
        fs::write(&file, "").expect("written");
        let stores = STORES.to_string();
        let begun = SystemTime::now();
        let command = [&program[..], &file, threads, &stores];
        let done = record(&scratch, QUERY, services, &command);
        assert!(done.status.success(), "{services:?}: {}", errors(&done));
        let ended = fs::metadata(&file).and_then(|file| file.modified());
        let ended = ended.expect("a time");
        ended.duration_since(begun).expect("a later time")
    };
    let alone = recorded(&[]);
    for how in ["slow", "held"] {
        let service = format!("3={}:{how}:{file}", library.display());
        let served = recorded(&[service]);
        // Others use the machine, too. A program that waits takes at least 10 s.
        let most = alone * 3 / 2 + Duration::from_secs(2);
        assert!(served < most, "{how}: {served:?} and not {alone:?}");
        let report = report_of(&scratch, "1");
        assert_eq!(report["run"]["waits"], 0, "{how}");
        let number = |name: &str| report["queries"][0][name].as_u64().expect("a number");
        let (sent, dropped) = (number("sent"), number("dropped"));
        assert_eq!(sent + dropped, STORES, "{how}");
        assert!(dropped > STORES / 4, "{how}: {dropped} dropped");
        // What is not dropped comes in order, and the service has not given up waiting for the program.
        let rows = serde_json::json!([{"count": sent, "what": 0}]);
        assert_eq!(report["services"][0]["rows"], rows, "{how}");
    }
}

/// A compiled program of `tests/queries`.
fn program(name: &str) -> String {
    let dir = cache_dir().join("services");
    fs::create_dir_all(&dir).expect("a directory");
    let out = dir.join(name);
    let source = workspace().join("tests/queries").join(format!("{name}.c"));
    compile(&source, &["-O2".to_owned(), "-g".to_owned()], &out).expect("it compiles");
    out.to_string_lossy().into_owned()
}

#[test]
fn a_service_asks_for_the_addresses_of_the_loads_that_it_finds() {
    let scratch = Scratch::new().expect("a directory");
    let warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
    let follow = library("examples/service/follow.c", "follow.so", &warnings);
    let query = "for opLOAD * every 256 collect pc; send 1 stop;";
    let (service, lines) = (format!("1={}", follow.display()), program("lines"));
    let done = record(&scratch, query, &[service], &[&lines, "40000000"]);
    assert!(done.status.success(), "{}", errors(&done));
    let first: u64 = String::from_utf8_lossy(&done.stdout)
        .trim()
        .parse()
        .expect("an address");
    let report = report(&scratch);
    let service = &report["services"][0];
    assert_eq!(service["failures"], serde_json::json!([]));
    let rows = service["rows"].as_array().expect("rows");
    let rows = rows.iter().filter(|row| row["load"]["function"] == "look");
    let read: BTreeMap<u64, u64> = rows
        .map(|row| (row["line"].as_u64(), row["count"].as_u64()))
        .map(|(line, count)| (line.expect("an address"), count.expect("a count")))
        .collect();
    let expected: Vec<u64> = (0..4).map(|n| first + n * 64).collect();
    assert_eq!(
        read.keys().copied().collect::<Vec<_>>(),
        expected,
        "{read:?}"
    );
    // By turns: one in sixteen of each, as many.
    let (least, most) = (read.values().min(), read.values().max());
    assert!(least > Some(&10_000) && most < least.map(|n| n * 2).as_ref());
    let queries = report["queries"].as_array().expect("queries");
    assert!(queries.iter().any(|query| query["load"] == "load0"));
}

#[test]
fn what_a_service_loads_is_named_and_takes_the_place_of_what_it_removes() {
    let scratch = Scratch::new().expect("a directory");
    let service = format!(
        "1={}:swap",
        library("tests/queries/asks.c", "asks.so", &[]).display()
    );
    let query = "for opBRANCH * always collect pc; send 1 stop;";
    let done = record(&scratch, query, &[service], &[&program("lines"), "3000000"]);
    assert!(done.status.success(), "{}", errors(&done));
    let report = report(&scratch);
    let queries = report["queries"].as_array().expect("queries");
    let sent: BTreeMap<String, u64> = queries
        .iter()
        .map(|query| (query["load"].to_string(), query["sent"].as_u64()))
        .map(|(load, sent)| (load, sent.expect("a number")))
        .collect();
    // Each message is given once, with the names of its own load.
    let given: BTreeMap<u64, u64> = report["services"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            assert_eq!(row["named"].as_u64(), row["words"].as_u64().map(|n| n - 1));
            (row["words"].as_u64(), row["count"].as_u64())
        })
        .map(|(words, count)| (words.expect("a number"), count.expect("a count")))
        .collect();
    assert_eq!(given.get(&1), sent.get("\"q\""), "{sent:?}");
    assert_eq!(given.get(&2), sent.get("\"asked\""), "{sent:?}");
    assert!(given[&2] > 1_000_000, "{given:?}");
}

/// A service may be there before any query sends to its queue, unless none can be loaded.
#[test]
fn a_service_is_given_messages_of_queries_that_come_later() {
    let scratch = Scratch::new().expect("a directory");
    let asks = library("tests/queries/asks.c", "asks-3.so", &[]);
    let services = [("1", "aside"), ("2", "nothing")]
        .map(|(queue, what)| format!("{queue}={}:{what}", asks.display()));
    let query = "for opBRANCH * always collect pc; send 1 stop;";
    let command = [&*program("lines"), "300000"];
    let done = record(&scratch, query, &services, &command);
    let said = errors(&done);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("no query sends to queue 2 until"), "{said}");
    let report = report(&scratch);
    let queries = report["queries"].as_array().expect("queries");
    let asked = queries.iter().find(|query| query["load"] == "asked");
    let sent = asked.expect("loaded")["sent"].as_u64();
    assert!(sent > Some(1000), "{sent:?}");
    assert_eq!(report["services"][1]["messages"].as_u64(), sent);
    let file = scratch.path("q.rpa");
    std::fs::write(&file, query).expect("written");
    let done = Command::new(trommel())
        .args(["record", "-c", "P7", "-o"])
        .arg(scratch.path("data"))
        .arg("-q")
        .arg(&file)
        .args(["--service", &services[1], "--", "echo", "it ran"])
        .output()
        .expect("trommel starts");
    let said = errors(&done);
    assert!(said.contains("no query sends to queue 2\n"), "{said}");
    assert!(!done.status.success() && done.stdout.is_empty());
}

#[test]
fn what_a_service_cannot_load_is_told() {
    let scratch = Scratch::new().expect("a directory");
    let asks = library("tests/queries/asks.c", "asks-2.so", &[]);
    let query = "for opBRANCH * always collect pc; send 1 stop;";
    for (what, expected) in [
        ("text", ": 2:13: expected "),
        ("event", "only a model"),
        ("name", "and not a number"),
        ("none", "no query has the name asked"),
        ("twice", "asked is loaded already"),
        ("short", ": a nam\n"),
    ] {
        let service = format!("1={}:{what}", asks.display());
        let done = record(&scratch, query, &[service], &["echo", "it ran"]);
        let said = errors(&done);
        assert!(
            done.status.success() && done.stdout == b"it ran\n",
            "{said}"
        );
        assert!(said.contains(expected), "{what}: {said}");
    }
}
