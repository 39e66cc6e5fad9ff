//! `record --all`: samples of the whole machine. Where the kernel refuses them to the tests there is nothing to test, and a test says so.

#![allow(unsafe_code)] // reason: signals are sent.

#[path = "../../conformance/src/not_tested.rs"]
#[allow(unreachable_pub)] // reason: it is a public module of its own crate.
mod not_tested;

mod common;
#[path = "common/compile.rs"]
mod compile;

use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::Dir;
use compile::compile;
use not_tested::not_tested;
use serde_json::Value;

/// Two loops that cost the same a round, the first with three times as many. `key` is in a register that it reads after
/// slow instructions, where most samples are.
const BUSY: &str = r#"
#include <stdlib.h>
#define LOOP(rounds, key) \
    unsigned long sum = 0, left = rounds; \
    __asm__ volatile("1: imul %0, %0\n\tadd %2, %0\n\timul %0, %0\n\tadd %2, %0\n\tdec %1\n\tjnz 1b" : "+r"(sum), "+r"(left) : "S"(key)); \
    return sum
__attribute__((noinline)) unsigned long hot(unsigned long rounds, unsigned long key) { LOOP(rounds, key); }
__attribute__((noinline)) unsigned long warm(unsigned long rounds, unsigned long key) { LOOP(rounds, key); }
int main(int argc, char **argv) {
    unsigned long times = argc > 1 ? strtoul(argv[1], 0, 10) : 1000, sum = 0;
    for (unsigned long n = 0; n < times; n++) sum += hot(75000, 0x1234567) + warm(25000, n);
    return sum == 1;
}
"#;
const KEY: u64 = 0x0123_4567;

/// A test's directory with the program. There is one at a time: each sees what the others run.
struct Stage {
    dir: Dir,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Stage {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.dir
    }
}

/// `None` where samples are refused.
fn stage(name: &str) -> Option<Stage> {
    static ALONE: Mutex<()> = Mutex::new(());
    // Another test has failed: it is gone too.
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Dir::new(&format!("machine-{name}"));
    let doctor = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["doctor", "--json"])
        .output()
        .expect("trommel runs");
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|c| c["name"] == "whole machine")
        .expect("a check");
    let means = check["means"].as_str().expect("a text");
    if means.contains("refused") {
        not_tested(format_args!("samples of the machine: {}", check["found"]));
        return None;
    }
    compile(&dir.0, "busy", &["-O1", "-g"], BUSY);
    Some(Stage { dir, _alone: alone })
}

/// `trommel record --all` with these words after it.
fn record(dir: &Dir, stress: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["record", "--all", "-o", "m.data"])
        .args(words)
        .current_dir(&dir.0)
        .env("TROMMEL_STRESS", stress)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs")
}

fn recorded(dir: &Dir, words: &[&str]) -> Value {
    let out = record(dir, "", words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{words:?}: {said}");
    dir.json(&["report", "m.data", "--json"])
}

fn list<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The processes of a command's first word. What has no number is the recording, with the samples of what the kernel put away meanwhile.
fn processes<'v>(report: &'v Value, first: &str) -> Vec<&'v Value> {
    let all = list(report, "processes").iter();
    all.filter(|p| p["command"][0] == first && p["samples"].as_u64() > Some(0) && p["pid"].is_u64())
        .collect()
}

/// Returns the report of one process.
fn of(dir: &Dir, process: &Value) -> Value {
    let pid = process["pid"].to_string();
    dir.json(&["report", "m.data", "--json", "--pid", &pid])["samples"].clone()
}

