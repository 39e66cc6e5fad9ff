//! Call paths by samples (`record -e stack`), of programs whose source tells each path (`tests/stacks`).
//!
//! A sample in `burn` has one of the paths of [`truth`], and each of these is met. Of all samples, those in the dynamic linker, the unwinder of
//! exceptions and the kernel included, hardly any may be truncated or broken.

mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program;

/// Part of the samples that are whole and right at least.
const RIGHT: f64 = 0.98;
const SAMPLES: u64 = 150;
const TURNS: &str = "250";
/// Builds of the program, without frame pointers and with them.
const BUILDS: [(&str, &[&str]); 2] = [
    (
        "stack-paths",
        &["-O2", "-g", "-fomit-frame-pointer", "-pthread"],
    ),
    (
        "stack-paths-fp",
        &["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"],
    ),
];

fn main() {
    let args = Arguments::from_args();
    if let Err(why) = permitted() {
        return not_tested(format!("stacks: {why}"));
    }
    let mut trials = Vec::new();
    for (name, flags) in BUILDS {
        trials.push(Trial::test(format!("{name} launched"), move || {
            Ok(launched(name, flags)?)
        }));
    }
    trials.extend([
        Trial::test("attached", || Ok(attached()?)),
        Trial::test("children and other programs", || Ok(family()?)),
        Trial::test("a short program has none, and the report says so", || {
            Ok(short()?)
        }),
        Trial::test("samples without paths", || Ok(flat()?)),
        Trial::test("functions without symbols", || Ok(nameless()?)),
        Trial::test("the machine's", || Ok(machine()?)),
        Trial::test("code that was made has the names of a perf map", || {
            Ok(named("map")?)
        }),
        Trial::test(
            "code that was made has the names and bytes of a jitdump",
            || Ok(named("dump")?),
        ),
        Trial::test("perf finds the same", || Ok(as_perf()?)),
        Trial::test("what does not go together is refused", || Ok(refused()?)),
    ]);
    trials.extend(waits::trials());
    libtest_mimic::run(&args, trials).exit();
}

/// Says why samples of processes are refused here, if they are.
fn permitted() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    match record(&[], &["true"], &scratch.path("p")) {
        Err(why) if why.contains("the kernel refuses") => Err(why),
        // What else is wrong, the tests find.
        _ => Ok(()),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn built(name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    program::built("tests/stacks/paths.cpp", name, flags)
}

fn library() -> Result<PathBuf, String> {
    let flags = ["-O2", "-shared", "-fPIC"];
    program::built("tests/stacks/loaded.c", "stack-loaded.so", &flags)
}

fn record(options: &[&str], program: &[&str], data: &Path) -> Result<String, String> {
    sampled(&["-e", "stack"], options, program, data)
}

fn sampled(
    way: &[&str],
    options: &[&str],
    program: &[&str],
    data: &Path,
) -> Result<String, String> {
    let mut command = Command::new(trommel());
    command.arg("record").args(way).args(["--quiet", "-o"]);
    command.arg(data).args(options).args(program);
    command.env("PATHS_LIBRARY", library()?);
    output(&mut command)
}

fn report(data: &Path, options: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(trommel());
    command
        .args(["report", "--json", "--no-debug-info"])
        .args(options)
        .arg(data);
    serde_json::from_str(&output(&mut command)?).map_err(text)
}

/// The paths that the source tells, from `burn` to `main` or a thread's beginning, each in one text.
fn truth() -> BTreeSet<String> {
    let deep = ["deep"; 21].join(" ");
    let signal = "handles SIGNAL raises";
    let mut all: BTreeSet<String> = [
        &deep,
        "tails",
        "catches",
        signal,
        "loaded loads",
        "ANON generates",
    ]
    .map(|path| format!("burn leaf {path} works main"))
    .into();
    all.insert("burn leaf threaded".into());
    all
}

/// The name of a frame, as [`truth`] has it. What is between a handler and the function that raised its signal is the C library's.
fn frame(at: &Value, modules: &BTreeMap<u64, String>) -> Option<String> {
    let module = modules.get(&at["module"].as_u64().unwrap_or(0));
    let module = module.map_or("", String::as_str);
    let name = at["function"].as_str().unwrap_or_default();
    // Parts that are rarely executed have names of their own.
    let name = name.split(['.', ' ']).next().unwrap_or_default();
    match (module, name) {
        ("[anon]", _) => Some("ANON".into()),
        (m, _) if m.contains("libc.so") => Some("C".into()),
        (_, "_start") => None,
        (_, name) => Some(name.to_owned()),
    }
}

/// Samples by path, and those that are not whole.
fn paths(report: &Value) -> (BTreeMap<String, u64>, u64) {
    let none = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&none).clone();
    let modules = list(&report["modules"]);
    let modules = modules
        .iter()
        .filter_map(|m| Some((m["id"].as_u64()?, m["path"].as_str()?.to_owned())));
    let modules: BTreeMap<u64, String> = modules.collect();
    let stacks = &report["stacks"];
    let nodes = list(&stacks["nodes"]);
    let mut all = BTreeMap::new();
    for node in &nodes {
        let samples = node["samples"].as_u64().unwrap_or(0);
        if samples == 0 {
            continue;
        }
        let mut names: Vec<String> = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            names.extend(frame(&node["at"], &modules));
            next = node["parent"].as_u64().and_then(|n| nodes.get(n as usize));
        }
        // The C library's frames are one, which is a signal's if it is not the outermost.
        names.dedup_by(|a, b| a == "C" && b == "C");
        if names.last().is_some_and(|name| name == "C") {
            names.pop();
        }
        let path = names.join(" ").replace(" C ", " SIGNAL ");
        *all.entry(path).or_default() += samples;
    }
    let lost = |name: &str| stacks[name].as_u64().unwrap_or(0);
    (all, lost("truncated") + lost("broken"))
}

