//! Queries in windows (`record -q` with `--budget`, `--rate` or `--window`): estimates hold the exact counts within their limits, what a
//! window counts and sends agrees, the program notices nothing, and what cannot be asked is refused in words.
//!
//! All counts of windows may be off by one factor, as code is taken to execute one instruction in a cycle. The factor is that of
//! all executions together, and each estimate is compared after it.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Job, Scratch, natively, need_windows, output, reported, trommel};
use trommel_conformance::program::{self, Variant, all};
use trommel_conformance::wait;

/// Queries on most instructions, which count and send, sampled and not, with tags and without.
const ASKED: &str = "
tag 1 symbol \"often\", symbol \"seldom\";
for opBRANCH * always collect pc misc; if misc bset 1 then count stop; count stop;
for opSTORE * every 4 collect op1; if op1.u8 < 64 then count stop else count stop;
for opLOAD * always collect pc res1; if res1.u8 < 32 then count stop else send 1 stop;
for opJMP 0 always collect pc; count stop;
for opJMP 1 every 3 collect pc; send 2 stop;
for opALU * opMULT * opFLOAT * always collect pc; count stop;
";
/// Each execution is counted and sent.
const BOTH: &str = "
for opSTORE * opLOAD * opBRANCH * always collect pc op1 op2; count; send 1..3; stop;
for opALU * every 2 collect pc op1; count; send 4 stop;
";

