//! Traces as bytes.
//!
//! ```text
//! 8 bytes       "TROMITR1"
//! 4, 4, 8, 8    instructions, regions, executions, bytes of executions
//! 24 each       instructions: pc (8), length (1), bytes (15)
//! 17 each       regions: from (8), to (8), use (1)
//! …             executions
//! 4             CRC-32 of all before
//! ```
//! An execution is a number of seven bits a byte: bit 0, it is not of the instruction that followed last time; bit
//! 1, taken; bit 2, repetitions differ from 1; bits 3 and 4, an address differs from the last one of the
//! instruction; bits 5 to 12, a word does. What is announced follows in that order: the instruction, repetitions,
//! and differences with the sign in bit 0. Numbers are little-endian.

use super::{Code, Execution, History, Region, Trace, Use};

const MAGIC: [u8; 8] = *b"TROMITR1";
const HEADER: usize = 32;
const CODE: usize = 24;
const REGION: usize = 17;
const FOOTER: usize = 4;

/// Why bytes are no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Something else.
    #[error("it is no recording of instructions")]
    Foreign,
    /// Cut short, or changed.
    #[error("the recording is damaged ({0})")]
    Damaged(&'static str),
}

const ELSEWHERE: u64 = 1;
const TAKEN: u64 = 1 << 1;
const REPEATS: u64 = 1 << 2;
const ADDRESS: u32 = 3;
const WORD: u32 = 5;

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn get_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

