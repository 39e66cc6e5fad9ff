//! `trommel top`, on a terminal of the test's own: what is on the screen, at several sizes, with keys and without colours.

mod common;
#[path = "common/compile.rs"]
mod compile;
#[path = "common/pty.rs"]
mod pty;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use common::Dir;
use compile::compile;
use pty::Pty;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

/// Executes `hot` three times as long as `warm`, until it is ended.
const BUSY: &str = r#"
static volatile int table[4096];
__attribute__((noinline)) int hot(int n) { int s = 0; for (int i = 0; i < n; i++) { s += table[i & 4095] * 7; if (s & 64) s ^= i; } return s; }
__attribute__((noinline)) int warm(int n) { int s = 1; for (int i = 0; i < n; i++) s = s * 31 + table[7]; return s; }
int main(void) { int s = 0; for (;;) s += hot(30000) + warm(10000); return s; }
"#;

fn busy(name: &str) -> Dir {
    let dir = Dir::new(name);
    compile(&dir.0, "busy", &["-O1"], BUSY);
    dir
}

/// The command on a terminal.
struct Terminal {
    pty: Pty,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All that was written to it.
    written: Vec<u8>,
    command: Child,
}

impl Terminal {
    fn start(dir: &Dir, size: (u16, u16), no_color: bool) -> Self {
        let program = ["--budget", "5", "--", "./busy"];
        Self::begin(dir, size, no_color, &program)
    }

    /// The command with these options.
    fn of(dir: &Dir, size: (u16, u16), options: &[&str]) -> Self {
        Self::begin(dir, size, false, options)
    }

    fn begin(dir: &Dir, size: (u16, u16), no_color: bool, options: &[&str]) -> Self {
        let pty = Pty::new(size);
        // It gets the terminal as its own, so that a change of size reaches it.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_trommel")])
            .args(["top", "--delay", "0.5"])
            .args(options)
            .current_dir(&dir.0)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(pty.stream())
            .stdout(pty.stream())
            .stderr(pty.stream());
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let command = command.spawn().expect("starts");
        Self {
            output: pty.output(),
            pty,
            screen: vt100::Parser::new(size.1, size.0, 0),
            written: Vec::new(),
            command,
        }
    }

    fn resize(&mut self, (columns, lines): (u16, u16)) {
        self.screen.screen_mut().set_size(lines, columns);
        self.pty.resize((columns, lines));
    }

    fn press(&mut self, keys: &str) {
        self.pty
            .keyboard
            .write_all(keys.as_bytes())
            .expect("written");
    }

    /// Waits for a screen that is `so`, and returns its lines.
    fn until(&mut self, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            let screen = self.screen.screen();
            let lines: Vec<String> = screen.rows(0, screen.size().1).collect();
            if so(&lines) {
                return lines;
            }
            let late = began.elapsed() > Duration::from_secs(120);
            assert!(!late, "{what}:\n{}", lines.join("\n"));
            match self.output.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => {
                    self.screen.process(&bytes);
                    self.written.extend(bytes);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("it ended: {}", lines.join("\n")),
            }
        }
    }
}

impl Terminal {
    /// CPU time of the process that has the terminal, without those that it started.
    fn cpu(&self) -> Duration {
        // `setsid` is it, or has started it.
        let pid = self.command.id().to_string();
        let started = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let started = started.expect("children");
        let all = std::iter::once(&*pid).chain(started.split_whitespace());
        let own = std::fs::canonicalize(env!("CARGO_BIN_EXE_trommel")).ok();
        let is = |pid: &&str| std::fs::read_link(format!("/proc/{pid}/exe")).ok() == own;
        let pid = all.into_iter().find(is).expect("the command");
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
        let times = tasks.flatten().map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).expect("a thread");
            let time = text.split(' ').next().and_then(|time| time.parse().ok());
            Duration::from_nanos(time.expect("a time"))
        });
        times.sum()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where a test fails: the command ends with its terminal.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

fn has(lines: &[String], parts: &[&str]) -> bool {
    let has = |part: &&str| lines.iter().any(|line| line.contains(*part));
    parts.iter().all(has)
}

/// Returns true if the frame is where it should be, and the chosen row is the hottest.
fn is_whole(lines: &[String]) -> bool {
    let last = lines.last().is_some_and(|line| line.contains("q quit"));
    let chosen = lines.iter().find(|line| line.starts_with('>'));
    last && lines[0].contains("trommel top: ./busy") && chosen.is_some_and(|l| l.contains(" hot "))
}

