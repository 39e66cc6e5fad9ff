//! The program restricts system calls: filters (seccomp), and dispatch by the calling address.
//!
//! # The rule
//! * What only asks changes nothing.
//! * A filter that allows all calls that the runtime makes leaves the program observed. Whether it does is found out
//!   from the filter itself, before it is set ([`trommel_queue::seccomp`]). A program that was attached does without many of them ([`call`]).
//! * A filter may have calls of the program's reported to its handler of SIGSYS (`crate::process::signal::reported`).
//! * Any other filter, strict mode, and syscall user dispatch detach the program before the call. Syscall user dispatch
//!   compares the address that a call is made from, which in the code cache is another one.
//!
//! The heap is the lock's, so a copy of a filter is made and given back with it.
//!
//! # Calls that the kernel refuses
//! They change nothing, so they do not detach.
//! * What a thread can undo is tried out ([`is_refused`]): the thread makes the call and undoes it at once, with all signals blocked.
//! * A filter cannot be undone. Refused for certain are filters that are malformed, and those of a thread that may set none.

#![allow(unsafe_code)] // reason: makes calls of the app's, and undoes them.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::Detached;
use trommel_queue::seccomp::{self, Instruction, MAX_INSTRUCTIONS, Terms};

use alloc::vec;
use alloc::vec::Vec;

use linux_raw_sys::general as nr;

use crate::base::call;
use crate::base::signals;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::state::Thread;
use crate::process::sequences;

/// Bytes of an instruction.
const BYTES: usize = size_of::<Instruction>();

/// Returns the reason why a program that makes this `prctl` is not observed any more, if there is one.
pub fn by_prctl(thread: &Thread, a: &[u64; 6]) -> Option<Detached> {
    const PR_SET_SECCOMP: u64 = 22;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    const STRICT: u64 = 1;
    match a[0] {
        PR_SET_SECCOMP if a[1] == STRICT => Some(Detached::Seccomp),
        PR_SET_SECCOMP => by_filter(thread, a[2]),
        // Off is 0.
        PR_SET_SYSCALL_USER_DISPATCH if a[1] != 0 => {
            // A byte that lets all calls through, so that the second one is made.
            let allow = 0_u8;
            let tried = [a[0], a[1], a[2], a[3], &raw const allow as u64];
            let refused = is_beyond(a[4]) || is_refused(nr::__NR_prctl, &tried, &[a[0]]);
            (!refused).then_some(Detached::Dispatch)
        }
        _ => None,
    }
}

/// The same of `seccomp`.
pub fn by_seccomp(thread: &Thread, a: &[u64; 6]) -> Option<Detached> {
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    match u64::from(a[0] as u32) {
        // It takes neither flags nor a program.
        SET_MODE_STRICT => (a[1] as u32 == 0 && a[2] == 0).then_some(Detached::Seccomp),
        SET_MODE_FILTER => by_filter(thread, a[2]),
        _ => None,
    }
}

/// The same of `arch_prctl`.
pub fn by_arch(thread: &Thread, a: &[u64; 6]) -> Option<Detached> {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_SHSTK_ENABLE: u64 = 0x5001;
    const ARCH_SHSTK_DISABLE: u64 = 0x5002;
    const SHSTK: u64 = 1;
    let (why, undo) = match (a[0], a[1]) {
        (ARCH_SET_GS, base) if is_beyond(base) => return None,
        (ARCH_SET_GS, _) => (Detached::GsBase, [ARCH_SET_GS, thread.area()]),
        // Returns in the cache are jumps, which a shadow stack would not follow. Other features need it.
        (ARCH_SHSTK_ENABLE, SHSTK) => (Detached::ShadowStack, [ARCH_SHSTK_DISABLE, SHSTK]),
        _ => return None,
    };
    (!is_refused(nr::__NR_arch_prctl, &a[..2], &undo)).then_some(why)
}

/// Returns whether no program may have memory at an address.
fn is_beyond(at: u64) -> bool {
    at as i64 <= -1
}

/// Returns whether the kernel refuses a call. `undo`: arguments with which the same call undoes it.
fn is_refused(number: u32, args: &[u64], undo: &[u64]) -> bool {
    let numbered = |args: &[u64]| {
        let mut call: arch::Numbered = [0; 7];
        call[0] = u64::from(number);
        call[1..=args.len()].copy_from_slice(args);
        call
    };
    let (call, undo) = (numbered(args), numbered(undo));
    let mask = signals::block_all();
    // SAFETY: what it does is of this thread, and undone.
    let result = unsafe { arch::attempt(&raw const call, &raw const undo) };
    signals::set_mask(mask);
    result != 0
}

/// The same of a filter: a `struct sock_fprog` of the app's.
fn by_filter(thread: &Thread, program: u64) -> Option<Detached> {
    let mut head = [0; 16];
    if !sys::copy_checked(program, &mut head) {
        // The kernel refuses it.
        return None;
    }
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let at = head[8..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b));
    if count == 0 || count > MAX_INSTRUCTIONS {
        return None;
    }
    let runtime = &thread.process.runtime;
    let heap = runtime.lock();
    let (mut bytes, mut filter) = (vec![0; count * BYTES], Vec::with_capacity(count));
    drop(heap);
    // Without the lock: the program's memory may take its time.
    let is_read = sys::copy_checked(at, &mut bytes);
    filter.extend(bytes.as_chunks::<BYTES>().0.iter().map(Instruction::of));
    let refused = is_read && is_refusing(thread, &filter);
    let heap = runtime.lock();
    drop((bytes, filter));
    drop(heap);
    (refused && may_set_filters()).then_some(Detached::Seccomp)
}

/// Returns whether a filter that is about to be set refuses what the runtime needs. If it does not, the runtime is ready for it.
fn is_refusing(thread: &Thread, filter: &[Instruction]) -> bool {
    let control = thread.process.queue.control();
    let terms = Terms {
        pid: Some(sys::getpid() as u32),
        suspended: control.attached.suspends.load(Relaxed) != 0
            && control.setup.follow.load(Relaxed) == 0
            && !thread.process.has_windows(),
        bases: arch::has_base_instructions(),
    };
    let allows = |call| seccomp::allows(filter, call, terms.pid);
    if !allows(&seccomp::SEQUENCES) {
        sequences::forbid();
    }
    if !allows(&seccomp::RESIDENT) {
        sys::hide_residence();
    }
    if seccomp::may_report(filter) {
        sys::expect_reports();
    }
    if seccomp::is_malformed(filter) {
        return false;
    }
    let refused = seccomp::refused(filter, terms).is_some();
    if !refused {
        // Nobody is reading the memory map just then.
        let _runtime = thread.process.runtime.lock();
        call::do_without(call::without().and(seccomp::without(filter, terms)));
    }
    refused
}

/// Returns whether the kernel lets this thread set a filter: it can gain no privileges, or has this one. True where that cannot be read.
fn may_set_filters() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let Ok(file) = sys::open(c"/proc/thread-self/status") else {
        return true;
    };
    let mut text = [0; 4096];
    let len = sys::read(file, &mut text).unwrap_or(0);
    sys::close(file);
    let value = |name: &[u8]| {
        let mut lines = text[..len].split(|&byte| byte == b'\n');
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(<[u8]>::trim_ascii)
    };
    let capabilities = value(b"CapEff:").and_then(|digits| core::str::from_utf8(digits).ok());
    let capabilities = capabilities.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let is_able = capabilities.is_none_or(|set| set >> CAP_SYS_ADMIN & 1 != 0);
    is_able || value(b"NoNewPrivs:") != Some(b"0")
}
