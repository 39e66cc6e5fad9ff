//! The checks, one function each, in the order of what a launch needs first.

use std::fs;

use trommel_symbol::launch;
use trommel_tuple::{Kind, KindSet};

use crate::host::{self, Options};
use crate::others::Others;
use crate::output;

use super::check::Status::{Fail, Ok as Good, Warn};
use super::check::{Check, check, line};
use super::{probe, surroundings};

const AT_HWCAP2: u64 = 26;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const HWCAP2_FSGSBASE: u64 = 1 << 1;
/// Bit of `CapEff` in `/proc/self/status`.
const CAP_SYS_PTRACE: u32 = 19;

/// All rows.
pub(super) fn all() -> Vec<Check> {
    let traced = probe::trace_a_child();
    vec![
        kernel(),
        processor(),
        proc(),
        ptrace(&traced),
        memory_access(&traced),
        yama(),
        seccomp(),
        shared_memory(),
        writable_code(),
        fsgsbase(),
        vectors(),
        shadow_stack(),
        rseq(),
        vsyscall(),
        surroundings::overcommit(),
        surroundings::address_space(),
        surroundings::file_size(),
        surroundings::dev_shm(),
        surroundings::user(),
        surroundings::user_namespaces(),
        surroundings::counters(),
        surroundings::sampling(),
        surroundings::machine(),
        surroundings::clock(),
        surroundings::debug_files(),
        surroundings::directory(),
        recording(),
    ]
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
        v if v < (3, 17) => check("kernel", Fail, release, "too old: it has no memfd", fix),
        _ => check("kernel", Good, release, "new enough", ""),
    }
}

fn processor() -> Check {
    let found = line("/proc/cpuinfo")
        .and_then(|text| {
            let model = text.lines().find_map(|l| l.strip_prefix("model name"))?;
            Some(model.trim_start_matches(['\t', ' ', ':']).to_owned())
        })
        .unwrap_or_else(|| "x86-64".into());
    check("processor", Good, found, "every x86-64 processor works", "")
}

fn proc() -> Check {
    match fs::File::open("/proc/self/maps") {
        Ok(_) => check(
            "/proc",
            Good,
            "mounted",
            "the runtime can find the code of the program",
            "",
        ),
        Err(error) => check(
            "/proc",
            Fail,
            error.to_string(),
            "the runtime cannot find the code of the program",
            "mount -t proc proc /proc",
        ),
    }
}

fn ptrace(traced: &probe::Traced) -> Check {
    match &traced.ptrace {
        Ok(()) => check(
            "ptrace",
            Good,
            "a child can be traced",
            "programs can be launched and observed",
            "",
        ),
        Err(error) => check(
            "ptrace",
            Fail,
            error.to_string(),
            "programs cannot be launched and observed",
            "in a container: --cap-add=SYS_PTRACE or --security-opt seccomp=unconfined; elsewhere: sysctl kernel.yama.ptrace_scope=1",
        ),
    }
}

fn memory_access(traced: &probe::Traced) -> Check {
    let name = "process memory";
    let means = "the runtime cannot be put into programs, nor read their code";
    match (&traced.ptrace, &traced.memory) {
        (Err(_), _) => check(name, Warn, "not tried, without ptrace", means, ""),
        (_, Ok(())) => check(
            name,
            Good,
            "can be read and written (process_vm_readv, process_vm_writev)",
            "the runtime can be put into programs, and read their code",
            "",
        ),
        (_, Err(error)) => check(
            name,
            Fail,
            error.to_string(),
            means,
            "allow process_vm_readv and process_vm_writev in the sandbox; docker: --cap-add=SYS_PTRACE",
        ),
    }
}