#[test]
fn screens_fit_every_size_and_keys_choose() {
    let dir = busy("top-screens");
    let mut top = Terminal::start(&dir, (80, 24), false);
    let lines = top.until("functions", |lines| {
        is_whole(lines) && has(lines, &["[functions]", " warm ", "cost ", "windows in"])
    });
    assert_eq!(lines.len(), 24);
    // No canonical input, so keys come at once.
    let modes = |top: &Terminal| tcgetattr(&top.pty.keyboard).expect("modes").local_modes;
    assert!(!modes(&top).contains(LocalModes::ICANON));
    top.press("b");
    top.until("branches", |lines| {
        has(lines, &["[branches]", "taken", "hot+"])
    });
    top.press("v");
    top.until("values", |lines| has(lines, &["[values]", "0 100.0%"]));
    top.press("c\t\t");
    top.until("the next table", |lines| has(lines, &["[processes]"]));
    top.press("h");
    top.until("help", |lines| has(lines, &["sort by another column"]));
    top.press("qf");
    top.until("functions again", |lines| {
        has(lines, &["[functions]", "by self"])
    });
    top.press("s");
    top.until("another order", |lines| has(lines, &["by calls"]));
    top.press("s\x1b[B");
    // By name the second of two is chosen.
    top.until("the second row", |lines| {
        has(lines, &["by name"])
            && lines
                .iter()
                .any(|l| l.starts_with('>') && !l.contains(" hot "))
    });
    top.press("\x1b[Hs");
    for size in [(120, 30), (200, 40), (80, 10)] {
        top.resize(size);
        let lines = top.until("another size", is_whole);
        assert_eq!(lines.len(), usize::from(size.1));
    }
    assert!(top.written.windows(4).any(|w| w == b"\x1b[7m"), "reverse");
    top.press("q");
    let ended = top.command.wait().expect("ends");
    assert!(ended.success(), "{ended}");
    top.until("the screen from before", |_| true);
    assert!(modes(&top).contains(LocalModes::ICANON), "as before");
    // The program ends with what has started it.
    let program = std::fs::canonicalize(dir.0.join("busy")).expect("a path");
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let running = processes
        .filter_map(|entry| std::fs::read_link(entry.path().join("exe")).ok())
        .any(|path| path == program);
    assert!(!running, "the program goes on");
}

