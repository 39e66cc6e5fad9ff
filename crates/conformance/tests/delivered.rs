//! Messages that the queries of the paper's Figure 2 (Heil and Smith, MICRO 2000) deliver of programs that no stepper could follow:
//! of a real one its edges, within the error of sampling; of threads, signal handlers and children under stress each store.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use trommel_compress::random::SplitMix64;
use trommel_compress::{Seeds, Sink, Spec};
use trommel_conformance::exec::{Scratch, cache_dir, required, trommel, workspace};
use trommel_conformance::program::compile;
use trommel_profile::accuracy::{Estimates, PerKind};
use trommel_tuple::{Events, Kind, Message, ModuleId, Place, Tuple, Vaddr};

fn bin() -> &'static Path {
    trommel()
}

fn output(command: &mut Command) -> Vec<u8> {
    let out = command.output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}: {said}", out.status);
    out.stdout
}

fn report(data: &Path) -> Value {
    let text = output(
        Command::new(bin())
            .args(["report", "--json", "--no-debug-info"])
            .arg(data),
    );
    serde_json::from_slice(&text).expect("JSON")
}

/// Figure 2(a): of one conditional branch in 256, where it is and where it went; tabulated by a service thread.
#[test]
fn edges_of_a_real_program_are_within_the_error_of_sampling() {
    /// Standard deviations that no count may be off.
    const MOST: f64 = 6.0;
    /// Share of all executions by which the profile may be off: a few hundred places share 180 000 messages.
    const ERROR: f64 = 0.05;
    let gzip = required("gzip").expect("gzip");
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
        ("", "30000"),
        ("delay=20", "5000"),
        ("evict=97,insns=3", "5000"),
        ("pages=64,delay=5", "5000"),
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

/// Counts that are made in generated code: of threads, signal handlers and children, none is lost and none is made twice.
#[test]
fn counts_in_generated_code_are_exact() {
    const QUERY: &str = "tag 1 symbol store_reference;\n\
        for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then count; count stop;";
    let program = threads();
    let scratch = Scratch::new().expect("directory");
    let [query, data] = ["q.rpa", "data"].map(|name| scratch.path(name));
    fs::write(&query, QUERY).expect("query");
    for stress in ["", "delay=20", "evict=97,insns=3"] {
        let mut command = Command::new(bin());
        command.args(["record", "--quiet", "-q"]).arg(&query);
        command.arg("-o").arg(&data).arg("--");
        command.arg(&program).arg("8000");
        command.env("TROMMEL_STRESS", stress).stdin(Stdio::null());
        let said = String::from_utf8(output(&mut command)).expect("text");
        let stored = said.lines().filter_map(|line| line.split_once(' '));
        let stored = stored.map(|(_, n)| n.parse::<u64>().expect("number"));
        let stored: Vec<u64> = stored.collect();
        let all: u64 = stored.iter().sum();
        // Every fifth is null.
        let references: u64 = stored.iter().map(|n| n - n / 5).sum();
        let report = report(&data);
        let of = &report["queries"][0];
        let number = |value: &Value| value.as_u64().expect("a number");
        let counted: Vec<u64> = (of["instructions"].as_array().expect("instructions").iter())
            .map(|instruction| number(&instruction["counted"]))
            .collect();
        assert_eq!(counted, [references, all], "{stress}");
        let seen = ["executed", "profiled", "filtered"].map(|name| number(&of[name]));
        assert_eq!(seen, [all, all, 0], "{stress}");
    }
}

/// A running process is asked, and goes on when it is not asked any more.
#[test]
fn a_running_process_is_asked() {
    let scratch = Scratch::new().expect("directory");
    let [query, data] = ["q.rpa", "data"].map(|name| scratch.path(name));
    let text = "for opBRANCH * every 7 collect pc misc; send 1 or drop stop;\n\
                for opLOAD * always collect pc; count stop;";
    fs::write(&query, text).expect("query");
    let mut shell = Command::new("sh");
    let mut running = (shell.args(["-c", "while :; do :; done"]).spawn()).expect("a shell");
    let mut record = Command::new(bin());
    record.args(["record", "--quiet", "-q"]).arg(&query);
    record.arg("-o").arg(&data).arg("-p");
    output(
        record
            .arg(running.id().to_string())
            .args(["--duration", "0.5"]),
    );
    assert!(running.try_wait().expect("its state").is_none(), "it ended");
    running.kill().expect("killed");
    running.wait().expect("waited for");
    let report = report(&data);
    let of = |query: usize, name: &str| report["queries"][query][name].as_u64();
    assert!(
        of(0, "sent") > Some(0) && of(1, "counted") > Some(0),
        "{report}"
    );
    assert_eq!(of(1, "counted"), of(1, "executed"));
}

/// A word of a message in JSON, an address of code as its place.
fn word(value: &Value) -> u64 {
    let of = |name: &str| value[name].as_u64().expect("a number");
    match value.as_u64() {
        Some(number) => number,
        None => Place::new(ModuleId(of("module") as u16), Vaddr(of("vaddr"))).word(),
    }
}

/// A compressor makes of the messages of each queue what the same compressor makes of a stream of them.
#[test]
fn messages_go_through_a_compressor_as_events_of_a_stream_do() {
    const QUERY: &str = "for opBRANCH * every 3 collect pc misc res1;\n\
        if misc bset 1 then send 1..2 stop; send 3 stop;";
    let gzip = required("gzip").expect("gzip");
    let scratch = Scratch::new().expect("directory");
    let [query, data, messages] = ["q.rpa", "data", "messages"].map(|name| scratch.path(name));
    fs::write(&query, QUERY).expect("query");
    let text = fs::read(workspace().join("docs/query.md")).expect("a text");
    let input = scratch.path("input");
    fs::write(&input, &text[..3000]).expect("input");
    for (spec, tuple) in [
        ("P7", "pc,res1"),
        ("H[P16]256+A16", "res1"),
        ("CR16", "misc,pc"),
        ("T[16]128/2way/2bit", "pc"),
        ("M4[1k,1%]512", "pc,misc"),
        ("S12[1k,1%]192:E2", "pc,res1"),
        ("D4+H[P4:phase]64", "pc,misc"),
        ("M4[1k,1%]512", "pc,res1,misc"),
        ("H[P16]256+A16", "misc,pc,res1"),
    ] {
        if spec.parse::<Spec>().is_err() {
            panic!("{spec}");
        }
        let mut command = Command::new(bin());
        command.args(["record", "--quiet", "-c", spec, "--tuple", tuple, "-q"]);
        command.arg(&query).arg("--messages").arg(&messages);
        command.arg("-o").arg(&data).arg("--").arg(&gzip).arg("-c");
        output(command.arg(&input));
        let report = report(&data);
        // Queue, and the tuples that were sent there.
        let mut sent: BTreeMap<u64, Vec<Tuple>> = BTreeMap::new();
        let mut words_of: BTreeMap<Tuple, Vec<u64>> = BTreeMap::new();
        for line in fs::read_to_string(&messages).expect("messages").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let words = tuple.split(',').map(|name| word(&line["words"][name]));
            let words: Vec<u64> = words.collect();
            let tuple = match words[..] {
                [place, value] => Tuple::new(Place::from_word(place), value),
                [value] => Tuple::new(Place::from_word(0), value),
                [place, a, b] => {
                    // The name of more words, as the manual defines it.
                    let draw = |state| SplitMix64::new(state).draw();
                    Tuple::new(Place::from_word(place), draw(draw(a) ^ b))
                }
                _ => panic!("{tuple}"),
            };
            words_of.insert(tuple, words);
            let queue = line["queue"].as_u64().expect("a queue");
            sent.entry(queue).or_default().push(tuple);
        }
        assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        let reported = reported_intervals(&data);
        for (queue, tuples) in sent {
            let expected = estimates(spec, &tuples, &words_of);
            let name = format!("{} of queue {queue}", spec.parse::<Spec>().expect(spec));
            let services = report["services"].as_array().expect("services");
            let table = services.iter().find(|service| service["name"] == name);
            let table = table.expect(&name);
            assert_eq!(table["messages"], tuples.len());
            let mut rows: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
            for row in table["rows"].as_array().expect("rows") {
                let words = tuple.split(',').map(|name| word(&row[name])).collect();
                rows.insert(words, row["count"].as_u64().expect("a count"));
            }
            assert!(!rows.is_empty(), "{name}");
            assert_eq!(rows, expected, "{name}");
            let expected = intervals(spec, &tuples, &words_of);
            assert_eq!(reported.get(&queue).cloned(), expected, "{name}");
        }
    }
}

