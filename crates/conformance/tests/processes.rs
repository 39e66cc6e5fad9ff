//! Processes and programs that a program starts: their counts, what is reported of them, and what becomes
//! of them when something ends before they do.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trommel_conformance::counts::{Counts, compare_transfers};
use trommel_conformance::exec::{self, Scratch, trommel, which};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program;

struct Place {
    bin: &'static Path,
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        Self {
            bin: trommel(),
            scratch: Scratch::new().expect("a directory"),
        }
    }

    fn trommel(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.bin);
        command.args(words).current_dir(self.scratch.dir());
        command.stdin(Stdio::null()).output().expect("runs")
    }

    /// Records a command; what it wrote, and the report.
    fn record(&self, options: &[&str], command: &[&str]) -> (Output, Value) {
        let words = [&["record", "--quiet"], options, &["--"], command].concat();
        let output = self.trommel(&words);
        (output, self.report(&[]))
    }

    fn report(&self, options: &[&str]) -> Value {
        let output = self.trommel(&[&["report", "--json", "--no-debug-info"], options].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn processes(report: &Value) -> &[Value] {
    report["processes"].as_array().expect("processes")
}

fn built(name: &str) -> PathBuf {
    let all = program::all();
    let variant = all.iter().find(|v| v.name == name).expect("a program");
    variant.build().expect("built")
}

/// Counts in the function `part`: transfers from there, and how often each of its loads was executed.
type InPart = (Counts, BTreeMap<u64, u64>);

/// The addresses of a function.
fn function(program: &Path, name: &str) -> Range<u64> {
    let listed = Command::new("nm").arg("-S").arg(program).output();
    let listed = text(&listed.expect("nm"));
    let line = listed.lines().find(|l| l.ends_with(&format!(" {name}")));
    let mut words = line.expect("the function").split(' ');
    let mut hex = || u64::from_str_radix(words.next().expect("a number"), 16).expect("hex");
    let start = hex();
    start..start + hex()
}

fn in_part(report: &Value, program: &Path) -> InPart {
    let part = function(program, "part");
    let inside = |at: &u64| part.contains(at);
    let mut counts = Counts::from_report(&report.to_string(), program).expect("counts");
    for list in [&mut counts.branches, &mut counts.jumps, &mut counts.calls] {
        list.retain(|(from, _), _| inside(from));
    }
    let mut loads = BTreeMap::new();
    for ((at, _), count) in counts.values.iter().filter(|((at, _), _)| inside(at)) {
        *loads.entry(*at).or_default() += count;
    }
    counts.values.clear();
    (counts, loads)
}

/// Values too: the process's runtime records them one by one.
const ALL: [&str; 3] = ["-e", "edge,call,value,type", "--exact-values"];

#[test]
fn children_have_the_counts_of_the_same_work_in_one_process() {
    children_have_the_counts("processes_counts@-O2");
}

#[test]
#[ignore = "nightly (docs/testing.md): a second build of the program"]
fn children_that_are_not_position_independent_have_them_too() {
    children_have_the_counts("processes_counts@-O1-no-pie");
}

fn children_have_the_counts(name: &str) {
    let place = Place::new();
    let program = built(name);
    let path = program.to_str().expect("text");
    let (_, alone) = place.record(&ALL, &[path, "all"]);
    let expected = in_part(&alone, &program);
    assert!(expected.0.branches.len() > 5 && !expected.1.is_empty());
    // Without values paths are counted where they are executed.
    for how in ["forked", "executed", "spawned"] {
        let (output, report) = place.record(&["-e", "edge,call"], &[path, how]);
        assert!(output.status.success(), "{how}: {}", said(&output));
        let counted = in_part(&report, &program);
        assert!(counted.0 == expected.0, "{name} {how}, counted");
    }
    for how in ["forked", "executed", "spawned"] {
        let (output, report) = place.record(&ALL, &[path, how]);
        assert!(output.status.success(), "{how}: {}", said(&output));
        assert!(in_part(&report, &program) == expected, "{name} {how}");
        // And each child those of its part alone.
        let children = processes(&report).iter().skip(1);
        let children: Vec<u64> = children.filter_map(|p| p["pid"].as_u64()).collect();
        let last = children.last().expect("children").to_string();
        let of_last = in_part(&place.report(&["--pid", &last]), &program);
        let (_, part) = place.record(&ALL, &[path, "3"]);
        assert!(of_last == in_part(&part, &program), "{name} {how} 3");
    }
}

#[test]
fn threads_that_sleep_do_not_fill_the_cache() {
    sleep_in_a_small_cache(&[
        ("trace,arena=3", &["edge,call"]),
        ("evict=29,arena=1", &["edge,call"]),
    ]);
}

#[test]
#[ignore = "nightly (docs/testing.md): six runs with little room"]
fn threads_that_sleep_do_not_fill_it_in_other_ways() {
    sleep_in_a_small_cache(&[
        ("arena=1", &["edge,call"]),
        ("evict=29,arena=1", &["edge,call,value", "none"]),
        ("trace,flush=2,arena=3", &["edge,call"]),
        ("delay=5,arena=1", &["edge,call"]),
    ]);
}

/// Tests that what a thread has left is free once it comes out of the cache. A thread that sleeps keeps only what it sleeps in. The ways are
/// stress options, each with kinds of events: all that is in the cache is dropped and made again.
fn sleep_in_a_small_cache(ways: &[(&str, &[&str])]) {
    /// Threads have slept in each call by then, and what is made fills the smallest cache ten times.
    const ROUNDS: &str = "24";
    let place = Place::new();
    let program = built("threads_asleep@-O2-pthread");
    let path = program.to_str().expect("text");
    let command = [path, ROUNDS];
    let native = Command::new(path).arg(ROUNDS).output().expect("runs");
    let (_, plain) = place.record(&["-e", "edge,call"], &command);
    // Calls that a signal interrupts are made again: how often depends on the moment.
    let again = function(&program, "get");
    let counts = |report: &Value| {
        let mut counts = Counts::from_report(&report.to_string(), &program).expect("counts");
        for list in [&mut counts.branches, &mut counts.calls] {
            list.retain(|(from, _), _| !again.contains(from));
        }
        // Those that are left are in stubs which lead to the C library, by which `get` calls too.
        counts.jumps.clear();
        counts
    };
    let expected = counts(&plain);
    assert!(expected.branches.len() > 5 && expected.calls.len() > 5);
    for &(stress, events) in ways {
        for events in events {
            let how = format!("{stress} {events}");
            let mut record = Command::new(place.bin);
            record
                .args(["record", "--quiet", "-e", events, "-c", "exact", "--"])
                .args(command);
            record
                .env("TROMMEL_STRESS", stress)
                .current_dir(place.scratch.dir());
            let output = record.output().expect("runs");
            assert_eq!(text(&output), text(&native), "{how}: {}", said(&output));
            let report = place.report(&[]);
            assert_eq!(report["run"]["let_go"], Value::Array(vec![]), "{how}");
            if *events == "edge,call" {
                let counted = counts(&report);
                for (what, expected, counted) in [
                    ("branches", &expected.branches, &counted.branches),
                    ("calls", &expected.calls, &counted.calls),
                ] {
                    let same = compare_transfers(what, expected, counted);
                    assert_eq!(same.err(), None, "{how}");
                }
            }
        }
    }
}

#[test]
fn processes_are_told_with_parents_commands_and_ends() {
    let place = Place::new();
    let script = "(exit 3); /bin/sh -c 'kill -9 $$'; exec /bin/echo out";
    let (output, report) = place.record(&[], &["bash", "-c", script]);
    assert_eq!(text(&output), "out\n", "{}", said(&output));
    let all = processes(&report);
    let first = &all[0];
    assert_eq!(
        (&first["parent"], &first["ended"]),
        (&Value::Null, &"exec".into())
    );
    let of = |wanted: &dyn Fn(&Value) -> bool| -> Vec<&Value> {
        all.iter().filter(|p| wanted(p)).collect()
    };
    let shell = of(&|p| p["status"] == 3);
    assert_eq!(shell.len(), 1);
    assert_eq!(shell[0]["parent"], first["pid"]);
    assert_eq!(shell[0]["command"], first["command"]);
    let killed = of(&|p| p["signal"] == 9);
    // Before Linux 6.15 nobody tells, once its parent has asked.
    let killed = match killed.is_empty() {
        true => of(&|p| p["command"][0] == "/bin/sh" && p["ended"] == Value::Null),
        false => killed,
    };
    assert_eq!(killed.len(), 1);
    assert_eq!(killed[0]["command"][0], "/bin/sh");
    let last = of(&|p| p["command"][0] == "/bin/echo");
    assert_eq!(last.len(), 1);
    assert_eq!(
        (&last[0]["pid"], &last[0]["status"]),
        (&first["pid"], &0.into())
    );
    // The sum is that of the parts.
    let seen = |p: &Value| p["events"]["edge"]["seen"].as_u64().expect("a number");
    let sum: u64 = all.iter().map(seen).sum();
    assert_eq!(report["events"]["edge"]["seen"], sum);
    let edges = report["edges"].as_array().expect("edges");
    let counts = edges.iter().map(|e| e["count"].as_u64().expect("a count"));
    assert_eq!(counts.sum::<u64>(), sum);
    assert!(
        all.iter()
            .all(|p| seen(p) > 0 && p["let_go"] == Value::Array(vec![]))
    );
    // One of them alone; both programs of the first.
    let one = place.report(&["--pid", &shell[0]["pid"].to_string()]);
    assert_eq!(processes(&one).len(), 1);
    assert_eq!(one["events"], shell[0]["events"]);
    let two = place.report(&["--pid", &first["pid"].to_string()]);
    assert_eq!(processes(&two).len(), 2);
    let none = place.trommel(&["report", "--pid", "1"]);
    assert!(!none.status.success() && said(&none).contains("holds no process 1"));
}

#[test]
fn without_following_there_is_one_process() {
    let place = Place::new();
    let (output, report) =
        place.record(&["--no-follow"], &["bash", "-c", "(exit 2); ls / | wc -l"]);
    assert!(output.status.success());
    assert_eq!(processes(&report).len(), 1);
    let told = report["run"]["let_go"][0].as_str().expect("words");
    assert!(
        told.contains("child processes, which ran natively"),
        "{told}"
    );
}

#[test]
fn restrictions_that_the_kernel_refuses_detach_nothing() {
    let place = Place::new();
    let refused = built("restrictions_refused@-O2");
    let (output, report) = place.record(&["-e", "none"], &[&refused.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(report["run"]["let_go"], Value::Array(vec![]));
}

/// Nothing of the runtime is there when the program makes its call, also where that must not replace anything.
#[test]
fn places_of_the_runtime_are_free_for_a_program_that_wants_them() {
    let place = Place::new();
    let taken = built("places_taken@-O2-pthread");
    let taken = taken.to_string_lossy();
    for way in [&["fresh"][..], &["attach"], &["fresh", "threads"]] {
        let command = [&[&*taken][..], way].concat();
        let native = Command::new(command[0]).args(way).output().expect("runs");
        let (output, report) = place.record(&["-e", "none"], &command);
        assert_eq!(text(&output), text(&native), "{way:?}: {}", said(&output));
        let told = report["run"]["let_go"][0].as_str().expect("words");
        assert!(told.contains("addresses where trommel's is"), "{told}");
    }
}

#[test]
fn processes_for_which_there_is_no_room_are_told() {
    let place = Place::new();
    let many = built("processes_many@-O2");
    let (output, report) = place.record(&["-e", "call"], &[&many.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(
        said(&output).contains("children of the program"),
        "{}",
        said(&output)
    );
    let there = processes(&report).len();
    assert!((1000..=1024).contains(&there), "{there}");
    let told = report["run"]["let_go"][0].as_str().expect("words");
    let natively = format!("{} child processes, which ran natively", 1101 - there);
    assert_eq!(told, natively);
}

#[test]
fn a_daemon_goes_on_when_the_program_has_ended() {
    let place = Place::new();
    let script = "(for i in 1 2 3; do sleep 1; echo $i; done >daemon; echo done >>daemon) >&- 2>&- & echo main";
    let started = Instant::now();
    let (output, report) = place.record(&[], &["bash", "-c", script]);
    assert!(started.elapsed() < Duration::from_millis(2500), "it waited");
    assert_eq!(text(&output), "main\n");
    assert!(said(&output).contains("goes on natively") || said(&output).contains("go on natively"));
    let left = processes(&report)
        .iter()
        .filter(|p| p["ended"] == Value::Null);
    assert!(left.count() > 0);
    let file = place.path("daemon");
    let end = Instant::now() + Duration::from_secs(20);
    while fs::read_to_string(&file).unwrap_or_default() != "1\n2\n3\ndone\n" {
        assert!(Instant::now() < end, "{:?}", fs::read_to_string(&file));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_with_privileges_run_with_them() {
    let place = Place::new();
    let copy = place.path("id");
    exec::copy(&which("id").expect("id"), &copy).expect("copied");
    let owner = Command::new("chown")
        .arg("65534")
        .arg(&copy)
        .output()
        .expect("chown");
    if !owner.status.success() {
        not_tested("a setuid program: only root can make one");
        return;
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("mode");
    let path = copy.to_str().expect("text");
    let native = Command::new(path).arg("-u").output().expect("runs");
    let script = format!("{path} -u; exec {path} -u");
    let (output, report) = place.record(&[], &["sh", "-c", &script]);
    assert_eq!(text(&output), format!("{0}{0}", text(&native)));
    let told = said(&output);
    assert_eq!(
        told.matches("runs natively: it runs with privileges")
            .count(),
        2,
        "{told}"
    );
    let run = |p: &&Value| p["command"][0] == path;
    assert_eq!(processes(&report).iter().filter(run).count(), 0);
}

/// Programs that are executed where there is no free descriptor are observed. Where there can be none, the reason is said.
#[test]
fn programs_executed_without_a_descriptor_are_observed() {
    let place = Place::new();
    let program = built("exec_without_descriptors@-O1-static-w");
    let path = program.to_str().expect("text");
    for (limit, how) in [
        ("used", "execute"),
        ("lowered", "start"),
        ("none", "execute"),
    ] {
        let (output, report) = place.record(&[], &[path, limit, how]);
        assert!(output.status.success(), "{limit} {how}: {}", said(&output));
        assert_eq!(said(&output), "", "{limit} {how}");
        let edges = report["events"]["edge"]["seen"].as_u64();
        assert!(edges > Some(20_000), "{limit} {how}: {edges:?}");
    }
    // None may be added, unless trommel itself may raise limits.
    let script = "ulimit -n 40; exec \"$0\" record --quiet -- \"$1\" used execute";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(place.bin).arg(path);
    let output = command.current_dir(place.scratch.dir()).output();
    let output = output.expect("runs");
    assert_eq!(text(&output), "199990000, descriptor -1\n");
    let words = said(&output);
    assert!(
        words.is_empty() || words.contains("may have no more descriptors"),
        "{words}"
    );
}

#[test]
fn a_program_that_another_traces_runs_natively() {
    let Some(strace) = which("strace") else {
        not_tested("a program that strace traces: strace is not installed");
        return;
    };
    let place = Place::new();
    let strace = strace.to_str().expect("text");
    let words = [
        strace,
        "-f",
        "-o",
        "log",
        "sh",
        "-c",
        "echo a; /bin/echo b; exit 5",
    ];
    let (output, _) = place.record(&[], &words);
    assert_eq!(
        (text(&output).as_str(), output.status.code()),
        ("a\nb\n", Some(5))
    );
    assert!(said(&output).contains("another process traces it"));
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("exit_group(5)"), "{log}");
}

#[test]
fn a_namespace_of_processes_is_followed_into() {
    let place = Place::new();
    let words = [
        "unshare",
        "--fork",
        "--pid",
        "sh",
        "-c",
        "echo $$; /bin/echo x; (exit 4); echo $?",
    ];
    let native = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect("unshare");
    if !native.status.success() {
        not_tested(format_args!("a namespace of processes: {}", said(&native)));
        return;
    }
    let (output, report) = place.record(&[], &words);
    assert_eq!(text(&output), text(&native));
    assert!(said(&output).is_empty(), "{}", said(&output));
    let echo = processes(&report)
        .iter()
        .find(|p| p["command"][0] == "/bin/echo");
    let echo = echo.expect("followed");
    assert_eq!(echo["status"], 0);
    assert_ne!(echo["pid"], 2, "as we see it");
}

#[test]
fn each_process_has_a_stream() {
    let place = Place::new();
    let options = ["--stream", "s.tstream", "-e", "edge"];
    let (output, report) = place.record(&options, &["bash", "-c", "(exit 1); /bin/echo x | cat"]);
    assert!(output.status.success(), "{}", said(&output));
    let mut before = BTreeMap::new();
    for process in processes(&report) {
        let pid = process["pid"].as_u64().expect("a number");
        let nth: &mut u32 = before.entry(pid).or_default();
        *nth += 1;
        let name = match (process["parent"].is_null(), *nth) {
            (true, _) => "s.tstream".to_owned(),
            (_, 1) => format!("s.tstream.{pid}"),
            (_, n) => format!("s.tstream.{pid}.{n}"),
        };
        let info = place.trommel(&["stream", "info", "--json", &name]);
        let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
        assert_eq!(info["end"], "complete", "{name}");
        assert_eq!(info["events"], process["events"]["edge"]["seen"], "{name}");
    }
    assert!(before.len() > 3);
}

/// The bytes of the core that a script leaves, run by bash with these words before it.
fn core_of(place: &Place, words: &str, script: &str) -> u64 {
    let dir = place.path("dumped");
    fs::create_dir_all(&dir).expect("a directory");
    let all = format!("ulimit -c unlimited; exec {words} bash -c '{script}'");
    let done = Command::new("bash")
        .args(["-c", &all])
        .current_dir(&dir)
        .output();
    let done = done.expect("bash");
    let mut cores = fs::read_dir(&dir).expect("a directory").flatten();
    let core = cores.find(|entry| entry.file_name().to_string_lossy().starts_with("core"));
    let core = core.unwrap_or_else(|| panic!("{words} {script}: no core; {}", said(&done)));
    let len = core.metadata().expect("a file").len();
    fs::remove_dir_all(&dir).expect("a directory");
    len
}

#[test]
fn a_core_has_nothing_of_ours() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !pattern.starts_with("core") {
        not_tested(format_args!(
            "a core: {} does not write to the directory",
            pattern.trim()
        ));
        return;
    }
    let place = Place::new();
    for script in ["kill -SEGV $$", "(kill -SEGV $BASHPID); true"] {
        let native = core_of(&place, "", script);
        let record = format!("{} record --quiet -o ../x.data --", place.bin.display());
        let seen = core_of(&place, &record, script);
        // What the kernel maps for the program lies elsewhere each time.
        let room = 256 << 10;
        assert!(
            seen < native + room,
            "{script}: {seen} bytes in place of {native}"
        );
    }
}

#[test]
fn a_build_goes_on_when_trommel_is_killed() {
    let place = Place::new();
    let script =
        "for i in $(seq 25); do (exit 3); echo $i | tr 0-9 a-j; ls -d / & wait $!; done; echo end";
    let native = Command::new("bash")
        .args(["-c", script])
        .output()
        .expect("bash");
    for delay in (100..500).step_by(25) {
        let out = place.path("out");
        let mut command = Command::new(place.bin);
        command.args([
            "record", "--quiet", "-o", "x.data", "--", "bash", "-c", script,
        ]);
        command
            .current_dir(place.scratch.dir())
            .stdin(Stdio::null());
        command.stdout(fs::File::create(&out).expect("a file"));
        command.stderr(fs::File::create(place.path("err")).expect("a file"));
        let mut child = command.spawn().expect("runs");
        std::thread::sleep(Duration::from_millis(delay));
        let _ = child.kill();
        let _ = child.wait();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let got = fs::read(&out).unwrap_or_default();
            // The shell would tell of a program that a signal has ended.
            let told = fs::read_to_string(place.path("err")).unwrap_or_default();
            assert_eq!(told, "", "after {delay} ms");
            if got == native.stdout {
                break;
            }
            let shown = String::from_utf8_lossy(&got);
            assert!(Instant::now() < end, "after {delay} ms: {shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
