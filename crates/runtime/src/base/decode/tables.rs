//! Tables of the quick decoder: an entry for each opcode, computed by the compiler.

/// General registers used without being named; the low eight bits of an entry of [`ONE`] and [`TWO`].
pub(super) const RAX: u32 = 1;
pub(super) const RCX: u32 = 1 << 1;
pub(super) const RDX: u32 = 1 << 2;
pub(super) const RBX: u32 = 1 << 3;
pub(super) const RSP: u32 = 1 << 4;
pub(super) const RBP: u32 = 1 << 5;
pub(super) const RSI: u32 = 1 << 6;
pub(super) const RDI: u32 = 1 << 7;
/// The quick decoder takes this opcode.
pub(super) const TAKEN: u32 = 1 << 8;
/// ModRM follows.
pub(super) const MODRM: u32 = 1 << 9;
/// An immediate of one byte.
pub(super) const IMM8: u32 = 1 << 10;
/// An immediate of two or four bytes, as the operand size says.
pub(super) const IMMZ: u32 = 1 << 11;
/// The field reg names a general register.
pub(super) const G: u32 = 1 << 12;
/// The field rm, if it names a register, names a general one.
pub(super) const E: u32 = 1 << 13;
/// Operands are bytes.
pub(super) const BYTE: u32 = 1 << 14;
/// The low bits of the opcode name a general register.
pub(super) const OPREG: u32 = 1 << 15;
/// The memory operand is a load that no register is equal to afterwards.
pub(super) const LOAD: u32 = 1 << 16;
/// The entry is not all there is to say.
pub(super) const SPECIAL: u32 = 1 << 17;

/// No opcode but a prefix.
pub(super) const PREFIX: u32 = 1 << 18;

const RM: u32 = TAKEN | MODRM | E;
const RM_REG: u32 = RM | G;

/// The one-byte opcodes.
pub(super) static ONE: [u32; 256] = {
    let mut t = [0; 256];
    // add, or, adc, sbb, and, sub, xor, cmp
    let mut n = 0;
    while n < 8 {
        let load = if n == 7 { 0 } else { LOAD };
        // sub and xor of a register with itself
        let zero = if n == 5 || n == 6 { SPECIAL } else { 0 };
        t[n * 8] = RM_REG | BYTE;
        t[n * 8 + 1] = RM_REG | zero;
        t[n * 8 + 2] = RM_REG | BYTE | load;
        t[n * 8 + 3] = RM_REG | load | zero;
        t[n * 8 + 4] = TAKEN | BYTE | IMM8 | RAX;
        t[n * 8 + 5] = TAKEN | IMMZ | RAX;
        n += 1;
    }
    n = 0;
    while n < 8 {
        t[0x50 + n] = TAKEN | OPREG | RSP | SPECIAL;
        t[0x58 + n] = TAKEN | OPREG | RSP | SPECIAL;
        t[0x90 + n] = TAKEN | OPREG | RAX;
        t[0xb0 + n] = TAKEN | OPREG | BYTE | IMM8;
        t[0xb8 + n] = TAKEN | OPREG | SPECIAL;
        t[0xd8 + n] = TAKEN | MODRM | SPECIAL;
        n += 1;
    }
    t[0x90] = TAKEN | SPECIAL;
    let prefixes = [
        0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3,
    ];
    n = 0;
    while n < prefixes.len() {
        t[prefixes[n]] = PREFIX;
        n += 1;
    }
    t[0x63] = RM_REG | SPECIAL;
    t[0x68] = TAKEN | IMMZ | RSP | SPECIAL;
    t[0x69] = RM_REG | IMMZ | LOAD;
    t[0x6a] = TAKEN | IMM8 | RSP | SPECIAL;
    t[0x6b] = RM_REG | IMM8 | LOAD;
    t[0x80] = RM | BYTE | IMM8;
    t[0x81] = RM | IMMZ;
    t[0x83] = RM | IMM8;
    t[0x84] = RM_REG | BYTE;
    t[0x85] = RM_REG;
    t[0x86] = RM_REG | BYTE | LOAD;
    t[0x87] = RM_REG | LOAD | SPECIAL;
    t[0x88] = RM_REG | BYTE;
    t[0x89] = RM_REG | SPECIAL;
    t[0x8a] = RM_REG | BYTE | LOAD;
    t[0x8b] = RM_REG | LOAD | SPECIAL;
    t[0x8d] = RM_REG | SPECIAL;
    t[0x98] = TAKEN | RAX;
    t[0x99] = TAKEN | RAX | RDX;
    t[0x9b] = TAKEN;
    t[0xa4] = TAKEN | RSI | RDI | SPECIAL;
    t[0xa5] = TAKEN | RSI | RDI | SPECIAL;
    t[0xa8] = TAKEN | BYTE | IMM8 | RAX;
    t[0xa9] = TAKEN | IMMZ | RAX;
    t[0xaa] = TAKEN | RAX | RDI | SPECIAL;
    t[0xab] = TAKEN | RAX | RDI | SPECIAL;
    t[0xc0] = RM | BYTE | IMM8;
    t[0xc1] = RM | IMM8;
    t[0xc2] = TAKEN | RSP | SPECIAL;
    t[0xc3] = TAKEN | RSP | SPECIAL;
    t[0xc6] = RM | BYTE | IMM8 | SPECIAL;
    t[0xc7] = RM | IMMZ | SPECIAL;
    t[0xc9] = TAKEN | RSP | RBP | SPECIAL;
    // What pads between functions, and is never reached.
    t[0xcc] = TAKEN;
    t[0xd0] = RM | BYTE;
    t[0xd1] = RM;
    t[0xd2] = RM | BYTE | RCX;
    t[0xd3] = RM | RCX;
    t[0xf6] = RM | BYTE | SPECIAL;
    t[0xf7] = RM | SPECIAL;
    t[0xfe] = RM | BYTE | SPECIAL;
    t[0xff] = RM | SPECIAL;
    t
};

