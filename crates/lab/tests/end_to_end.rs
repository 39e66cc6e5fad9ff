//! The whole lab on a tiny set of streams: what it writes is well-formed and complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use trommel_lab::{EXPERIMENTS, Experiment, Findings, Lab, Report, Verdict, write};
use trommel_model::trace;
use trommel_tuple::stream::Writer;
use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};

const EVENTS: u64 = 60_000;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trommel-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A stream with hot, warm and cold tuples of the kinds.
fn stream(path: &Path, kinds: &[Kind], events: u64, seed: u64) {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let mut state = seed;
    for n in 0..events {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(seed | 1);
        let draw = state >> 33;
        let pc = Place::new(ModuleId(1), Vaddr(0x1000 + draw % 40 * 4));
        let value = if draw.is_multiple_of(5) { n } else { draw % 3 };
        let kind = kinds[(draw / 64 % kinds.len() as u64) as usize];
        writer.push(kind, Tuple::new(pc, value)).expect("memory");
    }
    fs::write(path, writer.finish().expect("memory")).expect("stream");
}

/// A recording of instructions: turns of a loop that loads, stores references now and then, and branches.
fn instructions(path: &Path, turns: u64, every: u64) {
    let code: [&[u8]; 5] = [
        &[0x48, 0x8b, 0x1f],                   // mov rbx, [rdi]
        &[0x48, 0x01, 0xc0],                   // add rax, rax
        &[0x48, 0x89, 0x07],                   // mov [rdi], rax
        &[0x48, 0xff, 0xc9],                   // dec rcx
        &[0x0f, 0x85, 0xee, 0xff, 0xff, 0xff], // jne
    ];
    let mut writer = trace::TraceWriter::default();
    let mut pc = 0x40_1000;
    for bytes in code {
        let mut code = trace::Code {
            pc,
            length: bytes.len() as u8,
            bytes: [0; 15],
        };
        code.bytes[..bytes.len()].copy_from_slice(bytes);
        pc += bytes.len() as u64;
        writer.code(code);
    }
    for turn in 0..turns {
        for code in 0..5 {
            let address = 0x7000_0000 + turn % 512 * 8;
            let reference = if turn % every == 0 { 0x7000_0100 } else { 0 };
            let mut execution = trace::Execution {
                code,
                repeats: 1,
                taken: code == 4,
                addresses: [address, 0],
                ..trace::Execution::default()
            };
            execution.words[0] = if code == 2 { reference } else { turn };
            execution.words[7] = address;
            writer.push(&execution);
        }
    }
    let heap = trace::Region {
        from: 0x7000_0000,
        to: 0x7010_0000,
        used: trace::Use::Heap,
    };
    fs::write(path, writer.finish(vec![heap]).encode()).expect("file");
}

/// A cache with recordings of three programs.
fn cache(dir: &Path) {
    for (n, name) in ["gcc", "lua", "gzip"].into_iter().enumerate() {
        let seed = 11 + n as u64;
        instructions(&dir.join(format!("{name}-50000.itrace")), 10_000, 2 + seed);
        stream(
            &dir.join(format!("{name}-{EVENTS}.value.tstream")),
            &[Kind::Value],
            EVENTS,
            seed,
        );
        let long = EVENTS + EVENTS / 4;
        let both = [Kind::Edge, Kind::Edge, Kind::Edge, Kind::Edge, Kind::Call];
        stream(
            &dir.join(format!("{name}-{long}.edge-call.tstream")),
            &both,
            long,
            seed,
        );
    }
}

/// Every experiment on the programs that the cache holds.
fn run(cache: &Path, said: &Mutex<Vec<String>>) -> Vec<(&'static Experiment, Findings)> {
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let experiments: Vec<_> = EXPERIMENTS.iter().collect();
    lab(cache, &say).run(&experiments).expect("the lab runs")
}

fn lab<'a>(cache: &Path, say: &'a (dyn Fn(&str) + Sync)) -> Lab<'a> {
    Lab {
        trommel: None,
        cache: cache.to_owned(),
        events: EVENTS,
        skip: 0,
        trials: 20,
        programs: &trommel_lab::PROGRAMS,
        threads: 2,
        say,
        progress: &|_| {},
    }
}

