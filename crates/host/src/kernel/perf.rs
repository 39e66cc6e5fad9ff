//! The kernel's CPU clock of a thread, or of a processor: program counters sampled, or signals sent.
//!
//! The clock of a thread is a perf event that counts user time only. Its descriptor is ours. It needs no privilege but that we
//! may trace the thread. A [`Sampler`] has a ring of program counters that we read, and the thread notices nothing. The clock of a
//! processor ([`Attributes::of_machine`]) also counts the kernel's time, of any process. It reports registers and
//! what processes map and execute. That needs privilege. The clocks of one's own processes ([`Attributes::of_processes`]) do the same for those,
//! and need none while they leave out the kernel's time. Both can report the stack ([`Attributes::with_stacks`]).
// `perf_event_open` is in no library that is not larger than what is needed of it.
#![allow(unsafe_code)]

pub mod records;
pub mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use records::Records;
use ring::Ring;

/// Pages of a thread's ring.
const PAGES: usize = 1;

/// Attributes of an event: what it counts and records.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The kernel's number of the software event that is counted.
    event: u64,
    /// Counted nanoseconds, or events, from one overflow to the next.
    period: u64,
    /// The members of a record in the ring, if there is one.
    sample: u64,
    flags: u64,
    user_registers: u64,
    registers: u64,
    /// Bytes of the program's stack in a record.
    stack: u32,
}

impl Attributes {
    const CPU_CLOCK: u64 = 0;
    const CONTEXT_SWITCHES: u64 = 3;
    const DISABLED: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const ENABLE_ON_EXEC: u64 = 1 << 12;
    const NO_USER_CHAIN: u64 = 1 << 22;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    /// Times are of the clock that is named.
    const OWN_CLOCK: u64 = 1 << 25;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SAMPLE_PC: u64 = 1;

    /// The user time of a thread, up to the next program that it executes.
    const fn of_thread(period: Duration, sample: u64, flags: u64) -> Self {
        Self {
            event: Self::CPU_CLOCK,
            period: period.as_nanos() as u64,
            sample,
            flags: flags | Self::EXCLUDE_KERNEL | Self::EXCLUDE_HYPERVISOR | Self::REMOVE_ON_EXEC,
            user_registers: 0,
            registers: 0,
            stack: 0,
        }
    }

    /// All time that is not idle, with [`records`] of samples with registers, and of what processes do. It does nothing
    /// before it is enabled.
    pub const fn of_machine(period: Duration) -> Self {
        const SAMPLE_THREAD: u64 = 1 << 1;
        const SAMPLE_TIME: u64 = 1 << 2;
        const SAMPLE_CPU: u64 = 1 << 7;
        const SAMPLE_USER_REGISTERS: u64 = 1 << 12;
        const SAMPLE_REGISTERS: u64 = 1 << 18;
        const EXCLUDE_IDLE: u64 = 1 << 7;
        const MAPS: u64 = 1 << 8 | 1 << 23;
        const NAMES: u64 = 1 << 9 | 1 << 24;
        const TASKS: u64 = 1 << 13;
        // Each record has what samples have of process, time and processor.
        const IN_ALL: u64 = 1 << 18;
        Self {
            event: Self::CPU_CLOCK,
            period: period.as_nanos() as u64,
            sample: Self::SAMPLE_PC
                | SAMPLE_THREAD
                | SAMPLE_TIME
                | SAMPLE_CPU
                | SAMPLE_USER_REGISTERS
                | SAMPLE_REGISTERS,
            flags: Self::DISABLED
                | Self::EXCLUDE_HYPERVISOR
                | EXCLUDE_IDLE
                | MAPS
                | NAMES
                | TASKS
                | IN_ALL
                | Self::OWN_CLOCK,
            user_registers: records::COUNTER,
            registers: records::GENERAL,
            stack: 0,
        }
    }

    /// The same as [`Self::of_machine`], for a thread and all that come of it. `kernel`: the kernel's time counts too, which needs privilege.
    /// `by_exec`: they count from the next program that is executed.
    pub const fn of_processes(period: Duration, kernel: bool, by_exec: bool) -> Self {
        let mut all = Self::of_machine(period);
        all.flags |= Self::INHERIT;
        if !kernel {
            all.flags |= Self::EXCLUDE_KERNEL;
        }
        if by_exec {
            all.flags |= Self::ENABLE_ON_EXEC;
        }
        all
    }

