//! A redis-server under load: its clients check every answer while it is attached to, and while the queries that are put to it change.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::Value;
use trommel_conformance::exec::{Scratch, trommel};

use crate::{Running, Way, number_of_cycles, record_by, signal, text, well};

/// The query that stays: each execution of it is a message.
const STAYS: &str = "for opBRANCH * every 512 collect pc misc; send 1 stop;";
/// Queries that come and go.
const OTHERS: [&str; 3] = [
    "for opBRANCH * every 1024 collect pc misc; send 2 stop;",
    "for opLOAD * every 4096 collect pc; send 3 stop; for opALU * every 64 collect pc; count stop;",
    "for opSTORE * every 1024 collect pc op2; if op2 > 4096 then send 4 stop else count stop;",
];

/// The server.
fn start(socket: &Path) -> Result<Running, String> {
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--io-threads", "2"]);
    command.arg("--unixsocket").arg(socket);
    let server = Running(command.stdout(Stdio::null()).spawn().map_err(text)?);
    std::thread::sleep(Duration::from_millis(500));
    Ok(server)
}

/// Does something while four clients are connected. Returns its result, and the number of requests that were answered.
fn under_load<T>(
    socket: &Path,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, u64), String> {
    let stop = AtomicBool::new(false);
    let (done, requests) = std::thread::scope(|scope| {
        let run = |n| {
            scope.spawn({
                let stop = &stop;
                move || client(socket, n, stop)
            })
        };
        let clients: Vec<_> = (0..4).map(run).collect();
        std::thread::sleep(Duration::from_millis(200));
        let done = work();
        stop.store(true, Relaxed);
        let answered = clients.into_iter().map(|client| {
            let answered = client.join();
            answered.unwrap_or_else(|_| Err("a client failed".to_owned()))
        });
        (done, answered.sum::<Result<u64, String>>())
    });
    Ok((done?, requests?))
}

/// A client that checks every answer, until it is told to stop. How many requests it made.
fn client(socket: &Path, number: usize, stop: &AtomicBool) -> Result<u64, String> {
    let mut to = UnixStream::connect(socket).map_err(text)?;
    let mut from = BufReader::new(to.try_clone().map_err(text)?);
    let mut requests = 0;
    while !stop.load(Relaxed) {
        requests += 1;
        let key = format!("k{number}:{}", requests % 100);
        write!(
            to,
            "INCR c{number}\r\nSET {key} v{requests}\r\nGET {key}\r\n"
        )
        .map_err(text)?;
        let value = format!("v{requests}");
        let expected = format!(":{requests}\r\n+OK\r\n${}\r\n{value}\r\n", value.len());
        let mut answer = String::new();
        for _ in 0..4 {
            from.read_line(&mut answer).map_err(text)?;
        }
        if answer != expected {
            return Err(format!(
                "request {requests}: {answer:?} instead of {expected:?}"
            ));
        }
    }
    Ok(requests)
}

/// It is attached to and detached, again and again.
pub(super) fn attached_to(way: &Way) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let socket = scratch.path("socket");
    let mut server = start(&socket)?;
    let mut sizes = Vec::new();
    let (mappings, requests) = under_load(&socket, || {
        let before = (server.traces()?, server.mappings()?);
        for cycle in 1..=number_of_cycles().div_ceil(way.part) {
            let pid = server.pid();
            let shortly = ["-p", &pid, "--duration", way.duration];
            let all = [way.options, &shortly].concat();
            let output = record_by(&scratch, way, &all)?;
            well(&output).map_err(|e| format!("cycle {cycle}: {e}"))?;
            if server.file("maps")?.contains("trommel") || !server.file("timers")?.is_empty() {
                return Err(format!("cycle {cycle}: something is left"));
            }
            let size = server.resident();
            sizes.push(size.map_err(|e| format!("cycle {cycle}: {e}: {}", server.about()))?);
        }
        // While the clients are connected, as they were before.
        let after = (server.traces()?, server.mappings()?);
        match before.0 == after.0 && after.1 <= before.1 + 2 {
            true => Ok(after.1),
            false => Err(format!("left behind: {before:?} became {after:?}")),
        }
    })?;
    if !server.is_there() {
        return Err("the server has ended".to_owned());
    }
    println!(
        "redis-server: {} cycles, {requests} requests answered, {mappings} mappings, {} KiB at first, {} at last",
        sizes.len(),
        sizes.first().unwrap_or(&0),
        sizes.last().unwrap_or(&0),
    );
    match sizes[..] {
        [_, first, .., last] if last > first + 2048 => Err(format!("it grew: {sizes:?} KiB")),
        _ => Ok(()),
    }
}