/// Screens are paid from the budget: each is made once.
#[test]
fn a_screen_that_stays_takes_no_time() {
    let dir = busy("top-still");
    let mut top = Terminal::start(&dir, (80, 24), false);
    top.until("a sum of moments", |lines| {
        has(lines, &["windows in 2."]) || has(lines, &["windows in 3."])
    });
    top.press(" ");
    top.until("the pause", |lines| has(lines, &["paused"]));
    let (before, began) = (top.cpu(), Instant::now());
    std::thread::sleep(Duration::from_millis(700));
    let share = (top.cpu() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    // Moments are still received. A screen every tenth of a second took a multiple of this.
    assert!(share < 0.004, "{:.2} % of a processor", 100.0 * share);
    top.press("q");
    assert!(top.command.wait().expect("ends").success());
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let dir = busy("top-gone");
    let mut pty = Pty::new((80, 24));
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["top", "--delay", "0.5", "--", "./busy"])
        .current_dir(&dir.0)
        .env("TERM", "xterm-256color")
        .stdin(pty.stream())
        .stdout(pty.stream())
        .stderr(pty.stream())
        .spawn()
        .expect("starts");
    let mut screen = vt100::Parser::new(24, 80, 0);
    while !screen.screen().contents().contains("functions") {
        let mut bytes = [0; 4096];
        let count = pty.keyboard.read(&mut bytes).expect("a screen");
        screen.process(&bytes[..count]);
    }
    // No signal comes, as it is not the command's own terminal.
    drop(pty);
    let began = Instant::now();
    while command.try_wait().expect("a child").is_none() {
        if began.elapsed() > Duration::from_secs(30) {
            let _ = command.kill();
            panic!("it goes on without a terminal");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Who quits while there are no counts yet has seen that: it is no failure.
#[test]
fn it_is_quit_before_anything_is_counted() {
    let dir = Dir::new("top-early");
    for (key, options) in [
        ("q", &["--", "sleep", "100"][..]),
        ("\x04", &["-c", "M4[10k,1%]2048", "--", "sleep", "100"]),
    ] {
        let mut top = Terminal::of(&dir, (80, 24), options);
        top.until("no counts", |rows| {
            rows.iter().any(|row| row.contains("no counts yet"))
        });
        top.press(key);
        let ended = top.command.wait().expect("ends");
        assert!(ended.success(), "{options:?}");
    }
}

#[test]
fn without_colours_nothing_has_attributes() {
    let dir = busy("top-plain");
    let mut top = Terminal::start(&dir, (80, 24), true);
    top.until("functions", is_whole);
    top.press("\x03");
    assert!(top.command.wait().expect("ends").success());
    let text = String::from_utf8_lossy(&top.written).into_owned();
    let sequences = text.split("\x1b[").skip(1);
    for sequence in sequences {
        let end = sequence.find(|c: char| !c.is_ascii_digit() && c != ';' && c != '?');
        let attribute = end.is_some_and(|at| sequence[at..].starts_with('m'));
        assert!(!attribute, "{sequence:?}");
    }
}

#[test]
fn one_screen_and_lines_of_json_need_no_terminal() {
    let dir = busy("top-text");
    let text = dir.trommel(&["top", "--once", "--budget", "5", "--", "./busy"]);
    let text = String::from_utf8(text).expect("UTF-8");
    for part in [
        "# ./busy",
        "cost ",
        "# functions",
        " hot ",
        "# branches",
        "# values",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let one = dir.json(&["top", "--json", "-n", "1", "--", "./busy"]);
    assert_eq!(
        (&one["schema"], &one["command"]),
        (&"trommel.top/1".into(), &"./busy".into())
    );
    let mut program = Command::new(dir.0.join("busy"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let pid = program.id().to_string();
    let args = [
        "top", "--json", "-n", "2", "-d", "0.5", "--budget", "5", "-p", &pid,
    ];
    let lines = String::from_utf8(dir.trommel(&args)).expect("UTF-8");
    let moments: Vec<Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    // It was detached, and goes on.
    assert!(matches!(program.try_wait(), Ok(None)));
    program.kill().expect("ends");
    program.wait().expect("ended");
    assert_eq!(moments.len(), 2);
    for moment in &moments {
        assert_eq!(moment["schema"], "trommel.top/1");
        assert_eq!(moment["unit"], "cycles");
    }
    let functions = moments[1]["functions"].as_array().expect("functions");
    assert!(
        functions.iter().any(|f| f["name"] == "hot"),
        "{}",
        moments[1]
    );
    assert!(moments[1]["wall_ns"].as_u64() > Some(0));
}

/// Executes `adds` until there is a file `second`, and `walks` until there is a file `third`.
const PHASES: &str = r#"
#include <unistd.h>
static volatile unsigned sink;
__attribute__((noinline)) static void adds(void) { for (unsigned i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) static void walks(void) {
  for (unsigned i = 1; i < 400; i++) for (unsigned x = i; x != 1; ) x = x & 1 ? 3 * x + 1 : x / 2;
}
int main(void) {
  while (access("second", F_OK)) for (int n = 0; n < 50; n++) adds();
  while (access("third", F_OK)) for (int n = 0; n < 50; n++) walks();
}
"#;

/// Functions of an interval's candidates, most frequent first.
fn functions(interval: &Value) -> Vec<&str> {
    let all = interval["candidates"].as_array().expect("candidates");
    all.iter().filter_map(|c| c["function"].as_str()).collect()
}

/// Tests that candidates are those of the phase that is under way, whoever counts: generated code, or the service thread.
#[test]
fn candidates_follow_the_phase_that_is_under_way() {
    let dir = Dir::new("top-phases");
    compile(&dir.0, "phases", &["-O1"], PHASES);
    for (spec, thread) in [("M4[10k,1%]2048", 1.into()), ("S4[10k,1%]512", Value::Null)] {
        for name in ["second", "third"] {
            let _ = std::fs::remove_file(dir.0.join(name));
        }
        let mut top = Command::new(env!("CARGO_BIN_EXE_trommel"))
            .args(["top", "--json", "-d", "0.2", "-c", spec, "--", "./phases"])
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
        let mut moments = lines
            .map(|line| -> Value { serde_json::from_str(&line.expect("a line")).expect("JSON") });
        let latest = |moment: &Value| moment["intervals"]["latest"][0].clone();
        // Other code runs before the first phase, and while one ends.
        let until = |moments: &mut dyn Iterator<Item = Value>, function: &str| {
            let found = moments.take(300).map(|moment| latest(&moment));
            let mut found = found.filter(|latest| !latest.is_null());
            found.find(|latest| functions(latest).first() == Some(&function))
        };
        let first = until(&mut moments, "adds").expect("the first phase");
        assert_eq!(first["thread"], thread);
        assert_eq!(first["events"], 10_000);
        assert_eq!(functions(&first), ["adds"], "{first}");
        assert!(
            first["candidates"][0]["share"].as_f64() > Some(0.9),
            "{first}"
        );
        std::fs::write(dir.0.join("second"), "").expect("a file");
        let second = until(&mut moments, "walks").expect("the second phase");
        assert!(functions(&second).iter().all(|f| *f == "walks"), "{second}");
        let number = |interval: &Value| interval["interval"].as_u64();
        assert!(number(&second) > number(&first));
        assert!(second["ended_ns_ago"].as_u64() < Some(5_000_000_000));
        // The program ends by itself: what is under control need not be detached.
        std::fs::write(dir.0.join("third"), "").expect("a file");
        let last = moments.last().expect("a last moment");
        assert!(functions(&latest(&last)).contains(&"walks"), "{last}");
        assert!(top.wait().expect("ends").success());
    }
}

/// Tests the screen of candidates, as text and on a terminal.
#[test]
fn the_last_interval_is_on_the_screen() {
    let dir = busy("top-intervals");
    let once = |spec: &str| {
        let args = ["top", "--once", "-d", "0.2", "-c", spec, "--", "./busy"];
        String::from_utf8(dir.trommel(&args)).expect("UTF-8")
    };
    let text = once("M4[100k,1%]2048");
    for part in [
        "# ./busy",
        "interval ",
        " ago",
        "# candidates",
        " edge ",
        " hot+",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("# functions"), "{text}");
    let text = once("M4[1000M,1%]2048");
    assert!(
        text.contains("no interval has ended yet") && !text.contains("# cand"),
        "{text}"
    );
    let mut top = Terminal::of(&dir, (80, 24), &["-c", "M4[100k,1%]2048", "--", "./busy"]);
    let lines = top.until("candidates", |lines| {
        has(
            lines,
            &["[candidates]", " hot+", "interval ", " ago", "q quit"],
        )
    });
    assert_eq!(lines.len(), 24);
    top.press("h");
    top.until("help", |lines| {
        has(lines, &["last interval that has ended"])
    });
    top.press("qq");
    assert!(top.command.wait().expect("ends").success());
}

#[test]
fn what_cannot_be_shown_is_said_in_words() {
    let dir = busy("top-refused");
    let refused = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
            .arg("top")
            .args(args)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        assert!(out.stdout.is_empty());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code(), said)
    };
    let (status, said) = refused(&["--", "./busy"]);
    assert!(
        status == Some(1) && said.contains("no terminal") && said.contains("--once"),
        "{said}"
    );
    let (status, said) = refused(&["--once", "--", "./missing"]);
    assert!(status == Some(127) && said.contains("missing"), "{said}");
    let (status, said) = refused(&["--once", "--", "true"]);
    assert!(
        status == Some(1) && said.contains("trommel record"),
        "{said}"
    );
    let (_, said) = refused(&["--once", "-c", "P257", "--", "./busy"]);
    assert!(
        said.contains("interval profiler") && said.contains("M4["),
        "{said}"
    );
    let (_, said) = refused(&[
        "--once",
        "-c",
        "M4[10k,1%]2048",
        "-e",
        "latency",
        "--",
        "./busy",
    ]);
    assert!(said.contains("latency") && said.contains("edge"), "{said}");
    let mut sleeping = Command::new("sleep");
    let sleeping = sleeping
        .arg("60")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut idle = sleeping.spawn().expect("starts");
    let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["top", "--once", "-d", "0.2", "-p", &idle.id().to_string()])
        .stdin(Stdio::null())
        .output();
    idle.kill().expect("killed");
    idle.wait().expect("ended");
    let said = String::from_utf8_lossy(&out.expect("runs").stderr).into_owned();
    assert!(said.contains("sleeps"), "{said}");
    let (status, said) = refused(&["--once", "-p", "999999999"]);
    assert!(status == Some(1) && said.contains("999999999"), "{said}");
}
