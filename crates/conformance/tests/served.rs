//! Queues that a program serves itself (`trommel_aware::queue`): every message, in order per thread; nothing that the program passes,
//! and no end of its service thread, stops it; and a garbage collector whose store barrier is a query loses no object.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use trommel_aware::Answer;
use trommel_aware::queue::{HEADER_BYTES, Memory, Queue, Refused, flush};
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};

/// Figure 2(c) of the paper (Heil and Smith, MICRO 2000).
const STORES: &str = "tag 1 symbol store_reference;\n\
    for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then send 3 stop else stop;";
/// Stress options that make rare things common.
const STRESSES: [&str; 4] = ["", "delay=20", "evict=97,insns=3", "pages=64,delay=5"];

/// A program of the repository. Each test builds its own, as they run side by side, and anew: from several files.
fn built(test: &str, sources: &[&str], flags: &[&str]) -> PathBuf {
    let dir = cache_dir().join("served");
    fs::create_dir_all(&dir).expect("a directory");
    let out = dir.join(test);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    cc.args(flags).arg("-o").arg(&out);
    cc.args(sources.iter().map(|file| workspace().join(file)));
    assert!(cc.status().expect("a C compiler").success(), "{test}");
    out
}

fn served(test: &str) -> PathBuf {
    built(test, &["tests/queries/served.c"], &[])
}

fn collector(test: &str, flags: &[&str]) -> PathBuf {
    let sources = [
        "examples/gc/heap.c",
        "examples/gc/collect.c",
        "examples/gc/main.c",
    ];
    built(test, &sources, flags)
}

/// A run under `record -q`: what it printed, and how it ended. Ended itself after two minutes.
fn record(scratch: &Scratch, query: &str, stress: &str, program: &Path, words: &[&str]) -> Output {
    let file = scratch.path("q.rpa");
    fs::write(&file, query).expect("query");
    let mut command = Command::new("timeout");
    command
        .arg("120")
        .arg(trommel())
        .args(["record", "--quiet", "-q"])
        .arg(&file)
        .arg("-o")
        .arg(scratch.path("data"))
        .arg("--")
        .arg(program)
        .args(words);
    command.env("TROMMEL_STRESS", stress).stdin(Stdio::null());
    command.output().expect("it runs")
}

/// Returns the output of a run that ended well.
fn printed(done: &Output, what: &str) -> String {
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{what}: {}: {text}{told}",
        done.status
    );
    text
}

fn report(scratch: &Scratch) -> Value {
    let mut command = Command::new(trommel());
    command
        .args(["report", "--json", "--no-debug-info"])
        .arg(scratch.path("data"));
    let out = command.output().expect("it runs");
    assert!(out.status.success());
    serde_json::from_slice(&out.stdout).expect("JSON")
}

#[test]
fn interrupts_are_handled_after_the_instruction() {
    let program = built("handled", &["tests/queries/handled.c"], &[]);
    let scratch = Scratch::new().expect("directory");
    let native = Command::new(&program).arg("9").output().expect("it runs");
    assert_eq!(native.stdout, b"answered 0, 0, 0\n");
    for stress in STRESSES {
        for how in ["", " sync"] {
            let what = format!("{stress}, {how}");
            let query = format!(
                "tag 1 symbol store; for opSTORE 1 always collect op1; interrupt{how} stop;"
            );
            let done = record(&scratch, &query, stress, &program, &["3000"]);
            let expected = "answered 1, -2, -2\n\
                            3000 handled, 0 wrong\n3000 handled, 0 wrong\n3000 handled, 0 wrong\n\
                            3000 handled in the end, child 0\n";
            assert_eq!(printed(&done, &what), expected, "{what}");
            let query = &report(&scratch)["queries"][0];
            assert_eq!(query["interrupts"], 9002, "{what}");
            assert_eq!(query["dropped"], 0, "{what}");
        }
    }
    let other = "for opSTORE * every 1000 collect pc; send 3 stop;";
    let done = record(&scratch, other, "", &program, &["9"]);
    assert_eq!(printed(&done, "no interrupts"), "answered -3, -3, -3\n");
}