/// An interval: events before it, its events, and the counts of its candidates by their words.
type Interval = (u64, u64, BTreeMap<Vec<u64>, u64>);

/// Receives intervals of tuples.
struct Intervals<'w> {
    words: &'w BTreeMap<Tuple, Vec<u64>>,
    candidates: BTreeMap<Vec<u64>, u64>,
    ended: Vec<Interval>,
}

impl Sink for Intervals<'_> {
    fn message(&mut self, message: Message) {
        let words = self.words[&message.tuple].clone();
        self.candidates.insert(words, message.count);
    }

    fn interval_end(&mut self, events: u64) {
        let start = self.ended.last().map_or(0, |last| last.0 + last.1);
        let candidates = std::mem::take(&mut self.candidates);
        self.ended.push((start, events, candidates));
    }
}

/// Intervals of tuples; none where the compressor has none.
fn intervals(
    spec: &str,
    tuples: &[Tuple],
    words: &BTreeMap<Tuple, Vec<u64>>,
) -> Option<Vec<Interval>> {
    let spec: Spec = spec.parse().expect(spec);
    spec.interval()?;
    let mut sink = Intervals {
        words,
        candidates: BTreeMap::new(),
        ended: Vec::new(),
    };
    let mut compressor = spec.build(Seeds::default());
    compressor.events(Events::of_kind(Kind::Value, tuples), &mut sink);
    assert!(sink.ended.len() > 3, "{spec}: {}", sink.ended.len());
    Some(sink.ended)
}