fn main() {
    let args = Arguments::from_args();
    need_windows();
    let mut trials = Vec::new();
    for threads in [1, 3] {
        let name = format!("limits hold, {threads} threads");
        let trial = Trial::test(name, move || Ok(limits(threads)?));
        trials.push(trial.with_ignored_flag(threads == 1));
    }
    for window in [8, 300] {
        let name = format!("what is counted is sent or dropped, windows of {window}");
        trials.push(Trial::test(name, move || Ok(agree(window)?)));
    }
    trials.push(Trial::test("a window sends so much and no more", || {
        Ok(most()?)
    }));
    trials.push(Trial::test("forked processes are asked", || Ok(forks()?)));
    trials.push(Trial::test("what is paid is kept and reported", || {
        Ok(paid()?)
    }));
    trials.push(Trial::test(
        "an instruction that no window sees is not said to be none",
        || Ok(unseen()?),
    ));
    trials.push(Trial::test("what windows cannot answer is refused", || {
        Ok(refused()?)
    }));
    trials.push(Trial::test("a query that stays misses no window", || {
        Ok(changed()?)
    }));
    for (stress, nightly) in [
        ("evict=100", false),
        ("delay=20", false),
        ("insns=3", true),
        ("pages=16", true),
        ("far", true),
    ] {
        let name = format!("the program notices nothing, with {stress}");
        let trial = Trial::test(name, move || Ok(with(stress)?));
        trials.push(trial.with_ignored_flag(nightly));
    }
    trials.push(Trial::test("code is dropped at each exit", || {
        Ok(dropped()?)
    }));
    for variant in all() {
        // The rest is for the nightly tier. The signal of windows shows where ignored signals are printed ([`windows`](./windows.rs)).
        let often = ["signal_", "threads_", "longjmp", "exceptions_s"];
        let nightly = ["process", "code_", "flags_", "stack_"];
        let name = variant.name.clone();
        let is_of = |names: &[&str]| names.iter().any(|of| name.starts_with(of));
        if !variant.first
            || ["signal_x87_record", "signal_own_status"]
                .iter()
                .any(|of| name.starts_with(of))
            || !is_of(&[&often[..], &nightly].concat())
        {
            continue;
        }
        for run in variant.runs.clone() {
            if name.starts_with("processes_forms") && run.iter().any(|word| word == "execs") {
                continue;
            }
            let words = [&[name.clone()][..], &run].concat();
            let variant = variant.clone();
            let trial = Trial::test(format!("same {}", words.join(" ")), move || {
                Ok(same(&variant, &run)?)
            });
            trials.push(trial.with_ignored_flag(!is_of(&often)));
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

fn bin() -> &'static Path {
    trommel()
}

fn built() -> Result<PathBuf, String> {
    program::built(
        "tests/windows/queried.c",
        "queried",
        &["-O2", "-g", "-pthread"],
    )
}

fn real(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Records a program with a query, which must say what it says natively, and gives the report.
fn record(
    query: &str,
    options: &[&str],
    stress: &str,
    program: &Path,
    args: &[&str],
) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (data, file) = (scratch.path("data"), scratch.path("asked.rpa"));
    fs::write(&file, query).map_err(|e| e.to_string())?;
    let native = natively(&[&[&*program.to_string_lossy()], args].concat())?;
    let mut command = Command::new(bin());
    command.arg("record").args(options).arg("-q").arg(&file);
    command.arg("-o").arg(&data).env("TROMMEL_STRESS", stress);
    let seen = output(command.arg("--").arg(program).args(args))?;
    if native != seen {
        return Err(format!("{seen:?} in place of {native:?}"));
    }
    reported(&data)
}

/// Records until there were enough windows: how many there are in a second is the machine's affair.
fn record_windows(
    query: &str,
    options: &[&str],
    program: &Path,
    (turns, rest): (u64, &str),
    windows: f64,
) -> Result<Value, String> {
    const MOST: u64 = 64;
    let mut times = 1;
    loop {
        let turns = (turns * times).to_string();
        let report = record(query, options, "", program, &[&turns, rest])?;
        let counted = real(&report["windows"], "counted");
        if counted >= windows {
            return Ok(report);
        }
        if times == MOST {
            return Err(format!("{counted} of {windows} windows in {turns} turns"));
        }
        times *= 4;
    }
}

/// A number of executions, and its limits.
type Estimate = (f64, f64, f64);

/// Numbers of a report: executions by query, those that each instruction has counted, and those that messages stand for by their place. Of exact
/// reports the limits are the number.
fn numbers(report: &Value) -> BTreeMap<String, Estimate> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, of: &Value, exact: f64, member: &str| {
        let known = of[member].as_f64().is_some();
        let limit = |name| of[name].as_f64().filter(|_| known).unwrap_or(exact);
        let number = of[member].as_f64().unwrap_or(exact);
        if number > 0.0 {
            all.insert(name, (number, limit("low"), limit("high")));
        }
    };
    for (n, query) in list(report, "queries").iter().enumerate() {
        let windows = &query["windows"];
        match windows.is_object() {
            true => put(format!("query {n}"), windows, f64::NAN, "executed"),
            false => put(format!("query {n}"), windows, real(query, "executed"), ""),
        }
        for counted in list(query, "instructions") {
            let name = format!("query {n}, {}", counted["instruction"]);
            put(name, counted, 0.0, "counted_for");
        }
        for message in list(query, "messages") {
            let at = &message["pc"];
            let name = format!("query {n}, sent {} {}", at["vaddr"], at["function"]);
            // Of different values at one place the sum is not known with limits.
            if message["res1"].is_null() {
                put(name, message, 0.0, "stands_for");
            }
        }
    }
    all
}

/// Exact numbers of the same queries, none of them sampled.
fn exact(program: &Path, threads: &str) -> Result<BTreeMap<String, Estimate>, String> {
    let all = ASKED
        .replace("every 4", "always")
        .replace("every 3", "always");
    let report = record(&all, &[], "", program, &["1500000", threads])?;
    Ok(numbers(&report))
}

/// All executions that queries select.
fn executed(numbers: &BTreeMap<String, Estimate>) -> f64 {
    let all = numbers.iter().filter(|(name, _)| !name.contains(','));
    all.map(|(_, (number, ..))| number).sum()
}

fn limits(threads: u32) -> Result<(), String> {
    let program = built()?;
    let turns = 100_000_000 / u64::from(threads);
    let threads = threads.to_string();
    let exact = exact(&program, &threads)?;
    let (mut held, mut all) = (0, 0);
    let mut missed = String::new();
    for way in [
        &["--budget", "10"][..],
        &["--rate", "200"],
        &["--rate", "4000"],
        &["--rate", "4000", "--window", "16"],
    ] {
        let report = record_windows(ASKED, way, &program, (turns, &threads), 30.0)?;
        let seen = numbers(&report);
        let factor = executed(&exact) / executed(&seen);
        // Of what is executed once or twice no window tells.
        let least = executed(&exact) / 1e4;
        for (name, (truth, ..)) in exact.iter().filter(|(_, (n, ..))| *n > least) {
            let Some((number, low, high)) = seen.get(name) else {
                return Err(format!("{name}: not seen, {truth} in {}", executed(&exact)));
            };
            all += 1;
            match (low * factor..=high * factor).contains(truth) {
                true => held += 1,
                false => {
                    let [number, low, high] = [number, low, high].map(|n| n * factor);
                    missed +=
                        &format!("\n{way:?}, {name}: {truth}, estimated {number} ({low}–{high})");
                }
            }
        }
    }
    // 95 of 100, but for chance, as those of one run stand or fall together.
    match all >= 48 && 100 * held >= 90 * all {
        true => Ok(()),
        false => Err(format!("{held} of {all} limits hold:{missed}")),
    }
}

fn sum(query: &Value, name: &str) -> f64 {
    list(query, "messages").iter().map(|m| real(m, name)).sum()
}

/// Messages and counts are the same number, message by message, in the profile and in the file of
/// messages. Instructions that are passed before a window are in neither.
fn agree(window: u32) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let written = scratch.path("messages");
    let window = window.to_string();
    let options = [
        "--rate",
        "2000",
        "--window",
        &window,
        "--messages",
        &written.to_string_lossy(),
    ];
    let report = record_windows(BOTH, &options, &built()?, (10_000_000, "3"), 40.0)?;
    let mut sent_in_all = 0.0;
    for (n, query) in list(&report, "queries").iter().enumerate() {
        let (sent, dropped) = (real(query, "sent"), real(query, "dropped"));
        let (counted, profiled) = (real(query, "counted"), real(query, "profiled"));
        let told = sum(query, "count");
        sent_in_all += sent;
        let executed = real(query, "executed") / [1.0, 2.0][n.min(1)];
        // One in two, to within five deviations of a binomial distribution.
        let off = if n == 0 { 0.0 } else { 5.0 * executed.sqrt() };
        let least = 40.0 * window.parse::<f64>().unwrap_or(0.0) / 50.0;
        if counted != sent + dropped
            || counted != profiled
            || told != sent
            || (profiled - executed).abs() > off
            || counted < least
        {
            return Err(format!(
                "{executed} executed, {profiled} profiled, {counted} counted, {sent} sent, {dropped} dropped, {told} told"
            ));
        }
        let name = &query["header"];
        if real(&query["windows"], "executed") < real(query, "executed") {
            return Err(format!(
                "{name}: stands for fewer than were seen: {}",
                query["windows"]
            ));
        }
    }
    let lines = fs::read_to_string(&written).map_err(|e| e.to_string())?;
    let lines: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|e| e.to_string())?;
    let stands = lines.iter().filter(|line| real(line, "stands_for") >= 1.0);
    match stands.count() as f64 == sent_in_all {
        true => Ok(()),
        false => Err(format!(
            "{} messages written, {sent_in_all} sent",
            lines.len()
        )),
    }
}

