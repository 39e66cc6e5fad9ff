//! Every form of a spec, and every way to get one wrong.

use alloc::string::ToString;

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn every_form_round_trips() {
    for text in [
        "exact",
        "P256",
        "R1",
        "D4294967295",
        "CR256",
        "CR256:sum",
        "H[P256]2048",
        "H[R3]1",
        "H[D256]16777216",
        "H[CR256:sum]512+A16",
        "H[H[P2]2]2",
        "H:mul[H[H[D3]1]64]32+A16",
        "P4+A16+A64",
        "P4+A16/6bit+A64+A4/16bit",
        "T[256]2048/2way/2bit:E2R4B2",
        "exact+A1",
        "P7+A4096",
        "T[256]2048/2way/2bit",
        "T[1]1/1way/16bit+A16",
        "T[256]3072/3way/2bit",
        "M4[10k,1%]2048:C1R0P1",
        "M1[1M,0.1%]2048:C0R1P1",
        "M3[999,12.000345%]3072:C0R0P0",
        "M2[10k,1%]2048:C1R1P1A64",
        "H:crc[P256]2048",
        "H:mul[CR256:sum]512+A16",
        "T:mul[256]2048/2way/2bit",
        "M4:crc[10k,1%]2048:C1R0P1",
        "M2[1M,0.1%]2048:C1R1P1A1500E2",
        "SS[10k,1%]500:P1",
        "MG[10k,1%]500:P0",
        "CM4[10k,1%]2048:C0P1A200",
        "CM3:mul[10k,1%]1536:C1P1",
        "HK2[1M,0.1%]1024:P1",
        "S12:crc[10k,1%]1536:P1A150E2",
        "S1[1,100%]1:P0",
        "M16:mul[4294967295,0.1%]16777216:C0R1P1A1048576E1000",
        "SS[1k,50%]1048576:P0",
        "HK4:crc[10k,1%]1024:P0A7",
        "R256",
        "CR1:sum+A2",
        "P256:phase",
        "H:crc[P16:phase]4096+A16",
        "D16+H[P16:phase]4096",
        "R2+T:mul[256]2048/2way/2bit+A16",
        "P4+exact",
        "P3+R5",
        "D3+D5+A1",
        "R65536+CR65535:sum",
        "F[2%,32]64+H[P256]1024",
        "F[0.5%,1]4:K0N65535+exact",
        "F[100%,65535]2048:K1N0+D16+H:mul[P16:phase]2048",
        "F[2%,32]64+T[256]2048/2way/2bit",
        "M4[10k..1M,1%]2048:C1R0P1",
        "M1:crc[1..4294967295,1%]2048:C0R1P1A9E2",
    ] {
        let spec: Spec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(spec.to_string(), text);
    }
    for (text, canonical) in [
        ("P2k", "P2000"),
        ("CR8:ratio", "CR8"),
        ("M4[10000,1.0%]2048", "M4[10k,1%]2048:C1R0P1"),
        ("M4[1000k,1%]2048:P0", "M4[1M,1%]2048:C1R0P0"),
        ("M4[1k..0001M,1%]2048:E1", "M4[1k..1M,1%]2048:C1R0P1"),
        ("S8[10k,1%]1024", "S8[10k,1%]1024:P1"),
        ("CM4[10k,1%]2048:P0C0", "CM4[10k,1%]2048:C0P0"),
        ("H[CR8:ratio]0002", "H[CR8]2"),
        ("D1k+P1k", "D1000+P1000"),
        ("F[2.0%,32]64:N63K3+P4", "F[2%,32]64+P4"),
        ("F[2%,32]64:K7+P4", "F[2%,32]64:K7N63+P4"),
    ] {
        assert_eq!(text.parse::<Spec>().unwrap().to_string(), canonical);
    }
}