/// Intervals of the messages of each queue that `report --per-interval` shows: all that have ended.
fn reported_intervals(data: &Path) -> BTreeMap<u64, Vec<Interval>> {
    let mut command = Command::new(bin());
    command.args(["report", "--json", "--no-debug-info", "--per-interval"]);
    let out = command.arg(data).output().expect("runs");
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("holds no intervals"), "{said}");
        return BTreeMap::new();
    }
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let number = |of: &Value, name: &str| of[name].as_u64().expect("a number");
    let interval = |interval: &Value| {
        let candidates = interval["candidates"].as_array().expect("candidates");
        let candidates = candidates.iter().map(|row| {
            let words = row["words"].as_array().expect("words").iter();
            (words.map(word).collect(), number(row, "count"))
        });
        let [start, events] = ["start", "events"].map(|name| number(interval, name));
        (start, events, candidates.collect())
    };
    let queue = |found: &Value| {
        let all = found["per_interval"].as_array().expect("intervals");
        assert_eq!(number(found, "ended"), all.len() as u64);
        let events: u64 = all.iter().map(|interval| number(interval, "events")).sum();
        let unfinished = number(found, "unfinished");
        assert_eq!(number(found, "messages"), events + unfinished);
        (number(found, "queue"), all.iter().map(interval).collect())
    };
    let queues = report["messages"].as_array().expect("queues");
    queues.iter().map(queue).collect()
}

/// Estimated counts by the words that tuples stand for.
fn estimates(
    spec: &str,
    tuples: &[Tuple],
    words: &BTreeMap<Tuple, Vec<u64>>,
) -> BTreeMap<Vec<u64>, u64> {
    let spec: Spec = spec.parse().expect(spec);
    let mut compressor = spec.build(Seeds::default());
    let mut estimates = Estimates::new(&spec, Seeds::default());
    compressor.events(Events::of_kind(Kind::Value, tuples), &mut estimates);
    compressor.finish(&mut estimates);
    let mut seen = PerKind::default();
    seen[Kind::Value as usize] = tuples.len() as u64;
    let profile = estimates.profile(&seen);
    let counts = profile[&Kind::Value].counts.iter();
    let rows = counts.flat_map(|(place, values)| {
        let row = move |(value, n): &(u64, u64)| (words[&Tuple::new(*place, *value)].clone(), *n);
        values.iter().map(row)
    });
    rows.collect()
}

/// Queries with `every auto` say what they took, those that share a budget, too, and others do not.
#[test]
fn what_every_auto_takes_is_said() {
    let scratch = Scratch::new().expect("directory");
    let (query, data) = (scratch.path("q.rpa"), scratch.path("data"));
    let text = "for opLOAD * every auto 20% collect pc; count stop; \
                for opBRANCH * every auto 20% collect pc; count stop; \
                for opMULT * every 16 collect pc; count stop;";
    fs::write(&query, text).expect("query");
    let gzip = required("gzip").expect("gzip");
    let input = workspace().join("docs/lab-findings.md");
    let input = fs::read(input).expect("a text").repeat(100);
    fs::write(scratch.path("input"), input).expect("input");
    let mut command = Command::new(bin());
    command.args(["record", "--quiet", "--query-budget", "2", "-q"]);
    command.arg(&query).arg("-o").arg(&data).arg("--").arg(gzip);
    output(command.arg("-c").arg(scratch.path("input")));
    let report = report(&data);
    let queries = report["queries"].as_array().expect("queries");
    let part = |n: usize| queries[n]["paid_percent"].as_f64();
    let (loads, branches) = (part(0).expect("a part"), part(1).expect("a part"));
    // Countdowns alone take more than the budget: some 40 percent of a program that does little else.
    let all = loads + branches;
    assert!(loads > 0.0 && branches > 0.0 && all < 60.0, "{all}");
    assert!(part(2).is_none());
    let text = output(Command::new(bin()).arg("report").arg(&data));
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.matches("% of the time of its threads").count();
    assert_eq!(lines, 2, "{text}");
    assert!(
        text.contains("what they stand for is with each query"),
        "{text}"
    );
}

/// Rates of `every auto` are due when a thread is back from a call that started a process, for which it holds the lock of the runtime.
#[test]
fn children_are_started_while_rates_are_due() {
    let scratch = Scratch::new().expect("directory");
    let out = cache_dir().join("forking");
    compile(
        &workspace().join("tests/queries/forking.c"),
        &["-O1".to_owned()],
        &out,
    )
    .expect("compiles");
    let (query, data) = (scratch.path("q.rpa"), scratch.path("data"));
    fs::write(&query, "for opSTORE * every auto collect pc; send 1 stop;").expect("query");
    let mut command = Command::new(bin());
    command.args(["record", "--quiet", "-q"]).arg(&query);
    let said = output(command.arg("-o").arg(&data).arg("--").arg(out));
    assert_eq!(said, b"done\n");
    let report = report(&data);
    let text = output(Command::new(bin()).arg("report").arg(&data));
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("observed    to the end"), "{text}");
    let processes = report["processes"].as_array().expect("processes").len();
    assert_eq!(processes, 6, "{text}");
}