#[test]
fn each_message_comes_once_and_in_order() {
    let program = served("order");
    let scratch = Scratch::new().expect("directory");
    for stress in STRESSES {
        for room in ["2", "128", "65536"] {
            let what = format!("{stress}, room for {room}");
            let words = ["order", "8000", room];
            let done = record(&scratch, STORES, stress, &program, &words);
            let expected = "child 0 flush 1 close 1 -2 lost 0\n";
            assert_eq!(printed(&done, &what), expected, "{what}");
            let report = report(&scratch);
            let query = &report["queries"][0];
            let of = |key: &str| query[key].as_u64().expect(key);
            // The child's, before it had a queue of its own, are trommel's; and it had one.
            let messages = query["messages"].as_array().expect("messages").iter();
            let tabulated: u64 = messages.filter_map(|m| m["count"].as_u64()).sum();
            assert_eq!(of("sent"), of("served_by_program") + tabulated, "{what}");
            assert_eq!((tabulated, of("dropped")), (800, 0), "{what}");
            assert!(of("served_by_program") > 3 * 6400, "{what}");
        }
    }
}

#[test]
fn natively_there_is_no_queue() {
    let program = served("natively");
    let done = Command::new(&program).arg("order").output().expect("runs");
    assert_eq!(printed(&done, "natively"), "not open 0\n");
    // No query of the run sends to it.
    let scratch = Scratch::new().expect("directory");
    let other = "for opMULT * every 100 collect pc; send 4 stop;";
    let done = record(&scratch, other, "", &program, &["order"]);
    assert_eq!(printed(&done, "another queue"), "not open -3\n");
}

#[test]
fn what_a_program_passes_and_writes_does_no_harm() {
    let program = served("hostile");
    let scratch = Scratch::new().expect("directory");
    let expected = "nowhere -2 -2 -2 readonly -2 room -2 -2 -2 -2 number -2 bytes -2 place -2 unasked -3 \
                    others -2 -2 -2 open 1 -4\n-2-2-2-2-2-2-2-2-2-2-2-2-2-2-2-2 flush -2\n";
    for stress in ["", "delay=20"] {
        let done = record(&scratch, STORES, stress, &program, &["hostile"]);
        assert_eq!(printed(&done, stress), expected, "{stress}");
    }
    // Of 20 queues that queries send to, 16 can be open.
    let many = "for opMULT * every 1000 collect pc; send 0..7; send 8..15; send 16..19 stop;";
    let done = record(&scratch, many, "", &program, &["many"]);
    assert_eq!(printed(&done, "many"), "open 16\n");
}

/// The end of the service thread; another program in its place; the process detached; the queue closed by another thread, which
/// uses its memory for something else at once.
#[test]
fn threads_that_wait_for_room_go_on_when_nobody_makes_any() {
    nobody_makes_room(&[""]);
}

#[test]
#[ignore = "nightly (docs/testing.md): eight runs that wait"]
fn threads_that_wait_for_room_go_on_under_stress_too() {
    nobody_makes_room(&["delay=20", "evict=97,insns=3"]);
}

fn nobody_makes_room(stresses: &[&str]) {
    let program = served("end");
    let scratch = Scratch::new().expect("directory");
    for stress in stresses {
        for (way, expected) in [
            ("end", "open 1 state 2 flush -2\n"),
            ("exec", "open 1\nanother program\n"),
            ("leave", "open 1\n"),
            ("closed", "open 1\n"),
        ] {
            let what = format!("{way}, {stress}");
            let done = record(&scratch, STORES, stress, &program, &[way, "5000"]);
            assert_eq!(printed(&done, &what), expected, "{what}");
            if way != "end" {
                continue;
            }
            let report = report(&scratch);
            let query = &report["queries"][0];
            let of = |key: &str| query[key].as_u64().expect(key);
            // What did not fit was trommel's.
            assert_eq!((of("sent"), of("dropped")), (12000, 0), "{what}");
            assert_eq!(of("served_by_program"), 16, "{what}");
        }
    }
}

