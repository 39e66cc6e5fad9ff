//! `record --converge`: what is known loses its probes and keeps its shares, what changes is noticed, executions are told exactly
//! where branches are recorded, and by `--exact-values` nothing of that happens.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::{program, wait};

const SAMPLER: &str = "H:crc[P256]2048+A16";
/// By how much a share may differ from the exact one.
const OFF: f64 = 0.03;

fn built() -> PathBuf {
    program::built(
        "tests/converge/loads.c",
        "loads",
        &["-O1", "-g", "-pthread"],
    )
    .expect("it compiles")
}

/// Returns what is recorded with these options, and what the program and the command say. Stress options: `stress`.
fn record(options: &[&str], stress: &str, arguments: &[&str]) -> (Value, Output) {
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data");
    let mut run = Command::new(trommel());
    run.env("TROMMEL_STRESS", stress);
    run.arg("record").arg("-o").arg(&data).args(options);
    let done = run.arg("--").arg(built()).args(arguments).output();
    let done = done.expect("it runs");
    assert!(done.status.success(), "{options:?}: {done:?}");
    let mut report = Command::new(trommel());
    let report = report
        .args(["report", "--json", "--no-debug-info", "--top", "300"])
        .arg(&data);
    let report = output(report).expect("a report");
    (serde_json::from_str(&report).expect("JSON"), done)
}

/// Records as [`record`] does, for longer each time until `is_enough` of the report. On a busy machine the host looks late, counting takes more then,
/// and rounds begin as much later.
fn long_enough(
    options: &[&str],
    stress: &str,
    what: &str,
    is_enough: impl Fn(&Value) -> bool,
) -> (Value, Output, String) {
    let mut rounds = 20_000_000_u64;
    loop {
        let n = rounds.to_string();
        let (report, done) = record(options, stress, &[what, &n]);
        if is_enough(&report) || rounds > 50_000_000_000 {
            return (report, done, n);
        }
        rounds *= 4;
    }
}

fn number(value: &Value, name: &str) -> u64 {
    let number = value[name].as_u64();
    number.unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The places with values of a function, in the order of their addresses.
fn places<'v>(report: &'v Value, list: &str, function: &str) -> Vec<&'v Value> {
    let all = report[list].as_array().expect("places");
    let within = all.iter().filter(|v| v["at"]["function"] == function);
    let mut within: Vec<&Value> = within.collect();
    within.sort_by_key(|v| v["at"]["vaddr"].as_u64());
    within
}

/// The share of a value at a place.
fn share(place: &Value, value: u64) -> f64 {
    let top = place["top"].as_array().expect("values");
    let found = top.iter().find(|v| v["value"].as_u64() == Some(value));
    found.and_then(|v| v["share"].as_f64()).unwrap_or(0.0)
}

/// Branches or calls of a function, all in all.
fn from(report: &Value, list: &str, function: &str) -> u64 {
    let all = report[list].as_array().expect("a list").iter();
    let within = all.filter(|v| v["from"]["function"] == function);
    within.map(|v| number(v, "count")).sum()
}

/// Returns a test that is true if some place of a function was executed without being profiled.
fn is_filtered(list: &'static str, function: &'static str) -> impl Fn(&Value) -> bool {
    move |report| {
        places(report, list, function)
            .iter()
            .any(|v| v["filtered"].is_u64())
    }
}

#[test]
fn what_is_known_loses_its_probes_and_keeps_its_shares() {
    // The default.
    let options = ["-e", "edge,call,value"];
    let (report, done, n) = long_enough(&options, "", "steady", is_filtered("values", "steady"));
    let (exact, native) = record(
        &["-e", "edge,call,value", "--exact-values"],
        "",
        &["steady", &n],
    );
    assert_eq!(done.stdout, native.stdout);
    assert!(number(&report["filter"], "made_anew") > 0);
    assert_eq!(report["compressor"], "exact converge 2%");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("were not profiled"), "{said}");
    let both = [&report, &exact].map(|report| places(report, "values", "steady"));
    assert_eq!(both[0].len(), both[1].len());
    let mut filtered = 0;
    for (seen, exact) in both[0].iter().zip(&both[1]) {
        assert_eq!(
            number(seen, "executions"),
            number(exact, "executions"),
            "{seen}"
        );
        for top in exact["top"].as_array().expect("values") {
            let value = number(top, "value");
            let off = share(seen, value) - share(exact, value);
            assert!(off.abs() < OFF, "{value}: {seen}, {exact}");
        }
        if seen["filtered"].is_u64() {
            filtered += 1;
            let (profiled, all) = (number(seen, "profiled"), number(seen, "executions"));
            assert!(
                profiled < all && profiled + number(seen, "unprofiled") == all,
                "{seen}"
            );
        }
    }
    assert!(filtered >= 2, "{report}");
    for (list, function) in [("edges", "steady"), ("calls", "main")] {
        let [seen, exact] = [&report, &exact].map(|report| from(report, list, function));
        assert_eq!(seen, exact, "{list} of {function}");
    }
}

