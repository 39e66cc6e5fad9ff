//! Every form of a spec, and every way to get one wrong.

use super::*;

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
    ] {
        let spec: Spec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(spec.to_string(), text);
    }
    for (text, canonical) in [
        ("P2k", "P2000"),
        ("CR8:ratio", "CR8"),
        ("M4[10000,1.0%]2048", "M4[10k,1%]2048:C1R0P1"),
        ("M4[1000k,1%]2048:P0", "M4[1M,1%]2048:C1R0P0"),
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
        ("H[P256]2k", 8, "take 1024 or 2048"),
        ("H[H[P2]2]2", 3, "inside H"),
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
        ("P256+A16+A16", 9, "remove it"),
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
