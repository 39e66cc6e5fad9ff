//! The opcodes after `0f`, except vector instructions.

use super::vectors;
use super::{Prefix, WINDOW, general, transfer};
use crate::base::decode::tables::{RAX, RBX, RCX, RDX, SPECIAL, TAKEN, TWO, VECTOR1};
use crate::base::decode::{Class, Insn, Load};
use crate::base::emit::Reg;

/// Decodes the opcodes after `0f`.
pub(super) fn two(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    opcode: u8,
    insn: &mut Insn,
) -> Option<()> {
    let form = TWO[usize::from(opcode)];
    if form & TAKEN == 0 {
        return match opcode {
            0x80..=0x8f => transfer(bytes, at, p, true, insn, |to| Class::Jcc(opcode & 15, to)),
            _ => vectors::legacy(bytes, at, p, &VECTOR1[usize::from(opcode)], 1, insn),
        };
    }
    let m = general(bytes, at, p, opcode, form, insn);
    let memory = m.register.is_none();
    if p.lock {
        let fine = match opcode {
            0xab | 0xb3 | 0xbb | 0xb0 | 0xb1 | 0xc0 | 0xc1 => true,
            0xba => m.reg > 4,
            0xc7 => m.reg == 1,
            _ => false,
        };
        if !fine || !memory {
            return None;
        }
    }
    if p.repeat != 0 && !matches!(opcode, 0x1e | 0x1f | 0xb8 | 0xbc | 0xbd) {
        return None;
    }
    if opcode == 0x1f && bytes.starts_with(&trommel_aware::MARK) {
        insn.class = Class::Request;
    }
    if form & SPECIAL == 0 {
        return Some(());
    }
    let size = p.size();
    let reg = Reg(m.reg | p.r);
    match opcode {
        // xgetbv; xend, which is passed wherever locks may be elided
        0x01 => {
            match bytes[at & 31] {
                0xd0 => {}
                0xd5 => insn.used = 0,
                _ => return None,
            }
            if p.short_operands {
                return None;
            }
            insn.len = (at + 1) as u8;
        }
        0x05 => {
            insn.class = Class::Syscall;
            insn.used |= 1 << 11;
        }
        // prefetch
        0x0d | 0x18 => {
            if !memory || m.reg > 3 {
                return None;
            }
        }
        // endbr64
        0x1e => {
            if p.repeat != 0xf3 || p.short_operands || bytes[at & 31] != 0xfa {
                return None;
            }
            insn.used = 0;
        }
        0x1f => {
            if m.reg != 0 {
                return None;
            }
        }
        // fences; xsave, xrstor, xsaveopt
        0xae => match (memory, m.reg) {
            _ if p.short_operands => return None,
            // xrstor
            (true, 5) => insn.used |= (RAX | RDX) as u16,
            (true, 2 | 3) => {}
            (false, 5..=7) if bytes[at & 31] & 7 == 0 => {}
            _ => return None,
        },
        // movzx, movsx
        0xb6 | 0xb7 | 0xbe | 0xbf => {
            let from = 1 + (opcode & 1);
            if size == 2 && from == 2 {
                return None;
            }
            match m.register {
                Some(low) if from == 1 => insn.used |= 1 << p.byte(low | p.b),
                Some(low) => insn.used |= 1 << (low | p.b),
                None if opcode < 0xb8 && size != 2 => insn.load = Some(Load::After(reg)),
                None => insn.load = Some(Load::Before(from)),
            }
            if size != 2 {
                let source = match m.register {
                    Some(low) if from == 1 => 1 << p.byte(low | p.b),
                    Some(low) => 1 << (low | p.b),
                    None => m.used,
                };
                insn.overwrites = (source & reg.bit() == 0).then_some(reg);
            }
        }
        // popcnt
        0xb8 => {
            if p.repeat != 0xf3 {
                return None;
            }
        }
        // bsf, bsr, tzcnt, lzcnt
        0xbc | 0xbd => {
            if p.repeat == 0xf2 {
                return None;
            }
        }
        0xba => {
            if m.reg < 4 {
                return None;
            }
        }
        // xadd
        0xc0 => {
            if memory {
                insn.load = Some(Load::Before(1));
            }
        }
        0xc1 => {
            if memory {
                insn.load = Some(match size {
                    2 => Load::Before(2),
                    _ => Load::After(reg),
                });
            }
        }
        // movnti
        0xc3 => {
            if !memory || p.short_operands {
                return None;
            }
        }
        // cmpxchg8b, cmpxchg16b, xsavec
        0xc7 => match (memory, m.reg) {
            _ if p.short_operands => return None,
            (true, 1) => insn.used |= (RAX | RBX | RCX | RDX) as u16,
            _ => return None,
        },
        // bswap
        0xc8..=0xcf => {
            if p.short_operands {
                return None;
            }
        }
        _ => return None,
    }
    Some(())
}