/// The opcodes after `0f` that are no vector instructions.
pub(super) static TWO: [u32; 256] = {
    let mut t = [0; 256];
    let mut n = 0;
    while n < 16 {
        t[0x40 + n] = RM_REG | LOAD;
        t[0x90 + n] = RM | BYTE;
        n += 1;
    }
    n = 0;
    while n < 8 {
        t[0xc8 + n] = TAKEN | OPREG | SPECIAL;
        n += 1;
    }
    t[0x01] = TAKEN | RAX | RCX | RDX | SPECIAL;
    t[0x05] = TAKEN | RCX | SPECIAL;
    t[0x0d] = TAKEN | MODRM | SPECIAL;
    t[0x18] = TAKEN | MODRM | SPECIAL;
    t[0x1e] = TAKEN | MODRM | SPECIAL;
    t[0x1f] = RM | SPECIAL;
    t[0x31] = TAKEN | RAX | RDX;
    t[0xa2] = TAKEN | RAX | RBX | RCX | RDX;
    t[0xa3] = RM_REG;
    t[0xa4] = RM_REG | IMM8;
    t[0xa5] = RM_REG | RCX;
    t[0xab] = RM_REG;
    t[0xac] = RM_REG | IMM8;
    t[0xad] = RM_REG | RCX;
    t[0xae] = TAKEN | MODRM | SPECIAL;
    t[0xaf] = RM_REG | LOAD;
    t[0xb0] = RM_REG | BYTE | RAX;
    t[0xb1] = RM_REG | RAX;
    t[0xb3] = RM_REG;
    t[0xb6] = TAKEN | MODRM | G | SPECIAL;
    t[0xb7] = TAKEN | MODRM | G | SPECIAL;
    t[0xb8] = RM_REG | LOAD | SPECIAL;
    t[0xba] = RM | IMM8 | SPECIAL;
    t[0xbb] = RM_REG;
    t[0xbc] = RM_REG | LOAD | SPECIAL;
    t[0xbd] = RM_REG | LOAD | SPECIAL;
    t[0xbe] = TAKEN | MODRM | G | SPECIAL;
    t[0xbf] = TAKEN | MODRM | G | SPECIAL;
    t[0xc0] = RM_REG | BYTE | SPECIAL;
    t[0xc1] = RM_REG | SPECIAL;
    t[0xc3] = TAKEN | MODRM | G | SPECIAL;
    t[0xc7] = TAKEN | MODRM | SPECIAL;
    t
};

