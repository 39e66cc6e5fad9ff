//! Types of loaded values, inferred from the code that uses them.
//!
//! # Problem
//! A profile has 64 bits of each value. Whether they are a pointer, a number, a floating-point number or a character is known to
//! the code alone.
//!
//! # Strategy
//! The load itself tells where its kind of register or its extension does: vector and x87 loads of one element, `movzx` of a byte,
//! `movsx`, conversions. A value that is loaded into a general register or copied as a vector is followed, with copies of it, through the
//! instructions after it, until control leaves or another value takes its place: an address is made of a pointer, sums of numbers.
//! The first use that tells decides.
//!
//! A wrong answer is possible (a number may be added to a pointer to make an address of both) and costs the reader the right form, not the
//! value.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, MemorySize,
    Mnemonic, OpAccess, OpKind, Register,
};
use trommel_symbol::Code;

/// Uses of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A number of so many bytes.
    Integer {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Says whether it can be negative.
        signed: bool,
    },
    /// A byte that becomes a number of its own.
    Character,
    /// An address.
    Pointer,
    /// A floating-point number of 4 bytes.
    Float32,
    /// One of 8 bytes.
    Float64,
    /// Two of 4 bytes, or the first two of more.
    Float32s,
    /// Nothing tells; so many bytes.
    Unknown {
        /// 1 to 8; 8 also of more.
        bytes: u8,
        /// It was loaded into a general register: no floating-point number, then, but where it is copied.
        general: bool,
    },
}

/// So far a value is followed.
const FAR: usize = 24;

/// Returns what the value is that the instruction at `at` loads; `None` where there is no code.
pub fn usage(code: &Code<'_>, at: u64) -> Option<Use> {
    let bytes = code.at(at)?;
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let load = decoder.decode();
    if load.is_invalid() {
        return None;
    }
    let size = load.memory_size();
    if let Some(known) = by_load(&load, size) {
        return Some(known);
    }
    let width = u8::try_from(size.size().clamp(1, 8)).unwrap_or(8);
    let mut value = Value {
        registers: vec![destination(&load)?],
        width,
        packed: size.size() > 8,
        infos: InstructionInfoFactory::new(),
    };
    // An operation's result is of the kind of its operands.
    let mut next = load;
    let mut first = true;
    for _ in 0..FAR {
        if let Some(known) = value.by_use(&next, first) {
            return Some(known);
        }
        if !first && (!goes_on(&next) || value.registers.is_empty()) {
            break;
        }
        first = false;
        if !decoder.can_decode() {
            break;
        }
        next = decoder.decode();
    }
    Some(Use::Unknown {
        bytes: width,
        general: destination(&load)?.is_gpr(),
    })
}

fn goes_on(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::ConditionalBranch
    ) && !instruction.is_invalid()
}

/// Returns what the load alone tells.
fn by_load(load: &Instruction, size: MemorySize) -> Option<Use> {
    use Mnemonic as M;
    let bytes = u8::try_from(size.size()).unwrap_or(8).min(8);
    match load.mnemonic() {
        M::Movzx if bytes == 1 => return Some(Use::Character),
        M::Movzx => {
            return Some(Use::Integer {
                bytes,
                signed: false,
            });
        }
        M::Movsx if bytes == 1 => return Some(Use::Character),
        M::Movsx | M::Movsxd => {
            return Some(Use::Integer {
                bytes,
                signed: true,
            });
        }
        // Copies of any kind.
        M::Movaps
        | M::Movapd
        | M::Movups
        | M::Movupd
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovups
        | M::Vmovupd
        | M::Movlps
        | M::Movhps
        | M::Movlpd
        | M::Movhpd => return None,
        _ => {}
    }
    match size {
        MemorySize::Float32 => Some(Use::Float32),
        MemorySize::Float64 => Some(Use::Float64),
        MemorySize::Packed64_Float32
        | MemorySize::Packed128_Float32
        | MemorySize::Packed256_Float32
        | MemorySize::Broadcast128_Float32
        | MemorySize::Broadcast256_Float32 => Some(Use::Float32s),
        MemorySize::Packed128_Float64 | MemorySize::Packed256_Float64 => Some(Use::Float64),
        // Loads into x87 and conversions of integers.
        MemorySize::Int16 | MemorySize::Int32 | MemorySize::Int64
            if !load.op0_register().is_gpr() =>
        {
            Some(Use::Integer {
                bytes,
                signed: true,
            })
        }
        _ => None,
    }
}

/// The whole register that is written.
fn destination(load: &Instruction) -> Option<Register> {
    let register = match load.mnemonic() {
        Mnemonic::Leave => Register::RBP,
        _ => load.op0_register(),
    };
    (register != Register::None).then(|| register.full_register())
}

/// A value and where it is.
pub(crate) struct Value {
    registers: Vec<Register>,
    width: u8,
    packed: bool,
    infos: InstructionInfoFactory,
}

impl Value {
    /// So many lower bytes of one register.
    pub(crate) fn in_register(register: Register, width: u8) -> Self {
        Self {
            registers: vec![register],
            width,
            packed: false,
            infos: InstructionInfoFactory::new(),
        }
    }

