//! Time from a signal to its handler, natively and under trommel: in a tight loop, in code
//! without branches, in a blocked system call, while the thread waits for a host that does not
//! run, and while code is translated. Then the cost of signals for a program that lives by them.
//!
//! The program and the sender are `latency.c`; both run natively but for the program under trommel.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{cc, trommel};
use trommel_conformance::exec::Scratch;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/measure/latency.c");

/// A row of the table.
#[derive(Clone, Copy)]
struct Case {
    /// The program's task.
    mode: &'static str,
    /// The events; natively without.
    events: Option<&'static str>,
    /// True while the host is stopped.
    stopped: bool,
    /// Stress options.
    stress: &'static str,
}

const fn case(mode: &'static str, events: Option<&'static str>) -> Case {
    Case {
        mode,
        events,
        stopped: false,
        stress: "",
    }
}

const ALL: Option<&str> = Some("edge,call,value");
const NONE: Option<&str> = Some("none");

const CASES: [Case; 14] = [
    case("loop", None),
    case("loop", NONE),
    case("loop", ALL),
    case("straight", None),
    case("straight", NONE),
    case("straight", ALL),
    case("blocked", None),
    case("blocked", NONE),
    case("blocked", ALL),
    Case {
        stopped: true,
        ..case("loop", ALL)
    },
    case("fresh", None),
    case("fresh", NONE),
    Case {
        stress: "pages=64",
        ..case("fresh", NONE)
    },
    Case {
        stress: "pages=64",
        ..case("fresh", ALL)
    },
];

/// Measures how long signals take to their handlers, and what they cost.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure latency 400")]
pub(crate) struct Args {
    /// Signals of each kind, up to 65536.
    #[arg(default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    samples: u32,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let samples = args.samples;
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("latency");
    cc(&["-O2"], Path::new(SOURCE), &program)?;
    println!("| program | events | median µs | 99 % | largest |\n|---|---|---|---|---|");
    for (n, case) in CASES.into_iter().enumerate() {
        let file = scratch.path(&format!("shared{n}"));
        let took = measure(bin, &program, case, &file, samples)?;
        let Case { mode, stress, .. } = case;
        let what = match (case.stopped, stress) {
            (true, _) => format!("{mode}, the host stopped"),
            (_, "") => mode.to_owned(),
            (..) => format!("{mode}, `{stress}`"),
        };
        println!(
            "| {what} | {} | {} |",
            case.label(),
            took.replace(' ', " | ")
        );
    }
    println!(
        "\n| events | faults of a write barrier a second | µs a signal of a 10 kHz timer |\n|---|---|---|"
    );
    for events in [None, NONE, Some("edge,call"), ALL] {
        let rate = case("rates", events);
        let mut command = rate.command(bin, &program, &scratch.path("rates"));
        let done = command.arg("rates").output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Err(format!("rates: the program ended with {}", done.status));
        }
        let text = String::from_utf8_lossy(&done.stdout);
        println!("| {} | {} |", rate.label(), text.trim().replace(' ', " | "));
    }
    Ok(())
}

impl Case {
    fn label(self) -> String {
        self.events.map_or("native".into(), |e| format!("`-e {e}`"))
    }

    /// The program, as the case says; `file` names what belongs to it.
    fn command(self, bin: &Path, program: &Path, file: &Path) -> Command {
        let Some(events) = self.events else {
            return Command::new(program);
        };
        let mut command = Command::new(bin);
        command
            .args(["record", "--quiet", "-e", events, "-c", "exact", "-o"])
            .arg(file.with_extension("data"))
            .arg("--")
            .arg(program)
            .env("TROMMEL_STRESS", self.stress);
        command
    }
}

fn measure(
    bin: &Path,
    program: &Path,
    case: Case,
    file: &Path,
    samples: u32,
) -> Result<String, String> {
    let Case { mode, stopped, .. } = case;
    let mut command = case.command(bin, program, file);
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