fn part(n: u64, of: u64) -> f64 {
    n as f64 / of.max(1) as f64
}

/// Checks paths against the truth: that nearly all are right, and that each of `wanted` is there.
fn check(report: &Value, wanted: &BTreeSet<String>) -> Result<(), String> {
    let (all, lost) = paths(report);
    let sum = all.values().sum::<u64>();
    let of_work = || all.iter().filter(|(path, _)| path.starts_with("burn "));
    let in_work = of_work().map(|(_, n)| n).sum::<u64>();
    let wrong: Vec<_> = of_work()
        .filter(|(path, _)| !truth().contains(*path))
        .collect();
    let wrong_samples = wrong.iter().map(|(_, n)| **n).sum::<u64>();
    eprintln!("{sum} samples, {in_work} in burn, {wrong_samples} wrong, {lost} not whole");
    if in_work < SAMPLES {
        return Err(format!(
            "only {in_work} of {sum} samples are in burn: {all:?}"
        ));
    }
    if part(wrong_samples, in_work) > 1.0 - RIGHT || part(lost, sum) > 1.0 - RIGHT {
        return Err(format!(
            "{lost} of {sum} samples are not whole; wrong: {wrong:?}"
        ));
    }
    match wanted.iter().find(|path| !all.contains_key(*path)) {
        None => Ok(()),
        Some(missing) => Err(format!("no sample has the path {missing}: {all:?}")),
    }
}

fn launched(name: &str, flags: &[&str]) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = built(name, flags)?;
    let data = scratch.path("p");
    record(&["--"], &[&program.to_string_lossy(), TURNS], &data)?;
    let report = report(&data, &[])?;
    check(&report, &truth())?;
    trampoline(&report)?;
    let inclusive = |name: &str| {
        let functions = report["samples"]["functions"].as_array().cloned();
        let mut functions = functions.unwrap_or_default().into_iter();
        let found = functions.find(|f| f["function"].as_str() == Some(name));
        found.and_then(|f| f["inclusive_ns"].as_u64()).unwrap_or(0)
    };
    // Recursion counts once.
    let total: u64 = report["run"]["target_cpu_ns"].as_u64().unwrap_or(0);
    let (deep, main) = (inclusive("deep"), inclusive("main"));
    match deep > 0 && deep < main && main <= total && report["run"]["status"] == 0 {
        true => Ok(()),
        false => Err(format!("inclusive: deep {deep}, main {main}, of {total}")),
    }
}

