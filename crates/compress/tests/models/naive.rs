//! The models: maps and vectors, the definition of the hash, and no code of the components.

use std::collections::HashMap;

use trommel_compress::hash::{Randomize, xor_fold};
use trommel_compress::random::SplitMix64;
use trommel_tuple::Tuple;

pub(crate) fn index(table: u32, tuple: Tuple, bits: u32) -> u64 {
    xor_fold(Randomize::new(1, table).word(tuple), bits)
}

/// The tagged compressor, entry by entry as the text tells it: what was sent, and what is held.
pub(crate) fn tagged(
    tuples: &[Tuple],
    r: u32,
    set_bits: u32,
    ways: usize,
    tag_bits: u32,
    (enough, misses): (u32, u32),
) -> (Vec<(Tuple, u64)>, u64) {
    const EMPTY: u8 = 0;
    const VALID: u8 = 1;
    const EVICT: u8 = 2;
    #[derive(Clone, Default)]
    struct Way {
        state: u8,
        tag: u64,
        hit: u32,
        miss: u32,
    }
    // The ways of each set, and their numbers from the least to the most recently used.
    let mut sets = HashMap::<u64, (Vec<Way>, Vec<usize>)>::new();
    let mut sent = Vec::new();
    for t in tuples {
        let new = || (vec![Way::default(); ways], (0..ways).collect());
        let (set, order) = sets.entry(index(0, *t, set_bits)).or_insert_with(new);
        let tag = xor_fold(t.pc.word() ^ t.value, tag_bits);
        let hit = set.iter().position(|w| w.state != EMPTY && w.tag == tag);
        let empty = set.iter().position(|w| w.state == EMPTY);
        let evict = set.iter().position(|w| w.state == EVICT);
        let at = hit.or(empty).or(evict).unwrap_or(order[0]);
        let w = &mut set[at];
        if hit.is_some() || empty.is_some() {
            w.hit += 1;
        } else {
            w.miss += 1;
            w.state = EVICT;
            if w.miss < misses {
                continue;
            }
            (w.hit, w.miss, w.state) = (w.hit + misses, 0, VALID);
        }
        w.tag = tag;
        if w.state == EVICT {
            if enough * w.hit >= r {
                sent.push((*t, u64::from(w.hit)));
                (w.hit, w.miss, w.state) = (w.miss, 0, EMPTY);
            }
        } else if w.hit >= r {
            sent.push((*t, u64::from(w.hit)));
            (w.hit, w.state) = (0, EMPTY);
        } else {
            w.state = VALID;
        }
        order.retain(|way| *way != at);
        order.push(at);
    }
    let all = sets.values().flat_map(|(set, _)| set);
    (sent, all.map(|w| u64::from(w.hit + w.miss)).sum())
}

pub(crate) struct Profiler {
    pub(crate) tables: u32,
    pub(crate) percent: usize,
    pub(crate) bits: u32,
    pub(crate) capacity: usize,
    pub(crate) c: bool,
    pub(crate) r: bool,
    pub(crate) p: bool,
}

