//! Requests that a program makes of Trommel while it runs under it.
//!
//! Each request is one instruction that does nothing: an eight-byte NOP with an address of its own ([`MARK`]).
//! Trommel's translator recognises it. Nothing is linked, opened or looked for.
//! Natively, and after a detach, a request costs a few cycles and is answered with [`Answer::Absent`].
//!
//! ```
//! let mut counts = trommel_aware::Counts::default();
//! match trommel_aware::counts(&mut counts) {
//!     trommel_aware::Answer::Done => println!("{} traces", counts.traces),
//!     _ => println!("not under Trommel"),
//! }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | this one | requests and answers |
//! | [`queue`] | queues of relational queries that the program serves itself |
//! | [`ring`], [`word`] | the code by which Trommel and the program pass messages |
//!
//! The same for C is `include/trommel.h`. `docs/aware.md` says what each request does.
//! Outside of Linux on x86-64 all answers are [`Answer::Absent`].
#![no_std]
#![allow(unsafe_code)] // reason: one instruction of assembly.

pub mod queue;
pub mod ring;
pub mod word;

use core::ops::Range;

/// Version of the interface. A request of a later one than Trommel knows is refused.
pub const VERSION: u32 = 1;

/// The instruction: `nop dword ptr [rax + rax + 0x4c4d5254]`. The request is in `rdi`, the version in its high
/// half; arguments are in `rsi` and `rdx`, the answer is in `rax`, which holds 0 before.
pub const MARK: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, b'T', b'R', b'M', b'L'];

/// Requests to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Request {
    /// Asks for the version; answered with its number.
    Present = 1,
    /// Code in a range is hot.
    Hot = 2,
    /// Code in a range is made while the program runs.
    Jit = 3,
    /// Memory in a range is accessed by others.
    Volatile = 4,
    /// No events are collected, and no traces started.
    Stop = 5,
    /// Events are collected and traces started again.
    Start = 6,
    /// The process runs natively.
    Leave = 7,
    /// Writes figures of the engine to an address, of so many bytes.
    Counts = 8,
    /// Code in a range is not what it was.
    Changed = 9,
    /// The calling thread serves a queue, at an address, of so many bytes.
    Open = 10,
    /// The program serves the queue of a number no more.
    Close = 11,
    /// Waits until all that the calling thread has sent to a queue is in it.
    Flush = 12,
    /// Interrupts of queries are a signal to the thread that is interrupted; 0: they are Trommel's.
    Interrupts = 13,
    /// Writes candidates of the calling thread's last interval to an address, of so many bytes.
    Candidates = 14,
    /// Loads or removes queries, as the [`Posting`] at an address says, of so many bytes.
    Post = 15,
}

impl Request {
    /// The request of a number in `rdi`, of a version that is known.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number >> 32 == 0 || number >> 32 > VERSION as u64 {
            return None;
        }
        Some(match number as u32 {
            1 => Self::Present,
            2 => Self::Hot,
            3 => Self::Jit,
            4 => Self::Volatile,
            5 => Self::Stop,
            6 => Self::Start,
            7 => Self::Leave,
            8 => Self::Counts,
            9 => Self::Changed,
            10 => Self::Open,
            11 => Self::Close,
            12 => Self::Flush,
            13 => Self::Interrupts,
            14 => Self::Candidates,
            15 => Self::Post,
            _ => return None,
        })
    }
}

/// Answers of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Not under Trommel.
    Absent,
    /// Done.
    Done,
    /// Trommel does not know this request or version.
    Unknown,
    /// A range that ends before it starts, memory that cannot be written, a queue that is not open, a signal without handler.
    Wrong,
    /// No query of this run sends to the queue, or interrupts. The run has no queries that may change.
    Unasked,
    /// The queue is open already, or too many others are. The thread has asked for other queries, and is in a signal handler.
    Busy,
    /// The queries are refused, and the reason was written.
    Refused,
}

