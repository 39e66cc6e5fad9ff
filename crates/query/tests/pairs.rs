//! Pairs, compared with the plain meaning: all records of a query in order, of which pairs are taken.

use proptest::prelude::*;
use trommel_compress::random::SplitMix64;
use trommel_query::engine::{Effect, Log};
use trommel_query::{
    Class, Engine, Entry, Event, Facts, Field, Operation, Program, Subject, assemble,
};

fn entry(operation: Operation, tag: u8) -> Entry {
    Entry::of(Subject::Class(Class::new(operation, tag).expect("a tag")))
}

fn program(text: &str) -> Program {
    assemble(text).expect(text).program
}

/// Words of the messages of a log.
fn messages(log: &Log) -> Vec<[u64; 7]> {
    let sent = log.0.iter().map(|effect| match effect {
        Effect::Message { record, .. } => record.0,
        other => panic!("{other:?}"),
    });
    sent.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A pair is two of the query's records, so far apart as its distance says. Pairs follow each other, and only the last first may
    /// lack its second.
    #[test]
    fn pairs_are_two_records_of_the_sequence(
        seed in any::<u64>(), within in 1_u64..200, more in 1_u64..200, executions in 0_u64..20_000,
    ) {
        let rate = within + more;
        let selected = [
            entry(Operation::Load, 0), entry(Operation::Load, 3), entry(Operation::Store, 2),
        ];
        let text = format!(
            "for opSTORE 2 opLOAD 0 opLOAD 3 every {rate} pair {within} collect pc op1; send 1 stop;"
        );
        let program = program(&text);
        let mut random = SplitMix64::new(seed);
        // What the query does not select lies between, and does not count.
        let other = entry(Operation::Alu, 0);
        // All records in order: the number of each, and its value.
        let mut records = Vec::new();
        let mut engine = Engine::new(&program, seed);
        let mut log = Log::default();
        for _ in 0..executions {
            let value = random.draw();
            let facts = Facts::NONE.with(Field::Pc, records.len() as u64).with(Field::Op1, value);
            match random.below(4) {
                3 => engine.offer(other, &facts, &mut log),
                n => {
                    records.push(value);
                    engine.offer(selected[n as usize], &facts, &mut log);
                }
            }
        }
        let mut after = 0;
        for [first, second, own, others, distance, rest @ ..] in messages(&log) {
            prop_assert_eq!(second - first, distance);
            prop_assert!((1..=within).contains(&distance));
            prop_assert_eq!([own, others], [records[first as usize], records[second as usize]]);
            prop_assert_eq!(rest, [0; 2]);
            prop_assert!(first >= after, "pairs do not overlap");
            prop_assert!(first - after < 2 * rate, "the next first is at most so far");
            after = second + 1;
        }
        prop_assert!(records.len() as u64 - after < 2 * rate + within);
    }
}

/// Each execution is the first of a pair with probability 1/M, and each distance is as likely as any other.
#[test]
fn firsts_and_distances_are_uniform() {
    const EXECUTIONS: usize = 200;
    const SEEDS: u64 = 30_000;
    let (rate, within) = (12.0, 8);
    let program = program("for opLOAD * every 12 pair 8 collect pc; send 1 stop;");
    let load = entry(Operation::Load, 0);
    let (mut firsts, mut distances) = (vec![0.0; EXECUTIONS], vec![0.0; within + 1]);
    for seed in 0..SEEDS {
        let mut engine = Engine::new(&program, seed);
        let mut log = Log::default();
        for n in 0..EXECUTIONS + within {
            let facts = Facts::NONE.with(Field::Pc, n as u64);
            engine.offer(load, &facts, &mut log);
        }
        for [first, _, distance, ..] in messages(&log) {
            if let Some(count) = firsts.get_mut(first as usize) {
                *count += 1.0;
                distances[distance as usize] += 1.0;
            }
        }
    }
    let expected = SEEDS as f64 / rate;
    // The first countdowns are uniform, and their memory fades.
    for (n, count) in firsts.iter().enumerate().skip(100) {
        let deviation = (count - expected) / expected.sqrt();
        assert!(deviation.abs() < 5.0, "{n}: {count} of {expected}");
    }
    let all: f64 = distances.iter().sum();
    let expected = all / within as f64;
    assert_eq!(distances[0], 0.0);
    for (distance, count) in distances.iter().enumerate().skip(1) {
        let deviation = (count - expected) / expected.sqrt();
        assert!(deviation.abs() < 5.0, "{distance}: {count} of {expected}");
    }
}

/// M · N times the pairs at a distance estimates how many such pairs all records have.
#[test]
fn sums_of_pairs_estimate_the_join_of_all_records() {
    let text = "for opLOAD * opSTORE * every 40 pair 16 collect op1 res2;
        if res2 = second.res2 and distance <= 4 then send 1 stop else stop;";
    let program = program(text);
    let entries = [entry(Operation::Load, 0), entry(Operation::Store, 0)];
    let mut random = SplitMix64::new(5);
    let addresses: Vec<u64> = (0..400_000).map(|_| random.below(6)).collect();
    let mut engine = Engine::new(&program, 9);
    let mut log = Log::default();
    for address in &addresses {
        let facts = Facts::NONE.with(Field::Res2, *address);
        engine.offer(entries[random.below(2) as usize], &facts, &mut log);
    }
    for distance in 1..=4 {
        let join = addresses.iter().zip(&addresses[distance..]);
        let join = join.filter(|(first, second)| first == second).count() as f64;
        let found = messages(&log)
            .into_iter()
            .filter(|words| words[4] == distance as u64);
        let found = found.count() as f64;
        let estimate = found * 40.0 * 16.0;
        let deviation = found.sqrt() * 40.0 * 16.0;
        assert!(
            (estimate - join).abs() < 5.0 * deviation,
            "{distance}: {estimate} of {join}"
        );
    }
}

/// A pair of events is one of the events in the order in which they are noticed.
#[test]
fn events_have_pairs_of_their_own() {
    let program = program(
        "for evL2DMISS * evDTLBMISS * every 5 pair 4 collect pc; send 1 stop;
         for opLOAD * every 3 pair 2 collect pc; send 2 stop;",
    );
    let events = [Event::L2DataMiss, Event::DtlbMiss].map(|e| Entry::of(Subject::Event(e)));
    let mut engine = Engine::new(&program, 2);
    let mut log = Log::default();
    for n in 0..1000 {
        let facts = Facts::NONE.with(Field::Pc, n);
        engine.offer(events[(n % 3 / 2) as usize], &facts, &mut log);
        // What other queries select lies between, and does not count.
        engine.offer(entry(Operation::Load, 1), &facts, &mut log);
    }
    let all = messages(&log);
    assert!(all.len() > 400);
    for [first, second, distance, ..] in all {
        assert_eq!(second - first, distance);
    }
}