#[test]
fn hot_functions_have_their_share_and_registers_their_values() {
    let Some(dir) = stage("hot") else { return };
    let report = recorded(&dir, &["--rate", "2000", "--", "./busy", "3000"]);
    let found = processes(&report, "./busy");
    let [busy] = found[..] else {
        panic!("{found:?}");
    };
    let samples = of(&dir, busy);
    let function = |name: &str| {
        let all = list(&samples, "functions").iter();
        all.clone()
            .find(|f| f["function"] == name)
            .unwrap_or_else(|| panic!("{samples}"))
            .clone()
    };
    let (hot, warm) = (function("hot"), function("warm"));
    let real = |value: &Value, name: &str| value[name].as_f64().expect("a number");
    // What the kernel does meanwhile, such as interrupts of a loaded machine, is its own and no error.
    let (of_hot, of_warm) = (real(&hot, "samples"), real(&warm, "samples"));
    let all = list(&samples, "functions").iter();
    let of_program = all.filter(|f| f["of"] == "program");
    let of_program: f64 = of_program.map(|f| real(f, "samples")).sum();
    assert!(of_hot + of_warm > 0.98 * of_program, "{samples}");
    assert!(of_program > 300.0, "{samples}");
    // Three of four, within what so many draws can differ by, five times the standard error, and one in a hundred.
    let share = of_hot / (of_hot + of_warm);
    let slack = 5.0 * (0.75 * 0.25 / (of_hot + of_warm)).sqrt() + 0.01;
    assert!((share - 0.75).abs() < slack, "{share} {slack}");
    let (low, high) = (real(&hot, "share_low"), real(&hot, "share_high"));
    assert!(
        low < real(&hot, "share") && real(&hot, "share") < high,
        "{hot}"
    );
    assert!(high - low < 0.2, "{hot}");
    // `add %rsi, …` reads the key.
    let at_hot = list(&samples, "instructions")
        .iter()
        .filter(|i| i["at"]["function"] == "hot");
    let rsi: Vec<&Value> = at_hot
        .flat_map(|i| list(i, "operands"))
        .filter(|o| o["operand"] == "rsi" && o["samples"].as_u64() > Some(20))
        .collect();
    assert!(
        !rsi.is_empty(),
        "no sample at the instruction that reads the key"
    );
    for operand in rsi {
        assert_eq!(operand["top"][0]["value"].as_u64(), Some(KEY), "{operand}");
        assert!(real(&operand["top"][0], "share") > 0.999, "{operand}");
    }
    // The other commands show it, too.
    let values = dir.json(&["values", "m.data", "--json", "--module", "busy"]);
    let key = list(&values, "operands")
        .iter()
        .find(|o| o["operand"] == "rsi" && o["value"] == KEY);
    assert!(
        key.is_some_and(|o| o["at"]["function"] == "hot"),
        "{values}"
    );
    // Processes have the time of their samples.
    let by = dir.trommel(&["report", "--by", "process", "m.data"]);
    let by = String::from_utf8(by).expect("UTF-8");
    let row = by.lines().find(|line| line.contains("./busy 3000"));
    let time = row.and_then(|row| row.split_whitespace().next());
    assert!(time.is_some_and(|time| time != "-"), "{by}");
    let annotated = dir.trommel(&["annotate", "m.data", "busy:hot"]);
    let text = String::from_utf8(annotated).expect("UTF-8");
    assert!(
        text.contains("rsi=0x1234567") && text.contains("imul"),
        "{text}"
    );
    let json = dir.json(&["annotate", "m.data", "--json", "busy:hot"]);
    let shares = list(&json, "instructions")
        .iter()
        .map(|i| real(i, "share_of_function"));
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-3, "{json}");
}

#[test]
fn moments_of_the_machine_name_what_runs() {
    let Some(dir) = stage("moments") else { return };
    let mut busy = Command::new(dir.0.join("busy"))
        .arg("1000000")
        .spawn()
        .expect("starts");
    let args = [
        "top", "--all", "--json", "-n", "3", "-d", "0.5", "--budget", "5",
    ];
    let lines = String::from_utf8(dir.trommel(&args)).expect("UTF-8");
    busy.kill().expect("killed");
    busy.wait().expect("ended");
    let moments: Vec<Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(moments.len(), 3);
    let real = |value: &Value| value.as_f64().expect("a number");
    let mut samples = 0.0;
    for moment in &moments {
        assert_eq!(
            (&moment["schema"], &moment["unit"]),
            (&"trommel.top/1".into(), &"ns".into())
        );
        let own: f64 = list(moment, "functions")
            .iter()
            .map(|f| real(&f["self"]))
            .sum();
        assert!(own <= 1.001 * real(&moment["total"]), "{moment}");
        samples += real(&moment["samples"]);
    }
    assert!(samples > 0.0);
    // In one moment or another, on a loaded machine too.
    let has = |moment: &Value| {
        let process = list(moment, "processes")
            .iter()
            .any(|p| p["pid"] == busy.id());
        process && list(moment, "functions").iter().any(|f| f["name"] == "hot")
    };
    assert!(moments.iter().any(has), "{moments:?}");
}

