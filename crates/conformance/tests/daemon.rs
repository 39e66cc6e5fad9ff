//! `trommel daemon`: processes come and go, whoever is killed, and the database has what they did.
//!
//! `TROMMEL_KILLS` sets how often the daemon is killed at random moments: at most the epoch that was not flushed is
//! missing then, nothing when its sessions are left to end.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Scratch, copy, need_windows, output, trommel};
use trommel_conformance::traced::Traced;
use trommel_conformance::{program, wait};

/// Kills, where no number is asked for.
const KILLS: usize = 6;
/// The length of epochs here.
const EPOCH: Duration = Duration::from_secs(1);
/// Within this a session comes to write an epoch that has ended, on a busy machine.
const LATE: Duration = Duration::from_millis(700);
/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(30);

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    need_windows();
    let trials = vec![
        Trial::test("processes of a name come and go", || Ok(come_and_go()?)),
        Trial::test("processes by number end it with them", || Ok(by_number()?)),
        Trial::test("what waits is told once and taken later", || Ok(traced()?)),
        Trial::test("a session that is killed is followed by another", || {
            Ok(session_killed()?)
        }),
        Trial::test("processes are asked queries, which commands change", || {
            Ok(asked()?)
        }),
        Trial::test(
            "queries of a daemon are changed in all its processes",
            || Ok(all_asked()?),
        ),
        Trial::test("wrong arguments", || Ok(refused()?)),
        Trial::test("kill -9 of the daemon at random moments", || Ok(killed()?)),
    ];
    libtest_mimic::run(&args, trials).exit();
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

fn bin() -> &'static Path {
    trommel()
}

/// A program of `tests/budget`, under a name of a test's own.
fn named(scratch: &Scratch, name: &str) -> Result<PathBuf, String> {
    let program = program::built(
        "tests/budget/values.c",
        "values",
        &["-O2", "-g", "-pthread"],
    )?;
    let path = scratch.path(name);
    copy(&program, &path)?;
    Ok(path)
}

/// A process that is ended when this is dropped.
struct Running(Child);

