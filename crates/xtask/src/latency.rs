//! How long a signal takes to its handler, natively and under trommel: in a tight loop, in code
//! without branches, in a blocked system call, while the thread waits for a host that does not
//! run, and while code is translated.
//!
//! The program and the sender are `latency.c`; both run natively but for the program under trommel.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use trommel_conformance::exec::Scratch;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/latency.c");

/// What is measured: the program's mode, the events, whether the host is stopped, stress options.
const CASES: [(&str, Option<&str>, bool, &str); 14] = [
    ("loop", None, false, ""),
    ("loop", Some("none"), false, ""),
    ("loop", Some("edge,call,value"), false, ""),
    ("straight", None, false, ""),
    ("straight", Some("none"), false, ""),
    ("straight", Some("edge,call,value"), false, ""),
    ("blocked", None, false, ""),
    ("blocked", Some("none"), false, ""),
    ("blocked", Some("edge,call,value"), false, ""),
    ("loop", Some("edge,call,value"), true, ""),
    ("fresh", None, false, ""),
    ("fresh", Some("none"), false, ""),
    ("fresh", Some("none"), false, "pages=64"),
    ("fresh", Some("edge,call,value"), false, "pages=64"),
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let samples = match args {
        [] => 2000,
        [n] => (n.parse::<usize>().ok())
            .filter(|n| (1..=1 << 16).contains(n))
            .ok_or("latency: a number of samples, up to 65536")?,
        _ => return Err("usage: cargo xtask latency [SAMPLES]".into()),
    };
    let bin = super::trommel()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("latency");
    let built = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(SOURCE)
        .status();
    if !built.is_ok_and(|s| s.success()) {
        return Err(format!("cc cannot build {SOURCE}"));
    }
    println!("| program | events | median µs | 99 % | largest |\n|---|---|---|---|---|");
    for (n, (mode, events, stopped, stress)) in CASES.into_iter().enumerate() {
        let file = scratch.path(&format!("shared{n}"));
        let took = measure(bin, &program, mode, events, stopped, stress, &file, samples)?;
        let what = match (stopped, stress) {
            (true, _) => format!("{mode}, the host stopped"),
            (_, "") => mode.to_owned(),
            (..) => format!("{mode}, `{stress}`"),
        };
        let events = events.map_or("native".into(), |e| format!("`-e {e}`"));
        println!("| {what} | {events} | {} |", took.replace(' ', " | "));
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "one row of the table")]
fn measure(
    bin: &Path,
    program: &Path,
    mode: &str,
    events: Option<&str>,
    stopped: bool,
    stress: &str,
    file: &Path,
    samples: usize,
) -> Result<String, String> {
    let mut command = match events {
        None => Command::new(program),
        Some(events) => {
            let mut command = Command::new(bin);
            let data = file.with_extension("data");
            (command
                .args(["record", "--quiet", "-e", events, "-o"])
                .arg(data))
            .arg("--");
            command.arg(program).env("TROMMEL_STRESS", stress);
            command
        }
    };
    let mut target = command
        .args(["target", mode])
        .arg(file)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    while !std::fs::metadata(file).is_ok_and(|m| m.len() > 0) {
        std::thread::sleep(Duration::from_millis(1));
        if let Ok(Some(status)) = target.try_wait() {
            return Err(format!("{mode}: the program ended with {status}"));
        }
    }
    let mut send = Command::new(program);
    send.arg("send").arg(file).arg(samples.to_string());
    if stopped {
        send.arg(target.id().to_string());
    }
    let sent = send.output().map_err(|e| e.to_string())?;
    let _ = target.wait();
    let text = String::from_utf8_lossy(&sent.stdout).trim().to_owned();
    if sent.status.success() {
        Ok(text)
    } else {
        Err(format!(
            "{mode}: a signal was not delivered within 5 seconds"
        ))
    }
}