const fn folded(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

const fn unfolded(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Keeps an execution as the last one of its instruction.
fn remember(history: &mut [History], at: &mut usize, execution: &Execution) {
    if let Some(before) = history.get_mut(*at) {
        before.next = execution.code;
    }
    *at = execution.code as usize;
    history[*at].last = *execution;
}

/// Writes an execution.
pub(super) fn put(
    out: &mut Vec<u8>,
    history: &mut [History],
    at: &mut usize,
    execution: &Execution,
) {
    let last = history[execution.code as usize].last;
    let elsewhere = history[*at].next != execution.code;
    let mut head = if elsewhere { ELSEWHERE } else { 0 };
    head |= if execution.taken { TAKEN } else { 0 };
    head |= if execution.repeats == 1 { 0 } else { REPEATS };
    let addresses = execution.addresses.iter().zip(last.addresses);
    let words = execution.words.iter().zip(last.words);
    let differ =
        |from: u32, n: usize, new: u64, old: u64| u64::from(new != old) << (from + n as u32);
    for (n, (new, old)) in addresses.clone().enumerate() {
        head |= differ(ADDRESS, n, *new, old);
    }
    for (n, (new, old)) in words.clone().enumerate() {
        head |= differ(WORD, n, *new, old);
    }
    put_number(out, head);
    if elsewhere {
        put_number(out, execution.code.into());
    }
    if execution.repeats != 1 {
        put_number(out, execution.repeats.into());
    }
    for (new, old) in addresses.chain(words) {
        if *new != old {
            put_number(out, folded(new.wrapping_sub(old)));
        }
    }
    remember(history, at, execution);
}

/// Reads an execution; none where the bytes are none.
pub(super) fn get(bytes: &mut &[u8], history: &mut [History], at: &mut usize) -> Option<Execution> {
    let head = get_number(bytes)?;
    let code = match head & ELSEWHERE {
        0 => history.get(*at)?.next,
        _ => u32::try_from(get_number(bytes)?).ok()?,
    };
    let mut execution = history.get(code as usize)?.last;
    execution.code = code;
    execution.taken = head & TAKEN != 0;
    execution.repeats = match head & REPEATS {
        0 => 1,
        _ => u32::try_from(get_number(bytes)?).ok()?,
    };
    let values = (execution.addresses.iter_mut()).chain(&mut execution.words);
    for (n, value) in values.enumerate() {
        if head >> (ADDRESS + n as u32) & 1 != 0 {
            *value = value.wrapping_add(unfolded(get_number(bytes)?));
        }
    }
    remember(history, at, &execution);
    Some(execution)
}

impl Trace {
    /// The bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        put(&(self.code.len() as u32).to_le_bytes());
        put(&(self.regions.len() as u32).to_le_bytes());
        put(&self.executions.to_le_bytes());
        put(&(self.bytes.len() as u64).to_le_bytes());
        for code in &self.code {
            put(&code.pc.to_le_bytes());
            put(&[code.length]);
            put(&code.bytes);
        }
        for region in &self.regions {
            put(&region.from.to_le_bytes());
            put(&region.to.to_le_bytes());
            put(&[region.used as u8]);
        }
        put(&self.bytes);
        let check = crc32fast::hash(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// The trace of a file's bytes, all of which are looked at.
    ///
    /// # Errors
    /// When they are none, or not all of one.
    pub fn decode(bytes: &[u8]) -> Result<Self, TraceError> {
        use TraceError::{Damaged, Foreign};
        if !bytes.starts_with(&MAGIC) {
            return Err(Foreign);
        }
        if bytes.len() < HEADER + FOOTER {
            return Err(Damaged("cut short"));
        }
        let (body, check) = bytes.split_at(bytes.len() - FOOTER);
        if crc32fast::hash(body).to_le_bytes() != check {
            return Err(Damaged("checksum"));
        }
        let short = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| body[at + n])) as usize;
        let (instructions, regions) = (short(8), short(12));
        let [executions, length] = [16, 24].map(|at| long(&body[at..]));
        let table = instructions * CODE + regions * REGION;
        let expected = HEADER + table;
        if usize::try_from(length)
            .ok()
            .and_then(|n| n.checked_add(expected))
            != Some(body.len())
        {
            return Err(Damaged("length"));
        }
        let (code, rest) = body[HEADER..].split_at(instructions * CODE);
        let (regions, executed) = rest.split_at(regions * REGION);
        let mut trace = Self {
            code: code.chunks_exact(CODE).map(code_of).collect(),
            regions: regions.chunks_exact(REGION).map(region_of).collect(),
            executions,
            bytes: executed.to_vec(),
        };
        let mut replay = trace.replay();
        let read = replay.by_ref().count() as u64;
        if read != executions || !replay.rest().is_empty() {
            return Err(Damaged("executions"));
        }
        trace.bytes.shrink_to_fit();
        Ok(trace)
    }
}

fn long(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

fn code_of(bytes: &[u8]) -> Code {
    let mut code = Code {
        pc: long(bytes),
        length: bytes[8],
        bytes: [0; 15],
    };
    code.bytes.copy_from_slice(&bytes[9..]);
    code
}

fn region_of(bytes: &[u8]) -> Region {
    Region {
        from: long(bytes),
        to: long(&bytes[8..]),
        used: match bytes[16] {
            0 => Use::Stack,
            1 => Use::Heap,
            _ => Use::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use trommel_compress::random::SplitMix64;

    /// A loop with a stride, a random value and an exit now and then.
    fn sample(n: u64) -> (Vec<Execution>, Trace) {
        let mut writer = Writer::default();
        for pc in 0..5 {
            let code = Code {
                pc: 0x40_1000 + pc,
                length: 1,
                bytes: [0x90; 15],
            };
            writer.code(code);
        }
        let mut random = SplitMix64::new(3);
        let mut all = Vec::new();
        for i in 0..n {
            let code = if random.below(20) == 0 { 4 } else { i % 4 } as u32;
            let mut execution = Execution {
                code,
                repeats: if code == 3 { random.below(9) as u32 } else { 1 },
                taken: random.below(3) == 0,
                addresses: [0x7fff_0000 + 8 * i, 0],
                ..Execution::default()
            };
            execution.words[5] = random.draw() >> random.below(64);
            execution.words[0] = u64::MAX - i;
            writer.push(&execution);
            all.push(execution);
        }
        let region = Region {
            from: 0x7fff_0000,
            to: 0x7fff_8000,
            used: Use::Stack,
        };
        (all, writer.finish(vec![region]))
    }

    #[test]
    fn what_is_written_is_read() {
        let (all, trace) = sample(3000);
        assert!(trace.replay().eq(all));
        let read = Trace::decode(&trace.encode()).expect("its own bytes");
        assert_eq!(read, trace);
        assert_eq!(read.used(0x7fff_7fff), Some(Use::Stack));
        assert_eq!((read.used(0x7fff_8000), read.used(0)), (None, None));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = sample(50).1.encode();
        assert!(matches!(Trace::decode(b"ELF"), Err(TraceError::Foreign)));
        for cut in 8..bytes.len() {
            assert!(Trace::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Trace::decode(&bad).is_err(), "{at}");
        }
        // Even with a checksum that fits nothing panics.
        for at in 0..bytes.len() - FOOTER {
            let mut bad = bytes.clone();
            bad[at] ^= 0x81;
            let end = bad.len() - FOOTER;
            let check = crc32fast::hash(&bad[..end]).to_le_bytes();
            bad[end..].copy_from_slice(&check);
            let _ = Trace::decode(&bad);
        }
    }
}
