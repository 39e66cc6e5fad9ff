//! Filters of system calls (seccomp), and the calls that the runtime makes under them.
//!
//! # Problem
//! A filter is a program of classic BPF that the kernel runs at each system call. It sees the number and the
//! arguments, and allows the call, fails it, or ends the process. The runtime makes calls of its own in the
//! program's name. A program may be observed under a filter only if none of them is refused.
//!
//! # Strategy
//! [`allows`] executes the filter for one call on what is known: the number, the architecture, and maybe some
//! arguments. All else is unknown. Where a branch depends on something unknown both ways are
//! followed. Branches of classic BPF only lead forward, so one pass over the instructions is enough: each has the
//! state that all ways to it agree on. A call is allowed when every `ret` that can be reached allows it.
//!
//! [`calls`] has the tables of calls, and decides by them.
//!
//! # Why it is correct
//! * What is not understood counts as refused.
//! * States are joined to unknown where they differ, so no way that the kernel could take is left out.

pub mod calls;

use calls::OWN_PROCESS;
pub use calls::{Call, RESIDENT, SEQUENCES, Terms, Without, refused, refused_in_windows, without};

/// One instruction of a filter, as `struct sock_filter` has it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// Reads one as it lies in memory.
    pub const fn of(bytes: &[u8; 8]) -> Self {
        let [c0, c1, jt, jf, k0, k1, k2, k3] = *bytes;
        Self {
            code: u16::from_le_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_le_bytes([k0, k1, k2, k3]),
        }
    }
}

/// Most instructions that the kernel accepts.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// `AUDIT_ARCH_X86_64`
const ARCH: u32 = 0xc000_003e;

/// A word of the machine: known or not.
type Word = Option<u32>;

/// The machine before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    a: Word,
    x: Word,
    memory: [Word; 16],
}

impl State {
    const START: Self = Self {
        a: Some(0),
        x: Some(0),
        memory: [Some(0); 16],
    };

    fn join(&mut self, other: &Self) {
        let join = |to: &mut Word, from: Word| {
            if *to != from {
                *to = None;
            }
        };
        join(&mut self.a, other.a);
        join(&mut self.x, other.x);
        for (to, from) in self.memory.iter_mut().zip(other.memory) {
            join(to, from);
        }
    }
}

/// The word at an offset of `struct seccomp_data`. `pid`: the process, as it sees itself.
fn data((call, pid): (&Call, Option<u32>), offset: u32) -> Word {
    const ARGUMENTS: u32 = 16;
    match offset {
        0 => Some(call.number),
        4 => Some(ARCH),
        _ => {
            let mut halves = call.known.iter().flat_map(|&(argument, value)| {
                let at = ARGUMENTS + 8 * u32::from(argument);
                let value = match value {
                    OWN_PROCESS => pid.map(u64::from),
                    _ => Some(value),
                };
                let half = |shift: u32| value.map(|value| (value >> shift) as u32);
                [(at, half(0)), (at + 4, half(32))]
            });
            let found = halves.find(|(at, _)| *at == offset)?;
            found.1
        }
    }
}

fn compute(operation: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.checked_shl(b)?,
        0x70 => a.checked_shr(b)?,
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ b,
        _ => return None,
    })
}

fn holds(condition: u16, a: u32, b: u32) -> Option<bool> {
    Some(match condition {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        _ => return None,
    })
}

/// Actions of a filter that are good enough for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Enough {
    /// The call is made: `SECCOMP_RET_ALLOW`, or `SECCOMP_RET_LOG`.
    Made,
    /// It is made, or fails: also `SECCOMP_RET_ERRNO`.
    Survived,
}

impl Enough {
    /// Returns whether a `ret` with this value is good enough.
    const fn lets(self, value: u32) -> bool {
        const ACTION: u32 = 0xffff_0000;
        match value & ACTION {
            0x7fff_0000 | 0x7ffc_0000 => true,
            0x0005_0000 => matches!(self, Self::Survived),
            _ => false,
        }
    }
}

/// A call of a process, which sees itself as this number, and the actions that are good enough for it.
type Asked<'a> = (&'a Call, Option<u32>, Enough);

/// One step from an instruction: the instructions that may follow, or whether the call is allowed.
enum Step {
    To(u64, Option<u64>),
    End(bool),
}

