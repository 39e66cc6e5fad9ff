//! Alignment of jumps.
//!
//! # Problem
//! Intel's processors from Skylake to Comet Lake, with the microcode that mends their erratum about
//! conditional jumps (SKX102; "Mitigations for Jump Conditional Code Erratum", Intel, November 2019), do not
//! keep a line of 32 bytes in the cache of decoded instructions when a jump crosses its end or ends there. A
//! compiler's loop has short jumps, of two bytes; ours have five and six, which by their length alone touch
//! an end three times as often.
//!
//! # Strategy
//! On those processors a jump, with the comparison before it that is decoded as one with it, is put
//! after the boundary if it would touch it. What lies between does nothing.
//!
//! # Why it is correct
//! Nothing but addresses change. A gap begins at a boundary, that of the instruction after it, and is
//! a part of that one's step.
#![allow(unsafe_code)] // reason: reads the app's code.

use super::Translator;
use crate::base::decode::{Class, Insn};

/// Bytes of a jump on a condition that can be linked.
const CONDITIONAL: usize = 6;

impl Translator {
    /// Makes room for a jump of `len` bytes, which comes next.
    pub(super) fn room_for_jump(&mut self, len: usize) {
        if self.config.whole_jumps {
            self.job.code.keep_whole(len);
        }
    }

    /// Makes room for `insn`, which comes next, and for `next` after it.
    pub(super) fn room_for_pair(&mut self, insn: &Insn, next: Option<&Insn>) {
        if self.config.whole_jumps
            && next.is_some_and(|next| matches!(next.class, Class::Jcc(..)))
            && fuses(self.bytes(insn))
        {
            self.job.code.keep_whole(insn.size() + CONDITIONAL);
        }
    }

    fn bytes(&self, insn: &Insn) -> &[u8] {
        // SAFETY: the instruction was decoded from these bytes.
        unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size()) }
    }
}

/// Returns true if a conditional jump may be decoded as one with the instruction before it.
fn fuses(bytes: &[u8]) -> bool {
    let prefix = |b: &u8| matches!(b, 0x66 | 0x40..=0x4f);
    let mut rest = bytes.iter().copied().skip_while(prefix);
    let (Some(opcode), operand) = (rest.next(), rest.next()) else {
        return false;
    };
    let extension = operand.map_or(0, |modrm| modrm >> 3 & 7);
    match opcode {
        // add, and, sub, cmp; test.
        0x00..=0x05 | 0x20..=0x25 | 0x28..=0x2d | 0x38..=0x3d => true,
        0x84 | 0x85 | 0xa8 | 0xa9 => true,
        0x80..=0x83 => matches!(extension, 0 | 4 | 5 | 7),
        // test; inc, dec.
        0xf6 | 0xf7 | 0xfe | 0xff => extension < 2,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    #[test]
    fn comparisons_and_sums_are_decoded_with_their_jump_and_nothing_else_is() {
        let mut fused = 0;
        for prefix in [&[][..], &[0x48], &[0x66], &[0x66, 0x41]] {
            for (opcode, modrm) in (0..=0xff_u8).flat_map(|o| (0..=0xff_u8).map(move |m| (o, m))) {
                let bytes = [prefix, &[opcode, modrm, 0x25, 1, 2, 3, 4, 5, 6, 7]].concat();
                if matches!(opcode, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62..=0x67 | 0xf0 | 0xf2 | 0xf3)
                {
                    continue;
                }
                let found = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
                if found.is_invalid() {
                    continue;
                }
                let expected = matches!(
                    found.mnemonic(),
                    Mnemonic::Add
                        | Mnemonic::And
                        | Mnemonic::Sub
                        | Mnemonic::Cmp
                        | Mnemonic::Test
                        | Mnemonic::Inc
                        | Mnemonic::Dec
                );
                assert_eq!(fuses(&bytes[..found.len()]), expected, "{found} {bytes:x?}");
                fused += u32::from(expected);
            }
        }
        assert!(fused > 1000, "{fused}");
    }
}
