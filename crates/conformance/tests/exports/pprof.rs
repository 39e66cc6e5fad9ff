//! The format of pprof without call paths: labels tell processes, threads and kinds apart, and its pages for a browser show them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;
use trommel_conformance::wait;

use super::{Test, run, text, tool};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "pprof: a position-independent program is disassembled",
        disassembled,
    ),
    ("pprof: labels tell processes and kinds apart", labels),
    ("pprof: its pages show functions, and take labels", pages),
];

/// The first process has two threads, its child one.
const SOURCE: &str = r"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#define ALONE __attribute__((noinline))
static volatile long sink;
ALONE static void both(long n) { for (long i = 0; i < n; i++) sink += i; }
ALONE static void only_child(long n) { for (long i = 0; i < n; i++) sink -= i; }
static void *thread(void *n) { both((long)n); return n; }
int main(void) {
  both(100);
  if (!fork()) { only_child(300); both(50); _exit(0); }
  wait(0);
  pthread_t other;
  pthread_create(&other, 0, thread, (void *)70L);
  pthread_join(other, 0);
}
";

fn recorded() -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("app.c"), scratch.path("app"));
    fs::write(&source, SOURCE).map_err(|e| e.to_string())?;
    let mut gcc = Command::new("gcc");
    output(
        gcc.args(["-O1", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(&source),
    )?;
    Recorded::of(scratch, program, &["-e", "edge,call"])
}

/// A sample as `-raw` prints it: its values, the number of its location, and its labels.
struct Sample {
    values: [u64; 3],
    location: u64,
    labels: BTreeMap<String, String>,
}

/// Samples, and the function of each location.
fn samples(raw: &str) -> Option<(Vec<Sample>, BTreeMap<u64, String>)> {
    let (_, raw) = raw.split_once("Samples:\n")?;
    let (samples, locations) = raw.split_once("Locations\n")?;
    let mut all: Vec<Sample> = Vec::new();
    for line in samples.lines().skip(1) {
        if let Some((values, location)) = line.split_once(':').filter(|(left, _)| {
            left.split_whitespace()
                .all(|word| word.parse::<u64>().is_ok())
        }) {
            let values: Vec<u64> = values
                .split_whitespace()
                .filter_map(|w| w.parse().ok())
                .collect();
            all.push(Sample {
                values: values.try_into().ok()?,
                location: location.trim().parse().ok()?,
                labels: BTreeMap::new(),
            });
        } else {
            let labels = line.trim().split_inclusive(']');
            for (key, text) in labels.filter_map(|label| label.trim().split_once(":[")) {
                let text = text.trim_end_matches(']').to_owned();
                all.last_mut()?.labels.insert(key.to_owned(), text);
            }
        }
    }
    let mut functions = BTreeMap::new();
    for line in locations.lines().take_while(|line| *line != "Mappings") {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [number, _, _, name, ..] = words[..]
            && let Ok(number) = number.trim_end_matches(':').parse()
        {
            functions.insert(number, name.to_owned());
        }
    }
    Some((all, functions))
}

fn labels() -> Result<(), String> {
    let Some(go) = tool(&["go"], "pprof") else {
        return Ok(());
    };
    let recorded = recorded()?;
    let own = ["--module", "app"];
    let file = text(&recorded.export("pprof", &own)?);
    let raw = run(
        &go,
        &["tool", "pprof", "-raw", &file],
        recorded.scratch.dir(),
    )?;
    let (samples, functions) = samples(&raw).ok_or_else(|| raw.clone())?;
    let csv = fs::read_to_string(recorded.export("csv", &own)?).map_err(|e| e.to_string())?;
    let of_csv = |kinds: &[&str], field: usize| -> u64 {
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let rows = rows.filter(|row| kinds.contains(&row[0]) && row[1].ends_with("/app"));
        rows.filter_map(|row| row[field].parse::<u64>().ok()).sum()
    };
    let is = |sample: &&Sample, kind: &str| sample.labels.get("kind").is_some_and(|k| k == kind);
    let of_kind = |kind: &str, value: usize| -> u64 {
        samples
            .iter()
            .filter(|s| is(s, kind))
            .map(|s| s.values[value])
            .sum()
    };
    let found = [of_kind("block", 0), of_kind("edge", 2), of_kind("call", 2)];
    let wanted = [
        of_csv(&["block"], 10),
        of_csv(&["taken", "fallthrough", "indirect"], 9),
        of_csv(&["call"], 9),
    ];
    if found != wanted {
        return Err(format!("{found:?} by kind, {wanted:?} in csv\n{raw}"));
    }
    // By function and process: branches. The loops test their condition once more than they turn.
    let mut branches: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut threads: BTreeMap<&str, &str> = BTreeMap::new();
    for sample in &samples {
        let process = sample.labels.get("process").map_or("", |name| name);
        if let Some(thread) = sample.labels.get("thread") {
            threads.insert(process, thread);
        }
        if is(&sample, "edge") {
            let function = functions.get(&sample.location).map_or("", |name| name);
            *branches.entry((function, process)).or_default() += sample.values[2];
        }
    }
    let named: Vec<&str> = branches
        .keys()
        .filter(|k| k.0 == "both")
        .map(|k| k.1)
        .collect();
    let [first, second] = named[..] else {
        return Err(format!("both: {named:?}\n{raw}"));
    };
    let (parent, child) = match branches.contains_key(&("only_child", first)) {
        true => (second, first),
        false => (first, second),
    };
    let of = |function, process| branches.get(&(function, process)).copied().unwrap_or(0);
    let counts = [
        of("both", parent),
        of("both", child),
        of("only_child", parent),
        of("only_child", child),
    ];
    let own_thread = child.rsplit(' ').next();
    let is_own = threads.get(child).copied() == own_thread && !threads.contains_key(parent);
    match counts == [172, 51, 0, 301] && parent.starts_with("app ") && is_own {
        true => Ok(()),
        false => Err(format!("{counts:?} {threads:?} {parent} {child}\n{raw}")),
    }
}

/// The server of the pages, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts it, and returns the address that it says.
    fn new(program: &Path, file: &Path) -> Result<(Self, String), String> {
        let mut command = Command::new(program);
        command.args(["-no_browser", "-http=127.0.0.1:"]).arg(file);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = Self(command.spawn().map_err(|e| e.to_string())?);
        let errors = server.0.stderr.take().ok_or("no standard error")?;
        let lines = BufReader::new(errors).lines().map_while(Result::ok);
        let mut addresses = lines.filter_map(|line| Some(line.split_once("http://")?.1.to_owned()));
        let address = addresses.next().ok_or("no address is said")?;
        // It says its address before it listens.
        wait::until("it listens", || TcpStream::connect(&address).is_ok())?;
        Ok((server, address))
    }
}

