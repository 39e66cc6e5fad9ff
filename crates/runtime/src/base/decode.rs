//! App instructions, reduced to what the translator asks about them.
//!
//! Most instructions are [`Class::Plain`]: their bytes are copied, with the displacement of a
//! RIP-relative operand rewritten. Instructions that change the flow of control are decoded further.
//! Instructions that cannot run in a code cache are [`Class::Unsupported`].
//!
//! The project's contract (`docs/events.md`) defines which instructions are events. Branches and calls
//! are recognised by their class. A *load* says how its probe reads the memory operand's value,
//! zero-extended to 64 bits. A load whose whole destination register is exactly that value
//! afterwards ([`Load::After`]) is recorded from the register: one store. Any other
//! ([`Load::Before`]) is read a second time, into a scratch register, just before the instruction
//! itself. If that read faults, the app's own would have, at the same address. No register has
//! changed yet.
//!
//! `quick` decodes the common instructions, and `full`, which is iced-x86, the rest.

mod call;
mod effect;
mod full;
mod quick;
mod tables;

pub(crate) use call::{LONGEST_CALL, ends_with_call};
pub(crate) use effect::{Effect, STATUS, effect};
pub(crate) use full::{is_based_on, rebased, writes_memory};

use crate::base::address::AppPc;
use crate::base::emit::Reg;

/// Way to translate an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Copied.
    Plain,
    /// `jcc`, with its condition code.
    Jcc(u8, AppPc),
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`: only a short form exists.
    ShortBranch(AppPc),
    /// `jmp` to a known target.
    Jmp(AppPc),
    /// `call` of a known target.
    Call(AppPc),
    /// `jmp` through a register or memory.
    JmpIndirect,
    /// `call` through a register or memory.
    CallIndirect,
    /// `ret`, with the bytes it releases.
    Ret(u16),
    /// `syscall`.
    Syscall,
    /// `popf`, which may set the trap flag.
    Popf,
    /// Runs natively, alone, and the CPU decides: unknown encodings, and `int1`.
    Unknown,
    /// Cannot run in the cache: far transfers, 32-bit system calls, anything with GS.
    Unsupported,
    /// Unsupported, because the instruction uses the GS segment.
    Gs,
    /// Does nothing, and asks something of the runtime ([`crate::engine::aware`]).
    Request,
}

impl Class {
    /// A call, or a branch to an address known only when it runs.
    pub const fn is_transfer(&self) -> bool {
        matches!(
            self,
            Self::Call(_) | Self::CallIndirect | Self::JmpIndirect | Self::Ret(_)
        )
    }
}

/// Way to obtain a load's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// This general register, after the instruction.
    After(Reg),
    /// The low half of this vector register, after the instruction.
    AfterXmm(u8),
    /// The low byte or word of `rax`, after the instruction (`lodsb`, `lodsw`), as bytes.
    AfterPartRax(u8),
    /// A read of this many bytes (1, 2, 4 or 8) of the memory operand before the instruction.
    Before(u8),
    /// A read of the byte at `rbx` + `al` (`xlat`), with the segment and size of the operand.
    Xlat,
    /// A read of the top of the stack before the instruction (`pop` into `rsp` or 16 bits).
    BeforeStack(u8),
}

/// Base of the address of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// No base: the displacement is the address.
    None,
    /// A general register.
    Register(Reg),
    /// The end of the instruction; the displacement is the whole address.
    Rip,
    /// Base like [`Base::Rip`], cut to 32 bits.
    Eip,
}

/// The segment prefix of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Segment {
    /// None.
    #[default]
    None,
    /// A segment whose base is 0.
    Flat,
    /// FS.
    Fs,
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Base of the address.
    pub base: Base,
    /// Index register and the logarithm of its scale.
    pub index: Option<(Reg, u8)>,
    /// Displacement.
    pub disp: u64,
    /// Segment prefix of the operand.
    pub segment: Segment,
    /// Addresses are cut to 32 bits.
    pub short: bool,
}

/// The operand that ModRM names, where the translator may ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rm {
    /// None, or it does not matter.
    None,
    /// A register: the target of an indirect branch.
    Register(Reg),
    /// Memory.
    Memory(Operand),
}

/// An instruction of the app.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Insn {
    pc: AppPc,
    /// Way to translate the instruction.
    pub class: Class,
    /// The operand in memory, or the register of an indirect branch.
    pub rm: Rm,
    /// Way to record the instruction's load, if it is a load.
    pub load: Option<Load>,
    /// A general register that the instruction gives a new value without reading the old one, if that
    /// is easily seen.
    pub overwrites: Option<Reg>,
    /// General registers that the instruction reads or writes, in part or whole.
    pub used: u16,
    len: u8,
    /// Offset of the RIP-relative 32-bit displacement in the instruction's bytes, 0 when it has none.
    pub rip_disp: u8,
    /// True if the instruction stores the address of the last x87 instruction.
    pub stores_x87: bool,
    /// True if it stores 16 bits of that.
    pub short_x87: bool,
}

impl Insn {
    /// Returns an instruction that does nothing, at no address.
    pub const fn plain() -> Self {
        Self {
            pc: AppPc(0),
            class: Class::Plain,
            rm: Rm::None,
            load: None,
            overwrites: None,
            used: 0,
            len: 0,
            rip_disp: 0,
            stores_x87: false,
            short_x87: false,
        }
    }

    /// Returns the instruction's address.
    pub fn pc(&self) -> AppPc {
        self.pc
    }

    /// Returns the instruction's length in bytes.
    pub fn size(&self) -> usize {
        usize::from(self.len)
    }

    /// The address after it.
    pub fn next(&self) -> AppPc {
        AppPc(self.pc.0.wrapping_add(u64::from(self.len)))
    }

    /// The register that holds the method table in `call [reg+disp]`, if it has that form.
    pub fn method_table(&self) -> Option<Reg> {
        match self.rm {
            Rm::Memory(Operand {
                base: Base::Register(base),
                index: None,
                segment: Segment::None,
                short: false,
                ..
            }) if base != Reg::RSP => Some(base),
            _ => None,
        }
    }
}

/// Decodes instruction after instruction of a run of code bytes.
pub struct Reader<'a> {
    code: &'a [u8],
    pc: AppPc,
}

impl<'a> Reader<'a> {
    /// Starts at `pc`, whose bytes `code` are.
    pub fn new(code: &'a [u8], pc: AppPc) -> Self {
        Self { code, pc }
    }

    /// The next instruction, into `insn`.
    #[inline]
    pub fn read(&mut self, insn: &mut Insn) {
        let taken = match self.code.first_chunk() {
            Some(window) => quick::decode(window, self.pc, insn),
            None => self.near_the_end(insn),
        };
        if !taken {
            *insn = full::decode(self.code, self.pc);
        }
        self.code = self.code.get(insn.size()..).unwrap_or_default();
        self.pc = insn.next();
    }

    #[cold]
    fn near_the_end(&self, insn: &mut Insn) -> bool {
        let mut window = [0; quick::WINDOW];
        window[..self.code.len()].copy_from_slice(self.code);
        quick::decode(&window, self.pc, insn) && insn.size() <= self.code.len()
    }
}

#[cfg(test)]
mod tests;
