//! Profiles that were made apart add up to the same in any order, and the sum says what its parts say.

use std::collections::BTreeMap;
use std::slice::from_ref;

use proptest::prelude::*;
use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::call_tree::{Basis, CallTree, Frame, NodeId, Weight};
use trommel_profile::merge::Merged;
use trommel_profile::recordings::{Recordings, Unlike};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Loaded, Module, Origin, Profile, Run, Site, Sum};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

const PATHS: [&str; 4] = ["[anon]", "/bin/a", "/lib/b", "/lib/c"];
const KINDS: [Kind; 3] = [Kind::Edge, Kind::Call, Kind::Value];

/// Data of an instruction, before it is a profile: the module's path, the address, and its values.
type At = (usize, u64, Vec<(u64, u64)>, (u64, f64, f64));

fn at() -> impl Strategy<Value = At> {
    let values = prop::collection::btree_map(0_u64..6, 1_u64..1_000_000, 1..5);
    let values = values.prop_map(|all| all.into_iter().collect());
    let sampled = (1_u64..1000, 1.0_f64..1e3, 0.01_f64..1.0);
    (0..PATHS.len(), 0_u64..4, values, sampled)
}

/// Data of a register at calls: the function, a call of it or all, the register, and as [`At`] its values.
type Given = (At, Option<(usize, u64)>, u8);

fn given() -> impl Strategy<Value = Given> {
    let call = prop::option::of((0..PATHS.len(), 0_u64..4));
    (at(), call, 0_u8..6)
}

fn run() -> impl Strategy<Value = Run> {
    let reasons = prop::collection::vec("[ab]{0,2}", 0..3);
    let times = (0_u64..1000, 0_u64..1000, 0_u64..9, 0_u64..9);
    (times, reasons).prop_map(|((started, wall, target_cpu, waits), detach)| Run {
        started,
        wall,
        target_cpu,
        waits,
        detach,
        ..Run::default()
    })
}

prop_compose! {
    fn profile()(
        order in Just([1, 2, 3]).prop_shuffle(),
        kinds in prop::collection::vec(prop::collection::vec(at(), 0..6), KINDS.len()),
        given in prop::collection::vec(given(), 0..8),
        run in run(),
        (pid, argument, knows) in (1_u32..3, 0_u8..3, any::<bool>()),
        stacks in prop::collection::vec((prop::collection::vec((0..PATHS.len(), 0_u64..4), 0..4), 1_u64..9), 0..6),
        (bias, taken, cpu, budget) in (1_u64..3, 1_u64..100, 1_u64..1_000_000, 1_u32..5),
    ) -> Profile {
        // Each has its own numbers for the same modules.
        let id = |path: usize| match path {
            0 => ModuleId::ANON,
            n => ModuleId(1 + order.iter().position(|p| *p == n).expect("one of them") as u16),
        };
        let mut modules: Vec<Module> = (0..PATHS.len()).map(|path| Module {
            id: id(path),
            path: PATHS[path].into(),
            build_id: vec![path as u8],
            code: None,
            loaded: (path != 0).then_some(Loaded { start: 0, end: 9, bias }),
        }).collect();
        modules.sort_by_key(|module| module.id);
        let mut windows = Windows {
            taken, cpu, budget: budget.into(), wall: 10 * cpu, ..Windows::default()
        };
        let mut all = BTreeMap::new();
        for (kind, places) in KINDS.into_iter().zip(kinds) {
            let mut data = KindProfile::default();
            for (path, vaddr, mut values, (samples, unit, probability)) in places {
                let place = Place::new(id(path), Vaddr(vaddr));
                if kind.value_is_place() {
                    for (value, _) in &mut values {
                        *value = Place::new(id(*value as usize % PATHS.len()), Vaddr(*value)).word();
                    }
                    values.sort_unstable();
                }
                data.seen += values.iter().map(|(_, count)| count).sum::<u64>();
                data.messages += samples;
                data.counts.insert(place, values);
                let executions = samples as f64 * unit;
                let sampled = Sampled { samples, executions, variance: executions * unit, probability, factor_error: 0.0 };
                windows.sites.entry(kind).or_default().insert(place, sampled);
            }
            all.insert(kind, data);
        }
        let calls = &all[&Kind::Call].counts;
        let deliveries = calls.keys().map(|call| (*call, call.vaddr().0 + 2)).collect();
        let after_calls = calls.keys().map(|call| (*call, call.vaddr().0 + 1)).collect();
        for ((path, vaddr, counts, (samples, unit, probability)), call, register) in given {
            let target = Place::new(id(path), Vaddr(vaddr));
            let call = call.map(|(path, vaddr)| Place::new(id(path), Vaddr(vaddr)));
            let executions = samples as f64 * unit;
            let sampled = Sampled { samples, executions, variance: executions * unit, probability, factor_error: 0.0 };
            windows.arguments.insert(Passed { target, call, register }, Argument { sampled, counts });
        }
        let mut tree = CallTree::new(Basis::Stacks);
        for (stack, own) in stacks {
            let at = |(path, vaddr)| Place::new(id(path), Vaddr(vaddr));
            let frames = stack.into_iter().map(|frame| Frame { at: at(frame), call: None });
            tree.add_stack(frames, Weight { times: 1, own });
        }
        Profile {
            origin: Origin { pid, ..Origin::default() },
            command: vec![b"prog".to_vec(), vec![argument]],
            compressor: "windows".into(),
            modules,
            kinds: all,
            run,
            windows: Some(windows),
            after_calls: knows.then_some(after_calls),
            deliveries,
            call_trees: vec![tree],
            ..Profile::default()
        }
    }
}

