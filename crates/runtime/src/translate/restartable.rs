//! Restartable sequences (`rseq`), found before they are executed.
//!
//! # Problem
//! A program may register a stretch of its code with the kernel that must be abandoned when the thread is
//! interrupted in it. The kernel compares program counters with the registered ones. It would never abandon
//! a copy of that code in the cache, so the copy would no longer be a restartable sequence.
//!
//! # Strategy
//! The program registers a sequence by storing the address of a descriptor, of 32 bytes and as much alignment, right
//! before the sequence. Code takes that address with `lea`. So each `lea` of such an address, relative to the
//! instruction, is looked at: a descriptor's sequence and its abort address are in the region of the `lea`, and
//! nothing else looks like that. The program is detached before it, so its sequences run natively.
#![allow(unsafe_code)] // reason: reads the app's code.

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::decode::Insn;
use crate::base::sys;

/// Returns true if `insn`, whose bytes are at `bytes` and which is in `region`, takes the address of a
/// descriptor.
pub(super) fn begins(insn: &Insn, bytes: *const u8, region: Range) -> bool {
    const LEA: u8 = 0x8d;
    let at = usize::from(insn.rip_disp);
    if at < 2 {
        return false;
    }
    // SAFETY: the instruction was decoded from these bytes, in which the displacement follows opcode and ModRM.
    let (opcode, displacement) = unsafe {
        let displacement = bytes.add(at).cast::<i32>().read_unaligned();
        (bytes.add(at - 2).read(), displacement)
    };
    let address = insn.next().0.wrapping_add_signed(i64::from(displacement));
    opcode == LEA && address.is_multiple_of(32) && is_descriptor(address, region)
}

/// `struct rseq_cs`: version and flags, start, length, where to go when it is abandoned.
fn is_descriptor(address: u64, region: Range) -> bool {
    const LONGEST: u64 = 1 << 12;
    const FLAGS: u64 = 7;
    let mut bytes = [0; 32];
    if !sys::copy_checked(address, &mut bytes) {
        return false;
    }
    let word = |n: usize| (bytes[8 * n..].first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
    let (head, start, len, abort) = (word(0), word(1), word(2), word(3));
    let within = start..start.saturating_add(len);
    head & 0xffff_ffff == 0
        && head >> 32 <= FLAGS
        && (1..=LONGEST).contains(&len)
        && region.holds(AppPc(start))
        && region.holds(AppPc(abort))
        && !within.contains(&abort)
        && is_signed(abort)
}

/// Returns true if the signature precedes the abort address of a sequence. Without it the kernel does not go there.
/// It is the signature with which the C library registers every thread.
fn is_signed(abort: u64) -> bool {
    const SIGNATURE: u32 = 0x5305_3053;
    let mut bytes = [0; 4];
    sys::copy_checked(abort.wrapping_sub(4), &mut bytes) && u32::from_le_bytes(bytes) == SIGNATURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(32))]
    struct Aligned([u64; 4]);

    #[test]
    fn descriptors_are_distinguished_from_other_data() {
        // Signatures everywhere.
        let code = alloc::vec![0x5305_3053_u32; 0x1_0000 / 4];
        let base = code.as_ptr() as u64;
        let region = Range {
            start: base,
            end: base + 0x1_0000,
        };
        let is = |words: [u64; 4]| {
            let data = Aligned(words);
            is_descriptor(data.0.as_ptr() as u64, region)
        };
        assert!(is([0, base + 0x1000, 20, base + 0x2000]));
        assert!(is([2 << 32, base + 0x1000, 20, base + 0xff0]));
        for other in [
            [1, base + 0x1000, 20, base + 0x2000],
            [8 << 32, base + 0x1000, 20, base + 0x2000],
            [0, base + 0x1000, 0, base + 0x2000],
            [0, base + 0x1000, 0x2000, base + 0x2000],
            [0, base - 0x1000, 20, base + 0x2000],
            [0, base + 0x1000, 20, base + 0x1004],
            [0, base + 0x1000, 20, base + 0x1_0000],
            [0; 4],
        ] {
            assert!(!is(other), "{other:x?}");
        }
        assert!(!is_descriptor(0x20, region));
        assert!(!is([0, base, 20, base + 0x2002]));
    }
}
