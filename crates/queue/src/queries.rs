//! Relational queries between host and target: the program that the host hands over, the tags of code, what
//! the target counts, and messages.
//!
//! The program is the assembled image of `trommel_query` without its rules for tags. The rules name modules
//! and functions, which the host knows. When the target reaches new code it reports the region to the host
//! and waits. The host gives the ranges with tags in it, in the order of the rules. If several hold an
//! address, the last one counts. Counts are in shared memory, so they are exact however the program ends.
//!
//! # Changes
//! Programs come and go while the process runs: there are [`LOADS`] places for them, each a [`Queries`]. The host fills a place and
//! then writes the number of the load, or writes 0 to take the load away. Then it asks the target by [`Queries::changes`] of the
//! first place. The target's threads go on in code with other probes. When no thread is in code with probes of a load that was
//! taken away, the target says so in [`Queries::gone`]. The host reads the last messages, and then may fill the place again.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a program without rules at most, as words.
pub const PROGRAM_WORDS: usize = 256;
/// Table entries of a program.
pub const ENTRIES: usize = 35;
/// Instructions of a program at most.
pub const INSTRUCTIONS: usize = 128;
/// Programs that a process has at a time, at most.
pub const LOADS: usize = 8;
/// Value of [`Queries::ways`]: there was no room for counts of ways, so the engine decides.
pub const NO_WAYS: u32 = u32::MAX;
/// Ranges of code with tags that there can be.
pub const MAX_RANGES: usize = 1 << 15;
/// Value of [`Queries::tagged`] where nothing is asked: there are more ranges than there is room for.
pub const EVERYTHING: u32 = 2;
/// Words of a message at most.
pub const MESSAGE_WORDS: usize = 7;

const _: () = assert!(MESSAGE_WORDS < 8 && LOADS <= 8);

/// Ranks of rates that there can be.
pub const RANKS: u8 = 32;

/// Query program of a process, and its counts.
#[repr(C, align(64))]
pub struct Queries {
    /// Bytes of the program; 0: nothing is asked. The host's to write.
    pub bytes: AtomicU32,
    /// Number of the load; 0: there is none, or it is to go. The host's to write, after all else of it.
    pub id: AtomicU32,
    /// Number of the load whose probes may be in code; 0: none. The target's to write.
    pub put: AtomicU32,
    /// Number of the last load whose probes no thread executes any more. The target's to write.
    pub gone: AtomicU32,
    /// Number of the first way of its trees in [`ThreadPage::ways`](crate::thread_page::ThreadPage::ways), or [`NO_WAYS`]. The
    /// host's to write.
    pub ways: AtomicU32,
    /// Table entries, by bit, that are not asked about any more. The host's to write.
    pub off: AtomicU64,
    /// Not 0: programs may come and go. Of the first place. The host's to write.
    pub changing: AtomicU32,
    /// Number of changes so far. Of the first place. The host's to write.
    pub changes: AtomicU32,
    /// Number of changes that the target has made. Of the first place. The target's to write.
    pub heeded: AtomicU32,
    /// The thread, as the target sees it, that may be in probes of what went, and that the host should call; 0: none. Of the first
    /// place. The target's to write.
    pub calls: AtomicU32,
    /// Not 0: some code has tags, and the host is to be asked about new code. Where nothing is asked, tags mark the selected code,
    /// and no other code has events. [`EVERYTHING`]: all code may be selected. The host's to write.
    pub tagged: AtomicU32,
    /// Seed of random numbers. The host's to write.
    pub seed: AtomicU64,
    /// Number of times that threads have asked the host to process all records so far: for interrupts.
    pub asked: AtomicU32,
    /// Futex: up to which of those it has.
    pub answered: AtomicU32,
    /// Futex. 1: a thread of the program's posts a request about queries ([`Posted`]). Of the first place.
    pub posting: AtomicU32,
    /// Number of requests posted so far. Of the first place.
    pub posted: AtomicU32,
    /// Futex: up to which of those there is a reply. Of the first place. The host's to write.
    pub replied: AtomicU32,
    /// The program. The host's to write.
    pub program: [AtomicU64; PROGRAM_WORDS],
    /// Ranges with tags, so far. The host's to write, after the ranges.
    pub ranges: AtomicU32,
    /// Not 0: counts are written for each window, and not added up here. Of the first place. The host's to write.
    pub by_window: AtomicU32,
    /// Rates of `every auto` are rehearsed, and not what costs say. The host's to write.
    pub rehearsed: AtomicU32,
    /// Budget that all queries with `every auto` have together, in 65536ths of a thread's time; 0: each its own. Of the first place.
    /// The host's to write.
    pub together: AtomicU32,
    /// Thread pages that may have counts of ways: those below.
    pub pages: AtomicU32,
    /// Counts of executions, by table entry, but those that are counted by ways.
    pub seen: [Seen; ENTRIES],
    /// Time that queries with `every auto` took, by the first entry of each.
    pub paid: [Paid; ENTRIES],
    /// Counts of actions, by instruction.
    pub done: [Acted; INSTRUCTIONS],
    /// The ranges. The host's to write.
    pub range: [Range; MAX_RANGES],
}

