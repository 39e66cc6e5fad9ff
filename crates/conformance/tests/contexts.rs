//! Calling contexts, against trees that are known, and against callgrind.
//!
//! * `known …`: programs in which a function of constant cost is called in all ways. Each way that leads to it is known, and how often.
//! * `calls …`: what catches exceptions is called as often as its callers call it, wherever its handlers are.
//! * `callgrind …`: deterministic programs: instructions and calls of each function of the main executable, and inclusive ones where all
//!   that it calls is there too.
//! * `functions …`: the sum of all contexts against what functions come to by branches and calls.
//! * `in turn`: calls by one instruction of many functions stay in generated code.
//! * `behaves …`: programs do what they do natively.
//! * `refused …`: what contexts do not go with is said in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Job, Scratch, children_cpu, output, required, trommel};
use trommel_conformance::{callgrind, program, settled};

/// Ways to `leaf`, and calls.
type Ways = &'static [(&'static str, u64)];

/// Programs with a known tree.
const KNOWN: [(&str, Ways); 9] = [
    ("contexts_forms@-O2-fno-inline-pthread", &FORMS),
    ("contexts_forms@-O0-pthread", &FORMS),
    ("contexts_forms@-O2-fno-inline-pthread-no-pie", &FORMS),
    ("contexts_exceptions@-O1-fno-inline", &EXCEPTIONS),
    ("contexts_exceptions@-O0", &EXCEPTIONS),
    // Handlers are in parts of functions that are elsewhere.
    ("contexts_exceptions@-O2-fno-inline", &EXCEPTIONS),
    (
        "contexts_exceptions@-O2-fno-inline-fno-reorder-blocks-and-partition",
        &EXCEPTIONS,
    ),
    ("contexts_many@-O2-fno-inline-pthread", &MANY),
    ("contexts_many@-O0-pthread", &MANY),
];

/// Stress options that they are under.
const UNDER: [&str; 6] = [
    "",
    "insns=1",
    "insns=2,pages=24",
    "evict=97",
    "trace",
    "far",
];

/// Ways to `leaf` in `contexts_forms`, from after `main` where that is on the way, and calls.
const FORMS: [(&str, u64); 20] = [
    ("alternate/leaf", 3),
    ("body/leaf", 12),
    ("by_pointer/first/leaf", 6),
    ("by_pointer/second/leaf", 6),
    ("clone3/start_thread/worker/leaf", 7),
    ("down/leaf", 6),
    ("even/leaf", 4),
    ("even/odd/leaf", 4),
    ("forks/in_child/leaf", 3),
    ("forks/leaf", 1),
    ("handler/leaf", 3),
    ("jumps/deeper/leaf", 15),
    ("jumps/leaf", 5),
    ("leaf", 1),
    ("leaves/leaf", 3),
    ("raises/leaf", 3),
    ("switches/leaf", 6),
    ("tails/leaf", 4),
    ("tails/tail/leaf", 4),
    ("twice/leaf", 2),
];

/// Ways to `leaf` in `contexts_exceptions`.
const EXCEPTIONS: [(&str, u64); 5] = [
    ("catches/again/guarded/Guard::~Guard()/leaf", 4),
    ("catches/again/guarded/thrower/leaf", 8),
    ("catches/again/leaf", 4),
    ("catches/leaf", 8),
    ("leaf", 1),
];

