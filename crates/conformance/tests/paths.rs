//! Acyclic paths: those that a program takes, each as often as it does.
//!
//! * `stepper …`: our own programs, single-stepped with all their threads; also with code cut up, dropped and moved, in traces, where what
//!   counts runs out, as the service thread makes paths, and with handlers of signals that return, jump out, and move the program on.
//! * `threads …`: a program's threads, with signals that come at any time, and killed, against the same work in one thread.
//! * `edges …`: real programs; along all paths each branch goes each way as often as edges say, and calls and indirect jumps are
//!   executed as often.
//! * `compressors …`: what a compressor makes of paths while a program runs is what it makes of the stream.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::counts::compare;
use trommel_conformance::exec::{Job, Scratch, output, required, trommel};
use trommel_conformance::paths::{self, Paths};
use trommel_conformance::{program, settled};

/// Programs that do the same in each run, with their arguments. The first ones are tried in CI, each in a third of the ways, the others
/// in the nightly tier.
const STEPPED: [(&str, &str); 14] = [
    ("branches_small@-O2", ""),
    ("call_forms@-O2-static", ""),
    ("signal_synchronous@-O2", ""),
    ("paths_forms@-O2-pthread", ""),
    ("signal_skip_fault@-O2", ""),
    ("flags_loop_jrcxz@-O2", ""),
    ("jump_tables@-O2", ""),
    ("return_tricks@-O2-static", ""),
    ("paths_forms@-O2-pthread", "left"),
    ("paths_forms@-O1-pthread-no-pie", "moved"),
    ("paths_forms@-O2-pthread", "_exit"),
    ("paths_forms@-O2-pthread", "killed"),
    ("paths_forms@-O1-pthread-no-pie", "threads"),
    ("branches_small@-O2-static", ""),
];
const STEPPED_IN_CI: usize = 4;

/// Thirds of the ways in which CI tries a program, by its number, and those that the nightly tier tries.
const THIRDS: [(&[usize], &[usize]); 3] = [(&[0], &[1, 2]), (&[1], &[0, 2]), (&[2], &[0, 1])];

const STEPS: u64 = 20_000_000;
const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for (n, (name, argument)) in STEPPED.into_iter().enumerate() {
        let stepper = format!("stepper {name} {argument}");
        let mut add = |name_of: &str, thirds: &'static [usize], nightly: bool| {
            let trial = Trial::test(name_of.to_owned(), move || {
                Ok(by_stepper(name, argument, thirds)?)
            });
            trials.push(trial.with_ignored_flag(nightly));
        };
        let stepper = stepper.trim_end();
        // A static program has few ways.
        if n >= STEPPED_IN_CI || is_static(name) {
            add(stepper, &[0, 1, 2], n >= STEPPED_IN_CI);
            continue;
        }
        let (third, others) = THIRDS[n % 3];
        add(stepper, third, false);
        add(&format!("{stepper} in other ways"), others, true);
    }
    trials.push(Trial::test("stepper paths_forms exec", || {
        Ok(by_stepper_over_exec()?)
    }));
    for name in ["threads_counts@-O2-pthread", "paths_forms@-O2-pthread"] {
        trials.push(Trial::test(format!("threads {name}"), move || {
            Ok(threads(name)?)
        }));
    }
    for words in [
        vec!["gzip", "-9", "-c", "INPUT"],
        vec!["perl", "-e", program::PERL],
        vec!["sh", "-c", "sort INPUT | uniq -c | tail -3"],
    ] {
        trials.push(Trial::test(format!("edges {}", words[0]), move || {
            Ok(edges(&words)?)
        }));
    }
    for spec in SPECS {
        trials.push(Trial::test(format!("compressors {spec}"), move || {
            Ok(compressed(spec)?)
        }));
    }
    libtest_mimic::run(&args, trials).exit();
}

const SPECS: [&str; 6] = [
    "exact",
    "P3",
    "H[P4]64+A4",
    "H:crc[P4]64",
    "M4[10k,1%]2048:C1R0P1",
    "S12[10k,1%]1536:P1",
];