/// A place by the path of its module.
type Named = (Vec<u8>, u64);

/// Content of a profile, without numbers of modules.
#[derive(PartialEq, Debug)]
struct Said {
    counts: BTreeMap<(Kind, Named), BTreeMap<Option<Named>, u64>>,
    seen: BTreeMap<Kind, (u64, u64)>,
    loaded: BTreeMap<Vec<u8>, Option<Loaded>>,
    run: Run,
    command: Vec<Vec<u8>>,
    pid: u32,
    windows: Vec<u64>,
    arguments: BTreeMap<Register, Vec<(u64, u64)>>,
    paths: BTreeMap<Vec<Named>, Weight>,
    after_calls: Option<BTreeMap<Named, u64>>,
    deliveries: BTreeMap<Named, u64>,
}

/// A function, a call of it or all, and a register.
type Register = (Named, Option<Named>, u8);

fn said(profile: &Profile) -> Said {
    let named = |place: Place| {
        let module = &profile.modules[usize::from(place.module().0)];
        assert_eq!(
            module.id,
            place.module(),
            "modules are in the order of their numbers"
        );
        (module.path.clone(), place.vaddr().0)
    };
    let mut counts = BTreeMap::new();
    for (kind, data) in &profile.kinds {
        for (place, values) in &data.counts {
            assert!(values.is_sorted_by(|a, b| a.0 < b.0), "{values:?}");
            let value = |(value, count): &(u64, u64)| {
                let of = match kind.value_is_place() {
                    true => named(Place::from_word(*value)),
                    false => (Vec::new(), *value),
                };
                (Some(of), *count)
            };
            counts.insert((*kind, named(*place)), values.iter().map(value).collect());
        }
    }
    let seen = profile.kinds.iter();
    let windows = profile.windows.as_ref().expect("windows");
    let mut arguments = BTreeMap::new();
    for (passed, argument) in &windows.arguments {
        let counts = argument.counts.clone();
        assert!(counts.is_sorted_by(|a, b| a.0 < b.0), "{counts:?}");
        let register = (
            named(passed.target),
            passed.call.map(named),
            passed.register,
        );
        arguments.insert(register, counts);
    }
    let mut paths = BTreeMap::new();
    if let Some(tree) = profile.call_tree(Basis::Stacks) {
        for (number, node) in tree.nodes().iter().enumerate() {
            let frames = tree.path(NodeId(number as u32));
            paths.insert(frames.map(|frame| named(frame.at)).collect(), node.weight);
        }
    }
    Said {
        counts,
        seen: seen
            .map(|(kind, data)| (*kind, (data.seen, data.messages)))
            .collect(),
        loaded: profile
            .modules
            .iter()
            .map(|m| (m.path.clone(), m.loaded))
            .collect(),
        run: profile.run.clone(),
        command: profile.command.clone(),
        pid: profile.origin.pid,
        windows: vec![
            windows.taken,
            windows.cpu,
            windows.wall,
            windows.budget as u64,
        ],
        arguments,
        paths,
        // Of what called nothing there is nothing to know.
        after_calls: (profile.after_calls.as_ref())
            .filter(|_| !profile.kinds[&Kind::Call].counts.is_empty())
            .map(|all| all.iter().map(|(at, count)| (named(*at), *count)).collect()),
        deliveries: (profile.deliveries.iter())
            .map(|(at, count)| (named(*at), *count))
            .collect(),
    }
}

/// Returns the figures that are not whole numbers, by place.
fn sampled(profile: &Profile) -> BTreeMap<Sample, [f64; 4]> {
    let windows = profile.windows.as_ref().expect("windows");
    let named = |place: Place| {
        let path = &profile.modules[usize::from(place.module().0)].path;
        (path.clone(), place.vaddr().0)
    };
    let numbers = |s: &Sampled| [s.samples as f64, s.executions, s.variance, s.probability];
    let mut all = BTreeMap::new();
    for (kind, sites) in &windows.sites {
        for (place, s) in sites {
            all.insert((Some(*kind), named(*place), None, 0), numbers(s));
        }
    }
    for (passed, argument) in &windows.arguments {
        let at = (
            None,
            named(passed.target),
            passed.call.map(named),
            passed.register,
        );
        all.insert(at, numbers(&argument.sampled));
    }
    all
}

