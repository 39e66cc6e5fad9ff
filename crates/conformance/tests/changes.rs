//! Queries that are changed while a program runs: one that stays counts exactly what the program itself has counted, and the program does what it
//! would have done.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};
use trommel_conformance::program::compile;

/// Query that stays.
const STAYS: &str = "tag 1 symbol \"staying\"; for opSTORE 1 always collect op1; count stop;";
/// Queries that come and go, and the queue of the last one's messages.
const OTHERS: [&str; 4] = [
    "for opBRANCH * every 4096 collect pc misc; send 1 or drop; stop;",
    "tag 2 symbol \"other\"; for opLOAD 2 every 8192 collect pc; send 2 stop; for opALU 2 always collect pc; count stop;",
    "tag 1 symbol \"staying\"; for opSTORE 1 always collect op1; if op1.i64 < 0 then send 3 stop else count stop;",
    "for opSTORE * every 4096 collect pc op2; send 4 stop; for opMULT * every auto 1% collect pc; send 5 stop;",
];

/// A session that observes a program.
struct Session {
    child: Child,
    out: BufReader<ChildStdout>,
    pid: String,
    scratch: Scratch,
    runtime: PathBuf,
}

impl Session {
    fn begin(threads: &str, stress: &str) -> Self {
        Self::begin_with(threads, stress, &[])
    }

    /// Begins one with further options.
    fn begin_with(threads: &str, stress: &str, options: &[&str]) -> Self {
        Self::of("changing", threads, stress, options)
    }

    /// Begins one of another program, with an argument.
    fn of(name: &str, argument: &str, stress: &str, options: &[&str]) -> Self {
        let program = built(name);
        let scratch = Scratch::new().expect("a directory");
        let runtime = scratch.path("runtime");
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&runtime)
            .expect("made");
        let query = scratch.path("stays.rpa");
        fs::write(&query, STAYS).expect("written");
        for (n, text) in OTHERS.iter().enumerate() {
            fs::write(scratch.path(&format!("q{n}.rpa")), text).expect("written");
        }
        let mut child = Command::new(trommel())
            .args(["record", "--quiet", "-o"])
            .arg(scratch.path("data"))
            .arg("-q")
            .arg(&query)
            .args(options)
            .arg("--")
            .arg(&program)
            .arg(argument)
            .env("XDG_RUNTIME_DIR", &runtime)
            .env("TROMMEL_STRESS", stress)
            .stdout(Stdio::piped())
            .spawn()
            .expect("trommel starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("it says that it is ready");
        assert_eq!(line, "ready\n");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = fs::read_to_string(children).expect("it runs");
        let comm = |pid: &&str| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        };
        let pid = children.split_whitespace().find(comm);
        let pid = pid.expect("a child").to_owned();
        Self {
            child,
            out,
            pid,
            scratch,
            runtime,
        }
    }

    /// Runs `trommel query`.
    fn query(&self, args: &[&str]) -> Result<String, String> {
        self.query_of(&self.pid, args)
    }

    fn query_of(&self, pid: &str, args: &[&str]) -> Result<String, String> {
        let said = Command::new(trommel())
            .arg("query")
            .args(args)
            .args(["-p", pid])
            .current_dir(self.scratch.dir())
            .env("XDG_RUNTIME_DIR", &self.runtime)
            .output()
            .expect("trommel starts");
        match said.status.success() {
            true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    /// Names in the list.
    fn names(&self) -> Vec<String> {
        let list = self.query(&["list", "--json"]).expect("a list");
        let list: Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list["schema"], "trommel.queries/1");
        let queries = list["queries"].as_array().expect("a list");
        let name = |q: &Value| q["name"].as_str().expect("a name").to_owned();
        queries.iter().map(name).collect()
    }

    /// Ends the program. Returns its own count, and the queries of the report.
    fn end(mut self) -> (u64, Vec<Value>) {
        let signal = Command::new("kill").args(["-USR1", &self.pid]).status();
        assert!(signal.expect("kill runs").success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("its output");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
        let count = rest.strip_suffix(" good\n").expect("it computed rightly");
        let report = Command::new(trommel())
            .args(["report", "--json", "--no-debug-info"])
            .arg(self.scratch.path("data"))
            .output()
            .expect("trommel starts");
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let queries = report["queries"].as_array().expect("queries").clone();
        (count.parse().expect("a number"), queries)
    }
}

impl Drop for Session {
    /// Nothing goes on after a test that has failed.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = Command::new("kill").args(["-9", &self.pid]).status();
            let _ = self.child.wait();
        }
    }
}

