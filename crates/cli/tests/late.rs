//! `trommel run` of programs that run natively at first: those that are over soon stay so, others are taken while they run, and
//! neither shows.

#[path = "common/dir.rs"]
mod dir;
#[path = "common/started.rs"]
mod started;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use dir::Dir;

/// Computes for so many milliseconds of CPU time, in so many threads, with signals of a timer; has a child do the same if it is
/// to; and tells whether the sums are right.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t ticks;
static long wanted;
static void tick(int signal) { ticks++; }
static long spent(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
static __attribute__((noinline)) unsigned long step(unsigned long n) { return n % 3 ? n * 2654435761u : n / 3 + 7; }
static void *work(void *from)
{
    unsigned long bad = 0;
    do {
        unsigned long there = (unsigned long)from, sum = 0, again = 0;
        for (unsigned long i = 0; i < 2000; i++) sum += step(there + i);
        for (unsigned long i = 2000; i-- > 0;) again += step(there + i);
        bad += sum != again;
    } while (spent() < wanted);
    return (void *)bad;
}
int main(int argc, char **argv)
{
    wanted = atol(argv[1]);
    int threads = atoi(argv[2]), child = argc > 3 && strcmp(argv[3], "child") == 0;
    struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
    pthread_t others[16];
    unsigned long bad = 0;
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    pid_t pid = child ? fork() : 0;
    if (child && pid == 0) {
        execl(argv[0], argv[0], argv[1], argv[2], NULL);
        _exit(127);
    }
    for (long n = 1; n < threads; n++) pthread_create(&others[n], NULL, work, (void *)n);
    bad += (unsigned long)work((void *)0);
    for (long n = 1; n < threads; n++) {
        void *its;
        pthread_join(others[n], &its);
        bad += (unsigned long)its;
    }
    int status = 0;
    while (child && waitpid(pid, &status, 0) < 0) {}
    if (wanted > 50 && !ticks) bad++;
    printf("%s %lu %d\n", child ? "parent" : "one", bad, status);
    return bad ? 1 : 9;
}
"#;

fn program(dir: &Dir) -> String {
    let (source, program) = (dir.0.join("p.c"), dir.0.join("p"));
    fs::write(&source, PROGRAM).expect("a file");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-o"]);
    let done = gcc.arg(&program).arg(&source).status();
    assert!(done.expect("gcc runs").success());
    program.to_string_lossy().into_owned()
}

fn run(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command.arg("run").args(options).arg("--").args(program);
    command.stdin(Stdio::null()).output().expect("trommel runs")
}

/// Returns the statistics in `file`, and the fragments of each process in it.
fn fragments(file: &PathBuf) -> (Value, Vec<u64>) {
    let stats: Value = serde_json::from_slice(&fs::read(file).expect("statistics")).expect("JSON");
    let processes = stats["processes"].as_array().expect("a list");
    let of = |p: &Value| p["fragments"].as_u64().expect("a number");
    let all = processes.iter().map(of).collect();
    (stats, all)
}

#[test]
fn what_is_over_soon_is_never_taken() {
    let dir = Dir::new("late-soon");
    let file = dir.0.join("stats");
    let name = file.to_string_lossy();
    let script = ["sh", "-c", "echo a; /bin/echo b; exit 7"];
    let out = run(&["--after", "0.1", "--stats", &name], &script);
    assert_eq!(
        (out.status.code(), &out.stdout[..]),
        (Some(7), &b"a\nb\n"[..])
    );
    assert!(out.stderr.is_empty(), "{out:?}");
    let (stats, all) = fragments(&file);
    assert_eq!(all, [0], "{stats}");
    assert_eq!(
        (&stats["status"], &stats["command"][0]),
        (&7.into(), &"sh".into())
    );
    // Nor is it without options.
    let out = run(&[], &script);
    assert_eq!(
        (out.status.code(), &out.stdout[..]),
        (Some(7), &b"a\nb\n"[..])
    );
}

#[test]
fn what_goes_on_is_taken_with_its_threads_and_children() {
    let dir = Dir::new("late-on");
    let program = program(&dir);
    let file = dir.0.join("stats");
    let name = file.to_string_lossy();
    for more in [&[][..], &["--no-bail-out"]] {
        let options = [&["--after", "0.02", "--stats", &name], more].concat();
        let out = run(&options, &[&program, "400", "3", "child"]);
        let said = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(9), "{out:?}");
        assert_eq!(said, "one 0 0\nparent 0 2304\n", "{out:?}");
        assert!(out.stderr.is_empty(), "{out:?}");
        let (stats, all) = fragments(&file);
        let taken = all.iter().filter(|&&n| n > 20).count();
        assert_eq!((taken, all.len()), (2, 2), "{stats}");
    }
}

