//! Vector instructions and what else is encoded with VEX and EVEX.

use super::{Prefix, WINDOW, general, modrm};
use crate::base::decode::tables::{
    EVEX1, EVEX2, EVEX3, G, LOAD, MODRM, RAX, RCX, RDX, VECTOR1, VECTOR2, VECTOR3, vector,
};
use crate::base::decode::{Insn, Load};

/// Properties of an instruction for [`vector`], for a given size of vectors and width of general operands.
struct VectorForm {
    entry: u16,
    /// Bits above the low three in the number of the vector register in field reg.
    r: u8,
    /// The third operand, if it can be a general register.
    v: Option<u8>,
    scale8: i64,
    masked: bool,
}

fn vector_insn(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    form: &VectorForm,
    insn: &mut Insn,
) -> Option<()> {
    let entry = form.entry;
    if entry & vector::TAKEN == 0 {
        return None;
    }
    let m = modrm(bytes, at, p, form.scale8, insn);
    if entry & vector::G != 0 {
        insn.used |= 1 << (m.reg | p.r);
    }
    if let Some(v) = form.v {
        insn.used |= 1 << v;
    }
    match m.register {
        Some(low) => {
            if entry & vector::E != 0 {
                insn.used |= 1 << (low | p.b);
            }
        }
        None => {
            let size = match entry & vector::SIZE {
                0 => 0,
                vector::BY_W if p.w => 8,
                vector::BY_W => 4,
                code => 1 << (code - 1),
            };
            if size != 0 && !form.masked {
                insn.load = Some(match m.reg | form.r {
                    n @ 0..16 if entry & vector::AFTER != 0 => Load::AfterXmm(n),
                    _ => Load::Before(size),
                });
            }
        }
    }
    insn.len = m.end + u8::from(entry & vector::IMM8 != 0);
    Some(())
}

/// Vector instructions without VEX.
pub(super) fn legacy(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    row: &[u16; 4],
    map: u8,
    insn: &mut Insn,
) -> Option<()> {
    let opcode = bytes[(at - 1) & 31];
    // Two prefixes that select: crc32 with 16 bits, and what means nothing.
    if p.lock || (p.short_operands && p.repeat != 0) {
        return None;
    }
    let entry = row[p.pp()];
    let memory = bytes[at & 31] < 0xc0;
    if entry & vector::VEX_ONLY != 0 || (entry & vector::REGISTERS != 0 && memory) {
        return None;
    }
    match (map, opcode, p.pp()) {
        (2, 0xf0 | 0xf1, 0 | 1) => return movbe(bytes, at, p, opcode, insn),
        // crc32 of a byte, which may be the second of a register.
        (2, 0xf0, 3) if !memory => return None,
        _ => {}
    }
    let form = VectorForm {
        entry,
        r: p.r,
        v: None,
        scale8: 1,
        masked: false,
    };
    vector_insn(bytes, at, p, &form, insn)?;
    if map == 3 {
        insn.used |= string_compare(opcode);
    }
    Some(())
}

fn movbe(bytes: &[u8; WINDOW], at: usize, p: &Prefix, opcode: u8, insn: &mut Insn) -> Option<()> {
    let load = if opcode == 0xf0 { LOAD } else { 0 };
    let m = general(bytes, at, p, opcode, MODRM | G | load, insn);
    m.register.is_none().then_some(())
}

/// Registers that `pcmpestrm` and its kind use unnamed.
fn string_compare(opcode: u8) -> u16 {
    (match opcode {
        0x60 => RAX | RDX,
        0x61 => RAX | RDX | RCX,
        0x63 => RCX,
        _ => 0,
    }) as u16
}

