//! Machine code, written byte by byte.
//!
//! The methods cover only the few forms that fragments are made of. Each is named for what it does.
//! Only [`Code::jcc`] reads the flags, and none writes them. Positions are offsets in the memory
//! that is written to. The code is executed there, or it is copied to where it will be. Every
//! RIP-relative form needs to know the final place up front ([`Code::new`]'s `base`).

use crate::base::address::CachePc;

/// A general register, by its hardware number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(pub u8);

impl Reg {
    /// `rax`
    pub const RAX: Self = Self(0);
    /// `rcx`
    pub const RCX: Self = Self(1);
    /// `rdx`
    pub const RDX: Self = Self(2);
    /// `rbx`
    pub const RBX: Self = Self(3);
    /// `rsp`
    pub const RSP: Self = Self(4);
    /// `rbp`
    pub const RBP: Self = Self(5);
    /// `rsi`
    pub const RSI: Self = Self(6);
    /// `rdi`
    pub const RDI: Self = Self(7);

    /// The set of just this register, for masks of used registers.
    pub const fn bit(self) -> u16 {
        1 << self.0
    }

    const fn low(self) -> u8 {
        self.0 & 7
    }

    const fn high(self) -> bool {
        self.0 >= 8
    }
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mem {
    /// Base register.
    pub base: Option<Reg>,
    /// Index register, not `rsp`, and the logarithm of its scale.
    pub index: Option<(Reg, u8)>,
    /// Displacement.
    pub disp: i32,
    /// Relative to FS.
    pub fs: bool,
    /// Addresses are cut to 32 bits.
    pub short: bool,
}

/// An offset from the GS base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GsOffset(pub u32);

/// A position whose 32-bit relative displacement is filled in later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rel32(pub usize);

/// A position whose 8-bit relative displacement is filled in later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rel8(usize);

/// Code that is longer than the memory for it.
#[cold]
fn full() -> ! {
    panic!("the limits on a fragment's length are wrong")
}

/// Code under construction.
pub struct Code<'a> {
    /// Memory for the code, as long as the code will ever be. So appending a few bytes is a store and no call.
    buffer: &'a mut [u8],
    len: usize,
    base: CachePc,
}

