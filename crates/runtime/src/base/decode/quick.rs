//! The decoder for the instructions that programs mostly consist of.
//!
//! # Problem
//! Most code that ever runs, runs once, so the time to decode it is the time to run it. iced-x86
//! knows every instruction, and pays for that: its tables take longer to build than a short program
//! takes to run, and what the translator asks about each instruction takes longer than decoding.
//!
//! # Strategy
//! One pass over the bytes, led by [`tables`](super::tables): an entry says what follows the opcode
//! (ModRM, immediate), which fields name general registers, which registers are used unnamed, and
//! whether the memory operand is a load. What the tables leave open (groups, loads that end up in
//! a register as they are, transfers of control) is settled in one place each. Whatever is rare or
//! odd is *declined*: [`super::full`] is asked.
//!
//! # Why it is correct
//! It may decline anything. What it does not decline is what `full` says of it: a test compares the
//! two on random encodings of every opcode and on whole libraries. Two liberties: an encoding that
//! the CPU refuses may be taken for the valid one it resembles, since its copy is refused just so;
//! and `used` may name registers beyond those that are used.

mod one;
mod two;
mod vectors;

use super::tables::{
    BYTE, E, G, IMM8, IMMZ, LOAD, MODRM, ONE, OPREG, PREFIX, RSP, VECTOR2, VECTOR3,
};
use super::{Base, Class, Insn, Load, Operand, Rm, Segment};
use crate::base::address::AppPc;
use crate::base::emit::Reg;

/// Bytes that the decoder reads.
pub(super) const WINDOW: usize = 32;
/// Prefixes before an opcode that are taken; with them no position is beyond the window.
const MAX_PREFIXES: usize = 5;
const MAX_LENGTH: usize = 15;

/// Prefixes and what REX, VEX or EVEX say in their place.
#[derive(Clone, Copy, Default)]
struct Prefix {
    /// 66: operands of 16 bits.
    short_operands: bool,
    /// F3 or F2.
    repeat: u8,
    lock: bool,
    segment: Segment,
    /// REX is there, so 8-bit registers are the low bytes of all sixteen.
    rex: bool,
    w: bool,
    /// 8 when the field reg, index or base of ModRM and SIB is one of the upper eight.
    r: u8,
    x: u8,
    b: u8,
}

impl Prefix {
    /// Bytes of a general operand.
    fn size(self) -> u8 {
        match (self.w, self.short_operands) {
            (true, _) => 8,
            (false, true) => 2,
            _ => 4,
        }
    }

    /// The prefix that selects among vector instructions, as VEX numbers it.
    fn pp(self) -> usize {
        match self.repeat {
            0xf3 => 2,
            0xf2 => 3,
            _ => usize::from(self.short_operands),
        }
    }

    /// The register an 8-bit operand is part of.
    fn byte(self, field: u8) -> u8 {
        if self.rex || field < 4 {
            field
        } else {
            field & 3
        }
    }
}

/// Fields of ModRM, except the memory operand, which goes to the instruction.
#[derive(Clone, Copy)]
struct Modrm {
    /// The middle field, not extended.
    reg: u8,
    /// The register named by the low field, not extended, if it is no memory operand.
    register: Option<u8>,
    /// Offset after the SIB and the displacement.
    end: u8,
    /// Registers of the address.
    used: u16,
}

fn u32_at(bytes: &[u8; WINDOW], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u32::from_le_bytes(*b))
}

fn wide_at(bytes: &[u8; WINDOW], at: usize) -> u64 {
    i64::from(u32_at(bytes, at) as i32) as u64
}

/// Reads ModRM at `at`. Notes the memory operand and the registers of its address.
#[inline(always)]
fn modrm(bytes: &[u8; WINDOW], at: usize, p: &Prefix, scale8: i64, insn: &mut Insn) -> Modrm {
    let byte = bytes[at & 31];
    let (mode, reg, low) = (byte >> 6, byte >> 3 & 7, byte & 7);
    let mut at = at + 1;
    if mode == 3 {
        return Modrm {
            reg,
            register: Some(low),
            end: at as u8,
            used: 0,
        };
    }
    let mut used = 0;
    let (mut base, mut index, mut disp) = (Base::None, None, 0);
    let mut field = low;
    if low == 4 {
        let sib = bytes[at & 31];
        at += 1;
        field = sib & 7;
        let scaled = sib >> 3 & 7 | p.x;
        if scaled != 4 {
            index = Some((Reg(scaled), sib >> 6));
            used |= 1 << scaled;
        }
    }
    if field == 5 && mode == 0 {
        disp = wide_at(bytes, at);
        if low == 5 {
            // The address is filled in when the length is known.
            base = Base::Rip;
            insn.rip_disp = at as u8;
        }
        at += 4;
    } else {
        let register = field | p.b;
        base = Base::Register(Reg(register));
        used |= 1 << register;
        if mode == 1 {
            disp = (i64::from(bytes[at & 31] as i8) * scale8) as u64;
            at += 1;
        } else if mode == 2 {
            disp = wide_at(bytes, at);
            at += 4;
        }
    }
    insn.rm = Rm::Memory(Operand {
        base,
        index,
        disp,
        segment: p.segment,
        short: false,
    });
    insn.used |= used;
    Modrm {
        reg,
        register: None,
        end: at as u8,
        used,
    }
}

