//! A branch predictor, that of cachegrind's `--branch-sim=yes`.
//!
//! A conditional branch has one of 16 384 counters of two bits. Its number is made of the outcomes of the last seven conditional
//! branches and the lowest seven bits of the branch's address. An indirect branch is predicted to go where it went last:
//! the lowest nine bits of its address choose one of 512 entries. Direct jumps and calls are always predicted, and so are returns,
//! as by a stack of return addresses.

use trommel_tuple::Place;

const HISTORY: u32 = 7;
const ADDRESS: u32 = 7;
const COUNTERS: usize = 1 << (HISTORY + ADDRESS);
const TARGETS: usize = 1 << 9;

/// Predicts the branches of a thread.
pub(super) struct Predictor {
    /// Outcomes of conditional branches, the last one lowest.
    history: usize,
    counters: Box<[u8; COUNTERS]>,
    targets: Box<[u64; TARGETS]>,
}

impl Default for Predictor {
    fn default() -> Self {
        Self {
            history: 0,
            counters: Box::new([0; COUNTERS]),
            targets: Box::new([0; TARGETS]),
        }
    }
}

impl Predictor {
    /// Bytes of it.
    pub(super) const BYTES: u64 = (COUNTERS + TARGETS * size_of::<u64>()) as u64;

    /// A conditional branch was taken, or not. Returns true if it was mispredicted.
    pub(super) fn branch(&mut self, at: Place, taken: bool) -> bool {
        let history = self.history & ((1 << HISTORY) - 1);
        let address = at.vaddr().0 as usize & ((1 << ADDRESS) - 1);
        let counter = &mut self.counters[history << ADDRESS | address];
        let predicted = *counter >= 2;
        *counter = match taken {
            true => (*counter + 1).min(3),
            false => counter.saturating_sub(1),
        };
        self.history = self.history << 1 | usize::from(taken);
        predicted != taken
    }

    /// An indirect branch went to a place. Returns true if it was mispredicted.
    pub(super) fn indirect(&mut self, at: Place, to: u64) -> bool {
        let target = &mut self.targets[at.vaddr().0 as usize % TARGETS];
        std::mem::replace(target, to) != to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_always_goes_the_same_way_is_learnt_and_a_pattern_too() {
        let at = Place::from_word(0x1234);
        let mut predictor = Predictor::default();
        // Once for each of eight histories, and once more for the last, which stays.
        let wrong = (0..100).filter(|_| predictor.branch(at, true)).count();
        assert_eq!(wrong, 8 + 1);
        let mut predictor = Predictor::default();
        let pattern = |n: u32| n.is_multiple_of(5);
        for n in 0..200 {
            predictor.branch(at, pattern(n));
        }
        assert!((200..400).all(|n| !predictor.branch(at, pattern(n))));
        // What depends on nothing is not.
        let mut state = 1_u64;
        let mut random = |_: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 40 & 1 == 1
        };
        let wrong = (0..1000)
            .filter(|n| predictor.branch(at, random(*n)))
            .count();
        assert!((300..700).contains(&wrong), "{wrong}");
    }

    #[test]
    fn an_indirect_branch_goes_where_it_went_last() {
        let mut predictor = Predictor::default();
        let (a, b) = (Place::from_word(0x100), Place::from_word(0x101));
        let told = [(a, 7), (a, 7), (b, 7), (a, 8), (b, 7), (a, 8)];
        let wrong = told.map(|(at, to)| predictor.indirect(at, to));
        assert_eq!(wrong, [true, false, true, true, false, false]);
        // 512 bytes away: the same entry.
        assert!(predictor.indirect(Place::from_word(0x300), 9));
        assert!(predictor.indirect(a, 8));
    }
}