/// Entries of the tables of vector instructions.
pub(super) mod vector {
    /// Bytes of a load by the memory operand: 0, or one more than their logarithm, or [`BY_W`].
    pub(in super::super) const SIZE: u16 = 7;
    /// Eight bytes with W, four without.
    pub(in super::super) const BY_W: u16 = 5;
    /// The low half of the vector register is the load's value afterwards.
    pub(in super::super) const AFTER: u16 = 1 << 3;
    /// The field reg names a general register.
    pub(in super::super) const G: u16 = 1 << 4;
    /// The field rm, if it names a register, names a general one.
    pub(in super::super) const E: u16 = 1 << 5;
    /// An immediate of one byte.
    pub(in super::super) const IMM8: u16 = 1 << 6;
    /// The quick decoder takes it.
    pub(in super::super) const TAKEN: u16 = 1 << 7;
    /// Exists with VEX only.
    pub(in super::super) const VEX_ONLY: u16 = 1 << 8;
    /// Exists without VEX only.
    pub(in super::super) const LEGACY_ONLY: u16 = 1 << 9;
    /// Flag: the entry holds only without a memory operand.
    pub(in super::super) const REGISTERS: u16 = 1 << 10;
}

use vector::{AFTER, BY_W, E as VE, G as VG, IMM8 as VI, LEGACY_ONLY, REGISTERS, VEX_ONLY};

/// An entry for each selecting prefix: none, 66, f3, f2.
type Vectors = [[u16; 4]; 256];

const NO: u16 = 0;
/// No load: a store, a comparison, registers only.
const V: u16 = vector::TAKEN;
const V1: u16 = V | 1;
const V2: u16 = V | 2;
const V4: u16 = V | 3;
const V8: u16 = V | 4;
const VW: u16 = V | BY_W;
const MOVE: u16 = V8 | AFTER;

/// `entry` for 66 at each opcode of `range`.
const fn fill(mut t: Vectors, first: usize, last: usize, entry: u16) -> Vectors {
    let mut n = first;
    while n <= last {
        t[n][1] = entry;
        n += 1;
    }
    t
}

