//! The Linux Test Project's tests of the system calls of processes, signals, threads, memory and
//! waiting, as its `runtest/syscalls` runs them.
//!
//! `--from` names a checkout of github.com/linux-test-project/ltp; no registry serves it. It is
//! copied, and the library and the directories of [`CALLS`] are built there once, for which autoconf and
//! automake are needed. Compared are the exit code and how many `TPASS`, `TFAIL`, `TBROK`, `TCONF` and
//! `TWARN` a test prints: the words after them hold times and addresses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir};

use super::{Verdict, Way, all, compare, prefix, shell};
use crate::common::trommel;

/// Directories of `testcases/kernel/syscalls`, by what they are about.
const CALLS: [(&str, &str); 6] = [
    (
        "processes",
        "clone clone3 execl execle execlp execv execve execveat execvp exit exit_group fork getpgid \
         getpgrp getpid getppid getsid gettid kcmp personality pidfd_getfd pidfd_open \
         pidfd_send_signal prctl arch_prctl set_tid_address setpgid setpgrp setsid setns unshare \
         vfork wait wait4 waitid waitpid getrusage getrlimit setrlimit seccomp modify_ldt",
    ),
    (
        "signals",
        "abort alarm kill pause rt_sigaction rt_sigprocmask rt_sigqueueinfo rt_sigsuspend \
         rt_sigtimedwait rt_tgsigqueueinfo sigaction sigaltstack sighold signal signalfd signalfd4 \
         sigpending sigprocmask sigrelse sigsuspend sigtimedwait sigwait sigwaitinfo tgkill tkill \
         getcontext",
    ),
    (
        "threads",
        "futex get_robust_list set_robust_list membarrier sched_getaffinity sched_setaffinity \
         sched_yield set_thread_area",
    ),
    (
        "memory",
        "brk sbrk cacheflush cma madvise process_madvise memfd_create mincore mlock mlock2 mlockall \
         munlock munlockall mmap mprotect mremap mseal msync munmap pkeys remap_file_pages shmat \
         shmctl shmdt shmget userfaultfd",
    ),
    ("debugging", "ptrace perf_event_open"),
    (
        "waiting",
        "clock_nanosleep nanosleep epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait \
         eventfd eventfd2 poll ppoll select pselect pipe pipe2 close_range getitimer setitimer \
         timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd io_uring",
    ),
];

const KINDS: [&str; 5] = ["TPASS", "TFAIL", "TBROK", "TCONF", "TWARN"];

const LIMIT: Duration = Duration::from_secs(120);

struct Test {
    group: &'static str,
    name: String,
    command: Vec<String>,
    dir: PathBuf,
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let tree = built(from)?;
    let list = tree.join("runtest/syscalls");
    let text = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut where_is = BTreeMap::new();
    for (group, calls) in CALLS {
        for call in calls.split_whitespace() {
            let dir = tree.join("testcases/kernel/syscalls").join(call);
            for file in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                where_is.insert(name, (group, dir.clone()));
            }
        }
    }
    let mut tests = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(name) = words.next() else { continue };
        let command: Vec<String> = words.collect();
        let Some((group, dir)) = command.first().and_then(|c| where_is.get(c)) else {
            continue;
        };
        if names.is_empty() || names.contains(&name) {
            tests.push(Test {
                group,
                name,
                command,
                dir: dir.clone(),
            });
        }
    }
    // One at a time: tests count processes, shared memory segments and time.
    all(
        &tests,
        1,
        |test| (test.group.to_owned(), test.name.clone()),
        |test| judge(bin, ways, test, &tree),
    )
}

/// A test's result: its exit code, and how many lines of each kind.
struct Counted {
    code: Option<i32>,
    signal: Option<i32>,
    kinds: [usize; KINDS.len()],
    text: String,
}