/// Elements are closed in order, attributes are quoted, and no bare `<` or `&` is left.
fn well_formed(xml: &str, void: &[&str]) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        for (at, _) in text.match_indices('&') {
            assert!(text[at..].contains(';'), "bare & in {text:.60}");
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap_or("");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
        } else if !tag.ends_with('/') && !void.contains(&name) {
            open.push(name);
            if name == "style" {
                rest = &rest[rest.find("</style>").expect("style ends")..];
            }
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

/// Returns true if no interval of this file's experiment ends within the streams.
fn of_long_intervals(file: &str) -> bool {
    let stem = file.trim_end_matches(".csv");
    let needs = trommel_lab::named(stem).map_or_else(Vec::new, |e| (e.needs)());
    let mut specs = needs.iter().flat_map(|need| &need.specs).peekable();
    specs.peek().is_some()
        && specs.all(|(spec, _)| {
            let spec: trommel_compress::Spec = spec.parse().expect("a spec");
            spec.interval()
                .is_some_and(|i| u64::from(i.interval) > EVENTS)
        })
}

/// Fields of a CSV line.
fn fields(line: &str) -> usize {
    let mut quoted = false;
    let commas = line.chars().filter(|c| {
        quoted ^= *c == '"';
        *c == ',' && !quoted
    });
    commas.count() + 1
}

#[test]
fn everything_that_is_written_is_well_formed() {
    let (streams, out) = (Dir::new("streams"), Dir::new("out"));
    cache(&streams.0);
    let said = Mutex::new(Vec::new());
    let done = run(&streams.0, &said);
    let quiet = |_: &str| {};
    let written = write(&lab(&streams.0, &quiet), &out.0, &done, true).expect("files");
    let mut endings = BTreeSet::new();
    for path in &written.files {
        let text = fs::read_to_string(path).expect("UTF-8");
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        let ending = name.rsplit('.').next().expect("an ending");
        endings.insert(ending.to_owned());
        for wrong in ["NaN", "inf ", "\"inf", ",inf", "-0.0,"] {
            assert!(!text.contains(wrong), "{name} has {wrong}");
        }
        match ending {
            "csv" => {
                let mut lines = text.lines();
                let columns = fields(lines.next().expect("titles"));
                // Some need intervals longer than the streams, and Dynamo's need programs that run.
                let may_be_empty = of_long_intervals(name) || name.starts_with("dynamo");
                assert!(lines.clone().count() > 0 || may_be_empty, "{name}");
                for line in lines {
                    assert_eq!(fields(line), columns, "{name}: {line}");
                }
            }
            "json" => {
                let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(json["schema"], "trommel.lab/1");
                assert!(
                    json["claims"].as_array().is_some_and(|c| !c.is_empty()),
                    "{name}"
                );
                for table in json["tables"].as_array().expect("tables") {
                    let columns = table["columns"].as_array().expect("columns").len();
                    for row in table["rows"].as_array().expect("rows") {
                        assert_eq!(row.as_array().map(Vec::len), Some(columns));
                    }
                }
            }
            "svg" => well_formed(&text, &[]),
            "html" => {
                well_formed(&text, &["meta"]);
                assert!(
                    !text.contains("src=") && !text.contains("<link"),
                    "not self-contained"
                );
                for experiment in &EXPERIMENTS {
                    assert!(text.contains(&format!("id=\"{}\"", experiment.name)));
                }
            }
            _ => assert!(text.contains("| claim |")),
        }
    }
    assert!(
        endings
            .iter()
            .map(String::as_str)
            .eq(["csv", "html", "json", "md", "svg"])
    );
    assert!(written.page.is_some_and(|p| p.exists()));
    let svgs = written
        .files
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "svg"));
    assert!(svgs.count() >= EXPERIMENTS.len());
}

#[test]
fn equal_streams_give_equal_findings_in_any_number_of_threads() {
    let streams = Dir::new("again");
    cache(&streams.0);
    let said = Mutex::new(Vec::new());
    let json = |done: Vec<(&'static Experiment, Findings)>| -> Vec<String> {
        done.iter()
            .map(|(e, f)| f.json(e.name, e.title).to_string())
            .collect()
    };
    let first = json(run(&streams.0, &said));
    let say = |_: &str| {};
    let mut alone = lab(&streams.0, &say);
    alone.threads = 1;
    let experiments: Vec<_> = EXPERIMENTS.iter().collect();
    assert_eq!(first, json(alone.run(&experiments).expect("the lab runs")));
}