fn argv(program: &Path, argument: &str) -> Vec<String> {
    let words = [&*program.to_string_lossy(), argument].map(str::to_owned);
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

/// Returns what `report --json` says of a run that records `mix`.
fn recorded(
    bin: &Path,
    argv: &[String],
    (mix, spec): (&str, &str),
    stress: &str,
    data: &Path,
) -> Result<Value, String> {
    let mut job = Job::new(argv.to_vec(), Path::new("/"));
    if !stress.is_empty() {
        job.env.push(("TROMMEL_STRESS".into(), stress.into()));
    }
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    let run = job
        .record_by(bin, (mix, spec), data, LIMIT)
        .map_err(|e| e.to_string())?;
    native.compare(&run)?;
    report(bin, data)
}

fn report(bin: &Path, data: &Path) -> Result<Value, String> {
    let mut command = Command::new(bin);
    command.arg("report").arg(data);
    let text = output(command.args(["--json", "--no-debug-info", "--top", "1000000000"]))?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

fn same(expected: &Paths, got: &Paths) -> Result<(), String> {
    let shown = |(at, word): &(u64, u64)| format!("{at:#x} {word:#x}");
    eprintln!("{}", compare("paths", expected, got, shown)?);
    Ok(())
}

/// True if what a program does depends on the environment.
fn is_static(name: &str) -> bool {
    name.contains("static")
}

/// Records the program in these thirds of all ways: every way of every mix is in one of them.
fn by_stepper(name: &str, argument: &str, thirds: &[usize]) -> Result<(), String> {
    let program = program::named(name)?;
    let argv = argv(&program, argument);
    let expected = paths::count(&argv, STEPS).map_err(|e| e.to_string())?;
    if expected.len() < 10 {
        return Err(format!("stepping has found {} paths", expected.len()));
    }
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let usual = [
        "insns=1",
        "insns=3",
        "evict=97",
        "turn=7",
        "insns=2,pages=24",
        "far",
        "guard",
    ];
    // In traces, and where counters, keys and prefixes of paths run out. `events`: as the service thread makes them.
    let counted = [
        "trace",
        "counters",
        "trace,counters,insns=5",
        "trace,flush=300",
        "events",
    ];
    let mixes = [
        ("path", "code", [&usual[..], &counted].concat()),
        ("edge,call,path", "code", counted.to_vec()),
        ("edge,call,value,type,path", "service", usual.to_vec()),
    ];
    for (m, (mix, by, ways)) in mixes.into_iter().enumerate() {
        let ways = ways.iter().filter(|_| !is_static(name));
        let ways = [""].iter().chain(ways).enumerate();
        let ways = ways.filter(|(n, _)| thirds.contains(&((n + m) % 3)));
        for (_, stress) in ways {
            let report = recorded(bin, &argv, (mix, "exact"), stress, &scratch.path("data"));
            let by = if *stress == "events" { "service" } else { by };
            report
                .and_then(|report| match &report["counted"] {
                    counted if counted == by => paths::of_report(&report, &program),
                    other => Err(format!("counted by {other}")),
                })
                .and_then(|got| same(&expected, &got))
                .map_err(|e| format!("{mix} `{stress}`: {e}"))?;
        }
    }
    Ok(())
}

/// A program that becomes itself again.
fn by_stepper_over_exec() -> Result<(), String> {
    let program = program::named("paths_forms@-O2-pthread")?;
    let count =
        |argument| paths::count(&argv(&program, argument), STEPS).map_err(|e| e.to_string());
    let mut expected = count("exec")?;
    for (path, count) in count("")? {
        *expected.entry(path).or_default() += count;
    }
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (argv, data) = (argv(&program, "exec"), scratch.path("data"));
    let report = recorded(bin, &argv, ("path", "exact"), "", &data)?;
    same(&expected, &paths::of_report(&report, &program)?)
}

/// Paths that begin in the function `part` and those it calls that are no library's, with the work in one thread and in several.
fn threads(name: &str) -> Result<(), String> {
    let program = program::named(name)?;
    let listed = output(Command::new("nm").arg("-S").arg(&program))?;
    let range = |function: &str| -> Result<std::ops::Range<u64>, String> {
        let line = listed
            .lines()
            .find(|l| l.ends_with(&format!(" {function}")));
        let mut words = line.ok_or_else(|| format!("no {function}"))?.split(' ');
        let mut hex =
            || u64::from_str_radix(words.next().unwrap_or(""), 16).map_err(|e| e.to_string());
        let start = hex()?;
        Ok(start..start + hex()?)
    };
    let forms = name.starts_with("paths_forms");
    let functions: &[&str] = match forms {
        true => &["part", "straight", "early", "middle", "late", "deep"],
        false => &["part"],
    };
    let ranges: Vec<_> = functions
        .iter()
        .map(|f| range(f))
        .collect::<Result<_, _>>()?;
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let run = |argument: &str, stress: &str| -> Result<Paths, String> {
        let mut job = Job::new(argv(&program, argument), Path::new("/"));
        job.env.extend(settled::steady());
        job.env.push(("TROMMEL_STRESS".into(), stress.into()));
        let data = scratch.path("data");
        job.record_by(bin, ("path", "exact"), &data, LIMIT)
            .map_err(|e| e.to_string())?;
        let mut paths = paths::of_report(&report(bin, &data)?, &program)?;
        paths.retain(|(at, _), _| ranges.iter().any(|range| range.contains(at)));
        Ok(paths)
    };
    let mut alone = run(if forms { "" } else { "all" }, "")?;
    if alone.len() < 10 {
        return Err("nothing was recorded".into());
    }
    let ways: &[(&str, &str)] = match forms {
        true => &[
            ("threads", ""),
            ("threads", "delay=9,evict=50"),
            ("threads", "trace,delay=9,flush=500"),
            ("threads", "counters,delay=5"),
        ],
        false => &[
            ("", ""),
            ("ticking", ""),
            ("killed", ""),
            ("", "insns=3,delay=5"),
        ],
    };
    for (argument, stress) in ways {
        let got = run(argument, stress)?;
        same(&alone, &got).map_err(|e| format!("{argument} `{stress}`: {e}"))?;
    }
    if forms {
        // As often as it is done there.
        alone.values_mut().for_each(|count| *count *= 200);
        for stress in ["", "breakpoints", "insns=2", "trace", "counters"] {
            let got = run("ticking", stress)?;
            same(&alone, &got).map_err(|e| format!("ticking `{stress}`: {e}"))?;
        }
    }
    Ok(())
}

/// Executions by module, vaddr, and what happened there.
type Sums = BTreeMap<(u64, u64, u8), u64>;

const NAMES: [&str; 4] = ["taken", "fallthrough", "call", "indirect jump"];

fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("no number: {value}"))
}

