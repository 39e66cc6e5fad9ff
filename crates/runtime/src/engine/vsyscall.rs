//! System calls made in the app's name, and the kernel's emulated page of them.
#![allow(unsafe_code)] // reason: makes the app's system calls.

use linux_raw_sys::general as nr;

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::call;
use crate::base::sys;

/// The arguments of the call that is about to be made.
pub fn args(context: &Context) -> [u64; 6] {
    let r = &context.regs;
    [r[7], r[6], r[2], r[10], r[8], r[9]]
}

/// Makes the call of this number with the arguments of the context.
pub fn raw(context: &Context, number: u32) -> i64 {
    // SAFETY: the app's own call with its own arguments; what the runtime relies on is seen to by
    // the caller.
    unsafe { call::made(number, args(context)) }
}

/// A call into the kernel's emulated page: does the call and returns for it. Returns false if it faults: nothing has changed
/// then.
pub fn vsyscall(context: &mut Context, pc: AppPc) -> bool {
    let number = match pc.0 & 0xfff {
        0x000 => nr::__NR_gettimeofday,
        0x400 => nr::__NR_time,
        _ => nr::__NR_getcpu,
    };
    const EFAULT: i64 = -14;
    let mut back = [0u8; 8];
    let rsp = context.regs[4];
    if !sys::copy_checked(rsp, &mut back) {
        return false;
    }
    let result = raw(context, number);
    // The kernel sends a signal in place of this answer.
    if result == EFAULT {
        return false;
    }
    context.regs[0] = result as u64;
    context.regs[4] = rsp + 8;
    context.next_pc = AppPc(u64::from_le_bytes(back));
    true
}
