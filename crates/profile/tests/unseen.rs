//! The expected unseen mass, and its limits, against streams of which all is known.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trommel_compress::random::SplitMix64;
use trommel_profile::confidence::Confidence;
use trommel_profile::coverage::{Coverage, Draw, Extent};
use trommel_profile::merge::Merged;
use trommel_profile::rare::{Edge, Rare};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Profile};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

/// The edge of this number.
fn edge(number: u64) -> Edge {
    Edge {
        kind: Kind::Edge,
        from: Place::new(ModuleId(1), Vaddr(0x1000 + 16 * (number / 2))),
        to: Place::new(ModuleId(1), Vaddr(0x9000 + number)),
    }
}

/// A profile of these edges with their counts.
fn profile(counts: &BTreeMap<u64, u64>, compressor: &str) -> Profile {
    let mut edges = KindProfile::default();
    for (number, count) in counts {
        let Edge { from, to, .. } = edge(*number);
        let all = edges.counts.entry(from).or_default();
        all.push((to.word(), *count));
        all.sort_unstable();
        edges.seen += count;
        edges.messages += count;
    }
    let module = |id, path: &str| Module {
        id: ModuleId(id),
        path: path.into(),
        ..Module::default()
    };
    Profile {
        compressor: compressor.into(),
        modules: vec![module(0, "[anon]"), module(1, "/bin/app")],
        kinds: [(Kind::Edge, edges), (Kind::Call, KindProfile::default())].into(),
        ..Profile::default()
    }
}

/// The profile of windows that each saw these edges so often, with a weight.
fn windowed(seen: &[(f64, BTreeMap<u64, u64>)]) -> Profile {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut windows_of: BTreeMap<u64, u8> = BTreeMap::new();
    let mut sites: BTreeMap<Place, Sampled> = BTreeMap::new();
    let mut all = Sampled::default();
    let add = |sum: &mut Sampled, weight: f64, n: u64| {
        let executions = weight * n as f64;
        sum.add(&Sampled {
            samples: n,
            executions,
            variance: executions * executions,
            probability: 1.0,
            factor_error: 0.0,
        });
    };
    for (weight, window) in seen {
        let mut of_site: BTreeMap<Place, u64> = BTreeMap::new();
        for (number, n) in window {
            *counts.entry(*number).or_default() += (*n as f64 * weight).round() as u64;
            let windows = windows_of.entry(*number).or_default();
            *windows = windows.saturating_add(1);
            *of_site.entry(edge(*number).from).or_default() += n;
        }
        add(&mut all, *weight, window.values().sum());
        for (place, n) in of_site {
            add(sites.entry(place).or_default(), *weight, n);
        }
    }
    windows_of.retain(|_, windows| *windows <= 2);
    let edges = windows_of.into_iter().map(|(number, n)| (edge(number), n));
    let rare = Rare {
        all,
        edges: edges.collect(),
    };
    let windows = Windows {
        rare: Some(rare),
        sites: [(Kind::Edge, sites)].into(),
        length: 100,
        ..Windows::default()
    };
    Profile {
        windows: Some(windows),
        ..profile(&counts, "windows")
    }
}

fn coverage(profile: &Profile) -> Coverage {
    match Extent::of(profile, &mut Confidence::new(profile)) {
        Extent::Sampled(coverage) => coverage,
        other => panic!("{other:?}"),
    }
}

/// Edges of which the one of rank r is executed in proportion to 1/r.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(edges: usize) -> Self {
        let mut sum = 0.0;
        let sums = (1..=edges).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self(sums.collect())
    }

    fn draw(&self, random: &mut SplitMix64) -> u64 {
        let all = self.0[self.0.len() - 1];
        let at = (random.draw() >> 11) as f64 / (1_u64 << 53) as f64 * all;
        self.0
            .partition_point(|sum| *sum <= at)
            .min(self.0.len() - 1) as u64
    }

    /// The mass of edges that are not in a profile.
    fn unseen(&self, seen: &BTreeMap<u64, u64>) -> f64 {
        let all = self.0[self.0.len() - 1];
        let seen: f64 = seen.keys().map(|rank| 1.0 / (rank + 1) as f64).sum();
        (1.0 - seen / all).max(0.0)
    }
}

/// Limits hold in at least 93 of 100 cases.
const HELD: usize = 93;