fn yama() -> Check {
    let name = "ptrace scope";
    let capable = own_status("CapEff")
        .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 != 0);
    match (
        line("/proc/sys/kernel/yama/ptrace_scope").as_deref(),
        capable,
    ) {
        (None, _) => check(
            name,
            Good,
            "no Yama",
            "the usual permissions are enough",
            "",
        ),
        (Some(scope @ "0"), _) => check(
            name,
            Good,
            scope,
            "programs can be launched, and your own be attached to (-p)",
            "",
        ),
        (Some(scope @ ("1" | "2")), true) => check(
            name,
            Good,
            format!("{scope}, and you may trace (CAP_SYS_PTRACE)"),
            "programs can be launched and attached to (-p)",
            "",
        ),
        (Some(scope @ "1"), false) => check(
            name,
            Warn,
            scope,
            "programs can be launched, as they are children; -p is refused without CAP_SYS_PTRACE",
            "for -p: be root, or sysctl kernel.yama.ptrace_scope=0",
        ),
        (Some(scope @ "2"), false) => check(
            name,
            Fail,
            scope,
            "only processes with CAP_SYS_PTRACE may trace, and yours has not",
            "run as root, or sysctl kernel.yama.ptrace_scope=1",
        ),
        (Some(scope), _) => check(
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
        Some("0") | None => check("seccomp", Good, "no filter", "all system calls work", ""),
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
    match trommel_host::channel::family::Family::new()
        .and_then(|family| family.map(0))
        .map(drop)
    {
        Ok(()) => check(
            "memfd",
            Good,
            format!(
                "{} MiB can be created and mapped",
                surroundings::SHARED >> 20
            ),
            "events can be delivered through shared memory",
            "",
        ),
        Err(error) => check(
            "memfd",
            Fail,
            error.to_string(),
            "there is no way to deliver events",
            "see the rows on limits; allow memfd_create and ftruncate in the sandbox",
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
    let (found, means) = match probe::auxiliary(AT_HWCAP2) & HWCAP2_FSGSBASE {
        0 => (
            "not enabled",
            "not needed: the runtime sets GS once, by a system call",
        ),
        _ => (
            "enabled",
            "programs may set GS by an instruction; one that does runs natively from there",
        ),
    };
    check("FSGSBASE", Good, found, means, "")
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
        "copied instructions use all of it; the runtime itself uses SSE2, and keeps it",
        "",
    )
}

fn shadow_stack() -> Check {
    let name = "shadow stack";
    let features = own_status("x86_Thread_features").unwrap_or_default();
    if features.split(' ').any(|f| f == "shstk") {
        return check(
            name,
            Warn,
            "on for this process",
            "programs turn it on as they start, and run natively from there",
            "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off trommel record …",
        );
    }
    let cpu = line("/proc/cpuinfo").unwrap_or_default();
    let flags = cpu.lines().find(|l| l.starts_with("flags")).unwrap_or("");
    let (found, means) = match flags.split(' ').any(|f| f == "user_shstk") {
        true => (
            "there, and off for this process",
            "a program that turns it on runs natively from there",
        ),
        false => (
            "not on this processor and kernel",
            "no program can turn it on",
        ),
    };
    check(name, Good, found, means, "")
}

fn rseq() -> Check {
    let found = match probe::auxiliary(AT_RSEQ_FEATURE_SIZE) {
        0 => "not announced by this kernel".to_owned(),
        size => format!("{size} bytes"),
    };
    check(
        "rseq",
        Good,
        found,
        "glibc's registration is left alone; a program with sequences of its own runs natively from the first",
        "",
    )
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
        "only programs older than 2012 call it; the runtime makes the system calls itself",
        "",
    )
}

/// The whole way, with a program that does nothing.
fn recording() -> Check {
    let name = "a recording";
    let fix = "see the rows above; report it if none of them explains it";
    let failed = |why: String| {
        // That error would send people here.
        let why = why.split("; `trommel doctor`").next().unwrap_or_default();
        check(name, Fail, why, "`trommel record` does not work here", fix)
    };
    let program = match launch::resolve("/bin/true".as_ref(), None) {
        Ok(program) => program,
        Err(error) => return check(name, Warn, error.to_string(), "not tried", ""),
    };
    let kinds = KindSet::NONE.with(Kind::Edge);
    let options = match Options::of(program, vec!["/bin/true".into()], kinds) {
        Ok(options) => options,
        Err(error) => return failed(error.to_string()),
    };
    let guard = trommel_host::kernel::interrupt::guard();
    match host::record(options, &guard, &mut Others::default(), &mut |_, _| {}) {
        Err(error) => failed(format!("{error:#}")),
        Ok((recording, _)) => {
            let profile = &recording.profile;
            let run = &profile.run;
            let seen = profile.kinds.get(&Kind::Edge).map_or(0, |k| k.seen);
            match run.detach.first() {
                Some(why) => failed(format!("`true` ran natively: {why}")),
                None if run.status != Some(0) || seen == 0 => failed(format!(
                    "`true` ended with {:?}, {seen} branches",
                    run.status
                )),
                None => check(
                    name,
                    Good,
                    format!(
                        "`true` has {seen} branches, in {}",
                        output::duration(run.wall)
                    ),
                    "`trommel record` works here",
                    "",
                ),
            }
        }
    }
}