/// Ways to `leaf` in `contexts_many`.
const MANY: [(&str, u64); 30] = [
    ("clone3/start_thread/worker/rotates/f0/leaf", 10),
    ("clone3/start_thread/worker/rotates/f1/leaf", 10),
    ("clone3/start_thread/worker/rotates/f2/leaf", 10),
    ("clone3/start_thread/worker/rotates/f3/leaf", 10),
    ("clone3/start_thread/worker/rotates/f4/leaf", 10),
    ("clone3/start_thread/worker/rotates/f5/leaf", 10),
    ("hops/hop/f0/leaf", 9),
    ("hops/hop/f1/leaf", 9),
    ("hops/hop/f2/leaf", 9),
    ("hops/hop/f3/leaf", 9),
    ("hops/hop/f4/leaf", 9),
    ("hops/hop/f5/leaf", 9),
    ("in_child/rotates/f0/leaf", 2),
    ("in_child/rotates/f1/leaf", 2),
    ("in_child/rotates/f2/leaf", 2),
    ("in_child/rotates/f3/leaf", 2),
    ("in_child/rotates/f4/leaf", 2),
    ("in_child/rotates/f5/leaf", 2),
    ("rotates/f0/leaf", 11),
    ("rotates/f1/leaf", 11),
    ("rotates/f2/leaf", 11),
    ("rotates/f3/leaf", 11),
    ("rotates/f4/leaf", 11),
    ("rotates/f5/leaf", 11),
    ("straight/f0/leaf", 6),
    ("straight/f1/leaf", 6),
    ("straight/f2/leaf", 6),
    ("straight/f3/leaf", 6),
    ("straight/f4/leaf", 6),
    ("straight/f5/leaf", 6),
];

/// Programs that must do the same as natively.
const BEHAVES: [&str; 13] = [
    "alloca_recursion@-O2",
    "code_modifies_itself@-O2",
    "exceptions_deep@-O2",
    "longjmp_deep@-O2",
    "processes_outlive@-O1-fno-inline",
    "push_pop_rsp@-O2",
    "return_tricks@-O2-static",
    "signal_storm@-O2-pthread",
    "signal_synchronous@-O2",
    "stack_overflow_altstack@-O1-fno-optimize-sibling-calls",
    "threads_ended@-O2-pthread-Wl,-z,now",
    "threads_many@-O2-pthread",
    "ucontext_swap@-O2",
];

/// Programs compared with callgrind: no threads, signals or unwinding, and deterministic.
const SAME: [&str; 7] = [
    "branches_small@-O2",
    "branches_small@-O2-no-pie",
    "contexts_same@-O2-fno-inline",
    "contexts_same@-O1-fno-inline",
    "export_calls@-O2-g",
    "jump_tables@-O2",
    "redzone_leaf@-O2",
];

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    let mut trial = |name: String, run: Box<dyn Fn() -> Result<(), String> + Send>| {
        trials.push(Trial::test(name, move || run().map_err(Failed::from)));
    };
    for (name, ways) in KNOWN {
        for stress in UNDER {
            let title = format!("known {name} under {stress}");
            let title = title.trim_end_matches(" under ").to_owned();
            trial(title, Box::new(move || known(name, ways, stress)));
        }
    }
    for name in SAME {
        trial(
            format!("callgrind {name}"),
            Box::new(move || by_callgrind(name)),
        );
        trial(
            format!("functions {name}"),
            Box::new(move || by_functions(name)),
        );
    }
    for depth in ["1", "3"] {
        trial(
            format!("calls of depth {depth}"),
            Box::new(move || calls(depth)),
        );
    }
    trial("shown".into(), Box::new(shown));
    trial("in turn".into(), Box::new(in_turn));
    for name in BEHAVES {
        trial(format!("behaves {name}"), Box::new(move || behaves(name)));
    }
    for (option, value) in [
        ("-p", "1"),
        ("--only", "main"),
        ("--budget", "1"),
        ("-c", "P257"),
    ] {
        trial(
            format!("refused {option}"),
            Box::new(move || refused(option, value)),
        );
    }
    libtest_mimic::run(&args, trials).exit();
}

/// A node of a report.
struct Node {
    parent: Option<usize>,
    function: String,
    module: u64,
    calls: u64,
    own: u64,
    inclusive: u64,
}

