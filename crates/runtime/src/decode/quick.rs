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

use super::tables::{
    BYTE, E, EVEX1, EVEX2, EVEX3, G, IMM8, IMMZ, LOAD, MODRM, ONE, OPREG, PREFIX, RAX, RBX, RCX,
    RDX, RSP, SPECIAL, TAKEN, TWO, VECTOR1, VECTOR2, VECTOR3, vector,
};
use super::{Base, Class, Insn, Load, Operand, Rm, Segment};
use crate::cache::AppPc;
use crate::emit::Reg;

/// Bytes that are looked at.
pub(super) const WINDOW: usize = 32;
/// Prefixes in front of an opcode that are taken; with them no position is beyond the window.
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

/// What ModRM says, but for the memory operand, which goes to the instruction.
#[derive(Clone, Copy)]
struct Modrm {
    /// The middle field, not extended.
    reg: u8,
    /// The register named by the low field, not extended, if it is no memory operand.
    register: Option<u8>,
    /// Where what follows it, its SIB and its displacement starts.
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

/// From the first prefix on.
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
                0x38 => legacy_vector(
                    bytes,
                    at + 1,
                    &p,
                    &VECTOR2[usize::from(bytes[at & 31])],
                    2,
                    insn,
                ),
                0x3a => legacy_vector(
                    bytes,
                    at + 1,
                    &p,
                    &VECTOR3[usize::from(bytes[at & 31])],
                    3,
                    insn,
                ),
                _ => two(bytes, at, &p, opcode, insn),
            }
        }
        0xc4 | 0xc5 | 0x62 if p.rex || p.short_operands || p.repeat != 0 || p.lock => None,
        0xc4 | 0xc5 => vex(bytes, at, p, opcode, insn),
        0x62 => evex(bytes, at, p, insn),
        _ => one(bytes, at, &p, opcode, insn),
    }
}

/// What a table entry says of an instruction that is neither a transfer nor a vector instruction.
/// `at` is behind the opcode.
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

/// The one-byte opcodes.
fn one(bytes: &[u8; WINDOW], at: usize, p: &Prefix, opcode: u8, insn: &mut Insn) -> Option<()> {
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
                // frstor
                if opcode == 0xdd && m.reg == 4 {
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

/// How many bytes of its memory operand an x87 instruction puts on the register stack, or computes
/// with; 8 stands for more, too.
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

/// The opcodes behind `0f`.
fn two(bytes: &[u8; WINDOW], at: usize, p: &Prefix, opcode: u8, insn: &mut Insn) -> Option<()> {
    let form = TWO[usize::from(opcode)];
    if form & TAKEN == 0 {
        return match opcode {
            0x80..=0x8f => transfer(bytes, at, p, true, insn, |to| Class::Jcc(opcode & 15, to)),
            _ => legacy_vector(bytes, at, p, &VECTOR1[usize::from(opcode)], 1, insn),
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
            (true, 4..=6) => insn.used |= (RAX | RDX) as u16,
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
            (true, 4) => insn.used |= (RAX | RDX) as u16,
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

/// What [`vector`] says of an instruction, for a given size of vectors and width of general operands.
struct VectorForm {
    entry: u16,
    /// What the number of the vector register in field reg has beyond the low eight.
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
fn legacy_vector(
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

/// VEX-encoded instructions; `at` is behind `c4` or `c5`.
fn vex(
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
            if opcode >= 0xf2 && opcode <= 0xf7 {
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

/// EVEX-encoded instructions; `at` is behind `62`.
fn evex(bytes: &[u8; WINDOW], at: usize, mut p: Prefix, insn: &mut Insn) -> Option<()> {
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
