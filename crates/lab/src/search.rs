//! A search for compressors: many specs, judged, and the best of them varied.
//!
//! Problem: the papers' components can be put together in more ways than anybody tries by hand.
//!
//! Strategy: a [`Space`] has a list of choices for each part of a spec. A *draft* is one choice of each. The first round has the drafts that are known to be good, and others drawn at random.
//! Each further one takes from the best so far: of two of them each part at random, and some parts anew. What is not a spec, or has too many bytes,
//! is drawn again. Equal specs are judged once.
//!
//! Invariant: the same space, seed and judge give the same result. All random numbers are drawn here, in one thread.

use std::collections::BTreeMap;

use trommel_compress::Spec;
use trommel_compress::random::SplitMix64;

/// Specs that can be found.
pub(crate) struct Space {
    /// Number of choices of each part.
    pub(crate) choices: &'static [usize],
    /// Drafts that are judged first: what is found is no worse.
    pub(crate) known: &'static [&'static [usize]],
    /// The text of a draft.
    pub(crate) text: fn(&[usize]) -> String,
    /// Bytes of hardware at most.
    pub(crate) bytes: u64,
}

/// Extent of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) seed: u64,
    /// Rounds, the first one included.
    pub(crate) rounds: usize,
    /// Specs in a round.
    pub(crate) specs: usize,
    /// The best ones, of which the next round is made.
    pub(crate) kept: usize,
}

/// A spec with its score: the less, the better. What is not a number was not judged.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Found {
    pub(crate) spec: Spec,
    pub(crate) score: f64,
}

/// Draws of a round at most for each of its specs: a space may be smaller than what is asked for.
const TRIES: usize = 400;

impl Space {
    /// The spec of a draft, if it is one that may be found.
    fn spec(&self, draft: &[usize]) -> Option<Spec> {
        let spec: Spec = (self.text)(draft).parse().ok()?;
        (spec.bytes()? <= self.bytes).then_some(spec)
    }

    fn draw(&self, random: &mut SplitMix64) -> Vec<usize> {
        let choice = |n: &usize| random.below(*n as u64) as usize;
        self.choices.iter().map(choice).collect()
    }

    /// A draft with parts of both, and one part in six anew.
    fn vary(&self, [a, b]: [&[usize]; 2], random: &mut SplitMix64) -> Vec<usize> {
        let part = |n: usize| match random.below(6) {
            0 => random.below(self.choices[n] as u64) as usize,
            1..=3 => a[n],
            _ => b[n],
        };
        (0..self.choices.len()).map(part).collect()
    }
}

/// Searches, and returns what was judged, the best first. `judge` gives the scores of a round's specs.
pub(crate) fn search<E>(
    space: &Space,
    extent: Extent,
    mut judge: impl FnMut(&[Spec]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Found>, E> {
    let mut random = SplitMix64::new(extent.seed);
    let mut best: Vec<(Vec<usize>, Found)> = Vec::new();
    let mut known: BTreeMap<String, ()> = BTreeMap::new();
    for _ in 0..extent.rounds {
        let mut round: Vec<(Vec<usize>, Spec)> = Vec::new();
        let mut first = space.known.iter().take_while(|_| best.is_empty());
        for _ in 0..TRIES * extent.specs {
            if round.len() == extent.specs {
                break;
            }
            let kept = &best[..best.len().min(extent.kept)];
            let draft = match (first.next(), kept.len()) {
                (Some(draft), _) => draft.to_vec(),
                (None, 0) => space.draw(&mut random),
                (None, n) => {
                    let parents = [0; 2].map(|_| &*kept[random.below(n as u64) as usize].0);
                    space.vary(parents, &mut random)
                }
            };
            if let Some(spec) = space.spec(&draft)
                && known.insert(spec.to_string(), ()).is_none()
            {
                round.push((draft, spec));
            }
        }
        let specs: Vec<Spec> = round.iter().map(|(_, spec)| *spec).collect();
        let scores = judge(&specs)?;
        let found = |((draft, spec), score)| (draft, Found { spec, score });
        best.extend(round.into_iter().zip(scores).map(found));
        best.retain(|(_, found)| !found.score.is_nan());
        // Stable: of equal scores the first found is first.
        best.sort_by(|a, b| a.1.score.total_cmp(&b.1.score));
    }
    Ok(best.into_iter().map(|(_, found)| found).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space {
        choices: &[12, 16, 3],
        known: &[&[8, 7, 0]],
        text: |d| format!("{}[P{}]{}", ["H", "H:mul", "x"][d[2]], 2 << d[1], 1 << d[0]),
        bytes: 2048,
    };

    fn score(spec: &Spec) -> f64 {
        // The best is the longest text whose bytes are the budget.
        let bytes = spec.bytes().unwrap_or(0) as f64;
        2048.0 - bytes + 1.0 / spec.to_string().len() as f64
    }

    fn run(seed: u64) -> Vec<Found> {
        let extent = Extent {
            seed,
            rounds: 4,
            specs: 12,
            kept: 4,
        };
        let judge = |specs: &[Spec]| Ok::<_, ()>(specs.iter().map(score).collect());
        search(&SPACE, extent, judge).expect("it judges")
    }

    #[test]
    fn what_is_found_is_within_the_bytes_and_best_first() {
        for seed in 0..20 {
            let found = run(seed);
            assert!(found.is_sorted_by(|a, b| a.score <= b.score));
            assert!(found.iter().all(|f| f.spec.bytes() <= Some(2048)));
            let mut texts: Vec<_> = found.iter().map(|f| f.spec.to_string()).collect();
            texts.sort();
            texts.dedup();
            assert_eq!(texts.len(), found.len(), "each is judged once");
            assert_eq!(found, run(seed));
            let known = SPACE.spec(SPACE.known[0]).expect("a spec");
            assert!(found.iter().any(|f| f.spec == known));
        }
    }

    #[test]
    fn later_rounds_are_better_than_the_first() {
        let better = (0..20).filter(|seed| {
            let found = run(*seed);
            let first: Vec<f64> = {
                let extent = Extent {
                    seed: *seed,
                    rounds: 1,
                    specs: 12,
                    kept: 4,
                };
                let judge = |specs: &[Spec]| Ok::<_, ()>(specs.iter().map(score).collect());
                let all = search(&SPACE, extent, judge).expect("it judges");
                all.iter().map(|f| f.score).collect()
            };
            found[0].score <= first[0]
        });
        assert_eq!(better.count(), 20);
    }

    #[test]
    fn a_space_that_is_used_up_ends_the_round() {
        let extent = Extent {
            seed: 1,
            rounds: 3,
            specs: 500,
            kept: 4,
        };
        let judge = |specs: &[Spec]| Ok::<_, ()>(specs.iter().map(score).collect());
        let found = search(&SPACE, extent, judge).expect("it judges");
        assert!(found.len() < 12 * 16 * 2, "{}", found.len());
        assert!(found.len() > 150, "{}", found.len());
    }
}
