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
//! Executions are written as [`bytes`](super::bytes) says. Numbers are little-endian.

use super::Trace;
use super::execution::{Code, Region, Use};

const MAGIC: [u8; 8] = *b"TROMITR1";
const HEADER: usize = 32;
const CODE: usize = 24;
const REGION: usize = 17;
const FOOTER: usize = 4;

/// Reasons why bytes are no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Something else.
    #[error("it is no recording of instructions")]
    Foreign,
    /// Cut short, or changed.
    #[error("the recording is damaged ({0})")]
    Damaged(&'static str),
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
    use super::super::{Execution, TraceWriter};
    use super::*;
    use trommel_compress::random::SplitMix64;

    /// A loop with a stride, a random value and an exit now and then.
    fn sample(n: u64) -> (Vec<Execution>, Trace) {
        let mut writer = TraceWriter::default();
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
