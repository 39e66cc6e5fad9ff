//! The program restricts system calls: filters (seccomp), and dispatch by the calling address.
//!
//! # The rule
//! * What only asks changes nothing.
//! * A filter that allows all calls that the runtime makes leaves the program observed. Whether it does is found out
//!   from the filter itself, before it is set ([`trommel_queue::seccomp`]).
//! * Any other filter, strict mode, and syscall user dispatch detach the program before the call. Syscall user dispatch
//!   compares the address that a call is made from, which in the code cache is another one.
//!
//! The heap is the lock's, so a copy of a filter is made and given back with it.
//!
//! The kernel checks the call's arguments. A call that it would refuse detaches only where its filter would.

use trommel_queue::Detached;
use trommel_queue::seccomp::{self, Instruction, MAX_INSTRUCTIONS};

use alloc::vec;
use alloc::vec::Vec;

use crate::base::sys;
use crate::engine::state::Thread;

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
        PR_SET_SYSCALL_USER_DISPATCH if a[1] != 0 => Some(Detached::Dispatch),
        _ => None,
    }
}

/// The same of `seccomp`.
pub fn by_seccomp(thread: &Thread, a: &[u64; 6]) -> Option<Detached> {
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    match a[0] as u32 as u64 {
        SET_MODE_STRICT => Some(Detached::Seccomp),
        SET_MODE_FILTER => by_filter(thread, a[2]),
        _ => None,
    }
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
    let refused = is_read && seccomp::refused(&filter).is_some();
    let heap = runtime.lock();
    drop((bytes, filter));
    drop(heap);
    refused.then_some(Detached::Seccomp)
}
