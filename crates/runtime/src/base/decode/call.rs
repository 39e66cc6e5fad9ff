//! Recognises bytes that end with a call: decodes them backwards, which is a guess.

/// Bytes of the longest call but for prefixes.
pub(crate) const LONGEST_CALL: usize = 7;

/// Returns whether these may end with a near call. Each that is not longer is found; other instructions may be taken for one.
pub(crate) fn ends_with_call(bytes: &[u8; LONGEST_CALL]) -> bool {
    let indirect = |n: usize| bytes[7 - n] == 0xff && bytes[8 - n] >> 3 & 7 == 2;
    bytes[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

    fn ends(code: &[u8]) -> bool {
        let mut bytes = [0x90; LONGEST_CALL];
        let from = code.len().saturating_sub(LONGEST_CALL);
        let tail = &code[from..];
        bytes[LONGEST_CALL - tail.len()..].copy_from_slice(tail);
        ends_with_call(&bytes)
    }

    fn encoded(i: &Instruction) -> Vec<u8> {
        let mut encoder = Encoder::new(64);
        encoder.encode(i, 0x1000).expect("encodes");
        encoder.take_buffer()
    }

    #[test]
    fn every_form_of_call_is_found() {
        use Register::*;
        let bases = [
            RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15,
        ];
        let mut calls = vec![Instruction::with_branch(Code::Call_rel32_64, 0x4321).expect("call")];
        for base in bases {
            calls.push(Instruction::with1(Code::Call_rm64, base).expect("call"));
            for displacement in [0, 0x10, -0x80, 0x1234] {
                let sizes = if displacement == 0 { 0 } else { 1 };
                let mut places = vec![MemoryOperand::with_base_displ_size(
                    base,
                    displacement,
                    sizes,
                )];
                for index in [RAX, RBP, R9] {
                    places.push(MemoryOperand::new(
                        base,
                        index,
                        8,
                        displacement,
                        sizes,
                        false,
                        None,
                    ));
                }
                for place in places {
                    calls.push(Instruction::with1(Code::Call_rm64, place).expect("call"));
                }
            }
        }
        let rip = MemoryOperand::with_base_displ(RIP, 0x2000);
        calls.push(Instruction::with1(Code::Call_rm64, rip).expect("call"));
        for call in calls {
            let code = encoded(&call);
            assert!(ends(&code), "{call:?} {code:x?}");
        }
    }

    #[test]
    fn what_is_no_call_is_none() {
        for code in [
            &[0x90; 7][..],
            &[0xc3],
            // jmp rax; push [rax]; inc eax; jmp there.
            &[0xff, 0xe0],
            &[0xff, 0x30],
            &[0xff, 0xc0],
            &[0xe9, 1, 2, 3, 4],
        ] {
            assert!(!ends(code), "{code:x?}");
        }
    }
}
