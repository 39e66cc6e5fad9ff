//! The sketches against naive models and against the bounds their papers prove.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trommel_compress::hash::{Randomize, xor_fold};
use trommel_compress::{Seeds, Sink, Spec};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

type Interval = BTreeMap<Tuple, u64>;

#[derive(Default)]
struct Kept {
    intervals: Vec<Interval>,
    current: Interval,
}

impl Sink for Kept {
    fn message(&mut self, message: Message) {
        let before = self.current.insert(message.tuple, message.count);
        assert_eq!(before, None, "a tuple is reported once an interval");
    }

    fn interval_end(&mut self, _events: u64) {
        self.intervals.push(core::mem::take(&mut self.current));
    }
}

fn run(spec: &str, tuples: &[Tuple]) -> Vec<Interval> {
    let spec: Spec = spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"));
    let mut compressor = spec.build(Seeds::default());
    let mut kept = Kept::default();
    compressor.events(Events::of_kind(Kind::Value, tuples), &mut kept);
    compressor.finish(&mut kept);
    assert!(kept.current.is_empty(), "an incomplete interval is dropped");
    kept.intervals
}

fn exact(tuples: &[Tuple]) -> Interval {
    let mut counts = Interval::new();
    for tuple in tuples {
        *counts.entry(*tuple).or_default() += 1;
    }
    counts
}

fn stream() -> impl Strategy<Value = Vec<Tuple>> {
    let tuple = prop_oneof![2 => 0u64..6, 1 => 0u64..60, 1 => any::<u64>()];
    let tuple = tuple.prop_map(|n| Tuple::new(Place::from_word(0x40_1000 + n % 7), n));
    prop::collection::vec(tuple, 0..700)
}

/// Returns the fingerprint by which HeavyKeeper tells tuples apart.
fn fingerprint(tuple: Tuple) -> u64 {
    let mixed = (tuple.pc.word() ^ tuple.value.rotate_left(32)).wrapping_add(tuple.value);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) >> 48
}

const INTERVAL: usize = 200;
/// 5 % of it.
const THRESHOLD: u64 = 10;

