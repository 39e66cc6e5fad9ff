//! Memory protection keys.
//!
//! # Problem
//! A thread may execute what its keys keep it from reading: the processor checks keys for data alone. With
//! keys, the kernel gives memory that is executable and nothing else a key that nobody may read.
//!
//! # Strategy
//! Keys are lifted while code is read.
#![allow(unsafe_code)] // reason: reads and writes the register of keys.

use core::arch::asm;

use crate::base::processor;

/// Runs `read` with no memory kept from this thread by its keys.
pub fn with_keys_lifted<T>(read: impl FnOnce() -> T) -> T {
    if !processor::has_keys() {
        return read();
    }
    let before: u32;
    // SAFETY: the processor has the instructions and the kernel has turned them on; the rights are
    // put back, and nothing is executed in between but `read`.
    unsafe {
        asm!("rdpkru", in("ecx") 0, out("eax") before, out("edx") _, options(nomem, nostack));
    }
    if before == 0 {
        return read();
    }
    // SAFETY: as above.
    unsafe { asm!("wrpkru", in("eax") 0, in("ecx") 0, in("edx") 0, options(nostack)) };
    let result = read();
    // SAFETY: as above.
    unsafe { asm!("wrpkru", in("eax") before, in("ecx") 0, in("edx") 0, options(nostack)) };
    result
}