impl Running {
    /// Does so many turns.
    fn start(program: &Path, turns: &str) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg(turns).stdout(Stdio::piped());
        command.spawn().map(Self).map_err(text)
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns its output.
    fn output(mut self) -> Result<String, String> {
        let mut out = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut out).map_err(text)?;
        }
        match self.0.wait().map_err(text)?.success() {
            true => Ok(out),
            false => Err("it did not end well".to_owned()),
        }
    }

    /// Returns what there is of ours in it.
    fn traces(&self) -> Vec<String> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap_or_default();
        let ours = |line: &&str| line.contains("rwxp") || line.contains("memfd:");
        maps.lines().filter(ours).map(str::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon, in a process group of its own.
struct Daemon {
    child: Child,
    said: PathBuf,
}

impl Daemon {
    fn start(scratch: &Scratch, options: &[&str]) -> Result<Self, String> {
        let said = scratch.path("said");
        let file = fs::File::create(&said).map_err(text)?;
        let mut command = Command::new(bin());
        command
            .args(["daemon", "--epoch", "1s", "--budget", "5", "--db"])
            .arg(scratch.path("db"))
            .args(options)
            .env("XDG_RUNTIME_DIR", scratch.dir())
            .stdin(Stdio::null())
            .stderr(file)
            .process_group(0);
        let child = command.spawn().map_err(text)?;
        Ok(Self { child, said })
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Its children: sessions, or what keeps the database within its size.
    fn sessions(&self) -> Vec<u32> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect()
    }

    fn signal(&self, signal: &str) {
        send(&self.child.id().to_string(), signal);
    }

    /// Waits for its end; what it said.
    fn ended(mut self) -> Result<String, String> {
        match wait::within(&mut self.child, LONG).map_err(text)? {
            Some(status) if status.success() => Ok(self.said()),
            Some(status) => Err(format!("{status}: {}", self.said())),
            None => Err(format!("it hangs: {}", self.said())),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(to: &str, signal: &str) {
    let _ = Command::new("kill")
        .args(["-s", signal, "--", to])
        .stderr(Stdio::null())
        .status();
}

/// Times of the files of a database, in milliseconds, in order.
fn spans(db: &Path) -> Vec<(u64, u64)> {
    let groups = fs::read_dir(db).into_iter().flatten().flatten();
    let files = groups.flat_map(|group| fs::read_dir(group.path()).into_iter().flatten().flatten());
    let span = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        let (from, to) = name
            .strip_suffix(".epoch")?
            .split_once('.')?
            .0
            .split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    let mut all: Vec<(u64, u64)> = files.filter_map(span).collect();
    all.sort_unstable();
    all
}

fn report(db: &Path, options: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(bin());
    let out = output(
        command
            .args(["report", "--json", "--no-debug-info"])
            .args(options)
            .arg(db),
    )?;
    serde_json::from_str(&out).map_err(text)
}

/// The numbers of the processes in a report.
fn pids(report: &Value) -> Vec<u64> {
    let rows = report["processes"].as_array().into_iter().flatten();
    rows.filter_map(|row| row["pid"].as_u64()).collect()
}

fn come_and_go() -> Result<(), String> {
    const TURNS: &str = "400000000";
    let scratch = Scratch::new().map_err(text)?;
    let db = scratch.path("db");
    let app = named(&scratch, "comes-and-goes")?;
    let other = named(&scratch, "stays-away")?;
    let native = output(Command::new(&app).arg(TURNS))?;
    let daemon = Daemon::start(&scratch, &["--name", "*and-goes"])?;
    let _other = Running::start(&other, "100000000000")?;
    let mut all = Vec::new();
    for _ in 0..2 {
        let running = Running::start(&app, TURNS)?;
        all.push(u64::from(running.id()));
        let sums = running.output()?;
        if sums != native {
            return Err(format!("{sums} in place of {native}"));
        }
    }
    wait::until("the sessions end", || daemon.sessions().is_empty())?;
    daemon.signal("TERM");
    let said = daemon.ended()?;
    if !said.contains("2 processes profiled") || said.contains("not profiled") {
        return Err(said);
    }
    let report = report(&db, &[])?;
    if pids(&report) != all || report["database"]["programs"].as_array().map(Vec::len) != Some(1) {
        return Err(format!("{all:?}: {}", report["processes"]));
    }
    // What is known of the program, of both in one: a constant, and what is the same in 4032 of 4096 places of a table.
    const NEARLY: f64 = 4032.0 / 4096.0;
    let loads = report["values"].as_array().ok_or("no values")?;
    let limits = |value: u64| {
        let tops = loads.iter().filter_map(|load| load["top"].get(0));
        let mut tops = tops.filter(|top| top["value"].as_u64() == Some(value));
        let top = tops.next()?;
        let [share, low, high] =
            ["share", "share_low", "share_high"].map(|name| top[name].as_f64());
        Some((share?, low?..=high?))
    };
    let (constant, nearly) = (limits(42), limits(7));
    let is_constant = constant.is_some_and(|(share, _)| share >= 0.999);
    let is_nearly =
        nearly.is_some_and(|(_, limits)| limits.contains(&NEARLY) && *limits.start() > 0.8);
    if !is_constant || !is_nearly {
        return Err(report["values"].to_string());
    }
    let (taken, paid) = (
        &report["windows"]["taken"],
        &report["windows"]["paid_percent"],
    );
    if taken.as_u64() < Some(200) || paid.as_f64().is_none_or(|paid| paid > 7.0) {
        return Err(format!("{}", report["windows"]));
    }
    // A time before, and a module.
    let mut before = Command::new(bin());
    let before = before
        .args(["report", "--until", "1h"])
        .arg(&db)
        .output()
        .map_err(text)?;
    if before.status.success() || !String::from_utf8_lossy(&before.stderr).contains("of that time")
    {
        return Err(format!("{before:?}"));
    }
    let part = self::report(&db, &["--module", "comes-and-goes", "--since", "1h"])?;
    if part["values"].as_array().map(Vec::len) > Some(loads.len()) {
        return Err(format!("{}", part["values"]));
    }
    let ranked = output(Command::new(bin()).args(["values", "--json"]).arg(&db))?;
    let ranked: Value = serde_json::from_str(&ranked).map_err(text)?;
    match ranked["schema"] == "trommel.values/1" && ranked.to_string().contains("comes-and-goes") {
        true => Ok(()),
        false => Err(ranked.to_string()),
    }
}

fn by_number() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let app = named(&scratch, "numbered")?;
    let running = Running::start(&app, "300000000")?;
    let pid = running.id().to_string();
    let daemon = Daemon::start(&scratch, &["-p", &pid])?;
    running.output()?;
    let said = daemon.ended()?;
    let report = report(&scratch.path("db"), &[])?;
    match said.contains("1 process profiled") && pids(&report) == [pid.parse().unwrap_or(0)] {
        true => Ok(()),
        false => Err(format!("{said}: {}", report["processes"])),
    }
}

/// A change of the daemon's own queries holds for its processes, and for one that comes later.
fn all_asked() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let app = named(&scratch, "all-asked")?;
    for (name, query) in [
        (
            "loads",
            "for opLOAD * always collect pc; count; send 1 stop;",
        ),
        (
            "branches",
            "for opBRANCH * every 2 collect pc misc; count; send 2 stop;",
        ),
        ("paced", "for opLOAD * every auto collect pc; send 1 stop;"),
    ] {
        fs::write(scratch.path(&format!("{name}.rpa")), query).map_err(text)?;
    }
    let file = |name: &str| scratch.path(name).to_string_lossy().into_owned();
    let daemon = Daemon::start(&scratch, &["--name", "all-asked", "-q", &file("loads.rpa")])?;
    let query = |pid: u32, words: &[&str]| {
        let mut command = Command::new(bin());
        command.arg("query").args(words);
        command.args(["-p", &pid.to_string()]);
        let said = command.env("XDG_RUNTIME_DIR", scratch.dir()).output();
        let said = said.map_err(text)?;
        match said.status.success() {
            true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    };
    let names = |pid: u32| {
        let list = query(pid, &["list", "--json"])?;
        let list: Value = serde_json::from_str(&list).map_err(text)?;
        let queries = list["queries"].as_array().into_iter().flatten();
        let name = |query: &Value| query["name"].as_str().unwrap_or("?").to_owned();
        Ok::<Vec<String>, String>(queries.map(name).collect())
    };
    let own = daemon.child.id();
    // With no process yet.
    wait::until("the daemon listens", || {
        names(own).is_ok_and(|names| names == ["loads:1"])
    })?;
    let first = Running::start(&app, "100000000000")?;
    let second = Running::start(&app, "100000000000")?;
    for of in [&first, &second] {
        wait::until("it is asked", || names(of.id()).is_ok())?;
    }
    let said = query(own, &["load", &file("branches.rpa")])?;
    if said != "branches is loaded. It holds for 2 processes, and for those to come.\n" {
        return Err(said);
    }
    for (wrong, why) in [
        (["load", &file("paced.rpa")], "every auto"),
        (["load", &file("branches.rpa")], "loaded already"),
        (["remove", "nobody"], "trommel query list"),
    ] {
        let said = query(own, &wrong);
        if !said.as_ref().is_err_and(|said| said.contains(why)) {
            return Err(format!("{wrong:?}: {said:?}"));
        }
    }
    let third = Running::start(&app, "100000000000")?;
    wait::until("the third is asked", || names(third.id()).is_ok())?;
    let both = ["loads:1", "branches:1"];
    for pid in [first.id(), second.id(), third.id(), own] {
        let is = names(pid)?;
        if is != both {
            return Err(format!("{pid} is asked {is:?}"));
        }
    }
    query(first.id(), &["remove", "branches"])?;
    let said = query(own, &["remove", "loads"])?;
    if !said.contains("removed. It holds for 3 processes, and") {
        return Err(said);
    }
    wait::until("branches are counted", || {
        let list = query(own, &["list", "--json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&list).unwrap_or_default();
        let queries = list["queries"].as_array().map_or(&[][..], Vec::as_slice);
        matches!(queries, [one] if one["name"] == "branches:1" && one["counted"].as_u64() > Some(0))
    })?;
    if names(first.id())? != [""; 0] || names(third.id())? != ["branches:1"] {
        return Err("changes of one process are of others".to_owned());
    }
    daemon.signal("TERM");
    daemon.ended()?;
    match scratch.path("trommel").join(format!("{own}.sock")).exists() {
        true => Err("its socket is left".to_owned()),
        false => Ok(()),
    }
}

/// Two processes are asked the daemon's queries, and one of them is asked others by commands. The database has the sums of both.
fn asked() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let app = named(&scratch, "is-asked")?;
    let file = |name: &str, query: &str| {
        let path = scratch.path(name);
        fs::write(&path, query).map_err(text)?;
        Ok::<_, String>(path.to_string_lossy().into_owned())
    };
    let loads = file(
        "loads.rpa",
        "for opLOAD * always collect pc; count; send 1 stop;",
    )?;
    let branches = file(
        "branches.rpa",
        "for opBRANCH * always collect pc misc; count; send 2 stop;",
    )?;
    let paced = file(
        "paced.rpa",
        "for opLOAD * every auto collect pc; send 1 stop;",
    )?;
    let daemon = Daemon::start(&scratch, &["--name", "is-asked", "-q", &loads])?;
    let all = [
        Running::start(&app, "100000000000")?,
        Running::start(&app, "100000000000")?,
    ];
    let query = |of: &Running, words: &[&str]| {
        let mut command = Command::new(bin());
        command
            .arg("query")
            .args(words)
            .args(["-p", &of.id().to_string()]);
        command
            .env("XDG_RUNTIME_DIR", scratch.dir())
            .output()
            .map_err(text)
    };
    for of in &all {
        wait::until("it is asked", || {
            query(of, &["list"]).is_ok_and(|said| said.status.success())
        })?;
    }
    let said = query(&all[0], &["load", &paced])?;
    if said.status.success() || !String::from_utf8_lossy(&said.stderr).contains("every auto") {
        return Err(format!("{said:?}"));
    }
    for words in [&["load", &branches][..], &["remove", "loads"]] {
        let said = query(&all[0], words)?;
        if !said.status.success() {
            return Err(format!("{said:?}"));
        }
    }
    let db = scratch.path("db");
    let sent = |report: &Value, name: &str| {
        let queries = report["queries"].as_array().into_iter().flatten();
        let of: Vec<u64> = (queries.filter(|query| query["load"] == name))
            .filter_map(|query| query["sent"].as_u64())
            .collect();
        of
    };
    wait::until("both are in the database", || {
        let report = report(&db, &[]).unwrap_or_default();
        !sent(&report, "branches").is_empty() && spans(&db).len() >= 4
    })?;
    drop(all);
    daemon.signal("TERM");
    daemon.ended()?;
    let report = report(&db, &[])?;
    // One table for each, though the one was asked by two processes in several epochs.
    let (loads, branches) = (sent(&report, "loads"), sent(&report, "branches"));
    let queries = report["queries"].as_array().ok_or("no queries")?;
    let whole = queries.iter().all(|query| {
        let number = |name: &str| query[name].as_u64();
        let messages = query["messages"].as_array().into_iter().flatten();
        let told: u64 = messages
            .filter_map(|message| message["count"].as_u64())
            .sum();
        let all = number("sent")
            .zip(number("dropped"))
            .map(|(sent, dropped)| sent + dropped);
        number("counted") == all && number("sent") == Some(told) && query["windows"]["low"].is_u64()
    });
    let times = queries
        .iter()
        .all(|query| query["active_until_ns"].is_null());
    match (&loads[..], &branches[..]) {
        (&[loads], &[branches]) if loads > 0 && branches > 0 && whole && times => Ok(()),
        _ => Err(format!("{loads:?}, {branches:?}: {queries:?}")),
    }
}

fn traced() -> Result<(), String> {
    const WORDS: &str = "traces it already";
    let scratch = Scratch::new().map_err(text)?;
    let app = named(&scratch, "traced")?;
    let running = Running::start(&app, "100000000000")?;
    let traced = Traced::seize(running.id() as i32).ok_or("it cannot be traced")?;
    let daemon = Daemon::start(&scratch, &["--name", "traced"])?;
    wait::until("it is told", || daemon.said().contains(WORDS))?;
    std::thread::sleep(Duration::from_secs(1));
    if daemon.said().matches(WORDS).count() != 1 {
        return Err(daemon.said());
    }
    drop(traced);
    let db = scratch.path("db");
    wait::until("it is profiled", || !spans(&db).is_empty())?;
    daemon.signal("INT");
    daemon.ended()?;
    wait::until("nothing is left in it", || running.traces().is_empty())
}

fn session_killed() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let app = named(&scratch, "session")?;
    let running = Running::start(&app, "100000000000")?;
    let daemon = Daemon::start(&scratch, &["--name", "session"])?;
    let db = scratch.path("db");
    wait::until("it is profiled", || !spans(&db).is_empty())?;
    let session = daemon.sessions();
    session
        .iter()
        .for_each(|pid| send(&pid.to_string(), "KILL"));
    let before = spans(&db).len();
    wait::until("another session", || {
        daemon.sessions().iter().any(|pid| !session.contains(pid)) && spans(&db).len() > before + 1
    })?;
    if !daemon.said().contains("another is started") {
        return Err(daemon.said());
    }
    daemon.signal("TERM");
    daemon.ended()?;
    wait::until("nothing is left in it", || running.traces().is_empty())
}

fn refused() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let db = scratch.path("db");
    for (args, words) in [
        (&["--name", "x", "--user"][..], "cannot be used with"),
        (&[][..], "required"),
        (&["--name", "x", "--epoch", "0.5s"], "from 1s to 1d"),
        (&["--name", "x", "-e", "none"], "collects nothing"),
        (
            &["--name", "x", "-e", "value,latency"],
            "do not go together",
        ),
        (&["-p", "2147483647"], "no such process"),
    ] {
        let mut command = Command::new(bin());
        command.args(["daemon", "--db"]).arg(&db).args(args);
        let out = command.output().map_err(text)?;
        let said = String::from_utf8_lossy(&out.stderr);
        if out.status.success() || !said.contains(words) || db.exists() {
            return Err(format!("{args:?}: {said}"));
        }
    }
    fs::create_dir(&db).map_err(text)?;
    let out = Command::new(bin())
        .arg("report")
        .arg(&db)
        .output()
        .map_err(text)?;
    let said = String::from_utf8_lossy(&out.stderr);
    match said.contains("holds no epochs") {
        true => Ok(()),
        false => Err(said.into_owned()),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// Numbers that differ from run to run.
fn chance(below: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new();
    random.build_hasher().finish() % below
}

fn killed() -> Result<(), String> {
    let kills = std::env::var("TROMMEL_KILLS").ok();
    let kills = kills.and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let scratch = Scratch::new().map_err(text)?;
    let db = scratch.path("db");
    let app = named(&scratch, "lives-on")?;
    let mut running = Running::start(&app, "100000000000")?;
    let (mut taken, mut epochs, mut worst) = (0, 0, [0_u64; 2]);
    for kill in 0..kills {
        // Rather little room, so that files are merged as well where there are many kills.
        let mut daemon = Daemon::start(&scratch, &["--name", "lives-on", "--keep", "160k"])?;
        let began = now();
        std::thread::sleep(Duration::from_millis(chance(3500)));
        // The daemon alone, or with all its sessions.
        let all = kill % 2 == 0;
        let sessions = daemon.sessions();
        let group = daemon.child.id();
        let at = now();
        match all {
            true => send(&format!("-{group}"), "KILL"),
            false => daemon.signal("KILL"),
        }
        let _ = daemon.child.wait();
        let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        let ended = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            gone(pid) || status.contains(") Z ")
        };
        wait::until("its sessions end", || sessions.iter().all(ended))?;
        wait::until("nothing is left in it", || running.traces().is_empty())?;
        if running.0.try_wait().map_err(text)?.is_some() {
            return Err(format!(
                "kill {kill}: the program has ended: {}",
                daemon.said()
            ));
        }
        if daemon.said().contains("panicked") {
            return Err(format!("kill {kill}: {}", daemon.said()));
        }
        let written: Vec<(u64, u64)> = spans(&db);
        let report = match written.is_empty() {
            true => continue,
            false => report(&db, &[])?,
        };
        let about = &report["database"];
        if about["skipped"] != serde_json::json!([]) {
            return Err(format!("kill {kill}: {about}"));
        }
        // Nothing that was there is lost, merged or not.
        let windows = report["windows"]["taken"].as_u64().unwrap_or(0);
        if windows < taken || about["dropped"] != serde_json::json!([]) {
            return Err(format!(
                "kill {kill}: {windows} windows are left of {taken}: {about}"
            ));
        }
        taken = windows;
        // Of this round: files one after the other, up to the kill but for an epoch.
        let round: Vec<(u64, u64)> = written
            .into_iter()
            .filter(|(from, _)| *from >= began)
            .collect();
        epochs += round.len();
        for pair in round.windows(2) {
            if pair[1].0.abs_diff(pair[0].1) > LATE.as_millis() as u64 {
                return Err(format!("kill {kill}: an epoch is missing: {round:?}"));
            }
        }
        if let Some((_, to)) = round.last() {
            let lost = at.saturating_sub(*to);
            let bearable = if all { EPOCH + LATE } else { LATE };
            if lost > bearable.as_millis() as u64 {
                return Err(format!(
                    "kill {kill} ({all}): {lost} ms are lost: {round:?}"
                ));
            }
            let worst = &mut worst[usize::from(all)];
            *worst = lost.max(*worst);
        } else if at - began > (2 * EPOCH + 2 * LATE).as_millis() as u64 {
            return Err(format!(
                "kill {kill}: nothing after {} ms: {}",
                at - began,
                daemon.said()
            ));
        }
    }
    let files = spans(&db).len();
    eprintln!(
        "{kills} kills, {epochs} epochs written, in {files} files with {taken} windows in the end; lost at most {} ms when all was killed, \
         {} ms when the daemon alone was",
        worst[1], worst[0]
    );
    Ok(())
}
