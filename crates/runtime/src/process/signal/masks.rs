//! The app's changes of its mask.
//!
//! The runtime makes the call, since it must know which threads block SIGSEGV, and may hide that from the kernel
//! (`engine::blocked`). Unless a signal comes first: the mask is not the app's while one is kept.
#![allow(unsafe_code)] // reason: makes the app's system call.

use linux_raw_sys::general as nr;

use crate::base::area::Context;
use crate::base::blocked::Blocked;
use crate::base::signals::{SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, SIGSEGV, bit};
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::state::Thread;

const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
const SET_BYTES: u64 = 8;

/// A change: its kind, and the set.
#[derive(Clone, Copy)]
struct Change {
    how: u64,
    set: u64,
}

impl Change {
    /// Returns the change that a call asks for, if any. `blocked`: the thread's block of SIGSEGV.
    fn asked(a: &[u64; 6], blocked: Blocked) -> Result<Option<Self>, i64> {
        if a[3] != SET_BYTES {
            return Err(EINVAL);
        }
        if a[1] == 0 {
            return Ok(None);
        }
        let set = set_at(a[1], blocked).ok_or(EFAULT)?;
        let how = u64::from(a[0] as u32);
        match how {
            SIG_BLOCK | SIG_UNBLOCK | SIG_SETMASK => Ok(Some(Self { how, set })),
            _ => Err(EINVAL),
        }
    }

    /// Returns the mask that it makes of `mask`.
    const fn of(self, mask: u64) -> u64 {
        match self.how {
            SIG_BLOCK => mask | self.set,
            SIG_UNBLOCK => mask & !self.set,
            _ => self.set,
        }
    }
}

/// Reads a set of the app's, which may not be there.
fn set_at(address: u64, blocked: Blocked) -> Option<u64> {
    let mut set = 0;
    // A fault that the kernel blocks would end the process. Otherwise it is much cheaper than a call.
    let read = match blocked.in_kernel() {
        true => {
            let mut bytes = [0; SET_BYTES as usize];
            let read = sys::copy_checked(address, &mut bytes);
            set = u64::from_le_bytes(bytes);
            read
        }
        // SAFETY: a word to write to.
        false => unsafe { arch::peek(address, SET_BYTES, &raw mut set) != 0 },
    };
    read.then_some(set)
}

/// Makes `rt_sigprocmask` in the app's name. `None`: a signal comes first.
pub fn change_mask(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> Option<i64> {
    let change = match Change::asked(a, thread.signals.blocked.get()) {
        Ok(change) => change,
        Err(error) => return Some(error),
    };
    let mut runtime = thread.process.runtime.lock();
    // From here on the kernel does not block what is hidden.
    runtime.hide_block(thread);
    let before = thread.signals.blocked.get();
    let mut set = change.map_or(0, |change| change.set);
    if let Some(change) = change {
        let mask = change.of(before.in_masks());
        runtime.take_mask(thread, mask);
        if mask & bit(SIGSEGV) != 0 {
            set = thread.signals.blocked.get().to_kernel(set);
        }
    }
    drop(runtime);
    let args = [
        change.map_or(SIG_BLOCK, |change| change.how),
        change.map_or(0, |_| &raw const set as u64),
        a[2],
        SET_BYTES,
        0,
        0,
    ];
    let number = u64::from(nr::__NR_rt_sigprocmask);
    // SAFETY: a word to read, and one of the app's to write; the context's word is this thread's.
    let result = unsafe { arch::unless_pending(number, &args, &raw const context.pending) };
    if result == arch::CALLED_OFF {
        let mut runtime = thread.process.runtime.lock();
        runtime.blocks_as_before(thread, before);
        return None;
    }
    thread.call.made = Some(result);
    if result == 0 && a[2] != 0 && before == Blocked::Hidden {
        let old = set_at(a[2], thread.signals.blocked.get()).map(|old| before.to_app(old));
        let shown = old.is_some_and(|old| sys::write_checked(&old.to_le_bytes(), a[2]));
        return Some(if shown { 0 } else { EFAULT });
    }
    Some(result)
}