/// Subject of samples: a place of a kind, or a register.
type Sample = (Option<Kind>, Named, Option<Named>, u8);

fn close(a: &Profile, b: &Profile) -> bool {
    let (a, b) = (sampled(a), sampled(b));
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|((p, a), (q, b))| p == q && a.iter().zip(b).all(near))
}

fn sum(first: &Profile, others: &[&Profile]) -> Profile {
    let mut merged = Merged::apart(first.clone());
    others.iter().for_each(|other| merged.add((*other).clone()));
    merged.profile()
}

/// The sum of recordings, each of these processes.
fn recordings(all: &[&[Profile]]) -> Profile {
    let mut recordings = Recordings::default();
    for processes in all {
        let added = recordings.add(processes.to_vec(), true);
        added.expect("recordings of one sort");
    }
    recordings.profile().expect("one at least")
}

/// The same profile as an exact one, with a site for each branch.
fn exact(profile: &Profile) -> Profile {
    let edges = profile.kinds[&Kind::Edge].counts.keys();
    Profile {
        compressor: "exact".into(),
        windows: None,
        sites: edges.map(|place| (*place, Site::IndirectJump)).collect(),
        ..profile.clone()
    }
}

/// All that a profile says but its call paths, whose order has no meaning.
fn without_paths(profile: &Profile) -> Profile {
    Profile {
        call_trees: Vec::new(),
        ..profile.clone()
    }
}

