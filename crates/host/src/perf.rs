//! The kernel's CPU clock of a thread: program counters sampled, or signals sent.
//!
//! A perf event that counts user time only. Its descriptor is ours, and it needs no privilege but that we may trace the
//! thread. A [`Sampler`] has a ring of program counters that we read: the thread notices nothing.
// `perf_event_open` and its ring are in no library that is not larger than what is needed of them.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

const PAGE: usize = 4096;
/// Bytes of samples in a ring; a power of two, of whole pages.
const RING: usize = PAGE;
/// Where the kernel says up to where it has written, in the first page, and where we say up to where we
/// have read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A thread's clock.
pub struct Clock(OwnedFd);

impl Clock {
    /// One that overflows each `period` of user time, and sends the thread a signal then. It does nothing before
    /// it is enabled.
    ///
    /// # Errors
    /// The kernel does not allow it, or the thread is gone.
    pub fn signalling(tid: i32, period: Duration, signal: i32) -> io::Result<Self> {
        const DISABLED: u64 = 1;
        const NOTHING: u64 = 0;
        const F_SETSIG: i32 = 10;
        const F_SETOWN_EX: i32 = 15;
        const OWNER_THREAD: i32 = 0;
        let clock = Self::open(tid, period, NOTHING, DISABLED)?;
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

    /// `sample`: what is put into a ring, if there is one. `flags`: beside those that all have.
    fn open(tid: i32, period: Duration, sample: u64, flags: u64) -> io::Result<Self> {
        const BYTES: usize = 128;
        const TYPE_SOFTWARE: u64 = 1;
        const CPU_CLOCK: u64 = 0;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const REMOVE_ON_EXEC: u64 = 1 << 36;
        const CLOEXEC: u64 = 8;
        // struct perf_event_attr: type and size, config, period, sample type, read format, flags.
        let mut attributes = [0_u64; BYTES / 8];
        attributes[0] = TYPE_SOFTWARE | (BYTES as u64) << 32;
        attributes[1] = CPU_CLOCK;
        attributes[2] = period.as_nanos() as u64;
        attributes[3] = sample;
        attributes[5] = flags | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC;
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
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// It goes from now on.
    pub fn enable(&self) {
        const ENABLE: libc::c_ulong = 0x2400;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), ENABLE, 0) };
    }

    /// It stands still from now on.
    pub fn disable(&self) {
        const DISABLE: libc::c_ulong = 0x2401;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), DISABLE, 0) };
    }

    /// It goes from now on up to its first overflow.
    pub fn enable_once(&self) {
        const REFRESH: libc::c_ulong = 0x2402;
        // SAFETY: a descriptor of ours; no memory is involved.
        unsafe { libc::ioctl(self.0.as_raw_fd(), REFRESH, 1) };
    }

    /// It overflows less or more often from now on.
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
    ring: NonNull<u8>,
}

impl Sampler {
    /// Samples a thread each `period` of its user time.
    ///
    /// # Errors
    /// The kernel does not allow it, or the thread is gone.
    pub fn open(tid: i32, period: Duration) -> io::Result<Self> {
        const SAMPLE_IP: u64 = 1;
        let clock = Clock::open(tid, period, SAMPLE_IP, 0)?;
        let len = NonZeroUsize::new(PAGE + RING).unwrap_or(NonZeroUsize::MIN);
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes it.
        let ring = unsafe { mmap(None, len, rights, MapFlags::MAP_SHARED, &clock.0, 0) };
        Ok(Self {
            clock,
            ring: ring?.cast(),
        })
    }

    /// Samples less or more often from now on.
    pub fn set_period(&self, period: Duration) {
        self.clock.set_period(period);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: in the first page, aligned; the kernel writes whole words.
        unsafe { self.ring.add(at).cast().as_ref() }
    }

    /// A word of the ring, which is aligned as records are.
    fn data(&self, at: u64) -> u64 {
        let at = PAGE + (at as usize & (RING - 1) & !7);
        self.word(at).load(Ordering::Relaxed)
    }

    /// Calls `found` with each program counter since the last time.
    pub fn drain(&self, mut found: impl FnMut(u64)) {
        const SAMPLE: u32 = 9;
        const HEADER: u64 = 8;
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        // Records are a header (kind, flags, bytes in all), and for samples the program counter.
        while tail < head {
            let header = self.data(tail);
            if header as u32 == SAMPLE {
                found(self.data(tail + HEADER));
            }
            tail += (header >> 48).max(HEADER);
        }
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the mapping made above, of which no reference is left.
        let _ = unsafe { munmap(self.ring.cast(), PAGE + RING) };
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
        let Ok(sampler) = Sampler::open(mine, Duration::from_micros(200)) else {
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
