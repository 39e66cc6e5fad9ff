//! Signals to the program, to trommel and to both, at random moments.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trommel_conformance::not_tested::not_tested;

use crate::Test;
use crate::harness::{Chance, LIMIT, Place, program, send};

pub(crate) const TESTS: &[Test] = &[
    ("interrupt: Ctrl-C while it runs", |bin| {
        ended_by("INT", 2, To::Group, bin)
    }),
    ("interrupt: SIGTERM to trommel", |bin| {
        ended_by("TERM", 15, To::Trommel, bin)
    }),
    ("interrupt: SIGHUP to trommel", |bin| {
        ended_by("HUP", 1, To::Trommel, bin)
    }),
    ("interrupt: kill -9 of the program", |bin| {
        ended_by("KILL", 9, To::Program, bin)
    }),
    ("interrupt: any signal while it starts", at_the_start),
    ("interrupt: twice", twice),
    ("interrupt: a program that handles it", handled),
    ("interrupt: any signal that the program handles", relayed),
    ("interrupt: a timer armed before the start", timer),
    (
        "interrupt: started with signals ignored or blocked",
        inherited,
    ),
    ("interrupt: a program that stops itself", stops_itself),
    ("interrupt: kill -9 of trommel", host_killed),
    (
        "interrupt: kill -9 of trommel, stream and compressor",
        host_killed_streaming,
    ),
];

/// Says its number, counts its turns where everybody can see them, and ends by itself.
const COUNTER: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long *turns;
static volatile int asked;
static void on_signal(int n) { asked = n; }
__attribute__((noipa)) static unsigned long turn(unsigned long x) { return x * 6364136223846793005ul + 1; }
int main(int argc, char **argv) {
  unsigned long most = strtoul(argv[1], 0, 0), x = 1;
  if (argc > 3) signal(SIGTERM, on_signal), signal(SIGINT, on_signal);
  int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || ftruncate(fd, 4096)) return 9;
  turns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  printf("%d\n", (int)getpid());
  fflush(stdout);
  while (*turns < most && !asked) { x = turn(x); *turns = *turns + 1; if (*turns % 500000 == 0) { printf("%lx\n", x); usleep(5000); } }
  if (asked) { printf("asked\n"); return 5; }
  printf("%lx done\n", x);
  return 3;
}
"#;

const MIXES: [&str; 4] = ["none", "edge,call", "call", "edge,call,value,type"];
const ROUNDS: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum To {
    Group,
    Trommel,
    Program,
}

/// A recording of [`COUNTER`], with `options`.
struct Run {
    place: Place,
    child: Child,
}

impl Run {
    fn start(bin: &Path, options: &[&str], turns: u64, handles: bool) -> Result<Self, String> {
        let place = Place::new(bin)?;
        let app = program("counter", COUNTER)?;
        let (app, turns) = (app.to_string_lossy(), turns.to_string());
        let mut args = [
            &["record", "--quiet"],
            options,
            &["--", &app, &turns, "turns"],
        ]
        .concat();
        if handles {
            args.push("handle");
        }
        let child = place.command(&args)?.spawn().map_err(|e| e.to_string())?;
        Ok(Self { place, child })
    }