/// A handler returns to a trampoline, whose frame is shown at its first instruction: what is before belongs to another function.
fn trampoline(report: &Value) -> Result<(), String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nodes = list(&report["stacks"]["nodes"]);
    let handler = nodes.iter().find(|n| n["at"]["function"] == "handles");
    let parent = handler.and_then(|n| n["parent"].as_u64());
    let at = &parent
        .and_then(|n| nodes.get(n as usize))
        .ok_or("nothing is above the handler")?["at"];
    let modules = list(&report["modules"]);
    let module = modules.iter().find(|m| m["id"] == at["module"]);
    let path = module.and_then(|m| m["path"].as_str()).unwrap_or_default();
    let start = at["vaddr"].as_u64().unwrap_or(0);
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "--no-show-raw-insn"]);
    objdump.args([
        format!("--start-address={start}"),
        format!("--stop-address={}", start + 9),
    ]);
    let code = output(objdump.arg(path))?;
    // `rt_sigreturn` is system call 15.
    match code.contains("$0xf,%rax") || code.contains("$0xf,%eax") {
        true => Ok(()),
        false => Err(format!("{path} {start:#x} is no trampoline: {code}")),
    }
}

fn attached() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let (name, flags) = BUILDS[0];
    let mut child = Command::new(built(name, flags)?)
        .arg("100000")
        .env("PATHS_LIBRARY", library()?)
        .stdout(Stdio::null())
        .spawn()
        .map_err(text)?;
    let data = scratch.path("p");
    let options = ["--duration", "1.5", "-p", &child.id().to_string()];
    let recorded = record(&options, &[], &data);
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    recorded?;
    check(&report(&data, &[])?, &truth())
}

fn family() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let (name, flags) = BUILDS[0];
    let program = built(name, flags)?;
    let data = scratch.path("p");
    record(
        &["--"],
        &[&program.to_string_lossy(), TURNS, "forked"],
        &data,
    )?;
    let all = report(&data, &[])?;
    check(&all, &truth())?;
    let processes = all["processes"].as_array().cloned().unwrap_or_default();
    // Which of them has a thread is known: the one that was executed.
    let mut threaded = 0;
    for process in &processes {
        let pid = process["pid"].as_u64().unwrap_or(0).to_string();
        if pid != "0" && process["samples"].as_u64().unwrap_or(0) > SAMPLES / 3 {
            let (paths, _) = paths(&report(&data, &["--pid", &pid])?);
            threaded += u32::from(paths.contains_key("burn leaf threaded"));
        }
    }
    match threaded {
        1 => Ok(()),
        n => Err(format!("{n} processes with a thread: {processes:?}")),
    }
}

fn short() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let data = scratch.path("p");
    record(&["--rate", "1", "--"], &["true"], &data)?;
    let shown = output(Command::new(trommel()).arg("report").arg(&data))?;
    match shown.contains("NONE: the program used hardly any CPU time") {
        true => Ok(()),
        false => Err(shown),
    }
}

