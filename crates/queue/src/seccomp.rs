//! Filters of system calls (seccomp), and the calls that the runtime must be able to make.
//!
//! # Problem
//! A filter is a program of classic BPF that the kernel runs at each system call. It sees the number and the
//! arguments, and allows the call, fails it, or ends the process. The runtime makes calls of its own in the
//! program's name. A program may be observed under a filter only if the filter allows all of them.
//!
//! # Strategy
//! [`allows`] executes the filter for one call on what is known: the number, the architecture, and maybe some
//! arguments. All else is unknown. Where a branch depends on something unknown both ways are
//! followed. Branches of classic BPF only lead forward, so one pass over the instructions is enough: each has the
//! state that all ways to it agree on. A call is allowed when every `ret` that can be reached allows it.
//!
//! [`NEEDED`] and [`OPTIONAL`] list the calls.
//!
//! # Why it is correct
//! * What is not understood counts as refused.
//! * States are joined to unknown where they differ, so no way that the kernel could take is left out.

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

/// A call, with the arguments that are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Arguments, and their values.
    pub known: &'static [(u8, u64)],
}

const fn any(number: u32, name: &'static str) -> Call {
    with(number, name, &[])
}

const fn with(number: u32, name: &'static str, known: &'static [(u8, u64)]) -> Call {
    Call {
        number,
        name,
        known,
    }
}

/// A mapping with these rights and flags.
const fn mmap(known: &'static [(u8, u64)]) -> Call {
    with(9, "mmap", known)
}

const fn mprotect(known: &'static [(u8, u64)]) -> Call {
    with(10, "mprotect", known)
}

const fn madvise(known: &'static [(u8, u64)]) -> Call {
    with(28, "madvise", known)
}

const fn futex(known: &'static [(u8, u64)]) -> Call {
    with(202, "futex", known)
}

/// The calls that the runtime makes itself, also where the program becomes another one. Calls that the program itself makes
/// are not among them: a filter that refuses them refuses them natively, too.
#[rustfmt::skip] // reason: a row a line
pub const NEEDED: &[Call] = &[
    any(0, "read"),
    any(3, "close"),
    any(5, "fstat"),
    mmap(&[(2, 1), (3, 0x12)]),      // PRIVATE, FIXED
    mmap(&[(2, 3), (3, 0x11)]),      // SHARED, FIXED
    mmap(&[(2, 3), (3, 0x22)]),      // PRIVATE, ANONYMOUS
    mmap(&[(2, 3), (3, 0x4022)]),    // and NORESERVE
    mmap(&[(2, 3), (3, 0x4031)]),    // SHARED, FIXED, ANONYMOUS, NORESERVE
    mmap(&[(2, 7), (3, 2)]),         // PRIVATE
    mmap(&[(2, 7), (3, 0x22)]),      // PRIVATE, ANONYMOUS
    mmap(&[(2, 7), (3, 0x10_4022)]), // and NORESERVE, FIXED_NOREPLACE
    mprotect(&[(2, 0)]),
    mprotect(&[(2, 1)]),
    mprotect(&[(2, 2)]),
    mprotect(&[(2, 3)]),
    mprotect(&[(2, 4)]),
    mprotect(&[(2, 5)]),
    mprotect(&[(2, 6)]),
    mprotect(&[(2, 7)]),
    any(11, "munmap"),
    any(13, "rt_sigaction"),
    any(14, "rt_sigprocmask"),
    any(15, "rt_sigreturn"),
    with(16, "ioctl", &[(1, 0xc068_6611)]), // PROCMAP_QUERY; older kernels do not know it either
    with(25, "mremap", &[(3, 0)]),
    with(25, "mremap", &[(3, 1)]), // MAYMOVE
    with(25, "mremap", &[(3, 3)]), // MAYMOVE, FIXED
    madvise(&[(2, 10)]),           // DONTFORK
    madvise(&[(2, 11)]),           // DOFORK
    madvise(&[(2, 14)]),           // HUGEPAGE
    madvise(&[(2, 16)]),           // DONTDUMP
    madvise(&[(2, 22)]),           // POPULATE_READ
    madvise(&[(2, 23)]),           // POPULATE_WRITE
    any(39, "getpid"),
    any(60, "exit"),
    any(89, "readlink"),
    any(102, "getuid"),
    any(110, "getppid"),
    any(131, "sigaltstack"),
    any(150, "munlock"),
    with(157, "prctl", &[(0, 25)]),          // PR_GET_TSC
    with(158, "arch_prctl", &[(0, 0x1001)]), // ARCH_SET_GS
    any(186, "gettid"),
    futex(&[(1, 0)]),   // WAIT
    futex(&[(1, 1)]),   // WAKE
    futex(&[(1, 128)]), // and PRIVATE
    futex(&[(1, 129)]),
    any(228, "clock_gettime"),
    with(233, "epoll_ctl", &[(1, 3)]),
    any(234, "tgkill"),
    with(257, "openat", &[(2, 0x8_0000)]), // RDONLY, CLOEXEC
    with(257, "openat", &[(2, 0x8_0900)]), // and NONBLOCK, NOCTTY
    any(297, "rt_tgsigqueueinfo"),
    with(310, "process_vm_readv", &[(5, 0)]),
    with(311, "process_vm_writev", &[(5, 0)]),
    with(319, "memfd_create", &[(1, 1)]), // CLOEXEC
];