/// The report of a run, and its nodes.
fn recorded(
    program: &Path,
    events: &str,
    depth: &str,
    stress: &str,
) -> Result<(Value, Vec<Node>), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let run = |command: &mut Command| {
        let done = command
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match done.status.success() {
            true => Ok(done.stdout),
            false => Err(format!("{}: {said}", done.status)),
        }
    };
    let added = callgrind::added_environment(scratch.dir())?;
    run(Command::new(trommel())
        .args([
            "record",
            "--quiet",
            "-e",
            events,
            "--context-depth",
            depth,
            "-o",
        ])
        .arg(&data)
        .arg("--")
        .arg(program)
        .envs(added)
        .env("TROMMEL_STRESS", stress)
        .current_dir(scratch.dir()))?;
    let text = run(Command::new(trommel())
        .args(["report", "--json", "--no-debug-info"])
        .arg(&data))?;
    let report: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    let contexts = &report["contexts"];
    if contexts["folded"] != 0 {
        return Err("calls were folded".into());
    }
    let nodes = contexts["nodes"]
        .as_array()
        .ok_or("there are no contexts")?;
    let number = |node: &Value, name: &str| node[name].as_u64().ok_or(format!("no {name}"));
    let nodes = nodes.iter().map(|node| {
        Ok(Node {
            parent: node["parent"].as_u64().map(|n| n as usize),
            function: node["function"].as_str().unwrap_or("?").to_owned(),
            module: number(node, "module")?,
            calls: number(node, "calls")?,
            own: number(node, "instructions")?,
            inclusive: number(node, "inclusive")?,
        })
    });
    let nodes = nodes.collect::<Result<Vec<_>, String>>()?;
    Ok((report, nodes))
}

fn known(name: &str, expected: Ways, stress: &str) -> Result<(), String> {
    let (_, nodes) = recorded(&program::named(name)?, "context", "1", stress)?;
    let mut ways: BTreeMap<String, u64> = BTreeMap::new();
    let mut costs = BTreeSet::new();
    for node in nodes.iter().filter(|node| node.function == "leaf") {
        let above = std::iter::successors(Some(node), |node| Some(&nodes[node.parent?]));
        let names = above
            .map(|node| &*node.function)
            .take_while(|name| *name != "main");
        let mut way: Vec<&str> = names.collect();
        way.reverse();
        *ways.entry(way.join("/")).or_default() += node.calls;
        costs.insert((node.own / node.calls, node.own % node.calls));
    }
    let expected = expected.iter().map(|(way, n)| ((*way).to_owned(), *n));
    let expected: BTreeMap<String, u64> = expected.collect();
    if ways != expected {
        return Err(format!("{ways:?} in place of {expected:?}"));
    }
    match costs.len() {
        1 => Ok(()),
        _ => Err(format!("leaf costs differ: {costs:?}")),
    }
}

/// Calls of the functions of `contexts_exceptions`. A function that goes on after its handler is not called again, and neither a handler in a
/// part of a function that is elsewhere.
fn calls(depth: &str) -> Result<(), String> {
    let program = program::named("contexts_exceptions@-O2-fno-inline")?;
    let (report, nodes) = recorded(&program, "edge,call,context", depth, "")?;
    let main = nodes.iter().find(|node| node.function == "main");
    let module = main.ok_or("no main")?.module;
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.module == module) {
        *found.entry(&node.function).or_default() += node.calls;
    }
    let functions = report["functions"].as_array().ok_or("no functions")?;
    for (name, wanted) in [
        ("again", 4),
        ("catches", 1),
        ("guarded", 4),
        ("leaf", 25),
        ("main", 1),
        ("thrower", 8),
    ] {
        let by_events = functions.iter().find(|f| f["name"] == name);
        let by_events = by_events.and_then(|f| f["calls"].as_u64());
        if found.get(name) != Some(&wanted) || by_events != Some(wanted) {
            return Err(format!(
                "{name}: {wanted} calls are none of {found:?} and {by_events:?}"
            ));
        }
    }
    match found.keys().find(|name| name.contains("cold")) {
        Some(part) => Err(format!("{part} is a part of a function: {found:?}")),
        None => Ok(()),
    }
}

/// The cost of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cost {
    own: u64,
    calls: u64,
    /// `None`: it calls what is elsewhere.
    inclusive: Option<u64>,
}

