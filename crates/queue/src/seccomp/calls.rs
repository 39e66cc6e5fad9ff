//! The system calls that the runtime makes, and which of them it can do without.
//!
//! # Problem
//! A sandbox allows a program few calls, each with few arguments. Nearly all calls of the runtime are among those that any program makes. Some
//! are not: it reads `/proc`, and reads memory that may not be there.
//!
//! # Strategy
//! Each call has a row, in a table that says when it is made and what happens without it:
//!
//! | table | made | without it |
//! |---|---|---|
//! | [`NEEDED`] | at any time | the program is not observed |
//! | [`STARTING`] | while a program is attached or detached, or becomes another one | nothing: the host suspends filters then (`PTRACE_O_SUSPEND_SECCOMP`). Where it cannot, as [`NEEDED`] |
//! | [`REPLACED`] | at any time | there is another way |
//! | [`OPTIONAL`] | at any time | something is not done that may fail anyway |
//! | [`PROBES`] | when the program makes one like it | it is not known which file the program opens, for one |
//! | [`WINDOWED`] | between windows | there are no windows |
//!
//! The rows of [`REPLACED`], [`OPTIONAL`] and [`PROBES`] that a filter does not allow are numbered in a [`Without`]. The runtime never makes those calls: to its
//! own code they seem to be calls that this kernel does not have.
//!
//! # Two ways to observe
//! [`Terms`] says which. A running program that is attached, whose children run natively, is observed without those calls if the host suspends its filters.
//! Any other program makes them also where it starts others, so its filters must let it.

use super::{Instruction, allows, looks_at_address, spares};

/// A call, with the arguments that are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Arguments, and their values. [`OWN_PROCESS`] stands for the process.
    pub known: &'static [(u8, u64)],
}

/// Value of an argument: the calling process, as it sees itself.
pub const OWN_PROCESS: u64 = 1 << 63;

pub(super) const fn any(number: u32, name: &'static str) -> Call {
    with(number, name, &[])
}

