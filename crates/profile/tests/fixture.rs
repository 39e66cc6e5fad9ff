//! The measures of accuracy against naive ones, on a small stream that is part of the repository.
//!
//! `fixtures/mixed.tstream` is what [`events`] makes, written once: that it is still read the same
//! holds the format. `BLESS=1 cargo test` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trommel_compress::{Seeds, Spec};
use trommel_profile::accuracy::{
    Estimator, Evaluation, Evaluator, Filter, Options, Tuples, Unjudged, json,
};
use trommel_tuple::stream::{self, Block, End, Module, Writer};
use trommel_tuple::{Kind, Message, ModuleId, Place, Tuple, Vaddr};

type Event = (Kind, Tuple);
type Counts = BTreeMap<Event, f64>;

const SPECS: [&str; 27] = [
    "exact",
    "P16",
    "R16",
    "D16",
    "CR16",
    "CR16:sum",
    "H[P16]64",
    "H[CR16]64",
    "H[P16]64+A4",
    "T[16]64/2way/2bit",
    "M4[1k,2%]256:C1R0P1",
    "M1[500,1%]64:C0R1P0",
    "H:crc[P16]64",
    "H:mul[CR16]64",
    "T:mul[16]64/2way/2bit",
    "M2:crc[1k,2%]256:C1R1P1E2",
    "M16[1k,2%]512:C1R0P1A20",
    "SS[1k,2%]60:P1",
    "MG[1k,2%]60:P0",
    "CM4[1k,2%]256:C1P1",
    "HK2[1k,2%]128:P1",
    "S4[1k,2%]64:P1E2",
    "D4+H[P4:phase]128",
    "P2+T[8]64/2way/2bit+A4",
    "R4+CR4",
    "H[P16:phase]64",
    "M4[100..2k,3%]256:C1R0P1",
];

/// Loops of loads, branches and calls with values from constant to random.
fn events() -> Vec<Event> {
    let mut state = 42u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let place = |vaddr| Place::new(ModuleId(1), Vaddr(0x40_1000 + vaddr));
    let mut events = Vec::new();
    while events.len() < 6000 {
        let i = events.len() as u64;
        events.push((Kind::Value, Tuple::new(place(0), 7)));
        events.push((Kind::Result, Tuple::new(place(0), 7)));
        events.push((Kind::Value, Tuple::new(place(4), 0x7fff_0000 + 8 * (i % 3))));
        events.push((Kind::Value, Tuple::new(place(9), random())));
        let taken = if random() % 4 == 0 {
            place(64)
        } else {
            place(0)
        };
        events.push((Kind::Edge, Tuple::new(place(12), taken.word())));
        if random() % 5 == 0 {
            let callee = place(256 + 16 * (random() % 2));
            events.push((Kind::Call, Tuple::new(place(20), callee.word())));
            events.push((
                Kind::Type,
                Tuple::new(place(20), 0x5555_0000 + callee.word() % 64),
            ));
        }
    }
    events
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let module = Module {
        id: ModuleId(1),
        path: b"/usr/bin/mixed".to_vec(),
        build_id: vec![0xab; 20],
    };
    writer.module(&module).unwrap();
    for (kind, tuple) in events {
        writer.push(*kind, *tuple).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn the_committed_stream_reads_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mixed.tstream");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, written(&events())).unwrap();
    }
    let mut reader = stream::open(&path).unwrap();
    let mut read = Vec::new();
    let mut block = Block::default();
    while reader.next_block(&mut block).unwrap() {
        block
            .events()
            .for_each(|kind, tuple| read.push((kind, tuple)));
    }
    assert!(read == events());
    assert_eq!(reader.end(), Some(End::Complete));
    assert_eq!(reader.modules()[0].path, b"/usr/bin/mixed");
}

fn evaluated(specs: &[Spec], events: &[Event], filter: Filter) -> Vec<Evaluation> {
    let options = Options {
        filter,
        checkpoints: vec![1000, 2500],
        ..Options::default()
    };
    let mut evaluator = Evaluator::new(specs, options);
    let mut block = Block::default();
    for chunk in events.chunks(333) {
        block.clear();
        chunk
            .iter()
            .for_each(|(kind, tuple)| block.push(*kind, *tuple));
        evaluator.events(block.events());
    }
    evaluator.finish()
}