    /// The user time of this thread alone, with such records, and so many bytes of the stack.
    pub const fn of_own(period: Duration, stack: u32) -> Self {
        let mut all = Self::of_processes(period, false, false);
        all.flags &= !Self::INHERIT;
        match stack {
            0 => all,
            bytes => all.with_stacks(bytes),
        }
    }

    /// The same, of each moment in which a thread gives up its processor, with so many bytes of the stack, and with records of each change
    /// from one thread to another. The callers in the kernel are left out.
    #[must_use]
    pub const fn of_waits(self, stack: u32) -> Self {
        const REPORTS: u64 = 1 << 8 | 1 << 23 | 1 << 9 | 1 << 24 | 1 << 13;
        const NO_KERNEL_CHAIN: u64 = 1 << 21;
        const SWITCHES: u64 = 1 << 26;
        let mut all = self.with_stacks(stack);
        all.event = Self::CONTEXT_SWITCHES;
        all.period = 1;
        // The clocks report what processes do.
        all.flags = all.flags & !REPORTS | NO_KERNEL_CHAIN | SWITCHES;
        all
    }

    /// Returns true if samples have stacks.
    pub const fn has_stacks(&self) -> bool {
        self.stack > 0
    }

    /// Samples have so many bytes of the program's stack, all its general registers, and the callers in the kernel.
    #[must_use]
    pub const fn with_stacks(mut self, bytes: u32) -> Self {
        const CHAIN: u64 = 1 << 5;
        const STACK: u64 = 1 << 13;
        self.sample |= CHAIN | STACK;
        self.flags |= Self::NO_USER_CHAIN;
        self.user_registers = records::GENERAL | records::COUNTER;
        // The kernel takes whole words, and a record has fewer than 64 KiB.
        self.stack = if bytes > MOST_STACK {
            MOST_STACK
        } else {
            bytes & !7
        };
        self
    }
}

/// Bytes of the stack in a record, at most.
pub const MOST_STACK: u32 = 65_000 & !7;

/// Any thread, or any processor.
const ANY: i32 = -1;

/// A clock.
pub struct Clock(OwnedFd);

impl AsFd for Clock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Clock {
    /// A clock that overflows each `period` of user time, and sends the thread a signal then. It does nothing before
    /// it is enabled.
    ///
    /// # Errors
    /// The kernel does not allow it, or the thread is gone.
    pub fn signalling(tid: i32, period: Duration, signal: i32) -> io::Result<Self> {
        const NOTHING: u64 = 0;
        const F_SETSIG: i32 = 10;
        const F_SETOWN_EX: i32 = 15;
        const OWNER_THREAD: i32 = 0;
        let attributes = Attributes::of_thread(period, NOTHING, Attributes::DISABLED);
        let clock = Self::open(&attributes, tid, ANY)?;
        let fd = clock.0.as_raw_fd();
        let owner = [OWNER_THREAD, tid];
        // SAFETY: a descriptor of ours, and an owner that lives here.
        let failed = unsafe {
            libc::fcntl(fd, F_SETSIG, signal) < 0
                || libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()) < 0
                || libc::fcntl(fd, libc::F_SETFL, libc::O_RDWR | libc::O_ASYNC) < 0
        };
        match failed {
            true => Err(io::Error::last_os_error()),
            false => Ok(clock),
        }
    }

    /// A clock of a processor.
    ///
    /// # Errors
    /// The kernel does not allow it, or there is no such processor.
    pub fn of_processor(attributes: &Attributes, cpu: i32) -> io::Result<Self> {
        Self::open(attributes, ANY, cpu)
    }

    /// A clock of this thread.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn of_this_thread(attributes: &Attributes) -> io::Result<Self> {
        Self::open(attributes, 0, ANY)
    }

    /// A clock of a thread, this one if `tid` is 0, while it runs on a processor.
    ///
    /// # Errors
    /// The kernel does not allow it, or the thread or processor is gone.
    pub fn of_thread_on(attributes: &Attributes, tid: i32, cpu: u32) -> io::Result<Self> {
        Self::open(attributes, tid, cpu as i32)
    }

    /// Puts the records into the ring of another clock of the same processor.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn share(&self, ring_of: &Self) -> io::Result<()> {
        const SET_OUTPUT: libc::c_ulong = 0x2405;
        // SAFETY: two descriptors of ours; no memory is involved.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), SET_OUTPUT, ring_of.0.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn open(wanted: &Attributes, tid: i32, cpu: i32) -> io::Result<Self> {
        const BYTES: usize = 128;
        const TYPE_SOFTWARE: u64 = 1;
        const CLOEXEC: u64 = 8;
        // struct perf_event_attr: type and size, config, period, sample type, read format, flags; the registers of the
        // program, how much of its stack and which clock, and the registers at the interrupt.
        let mut attributes = [0_u64; BYTES / 8];
        attributes[0] = TYPE_SOFTWARE | (BYTES as u64) << 32;
        attributes[1] = wanted.event;
        attributes[2] = wanted.period;
        attributes[3] = wanted.sample;
        attributes[5] = wanted.flags;
        attributes[10] = wanted.user_registers;
        if wanted.flags & Attributes::OWN_CLOCK != 0 {
            attributes[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        }
        attributes[11] |= u64::from(wanted.stack);
        attributes[12] = wanted.registers;
        // SAFETY: attributes of the size that they say; the descriptor is checked before it is owned.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                tid,
                cpu,
                -1,
                CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Starts the clock.
    pub fn enable(&self) {
        const ENABLE: libc::c_ulong = 0x2400;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), ENABLE, 0) };
    }

    /// Stops the clock.
    pub fn disable(&self) {
        const DISABLE: libc::c_ulong = 0x2401;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), DISABLE, 0) };
    }

    /// Starts the clock up to its first overflow.
    pub fn enable_once(&self) {
        const REFRESH: libc::c_ulong = 0x2402;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), REFRESH, 1) };
    }

    /// Changes the time from one overflow to the next.
    pub fn set_period(&self, period: Duration) {
        const PERIOD: libc::c_ulong = 0x4008_2404;
        let nanos = period.as_nanos() as u64;
        // SAFETY: a descriptor of ours, and a number that the kernel reads.
        unsafe { libc::ioctl(self.0.as_raw_fd(), PERIOD, &raw const nanos) };
    }
}