/// Calls that the runtime makes and can do without. They may fail, but neither end the program nor be reported to it.
pub const OPTIONAL: &[Call] = &[
    any(1, "write"),
    any(2, "open"),
    any(4, "stat"),
    with(12, "brk", &[(0, 0)]),
    any(24, "sched_yield"),
    any(31, "shmctl"),
    any(62, "kill"),
    with(72, "fcntl", &[(1, 3)]), // F_GETFL
    any(107, "geteuid"),
    any(108, "getegid"),
    any(125, "capget"),
    any(129, "rt_sigqueueinfo"),
    any(138, "fstatfs"),
    any(193, "fgetxattr"),
    any(217, "getdents64"),
    any(231, "exit_group"),
    any(262, "newfstatat"),
    any(274, "get_robust_list"),
    any(302, "prlimit64"),
    any(325, "mlock2"),
    any(332, "statx"),
    any(439, "faccessat2"),
];

/// Further calls where threads are native between windows. They may fail, but neither end the program nor be reported to it.
pub const WINDOWED: &[Call] = &[
    with(98, "getrusage", &[(0, 1)]), // RUSAGE_THREAD
    any(128, "rt_sigtimedwait"),
    any(222, "timer_create"),
    any(223, "timer_settime"),
    any(226, "timer_delete"),
    RESIDENT,
    SEQUENCES,
];

/// The call that registers an area of restartable sequences. The runtime can do without it.
pub const SEQUENCES: Call = any(334, "rseq");

/// The call that tells whether a page is in memory. Service managers refuse it. The runtime can do without it.
pub const RESIDENT: Call = any(27, "mincore");

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