fn page(address: &str, path: &str) -> Result<String, String> {
    let fail = |e: std::io::Error| format!("{path}: {e}");
    let mut stream = TcpStream::connect(address).map_err(fail)?;
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).map_err(fail)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(fail)?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).map_err(fail)?;
    let page = String::from_utf8_lossy(&page).into_owned();
    match page
        .lines()
        .next()
        .is_some_and(|line| line.contains(" 200 "))
    {
        true => Ok(page),
        false => Err(format!("{path}: {page:.300}")),
    }
}

fn pages() -> Result<(), String> {
    let Some(go) = tool(&["go"], "pprof pages") else {
        return Ok(());
    };
    // The tool itself: the command `go` would be ended alone.
    let program = output(Command::new(&go).args(["tool", "-n", "pprof"]))?;
    let recorded = recorded()?;
    let file = recorded.export("pprof", &["--module", "app"])?;
    let (_server, address) = Server::new(&PathBuf::from(program.trim()), &file)?;
    for path in [
        "/ui/top",
        "/ui/flamegraph",
        "/ui/top?si=events&tf=kind:edge",
    ] {
        let page = page(&address, path)?;
        if !page.contains("only_child") {
            return Err(format!("{path}: no function only_child\n{page}"));
        }
    }
    // Its calls are in main.
    match page(&address, "/ui/top?si=events&tf=kind:call")? {
        page if !page.contains("only_child") && page.contains("main") => Ok(()),
        page => Err(format!("calls: {page}")),
    }
}

/// The instructions of a function have its sum, and no other module's.
fn disassembled() -> Result<(), String> {
    let Some(go) = tool(&["go"], "pprof") else {
        return Ok(());
    };
    for flag in ["-pie", "-no-pie"] {
        let recorded = Recorded::new("gcc", &["-O1", "-g", flag])?;
        let file = text(&recorded.export("pprof", &[])?);
        let dir = recorded.scratch.dir();
        let ask = |what: &str| run(&go, &["tool", "pprof", what, &file], dir);
        let cost = |printed: &str| {
            let mut lines = printed.lines();
            lines.find(|line| line.starts_with("ROUTINE ==") && line.contains("= mix"))?;
            let line = lines.find(|line| line.contains("(flat, cum)"))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let (code, lines) = (ask("-disasm=mix")?, ask("-list=mix")?);
        let (by_code, by_line) = (cost(&code).unwrap_or(0), cost(&lines).unwrap_or(1));
        // pprof leaves out an instruction that is a function's last byte: a return.
        if by_code > by_line || by_code * 100 < by_line * 98 {
            return Err(format!("{flag}: {code}\n{lines}"));
        }
    }
    Ok(())
}