/// In a window no thread waits for the host: what it sends beyond a limit is dropped and counted.
fn most() -> Result<(), String> {
    let query = "for opALU * opLOAD * opSTORE * always collect pc; send 1; send 2; send 3; stop;";
    let options = ["--rate", "100", "--window", "60000"];
    let report = record_windows(query, &options, &built()?, (60_000_000, "1"), 3.0)?;
    let query = &report["queries"][0];
    let (sent, dropped) = (real(query, "sent"), real(query, "dropped"));
    let whole = sent + dropped == 3.0 * real(query, "profiled") && sum(query, "count") == sent;
    match whole && sent > 0.0 && dropped > 0.0 {
        true => Ok(()),
        false => Err(format!("{}, {query}", report["windows"])),
    }
}

fn forks() -> Result<(), String> {
    let program = program::built("tests/budget/forks.c", "forks", &["-O2", "-g", "-pthread"])?;
    let query = "tag 1 symbol parent; tag 2 symbol child;\n\
        for opBRANCH 1 always collect pc; count stop; for opBRANCH 2 every 5 collect pc; send 1 stop;";
    let asked = ["--budget", "10"];
    let report = record_windows(query, &asked, &program, (40_000_000, ""), 100.0)?;
    let processes = list(&report, "processes").len();
    let of = |n: usize| real(&report["queries"][n]["windows"], "executed");
    // Eight times the work, but for what is done before they are found.
    match processes == 3 && (4.0..16.0).contains(&(of(1) / of(0))) {
        true => Ok(()),
        false => Err(format!("{processes} processes, {}", report["queries"])),
    }
}

fn paid() -> Result<(), String> {
    const BEGINNING_NS: f64 = 6e6;
    let program = built()?;
    for budget in [5.0, 10.0] {
        let text = budget.to_string();
        let asked = ["--budget", &text];
        // Long enough for what the command takes to begin.
        let report = record(BOTH, &asked, "", &program, &["300000000", "1"])?;
        let windows = &report["windows"];
        let paid = real(windows, "paid_percent");
        let beginning = 100.0 * BEGINNING_NS / real(windows, "cpu_ns");
        if paid > budget + 1.0 + beginning || paid < budget / 4.0 {
            return Err(format!("{budget}: {windows}"));
        }
    }
    Ok(())
}