    /// Returns true if no register has it.
    pub(crate) fn is_gone(&self) -> bool {
        self.registers.is_empty()
    }

    /// A register has it too.
    pub(crate) fn is_in(&mut self, register: Register) {
        self.registers.push(register.full_register());
    }

    /// A function is called, which keeps only the registers that it must.
    pub(crate) fn across_call(&mut self) {
        use Register as R;
        let keeps = [R::RBX, R::RBP, R::R12, R::R13, R::R14, R::R15];
        self.registers.retain(|r| keeps.contains(r));
    }

    /// Returns what an instruction tells that may use the value; afterwards registers hold what they hold after it.
    pub(crate) fn by_use(&mut self, next: &Instruction, is_load: bool) -> Option<Use> {
        if is_load {
            return self.by_operation(next);
        }
        let used = self.reads(next);
        if used && let Some(known) = self.as_address(next) {
            return Some(known);
        }
        if used && let Some(known) = self.by_operation(next) {
            return Some(known);
        }
        self.moved(next);
        None
    }

    pub(crate) fn is(&self, register: Register) -> bool {
        register != Register::None && self.registers.contains(&register.full_register())
    }

    pub(crate) fn reads(&mut self, next: &Instruction) -> bool {
        let info = self.infos.info(next);
        let mut read = info.used_registers().iter().filter(|r| {
            !matches!(
                r.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess
            ) || next.memory_base() == r.register()
        });
        let registers = &self.registers;
        read.any(|r| registers.contains(&r.register().full_register()))
    }

    fn as_address(&self, next: &Instruction) -> Option<Use> {
        let direct = (0..next.op_count()).any(|n| next.op_kind(n) == OpKind::Register);
        match next.flow_control() {
            FlowControl::IndirectBranch | FlowControl::IndirectCall
                if direct && self.is(next.op0_register()) =>
            {
                return Some(Use::Pointer);
            }
            _ => {}
        }
        let has_memory = (0..next.op_count()).any(|n| next.op_kind(n) == OpKind::Memory);
        // An address may be made of any two numbers; it is used only where there is memory.
        if !has_memory || next.mnemonic() == Mnemonic::Lea || next.mnemonic() == Mnemonic::Nop {
            return None;
        }
        if self.is(next.memory_index()) && !self.is(next.memory_base()) {
            return (next.memory_index_scale() > 1).then_some(Use::Integer {
                bytes: self.width,
                signed: true,
            });
        }
        let alone = next.memory_index() == Register::None;
        // With an index either may be the pointer.
        (self.width == 8 && self.is(next.memory_base()) && (alone || self.packed))
            .then_some(Use::Pointer)
            .or_else(|| {
                (self.width == 8 && self.is(next.memory_base()) && next.memory_index_scale() > 1)
                    .then_some(Use::Pointer)
            })
    }

    fn by_operation(&self, next: &Instruction) -> Option<Use> {
        use Mnemonic as M;
        let signed = Some(Use::Integer {
            bytes: self.width,
            signed: true,
        });
        let unsigned = Some(Use::Integer {
            bytes: self.width,
            signed: false,
        });
        match next.mnemonic() {
            M::Imul
            | M::Idiv
            | M::Sar
            | M::Neg
            | M::Cdqe
            | M::Cqo
            | M::Cdq
            | M::Movsxd
            | M::Cvtsi2sd
            | M::Cvtsi2ss
            | M::Vcvtsi2sd
            | M::Vcvtsi2ss => signed,
            M::Mul
            | M::Div
            | M::Shr
            | M::Shl
            | M::Rol
            | M::Ror
            | M::Popcnt
            | M::Bsf
            | M::Bsr
            | M::Tzcnt
            | M::Lzcnt
            | M::Bswap => unsigned,
            M::Addps
            | M::Subps
            | M::Mulps
            | M::Divps
            | M::Vaddps
            | M::Vsubps
            | M::Vmulps
            | M::Vdivps
            | M::Maxps
            | M::Minps
            | M::Sqrtps => Some(Use::Float32s),
            M::Addss
            | M::Subss
            | M::Mulss
            | M::Divss
            | M::Ucomiss
            | M::Comiss
            | M::Sqrtss
            | M::Cvtss2sd
            | M::Cvttss2si
            | M::Movss
            | M::Vmovss
            | M::Vaddss
            | M::Vsubss
            | M::Vmulss
            | M::Vdivss
            | M::Vucomiss
            | M::Vcomiss
            | M::Vcvtss2sd
            | M::Vcvttss2si => Some(Use::Float32),
            M::Addpd
            | M::Subpd
            | M::Mulpd
            | M::Divpd
            | M::Addsd
            | M::Subsd
            | M::Mulsd
            | M::Divsd
            | M::Ucomisd
            | M::Comisd
            | M::Sqrtsd
            | M::Sqrtpd
            | M::Vaddpd
            | M::Vsubpd
            | M::Vmulpd
            | M::Vdivpd
            | M::Cvttsd2si
            | M::Cvtsd2ss
            | M::Vaddsd
            | M::Vsubsd
            | M::Vmulsd
            | M::Vdivsd
            | M::Vucomisd
            | M::Vcomisd
            | M::Vcvttsd2si
            | M::Vcvtsd2ss => Some(Use::Float64),
            _ => None,
        }
    }