/// A session that puts queries to the server.
struct Session<'a> {
    scratch: &'a Scratch,
    pid: String,
    child: Child,
}

impl<'a> Session<'a> {
    fn begin(scratch: &'a Scratch, pid: String) -> Result<Self, String> {
        let runtime = scratch.path("runtime");
        let made = fs::DirBuilder::new().mode(0o700).create(&runtime);
        made.map_err(text)?;
        fs::write(scratch.path("stays.rpa"), STAYS).map_err(text)?;
        for (n, query) in OTHERS.iter().enumerate() {
            fs::write(scratch.path(&format!("q{n}.rpa")), query).map_err(text)?;
        }
        let mut command = Command::new(trommel());
        command.args(["record", "--quiet", "-q", "stays.rpa", "-o", "data"]);
        command.args(["--messages", "messages.jsonl", "-p", &pid]);
        command
            .current_dir(scratch.dir())
            .env("XDG_RUNTIME_DIR", &runtime);
        let child = command.spawn().map_err(text)?;
        let session = Self {
            scratch,
            pid,
            child,
        };
        for _ in 0..200 {
            if session.query(&["list"]).is_ok() {
                return Ok(session);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("the session does not begin".to_owned())
    }

    fn query(&self, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(trommel());
        command.arg("query").args(args).args(["-p", &self.pid]);
        let said = command
            .current_dir(self.scratch.dir())
            .env("XDG_RUNTIME_DIR", self.scratch.path("runtime"))
            .output()
            .map_err(text)?;
        let why = || format!("{args:?}: {}", String::from_utf8_lossy(&said.stderr));
        said.status.success().then_some(()).ok_or_else(why)
    }

    /// Ends it. Returns the queries of its report.
    fn end(&mut self) -> Result<Vec<Value>, String> {
        signal(&self.child.id().to_string(), "INT")?;
        let status = self.child.wait().map_err(text)?;
        let report = Command::new(trommel())
            .args(["report", "--json", "--no-debug-info", "data"])
            .current_dir(self.scratch.dir())
            .output()
            .map_err(text)?;
        let report: Value = serde_json::from_slice(&report.stdout)
            .map_err(|e| format!("{status}, and no report: {e}"))?;
        let queries = report["queries"].as_array();
        queries.cloned().ok_or_else(|| "no queries".to_owned())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Queries come and go, two changes for each cycle. No request and no message is lost.
pub(super) fn queries_changed() -> Result<(), String> {
    let number = number_of_cycles() as usize;
    let scratch = Scratch::new().map_err(text)?;
    let socket = scratch.path("socket");
    let server = start(&socket)?;
    let (queries, requests) = under_load(&socket, || {
        let mut session = Session::begin(&scratch, server.pid())?;
        for n in 0..number {
            let file = format!("q{}.rpa", n % OTHERS.len());
            session.query(&["load", &file, "--name", &format!("n{n}")])?;
            // Two are in force at a time.
            if n > 0 {
                session.query(&["remove", &format!("n{}", n - 1)])?;
            }
        }
        session.query(&["remove", &format!("n{}", number - 1)])?;
        session.end()
    })?;
    let written = fs::read_to_string(scratch.path("messages.jsonl")).map_err(text)?;
    let written = written.lines().count() as u64;
    let of = |query: &Value, name: &str| query[name].as_u64().unwrap_or(u64::MAX);
    let mut sent = 0;
    for query in &queries {
        let messages = query["messages"].as_array().into_iter().flatten();
        let kept: u64 = messages.map(|message| of(message, "count")).sum();
        if kept != of(query, "sent") || of(query, "dropped") != 0 {
            return Err(format!("of what was sent, {kept} are there: {query}"));
        }
        sent += kept;
    }
    println!(
        "redis-server: {} changes, {requests} requests answered, {sent} messages",
        2 * number
    );
    let loads = queries.iter().filter(|q| q["load"] != "stays").count();
    match sent == written && of(&queries[0], "sent") > 0 && loads >= number {
        true => Ok(()),
        false => Err(format!("{written} messages of {sent}, {loads} loads")),
    }
}