    /// The program's number, once it has said it.
    fn program(&self) -> Result<i64, String> {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            let text = fs::read_to_string(self.place.path("stdout")).unwrap_or_default();
            if let Some((number, _)) = text.split_once('\n') {
                return number.parse().map_err(|_| format!("said {text:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("the program does not start".into())
    }

    fn send(&self, to: To, signal: &str) -> Result<(), String> {
        let trommel = i64::from(self.child.id());
        let pid = match to {
            To::Group => -trommel,
            To::Trommel => trommel,
            To::Program => self.program()?,
        };
        send(pid, signal);
        Ok(())
    }
}

/// The turns that the program counted itself.
fn own_turns(place: &Place) -> u64 {
    let mut word = [0; 8];
    let read = File::open(place.path("turns")).and_then(|mut f| f.read_exact(&mut word));
    read.map_or(0, |()| u64::from_le_bytes(word))
}

fn calls_of_turn(report: &Value) -> u64 {
    let calls = report["calls"].as_array().cloned().unwrap_or_default();
    calls
        .iter()
        .filter(|c| c["to"]["function"] == "turn")
        .filter_map(|c| c["count"].as_u64())
        .sum()
}

/// The program ends by the signal, trommel as the program, and every turn is in the profile.
fn ended_by(signal: &str, number: i32, to: To, bin: &Path) -> Result<(), String> {
    let mut chance = Chance::new();
    for round in 0..ROUNDS {
        let mix = MIXES[round % MIXES.len()];
        let run = Run::start(bin, &["-e", mix, "-c", "exact"], 1 << 40, false)?;
        run.program()?;
        chance.sleep(Duration::from_millis(120));
        run.send(to, signal)?;
        let Run { place, child } = run;
        let ended = place.finish(child)?;
        let what = |e: String| format!("-e {mix}, round {round}: {e}");
        if ended.signal() != Some(number) || !ended.stderr.is_empty() {
            return Err(what(format!("{} {}", ended.status, ended.stderr)));
        }
        let report = place.report("trommel.data").map_err(what)?;
        if report["run"]["signal"].as_i64() != Some(i64::from(number)) {
            return Err(what(format!("the profile says {}", report["run"])));
        }
        let own = own_turns(&place);
        let counted = calls_of_turn(&report);
        // It may have been between the two.
        if mix.contains("call") && (own < 100 || own.abs_diff(counted) > 2) {
            return Err(what(format!("{own} turns, {counted} in the profile")));
        }
    }
    Ok(())
}

/// Whatever the moment: the program runs and is recorded, or nothing of it has run.
fn at_the_start(bin: &Path) -> Result<(), String> {
    let mut chance = Chance::new();
    let signals = [
        ("INT", 2, To::Group),
        ("TERM", 15, To::Trommel),
        ("HUP", 1, To::Trommel),
        ("WINCH", 28, To::Group),
    ];
    for round in 0..16 {
        let (signal, number, to) = signals[round % signals.len()];
        let run = Run::start(bin, &["-e", "edge,call"], 300_000, false)?;
        chance.sleep(Duration::from_millis(12));
        run.send(to, signal)?;
        let Run { place, child } = run;
        let ended = place.finish(child)?;
        let what = |e: String| format!("{signal}, round {round}: {e}: {ended:?}");
        match (ended.status.code(), ended.signal()) {
            // It came too early for anybody, or too late.
            (Some(3), None) if ended.stdout.ends_with(b" done\n") => {}
            (None, Some(n)) if n == number && signal != "WINCH" => {}
            // The program's process ended before it was the program.
            (Some(126), None) if ended.stderr.contains("before its first instruction") => continue,
            _ => return Err(what("ended otherwise".into())),
        }
        let begun = !ended.stdout.is_empty();
        if begun && !place.path("trommel.data").exists() {
            return Err(what("no profile".into()));
        }
        if place.path("trommel.data").exists() {
            place.report("trommel.data").map_err(what)?;
        }
    }
    Ok(())
}

/// An impatient user must not lose the profile while it is written.
fn twice(bin: &Path) -> Result<(), String> {
    let mut chance = Chance::new();
    for round in 0..ROUNDS {
        let run = Run::start(bin, &[], 1 << 40, false)?;
        run.program()?;
        chance.sleep(Duration::from_millis(50));
        run.send(To::Group, "INT")?;
        for _ in 0..4 {
            chance.sleep(Duration::from_millis(2));
            run.send(To::Trommel, ["INT", "TERM"][chance.below(2) as usize])?;
        }
        let Run { place, child } = run;
        let ended = place.finish(child)?;
        if !matches!(ended.signal(), Some(2 | 15)) {
            return Err(format!("round {round}: {ended:?}"));
        }
        place.report("trommel.data")?;
    }
    Ok(())
}

fn handled(bin: &Path) -> Result<(), String> {
    for (signal, to) in [
        ("INT", To::Group),
        ("TERM", To::Trommel),
        ("TERM", To::Program),
    ] {
        let run = Run::start(bin, &[], 1 << 40, true)?;
        run.program()?;
        Chance::new().sleep(Duration::from_millis(50));
        run.send(to, signal)?;
        let Run { place, child } = run;
        let ended = place.finish(child)?;
        if ended.status.code() != Some(5) || !ended.stdout.ends_with(b"asked\n") {
            return Err(format!("{signal}: {ended:?}"));
        }
        let report = place.report("trommel.data")?;
        if report["run"]["status"] != 5 {
            return Err(format!("{signal}: {}", report["run"]));
        }
    }
    Ok(())
}

/// Says its number, stops itself alone three times, and says how often it was continued.
const STOPPER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int continued;
static void on_continue(int s) { continued++; }
int main(int argc, char **argv) {
  printf("%d\n", (int)getpid());
  fflush(stdout);
  signal(SIGCONT, on_continue);
  for (int i = 0; i < 3; i++) raise(atoi(argv[1]));
  printf("continued %d\n", continued);
  return 7;
}
"#;

/// Starts a job as a shell does, says how it stops and ends, and continues it: its group, its first process, or the program, whose number is
/// in the file `said`.
const SHELL: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int status, to = argv[1][0];
  pid_t job = fork();
  if (!job) { setpgid(0, 0); dup2(open("said", O_RDWR | O_CREAT | O_TRUNC, 0644), 1); execvp(argv[2], argv + 2); _exit(99); }
  for (;;) {
    if (waitpid(job, &status, WUNTRACED) != job) return 1;
    if (!WIFSTOPPED(status)) break;
    printf("stopped %d\n", WSTOPSIG(status));
    fflush(stdout);
    usleep(100000);
    char said[32] = {0};
    int fd = open("said", O_RDONLY); read(fd, said, 31); close(fd);
    kill(to == 'j' ? -job : to == 'f' ? job : atoi(said), SIGCONT);
  }
  printf("ended %d\n", WEXITSTATUS(status));
  return 0;
}
"#;

/// A job that stops itself has its first process stopped, and goes on when its group, that process or the program is continued.
fn stops_itself(bin: &Path) -> Result<(), String> {
    let app = program("stopper", STOPPER)?;
    let shell = program("shell", SHELL)?;
    let bin = bin.display().to_string();
    for way in [
        "record --quiet --",
        "run --",
        "record --quiet --budget 5 --",
        "stat -o counts --no-native --",
        "stat -o counts --",
        "record --quiet -e stack --",
    ] {
        if way.contains("stack") && !may_sample(&bin)? {
            not_tested("a program that stops itself under record -e stack: no perf events");
            continue;
        }
        // It is run natively first, without its output.
        let runs = if way == "stat -o counts --" { 2 } else { 1 };
        for (signal, to) in ["19", "20"]
            .into_iter()
            .flat_map(|signal| ["job", "front", "program"].map(|to| (signal, to)))
        {
            if to == "program" && runs > 1 {
                continue;
            }
            let place = Place::new(&shell)?;
            let app = app.to_string_lossy();
            let mut args = vec![to, &bin];
            args.extend(way.split(' '));
            args.extend([&*app, signal]);
            let child = place.command(&args)?.spawn().map_err(|e| e.to_string())?;
            let ended = place.finish(child)?;
            let expected = format!(
                "{}ended 7\n",
                format!("stopped {signal}\n").repeat(3 * runs)
            );
            let said = fs::read_to_string(place.path("said")).unwrap_or_default();
            if ended.stdout != expected.as_bytes() || !said.ends_with("continued 3\n") {
                return Err(format!("{way}: {signal}, {to}: {ended:?}: {said}"));
            }
        }
    }
    Ok(())
}

/// Returns true if the system allows samples of programs.
fn may_sample(bin: &str) -> Result<bool, String> {
    let place = Place::new(Path::new(bin))?;
    let args = ["record", "--quiet", "-e", "stack", "--", "true"];
    let child = place.command(&args)?.spawn().map_err(|e| e.to_string())?;
    Ok(!format!("{:?}", place.finish(child)?).contains("refuses"))
}

/// Ways of running a program.
const WAYS: [&str; 4] = [
    "record --quiet -e none --",
    "record --quiet --",
    "run --",
    "record --quiet --budget 3 --",
];

/// Handles all signals, waits for one of the number given, and says how often each came.
const HANDLER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile int seen[65];
static void on_signal(int s) { seen[s]++; }
int main(int argc, char **argv) {
  for (int s = 1; s < 65; s++) if (s != SIGCHLD && s != 32 && s != 33) signal(s, on_signal);
  printf("%d\n", (int)getpid()); fflush(stdout);
  int wanted = atoi(argv[1]); time_t begun = time(0);
  while (time(0) < begun + 15 && !seen[wanted]) usleep(1000);
  usleep(20000);
  for (int s = 1; s < 65; s++) if (seen[s]) printf("%d: %d\n", s, seen[s]);
  return 4;
}
"#;

/// Sent to trommel alone a signal is the program's; sent to the group it comes once. Trommel outlives both.
fn relayed(bin: &Path) -> Result<(), String> {
    let app = program("handler", HANDLER)?;
    // HUP, INT, QUIT, ABRT, FPE, USR1, SEGV, USR2, ALRM, TERM, STKFLT, XCPU, VTALRM, PROF, IO, PWR, real-time.
    let signals = [
        1, 2, 3, 6, 8, 10, 11, 12, 14, 15, 16, 24, 26, 27, 29, 30, 34, 64,
    ];
    for (round, number) in signals.into_iter().enumerate() {
        for group in [false, true] {
            let place = Place::new(bin)?;
            let words = WAYS[round % WAYS.len()].split(' ');
            let app = app.to_string_lossy();
            let text = number.to_string();
            let args: Vec<_> = words.chain([&*app, &text]).collect();
            let child = place.command(&args)?.spawn().map_err(|e| e.to_string())?;
            let started = Instant::now();
            while !fs::read(place.path("stdout")).is_ok_and(|text| text.ends_with(b"\n")) {
                if started.elapsed() > LIMIT {
                    return Err("the program does not start".into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let pid = i64::from(child.id());
            send(if group { -pid } else { pid }, &number.to_string());
            let ended = place.finish(child)?;
            let wanted = format!("\n{number}: 1\n");
            if ended.status.code() != Some(4) || !ended.stdout.ends_with(wanted.as_bytes()) {
                return Err(format!(
                    "signal {number}, group {group}, {args:?}: {ended:?}"
                ));
            }
        }
    }
    Ok(())
}

/// `alarm` and then `exec`, as scripts limit a program's time.
fn timer(bin: &Path) -> Result<(), String> {
    let app = program("handler", HANDLER)?;
    for way in WAYS {
        let place = Place::new(bin)?;
        let script = format!(
            "exec perl -e 'alarm 1; exec @ARGV' \"$T\" {way} {} {}",
            app.display(),
            14
        );
        let child = place.shell(&script)?.spawn().map_err(|e| e.to_string())?;
        let ended = place.finish(child)?;
        if ended.status.code() != Some(4) || !ended.stdout.ends_with(b"\n14: 1\n") {
            return Err(format!("{way}: {ended:?}"));
        }
    }
    Ok(())
}

/// Checks that the program finds what `env` sets for signals, and that trommel works all the same.
fn inherited(bin: &Path) -> Result<(), String> {
    const SAYS: &str = "grep -E '^Sig(Blk|Ign)' /proc/self/status; (exit 5); echo $?; exit 3";
    let hows = [
        "--ignore-signal=CHLD",
        "--block-signal=CHLD",
        "--block-signal=TRAP",
        "--block-signal=SEGV",
        "--block-signal=TERM",
        "--block-signal",
        "--ignore-signal=PIPE --block-signal=34",
        "--ignore-signal=USR2 --ignore-signal=HUP --ignore-signal=40",
    ];
    for how in hows {
        let run = |way: &str| {
            let place = Place::new(bin)?;
            place.write("says", SAYS.as_bytes(), 0o755)?;
            let script = format!("exec env {how} {way} bash says");
            let child = place.shell(&script)?.spawn().map_err(|e| e.to_string())?;
            place.finish(child)
        };
        let native = run("")?;
        // With a budget the signal of windows is ignored, too, in programs that the first one executes.
        for way in WAYS.into_iter().filter(|way| !way.contains("budget")) {
            let seen = run(&format!("\"$T\" {way}"))?;
            if (seen.status, &seen.stdout) != (native.status, &native.stdout) {
                return Err(format!("{how}, {way}: {native:?} natively, {seen:?}"));
            }
        }
    }
    Ok(())
}

/// `TROMMEL_KILLS` asks for more than the usual few.
fn rounds() -> usize {
    let asked = std::env::var("TROMMEL_KILLS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(ROUNDS)
}

/// The program goes on natively and does what it would have done.
fn host_killed(bin: &Path) -> Result<(), String> {
    for round in 0..rounds() {
        let mix = MIXES[round % MIXES.len()];
        kill_host(bin, &["-e", mix, "-c", "exact"], round)?;
    }
    Ok(())
}

fn host_killed_streaming(bin: &Path) -> Result<(), String> {
    for round in 0..ROUNDS {
        let options = ["-c", "H[P256]2048+A16", "--stream", "s.tstream"];
        let place = kill_host(bin, &options, round)?;
        let info = place.trommel(&["stream", "info", "--json", "s.tstream"])?;
        let text = String::from_utf8_lossy(&info.stdout).into_owned();
        if !info.status.success() || !info.stderr.contains("cut short") {
            return Err(format!(
                "round {round}: the stream's part cannot be read: {} {text}",
                info.stderr
            ));
        }
    }
    Ok(())
}

fn kill_host(bin: &Path, options: &[&str], round: usize) -> Result<Place, String> {
    const TURNS: u64 = 8_000_000;
    let place = Place::new(bin)?;
    let app = program("counter", COUNTER)?;
    let (app, turns) = (app.to_string_lossy(), TURNS.to_string());
    let args = [
        &["record", "--quiet"],
        options,
        &["--", &app, &turns, "turns"],
    ]
    .concat();
    place.write("trommel.data", b"an earlier file", 0o644)?;
    let mut command = place.command(&args)?;
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    // With a limit: whoever hangs is ended, which ends the pipe.
    let group = i64::from(child.id());
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if waiting.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            send(-group, "KILL");
        }
    });
    let mut first = [0; 1];
    pipe.read_exact(&mut first).map_err(|e| e.to_string())?;
    Chance::new().sleep(Duration::from_millis(70));
    child.kill().map_err(|e| e.to_string())?;
    child.wait().map_err(|e| e.to_string())?;
    // The end of the pipe: the program has ended as well.
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).map_err(|e| e.to_string())?;
    drop(done);
    let _ = watch.join();
    let native = std::process::Command::new(&*app)
        .args([&turns, "native-turns"])
        .current_dir(place.path(""))
        .output()
        .map_err(|e| e.to_string())?;
    let lines = |bytes: &[u8]| {
        bytes
            .split(|b| *b == b'\n')
            .skip(1)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    if lines(&rest) != lines(&native.stdout) {
        let text = String::from_utf8_lossy(&rest);
        return Err(format!(
            "{options:?}, round {round}: without trommel the program wrote {text:?}"
        ));
    }
    if own_turns(&place) != TURNS {
        return Err(format!(
            "{options:?}, round {round}: only {} turns",
            own_turns(&place)
        ));
    }
    if fs::read(place.path("trommel.data")).ok().as_deref() != Some(b"an earlier file") {
        return Err(format!(
            "{options:?}, round {round}: the earlier profile is gone"
        ));
    }
    Ok(place)
}