/// Words of the texts of a request at most.
pub const POSTED_WORDS: usize = 2048;

/// A request of the program's about queries, and the reply. One at a time: who has set [`Queries::posting`] writes the request and then asks by
/// [`Queries::posted`]; the host then writes the reply.
#[repr(C, align(64))]
pub struct Posted {
    /// Bytes of the name, with which the texts begin.
    pub name: AtomicU32,
    /// Bytes of the queries, which follow, plus one; 0: the queries of that name, or that queue, are to be removed.
    pub text: AtomicU32,
    /// Not 0: the request was refused, for a reason with so many bytes, which is in place of the texts.
    pub refused: AtomicU32,
    /// The texts.
    pub words: [AtomicU64; POSTED_WORDS],
}

impl Posted {
    /// Bytes of the texts at most.
    pub const BYTES: usize = 8 * POSTED_WORDS;

    /// Writes text from byte `at` on, as far as there is room.
    pub fn put(&self, at: usize, text: &[u8]) {
        for (n, &byte) in text.iter().enumerate() {
            let Some(word) = self.words.get((at + n) / 8) else {
                return;
            };
            let shift = (at + n) % 8 * 8;
            let others = word.load(Relaxed) & !(0xff << shift);
            word.store(others | u64::from(byte) << shift, Relaxed);
        }
    }

    /// Returns the byte `at` of the texts; 0 after the last.
    pub fn byte(&self, at: usize) -> u8 {
        let word = self.words.get(at / 8);
        word.map_or(0, |word| (word.load(Relaxed) >> (at % 8 * 8)) as u8)
    }
}

/// Executions of a class.
#[repr(C)]
pub struct Seen {
    /// Executions that countdowns have reached, including the one that each led to.
    pub executed: AtomicU64,
    /// Executions of which a record was made.
    pub profiled: AtomicU64,
    /// Executions that some action of their query was done for.
    pub acted: AtomicU64,
}

/// Time that a query with `every auto` took.
#[repr(C)]
pub struct Paid {
    /// Ticks that records and countdowns took.
    pub ticks: AtomicU64,
    /// Ticks of threads in which they did.
    pub of: AtomicU64,
}

/// Actions of a query instruction.
#[repr(C)]
pub struct Acted {
    /// Messages sent.
    pub sent: AtomicU64,
    /// Messages sent to queues that the program serves itself.
    pub served: AtomicU64,
    /// Messages dropped, as their queue was full.
    pub dropped: AtomicU64,
    /// Records counted.
    pub counted: AtomicU64,
    /// Executions that those stand for.
    pub counted_for: AtomicU64,
    /// Interrupts.
    pub interrupted: AtomicU64,
}

/// Run-time addresses of code with a tag.
#[repr(C)]
pub struct Range {
    /// The first.
    pub start: AtomicU64,
    /// After the last.
    pub end: AtomicU64,
    /// The tag.
    pub tag: AtomicU64,
}

/// Meaning of a count of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Executions of the instructions of a table entry, but those that are counted by ways.
    Executed,
    /// Executions of a table entry of which a record was made.
    Profiled,
    /// Executions of a table entry that some action was done for.
    Acted,
    /// Executions that went a way of the program's trees.
    Way,
    /// Messages of an instruction.
    Sent,
    /// Messages of an instruction that were dropped.
    Dropped,
    /// Records that an instruction has counted.
    Counted,
}

