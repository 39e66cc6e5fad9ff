//! Limits of sampled counts hold in 95 of 100 entries, by simulation.
//!
//! Streams are in random order, with hot, warm and rare tuples; every tuple that was reported is an
//! entry. What is tested is coverage over all entries and over the rare and the hot ones alone: limits
//! that are right on average only would fail.

use trommel_compress::random::SplitMix64;
use trommel_compress::{Seeds, Spec};
use trommel_profile::accuracy::{Estimator, Tuples};
use trommel_profile::confidence::{Basis, Confidence};
use trommel_tuple::{Events, Kind, Message, Place, Tuple, Vaddr};

const EVENTS: usize = 40_000;

/// Tuple `n` occurs about EVENTS / 8(n+1) times, down to `least`.
fn stream(random: &mut SplitMix64, least: u64) -> (Vec<Tuple>, Vec<u64>) {
    let mut events = Vec::with_capacity(EVENTS);
    let mut counts = Vec::new();
    while events.len() < EVENTS {
        let n = counts.len() as u64;
        let pc = Place::new(trommel_tuple::ModuleId(1), Vaddr(0x1000 + n / 20 * 4));
        let count = (EVENTS as u64 / (8 * (n + 1)))
            .max(least)
            .min((EVENTS - events.len()) as u64);
        events.extend(std::iter::repeat_n(Tuple::new(pc, n), count as usize));
        counts.push(count);
    }
    for i in (1..events.len()).rev() {
        events.swap(i, random.below(i as u64 + 1) as usize);
    }
    (events, counts)
}

#[derive(Default)]
struct ValueCounter {
    inside: u64,
    entries: u64,
}

impl ValueCounter {
    fn add(&mut self, holds: bool) {
        self.inside += u64::from(holds);
        self.entries += 1;
    }

    fn share(&self) -> f64 {
        self.inside as f64 / self.entries.max(1) as f64
    }
}

/// Coverage of counts (all, hot and rare) and of shares within an instruction.
fn coverage(spec: &str, runs: u64, least: u64) -> [ValueCounter; 5] {
    let spec: Spec = spec.parse().expect("a spec");
    let mut value_counters: [ValueCounter; 5] = Default::default();
    for run in 0..runs {
        let (events, counts) = stream(&mut SplitMix64::new(77 + run), least);
        let seeds = Seeds {
            hash: run + 1,
            random: 1000 + run,
        };
        let mut tuples = Tuples::default();
        let mut estimator = Estimator::new(&spec, seeds);
        let mut compressor = spec.build(seeds);
        let mut sink = |message: Message| {
            let number = tuples.number(message.kind, message.tuple);
            estimator.message(&message, number);
        };
        compressor.events(Events::of_kind(Kind::Value, &events), &mut sink);
        compressor.finish(&mut sink);
        let mut reported: Vec<(Tuple, u64)> = estimator
            .estimates(&tuples)
            .map(|(_, tuple, count)| (tuple, count.round() as u64))
            .collect();
        reported.sort_unstable();
        let mut confidence =
            Confidence::for_spec(&spec, seeds, events.len() as u64, reported.iter().copied());
        for (tuple, count) in &reported {
            let truth = counts[tuple.value as usize] as f64;
            let limits = confidence.count(*tuple, *count).expect("limits are known");
            assert!(
                limits.low <= limits.high && limits.low >= 1.0,
                "{spec}: {limits:?}"
            );
            let holds = limits.low <= truth && truth <= limits.high;
            value_counters[0].add(holds);
            value_counters[if truth >= 400.0 { 1 } else { 2 }].add(holds);
        }
        for site in reported.chunk_by(|a, b| a.0.pc == b.0.pc) {
            let all = site;
            let truth = |n: usize| counts[n] as f64;
            let base = all[0].0.value as usize / 20 * 20;
            let total: f64 = (base..(base + 20).min(counts.len())).map(truth).sum();
            let executions = confidence.values(all).expect("limits are known");
            value_counters[3].add(executions.all.low <= total && total <= executions.all.high);
            for (index, (tuple, count)) in all.iter().enumerate() {
                let share = truth(tuple.value as usize) / total;
                let limits = executions.share(index, *count);
                value_counters[4].add(limits.low <= share && share <= limits.high);
            }
        }
    }
    value_counters
}

#[test]
fn limits_hold_in_95_of_100_entries() {
    for spec in [
        "R16",
        "H[R16]64",
        "P16",
        "D16",
        "CR16",
        "H[P16]64",
        "H:crc[P16]64",
        "H[D16]64",
        "H[CR16]64",
        "H[P16]64+A8",
        "P16:phase",
        "H[P16:phase]64",
        "D4+H[P4:phase]128",
        "R4+R4",
    ] {
        // Many rare tuples; and few tuples, most of them alone in their substreams.
        let streams = [coverage(spec, 12, 1), coverage(spec, 60, 900)];
        for (what, value_counter) in ["all", "hot", "rare", "executions", "shares"]
            .iter()
            .cycle()
            .zip(streams.iter().flatten())
        {
            if value_counter.entries == 0 {
                continue;
            }
            println!(
                "{spec} {what}: {:.3} of {}",
                value_counter.share(),
                value_counter.entries
            );
            // Three standard deviations of chance below 95 %.
            let chance = 3.0 * (0.95 * 0.05 / value_counter.entries as f64).sqrt();
            assert!(
                value_counter.share() >= 0.95 - chance,
                "{spec}: {what}: {:.3} of {}",
                value_counter.share(),
                value_counter.entries
            );
        }
    }
}

#[test]
fn an_interval_profiler_s_limits_are_certain() {
    for spec in [
        "M4[1k,1%]2048:C1R0P1",
        "M1[1k,1%]64:C0R0P0",
        "M2[2k,0.5%]256:C0R0P1",
    ] {
        let [all, ..] = coverage(spec, 3, 1);
        assert!(all.entries > 10);
        assert_eq!(all.inside, all.entries, "{spec}");
    }
}

#[test]
fn what_is_not_known_is_not_said() {
    for (spec, basis) in [
        ("exact", Basis::Exact),
        ("T[16]64/2way/2bit", Basis::Unknown),
        ("CR16:sum", Basis::Unknown),
        ("R16", Basis::Binomial),
        ("H[P16]64", Basis::Stratum),
        ("M4[10k,1%]2048", Basis::Bound),
        ("M4[10k..1M,1%]2048", Basis::Unknown),
        ("H[P16:phase]64", Basis::Stratum),
        ("D4+H[P4:phase]64", Basis::Binomial),
        ("D4+H[P4]64", Basis::Unknown),
        ("P4+H[P4:phase]64", Basis::Unknown),
        ("D4+exact", Basis::Unknown),
        ("D4+T[16]64/2way/2bit", Basis::Unknown),
    ] {
        let spec: Spec = spec.parse().expect("a spec");
        let mut confidence = Confidence::for_spec(&spec, Seeds::default(), 100, std::iter::empty());
        assert_eq!(confidence.basis(), basis);
        let limits = confidence.count(Tuple::default(), 32);
        assert_eq!(limits.is_none(), basis == Basis::Unknown);
        if basis == Basis::Exact {
            assert_eq!(limits.map(|l| (l.low, l.high)), Some((32.0, 32.0)));
        }
    }
}