#[test]
fn wrong_specs_name_the_column() {
    for (text, column, says) in [
        ("", 1, "the end"),
        ("Q256", 1, "'Q'"),
        (" P256", 1, "' '"),
        ("P", 2, "expected a number"),
        ("P0", 2, "between 1 and"),
        ("P5000M", 2, "between 1 and"),
        ("P99999999999999999999999", 2, "between 1 and"),
        ("P256x", 5, "remove it"),
        ("é", 1, "'é'"),
        ("P25é", 4, "'é'"),
        ("exactly", 6, "follows a complete spec (exact)"),
        ("CX", 2, "CR256"),
        ("CR256:mean", 7, ":ratio"),
        ("H", 2, "expected '['"),
        ("H[P256", 7, "expected ']'"),
        ("H[P256]", 8, "expected a number"),
        ("H[P256]2000", 8, "take 1024 or 2048"),
        ("H[P256]16777215", 8, "take 8388608 or 16777216"),
        ("S12[10k,1%]7", 12, "whole bits; take 12"),
        ("S12[10k,1%]13", 12, "take 12 or 24"),
        ("H[P256]2k", 8, "take 1024 or 2048"),
        ("H[T[2]2/1way/1bit]2", 3, "inside H"),
        ("H[H[CR2]2]2", 3, "inside two"),
        ("H:mul[H:crc[P2]2]2", 8, "one hash"),
        ("H[H[H[H[H[P2]2]2]2]2]2", 3, "at most 4"),
        ("H[H[P2]8192]4096", 13, "all substreams"),
        ("H[exact]2", 3, "inside H"),
        ("H:[P256]2048", 3, ":crc and :mul"),
        ("H:md5[P256]2048", 3, "'m'"),
        ("H:crc", 6, "expected '['"),
        ("M4:cr[10k,1%]2048", 4, ":crc"),
        ("P256:crc", 5, "remove it"),
        ("P256+", 6, "expected 'A'"),
        ("P256+B16", 6, "+A16"),
        ("P256+A", 7, "counter table"),
        ("P256+A0", 7, "between 1 and 4096"),
        ("P2+A1+A2+A3+A4", 12, "at most 3"),
        ("P2+A16/17bit", 8, "bits of its counters"),
        ("P2+A16/6", 9, "6bit"),
        ("T[9]8/2way/2bit:", 17, "options follow"),
        ("T[9]8/2way/2bit:X1", 17, "no option of T"),
        ("T[9]8/2way/2bit:R8B2", 17, "at least B3"),
        ("T[9]8/2way/2bit:R8R9", 19, "given before"),
        ("T[256]2048/2way/2bits", 21, "'s'"),
        ("T[256]2048/3way/2bit", 7, "take 1536 or 3072"),
        ("T[256]2048/2ways/2bit", 16, "expected '/'"),
        ("T[256]2048/2way/17bit", 17, "between 1 and 16"),
        ("T[256]2048/4096way/2bit", 12, "between 1 and 2048"),
        ("M0[10k,1%]2048", 2, "between 1 and 16"),
        ("M17[10k,1%]2048", 2, "between 1 and 16"),
        ("M4[10k;1%]2048", 7, "expected ','"),
        ("M4[10k,1]2048", 9, "expected '%'"),
        ("M4[10k,0%]2048", 8, "above 0%"),
        ("M4[10k,101%]2048", 8, "at most 100%"),
        ("M4[10k,1.%]2048", 10, "decimals"),
        ("M3[10k,1%]2048", 11, "take 1536 or 3072"),
        ("M4[10k,1%]2048:", 16, "C1R0P1"),
        ("M4[10k,1%]2048:X1", 16, "'X'"),
        ("M4[10k,1%]2048:E0", 17, "between 1 and 1000"),
        ("SS4[10k,1%]500", 3, "expected '['"),
        ("SS:crc[10k,1%]500", 3, "SS[10k,1%]500"),
        ("SS[10k,1%]0", 11, "between 1 and"),
        ("SS[10k,1%]500:C1", 15, "no option of SS"),
        ("MG[10k,1%]500:A9", 15, "P (retaining)"),
        ("CM5[10k,1%]2048", 3, "between 1 and 4"),
        ("CM4[10k,1%]2000", 12, "take 1024 or 2048"),
        ("CM4[10k,1%]2048:R1", 17, "no option of CM"),
        ("CM1[10k,1%]131072", 12, "at most 65536"),
        ("HK2[10k,1%]1024:", 17, "options follow"),
        ("HK2[10k,1%]1024:C1", 17, "no option of HK"),
        ("S65[10k,1%]1024", 2, "between 1 and 64"),
        ("S8[10k,1%]1000", 11, "take 512 or 1024"),
        ("S8[10k,1%]1024:P1E", 19, "expected a number"),
        ("S8[10k,1%]1024+A16", 15, "remove it"),
        ("M4[10k,1%]2048:C2", 17, "0 or 1"),
        ("M4[10k,1%]2048:C1C1", 18, "before"),
        ("M4[10k,1%]2048:C1R0P1+A16", 22, "remove it"),
        ("M4[10k,0.000001%]2048", 8, "accumulator"),
        ("D", 2, "expected a number"),
        ("R-1", 2, "'-'"),
        ("CR", 3, "expected a number"),
        ("CR256:", 7, ":ratio"),
        ("P256:phases", 11, "remove it"),
        ("R256:phase", 5, "remove it"),
        ("H[]4", 3, "expected a compressor"),
        ("H[T[2]2/1way/1bit]2", 3, "inside H"),
        ("H[M4[10k,1%]2048]2", 3, "inside H"),
        ("H[CR256:mean]2048", 9, ":ratio"),
        ("H[P256]33554432", 8, "between 1 and 16777216"),
        ("H[P0]2048", 4, "between 1 and"),
        ("T", 2, "expected '['"),
        ("T[0]2048/2way/2bit", 3, "between 1 and 2147483648"),
        ("T[256]0/2way/2bit", 7, "between 1 and"),
        ("T[256]2048/0way/2bit", 12, "between 1 and 2048"),
        ("T[256]2048/2way/0bit", 17, "between 1 and 16"),
        ("T[256]2048/2way", 16, "expected '/'"),
        ("T:sha[256]2048/2way/2bit", 3, ":crc"),
        ("M[10k,1%]2048", 2, "expected a number"),
        ("M4", 3, "expected '['"),
        ("M4[0,1%]2048", 4, "between 1 and"),
        ("M4[10k,1%", 10, "expected ']'"),
        ("M4[10k,1.0000001%]2048", 10, "one to six decimals"),
        ("M4[10k,1%]", 11, "expected a number"),
        ("M4[10k,1%]2000", 11, "take 1024 or 2048"),
        ("M4[10k,1%]2048:A0", 17, "between 1 and 1048576"),
        ("M4[10k,1%]2048:A2000000", 17, "between 1 and 1048576"),
        ("M4[10k,1%]2048:E1001", 17, "between 1 and 1000"),
        ("M4[10k,1%]2048:C", 17, "0 or 1"),
        ("M4[10k,1%]2048:P1+X", 18, "remove it"),
        ("M4[10k..,1%]2048", 9, "expected a number"),
        ("M4[10k.20k,1%]2048", 7, "expected ','"),
        ("M4[10k..10k,1%]2048", 9, "above the shortest (10000)"),
        ("M4[10k..9k,1%]2048", 9, "above the shortest"),
        ("M4[10k..5000M,1%]2048", 9, "between 1 and"),
        ("M4[10k..1M,1%]2048:C1P0", 23, "write P1"),
        ("SS[10k..1M,1%]500", 7, "one length"),
        ("S8[10k..1M,1%]1024", 7, "one length"),
        ("SS[10k,1%]1048577", 11, "between 1 and 1048576"),
        ("MG4[10k,1%]500", 3, "MG[10k,1%]500"),
        ("CM[10k,1%]2048", 3, "expected a number"),
        ("HK5[10k,1%]1024", 3, "between 1 and 4"),
        ("HK2[10k,1%]1000", 12, "take 512 or 1024"),
        ("HK1[10k,1%]131072", 12, "at most 65536"),
        ("S0[10k,1%]1024", 2, "between 1 and 64"),
        ("S8[10k,0.00001%]1024", 8, "accumulator"),
        ("D16+", 5, "expected 'A'"),
        ("D16+P", 6, "expected a number"),
        ("D16+Q4", 5, "expected 'A'"),
        ("D16+H[P16]4000", 11, "take 2048 or 4096"),
        ("D16+M4[10k,1%]2048", 5, "remove what stands"),
        ("D16+SS[10k,1%]500", 5, "remove what stands"),
        ("D4+D4+D4", 7, "+A16"),
        ("CR4+P4", 4, "only P256, R256 or D256"),
        ("P4:phase+P4", 9, "only P256, R256 or D256"),
        ("exact+P4", 6, "only P256, R256 or D256"),
        ("H[P4]4+P4", 7, "only P256, R256 or D256"),
        ("D65536+P65536", 8, "both rates together (4294967296)"),
        ("D16+A16+P4", 9, "a counter table is written"),
        ("F", 2, "a filter is written"),
        ("F[2%]64+P4", 5, "expected ','"),
        ("F[2,32]64+P4", 4, "a share is written"),
        ("F[2%,0]64+P4", 6, "messages of a check"),
        ("F[2%,32]66+P4", 9, "take 68"),
        ("F[2%,32]2052+P4", 9, "between 4 and 2048"),
        ("F[2%,32]64", 11, "expected '+'"),
        ("F[2%,32]64:+P4", 12, "options follow the colon"),
        ("F[2%,32]64:K1K2+P4", 14, "given before"),
        ("F[2%,32]64:X1+P4", 12, "no option of F"),
        ("F[2%,32]64:K0N0+P4", 12, "nothing is filtered"),
        (
            "F[2%,32]64+M4[10k,1%]2048",
            12,
            "every event of its intervals",
        ),
        ("F[2%,32]64+CR256", 12, "lengths of the stream"),
        ("F[2%,32]64+D4+H[CR16]64", 12, "lengths of the stream"),
        ("F[2%,32]64+P4+A16", 14, "holds back the messages"),
        ("D16+F[2%,32]64+P4", 4, "before all else"),
    ] {
        match text.parse::<Spec>() {
            Ok(spec) => panic!("{text} was read as {spec}"),
            Err(e) => {
                assert_eq!(e.column, column, "{text}: {e}");
                assert!(e.message.contains(says), "{text}: {e}");
            }
        }
    }
}