#[test]
fn a_signal_interrupts_the_wait_for_room_and_order_is_kept() {
    let program = served("interrupted");
    let scratch = Scratch::new().expect("directory");
    for stress in STRESSES {
        let done = record(&scratch, STORES, stress, &program, &["interrupted"]);
        let expected = "open 1 handled 1 received 800 1\n";
        assert_eq!(printed(&done, stress), expected, "{stress}");
    }
}

#[test]
fn what_is_dropped_is_counted() {
    let program = served("dropped");
    let scratch = Scratch::new().expect("directory");
    let done = record(&scratch, STORES, "", &program, &["self"]);
    let expected = "open 1 received 16 lost 16 flush 1\n";
    assert_eq!(printed(&done, "a thread that sends to itself"), expected);
    let drops = STORES.replace("send 3", "send 3 or drop");
    let done = record(&scratch, &drops, "", &program, &["drop", "4000"]);
    assert_eq!(printed(&done, "drops"), "open 1 received 16 all 1\n");
    let report = report(&scratch);
    assert_eq!(report["queries"][0]["dropped"], 9600 - 16);
}

/// Runs natively, and once more, started by itself, under trommel.
#[test]
fn a_rust_program_serves_a_queue() {
    const INNER: &str = "TROMMEL_SERVED_INNER";
    assert_eq!(size_of::<Memory<64>>() as u64, HEADER_BYTES + 64 * 64);
    let memory: &'static mut Memory<64> = Box::leak(Box::new(Memory::new()));
    if std::env::var_os(INNER).is_none() {
        assert_eq!(Queue::open(memory, 9).err(), Some(Refused(Answer::Absent)));
        assert_eq!(flush(9), Answer::Absent);
        let scratch = Scratch::new().expect("directory");
        let query = "for opMULT * every 100 collect pc thread; send 9 stop;";
        let name = "a_rust_program_serves_a_queue";
        let test = std::env::current_exe().expect("this test");
        let file = scratch.path("q.rpa");
        fs::write(&file, query).expect("query");
        let mut command = Command::new(trommel());
        command.args(["record", "--quiet", "-q"]).arg(&file);
        command.arg("-o").arg(scratch.path("data")).arg("--");
        command.arg(test).args(["--exact", name]).env(INNER, "1");
        let done = command.output().expect("it runs");
        printed(&done, "under trommel");
        return;
    }
    let mut queue = Queue::open(memory, 9).expect("it is opened");
    let other = std::thread::spawn(|| {
        let mut product = 1_u64;
        for n in 1..200_000 {
            product = std::hint::black_box(product.wrapping_mul(n) | 1) % std::hint::black_box(n);
        }
        assert_eq!(flush(9), Answer::Done);
    });
    let mut messages = 0;
    while !other.is_finished() {
        while let Some(message) = queue.receive() {
            assert_eq!(message.words[2..], [0; 5]);
            assert_eq!(message.words[1], u64::from(message.thread()));
            messages += 1;
        }
        assert!(queue.wait(Duration::from_millis(5)));
    }
    other.join().expect("it flushed");
    messages += std::iter::from_fn(|| queue.receive()).count();
    assert!(messages > 1000, "{messages}");
    queue.close();
    assert_eq!(flush(9), Answer::Wrong);
}