fn built(name: &str) -> PathBuf {
    let dir = cache_dir().join("queries");
    fs::create_dir_all(&dir).expect("made");
    let out = dir.join(name);
    let source = workspace().join(format!("tests/queries/{name}.c"));
    let flags = ["-O2", "-pthread"].map(str::to_owned);
    compile(&source, &flags, &out).expect("built");
    out
}

fn number(query: &Value, name: &str) -> u64 {
    query[name].as_u64().expect("a number")
}

/// Messages of a query in the report.
fn messages(query: &Value) -> u64 {
    let all = query["messages"].as_array().expect("messages");
    all.iter().map(|message| number(message, "count")).sum()
}

/// Changes queries so often, some of which overlap.
fn change(threads: &str, times: usize, stress: &str) {
    let session = Session::begin(threads, stress);
    for n in 0..times / 2 {
        let file = format!("q{}.rpa", n % OTHERS.len());
        let name = format!("n{n}");
        session
            .query(&["load", &file, "--name", &name])
            .expect("loaded");
        // The last ones stay for a while.
        if n >= 2 {
            session
                .query(&["remove", &format!("n{}", n - 2)])
                .expect("removed");
        }
    }
    let (count, queries) = session.end();
    let of = |load: &str| queries.iter().filter(|q| q["load"] == load).count();
    assert_eq!(of("stays"), 1);
    assert_eq!(number(&queries[0], "counted"), count, "{threads} threads");
    assert_eq!(number(&queries[0], "executed"), count);
    assert_eq!(queries[0]["active_until_ns"], Value::Null);
    for n in 0..times / 2 {
        assert_ne!(of(&format!("n{n}")), 0, "load {n} is in the report");
    }
    let mut seen = 0;
    let last = [times / 2 - 2, times / 2 - 1].map(|n| format!("n{n}"));
    for query in &queries[1..] {
        let from = number(query, "active_from_ns");
        let until = query["active_until_ns"].as_u64();
        assert!(until.is_none_or(|until| until >= from));
        if number(query, "executed") > 0 {
            assert!(from > 0, "when it came is known: {query}");
            let stays = last.iter().any(|name| query["load"] == **name);
            assert_eq!(until.is_none(), stays, "when it went is known: {query}");
        }
        // What was sent has arrived, and nothing else.
        assert_eq!(messages(query), number(query, "sent"), "{query}");
        assert!(number(query, "profiled") <= number(query, "executed"));
        seen += number(query, "profiled");
    }
    assert!(seen > 0, "no other query has seen anything");
}

#[test]
fn a_query_that_stays_misses_nothing_with_1_thread() {
    change("1", 50, "");
}

#[test]
fn a_query_that_stays_misses_nothing_with_2_threads() {
    change("2", 50, "");
}

#[test]
fn a_query_that_stays_misses_nothing_with_8_threads() {
    change("8", 20, "");
}

#[test]
fn changes_are_made_while_code_is_dropped_and_threads_are_slow() {
    change("2", 16, "evict=53,delay=20");
}

/// The host calls threads that do not come to make a change. Programs that have just been executed have no handler for that yet.
#[test]
fn changes_end_no_program_that_is_just_being_executed() {
    let session = Session::of("executing", "", "", &[]);
    let began = Instant::now();
    let mut changes = 0;
    while began.elapsed() < Duration::from_secs(2) {
        let name = format!("n{changes}");
        let load = ["load", "q0.rpa", "--name", &name];
        session.query(&load).expect("loaded");
        session.query(&["remove", &name]).expect("removed");
        changes += 1;
    }
    let (children, queries) = session.end();
    assert!(children > 0 && changes > 0, "{children} and {changes}");
    assert_eq!(queries[0]["active_until_ns"], Value::Null);
}

#[test]
fn queries_are_listed_and_removed_by_name_number_and_queue() {
    let session = Session::begin("2", "");
    assert_eq!(session.names(), ["stays:1"]);
    session.query(&["load", "q1.rpa"]).expect("loaded");
    session.query(&["load", "q3.rpa"]).expect("loaded");
    assert_eq!(session.names(), ["stays:1", "q1:1", "q1:2", "q3:1", "q3:2"]);
    let table = session.query(&["list"]).expect("a table");
    assert!(table.contains("for opALU 2 always collect pc"), "{table}");
    session.query(&["remove", "q1:1"]).expect("removed");
    session.query(&["remove", "5"]).expect("removed");
    assert_eq!(session.names(), ["stays:1", "q1:2", "q3:1"]);
    // Another of the same name may come when the first is gone.
    let twice = session
        .query(&["load", "q3.rpa"])
        .expect_err("there is one");
    assert!(twice.contains("loaded already"), "{twice}");
    session.query(&["remove", "q3"]).expect("removed");
    session.query(&["load", "q3.rpa"]).expect("loaded");
    for wrong in ["nobody", "9", "q1:7"] {
        let why = session
            .query(&["remove", wrong])
            .expect_err("there is none");
        assert!(why.contains("trommel query list"), "{why}");
    }
    let (count, queries) = session.end();
    assert_eq!(number(&queries[0], "counted"), count);
    let times = |load: &str| queries.iter().filter(|q| q["load"] == load).count();
    assert_eq!(times("q3"), 4, "two loads of two queries");
}