/// Decodes VEX-encoded instructions; `at` is after `c4` or `c5`.
pub(super) fn vex(
    bytes: &[u8; WINDOW],
    mut at: usize,
    mut p: Prefix,
    escape: u8,
    insn: &mut Insn,
) -> Option<()> {
    let first = bytes[at & 31];
    at += 1;
    p.r = (!first & 0x80) >> 4;
    let (map, last) = if escape == 0xc5 {
        (1, first & 0x7f)
    } else {
        p.x = (!first & 0x40) >> 3;
        p.b = (!first & 0x20) >> 2;
        let last = bytes[at & 31];
        at += 1;
        p.w = last & 0x80 != 0;
        (first & 31, last)
    };
    let v = !last >> 3 & 15;
    let (wide, pp) = (last & 4 != 0, usize::from(last & 3));
    let opcode = bytes[at & 31];
    at += 1;
    let mut form = VectorForm {
        entry: 0,
        r: p.r,
        v: None,
        scale8: 1,
        masked: false,
    };
    match map {
        1 => match opcode {
            0x77 => {
                // vzeroupper, vzeroall
                if pp != 0 || v != 0 {
                    return None;
                }
                insn.len = at as u8;
                return Some(());
            }
            // Mask registers, registers only; from and to general ones.
            0x41 | 0x42 | 0x44..=0x47 | 0x4a | 0x4b | 0x90 | 0x98 | 0x99
                if bytes[at & 31] >= 0xc0 =>
            {
                form.entry = vector::TAKEN;
            }
            0x92 if bytes[at & 31] >= 0xc0 => form.entry = vector::TAKEN | vector::E,
            0x93 if bytes[at & 31] >= 0xc0 => form.entry = vector::TAKEN | vector::G,
            _ => form.entry = VECTOR1[usize::from(opcode)][pp],
        },
        2 => {
            form.entry = VECTOR2[usize::from(opcode)][pp];
            // Wide ones extend from twice as much memory.
            if wide && matches!(opcode, 0x20..=0x25 | 0x30..=0x35) {
                return None;
            }
            if (0xf2..=0xf7).contains(&opcode) {
                form.v = Some(v);
            }
        }
        3 => form.entry = VECTOR3[usize::from(opcode)][pp],
        _ => return None,
    }
    if form.entry & vector::LEGACY_ONLY != 0 {
        return None;
    }
    if form.entry & vector::REGISTERS != 0 && bytes[at & 31] < 0xc0 {
        return None;
    }
    vector_insn(bytes, at, &p, &form, insn)?;
    match (map, opcode, pp) {
        // mulx
        (2, 0xf6, 3) => insn.used |= RDX as u16,
        (3, _, 1) => insn.used |= string_compare(opcode),
        _ => {}
    }
    Some(())
}

/// Decodes EVEX-encoded instructions; `at` is after `62`.
pub(super) fn evex(bytes: &[u8; WINDOW], at: usize, mut p: Prefix, insn: &mut Insn) -> Option<()> {
    let [b0, b1, b2, opcode] = [0, 1, 2, 3].map(|n| bytes[(at + n) & 31]);
    if b0 & 8 != 0 || b1 & 4 == 0 {
        return None;
    }
    p.r = (!b0 & 0x80) >> 4;
    p.x = (!b0 & 0x40) >> 3;
    p.b = (!b0 & 0x20) >> 2;
    p.w = b1 & 0x80 != 0;
    let pp = usize::from(b1 & 3);
    let mask = b2 & 7;
    let length = b2 >> 5 & 3;
    // Broadcast, rounding.
    if b2 & 0x10 != 0 || length == 3 {
        return None;
    }
    let table = match b0 & 7 {
        1 => &EVEX1,
        2 => &EVEX2,
        3 => &EVEX3,
        _ => return None,
    };
    let entry = table[usize::from(opcode)][pp];
    let memory = bytes[(at + 4) & 31] < 0xc0;
    if entry & vector::REGISTERS != 0 && memory {
        return None;
    }
    let form = VectorForm {
        entry,
        r: p.r | (!b0 & 0x10),
        v: None,
        scale8: 16 << length,
        masked: mask != 0,
    };
    vector_insn(bytes, at + 4, &p, &form, insn)
}