fn specs() -> Vec<Spec> {
    SPECS.iter().map(|s| s.parse().unwrap()).collect()
}

/// All messages of a spec's compressor, and the estimates made of them.
fn profile(spec: &Spec, events: &[Event]) -> (Vec<Message>, Counts) {
    let mut compressor = spec.build(Seeds::default());
    let mut messages = Vec::new();
    let mut block = Block::default();
    events
        .iter()
        .for_each(|(kind, tuple)| block.push(*kind, *tuple));
    let mut sink = |m: Message| messages.push(m);
    compressor.events(block.events(), &mut sink);
    compressor.finish(&mut sink);
    let mut tuples = Tuples::default();
    let mut estimator = Estimator::new(spec, Seeds::default());
    for message in &messages {
        let number = tuples.number(message.kind, message.tuple);
        estimator.message(message, number);
    }
    let estimates = estimator.estimates(&tuples);
    let counts = estimates
        .map(|(kind, tuple, n)| ((kind, tuple), n))
        .collect();
    (messages, counts)
}

fn exact(events: &[Event]) -> Counts {
    let mut counts = Counts::new();
    for event in events {
        *counts.entry(*event).or_default() += 1.0;
    }
    counts
}

fn naive_error(exact: &Counts, estimated: &Counts, executions: f64, tuple: f64, load: f64) -> f64 {
    let of_load = |counts: &Counts, (kind, t): &Event| -> f64 {
        let same = counts
            .iter()
            .filter(|((k, u), _)| k == kind && u.pc == t.pc);
        same.map(|(_, n)| n).sum()
    };
    let candidate = |e: &Event| {
        let all = of_load(exact, e);
        all >= executions && exact[e] >= tuple * all
    };
    let candidates: Counts = exact
        .iter()
        .filter(|(e, _)| candidate(e))
        .map(|(e, n)| (*e, *n))
        .collect();
    let selected: Vec<_> = candidates
        .keys()
        .filter(|e| of_load(&candidates, e) >= load * of_load(exact, e))
        .collect();
    let mut sum = 0.0;
    for e in &selected {
        let reported = of_load(estimated, e);
        let ip = if reported > 0.0 {
            estimated.get(e).unwrap_or(&0.0) / reported
        } else {
            0.0
        };
        sum += exact[e] * (exact[e] / of_load(exact, e) - ip).abs();
    }
    let weight: f64 = selected.iter().map(|e| exact[e]).sum();
    100.0 * sum / weight
}

#[test]
fn errors_are_the_naive_ones_at_every_checkpoint() {
    let events = events();
    let filter = "executions=100,tuple=10%,load=40%".parse().unwrap();
    for evaluation in evaluated(&specs(), &events, filter) {
        let spec = evaluation.spec;
        if spec.interval().is_some() {
            continue;
        }
        assert_eq!(evaluation.points.len(), 3, "{spec}");
        for point in &evaluation.points {
            let so_far = &events[..point.events as usize];
            // The error is the first level's.
            let first = Spec {
                tables: trommel_compress::Tables::NONE,
                ..spec
            };
            let error = naive_error(&exact(so_far), &profile(&first, so_far).1, 100.0, 0.1, 0.4);
            assert!(
                (error - point.error).abs() < 1e-9,
                "{spec}: {error} {point:?}"
            );
            assert_eq!(
                profile(&spec, so_far).0.len() as u64,
                point.messages,
                "{spec}"
            );
        }
        let last = evaluation.points.last().unwrap();
        assert_eq!(
            (last.error, last.messages),
            (evaluation.error.unwrap(), evaluation.messages)
        );
        assert_eq!(evaluation.overhead_cycles(), 30 * evaluation.messages);
    }
}