/// The opcodes after `0f`, and the first map of VEX.
pub(super) static VECTOR1: Vectors = {
    let mut t = [[NO; 4]; 256];
    t[0x10] = [MOVE, MOVE, V4 | AFTER, MOVE];
    t[0x11] = [V; 4];
    t[0x12] = [V8; 4];
    t[0x13] = [V, V, NO, NO];
    t[0x14] = [V8, V8, NO, NO];
    t[0x15] = [V8, V8, NO, NO];
    t[0x16] = [V8, V8, V8, NO];
    t[0x17] = [V, V, NO, NO];
    t[0x28] = [MOVE, MOVE, NO, NO];
    t[0x29] = [V, V, NO, NO];
    t[0x2a] = [NO, NO, VW | VE, VW | VE];
    t[0x2b] = [V, V, NO, NO];
    t[0x2c] = [NO, NO, V4 | VG, V8 | VG];
    t[0x2d] = t[0x2c];
    t[0x2e] = [V, V, NO, NO];
    t[0x2f] = [V, V, NO, NO];
    t[0x50] = [V | VG | REGISTERS, V | VG | REGISTERS, NO, NO];
    let mut n = 0x51;
    while n <= 0x5f {
        t[n] = [V8, V8, V4, V8];
        n += 1;
    }
    t[0x52] = [V8, NO, V4, NO];
    t[0x53] = t[0x52];
    n = 0x54;
    while n <= 0x57 {
        t[n] = [V8, V8, NO, NO];
        n += 1;
    }
    t[0x5b] = [V8, V8, V8, NO];
    t = fill(t, 0x60, 0x6d, V8);
    t[0x6e][1] = VW | VE | AFTER;
    t[0x6f] = [NO, MOVE, MOVE, NO];
    t[0x70] = [NO, V8 | VI, V8 | VI, V8 | VI];
    t = fill(t, 0x71, 0x73, V | VI | REGISTERS);
    t = fill(t, 0x74, 0x76, V8);
    t[0x7c] = [NO, V8, NO, V8];
    t[0x7d] = [NO, V8, NO, V8];
    t[0x7e] = [NO, V | VE, MOVE, NO];
    t[0x7f] = [NO, V, V, NO];
    t[0xc2] = [V8 | VI, V8 | VI, V4 | VI, V8 | VI];
    t[0xc4][1] = V2 | VE | VI;
    t[0xc5][1] = V | VG | VI | REGISTERS;
    t[0xc6] = [V8 | VI, V8 | VI, NO, NO];
    t = fill(t, 0xd0, 0xfe, V8);
    t[0xd0][3] = V8;
    t[0xd6][1] = V;
    t[0xd7][1] = V | VG | REGISTERS;
    t[0xe6] = [NO, V8, V8, V8];
    t[0xe7][1] = V;
    t[0xf0] = [NO, NO, NO, V8];
    // Stores where rdi says.
    t[0xf7][1] = NO;
    t
};

/// The opcodes after `0f 38`, and the second map of VEX.
pub(super) static VECTOR2: Vectors = {
    let mut t = [[NO; 4]; 256];
    t = fill(t, 0x00, 0x0b, V8);
    t = fill(t, 0x0c, 0x0d, V8 | VEX_ONLY);
    t = fill(t, 0x0e, 0x0f, V | VEX_ONLY);
    t[0x10][1] = V8 | LEGACY_ONLY;
    t = fill(t, 0x14, 0x15, V8 | LEGACY_ONLY);
    t[0x16][1] = V8 | VEX_ONLY;
    t[0x17][1] = V;
    t[0x18][1] = V4 | VEX_ONLY;
    t = fill(t, 0x19, 0x1a, V8 | VEX_ONLY);
    t = fill(t, 0x1c, 0x1e, V8);
    t = fill(t, 0x20, 0x25, V8);
    t[0x21][1] = V4;
    t[0x22][1] = V2;
    t[0x24][1] = V4;
    t = fill(t, 0x28, 0x2b, V8);
    t = fill(t, 0x30, 0x35, V8);
    t[0x31][1] = V4;
    t[0x32][1] = V2;
    t[0x34][1] = V4;
    t[0x36][1] = V8 | VEX_ONLY;
    t = fill(t, 0x37, 0x41, V8);
    t = fill(t, 0x45, 0x47, V8 | VEX_ONLY);
    t[0x58][1] = V4 | VEX_ONLY;
    t = fill(t, 0x59, 0x5a, V8 | VEX_ONLY);
    t[0x78][1] = V1 | VEX_ONLY;
    t[0x79][1] = V2 | VEX_ONLY;
    // Fused multiplications: scalar ones at odd places from 99 on.
    let mut row = 0x90;
    while row < 0xc0 {
        t = fill(t, row + 6, row + 15, V8 | VEX_ONLY);
        let mut n = row + 9;
        while n <= row + 15 {
            t[n][1] = VW | VEX_ONLY;
            n += 2;
        }
        row += 0x10;
    }
    t = fill(t, 0xdb, 0xdf, V8);
    // andn, blsr and its kind, bzhi, pext, pdep, mulx, bextr, shlx, sarx, shrx
    const BITS: u16 = VW | VG | VE | VEX_ONLY;
    t[0xf2][0] = BITS;
    t[0xf3][0] = VW | VE | VEX_ONLY;
    t[0xf5] = [BITS, NO, BITS, BITS];
    t[0xf6] = [
        NO,
        VW | VG | VE | LEGACY_ONLY,
        VW | VG | VE | LEGACY_ONLY,
        BITS,
    ];
    t[0xf7] = [BITS; 4];
    // crc32
    t[0xf0][3] = V1 | VG | VE | LEGACY_ONLY;
    t[0xf1][3] = VW | VG | VE | LEGACY_ONLY;
    t
};

