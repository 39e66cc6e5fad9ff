//! Every component against a naive model of the readings, and against its invariants.

mod naive;

use std::collections::{BTreeMap, HashMap};

use naive::{
    Filter, Profiler, apart, cheap_index, filtered, index, multi_hash, nth_index, set_of, table,
    tagged, thinned,
};
use proptest::prelude::*;
use trommel_compress::random::SplitMix64;
use trommel_compress::{Compressor, Seeds, Sink, Spec};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

fn stream() -> impl Strategy<Value = Vec<Tuple>> {
    let tuple = prop_oneof![
        3 => (0u64..4, 0u64..3),
        1 => (0u64..40, any::<u64>()),
    ];
    let tuple = tuple.prop_map(|(pc, v)| Tuple::new(Place::from_word(0x1_0000_0040_1000 + pc), v));
    prop::collection::vec(tuple, 0..900)
}

/// Few instructions, most of one set of either table: of one value, of two, of many, and one that changes.
fn settling() -> impl Strategy<Value = Vec<Tuple>> {
    let kind = Kind::Value as u64;
    let alike = (0x40_1000_u64..).filter(move |pc| set_of(*pc, kind, 512) == 0);
    let pcs: Vec<u64> = alike.take(6).chain([0x70, 0x71, 0x72]).collect();
    let tuple = (0..pcs.len(), any::<u64>(), 0u64..8).prop_map(move |(n, noise, few)| {
        let value = match n % 4 {
            0 => 7,
            1 => few / 5,
            2 => noise,
            _ => few,
        };
        Tuple::new(Place::from_word(pcs[n]), value)
    });
    // Now and then everything is shifted, so that what was known changes, and some instructions come no more.
    let part =
        (prop::collection::vec(tuple, 0..500), 0u64..3, 1usize..9).prop_map(|(part, by, of)| {
            let shift = |t: &Tuple| Tuple::new(t.pc, t.value.wrapping_add(by));
            let kept = move |t: &Tuple| t.pc.word() as usize % 9 < of + 3;
            part.iter()
                .filter(|t| kept(t))
                .map(shift)
                .collect::<Vec<_>>()
        });
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

#[derive(Default)]
struct Kept {
    messages: Vec<Message>,
    intervals: Vec<usize>,
    lengths: Vec<u64>,
}

impl Sink for Kept {
    fn message(&mut self, message: Message) {
        self.messages.push(message);
    }

    fn interval_end(&mut self, events: u64) {
        self.lengths.push(events);
        self.intervals.push(self.messages.len());
    }
}

fn compressor(spec: &str) -> Compressor {
    let spec: Spec = spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"));
    spec.build(Seeds::default())
}

/// All messages, and the events held at the end.
fn run(spec: &str, tuples: &[Tuple]) -> (Kept, Option<u64>) {
    let mut compressor = compressor(spec);
    let mut kept = Kept::default();
    compressor.events(Events::of_kind(Kind::Value, tuples), &mut kept);
    compressor.finish(&mut kept);
    (kept, compressor.held())
}

fn pairs(kept: &Kept) -> Vec<(Tuple, u64)> {
    kept.messages.iter().map(|m| (m.tuple, m.count)).collect()
}

fn told(kept: &Kept) -> Vec<naive::Told> {
    let told = |m: &Message| (m.tuple, m.count, m.samples);
    kept.messages.iter().map(told).collect()
}

fn totals(kept: &Kept) -> BTreeMap<Tuple, u64> {
    let mut totals = BTreeMap::new();
    for message in &kept.messages {
        *totals.entry(message.tuple).or_default() += message.count;
    }
    totals
}

const COUNTING: [&str; 18] = [
    "exact",
    "P1",
    "P7",
    "CR5",
    "CR5:sum",
    "H[P3]8",
    "H[P3]1",
    "H[CR4]16",
    "H[P5]4+A2",
    "T[16]16/2way/2bit",
    "T[3]4/1way/1bit+A16",
    "P5+exact",
    "P4+P1",
    "P4+H[P3]8+A2",
    "P3+T[16]16/2way/2bit",
    "H[H[P3]4]2",
    "P2+A2/3bit+A4",
    "T[16]16/2way/2bit:E2B1",
];

proptest! {
    #[test]
    fn messages_and_held_are_all_events(tuples in stream()) {
        for spec in COUNTING {
            let (kept, held) = run(spec, &tuples);
            let counted: u64 = kept.messages.iter().map(|m| m.count).sum();
            prop_assert_eq!(Some(tuples.len() as u64 - counted), held, "{}", spec);
        }
    }

    #[test]
    fn a_split_random_sampler_is_the_random_sampler(tuples in stream()) {
        prop_assert_eq!(pairs(&run("H[R5]16", &tuples).0), pairs(&run("R5", &tuples).0));
    }

    #[test]
    fn a_split_in_one_is_no_split(tuples in stream()) {
        for rule in ["P3", "R3", "D3", "CR3"] {
            let split = run(&format!("H[{rule}]1"), &tuples).0;
            prop_assert_eq!(pairs(&split), pairs(&run(rule, &tuples).0));
        }
    }

    #[test]
    fn a_counter_table_never_changes_the_profile(tuples in stream(), k in 1u32..20) {
        for spec in ["exact", "P2", "R3", "D3", "CR3", "H[P2]8", "T[5]8/2way/2bit"] {
            let alone = run(spec, &tuples).0;
            let second = run(&format!("{spec}+A{k}"), &tuples).0;
            prop_assert_eq!(totals(&alone), totals(&second));
            let samples: u32 = second.messages.iter().map(|m| m.samples).sum();
            prop_assert_eq!(samples as usize, alone.messages.len());
            prop_assert!(second.messages.len() <= alone.messages.len());
        }
    }

    #[test]
    fn block_boundaries_make_no_difference(tuples in stream(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(tuples.len() + 1);
        for spec in [
            "R3", "D4+A4", "H[CR3]8", "T[5]8/2way/2bit", "M2[50,4%]16:C1R1P1", "D3+H[P2:phase]8", "R2+D3",
            "P3+CR2+A4", "F[5%,3]8:K2N1+H[P2]8", "F[9%,2]4+D2+exact", "M2[20..200,4%]16:C1R1P1", "M3[20..200,4%]24:C1R0P1",
        ] {
            let mut compressor = compressor(spec);
            let mut kept = Kept::default();
            let (a, b) = Events::of_kind(Kind::Value, &tuples).split_at(cut);
            compressor.events(a, &mut kept);
            compressor.events(b, &mut kept);
            compressor.finish(&mut kept);
            let whole = run(spec, &tuples).0;
            prop_assert_eq!(kept.messages, whole.messages);
            prop_assert_eq!(kept.intervals, whole.intervals);
        }
    }

    #[test]
    fn periodic_samplers_are_their_model(tuples in stream(), r in 1u32..9, bits in 0u32..6) {
        let mut counters = HashMap::new();
        let expected: Vec<_> = tuples.iter().filter(|t| {
            let counter = counters.entry(index(0, **t, bits)).or_insert(0);
            *counter = (*counter + 1) % r;
            *counter == 0
        }).map(|t| (*t, u64::from(r))).collect();
        let spec = format!("H[P{r}]{}", 1 << bits);
        prop_assert_eq!(pairs(&run(&spec, &tuples).0), expected);
    }

    #[test]
    fn cheap_hashes_split_as_they_are_defined(tuples in stream(), r in 1u32..6, bits in 0u32..12) {
        for name in [":mul", ":crc"] {
            let mut counters = HashMap::new();
            let expected: Vec<_> = tuples.iter().filter(|t| {
                let counter = counters.entry(cheap_index(name, **t, bits)).or_insert(0);
                *counter = (*counter + 1) % r;
                *counter == 0
            }).map(|t| (*t, u64::from(r))).collect();
            let spec = format!("H{name}[P{r}]{}", 1u32 << bits);
            prop_assert_eq!(pairs(&run(&spec, &tuples).0), expected);
        }
    }

    #[test]
    fn random_samplers_are_their_models(tuples in stream(), r in 1u64..9, bits in 0u32..5) {
        let strata = |t: Tuple| index(0, t, bits) as usize;
        let mut random = SplitMix64::new(1);
        let selected: Vec<bool> = tuples.iter().map(|_| random.draw() <= u64::MAX / r).collect();
        let chosen = || tuples.iter().zip(&selected).filter(|(_, s)| **s).map(|(t, _)| *t);
        let expected: Vec<_> = chosen().map(|t| (t, r)).collect();
        prop_assert_eq!(pairs(&run(&format!("H[R{r}]{}", 1 << bits), &tuples).0), expected);

        let mut since = vec![0; 1 << bits];
        let counted = tuples.iter().zip(&selected).filter_map(|(t, selected)| {
            let since = &mut since[strata(*t)];
            *since += 1;
            selected.then(|| (*t, std::mem::take(since)))
        });
        let counted: Vec<_> = counted.collect();
        let (kept, held) = run(&format!("H[CR{r}]{}", 1 << bits), &tuples);
        prop_assert_eq!(pairs(&kept), counted);
        prop_assert_eq!(held, Some(since.iter().sum()));

        let mut random = SplitMix64::new(1);
        let mut draw = || 1 + random.below(2 * r - 1);
        let mut left: Vec<u64> = (0..1 << bits).map(|_| draw()).collect();
        let counted_down: Vec<_> = tuples.iter().filter(|t| {
            let left = &mut left[strata(**t)];
            *left -= 1;
            let sent = *left == 0;
            if sent {
                *left = draw();
            }
            sent
        }).map(|t| (*t, r)).collect();
        prop_assert_eq!(pairs(&run(&format!("H[D{r}]{}", 1 << bits), &tuples).0), counted_down);
    }

    #[test]
    fn a_random_start_is_its_model(tuples in stream(), r in 1u64..9, bits in 0u32..6) {
        let mut random = apart("phases  ");
        let mut left: Vec<u64> = (0..1 << bits).map(|_| 1 + random.below(r)).collect();
        let expected: Vec<_> = tuples.iter().filter(|t| {
            let left = &mut left[index(0, **t, bits) as usize];
            *left -= 1;
            let sent = *left == 0;
            if sent {
                *left = r;
            }
            sent
        }).map(|t| (*t, r)).collect();
        let (kept, held) = run(&format!("H[P{r}:phase]{}", 1 << bits), &tuples);
        prop_assert_eq!(pairs(&kept), expected);
        prop_assert_eq!(held, None);
    }

    #[test]
    fn a_sampler_before_another_shows_it_a_shorter_stream(
        tuples in stream(), rule in prop::sample::select(vec!['P', 'R', 'D']), k in 1u64..9,
    ) {
        let passed = thinned(&tuples, rule, k);
        for second in [
            "exact", "P3", "R3", "D3", "CR3", "H[P2:phase]8", "H:mul[D2]8+A3", "T[5]8/2way/2bit",
        ] {
            let alone = run(second, &passed).0;
            let scaled: Vec<_> = pairs(&alone).into_iter().map(|(t, n)| (t, n * k)).collect();
            prop_assert_eq!(pairs(&run(&format!("{rule}{k}+{second}"), &tuples).0), scaled);
        }
    }

    #[test]
    fn a_filter_is_its_model(
        tuples in settling(), limit in 1u32..30, messages in 1usize..7, sets in 1usize..4, rests in (0u64..4, 0u64..9),
    ) {
        let (settled, others) = rests;
        prop_assume!(settled + others > 0);
        let f = Filter { limit: f64::from(limit), messages, entries: 4 * sets, settled, others };
        for after in ["exact", "P2", "H[P2]8", "R2", "D2+exact", "T[3]8/2way/2bit", "H[H[D2]2]2"] {
            let mut alone = compressor(after);
            let model = filtered(&tuples, Kind::Value as u64, &f, |tuple| {
                let mut kept = Kept::default();
                alone.events(Events::of_kind(Kind::Value, &[tuple]), &mut kept);
                kept.messages.first().map(|m| m.count)
            });
            let spec = format!("F[{limit}%,{messages}]{}:K{settled}N{others}+{after}", 4 * sets);
            let (kept, held) = run(&spec, &tuples);
            prop_assert_eq!(pairs(&kept), model, "{}", spec);
            prop_assert_eq!(held, None);
        }
    }

    /// Most events of instructions that settle are dropped, and messages stand for them all the same.
    #[test]
    fn counts_of_settled_instructions_stay_right(values in prop::collection::vec(1u64..3, 1..4), k in 1u64..9) {
        let tuple = |n: usize| {
            let of = n % values.len();
            Tuple::new(Place::from_word(0x40_1000 + of as u64), n as u64 / 7 % values[of])
        };
        let tuples: Vec<Tuple> = (0..30_000).map(tuple).collect();
        let sent = run(&format!("F[5%,16]64:K{k}N0+exact"), &tuples).0;
        let counted: u64 = sent.messages.iter().map(|m| m.count).sum();
        // Watched at first; the last look and rest may be cut short.
        let rest = 16 * (k + 1) * values.len() as u64;
        prop_assert!(counted.abs_diff(30_000) <= rest, "{}", counted);
        let most = 30_000 / (k as usize + 1) + 1500;
        prop_assert!(sent.messages.len() <= most, "{} of {}", sent.messages.len(), most);
    }

    #[test]
    fn a_counter_table_is_its_model(tuples in stream(), k in 1usize..9) {
        for spec in ["exact", "P2", "H[P2]8"] {
            let expected = table(&told(&run(spec, &tuples).0), k, 255);
            // What is inside at the end is sent from the least recently used on.
            prop_assert_eq!(told(&run(&format!("{spec}+A{k}"), &tuples).0), expected);
        }
    }

    #[test]
    fn counter_tables_of_any_width_follow_each_other(
        tuples in stream(), first in (1usize..5, 1u32..5), second in (1usize..9, 1u32..9),
    ) {
        for spec in ["P1", "H[P2]8"] {
            let alone = told(&run(spec, &tuples).0);
            let [one, two] = [first, second].map(|(k, bits)| (k, (1 << bits) - 1));
            // The first one's rest comes to the second one at the end, after all else.
            let expected = table(&table(&alone, one.0, one.1), two.0, two.1);
            let spec = format!("{spec}+A{}/{}bit+A{}/{}bit", first.0, first.1, second.0, second.1);
            prop_assert_eq!(told(&run(&spec, &tuples).0), expected, "{}", spec);
        }
    }

    #[test]
    fn splitters_in_each_other_are_their_model(
        tuples in stream(), r in 1u32..5, outer in 0u32..4, middle in 0u32..3, inner in 0u32..4,
    ) {
        for name in ["", ":mul", ":crc"] {
            let mut counters = HashMap::new();
            let expected: Vec<_> = tuples.iter().filter(|t| {
                let digit = |(n, bits): (u32, u32)| nth_index(name, n, **t, bits);
                let at: Vec<u64> = (0..).zip([outer, middle, inner]).map(digit).collect();
                let counter = counters.entry(at).or_insert(0);
                *counter = (*counter + 1) % r;
                *counter == 0
            }).map(|t| (*t, u64::from(r))).collect();
            let [a, b, c] = [outer, middle, inner].map(|bits| 1u32 << bits);
            let spec = format!("H{name}[H[H[P{r}]{c}]{b}]{a}");
            prop_assert_eq!(pairs(&run(&spec, &tuples).0), expected, "{}", spec);
        }
        let nested = format!("H[H[R{r}]4]2");
        prop_assert_eq!(pairs(&run(&nested, &tuples).0), pairs(&run(&format!("R{r}"), &tuples).0));
        // A splitter in one is that splitter, by the second function.
        let none = format!("H[H[D{r}]1]{}", 1 << outer);
        let alone = format!("H[D{r}]{}", 1 << outer);
        prop_assert_eq!(pairs(&run(&none, &tuples).0), pairs(&run(&alone, &tuples).0));
    }

    #[test]
    fn tagged_is_its_model(
        tuples in stream(), r in 1u32..40, bits in 0u32..4, ways in 1usize..4, tag in 1u32..4,
    ) {
        let spec = format!("T[{r}]{}/{ways}way/{tag}bit", ways << bits);
        let (kept, held) = run(&spec, &tuples);
        let (sent, model_held) = tagged(&tuples, r, bits, ways, tag, (4, 8));
        prop_assert_eq!(pairs(&kept), sent);
        prop_assert_eq!(held, Some(model_held));
    }

    #[test]
    fn tagged_gives_up_and_sends_when_its_spec_says(
        tuples in stream(), r in 1u32..40, bits in 0u32..3, ways in 1usize..4, enough in 1u32..9, misses in 1u32..20,
    ) {
        let spec = format!("T[{r}]{}/{ways}way/2bit:E{enough}R{misses}", ways << bits);
        let (kept, held) = run(&spec, &tuples);
        let (sent, model_held) = tagged(&tuples, r, bits, ways, 2, (enough, misses));
        prop_assert_eq!(pairs(&kept), sent);
        prop_assert_eq!(held, Some(model_held));
    }

    #[test]
    fn multi_hash_is_its_model(
        tuples in stream(),
        tables in 1u32..7,
        bits in 1u32..5,
        interval in 20usize..90,
        percent in 2u32..30,
        small in any::<bool>(),
        (c, r, p) in any::<(bool, bool, bool)>(),
    ) {
        let capacity = if small { 2 } else { 100 / percent as usize };
        let m = Profiler {
            tables, bits, capacity, c, r, p,
            percent: percent as usize,
        };
        let given = if small { "A2" } else { "" };
        let spec = format!(
            "M{tables}[{interval},{percent}%]{}:C{}R{}P{}{given}",
            tables << bits, u8::from(c), u8::from(r), u8::from(p),
        );
        let (kept, _) = run(&spec, &tuples);
        let expected = multi_hash(&tuples, &m, std::iter::repeat(interval));
        prop_assert_eq!(kept.intervals.len(), expected.len());
        let ends: Vec<_> = expected.iter().scan(0, |n, i| { *n += i.len(); Some(*n) }).collect();
        prop_assert_eq!(&kept.intervals, &ends);
        prop_assert_eq!(pairs(&kept), expected.concat());
    }

    #[test]
    fn an_adaptive_profiler_is_its_model_over_the_intervals_it_picked(
        tuples in stream(),
        tables in 1u32..6,
        bits in 1u32..5,
        shortest in 10usize..40,
        times in 2usize..20,
        percent in 2usize..30,
        (c, r) in any::<(bool, bool)>(),
    ) {
        // Long enough that lengths change: the same events again and again.
        let tuples: Vec<_> = tuples.iter().cycle().take(tuples.len().min(1) * 12_000).copied().collect();
        let longest = shortest * times;
        let spec = format!(
            "M{tables}[{shortest}..{longest},{percent}%]{}:C{}R{}P1",
            tables << bits, u8::from(c), u8::from(r),
        );
        let mut compressor = compressor(&spec);
        let (mut kept, mut lengths, mut rest) = (Kept::default(), Vec::new(), &tuples[..]);
        while !rest.is_empty() {
            let length = compressor.first_level().interval_left().unwrap() as usize;
            let step = (0..).map(|n| shortest * 4usize.pow(n)).take_while(|n| *n < longest);
            prop_assert!(step.chain([longest]).any(|n| n == length), "{}", length);
            lengths.push(length);
            let (interval, others) = rest.split_at(length.min(rest.len()));
            compressor.events(Events::of_kind(Kind::Value, interval), &mut kept);
            rest = others;
        }
        let whole = lengths.iter().map(|length| *length as u64);
        prop_assert!(kept.lengths.iter().copied().eq(whole.take(kept.lengths.len())));
        let capacity = 100 / percent;
        let m = Profiler { tables, percent, bits, capacity, c, r, p: true };
        let expected = multi_hash(&tuples, &m, lengths);
        prop_assert_eq!(kept.intervals.len(), expected.len());
        prop_assert_eq!(pairs(&kept), expected.concat());
    }

    #[test]
    fn any_text_is_a_spec_or_an_error(text in "[PRDCHTMSKGEA0-9\\[\\]:+,%./waybitexcksumé ]{0,24}") {
        match text.parse::<Spec>() {
            Ok(spec) => prop_assert_eq!(spec.to_string().parse(), Ok(spec)),
            Err(e) => prop_assert!((1..=text.chars().count() + 1).contains(&e.column)),
        }
    }
}

#[test]
fn no_event_and_one_event() {
    let one = [Tuple::new(Place::from_word(1), 2)];
    let others = [
        "R3",
        "D3",
        "P3:phase",
        "D4+H[P4:phase]8",
        "R2+CR2+A1",
        "M4[10k,1%]2048:C1R0P1",
        "M2[1,100%]64:C0R1P0",
        "M4[1..9,1%]2048:C1R0P1",
        "SS[1,1%]5",
        "MG[10k,1%]5",
        "CM4[1,1%]64",
        "HK2[1,1%]64",
        "S8[1,1%]64",
    ];
    for spec in COUNTING.into_iter().chain(others) {
        assert!(run(spec, &[]).0.messages.is_empty(), "{spec}");
        let (kept, _) = run(spec, &one);
        assert!(kept.messages.iter().all(|m| m.tuple == one[0]), "{spec}");
        assert!(kept.messages.len() <= 1, "{spec}");
        // An interval of one event has one candidate.
        if spec.contains("[1,") || spec.contains("[1..") {
            assert_eq!(pairs(&kept), [(one[0], 1)], "{spec}");
            assert_eq!(kept.intervals, [1], "{spec}");
        }
    }
}

#[test]
fn tables_wider_than_16_bits_are_their_model() {
    let mut random = SplitMix64::new(8);
    let tuples: Vec<_> = (0..3000)
        .map(|_| {
            let pc = Place::from_word(1 << 48 | 0x40_1000 | random.below(3) << 12);
            Tuple::new(
                pc,
                if random.below(3) == 0 {
                    random.draw()
                } else {
                    random.below(4)
                },
            )
        })
        .collect();
    for (tables, bits) in [(1, 17), (2, 17), (3, 16), (4, 15), (5, 18), (16, 4)] {
        for (c, r) in [(true, false), (false, true)] {
            let percent = 4;
            let spec = format!(
                "M{tables}[100,{percent}%]{}:C{}R{}P1",
                tables << bits,
                u8::from(c),
                u8::from(r),
            );
            let m = Profiler {
                tables,
                percent,
                bits,
                capacity: 25,
                c,
                r,
                p: true,
            };
            let expected = multi_hash(&tuples, &m, std::iter::repeat(100));
            assert_eq!(pairs(&run(&spec, &tuples).0), expected.concat(), "{spec}");
        }
    }
}

#[test]
fn tuples_of_two_kinds_stay_apart() {
    let tuples = [Tuple::new(Place::from_word(5), 6); 40];
    let kinds: Vec<_> = (0..40)
        .map(|n| [Kind::Value, Kind::Result][n % 2])
        .collect();
    for (spec, each) in [("exact+A4", 20), ("M1[40,20%]64:C1R0P1", 16)] {
        let mut compressor = compressor(spec);
        let mut kept = Kept::default();
        compressor.events(Events::new(&tuples, &kinds).unwrap(), &mut kept);
        compressor.finish(&mut kept);
        let found: Vec<_> = kept.messages.iter().map(|m| m.kind).collect();
        assert_eq!(found.len(), 2, "{spec}");
        assert!(found.contains(&Kind::Value) && found.contains(&Kind::Result));
        // The counters of `M` do not know kinds: both tuples count there until promoted.
        assert!(
            kept.messages.iter().all(|m| m.count >= each),
            "{spec}: {:?}",
            kept.messages
        );
    }
}

#[test]
fn random_samplers_have_their_rate() {
    let tuples = vec![Tuple::default(); 1 << 20];
    for spec in ["R64", "D64", "CR64", "H[R64]16", "H[D64]16", "H[CR64]16"] {
        let messages = run(spec, &tuples).0.messages.len();
        assert!((15_900..16_900).contains(&messages), "{spec}: {messages}");
    }
}
