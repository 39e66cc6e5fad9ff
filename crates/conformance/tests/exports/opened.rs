//! Exports that the viewers themselves open: the page of speedscope, the loader of the Firefox Profiler, KCachegrind.
//!
//! A real program is recorded. The numbers that a viewer shows of its functions are those of `report --json`, summed here.
//! speedscope and the Firefox Profiler are packages of npm, looked for in [`package`]. Nothing is fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use trommel_conformance::exec::{Scratch, output, trommel, workspace};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::recorded::{Recorded, source};
use trommel_conformance::settled::PACKAGES;
use trommel_conformance::wait;

use super::{Test, kcachegrind, text, tool};

pub(super) const ALL: &[(&str, Test)] = &[
    ("speedscope: its page shows exact contexts", || {
        speedscope(Paths::Exact)
    }),
    ("speedscope: its page shows sampled stacks", || {
        speedscope(Paths::Sampled)
    }),
    ("firefox: its own loader has exact contexts", || {
        firefox(Paths::Exact)
    }),
    ("firefox: its own loader has sampled stacks", || {
        firefox(Paths::Sampled)
    }),
    (
        "kcachegrind: every line is read, and a damaged one is named",
        kcachegrind::read,
    ),
];

/// A file of a package of npm.
fn package(file: &str, test: &str) -> Option<PathBuf> {
    Some(packages(file, test)?.join(file))
}

/// The packages of npm that have a file: in the directory of [`PACKAGES`], in `target/viewers`, or global ones.
pub(super) fn packages(file: &str, test: &str) -> Option<PathBuf> {
    let given = std::env::var_os(PACKAGES).map(PathBuf::from);
    let usual = [
        workspace().join("target/viewers/node_modules"),
        "/usr/local/lib/node_modules".into(),
        "/usr/lib/node_modules".into(),
    ];
    let mut all = given.into_iter().chain(usual);
    let found = all.find(|dir| dir.join(file).exists());
    if found.is_none() {
        not_tested(format!(
            "exports {test}: the npm package is not installed, see docs/testing.md"
        ));
    }
    found
}

/// Call paths to record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Paths {
    Exact,
    Sampled,
}

/// Records the program. `None` where the kernel refuses samples.
fn recorded(paths: Paths, test: &str) -> Result<Option<Recorded>, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = built(paths, scratch.dir(), "app")?;
    record(paths, scratch, program, test)
}

/// Compiles the program, with enough work for some hundred samples where they are wanted.
pub(super) fn built(paths: Paths, dir: &Path, name: &str) -> Result<PathBuf, String> {
    let code = fs::read_to_string(source()).map_err(|e| e.to_string())?;
    let times = match paths {
        Paths::Exact => "times = 3000",
        Paths::Sampled => "times = 3000000",
    };
    let own = dir.join("calls.c");
    fs::write(&own, code.replace("times = 3000", times)).map_err(|e| e.to_string())?;
    let program = dir.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-fno-inline", "-o"]);
    output(gcc.arg(&program).arg(own))?;
    Ok(program)
}