/// The opcodes after `0f 3a`, and the third map of VEX. All have an immediate.
pub(super) static VECTOR3: Vectors = {
    let mut t = [[NO; 4]; 256];
    t = fill(t, 0x00, 0x02, V8 | VI | VEX_ONLY);
    t = fill(t, 0x04, 0x06, V8 | VI | VEX_ONLY);
    t = fill(t, 0x08, 0x0f, V8 | VI);
    t[0x0a][1] = V4 | VI;
    t = fill(t, 0x14, 0x17, V | VI | VE);
    t[0x18][1] = V8 | VI | VEX_ONLY;
    t[0x19][1] = V | VI | VEX_ONLY;
    t[0x20][1] = V1 | VI | VE;
    t[0x21][1] = V4 | VI;
    t[0x22][1] = VW | VI | VE;
    t[0x38][1] = V8 | VI | VEX_ONLY;
    t[0x39][1] = V | VI | VEX_ONLY;
    t = fill(t, 0x40, 0x42, V8 | VI);
    t[0x44][1] = V8 | VI;
    t[0x46][1] = V8 | VI | VEX_ONLY;
    t = fill(t, 0x4a, 0x4c, V8 | VI | VEX_ONLY);
    t = fill(t, 0x60, 0x63, V8 | VI);
    t[0xdf][1] = V8 | VI;
    t[0xf0][3] = VW | VG | VE | VI | VEX_ONLY;
    t
};

/// First map of EVEX: vectors whole, no broadcast.
pub(super) static EVEX1: Vectors = {
    let mut t = [[NO; 4]; 256];
    t[0x10] = [MOVE, MOVE, NO, NO];
    t[0x11] = [V, V, NO, NO];
    t[0x28] = [MOVE, MOVE, NO, NO];
    t[0x29] = [V, V, NO, NO];
    t = fill(t, 0x60, 0x66, V8);
    t = fill(t, 0x68, 0x6a, V8);
    t = fill(t, 0x6c, 0x6d, V8);
    t[0x6e][1] = V | VE | REGISTERS;
    t[0x6f] = [NO, MOVE, MOVE, MOVE];
    t = fill(t, 0x74, 0x76, V8);
    t[0x7e][1] = V | VE | REGISTERS;
    t[0x7f] = [NO, V, V, V];
    t[0xd4][1] = V8;
    t = fill(t, 0xd8, 0xdf, V8);
    t[0xe7][1] = V;
    t[0xea][1] = V8;
    t[0xeb][1] = V8;
    t = fill(t, 0xee, 0xef, V8);
    t = fill(t, 0xf8, 0xfe, V8);
    t
};

/// Second map of EVEX.
pub(super) static EVEX2: Vectors = {
    let mut t = [[NO; 4]; 256];
    t[0x26] = [NO, V8, V8, NO];
    t[0x27] = [NO, V8, V8, NO];
    t[0x29][1] = V8;
    t[0x37][1] = V8;
    t = fill(t, 0x38, 0x3f, V8);
    t = fill(t, 0x7a, 0x7c, V | VE | REGISTERS);
    t
};

/// Third map of EVEX.
pub(super) static EVEX3: Vectors = {
    let mut t = [[NO; 4]; 256];
    t = fill(t, 0x1e, 0x1f, V8 | VI);
    t[0x25][1] = V8 | VI;
    t = fill(t, 0x3e, 0x3f, V8 | VI);
    t
};
