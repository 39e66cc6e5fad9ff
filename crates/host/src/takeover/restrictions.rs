//! Restrictions of system calls that a stopped thread has: whether the runtime could make its calls.
//!
//! A filter (seccomp) is read from the kernel ([`crate::ptrace::filters`]) and executed for each call that the runtime needs
//! ([`trommel_queue::seccomp`]). Calls that it can do without are left out where a filter refuses them. Syscall user dispatch looks at the address that a call is made from, which would be one
//! of the code cache.
// Raw ptrace requests.
#![allow(unsafe_code)]

use nix::unistd::Pid;
use trommel_queue::seccomp::{self, Terms, Without};

use crate::ptrace::filters::filter;
use crate::takeover::failure::{AttachFailure, Result};

/// Refuses a thread with syscall user dispatch. Kernels before 6.4 do not say whether it has that.
pub(super) fn check_dispatch(tid: Pid) -> Result<()> {
    const GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;
    // Mode, selector, offset, length.
    let mut found = [0_u64; 4];
    let bytes = size_of_val(&found);
    // SAFETY: the kernel writes as many bytes as said.
    let done = unsafe {
        libc::ptrace(
            GET_SYSCALL_USER_DISPATCH_CONFIG,
            tid.as_raw(),
            bytes,
            found.as_mut_ptr(),
        )
    };
    match done == 0 && found[0] != 0 {
        true => Err(AttachFailure::Dispatch(tid)),
        false => Ok(()),
    }
}

/// Returns whether all filters of a thread that can be attached to allow `rseq`.
pub(super) fn allow_sequences(tid: Pid) -> bool {
    // Who may not read filters attaches to threads without any.
    let mut filters = (0..).map_while(|number| filter(tid, number).ok().flatten());
    filters.all(|filter| seccomp::allows(&filter, &seccomp::SEQUENCES, None))
}

/// Refuses a thread with filters that do not allow what the runtime needs. Returns the calls that it is not to make there.
pub(super) fn check_filters(tid: Pid, terms: Terms) -> Result<Without> {
    let (mut number, mut without) = (0, Without::default());
    while let Some(filter) = filter(tid, number).map_err(AttachFailure::Filters)? {
        if let Some(why) = seccomp::refused(&filter, terms) {
            return Err(AttachFailure::Filter(tid, why));
        }
        without = without.and(seccomp::without(&filter, terms));
        number += 1;
    }
    Ok(without)
}
