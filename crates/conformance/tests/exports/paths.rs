//! Formats of call paths, each read by a tool for it. The paths are made up, on the code of a recorded program, so their sums are known.

use std::fs;
use std::process::Command;

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;
use serde_json::Value;
use trommel_conformance::exec::{output, workspace};
use trommel_conformance::not_tested::not_tested;
use trommel_profile::call_tree::{Basis, Frame, Weight};
use trommel_symbol::{Files, Symbols};
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::refusals::refused;
use super::{Test, run, text, tool};
use trommel_conformance::recorded::Recorded;

pub(super) const ALL: &[(&str, Test)] = &[
    ("paths: folded is drawn by inferno, with the sum", folded),
    (
        "paths: perf-script is collapsed by inferno, with the sum",
        perf_script,
    ),
    ("paths: perf-script names each process", processes),
    ("paths: each format tells processes apart", apart),
    ("paths: odd names are read by inferno", odd_names),
    ("paths: speedscope's schema holds", speedscope),
    ("paths: firefox has the sum", firefox),
    ("paths: go tool pprof has stacks and the sum", pprof),
    ("paths: refusals are one line", refusals),
];

/// The sums of [`STACKS`].
const SAMPLES: u64 = 10;
const OWN: u64 = 9_000_000_100;
/// Stacks of functions below `main`, the innermost in a part of it that `small` was inlined to where there is a star.
const STACKS: [(&[&str], Weight); 4] = [
    (
        &["work", "mix"],
        Weight {
            times: 4,
            own: 9_000_000_000,
        },
    ),
    (&["work", "kind"], Weight { times: 3, own: 50 }),
    (&["work*"], Weight { times: 2, own: 40 }),
    (&["work", "fib", "fib"], Weight { times: 1, own: 10 }),
];

/// The recorded program with these stacks.
fn recorded(basis: Basis) -> Result<Recorded, String> {
    let recorded = Recorded::new("gcc", &["-O2", "-g"])?;
    let mut profiles = trommel_store::read(&recorded.data).map_err(|e| e.to_string())?;
    let profile = profiles.first_mut().ok_or("no process")?;
    let files = Files::new();
    let mut symbols = Symbols::new(&files, &profile.modules);
    let is_app = |m: &&trommel_profile::Module| m.path.ends_with(b"/app");
    let app = profile.modules.iter().find(is_app).ok_or("no app")?.id;
    for (names, weight) in STACKS {
        let mut frames = vec![place(&mut symbols, app, "main")?];
        for name in names {
            frames.push(place(&mut symbols, app, name)?);
        }
        let frames = frames.into_iter().map(|at| Frame { at, call: None });
        profile.call_tree_mut(basis).add_stack(frames, weight);
    }
    trommel_store::write(&recorded.data, &profiles).map_err(|e| e.to_string())?;
    Ok(recorded)
}

/// The start of a function; with a star, a place in it that belongs to `small`.
fn place(symbols: &mut Symbols<'_>, app: ModuleId, name: &str) -> Result<Place, String> {
    let plain = name.trim_end_matches('*');
    let ranges = symbols.ranges_of(app, plain);
    let range = ranges.first().ok_or_else(|| format!("no {plain}"))?.clone();
    let small = |at: &Place, symbols: &mut Symbols<'_>| {
        let found = symbols.locate(*at);
        found
            .inlined
            .first()
            .is_some_and(|f| &*f.function == "small")
    };
    let mut places = range.map(|at| Place::new(app, Vaddr(at)));
    match name.ends_with('*') {
        true => places
            .find(|at| small(at, symbols))
            .ok_or("small is inlined nowhere".into()),
        false => places.next().ok_or_else(|| format!("{name} is empty")),
    }
}

/// Options that choose the call paths of a basis.
fn choosing(basis: Basis) -> &'static [&'static str] {
    match Basis::OFF_CPU.contains(&basis) {
        true => &["--off-cpu"],
        false => &[],
    }
}