#[test]
fn without_streams_nothing_is_claimed() {
    let streams = Dir::new("none");
    let said = Mutex::new(Vec::new());
    let done = run(&streams.0, &said);
    for (experiment, found) in &done {
        let of_streams = !(experiment.needs)().is_empty() && experiment.name != "multihash-9";
        for claim in found.claims.iter().filter(|_| of_streams) {
            assert_eq!(
                claim.verdict,
                Verdict::NoData,
                "{}: {}",
                experiment.name,
                claim.paper
            );
        }
        for (_, figure) in &found.figures {
            assert!(!figure.svg().contains("NaN"));
        }
    }
}

#[test]
fn streams_shorter_than_an_interval_prove_nothing() {
    let streams = Dir::new("short");
    cache(&streams.0);
    let done = run(&streams.0, &Mutex::new(Vec::new()));
    let short: Vec<_> = done
        .iter()
        .filter(|(e, _)| of_long_intervals(e.name))
        .collect();
    let names: Vec<_> = short.iter().map(|(e, _)| e.name).collect();
    assert!(names.contains(&"multihash-11"), "{names:?}");
    for (experiment, found) in short {
        for claim in &found.claims {
            assert_eq!(
                claim.verdict,
                Verdict::NoData,
                "{}: {}",
                experiment.name,
                claim.ours
            );
            assert!(!claim.ours.contains('%'), "{}", claim.ours);
        }
    }
}

/// A program of the user's may be of any length. Where no tuple passes the filter, and no interval ends, nothing holds and nothing fails.
#[test]
fn streams_of_a_few_events_prove_nothing() {
    let streams = Dir::new("tiny");
    cache(&streams.0);
    let say = |_: &str| {};
    let mut lab = lab(&streams.0, &say);
    let experiments: Vec<_> = EXPERIMENTS.iter().collect();
    for events in [1, 500] {
        lab.events = events;
        let done = lab.run(&experiments).expect("the lab runs");
        for (experiment, found) in &done {
            // The bound of the paper needs no events.
            let of_streams = !(experiment.needs)().is_empty() && experiment.name != "multihash-9";
            for claim in found.claims.iter().filter(|_| of_streams) {
                let (name, ours) = (experiment.name, &claim.ours);
                assert_eq!(claim.verdict, Verdict::NoData, "{events}, {name}: {ours}");
            }
            assert!(!of_streams || found.claims.is_empty() || !found.is_of_anything());
        }
    }
}

#[test]
fn a_damaged_recording_is_named() {
    let streams = Dir::new("damaged");
    let path = streams.0.join(format!("gcc-{EVENTS}.value.tstream"));
    fs::write(&path, b"not a stream").expect("file");
    let say = |_: &str| {};
    let one: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|e| e.name == "stratified-7")
        .collect();
    let error = lab(&streams.0, &say)
        .run(&one)
        .expect_err("damaged")
        .to_string();
    assert!(
        error.contains("gcc-60000") && error.contains("delete it"),
        "{error}"
    );
}

#[test]
fn a_damaged_recording_of_instructions_is_named_and_left_out() {
    let streams = Dir::new("instructions");
    cache(&streams.0);
    let path = streams.0.join("lua-50000.itrace");
    let mut bytes = fs::read(&path).expect("it was made");
    bytes[1000] ^= 1;
    fs::write(&path, bytes).expect("file");
    let said = Mutex::new(Vec::new());
    let say = |text: &str| said.lock().expect("not poisoned").push(text.to_owned());
    let one: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|e| e.name == "rpa-table1")
        .collect();
    let done = lab(&streams.0, &say).run(&one).expect("the lab runs");
    let programs: Vec<String> = (done[0].1.tables[0].rows.iter())
        .map(|row| row[0].text())
        .collect();
    assert_eq!(programs, ["gcc", "gzip"]);
    let said = said.lock().expect("not poisoned").join("\n");
    assert!(
        said.contains("lua-50000.itrace") && said.contains("delete it"),
        "{said}"
    );
}

