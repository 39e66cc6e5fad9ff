//! `trommel run` of programs that are detached: one that turns to other work is reattached, one that does not is left alone, and
//! neither shows, whatever happens in the moment.

#[path = "../../conformance/src/not_tested.rs"]
#[allow(unreachable_pub)] // reason: it is a public module of its own crate.
mod not_tested;

#[path = "common/dir.rs"]
mod dir;
#[path = "common/started.rs"]
mod started;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use dir::Dir;
use not_tested::not_tested;

/// Stress option that reattaches a detached process at once.
const HASTY: &str = "retake";

struct Place {
    dir: Dir,
    program: String,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = Dir::new(&format!("retake-{name}"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/retake/phases.c");
        let program = dir.0.join("phases");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-pthread", "-o"]);
        let done = gcc.arg(&program).arg(source).status();
        assert!(done.expect("gcc runs").success());
        let program = program.to_string_lossy().into_owned();
        Self { dir, program }
    }

    fn command(&self, stress: &str, options: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command.arg("run").args(options).args(["--", &self.program]);
        command.args(args).env("TROMMEL_STRESS", stress);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, stress: &str, options: &[&str], args: &[&str]) -> Output {
        let mut command = self.command(stress, options, args);
        command.output().expect("trommel runs")
    }

    /// The times that processes were under control, in a run that prints what it should.
    fn turns(&self, stress: &str, options: &[&str], args: &[&str]) -> Vec<Turn> {
        let file = self.dir.0.join("stats");
        let name = file.to_string_lossy();
        let options = [&["--stats", &name], options].concat();
        let out = self.run(stress, &options, args);
        assert_eq!(out.status.code(), Some(9), "{args:?}: {out:?}");
        let last = if args.contains(&"fork") {
            "0\nparent 0\n"
        } else {
            "0\n"
        };
        assert_eq!(String::from_utf8_lossy(&out.stdout), last, "{args:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        let mut said = said.lines();
        // Nothing else is wrong.
        let asked = |line: &str| stress.contains("leave") && line.contains("stress option");
        assert!(said.all(asked), "{out:?}");
        turns(&file)
    }
}

/// One time that a process was under control.
#[derive(Debug)]
struct Turn {
    pid: u64,
    /// Reason why it was attached, and its CPU time in milliseconds then.
    taken: (String, u64),
    /// The same of when it was detached.
    detach: Option<(String, u64)>,
    traces: u64,
    samples: u64,
}

impl Turn {
    fn is_back(&self) -> bool {
        self.taken.0.contains("not hot when it was detached")
    }
}

fn turns(file: &Path) -> Vec<Turn> {
    let stats: Value = serde_json::from_slice(&fs::read(file).expect("statistics")).expect("JSON");
    let moment = |at: &Value| {
        let why = at["why"].as_str()?.to_owned();
        let cpu = at["cpu_ns"].as_u64()? / 1_000_000;
        assert!(
            at["wall_ns"].as_u64() <= stats["wall_ns"].as_u64(),
            "{stats}"
        );
        Some((why, cpu))
    };
    let turn = |p: &Value| {
        let number = |name: &str| {
            p[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {stats}"))
        };
        let detach = p["let_go"].as_array().expect("reasons");
        assert_eq!(detach.is_empty(), p["let_go_at"].is_null(), "{stats}");
        Turn {
            pid: number("pid"),
            taken: moment(&p["taken"]).unwrap_or_else(|| panic!("{stats}")),
            detach: moment(&p["let_go_at"]),
            traces: number("traces"),
            samples: number("samples_app"),
        }
    };
    let processes = stats["processes"].as_array().expect("a list");
    processes.iter().map(turn).collect()
}

/// Returns true if the kernel lets us sample.
fn samples(place: &Place) -> bool {
    let turns = place.turns("", &["--no-bail-out"], &["0", "200"]);
    let samples = turns[0].samples > 0;
    if !samples {
        not_tested("what is reattached: perf events are refused here");
    }
    samples
}

#[test]
#[ignore = "nightly (docs/testing.md): it computes for ten seconds"]
fn what_turns_to_other_work_is_reattached() {
    turns_to_other_work("other", &[]);
}

#[test]
#[ignore = "nightly (docs/testing.md): it computes for ten seconds or more"]
fn what_turns_to_other_work_is_reattached_soon_after_its_start() {
    turns_to_other_work("soon", &["--after", "0.1"]);
}

fn turns_to_other_work(name: &str, options: &[&str]) {
    let place = Place::new(name);
    if !samples(&place) {
        return;
    }
    // Long enough that what it was detached for is learnt before it ends, also where samples begin late.
    let turns = place.turns("", options, &["900", "9000"]);
    let [first, second] = &turns[..] else {
        panic!("{options:?}: {turns:?}");
    };
    let (why, detach) = first.detach.as_ref().expect("detached");
    assert!(
        why.contains("did not pay off") && *detach < 900,
        "{turns:?}"
    );
    assert!(!first.is_back() && second.is_back(), "{turns:?}");
    assert_eq!(first.pid, second.pid);
    // Not before it is known that it stays at that, and is worth a try.
    assert!((4000..9900).contains(&second.taken.1), "{turns:?}");
    assert!(second.detach.is_none() && second.traces > 0, "{turns:?}");
}

#[test]
#[ignore = "nightly (docs/testing.md): it computes for ten seconds or more"]
fn what_goes_on_alike_is_left_alone() {
    let place = Place::new("alike");
    let cases = [
        (&[][..], ["8000", "0"]),
        (&["--no-retake"], ["400", "8000"]),
        (&["--no-bail-out"], ["400", "1000"]),
    ];
    for (options, args) in cases {
        let turns = place.turns("", options, &args);
        assert_eq!(turns.len(), 1, "{turns:?}");
        let stays = options == ["--no-bail-out"];
        assert_eq!(turns[0].detach.is_none(), stays, "{turns:?}");
    }
}

/// Again and again, all threads, a child too; whatever they were detached for.
#[test]
fn threads_and_children_are_reattached_and_none_notices() {
    threads_and_children("threads", &[]);
}

/// The same, where control begins later than the program.
#[test]
#[ignore = "nightly (docs/testing.md): it computes for ten seconds or more"]
fn threads_and_children_that_began_natively_are_reattached() {
    threads_and_children("late", &["--after", "0.02"]);
}

fn threads_and_children(name: &str, options: &[&str]) {
    let place = Place::new(name);
    if !samples(&place) {
        return;
    }
    for (stress, args) in [
        (HASTY, &["600", "0", "1"][..]),
        (HASTY, &["400", "0", "4"]),
        (HASTY, &["400", "0", "2", "fork"]),
        ("retake,leave=30", &["400", "400", "3"]),
    ] {
        let turns = place.turns(stress, options, args);
        let mut pids: Vec<u64> = turns.iter().map(|t| t.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len(), if args.contains(&"fork") { 2 } else { 1 });
        for pid in pids {
            let its = turns.iter().filter(|t| t.pid == pid);
            let back = its.clone().filter(|t| t.is_back()).count();
            assert!(back > 2, "{stress} {args:?} {options:?}: {turns:?}");
            assert_eq!(its.count(), back + 1, "{turns:?}");
        }
    }
}

/// However much it changes.
#[test]
#[ignore = "nightly (docs/testing.md): it computes for five seconds, in which it would be reattached"]
fn what_was_detach_for_another_reason_stays_so() {
    let place = Place::new("reason");
    let turns = place.turns("leave=300", &[], &["300", "4500"]);
    assert_eq!(turns.len(), 1, "{turns:?}");
    let why = turns[0].detach.as_ref().map(|(why, _)| why.as_str());
    assert!(
        why.is_some_and(|w| w.contains("stress option")),
        "{turns:?}"
    );
}

/// Ends, or becomes another program, shortly before, after, or while it is reattached.
#[test]
fn an_end_in_the_moment_is_told() {
    let place = Place::new("end");
    for n in 0..24 {
        let time = (20 + n * 7 % 40).to_string();
        let threads = (1 + n % 3).to_string();
        let how = if n % 4 == 3 { "exec" } else { "" };
        let after = if n % 2 == 0 { "0" } else { "0.005" };
        let clock = Instant::now();
        let out = place.run(HASTY, &["--after", after], &[&time, "0", &threads, how]);
        assert_eq!(out.status.code(), Some(9), "{time} ms: {out:?}");
        assert_eq!((&out.stdout[..], &out.stderr[..]), (&b"0\n"[..], &b""[..]));
        assert!(clock.elapsed() < Duration::from_secs(15), "{time} ms");
    }
}

#[test]
fn an_end_by_a_signal_is_told() {
    let place = Place::new("signal");
    for n in 0..12_u64 {
        let mut command = place.command(HASTY, &[], &["60000", "0", "2"]);
        let child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("trommel runs");
        sleep(Duration::from_millis(60 + n * 11));
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let there = fs::read_to_string(children).expect("children");
        let is_it = |pid: &&str| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == Path::new(&place.program))
        };
        let pid = there.split_whitespace().find(is_it).expect("the program");
        let killed = Command::new("kill").args(["-USR1", pid]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let out = child.wait_with_output().expect("waited for");
        assert_eq!(out.status.signal(), Some(10), "{out:?}");
    }
}

/// Whenever the command is killed, the program goes on.
#[test]
fn a_program_goes_on_when_the_command_is_killed() {
    let place = Place::new("killed");
    let times = std::env::var("TROMMEL_KILLS").map_or(12, |n| n.parse().expect("a number"));
    for n in 0..times {
        let result = place.dir.0.join(format!("result{n}"));
        let mut command = place.command(HASTY, &[], &["300", "0", "2"]);
        command.stdout(fs::File::create(&result).expect("a file"));
        let mut child = command.spawn().expect("trommel runs");
        started::wait_for(&child, "phases");
        sleep(Duration::from_millis(n % 30 * 7));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let clock = Instant::now();
        while fs::read(&result).expect("there") != b"0\n" {
            assert!(clock.elapsed() < Duration::from_secs(20), "kill {n}");
            sleep(Duration::from_millis(10));
        }
    }
}
