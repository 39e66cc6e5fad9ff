//! Records in a ring: samples, and changes of processes that explain them.
//!
//! A record is a header (kind, flags, bytes in all) and the members of its kind, as `perf_event_open(2)` lists them. The members of
//! a sample are chosen when the event is opened. Here they are those of [`crate::kernel::perf::Attributes::of_machine`].
//!
//! The kernel writes the records, but names in them may come from any process. No length is believed. A member that a record is too
//! short for is absent. A record that makes no sense ends the run ([`Records`] then has a rest).

/// Kinds of records.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const SWITCH: u32 = 14;
}

const HEADER: usize = 8;
/// The processor's mode, among the flags.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;
/// The flag of a name that a process has by executing a program.
const BY_EXEC: u16 = 1 << 13;
/// The flag of a thread that gives up its processor, and that of one which could have run on.
const SWITCHED_OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;
/// Members at the end of what is no sample: process and thread, time, CPU.
const TRAILER: usize = 24;
/// Registers of a sample.
pub const REGISTERS: usize = 16;
/// The kernel's word for registers of a 64-bit program.
const ABI_64: u64 = 2;

/// General registers in the order of the kernel's bits, by the number that instructions have for them.
const ORDER: [usize; REGISTERS] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// The kernel's registers that are sampled: the general ones.
pub const GENERAL: u64 = 0x00ff_00ff;
/// The program counter among them.
pub const COUNTER: u64 = 1 << 8;

/// The processor's mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Code of a program.
    User,
    /// The kernel.
    Kernel,
    /// A guest, or a hypervisor.
    Other,
}

/// A program's registers and stack at a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// The program's next instruction.
    pub pc: u64,
    /// General registers by number.
    pub registers: [u64; REGISTERS],
    /// Memory from the stack pointer on.
    pub bytes: Vec<u8>,
    /// Says whether the stack may go on after these bytes.
    pub is_cut: bool,
}

/// A sample, taken at an interrupt of the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The processor's mode at the interrupt.
    pub mode: Mode,
    /// The instruction that would have been executed next.
    pub pc: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// The processor.
    pub cpu: u32,
    /// The address at which the program entered the kernel, or `pc` outside the kernel; `None` of the kernel's own threads.
    pub user: Option<u64>,
    /// General registers by number (`rax`, `rcx`, `rdx`, `rbx`, `rsp`, …), where the code has 64 bits.
    pub registers: Option<[u64; REGISTERS]>,
    /// Callers in the kernel, innermost first: `pc`, and where each call returns to.
    pub kernel: Vec<u64>,
    /// The program's stack, where stacks are recorded and it is one of 64-bit code.
    pub stack: Option<Box<Stack>>,
}

/// A mapping of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// The process.
    pub pid: u32,
    /// Its addresses.
    pub range: std::ops::Range<u64>,
    /// Offset of its start in the file.
    pub offset: u64,
    /// The file's inode; 0 for none.
    pub inode: u64,
    /// The file's path, or a name in brackets or after two slashes.
    pub path: Vec<u8>,
}

/// The event that a record reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A sample.
    Sample(Sample),
    /// A process has code there now.
    Map(Map),
    /// A thread has a name.
    Name {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Its name.
        name: Vec<u8>,
        /// The name is from executing a program.
        by_exec: bool,
    },
    /// A thread began.
    Fork {
        /// Its process.
        pid: u32,
        /// The process that made it.
        parent: u32,
    },
    /// A thread ended.
    Exit {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// A thread has got a processor, or has given it up.
    Switch {
        /// The thread.
        tid: u32,
        /// It was given up.
        out: bool,
        /// The thread could have run on.
        preempted: bool,
    },
    /// So many records were lost: they had no room.
    Lost(u64),
    /// The kernel has stopped the clock for the rest of a tick, as samples came too often.
    Throttled,
    /// Something else.
    Other,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time in nanoseconds of the monotonic clock.
    pub time: u64,
    /// The event.
    pub what: What,
}

/// The records in bytes that a ring gave.
pub struct Records<'a> {
    bytes: &'a [u8],
    stacks: bool,
}

impl<'a> Records<'a> {
    /// Returns the records in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            stacks: false,
        }
    }

    /// Returns the records in `bytes`, of samples with stacks.
    pub const fn with_stacks(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            stacks: true,
        }
    }

    /// Returns the bytes that make no sense, or none.
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next record's kind, flags and what is after its header.
    pub fn raw(&mut self) -> Option<(u32, u16, &'a [u8])> {
        let (header, _) = self.bytes.split_first_chunk::<HEADER>()?;
        let header = u64::from_ne_bytes(*header);
        let length = usize::from((header >> 48) as u16);
        if length < HEADER {
            return None;
        }
        let (record, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some((header as u32, (header >> 32) as u16, &record[HEADER..]))
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let (kind, flags, body) = self.raw()?;
        Some(record(kind, flags, body, self.stacks).unwrap_or(Record {
            time: 0,
            what: What::Other,
        }))
    }
}