proptest! {
    #[test]
    fn space_saving_never_counts_too_low(tuples in stream(), k in 1usize..40) {
        let found = run(&format!("SS[200,5%]{k}:P0"), &tuples);
        prop_assert_eq!(found.len(), tuples.len() / INTERVAL);
        for (found, events) in found.iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            let bound = (INTERVAL / k) as u64;
            for (tuple, count) in found {
                let true_count = exact.get(tuple).copied().unwrap_or(0);
                prop_assert!(*count >= THRESHOLD);
                prop_assert!(true_count <= *count && *count <= true_count + bound);
            }
            // A tuple more frequent than events / k is always inside.
            for (tuple, count) in exact.iter().filter(|(_, n)| **n >= THRESHOLD.max(bound + 1)) {
                prop_assert!(found.contains_key(tuple), "{:?} {}", tuple, count);
            }
        }
    }

    #[test]
    fn misra_gries_never_counts_too_high(tuples in stream(), k in 1usize..40) {
        let found = run(&format!("MG[200,5%]{k}:P0"), &tuples);
        for (found, events) in found.iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            let bound = (INTERVAL / (k + 1)) as u64;
            for (tuple, count) in found {
                let true_count = exact.get(tuple).copied().unwrap_or(0);
                prop_assert!(THRESHOLD <= *count && *count <= true_count);
                prop_assert!(*count + bound >= true_count);
            }
            for tuple in exact.iter().filter(|(_, n)| **n >= THRESHOLD + bound).map(|(t, _)| t) {
                prop_assert!(found.contains_key(tuple));
            }
        }
    }

    #[test]
    fn summaries_are_their_models(tuples in stream(), k in 1usize..12) {
        for (name, misra_gries) in [("SS", false), ("MG", true)] {
            let found = run(&format!("{name}[200,5%]{k}:P0"), &tuples);
            for (found, events) in found.iter().zip(tuples.chunks(INTERVAL)) {
                // Which of equal entries goes is not told by the definition: totals are.
                let mut entries: Vec<(Tuple, u64)> = Vec::new();
                let mut lowered = 0;
                for tuple in events {
                    if let Some(entry) = entries.iter_mut().find(|e| e.0 == *tuple) {
                        entry.1 += 1;
                    } else if entries.len() < k {
                        entries.push((*tuple, 1));
                    } else if misra_gries {
                        entries.iter_mut().for_each(|e| e.1 -= 1);
                        entries.retain(|e| e.1 > 0);
                        lowered += 1;
                    } else if let Some(least) = entries.iter_mut().min_by_key(|e| e.1) {
                        *least = (*tuple, least.1 + 1);
                    }
                }
                let mut model: Vec<_> = entries.iter().map(|e| e.1).collect();
                model.retain(|n| *n >= THRESHOLD);
                model.sort_unstable();
                let mut counts: Vec<_> = found.values().copied().collect();
                counts.sort_unstable();
                if misra_gries {
                    // Here the tuples are determined, too.
                    let candidates = entries.into_iter().filter(|e| e.1 >= THRESHOLD);
                    prop_assert_eq!(found, &candidates.collect::<Interval>());
                    prop_assert!(lowered <= INTERVAL / (k + 1));
                } else {
                    prop_assert_eq!(counts, model);
                }
            }
        }
    }

    #[test]
    fn count_min_is_an_upper_bound_and_misses_nothing(
        tuples in stream(), rows in 1u32..5, bits in 0u32..6, c in 0u8..2,
    ) {
        let spec = format!("CM{rows}[200,5%]{}:C{c}P0A200", rows << bits);
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            for (tuple, count) in found {
                prop_assert!(*count >= exact[tuple]);
            }
            for tuple in exact.iter().filter(|(_, n)| **n >= THRESHOLD).map(|(t, _)| t) {
                prop_assert!(found.contains_key(tuple));
            }
        }
    }

    #[test]
    fn count_min_is_its_model(tuples in stream(), rows in 1u32..5, bits in 0u32..6, c in any::<bool>()) {
        let spec = format!("CM{rows}[200,5%]{}:C{}P0A200", rows << bits, u8::from(c));
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            let mut counters = BTreeMap::<(u32, u64), u64>::new();
            let mut candidates = Interval::new();
            for tuple in events {
                let word = |row| Randomize::new(1, row).word(*tuple);
                let keys: Vec<_> = (0..rows).map(|row| (row, xor_fold(word(row), bits))).collect();
                let least = keys.iter().map(|k| counters.get(k).copied().unwrap_or(0)).min();
                let least = least.unwrap_or(0);
                for key in keys {
                    let counter = counters.entry(key).or_default();
                    *counter += u64::from(!c || *counter == least);
                }
                if least + 1 >= THRESHOLD {
                    let estimate = candidates.entry(*tuple).or_default();
                    *estimate = (*estimate).max(least + 1);
                }
            }
            prop_assert_eq!(found, &candidates);
        }
    }

    #[test]
    fn the_sieve_is_its_model(
        tuples in stream(), ways in 1usize..6, bits in 0u32..4, early in 1u64..4,
    ) {
        let spec = format!("S{ways}[200,5%]{}:P0A200E{early}", ways << bits);
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            // Cells of tag and count; a count of 0 is an empty cell.
            let mut sets = vec![vec![(0, 0u64); ways]; 1 << bits];
            let mut hot = Interval::new();
            for tuple in events {
                if let Some(count) = hot.get_mut(tuple) {
                    *count += 1;
                    continue;
                }
                let word = Randomize::new(1, 0).word(*tuple);
                let set = &mut sets[xor_fold(word, bits) as usize];
                let tag = fingerprint(*tuple);
                let least = set.iter().map(|c| c.1).min().unwrap_or(0);
                let hit = set.iter().position(|c| c.1 > 0 && c.0 == tag);
                let at = hit.or_else(|| set.iter().position(|c| c.1 == least));
                let cell = &mut set[at.expect("a cell")];
                *cell = (tag, cell.1 + 1);
                if cell.1 >= THRESHOLD.div_ceil(early) {
                    hot.insert(*tuple, std::mem::take(cell).1);
                }
            }
            hot.retain(|_, count| *count >= THRESHOLD);
            prop_assert_eq!(found, &hot);
        }
    }

    #[test]
    fn heavy_keeper_does_not_count_too_high(tuples in stream(), bits in 0u32..7) {
        // But for tuples of the same fingerprint, one pair in 65536.
        let spec = format!("HK2[200,5%]{}:P0A200", 2 << bits);
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            let alike = |tuple: &Tuple| -> u64 {
                let same = exact.iter().filter(|(t, _)| fingerprint(**t) == fingerprint(*tuple));
                same.map(|(_, n)| n).sum()
            };
            prop_assert!(found.iter().all(|(tuple, count)| *count <= alike(tuple)));
        }
    }

    #[test]
    fn the_sieve_never_counts_too_low(tuples in stream(), bits in 0u32..4, early in 1u32..4) {
        let spec = format!("S4[200,5%]{}:P0A200E{early}", 4 << bits);
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            // A cell that was lost took its count along, so only tuples that stay are bounded.
            let all: u64 = found.values().sum();
            prop_assert!(all <= INTERVAL as u64, "no event counts twice");
            if exact.len() <= 4 {
                let candidates = exact.into_iter().filter(|(_, n)| *n >= THRESHOLD);
                prop_assert_eq!(found, &candidates.collect::<Interval>());
            }
        }
    }

    #[test]
    fn retained_candidates_count_exactly(tuples in stream()) {
        for spec in [
            "SS[200,5%]40:P1",
            "MG[200,5%]40:P1",
            "CM2[200,5%]64:C1P1",
            "HK2[200,5%]64:P1",
            "S4[200,5%]64:P1",
            "M2[200,5%]64:C1R0P1E2",
        ] {
            let found = run(spec, &tuples);
            for (pair, events) in found.windows(2).zip(tuples.chunks(INTERVAL).skip(1)) {
                let exact = exact(events);
                for (tuple, count) in pair[0].keys().filter_map(|t| pair[1].get_key_value(t)) {
                    // Misra-Gries lowers all entries alike, retained ones too.
                    if spec.starts_with("MG") {
                        prop_assert!(*count <= exact[tuple]);
                    } else if spec.starts_with("SS") {
                        prop_assert!(*count >= exact[tuple]);
                    } else if pair[1].len() < 20 {
                        prop_assert!(*count >= exact[tuple], "{}", spec);
                    }
                }
            }
        }
    }

    #[test]
    fn early_promotion_keeps_the_threshold(tuples in stream(), e in 1u32..6) {
        let spec = format!("M4[200,5%]1024:C1R0P1A200E{e}");
        for (found, events) in run(&spec, &tuples).iter().zip(tuples.chunks(INTERVAL)) {
            let exact = exact(events);
            for count in found.values() {
                prop_assert!(*count >= THRESHOLD);
            }
            for tuple in exact.iter().filter(|(_, n)| **n >= THRESHOLD).map(|(t, _)| t) {
                prop_assert!(found.contains_key(tuple));
            }
        }
    }
}
