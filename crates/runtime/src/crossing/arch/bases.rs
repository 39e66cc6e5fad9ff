//! The bases of FS and GS.
#![allow(unsafe_code)] // reason: reads and writes registers.

use core::arch::asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;

use crate::base::sys;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;

/// The kernel has enabled the instructions for it. Set before there is a second thread.
pub(super) static ENABLED: AtomicBool = AtomicBool::new(false);

/// Switches from system calls to the instructions.
///
/// # Safety
/// The kernel must have enabled them.
pub unsafe fn use_instructions() {
    ENABLED.store(true, Relaxed);
}

/// Returns true if the kernel has enabled the instructions.
pub fn has_base_instructions() -> bool {
    ENABLED.load(Relaxed)
}

/// The FS base, which is the app's. It may write it at any time, with no system call.
pub fn fs_base() -> u64 {
    if ENABLED.load(Relaxed) {
        let base: u64;
        // SAFETY: reads a register, by an instruction that is enabled.
        unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        return base;
    }
    asked(ARCH_GET_FS)
}

/// The GS base.
pub fn gs_base() -> u64 {
    if ENABLED.load(Relaxed) {
        let base: u64;
        // SAFETY: reads a register, by an instruction that is enabled.
        unsafe { asm!("rdgsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        return base;
    }
    asked(ARCH_GET_GS)
}

/// Sets the GS base.
///
/// # Safety
/// Whatever is addressed through GS from here on must be there.
pub unsafe fn set_gs_base(base: u64) {
    if ENABLED.load(Relaxed) {
        // SAFETY: an instruction that is enabled, and an address that the kernel has given or taken; the caller answers for the rest.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
        return;
    }
    // SAFETY: likewise.
    let _ = unsafe { sys::call(nr::__NR_arch_prctl, [ARCH_SET_GS, base, 0, 0, 0, 0]) };
}

fn asked(which: u64) -> u64 {
    let mut base = 0_u64;
    // SAFETY: a valid word to write to.
    let _ = unsafe {
        sys::call(
            nr::__NR_arch_prctl,
            [which, &raw mut base as u64, 0, 0, 0, 0],
        )
    };
    base
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Compares the bases with those that the kernel returns. Uses the instructions where the kernel reports them as enabled.
    #[test]
    fn processor_and_kernel_agree_about_bases() {
        const AT_HWCAP2: u64 = 26;
        let vector = std::fs::read("/proc/self/auxv").expect("the kernel's words");
        let words = vector.as_chunks::<8>().0.as_chunks::<2>().0.iter();
        let mut words = words.map(|pair| pair.map(u64::from_le_bytes));
        let (fs, gs) = (asked(ARCH_GET_FS), asked(ARCH_GET_GS));
        assert_ne!(fs, 0);
        if words.any(|[key, value]| key == AT_HWCAP2 && value & 2 != 0) {
            // SAFETY: they are enabled.
            unsafe { use_instructions() };
        }
        assert_eq!((fs_base(), gs_base()), (fs, gs));
    }
}
