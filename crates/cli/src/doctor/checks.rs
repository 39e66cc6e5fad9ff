//! The checks, one function each, in the order of what a launch needs first.

use std::fs;
use std::path::Path;

use super::Status::{Fail, Ok as Good, Warn};
use super::{Check, Status, probe};

const AT_HWCAP2: u64 = 26;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const HWCAP2_FSGSBASE: u64 = 1 << 1;
/// The queues, the dictionary and the code cache together need less than this.
const ADDRESS_SPACE: u64 = 4 << 30;

/// All rows.
pub(super) fn all() -> Vec<Check> {
    vec![
        kernel(),
        processor(),
        ptrace(),
        yama(),
        seccomp(),
        shared_memory(),
        writable_code(),
        fsgsbase(),
        vectors(),
        shadow_stack(),
        rseq(),
        vsyscall(),
        overcommit(),
        address_space(),
        file_size(),
        dev_shm(),
        user(),
        user_namespaces(),
        counters(),
        clock(),
        debug_files(),
        directory(),
    ]
}

fn check(
    name: &'static str,
    status: Status,
    found: impl Into<String>,
    means: &'static str,
    fix: &'static str,
) -> Check {
    Check {
        name,
        status,
        found: found.into(),
        means,
        fix,
    }
}

/// The trimmed content of a small file; `None` where it cannot be read.
fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn own_status(field: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status
        .lines()
        .find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn kernel() -> Check {
    let release = line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0_u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let fix = "use a newer kernel";
    match version {
        (0, _) => check("kernel", Warn, release, "its version is not known", ""),
        v if v < (4, 14) => check(
            "kernel",
            Fail,
            release,
            "too old: memfd and ptrace work differently",
            fix,
        ),
        v if v < (5, 9) => check(
            "kernel",
            Warn,
            release,
            "works, without FSGSBASE: entries to the runtime cost a system call",
            fix,
        ),
        _ => check("kernel", Good, release, "new enough", ""),
    }
}

fn processor() -> Check {
    let missing: Vec<&str> = [
        ("SSE4.2", std::is_x86_feature_detected!("sse4.2")),
        ("BMI2", std::is_x86_feature_detected!("bmi2")),
        ("XSAVE", std::is_x86_feature_detected!("xsave")),
    ]
    .into_iter()
    .filter_map(|(name, there)| (!there).then_some(name))
    .collect();
    match &missing[..] {
        [] => check(
            "processor",
            Good,
            "SSE4.2, BMI2, XSAVE",
            "the event code can use its short forms",
            "",
        ),
        _ => check(
            "processor",
            Warn,
            format!("lacks {}", missing.join(", ")),
            "longer event code is used",
            "none on this processor; in a virtual machine, pass the host's processor through",
        ),
    }
}

fn ptrace() -> Check {
    match probe::trace_a_child() {
        Ok(()) => check(
            "ptrace",
            Good,
            "a child can be traced",
            "programs can be launched under observation",
            "",
        ),
        Err(error) => check(
            "ptrace",
            Fail,
            error.to_string(),
            "programs cannot be launched under observation",
            "in a container: --cap-add=SYS_PTRACE or --security-opt seccomp=unconfined; elsewhere: sysctl kernel.yama.ptrace_scope=1",
        ),
    }
}

fn yama() -> Check {
    let name = "ptrace scope";
    let attach = "programs can be launched; a running one can be attached to by root only";
    let fix = "sysctl kernel.yama.ptrace_scope=0 (until the next boot)";
    match line("/proc/sys/kernel/yama/ptrace_scope").as_deref() {
        None => check(
            name,
            Good,
            "no Yama",
            "nothing beyond the usual permissions is asked for",
            "",
        ),
        Some("0") => check(
            name,
            Good,
            "0",
            "own processes can be launched and attached to",
            "",
        ),
        Some("1") if probe::user() == 0 => check(
            name,
            Good,
            "1, and you are root",
            "processes can be launched and attached to",
            "",
        ),
        Some("1") => check(name, Warn, "1", attach, fix),
        Some("2") if probe::user() == 0 => check(
            name,
            Good,
            "2, and you are root",
            "processes can be launched and attached to",
            "",
        ),
        Some(scope @ "2") => check(
            name,
            Fail,
            scope,
            "only root may trace",
            "run as root, or sysctl kernel.yama.ptrace_scope=1",
        ),
        Some(scope) => check(
            name,
            Fail,
            scope,
            "nobody may trace until the next boot",
            "boot with kernel.yama.ptrace_scope at most 2",
        ),
    }
}

fn seccomp() -> Check {
    match own_status("Seccomp").as_deref() {
        Some("0") | None => check(
            "seccomp",
            Good,
            "no filter",
            "all system calls are there",
            "",
        ),
        Some(_) => check(
            "seccomp",
            Warn,
            "a filter is on (a container or sandbox)",
            "system calls may be refused; the other rows show which matter",
            "docker run --security-opt seccomp=unconfined",
        ),
    }
}

fn shared_memory() -> Check {
    match probe::shared_memory() {
        Ok(()) => check(
            "memfd",
            Good,
            "can be made and mapped",
            "events can be delivered through shared memory",
            "",
        ),
        Err(error) => check(
            "memfd",
            Fail,
            error.to_string(),
            "there is no way to deliver events",
            "allow memfd_create in the sandbox, or use a newer kernel",
        ),
    }
}

fn writable_code() -> Check {
    match probe::writable_code() {
        Ok(()) => check(
            "code memory",
            Good,
            "can be written and executed",
            "the code cache can live in the program",
            "",
        ),
        Err(error) => check(
            "code memory",
            Fail,
            error.to_string(),
            "there is no place for the code cache",
            "SELinux: setsebool -P selinuxuser_execheap 1, or deny_execmem 0; PaX: paxctl -m",
        ),
    }
}

fn fsgsbase() -> Check {
    if probe::auxiliary(AT_HWCAP2) & HWCAP2_FSGSBASE != 0 {
        return check(
            "FSGSBASE",
            Good,
            "enabled",
            "the runtime switches its state without a system call",
            "",
        );
    }
    check(
        "FSGSBASE",
        Warn,
        "not enabled",
        "each entry to the runtime costs a system call more",
        "a kernel of 5.9 or newer, without nofsgsbase, on a processor that has it",
    )
}

fn vectors() -> Check {
    let found = if std::is_x86_feature_detected!("avx512f") {
        "up to AVX-512"
    } else if std::is_x86_feature_detected!("avx2") {
        "up to AVX2"
    } else if std::is_x86_feature_detected!("avx") {
        "up to AVX"
    } else {
        "SSE"
    };
    check(
        "vector state",
        Good,
        found,
        "kept across every entry to the runtime",
        "",
    )
}

fn shadow_stack() -> Check {
    let features = own_status("x86_Thread_features").unwrap_or_default();
    if features.contains("shstk") {
        return check(
            "shadow stack",
            Warn,
            "on for this process",
            "programs with a shadow stack run natively",
            "run with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
        );
    }
    check("shadow stack", Good, "off", "returns can be observed", "")
}

fn rseq() -> Check {
    match probe::auxiliary(AT_RSEQ_FEATURE_SIZE) {
        0 => check(
            "rseq",
            Good,
            "not announced by this kernel",
            "programs may still use it; their sequences restart as natively",
            "",
        ),
        size => check(
            "rseq",
            Good,
            format!("{size} bytes"),
            "glibc registers it in every program; its sequences restart as natively",
            "",
        ),
    }
}

fn vsyscall() -> Check {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = if maps.contains("[vsyscall]") {
        "mapped"
    } else {
        "not mapped"
    };
    check(
        "vsyscall",
        Good,
        found,
        "only programs older than 2012 call it; such calls run natively",
        "",
    )
}

fn overcommit() -> Check {
    let name = "overcommit";
    match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => check(
            name,
            Warn,
            "strict",
            "the queues and the code cache count in full although little of them is used",
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

fn address_space() -> Check {
    match probe::limit(libc::RLIMIT_AS) {
        Some(limit) if limit < ADDRESS_SPACE => check(
            "address space",
            Warn,
            format!("limited to {} MiB", limit >> 20),
            "the program shares it with the queues and the code cache",
            "ulimit -v unlimited",
        ),
        _ => check(
            "address space",
            Good,
            "no tight limit",
            "there is room beside the program",
            "",
        ),
    }
}

fn file_size() -> Check {
    match probe::limit(libc::RLIMIT_FSIZE) {
        Some(limit) => check(
            "file size",
            Warn,
            format!("limited to {} MiB", limit >> 20),
            "shared memory, profiles and streams are files and end there",
            "ulimit -f unlimited",
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

fn dev_shm() -> Check {
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

fn user() -> Check {
    match probe::user() {
        0 => check("user", Good, "root", "every process can be observed", ""),
        id => check(
            "user",
            Good,
            format!("number {id}"),
            "own programs can be observed; no privilege is needed to launch them",
            "",
        ),
    }
}

fn user_namespaces() -> Check {
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

fn counters() -> Check {
    let paranoid = line("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".into());
    let found = match Path::new("/sys/bus/event_source/devices/cpu").exists() {
        true => format!("there (perf_event_paranoid {paranoid})"),
        false => format!("none, as in most virtual machines (perf_event_paranoid {paranoid})"),
    };
    check(
        "hardware counters",
        Good,
        found,
        "not needed: events are taken from the instructions themselves",
        "",
    )
}

fn clock() -> Check {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let found = line(source).unwrap_or_else(|| "unknown".into());
    check("clock", Good, found, "costs are measured with it", "")
}

fn debug_files() -> Check {
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

fn directory() -> Check {
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
