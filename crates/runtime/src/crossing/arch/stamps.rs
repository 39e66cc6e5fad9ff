//! Cost of timing a load: the instructions that generated code has around a load (`translate/ways/latency.rs`), around
//! none. The processor's clock changes relative to its time stamp counter. So the cost is measured anew for each window.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::asm;

use trommel_queue::timed_load;

/// Cycles of the time stamp counter, the least of a few times: the first may find nothing in the caches.
pub fn own() -> u64 {
    const TIMES: u32 = 6;
    let least = (0..TIMES).map(|_| once()).min();
    least.unwrap_or(0).into()
}

fn once() -> u32 {
    let mut slots = [0_u64; 3];
    // SAFETY: the slots are three words; registers that change are named.
    unsafe {
        asm!(
            ".balign 64",
            timed_load!(""),
            s = in(reg) slots.as_mut_ptr(),
            out("rax") _,
            out("rdx") _,
            options(nostack, preserves_flags),
        );
    }
    ((slots[2] >> 32) as u32).wrapping_sub(slots[2] as u32)
}