impl Counted {
    const ALL: [Self; 7] = [
        Self::Executed,
        Self::Profiled,
        Self::Acted,
        Self::Way,
        Self::Sent,
        Self::Dropped,
        Self::Counted,
    ];
}

/// A count of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowCount {
    /// Place of the program.
    pub load: u8,
    /// Meaning.
    pub what: Counted,
    /// Number of the table entry, way or instruction.
    pub number: u8,
    /// The count.
    pub count: u32,
}

impl WindowCount {
    /// The word.
    pub const fn encode(self) -> u64 {
        (self.load as u64) << 48
            | (self.what as u64) << 40
            | (self.number as u64) << 32
            | self.count as u64
    }

    /// The count of a word, if it is one.
    pub fn decode(word: u64) -> Option<Self> {
        let load = u8::try_from(word >> 48).ok()?;
        let what = usize::from((word >> 40) as u8);
        Some(Self {
            load: (usize::from(load) < LOADS).then_some(load)?,
            what: *Counted::ALL.get(what)?,
            number: (word >> 32) as u8,
            count: word as u32,
        })
    }
}

/// Sort of a query's record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sort {
    /// A message.
    Message,
    /// An interrupt of no queue: `interrupt`.
    Interrupt,
    /// An interrupt for which the thread waits: `interrupt sync`.
    Synchronous,
}

/// Number that stands in place of the exit number in the record of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The instruction that sends it.
    pub at: u8,
    /// The queue.
    pub queue: u8,
    /// Words that follow.
    pub words: u8,
    /// Place of its program.
    pub load: u8,
    /// Under `every auto`, the rank of the rate in force; else 0.
    pub rank: u8,
    /// Sort of the record.
    pub sort: Sort,
}

impl Header {
    /// Path numbers are smaller.
    pub(crate) const MESSAGE: u32 = 1 << 31;

    /// The number.
    pub const fn encode(self) -> u32 {
        Self::MESSAGE
            | self.queue as u32
            | (self.at as u32) << 8
            | (self.words as u32) << 16
            | (self.load as u32) << 19
            | (self.rank as u32) << 24
            | (self.sort as u32) << 29
    }

    /// The header of a number, if it is one.
    pub const fn decode(number: u32) -> Option<Self> {
        let header = Self {
            at: (number >> 8) as u8,
            queue: number as u8,
            words: (number >> 16 & 7) as u8,
            load: (number >> 19 & 7) as u8,
            rank: (number >> 24) as u8 & (RANKS - 1),
            sort: match number >> 29 & 3 {
                0 => Sort::Message,
                1 => Sort::Interrupt,
                _ => Sort::Synchronous,
            },
        };
        let is_one = header.encode() == number
            && (header.at as usize) < INSTRUCTIONS
            && header.words as usize <= MESSAGE_WORDS;
        if is_one { Some(header) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_windows_are_what_they_were() {
        for what in Counted::ALL {
            for (load, number, count) in [(0, 0, 0), (7, 255, 1), (3, 127, u32::MAX)] {
                let one = WindowCount {
                    load,
                    what,
                    number,
                    count,
                };
                assert_eq!(WindowCount::decode(one.encode()), Some(one));
            }
        }
        for word in [7 << 40, u64::MAX, 8 << 48] {
            assert_eq!(WindowCount::decode(word), None, "{word:x}");
        }
    }

    #[test]
    fn headers_are_no_path_numbers() {
        for (at, queue, words, load, rank) in
            [(0, 0, 0, 0, 0), (127, 255, 7, 7, 31), (3, 1, 2, 4, 5)]
        {
            for sort in [Sort::Message, Sort::Interrupt, Sort::Synchronous] {
                let header = Header {
                    at,
                    queue,
                    words,
                    load,
                    rank,
                    sort,
                };
                assert_eq!(Header::decode(header.encode()), Some(header));
            }
        }
        for number in [
            0,
            crate::MAX_PATHS as u32,
            crate::COUNT_MARK,
            1 << 31 | 1 << 22,
            1 << 31 | 3 << 29,
        ] {
            assert_eq!(Header::decode(number), None, "{number:x}");
        }
    }
}