impl Answer {
    /// Returns the number that `rax` holds.
    pub const fn number(self) -> i64 {
        match self {
            Self::Absent => 0,
            Self::Done => 1,
            Self::Unknown => -1,
            Self::Wrong => -2,
            Self::Unasked => -3,
            Self::Busy => -4,
            Self::Refused => -5,
        }
    }

    const fn of(number: i64) -> Self {
        match number {
            0 => Self::Absent,
            -1 => Self::Unknown,
            -2 => Self::Wrong,
            -3 => Self::Unasked,
            -4 => Self::Busy,
            -5 => Self::Refused,
            _ => Self::Done,
        }
    }
}

/// Figures of the engine in this process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Counts {
    /// Pieces of code translated, traces not included.
    pub fragments: u64,
    /// Traces made.
    pub traces: u64,
    /// Times that control left translated code.
    pub dispatches: u64,
    /// Indirect branches among them.
    pub indirect_misses: u64,
    /// Exits linked.
    pub links: u64,
    /// Times that everything translated was dropped.
    pub flushes: u64,
    /// Bytes of translated code.
    pub cache_bytes: u64,
    /// Requests such as this one, which is the last.
    pub requests: u64,
}

/// A candidate of the last interval of a thread: an event that was frequent in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Candidate {
    /// Address of the instruction.
    pub at: u64,
    /// Address that a branch or call went to, or any other value.
    pub value: u64,
    /// Its events in the interval.
    pub count: u64,
    /// Kind of the event: 0 edge, 1 call, 2 value, 4 type.
    pub kind: u64,
    /// Number of the interval, from 1.
    pub interval: u64,
    /// All events of the interval.
    pub events: u64,
}

/// A request about queries: addresses of texts, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Posting {
    /// The name of what is loaded, or the name or queue of what is removed: 1 to 64 bytes.
    pub name: u64,
    /// Bytes of it.
    pub name_bytes: u64,
    /// The queries; 0: to remove.
    pub text: u64,
    /// Bytes of them, [`MOST_TEXT`] at most.
    pub text_bytes: u64,
    /// Room for the reason of a refusal, and a 0 after it: its address.
    pub error: u64,
    /// Bytes that there is room for there.
    pub room: u64,
}

/// Bytes of queries that a program can load at once.
pub const MOST_TEXT: u64 = 16_000;

/// # Safety
/// What the arguments refer to must be the caller's to have written.
unsafe fn request(request: Request, a: u64, b: u64) -> i64 {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let number = u64::from(VERSION) << 32 | u64::from(request as u32);
        let mut answer = 0_i64;
        // SAFETY: an instruction that does nothing, or has the answer put into `rax`; the caller answers
        // for what the arguments refer to.
        unsafe {
            core::arch::asm!(
                // What makes `trommel run` attach to the program with its first instruction.
                ".pushsection .note.trommel, \"a\", @note",
                ".balign 4",
                ".long 8, 4, 1",
                ".asciz \"Trommel\"",
                ".long 1",
                ".popsection",
                ".byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4d, 0x4c",
                inout("rax") answer,
                in("rdi") number,
                in("rsi") a,
                in("rdx") b,
                options(nostack, preserves_flags),
            );
        }
        answer
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    {
        let _ = (request, a, b);
        0
    }
}

fn plain(number: Request, a: u64, b: u64) -> Answer {
    // SAFETY: a request that refers to no memory.
    Answer::of(unsafe { request(number, a, b) })
}

fn range(number: Request, range: Range<*const u8>) -> Answer {
    plain(number, range.start as u64, range.end as u64)
}

/// The version of the interface that Trommel knows, if the program runs under it.
pub fn present() -> Option<u32> {
    // SAFETY: no memory is referred to.
    let version = unsafe { request(Request::Present, 0, 0) };
    u32::try_from(version).ok().filter(|version| *version != 0)
}

/// Code in this range is hot: traces that start there are made sooner.
pub fn hot(code: Range<*const u8>) -> Answer {
    range(Request::Hot, code)
}

/// Code in this range is made while the program runs, and changed often: it is compared when it is
/// entered, and writing beside it costs nothing.
pub fn jit(code: Range<*const u8>) -> Answer {
    range(Request::Jit, code)
}