pub(super) const fn with(number: u32, name: &'static str, known: &'static [(u8, u64)]) -> Call {
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

/// The calls that the runtime makes itself at any time. Calls that the program itself makes
/// are not among them: a filter that refuses them refuses them natively, too.
#[rustfmt::skip] // reason: a row a line
pub const NEEDED: &[Call] = &[
    mmap(&[(2, 3), (3, 0x22)]),      // PRIVATE, ANONYMOUS
    mmap(&[(2, 3), (3, 0x4022)]),    // and NORESERVE
    mmap(&[(2, 3), (3, 0x4031)]),    // SHARED, FIXED, ANONYMOUS, NORESERVE
    mmap(&[(2, 7), (3, 0x4022)]),    // PRIVATE, ANONYMOUS, NORESERVE
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
    with(25, "mremap", &[(3, 0)]),
    with(25, "mremap", &[(3, 1)]), // MAYMOVE
    with(25, "mremap", &[(3, 3)]), // MAYMOVE, FIXED
    any(39, "getpid"),
    any(60, "exit"),
    any(102, "getuid"),
    any(131, "sigaltstack"),
    any(186, "gettid"),
    futex(&[(1, 0)]),   // WAIT
    futex(&[(1, 1)]),   // WAKE
    futex(&[(1, 128)]), // and PRIVATE
    futex(&[(1, 129)]),
    with(228, "clock_gettime", &[(0, 1)]), // MONOTONIC
    with(228, "clock_gettime", &[(0, 2)]), // PROCESS_CPUTIME_ID
    with(228, "clock_gettime", &[(0, 3)]), // THREAD_CPUTIME_ID
    with(234, "tgkill", &[(0, OWN_PROCESS)]),
    with(297, "rt_tgsigqueueinfo", &[(0, OWN_PROCESS)]),
];

/// Calls that are made only while a program is attached or detached, or becomes another one.
#[rustfmt::skip] // reason: a row a line
pub const STARTING: &[Call] = &[
    mmap(&[(2, 1), (3, 0x12)]),      // PRIVATE, FIXED
    mmap(&[(2, 3), (3, 0x11)]),      // SHARED, FIXED
    mmap(&[(2, 7), (3, 2)]),         // PRIVATE
    mmap(&[(2, 7), (3, 0x22)]),      // PRIVATE, ANONYMOUS
    any(110, "getppid"),
    with(257, "openat", &[(2, 0x8_0900)]), // RDONLY, CLOEXEC, NONBLOCK, NOCTTY
    with(319, "memfd_create", &[(1, 1)]), // CLOEXEC
];

/// The call that sets the base of GS. Where processor and kernel have the instruction, that does.
const SET_BASE: Call = with(158, "arch_prctl", &[(0, 0x1001)]);
/// The call that tells the base of FS, likewise.
const GET_BASE: Call = with(158, "arch_prctl", &[(0, 0x1003)]);

/// Calls that the runtime has another way for.
#[rustfmt::skip] // reason: a row a line
pub const REPLACED: &[Call] = &[
    any(0, "read"),
    any(3, "close"),
    any(5, "fstat"),
    mmap(&[(2, 7), (3, 0x10_4022)]), // PRIVATE, ANONYMOUS, NORESERVE, FIXED_NOREPLACE
    with(16, "ioctl", &[(1, 0xc068_6611)]), // PROCMAP_QUERY; older kernels do not know it either
    madvise(&[(2, 10)]),           // DONTFORK
    madvise(&[(2, 11)]),           // DOFORK
    madvise(&[(2, 14)]),           // HUGEPAGE
    madvise(&[(2, 16)]),           // DONTDUMP
    madvise(&[(2, 22)]),           // POPULATE_READ
    madvise(&[(2, 23)]),           // POPULATE_WRITE
    any(89, "readlink"),
    any(150, "munlock"),
    with(157, "prctl", &[(0, 25)]),          // PR_GET_TSC
    SET_BASE,
    with(233, "epoll_ctl", &[(1, 3)]),
    any(234, "tgkill"),
    with(257, "openat", &[(2, 0x8_0000)]), // RDONLY, CLOEXEC
    with(310, "process_vm_readv", &[(5, 0)]),
    with(311, "process_vm_writev", &[(5, 0)]),
];

/// Calls that the runtime makes and can do without. They may fail, but neither end the program nor be reported to it.
#[rustfmt::skip] // reason: a row a line
pub const OPTIONAL: &[Call] = &[
    any(1, "write"),
    any(2, "open"),
    any(4, "stat"),
    with(12, "brk", &[(0, 0)]),
    any(24, "sched_yield"),
    any(31, "shmctl"),
    with(62, "kill", &[(0, OWN_PROCESS)]),
    with(72, "fcntl", &[(1, 3)]), // F_GETFL
    any(107, "geteuid"),
    any(108, "getegid"),
    any(125, "capget"),
    with(129, "rt_sigqueueinfo", &[(0, OWN_PROCESS)]),
    any(138, "fstatfs"),
    with(157, "prctl", &[(0, 40)]), // PR_GET_TID_ADDRESS
    GET_BASE,
    any(193, "fgetxattr"),
    futex(&[(1, 136)]), // TRYLOCK_PI, PRIVATE
    any(217, "getdents64"),
    any(231, "exit_group"),
    any(262, "newfstatat"),
    any(274, "get_robust_list"),
    with(302, "prlimit64", &[(0, 0)]),
    any(325, "mlock2"),
    any(332, "statx"),
    any(439, "faccessat2"),
];

/// Calls that are made when the program is about to make one like them, or has made one.
#[rustfmt::skip] // reason: a row a line
pub const PROBES: &[Call] = &[
    with(101, "ptrace", &[(0, 0x4201)]), // GETEVENTMSG
    any(151, "mlockall"),
    any(257, "openat"),
    any(304, "open_by_handle_at"),
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

/// The way in which a program is observed, as far as filters are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The process, as it sees itself, if that is known.
    pub pid: Option<u32>,
    /// The host suspends filters while it attaches and detaches the program, and what the program starts runs natively.
    pub suspended: bool,
    /// Processor and kernel have the instructions for the bases of FS and GS.
    pub bases: bool,
}

/// Calls that need not be made.
fn dispensable() -> impl Iterator<Item = &'static Call> {
    REPLACED.iter().chain(OPTIONAL).chain(PROBES)
}

const _: () = assert!(REPLACED.len() + OPTIONAL.len() + PROBES.len() <= u64::BITS as usize);

/// Calls that the runtime does not make: a bit for each row of [`REPLACED`], then of [`OPTIONAL`], then of [`PROBES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Without(pub u64);