/// Costs of the functions of a program by callgrind: its own instructions, calls, and inclusive instructions of those that call nothing elsewhere.
fn from_callgrind(program: &Path) -> Result<BTreeMap<String, Cost>, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let file = scratch.path("callgrind.out");
    let done = Command::new(required("valgrind")?)
        .args([
            "-q",
            "--tool=callgrind",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .current_dir(scratch.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    let text = fs::read_to_string(&file).map_err(|e| format!("{done}: {e}"))?;
    let main = program.to_string_lossy();
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    let mut calls: BTreeMap<String, BTreeSet<(bool, String)>> = BTreeMap::new();
    let mut inclusive: BTreeMap<String, u64> = BTreeMap::new();
    let (mut object, mut function, mut called) = (String::new(), String::new(), None);
    let (mut callee, mut is_call) = (String::new(), false);
    let plain = |name: &str| name.split('\'').next().unwrap_or(name).to_owned();
    for line in text.lines() {
        match line.split_once('=') {
            Some(("ob", name)) => object = name.to_owned(),
            Some(("fn", name)) => function = name.to_owned(),
            Some(("cob", name)) => called = Some(name.to_owned()),
            Some(("cfn", name)) => callee = name.to_owned(),
            Some(("calls", rest)) => {
                let here = called.take().unwrap_or_else(|| object.clone()) == *main;
                let count: u64 = rest
                    .split(' ')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(0);
                if here {
                    costs.entry(plain(&callee)).or_default().calls += count;
                }
                if object == *main {
                    calls
                        .entry(plain(&function))
                        .or_default()
                        .insert((here, plain(&callee)));
                }
                is_call = true;
            }
            None if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let cost = line
                    .split(' ')
                    .nth(1)
                    .and_then(|n| n.parse::<u64>().ok())
                    .unwrap_or(0);
                if object == *main {
                    if !is_call {
                        costs.entry(plain(&function)).or_default().own += cost;
                    }
                    // Occurrences further in have numbers after their names.
                    if !function.contains('\'') {
                        *inclusive.entry(function.clone()).or_default() += cost;
                    }
                }
                is_call = false;
            }
            _ => {}
        }
    }
    for (name, cost) in &mut costs {
        let mut met = BTreeSet::from([name.clone()]);
        let mut left = vec![name.clone()];
        let mut stays = true;
        while let Some(next) = left.pop() {
            for (here, callee) in calls.get(&next).into_iter().flatten() {
                stays &= *here;
                if met.insert(callee.clone()) {
                    left.push(callee.clone());
                }
            }
        }
        cost.inclusive = inclusive.get(name).copied().filter(|_| stays);
    }
    // Callgrind files jumps into a part that is elsewhere as calls of another function.
    let parts: Vec<String> = costs
        .keys()
        .filter(|name| name.ends_with(".cold"))
        .cloned()
        .collect();
    for part in parts {
        let (whole, own) = (part.trim_end_matches(".cold"), costs[&part].own);
        if let Some(whole) = costs.get_mut(whole) {
            whole.own += own;
            costs.remove(&part);
        }
    }
    Ok(costs)
}

/// Deep enough that no recursion is folded: callgrind folds none.
const DEEP: &str = "1000";

fn by_callgrind(name: &str) -> Result<(), String> {
    let program = program::named(name)?;
    let expected = from_callgrind(&program)?;
    let (report, nodes) = recorded(&program, "context", DEEP, "")?;
    let modules = report["modules"].as_array().ok_or("no modules")?;
    let path = program.to_string_lossy();
    let main = modules.iter().find(|module| module["path"] == *path);
    let main = main
        .and_then(|module| module["id"].as_u64())
        .ok_or("no main module")?;
    let mut got: BTreeMap<&str, Cost> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.module == main) {
        let mut above = std::iter::successors(node.parent, |n| nodes[*n].parent);
        let again = above.any(|n| nodes[n].function == node.function);
        let cost = got.entry(&node.function).or_default();
        cost.own += node.own;
        cost.calls += node.calls;
        *cost.inclusive.get_or_insert_default() += if again { 0 } else { node.inclusive };
    }
    // Start files have functions without names or sizes, which callgrind gives to others or to none.
    let start =
        |name: &str| name.starts_with('_') || name.starts_with("0x") || name == "(below main)";
    let (mut compared, mut inclusive) = (0, 0);
    for (name, expected) in expected.iter().filter(|(name, _)| !start(name)) {
        let got = got.get(&**name).copied().unwrap_or_default();
        let got = Cost {
            inclusive: got.inclusive.filter(|_| expected.inclusive.is_some()),
            ..got
        };
        if got != *expected {
            return Err(format!("{name}: {got:?}, by callgrind {expected:?}"));
        }
        compared += 1;
        inclusive += usize::from(expected.inclusive.is_some());
    }
    match compared {
        0 | 1 => Err("there is nothing to compare".into()),
        _ => {
            eprintln!("{name}: {compared} functions, {inclusive} inclusive");
            Ok(())
        }
    }
}