#[test]
fn degenerate_widths_are_told() {
    let note = |s: &str| crate::note(&s.parse().unwrap());
    assert!(note("H[P256]256").is_some_and(|n| n.contains("8 bits")));
    assert!(note("M8[10k,1%]2048").is_some());
    assert_eq!(note("H[P256]2048"), None);
    assert_eq!(note("P256"), None);
}

/// Any spec that there is, by its parts.
fn any_spec() -> impl Strategy<Value = Spec> {
    let rate = || prop_oneof![1u32..300, Just(256_000), Just(3_000_000), Just(u32::MAX)];
    let start = any::<bool>().prop_map(|zero| if zero { Start::Zero } else { Start::Random });
    let estimate = any::<bool>().prop_map(|sum| if sum { Estimate::Sum } else { Estimate::Ratio });
    let sampler = prop_oneof![
        (rate(), start).prop_map(|(rate, start)| Sampler::Periodic(rate, start)),
        rate().prop_map(Sampler::Random),
        rate().prop_map(Sampler::Countdown),
        (rate(), estimate).prop_map(|(rate, estimate)| Sampler::Counted(rate, estimate)),
    ];
    let times = prop_oneof![Just((4, 8)), (1u32..99, 1u32..1 << 16)];
    let tagged = (1u32..1 << 31, 1u32..8, 0u32..12, 1u32..17, times, 0u32..3).prop_map(
        |(rate, ways, bits, tag_bits, (enough, misses), more)| {
            Level::Tagged(TaggedSpec {
                rate,
                entries: ways << bits,
                ways,
                tag_bits,
                enough,
                misses,
                miss_bits: (TaggedSpec::bits_of(misses) + more).min(16),
            })
        },
    );
    let plain = sampler.clone().prop_map(|sampler| match sampler {
        Sampler::Counted(rate, _) => Sampler::Random(rate),
        other => other,
    });
    let nested = (plain, prop::collection::vec(0u32..7, 2..=4)).prop_map(|(sampler, bits)| {
        let spec = NestedSpec::new(sampler, 1 << bits[0]);
        let around = |spec: NestedSpec, bits: &u32| spec.within(1 << bits).expect("few");
        Level::Nested(bits[1..].iter().fold(spec, around))
    });
    let lengths = (rate(), any::<bool>()).prop_map(|(a, adapts)| match adapts {
        true => (a, a.saturating_add(a)),
        false => (a, a),
    });
    let threshold = prop_oneof![1u32..100, 100_000u32..2_000_000, Just(100_000_000)];
    let sizes = (1u32..17, 0u32..11, 1u32..1000);
    let options = (
        any::<[bool; 4]>(),
        prop::option::of(1u32..1 << 20),
        1u32..1000,
    );
    let interval = (
        prop::sample::select(ALGORITHMS.to_vec()),
        lengths,
        threshold,
        sizes,
        options,
    )
        .prop_map(
            |(algorithm, (interval, longest), threshold, (tables, bits, n), o)| {
                let has = |option| algorithm.options().contains(option);
                let ([conservative, reset, retain, sized], accumulator, early) = o;
                let tables = match algorithm {
                    Algorithm::CountMin | Algorithm::HeavyKeeper => tables.min(4),
                    _ if algorithm.has_tables() => tables,
                    _ => 1,
                };
                let adapts = algorithm == Algorithm::MultiHash;
                let longest = if adapts { longest } else { interval };
                // A threshold this small asks for more entries than there may be, unless they are given.
                let accumulator = match accumulator {
                    Some(entries) if has('A') && (sized || threshold < 100) => Some(entries),
                    None if has('A') && threshold < 100 => Some(7),
                    _ => None,
                };
                Level::Interval(IntervalSpec {
                    algorithm,
                    tables,
                    interval,
                    longest,
                    threshold: Percent(threshold),
                    counters: if algorithm.has_tables() {
                        tables << bits
                    } else {
                        n
                    },
                    conservative: conservative || !has('C'),
                    reset: reset && has('R'),
                    retain: retain || longest > interval,
                    accumulator,
                    early: if has('E') { early } else { 1 },
                })
            },
        );
    let level = prop_oneof![
        Just(Level::Exact),
        sampler.clone().prop_map(Level::Sample),
        (sampler.clone(), 0u32..25).prop_map(|(s, bits)| Level::Split(s, 1 << bits)),
        nested,
        tagged,
        interval,
    ];
    let hash = prop::sample::select(Vec::from([
        HashKind::Paper,
        HashKind::Crc,
        HashKind::Multiply,
    ]));
    let before = prop::option::of((sampler, 1u32..3000));
    let table = (1u32..=4096, prop_oneof![Just(8), 1u32..=16]);
    let table = table.prop_map(|(entries, bits)| TableSpec { entries, bits });
    let tables = prop::collection::vec(table, 0..=Tables::MOST);
    let rests = prop_oneof![Just((3, 63)), (0u32..=65_535, 1u32..=65_535), Just((1, 0))];
    let filter = (1u32..=100_000_000, 1u32..=65_535, 1u32..=512, rests);
    let filter = prop::option::of(filter).prop_map(|parts| {
        let (limit, messages, sets, (settled, others)) = parts?;
        Some(FilterSpec {
            limit: Percent(limit),
            messages,
            entries: 4 * sets,
            settled,
            others,
        })
    });
    (filter, before, level, hash, tables).prop_map(|(filter, before, level, hash, all)| {
        let hashes = match level {
            Level::Exact | Level::Sample(_) => false,
            Level::Split(..) | Level::Nested(_) | Level::Tagged(_) => true,
            Level::Interval(spec) => spec.algorithm.has_tables(),
        };
        let rate = match level {
            Level::Interval(_) => u32::MAX,
            Level::Exact => 1,
            Level::Sample(sampler)
            | Level::Split(sampler, _)
            | Level::Nested(NestedSpec { sampler, .. }) => sampler.rate(),
            Level::Tagged(tagged) => tagged.rate,
        };
        let thinning = before.and_then(|(sampler, k)| {
            let k = k.min(u32::MAX / rate);
            match sampler {
                _ if matches!(level, Level::Interval(_)) => None,
                Sampler::Periodic(..) => Some(Sampler::Periodic(k, Start::Zero)),
                Sampler::Random(_) => Some(Sampler::Random(k)),
                Sampler::Countdown(_) => Some(Sampler::Countdown(k)),
                Sampler::Counted(..) => None,
            }
        });
        let filter = filter.filter(|_| match level {
            Level::Interval(_) => false,
            Level::Sample(sampler) | Level::Split(sampler, _) => {
                !matches!(sampler, Sampler::Counted(..))
            }
            _ => true,
        });
        let mut tables = Tables::NONE;
        if !matches!(level, Level::Interval(_)) && filter.is_none() {
            assert!(all.into_iter().all(|table| tables.push(table)));
        }
        Spec {
            filter,
            thinning,
            level,
            hash: if hashes { hash } else { HashKind::Paper },
            tables,
        }
    })
}

