//! `trommel run` puts memory of programs on huge pages: the kernel says so, and the program computes what it would have.

#[path = "common/dir.rs"]
mod dir;

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use dir::Dir;

/// Goes through so many MiB of private memory at random for so many milliseconds of CPU time, in two threads, with signals of a timer, and tells whether all of it
/// held what was put there. Ends with how much of it is on huge pages, in KiB, in its second line, and does so at once when half of it is. `no` refuses huge
/// pages first; `fork` leaves the memory to a child, which shares it all the time with its parent, that waits.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static uint64_t *memory, words;
static long wanted;
static volatile sig_atomic_t ticks, enough;
static void tick(int signal) { ticks++; }
static long huge(void);
static uint64_t word(uint64_t n) { return n * 0x9e3779b97f4a7c15u + 1; }
static long spent(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
static void *work(void *seed)
{
    uint64_t at = (uint64_t)seed, bad = 0;
    do {
        for (long n = 0; n < 100000; n++) {
            at = at * 6364136223846793005u + 1442695040888963407u;
            bad += memory[(at >> 20) % words] != word((at >> 20) % words);
        }
        if (seed == (void *)8 && huge() >> 10 >= words >> 18) enough = 1;
    } while (!enough && spent() < wanted);
    return (void *)bad;
}
static long huge(void)
{
    FILE *maps = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long some = 0;
    while (maps && fgets(line, sizeof line, maps)) sscanf(line, "AnonHugePages: %ld", &some);
    return some;
}
int main(int argc, char **argv)
{
    words = (uint64_t)atol(argv[1]) << 17;
    wanted = atol(argv[2]);
    if (argc > 3 && strcmp(argv[3], "no") == 0) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    memory = malloc(words * 8);
    for (uint64_t n = 0; n < words; n++) memory[n] = word(n);
    int status = 0;
    pid_t child = argc > 3 && strcmp(argv[3], "fork") == 0 ? fork() : 0;
    if (child > 0) {
        while (waitpid(child, &status, 0) < 0) {}
        return WEXITSTATUS(status);
    }
    struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)7);
    uint64_t bad = (uint64_t)work((void *)8);
    void *its;
    pthread_join(other, &its);
    bad += (uint64_t)its;
    printf("%lu\n%ld\n", bad, huge());
    return bad ? 1 : 9;
}
"#;

struct Run {
    out: Output,
    stats: Value,
    /// KiB on huge pages, of what the kernel told the program.
    huge: u64,
}

impl Run {
    /// Bytes on huge pages, of what is told about all processes.
    fn bytes(&self) -> u64 {
        let of = |p: &Value| p["huge_pages"]["bytes"].as_u64().unwrap_or(0);
        self.stats["processes"]
            .as_array()
            .expect("a list")
            .iter()
            .map(of)
            .sum()
    }
}

fn run(dir: &Dir, options: &[&str], stress: &str, arguments: &[&str]) -> Run {
    let (source, program, file) = (dir.0.join("p.c"), dir.0.join("p"), dir.0.join("stats"));
    if !program.exists() {
        fs::write(&source, PROGRAM).expect("a file");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(&source);
        assert!(gcc.status().expect("gcc runs").success());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command
        .arg("run")
        .args(options)
        .arg("--stats")
        .arg(&file)
        .arg("--")
        .arg(&program)
        .args(arguments);
    command.env("TROMMEL_STRESS", stress).stdin(Stdio::null());
    let out = command.output().expect("trommel runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        (out.status.code(), lines.len(), lines[0]),
        (Some(9), 2, "0"),
        "{out:?}"
    );
    let stats = serde_json::from_slice(&fs::read(&file).expect("statistics")).expect("JSON");
    let huge = lines[1].parse().expect("a number");
    Run { out, stats, huge }
}

/// Whether this system gives huge pages to who asks, and to nobody else.
fn on_request() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let asks = setting
        .as_ref()
        .is_ok_and(|setting| setting.contains("[madvise]"));
    if !asks {
        eprintln!("not tested: huge pages are for all or for nobody here: {setting:?}");
    }
    asks
}

#[test]
fn much_memory_is_put_on_huge_pages() {
    let dir = Dir::new("huge-much");
    let half = 32 << 20;
    // Native at first or under control all the time; asked from outside, where that is allowed, or by a borrowed thread.
    for options in [
        &["--after", "0.1"][..],
        &["--after", "0.1", "--no-bail-out"],
        &["--no-bail-out"],
    ] {
        for stress in ["", "borrow"] {
            let run = run(&dir, options, stress, &["64", "20000"]);
            assert!(run.out.stderr.is_empty(), "{:?}", run.out);
            if on_request() {
                assert!(
                    run.huge << 10 >= half && run.bytes() >= half / 2,
                    "{options:?} {stress}: {} KiB, {}",
                    run.huge,
                    run.stats
                );
            }
        }
    }
}

#[test]
fn who_does_not_want_huge_pages_has_none() {
    let dir = Dir::new("huge-none");
    let off = run(
        &dir,
        &["--no-huge-pages", "--after", "0.1"],
        "",
        &["64", "800"],
    );
    let refused = run(&dir, &["--after", "0.1"], "", &["64", "800", "no"]);
    let few = run(&dir, &["--after", "0.1"], "", &["4", "800"]);
    if on_request() {
        assert_eq!((off.huge, off.bytes()), (0, 0), "{}", off.stats);
        assert_eq!((refused.huge, refused.bytes()), (0, 0), "{}", refused.stats);
        assert_eq!((few.huge, few.bytes()), (0, 0), "{}", few.stats);
    }
}

#[test]
fn memory_that_is_shared_since_a_fork_stays_shared() {
    let dir = Dir::new("huge-fork");
    let run = run(&dir, &["--after", "0.1"], "", &["64", "800", "fork"]);
    if on_request() {
        assert!(
            run.huge < 8 << 10 && run.bytes() < 8 << 20,
            "{} KiB, {}",
            run.huge,
            run.stats
        );
    }
}
