//! Limits of Trommel, each with its reason.
//!
//! The short form of `docs/limits.md`, by its headings: every one of them has a row here.

/// Rows of one heading.
pub(super) struct Section {
    /// The heading in `docs/limits.md`.
    pub(super) heading: &'static str,
    /// Limits, and their reasons.
    pub(super) rows: &'static [(&'static str, &'static str)],
}

/// All of them.
pub(super) const NOT_SUPPORTED: &[Section] = &[
    Section {
        heading: "Programs that run natively",
        rows: &[
            (
                "32-bit and x32 programs",
                "the translator knows 64-bit mode only",
            ),
            (
                "other architectures",
                "events are defined by x86-64 instructions",
            ),
            (
                "setuid, setgid and file capabilities",
                "the kernel drops them for a traced program, so it runs natively; run trommel as that user",
            ),
            (
                "programs that may not be read",
                "the runtime cannot be put into them",
            ),
            (
                "programs that a debugger or strace holds",
                "a process has one tracer",
            ),
            (
                "all programs, on a kernel without vDSO (vdso=0)",
                "the code that takes the runtime in follows it",
            ),
        ],
    },
    Section {
        heading: "Programs that are detached when they do this",
        rows: &[
            (
                "programs that use GS, or set its base",
                "the runtime finds its thread by it, so they are detached there",
            ),
            (
                "programs that restrict their own system calls (seccomp)",
                "the runtime's might be refused, so they are detached when they set the filter",
            ),
            (
                "seccomp filters set for all threads at once that refuse arch_prctl or futex",
                "the other threads need these calls to leave, and the filter is upon them before that",
            ),
            (
                "programs that turn on their shadow stack",
                "fragments do not return where they were called from, so they are detached there",
            ),
            (
                "restartable sequences (rseq) of a program's own",
                "the kernel would not restart them in the code cache, so the program is detached before the first",
            ),
            (
                "programs that single-step themselves with the trap flag",
                "they would see each instruction of the code cache, so they are detached where they set it",
            ),
            (
                "xbegin, far transfers and what only the kernel may execute",
                "what they do depends on where they are, so the program is detached before them",
            ),
            (
                "more than 4096 threads at a time",
                "the mappings that each needs would be missing in the program, which is detached",
            ),
            (
                "processes that share the program's memory and run on beside it, with --no-follow",
                "they would use the code cache of a program that is observed, which is detached",
            ),
            (
                "code with new bytes without end",
                "33 million paths of fragments can be numbered; then the program is detached",
            ),
        ],
    },
    Section {
        heading: "Processes",
        rows: &[
            (
                "processes that go on when the first program has ended",
                "they are detached, as the command ends when the program does",
            ),
            (
                "more than 1024 processes at a time that came of one program by fork",
                "each has a slot in a file that they share; further ones run natively",
            ),
            (
                "children of a program that was detached",
                "it has nothing of ours any more that would follow them",
            ),
        ],
    },
    Section {
        heading: "Relational queries",
        rows: &[
            (
                "queries for events, facts of a pipeline and results of system calls",
                "only a model of hardware knows the first two, and calls are looked at before they are made; they are refused",
            ),
            (
                "queries with -p, --budget and the kinds value and type",
                "no probe of a query is made there; they are refused",
            ),
            (
                "registers of x87, MMX, masks, xmm16 to xmm31, gathers and scatters in queries",
                "they are not read, and told as 0",
            ),
            (
                "what a query tells of memory that another thread writes at the same time",
                "it is read after the instruction",
            ),
            (
                "more than 16 queues at a time that a program serves itself",
                "each thread that sends is looked for in a table of them when one is closed",
            ),
        ],
    },
    Section {
        heading: "Paths (`-e path`)",
        rows: &[
            (
                "paths in windows, and together with queries and customisation modules",
                "these begin and end in the middle of paths",
            ),
            (
                "paths of more than 60 conditional branches",
                "they are cut, and go on as others",
            ),
        ],
    },
    Section {
        heading: "Simulated caches (`-e miss`, `llmiss`, `mispredict`, `sharing`)",
        rows: &[(
            "simulated caches with windows, --only, -e path, -e context, --query and --converge",
            "they need all accesses of a run, in order",
        )],
    },
    Section {
        heading: "Customisation modules (`--module-lib`)",
        rows: &[
            (
                "customisation modules without windows, or with queries, --only or other kinds than edge and call",
                "they are given what windows see, of all code, by the probes of queries",
            ),
            (
                "results and facts of system calls, for customisation modules",
                "windows end before them",
            ),
        ],
    },
    Section {
        heading: "Prefetches (`trommel run --prefetch`)",
        rows: &[
            (
                "prefetches of objects that pointers lead to at random",
                "a pointer ahead must be loaded to know its object, which may fault; only regular distances are prefetched",
            ),
            (
                "asking a program again that stays in its code cache, where the kernel refuses perf events",
                "it is asked when it reaches the runtime",
            ),
            (
                "a SIGTRAP that a program has sent to itself by F_SETSIG, with --prefetch",
                "the kernel's clock that calls the program back sends the same, and it is taken for that",
            ),
            (
                "prefetches by what threads beyond the 16th access",
                "each has a simulated cache of its own",
            ),
            (
                "prefetches for operands relative to RIP, absolute, of strings, gathers and scatters",
                "they have no displacement that could be added to, or no single address",
            ),
        ],
    },
    Section {
        heading: "Threads and signals",
        rows: &[
            (
                "breakpoints that a debugger sets while a program is observed",
                "they are in the program's own code, which is not executed",
            ),
            (
                "real-time priorities, to keep others from the processor",
                "a thread whose records the host has not yet taken waits, and others run",
            ),
            (
                "alignment checks (AC) while SIGBUS is blocked, where values are recorded",
                "the runtime's stores are checked too, and the kernel ends the program",
            ),
        ],
    },
    Section {
        heading: "Code that changes",
        rows: &[(
            "code that another process, a device or io_uring changes",
            "no store instruction and no system call of the program tells of it",
        )],
    },
    Section {
        heading: "Attaching (`record -p`)",
        rows: &[
            (
                "record -p of programs that are stopped, restrict their system calls, or use GS or a shadow stack",
                "they are refused, and stay as they are",
            ),
            (
                "processes that a program starts while record -p has it",
                "one process is taken, and detached again",
            ),
            (
                "the rest of a timeout in epoll_wait, sigtimedwait, semtimedop, io_getevents and sockets with one, when -p takes or detaches the thread",
                "the kernel does not tell how much is left, so the call is made again with all of it",
            ),
        ],
    },
    Section {
        heading: "The daemon",
        rows: &[
            (
                "processes that live for less than half a second",
                "/proc is looked through a few times a second",
            ),
            (
                "more than 128 processes at a time",
                "each has two helpers; others wait",
            ),
            (
                "values that are addresses, added up over processes",
                "they differ from run to run",
            ),
        ],
    },
    Section {
        heading: "Windows",
        rows: &[
            (
                "the first part of programs that a process executes, with --budget",
                "it executes them while it is native, and they are attached to when that pays",
            ),
            (
                "windows in programs that cancel threads, or handle or ignore signal 32 themselves",
                "that signal begins them",
            ),
            (
                "what lies shortly after system calls, as often as the rest, with --budget",
                "windows end before them",
            ),
            (
                "what keeps step with the kernel's ticks, as often as the rest, with --budget",
                "timers that begin windows go off at ticks",
            ),
            (
                "programs that restrict their system calls (seccomp), from then on, with --budget",
                "the runtime's own calls might be refused",
            ),
            (
                "addresses and latencies without --budget, --rate or --window",
                "what they are needed for looks at short runs of instructions",
            ),
            (
                "addresses of accesses through FS, repeated string instructions, gathers and masked vectors",
                "they are no sum of general registers, or their size is not known",
            ),
        ],
    },
    Section {
        heading: "The whole machine (`record --all`)",
        rows: &[
            (
                "events, loaded values and vector registers, with --all",
                "an interrupt finds what is about to be executed and the general registers, and nobody sees it executed",
            ),
            (
                "the time of kernel code that lets no interrupts come, where it is",
                "the clock is an interrupt, and finds the code where they come again",
            ),
            (
                "operands of code that programs make while they run, and of the kernel without /proc/kcore",
                "its bytes are in no file",
            ),
        ],
    },
    Section {
        heading: "Memory and machine",
        rows: &[
            (
                "exact counts of more values than fit into --memory",
                "rare ones are dropped; the report tells how many, and how far off counts may be",
            ),
            (
                "fragments kept for the next run of a program (run, record without paths or a stream)",
                "whoever takes such a program over can write to what its next run under trommel executes; --no-persist",
            ),
            (
                "--budget where the kernel refuses perf events",
                "they begin the windows, so it is refused",
            ),
        ],
    },
    Section {
        heading: "Failures of the runtime",
        rows: &[(
            "programs that block SIGSEGV or SIGILL while the runtime fails",
            "the kernel ends them; others are detached and run on",
        )],
    },
    Section {
        heading: "Traces (`trommel run`, and `record` where events are counted in the code)",
        rows: &[
            (
                "traces with --stream, --converge, --query, -e path, and compressors that the code has not",
                "each event is recorded by itself there, or code is made for other probes",
            ),
            (
                "traces of code that a program makes while it runs",
                "it may change",
            ),
            (
                "variables in registers once a program has a second thread",
                "another thread may write to the stack frame; --opt aggressive says that none does",
            ),
        ],
    },
    Section {
        heading: "The lab (`trommel lab --program`)",
        rows: &[(
            "stratified-4, dynamo-fig9, values-fig1, values-table1 and compositions of a program of yours",
            "they draw their events, know what their own programs do, or need several; the error says what to use instead",
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_of_the_document_has_rows() {
        let document = include_str!("../../../../docs/limits.md");
        let theirs: Vec<&str> = (document.lines())
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        let ours: Vec<&str> = NOT_SUPPORTED.iter().map(|s| s.heading).collect();
        assert_eq!(theirs, ours);
        assert!(NOT_SUPPORTED.iter().all(|s| !s.rows.is_empty()));
    }
}
