//! The dictionary: the meaning of exit numbers.
//!
//! The runtime describes each fragment once, when it translates it, as a *block*: its events in order
//! along the main line. The main line is the straight way through, branches not taken. Of a trace it is the way that was recorded.
//! Each exit that has events before it gets a *path*: the block, which of its main-line events were passed, and
//! the event of the exit itself, if any. So a path costs two or three words and expands to all events of
//! one pass through the fragment. The passed events are the first of the block. In a trace with several
//! ways through it, the block has the events of one way after those of the other.
//!
//! Where the target samples by itself, a path may be a *message* of the stratified sampler that the file is for.
//! The message is about the path's only event, which is its tail.
//!
//! Where acyclic paths are wanted ([`Kind::Path`]), events also say where control arrives and leaves. Each block begins with
//! [`Event::Enter`], and a [`Mark`] reports what the runtime itself does with a thread. None of these is an event of the
//! program's. Such a block has one piece: a backward jump is its last event. Where the target counts acyclic paths itself, blocks
//! begin with [`Event::Begin`] or [`Event::Resume`] instead. Then a path's meaning does not depend on what was executed before.
//!
//! Words are `u64`. A block is a header word (`events`) followed by its events. A path is a header
//! word (`block`, `events`, `tail`, `message`) followed by its tail event, if there is one. An event is
//! one word, two for those with a static address, three for an instruction.
//!
//! A record has a word for each run-time value of its events, in their order ([`Event::words`]).

use trommel_tuple::Kind;

/// An address in the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetPc(pub u64);

/// One event on a path. Addresses are run-time addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A conditional branch.
    Branch {
        /// The branch.
        pc: TargetPc,
        /// Length of the branch in bytes: `pc + len` is the fall-through.
        len: u8,
        /// Address that the branch goes to when taken.
        target: TargetPc,
        /// True if it was.
        taken: bool,
    },
    /// A direct call.
    Call {
        /// The call.
        pc: TargetPc,
        /// The call's target.
        target: TargetPc,
    },
    /// An indirect jump or call, where both are known.
    Indirect {
        /// The branch.
        pc: TargetPc,
        /// Address that the branch went to.
        target: TargetPc,
        /// True if the branch is a call.
        call: bool,
    },
    /// An event whose value is the next 64-bit word of the record: `Value`, `Type`, an indirect
    /// jump (`Edge`) or an indirect call (`Call`).
    Dynamic {
        /// Kind of the value.
        kind: Kind,
        /// The instruction.
        pc: TargetPc,
    },
    /// Event like [`Self::Dynamic`] at a place that is not profiled at the time ([`crate::converge`]). It was executed, and
    /// its value is not reported.
    Unprofiled {
        /// Kind that the value would have.
        kind: Kind,
        /// The instruction.
        pc: TargetPc,
    },
    /// Arguments that a call passes in registers, as the record's next [`ARGUMENTS`] words. The next call among the events is
    /// that call, and reports the target.
    Arguments {
        /// The call.
        pc: TargetPc,
    },
    /// Control is here: the block's first instruction.
    Enter {
        /// The first instruction.
        pc: TargetPc,
    },
    /// Control is here, at the block's first instruction, and an acyclic path begins.
    Begin {
        /// The first instruction.
        pc: TargetPc,
    },
    /// Control is at the block's first instruction in the midst of an acyclic path.
    Resume {
        /// Start of the path.
        start: TargetPc,
        /// The path's word up to here, as of a path that was left.
        word: u64,
    },
    /// Control is at the block's first instruction in the midst of an acyclic path that only the runtime knows.
    Amid {
        /// The first instruction.
        pc: TargetPc,
    },
    /// Control is here, at an instruction after a call: back from that, or otherwise. It is no event of the program's. How often
    /// a call came back is counted so.
    AfterCall {
        /// The instruction.
        pc: TargetPc,
    },
    /// The kernel has led control here: to the handler of a signal, or back from one by way of this instruction. It is no event of
    /// the program's.
    Delivered {
        /// The instruction.
        pc: TargetPc,
    },
    /// A return to a caller.
    Return {
        /// The return.
        pc: TargetPc,
    },
    /// A direct jump backward.
    Jump {
        /// The jump.
        pc: TargetPc,
        /// The jump's target.
        target: TargetPc,
    },
    /// Action of the runtime on the thread, as the record's next words.
    Marked(Mark),
    /// An instruction that was executed, whatever it is: where accesses to memory are recorded, what lies
    /// between them shows how they depend on each other. It is no event of the program's.
    Instruction {
        /// Address of the instruction.
        pc: TargetPc,
        /// Length of the instruction in bytes.
        len: u8,
        /// These, and zeros.
        bytes: [u8; MAX_INSTRUCTION],
    },
}