/// The interval profiler with its accumulator as a list of slots that is searched, over intervals of these
/// lengths; an incomplete one is left out.
pub(crate) fn multi_hash(
    tuples: &[Tuple],
    m: &Profiler,
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<Vec<(Tuple, u64)>> {
    let mut slots: Vec<Option<(Tuple, u64, bool)>> = vec![None; m.capacity];
    let mut counters = HashMap::<(u32, u64), u64>::new();
    let mut intervals = Vec::new();
    let mut lengths = lengths.into_iter();
    let (mut end, mut threshold) = (0, 0);
    for (n, t) in tuples.iter().enumerate() {
        if n == end {
            let Some(length) = lengths.next() else { break };
            end += length;
            threshold = (m.percent * length).div_ceil(100) as u64;
        }
        if let Some(slot) = slots.iter_mut().flatten().find(|s| s.0 == *t) {
            slot.1 += 1;
            slot.2 &= slot.1 < threshold;
        } else {
            let keys: Vec<_> = (0..m.tables).map(|j| (j, index(j, *t, m.bits))).collect();
            let value = |counters: &HashMap<_, _>, key| counters.get(key).copied().unwrap_or(0);
            let least = keys.iter().map(|k| value(&counters, k)).min().unwrap();
            for key in &keys {
                let counter = counters.entry(*key).or_default();
                *counter += u64::from(!m.c || *counter == least);
            }
            if keys.iter().all(|k| counters[k] >= threshold) {
                let empty = slots.iter().position(Option::is_none);
                let replaceable = slots.iter().position(|s| s.is_some_and(|s| s.2));
                if let Some(at) = empty.or(replaceable) {
                    slots[at] = Some((*t, threshold, false));
                    if m.r {
                        keys.iter().for_each(|k| {
                            counters.insert(*k, 0);
                        });
                    }
                }
            }
        }
        if n + 1 == end {
            let candidates = slots.iter().flatten().filter(|s| s.1 >= threshold);
            intervals.push(candidates.map(|s| (s.0, s.1)).collect());
            for slot in &mut slots {
                *slot = slot
                    .filter(|s| m.p && s.1 >= threshold)
                    .map(|s| (s.0, 0, true));
            }
            counters.clear();
        }
    }
    intervals
}

/// splitmix64 whose state starts where the documentation puts it for a purpose under seed 1.
pub(crate) fn apart(purpose: &str) -> SplitMix64 {
    let bytes = <[u8; 8]>::try_from(purpose.as_bytes()).unwrap();
    SplitMix64::new(SplitMix64::new(1 ^ u64::from_le_bytes(bytes)).draw())
}

/// The events that a sampler before lets pass.
pub(crate) fn thinned(tuples: &[Tuple], rule: char, k: u64) -> Vec<Tuple> {
    let mut random = apart("thinning");
    let mut countdown = 0;
    let passes = |_: &&Tuple| match rule {
        'R' => random.draw() <= u64::MAX / k,
        _ => {
            if countdown == 0 {
                countdown = if rule == 'P' {
                    k
                } else {
                    1 + random.below(2 * k - 1)
                };
            }
            countdown -= 1;
            countdown == 0
        }
    };
    tuples.iter().filter(passes).copied().collect()
}

/// The indices of a hash function into a table of `bits` bits, by the definitions in docs/specs.md.
pub(crate) fn cheap_index(name: &str, tuple: Tuple, bits: u32) -> u64 {
    nth_index(name, 0, tuple, bits)
}

/// The same of function `n` of the family: splitters in each other have one each.
pub(crate) fn nth_index(name: &str, n: u32, tuple: Tuple, bits: u32) -> u64 {
    if name.is_empty() {
        return index(n, tuple, bits);
    }
    let (pc, value) = (tuple.pc.word(), tuple.value);
    if name == ":mul" {
        let mut random = SplitMix64::new(1);
        for _ in 0..3 * n {
            random.draw();
        }
        let [a, b, c] = core::array::from_fn(|_| random.draw() | 1);
        let w = (pc.wrapping_mul(a)).wrapping_add(value.rotate_left(32).wrapping_mul(b));
        let w = (w ^ w >> 32).wrapping_mul(c);
        return if bits == 0 { 0 } else { w >> (64 - bits) };
    }
    // Bit by bit, least significant first.
    let mut crc = 1u32;
    for word in [pc.rotate_left(7 * n), value] {
        for bit in 0..64 {
            let low = (crc ^ (word >> bit) as u32) & 1;
            crc = (crc >> 1) ^ (0x82f6_3b78 * low);
        }
    }
    u64::from(crc) & ((1 << bits) - 1)
}

/// Messages: the tuple, its count and samples.
pub(crate) type Told = (Tuple, u64, u32);

/// The counter table as a list in order of use, before what it sends; an entry is full at so many samples.
pub(crate) fn table(messages: &[Told], k: usize, full: u32) -> Vec<Told> {
    let (mut inside, mut sent) = (Vec::<Told>::new(), Vec::new());
    for (tuple, count, samples) in messages {
        let found = inside.iter().position(|e| e.0 == *tuple);
        let (_, before, n) = found.map_or((*tuple, 0, 0), |at| inside.remove(at));
        if n + samples >= full {
            sent.push((*tuple, before + count, n + samples));
            continue;
        }
        if inside.len() == k {
            sent.push(inside.remove(0));
        }
        inside.push((*tuple, before + count, n + samples));
    }
    sent.extend(inside);
    sent
}
