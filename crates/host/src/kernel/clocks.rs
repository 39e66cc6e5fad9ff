//! The time stamp counter, and the CPU time of another process.
// No library has these.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// The time stamp counter.
pub(crate) fn stamp() -> u64 {
    // SAFETY: reads the time stamp counter, which every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// CPU time of this thread.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// CPU times of this process and of its ended children, when the program in it began.
static BEGAN: OnceLock<[Duration; 2]> = OnceLock::new();

/// Begins to count this process's CPU time. What executed this program (`exec`) may have used some, and have had children.
pub fn begin() {
    BEGAN.get_or_init(|| [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(used));
}

/// CPU time of this process since it began.
pub(crate) fn process_cpu() -> Duration {
    let before = BEGAN.get().map_or(Duration::ZERO, |[own, _]| *own);
    used(UsageWho::RUSAGE_SELF).saturating_sub(before)
}

/// CPU time of the children of this process that have ended since it began, and of theirs.
pub(crate) fn ended_children_cpu() -> Duration {
    let before = BEGAN
        .get()
        .map_or(Duration::ZERO, |[_, children]| *children);
    used(UsageWho::RUSAGE_CHILDREN).saturating_sub(before)
}

fn used(who: UsageWho) -> Duration {
    getrusage(who).map_or(Duration::ZERO, |usage| {
        let of = |time: TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000);
        of(usage.user_time()) + of(usage.system_time())
    })
}

/// CPU time of a process that is there.
pub(crate) fn cpu_of(pid: Pid) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: a place to write to.
    let found = unsafe { libc::clock_getcpuclockid(pid.as_raw(), &raw mut clock) };
    // SAFETY: all-zero is a valid time.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: a place to write to.
    let read = found == 0 && unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_process_goes_on() {
        let pid = nix::unistd::getpid();
        let before = cpu_of(pid).expect("a clock");
        // Other threads of the process may spend the time between two looks.
        while cpu_of(pid).expect("a clock") < before + Duration::from_millis(1) {}
        // No process has a number above 2^22.
        assert_eq!(cpu_of(Pid::from_raw((1 << 22) + 1)), None);
    }
}