/// No window sees a system call: what is not known is null, and the text says so.
fn unseen() -> Result<(), String> {
    let query = "for opSYS * always collect pc op1; count; send 1 stop;";
    let asked = || record(query, &["--rate", "1000"], "", &built()?, &["3000000", "1"]);
    let mut report = asked()?;
    // The loader executes `cpuid`, which is of this class too: a window may be there.
    for _ in 0..8 {
        if report["queries"][0]["counted"] == 0 {
            break;
        }
        report = asked()?;
    }
    let query = &report["queries"][0];
    let windows = &query["windows"];
    let null = |value: &Value, name: &str| value.get(name).is_some_and(Value::is_null);
    let members = ["executed", "low", "high"];
    let counted = &query["instructions"][0];
    let members = members.iter().all(|name| null(windows, name));
    match members && null(counted, "counted_for") && null(counted, "high") {
        true => Ok(()),
        false => Err(format!("{query}")),
    }
}

fn refused() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let file = scratch.path("asked.rpa");
    let plain = "for opLOAD * always collect pc res2; send 1 stop;";
    let file_name = file.to_string_lossy();
    for (query, more, why) in [
        (
            "for opLOAD * every auto collect pc; send 1 stop;",
            &[][..],
            "`every auto` keeps a budget of its own",
        ),
        (
            "for opLOAD * every 1k pair 16 collect pc; send 1 stop;",
            &[],
            "a window's end would cut pairs",
        ),
        (
            "for opLOAD * always collect pc; interrupt stop;",
            &[],
            "no thread waits in a window",
        ),
        (
            "for opLOAD * always collect pc; interrupt sync stop;",
            &[],
            "no thread waits in a window",
        ),
        (plain, &["-c", "M4[1k,1%]512"], "cannot be used with"),
        (plain, &["--service", "1=./none.so"], "--service"),
        (plain, &["-e", "value"], "edge and call only"),
    ] {
        fs::write(&file, query).map_err(|e| e.to_string())?;
        for way in [["--budget", "3"], ["--rate", "100"], ["--window", "64"]] {
            let mut command = Command::new(bin());
            command
                .args(["record", "-q", &file_name])
                .args(way)
                .args(more);
            let done = command.args(["--", "true"]).output();
            let done = done.map_err(|e| e.to_string())?;
            let said = String::from_utf8_lossy(&done.stderr);
            if done.status.success() || !said.contains(why) {
                return Err(format!("{query} {more:?}: {}, {said}", done.status));
            }
        }
    }
    Ok(())
}

/// Query on all instructions.
const ALL: &str = "for opJMP * opBRANCH * opLOAD * opSTORE * opALU * opMULT * opFLOAT * opSYS * always collect pc; count stop;";
/// Queries that come and go. Each counts what it sends, where it sends anything.
const OTHERS: [&str; 3] = [
    "for opBRANCH * opJMP * always collect pc misc; count; send 1 stop;",
    "tag 2 symbol \"keep\"; for opSTORE 2 always collect op1; count; send 2 stop; for opALU * always collect pc; count stop;",
    "for opLOAD * every 3 collect pc res2; count; send 3 stop;",
];

/// A session with windows that is attached to a program, which both end with it.
struct Attached {
    program: Child,
    session: Child,
    scratch: Scratch,
}

impl Attached {
    fn begin() -> Result<Self, String> {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let (asked, data) = (scratch.path("stays.rpa"), scratch.path("data"));
        fs::write(&asked, ALL).map_err(|e| e.to_string())?;
        let mut program = Command::new(built()?);
        let program = program.args(["1000000000000", "2"]).stdout(Stdio::null());
        let program = program.spawn().map_err(|e| e.to_string())?;
        let mut session = Command::new(bin());
        session
            .args([
                "record", "--quiet", "--rate", "1000", "--window", "64", "-q",
            ])
            .arg(&asked)
            .arg("-o")
            .arg(&data)
            .args(["-p", &program.id().to_string()])
            .env("XDG_RUNTIME_DIR", scratch.dir());
        let session = session.spawn().map_err(|e| e.to_string());
        let began = Self {
            program,
            session: session?,
            scratch,
        };
        wait::until("the session listens", || began.query(&["list"]).is_ok())?;
        Ok(began)
    }

