//! Tests on made-up programs whose prefetches are known.

use trommel_tuple::Place;

use super::*;

const ROUND: u64 = 40_000;

/// The verdicts of a round in which a thread executes a loop: each instruction at its number, with
/// the address that it accesses in the nth round of the loop.
fn verdicts(loop_: &[&dyn Fn(u64) -> u64]) -> BTreeMap<u64, Missing> {
    let mut service = Prefetch::new(Geometry::ASSUMED);
    round(&mut service, loop_);
    service.known
}

fn round(service: &mut Prefetch, loop_: &[&dyn Fn(u64) -> u64]) {
    for n in 0..ROUND / loop_.len() as u64 {
        for (pc, address) in loop_.iter().enumerate() {
            service.access(1, pc as u64, address(n), false);
        }
    }
    service.conclude(Place::from_word);
}

fn random(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !7
}

#[test]
fn the_queries_assemble_and_are_answered_by_software() {
    let question = question();
    assert!(crate::ask::answerable::check(&question.program).is_ok());
    assert!(!question.is_tagged());
    assert_eq!(question.program.queries().len(), 2);
}

#[test]
fn a_walk_by_more_than_a_page_is_prefetched_and_a_chase_is_not() {
    let walk = |n| (1 << 40) + n * 4160;
    let chase = |n| (2 << 40) + random(n);
    let small = |n| (3 << 40) + n * 64;
    let same = |n| (4 << 40) + n % 100 * 64;
    let found = verdicts(&[&walk, &chase, &small, &same]);
    assert_eq!(found[&0].stride, Some((4160, 1.0)));
    let PrefetchDecision::Placed { ahead, by } = found[&0].verdict else {
        panic!("{:?}", found[&0]);
    };
    assert_eq!(by, 4160 * i64::from(ahead));
    // Four accesses a round: far ahead.
    assert_eq!(ahead, 16);
    assert_eq!(found[&1].verdict, PrefetchDecision::Irregular);
    assert_eq!(found[&2].verdict, PrefetchDecision::Near);
    assert!(!found.contains_key(&3), "it stays in the cache");
}

#[test]
fn long_rounds_are_prefetched_less_far_ahead() {
    let walk = |n| (1 << 40) + n * 9000;
    let stays = |_: u64| 2_u64 << 40;
    let mut body: Vec<&dyn Fn(u64) -> u64> = vec![&walk];
    body.extend(std::iter::repeat_n(&stays as &dyn Fn(u64) -> u64, 99));
    let found = verdicts(&body);
    let by = 4 * 9000;
    assert_eq!(found[&0].verdict, PrefetchDecision::Placed { ahead: 4, by });
}

#[test]
fn a_walk_that_starts_again_often_is_not_prefetched_beyond_its_end() {
    let walk = |n| (1 << 40) + (random(n / 4) & !0xffff) + n % 4 * 20_000;
    let found = verdicts(&[&walk]);
    assert_eq!(
        found[&0].verdict,
        PrefetchDecision::Placed {
            ahead: 2,
            by: 40_000
        }
    );
}

#[test]
fn what_fits_into_the_cache_is_left_alone_once_it_is_warm() {
    let around = |n| (1 << 40) + n % 200 * 4160;
    let mut service = Prefetch::new(Geometry::ASSUMED);
    round(&mut service, &[&around]);
    assert!(service.known.is_empty());
}

#[test]
fn a_later_round_replaces_what_an_earlier_one_said() {
    let walk = |n| (1 << 40) + n * 4160;
    let chase = |n| (2 << 40) + random(n);
    let mut service = Prefetch::new(Geometry::ASSUMED);
    round(&mut service, &[&walk]);
    assert!(matches!(
        service.known[&0].verdict,
        PrefetchDecision::Placed { .. }
    ));
    round(&mut service, &[&chase]);
    assert_eq!(service.known[&0].verdict, PrefetchDecision::Irregular);
    round(&mut service, &[&|_| 8, &walk]);
    assert!(!service.known.contains_key(&0) && service.known.contains_key(&1));
}

#[test]
fn the_target_is_answered_once_a_round_and_told_no_more_than_there_is_room_for() {
    let told = Box::new(Told::default());
    let modules = Modules::new(crate::channel::modules::Images::default());
    let mut service = Prefetch::new(Geometry::ASSUMED);
    for n in 0..ROUND * 8 {
        let pc = n % 300;
        service.access(1, pc, (pc << 40) + n * 5000, pc % 2 == 1);
    }
    service.answer(&told, 0, &modules);
    assert_eq!(told.places.load(Relaxed), 0, "no round is over");
    service.answer(&told, 1, &modules);
    assert_eq!(told.answered.load(Relaxed), 1);
    assert_eq!(told.places.load(Relaxed) as usize, MAX_PLACES);
    let first = &told.place[0];
    assert_eq!(
        first.written.load(Relaxed),
        u32::from(first.pc.load(Relaxed) % 2 == 1)
    );
    let report = service.report(&told);
    let overflowing = report
        .found
        .iter()
        .filter(|f| f.verdict == PrefetchDecision::Overflowing);
    assert_eq!(overflowing.count(), 300 - MAX_PLACES);
    assert_eq!((report.rounds, report.accesses), (1, ROUND * 8));
}

#[test]
fn threads_beyond_those_with_caches_are_not_looked_at() {
    let mut service = Prefetch::new(Geometry::ASSUMED);
    for n in 0..100_000 {
        service.access(n as u32 % 64, n, n * 4096, false);
    }
    assert_eq!(service.caches.len(), THREADS);
    assert!(service.histories.len() <= MOST);
}
