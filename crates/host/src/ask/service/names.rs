//! Names for messages of more than two words.
//!
//! # Problem
//! A tuple has a place and a value. *Multi-Hash*, section 3, says how a profiler for all purposes goes beyond that: it makes a
//! unique name for an event of more variables. The names must be told as what they stand for in the end.
//!
//! # Strategy
//! The first word stays the place. The others become a value by a hash of 64 bits, so the compressor's tables and hash functions see a tuple as
//! any other. The words are kept beside: those of tuples that were met, and for good those of tuples that the compressor sends on.
//!
//! Of the tuples that were met two generations are kept, of at most [`GENERATION`]. A tuple that a compressor holds while so many others come, and that
//! does not come again, has lost its words. Its count is told as that of rows that were not kept.
//!
//! # Why it is correct
//! * A message of a sampler is about the event that it has just seen, whose words are in the young generation.
//! * Two tuples have the same name only if their hashes of 64 bits are equal: with a million tuples, with a chance of one in 30 million.

use rustc_hash::FxHashMap;
use trommel_compress::random::SplitMix64;
use trommel_query::record::RECORD_WORDS;
use trommel_tuple::{Place, Tuple};

/// Words of a message, as many as are named.
type Words = [u64; RECORD_WORDS];

/// Tuples of a generation.
const GENERATION: usize = 1 << 18;

/// The words of tuples.
#[derive(Debug, Default)]
pub(super) struct Names {
    young: FxHashMap<Tuple, Words>,
    old: FxHashMap<Tuple, Words>,
    /// Those that the compressor sent on.
    told: FxHashMap<Tuple, Words>,
}

/// The tuple of three words and more.
fn name(words: &[u64]) -> Tuple {
    let (place, others) = words.split_first().unwrap_or((&0, &[]));
    let mix = |hash, word: &u64| SplitMix64::new(hash ^ *word).draw();
    Tuple::new(Place::from_word(*place), others.iter().fold(0, mix))
}

impl Names {
    /// The tuple of a message with these words.
    pub(super) fn met(&mut self, words: &[u64]) -> Tuple {
        let tuple = name(words);
        if !self.young.contains_key(&tuple) {
            if self.young.len() == GENERATION {
                self.old = std::mem::take(&mut self.young);
            }
            let mut kept = Words::default();
            for (to, word) in kept.iter_mut().zip(words) {
                *to = *word;
            }
            self.young.insert(tuple, kept);
        }
        tuple
    }

    /// The compressor sends a tuple on.
    pub(super) fn sent(&mut self, tuple: Tuple) {
        if self.told.contains_key(&tuple) {
            return;
        }
        let met = self.young.get(&tuple).or_else(|| self.old.get(&tuple));
        if let Some(words) = met {
            self.told.insert(tuple, *words);
        }
    }

    /// The words of a tuple that was sent on.
    pub(super) fn words(&self, tuple: Tuple) -> Option<&Words> {
        self.told.get(&tuple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_what_was_sent_are_kept_for_good_and_others_for_two_generations() {
        let mut names = Names::default();
        let words = |n: u64| [7, n, n << 40, 1];
        let [sent, held, late] = [1, 2, 3].map(|n| names.met(&words(n)));
        names.sent(sent);
        for n in 0..GENERATION as u64 {
            names.met(&words(100 + n));
        }
        // All are old now, and still known.
        names.sent(late);
        for n in 0..GENERATION as u64 {
            names.met(&words(u64::from(u32::MAX) + n));
        }
        names.sent(held);
        let kept = |tuple, n| names.words(tuple).map(|w| w[..4] == words(n));
        assert_eq!(kept(sent, 1), Some(true));
        assert_eq!(kept(late, 3), Some(true));
        assert_eq!(kept(held, 2), None);
    }

    #[test]
    fn every_word_and_its_position_count() {
        let base = name(&[1, 2, 3, 4]);
        for other in [
            [2, 2, 3, 4],
            [1, 3, 3, 4],
            [1, 2, 4, 4],
            [1, 2, 3, 5],
            [1, 3, 2, 4],
        ] {
            assert_ne!(name(&other), base);
        }
        assert_eq!(base.pc.word(), 1);
        // As the manual defines it.
        let draw = |state: u64| SplitMix64::new(state).draw();
        assert_eq!(base.value, draw(draw(draw(2) ^ 3) ^ 4));
    }
}