    fn query(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(bin());
        command.arg("query").args(args);
        command.args(["-p", &self.program.id().to_string()]);
        command.env("XDG_RUNTIME_DIR", self.scratch.dir());
        let said = command.output().map_err(|e| e.to_string())?;
        match said.status.success() {
            true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    fn load(&self, text: &str, name: &str) -> Result<String, String> {
        let file = self.scratch.path("other.rpa");
        fs::write(&file, text).map_err(|e| e.to_string())?;
        self.query(&["load", &file.to_string_lossy(), "--name", name])
    }

    /// Detaches the program. Returns the report.
    fn end(mut self) -> Result<Value, String> {
        let pid = self.session.id().to_string();
        output(Command::new("kill").args(["-INT", &pid]))?;
        let status = self.session.wait().map_err(|e| e.to_string())?;
        match status.success() {
            true => reported(&self.scratch.path("data")),
            false => Err(status.to_string()),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for child in [&mut self.session, &mut self.program] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Queries come and go while windows go on. One that stays counts each instruction of each window once. What the others count is what they
/// send, so nothing is lost or given to another.
fn changed() -> Result<(), String> {
    const TIMES: usize = 16;
    let session = Attached::begin()?;
    let why = session.load(
        "for opLOAD * every 1k pair 16 collect pc; send 1 stop;",
        "pairs",
    );
    if !why
        .as_ref()
        .is_err_and(|why| why.contains("would cut pairs"))
    {
        return Err(format!("{why:?}"));
    }
    for n in 0..TIMES {
        session.load(OTHERS[n % OTHERS.len()], &format!("n{n}"))?;
        if n >= 2 {
            session.query(&["remove", &format!("n{}", n - 2)])?;
        }
    }
    // Of a load that stays there are counts before it ends.
    let last = format!("n{}:1", TIMES - 1);
    wait::until("the last one is active", || {
        let list = session.query(&["list", "--json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&list).unwrap_or_default();
        let mut queries = list["queries"].as_array().into_iter().flatten();
        queries.any(|query| query["name"] == last.as_str() && real(query, "profiled") > 0.0)
    })?;
    let report = session.end()?;
    let (windows, queries) = (&report["windows"], list(&report, "queries"));
    let stays = &queries[0];
    let all = real(windows, "instructions");
    if real(stays, "executed") != all || real(stays, "counted") != all || all == 0.0 {
        return Err(format!("{stays}, of {windows}"));
    }
    for n in 0..TIMES {
        let of = |query: &&Value| query["load"] == format!("n{n}").as_str();
        let (mut seen, mut there) = (0.0, 0);
        for query in queries.iter().filter(of) {
            let (sent, dropped) = (real(query, "sent"), real(query, "dropped"));
            let counted = real(query, "counted");
            let sends = !list(query, "messages").is_empty();
            if sends && (counted != sent + dropped || sum(query, "count") != sent)
                || counted != real(query, "profiled")
            {
                return Err(format!("{query}"));
            }
            (seen, there) = (seen + counted, there + 1);
        }
        if there == 0 || seen == 0.0 && n + 2 < TIMES {
            return Err(format!("load {n} has seen {seen}: {queries:?}"));
        }
    }
    Ok(())
}

fn with(stress: &str) -> Result<(), String> {
    let options = ["--rate", "4000", "--window", "300"];
    let report = record(BOTH, &options, stress, &built()?, &["8000000", "3"])?;
    match real(&report["windows"], "whole") >= 20.0 {
        true => Ok(()),
        false => Err(format!("{}", report["windows"])),
    }
}

/// In the window that a program begins in, the exit that has led out is of code that is gone.
fn dropped() -> Result<(), String> {
    let options = ["--rate", "4000", "--window", "300"];
    record(BOTH, &options, "evict=1", &built()?, &["1", "3"]).map(drop)
}

/// A program behaves as natively.
fn same(variant: &Variant, run: &[String]) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_secs(60);
    if !variant.missing().is_empty() {
        return Ok(());
    }
    let program = variant.build()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let file = scratch.path("asked.rpa");
    fs::write(&file, BOTH).map_err(|e| e.to_string())?;
    let mut job = Job::new([program], scratch.dir());
    job.argv.extend(run.iter().map(Into::into));
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    let file = file.to_string_lossy();
    let options = ["-q", &file, "--rate", "4000", "--window", "300"];
    let seen = job.record_with(bin(), &options, &scratch.path("data"), LIMIT);
    native
        .compare(&seen.map_err(|e| e.to_string())?)
        .map_err(|differs| differs.to_string())
}