/// Returns the sums of edges and calls, and those of paths, in one recording.
fn sums(report: &Value) -> Result<(Sums, Sums), String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let kind = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        let name = if name == "indirect" {
            "indirect jump"
        } else {
            name
        };
        NAMES.iter().position(|n| *n == name).map(|n| n as u8)
    };
    // The code of modules that are files is there to walk along.
    let files: Vec<u64> = list(&report["modules"])
        .iter()
        .filter(|m| m["path"].as_str().is_some_and(|p| p.starts_with('/')))
        .filter_map(|m| m["id"].as_u64())
        .collect();
    let (mut wanted, mut found) = (Sums::new(), Sums::new());
    for edge in list(&report["edges"]) {
        let module = number(&edge["from"]["module"])?;
        let kind = kind(&edge["kind"]).ok_or("an edge of another kind")?;
        let key = (module, number(&edge["from"]["vaddr"])?, kind);
        *wanted.entry(key).or_default() += number(&edge["count"])?;
    }
    for call in list(&report["calls"]) {
        let key = (
            number(&call["from"]["module"])?,
            number(&call["from"]["vaddr"])?,
            2,
        );
        *wanted.entry(key).or_default() += number(&call["count"])?;
    }
    wanted.retain(|(module, _, _), _| files.contains(module));
    for path in list(&report["paths"]) {
        let module = number(&path["at"]["module"])?;
        if !files.contains(&module) {
            continue;
        }
        let times = number(&path["executions"])?;
        let branches = path["branches"].as_array();
        for branch in branches.ok_or_else(|| format!("no code for {path}"))? {
            let kind = kind(&branch["kind"]).ok_or("a branch of another kind")?;
            let key = (module, number(&branch["vaddr"])?, kind);
            *found.entry(key).or_default() += times;
        }
        if let Some(jump) = path["jump"]["vaddr"].as_u64() {
            *found.entry((module, jump, 3)).or_default() += times;
        }
        if let Some(kind) = kind(&path["ends_with"]).filter(|kind| *kind >= 2) {
            let key = (module, number(&path["last"]["vaddr"])?, kind);
            *found.entry(key).or_default() += times;
        }
    }
    Ok((wanted, found))
}