/// Memory in this range is read or written by others than this program's threads: no load or store is
/// optimised away from here on.
pub fn volatile(memory: Range<*const u8>) -> Answer {
    range(Request::Volatile, memory)
}

/// Code in this range is not what it was. To be told where no store of this process has changed it: another
/// process, `io_uring` or a device has. Stores and system calls are seen anyway.
pub fn changed(code: Range<*const u8>) -> Answer {
    range(Request::Changed, code)
}

/// Nothing is observed from here on: no events are collected and no queries are asked. This thread stops at once, others do when
/// they leave the piece of code that they are in. The report says so. No traces are started, and those that are there stay.
pub fn stop() -> Answer {
    plain(Request::Stop, 0, 0)
}

/// Events are collected and queries asked again, as they are from the start of the program, and traces started.
pub fn start() -> Answer {
    plain(Request::Start, 0, 0)
}

/// The process runs natively from here on, for good.
pub fn leave() -> Answer {
    plain(Request::Leave, 0, 0)
}

/// Fills in what the engine has done so far.
pub fn counts(counts: &mut Counts) -> Answer {
    let (at, bytes) = (&raw mut *counts as u64, size_of::<Counts>() as u64);
    // SAFETY: at most as many bytes are written to where they are the caller's, and any are valid.
    Answer::of(unsafe { request(Request::Counts, at, bytes) })
}

/// Fills in candidates of the last interval of the calling thread, the most frequent first, and returns how many there are, also of those
/// that there is no room for. None natively, without an interval profiler in generated code, and before an interval has ended since the
/// thread asked for the first time.
pub fn candidates(last: &mut [Candidate]) -> usize {
    let (at, bytes) = (last.as_mut_ptr() as u64, size_of_val(last) as u64);
    // SAFETY: at most as many bytes are written to where they are the caller's, and any are valid.
    let found = unsafe { request(Request::Candidates, at, bytes) };
    usize::try_from(found).unwrap_or(0)
}

/// A query of Trommel's that says `interrupt` sends this signal to the thread that has executed the instruction, whose handler
/// runs before the next one, and is told of the record's first word (`si_value`). The program must have a handler for the signal. 0: no more;
/// interrupts are Trommel's again, as they are in a child made by `fork`.
pub fn interrupts(signal: i32) -> Answer {
    plain(Request::Interrupts, signal as u64, 0)
}

/// Loads queries for this run, by a name: its other processes are asked them, too. They are active some milliseconds later. Where they are
/// refused, the reason is put in `error`, and a 0 after it.
pub fn load_queries(name: &str, text: &str, error: &mut [u8]) -> Answer {
    post(Posting {
        name: name.as_ptr() as u64,
        name_bytes: name.len() as u64,
        text: text.as_ptr() as u64,
        text_bytes: text.len() as u64,
        error: error.as_mut_ptr() as u64,
        room: error.len() as u64,
    })
}

/// Removes the queries of a name, or those that send to a queue.
pub fn remove_queries(name: &str) -> Answer {
    post(Posting {
        name: name.as_ptr() as u64,
        name_bytes: name.len() as u64,
        ..Posting::default()
    })
}

fn post(posting: Posting) -> Answer {
    let (at, bytes) = (&raw const posting as u64, size_of::<Posting>() as u64);
    // SAFETY: it is written to the room for the reason alone, which is the caller's to have written.
    Answer::of(unsafe { request(Request::Post, at, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_others() {
        let number = |version: u64, n: u64| Request::from_number(version << 32 | n);
        assert_eq!(number(1, 8), Some(Request::Counts));
        for wrong in [number(1, 16), number(1, 0), number(0, 1), number(2, 1)] {
            assert_eq!(wrong, None);
        }
        for answer in [
            Answer::Absent,
            Answer::Done,
            Answer::Unknown,
            Answer::Wrong,
            Answer::Unasked,
            Answer::Busy,
            Answer::Refused,
        ] {
            assert_eq!(Answer::of(answer.number()), answer);
        }
    }
}
