//! Bases of FS and GS.
#![allow(unsafe_code)] // reason: reads what the process was started with.

/// Returns whether the kernel lets programs read and write the bases of FS and GS by instructions, as it tells us and whatever it starts.
pub fn has_instructions() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads what the process was started with.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}