impl Without {
    /// The calls of either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The numbers of its calls, of which some may be made with other arguments.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        let rows = dispensable().enumerate();
        rows.filter_map(move |(n, call)| (self.0 >> n & 1 != 0).then_some(call.number))
    }

    /// Returns whether a call of the process `pid` is one that is not made. What is in no table is made.
    pub fn has(self, number: u32, args: &[u64; 6], pid: u32) -> bool {
        let is = |call: &&Call| {
            let fits = |&(argument, value): &(u8, u64)| {
                // Arguments of these calls that filters look at are of 32 bits, but for flags that the runtime never sets.
                let wanted = if value == OWN_PROCESS {
                    pid
                } else {
                    value as u32
                };
                args[usize::from(argument)] as u32 == wanted
            };
            call.number == number && call.known.iter().all(fits)
        };
        if NEEDED.iter().any(|call| is(&call)) {
            return false;
        }
        let row = dispensable().position(|call| is(&call));
        row.is_some_and(|n| self.0 >> n & 1 != 0)
    }
}

/// Returns which calls the runtime is not to make under a filter that does not refuse what it needs.
pub fn without(filter: &[Instruction], terms: Terms) -> Without {
    if !terms.suspended {
        return Without::default();
    }
    let rows = dispensable().enumerate();
    let refused = rows.filter(|(_, call)| !allows(filter, call, terms.pid));
    Without(refused.fold(0, |bits, (n, _)| bits | 1 << n))
}

/// Returns what the runtime needs and a filter may refuse: the name of the first such call.
pub fn refused(filter: &[Instruction], terms: Terms) -> Option<&'static str> {
    if looks_at_address(filter) {
        return Some("calls from other addresses");
    }
    let refuses = |call: &&Call| !allows(filter, call, terms.pid);
    let base = (!terms.bases).then_some([&SET_BASE, &GET_BASE]);
    let base = base.into_iter().flatten();
    let needed = NEEDED.iter().chain(base).find(refuses);
    if let Some(call) = needed {
        return Some(call.name);
    }
    if terms.suspended {
        return None;
    }
    let starting = STARTING.iter().chain(REPLACED).find(refuses);
    let ended = || {
        OPTIONAL
            .iter()
            .find(|call| !spares(filter, call, terms.pid))
    };
    starting.or_else(ended).map(|call| call.name)
}