/// Returns the collector's figures of a run.
fn figures(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn barrier() -> String {
    fs::read_to_string(workspace().join("examples/gc/gc.rpa")).expect("the query")
}

#[test]
fn a_collector_whose_barrier_is_a_query_loses_no_object() {
    let program = collector("gc", &[]);
    let scratch = Scratch::new().expect("directory");
    for stress in ["", "delay=20", "pages=64", "evict=997"] {
        let words = ["1000000", "3", "8", "check"];
        let done = record(&scratch, &barrier(), stress, &program, &words);
        let said = figures(&printed(&done, stress));
        let of = |key: &str| said[key].parse::<u64>().expect(key);
        assert_eq!(
            (said["barrier"].as_str(), of("lost")),
            ("query", 0),
            "{stress}: {said:?}"
        );
        assert_eq!(said["ended"], "query", "{stress}: {said:?}");
        assert!(
            of("checked") > 5 && of("messages") > 500_000,
            "{stress}: {said:?}"
        );
    }
}

/// The oracle has to notice a barrier that is not there.
#[test]
fn a_collector_that_forgets_what_its_barrier_tells_is_caught() {
    let program = collector("forgets", &[]);
    let scratch = Scratch::new().expect("directory");
    let words = ["1000000", "3", "8", "check", "forget"];
    let done = record(&scratch, &barrier(), "", &program, &words);
    let said = figures(&String::from_utf8_lossy(&done.stdout));
    assert_eq!(done.status.code(), Some(1), "{said:?}");
    assert!(said["lost"].parse::<u64>().expect("a number") > 0);
}

/// Tests that messages end when trommel is killed, which the next flush tells: the program is stopped and marked, and goes on so.
#[test]
fn a_collector_outlives_trommel() {
    let program = collector("outlives", &[]);
    let scratch = Scratch::new().expect("directory");
    let file = scratch.path("q.rpa");
    fs::write(&file, barrier()).expect("query");
    for delay in [0, 100, 300] {
        let mut command = Command::new(trommel());
        command.args(["record", "--quiet", "-q"]).arg(&file);
        command.arg("-o").arg(scratch.path("data")).arg("--");
        // It begins by telling what its barrier is, and does not end before that changes.
        command
            .arg(&program)
            .args(["1000", "3", "8", "check", "stay"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut text = String::new();
        out.read_line(&mut text).expect("its first line");
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        let (said, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = out.read_to_string(&mut text);
            let _ = said.send(text);
        });
        let text = heard.recv_timeout(Duration::from_secs(100));
        let said = figures(&text.expect("the program ends"));
        assert_eq!(
            (&*said["barrier"], &*said["ended"], &*said["lost"]),
            ("query", "stopped", "0"),
            "{said:?}"
        );
    }
}

/// Without the query, and when the program is detached in between, it stops the program to mark it.
#[test]
fn a_collector_without_its_barrier_stops_the_program() {
    let plain = collector("stops", &[]);
    let compiled = collector("compiled", &["-DBARRIER"]);
    let words = ["1000000", "3", "8", "check"];
    for (program, barrier) in [(&plain, "stopped"), (&compiled, "compiled")] {
        let done = Command::new(program).args(words).output().expect("runs");
        let said = figures(&printed(&done, barrier));
        assert_eq!(
            (said["barrier"].as_str(), said["lost"].as_str()),
            (barrier, "0")
        );
    }
    let scratch = Scratch::new().expect("directory");
    let other = "for opMULT * every 100 collect pc; send 3 stop;";
    let done = record(&scratch, other, "", &plain, &words);
    let said = figures(&printed(&done, "another query"));
    assert_eq!(
        (said["barrier"].as_str(), said["lost"].as_str()),
        ("stopped", "0")
    );
    for stress in [
        "evict=31,leave=900",
        "evict=31,leave=1500",
        "evict=31,leave=3000",
    ] {
        let done = record(&scratch, &barrier(), stress, &plain, &words);
        let said = figures(&printed(&done, stress));
        assert_eq!(
            (said["ended"].as_str(), said["lost"].as_str()),
            ("stopped", "0"),
            "{said:?}"
        );
    }
}