impl<'a> Code<'a> {
    /// Code that is written to `buffer` and will be executed at `base`.
    pub fn new(base: CachePc, buffer: &'a mut [u8]) -> Self {
        Self {
            buffer,
            len: 0,
            base,
        }
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Offset of the next byte.
    pub fn here(&self) -> usize {
        self.len
    }

    /// Cache address of an offset.
    pub fn at(&self, offset: usize) -> CachePc {
        CachePc(self.base.0 + offset as u64)
    }

    /// Appends bytes as they are.
    ///
    /// # Panics
    /// When the buffer is full, which the limits on a fragment's length exclude.
    #[inline]
    pub fn raw<const N: usize>(&mut self, bytes: &[u8; N]) {
        *self.place() = *bytes;
        self.len += N;
    }

    /// The next bytes.
    #[inline]
    fn place<const N: usize>(&mut self) -> &mut [u8; N] {
        let rest = self.buffer.get_mut(self.len..);
        let Some(place) = rest.and_then(|rest| rest.first_chunk_mut()) else {
            full()
        };
        place
    }

    /// Appends the first `len` of 16 bytes.
    #[inline]
    pub fn some_of(&mut self, bytes: &[u8; 16], len: usize) {
        *self.place() = *bytes;
        self.len += len;
    }

    /// Appends as many bytes as there are.
    pub fn slice(&mut self, bytes: &[u8]) {
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline]
    fn u32(&mut self, v: u32) {
        self.raw(&v.to_le_bytes());
    }

    /// Appends a 64-bit constant.
    pub fn u64(&mut self, v: u64) {
        self.raw(&v.to_le_bytes());
    }

    /// Appends `N` bytes and a 32-bit constant.
    #[inline]
    fn raw_u32<const N: usize, const ALL: usize>(&mut self, bytes: [u8; N], v: u32) {
        const { assert!(ALL == N + 4) };
        let place = self.place::<ALL>();
        place[..N].copy_from_slice(&bytes);
        place[N..].copy_from_slice(&v.to_le_bytes());
        self.len += ALL;
    }

    /// Overwrites four bytes.
    #[inline]
    pub fn put_u32(&mut self, at: usize, v: u32) {
        self.buffer[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }

    /// `op reg, gs:[slot]` with a REX.W and the given opcode.
    #[inline]
    fn gs_form(&mut self, opcode: u8, reg: Reg, slot: GsOffset) {
        let rex = 0x48 | (reg.high() as u8) << 2;
        self.raw_u32::<5, 9>([0x65, rex, opcode, reg.low() << 3 | 4, 0x25], slot.0);
    }

    /// `mov gs:[slot], reg`
    pub fn store_gs(&mut self, slot: GsOffset, reg: Reg) {
        self.gs_form(0x89, reg, slot);
    }

    /// `mov reg, gs:[slot]`
    pub fn load_gs(&mut self, reg: Reg, slot: GsOffset) {
        self.gs_form(0x8b, reg, slot);
    }

    /// `inc qword gs:[slot]`, which changes flags.
    pub fn increment_gs(&mut self, slot: GsOffset) {
        self.gs_form(0xff, Reg(0), slot);
    }

    /// `mov dword gs:[slot], imm`
    #[inline]
    pub fn store_gs_imm32(&mut self, slot: GsOffset, imm: u32) {
        self.raw_u32::<4, 8>([0x65, 0xc7, 0x04, 0x25], slot.0);
        self.u32(imm);
    }

    /// `fnstenv gs:[slot]`, and `fldcw gs:[slot]`, as the first masks all exceptions.
    pub fn keep_x87(&mut self, slot: GsOffset) {
        self.raw_u32::<4, 8>([0x65, 0xd9, 0x34, 0x25], slot.0);
        self.raw_u32::<4, 8>([0x65, 0xd9, 0x2c, 0x25], slot.0);
    }

    /// `jmp gs:[slot]`
    #[inline]
    pub fn jmp_gs(&mut self, slot: GsOffset) {
        self.raw_u32::<4, 8>([0x65, 0xff, 0x24, 0x25], slot.0);
    }

    /// `jmp gs:[rdx*8 + table]`
    pub fn jmp_gs_rdx8(&mut self, table: GsOffset) {
        self.raw(&[0x65, 0xff, 0x24, 0xd5]);
        self.u32(table.0);
    }

    /// `movzx ecx, byte gs:[rcx + table]`
    pub fn load_byte_gs_rcx(&mut self, table: GsOffset) {
        self.raw(&[0x65, 0x0f, 0xb6, 0x89]);
        self.u32(table.0);
    }

    /// ModRM, SIB and displacement of `[base + disp]`, with `reg` as the other operand.
    #[inline]
    fn base_disp(&mut self, reg: u8, base: Reg, disp: i32) {
        let small = i8::try_from(disp).is_ok();
        let mode = if small { 0x40 } else { 0x80 };
        let modrm = mode | (reg & 7) << 3 | base.low();
        let disp = disp as u32;
        // A word of what there may be at most, of which the last bytes are written over.
        let sib = base.low() == 4;
        let word = match sib {
            true => u64::from(modrm) | 0x24 << 8 | u64::from(disp) << 16,
            false => u64::from(modrm) | u64::from(disp) << 8,
        };
        *self.place() = word.to_le_bytes();
        self.len += 1 + usize::from(sib) + if small { 1 } else { 4 };
    }

    /// `mov [base + disp], reg` (64 bits)
    #[inline]
    pub fn store(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.raw(&[0x48 | (reg.high() as u8) << 2 | base.high() as u8, 0x89]);
        self.base_disp(reg.0, base, disp);
    }

    /// `mov [base + disp], reg` (32 bits)
    pub fn store_32(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.raw(&[0x40 | (reg.high() as u8) << 2 | base.high() as u8, 0x89]);
        self.base_disp(reg.0, base, disp);
    }

    /// `mov dword [base + disp], imm`
    pub fn store_imm32(&mut self, base: Reg, disp: i32, imm: u32) {
        if base.high() {
            self.raw(&[0x41]);
        }
        self.raw(&[0xc7]);
        self.base_disp(0, base, disp);
        self.u32(imm);
    }

    /// `movq qword [base + disp], xmmN` for N < 16 (SSE form; does not touch upper halves)
    pub fn store_xmm_low(&mut self, base: Reg, disp: i32, xmm: u8) {
        self.raw(&[0x66]);
        let rex = (u8::from(xmm >= 8)) << 2 | base.high() as u8;
        if rex != 0 {
            self.raw(&[0x40 | rex]);
        }
        self.raw(&[0x0f, 0xd6]);
        self.base_disp(xmm, base, disp);
    }

    /// `lea reg, [base + disp]`
    pub fn lea(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.raw(&[0x48 | (reg.high() as u8) << 2 | base.high() as u8, 0x8d]);
        self.base_disp(reg.0, base, disp);
    }

    /// `mov to, from` (64 bits)
    pub fn mov(&mut self, to: Reg, from: Reg) {
        self.raw(&[
            0x48 | (from.high() as u8) << 2 | to.high() as u8,
            0x89,
            0xc0 | from.low() << 3 | to.low(),
        ]);
    }

    /// Loads 1, 2, 4 or 8 bytes of a memory operand, zero-extended.
    pub fn load_mem(&mut self, to: Reg, size: u8, mem: &Mem) {
        self.segment(mem);
        self.operand_form(to, size == 8, mem, |code| code.load_opcode(size));
    }

    /// `prefetcht0 mem`, or `prefetchw mem`
    pub fn prefetch(&mut self, written: bool, mem: &Mem) {
        // In place of a register, which of the instructions of this opcode is meant.
        const FIRST: Reg = Reg(1);
        let opcode = if written { 0x0d } else { 0x18 };
        self.segment(mem);
        self.operand_form(FIRST, false, mem, |code| code.raw(&[0x0f, opcode]));
    }

    /// Emits the prefix of the operand's segment.
    fn segment(&mut self, mem: &Mem) {
        if mem.fs {
            self.raw(&[0x64]);
        }
    }

    /// `rdfsbase to`.
    pub fn read_fs_base(&mut self, to: Reg) {
        self.raw(&[0xf3, 0x48 | to.high() as u8, 0x0f, 0xae, 0xc0 | to.low()]);
    }

    /// `lea to, mem`: its address, without the segment's base.
    pub fn lea_mem(&mut self, to: Reg, mem: &Mem) {
        self.operand_form(to, true, mem, |code| code.raw(&[0x8d]));
    }

    /// An instruction with a register, of 64 bits if `wide`, and a memory operand.
    fn operand_form(&mut self, to: Reg, wide: bool, mem: &Mem, opcode: impl FnOnce(&mut Self)) {
        if mem.short {
            self.raw(&[0x67]);
        }
        let index = mem.index.map_or(Reg::RSP, |(r, _)| r);
        let base = mem.base.unwrap_or(Reg::RBP);
        let rex = (wide as u8 * 8)
            | (to.high() as u8) << 2
            | (index.high() as u8) << 1
            | (mem.base.is_some() && base.high()) as u8;
        if rex != 0 {
            self.raw(&[0x40 | rex]);
        }
        opcode(self);
        let small = i8::try_from(mem.disp).ok().filter(|_| mem.base.is_some());
        let mode = match (mem.base, small) {
            (None, _) => 0,
            (_, Some(0)) if base.low() != 5 => 0,
            (_, Some(_)) => 0x40,
            (_, None) => 0x80,
        };
        let reg = to.low() << 3;
        if mem.index.is_none() && mem.base.is_some() && base.low() != 4 {
            self.raw(&[mode | reg | base.low()]);
        } else {
            let scale = mem.index.map_or(0, |(_, s)| s);
            self.raw(&[mode | reg | 4, scale << 6 | index.low() << 3 | base.low()]);
        }
        match (mode, small) {
            (0x40, Some(d)) => self.raw(&[d as u8]),
            (0, Some(_)) => {}
            _ => self.u32(mem.disp as u32),
        }
    }

    /// `mov`, or `movzx` from 1 or 2 bytes.
    fn load_opcode(&mut self, size: u8) {
        match size {
            1 => self.raw(&[0x0f, 0xb6]),
            2 => self.raw(&[0x0f, 0xb7]),
            _ => self.raw(&[0x8b]),
        }
    }

    /// `mov to, [rip + …]` or a shorter one zero-extended, for an absolute address. False when it
    /// is out of reach.
    pub fn load_rip(&mut self, to: Reg, size: u8, address: u64) -> bool {
        let len = if size < 4 { 2 } else { 1 };
        let rex = ((size == 8) as u8 * 8) | (to.high() as u8) << 2;
        let end = self.here() + (rex != 0) as usize + len + 5;
        let Ok(rel) = i32::try_from(address.wrapping_sub(self.at(end).0) as i64) else {
            return false;
        };
        if rex != 0 {
            self.raw(&[0x40 | rex]);
        }
        self.load_opcode(size);
        self.raw(&[to.low() << 3 | 5]);
        self.u32(rel as u32);
        true
    }

    /// `mov [rip + …], reg`, the low 32 bits of one of the first eight, for an absolute address within
    /// reach.
    pub fn store_rip(&mut self, reg: Reg, address: u64) {
        self.raw(&[0x89, 0x05 | reg.low() << 3]);
        let end = self.at(self.here() + 4).0;
        self.u32(address.wrapping_sub(end) as u32);
    }

    /// `mov to, [base + disp]` (64 bits)
    pub fn load(&mut self, to: Reg, base: Reg, disp: i32) {
        self.raw(&[0x48 | (to.high() as u8) << 2 | base.high() as u8, 0x8b]);
        self.base_disp(to.0, base, disp);
    }

    /// `mov reg, imm` in its longest form, ten bytes.
    pub fn mov_imm64(&mut self, reg: Reg, imm: u64) {
        self.raw(&[0x48 | reg.high() as u8, 0xb8 | reg.low()]);
        self.u64(imm);
    }

    /// Goes on at a multiple of eight bytes. The bytes between are not executed.
    pub fn align8(&mut self) {
        self.align(8);
    }

    /// Goes on at a multiple of `to` bytes. The instructions between do nothing.
    pub fn align(&mut self, to: u64) {
        while !self.at(self.len).0.is_multiple_of(to) {
            self.raw(&[0x90]);
        }
    }

    /// Makes room, with one instruction that does nothing, so that a displacement `ahead` bytes
    /// from here does not cross a cache line: it can be rewritten while it is executed.
    pub fn patchable(&mut self, ahead: usize) {
        const LINE: u64 = 64;
        let last = (self.at(self.len + ahead).0 + 3) % LINE;
        match last {
            // One to three bytes of it are in the next line.
            0 => self.raw(&[0x0f, 0x1f, 0x00]),
            1 => self.raw(&[0x66, 0x90]),
            2 => self.raw(&[0x90]),
            _ => {}
        }
    }

    /// Makes room so that the next `len` bytes neither cross nor end at a multiple of 32.
    pub fn keep_whole(&mut self, len: usize) {
        const LINE: usize = 32;
        let at = self.at(self.len).0 as usize % LINE;
        if at != 0 && at + len >= LINE {
            self.do_nothing(LINE - at);
        }
    }

    /// Makes room so that the next `len` bytes are in one line of the instruction cache, or begin one.
    pub fn keep_in_line(&mut self, len: usize) {
        const LINE: usize = 64;
        let at = self.at(self.len).0 as usize % LINE;
        if at != 0 && at + len > LINE {
            self.do_nothing(LINE - at);
        }
    }

    /// Instructions that do nothing, as few as there are, of `len` bytes in all.
    fn do_nothing(&mut self, mut len: usize) {
        // The forms that Intel's manual recommends, by length.
        const FORMS: [&[u8]; 10] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
        ];
        while len != 0 {
            let form = FORMS[len.min(FORMS.len() - 1)];
            self.slice(form);
            len -= form.len();
        }
    }

    /// `mov reg, imm`, the shortest form that leaves the upper bits right.
    pub fn mov_imm(&mut self, reg: Reg, imm: u64) {
        if let Ok(small) = u32::try_from(imm) {
            if reg.high() {
                self.raw(&[0x41]);
            }
            self.raw(&[0xb8 | reg.low()]);
            self.u32(small);
        } else if let Ok(signed) = i32::try_from(imm as i64) {
            self.raw(&[0x48 | reg.high() as u8, 0xc7, 0xc0 | reg.low()]);
            self.u32(signed as u32);
        } else {
            self.raw(&[0x48 | reg.high() as u8, 0xb8 | reg.low()]);
            self.u64(imm);
        }
    }

    /// `lea rcx, [rcx + rdx]`
    pub fn add_rdx_to_rcx(&mut self) {
        self.raw(&[0x48, 0x8d, 0x0c, 0x11]);
    }

    /// `movzx edx, cx`
    pub fn low16_of_rcx_to_rdx(&mut self) {
        self.raw(&[0x0f, 0xb7, 0xd1]);
    }

    /// `movzx edx, dx`
    pub fn low16_of_rdx(&mut self) {
        self.raw(&[0x0f, 0xb7, 0xd2]);
    }

    /// `lea edx, [rcx + offset]`
    pub fn rcx_and_offset_to_edx(&mut self, offset: u32) {
        self.raw(&[0x8d, 0x91]);
        self.u32(offset);
    }

    /// `movzx ecx, ch`
    pub fn second_byte_of_rcx(&mut self) {
        self.raw(&[0x0f, 0xb6, 0xcd]);
    }

    /// `movzx ecx, ax`
    pub fn low16_of_rax_to_rcx(&mut self) {
        self.raw(&[0x0f, 0xb7, 0xc8]);
    }

    /// `pop reg`
    pub fn pop(&mut self, reg: Reg) {
        if reg.high() {
            self.raw(&[0x41]);
        }
        self.raw(&[0x58 | reg.low()]);
    }

    /// `push imm32` (sign-extended)
    pub fn push_imm32(&mut self, imm: i32) {
        self.raw(&[0x68]);
        self.u32(imm as u32);
    }

    /// `push qword [rip + …]`
    pub fn push_rip(&mut self) -> Rel32 {
        self.rel32::<2, 6>([0xff, 0x35])
    }

    /// `lea rcx, [rip + …]`
    pub fn lea_rcx_rip(&mut self) -> Rel32 {
        self.rel32::<3, 7>([0x48, 0x8d, 0x0d])
    }

    /// Appends `N` bytes and room for a displacement.
    #[inline]
    fn rel32<const N: usize, const ALL: usize>(&mut self, bytes: [u8; N]) -> Rel32 {
        self.raw_u32::<N, ALL>(bytes, 0);
        Rel32(self.len - 4)
    }

    /// `jmp rel32`
    pub fn jmp(&mut self) -> Rel32 {
        self.rel32::<1, 5>([0xe9])
    }

    /// `jmp [rip + 0]` and the address after it: a jump to anywhere.
    pub fn jmp_far(&mut self, to: u64) {
        self.raw(&[0xff, 0x25, 0, 0, 0, 0]);
        self.u64(to);
    }

    /// `jcc rel32`, condition code as the hardware numbers it.
    pub fn jcc(&mut self, condition: u8) -> Rel32 {
        self.rel32::<2, 6>([0x0f, 0x80 | condition])
    }

    /// `jmp rel8`
    pub fn jmp_short(&mut self) -> Rel8 {
        self.raw(&[0xeb, 0]);
        Rel8(self.here() - 1)
    }

    /// `jrcxz rel8`
    pub fn jrcxz(&mut self) -> Rel8 {
        self.raw(&[0xe3, 0]);
        Rel8(self.here() - 1)
    }

    /// Points `rel` at offset `to` of this buffer.
    pub fn bind(&mut self, rel: Rel32, to: usize) {
        self.put_u32(rel.0, (to as i64 - rel.0 as i64 - 4) as i32 as u32);
    }

    /// Points `rel` at the next byte.
    ///
    /// # Panics
    /// When it is too far away, which the callers' layouts exclude.
    pub fn bind8_here(&mut self, rel: Rel8) {
        let distance = self.here() - rel.0 - 1;
        assert!(distance < 128, "short jump too long");
        self.buffer[rel.0] = distance as u8;
    }
}

#[cfg(test)]
mod tests;
