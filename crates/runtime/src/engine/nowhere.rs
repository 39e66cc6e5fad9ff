//! Branches to where no address is.
//!
//! # Problem
//! A branch to an address that is not canonical faults itself: the program counter that a handler sees is the branch's, and neither it
//! nor a `call` has changed the stack. A fragment makes such a branch by a lookup, which does not find the target and does not
//! say from which branch it came. So control is after the branch when the processor refuses to go on.
//!
//! # Strategy
//! The branch is looked for: in the fragment that the thread was led to last, and then the last one of all those that are in the cache
//! and would lead there with the registers and the stack as they are. What it did to the stack is undone, and the processor executes the app's own, which faults as it would have.
//!
//! * A `call` is before the return address that it has pushed.
//! * A `ret` has its target below the stack pointer.
//! * A `jmp` has its target in its operand.
//!
//! # Bound
//! Several branches may qualify. If none of them is in the first fragment, the one that was translated last is taken: the program counter may be another return's. Where there
//! is no branch at all, the thread is detached there: the kernel raises the signal as it returns to nowhere.
#![allow(unsafe_code)] // reason: reads the base of FS.

use trommel_queue::Detached;

use crate::base::address::AppPc;
use crate::base::area::Context;
use crate::base::decode::{Class, Insn, Reader, Rm};
use crate::base::emit::Reg;
use crate::base::sys;
use crate::cache::{Fragment, FragmentState};
use crate::engine::native;
use crate::engine::operand::address;
use crate::engine::state::{Runtime, Thread};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;
/// Bytes of a return address.
const WORD: u64 = 8;

/// Decodes the instruction at `pc`, if it can be read.
fn read(pc: AppPc) -> Option<Insn> {
    let mut bytes = [0; LONGEST];
    let before_end = (4096 - pc.0 % 4096) as usize;
    let there = sys::copy_checked(pc.0, &mut bytes)
        || sys::copy_checked(pc.0, &mut bytes[..before_end.min(LONGEST)]);
    let mut insn = Insn::plain();
    Reader::new(&bytes, pc).read(&mut insn);
    there.then_some(insn)
}

fn word(at: u64) -> Option<u64> {
    let mut bytes = [0; WORD as usize];
    sys::copy_checked(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Returns the target of an indirect branch, with these registers.
fn target(insn: &Insn, regs: &[u64; 16]) -> Option<u64> {
    let reg = |r: Reg| regs[usize::from(r.0 & 15)];
    let Rm::Memory(operand) = insn.rm else {
        let Rm::Register(r) = insn.rm else {
            return None;
        };
        return Some(reg(r));
    };
    word(address(&operand, regs))
}

/// Returns the registers as they were before `insn`, if it has led to `to`.
fn before(insn: &Insn, regs: &[u64; 16], to: u64) -> Option<[u64; 16]> {
    let mut regs = *regs;
    match insn.class {
        Class::JmpIndirect => {}
        Class::CallIndirect if word(regs[4]) == Some(insn.next().0) => regs[4] += WORD,
        Class::Ret(released) => {
            regs[4] = regs[4].wrapping_sub(WORD + u64::from(released));
            return (word(regs[4]) == Some(to)).then_some(regs);
        }
        _ => return None,
    }
    (target(insn, &regs) == Some(to)).then_some(regs)
}

impl Runtime {
    /// The thread has made a branch to `pc`, where no address is.
    pub fn go_nowhere(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) {
        let entered = AppPc(thread.presence.entered);
        let Some((insn, regs)) = self.branch_to(context, pc.0, entered) else {
            return self.detach(thread, context, Detached::Instruction);
        };
        context.regs = regs;
        context.next_pc = insn.pc();
        native::step(thread, context);
    }

    /// The branch that has led to `to`, and the registers before it. `entered` is where the thread was led to last.
    fn branch_to(&self, context: &Context, to: u64, entered: AppPc) -> Option<(Insn, [u64; 16])> {
        let first = self.cache.lookup(entered);
        let first = first.map(|id| &self.cache.fragments[id.index()]);
        if let Some(found) = first.and_then(|f| self.branch_in(f, context, to)) {
            return Some(found);
        }
        let mut found = None;
        let live = self.cache.fragments.iter();
        let live = live.filter(|f| f.state != FragmentState::Retired);
        for branch in live.filter_map(|f| self.branch_in(f, context, to)) {
            // Its own return address says which call it was.
            if branch.0.class == Class::CallIndirect {
                return Some(branch);
            }
            found = Some(branch);
        }
        found
    }

    /// The last branch of a fragment that can have led to `to`.
    fn branch_in(
        &self,
        fragment: &Fragment,
        context: &Context,
        to: u64,
    ) -> Option<(Insn, [u64; 16])> {
        let (_, steps) = self.cache.fragment_at(fragment.entry)?;
        steps.iter().rev().find_map(|step| {
            let insn = read(step.app)?;
            Some((insn, before(&insn, &context.regs, to)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insn(bytes: &[u8]) -> Insn {
        let mut code = [0x90; 32];
        code[..bytes.len()].copy_from_slice(bytes);
        let mut insn = Insn::plain();
        Reader::new(&code, AppPc(0x1000)).read(&mut insn);
        insn
    }

    #[test]
    fn a_branch_is_undone() {
        const TO: u64 = 0x1234_5678_1234_5678;
        let stack = [TO, 0x1002, 7];
        let top = stack.as_ptr() as u64;
        let mut regs = [0; 16];
        (regs[0], regs[4]) = (TO, top + WORD);
        let changed =
            |bytes: &[u8]| before(&insn(bytes), &regs, TO).map(|r| r[4].wrapping_sub(top));
        assert_eq!(changed(&[0xff, 0xe0]), Some(WORD), "jmp rax");
        assert_eq!(changed(&[0xff, 0xe1]), None, "jmp rcx");
        assert_eq!(changed(&[0xff, 0xd0]), Some(2 * WORD), "call rax");
        assert_eq!(changed(&[0x41, 0xff, 0xd0]), None, "call r8");
        assert_eq!(changed(&[0xc3]), Some(0), "ret");
        assert_eq!(changed(&[0xc2, 8, 0]), None, "ret 8");
        assert_eq!(
            changed(&[0xff, 0x64, 0x24, 0xf8]),
            Some(WORD),
            "jmp [rsp-8]"
        );
        assert_eq!(changed(&[0x90]), None);
    }
}