fn by_functions(name: &str) -> Result<(), String> {
    let (report, nodes) = recorded(&program::named(name)?, "edge,call,context", "1", "")?;
    let functions = report["functions"].as_array().ok_or("no functions")?;
    let own = |f: &Value| f["self"].as_u64().or_else(|| f["self"]["count"].as_u64());
    let functions: u64 = functions.iter().filter_map(own).sum();
    let contexts: u64 = nodes.iter().map(|node| node.own).sum();
    match functions == contexts {
        true => Ok(()),
        false => Err(format!(
            "{contexts} instructions by contexts, {functions} by functions"
        )),
    }
}

/// A report of contexts alone begins with functions, and `--tree` has each function once below its caller.
fn shown() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = program::named("export_calls@-O2-g")?;
    let data = scratch.path("data");
    let run = |command: &mut Command| output(command.current_dir(scratch.dir()));
    let record = ["record", "--quiet", "-e", "context", "-o"];
    run(Command::new(trommel())
        .args(record)
        .arg(&data)
        .arg("--")
        .arg(program))?;
    let report = run(Command::new(trommel()).arg("report").arg(&data))?;
    let mut lines = report
        .lines()
        .skip_while(|line| !line.starts_with("# Functions: "));
    let titles = lines.nth(1).unwrap_or_default();
    let hottest = lines.next().unwrap_or_default();
    if !titles.contains("inclusive") || !hottest.contains(" mix ") {
        return Err(report);
    }
    let tree = run(Command::new(trommel())
        .args(["report", "--tree"])
        .arg(&data))?;
    // Share, own share, calls, and then the name, indented by its depth.
    const NAME: usize = 33;
    let (mut path, mut met) = (Vec::new(), BTreeSet::new());
    for line in tree.lines().filter(|line| !line.starts_with('#')) {
        let name = line.get(NAME..).ok_or_else(|| line.to_owned())?;
        let depth = name.len() - name.trim_start().len();
        path.truncate(depth);
        path.push(name.trim_start());
        if path.len() != depth + 1 || !met.insert(path.join("/")) {
            return Err(format!("{path:?}: {tree}"));
        }
    }
    match met.iter().any(|path| path.ends_with("/kind/mix")) {
        true => Ok(()),
        false => Err(tree),
    }
}

/// Calls of six functions in turn take no more than a few times what calls of one take. If each crossed over to the runtime they would
/// take ten times as much and more.
fn in_turn() -> Result<(), String> {
    let program = program::named("contexts_many@-O2-fno-inline-pthread")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let seconds = |more: &[&str]| {
        let before = children_cpu().map_err(|e| e.to_string())?;
        let mut record = Command::new(trommel());
        record.args(["record", "--quiet", "-e", "context", "-o"]);
        record.arg(scratch.path("data")).arg("--").arg(&program);
        output(record.arg("6000000").args(more))?;
        Ok::<f64, String>(children_cpu().map_err(|e| e.to_string())? - before)
    };
    let (one, six) = (seconds(&["same"])?, seconds(&[])?);
    match six < 4.0 * one {
        true => Ok(()),
        false => Err(format!("{one:.3} s and {six:.3} s")),
    }
}

fn behaves(name: &str) -> Result<(), String> {
    let job = Job::new([program::named(name)?], Path::new("/"));
    job.check_recorded(trommel(), [("context", "exact")], Duration::from_secs(30))
}

fn refused(option: &str, value: &str) -> Result<(), String> {
    let mut command = Command::new(trommel());
    command.args(["record", "-e", "context", option, value]);
    if option != "-p" {
        command.args(["--", "true"]);
    }
    let done = command.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match !done.status.success() && said.contains("-e context does not go with") {
        true => Ok(()),
        false => Err(format!("{}: {said}", done.status)),
    }
}
