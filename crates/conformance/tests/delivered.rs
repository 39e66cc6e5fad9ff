//! Messages that the queries of the paper's Figure 2 (Heil and Smith, MICRO 2000) deliver of programs that no stepper could follow:
//! of a real one its edges, within the error of sampling; of threads, signal handlers and children under stress each store.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, trommel, which, workspace};
use trommel_conformance::program::compile;

fn bin() -> &'static Path {
    trommel().expect("trommel is built")
}

fn output(command: &mut Command) -> Vec<u8> {
    let out = command.output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}: {said}", out.status);
    out.stdout
}

fn report(data: &Path) -> Value {
    let text = output(Command::new(bin()).args(["report", "--json"]).arg(data));
    serde_json::from_slice(&text).expect("JSON")
}

/// Figure 2(a): of one conditional branch in 256, where it is and where it went; tabulated by a service thread.
#[test]
fn edges_of_a_real_program_are_within_the_error_of_sampling() {
    /// Standard deviations that no count may be off.
    const MOST: f64 = 6.0;
    /// Share of all executions by which the profile may be off: a few hundred places share 180 000 messages.
    const ERROR: f64 = 0.05;
    let Some(gzip) = which("gzip") else {
        eprintln!("skipped: no gzip");
        return;
    };
    let scratch = Scratch::new().expect("directory");
    let (input, query) = (scratch.path("input"), scratch.path("edges.rpa"));
    // More than gzip's window, so that no repetition is one string.
    let texts = ["query", "lab-findings", "json", "performance"].map(|name| {
        let path = workspace().join(format!("docs/{name}.md"));
        fs::read(path).expect("a text")
    });
    fs::write(&input, texts.concat().repeat(30)).expect("input");
    fs::write(
        &query,
        "for opBRANCH * every 256 collect pc misc; send 1 stop;",
    )
    .expect("query");
    let run = |options: &[&Path]| {
        let data = scratch.path("data");
        let mut command = Command::new(bin());
        command.args(["record", "--quiet", "-o"]).arg(&data);
        command.args(options).arg("--").arg(&gzip).arg("-c");
        output(command.arg(&input));
        report(&data)
    };
    let exact = run(&[Path::new("-e"), Path::new("edge")]);
    let sampled = run(&[Path::new("-q"), &query]);
    // The program itself: the loader's way depends on its addresses.
    let of_program = |report: &Value| {
        let modules = report["modules"].as_array().expect("modules");
        let found = modules.iter().find(|module| {
            let path = module["path"].as_str().unwrap_or_default();
            path.ends_with("gzip")
        });
        found.expect("gzip")["id"].clone()
    };
    let module = of_program(&exact);
    let mut edges: BTreeMap<(u64, bool), (f64, f64)> = BTreeMap::new();
    for edge in exact["edges"].as_array().expect("edges") {
        let taken = match edge["kind"].as_str() {
            Some("taken") => true,
            Some("fallthrough") => false,
            _ => continue,
        };
        if edge["from"]["module"] == module {
            let at = edge["from"]["vaddr"].as_u64().expect("address");
            edges.entry((at, taken)).or_default().0 += edge["count"].as_f64().expect("count");
        }
    }
    let module = of_program(&sampled);
    for message in sampled["queries"][0]["messages"]
        .as_array()
        .expect("messages")
    {
        if message["pc"]["module"] == module {
            let at = message["pc"]["vaddr"].as_u64().expect("address");
            let taken = message["misc"].as_u64().expect("outcome") & 1 == 1;
            edges.entry((at, taken)).or_default().1 += message["count"].as_f64().expect("count");
        }
    }
    let (mut all, mut off) = (0.0, 0.0);
    for ((at, taken), (executed, sent)) in &edges {
        let expected = executed / 256.0;
        let deviation = (sent - expected).abs() / expected.max(1.0).sqrt();
        assert!(
            deviation < MOST,
            "{at:#x}, taken: {taken}: {executed} executions, {sent} messages"
        );
        all += executed;
        off += (sent * 256.0 - executed).abs();
    }
    assert!(
        edges.len() > 100 && all > 1e7,
        "{} edges, {all}",
        edges.len()
    );
    assert!(off / all < ERROR, "{}", off / all);
}

fn threads() -> PathBuf {
    let dir = cache_dir().join("queries");
    fs::create_dir_all(&dir).expect("directory");
    let out = dir.join("threads");
    let flags = ["-O2", "-pthread"].map(str::to_owned);
    compile(&workspace().join("tests/queries/threads.c"), &flags, &out).expect("compiles");
    out
}

/// Figure 2(c): each reference that is stored and not null, by the functions that are tagged.
#[test]
fn each_store_is_delivered_once_and_in_order() {
    const QUERY: &str = "tag 1 symbol store_reference;\n\
        for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then send 3 stop else stop;";
    let program = threads();
    let scratch = Scratch::new().expect("directory");
    let [query, data, messages] = ["q.rpa", "data", "messages"].map(|name| scratch.path(name));
    fs::write(&query, QUERY).expect("query");
    for (stress, stores) in [
        ("", "100000"),
        ("delay=20", "20000"),
        ("evict=97,insns=3", "20000"),
        ("pages=64,delay=5", "20000"),
    ] {
        let mut command = Command::new(bin());
        command.args(["record", "--quiet", "-q"]).arg(&query);
        command
            .arg("--messages")
            .arg(&messages)
            .arg("-o")
            .arg(&data);
        command.arg("--").arg(&program).arg(stores);
        command.env("TROMMEL_STRESS", stress).stdin(Stdio::null());
        let said = String::from_utf8(output(&mut command)).expect("text");
        // How many each sequence has stored, null or not.
        let stored: BTreeMap<u64, u64> = said
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(sequence, n)| {
                (
                    sequence.parse().expect("number"),
                    n.parse().expect("number"),
                )
            })
            .collect();
        assert_eq!(stored.len(), 6, "{said}");
        let mut sent: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut senders: BTreeMap<u64, (Value, Value)> = BTreeMap::new();
        for line in fs::read_to_string(&messages).expect("messages").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let reference = line["words"]["op1"].as_u64().expect("a reference");
            let sequence = reference >> 32;
            sent.entry(sequence)
                .or_default()
                .push(reference & 0xffff_ffff);
            let sender = (line["pid"].clone(), line["thread"].clone());
            let first = senders.entry(sequence).or_insert_with(|| sender.clone());
            assert_eq!(*first, sender, "{stress}: sequence {sequence}");
        }
        for (sequence, n) in stored {
            let expected: Vec<u64> = (1..=n).filter(|n| n % 5 != 0).collect();
            let got = sent.remove(&sequence).unwrap_or_default();
            let differs = expected.iter().zip(&got).position(|(a, b)| a != b);
            assert!(
                differs.is_none() && expected.len() == got.len(),
                "{stress}: sequence {sequence}: {} of {}, the first that differs is at {differs:?}",
                got.len(),
                expected.len()
            );
        }
        assert!(sent.is_empty(), "{stress}: {sent:?}");
    }
}
