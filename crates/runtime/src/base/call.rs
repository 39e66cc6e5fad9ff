//! System calls, raw, and those on descriptors.
//!
//! Nothing here knows of memory that is the runtime's, or of limits: both import this.
//!
//! # Calls that filters refuse
//! A program may be observed although its filters (seccomp) refuse some calls of the runtime's, or end it for them. The host says which
//! ([`trommel_queue::seccomp::Without`]). They are not made: to the rest of the runtime they seem to be calls that this kernel does not have. So
//! each has another way, or is one that may fail.
//!
//! **I42 (calls under filters).** The runtime makes no call that a filter of the program may refuse.
#![allow(unsafe_code)] // reason: system calls.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

pub use linux_raw_sys::general as nr;
use trommel_queue::seccomp::Without;

use crate::base::syscalls::NUMBERS;

/// A failed system call: the positive error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// A signal interrupted the call.
    pub const EINTR: Self = Self(4);
    /// `ENOENT`: no such file or entry.
    pub const ENOENT: Self = Self(2);
    /// The process has no more descriptors.
    pub const EMFILE: Self = Self(24);
    /// A request that this file, or this kernel, does not know.
    pub const ENOTTY: Self = Self(25);
    /// A file is too large.
    pub const EFBIG: Self = Self(27);
    /// There is no such call, or it is not made.
    pub const ENOSYS: Self = Self(38);
}

/// Bits of [`Without`]: 0 in nearly every program.
static WITHOUT: AtomicU64 = AtomicU64::new(0);
/// A bit for each number of which some calls are not made.
static TOUCHED: [AtomicU64; NUMBERS as usize / 64] =
    [const { AtomicU64::new(0) }; NUMBERS as usize / 64];
/// The process as it sees itself, once some calls are not made.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Makes none of these calls from now on, and all others.
pub fn do_without(calls: Without) {
    if calls == Without::default() {
        return WITHOUT.store(0, Relaxed);
    }
    // SAFETY: no arguments.
    let pid = unsafe { made(nr::__NR_getpid, [0; 6]) };
    OWN.store(pid as u32, Relaxed);
    for number in calls.numbers().filter(|&number| number < NUMBERS) {
        TOUCHED[number as usize / 64].fetch_or(1 << (number % 64), Relaxed);
    }
    WITHOUT.store(calls.0, Relaxed);
}

/// The calls that are not made.
pub fn without() -> Without {
    Without(WITHOUT.load(Relaxed))
}

/// Returns whether a call is one that is not made.
#[inline]
pub fn is_left_out(number: u32, args: &[u64; 6]) -> bool {
    WITHOUT.load(Relaxed) != 0 && is_without(number, args)
}

#[cold]
fn is_without(number: u32, args: &[u64; 6]) -> bool {
    let touched = TOUCHED.get(number as usize / 64);
    touched.is_some_and(|bits| bits.load(Relaxed) >> (number % 64) & 1 != 0)
        && without().has(number, args, OWN.load(Relaxed))
}

/// Does a system call, unless it is left out.
///
/// # Safety
/// As the call itself: pointers among the arguments must be valid for what the call does with
/// them, and it must not break what the rest of the program relies on.
#[inline]
pub unsafe fn call(nr: u32, args: [u64; 6]) -> i64 {
    if is_left_out(nr, &args) {
        return -i64::from(Errno::ENOSYS.0);
    }
    // SAFETY: handed on to the caller.
    unsafe { made(nr, args) }
}

/// Does a system call in any case: one of the app's, which filters are to judge.
///
/// # Safety
/// The same as for [`call`].
#[inline]
pub unsafe fn made(nr: u32, args: [u64; 6]) -> i64 {
    let result;
    // SAFETY: the caller answers for the call; the registers it clobbers are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(nr) => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

fn check(result: i64) -> Result<u64, Errno> {
    if (-4095..0).contains(&result) {
        Err(Errno(-result as i32))
    } else {
        Ok(result as u64)
    }
}

/// Does a system call, and returns its error as an [`Errno`].
///
/// # Safety
/// The same as for [`call`].
pub unsafe fn checked(nr: u32, args: [u64; 6]) -> Result<u64, Errno> {
    // SAFETY: handed on to the caller.
    check(unsafe { call(nr, args) })
}

/// Opens a file for reading. `path` ends with a NUL byte.
pub fn open(path: &core::ffi::CStr) -> Result<i32, Errno> {
    const AT_FDCWD: i64 = -100;
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
    let args = [AT_FDCWD as u64, path.as_ptr() as u64, flags, 0, 0, 0];
    // SAFETY: the path is NUL-terminated.
    unsafe { checked(nr::__NR_openat, args) }.map(|fd| fd as i32)
}

/// Reads what fits, restarting when interrupted.
pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        // SAFETY: the buffer is ours and as long as said.
        let n = unsafe {
            checked(
                nr::__NR_read,
                [
                    fd as u64,
                    buffer.as_mut_ptr() as u64,
                    buffer.len() as u64,
                    0,
                    0,
                    0,
                ],
            )
        };
        match n {
            Err(Errno::EINTR) => {}
            other => return other.map(|n| n as usize),
        }
    }
}

/// Closes a file.
pub fn close(fd: i32) {
    // SAFETY: the descriptor is ours.
    let _ = unsafe { call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]) };
}
