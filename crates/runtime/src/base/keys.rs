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
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// Returns true if the kernel has turned memory protection keys on.
fn keys_in_use() -> bool {
    const UNKNOWN: u8 = 0;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Relaxed) {
        UNKNOWN => {
            const OSPKE: u32 = 1 << 4;
            let is = core::arch::x86_64::__cpuid_count(7, 0).ecx & OSPKE != 0;
            ANSWER.store(1 + u8::from(is), Relaxed);
            is
        }
        answer => answer == 2,
    }
}

/// Runs `read` with no memory kept from this thread by its keys.
pub fn with_keys_lifted<T>(read: impl FnOnce() -> T) -> T {
    if !keys_in_use() {
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