/// Samples have functions, and nothing of who called them.
fn flat() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let (name, flags) = BUILDS[0];
    let program = built(name, flags)?;
    let data = scratch.path("p");
    sampled(
        &["--samples"],
        &["--"],
        &[&program.to_string_lossy(), TURNS],
        &data,
    )?;
    let report = report(&data, &[])?;
    let functions = report["samples"]["functions"].as_array();
    let mut functions = functions.into_iter().flatten();
    let burn = functions.find(|f| f["function"] == "burn");
    let share = burn.and_then(|f| f["share"].as_f64());
    if share.is_none_or(|share| share < 0.8) || report.get("stacks").is_some() {
        return Err(format!("burn has {share:?}: {report}"));
    }
    let said = sampled(&["--samples", "-e", "edge"], &["--"], &["true"], &data);
    match said {
        Err(error) if error.contains("--samples counts no events") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn machine() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let (name, flags) = BUILDS[0];
    let program = built(name, flags)?;
    let data = scratch.path("p");
    let options = ["--all", "--rate", "997", "--"];
    if let Err(why) = record(&options, &[&program.to_string_lossy(), TURNS], &data) {
        not_tested(format!("stacks of the machine: {why}"));
        return Ok(());
    }
    let (all, _) = paths(&report(&data, &[])?);
    match truth().iter().find(|path| !all.contains_key(*path)) {
        None => Ok(()),
        Some(missing) => Err(format!("no sample has the path {missing}")),
    }
}

/// A name as engines make them.
const SECOND: &str = "JS:*second /a b.js:2";
/// The same without directories.
const SECOND_SHOWN: &str = "JS:*second a b.js:2";

/// Functions of code that was made have their names in samples and in exact counts, though the files are gone when the program has ended.
fn named(how: &str) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = program::built("tests/stacks/names.c", "stack-names", &["-O2", "-g"])?;
    let data = scratch.path("p");
    let run = |options: &[&str]| {
        let mut command = Command::new(trommel());
        command.current_dir(scratch.dir());
        command
            .args(["record", "--quiet", "-o"])
            .arg(&data)
            .args(options);
        output(command.arg("--").arg(&program).arg(how))
    };
    run(&["-e", "stack"])?;
    let sampled = report(&data, &[])?;
    let functions = sampled["samples"]["functions"].as_array().cloned();
    let of = |name: &str| {
        let mut functions = functions.iter().flatten();
        let found = functions.find(|f| f["function"].as_str() == Some(name));
        found.and_then(|f| f["samples"].as_u64()).unwrap_or(0)
    };
    let (first, second) = (of("made_first"), of(SECOND));
    // One works three times as long as the other.
    if second < 20 || first < 2 * second || first > 5 * second {
        return Err(format!("samples: {first} and {second}: {functions:?}"));
    }
    let (paths, lost) = paths(&sampled);
    // A sample where the frame pointer is not set yet, or any more, has no callers.
    let sum = paths.values().sum::<u64>();
    if part(lost, sum) > 1.0 - RIGHT || !paths.keys().any(|path| path == "ANON main") {
        return Err(format!("{lost} lost of {paths:?}"));
    }
    let shown = output(Command::new(trommel()).arg("report").arg(&data))?;
    // Functions come first, and each is once below its caller.
    let first = shown.find("Functions of programs").unwrap_or(usize::MAX);
    if !shown.contains(SECOND_SHOWN) || shown.find("made_first").is_none_or(|at| at < first) {
        return Err(shown);
    }
    let tree = output(
        Command::new(trommel())
            .args(["report", "--tree"])
            .arg(&data),
    )?;
    // Without callers, a function stands where outermost ones do.
    let outermost = tree.lines().find_map(|line| line.find("_start"));
    let below = tree.lines().filter_map(|line| line.find("made_first"));
    if below.filter(|&at| Some(at) > outermost).count() != 1 {
        return Err(tree);
    }
    if how == "dump" {
        let shown = output(
            Command::new(trommel())
                .arg("annotate")
                .arg(&data)
                .arg("made_first"),
        )?;
        if !shown.contains("dec") {
            return Err(shown);
        }
    }
    run(&["-e", "edge,call"])?;
    let exact = report(&data, &[])?;
    let edges = exact["edges"].as_array().cloned().unwrap_or_default();
    let named = |edge: &&Value| edge["from"]["function"].as_str() == Some(SECOND);
    if !edges.iter().any(|edge| named(&edge)) {
        return Err(format!("no branch of the second: {edges:?}"));
    }
    // What is said at the end has the names, too.
    let mut command = Command::new(trommel());
    command.current_dir(scratch.dir()).args(["record", "--"]);
    let done = command.arg(&program).arg(how).output().map_err(text)?;
    let said = String::from_utf8_lossy(&done.stderr);
    match said.contains("made_first") {
        true => Ok(()),
        false => Err(format!("{said}")),
    }
}

