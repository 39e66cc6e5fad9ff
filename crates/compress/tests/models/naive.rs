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

/// A filter of values that are known: the limit in percent, messages of a check, entries, and rests of both sorts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub(crate) limit: f64,
    pub(crate) messages: usize,
    pub(crate) entries: usize,
    pub(crate) settled: u64,
    pub(crate) others: u64,
}

/// The set of four, of so many, that an instruction belongs to.
pub(crate) fn set_of(pc: u64, kind: u64, sets: u64) -> u64 {
    let mixed = (pc ^ kind).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mixed * sets) >> 32
}

/// The 16 most frequent values of a sample, by Space-Saving.
fn summary(values: &[u64]) -> Vec<(u64, u64)> {
    let mut slots: Vec<(u64, u64)> = Vec::new();
    for value in values {
        if let Some(slot) = slots.iter_mut().find(|slot| slot.0 == *value) {
            slot.1 += 1;
        } else if slots.len() < 16 {
            slots.push((*value, 1));
        } else {
            let least = slots.iter().map(|slot| slot.1).min().unwrap();
            let at = slots.iter().position(|slot| slot.1 == least).unwrap();
            slots[at] = (*value, least + 1);
        }
    }
    slots
}

/// Shares of the values in a summary.
fn shares(values: &[u64]) -> HashMap<u64, f64> {
    let share = |(value, n)| (value, n as f64 / values.len() as f64);
    summary(values).into_iter().map(share).collect()
}

/// An instruction as software knows it: all values since it is watched, those of the look, and what these stand for.
#[derive(Default, Clone)]
struct Instruction {
    last: usize,
    values: Vec<u64>,
    look: Vec<u64>,
    looked: u64,
    rests: u64,
    changed: bool,
}

/// Messages of a filter before `after`, which takes an event at a time.
pub(crate) fn filtered(
    tuples: &[Tuple],
    kind: u64,
    f: &Filter,
    mut after: impl FnMut(Tuple) -> Option<u64>,
) -> Vec<(Tuple, u64)> {
    let sets = f.entries as u64 / 4;
    let mut software = HashMap::<u64, Instruction>::new();
    // For each address in the hardware its way, and the executions that are left to be dropped.
    let mut hardware = HashMap::<u64, (usize, u64)>::new();
    let mut sent = Vec::<(Tuple, u64)>::new();
    for t in tuples {
        let pc = t.pc.word();
        if let Some((_, left)) = hardware.get_mut(&pc).filter(|(_, left)| *left > 0) {
            *left -= 1;
            if *left == 0 && software[&pc].changed {
                let last = software[&pc].last;
                software.insert(
                    pc,
                    Instruction {
                        last,
                        ..Instruction::default()
                    },
                );
                hardware.remove(&pc);
            }
            continue;
        }
        let Some(count) = after(*t) else { continue };
        let rests = software.get(&pc).map_or(0, |i| i.rests);
        sent.push((*t, count * (1 + rests)));
        let now = sent.len();
        if !software.contains_key(&pc) {
            let near = |other: &u64| set_of(*other, kind, 512) == set_of(pc, kind, 512);
            let neighbours: Vec<u64> = software.keys().copied().filter(near).collect();
            if neighbours.len() == 4 {
                let watched = neighbours.into_iter().filter(|n| software[n].rests == 0);
                let Some(oldest) = watched.min_by_key(|n| software[n].last) else {
                    continue;
                };
                software.remove(&oldest);
            }
            software.insert(pc, Instruction::default());
        }
        let i = software.get_mut(&pc).unwrap();
        i.last = now;
        if i.rests > 0 {
            i.look.push(t.value);
            i.looked += count;
            if i.look.len() == f.messages {
                let (known, seen) = (shares(&i.values), shares(&i.look));
                i.changed = known.keys().chain(seen.keys()).any(|v| {
                    let [p, q] = [&known, &seen].map(|s| s.get(v).copied().unwrap_or(0.0));
                    let off = (p - q).abs() - f.limit / 100.0;
                    p.max(q) >= 0.1
                        && off > 0.0
                        && off * off > 9.0 * (p * (1.0 - p) / f.messages as f64)
                });
                hardware.get_mut(&pc).unwrap().1 = i.looked * i.rests;
                (i.look, i.looked) = (Vec::new(), 0);
            }
            continue;
        }
        i.values.push(t.value);
        let checks = i.values.len() / f.messages;
        if !i.values.len().is_multiple_of(f.messages) || checks < 2 {
            continue;
        }
        let (now_, before) = (
            summary(&i.values),
            summary(&i.values[..i.values.len() - f.messages]),
        );
        let of = |n: u64, all: usize| n as f64 / all as f64;
        let steady = now_.iter().all(|(v, n)| {
            // A value that lost its slot since then begins anew.
            let kept = kept_since(&i.values, f.messages, *v);
            let b = before.iter().find(|b| b.0 == *v && kept).map_or(0, |b| b.1);
            let (p, q) = (of(*n, i.values.len()), of(b, i.values.len() - f.messages));
            p.max(q) < 0.1 || (p - q).abs() <= f.limit / 100.0
        });
        let frequent = now_
            .iter()
            .map(|(_, n)| of(*n, i.values.len()))
            .filter(|p| *p >= 0.1);
        let rests = if frequent.sum::<f64>() >= 0.4 {
            f.settled
        } else {
            f.others
        };
        if !steady || rests == 0 {
            continue;
        }
        // A place in the hardware: a free one, or the first of one that is hardly seen any more.
        let near = |other: &u64| set_of(*other, kind, sets) == set_of(pc, kind, sets);
        let mut ways = [None; 4];
        for (other, (way, _)) in hardware.iter().filter(|(other, _)| near(other)) {
            ways[*way] = Some(*other);
        }
        let idle = |other: &Option<u64>| {
            let i = &software[&other.unwrap()];
            now - i.last > 64 * f.messages * (i.rests as usize + 1)
        };
        let free = ways.iter().position(Option::is_none);
        let Some(way) = free.or_else(|| ways.iter().position(idle)) else {
            continue;
        };
        if let Some(loser) = ways[way] {
            let last = software[&loser].last;
            software.insert(
                loser,
                Instruction {
                    last,
                    ..Instruction::default()
                },
            );
            hardware.remove(&loser);
        }
        hardware.insert(pc, (way, 0));
        software.get_mut(&pc).unwrap().rests = rests;
    }
    sent
}

/// Returns true if a value kept its slot through the last `since` values.
fn kept_since(values: &[u64], since: usize, value: u64) -> bool {
    let held = |n: usize| summary(&values[..n]).iter().any(|slot| slot.0 == value);
    (values.len() - since..=values.len()).all(held)
}