/// Ends shortly before, after, or while it is attached: its status comes from whoever hears of it first.
#[test]
fn an_end_in_the_moment_of_taking_is_told() {
    let dir = Dir::new("late-end");
    let program = program(&dir);
    for n in 0..60 {
        let time = (3 + n % 9).to_string();
        let threads = (1 + n % 3).to_string();
        let clock = Instant::now();
        let out = run(&["--after", "0.005"], &[&program, &time, &threads]);
        assert_eq!(out.status.code(), Some(9), "{time} ms: {out:?}");
        assert_eq!(out.stdout, b"one 0 0\n");
        assert!(clock.elapsed() < Duration::from_secs(10), "{time} ms");
    }
}

#[test]
fn an_end_by_a_signal_is_told() {
    let dir = Dir::new("late-signal");
    let program = program(&dir);
    let script =
        format!("{program} 60000 2 & p=$!; sleep 0.3; kill -KILL $p; wait $p; kill -USR1 $$");
    let out = run(&["--after", "0.02"], &["bash", "-c", &script]);
    assert_eq!(out.status.signal(), Some(10), "{out:?}");
}

/// Whenever the command is killed, before the program is taken or after, the program goes on.
#[test]
fn a_program_goes_on_when_the_command_is_killed() {
    let dir = Dir::new("late-killed");
    let program = program(&dir);
    let times = std::env::var("TROMMEL_KILLS").map_or(12, |n| n.parse().expect("a number"));
    for n in 0..times {
        let result = dir.0.join(format!("result{n}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command.args(["run", "--after", "0.02", "--", &program, "250", "2"]);
        command.stdout(fs::File::create(&result).expect("a file"));
        let mut child = command.spawn().expect("trommel runs");
        started::wait_for(&child, "p");
        sleep(Duration::from_millis(n % 20 * 8));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let clock = Instant::now();
        while fs::read(&result).expect("there") != b"one 0 0\n" {
            let said = fs::read_to_string(&result);
            assert!(
                clock.elapsed() < Duration::from_secs(20),
                "kill {n}: {said:?}"
            );
            sleep(Duration::from_millis(10));
        }
    }
}

/// Reads `/dev/zero` and sums up what it has read, through a call for each byte, for so many milliseconds of CPU time.
const READER: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static __attribute__((noinline)) unsigned add(unsigned sum, unsigned char c) { return sum * 31 + c + 1; }
int main(int argc, char **argv)
{
    unsigned char block[4096];
    unsigned sum = 0;
    int from = open("/dev/zero", O_RDONLY);
    clock_t until = atol(argv[1]) * (CLOCKS_PER_SEC / 1000);
    do {
        if (read(from, block, sizeof block) != sizeof block) return 1;
        for (int round = 0; round < 4; round++)
            for (unsigned i = 0; i < sizeof block; i++) sum = add(sum, block[i]);
    } while (clock() < until);
    printf("%d\n", sum != 1);
    return 0;
}
"#;

#[test]
fn how_a_program_gets_on_that_reads_is_known() {
    let dir = Dir::new("late-reader");
    let (source, reader) = (dir.0.join("r.c"), dir.0.join("r"));
    fs::write(&source, READER).expect("a file");
    let mut gcc = Command::new("gcc");
    let built = gcc.args(["-O1", "-o"]).arg(&reader).arg(&source).status();
    assert!(built.expect("gcc runs").success());
    let (reader, file) = (reader.to_string_lossy(), dir.0.join("stats"));
    let name = file.to_string_lossy();
    let progress = |after: &str, time: &str| {
        let out = run(&["--after", after, "--stats", &name], &[&reader, time]);
        assert!(out.status.success() && out.stdout == b"1\n", "{out:?}");
        let (stats, _) = fragments(&file);
        let processes = stats["processes"].as_array().expect("a list");
        let process = processes.last().expect("one").clone();
        process["progress"].clone()
    };
    let known = progress("0.6", "1800");
    let native = &known["native"];
    assert!(
        native["bytes_per_second"].as_u64() > Some(1 << 20),
        "{known}"
    );
    assert!(native["error"].is_u64(), "{known}");
    // From the first instruction on under control, there is nothing to compare with.
    assert_eq!(progress("0", "300"), Value::Null);
}