/// Words and halves of words of a record.
struct Members<'a>(&'a [u8]);

impl<'a> Members<'a> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn two(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?;
        Some((word as u32, (word >> 32) as u32))
    }

    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Text up to a zero.
fn text(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|byte| *byte == 0).next();
    text.unwrap_or_default().to_vec()
}

fn record(kind: u32, flags: u16, body: &[u8], stacks: bool) -> Option<Record> {
    if kind == kind::SAMPLE {
        let sample = sample(flags, &mut Members(body), stacks)?;
        return Some(Record {
            time: sample.time,
            what: What::Sample(sample),
        });
    }
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let mut trailer = Members(trailer);
    let (_, of_thread) = trailer.two()?;
    let time = trailer.word()?;
    let mut members = Members(body);
    let what = match kind {
        kind::LOST => {
            members.word()?;
            What::Lost(members.word()?)
        }
        kind::LOST_SAMPLES => What::Lost(members.word()?),
        kind::THROTTLE => What::Throttled,
        kind::SWITCH => What::Switch {
            tid: of_thread,
            out: flags & SWITCHED_OUT != 0,
            preempted: flags & PREEMPTED != 0,
        },
        kind::COMM => {
            let (pid, tid) = members.two()?;
            What::Name {
                pid,
                tid,
                name: text(members.0),
                by_exec: flags & BY_EXEC != 0,
            }
        }
        kind::FORK => {
            let (pid, parent) = members.two()?;
            What::Fork { pid, parent }
        }
        kind::EXIT => {
            let (pid, _) = members.two()?;
            let (tid, _) = members.two()?;
            What::Exit { pid, tid }
        }
        kind::MMAP2 => What::Map(map(&mut members)?),
        _ => What::Other,
    };
    Some(Record { time, what })
}

fn map(members: &mut Members<'_>) -> Option<Map> {
    let (pid, _) = members.two()?;
    let (start, length, offset) = (members.word()?, members.word()?, members.word()?);
    // The device's number; then the inode, its generation, and rights.
    members.word()?;
    let inode = members.word()?;
    members.word()?;
    members.word()?;
    Some(Map {
        pid,
        range: start..start.checked_add(length)?,
        offset,
        inode,
        path: text(members.0),
    })
}

fn sample(flags: u16, members: &mut Members<'_>, stacks: bool) -> Option<Sample> {
    let pc = members.word()?;
    let (pid, tid) = members.two()?;
    let time = members.word()?;
    let (cpu, _) = members.two()?;
    let kernel = match stacks {
        true => chain(members)?,
        false => Vec::new(),
    };
    let (user, stack) = match stacks {
        true => with_stack(members)?,
        false => match members.word()? {
            0 => (None, None),
            _ => (Some(members.word()?), None),
        },
    };
    let registers = match members.word()? {
        0 => None,
        abi => {
            let registers = general(members, |_| None)?;
            (abi == ABI_64).then_some(registers)
        }
    };
    Some(Sample {
        mode: match flags & MODE {
            MODE_KERNEL => Mode::Kernel,
            MODE_USER => Mode::User,
            _ => Mode::Other,
        },
        pc,
        pid,
        tid,
        time,
        cpu,
        user,
        registers,
        kernel,
        stack,
    })
}

/// Callers in the kernel.
fn chain(members: &mut Members<'_>) -> Option<Vec<u64>> {
    /// Numbers from this one on are no addresses: they say whose those after them are.
    const MARKS: u64 = -4095_i64 as u64;
    let count = members.word()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let address = members.word()?;
        if address < MARKS {
            all.push(address);
        }
    }
    Some(all)
}

