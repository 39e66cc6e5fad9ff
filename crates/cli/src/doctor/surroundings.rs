//! Checks of limits, file systems and the rest of what surrounds a run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use trommel_host::kernel::perf::Sampler;

use super::check::Status::{Fail, Ok as Good, Warn};
use super::check::{Check, check, line};
use super::probe;

/// The queues, the dictionary and the code cache together need less than this.
const ADDRESS_SPACE: u64 = 4 << 30;
/// Bytes of the memory that trommel and the program share.
pub(super) const SHARED: u64 = trommel_host::channel::shared::SIZE as u64;

pub(super) fn overcommit() -> Check {
    let name = "overcommit";
    match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => check(
            name,
            Warn,
            "strict",
            "the queues and the code cache count in full, although they use little",
            "sysctl vm.overcommit_memory=0 when a launch fails for lack of memory",
        ),
        other => check(
            name,
            Good,
            other.unwrap_or("unknown").to_owned(),
            "reserved memory costs nothing before it is used",
            "",
        ),
    }
}

pub(super) fn address_space() -> Check {
    let name = "address space";
    let fix = "ulimit -v unlimited";
    match probe::limit(libc::RLIMIT_AS) {
        Some(limit) if limit < SHARED => check(
            name,
            Fail,
            format!("limited to {} MiB", limit >> 20),
            "too little for the queues alone, which trommel and the program both map",
            fix,
        ),
        Some(limit) if limit < ADDRESS_SPACE => check(
            name,
            Warn,
            format!("limited to {} MiB", limit >> 20),
            "the queues and the code cache need a part of it; a program that needs all of it runs natively",
            fix,
        ),
        _ => check(
            name,
            Good,
            "no tight limit",
            "there is room for the queues and the code cache",
            "",
        ),
    }
}

pub(super) fn file_size() -> Check {
    let fix = "ulimit -f unlimited";
    match probe::limit(libc::RLIMIT_FSIZE) {
        Some(limit) if limit < SHARED => check(
            "file size",
            Fail,
            format!("limited to {} MiB", limit >> 20),
            "too little for the shared memory, which counts as a file",
            fix,
        ),
        Some(limit) => check(
            "file size",
            Warn,
            format!("limited to {} MiB", limit >> 20),
            "profiles and streams end there",
            fix,
        ),
        None => check(
            "file size",
            Good,
            "no limit",
            "profiles and streams can grow",
            "",
        ),
    }
}

pub(super) fn dev_shm() -> Check {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let options = mounts.lines().find_map(|l| {
        let mut fields = l.split(' ');
        (fields.nth(1) == Some("/dev/shm")).then(|| fields.nth(1).unwrap_or_default().to_owned())
    });
    let noexec = options
        .as_ref()
        .is_some_and(|o| o.split(',').any(|o| o == "noexec"));
    let found = match (options, noexec) {
        (None, _) => "not mounted",
        (_, true) => "mounted noexec",
        _ => "mounted",
    };
    check(
        "/dev/shm",
        Good,
        found,
        "not used: shared memory has no name and holds no code",
        "",
    )
}

pub(super) fn user() -> Check {
    let found = match probe::user() {
        0 => "root".to_owned(),
        id => format!("number {id}"),
    };
    let means = "no privilege is needed: programs are launched as this user";
    check("user", Good, found, means, "")
}

pub(super) fn user_namespaces() -> Check {
    let found = match line("/proc/sys/user/max_user_namespaces").as_deref() {
        None => "not in this kernel",
        Some("0") => "not allowed",
        Some(_) => "allowed",
    };
    check(
        "user namespaces",
        Good,
        found,
        "not needed: no privilege is borrowed through them",
        "",
    )
}

pub(super) fn counters() -> Check {
    let paranoid = line("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".into());
    let found = match Path::new("/sys/bus/event_source/devices/cpu").exists() {
        true => format!("there (perf_event_paranoid {paranoid})"),
        false => format!("none, as in most virtual machines (perf_event_paranoid {paranoid})"),
    };
    check(
        "hardware counters",
        Good,
        found,
        "not needed: the instructions themselves report the events",
        "",
    )
}

pub(super) fn clock() -> Check {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let found = line(source).unwrap_or_else(|| "unknown".into());
    check("clock", Good, found, "costs are measured by it", "")
}

pub(super) fn debug_files() -> Check {
    match Path::new("/usr/lib/debug/.build-id").is_dir() {
        true => check(
            "debug files",
            Good,
            "/usr/lib/debug/.build-id",
            "stripped libraries can have names and lines",
            "",
        ),
        false => check(
            "debug files",
            Good,
            "none installed",
            "stripped libraries show exported names only (Debian: install libc6-dbg and others)",
            "",
        ),
    }
}

pub(super) fn directory() -> Check {
    match trommel_store::check_destination(Path::new(trommel_store::DEFAULT_FILE)) {
        Ok(()) => check(
            "this directory",
            Good,
            "can be written",
            "profiles go here unless -o says otherwise",
            "",
        ),
        Err(error) => check(
            "this directory",
            Warn,
            error.to_string(),
            "profiles cannot be written here",
            "name a file elsewhere with -o",
        ),
    }
}

pub(super) fn sampling() -> Check {
    const PERIOD: Duration = Duration::from_millis(1);
    let name = "sampling clock";
    // A thread of this process: its first.
    match Sampler::open(std::process::id() as i32, PERIOD) {
        Ok(_) => check(
            name,
            Good,
            "perf events of the CPU clock are allowed",
            "--budget works; `run` measures whether translation pays off",
            "",
        ),
        Err(error) => check(
            name,
            Warn,
            format!("perf events are refused: {error}"),
            "--budget is refused; `run` cannot detach a program for which translation does not pay off",
            "sysctl kernel.perf_event_paranoid=2; in a container, allow perf_event_open in its seccomp profile",
        ),
    }
}

/// Samples of the whole machine.
pub(super) fn machine() -> Check {
    let name = "whole machine";
    let means = "`record --all` works";
    match trommel_host::machine::permitted() {
        Err(refused) => check(
            name,
            Warn,
            refused.found,
            "`record --all` is refused",
            refused.fix,
        ),
        Ok(()) => match trommel_host::machine::kernel_is_readable() {
            (true, true) => check(
                name,
                Good,
                "its processors may be sampled, and the kernel be read",
                means,
                "",
            ),
            (true, false) => check(
                name,
                Good,
                "its processors may be sampled; the kernel has names, and /proc/kcore cannot be read",
                "`record --all` works, without operands of the code of the kernel",
                "",
            ),
            (false, _) => check(
                name,
                Warn,
                "its processors may be sampled; the kernel hides its functions (/proc/kallsyms)",
                "`record --all` works, without names for the code of the kernel",
                "be root or have CAP_SYSLOG, or sysctl kernel.kptr_restrict=0",
            ),
        },
    }
}