    /// Follows copies, and forgets registers that are written.
    fn moved(&mut self, next: &Instruction) {
        let copy = matches!(
            next.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movaps | Mnemonic::Movapd | Mnemonic::Movdqa | Mnemonic::Movq
        ) && next.op1_kind() == OpKind::Register
            && self.is(next.op1_register())
            && next.op0_kind() == OpKind::Register;
        let info = self.infos.info(next);
        for used in info.used_registers() {
            let written = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::ReadWrite
                    | OpAccess::CondWrite
                    | OpAccess::ReadCondWrite
            );
            if written {
                let whole = used.register().full_register();
                self.registers.retain(|r| *r != whole);
            }
        }
        if copy {
            self.registers.push(next.op0_register().full_register());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> Option<Use> {
        usage(&Code::new(vec![(0x1000, bytes)]), 0x1000)
    }

    const fn integer(bytes: u8, signed: bool) -> Option<Use> {
        Some(Use::Integer { bytes, signed })
    }

    #[test]
    fn loads_tell_by_themselves() {
        for (bytes, wanted) in [
            // movzx eax,byte [rdi]; movzx eax,word [rdi]; movsxd rax,dword [rdi]
            (&[0x0f, 0xb6, 0x07][..], Some(Use::Character)),
            (&[0x0f, 0xb7, 0x07], integer(2, false)),
            (&[0x48, 0x63, 0x07], integer(4, true)),
            // movss xmm0,[rdi]; addsd xmm0,[rdi]; mulps xmm0,[rdi]
            (&[0xf3, 0x0f, 0x10, 0x07], Some(Use::Float32)),
            (&[0xf2, 0x0f, 0x58, 0x07], Some(Use::Float64)),
            (&[0x0f, 0x59, 0x07], Some(Use::Float32s)),
            // fld qword [rdi]; fild dword [rdi]; cvtsi2sd xmm0,dword [rdi]
            (&[0xdd, 0x07], Some(Use::Float64)),
            (&[0xdb, 0x07], integer(4, true)),
            (&[0xf2, 0x0f, 0x2a, 0x07], integer(4, true)),
            // imul eax,[rdi]
            (&[0x0f, 0xaf, 0x07], integer(4, true)),
        ] {
            assert_eq!(of(bytes), wanted, "{bytes:x?}");
        }
    }

    #[test]
    fn what_becomes_of_a_value_tells() {
        for (bytes, wanted) in [
            // mov rax,[rdi]; mov ecx,1; mov [rax],ecx
            (
                &[0x48, 0x8b, 0x07, 0xb9, 1, 0, 0, 0, 0x89, 0x08][..],
                Some(Use::Pointer),
            ),
            // mov rax,[rdi]; mov rcx,rax; xor eax,eax; mov edx,[rcx+8]
            (
                &[
                    0x48, 0x8b, 0x07, 0x48, 0x89, 0xc1, 0x31, 0xc0, 0x8b, 0x51, 0x08,
                ],
                Some(Use::Pointer),
            ),
            // mov rax,[rdi]; call rax
            (&[0x48, 0x8b, 0x07, 0xff, 0xd0], Some(Use::Pointer)),
            // mov rax,[rdi]; mov edx,[rsi+rax*4]
            (&[0x48, 0x8b, 0x07, 0x8b, 0x14, 0x86], integer(8, true)),
            // mov eax,[rdi]; shr eax,3
            (&[0x8b, 0x07, 0xc1, 0xe8, 0x03], integer(4, false)),
            // movaps xmm0,[rdi]; mulpd xmm0,xmm1
            (
                &[0x0f, 0x28, 0x07, 0x66, 0x0f, 0x59, 0xc1],
                Some(Use::Float64),
            ),
            // mov rax,[rdi]; mov rax,[rsi]; mov ecx,[rax]: another value is the pointer
            (
                &[0x48, 0x8b, 0x07, 0x48, 0x8b, 0x06, 0x8b, 0x08],
                Some(Use::Unknown {
                    bytes: 8,
                    general: true,
                }),
            ),
            // mov eax,[rdi]; ret
            (
                &[0x8b, 0x07, 0xc3],
                Some(Use::Unknown {
                    bytes: 4,
                    general: true,
                }),
            ),
            // mov rax,[rdi]; jmp +0; mov ecx,[rax]: control has left
            (
                &[0x48, 0x8b, 0x07, 0xeb, 0x00, 0x8b, 0x08],
                Some(Use::Unknown {
                    bytes: 8,
                    general: true,
                }),
            ),
        ] {
            assert_eq!(of(bytes), wanted, "{bytes:x?}");
        }
        assert_eq!(usage(&Code::default(), 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = of(&bytes);
        }
    }
}