/// Records call paths. `None` where the kernel refuses samples.
pub(super) fn record(
    paths: Paths,
    scratch: Scratch,
    program: PathBuf,
    test: &str,
) -> Result<Option<Recorded>, String> {
    let options = match paths {
        Paths::Exact => ["-e", "context", "--context-depth", "4"],
        Paths::Sampled => ["-e", "stack", "--rate", "9973"],
    };
    match Recorded::of(scratch, program, &options) {
        Err(why) if paths == Paths::Sampled && why.contains("perf") => {
            not_tested(format!("exports {test}: {why}"));
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Costs of a function: by itself, and with all that it called.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Costs {
    own: u64,
    inclusive: u64,
}

/// Functions by the file's name of their module, and their name.
type Functions = BTreeMap<(String, String), Costs>;

/// Costs of functions by the tree in `report --json`. On a path, a function counts once.
fn reported(recorded: &Recorded, paths: Paths) -> Result<Functions, String> {
    let mut report = Command::new(trommel());
    let printed = output(report.args(["report", "--json"]).arg(&recorded.data))?;
    let json: Value = serde_json::from_str(&printed).map_err(|e| e.to_string())?;
    let mut modules = BTreeMap::new();
    for module in json["modules"].as_array().ok_or("no modules")? {
        let path = module["path"].as_str().ok_or("no path")?;
        modules.insert(module["id"].as_u64(), base(path));
    }
    let (tree, at, cost) = match paths {
        Paths::Exact => (&json["contexts"]["nodes"], "", "/instructions"),
        Paths::Sampled => (&json["stacks"]["nodes"], "/at", "/time"),
    };
    let nodes = tree.as_array().ok_or("no nodes")?;
    let field = |node: &Value, name: &str| node.pointer(&format!("{at}/{name}")).cloned();
    let key = |node: &Value| {
        let module = field(node, "module").and_then(|m| m.as_u64());
        let name = field(node, "function").and_then(|f| f.as_str().map(str::to_owned));
        (
            modules.get(&module).cloned().unwrap_or_default(),
            name.unwrap_or_default(),
        )
    };
    let mut functions = Functions::new();
    for node in nodes {
        let own = node.pointer(cost).and_then(Value::as_u64);
        let own = own.ok_or_else(|| format!("no cost: {node}"))?;
        functions.entry(key(node)).or_default().own += own;
        let mut on_path = BTreeSet::new();
        let mut next = Some(node);
        while let Some(node) = next {
            on_path.insert(key(node));
            next = node["parent"].as_u64().and_then(|n| nodes.get(n as usize));
        }
        for function in on_path {
            functions.entry(function).or_default().inclusive += own;
        }
    }
    Ok(functions)
}

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The functions of the program that each viewer must show. The last one is recursive, and has too little time to be sampled.
fn needed(paths: Paths) -> &'static [&'static str] {
    let all = &["main", "work", "mix", "kind", "small", "fib"];
    match paths {
        Paths::Exact => all,
        Paths::Sampled => &all[..5],
    }
}

/// Runs a command within a limit of time, with its output in files.
fn within(command: &mut Command, scratch: &Scratch) -> Result<(String, String), String> {
    let fail = |e: std::io::Error| e.to_string();
    let (out, err) = (scratch.path("viewer.out"), scratch.path("viewer.err"));
    command.stdin(Stdio::null());
    command.stdout(File::create(&out).map_err(fail)?);
    command.stderr(File::create(&err).map_err(fail)?);
    let mut child = command.spawn().map_err(fail)?;
    let ended = wait::within(&mut child, Duration::from_secs(60)).map_err(fail)?;
    if ended.is_none() {
        child.kill().map_err(fail)?;
        child.wait().map_err(fail)?;
    }
    let read = |path: &Path| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
    let (out, err) = (read(&out).map_err(fail)?, read(&err).map_err(fail)?);
    match ended {
        Some(status) if status.success() => Ok((out, err)),
        _ => Err(format!("{command:?}: {ended:?}\n{out:.2000}\n{err}")),
    }
}

/// Opens the unchanged page as `npx speedscope FILE` does, at the table of functions, and reads the table. A message box of the page,
/// with which it refuses a file, keeps the browser beyond the limit.
fn speedscope(paths: Paths) -> Result<(), String> {
    let test = "speedscope";
    let Some(page) = package("speedscope/dist/release/index.html", test) else {
        return Ok(());
    };
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let (Some(browser), Some(recorded)) = (tool(&names, test), recorded(paths, test)?) else {
        return Ok(());
    };
    let file = fs::read(recorded.export("speedscope", &[])?).map_err(|e| e.to_string())?;
    let loads = recorded.scratch.path("loads.js");
    // JSON in a text of JavaScript, as bytes of base64 by the browser.
    let words =
        serde_json::to_string(&String::from_utf8_lossy(&file)).map_err(|e| e.to_string())?;
    let script = format!(
        "speedscope.loadFileFromBase64('app.speedscope.json', btoa(unescape(encodeURIComponent({words}))))"
    );
    fs::write(&loads, script).map_err(|e| e.to_string())?;
    let rows = opened(&browser, &page, &loads, &recorded.scratch)?;
    let ours = reported(&recorded, paths)?;
    for &name in needed(paths) {
        let costs = ours.get(&("app".to_owned(), name.to_owned()));
        let costs = costs.ok_or_else(|| format!("no {name}: {ours:?}"))?;
        let wanted = [costs.inclusive, costs.own];
        let found = rows.iter().find(|row| row[2] == name);
        let found = found.ok_or_else(|| format!("no {name}: {rows:?}"))?;
        println!("speedscope {name}: {found:?}, report {costs:?}");
        let is_shown = |(found, cost): (&String, u64)| {
            // Halves are rounded to even here, and up there.
            let half = u64::from(matches!(paths, Paths::Sampled));
            [cost, cost + half]
                .map(|cost| shown(cost, paths))
                .contains(found)
        };
        if !found.iter().zip(wanted).all(is_shown) {
            return Err(format!("{name}: {found:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

/// Rows of the table in the page that a script loads a file into. The browser's own clock may run ahead of the page's work in other
/// threads, and end before the table is there: it is opened again then.
fn opened(
    browser: &Path,
    page: &Path,
    loads: &Path,
    scratch: &Scratch,
) -> Result<Vec<[String; 3]>, String> {
    for _ in 0..6 {
        let mut command = Command::new(browser);
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            // High enough for all rows: the page makes only those that are visible.
            .args(["--window-size=1200,7000", "--virtual-time-budget=20000"])
            .args(["--enable-logging=stderr", "--enable-unsafe-swiftshader"])
            .arg(format!(
                "--user-data-dir={}",
                text(&scratch.path("browser"))
            ))
            .arg(format!(
                "file://{}#localProfilePath={}&view=sandwich",
                text(page),
                text(loads)
            ));
        let (dom, said) = within(&mut command, scratch)?;
        let wrong = |line: &&str| line.contains("CONSOLE") && line.contains("Error");
        if let Some(line) = said.lines().find(wrong) {
            return Err(line.to_owned());
        }
        let rows = rows(&dom);
        if !rows.is_empty() {
            return Ok(rows);
        }
    }
    Err("the page shows no functions".to_owned())
}

/// Rows of the page's table: total, self and name.
fn rows(page: &str) -> Vec<[String; 3]> {
    // Text of a cell, up to the bar below it or the end.
    let cell = |cell: &str| {
        let text = cell.split("<div").next().unwrap_or_default();
        let text = text.split("</span>").last().unwrap_or_default();
        let text = text.split("</td>").next().unwrap_or_default();
        let text = text.rsplit('>').next().unwrap_or_default();
        text.split(" (").next().unwrap_or_default().to_owned()
    };
    let row = |row: &str| {
        let cells: Vec<String> = row.split("<td ").skip(1).map(cell).collect();
        <[String; 3]>::try_from(cells).ok()
    };
    page.split("<tr ").filter_map(row).collect()
}

/// A cost as speedscope writes it: a number with commas, or a time of two decimal places.
fn shown(cost: u64, paths: Paths) -> String {
    let ns = cost as f64;
    match paths {
        Paths::Sampled if cost >= 1_000_000_000 => format!("{:.2}s", ns / 1e9),
        Paths::Sampled if cost >= 1_000_000 => format!("{:.2}ms", ns / 1e6),
        Paths::Sampled if cost >= 1000 => format!("{:.2}µs", ns / 1e3),
        Paths::Sampled => format!("{ns:.2}ns"),
        Paths::Exact => {
            let digits = cost.to_string();
            let mut text = String::new();
            for (n, digit) in digits.chars().enumerate() {
                if n > 0 && (digits.len() - n).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
    }
}

/// The profiler's loader, as a process in the background that answers queries. It ends with this.
struct Loader {
    program: PathBuf,
    node: PathBuf,
    sessions: PathBuf,
}

impl Loader {
    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.node);
        command.arg(&self.program).args(words);
        command.env("PROFILER_CLI_SESSION_DIR", &self.sessions);
        // Symbols would come from a server.
        command.env("PROFILER_CLI_NO_SYMBOLICATE", "1");
        output(&mut command)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let _ = self.ask(&["stop", "--all"]);
    }
}

fn firefox(paths: Paths) -> Result<(), String> {
    let test = "firefox";
    let file = "@firefox-devtools/profiler-cli/dist/profiler-cli.js";
    let (Some(program), Some(node)) = (package(file, test), tool(&["node"], test)) else {
        return Ok(());
    };
    let Some(recorded) = recorded(paths, test)? else {
        return Ok(());
    };
    let file = recorded.export("firefox", &[])?;
    let loader = Loader {
        program,
        node,
        sessions: recorded.scratch.path("sessions"),
    };
    loader.ask(&["load", &text(&file)])?;
    let printed = loader.ask(&["thread", "functions", "--json", "--limit", "0"])?;
    let json: Value = serde_json::from_str(&printed).map_err(|e| e.to_string())?;
    let ours = reported(&recorded, paths)?;
    let unit = match paths {
        Paths::Exact => 1.0,
        Paths::Sampled => 1e6,
    };
    let needed = needed(paths);
    let mut sum = 0;
    let mut compared = BTreeSet::new();
    for function in json["functions"].as_array().ok_or("no functions")? {
        let number = |field: &str| function[field].as_f64().map(|n| (n * unit).round() as u64);
        let (own, inclusive) = (number("selfSamples"), number("totalSamples"));
        let found = Costs {
            own: own.ok_or_else(|| function.to_string())?,
            inclusive: inclusive.ok_or_else(|| function.to_string())?,
        };
        sum += found.own;
        let word = |field: &str| function[field].as_str().unwrap_or_default().to_owned();
        let key = (word("library"), word("name"));
        if key.0 == "app" && needed.contains(&&*key.1) {
            let wanted = ours.get(&key).copied().unwrap_or_default();
            println!("firefox {}: {found:?}, report {wanted:?}", key.1);
            if found != wanted {
                return Err(format!("{key:?}: {found:?}, not {wanted:?}"));
            }
            compared.insert(key.1);
        }
    }
    let total: u64 = ours.values().map(|costs| costs.own).sum();
    match sum == total && compared.len() == needed.len() {
        true => Ok(()),
        false => Err(format!(
            "{sum} of {total}, with {compared:?} of {needed:?}: {printed}"
        )),
    }
}
