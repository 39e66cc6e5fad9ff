//! Ways in which control leaves an instruction, as they matter for flow.

use iced_x86::{FlowControl, Instruction};

use crate::body::{direct_target, falls_through};

/// Ways in which control leaves an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// On to the next instruction.
    Next,
    /// A conditional branch.
    Branch,
    /// A direct jump, to this vaddr.
    Jump(u64),
    /// An indirect jump.
    IndirectJump,
    /// A call, direct or not.
    Call,
    /// A system call: the kernel may come back once, twice or never.
    System,
    /// A return.
    Return,
    /// Nowhere: a trap, no instruction, or a system call that never comes back.
    Nowhere,
}

impl Exit {
    /// The way in which control leaves an instruction.
    pub fn of(instruction: &Instruction) -> Self {
        if instruction.is_invalid() {
            return Self::Nowhere;
        }
        if instruction.is_call_near()
            || instruction.is_call_near_indirect()
            || instruction.is_call_far()
            || instruction.is_call_far_indirect()
        {
            return Self::Call;
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => Self::Branch,
            FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() => {
                direct_target(instruction).map_or(Self::Nowhere, Self::Jump)
            }
            FlowControl::UnconditionalBranch => Self::Nowhere,
            FlowControl::IndirectBranch => Self::IndirectJump,
            FlowControl::Return => Self::Return,
            FlowControl::Call | FlowControl::Interrupt => Self::System,
            FlowControl::Next | FlowControl::XbeginXabortXend => match falls_through(instruction) {
                true => Self::Next,
                false => Self::Nowhere,
            },
            FlowControl::IndirectCall => Self::Call,
            FlowControl::Exception => Self::Nowhere,
        }
    }
}