#[test]
fn limits_hold_of_events_that_are_drawn_one_by_one() {
    for (edges, draws) in [(50, 20), (50, 2000), (5000, 300), (5000, 3000)] {
        let zipf = Zipf::new(edges);
        let mut random = SplitMix64::new(edges as u64 + draws);
        let mut held = 0;
        for _ in 0..100 {
            let mut seen = BTreeMap::new();
            for _ in 0..draws {
                *seen.entry(zipf.draw(&mut random)).or_default() += 64;
            }
            let coverage = coverage(&profile(&seen, "R64"));
            assert_eq!((coverage.draw, coverage.draws), (Draw::Event, draws as f64));
            assert_eq!(coverage.edges, seen.len() as u64);
            let truth = zipf.unseen(&seen);
            held += usize::from((coverage.limits.low..=coverage.limits.high).contains(&truth));
        }
        assert!(held >= HELD, "{edges} {draws}: {held}");
    }
}

/// Each window executes a loop: an edge many times, and the two after it.
#[test]
fn limits_hold_of_windows_whose_events_are_alike() {
    for (edges, windows, turns) in [(50, 30, 20), (2000, 100, 1), (2000, 1000, 40)] {
        let zipf = Zipf::new(edges);
        let mut random = SplitMix64::new(edges as u64 + windows);
        let (mut held, mut naive) = (0, 0);
        for _ in 0..100 {
            let mut all = Vec::new();
            let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
            for _ in 0..windows {
                let at = zipf.draw(&mut random);
                *seen.entry(at).or_default() += turns;
                all.push((10.0, BTreeMap::from([(at, turns)])));
            }
            let coverage = coverage(&windowed(&all));
            assert_eq!(coverage.draw, Draw::Window);
            assert!((coverage.draws - windows as f64).abs() < 1e-6);
            let truth = zipf.unseen(&seen);
            held += usize::from((coverage.limits.low..=coverage.limits.high).contains(&truth));
            // Taken for draws of their own, events would be seen many times each.
            naive += usize::from(seen.values().any(|n| *n == 1));
        }
        assert!(held >= HELD, "{edges} {windows} {turns}: {held}");
        assert!(turns == 1 || naive == 0);
    }
}

#[test]
fn where_nothing_is_sampled_nothing_is_said() {
    let nothing = profile(&BTreeMap::new(), "R64");
    let extent = |profile: &Profile| Extent::of(profile, &mut Confidence::new(profile));
    assert!(matches!(extent(&nothing), Extent::Unknown(_)));
    let counts = BTreeMap::from([(1, 64), (2, 128)]);
    assert_eq!(
        extent(&profile(&counts, "exact")),
        Extent::Complete { edges: 2 }
    );
    for spec in ["CR16", "T[16]64/2way/2bit", "M4[1k,2%]256:C1R0P1"] {
        assert!(
            matches!(extent(&profile(&counts, spec)), Extent::Unknown(_)),
            "{spec}"
        );
    }
    let mut part = windowed(&[(1.0, BTreeMap::from([(1, 4)]))]);
    part.windows.as_mut().expect("windows").rare = None;
    assert!(matches!(extent(&part), Extent::Unknown(_)));
    let values = Profile {
        kinds: [(Kind::Value, KindProfile::default())].into(),
        ..profile(&counts, "R64")
    };
    assert!(matches!(extent(&values), Extent::Unknown(_)));
}

fn windows() -> impl Strategy<Value = Vec<(f64, BTreeMap<u64, u64>)>> {
    let window = prop::collection::btree_map(0_u64..12, 1_u64..5, 0..4);
    prop::collection::vec(
        (1_u32..4)
            .prop_map(f64::from)
            .prop_flat_map(move |weight| (Just(weight), window.clone())),
        0..6,
    )
}

proptest! {
    /// Windows of recordings that are added up are windows of one recording.
    #[test]
    fn sums_know_which_edges_few_windows_saw(a in windows(), b in windows()) {
        let whole = windowed(&[a.clone(), b.clone()].concat());
        let mut sum = Merged::apart(windowed(&a));
        sum.add(windowed(&b));
        let sum = sum.profile();
        let rare = |profile: &Profile| profile.windows.clone().and_then(|w| w.rare).expect("known");
        prop_assert_eq!(rare(&whole).edges, rare(&sum).edges);
        prop_assert_eq!(&whole.kinds[&Kind::Edge].counts, &sum.kinds[&Kind::Edge].counts);
        let [x, y] = [&whole, &sum].map(|profile| Extent::of(profile, &mut Confidence::new(profile)));
        if let (Extent::Sampled(x), Extent::Sampled(y)) = (&x, &y) {
            prop_assert!((x.unseen - y.unseen).abs() < 1e-12 && (x.draws - y.draws).abs() < 1e-9);
            prop_assert!(0.0 <= x.limits.low && x.limits.low <= x.unseen);
            prop_assert!(x.unseen <= x.limits.high && x.limits.high <= 1.0);
            prop_assert!(x.known.is_some_and(|known| (0.0..=1.0).contains(&known)));
        } else {
            prop_assert_eq!(x, y);
        }
    }
}