fn file(recorded: &Recorded, format: &str) -> Result<String, String> {
    let trees = trommel_store::read(&recorded.data).map_err(|e| e.to_string())?;
    let tree = trees.iter().flat_map(|profile| &profile.call_trees).next();
    let basis = tree.ok_or("no call paths")?.basis;
    let file = recorded.export(format, choosing(basis))?;
    fs::read_to_string(file).map_err(|e| e.to_string())
}

fn json(recorded: &Recorded, format: &str) -> Result<Value, String> {
    serde_json::from_str(&file(recorded, format)?).map_err(|e| e.to_string())
}

fn expect(what: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if what { Ok(()) } else { Err(otherwise()) }
}

fn folded() -> Result<(), String> {
    for basis in Basis::ALL {
        let lines = file(&recorded(basis)?, "folded")?;
        let costs = lines
            .lines()
            .filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok());
        expect(costs.sum::<u64>() == OWN, || lines.clone())?;
        // A context is a whole function; a sample is at an instruction, with what is inlined there.
        let small = lines.contains("main;work;small 40\n");
        expect(small == basis.is_time(), || lines.clone())?;
        let mut options = flamegraph::Options::default();
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut options, lines.lines(), &mut svg).map_err(|e| e.to_string())?;
        let svg = String::from_utf8_lossy(&svg).into_owned();
        let drawn = svg.contains("main (9,000,000,100 samples, 100.00%)");
        expect(drawn && svg.contains("<title>mix ("), || svg)?;
    }
    Ok(())
}

fn perf_script() -> Result<(), String> {
    let printed = file(&recorded(Basis::Stacks)?, "perf-script")?;
    let mut lines = Vec::new();
    let done = Folder::default().collapse(printed.as_bytes(), &mut lines);
    done.map_err(|e| e.to_string())?;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let wanted = [
        "app;main;work;fib;fib 10",
        "app;main;work;kind 50",
        "app;main;work;mix 9000000000",
        "app;main;work;small 40",
    ];
    // Other readers count paragraphs.
    let samples = printed.matches(" cpu-clock:ppp: ").count() as u64;
    expect(samples == SAMPLES, || format!("{samples}\n{printed}"))?;
    expect(lines == wanted, || format!("{lines:?}\n{printed}"))
}

/// A profile of a machine without samples, and of processes of several programs.
fn of_several(basis: Basis) -> Result<Recorded, String> {
    let recorded = recorded(basis)?;
    let first = trommel_store::read(&recorded.data).map_err(|e| e.to_string())?;
    let first = first.first().ok_or("no process")?;
    let process = |pid, command: &str| {
        let mut process = first.clone();
        process.origin.pid = pid;
        process.command = vec![command.into()];
        process
    };
    // The first one of a recording of samples is the machine, with no number and no program.
    let mut machine = process(0, "");
    machine.command.clear();
    machine.call_trees.clear();
    let all = [
        machine,
        process(7, "/bin/one"),
        process(9, "two"),
        process(9, "one"),
    ];
    trommel_store::write(&recorded.data, &all).map_err(|e| e.to_string())?;
    Ok(recorded)
}

fn apart() -> Result<(), String> {
    for basis in Basis::ALL {
        let recorded = of_several(basis)?;
        let folded = file(&recorded, "folded")?;
        let of = |program: &str| {
            let lines = folded.lines().filter(|line| line.starts_with(program));
            let costs = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            costs.sum::<u64>()
        };
        let both = (of("one;main;"), of("two;main;"));
        expect(both == (2 * OWN, OWN), || folded.clone())?;
        let speedscope = json(&recorded, "speedscope")?;
        let profiles = speedscope["profiles"].as_array().ok_or("no profiles")?;
        let name = |profile: &Value| profile["name"].as_str().map(str::to_owned);
        let names: Vec<String> = profiles.iter().filter_map(name).collect();
        let wanted = ["one 7: ", "one 9: ", "two 9: "];
        let are = names.len() == 3 && names.iter().zip(wanted).all(|(n, w)| n.starts_with(w));
        expect(are, || format!("{names:?}"))?;
        let ends = profiles.iter().all(|p| p["endValue"].as_u64() == Some(OWN));
        expect(ends, || speedscope.to_string())?;
        let firefox = json(&recorded, "firefox")?;
        let threads = firefox["threads"].as_array().ok_or("no threads")?;
        let word = |thread: &Value, field: &str| thread[field].as_str().map(str::to_owned);
        let of = |thread| Some((word(thread, "processName")?, word(thread, "pid")?));
        let found: Vec<(String, String)> = threads.iter().filter_map(of).collect();
        let wanted = [("one", "7"), ("one", "9"), ("two", "9.3")];
        let wanted = wanted.map(|(name, pid)| (name.to_owned(), pid.to_owned()));
        expect(found == wanted, || format!("{found:?}"))?;
        let Some(go) = tool(&["go"], "pprof of processes") else {
            continue;
        };
        let pprof = text(&recorded.export("pprof", choosing(basis))?);
        let asked = ["tool", "pprof", "-comments", &pprof];
        let printed = run(&go, &asked, recorded.scratch.dir())?;
        let wanted = ["command: /bin/one", "command: two", "command: one"];
        let are = wanted
            .iter()
            .all(|w| printed.lines().any(|line| line == *w));
        expect(are, || printed)?;
    }
    Ok(())
}