fn judge(bin: &Path, ways: &[Way], test: &Test, tree: &Path) -> Result<Verdict, String> {
    if !test.dir.join(&test.command[0]).exists() {
        return Err("not built here".into());
    }
    compare(
        ways,
        |way| {
            let scratch = Scratch::new().map_err(|e| e.to_string())?;
            let work = scratch.path("work");
            fs::create_dir(&work).map_err(|e| e.to_string())?;
            let mut argv = prefix(bin, way, &scratch.path("data"));
            argv.push(test.dir.join(&test.command[0]).into());
            argv.extend(test.command[1..].iter().map(Into::into));
            let mut job = Job::new(argv, &work);
            let mut path = test.dir.clone().into_os_string();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            for (key, value) in [
                ("PATH", path),
                ("LTPROOT", tree.into()),
                ("TMPDIR", work.clone().into()),
                ("LTP_COLORIZE_OUTPUT", "0".into()),
                (
                    "LTP_TIMEOUT_MUL",
                    if way.is_some() { "4" } else { "1" }.into(),
                ),
            ] {
                job.env.push((key.into(), value));
            }
            let limit = if way.is_some() { LIMIT * 4 } else { LIMIT };
            let outcome = job.native(limit).map_err(|e| e.to_string())?;
            match outcome.timed_out && way.is_none() {
                true => Err(format!("natively it takes more than {LIMIT:?}")),
                false => Ok(counted(&outcome)),
            }
        },
        |native: &Counted, seen| {
            let same =
                (native.code, native.signal, native.kinds) == (seen.code, seen.signal, seen.kinds);
            (!same).then(|| {
                format!(
                    "natively {:?} {:?} {:?}, here {:?} {:?} {:?}{}",
                    native.code,
                    native.signal,
                    native.kinds,
                    seen.code,
                    seen.signal,
                    seen.kinds,
                    only_in(seen, native)
                )
            })
        },
    )
}

fn counted(outcome: &Outcome) -> Counted {
    let text = [&outcome.stdout[..], b"\n", &outcome.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    // The summary of a test repeats none of the words; old tests put them after a number.
    let kinds = KINDS.map(|kind| {
        text.lines()
            .filter(|line| {
                line.split_whitespace()
                    .any(|w| w.trim_end_matches(':') == kind)
            })
            .count()
    });
    Counted {
        code: outcome.code,
        signal: outcome.signal,
        kinds,
        text,
    }
}

/// Lines of `seen` that tell other things than `native`, numbers aside.
fn only_in(seen: &Counted, native: &Counted) -> String {
    let plain =
        |line: &str| -> String { line.chars().filter(|c| !c.is_ascii_hexdigit()).collect() };
    let known: Vec<String> = native.text.lines().map(plain).collect();
    seen.text
        .lines()
        .filter(|line| !line.trim().is_empty() && !known.contains(&plain(line)))
        .take(4)
        .map(|line| format!("\n    {line}"))
        .collect()
}

/// The tree with what is tested built in it.
fn built(from: Option<PathBuf>) -> Result<PathBuf, String> {
    let tree = cache_dir().join("conform/ltp");
    let done = tree.join("built");
    if !done.exists() {
        let from = from.ok_or("--from DIR: a checkout of github.com/linux-test-project/ltp")?;
        eprintln!("building in {}", tree.display());
        let dirs: Vec<&str> = CALLS
            .iter()
            .flat_map(|(_, c)| c.split_whitespace())
            .collect();
        shell(
            r#"set -e; rm -rf "$2"; mkdir -p "$2"; cp -a "$1/." "$2"; cd "$2"
               make autotools >build.log 2>&1; ./configure >>build.log 2>&1
               make -j2 -C lib >>build.log 2>&1; make -j2 -C libs >>build.log 2>&1
               for d in $3; do [ ! -d testcases/kernel/syscalls/$d ] || make -k -j2 -C testcases/kernel/syscalls/$d >>build.log 2>&1 || echo "$d: not all built" >&2; done
               echo done >built"#,
            &[from.as_os_str(), tree.as_os_str(), dirs.join(" ").as_ref()],
        )?;
    }
    Ok(tree)
}
