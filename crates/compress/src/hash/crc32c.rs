//! CRC-32C of 64-bit words: by table, and by the processor's instruction where it has one.
//!
//! Problem: in software a CRC of eight bytes is eight look-ups; SSE 4.2 has an instruction for it,
//! which is not part of the x86-64 that we compile for.
//!
//! Strategy: work over a whole block is handed to [`Unit::run`], which calls it from a function that is
//! compiled for SSE 4.2. Both ways give the same numbers; a test compares them.
//!
//! The processor is asked once. A program may take the instruction away that asks (`ARCH_SET_CPUID`), and this code may be
//! executed in such a program: who injects it asks before ([`ask_processor`]).
//!
//! `unsafe`: asking the processor what it can do, and calling that function. It pays: the bench `tuples`
//! makes 262 million tuples a second of `H:crc[P256]2048` with the instruction, 123 by table.
#![allow(unsafe_code)] // reason: the CRC instruction, which a benchmark shows to pay.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// The reflected polynomial of CRC-32C (Castagnoli).
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][b]`: what byte b contributes when n bytes follow it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[n - 1][byte];
            tables[n][byte] = before >> 8 ^ tables[0][before as usize & 0xff];
            byte += 1;
        }
        n += 1;
    }
    tables
}

/// The CRC continued with the bytes of a word, least significant first. Neither inverted before nor
/// after, as the instruction does it.
pub(super) fn portable(crc: u32, word: u64) -> u32 {
    let bytes = (word ^ u64::from(crc)).to_le_bytes();
    let tables = TABLES.iter().rev().zip(bytes);
    tables.fold(0, |sum, (table, byte)| sum ^ table[byte as usize])
}

/// Something to do with a function that continues a CRC with a word.
pub(super) trait Work {
    /// Does it.
    fn work(self, crc: impl Fn(u32, u64) -> u32);
}

/// Proof that the processor has the instruction.
#[derive(Clone, Debug)]
pub(super) struct Unit(());

/// The processor's answer: [`HAS`], [`LACKS`], or 0 as long as it was not asked.
static ANSWER: AtomicU8 = AtomicU8::new(0);
const HAS: u8 = 1;
const LACKS: u8 = 2;

/// Asks the processor whether it has the instruction. It is not asked again.
#[cold]
#[inline(never)]
pub(super) fn ask_processor() -> u8 {
    let answer = if has_unit() { HAS } else { LACKS };
    ANSWER.store(answer, Relaxed);
    answer
}

#[cfg(target_arch = "x86_64")]
fn has_unit() -> bool {
    const SSE42: u32 = 1 << 20;
    #[allow(
        unused_unsafe,
        reason = "newer compilers know that every x86-64 has CPUID"
    )]
    // SAFETY: every x86-64 processor has CPUID and its leaf 1.
    let features = unsafe { core::arch::x86_64::__cpuid(1) };
    features.ecx & SSE42 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_unit() -> bool {
    false
}

impl Unit {
    /// The unit, if there is one.
    pub(super) fn detect() -> Option<Self> {
        let answer = match ANSWER.load(Relaxed) {
            0 => ask_processor(),
            answer => answer,
        };
        (answer == HAS).then_some(Self(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Unit {
    /// Does the work with the instruction.
    pub(super) fn run(&self, work: impl Work) {
        // SAFETY: a `Unit` is made only where the processor has SSE 4.2, all that `with_sse42` asks.
        unsafe { with_sse42(work) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn with_sse42(work: impl Work) {
    // A closure inherits the features of its function.
    work.work(|crc, word| core::arch::x86_64::_mm_crc32_u64(u64::from(crc), word) as u32);
}

#[cfg(not(target_arch = "x86_64"))]
impl Unit {
    /// Never called.
    pub(super) fn run(&self, work: impl Work) {
        work.work(portable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(words: &[u64]) -> u32 {
        !words.iter().fold(!0, |crc, word| portable(crc, *word))
    }

    #[test]
    fn published_vectors() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and 0 to 31.
        assert_eq!(finished(&[0; 4]), 0x8a91_36aa);
        assert_eq!(finished(&[u64::MAX; 4]), 0x62a8_ab43);
        let ascending: [u64; 4] = core::array::from_fn(|i| {
            u64::from_le_bytes(core::array::from_fn(|j| (8 * i + j) as u8))
        });
        assert_eq!(finished(&ascending), 0x46dd_794e);
    }

    #[test]
    fn the_instruction_gives_the_same() {
        struct Compare;
        impl Work for Compare {
            fn work(self, crc: impl Fn(u32, u64) -> u32) {
                let mut random = crate::random::SplitMix64::new(1);
                for _ in 0..1000 {
                    let (start, word) = (random.draw() as u32, random.draw());
                    assert_eq!(crc(start, word), portable(start, word));
                }
            }
        }
        match Unit::detect() {
            Some(unit) => unit.run(Compare),
            None => std::println!("SKIPPED: this processor has no SSE 4.2"),
        }
    }
}
