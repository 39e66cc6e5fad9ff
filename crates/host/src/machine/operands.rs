//! Operands that an instruction is about to read: a sample has their values.
//!
//! A sample has the general registers as they are before its instruction is executed. Each register that the instruction
//! reads is an operand, as wide as it is read. So is the address of each access to memory, which is a sum of registers.
//! Left out are the stack pointer, addresses that are made of it, and addresses without a register: they say nothing of
//! data.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};
use trommel_profile::samples::Operand;
use trommel_query::access::{self, Access};

use crate::kernel::perf::records::REGISTERS;

/// Bytes of an instruction at most.
pub(super) const LONGEST: usize = 15;
/// The number of the stack pointer.
const STACK: u8 = 4;

/// An operand, and how it is made of the registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Operand that is read.
    pub(super) operand: Operand,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// The register of this number, shifted to the right, as many bits of it.
    Register(u8, u8, u8),
    Address(Access),
}

impl Read {
    /// Its value.
    pub(super) fn value(&self, registers: &[u64; REGISTERS]) -> u64 {
        let of = |number: u8| registers[usize::from(number) % REGISTERS];
        match self.how {
            How::Register(number, shift, bits) => {
                of(number) >> shift & (u64::MAX >> (64 - u32::from(bits)))
            }
            How::Address(access) => {
                let base = access.base.map_or(0, of);
                let index = access
                    .index
                    .map_or(0, |(number, scale)| of(number) << scale);
                let sum = base.wrapping_add(index).wrapping_add(access.displacement);
                match access.short {
                    true => sum & u64::from(u32::MAX),
                    false => sum,
                }
            }
        }
    }
}

/// The operands of the instruction in these bytes; `None` where they are no instruction.
pub(super) fn reads(bytes: &[u8], infos: &mut InstructionInfoFactory) -> Option<Vec<Read>> {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then(|| of(&instruction, infos))
}

fn of(instruction: &Instruction, infos: &mut InstructionInfoFactory) -> Vec<Read> {
    let mut all: Vec<Read> = Vec::new();
    for used in infos.info(instruction).used_registers() {
        let is_read = matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let register = used.register();
        if !is_read || !register.is_gpr() {
            continue;
        }
        let number = (register.full_register() as u32 - Register::RAX as u32) as u8;
        let high = matches!(
            register,
            Register::AH | Register::BH | Register::CH | Register::DH
        );
        let (shift, bits) = (if high { 8 } else { 0 }, (register.size() * 8) as u8);
        let Some(operand) = Operand::register(number).filter(|_| number != STACK) else {
            continue;
        };
        let how = How::Register(number, shift, bits);
        // Where it reads several parts of one, the widest.
        match all.iter_mut().find(|read| read.operand == operand) {
            Some(Read {
                how: How::Register(_, _, before),
                ..
            }) if *before >= bits => {}
            Some(read) => read.how = how,
            None => all.push(Read { operand, how }),
        }
    }
    let accesses = access::accesses(infos, instruction);
    for (n, access) in accesses.iter().enumerate() {
        let made = access.base.or(access.index.map(|(number, _)| number));
        if made.is_some() && access.base != Some(STACK) {
            all.push(Read {
                operand: Operand::address(n > 0),
                how: How::Address(*access),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(bytes: &[u8], registers: &[u64; REGISTERS]) -> Vec<(&'static str, u64)> {
        let all = reads(bytes, &mut InstructionInfoFactory::new()).expect("an instruction");
        let value = |read: &Read| (read.operand.name(), read.value(registers));
        all.iter().map(value).collect()
    }

    #[test]
    fn operands_are_what_is_read_as_wide_as_it_is() {
        let mut registers = [0; REGISTERS];
        for (n, register) in registers.iter_mut().enumerate() {
            *register = 0x1111_1111_1111_1100 + n as u64;
        }
        for (bytes, wanted) in [
            // add eax,ecx
            (
                &[0x01, 0xc8][..],
                vec![("rax", 0x1111_1100), ("rcx", 0x1111_1101)],
            ),
            // mov rdx,[rbx+rsi*8+0x10]
            (
                &[0x48, 0x8b, 0x54, 0xf3, 0x10],
                vec![
                    ("rbx", 0x1111_1111_1111_1103),
                    ("rsi", 0x1111_1111_1111_1106),
                    (
                        "address",
                        0x1111_1111_1111_1103_u64
                            .wrapping_add(0x1111_1111_1111_1106 << 3)
                            .wrapping_add(0x10),
                    ),
                ],
            ),
            // cmp ah,3
            (&[0x80, 0xfc, 0x03], vec![("rax", 0x11)]),
            // mov eax,1; mov rax,[rsp+8]; xor ecx,ecx
            (&[0xb8, 1, 0, 0, 0], vec![]),
            (&[0x48, 0x8b, 0x44, 0x24, 0x08], vec![]),
            (&[0x31, 0xc9], vec![]),
        ] {
            assert_eq!(values(bytes, &registers), wanted, "{bytes:x?}");
        }
        assert!(reads(&[0x06], &mut InstructionInfoFactory::new()).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_have_values_or_none(bytes in prop::collection::vec(any::<u8>(), 0..20), registers in any::<[u64; REGISTERS]>()) {
            if let Some(all) = reads(&bytes, &mut InstructionInfoFactory::new()) {
                for read in &all {
                    let _ = read.value(&registers);
                    prop_assert_eq!(all.iter().filter(|r| r.operand == read.operand).count(), 1);
                }
            }
        }
    }
}