#[test]
fn the_kernel_is_seen_in_programs_that_make_system_calls() {
    let Some(dir) = stage("kernel") else { return };
    let dd = [
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1",
        "count=3000000",
    ];
    let report = recorded(&dir, &[&["--rate", "2000", "--"], &dd[..]].concat());
    // Other tests run programs of that name too.
    let found = processes(&report, "dd").into_iter();
    let found: Vec<_> = found.filter(|p| p["command"][4] == dd[4]).collect();
    let [process] = found[..] else {
        panic!("{found:?}");
    };
    let samples = of(&dir, process);
    let kernel = |f: &&Value| f["of"] == "kernel";
    let shares = list(&samples, "functions").iter().filter(kernel);
    let share: f64 = shares.map(|f| f["share"].as_f64().unwrap_or(0.0)).sum();
    assert!((0.2..1.0).contains(&share), "{share} of {samples}");
    // All of it came from somewhere: the instructions after two system calls, mostly.
    let entered = list(&samples, "entered");
    let first = entered
        .iter()
        .take(2)
        .map(|e| e["share"].as_f64().unwrap_or(0.0));
    let first: f64 = first.sum();
    assert!(first > 0.8 * share, "{first} of {share}: {entered:?}");
    let missing = list(&samples, "missing").iter();
    if missing
        .filter_map(Value::as_str)
        .any(|what| what.starts_with("functions of the kernel"))
    {
        return not_tested("names of the kernel: it hides its functions");
    }
    let mut names = list(&samples, "functions").iter().filter(kernel);
    assert!(
        names.any(|f| f["function"] == "vfs_read" || f["function"] == "vfs_write"),
        "{samples}"
    );
    let (taken, kernel) = (
        report["samples"]["taken"].as_u64(),
        report["samples"]["in_kernel"].as_u64(),
    );
    assert!(kernel > Some(0) && taken > kernel, "{taken:?} {kernel:?}");
}

#[test]
fn programs_that_begin_and_execute_others_are_told_apart() {
    let Some(dir) = stage("exec") else { return };
    // One that forks and waits; a child that becomes the program; and the shell that becomes it in the end.
    let script =
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; ./busy 1000 & wait; exec ./busy 1001";
    let report = recorded(&dir, &["--rate", "1000", "--", "sh", "-c", script]);
    let shells = processes(&report, "sh");
    let busy = processes(&report, "./busy");
    assert!(!shells.is_empty() && busy.len() == 2, "{shells:?} {busy:?}");
    let last = busy
        .iter()
        .find(|b| b["command"][1] == "1001")
        .expect("the shell itself");
    let first = busy
        .iter()
        .find(|b| b["command"][1] == "1000")
        .expect("a child");
    assert_eq!(first["parent"], last["pid"], "{first} {last}");
    let before = shells
        .iter()
        .find(|s| s["pid"] == last["pid"])
        .expect("what it was before");
    assert_eq!(
        (&before["ended"], &last["ended"]),
        (&Value::from("exec"), &Value::Null)
    );
    // What the child executed is its own, not the shell's.
    let samples = of(&dir, first);
    assert_eq!(samples["functions"][0]["function"], "hot", "{samples}");
}