/// The word at an offset of `struct seccomp_data`.
fn data(call: &Call, offset: u32) -> Word {
    const ARGUMENTS: u32 = 16;
    match offset {
        0 => Some(call.number),
        4 => Some(ARCH),
        _ => {
            let mut halves = call.known.iter().flat_map(|&(argument, value)| {
                let at = ARGUMENTS + 8 * u32::from(argument);
                [(at, value as u32), (at + 4, (value >> 32) as u32)]
            });
            let found = halves.find(|(at, _)| *at == offset)?;
            Some(found.1)
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

/// One step from an instruction: the instructions that may follow, or whether the call is allowed.
enum Step {
    To(u64, Option<u64>),
    End(bool),
}

fn step(
    at: u64,
    instruction: &Instruction,
    (call, enough): (&Call, Enough),
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
        (0, 0x20) => state.a = data(call, k),
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

/// Returns whether a filter lets a call be made, whatever is unknown of it.
pub fn allows(filter: &[Instruction], call: &Call) -> bool {
    does(filter, call, Enough::Made)
}

/// Returns whether a filter lets a call be made or fail, whatever is unknown of it.
pub fn spares(filter: &[Instruction], call: &Call) -> bool {
    does(filter, call, Enough::Survived)
}

fn does(filter: &[Instruction], call: &Call, enough: Enough) -> bool {
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
        let (to, or) = match step(at, instruction, (call, enough), &mut state) {
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

/// Returns what the runtime needs and a filter may refuse: the name of the first such call of [`NEEDED`], or of [`OPTIONAL`] if the
/// program would not survive it.
pub fn refused(filter: &[Instruction]) -> Option<&'static str> {
    if looks_at_address(filter) {
        return Some("calls from other addresses");
    }
    let refused = NEEDED.iter().find(|call| !allows(filter, call));
    let ended = || OPTIONAL.iter().find(|call| !spares(filter, call));
    refused.or_else(ended).map(|call| call.name)
}

/// [`refused`] where threads are native between windows.
pub fn refused_in_windows(filter: &[Instruction]) -> Option<&'static str> {
    let ended = || WINDOWED.iter().find(|call| !spares(filter, call));
    refused(filter).or_else(|| ended().map(|call| call.name))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0001;

    const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    fn ret(k: u32) -> Instruction {
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
    fn list(numbers: &[u32]) -> Vec<Instruction> {
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
    fn what_is_needed_must_be_in_the_list() {
        let all: Vec<u32> = NEEDED.iter().map(|call| call.number).collect();
        assert_eq!(refused(&list(&all)), None);
        for missing in &all {
            let rest: Vec<u32> = all.iter().copied().filter(|n| n != missing).collect();
            let name = NEEDED
                .iter()
                .find(|call| call.number == *missing)
                .map(|call| call.name);
            assert_eq!(refused(&list(&rest)), name);
        }
        assert_eq!(refused(&[ret(ALLOW)]), None);
        assert_eq!(refused(&[ret(0x7ffc_0000)]), None);
        for action in [0, ERRNO, 0x0003_0000, 0x7ff0_0000, 0x7fc0_0000, 0x8000_0000] {
            assert!(refused(&[ret(action)]).is_some(), "{action:x}");
        }
    }

    #[test]
    fn arguments_that_are_not_known_are_both() {
        // Refused when the third argument has a bit.
        let filter = [i(0x20, 0, 0, 32), i(0x45, 0, 1, 4), ret(ERRNO), ret(ALLOW)];
        assert!(!allows(&filter, &any(9, "")));
        assert!(!allows(&filter, &with(9, "", &[(2, 7)])));
        assert!(allows(&filter, &with(9, "", &[(2, 3)])));
        // Whatever it has.
        let filter = [i(0x20, 0, 0, 32), i(0x45, 0, 1, 4), ret(ALLOW), ret(ALLOW)];
        assert!(allows(&filter, &any(9, "")));
        // The high half of an argument.
        let filter = [i(0x20, 0, 0, 36), i(0x15, 0, 1, 1), ret(0), ret(ALLOW)];
        assert!(allows(&filter, &with(9, "", &[(2, 7)])));
        assert!(!allows(&filter, &with(9, "", &[(2, 1 << 32)])));
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
        assert!(allows(&join(1), &any(0, "")));
        assert!(!allows(&join(2), &any(0, "")));
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
        assert!(allows(&filter, &any(3, "")));
        assert!(!allows(&filter, &any(4, "")));
    }

    #[test]
    fn addresses_of_calls_are_nobodys_business() {
        for ask in [i(0x20, 0, 0, 8), i(0x20, 0, 0, 12)] {
            assert!(refused(&[ask, ret(ALLOW)]).is_some());
        }
    }

    #[test]
    fn calls_of_the_program_alone_may_be_reported() {
        const TRAP: u32 = 0x0003_0007;
        let traps = |number| {
            [
                i(0x20, 0, 0, 0),
                i(0x15, 0, 1, number),
                ret(TRAP),
                ret(ALLOW),
            ]
        };
        assert_eq!(refused(&traps(400)), None);
        assert!(may_report(&traps(400)) && !may_report(&[ret(ALLOW), ret(ERRNO)]));
        assert_eq!(refused(&traps(11)), Some("munmap"));
        // What computes its answer may report, too.
        let computed = [i(0x00, 0, 0, ALLOW), i(0x16, 0, 0, 0)];
        assert!(refused(&computed).is_none() && may_report(&computed));
    }

    #[test]
    fn what_can_be_done_without_may_fail() {
        let answers = |number, answer| {
            [
                i(0x20, 0, 0, 0),
                i(0x15, 0, 1, number),
                ret(answer),
                ret(ALLOW),
            ]
        };
        for call in OPTIONAL.iter().filter(|call| call.known.is_empty()) {
            assert_eq!(refused(&answers(call.number, ERRNO)), None);
            for ends in [0, 0x0003_0000, 0x8000_0000] {
                assert_eq!(refused(&answers(call.number, ends)), Some(call.name));
            }
        }
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
            assert!(!allows(filter, &any(0, "")), "{filter:?}");
        }
    }
}
