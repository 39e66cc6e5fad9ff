//! `lab` as people meet it, recordings of a fixed length, and the limits that reports print.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trommel_lab::{Cell, EXPERIMENTS, Experiment, Lab, Verdict};
use trommel_profile::{KindProfile, Profile};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trommel-lab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn trommel(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_trommel"))
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("trommel runs")
    }

    fn text(&self, args: &[&str]) -> String {
        let out = self.trommel(args);
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {errors}");
        String::from_utf8(out.stdout).expect("UTF-8")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A lab that makes do with little.
fn small<'a>(dir: &Dir, threads: usize, say: &'a (dyn Fn(&str) + Sync)) -> Lab<'a> {
    Lab {
        trommel: Some(env!("CARGO_BIN_EXE_trommel").into()),
        cache: dir.0.join("cache"),
        events: 20_000,
        skip: 1000,
        trials: 1,
        programs: &trommel_lab::PROGRAMS,
        threads,
        say,
        progress: &|_| {},
    }
}

#[test]
fn the_list_names_every_experiment() {
    let dir = Dir::new("list");
    let list = dir.text(&["lab", "list"]);
    assert_eq!(list.lines().count(), EXPERIMENTS.len());
    for experiment in &EXPERIMENTS {
        assert!(
            list.lines().any(|l| l.starts_with(experiment.name)),
            "{list}"
        );
    }
}

#[test]
fn wrong_names_are_refused_before_anything_is_done() {
    let dir = Dir::new("names");
    for (args, code, words) in [
        (
            &["lab", "stratified-5"][..],
            1,
            &["stratified-5", "stratified-4", "multihash-14", "all"][..],
        ),
        (&["lab", "all", "list"], 1, &["stands alone"]),
        (&["lab", "all", "multihash-4"], 1, &["stands alone"]),
        (
            &["lab", "stratified-4", "--out", "/proc/trommel/x"],
            1,
            &["/proc/trommel/x", "cannot be written there", "--out"],
        ),
        (
            &["lab", "stratified-4", "--program", "true"],
            1,
            &["drawn at random", "stratified-8"],
        ),
        (
            &["lab", "dynamo-fig6", "dynamo-fig9", "--program", "true"],
            1,
            &["`dynamo-fig9`", "no source", "dynamo-fig7"],
        ),
        (
            &["lab", "values-fig1", "--program", "true"],
            1,
            &["record -e latency", "trommel latency"],
        ),
        (
            &["lab", "values-table1", "--program", "true"],
            1,
            &["values-table2a"],
        ),
        (
            &["lab", "compositions", "--program", "true"],
            1,
            &["several", "trommel compress -c SPEC"],
        ),
        (&["lab"], 2, &["NAME"]),
        (&["lab", "all", "--events", "0"], 2, &["number above 0"]),
        (&["lab", "all", "--events", "7G"], 2, &["20M"]),
        (
            &["record", "--stream-limit", "9", "--", "true"],
            2,
            &["--stream"],
        ),
    ] {
        let out = dir.trommel(args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{args:?}: {text}");
        }
    }
    assert_eq!(
        std::fs::read_dir(&dir.0).expect("there").count(),
        0,
        "nothing was written"
    );
}

/// One experiment has a page of its own where that is asked for.
#[test]
fn a_page_of_one_experiment() {
    let dir = Dir::new("page");
    let cache = dir.0.join("cache");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command.env("XDG_CACHE_HOME", &cache).current_dir(&dir.0);
        command.args(["lab", "multihash-4", "--events", "100k"]);
        command.args(["--program", "ls -l /usr/lib"]);
        let out = command.args(more).output();
        let out = out.expect("trommel runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).expect("UTF-8")
    };
    assert!(run(&["--out", "plain"]).contains("files in plain"));
    assert!(!dir.0.join("plain/index.html").exists());
    assert!(run(&["--out", "page", "--html"]).contains("open page/index.html"));
    let page = std::fs::read_to_string(dir.0.join("page/index.html")).expect("a page");
    assert!(page.contains("id=\"multihash-4\"") && page.contains("<svg"));
    assert!(!page.contains("Not finished"));
}