#[test]
fn there_are_only_so_many_loads_at_a_time() {
    let session = Session::begin("1", "");
    for n in 0..7 {
        session
            .query(&["load", "q0.rpa", "--name", &format!("n{n}")])
            .expect("loaded");
    }
    let full = session.query(&["load", "q0.rpa"]).expect_err("full");
    assert!(full.contains("remove one first"), "{full}");
    session.query(&["remove", "1"]).expect("removed");
    assert_eq!(session.names(), ["stays:1"]);
    session.query(&["load", "q0.rpa"]).expect("loaded");
    session.query(&["remove", "stays"]).expect("removed");
    let (_, queries) = session.end();
    assert!(number(&queries[0], "counted") > 0);
    assert!(queries[0]["active_until_ns"].is_u64());
}

/// Queries that are loaded later keep the common budget, which a query with a rate of its own has no part in.
#[test]
fn loads_have_a_common_budget() {
    let profiled = |options: &[&str]| {
        let session = Session::begin_with("1", "", options);
        for (n, class) in ["opALU", "opLOAD", "opBRANCH"].iter().enumerate() {
            let text = format!("for {class} * every auto 50% collect pc; count stop;");
            fs::write(session.scratch.path("auto.rpa"), text).expect("written");
            let name = format!("auto{n}");
            let load = ["load", "auto.rpa", "--name", &name];
            session.query(&load).expect("loaded");
        }
        std::thread::sleep(Duration::from_millis(300));
        let (count, queries) = session.end();
        assert_eq!(number(&queries[0], "counted"), count);
        let of = |name| -> u64 { queries[1..].iter().map(|q| number(q, name)).sum() };
        of("profiled") as f64 / of("executed") as f64
    };
    let (common, own) = (profiled(&["--query-budget", "0.2"]), profiled(&[]));
    assert!(common > 0.0 && common * 8.0 < own, "{common} and {own}");
}

#[test]
fn hostile_callers_get_errors_and_nobody_waits_for_them() {
    let session = Session::begin("1", "");
    let directory = session.runtime.join("trommel");
    let mode = fs::metadata(&directory)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let socket = directory.join(format!("{}.sock", session.child.id()));
    let call = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("set");
        // It may have hung up already.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let silent = UnixStream::connect(&socket).expect("it listens");
    let long = vec![b'a'; 1 << 20];
    let load = format!("trommel 1 load {} evil 8\n\0\0\0\0\0\0\0\0", session.pid);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\xff\xfe\0\n",
        b"trommel 9 list 1\n",
        &long,
        load.as_bytes(),
    ] {
        let answer = call(bytes);
        assert!(
            answer.is_empty() || answer.starts_with("error "),
            "{answer}"
        );
    }
    assert_eq!(call(b"trommel 1 list 1\n"), "other\n");
    let clock = Instant::now();
    assert_eq!(session.names(), ["stays:1"]);
    assert!(clock.elapsed() < Duration::from_secs(5));
    drop(silent);
    // A session that was killed leaves its socket: it is noticed, and goes.
    let stale = directory.join("4294967295.sock");
    drop(UnixListener::bind(&stale).expect("bound"));
    assert!(stale.exists());
    let why = session.query_of("1", &["list"]).expect_err("nobody's");
    assert!(
        why.contains("no session asks queries of process 1"),
        "{why}"
    );
    assert!(!stale.exists());
    let runtime = session.runtime.clone();
    let pid = session.pid.clone();
    let (count, queries) = session.end();
    assert_eq!(number(&queries[0], "counted"), count);
    assert!(!socket.exists(), "the session removes its socket");
    let ended = list_in(&runtime, &pid);
    assert!(ended.contains("no process has the number"), "{ended}");
}

/// Error of `list` where no session is, in a runtime directory of its own.
fn list_in(runtime: &Path, pid: &str) -> String {
    fs::create_dir_all(runtime).expect("made");
    let said = Command::new(trommel())
        .args(["query", "list", "-p", pid])
        .env("XDG_RUNTIME_DIR", runtime)
        .output()
        .expect("trommel starts");
    assert!(!said.status.success());
    String::from_utf8_lossy(&said.stderr).into_owned()
}
