//! `compress --per-interval` and `--cost`: intervals of a real program's stream against a count of our own, and
//! planted phases. `report --per-interval`: those of a recording against those of its stream.

mod common;

use std::collections::BTreeMap;

use common::Dir;
use serde_json::Value;
use trommel_tuple::stream::{Block, Writer, open};
use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};

fn text(dir: &Dir, args: &[&str]) -> String {
    String::from_utf8(dir.trommel(args)).expect("UTF-8")
}

fn in_json(dir: &Dir, args: &[&str]) -> Value {
    dir.json(&[args, &["--json"]].concat())
}

type Event = (&'static str, u64, u64, u64, u64);

/// A tuple as JSON has it: kind, place, and a value or another place.
fn event(kind: Kind, tuple: Tuple) -> Event {
    let (module, value) = match kind.value_is_place() {
        true => {
            let to = Place::from_word(tuple.value);
            (u64::from(to.module().0), to.vaddr().0)
        }
        false => (u64::MAX, tuple.value),
    };
    let at = tuple.pc;
    (
        kind.name(),
        u64::from(at.module().0),
        at.vaddr().0,
        module,
        value,
    )
}

fn of_json(candidate: &Value) -> Event {
    let number = |v: &Value| v.as_u64().expect("a number");
    let kind = candidate["kind"].as_str().expect("a kind");
    let kind = Kind::ALL
        .into_iter()
        .find(|k| k.name() == kind)
        .expect("a kind");
    let (module, value) = match candidate.get("to") {
        Some(to) => (number(&to["module"]), number(&to["vaddr"])),
        None => (u64::MAX, number(&candidate["value"])),
    };
    let at = &candidate["at"];
    (
        kind.name(),
        number(&at["module"]),
        number(&at["vaddr"]),
        module,
        value,
    )
}

/// All events of a stream.
fn events(path: &std::path::Path) -> Vec<Event> {
    let mut reader = open(path).expect("a stream");
    let (mut block, mut all) = (Block::default(), Vec::new());
    while reader.next_block(&mut block).expect("whole") {
        block
            .events()
            .for_each(|kind, tuple| all.push(event(kind, tuple)));
    }
    all
}

/// The error of an interval by the definition: what candidates of either are off, of what they are.
fn error(interval: &[Event], threshold: u64, found: &BTreeMap<Event, u64>) -> f64 {
    let mut exact: BTreeMap<Event, u64> = BTreeMap::new();
    interval
        .iter()
        .for_each(|e| *exact.entry(*e).or_default() += 1);
    let (mut off, mut whole) = (0, 0);
    for (event, count) in &exact {
        if *count >= threshold || found.contains_key(event) {
            off += count.abs_diff(found.get(event).copied().unwrap_or(0));
            whole += count;
        }
    }
    100.0 * off as f64 / whole.max(1) as f64
}

#[test]
fn intervals_of_a_real_program_are_what_they_say() {
    let dir = Dir::new("intervals-real");
    let record = [
        "record",
        "--quiet",
        "-e",
        "edge,value",
        "--stream",
        "s.tstream",
    ];
    let program = [
        "--stream-limit",
        "60000",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done",
    ];
    text(&dir, &[&record[..], &program].concat());
    let all = events(&dir.0.join("s.tstream"));
    assert!(all.len() > 20_000, "{}", all.len());
    // Few counters, so that there are errors to compare.
    for spec in ["M2[2k,1%]64:C1R0P1", "S4[3k,2%]32:P1"] {
        let args = ["compress", "s.tstream", "--per-interval", "-c", spec];
        let json = &in_json(&dir, &args)[0];
        let length = if spec.starts_with('M') { 2000 } else { 3000 };
        let threshold = if spec.starts_with('M') { 20 } else { 60 };
        let intervals = json["per_interval"].as_array().expect("intervals");
        assert_eq!(intervals.len(), all.len() / length);
        let (mut sum, mut messages) = (0.0, 0);
        for (n, (interval, events)) in intervals.iter().zip(all.chunks(length)).enumerate() {
            assert_eq!(interval["start"], n * length);
            assert_eq!(interval["events"], length);
            let candidates = interval["candidates"].as_array().expect("candidates");
            let count = |c: &Value| (of_json(c), c["count"].as_u64().expect("a number"));
            let counts: Vec<u64> = candidates.iter().map(|c| count(c).1).collect();
            assert!(counts.is_sorted_by(|a, b| a >= b), "hottest first");
            let found: BTreeMap<Event, u64> = candidates.iter().map(count).collect();
            let by_hand = error(events, threshold, &found);
            let printed = interval["error"].as_f64().expect("a number");
            assert!(
                (by_hand - printed).abs() < 1e-4,
                "{spec} {n}: {by_hand} {printed}"
            );
            sum += by_hand;
            messages += candidates.len();
        }
        let mean = sum / intervals.len() as f64;
        assert!((mean - json["error"].as_f64().expect("a number")).abs() < 1e-3);
        assert_eq!(json["messages"], messages);
        // Text and CSV are of the same intervals.
        let csv = text(&dir, &[&args[..], &["--csv"]].concat());
        let empty = intervals
            .iter()
            .filter(|i| i["candidates"] == Value::Array(Vec::new()));
        assert_eq!(csv.lines().count(), 1 + messages + empty.count());
        let columns = |line: &str| line.rsplit('"').next().map(|l| l.matches(',').count());
        assert!(csv.lines().skip(1).all(|l| columns(l) == Some(11)), "{csv}");
        let text = text(&dir, &args);
        assert!(
            text.contains(&format!("# {spec}: intervals: {}", intervals.len())),
            "{text}"
        );
        assert!(
            text.contains("dash:0x") || text.contains("bash:0x") || text.contains(".so"),
            "{text}"
        );
    }
}

/// Three kinds of work in turn, each with values of its own: as many phases, in the order of the work.
#[test]
fn planted_phases_are_found() {
    let dir = Dir::new("intervals-planted");
    let order = [1, 1, 2, 2, 1, 3, 3, 3, 2, 1];
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for phase in order {
        for n in 0..1000_u64 {
            let pc = Place::new(ModuleId(1), Vaddr(0x100 * phase + n % 4 * 4));
            // A tenth is noise.
            let value = if n % 10 == 9 { n * phase } else { phase };
            writer
                .push(Kind::Value, Tuple::new(pc, value))
                .expect("memory");
        }
    }
    std::fs::write(dir.0.join("s.tstream"), writer.finish().expect("memory")).expect("stream");
    let args = [
        "compress",
        "s.tstream",
        "--per-interval",
        "-c",
        "M4[1k,1%]2048",
    ];
    let json = &in_json(&dir, &args)[0];
    let intervals = json["per_interval"].as_array().expect("intervals");
    let phases: Vec<u64> = intervals
        .iter()
        .filter_map(|i| i["phase"].as_u64())
        .collect();
    assert_eq!(phases, order);
    let events: Vec<u64> = json["phases"]
        .as_array()
        .expect("phases")
        .iter()
        .filter_map(|p| p["events"].as_u64())
        .collect();
    assert_eq!(events, [4000, 3000, 3000]);
    let text = text(&dir, &args);
    assert!(text.contains("intervals: 10, phases: 3"), "{text}");
    assert!(text.contains("phase 1: 4 intervals, 40.0%"), "{text}");
}

/// Two functions in turn, three times each, in each of two threads.
const TURNS: &str = "
#include <pthread.h>
static volatile unsigned sink;
__attribute__((noinline)) static void adds(void) { for (unsigned i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) static void walks(void) {
  for (unsigned i = 1; i < 400; i++) for (unsigned x = i; x != 1; ) x = x & 1 ? 3 * x + 1 : x / 2;
}
static void *turns(void *none) { for (int n = 0; n < 3; n++) { adds(); walks(); } return none; }
int main(void) {
  pthread_t thread;
  turns(0);
  pthread_create(&thread, 0, turns, 0);
  pthread_join(thread, 0);
}
";

/// Builds [`TURNS`], and records with the options.
fn recorded(dir: &Dir, options: &[&str]) {
    std::fs::write(dir.0.join("turns.c"), TURNS).expect("a source");
    let built = std::process::Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o", "turns", "turns.c"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("a C compiler").success());
    let head = ["record", "--quiet", "-e", "edge", "-o", "p.data"];
    text(dir, &[&head[..], options, &["--", "./turns"]].concat());
}

/// Candidates as tuples with their counts, without names.
fn candidates(interval: &Value) -> Vec<(Event, u64)> {
    let all = interval["candidates"].as_array().expect("candidates");
    let count = |c: &Value| c["count"].as_u64().expect("a number");
    all.iter().map(|c| (of_json(c), count(c))).collect()
}

/// Tests that a profile has the intervals of the stream that went through its compressor, with its candidates and phases, by any
/// profiler.
#[test]
fn intervals_of_a_recording_are_those_of_its_stream() {
    let dir = Dir::new("intervals-recorded");
    for spec in ["M4[5k,1%]2048", "S4[3k,2%]64:E2", "M2[1k..16k,2%]256"] {
        recorded(&dir, &["-c", spec, "--stream", "s.tstream"]);
        let per_interval = ["compress", "s.tstream", "--per-interval", "-c", spec];
        let stream = &in_json(&dir, &per_interval)[0];
        let report = in_json(&dir, &["report", "--per-interval", "p.data"]);
        assert_eq!(report["schema"], "trommel.intervals/1");
        assert_eq!(report["phases"], stream["phases"], "{spec}");
        assert_eq!(report["unfinished"], stream["unfinished"], "{spec}");
        let each = |v: &Value| v["per_interval"].as_array().expect("a list").clone();
        let (here, there) = (each(&report), each(stream));
        assert!(here.len() > 20, "{spec}: {}", here.len());
        assert_eq!(
            (&report["ended"], &report["kept"]),
            (&here.len().into(), &here.len().into())
        );
        assert_eq!(here.len(), there.len(), "{spec}");
        for (n, (here, there)) in here.iter().zip(&there).enumerate() {
            for name in ["start", "events", "phase"] {
                assert_eq!(here[name], there[name], "{spec} {n}: {name}");
            }
            assert_eq!(candidates(here), candidates(there), "{spec} {n}");
            assert_eq!(
                (&here["interval"], &here["thread"]),
                (&(n + 1).into(), &Value::Null)
            );
        }
    }
}

/// Tests that each thread that counts by itself has intervals of its own, that functions are named, and that text and CSV are of the
/// same intervals.
#[test]
fn threads_have_intervals_of_their_own_and_phases_in_common() {
    let dir = Dir::new("intervals-threads");
    recorded(&dir, &["-c", "M4[5k,1%]2048"]);
    let report = in_json(&dir, &["report", "--per-interval", "p.data"]);
    let intervals = report["per_interval"].as_array().expect("a list");
    // The phase of most intervals in which a function has the hottest candidate, by thread.
    let phases = |thread: u64, function: &str| -> Vec<u64> {
        let of_thread = intervals.iter().filter(|i| i["thread"] == thread);
        let here = of_thread.filter(|i| i["candidates"][0]["at"]["function"] == function);
        here.filter_map(|i| i["phase"].as_u64()).collect()
    };
    for function in ["adds", "walks"] {
        let [first, second] = [1, 2].map(|thread| phases(thread, function));
        assert!(
            first.len() >= 9 && second.len() >= 9,
            "{function}: {first:?} {second:?}"
        );
        let common = first.iter().filter(|phase| second.contains(phase));
        assert!(common.count() >= 6, "{function}: {first:?} {second:?}");
    }
    assert!(
        !phases(1, "adds").iter().any(|phase| phases(1, "walks")
            .iter()
            .filter(|p| *p == phase)
            .count()
            > 1)
    );
    let csv = text(&dir, &["report", "--per-interval", "--csv", "p.data"]);
    let rows: usize = intervals.iter().map(|i| candidates(i).len().max(1)).sum();
    assert_eq!(csv.lines().count(), 1 + rows);
    let ends = |line: &&str| line.ends_with(",2,adds,adds");
    assert!(csv.lines().filter(ends).count() > 9, "{csv}");
    let shown = text(&dir, &["report", "--per-interval", "--top", "0", "p.data"]);
    let picture: Vec<&str> = shown.lines().filter(|l| l.contains('█')).collect();
    assert!(picture.len() >= 4, "{shown}");
    assert!(
        picture.iter().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(
        shown.contains("thread 2: ") && shown.contains(" edge adds+"),
        "{shown}"
    );
    // Of another kind, and of another module, there are none.
    let other = in_json(
        &dir,
        &[
            "report",
            "--per-interval",
            "--module",
            "libc.so.6",
            "p.data",
        ],
    );
    let all = other["per_interval"].as_array().expect("a list");
    assert_eq!(
        (all.len(), &other["unfinished"]),
        (intervals.len(), &Value::Null)
    );
    let functions = all
        .iter()
        .flat_map(|i| i["candidates"].as_array().expect("a list"));
    assert!(functions.into_iter().all(|c| c["at"]["function"] != "adds"));
}

/// Returns what the command says that fails.
fn refused(dir: &Dir, args: &[&str]) -> String {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(args)
        .current_dir(&dir.0)
        .output()
        .expect("trommel runs");
    assert!(!out.status.success(), "{args:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn without_intervals_the_report_says_how_to_have_them() {
    let dir = Dir::new("intervals-none");
    recorded(&dir, &["-c", "P257"]);
    let said = refused(&dir, &["report", "--per-interval", "p.data"]);
    assert!(
        said.contains("p.data: holds no intervals") && said.contains("record -c 'M4["),
        "{said}"
    );
    // Shorter than an interval.
    recorded(&dir, &["-c", "M4[100M,1%]2048"]);
    let shown = text(&dir, &["report", "--per-interval", "p.data"]);
    assert!(
        shown.contains("0 ended") && shown.contains("an interval has 100 000 000"),
        "{shown}"
    );
    // A sum of runs has no course.
    text(&dir, &["merge", "p.data", "p.data", "-o", "sum.data"]);
    let said = refused(&dir, &["report", "--per-interval", "sum.data"]);
    assert!(said.contains("this is a sum"), "{said}");
}

#[test]
fn costs_are_those_of_the_papers() {
    let dir = Dir::new("intervals-cost");
    // 2048 counters of 8 bits are 2 KB; with 2 bits of tag, 3 of misses and 1 of state 14 bits an entry.
    let specs = [
        "-c",
        "H[P256]2048",
        "-c",
        "T[256]2048/2way/2bit",
        "-c",
        "exact",
        "-c",
        "M4[10k,1%]2048:C1R0P1",
    ];
    let json = in_json(&dir, &[&["compress", "--cost"][..], &specs].concat());
    let bytes: Vec<_> = json
        .as_array()
        .expect("a list")
        .iter()
        .map(|v| v["bytes"].as_u64())
        .collect();
    assert_eq!(bytes, [Some(2048), Some(3584), None, Some(7544)]);
    let text = text(&dir, &[&["compress", "--cost"][..], &specs].concat());
    assert!(
        text.contains("3 584  T[256]2048/2way/2bit") && text.contains("-  exact"),
        "{text}"
    );
    // Another model of cost: the figures follow it.
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for _ in 0..1000 {
        let pc = Place::new(ModuleId(1), Vaddr(4));
        writer.push(Kind::Value, Tuple::new(pc, 1)).expect("memory");
    }
    std::fs::write(dir.0.join("s.tstream"), writer.finish().expect("memory")).expect("stream");
    let sampled = ["compress", "s.tstream", "--cost", "-c", "P10"];
    let cycles = |more: &[&str]| {
        in_json(&dir, &[&sampled[..], more].concat())[0]["overhead_cycles"].as_u64()
    };
    assert_eq!(cycles(&[]), Some(3000));
    assert_eq!(cycles(&["--message-cycles", "12.14"]), Some(1214));
    assert_eq!(
        cycles(&["--message-cycles", "12.14", "--buffer", "1"]),
        Some(22_400)
    );
    let json = in_json(&dir, &[&sampled[..], &["--event-cycles", "8"]].concat());
    assert_eq!(
        (&json[0]["overhead_percent"], &json[0]["bytes"]),
        (&37.5.into(), &1.into())
    );
}
