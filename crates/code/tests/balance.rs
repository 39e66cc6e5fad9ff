//! Counts that are made consistent: conserved, never negative, unchanged where they are consistent, and cheapest.

use proptest::prelude::*;
use trommel_code::{Balance, Price};

/// An arc: from, to, count, and the prices of raising and lowering it.
type Arc = (usize, usize, u64, u32, u32);

fn arcs(nodes: usize, most: u64) -> impl Strategy<Value = Vec<Arc>> {
    let arc = (0..nodes, 0..nodes, 0..=most, 0_u32..5, 0_u32..5);
    prop::collection::vec(arc, 1..12)
}

fn solved(nodes: usize, arcs: &[Arc], work: u64) -> Option<Vec<u64>> {
    let mut balance = Balance::new(nodes);
    for &(from, to, count, raise, lower) in arcs {
        balance.arc(from, to, count, Price { raise, lower });
    }
    balance.solve(work).ok()
}

/// The flow into each node, less the flow out of it.
fn excess(nodes: usize, arcs: &[Arc], counts: &[u64]) -> Vec<i128> {
    let mut excess = vec![0; nodes];
    for ((from, to, ..), count) in arcs.iter().zip(counts) {
        excess[*to] += i128::from(*count);
        excess[*from] -= i128::from(*count);
    }
    excess
}

fn price(arcs: &[Arc], counts: &[u64]) -> u128 {
    let price = |(&(_, _, before, raise, lower), now): (&Arc, &u64)| match *now > before {
        true => u128::from(raise) * u128::from(now - before),
        false => u128::from(lower) * u128::from(before - now),
    };
    arcs.iter().zip(counts).map(price).sum()
}

const WORK: u64 = 1 << 24;

proptest! {
    #[test]
    fn flow_is_conserved(arcs in arcs(7, 1 << 40)) {
        let counts = solved(7, &arcs, WORK).expect("little work");
        prop_assert_eq!(excess(7, &arcs, &counts), [0; 7]);
    }

    /// Walks around circles are consistent counts.
    #[test]
    fn consistent_counts_stay(circles in prop::collection::vec((prop::collection::vec(0_usize..6, 1..5), 1_u64..1 << 40, 0_u32..5), 1..6)) {
        let mut arcs: Vec<Arc> = Vec::new();
        for (nodes, count, price) in circles {
            let next = nodes.iter().cycle().skip(1);
            arcs.extend(nodes.iter().zip(next).map(|(from, to)| (*from, *to, count, price, price)));
        }
        let before: Vec<u64> = arcs.iter().map(|arc| arc.2).collect();
        prop_assert_eq!(solved(6, &arcs, WORK), Some(before));
    }

    /// No other consistent counts are cheaper: all small ones are tried.
    #[test]
    fn changes_are_the_cheapest(arcs in prop::collection::vec((0_usize..3, 0_usize..3, 0_u64..3, 0_u32..5, 0_u32..5), 1..6)) {
        let counts = solved(3, &arcs, WORK).expect("little work");
        let least = price(&arcs, &counts);
        // A change moves along a way without a circle: no count grows beyond all excess together.
        let most = 7_u64;
        let all = most.pow(arcs.len() as u32);
        for number in 0..all {
            let other: Vec<u64> = (0..arcs.len()).map(|n| number / most.pow(n as u32) % most).collect();
            if excess(3, &arcs, &other) == [0; 3] {
                prop_assert!(price(&arcs, &other) >= least, "{other:?} {counts:?}");
            }
        }
    }

    #[test]
    fn counts_of_any_size_are_conserved_or_refused(arcs in arcs(7, u64::MAX)) {
        match solved(7, &arcs, WORK) {
            Some(counts) => prop_assert!(excess(7, &arcs, &counts).iter().all(|e| *e == 0)),
            None => prop_assert!(arcs.iter().any(|(_, _, count, ..)| *count > 1 << 48)),
        }
    }

    #[test]
    fn work_is_bounded(arcs in arcs(7, 1 << 40), work in 0_u64..200) {
        if let Some(counts) = solved(7, &arcs, work) {
            prop_assert_eq!(excess(7, &arcs, &counts), [0; 7]);
        }
    }
}

/// Counts of a function of so many branches, forwards and backwards, that contradict each other.
fn function(branches: usize) -> Vec<Arc> {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            (state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut arcs: Vec<Arc> = Vec::new();
    for n in 0..branches {
        let near = random(40) as usize;
        let to = match random(8) {
            0 => n.saturating_sub(near),
            _ => (n + near + 1).min(branches - 1),
        };
        for (to, price) in [(to, 3), ((n + 1) % branches, 1)] {
            let sampled = random(3) == 0;
            arcs.push((n, to, random(1 << 20) * u64::from(sampled), price, 3));
        }
    }
    arcs
}

/// Large functions are solved. Of those that are larger than any of a compiler it is said in bounded time that they are not.
#[test]
fn large_functions_take_bounded_work() {
    const LARGE: usize = 1000;
    let arcs = function(LARGE);
    let counts = solved(LARGE, &arcs, 1 << 25).expect("little work");
    assert!(excess(LARGE, &arcs, &counts).iter().all(|n| *n == 0));
    const HUGE: usize = 50_000;
    let arcs = function(HUGE);
    if let Some(counts) = solved(HUGE, &arcs, 1 << 23) {
        assert!(excess(HUGE, &arcs, &counts).iter().all(|n| *n == 0));
    }
}
