//! The one-byte opcodes.

use super::{Modrm, Prefix, WINDOW, general, transfer};
use crate::base::decode::tables::{ONE, RAX, RCX, RDX, RSP, SPECIAL, TAKEN};
use crate::base::decode::{Class, Insn, Load, Rm, Segment};
use crate::base::emit::Reg;

/// The one-byte opcodes.
pub(super) fn one(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    opcode: u8,
    insn: &mut Insn,
) -> Option<()> {
    let form = ONE[usize::from(opcode)];
    if form & TAKEN == 0 {
        return match opcode {
            0x70..=0x7f => transfer(bytes, at, p, false, insn, |to| Class::Jcc(opcode & 15, to)),
            0xe8 => transfer(bytes, at, p, true, insn, Class::Call),
            0xe9 => transfer(bytes, at, p, true, insn, Class::Jmp),
            0xeb => transfer(bytes, at, p, false, insn, Class::Jmp),
            _ => None,
        };
    }
    let m = general(bytes, at, p, opcode, form, insn);
    if p.lock {
        // Those that may be locked, with memory to lock.
        let memory = m.register.is_none();
        let fine = match opcode {
            0x00 | 0x01 | 0x08 | 0x09 | 0x10 | 0x11 | 0x18 | 0x19 => true,
            0x20 | 0x21 | 0x28 | 0x29 | 0x30 | 0x31 | 0x86 | 0x87 => true,
            0x80 | 0x81 | 0x83 => m.reg != 7,
            0xfe | 0xff => m.reg < 2,
            0xf6 | 0xf7 => m.reg == 2 || m.reg == 3,
            _ => false,
        };
        if !fine || !memory {
            return None;
        }
    }
    if p.repeat != 0 && !matches!(opcode, 0x90 | 0xa4 | 0xa5 | 0xaa | 0xab | 0xc3) {
        return None;
    }
    if form & SPECIAL == 0 {
        return Some(());
    }
    let size = p.size();
    let reg = Reg(m.reg | p.r);
    let memory = m.register.is_none();
    match opcode {
        // The same register: sets it to zero.
        0x29 | 0x2b | 0x31 | 0x33 => {
            if let Some(low) = m.register
                && size >= 4
                && low | p.b == reg.0
            {
                insn.overwrites = Some(reg);
            }
        }
        // push, pop
        0x50..=0x57 | 0x68 | 0x6a => {
            if p.short_operands {
                return None;
            }
        }
        0x58..=0x5f => {
            if p.short_operands {
                return None;
            }
            let to = Reg(opcode & 7 | p.b);
            insn.load = Some(Load::After(to));
            if to == Reg::RSP {
                insn.load = Some(Load::BeforeStack(8));
            } else {
                insn.overwrites = Some(to);
            }
        }
        // movsxd
        0x63 => {
            if size == 2 {
                return None;
            }
            if memory {
                insn.load = Some(Load::Before(4));
            }
            insn.overwrites = overwritten(reg, &m, p);
        }
        // xchg
        0x87 => {
            if memory && size != 2 {
                insn.load = Some(Load::After(reg));
            }
        }
        // mov from memory or a register
        0x8b => {
            if size != 2 {
                if memory {
                    insn.load = Some(Load::After(reg));
                }
                insn.overwrites = overwritten(reg, &m, p);
            }
        }
        // mov to a register
        0x89 => {
            if size != 2
                && let Some(low) = m.register
            {
                let to = Reg(low | p.b);
                insn.overwrites = (to != reg).then_some(to);
            }
        }
        // lea
        0x8d => {
            if !memory {
                return None;
            }
            if size != 2 {
                insn.overwrites = overwritten(reg, &m, p);
            }
        }
        // nop, which is an exchange with an upper register
        0x90 => {
            if p.b != 0 {
                return None;
            }
        }
        // movs, stos
        0xa4 | 0xa5 | 0xaa | 0xab => {
            if p.repeat != 0 {
                insn.used |= RCX as u16;
            }
        }
        // mov of a constant
        0xb8..=0xbf => {
            insn.len = (at + usize::from(size)) as u8;
            if size != 2 {
                insn.overwrites = Some(Reg(opcode & 7 | p.b));
            }
        }
        0xc6 | 0xc7 => {
            if m.reg != 0 {
                return None;
            }
            if let Some(low) = m.register
                && opcode == 0xc7
                && size != 2
            {
                insn.overwrites = Some(Reg(low | p.b));
            }
        }
        // ret
        0xc2 | 0xc3 => {
            if p.short_operands || p.segment != Segment::None {
                return None;
            }
            let release = u16::from_le_bytes([bytes[at & 31], bytes[(at + 1) & 31]]);
            insn.class = Class::Ret(if opcode == 0xc2 { release } else { 0 });
            insn.len = (at + 2 * usize::from(opcode == 0xc2)) as u8;
        }
        // leave
        0xc9 => {
            if p.short_operands {
                return None;
            }
            insn.load = Some(Load::After(Reg::RBP));
        }
        // x87
        0xd8..=0xdf => {
            if bytes[at & 31] == 0xe0 && opcode == 0xdf {
                insn.used |= RAX as u16;
            }
            if memory {
                // frstor, fnsave, fnstenv
                if matches!((opcode, m.reg), (0xdd, 4 | 6) | (0xd9, 6)) {
                    return None;
                }
                insn.load = x87_load(opcode, m.reg).map(Load::Before);
            }
        }
        // test, not, neg, mul, imul, div, idiv
        0xf6 | 0xf7 => {
            let bytes_of = if opcode == 0xf6 { 1 } else { size };
            match m.reg {
                0 => insn.len += bytes_of.min(4),
                1 => return None,
                2 | 3 => {}
                _ => {
                    insn.used |= RAX as u16;
                    if opcode == 0xf7 {
                        insn.used |= RDX as u16;
                    }
                    if memory {
                        insn.load = Some(Load::Before(bytes_of));
                    }
                }
            }
        }
        0xfe => {
            if m.reg > 1 {
                return None;
            }
        }
        // inc, dec, call, jmp, push
        0xff => match m.reg {
            0 | 1 => {}
            2 | 4 => {
                if p.short_operands {
                    return None;
                }
                insn.class = Class::JmpIndirect;
                if m.reg == 2 {
                    insn.class = Class::CallIndirect;
                    insn.used |= RSP as u16;
                }
                if let Some(low) = m.register {
                    insn.rm = Rm::Register(Reg(low | p.b));
                }
            }
            6 => {
                if p.short_operands {
                    return None;
                }
                insn.used |= RSP as u16;
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

/// Returns how many bytes of its memory operand an x87 instruction puts on the register stack, or
/// computes with. 8 stands for more, too.
fn x87_load(opcode: u8, reg: u8) -> Option<u8> {
    match (opcode, reg) {
        (0xd8 | 0xda, 0 | 1 | 4..=7) | (0xd9 | 0xdb, 0) => Some(4),
        (0xdc, 0 | 1 | 4..=7) | (0xdd, 0) | (0xdb | 0xdf, 5) | (0xdf, 4) => Some(8),
        (0xde, 0 | 1 | 4..=7) | (0xdf, 0) => Some(2),
        _ => None,
    }
}

/// `to`, unless the source that ModRM names involves it.
fn overwritten(to: Reg, m: &Modrm, p: &Prefix) -> Option<Reg> {
    let source = match m.register {
        Some(low) => 1 << (low | p.b),
        None => m.used,
    };
    (source & to.bit() == 0).then_some(to)
}
