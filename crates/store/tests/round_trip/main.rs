//! Round trips: written profiles are read, damaged ones are refused.

mod strategies;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use trommel_profile::call_tree::{Basis, CallTree, Frame, Weight};
use trommel_profile::filter::{Filter, Filtered};
use trommel_profile::intervals::{Interval, Intervals, Row, Sequence};
use trommel_profile::queries::{Queries, Served};
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{At, Function, Machine, Samples, Thread as Own};
use trommel_profile::simulated::Simulated;
use trommel_profile::{Counted, KindProfile, Module, Origin, Profile, Run, Scope, Site, Threads};
use trommel_store::{OLDEST, StoreError, VERSION, decode, encode};
use trommel_tuple::{Kind, Place};

use strategies::profile;

fn bytes_of(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(std::slice::from_ref(profile), &mut bytes).expect("memory");
    bytes
}

proptest! {
    #[test]
    fn any_profile_comes_back(profile in profile()) {
        prop_assert_eq!(decode(&bytes_of(&profile)).expect("own bytes"), [profile]);
    }

    #[test]
    fn any_profiles_come_back(profiles in prop::collection::vec(profile(), 1..4)) {
        let mut bytes = Vec::new();
        encode(&profiles, &mut bytes).expect("memory");
        prop_assert_eq!(decode(&bytes).expect("own bytes"), profiles);
    }

    #[test]
    fn any_changed_byte_is_noticed(profile in profile(), at: prop::sample::Index, change in 1_u8..) {
        let mut bytes = bytes_of(&profile);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&noise).is_err());
        let started = [&trommel_store::MAGIC[..], &trommel_store::VERSION.to_le_bytes(), &noise].concat();
        prop_assert!(decode(&started).is_err());
    }
}

fn example() -> Profile {
    let places = (0..500_u64).map(|i| Place::from_word(1 << 48 | (0x1000 + i * 7)));
    let values = |i: u64| (0..i % 5 + 1).map(|v| (v * 3, i + v)).collect();
    let counts: BTreeMap<_, _> = places
        .clone()
        .enumerate()
        .map(|(i, p)| (p, values(i as u64)))
        .collect();
    let kind = KindProfile {
        seen: 1000,
        messages: 1000,
        counts,
    };
    let mut called = CallTree::new(Basis::Contexts);
    let frame = |at| Frame { at, call: None };
    called.add_stack(
        places.clone().take(5).map(frame),
        Weight { times: 1, own: 2 },
    );
    Profile {
        sum: None,
        origin: Origin {
            pid: 7,
            parent: 3,
            exec: true,
        },
        command: vec![b"./app".to_vec(), b"--fast".to_vec()],
        compressor: "exact".into(),
        counted: Counted::Code,
        modules: vec![Module {
            code: Some(9),
            ..Module::default()
        }],
        kinds: [(Kind::Edge, kind.clone()), (Kind::Value, kind)].into(),
        sites: places.clone().map(|p| (p, Site::IndirectJump)).collect(),
        run: Run::default(),
        threads: Threads::default(),
        windows: None,
        queries: Vec::new(),
        samples: Some(Samples {
            machine: Some(Machine {
                functions: vec![Function::default()],
                ..Machine::default()
            }),
            places: places.take(9).map(|p| (p, At::default())).collect(),
            entered: [(Place::from_word(7), Sampled::default())].into(),
            threads: [(7, Own::default())].into(),
        }),
        filter: Some(Filter {
            limit: 2.0,
            rounds: 1,
            tables: 1,
            places: [(Place::from_word(7), Filtered::NEVER)].into(),
        }),
        call_trees: vec![called],
        compiled: vec![Function::default()],
        simulated: Some(Simulated {
            accesses: [(Place::from_word(7), 5)].into(),
            branches: [(Place::from_word(9), 6)].into(),
            ..Simulated::default()
        }),
        intervals: Some(Intervals {
            halvings: 1,
            sequences: vec![Sequence {
                process: 7,
                thread: 1,
                ended: 2,
                events: 200,
                each: vec![Interval {
                    number: 2,
                    start: 100,
                    events: 100,
                    candidates: Vec::new(),
                }],
            }],
        }),
        scope: Scope {
            late: true,
            only: vec!["f".to_owned()],
        },
        after_calls: Some([(Place::from_word(7), 8)].into()),
        deliveries: [(Place::from_word(9), 3)].into(),
    }
}