#[test]
fn a_value_that_comes_later_is_noticed() {
    for options in [
        &["-e", "value", "--converge"][..],
        &["-e", "value", "-c", SAMPLER, "--converge"],
    ] {
        let changed = |report: &Value| {
            let all = places(report, "values", "change");
            all.iter()
                .any(|v| v["changes"].as_u64().is_some_and(|n| n > 0))
        };
        // The change is in the middle; of a few bursts all may be on one side of it.
        let enough = |report: &Value| changed(report) && number(&report["filter"], "rounds") > 20;
        let (report, ..) = long_enough(options, "", "change", enough);
        let all = places(&report, "values", "change");
        let [load] = all[..] else {
            panic!("{options:?}: {report}")
        };
        assert!(changed(&report), "{load}");
        assert!(share(load, 1) > 0.1 && share(load, 2) > 0.1, "{load}");
        assert!(
            load["unprofiled"].is_null(),
            "not counted without branches: {load}"
        );
    }
}

#[test]
fn a_sampler_in_the_code_is_filtered_too() {
    let options = ["-e", "value", "-c", SAMPLER, "--converge=2"];
    let (report, ..) = long_enough(&options, "", "steady", is_filtered("values", "steady"));
    assert!(number(&report["filter"], "made_anew") > 0);
    let all = places(&report, "values", "steady");
    assert_eq!(all.len(), 2, "{report}");
    for (value, wanted) in [(5, 0.75), (6, 0.125), (7, 0.125), (42, 1.0)] {
        let best = all
            .iter()
            .map(|load| share(load, value))
            .fold(0.0, f64::max);
        assert!((best - wanted).abs() < OFF, "{value}: {best}");
    }
    assert!(report["filter"]["unprofiled"].is_null());
}

/// Code that is not selected has no probes from the start on, and what is selected loses them when it is known.
#[test]
fn what_is_selected_is_filtered_and_nothing_else_is_seen() {
    for (events, spec) in [("edge,call,value", "exact"), ("value", SAMPLER)] {
        let options = ["-e", events, "-c", spec, "--converge", "--only", "steady"];
        let (report, done, n) =
            long_enough(&options, "", "steady", is_filtered("values", "steady"));
        let (_, native) = record(&["-e", "none"], "", &["steady", &n]);
        assert_eq!(done.stdout, native.stdout);
        let all = report["values"].as_array().expect("places");
        let within = places(&report, "values", "steady");
        assert_eq!(all.len(), within.len(), "{report}");
        assert_eq!(within.len(), 2, "{report}");
        for (value, wanted) in [(5, 0.75), (42, 1.0)] {
            let shares = within.iter().map(|load| share(load, value));
            let best = shares.fold(0.0, f64::max);
            assert!((best - wanted).abs() < OFF, "{value}: {best}");
        }
    }
}

#[test]
fn method_tables_are_filtered_as_loads_are() {
    let options = ["-e", "edge,call,type", "--converge"];
    let (report, _, n) = long_enough(&options, "", "types", is_filtered("types", "types"));
    let all = places(&report, "types", "types");
    let [call] = all[..] else { panic!("{report}") };
    assert!(call["filtered"].is_u64(), "{call}");
    assert_eq!(number(call, "executions").to_string(), n);
    let shares: Vec<f64> = call["top"]
        .as_array()
        .expect("tables")
        .iter()
        .map(|top| top["share"].as_f64().expect("a share"))
        .collect();
    assert!(
        (shares[0] - 0.75).abs() < OFF && shares.len() == 2,
        "{call}"
    );
    assert_eq!(from(&report, "calls", "types").to_string(), n);
}