/// Results are written as they come: what fails later leaves what was there, and the page says that it is not all.
#[test]
fn an_interrupted_run_leaves_what_it_has() {
    let (streams, out) = (Dir::new("half"), Dir::new("half-out"));
    cache(&streams.0);
    // Branches are read after values, and these are damaged.
    for name in ["gcc", "lua", "gzip"] {
        let long = EVENTS + EVENTS / 4;
        let path = streams.0.join(format!("{name}-{long}.edge-call.tstream"));
        fs::write(path, b"not a stream").expect("file");
    }
    let say = |_: &str| {};
    let lab = lab(&streams.0, &say);
    let names = ["multihash-14", "stratified-8", "stratified-4"];
    let wanted: Vec<_> = names.iter().filter_map(|n| trommel_lab::named(n)).collect();
    let mut report = Report::new(&lab, &out.0, true, wanted.len()).expect("a directory");
    let error = lab.run_each(&wanted, |experiment, found| report.add(experiment, found));
    assert!(error.is_err(), "branches are damaged");
    let read = |name: &str| fs::read_to_string(out.0.join(name)).unwrap_or_default();
    let page = read("index.html");
    well_formed(&page, &["meta"]);
    assert!(
        page.contains("Not finished: experiments still to come: 1."),
        "{page}"
    );
    assert!(page.contains("id=\"stratified-8\"") && page.contains("id=\"stratified-4\""));
    assert!(!page.contains("multihash-14") && read("multihash-14.json").is_empty());
    assert!(read("stratified-8.csv").lines().count() > 1);
    // Nothing half-written lies about, and the papers' order is kept.
    let files = fs::read_dir(&out.0).expect("there").flatten();
    assert!(
        files
            .into_iter()
            .all(|f| !f.file_name().to_string_lossy().starts_with('.'))
    );
    let done: Vec<_> = report.finish().0.iter().map(|(e, _)| e.name).collect();
    assert_eq!(done, ["stratified-4", "stratified-8"]);
}

#[test]
fn a_directory_that_cannot_be_is_noticed_before_any_work() {
    let streams = Dir::new("nowhere");
    let say = |_: &str| {};
    let lab = lab(&streams.0, &say);
    let file = streams.0.join("file");
    fs::write(&file, "").expect("file");
    for dir in [file.join("below"), "/proc/trommel".into()] {
        let error = Report::new(&lab, &dir, true, 1).err().expect("refused");
        assert!(
            error.to_string().contains(&dir.display().to_string()),
            "{error}"
        );
    }
    for name in ["index.html", "findings.md"] {
        let taken = streams.0.join(format!("{name}.out"));
        fs::create_dir_all(taken.join(name)).expect("made");
        let error = Report::new(&lab, &taken, true, 1).err().expect("refused");
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// A program that is there and too short for the filter is not said to be missing.
#[test]
fn too_few_events_are_not_a_missing_program() {
    let streams = Dir::new("few");
    cache(&streams.0);
    let say = |_: &str| {};
    let mut lab = lab(&streams.0, &say);
    lab.events = 500;
    let wanted = [trommel_lab::named("stratified-7").expect("an experiment")];
    let note = |lab: &Lab<'_>| lab.run(&wanted).expect("the lab runs")[0].1.notes[0].clone();
    let few = note(&lab);
    assert!(
        few.contains("passes the filter after 500 events") && few.contains("--events"),
        "{few}"
    );
    for file in fs::read_dir(&streams.0).expect("there").flatten() {
        if file.file_name().to_string_lossy().starts_with("gcc") {
            fs::remove_file(file.path()).expect("file");
        }
    }
    assert!(note(&lab).contains("gcc was not recorded"));
}

/// Titles say what was run.
#[test]
fn titles_have_the_events_that_were_run() {
    let streams = Dir::new("titles");
    cache(&streams.0);
    let say = |_: &str| {};
    let wanted = [trommel_lab::named("stratified-7").expect("an experiment")];
    let done = lab(&streams.0, &say).run(&wanted).expect("the lab runs");
    let titles: Vec<_> = done[0].1.figures[0]
        .1
        .panels
        .iter()
        .map(|p| p.title.as_str())
        .collect();
    assert_eq!(titles, ["up to 60k events", "up to 60k events", "overhead"]);
}