#[test]
fn what_a_ring_has_no_room_for_is_counted() {
    let Some(dir) = stage("lost") else { return };
    let out = record(&dir, "ring=1", &["--rate", "5000", "--", "./busy", "1000"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    // As many as were told: how many that is depends on how soon the ring is read.
    let (before, _) = said
        .split_once(" RECORDS FOR WANT OF ROOM")
        .unwrap_or_else(|| panic!("{said}"));
    let told = before.rsplit("lost: ").next().expect("a number");
    let told: u64 = told.replace(' ', "").parse().expect("a number");
    let report = dir.json(&["report", "m.data", "--json"]);
    assert!(told > 0, "{said}");
    assert_eq!(report["samples"]["lost_records"], told);
}

#[test]
fn a_budget_is_kept_and_the_profile_is_its_owners() {
    let Some(dir) = stage("budget") else { return };
    let report = recorded(&dir, &["--budget", "1", "--duration", "4"]);
    let samples = &report["samples"];
    let paid = samples["paid_percent"].as_f64().expect("a number");
    assert!((0.01..1.6).contains(&paid), "{samples}");
    assert_eq!(samples["budget_percent"].as_f64(), Some(1.0));
    let wall = samples["wall_ns"].as_u64().expect("a number");
    assert!((4_000_000_000..8_000_000_000).contains(&wall), "{wall}");
    let mode = std::fs::metadata(dir.0.join("m.data"))
        .expect("there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn the_programs_end_is_the_commands() {
    let Some(dir) = stage("end") else { return };
    let ended = |words: &[&str]| record(&dir, "", &[&["--"], words].concat()).status;
    assert_eq!(ended(&["sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(
        ended(&["sh", "-c", "kill -TERM $$"]).signal(),
        Some(libc::SIGTERM)
    );
    assert_eq!(ended(&["./not-there"]).code(), Some(127));
    assert_eq!(ended(&["not-there-either"]).code(), Some(127));
    assert_eq!(ended(&["./busy.c"]).code(), Some(126));
}

#[test]
fn an_interrupt_or_the_time_ends_it_and_nothing_else() {
    let Some(dir) = stage("interrupt") else {
        return;
    };
    let mut trommel = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["record", "--all", "--quiet", "-o", "m.data"])
        .current_dir(&dir.0)
        .spawn()
        .expect("trommel runs");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(trommel.try_wait().expect("own child").is_none());
    // SAFETY: a process of this test's own, which has not been waited for.
    unsafe { libc::kill(trommel.id() as i32, libc::SIGINT) };
    assert_eq!(trommel.wait().expect("ends").code(), Some(0));
    let report = dir.json(&["report", "m.data", "--json"]);
    assert!(
        report["samples"]["taken"].as_u64() > Some(0),
        "{}",
        report["samples"]
    );
    // A program that goes on longer is waited for.
    let began = Instant::now();
    let out = record(
        &dir,
        "",
        &["--duration", "0.5", "--", "sh", "-c", "sleep 2; exit 5"],
    );
    assert_eq!(out.status.code(), Some(5));
    assert!(began.elapsed() > Duration::from_secs(2));
    let report = dir.json(&["report", "m.data", "--json"]);
    let wall = report["samples"]["wall_ns"].as_u64().expect("a number");
    assert!((500_000_000..1_900_000_000).contains(&wall), "{wall}");
}

#[test]
fn who_may_not_is_told_what_is_missing() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level: i32 = level
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(2);
    if level < 0 {
        return not_tested(format_args!(
            "a refusal of samples: kernel.perf_event_paranoid is {level}"
        ));
    }
    let dir = Dir::new("machine-nobody");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&dir.0, everybody).expect("own directory");
    // Somebody without capabilities, if we are not.
    let nobody = ["--reuid", "65534", "--clear-groups", "--inh-caps=-all"];
    let out = Command::new("setpriv")
        .args(nobody)
        .arg(env!("CARGO_BIN_EXE_trommel"))
        .args(["record", "--all", "--duration", "1", "-o", "m.data"])
        .current_dir(&dir.0)
        .output();
    let out = out.expect("setpriv, of util-linux");
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("setpriv:") {
        return not_tested(format_args!("a refusal of samples: {}", said.trim()));
    }
    assert_eq!(out.status.code(), Some(1), "{said}");
    for part in [
        "refuses samples of the whole machine",
        "CAP_PERFMON",
        "kernel.perf_event_paranoid",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!dir.0.join("m.data").exists());
}