#[test]
fn a_recording_host_gets_the_profile_that_is_evaluated() {
    let events = events();
    for evaluation in evaluated(&specs(), &events, Filter::default()) {
        let (messages, counts) = profile(&evaluation.spec, &events);
        assert_eq!(
            messages.len() as u64,
            evaluation.messages,
            "{}",
            evaluation.spec
        );
        let sum: u64 = messages.iter().map(|m| m.count).sum();
        assert_eq!(sum, evaluation.counted, "{}", evaluation.spec);
        if let Some(held) = evaluation.held {
            assert_eq!(sum + held, events.len() as u64, "{}", evaluation.spec);
            let estimated: f64 = counts.values().sum();
            assert!((estimated - sum as f64).abs() < 1e-6, "{}", evaluation.spec);
        }
    }
}

#[test]
fn interval_errors_are_the_naive_ones() {
    let events = events();
    for evaluation in evaluated(&specs(), &events, Filter::default()) {
        let (Some(spec), Some(found)) = (evaluation.spec.interval(), &evaluation.interval) else {
            continue;
        };
        // Where each interval ends: the profiler says how long the next one is.
        let mut profiler = evaluation.spec.build(Seeds::default());
        let (mut ends, mut rest) = (vec![0], &events[..]);
        while let Some(length) = profiler.first_level().interval_left()
            && length as usize <= rest.len()
        {
            let (interval, others) = rest.split_at(length as usize);
            let mut block = Block::default();
            interval
                .iter()
                .for_each(|(kind, tuple)| block.push(*kind, *tuple));
            profiler.events(block.events(), &mut |_: Message| {});
            ends.push(ends[ends.len() - 1] + interval.len());
            rest = others;
        }
        let adapts = ends.windows(2).any(|e| e[1] - e[0] != ends[1]);
        assert_eq!(adapts, spec.is_adaptive());
        let whole = ends.len() - 1;
        let mut messages = BTreeMap::new();
        for n in 0..whole {
            // The messages of an interval are those that its events added.
            let before = profile(&evaluation.spec, &events[..ends[n]]).0.len();
            let upto = profile(&evaluation.spec, &events[..ends[n + 1]]).0;
            messages.insert(n, upto[before..].to_vec());
        }
        let (mut error, mut false_positives, mut distinct, mut candidates) = (0.0, 0, 0, 0);
        for (n, messages) in messages {
            let length = (ends[n + 1] - ends[n]) as u32;
            let exact = exact(&events[ends[n]..ends[n + 1]]);
            let hot: BTreeSet<Event> = exact
                .iter()
                .filter(|(_, c)| **c >= f64::from(spec.threshold_of(length)))
                .map(|(e, _)| *e)
                .collect();
            let hw: Counts = messages
                .iter()
                .map(|m| ((m.kind, m.tuple), m.count as f64))
                .collect();
            let both: BTreeSet<Event> = hot.iter().chain(hw.keys()).copied().collect();
            let off = |e| (exact[e] - hw.get(e).unwrap_or(&0.0)).abs();
            let weight: f64 = both.iter().map(|e| exact[e]).sum();
            error += 100.0 * both.iter().map(off).sum::<f64>() / weight;
            false_positives += hw.keys().filter(|e| !hot.contains(e)).count();
            distinct += exact.len();
            candidates += hot.len();
        }
        let mean = |n: usize| n as f64 / whole as f64;
        assert_eq!(found.shape.intervals, whole as u64);
        let lengths: Vec<_> = ends.windows(2).map(|e| (e[1] - e[0]) as u64).collect();
        assert_eq!(found.shape.lengths, lengths);
        assert!((error / whole as f64 - evaluation.error.unwrap()).abs() < 1e-9);
        assert!((found.parts.total() - evaluation.error.unwrap()).abs() < 1e-9);
        assert_eq!(found.false_positives, mean(false_positives));
        assert_eq!(
            (found.shape.distinct, found.shape.candidates),
            (mean(distinct), mean(candidates))
        );
    }
}