/// Decodes the instruction at the start of `bytes` into `insn`, or declines.
pub(super) fn decode(bytes: &[u8; WINDOW], pc: AppPc, insn: &mut Insn) -> bool {
    *insn = Insn::plain();
    insn.pc = pc;
    let taken = start(bytes, insn).is_some() && usize::from(insn.len) <= MAX_LENGTH;
    if taken
        && insn.rip_disp != 0
        && let Rm::Memory(operand) = &mut insn.rm
    {
        operand.disp = insn
            .pc
            .0
            .wrapping_add(u64::from(insn.len))
            .wrapping_add(operand.disp);
    }
    taken
}

/// Decodes an instruction from its first prefix on.
#[inline(always)]
fn start(bytes: &[u8; WINDOW], insn: &mut Insn) -> Option<()> {
    let mut p = Prefix::default();
    let mut at = 0;
    while ONE[usize::from(bytes[at & 31])] & PREFIX != 0 {
        match bytes[at & 31] {
            0x66 => p.short_operands = true,
            0xf2 | 0xf3 if p.repeat != 0 => return None,
            repeat @ (0xf2 | 0xf3) => p.repeat = repeat,
            0xf0 => p.lock = true,
            0x64 => p.segment = Segment::Fs,
            0x26 | 0x2e | 0x36 | 0x3e if p.segment != Segment::Fs => p.segment = Segment::Flat,
            _ => return None,
        }
        at += 1;
        if at == MAX_PREFIXES {
            return None;
        }
    }
    let mut opcode = bytes[at & 31];
    if opcode & 0xf0 == 0x40 {
        p.rex = true;
        p.w = opcode & 8 != 0;
        p.r = (opcode & 4) << 1;
        p.x = (opcode & 2) << 2;
        p.b = (opcode & 1) << 3;
        at += 1;
        opcode = bytes[at & 31];
    }
    at += 1;
    match opcode {
        0x0f => {
            opcode = bytes[at & 31];
            at += 1;
            match opcode {
                0x38 => vectors::legacy(
                    bytes,
                    at + 1,
                    &p,
                    &VECTOR2[usize::from(bytes[at & 31])],
                    2,
                    insn,
                ),
                0x3a => vectors::legacy(
                    bytes,
                    at + 1,
                    &p,
                    &VECTOR3[usize::from(bytes[at & 31])],
                    3,
                    insn,
                ),
                _ => two::two(bytes, at, &p, opcode, insn),
            }
        }
        0xc4 | 0xc5 | 0x62 if p.rex || p.short_operands || p.repeat != 0 || p.lock => None,
        0xc4 | 0xc5 => vectors::vex(bytes, at, p, opcode, insn),
        0x62 => vectors::evex(bytes, at, p, insn),
        _ => one::one(bytes, at, &p, opcode, insn),
    }
}

/// Decodes an instruction that is neither a transfer nor a vector instruction, by its table entry.
/// `at` is after the opcode.
#[inline(always)]
fn general(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    opcode: u8,
    form: u32,
    insn: &mut Insn,
) -> Modrm {
    let size = if form & BYTE != 0 { 1 } else { p.size() };
    insn.used = (form & 0xff) as u16;
    let register = |field: u8, high: u8| match form & BYTE {
        0 => field | high,
        _ => p.byte(field | high),
    };
    let mut m = Modrm {
        reg: 0,
        register: None,
        end: at as u8,
        used: 0,
    };
    if form & MODRM != 0 {
        m = modrm(bytes, at, p, 1, insn);
        if form & G != 0 {
            insn.used |= 1 << register(m.reg, p.r);
        }
        match m.register {
            Some(low) if form & E != 0 => insn.used |= 1 << register(low, p.b),
            None if form & LOAD != 0 => insn.load = Some(Load::Before(size)),
            _ => {}
        }
    } else if form & OPREG != 0 {
        insn.used |= 1 << register(opcode & 7, p.b);
    }
    let immediate = match form & (IMM8 | IMMZ) {
        0 => 0,
        IMM8 => 1,
        _ => size.min(4),
    };
    insn.len = m.end + immediate;
    m
}

/// Transfers with a target in the code: not with prefixes that change their meaning.
fn transfer(
    bytes: &[u8; WINDOW],
    at: usize,
    p: &Prefix,
    wide: bool,
    insn: &mut Insn,
    class: impl Fn(AppPc) -> Class,
) -> Option<()> {
    // With W, 66 is padding.
    let short = p.short_operands && !p.w;
    if short || p.repeat != 0 || p.lock || p.segment != Segment::None {
        return None;
    }
    let (distance, len) = match wide {
        true => (i64::from(u32_at(bytes, at) as i32), at + 4),
        false => (i64::from(bytes[at & 31] as i8), at + 1),
    };
    let to = insn
        .pc
        .0
        .wrapping_add(len as u64)
        .wrapping_add(distance as u64);
    insn.class = class(AppPc(to));
    insn.len = len as u8;
    if matches!(insn.class, Class::Call(_)) {
        insn.used = RSP as u16;
    }
    Some(())
}
