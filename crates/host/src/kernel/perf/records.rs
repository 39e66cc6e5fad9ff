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
}

const HEADER: usize = 8;
/// The processor's mode, among the flags.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;
/// The flag of a name that a process has by executing a program.
const BY_EXEC: u16 = 1 << 13;
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

/// A sample, taken at an interrupt of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Returns the records in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes that make no sense, or none.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next record's kind, flags and what is after its header.
    pub fn raw(&mut self) -> Option<(u32, u16, &'a [u8])> {
        let (header, _) = self.0.split_first_chunk::<HEADER>()?;
        let header = u64::from_ne_bytes(*header);
        let length = usize::from((header >> 48) as u16);
        if length < HEADER {
            return None;
        }
        let (record, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((header as u32, (header >> 32) as u16, &record[HEADER..]))
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let (kind, flags, body) = self.raw()?;
        Some(record(kind, flags, body).unwrap_or(Record {
            time: 0,
            what: What::Other,
        }))
    }
}

/// Words and halves of words of a record.
struct Members<'a>(&'a [u8]);

impl Members<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn two(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?;
        Some((word as u32, (word >> 32) as u32))
    }
}

/// Text up to a zero.
fn text(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|byte| *byte == 0).next();
    text.unwrap_or_default().to_vec()
}

fn record(kind: u32, flags: u16, body: &[u8]) -> Option<Record> {
    if kind == kind::SAMPLE {
        let sample = sample(flags, &mut Members(body))?;
        return Some(Record {
            time: sample.time,
            what: What::Sample(sample),
        });
    }
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let mut trailer = Members(trailer);
    trailer.word()?;
    let time = trailer.word()?;
    let mut members = Members(body);
    let what = match kind {
        kind::LOST => {
            members.word()?;
            What::Lost(members.word()?)
        }
        kind::LOST_SAMPLES => What::Lost(members.word()?),
        kind::THROTTLE => What::Throttled,
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

fn sample(flags: u16, members: &mut Members<'_>) -> Option<Sample> {
    let pc = members.word()?;
    let (pid, tid) = members.two()?;
    let time = members.word()?;
    let (cpu, _) = members.two()?;
    let user = match members.word()? {
        0 => None,
        _ => Some(members.word()?),
    };
    let registers = match members.word()? {
        0 => None,
        abi => {
            let mut registers = [0; REGISTERS];
            for number in ORDER {
                registers[number] = members.word()?;
            }
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
    })
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
        };
        let what = What::Sample(wanted);
        assert_eq!(all, [Record { time: 123, what }]);
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
            }
        }
    }
}