#[test]
fn the_json_has_what_is_promised() {
    let list = json::evaluations(&evaluated(&specs(), &events(), Filter::default()));
    for (value, spec) in list.as_array().unwrap().iter().zip(SPECS) {
        assert_eq!(value["schema"], "trommel.compress/1");
        assert_eq!(value["spec"], spec);
        for name in ["events", "messages", "overhead_cycles"] {
            assert!(value[name].is_u64(), "{spec}: {name}");
        }
        assert!(value["error"].is_f64());
        if spec.starts_with('M') {
            for name in ["intervals", "distinct", "candidates"] {
                assert!(value[name].is_number(), "{spec}: {name}");
            }
            for name in [
                "false_positive",
                "false_negative",
                "neutral_positive",
                "neutral_negative",
            ] {
                assert!(value["error_parts"][name].is_f64(), "{spec}: {name}");
            }
        }
    }
}

#[test]
fn an_empty_stream_has_no_error() {
    for evaluation in evaluated(&specs(), &[], Filter::default()) {
        assert_eq!(
            (evaluation.events, evaluation.messages, evaluation.error),
            (0, 0, Err(Unjudged::Empty))
        );
    }
}

/// No error is null, with a reason, and never 0.
#[test]
fn what_judges_nothing_is_null() {
    let (events, specs) = (events(), specs());
    let some = "executions=10,tuple=10%,load=40%".parse().unwrap();
    let none = "executions=1000000,tuple=10%,load=40%".parse().unwrap();
    for (events, filter, interval, others) in [
        (&events[..300], some, Some("shorter"), None),
        (&events[..], none, None, Some("filter")),
        (&[], Filter::default(), Some("no events"), Some("no events")),
    ] {
        let list = json::evaluations(&evaluated(&specs, events, filter));
        for (value, spec) in list.as_array().unwrap().iter().zip(&specs) {
            let reason = match spec.interval() {
                Some(spec) => interval.filter(|_| events.len() < spec.interval as usize),
                None => others,
            };
            let said = value["no_error"].as_str();
            assert_eq!(
                value["error"].is_null(),
                reason.is_some(),
                "{spec}: {value}"
            );
            assert_eq!(said.is_some(), reason.is_some(), "{spec}: {value}");
            assert!(
                said.unwrap_or("").contains(reason.unwrap_or("")),
                "{spec}: {value}"
            );
            let Some(_) = reason else { continue };
            if spec.interval().is_some() {
                for name in ["mean_interval", "distinct", "candidates", "false_positives"] {
                    assert!(value[name].is_null(), "{spec}: {name}");
                }
                assert!(value["error_parts"]["false_positive"].is_null());
                assert_eq!(value["unfinished"], events.len());
            } else {
                assert!(value["points"][0]["error"].is_null());
            }
        }
    }
}

/// A kind of which the filter leaves nothing has no error of its own, beside one that has.
#[test]
fn a_kind_that_is_not_judged_has_none() {
    let filter = "executions=500,tuple=10%,load=40%".parse().unwrap();
    let found = evaluated(&specs()[1..2], &events(), filter);
    let of = |kind| {
        found[0]
            .kind_errors
            .iter()
            .find(|k| k.kind == kind)
            .unwrap()
    };
    assert!(of(Kind::Value).error.is_some() && found[0].error.is_ok());
    assert_eq!((of(Kind::Call).error, of(Kind::Call).tuples), (None, 0));
    let json = json::evaluations(&found);
    assert!(json[0]["kinds"]["call"]["error"].is_null() && json[0]["error"].is_f64());
}

/// Promotions of the interval that the stream does not finish are not counted.
#[test]
fn an_unfinished_interval_counts_nothing() {
    let events = events();
    let specs = specs();
    for (whole, more) in evaluated(&specs, &events[..4000], Filter::default())
        .iter()
        .zip(evaluated(&specs, &events[..4000 + 499], Filter::default()))
    {
        let (Some(whole), Some(more), Some(spec)) =
            (&whole.interval, &more.interval, more.spec.interval())
        else {
            continue;
        };
        if whole.shape.intervals != more.shape.intervals || spec.is_adaptive() {
            continue;
        }
        assert_eq!(more.unfinished, whole.unfinished + 499);
        let figures =
            |i: &trommel_profile::accuracy::IntervalAccuracy| (i.promotions, i.accumulator_full);
        assert_eq!(figures(whole), figures(more), "{spec:?}");
        assert!(whole.promotions > 0);
    }
}
