//! Addresses of memory operands, from the app's registers.

use crate::base::decode::{Base, Operand, Segment};
use crate::base::emit::Reg;
use crate::crossing::arch;

/// Returns the address of an operand, with these registers.
pub fn address(operand: &Operand, regs: &[u64; 16]) -> u64 {
    let reg = |r: Reg| regs[usize::from(r.0 & 15)];
    let base = match operand.base {
        Base::Register(r) => reg(r),
        Base::None | Base::Rip | Base::Eip => 0,
    };
    let index = operand.index.map_or(0, |(r, scale)| reg(r) << scale);
    let mut at = base.wrapping_add(index).wrapping_add(operand.disp);
    if operand.short {
        at &= 0xffff_ffff;
    }
    match operand.segment {
        Segment::Fs => at.wrapping_add(arch::fs_base()),
        Segment::None | Segment::Flat => at,
    }
}