/// General registers, as the kernel orders them; `between` takes what follows the first eight.
fn general(
    members: &mut Members<'_>,
    mut between: impl FnMut(&mut Members<'_>) -> Option<()>,
) -> Option<[u64; REGISTERS]> {
    let mut registers = [0; REGISTERS];
    for (n, number) in ORDER.into_iter().enumerate() {
        if n == REGISTERS / 2 {
            between(members);
        }
        registers[number] = members.word()?;
    }
    Some(registers)
}

/// The program's next instruction, and its stack where that is known.
fn with_stack(members: &mut Members<'_>) -> Option<(Option<u64>, Option<Box<Stack>>)> {
    let abi = members.word()?;
    let mut pc = None;
    let mut registers = [0; REGISTERS];
    if abi != 0 {
        registers = general(members, |members| {
            pc = members.word();
            pc.map(drop)
        })?;
    }
    let size = members.word()?;
    if size == 0 {
        return Some((pc, None));
    }
    let bytes = members.bytes(size)?;
    let there = members.word()?.min(size);
    let stack = pc.filter(|_| abi == ABI_64).map(|pc| {
        Box::new(Stack {
            pc,
            registers,
            bytes: bytes[..there as usize].to_vec(),
            is_cut: there == size,
        })
    });
    Some((pc, stack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(kind: u32, flags: u16, words: &[u64]) -> Vec<u8> {
        let length = (HEADER + 8 * words.len()) as u64;
        let header = u64::from(kind) | u64::from(flags) << 32 | length << 48;
        let words = std::iter::once(&header).chain(words);
        words.flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_sample_has_registers_by_the_number_that_instructions_have_for_them() {
        let mut words = vec![0x40_1000, 7 | 9 << 32, 123, 1, 2, 0x7f00, 2];
        // rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15, as the kernel orders them.
        words.extend([0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15]);
        let bytes = bytes(kind::SAMPLE, MODE_KERNEL, &words);
        let all: Vec<Record> = Records::new(&bytes).collect();
        let wanted = Sample {
            mode: Mode::Kernel,
            pc: 0x40_1000,
            pid: 7,
            tid: 9,
            time: 123,
            cpu: 1,
            user: Some(0x7f00),
            registers: Some(std::array::from_fn(|n| n as u64)),
            kernel: Vec::new(),
            stack: None,
        };
        let what = What::Sample(wanted);
        assert_eq!(all, [Record { time: 123, what }]);
    }

    #[test]
    fn a_sample_with_a_stack_has_what_was_captured_of_it() {
        let mut words = vec![0xffff_8000_0000_1234, 7 | 9 << 32, 123, 1];
        // A mark of the kernel's, and two addresses.
        words.extend([
            3,
            -128_i64 as u64,
            0xffff_8000_0000_1234,
            0xffff_8000_0000_2000,
        ]);
        words.push(2);
        words.extend([0, 3, 1, 2, 6, 7, 5, 4, 0x7f00, 8, 9, 10, 11, 12, 13, 14, 15]);
        // Of 24 bytes, 16 were there.
        words.extend([24, 0x11, 0x22, 0x33, 16]);
        words.push(0);
        let bytes = bytes(kind::SAMPLE, MODE_KERNEL, &words);
        let all: Vec<Record> = Records::with_stacks(&bytes).collect();
        let What::Sample(sample) = &all[0].what else {
            panic!("{all:?}");
        };
        let stack = sample.stack.as_deref().expect("a stack");
        assert_eq!(stack.registers, std::array::from_fn(|n| n as u64));
        assert_eq!(
            (stack.pc, sample.user, stack.is_cut),
            (0x7f00, Some(0x7f00), false)
        );
        assert_eq!(
            stack.bytes,
            [0x11_u64.to_ne_bytes(), 0x22_u64.to_ne_bytes()].concat()
        );
        assert_eq!(
            sample.kernel,
            [0xffff_8000_0000_1234, 0xffff_8000_0000_2000]
        );
    }

    #[test]
    fn names_and_maps_are_read_up_to_their_zero() {
        let name = u64::from_ne_bytes(*b"cc1\0xxxx");
        let mut all = bytes(kind::COMM, BY_EXEC, &[5 | 6 << 32, name, 5, 77, 0]);
        let path = u64::from_ne_bytes(*b"/bin/x\0\0");
        let map = [5, 0x1000, 0x2000, 0x3000, 8, 42, 0, 5, path, 5, 78, 0];
        all.extend(bytes(kind::MMAP2, 0, &map));
        all.extend(bytes(kind::LOST, 0, &[1, 31, 5, 79, 0]));
        let all: Vec<Record> = Records::new(&all).collect();
        assert_eq!(
            all[0],
            Record {
                time: 77,
                what: What::Name {
                    pid: 5,
                    tid: 6,
                    name: b"cc1".to_vec(),
                    by_exec: true
                }
            }
        );
        let What::Map(map) = &all[1].what else {
            panic!("{all:?}");
        };
        assert_eq!((map.range.clone(), map.inode), (0x1000..0x3000, 42));
        assert_eq!(map.path, b"/bin/x");
        assert_eq!((all[2].time, &all[2].what), (79, &What::Lost(31)));
    }

    proptest! {
        #[test]
        fn any_bytes_end(all in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut records = Records::new(&all);
            let read = records.by_ref().count();
            prop_assert!(read <= all.len() / HEADER);
            prop_assert!(records.rest().len() < all.len() || read == 0);
        }

        /// Headers that make sense, with anything after them: each is a record, and none reads into the next.
        #[test]
        fn any_members_are_read(
            all in prop::collection::vec((0_u32..20, any::<u16>(), prop::collection::vec(any::<u64>(), 0..40)), 0..20),
        ) {
            let whole: Vec<u8> = all.iter().flat_map(|(kind, flags, words)| bytes(*kind, *flags, words)).collect();
            let together: Vec<Record> = Records::new(&whole).collect();
            prop_assert_eq!(together.len(), all.len());
            for ((kind, flags, words), record) in all.iter().zip(together) {
                let alone = bytes(*kind, *flags, words);
                prop_assert_eq!(Records::new(&alone).next(), Some(record));
                prop_assert!(Records::with_stacks(&alone).next().is_some());
            }
        }
    }
}