fn processes() -> Result<(), String> {
    let recorded = of_several(Basis::Stacks)?;
    let printed = file(&recorded, "perf-script")?;
    let headers = printed
        .lines()
        .filter(|line| line.contains(" cpu-clock:ppp: "));
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for line in headers {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        *counts.entry(words.join(" ")).or_default() += 1;
    }
    let wanted = ["one 7/7", "one 9/9", "two 9/9"].map(|name| (name.to_owned(), SAMPLES));
    expect(counts == wanted.into(), || format!("{counts:?}"))
}

/// Names of files, and so of functions without symbols and of programs, that readers could take for something else.
const ODD: [&str; 17] = [
    "plain",
    "a b (c)",
    "(anonymous namespace)::f()",
    "#hash",
    " lead",
    "trail ",
    "my 12 words",
    "7",
    "last 12",
    "a: 5 b: 6",
    "operator->()",
    "tab\there",
    "quote\"'`",
    "é<&>",
    "back\\slash",
    "semi;colon",
    "line\nend",
];

fn odd_names() -> Result<(), String> {
    let recorded = recorded(Basis::Stacks)?;
    let whole = trommel_store::read(&recorded.data).map_err(|e| e.to_string())?;
    let stacks = ODD.len() as u64;
    for program in ODD {
        let mut profile = whole[0].clone();
        profile.call_trees.clear();
        profile.command = vec![format!("/bin/{program}").into_bytes()];
        for (n, name) in ODD.iter().enumerate() {
            let id = ModuleId(profile.modules.len() as u16);
            profile.modules.push(trommel_profile::Module {
                id,
                path: format!("/no such/{name}").into_bytes(),
                ..Default::default()
            });
            let at = Place::new(id, Vaddr(n as u64));
            let frame = Frame { at, call: None };
            let weight = Weight { times: 1, own: 100 };
            let tree = profile.call_tree_mut(Basis::Stacks);
            tree.add_stack([frame, frame], weight);
        }
        trommel_store::write(&recorded.data, &[profile]).map_err(|e| e.to_string())?;
        let printed = file(&recorded, "perf-script")?;
        let mut lines = Vec::new();
        let done = Folder::default().collapse(printed.as_bytes(), &mut lines);
        done.map_err(|e| e.to_string())?;
        let collapsed = String::from_utf8_lossy(&lines).into_owned();
        let is_whole = |line: &&str| line.ends_with(" 100") && line.matches(';').count() == 2;
        let read = collapsed.lines().filter(is_whole).count() as u64;
        expect(read == stacks, || {
            format!("{program}: {read}\n{printed}\n{collapsed}")
        })?;
    }
    let lines = file(&recorded, "folded")?;
    let mut svg = Vec::new();
    let mut options = flamegraph::Options::default();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg).map_err(|e| e.to_string())?;
    let svg = String::from_utf8_lossy(&svg).into_owned();
    let sum = format!(
        "all ({}00 samples, 100%)",
        stacks.to_string().replace("17", "1,7")
    );
    expect(svg.contains(&sum), || format!("{lines}\n{svg}"))
}