/// Checksums keep chance out, not malice: what a checksum covers may say anything.
#[test]
fn intervals_that_cannot_be_are_refused_in_words() {
    type Change = fn(&mut Sequence);
    let changes: [(Change, &str); 6] = [
        (|s| s.each.push(s.each[0].clone()), "out of order"),
        (|s| s.each[0].number = 0, "out of order"),
        (|s| s.each[0].number = 3, "not in its sequence"),
        (|s| s.each[0].start = 101, "not in its sequence"),
        (|s| s.each[0].start = u64::MAX, "not in its sequence"),
        (|s| s.each[0].events = 0, "no events"),
    ];
    for (change, words) in changes {
        let mut profile = example();
        let intervals = profile.intervals.as_mut().expect("there");
        change(&mut intervals.sequences[0]);
        let error = decode(&bytes_of(&profile)).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// So may what it says of intervals of messages.
#[test]
fn intervals_of_messages_that_cannot_be_are_refused_in_words() {
    type Change = fn(&mut Sequence<Row>);
    let changes: [(Change, &str); 3] = [
        (|s| s.each.push(s.each[0].clone()), "out of order"),
        (|s| s.each[0].number = 3, "not in its sequence"),
        (|s| s.each[0].events = 0, "no events"),
    ];
    for (change, words) in changes {
        let mut profile = example();
        let each = vec![Interval {
            number: 2,
            start: 100,
            events: 100,
            candidates: vec![Row {
                words: vec![7, 1],
                count: 9,
            }],
        }];
        let mut sequence = Sequence {
            process: 7,
            thread: 0,
            ended: 2,
            events: 200,
            each,
        };
        change(&mut sequence);
        let served = Served {
            intervals: Some(Intervals {
                halvings: 0,
                sequences: vec![sequence],
            }),
            ..Served::default()
        };
        profile.queries.push(Queries {
            services: vec![served],
            ..Queries::default()
        });
        let error = decode(&bytes_of(&profile)).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// Places refer to modules by number.
#[test]
fn a_module_that_is_there_twice_is_refused() {
    let mut profile = example();
    profile.modules.push(profile.modules[0].clone());
    let error = decode(&bytes_of(&profile)).expect_err("twice").to_string();
    assert!(error.contains("a module is there twice"), "{error}");
}

#[test]
fn every_truncation_is_noticed_and_named() {
    let bytes = bytes_of(&example());
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).expect_err("cut short");
        match error {
            StoreError::NotAProfile { .. } => assert_eq!(length, 0),
            StoreError::Truncated { at, .. } => assert_eq!(at, length as u64),
            other => panic!("{length}: {other}"),
        }
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(
        decode(&longer)
            .expect_err("longer")
            .to_string()
            .contains("after its end")
    );
}

/// A recording of `true` by the last build that wrote the format before.
#[test]
fn files_of_the_format_before_are_read() {
    let old = include_bytes!("../format-12.data");
    assert_eq!(u32::from(old[8]), OLDEST);
    let profiles = decode(old).expect("the format before");
    let [profile] = &profiles[..] else {
        panic!("{} profiles", profiles.len());
    };
    assert!(profile.modules.len() > 1 && profile.modules.iter().all(|m| m.code.is_none()));
    assert!(profile.kinds[&Kind::Edge].seen > 10 && profile.scope == Scope::default());
    // The version is of the chunks that follow.
    let mut later = old.to_vec();
    later[8] = VERSION as u8;
    assert!(decode(&later).is_err());
}

#[test]
fn other_versions_and_foreign_files_are_named() {
    let mut bytes = bytes_of(&example());
    bytes[8] = VERSION as u8 + 1;
    let error = decode(&bytes).expect_err("a later version").to_string();
    let [later, ours] = [VERSION + 1, VERSION];
    assert!(
        error.contains(&format!("version {later}"))
            && error.contains(&format!("reads versions {OLDEST} to {ours}")),
        "{error}"
    );
    for (content, words) in [
        (&b"PERFILE2...."[..], "perf"),
        (b"\x7fELF....", "a program"),
        (b"", "empty"),
        (b"hello, world", "starts with 68 65"),
    ] {
        let error = decode(content).expect_err("foreign").to_string();
        assert!(
            error.contains(words) && error.contains("not a profile"),
            "{error}"
        );
    }
    let missing = trommel_store::read(Path::new("/nowhere/x.data"))
        .expect_err("missing")
        .to_string();
    assert!(
        missing.contains("no such file") && missing.contains("trommel record"),
        "{missing}"
    );
    assert!(
        trommel_store::read(Path::new("/"))
            .expect_err("directory")
            .to_string()
            .contains("directory")
    );
}

#[test]
fn values_out_of_order_are_put_in_order() {
    let mut profile = example();
    let counts = &mut profile.kinds.get_mut(&Kind::Value).expect("value").counts;
    counts.insert(Place::from_word(3), vec![(9, 1), (2, 5), (9, 3)]);
    let read = decode(&bytes_of(&profile)).expect("own bytes");
    assert_eq!(
        read[0].kinds[&Kind::Value].counts[&Place::from_word(3)],
        [(2, 5), (9, 4)]
    );
}

#[test]
fn a_full_device_gives_one_clear_error() {
    let error = trommel_store::write(Path::new("/dev/full"), &[example()])
        .expect_err("full")
        .to_string();
    assert!(
        error.contains("/dev/full") && error.contains("No space left"),
        "{error}"
    );
}

#[test]
fn a_million_tuples_are_small_and_quick() {
    let mut profile = example();
    let counts = (0..100_000_u64)
        .map(|i| {
            (
                Place::from_word((1 << 48) + i * 5),
                (0..10).map(|v| (v * 8, i % 1000 + 1)).collect(),
            )
        })
        .collect();
    profile.kinds.get_mut(&Kind::Value).expect("value").counts = counts;
    // One place with many values spans several records and chunks.
    let many = (0..300_000_u64).map(|v| (v * 1_000_003, v)).collect();
    profile
        .kinds
        .get_mut(&Kind::Edge)
        .expect("edge")
        .counts
        .insert(Place::from_word(7), many);
    let start = std::time::Instant::now();
    let bytes = bytes_of(&profile);
    let encoded = start.elapsed();
    assert!(decode(&bytes).expect("own bytes") == [profile]);
    println!(
        "{} bytes, encoded in {encoded:?}, both in {:?}",
        bytes.len(),
        start.elapsed()
    );
    assert!(bytes.len() < 5 << 20, "{} bytes", bytes.len());
}