/// Actions of the runtime on a thread that acyclic paths depend on. Words are run-time addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mark {
    /// An instruction that has no fragment is executed: where it is.
    Arrived = 0,
    /// Same as [`Self::Arrived`], and the instruction returns to its caller.
    Called = 1,
    /// A signal handler is entered: where the thread is interrupted, and the handler's frame.
    Signal = 2,
    /// A signal handler is returned from: where the thread goes on, and the frame.
    Back = 3,
    /// The thread goes on in the midst of a path that was not recorded so far: where that begins, and its word as of one that was left.
    Resumed = 4,
    /// A path is over that is counted nowhere else: where it begins, and its word.
    Over = 5,
}

impl Mark {
    /// Every mark, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Arrived,
        Self::Called,
        Self::Signal,
        Self::Back,
        Self::Resumed,
        Self::Over,
    ];

    /// Words of its record.
    pub const fn words(self) -> usize {
        match self {
            Self::Arrived | Self::Called => 1,
            Self::Signal | Self::Back | Self::Resumed | Self::Over => 2,
        }
    }
}

/// Registers that the System V ABI passes integers and pointers in: `rdi`, `rsi`, `rdx`, `rcx`, `r8` and `r9`, in this order.
pub const GENERAL_ARGUMENTS: usize = 6;

/// Registers that the ABI passes arguments in: those, and `xmm0` to `xmm7`, of which the lower eight bytes count.
pub const ARGUMENTS: usize = GENERAL_ARGUMENTS + 8;

/// Bytes of an instruction at most.
pub const MAX_INSTRUCTION: usize = 15;

const PC_BITS: u32 = 48;
const PC_MASK: u64 = (1 << PC_BITS) - 1;
const TAG_TAKEN: u64 = 1;
const TAG_NOT_TAKEN: u64 = 2;
const TAG_CALL: u64 = 3;
const TAG_DYNAMIC: u64 = 4;
const TAG_INDIRECT: u64 = 5;
const TAG_INSTRUCTION: u64 = 6;
const TAG_ARGUMENTS: u64 = 7;
const TAG_ENTER: u64 = 8;
const TAG_RETURN: u64 = 9;
const TAG_JUMP: u64 = 10;
const TAG_MARK: u64 = 11;
const TAG_UNPROFILED: u64 = 12;
const TAG_BEGIN: u64 = 13;
const TAG_RESUME: u64 = 14;
const TAG_AFTER_CALL: u64 = 15;
/// Flag with [`TAG_BEGIN`]: no path begins.
const AMID: u8 = 1;
/// Flag with [`TAG_AFTER_CALL`]: by the kernel.
const DELIVERED: u8 = 1;

/// Events a block has at most.
pub const MAX_BLOCK_EVENTS: usize = 1 << 10;

const _: () = assert!(MAX_BLOCK_EVENTS <= 1 << (u64::BITS - 50));

/// Words an event takes at most.
pub const MAX_EVENT_WORDS: usize = 3;