/// Functions of a program without symbols are told apart by their starts.
fn nameless() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let flags = ["-O2", "-fomit-frame-pointer", "-pthread", "-s"];
    let program = built("stack-nameless", &flags)?;
    let data = scratch.path("p");
    record(&["--"], &[&program.to_string_lossy(), TURNS], &data)?;
    let report = report(&data, &[])?;
    let functions = report["samples"]["functions"].as_array();
    let names = functions.into_iter().flatten();
    let names = names.filter_map(|f| f["function"].as_str());
    let own: BTreeSet<&str> = names
        .filter(|name| name.starts_with("stack-nameless+0x"))
        .collect();
    // Each of the functions on the paths.
    match own.len() {
        8.. => Ok(()),
        _ => Err(format!("{own:?}")),
    }
}

/// The parts that `perf` gives each function of the program, inclusive, are those of the report, as far as samples tell.
fn as_perf() -> Result<(), String> {
    /// Parts differ by less than this between two runs: it is five standard deviations of a half in some 300 samples.
    const NEAR: f64 = 0.15;
    let Some(perf) = which("perf") else {
        not_tested("stacks: perf is not installed");
        return Ok(());
    };
    let scratch = Scratch::new().map_err(text)?;
    let (name, flags) = BUILDS[1];
    let program = built(name, flags)?;
    let (data, theirs) = (scratch.path("p"), scratch.path("perf"));
    let mut command = Command::new(perf);
    command.args([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-F",
        "997",
        "--call-graph",
        "fp",
        "-o",
    ]);
    command
        .arg(&theirs)
        .arg(&program)
        .arg(TURNS)
        .env("PATHS_LIBRARY", library()?);
    if let Err(why) = output(&mut command) {
        not_tested(format!("stacks: perf: {why}"));
        return Ok(());
    }
    let mut command = Command::new("perf");
    command.args(["report", "-i"]).arg(&theirs);
    command.args([
        "--children",
        "--no-demangle",
        "-g",
        "none",
        "--stdio",
        "-q",
        "-F",
        "overhead_children,sym",
    ]);
    let shown = output(&mut command)?;
    let shown = shown.lines().filter_map(|line| {
        let (part, symbol) = line.trim().split_once('%')?;
        Some((
            symbol.split_whitespace().last()?.to_owned(),
            part.trim().parse::<f64>().ok()? / 100.0,
        ))
    });
    let shown: BTreeMap<String, f64> = shown.collect();
    record(&["--"], &[&program.to_string_lossy(), TURNS], &data)?;
    let report = report(&data, &[])?;
    let total = report["run"]["target_cpu_ns"].as_f64().unwrap_or(1.0);
    for function in report["samples"]["functions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
    {
        let name = function["function"].as_str().unwrap_or_default();
        let own = function["inclusive_ns"].as_f64().unwrap_or(0.0) / total;
        // A signal's frame has no frame pointer, and `perf` loses its way there.
        if ["burn", "deep", "tails", "generates", "threaded"].contains(&name) {
            let part = shown.get(name).copied().unwrap_or(0.0);
            if (part - own).abs() > NEAR {
                return Err(format!("{name}: {own:.3}, perf has {part:.3}: {shown:?}"));
            }
        }
    }
    match shown.contains_key("burn") {
        true => Ok(()),
        false => Err(format!("perf has no functions: {shown:?}")),
    }
}

fn refused() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    for (options, said) in [
        (&["--budget", "1", "--", "true"][..], "--rate"),
        (&["--only", "main", "--", "true"], "--only"),
        (&["-p", "4000000"], "there is no such process"),
    ] {
        match record(options, &[], &scratch.path("p")) {
            Err(error) if error.contains(said) => {}
            other => return Err(format!("{options:?}: {other:?}")),
        }
    }
    Ok(())
}
