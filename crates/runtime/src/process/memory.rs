//! System calls about limits, and about memory that is locked ([`crate::base::limits`], [`crate::memory::locking`]).
#![allow(unsafe_code)] // reason: makes system calls of the app's.

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::area::Context;
use crate::base::call;
use crate::base::limits;
use crate::base::sys;
use crate::engine::state::Thread;
use crate::engine::vsyscall::{args, raw};
use crate::memory::locking;

const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
/// A flag that `mlockall` does not have.
const NO_FLAG: u64 = 1 << 16;
/// An address that no program can have memory at.
const NOWHERE: u64 = 1;

/// The app has made a mapping of `len` bytes, or was refused it: what it is told.
pub fn made(thread: &Thread, result: i64, len: u64) -> i64 {
    if result < 0 || !locking::is_wanted() {
        return result;
    }
    let start = result as u64;
    let end = start + len.next_multiple_of(sys::PAGE as u64);
    let _runtime = thread.process.runtime.lock();
    match locking::lock_new(Range { start, end }) {
        Ok(()) => result,
        Err(error) => {
            // SAFETY: just made by the app, which is told that it is not there.
            let _ = unsafe { sys::call(nr::__NR_munmap, [start, end - start, 0, 0, 0, 0]) };
            error
        }
    }
}

/// `brk` of the app.
pub fn brk(thread: &Thread, context: &Context, wanted: u64) -> i64 {
    if !locking::is_wanted() {
        return raw(context, nr::__NR_brk);
    }
    // SAFETY: asks.
    let before = unsafe { sys::call(nr::__NR_brk, [0; 6]) };
    let result = raw(context, nr::__NR_brk);
    let page = sys::PAGE as u64;
    let range = Range {
        start: (before as u64).next_multiple_of(page),
        end: (result as u64).next_multiple_of(page),
    };
    let _runtime = thread.process.runtime.lock();
    match locking::lock_new(range) {
        Err(_) if result > before && result as u64 == wanted => {
            // SAFETY: what was just made, and the app does not know of yet.
            unsafe { sys::call(nr::__NR_brk, [before as u64, 0, 0, 0, 0, 0]) }
        }
        _ => result,
    }
}

/// `mlockall` or `munlockall` of the app.
pub fn lock_all(thread: &Thread, context: &Context, number: u32, flags: u64) -> i64 {
    if number == nr::__NR_mlockall
        && let Err(refused) = judged(context, number, (0, flags | NO_FLAG), EINVAL)
    {
        return refused;
    }
    let _runtime = thread.process.runtime.lock();
    if number == nr::__NR_mlockall {
        return locking::lock_all(flags);
    }
    locking::forget();
    raw(context, number)
}

/// Has the filters of the program judge a call that is answered here. The call is made with another value for one argument, for which the kernel itself
/// has the error `harmless`, and does nothing. Another answer is a filter's.
fn judged(
    context: &Context,
    number: u32,
    (argument, value): (usize, u64),
    harmless: i64,
) -> Result<(), i64> {
    let mut args = args(context);
    args[argument] = value;
    // SAFETY: the kernel refuses it for that argument.
    match unsafe { call::made(number, args) } {
        result if result == harmless => Ok(()),
        result => Err(result),
    }
}

fn limit_at(at: u64) -> Option<limits::Limit> {
    let mut bytes = [0; 16];
    let read = sys::copy_checked(at, &mut bytes);
    let word = |n: usize| {
        bytes[n..]
            .first_chunk()
            .map_or(0, |b| u64::from_le_bytes(*b))
    };
    read.then(|| [word(0), word(8)])
}

/// `getrlimit`, `setrlimit` or `prlimit64` of the app.
pub fn limit(thread: &Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    let (pid, resource, new, old) = match number {
        nr::__NR_getrlimit => (0, a[0], 0, a[1]),
        nr::__NR_setrlimit => (0, a[0], a[1], 0),
        _ => (a[0] as i32, a[1], a[2], a[3]),
    };
    let own = pid == 0 || pid == sys::getpid();
    // A process that shares this one's memory has limits of its own.
    let place =
        limits::place(u64::from(resource as u32)).filter(|_| own && thread.spawned.is_none());
    let Some(place) = place else {
        return raw(context, number);
    };
    if new == 0 {
        // The kernel's limit may be higher: the program's own is written over it.
        let asked = raw(context, number);
        if asked != 0 {
            return asked;
        }
    } else {
        let argument = if number == nr::__NR_setrlimit { 1 } else { 2 };
        if let Err(refused) = judged(context, number, (argument, NOWHERE), EFAULT) {
            return refused;
        }
    }
    let wanted = match (new, limit_at(new)) {
        (0, _) if number == nr::__NR_prlimit64 || number == nr::__NR_getrlimit => None,
        (_, None) => return EFAULT,
        (_, wanted) => wanted,
    };
    let runtime = thread.process.runtime.lock();
    let (result, before) = limits::change(place, wanted);
    drop(runtime);
    if result != 0 || old == 0 && number != nr::__NR_getrlimit {
        return result;
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&before[0].to_le_bytes());
    bytes[8..].copy_from_slice(&before[1].to_le_bytes());
    match sys::write_checked(&bytes, old) {
        true => 0,
        false => EFAULT,
    }
}