#[test]
fn threads_and_children_lose_their_probes_and_no_execution() {
    for (what, times, stress) in [
        ("threads", 2, ""),
        ("fork", 2, ""),
        ("threads", 2, "evict=53"),
        ("fork", 2, "insns=3"),
        ("threads", 2, "trace,delay=9"),
        ("fork", 2, "trace,flush=5"),
    ] {
        let options = ["-e", "edge,value", "--converge"];
        let (report, done, n) =
            long_enough(&options, stress, what, is_filtered("values", "steady"));
        let native = Command::new(built())
            .args([what, &n])
            .output()
            .expect("it runs");
        assert_eq!(done.stdout, native.stdout, "{what}");
        let wanted = times * n.parse::<u64>().expect("a number");
        for load in places(&report, "values", "steady") {
            let executions = number(load, "executions");
            assert!(executions == wanted, "{what} {n}, {stress}: {load}");
        }
    }
}

#[test]
fn by_exact_values_everything_is_profiled() {
    let (report, _) = record(
        &["-e", "edge,value", "--exact-values"],
        "",
        &["steady", "1000000"],
    );
    assert!(report["filter"].is_null(), "{}", report["filter"]);
    assert_eq!(report["compressor"], "exact");
    let all = places(&report, "values", "steady");
    assert_eq!(all.len(), 2);
    for load in all {
        assert_eq!(number(load, "executions"), 1_000_000);
        assert!(load["filtered"].is_null() && load["unprofiled"].is_null());
    }
}

/// A thread that is soon over touches some pages of its value counters and not all. One that fills a chunk uses all of them, and loses nothing.
#[test]
fn threads_that_are_soon_over_touch_few_pages() {
    const MOST: i64 = 60;
    let program = program::built(
        "tests/converge/short_threads.c",
        "short_threads",
        &["-O1", "-g", "-pthread"],
    );
    let program = program.expect("it compiles");
    let scratch = Scratch::new().expect("a directory");
    let data = scratch.path("data");
    let faults = |threads: &str| {
        let mut run = Command::new(trommel());
        run.args(["record", "--quiet", "-e", "value", "--exact-values", "-o"]);
        let child = run.arg(&data).arg("--").arg(&program).arg(threads).spawn();
        wait::faults(&child.expect("it starts")).expect("it runs")
    };
    let (few, many) = (faults("20"), faults("99"));
    assert!(many - few < MOST * 79, "{few} faults became {many}");
    faults("200");
    let mut report = Command::new(trommel());
    let report = report
        .args(["report", "--json", "--no-debug-info"])
        .arg(&data);
    let report: Value = serde_json::from_str(&output(report).expect("a report")).expect("JSON");
    for (function, executions) in [("once", 200), ("many", 2 * 20_000)] {
        let places = places(&report, "values", function);
        assert_eq!(places.len(), 1, "{function}: {places:?}");
        assert_eq!(number(places[0], "executions"), executions, "{function}");
    }
}

#[test]
fn a_child_of_a_process_that_value_counters_loses_no_execution() {
    let n = 30_000_000;
    let (report, _) = record(
        &["-e", "value", "--exact-values"],
        "",
        &["fork", &n.to_string()],
    );
    let all = places(&report, "values", "steady");
    assert_eq!(all.len(), 2);
    for load in all {
        assert_eq!(number(load, "executions"), 2 * n, "{load}");
    }
}

#[test]
fn what_cannot_be_filtered_is_refused_with_what_to_do() {
    for (options, wanted) in [
        (&["-e", "edge"][..], "collect value or type"),
        (&["-e", "value,path"], "the kind path"),
        (&["--exact-values"], "cannot be used with"),
        (&["-c", "H[P256]2048"], "H:crc[P256]2048+A16"),
        (&["-c", "M4[10k,1%]2048"], "is none of these"),
        (&["--stream", "s"], "cannot be used with"),
        (&["--budget", "1"], "cannot be used with"),
        (&["--converge=90"], "from 0.1 to 50"),
    ] {
        let mut run = Command::new(trommel());
        if !options[0].starts_with("--converge") {
            run.args(["record", "--converge", "-o", "/dev/null"]);
        } else {
            run.args(["record", "-o", "/dev/null"]);
        }
        let done = run
            .args(options)
            .args(["--", "true"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && said.contains(wanted),
            "{options:?}: {said}"
        );
    }
}