#[test]
fn a_recording_ends_with_its_limit() {
    let dir = Dir::new("limit");
    let endless = ["sh", "-c", "while :; do :; done"];
    let record = [
        "record",
        "--quiet",
        "--stream",
        "s.tstream",
        "--stream-limit",
        "5000",
        "--",
    ];
    dir.text(&[&record[..], &endless].concat());
    let info = dir.text(&["stream", "info", "--json", "s.tstream"]);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(
        (info["events"].as_u64(), info["end"].as_str()),
        (Some(5000), Some("complete"))
    );
    let report = dir.text(&["report"]);
    assert!(
        report.contains("all the events that were wanted"),
        "{report}"
    );
    // A program that ends before is not disturbed.
    let out = dir.trommel(&[
        "record",
        "--quiet",
        "--stream",
        "s.tstream",
        "--stream-limit",
        "50M",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    assert_eq!(out.status.code(), Some(2), "a plain number is wanted");
    let out = dir.trommel(&[
        "record",
        "--quiet",
        "--stream",
        "s.tstream",
        "--stream-limit",
        "50000000",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    assert_eq!(out.status.code(), Some(3));
}

#[test]
fn programs_are_recorded_once_and_judged() {
    let dir = Dir::new("record");
    let said = std::sync::Mutex::new(Vec::new());
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let lab = small(&dir, 2, &say);
    let wanted: Vec<&Experiment> = EXPERIMENTS
        .iter()
        .filter(|e| e.name == "stratified-11")
        .collect();
    let recordings = || -> Vec<(std::ffi::OsString, std::time::SystemTime)> {
        let files = std::fs::read_dir(&lab.cache).expect("there").flatten();
        let files = files.filter(|f| f.path().extension().is_some_and(|e| e == "tstream"));
        let mut files: Vec<_> = files
            .map(|f| {
                (
                    f.file_name(),
                    f.metadata().and_then(|m| m.modified()).expect("a time"),
                )
            })
            .collect();
        files.sort();
        files
    };
    let first = lab.run(&wanted).expect("the lab runs");
    let made = recordings();
    let missing = said.lock().expect("not poisoned").len();
    assert_eq!(
        made.len() + missing,
        trommel_lab::PROGRAMS.len(),
        "{said:?}"
    );
    assert!(!made.is_empty(), "gzip at least is everywhere: {said:?}");
    assert!(
        first[0]
            .1
            .claims
            .iter()
            .all(|c| c.verdict != Verdict::NoData)
    );
    assert_eq!(first[0].1.tables[0].rows.len(), made.len());
    let again = lab.run(&wanted).expect("the lab runs");
    assert_eq!(recordings(), made, "recorded once");
    assert_eq!(again[0].1.tables, first[0].1.tables);
}

/// A profile as one in 16 periodic sampling leaves it.
fn sampled(compressor: &str) -> Profile {
    let at = |vaddr| Place::new(ModuleId(1), Vaddr(vaddr));
    let edges = [(
        at(0x10),
        vec![(at(0x20).word(), 1600), (at(0x14).word(), 16)],
    )];
    let values = [(at(0x30), vec![(7, 3200), (9, 160)])];
    let kind = |counts| KindProfile {
        seen: 5000,
        messages: 310,
        counts,
    };
    Profile {
        compressor: compressor.into(),
        kinds: [
            (Kind::Edge, kind(edges.into())),
            (Kind::Value, kind(values.into())),
        ]
        .into(),
        ..Profile::default()
    }
}

#[test]
fn estimated_counts_have_limits() {
    for (compressor, basis) in [
        ("R16", "binomial"),
        ("P16", "stratum"),
        ("H[P16]64+A4", "stratum"),
    ] {
        let dir = Dir::new(&format!("limits-{basis}"));
        trommel_store::write(&dir.0.join("trommel.data"), &[sampled(compressor)]).expect("written");
        let text = dir.text(&["report"]);
        assert!(text.contains("95 % limits") && text.contains("±"), "{text}");
        assert!(text.contains("# limits"), "{text}");
        let json: Value = serde_json::from_str(&dir.text(&["report", "--json"])).expect("JSON");
        assert_eq!(json["limits"]["basis"], basis);
        let between = |entry: &Value, low: &str, at: &str, high: &str| {
            let number = |name: &str| {
                entry[name]
                    .as_f64()
                    .unwrap_or_else(|| panic!("no {name} in {entry}"))
            };
            assert!(
                number(low) <= number(at) && number(at) <= number(high),
                "{entry}"
            );
        };
        between(&json["edges"][0], "low", "count", "high");
        between(
            &json["values"][0],
            "executions_low",
            "executions",
            "executions_high",
        );
        let top = &json["values"][0]["top"][0];
        between(top, "low", "count", "high");
        between(top, "share_low", "share", "share_high");
        // One kind alone has the limits that it has beside the others.
        let alone = dir.text(&["report", "--json", "-e", "edge"]);
        let alone: Value = serde_json::from_str(&alone).expect("JSON");
        assert_eq!(alone["edges"], json["edges"]);
    }
}

#[test]
fn where_nothing_is_known_nothing_is_shown() {
    for (compressor, basis) in [("exact", "exact"), ("T[256]2048/2way/2bit", "unknown")] {
        let dir = Dir::new(&format!("unknown-{basis}"));
        trommel_store::write(&dir.0.join("trommel.data"), &[sampled(compressor)]).expect("written");
        assert!(!dir.text(&["report"]).contains("95 % limits"));
        let json: Value = serde_json::from_str(&dir.text(&["report", "--json"])).expect("JSON");
        assert_eq!(json["limits"]["basis"], basis);
        assert_eq!(json["edges"][0]["low"], Value::Null);
    }
}

#[test]
fn costs_of_windows_are_measured() {
    let dir = Dir::new("costs");
    let said = std::sync::Mutex::new(Vec::new());
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let lab = small(&dir, 1, &say);
    let wanted: Vec<&Experiment> = EXPERIMENTS
        .iter()
        .filter(|e| e.name.starts_with("values-table2"))
        .collect();
    let done = lab.run(&wanted).expect("the lab runs");
    let said = said.into_inner().expect("not poisoned");
    if said.iter().any(|text| text.contains("perf events")) {
        return;
    }
    assert!(said.is_empty(), "{said:?}");
    assert_eq!(done.len(), 3);
    for (experiment, findings) in done {
        let table = &findings.tables[0];
        assert_eq!(table.columns.len(), 5, "one program: {:?}", table.columns);
        let ways = [("2a", 7), ("2b", 4), ("2c", 5)];
        let rows = ways.iter().find(|(end, _)| experiment.name.ends_with(end));
        assert_eq!(table.rows.len(), rows.expect("a table").1);
        for row in &table.rows {
            // What cannot be done here has the paper's figure alone.
            let possible = row[1] != "".into();
            let cost = |cell: &Cell| matches!(cell, Cell::Number(n) if (-99.0..1e6).contains(n));
            assert_eq!(cost(&row[3]), possible, "{row:?}");
            assert_eq!(row[3], row[4], "a mean of one");
            let paper = matches!(row[2], Cell::Number(n) if n > 0.0);
            assert!(paper || experiment.name.ends_with("2a"), "{row:?}");
        }
        assert_eq!(findings.claims.len(), 2);
        for claim in findings.claims {
            assert!(!claim.ours.contains('–'), "{}", claim.ours);
            let judged = [Verdict::Holds, Verdict::Fails];
            assert!(judged.contains(&claim.verdict), "{claim:?}");
        }
    }
}

#[test]
fn costs_of_windows_can_be_of_a_program_of_ones_own() {
    let dir = Dir::new("own-costs");
    let said = std::sync::Mutex::new(Vec::new());
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let counts = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i";
    let command = ["sh", "-c", counts].map(PathBuf::from);
    let lab = Lab {
        programs: trommel_lab::own(command.to_vec()),
        ..small(&dir, 1, &say)
    };
    let wanted = trommel_lab::named("values-table2b").expect("an experiment");
    assert_eq!(wanted.own_refused(), None);
    let done = lab.run(&[wanted]).expect("the lab runs");
    let said = said.into_inner().expect("not poisoned");
    if said.iter().any(|text| text.contains("perf events")) {
        return;
    }
    assert!(said.is_empty(), "{said:?}");
    let table = &done[0].1.tables[0];
    assert_eq!(table.columns[4..], ["sh, in %"], "of no other program");
    assert_eq!(table.rows.len(), 4);
    let measured = |cell: &Cell| matches!(cell, Cell::Number(n) if (-99.0..1e6).contains(n));
    assert!(table.rows.iter().all(|row| measured(&row[4])), "{table:?}");
}

#[test]
fn figures_of_a_run_can_be_of_a_program_of_ones_own() {
    let dir = Dir::new("own-runs");
    let said = std::sync::Mutex::new(Vec::new());
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let counts = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo $i";
    let lab = Lab {
        programs: trommel_lab::own(["sh", "-c", counts].map(PathBuf::from).to_vec()),
        ..small(&dir, 1, &say)
    };
    let wanted = ["dynamo-fig6", "dynamo-fig8"];
    let wanted = wanted.map(|name| trommel_lab::named(name).expect("an experiment"));
    let done = lab.run(&wanted).expect("the lab runs");
    assert_eq!(
        said.into_inner().expect("not poisoned"),
        Vec::<String>::new()
    );
    for (experiment, findings) in done {
        let rows = &findings.tables[0].rows;
        assert!(!rows.is_empty(), "{}", experiment.name);
        let names: Vec<String> = rows.iter().map(|row| row[0].text()).collect();
        let own = |name: &String| name == "sh" || name == "sh (with bail-out)";
        assert!(names.iter().all(own), "of no other program: {names:?}");
        // One claim each, of those that can be made of any program.
        assert_eq!(findings.claims.len(), 1, "{}", experiment.name);
        assert_ne!(findings.claims[0].verdict, Verdict::NoData);
    }
}

/// Verdicts from streams do not depend on chance: interpreters hash without a seed, at addresses that do not change. What the kernel gives a program
/// at its start does, such as the value that guards its stack: figures differ a little.
#[test]
fn a_program_that_does_the_same_has_the_same_verdicts() {
    let dir = Dir::new("same");
    let program = "perl -e '$s{$_ * 7 % 1000} += $_ for 1..20000; $n += $s{$_} for sort keys %s'";
    let once = |out: &str| {
        let names = ["lab", "multihash-12", "stratified-8", "--events", "60k"];
        let cache = dir.0.join("cache");
        let done = Command::new(env!("CARGO_BIN_EXE_trommel"))
            .args(names)
            .args(["--program", program, "--out", out])
            .env("XDG_CACHE_HOME", cache)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        let said = String::from_utf8(done.stdout).expect("UTF-8");
        let (claims, _) = said.split_once("\nwrote ").expect("where it is");
        // Lines of verdicts. Below each are its figures.
        let verdicts = claims.lines().filter(|line| !line.starts_with("    "));
        verdicts.collect::<Vec<_>>().join("\n")
    };
    let first = once("one");
    assert!(
        first.lines().count() > 5 && first.contains("holds"),
        "{first}"
    );
    for out in ["two", "three"] {
        assert_eq!(once(out), first);
    }
}
