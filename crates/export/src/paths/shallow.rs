//! Call paths of bounded length, for formats that repeat the whole path at each cost.
//!
//! # Problem
//! A chain of 20 000 functions, as generated code has them, is 20 000 paths with 10 000 functions each: gigabytes, which no viewer shows.
//!
//! # Strategy
//! A path ends after so many functions. What those further in cost is that of the last one, as contexts count what is too deep.
//!
//! # Invariants
//! Sums stay.

use trommel_profile::call_tree::Weight;

/// Functions on a path.
pub const MOST_DEEP: usize = 1000;

/// The own weight of each node, of which those that are too deep have given theirs to the node above that is not. `nodes`: the number of each
/// node's parent, which is less than its own, and its own weight.
pub(crate) fn shallow(nodes: impl Iterator<Item = (Option<usize>, Weight)>) -> Vec<Weight> {
    let mut weights: Vec<Weight> = Vec::new();
    // The depth of each node, and the node that counts for it.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, (parent, weight)) in nodes.enumerate() {
        let (depth, above) = parent.map_or((0, number), |parent| places[parent]);
        let place = match depth < MOST_DEEP {
            true => (depth + 1, number),
            false => (depth, above),
        };
        places.push(place);
        weights.push(Weight::default());
        weights[place.1].add(weight);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::super::tests::{deep, written};
    use super::super::{PATH_FORMATS, folded};
    use super::*;
    use trommel_profile::call_tree::Basis;

    #[test]
    fn what_is_too_deep_counts_for_the_last_function_that_is_not() {
        let weight = Weight { times: 1, own: 2 };
        let chain = (0..MOST_DEEP + 7).map(|n| (n.checked_sub(1), weight));
        let weights = shallow(chain.chain([(None, weight), (Some(MOST_DEEP + 7), weight)]));
        assert_eq!(weights[MOST_DEEP - 2], weight);
        assert_eq!(weights[MOST_DEEP - 1], Weight { times: 8, own: 16 });
        assert_eq!(weights[MOST_DEEP], Weight::default());
        assert_eq!(weights[MOST_DEEP + 7..], [weight; 2]);
    }

    #[test]
    fn a_deep_chain_is_short_in_all_formats() {
        let length = 3000;
        // Samples one by one would be long all the same.
        for format in PATH_FORMATS.iter().filter(|f| f.name != "perf-script") {
            let bytes = written(format, &deep(Basis::Contexts, length)).expect(format.name);
            assert!(bytes.len() < 10 << 20, "{}: {}", format.name, bytes.len());
            if format.name == folded::FORMAT.name {
                let text = String::from_utf8(bytes).expect("text");
                let costs = text
                    .lines()
                    .filter_map(|l| l.rsplit_once(' ')?.1.parse::<u64>().ok());
                assert_eq!((text.lines().count(), costs.sum()), (MOST_DEEP, length));
            }
        }
    }
}
