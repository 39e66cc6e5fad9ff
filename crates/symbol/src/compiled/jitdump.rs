//! Jitdump files, `jit-PID.dump`: functions with their code, as `tools/perf/Documentation/jitdump-specification.txt` of Linux describes them.
//!
//! A header is followed by records, each with its length. Functions are loaded, and may be moved. Debug and unwinding information
//! is passed over.

use super::{Compiled, Function, LARGEST, name};

const MAGIC: u32 = 0x4a69_5444;
/// Bytes of the header at least, and of a record before its members.
const HEADER: usize = 40;
const RECORD: usize = 16;
const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// Reads a jitdump file up to its end, or to what is no record. Of functions that overlap the last is kept.
pub fn jitdump(bytes: &[u8]) -> Compiled<'_> {
    let mut all = Compiled::new();
    let mut head = Members(bytes);
    let is_dump = head.half() == Some(MAGIC) && head.half().is_some();
    let length = head.half().map_or(0, |length| length as usize);
    let Some(mut rest) = bytes.get(length.max(HEADER)..).filter(|_| is_dump) else {
        return all;
    };
    while let Some((kind, members, after)) = record(rest) {
        rest = after;
        match kind {
            LOAD => {
                if let Some(function) = loaded(Members(members)) {
                    all.add(function);
                }
            }
            MOVE => {
                if let Some((from, to)) = moved(Members(members))
                    && let Some(function) = all.remove(from)
                {
                    all.add(Function {
                        start: to,
                        ..function
                    });
                }
            }
            _ => {}
        }
    }
    all
}

/// A record's kind and members, and what is after it.
fn record(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut head = Members(bytes);
    let (kind, length) = (head.half()?, head.half()? as usize);
    let (record, after) = bytes.split_at_checked(length)?;
    Some((kind, record.get(RECORD..)?, after))
}

fn loaded(mut members: Members<'_>) -> Option<Function<'_>> {
    // Process and thread, and an address that may be virtual otherwise.
    members.word()?;
    members.word()?;
    let (start, size) = (members.word()?, members.word()?);
    // The number of the function.
    members.word()?;
    let end = members.0.iter().position(|byte| *byte == 0)?;
    let (own, rest) = members.0.split_at(end);
    let code = usize::try_from(size).ok().filter(|_| size <= LARGEST);
    Some(Function {
        start,
        size,
        name: name(own),
        code: code
            .and_then(|size| rest.get(1..)?.get(..size))
            .unwrap_or_default(),
    })
}

fn moved(mut members: Members<'_>) -> Option<(u64, u64)> {
    members.word()?;
    members.word()?;
    Some((members.word()?, members.word()?))
}

/// Words and halves of words of a record.
struct Members<'a>(&'a [u8]);

impl Members<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn half(&mut self) -> Option<u32> {
        let (half, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Vec<u8> {
        let mut bytes = Vec::new();
        for half in [MAGIC, 1, HEADER as u32, 62, 0, 7, 0, 0, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes
    }

    fn record(kind: u32, words: &[u64], rest: &[u8]) -> Vec<u8> {
        let length = RECORD + 8 * words.len() + rest.len();
        let mut bytes = [kind.to_le_bytes(), (length as u32).to_le_bytes()].concat();
        bytes.extend(123_u64.to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn functions_are_loaded_with_their_code_and_moved() {
        let mut bytes = header();
        bytes.extend(record(LOAD, &[7, 0, 0x1000, 3, 1], b"one\0\x90\x90\xc3"));
        bytes.extend(record(2, &[1, 2, 3], b"lines"));
        bytes.extend(record(LOAD, &[7, 0, 0x2000, 2, 2], b"two\0\x90\xc3"));
        bytes.extend(record(MOVE, &[7, 0, 0x1000, 0x3000, 3, 1], &[]));
        bytes.extend(record(3, &[], &[]));
        let all = jitdump(&bytes);
        let told: Vec<_> = all.functions().map(|f| (f.start, f.name, f.code)).collect();
        let wanted = [
            (0x2000, &b"two"[..], &b"\x90\xc3"[..]),
            (0x3000, b"one", b"\x90\x90\xc3"),
        ];
        assert_eq!(told, wanted);
        // Cut short, the functions before the cut are there.
        assert_eq!(jitdump(&bytes[..bytes.len() - 100]).functions().count(), 1);
        assert_eq!(jitdump(b"ELF").functions().count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut all = header();
            all.extend(&bytes);
            let _ = jitdump(&bytes).functions().count();
            prop_assert!(jitdump(&all).functions().count() <= bytes.len() / RECORD);
        }

        #[test]
        fn any_records_are_read(records in prop::collection::vec((0_u32..5, prop::collection::vec(any::<u64>(), 0..8), any::<[u8; 9]>()), 0..20)) {
            let mut all = header();
            all.extend(records.iter().flat_map(|(kind, words, rest)| record(*kind, words, rest)));
            prop_assert!(jitdump(&all).functions().count() <= records.len());
        }
    }
}