proptest! {
    #[test]
    fn every_spec_is_read_as_it_is_printed(spec in any_spec()) {
        let text = spec.to_string();
        prop_assert_eq!(text.parse::<Spec>(), Ok(spec), "{}", text);
    }

    #[test]
    fn a_spec_with_a_character_wrong_is_a_spec_or_an_error_in_its_line(
        spec in any_spec(), at in any::<prop::sample::Index>(), with in "[PRDCHTMSKGEA0-9:+,%./a-z\\[\\]é ]?",
    ) {
        let text: Vec<char> = spec.to_string().chars().collect();
        let at = at.index(text.len());
        let wrong: String = (text[..at].iter().copied())
            .chain(with.chars())
            .chain(text[at + 1..].iter().copied())
            .collect();
        match wrong.parse::<Spec>() {
            Ok(spec) => prop_assert_eq!(spec.to_string().parse(), Ok(spec)),
            Err(e) => prop_assert!((1..=wrong.chars().count() + 1).contains(&e.column)),
        }
    }
}

#[test]
fn bytes_are_the_papers_where_they_tell_them() {
    let bytes = |s: &str| s.parse::<Spec>().unwrap().bytes();
    assert_eq!(bytes("exact"), None);
    assert_eq!(bytes("R256"), Some(0));
    assert_eq!(bytes("H[P256]2048"), Some(2048));
    assert_eq!(bytes("D16+H[P16:phase]4096"), Some(2048 + 1));
    // Ten bytes for each instruction that is filtered.
    assert_eq!(bytes("F[2%,32]64+H[P256]1024"), Some(640 + 1024));
    // 62 % more than a counter of 8 bits, with a tag of one bit (section 4.2).
    assert_eq!(bytes("T[256]2048/2way/1bit"), Some(2048 * 13 / 8));
    // 4K entries of two words of 64 bits and a byte are 68 KB (section 3.4).
    assert_eq!(bytes("R256+A4096"), Some(68 * 1024));
    // 2K counters of 3 bytes are 6 KB, beside the accumulator (section 7 of the other paper).
    assert_eq!(bytes("M4[10k,1%]2048"), Some(6 * 1024 + 1400));
}