/// [`refused`] where threads are native between windows.
pub fn refused_in_windows(filter: &[Instruction], terms: Terms) -> Option<&'static str> {
    let terms = Terms {
        suspended: false,
        ..terms
    };
    let ended = || {
        WINDOWED
            .iter()
            .find(|call| !spares(filter, call, terms.pid))
    };
    refused(filter, terms).or_else(|| ended().map(|call| call.name))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::super::may_report;
    use super::super::tests::{ALLOW, ERRNO, i, list, ret};
    use super::*;

    const STARTED: Terms = Terms {
        pid: Some(77),
        suspended: false,
        bases: true,
    };
    const ATTACHED: Terms = Terms {
        suspended: true,
        ..STARTED
    };

    /// A filter with one answer for a call, which allows all others.
    fn answers(number: u32, answer: u32) -> [Instruction; 4] {
        [
            i(0x20, 0, 0, 0),
            i(0x15, 0, 1, number),
            ret(answer),
            ret(ALLOW),
        ]
    }

    fn numbers<'a>(tables: impl IntoIterator<Item = &'a [Call]>) -> Vec<u32> {
        tables.into_iter().flatten().map(|c| c.number).collect()
    }

    #[test]
    fn what_is_needed_must_be_in_the_list() {
        for (terms, tables) in [
            (STARTED, &[NEEDED, STARTING, REPLACED][..]),
            (ATTACHED, &[NEEDED]),
        ] {
            let all = numbers(tables.iter().copied());
            assert_eq!(refused(&list(&all), terms), None);
            for missing in &all {
                let rest: Vec<u32> = all.iter().copied().filter(|n| n != missing).collect();
                let calls = || tables.iter().copied().flatten();
                let name = calls().find(|c| c.number == *missing).map(|c| c.name);
                assert_eq!(refused(&list(&rest), terms), name);
            }
        }
        assert_eq!(refused(&[ret(ALLOW)], STARTED), None);
        assert_eq!(refused(&[ret(0x7ffc_0000)], STARTED), None);
        for action in [0, ERRNO, 0x0003_0000, 0x7ff0_0000, 0x7fc0_0000, 0x8000_0000] {
            for terms in [STARTED, ATTACHED] {
                assert!(refused(&[ret(action)], terms).is_some(), "{action:x}");
            }
        }
    }

    #[test]
    fn a_call_with_another_way_is_refused_to_started_programs_alone() {
        for answer in [0, ERRNO, 0x0003_0000] {
            let filter = answers(310, answer);
            assert_eq!(refused(&filter, STARTED), Some("process_vm_readv"));
            assert_eq!(without(&filter, STARTED), Without(0));
            assert_eq!(refused(&filter, ATTACHED), None);
            let without = without(&filter, ATTACHED);
            assert!(without.has(310, &[1, 2, 3, 4, 5, 0], 77));
            assert!(!without.has(311, &[1, 2, 3, 4, 5, 0], 77));
            assert_eq!(without.numbers().collect::<Vec<_>>(), [310]);
        }
        let none = Terms {
            bases: false,
            ..ATTACHED
        };
        assert_eq!(refused(&answers(158, ERRNO), ATTACHED), None);
        assert_eq!(refused(&answers(158, ERRNO), none), Some("arch_prctl"));
    }

    #[test]
    fn calls_are_told_apart_by_their_arguments() {
        // FIXED_NOREPLACE alone is refused.
        let filter = [
            i(0x20, 0, 0, 0),
            i(0x15, 0, 3, 9),
            i(0x20, 0, 0, 40),
            i(0x45, 0, 1, 0x10_0000),
            ret(0),
            ret(ALLOW),
        ];
        assert_eq!(refused(&filter, ATTACHED), None);
        let without = without(&filter, ATTACHED);
        assert!(without.has(9, &[0x1000, 1, 7, 0x10_4022, u64::MAX, 0], 77));
        assert!(!without.has(9, &[0x1000, 1, 7, 0x4022, u64::MAX, 0], 77));
    }

    #[test]
    fn signals_to_the_process_itself_are_enough() {
        let filter = |pid| {
            [
                i(0x20, 0, 0, 0),
                i(0x15, 0, 3, 234),
                i(0x20, 0, 0, 16),
                i(0x15, 1, 0, pid),
                ret(0x0003_0000),
                ret(ALLOW),
            ]
        };
        assert_eq!(refused(&filter(77), ATTACHED), None);
        assert_eq!(refused(&filter(77), STARTED), Some("tgkill"));
        assert_eq!(refused(&filter(78), ATTACHED), Some("tgkill"));
        let unknown = Terms {
            pid: None,
            ..ATTACHED
        };
        assert_eq!(refused(&filter(77), unknown), Some("tgkill"));
        let without = without(&filter(77), ATTACHED);
        assert!(without.has(234, &[78, 78, 0, 0, 0, 0], 77));
        assert!(!without.has(234, &[77, 78, 0, 0, 0, 0], 77));
    }

    #[test]
    fn addresses_of_calls_are_nobodys_business() {
        for ask in [i(0x20, 0, 0, 8), i(0x20, 0, 0, 12)] {
            assert!(refused(&[ask, ret(ALLOW)], ATTACHED).is_some());
        }
    }

    #[test]
    fn calls_of_the_program_alone_may_be_reported() {
        const TRAP: u32 = 0x0003_0007;
        let refused = |filter: &[Instruction]| refused(filter, STARTED);
        assert_eq!(refused(&answers(400, TRAP)), None);
        assert!(may_report(&answers(400, TRAP)) && !may_report(&[ret(ALLOW), ret(ERRNO)]));
        assert_eq!(refused(&answers(11, TRAP)), Some("munmap"));
        // What computes its answer may report, too.
        let computed = [i(0x00, 0, 0, ALLOW), i(0x16, 0, 0, 0)];
        assert!(refused(&computed).is_none() && may_report(&computed));
    }

    #[test]
    fn what_can_be_done_without_may_fail() {
        for call in OPTIONAL.iter().filter(|call| call.known.is_empty()) {
            assert_eq!(refused(&answers(call.number, ERRNO), STARTED), None);
            for ends in [0, 0x0003_0000, 0x8000_0000] {
                let filter = answers(call.number, ends);
                assert_eq!(refused(&filter, STARTED), Some(call.name));
                assert_eq!(refused(&filter, ATTACHED), None);
                assert!(without(&filter, ATTACHED).has(call.number, &[0; 6], 77));
            }
        }
    }
}