proptest! {
    #[test]
    fn recordings_add_up_to_the_same_bytes_in_either_order(a in profile(), b in profile()) {
        for (a, b) in [(a.clone(), b.clone()), (exact(&a), exact(&b))] {
            let (ab, ba) = (recordings(&[from_ref(&a), from_ref(&b)]), recordings(&[from_ref(&b), from_ref(&a)]));
            prop_assert_eq!(without_paths(&ab), without_paths(&ba));
            prop_assert_eq!(ab.sum, Some(Sum { recordings: 2, processes: 2 }));
            prop_assert!(ab.modules.iter().enumerate().all(|(n, m)| usize::from(m.id.0) == n));
        }
    }

    #[test]
    fn a_recording_alone_says_what_it_said(a in profile(), b in profile()) {
        let before = sum(&a, &[&b]);
        let alone = recordings(&[&[a, b]]);
        prop_assert_eq!(alone.sum, Some(Sum { recordings: 1, processes: 2 }));
        let unnamed = |mut said: Said| {
            said.pid = 0;
            said
        };
        prop_assert_eq!(unnamed(said(&before)), said(&alone));
        prop_assert!(close(&before, &alone));
        // Once more changes nothing at all.
        prop_assert_eq!(recordings(&[from_ref(&alone)]), alone);
    }

    #[test]
    fn sums_of_sums_are_sums(a in profile(), b in profile(), c in profile()) {
        let [a, b, c] = [[a], [b], [c]];
        let all = recordings(&[&a, &b, &c]);
        let left = recordings(&[&[recordings(&[&a, &b])], &c]);
        let right = recordings(&[&a, &[recordings(&[&c, &b])]]);
        for other in [left, right] {
            prop_assert_eq!(said(&all), said(&other));
            prop_assert!(close(&all, &other));
            prop_assert_eq!(all.sum, other.sum);
        }
    }

    #[test]
    fn exact_counts_add_up_exactly(all in prop::collection::vec(profile(), 1..5)) {
        let all: Vec<[Profile; 1]> = all.iter().map(|p| [exact(p)]).collect();
        let parts: Vec<&[Profile]> = all.iter().map(|p| &p[..]).collect();
        let sum = recordings(&parts);
        let named = |profile: &Profile, place: Place| {
            (profile.modules[usize::from(place.module().0)].path.clone(), place.vaddr())
        };
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for profile in all.iter().flatten() {
            for (kind, data) in &profile.kinds {
                for (place, values) in &data.counts {
                    for (value, count) in values {
                        let value = match kind.value_is_place() {
                            true => named(profile, Place::from_word(*value)),
                            false => (Vec::new(), Vaddr(*value)),
                        };
                        *counts.entry((*kind, named(profile, *place), value)).or_default() += count;
                    }
                }
            }
        }
        let mut found = 0;
        for (kind, data) in &sum.kinds {
            for (place, values) in &data.counts {
                prop_assert!(*kind != Kind::Edge || sum.sites.contains_key(place));
                for (value, count) in values {
                    let value = match kind.value_is_place() {
                        true => named(&sum, Place::from_word(*value)),
                        false => (Vec::new(), Vaddr(*value)),
                    };
                    prop_assert_eq!(counts[&(*kind, named(&sum, *place), value)], *count);
                    found += 1;
                }
            }
        }
        prop_assert_eq!(found, counts.len());
        prop_assert!(sum.windows.is_none());
    }

    /// Recordings that cannot be added up are refused, and leave the sum as it was.
    #[test]
    fn recordings_of_another_sort_are_refused(a in profile(), b in profile()) {
        let mut all = Recordings::default();
        prop_assert_eq!(all.add(Vec::new(), false), Err(Unlike::Empty));
        all.add(vec![a.clone()], false).expect("the first");
        let sampler = Profile { compressor: "R16".into(), ..exact(&b) };
        let mut fewer = b.clone();
        fewer.kinds.remove(&Kind::Call);
        let no_paths = without_paths(&b);
        let expected = |unlike: &Unlike| matches!(unlike, Unlike::Observed { .. });
        for other in [exact(&b), sampler] {
            let refused = all.add(vec![other], false);
            prop_assert!(refused.as_ref().is_err_and(expected), "{refused:?}");
        }
        let refused = all.add(vec![fewer], false);
        let is_kinds = matches!(refused, Err(Unlike::Kinds { .. }));
        prop_assert!(is_kinds, "{refused:?}");
        let refused = all.add(vec![no_paths], false);
        let is_paths = matches!(refused, Err(Unlike::Paths { .. }));
        prop_assert!(is_paths, "{refused:?}");
        prop_assert_eq!(all.profile().expect("the first"), recordings(&[&[a]]));
    }

    #[test]
    fn the_order_of_profiles_does_not_matter(a in profile(), b in profile(), c in profile()) {
        let (ab, ba) = (sum(&a, &[&b]), sum(&b, &[&a]));
        prop_assert_eq!(said(&ab), said(&ba));
        prop_assert!(close(&ab, &ba));
        let left = sum(&ab, &[&c]);
        let right = sum(&a, &[&sum(&b, &[&c])]);
        prop_assert_eq!(said(&left), said(&right));
        prop_assert!(close(&left, &right));
        // A sum of one is what is added to others.
        prop_assert_eq!(said(&sum(&sum(&a, &[]), &[&b])), said(&ab));
    }

    #[test]
    fn nothing_is_lost_or_counted_twice(all in prop::collection::vec(profile(), 1..6)) {
        let others: Vec<&Profile> = all[1..].iter().collect();
        let sum = sum(&all[0], &others);
        let of = |profile: &Profile, kind| {
            let data = &profile.kinds[&kind];
            let counts = data.counts.values().flatten().map(|(_, count)| count);
            let sites = profile.windows.as_ref().and_then(|w| w.sites.get(&kind));
            let sites = sites.into_iter().flat_map(|sites| sites.values());
            let executions: f64 = sites.map(|s| s.executions).sum();
            (data.seen, counts.sum::<u64>(), executions)
        };
        for kind in KINDS {
            let parts: Vec<_> = all.iter().map(|part| of(part, kind)).collect();
            let (seen, counts, executions) = of(&sum, kind);
            prop_assert_eq!(seen, parts.iter().map(|p| p.0).sum::<u64>());
            prop_assert_eq!(counts, parts.iter().map(|p| p.1).sum::<u64>());
            let all: f64 = parts.iter().map(|p| p.2).sum();
            prop_assert!((executions - all).abs() <= 1e-9 * all);
        }
    }

    /// A count of parts that were thinned by different p has a variance that is the sum of theirs. The sum has one p for all
    /// its values, from which limits are made: it must not come to less.
    #[test]
    fn limits_of_sums_are_no_narrower_than_they_must_be(
        parts in prop::collection::vec((1_u64..1000, 1.0_f64..1e4, 0.01_f64..1.0, 0.0_f64..=1.0), 1..8)
    ) {
        let mut sum = Sampled::default();
        let mut count = 0.0;
        let mut thinned = 0.0_f64;
        for (samples, unit, probability, share) in parts {
            let executions = samples as f64 * unit;
            sum.add(&Sampled { samples, executions, variance: executions * unit, probability, factor_error: 0.0 });
            let of_value = share * executions;
            count += of_value;
            // That of C/p times what a sample stands for.
            thinned += of_value * unit * (1.0 - probability) / probability;
        }
        let p = sum.probability;
        prop_assert!(p > 0.0 && p <= 1.0);
        let said = count * sum.executions / sum.samples as f64 * (1.0 - p) / p;
        prop_assert!(said >= thinned * (1.0 - 1e-9), "{said} {thinned}");
    }
}