fn step(
    at: u64,
    instruction: &Instruction,
    (call, pid, enough): Asked<'_>,
    state: &mut State,
) -> Step {
    const CLASS: u16 = 7;
    const X: u16 = 8;
    let Instruction { code, jt, jf, k } = *instruction;
    let next = at + 1;
    let operand = |state: &State| if code & X != 0 { state.x } else { Some(k) };
    let slot = k as usize & 15;
    match (code & CLASS, code & !CLASS) {
        // ld [k], ld #k, ld len, ld M[k]
        (0, 0x20) => state.a = data((call, pid), k),
        (0, 0x00) => state.a = Some(k),
        (0, 0x80) => state.a = Some(64),
        (0, 0x60) => state.a = state.memory[slot],
        // ldx #k, ldx len, ldx M[k]
        (1, 0x00) => state.x = Some(k),
        (1, 0x80) => state.x = Some(64),
        (1, 0x60) => state.x = state.memory[slot],
        (2, _) => state.memory[slot] = state.a,
        (3, _) => state.memory[slot] = state.x,
        (4, operation) => {
            let both = state.a.zip(operand(state));
            state.a = both.and_then(|(a, b)| compute(operation & 0xf0, a, b));
        }
        // ja
        (5, 0x00) => return Step::To(next + u64::from(k), None),
        (5, condition) => {
            let (yes, no) = (next + u64::from(jt), next + u64::from(jf));
            let both = state.a.zip(operand(state));
            let known = both.map(|(a, b)| holds(condition & 0xf0, a, b));
            return match known {
                Some(Some(true)) => Step::To(yes, None),
                Some(Some(false)) => Step::To(no, None),
                Some(None) => Step::End(false),
                None => Step::To(yes, Some(no)),
            };
        }
        // ret #k, ret a
        (6, 0x00) => return Step::End(enough.lets(k)),
        (6, 0x10) => return Step::End(state.a.is_some_and(|value| enough.lets(value))),
        // tax, txa
        (7, 0x00) => state.x = state.a,
        (7, 0x80) => state.a = state.x,
        _ => return Step::End(false),
    }
    Step::To(next, None)
}

/// States of the instructions that were reached and not executed yet. Few at a time: code of filters is a tree of branches.
const OPEN: usize = 32;

/// Returns whether a filter lets a call be made, whatever is unknown of it. `pid`: the process, as it sees itself, if that is known.
pub fn allows(filter: &[Instruction], call: &Call, pid: Option<u32>) -> bool {
    does(filter, (call, pid, Enough::Made))
}

/// Returns whether a filter lets a call be made or fail, whatever is unknown of it.
pub fn spares(filter: &[Instruction], call: &Call, pid: Option<u32>) -> bool {
    does(filter, (call, pid, Enough::Survived))
}

fn does(filter: &[Instruction], asked: Asked<'_>) -> bool {
    let mut open = [(0_u64, State::START); OPEN];
    let mut count = 1;
    while count > 0 {
        // The first of them: nothing leads back to it.
        let Some(first) = (0..count).min_by_key(|&n| open[n].0) else {
            return true;
        };
        let (at, mut state) = open[first];
        count -= 1;
        open[first] = open[count];
        let Some(instruction) = usize::try_from(at).ok().and_then(|at| filter.get(at)) else {
            return false;
        };
        let (to, or) = match step(at, instruction, asked, &mut state) {
            Step::End(false) => return false,
            Step::End(true) => continue,
            Step::To(to, or) => (to, or),
        };
        for to in [Some(to), or].into_iter().flatten() {
            match open[..count].iter_mut().find(|(other, _)| *other == to) {
                Some((_, there)) => there.join(&state),
                None if count == OPEN => return false,
                None => {
                    open[count] = (to, state);
                    count += 1;
                }
            }
        }
    }
    true
}

/// Returns true if the kernel refuses a filter for its form: it does not end with a `ret`, or jumps past its end. Not all that is
/// malformed is found.
pub fn is_malformed(filter: &[Instruction]) -> bool {
    const CLASS: u16 = 7;
    const JUMP: u16 = 5;
    const RET: u16 = 6;
    let leaves = |(at, instruction): (usize, &Instruction)| {
        let left = filter.len() - 1 - at;
        let farthest = match instruction.code {
            JUMP => instruction.k as usize,
            code if code & CLASS == JUMP => usize::from(instruction.jt.max(instruction.jf)),
            _ => return false,
        };
        farthest >= left
    };
    let ends = |last: &Instruction| last.code & CLASS == RET;
    !filter.last().is_some_and(ends) || filter.iter().enumerate().any(leaves)
}

/// Returns whether a filter looks at the address that a call is made from. In the code cache that is another one.
fn looks_at_address(filter: &[Instruction]) -> bool {
    const ADDRESS: core::ops::Range<u32> = 8..16;
    let mut loads = filter.iter().filter(|instruction| instruction.code == 0x20);
    loads.any(|instruction| ADDRESS.contains(&instruction.k))
}

