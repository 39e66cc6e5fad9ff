//! Windows begun: a signal for each thread of a process, so many times in a second of its CPU time.
//!
//! # Problem
//! A thread enters a window where a signal finds it in its own code. The signal must not end a system
//! call, must come to every thread that runs, and nothing of it may be seen in the program. The moments must
//! not keep step with what the program does.
//!
//! # Strategy
//! Each thread has a perf event of the kernel's CPU clock, which counts user time only and sends the
//! thread a signal at each overflow. The clock ticks in the thread's own code, so the signal arrives there.
//! The events are ours and so are their descriptors. New threads are found by looking; at each look every
//! thread gets another period, drawn uniformly from seven to nine eighths of what is wanted: enough not to keep step with
//! anything, and little enough for windows to be worth nearly the same.
//!
//! Of what Linux has this disturbs least: the high-resolution timer is exact to microseconds at any rate, where timers of
//! CPU time tick 250 times a second at most (`timer_create`), and a signal sent from outside (`tgkill`) would find
//! threads in system calls, some of which then fail with EINTR whatever the handler's flags.
//!
//! # Why nothing else is hit
//! An event is enabled when the runtime has been seen in the process behind it, and the kernel
//! removes it when the process becomes another program.
// `perf_event_open` is in no library, nor are the commands that lead its signal to a thread.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_queue::WINDOW_SIGNAL;

use crate::family::Family;
use crate::series::stamp;

/// User time between two signals, usually.
const PERIOD: Duration = Duration::from_millis(1);
/// How often new threads are looked for.
pub const OFTEN: Duration = Duration::from_millis(5);

/// The events of one process's threads.
pub struct Pacer {
    pid: Pid,
    events: HashMap<i32, Event>,
    looked: Option<Instant>,
    refused: bool,
    period: Duration,
    often: Duration,
    /// Draws periods; none: they are all alike.
    random: Option<SplitMix64>,
}

impl Pacer {
    /// No events yet. `period`: user time between two signals, if not as usual.
    pub fn new(pid: Pid, period: Option<Duration>) -> Self {
        Self {
            pid,
            events: HashMap::new(),
            looked: None,
            refused: false,
            period: period.unwrap_or(PERIOD),
            often: OFTEN,
            random: None,
        }
    }

    /// Periods are drawn at random, and new threads looked for so often.
    pub fn at_random(mut self, often: Duration) -> Self {
        self.random = Some(SplitMix64::new(stamp()));
        self.often = often;
        self
    }

    /// The mean time between two signals, from the next look on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// Looks for new threads, if it is time. Processes without the memory of `family` are left alone.
    ///
    /// # Errors
    /// The kernel refuses events; told once.
    pub fn look(&mut self, family: &Family) -> io::Result<()> {
        if self.looked.is_some_and(|at| at.elapsed() < self.often) || self.refused {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = tasks.into_iter().flatten().flatten();
        let there: Vec<i32> = names
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        self.events.retain(|tid, _| there.contains(tid));
        for tid in there {
            let period = self.draw();
            if let Some(event) = self.events.get(&tid) {
                if self.random.is_some() {
                    event.set_period(period);
                }
                continue;
            }
            match Event::open(tid, period, WINDOW_SIGNAL) {
                Ok(event) => {
                    // The runtime may not have come as far, or be gone.
                    if family.is_mapped_by(Pid::from_raw(tid)) {
                        event.enable();
                        self.events.insert(tid, event);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    self.refused = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Duration {
        match &mut self.random {
            None => self.period,
            Some(random) => {
                let mean = self.period.as_nanos() as u64;
                Duration::from_nanos(mean - mean / 8 + random.below(mean / 4))
            }
        }
    }
}

/// A perf event of a thread's CPU clock.
pub(crate) struct Event(OwnedFd);

impl Event {
    /// One that is not enabled, and sends the thread a signal.
    pub(crate) fn open(tid: i32, period: Duration, signal: i32) -> io::Result<Self> {
        const BYTES: usize = 128;
        const TYPE_SOFTWARE: u64 = 1;
        const CPU_CLOCK: u64 = 0;
        const DISABLED: u64 = 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const REMOVE_ON_EXEC: u64 = 1 << 36;
        const CLOEXEC: u64 = 8;
        const F_SETSIG: i32 = 10;
        const F_SETOWN_EX: i32 = 15;
        const OWNER_THREAD: i32 = 0;
        // struct perf_event_attr: type and size, config, period, sample type, read format, flags.
        let mut attributes = [0_u64; BYTES / 8];
        attributes[0] = TYPE_SOFTWARE | (BYTES as u64) << 32;
        attributes[1] = CPU_CLOCK;
        attributes[2] = period.as_nanos() as u64;
        attributes[5] = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC;
        // SAFETY: attributes of the size that they say; the descriptor is checked before it is owned.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                tid,
                -1,
                -1,
                CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, nobody else's.
        let event = Self(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        let fd = event.0.as_raw_fd();
        let owner = [OWNER_THREAD, tid];
        // SAFETY: a descriptor of ours, and an owner that lives here.
        let failed = unsafe {
            libc::fcntl(fd, F_SETSIG, signal) < 0
                || libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()) < 0
                || libc::fcntl(fd, libc::F_SETFL, libc::O_RDWR | libc::O_ASYNC) < 0
        };
        match failed {
            true => Err(io::Error::last_os_error()),
            false => Ok(event),
        }
    }

    pub(crate) fn enable(&self) {
        const ENABLE: libc::c_ulong = 0x2400;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), ENABLE, 0) };
    }

    fn set_period(&self, period: Duration) {
        const PERIOD: libc::c_ulong = 0x4008_2404;
        let nanos = period.as_nanos() as u64;
        // SAFETY: a descriptor of ours, and a number that the kernel reads.
        unsafe { libc::ioctl(self.0.as_raw_fd(), PERIOD, &raw const nanos) };
    }
}