fn speedscope() -> Result<(), String> {
    let recorded = recorded(Basis::Contexts)?;
    let end = json(&recorded, "speedscope")?["profiles"][0]["endValue"].as_u64();
    expect(end == Some(OWN), || format!("{end:?}"))?;
    let module = Command::new("python3")
        .args(["-c", "import jsonschema"])
        .output();
    if !module.is_ok_and(|done| done.status.success()) {
        not_tested("exports speedscope: python3-jsonschema is not installed");
        return Ok(());
    }
    let schema = "crates/conformance/tests/exports/data/speedscope-schema.json";
    let schema = workspace().join(schema);
    let check = "import json, jsonschema, sys\n\
                 jsonschema.validate(*[json.load(open(f)) for f in sys.argv[1:]])";
    let file = recorded.scratch.path("app.speedscope");
    let mut python = Command::new("python3");
    output(python.args(["-c", check]).arg(file).arg(schema)).map(|_| ())
}

/// The profiler computes calls and their weights from these tables in the same way.
fn firefox() -> Result<(), String> {
    let profile = json(&recorded(Basis::Contexts)?, "firefox")?;
    let thread = &profile["threads"][0];
    let at = |table: &str, column: &str, row: u64| thread[table][column][row as usize].clone();
    let samples = thread["samples"]["stack"].as_array().ok_or("no samples")?;
    let mut lines = Vec::new();
    let mut sum = 0;
    for (n, stack) in samples.iter().enumerate() {
        let weight = at("samples", "weight", n as u64)
            .as_u64()
            .ok_or("no weight")?;
        let mut words = Vec::new();
        let mut next = stack.as_u64();
        while let Some(row) = next {
            let frame = at("stackTable", "frame", row).as_u64().ok_or("no frame")?;
            let func = at("frameTable", "func", frame)
                .as_u64()
                .ok_or("no function")?;
            let name = at("funcTable", "name", func).as_u64().ok_or("no name")?;
            words.insert(
                0,
                thread["stringArray"][name as usize]
                    .as_str()
                    .ok_or("no text")?,
            );
            next = at("stackTable", "prefix", row).as_u64();
        }
        sum += weight;
        lines.push(format!("{} {weight}", words.join(";")));
    }
    let there = lines.contains(&"main;work;fib;fib 10".to_owned());
    expect(sum == OWN && there, || format!("{lines:?}"))
}

fn pprof() -> Result<(), String> {
    let Some(go) = tool(&["go"], "pprof of call paths") else {
        return Ok(());
    };
    let recorded = recorded(Basis::Stacks)?;
    let file = text(&recorded.export("pprof", &[])?);
    let dir = recorded.scratch.dir();
    let printed = run(
        &go,
        &[
            "tool",
            "pprof",
            "-sample_index=samples",
            "-top",
            "-cum",
            "-nodefraction=0",
            &file,
        ],
        dir,
    )?;
    expect(printed.contains(&format!("of {SAMPLES} total")), || {
        printed.clone()
    })?;
    let cumulative = |name: &str| {
        let mut rows = printed
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.get(5) == Some(&name))?;
        row.get(3).map(|cum| (*cum).to_owned())
    };
    for (name, wanted) in [
        ("main", "10"),
        ("work", "10"),
        ("mix", "4"),
        ("small", "2"),
        ("fib", "1"),
    ] {
        let found = cumulative(name);
        expect(found.as_deref() == Some(wanted), || {
            format!("{name}: {found:?}\n{printed}")
        })?;
    }
    let raw = run(&go, &["tool", "pprof", "-raw", &file], dir)?;
    expect(raw.contains("samples/count cpu/nanoseconds"), || raw)
}

fn refusals() -> Result<(), String> {
    let exact = recorded(Basis::Contexts)?;
    for (options, wanted) in [
        (&["-f", "perf-script"][..], "record with -e stack"),
        (&["-f", "folded", "--module", "app"], "leave them out"),
    ] {
        refused(&exact, options, wanted)?;
    }
    Ok(())
}
