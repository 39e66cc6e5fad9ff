//! Permission to sample the whole machine and to see the kernel's code, and what is missing if it is refused.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use trommel_symbol::{Core, Kernel};

use super::processors::processors;
use crate::kernel::perf::{Attributes, Clock};

/// The kernel's memory.
pub(super) const CORE: &str = "/proc/kcore";

/// Setting that refuses samples, and its fix.
#[derive(Debug, thiserror::Error)]
#[error("{found}; {fix}")]
pub struct Refused {
    /// State that was found.
    pub found: String,
    /// Fix for it.
    pub fix: &'static str,
}

/// Returns true if samples of the whole machine can be taken.
///
/// # Errors
/// What is missing.
pub fn permitted() -> Result<(), Refused> {
    let attributes = Attributes::of_machine(Duration::from_secs(1));
    let first = processors().first().copied().unwrap_or(0);
    let clock = Clock::of_processor(&attributes, first as i32);
    clock.map(drop).map_err(|error| refused(&error))
}

/// Returns what can be known of the kernel's code: whether its functions have addresses, and whether their bytes can be read.
pub fn kernel_is_readable() -> (bool, bool) {
    (read_kernel().is_some(), Core::open(Path::new(CORE)).is_ok())
}

/// The functions of the kernel, unless it hides them.
pub(super) fn read_kernel() -> Option<Kernel> {
    Kernel::parse(fs::read_to_string("/proc/kallsyms").ok()?)
}

/// Returns the reason why the kernel has refused the clock of a process.
pub(super) fn refused_processes(error: &io::Error) -> Refused {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let level = level.trim();
    let found = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if level.parse().is_ok_and(|level: i32| level > 2) => {
            return Refused {
                found: format!("{error}: kernel.perf_event_paranoid is {level}"),
                fix: "sysctl kernel.perf_event_paranoid=2, or record as root; `trommel record --budget 1` needs no perf events, and counts \
                      functions without their call paths",
            };
        }
        Some(libc::EPERM | libc::EACCES) => {
            return Refused {
                found: format!(
                    "{error}: the process is another user's, or a container's seccomp profile is in the way (perf_event_paranoid is {level})"
                ),
                fix: "record as its user or as root, or allow perf_event_open in the container's seccomp profile; `trommel record --budget 1` \
                      needs no perf events, and counts functions without their call paths",
            };
        }
        Some(libc::ESRCH) => "there is no such process".to_owned(),
        Some(libc::EMFILE) => format!("{error}: each thread takes a descriptor for each processor"),
        _ => return refused(error),
    };
    Refused {
        found,
        fix: "name a process that runs, and has fewer threads than `ulimit -n` allows",
    }
}

/// Returns the reason why the kernel has refused a clock.
pub(super) fn refused(error: &io::Error) -> Refused {
    /// Bits of `CapEff`.
    const PERFMON: u32 = 38;
    const ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = (status.lines())
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .unwrap_or(0);
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level = level.as_deref().map_or("not there", str::trim);
    let capable = held & (1 << PERFMON | 1 << ADMIN) != 0;
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if !capable => Refused {
            found: format!(
                "{error}: they need CAP_PERFMON, or kernel.perf_event_paranoid at -1, and it is {level}"
            ),
            fix: "be root, give the capability (setcap cap_perfmon,cap_syslog,cap_sys_ptrace+ep FILE), or \
                  sysctl kernel.perf_event_paranoid=-1",
        },
        Some(libc::EPERM | libc::EACCES) => Refused {
            found: format!(
                "{error}, although this process has CAP_PERFMON or CAP_SYS_ADMIN: a container's seccomp profile or user \
                 namespace, or the kernel's lockdown, is in the way (perf_event_paranoid is {level})"
            ),
            fix: "allow perf_event_open in the container's seccomp profile and give it CAP_PERFMON, or record outside of it",
        },
        Some(libc::ENOSYS) => Refused {
            found: format!("{error}: this kernel has no perf events, or hides them"),
            fix: "use a kernel with CONFIG_PERF_EVENTS, outside of sandboxes",
        },
        _ => Refused {
            found: error.to_string(),
            fix: "Linux 4.1 or later on x86-64 has what is needed",
        },
    }
}