/// Samples of one thread.
pub struct Sampler {
    clock: Clock,
    ring: Ring,
    taken: Vec<u8>,
}

impl Sampler {
    /// Samples a thread each `period` of its user time.
    ///
    /// # Errors
    /// The kernel does not allow it, or the thread is gone.
    pub fn open(tid: i32, period: Duration) -> io::Result<Self> {
        let attributes = Attributes::of_thread(period, Attributes::SAMPLE_PC, 0);
        let clock = Clock::open(&attributes, tid, ANY)?;
        let ring = Ring::map(&clock, PAGES)?;
        Ok(Self {
            clock,
            ring,
            taken: Vec::new(),
        })
    }

    /// Samples less or more often from now on.
    pub fn set_period(&self, period: Duration) {
        self.clock.set_period(period);
    }

    /// Calls `found` with each program counter since the last time.
    pub fn drain(&mut self, mut found: impl FnMut(u64)) {
        const SAMPLE: u32 = 9;
        self.taken.clear();
        self.ring.take(&mut self.taken);
        let mut records = Records::new(&self.taken);
        while let Some((kind, _, body)) = records.raw() {
            if kind == SAMPLE
                && let Some(pc) = body.first_chunk::<8>()
            {
                found(u64::from_ne_bytes(*pc));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_of_what_runs() {
        #[inline(never)]
        fn spin(rounds: u64) -> u64 {
            (0..rounds).fold(1, |x, n| std::hint::black_box(x ^ n).rotate_left(5))
        }
        let mine = nix::unistd::gettid().as_raw();
        let Ok(mut sampler) = Sampler::open(mine, Duration::from_micros(200)) else {
            eprintln!("perf events are refused here");
            return;
        };
        let mut all = Vec::new();
        for _ in 0..1000 {
            std::hint::black_box(spin(100_000));
            sampler.drain(|pc| all.push(pc));
            if all.len() > 50 {
                break;
            }
        }
        // Far from the stack, at all: in code.
        let here = samples_are_of_what_runs as *const () as u64;
        let near = all.iter().filter(|pc| pc.abs_diff(here) < 1 << 30).count();
        assert!(all.len() > 50 && near * 2 > all.len(), "{near} of {all:?}");
    }
}
