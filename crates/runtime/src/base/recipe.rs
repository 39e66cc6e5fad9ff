//! Recipes: the app's flags are computed once more after a comparison of a trace has destroyed them.
//!
//! # Problem
//! A comparison with flags takes a third of the time of one without. But the app's flags must be there when they
//! are read: by a later instruction, after an exit, by a handler of a fault.
//!
//! # Strategy
//! Most flags come from an instruction whose operands, or whose result and one operand, are still in
//! registers: `cmp`, `test`, logic, and addition and subtraction of constants. A [`Recipe`] says how to
//! compute the same flags from them again. `translate::flags` writes code that does so where the flags
//! may be read, and a signal handler computes them ([`Recipe::flags`]).
//!
//! Logic leaves the auxiliary carry undefined; processors clear it, as `test` does.
#![allow(unsafe_code)] // reason: flags can only be had from the processor.

use core::arch::asm;

use crate::base::emit::Reg;

/// OF, SF, ZF, AF, PF, CF.
pub const STATUS: u64 = 0x8d5;

/// The operation that makes the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `cmp`
    Compare,
    /// `add`
    Add,
    /// `test`
    Test,
}

/// Second operand of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// A register.
    Register(Reg),
    /// A constant, sign-extended.
    Constant(i32),
}

/// An operation on what is in registers now that leaves the app's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Operation of the recipe.
    pub op: Op,
    /// Bytes of its operands: 1, 2, 4 or 8.
    pub size: u8,
    /// The register that its first operand is computed from,
    pub left: Reg,
    /// by adding this.
    pub adjust: i32,
    /// Second operand of the operation.
    pub right: Right,
}

macro_rules! flags_of {
    ($instruction:literal, $class:ident, $a:expr, $b:expr, $form:literal) => {{
        let flags: u64;
        // SAFETY: changes flags and pushes below the runtime's stack pointer.
        unsafe {
            asm!(
                concat!($instruction, " {a", $form, "}, {b", $form, "}"),
                "pushfq",
                "pop {flags}",
                a = inout($class) $a => _,
                b = in($class) $b,
                flags = out(reg) flags,
            );
        }
        flags
    }};
}

macro_rules! flags_of_size {
    ($instruction:literal, $size:expr, $a:expr, $b:expr) => {
        match $size {
            1 => flags_of!($instruction, reg_byte, $a as u8, $b as u8, ""),
            2 => flags_of!($instruction, reg, $a as u16, $b as u16, ":x"),
            4 => flags_of!($instruction, reg, $a as u32, $b as u32, ":e"),
            _ => flags_of!($instruction, reg, $a, $b, ""),
        }
    };
}

impl Recipe {
    /// Registers that it needs.
    pub fn uses(&self) -> u16 {
        let right = match self.right {
            Right::Register(r) => r.bit(),
            Right::Constant(_) => 0,
        };
        self.left.bit() | right
    }

    /// The same when `rsp` has changed by `by`, if it can be said.
    #[must_use]
    pub fn with_stack_moved(self, by: i32) -> Option<Self> {
        let right_is_stack = self.right == Right::Register(Reg::RSP);
        match self.uses() & Reg::RSP.bit() {
            0 => Some(self),
            _ if right_is_stack => None,
            _ => {
                let adjust = self.adjust.checked_sub(by)?;
                Some(Self { adjust, ..self })
            }
        }
    }

    /// The flags, as bits of the flags register, given what registers hold.
    pub fn flags(&self, mut register: impl FnMut(Reg) -> u64) -> u64 {
        let a = register(self.left).wrapping_add(i64::from(self.adjust) as u64);
        let b = match self.right {
            Right::Register(r) => register(r),
            Right::Constant(c) => i64::from(c) as u64,
        };
        let all = match self.op {
            Op::Compare => flags_of_size!("cmp", self.size, a, b),
            Op::Add => flags_of_size!("add", self.size, a, b),
            Op::Test => flags_of_size!("test", self.size, a, b),
        };
        all & STATUS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: u64 = 0x40;
    const SIGN: u64 = 0x80;
    const CARRY: u64 = 1;
    const OVERFLOW: u64 = 0x800;

    fn flags(op: Op, size: u8, a: u64, adjust: i32, b: i32) -> u64 {
        let recipe = Recipe {
            op,
            size,
            left: Reg::RAX,
            adjust,
            right: Right::Constant(b),
        };
        recipe.flags(|r| if r == Reg::RAX { a } else { 0 })
    }

    #[test]
    fn each_size_has_its_own_sign_and_carry() {
        for size in [1, 2, 4, 8] {
            let top = 1_u64 << (8 * u32::from(size) - 1);
            let what = ZERO | SIGN | CARRY | OVERFLOW;
            assert_eq!(flags(Op::Compare, size, 5, 0, 5) & what, ZERO);
            assert_eq!(flags(Op::Compare, size, 4, 0, 5) & what, SIGN | CARRY);
            assert_eq!(flags(Op::Compare, size, 4, 1, 5) & what, ZERO);
            assert_eq!(flags(Op::Test, size, top, 0, -1) & what, SIGN);
            let sum = flags(Op::Add, size, top - 1, 0, 1);
            assert_eq!(sum & what, SIGN | OVERFLOW);
        }
    }

    #[test]
    fn the_stack_pointer_is_followed() {
        let recipe = Recipe {
            op: Op::Add,
            size: 8,
            left: Reg::RSP,
            adjust: -24,
            right: Right::Constant(24),
        };
        let after_two_pops = recipe.with_stack_moved(16).expect("followed");
        assert_eq!(after_two_pops.adjust, -40);
        let registers = |sp: u64| move |_| sp;
        let then = recipe.flags(registers(0x7fff_0018));
        assert_eq!(then, after_two_pops.flags(registers(0x7fff_0028)));
        let compared = Recipe {
            left: Reg::RAX,
            right: Right::Register(Reg::RSP),
            ..recipe
        };
        assert_eq!(compared.with_stack_moved(8), None);
    }
}