impl Event {
    /// The event as words, and how many of them are meaningful.
    pub fn encode(&self) -> ([u64; MAX_EVENT_WORDS], usize) {
        let head =
            |tag: u64, extra: u8, pc: TargetPc| tag << 60 | u64::from(extra) << 52 | pc.0 & PC_MASK;
        match *self {
            Self::Branch {
                pc,
                len,
                target,
                taken,
            } => {
                let tag = if taken { TAG_TAKEN } else { TAG_NOT_TAKEN };
                ([head(tag, len, pc), target.0, 0], 2)
            }
            Self::Call { pc, target } => ([head(TAG_CALL, 0, pc), target.0, 0], 2),
            Self::Indirect { pc, target, call } => {
                ([head(TAG_INDIRECT, call.into(), pc), target.0, 0], 2)
            }
            Self::Dynamic { kind, pc } => ([head(TAG_DYNAMIC, kind as u8, pc), 0, 0], 1),
            Self::Unprofiled { kind, pc } => ([head(TAG_UNPROFILED, kind as u8, pc), 0, 0], 1),
            Self::Arguments { pc } => ([head(TAG_ARGUMENTS, 0, pc), 0, 0], 1),
            Self::Enter { pc } => ([head(TAG_ENTER, 0, pc), 0, 0], 1),
            Self::Begin { pc } => ([head(TAG_BEGIN, 0, pc), 0, 0], 1),
            Self::Amid { pc } => ([head(TAG_BEGIN, AMID, pc), 0, 0], 1),
            Self::Resume { start, word } => ([head(TAG_RESUME, 0, start), word, 0], 2),
            Self::AfterCall { pc } => ([head(TAG_AFTER_CALL, 0, pc), 0, 0], 1),
            Self::Delivered { pc } => ([head(TAG_AFTER_CALL, DELIVERED, pc), 0, 0], 1),
            Self::Return { pc } => ([head(TAG_RETURN, 0, pc), 0, 0], 1),
            Self::Jump { pc, target } => ([head(TAG_JUMP, 0, pc), target.0, 0], 2),
            Self::Marked(mark) => ([head(TAG_MARK, mark as u8, TargetPc(0)), 0, 0], 1),
            Self::Instruction { pc, len, bytes } => {
                let mut all = [0; 16];
                all[..MAX_INSTRUCTION].copy_from_slice(&bytes);
                let both = u128::from_le_bytes(all);
                let head = head(TAG_INSTRUCTION, len, pc);
                ([head, both as u64, (both >> 64) as u64], 3)
            }
        }
    }

    /// Reads the event at the start of `words`: the event and how many words it took. `None` when
    /// the words are no event.
    pub fn decode(words: &[u64]) -> Option<(Self, usize)> {
        let head = *words.first()?;
        let pc = TargetPc(head & PC_MASK);
        let extra = (head >> 52) as u8;
        let target = |words: &[u64]| words.get(1).copied().map(TargetPc);
        Some(match head >> 60 {
            tag @ (TAG_TAKEN | TAG_NOT_TAKEN) => {
                let taken = tag == TAG_TAKEN;
                (
                    Self::Branch {
                        pc,
                        len: extra,
                        target: target(words)?,
                        taken,
                    },
                    2,
                )
            }
            TAG_CALL => (
                Self::Call {
                    pc,
                    target: target(words)?,
                },
                2,
            ),
            TAG_INDIRECT => (
                Self::Indirect {
                    pc,
                    target: target(words)?,
                    call: extra != 0,
                },
                2,
            ),
            TAG_DYNAMIC => (
                Self::Dynamic {
                    kind: Kind::from_number(extra)?,
                    pc,
                },
                1,
            ),
            TAG_UNPROFILED => (
                Self::Unprofiled {
                    kind: Kind::from_number(extra)?,
                    pc,
                },
                1,
            ),
            TAG_ARGUMENTS => (Self::Arguments { pc }, 1),
            TAG_ENTER => (Self::Enter { pc }, 1),
            TAG_AFTER_CALL if extra == DELIVERED => (Self::Delivered { pc }, 1),
            TAG_AFTER_CALL => (Self::AfterCall { pc }, 1),
            TAG_BEGIN if extra == AMID => (Self::Amid { pc }, 1),
            TAG_BEGIN => (Self::Begin { pc }, 1),
            TAG_RESUME => {
                let word = *words.get(1)?;
                (Self::Resume { start: pc, word }, 2)
            }
            TAG_RETURN => (Self::Return { pc }, 1),
            TAG_JUMP => (
                Self::Jump {
                    pc,
                    target: target(words)?,
                },
                2,
            ),
            TAG_MARK => (Self::Marked(*Mark::ALL.get(usize::from(extra))?), 1),
            TAG_INSTRUCTION => {
                let both = u128::from(*words.get(1)?) | u128::from(*words.get(2)?) << 64;
                let bytes = *both.to_le_bytes().first_chunk()?;
                let len = extra.min(MAX_INSTRUCTION as u8);
                (Self::Instruction { pc, len, bytes }, 3)
            }
            _ => return None,
        })
    }

    /// The instruction; address 0 where it is of none.
    pub const fn pc(&self) -> TargetPc {
        match *self {
            Self::Branch { pc, .. }
            | Self::Call { pc, .. }
            | Self::Indirect { pc, .. }
            | Self::Dynamic { pc, .. }
            | Self::Unprofiled { pc, .. }
            | Self::Arguments { pc }
            | Self::Enter { pc }
            | Self::AfterCall { pc }
            | Self::Delivered { pc }
            | Self::Begin { pc }
            | Self::Amid { pc }
            | Self::Resume { start: pc, .. }
            | Self::Return { pc }
            | Self::Jump { pc, .. }
            | Self::Instruction { pc, .. } => pc,
            Self::Marked(_) => TargetPc(0),
        }
    }

