//! The paper's hash with its folding worked in.
//!
//! Problem: [`Randomize::word`] and [`xor_fold`](super::xor_fold) are sixteen look-ups, two words
//! put together and a loop, for each table.
//!
//! Strategy: after the look-up everything is linear over xor. So the folded contribution of byte
//! `b` at position `i` is a table entry, for all lanes of a word at once, and an index is the xor of
//! sixteen entries. Most of those repeat from event to event: the six upper bytes of the pc name a
//! module and 64 KiB of it, the upper half of a value is zero, a sign or a memory region. Their xor
//! is remembered in two small direct-mapped memos, which leaves six look-ups.
//!
//! Why no vector instructions: a gather costs more than the loads it stands for on the machines at
//! hand (11 ns for eight), and a byte table in registers more than four loads (docs/design/history-compress.md).

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::Tuple;

use super::lanes::Lanes;
use super::paper::{Randomize, xor_fold};

/// Bytes of the pc, from the lowest, that are looked up each time.
const LOW_PC_BYTES: usize = 2;
/// Bytes of the value, from the lowest, that are looked up each time.
const LOW_VALUE_BYTES: usize = 4;
/// Entries of a memo, as bits.
const MEMO_BITS: u32 = 7;

/// Contributions by position, pc bytes first, least significant byte first.
type Contributions<W> = [[W; 256]; 16];

/// Contributions of upper bytes, by a hash of these.
#[derive(Clone, Debug)]
struct Memo<W> {
    keys: [u64; 1 << MEMO_BITS],
    parts: [W; 1 << MEMO_BITS],
}

impl<W: Lanes> Memo<W> {
    fn new() -> Box<Self> {
        // Upper bytes are fewer than eight: no key is all ones.
        Box::new(Self {
            keys: [u64::MAX; 1 << MEMO_BITS],
            parts: [W::ZERO; 1 << MEMO_BITS],
        })
    }
}

/// Hash functions with their folding worked in.
#[derive(Clone, Debug)]
pub struct Folded<W> {
    contributions: Box<Contributions<W>>,
    pcs: Box<Memo<W>>,
    values: Box<Memo<W>>,
}

impl<W: Lanes> Folded<W> {
    /// Tables numbered from `first` of the family of `seed`, one for each of `lanes` lanes of
    /// `lane_bits` bits, folded to `bits` each.
    pub fn new(seed: u64, first: u32, lanes: u32, lane_bits: u32, bits: u32) -> Self {
        assert!(
            bits <= lane_bits && lanes * lane_bits <= 8 * size_of::<W>() as u32,
            "indices fit their lanes"
        );
        let mut contributions: Box<[[W; 256]]> = vec![[W::ZERO; 256]; 16].into_boxed_slice();
        for lane in 0..lanes {
            let randomize = Randomize::new(seed, first + lane);
            for (position, table) in contributions.iter_mut().enumerate() {
                let at = if position < 8 {
                    7 - position
                } else {
                    position - 8
                };
                for (byte, entry) in table.iter_mut().enumerate() {
                    let random = u64::from(randomize.byte(byte as u8)) << (8 * at);
                    *entry = *entry ^ W::place(xor_fold(random, bits), lane * lane_bits);
                }
            }
        }
        let Ok(contributions) = contributions.try_into() else {
            unreachable!("sixteen positions were made")
        };
        Self {
            contributions,
            pcs: Memo::new(),
            values: Memo::new(),
        }
    }

    /// The indices of a tuple.
    #[inline(always)]
    pub fn index(&mut self, tuple: Tuple) -> W {
        index(&self.contributions, &mut self.pcs, &mut self.values, tuple)
    }

    /// The indices of each tuple, in order; as many as the shorter of the two holds.
    #[inline]
    pub fn indices(&mut self, tuples: &[Tuple], out: &mut [W]) {
        indices(
            &self.contributions,
            &mut self.pcs,
            &mut self.values,
            tuples,
            out,
        );
    }
}

/// [`Folded::indices`] with its tables as arguments of their own: the compiler then knows that they do
/// not overlap, and keeps where they are in registers.
#[inline(never)]
fn indices<W: Lanes>(
    contributions: &Contributions<W>,
    pcs: &mut Memo<W>,
    values: &mut Memo<W>,
    tuples: &[Tuple],
    out: &mut [W],
) {
    for (tuple, out) in tuples.iter().zip(out) {
        *out = index(contributions, pcs, values, *tuple);
    }
}

#[inline(always)]
fn index<W: Lanes>(
    contributions: &Contributions<W>,
    pcs: &mut Memo<W>,
    values: &mut Memo<W>,
    tuple: Tuple,
) -> W {
    let (pc, value) = (tuple.pc.word(), tuple.value);
    let of_pc = remembered(contributions, pcs, pc >> (8 * LOW_PC_BYTES), LOW_PC_BYTES);
    let of_value = remembered(
        contributions,
        values,
        value >> (8 * LOW_VALUE_BYTES),
        8 + LOW_VALUE_BYTES,
    );
    let of = |i: usize, word: u64| contributions[i][(word >> (8 * (i % 8)) & 0xff) as usize];
    let low_pc = of(0, pc) ^ of(1, pc) ^ of_pc;
    let low_value = of(8, value) ^ of(9, value) ^ of(10, value) ^ of(11, value);
    low_pc ^ low_value ^ of_value
}

/// The contribution of upper bytes, of which the first is at `position`.
#[inline(always)]
fn remembered<W: Lanes>(
    contributions: &Contributions<W>,
    memo: &mut Memo<W>,
    key: u64,
    position: usize,
) -> W {
    let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MEMO_BITS)) as usize;
    if memo.keys[slot] == key {
        memo.parts[slot]
    } else {
        remember(contributions, memo, slot, key, position)
    }
}

/// Out of line: inlined, its look-ups overflow the registers of the common path.
#[cold]
#[inline(never)]
fn remember<W: Lanes>(
    contributions: &Contributions<W>,
    memo: &mut Memo<W>,
    slot: usize,
    key: u64,
    position: usize,
) -> W {
    let bytes = key.to_le_bytes();
    let upper = contributions[position..].iter().zip(bytes);
    let part = upper
        .take(8 - position % 8)
        .fold(W::ZERO, |x, (table, byte)| x ^ table[byte as usize]);
    memo.keys[slot] = key;
    memo.parts[slot] = part;
    part
}
