//! Memory that the program locks.
//!
//! # Problem
//! `mlockall` locks all memory of a process, and makes all of it present. The runtime's reservations are gigabytes, of
//! which little is ever used: locking them takes half a minute, and fails for ordinary users, whose limit
//! (`RLIMIT_MEMLOCK`) they exceed. With `MCL_FUTURE` the kernel would do the same to each mapping that the runtime makes
//! later.
//!
//! # Strategy
//! The runtime stands in for the kernel. `MCL_CURRENT` locks each mapping of the program's ([`lock_all`]). `MCL_FUTURE` is kept
//! here, and each mapping that the program makes is locked when it is made ([`lock_new`]). When the program is detached the
//! kernel takes over ([`detached`]). What was reserved for counts and words then has no access rights ([`hide`]): of such memory the kernel
//! makes nothing present.
//!
//! # The kernel's rules that are followed
//! * `MCL_CURRENT` is refused with ENOMEM where all memory of the program exceeds the limit and it has not CAP_IPC_LOCK. So much
//!   is locked or nothing.
//! * Pages that cannot be made present are no error.
//! * A new mapping that exceeds the limit is refused with EAGAIN.
//! * A forked child has no locks, and no `MCL_FUTURE`.
#![allow(unsafe_code)] // reason: system calls.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::limits;
use crate::base::sys;
use crate::memory::mapping;

const CURRENT: u64 = 1;
const FUTURE: u64 = 2;
const ON_FAULT: u64 = 4;

const EPERM: i64 = -1;
const EAGAIN: i64 = -11;
const ENOMEM: i64 = -12;
const EINVAL: i64 = -22;

/// Flags of the last `mlockall`, if it has [`FUTURE`].
static NEW: AtomicU64 = AtomicU64::new(0);

fn lock(range: Range, on_fault: bool) -> i64 {
    let args = [
        range.start,
        range.end - range.start,
        on_fault.into(),
        0,
        0,
        0,
    ];
    // SAFETY: no byte of memory changes.
    unsafe { sys::call(nr::__NR_mlock2, args) }
}

/// Bytes that the program may lock; `None`: as many as it likes.
fn limit() -> Option<u64> {
    const RLIMIT_MEMLOCK: u64 = 8;
    const VERSION_3: u64 = 0x2008_0522;
    const CAP_IPC_LOCK: u32 = 14;
    let header = [VERSION_3, 0];
    let mut sets = [0_u32; 6];
    let args = [header.as_ptr() as u64, sets.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: a header, and room for two sets of three words.
    let _ = unsafe { sys::call(nr::__NR_capget, args) };
    // SAFETY: written by the kernel.
    if unsafe { (&raw const sets[0]).read_volatile() } & 1 << CAP_IPC_LOCK != 0 {
        return None;
    }
    let mut limit = [0_u64; 2];
    let args = [0, RLIMIT_MEMLOCK, 0, limit.as_mut_ptr() as u64, 0, 0];
    // SAFETY: room for a limit.
    let _ = unsafe { sys::call(nr::__NR_prlimit64, args) };
    // SAFETY: written by the kernel.
    let soft = unsafe { (&raw const limit[0]).read_volatile() };
    (soft != u64::MAX).then_some(soft)
}

/// `mlockall` of the app: the kernel's answer. With the runtime's lock held.
pub fn lock_all(flags: u64) -> i64 {
    if flags == 0 || flags & !(CURRENT | FUTURE | ON_FAULT) != 0 || flags == ON_FAULT {
        return EINVAL;
    }
    let limit = limit();
    if limit == Some(0) {
        return EPERM;
    }
    if flags & CURRENT != 0 {
        // The kernel's own words are at addresses beyond the process's.
        const KERNEL: u64 = 1 << 63;
        let Some(mut all) = mapping::read_all() else {
            return ENOMEM;
        };
        all.retain(|m| !limits::is_ours(m.range.start) && m.range.start < KERNEL);
        let bytes: u64 = all.iter().map(|m| m.range.end - m.range.start).sum();
        if limit.is_some_and(|limit| bytes > limit) {
            return ENOMEM;
        }
        for mapping in all {
            // What cannot be made present is locked all the same.
            let _ = lock(mapping.range, flags & ON_FAULT != 0);
        }
    }
    NEW.store(if flags & FUTURE != 0 { flags } else { 0 }, Relaxed);
    0
}

/// `munlockall` of the app was made, or this is a forked child.
pub fn forget() {
    NEW.store(0, Relaxed);
}

/// Returns whether mappings that the app makes are to be locked.
pub fn is_wanted() -> bool {
    NEW.load(Relaxed) != 0
}

/// The app has made a mapping: locks it, if that is wanted. The kernel's answer if it is refused.
pub fn lock_new(range: Range) -> Result<(), i64> {
    let flags = NEW.load(Relaxed);
    if flags == 0 || range.start >= range.end {
        return Ok(());
    }
    // Nothing is made present so: an error is the limit's.
    if lock(range, true) != 0 {
        return Err(EAGAIN);
    }
    if flags & ON_FAULT == 0 {
        let _ = lock(range, false);
    }
    Ok(())
}

/// The program runs natively from now on.
pub fn detached() {
    let flags = NEW.swap(0, Relaxed);
    if flags != 0 {
        // SAFETY: no memory is touched: `MCL_CURRENT` is not among the flags.
        let _ = unsafe { sys::call(nr::__NR_mlockall, [flags & !CURRENT, 0, 0, 0, 0, 0]) };
    }
}

/// No thread is under control any more, so nobody uses the large tables of the slot. Gigabytes of them were never touched.
pub fn hide(tables: Option<Range>) {
    if let Some(tables) = tables {
        sys::protect(tables.start..tables.end, nr::PROT_NONE);
    }
}

/// Undoes [`hide`], before a thread is under control again.
pub fn show(tables: Option<Range>) {
    if let Some(tables) = tables {
        sys::protect(tables.start..tables.end, nr::PROT_READ | nr::PROT_WRITE);
    }
}