    /// Returns the address that a branch leads to, taken or not.
    pub const fn branches_to(pc: TargetPc, len: u8, target: TargetPc, taken: bool) -> TargetPc {
        match taken {
            true => target,
            false => TargetPc(pc.0 + len as u64),
        }
    }

    /// Returns the number of words of a record that belong to this event.
    pub const fn words(&self) -> usize {
        match self {
            Self::Dynamic { .. } => 1,
            Self::Arguments { .. } => ARGUMENTS,
            Self::Marked(mark) => mark.words(),
            _ => 0,
        }
    }
}

/// Set of the events of a block that were passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// The first of them, below [`MAX_BLOCK_EVENTS`].
    pub first: u16,
    /// The one after the last.
    pub end: u16,
}

impl Passed {
    /// The block's first `events`.
    pub const fn first(events: u16) -> Self {
        Self {
            first: 0,
            end: events,
        }
    }

    /// Returns whether there are none.
    pub const fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

/// A path's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathHeader {
    /// Word offset of the block.
    pub block: u32,
    /// Events of the block that were passed before the exit.
    pub passed: Passed,
    /// True if a tail event follows.
    pub tail: bool,
    /// True if it is a message.
    pub message: bool,
}

impl PathHeader {
    /// The header as a word.
    pub const fn encode(self) -> u64 {
        let flags = (self.tail as u64) | (self.message as u64) << 1;
        let first = self.passed.first as u64;
        self.block as u64 | (self.passed.end as u64) << 32 | flags << 48 | first << 50
    }

    /// The header of a word.
    pub const fn decode(word: u64) -> Self {
        Self {
            block: word as u32,
            passed: Passed {
                first: (word >> 50) as u16,
                end: (word >> 32) as u16,
            },
            tail: word >> 48 & 1 != 0,
            message: word >> 49 & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip() {
        let pc = TargetPc(0x7fff_f7fe_1234);
        for event in [
            Event::Branch {
                pc,
                len: 6,
                target: TargetPc(0x7fff_f7fe_1000),
                taken: true,
            },
            Event::Branch {
                pc,
                len: 2,
                target: TargetPc(0xffff_ffff_ff60_0000),
                taken: false,
            },
            Event::Call {
                pc,
                target: TargetPc(0x40_1000),
            },
            Event::Indirect {
                pc,
                target: TargetPc(0x40_1000),
                call: true,
            },
            Event::Dynamic {
                kind: Kind::Value,
                pc,
            },
            Event::Dynamic {
                kind: Kind::Type,
                pc,
            },
            Event::Unprofiled {
                kind: Kind::Value,
                pc,
            },
            Event::Arguments { pc },
            Event::Enter { pc },
            Event::AfterCall { pc },
            Event::Delivered { pc },
            Event::Begin { pc },
            Event::Amid { pc },
            Event::Resume {
                start: pc,
                word: 2 << 62 | 0b1011,
            },
            Event::Return { pc },
            Event::Jump {
                pc,
                target: TargetPc(0x40_1000),
            },
            Event::Marked(Mark::Back),
            Event::Instruction {
                pc,
                len: 15,
                bytes: *b"fifteen bytes.\xff",
            },
        ] {
            let (words, n) = event.encode();
            assert_eq!(Event::decode(&words[..n]), Some((event, n)));
            assert_eq!(Event::decode(&words[..n - 1]), None, "a cut event is none");
        }
        assert_eq!(Event::decode(&[0]), None);
        let last = [u64::MAX];
        let after_call = Event::AfterCall {
            pc: TargetPc(u64::MAX >> 16),
        };
        assert_eq!(
            Event::decode(&last),
            Some((after_call, 1)),
            "no tag is left"
        );
    }

    #[test]
    fn headers_round_trip() {
        for (tail, message) in [(true, false), (true, true), (false, false)] {
            let header = PathHeader {
                block: 0xdead_beef,
                passed: Passed {
                    first: 0x3fe,
                    end: 0x3ff,
                },
                tail,
                message,
            };
            assert_eq!(PathHeader::decode(header.encode()), header);
        }
    }
}