/// Returns whether a filter may have calls reported to a handler (SIGSYS), in place of making them.
pub fn may_report(filter: &[Instruction]) -> bool {
    const TRAP: u32 = 3;
    filter.iter().any(|instruction| match instruction.code {
        0x06 => instruction.k >> 16 == TRAP,
        // Whatever it has computed.
        0x16 => true,
        _ => false,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::calls::{any, with};
    use super::*;

    pub(crate) const ALLOW: u32 = 0x7fff_0000;
    pub(crate) const ERRNO: u32 = 0x0005_0001;

    pub(crate) const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    pub(crate) fn ret(k: u32) -> Instruction {
        i(6, 0, 0, k)
    }

    #[test]
    fn malformed_is_what_leaves_the_filter() {
        let jump = |jt, jf| i(0x15, jt, jf, 0);
        assert!(is_malformed(&[]) && is_malformed(&[i(0x20, 0, 0, 0)]));
        assert!(is_malformed(&[ret(ALLOW), i(0x20, 0, 0, 0)]));
        for (jt, jf, expected) in [(0, 0, false), (1, 0, false), (2, 0, true), (0, 2, true)] {
            let filter = [jump(jt, jf), ret(ALLOW), ret(ERRNO)];
            assert_eq!(is_malformed(&filter), expected, "{jt} {jf}");
        }
        assert!(!is_malformed(&[i(5, 0, 0, 1), ret(ALLOW), ret(ALLOW)]));
        assert!(is_malformed(&[i(5, 0, 0, 2), ret(ALLOW), ret(ALLOW)]));
        assert!(is_malformed(&[i(5, 0, 0, u32::MAX), ret(ALLOW)]));
    }

    /// A filter as of libseccomp: the architecture, and then a list of numbers that are allowed.
    pub(crate) fn list(numbers: &[u32]) -> Vec<Instruction> {
        let mut filter = std::vec![
            i(0x20, 0, 0, 4),
            i(0x15, 1, 0, ARCH),
            ret(0),
            i(0x20, 0, 0, 0),
        ];
        for &number in numbers {
            filter.extend([i(0x15, 0, 1, number), ret(ALLOW)]);
        }
        filter.push(ret(ERRNO));
        filter
    }

    #[test]
    fn arguments_that_are_not_known_are_both() {
        // Refused when the third argument has a bit.
        let filter = [i(0x20, 0, 0, 32), i(0x45, 0, 1, 4), ret(ERRNO), ret(ALLOW)];
        assert!(!allows(&filter, &any(9, ""), None));
        assert!(!allows(&filter, &with(9, "", &[(2, 7)]), None));
        assert!(allows(&filter, &with(9, "", &[(2, 3)]), None));
        // Whatever it has.
        let filter = [i(0x20, 0, 0, 32), i(0x45, 0, 1, 4), ret(ALLOW), ret(ALLOW)];
        assert!(allows(&filter, &any(9, ""), None));
        // The high half of an argument.
        let filter = [i(0x20, 0, 0, 36), i(0x15, 0, 1, 1), ret(0), ret(ALLOW)];
        assert!(allows(&filter, &with(9, "", &[(2, 7)]), None));
        assert!(!allows(&filter, &with(9, "", &[(2, 1 << 32)]), None));
    }

    #[test]
    fn words_that_ways_disagree_about_are_unknown() {
        let join = |other: u32| {
            [
                i(0x20, 0, 0, 16),
                i(0x15, 0, 2, 3),
                i(0x00, 0, 0, 1),
                i(0x05, 0, 0, 1),
                i(0x00, 0, 0, other),
                i(0x02, 0, 0, 3),
                i(0x80, 0, 0, 0),
                i(0x60, 0, 0, 3),
                i(0x15, 0, 1, 1),
                ret(ALLOW),
                ret(0),
            ]
        };
        assert!(allows(&join(1), &any(0, ""), None));
        assert!(!allows(&join(2), &any(0, ""), None));
    }

    #[test]
    fn arithmetic_is_the_kernels() {
        // (number * 2 + 1) & 0xff is 7 for number 3; x and memory take part.
        let filter = [
            i(0x20, 0, 0, 0),
            i(0x24, 0, 0, 2),
            i(0x01, 0, 0, 1),
            i(0x0c, 0, 0, 0),
            i(0x54, 0, 0, 0xff),
            i(0x07, 0, 0, 0),
            i(0x00, 0, 0, 7),
            i(0x1d, 0, 1, 0),
            ret(ALLOW),
            ret(ERRNO),
        ];
        assert!(allows(&filter, &any(3, ""), None));
        assert!(!allows(&filter, &any(4, ""), None));
    }

    #[test]
    fn filters_that_are_wrong_allow_nothing() {
        for filter in [
            &[][..],
            &[i(0x05, 0, 0, 9), ret(ALLOW)],
            &[i(0x20, 0, 0, 0)],
            &[i(0xffff, 0, 0, 0), ret(ALLOW)],
            &[i(0x34, 0, 0, 0), i(0x16, 0, 0, 0)],
        ] {
            assert!(!allows(filter, &any(0, ""), None), "{filter:?}");
        }
    }
}