fn edges(words: &[&str]) -> Result<(), String> {
    let program = required(words[0])?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let input = scratch.path("input");
    fs::write(&input, settled::sample()).map_err(|e| e.to_string())?;
    let input = input.to_string_lossy();
    let program = fs::canonicalize(program).map_err(|e| e.to_string())?;
    let rest = words[1..].iter().map(|w| w.replace("INPUT", &input));
    let mut argv = vec![program.to_string_lossy().into_owned()];
    argv.extend(rest);
    let data = scratch.path("data");
    let report = recorded(trommel(), &argv, ("edge,call,path", "exact"), "", &data)?;
    let (wanted, found) = sums(&report)?;
    if wanted.len() < 1000 {
        return Err(format!("{} edges", wanted.len()));
    }
    let shown = |(module, at, kind): &(u64, u64, u8)| {
        format!("{module}:{at:#x} {}", NAMES[usize::from(*kind)])
    };
    eprintln!("{}", compare("edges", &wanted, &found, shown)?);
    Ok(())
}

fn compressed(spec: &str) -> Result<(), String> {
    let bin = trommel();
    let program = program::named("paths_forms@-O2-pthread")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (data, stream) = (scratch.path("data"), scratch.path("s.tstream"));
    output(
        Command::new(bin)
            .args(["record", "--quiet", "-e", "path", "-c", spec, "-o"])
            .arg(&data)
            .arg("--stream")
            .arg(&stream)
            .arg("--")
            .arg(&program),
    )?;
    let with_stream = report(bin, &data)?;
    let compressed = output(
        Command::new(bin)
            .args(["compress", "--json", "-c", spec])
            .arg(&stream),
    )?;
    let compressed: Value = serde_json::from_str(&compressed).map_err(|e| e.to_string())?;
    let row = compressed.as_array().and_then(|all| all.first());
    let row = row.or_else(|| compressed["specs"].as_array()?.first());
    let row = row.ok_or_else(|| format!("nothing in {compressed}"))?;
    let seen = &with_stream["events"]["path"];
    for (what, a, b) in [
        ("events", &seen["seen"], &row["events"]),
        ("messages", &seen["messages"], &row["messages"]),
    ] {
        if number(a)? != number(b)? || number(a)? == 0 {
            return Err(format!("{what}: {a} recorded, {b} by compress"));
        }
    }
    // Without a stream, exact counts are made in the generated code.
    let alone = recorded(bin, &argv(&program, ""), ("path", spec), "", &data)?;
    let by = if spec == "exact" { "code" } else { "service" };
    if alone["counted"] != by {
        return Err(format!("counted by {}", alone["counted"]));
    }
    let program_paths = |report: &Value| paths::of_report(report, &program);
    same(&program_paths(&with_stream)?, &program_paths(&alone)?)
}
