//! The call that returns to an address.
//!
//! A stack has return addresses. People look for the call, which is before them. Instructions are found backwards only by trying:
//! where several lengths would be calls, the function is decoded from its first instruction on.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Bytes of a call at most: a prefix or two, an opcode, and the longest operand.
pub(super) const LONGEST_CALL: usize = 10;
const SHORTEST: usize = 2;

/// Length of the call that ends where `bytes` end. `function`: its function's bytes up to there, if they are known.
pub(super) fn before(bytes: &[u8], function: impl FnOnce() -> Option<Vec<u8>>) -> Option<u64> {
    let lengths = SHORTEST..=LONGEST_CALL.min(bytes.len());
    let mut found = lengths.filter(|length| is_call(&bytes[bytes.len() - length..]));
    let first = found.next()?;
    if found.next().is_none() {
        return Some(first as u64);
    }
    let code = function()?;
    let mut decoder = Decoder::new(64, &code, DecoderOptions::NONE);
    let mut last = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut last);
    }
    calls(&last).then(|| last.len() as u64)
}

/// Returns true if these bytes are one instruction, and a call.
fn is_call(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    calls(&instruction) && instruction.len() == bytes.len()
}

fn calls(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn calls_are_found_by_their_ends() {
        for (code, length) in [
            (&[0x90, 0xe8, 1, 2, 3, 4][..], Some(5)),
            (&[0x90, 0x90, 0xff, 0xd0], Some(2)),
            (&[0x90, 0x41, 0xff, 0x54, 0x24, 0x08], Some(5)),
            (&[0xff, 0x15, 1, 2, 3, 4], Some(6)),
            (&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90], None),
        ] {
            let found = before(code, || Some(code.to_vec()));
            assert_eq!(found, length, "{code:x?}");
        }
    }

    #[test]
    fn where_several_would_do_the_function_decides() {
        // addr32 call: without its first byte it is a call too.
        let code = [0x90, 0x67, 0xe8, 1, 2, 3, 4];
        assert_eq!(before(&code, || Some(code.to_vec())), Some(6));
        assert_eq!(before(&code, || None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_call_or_none(code in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(length) = before(&code, || Some(code.clone())) {
                prop_assert!(length as usize <= code.len());
            }
        }
    }
}
