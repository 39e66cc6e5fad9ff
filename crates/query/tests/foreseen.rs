//! Comparisons whose outcome the header of a query tells: the checker says what a look at all values says.

use proptest::prelude::*;
use trommel_query::assemble;
use trommel_query::instruction::{Lane, Relation};

/// Diagnostics of a text: whether it is refused, and each message with its remedy.
fn said(text: &str) -> (bool, Vec<(String, String)>) {
    let part = |d: &trommel_query::Diagnostic| (d.message.clone(), d.fix.clone());
    match assemble(text) {
        Ok(assembly) => (false, assembly.warnings.iter().map(part).collect()),
        Err(found) => (true, found.iter().map(part).collect()),
    }
}

fn warned(text: &str) -> Option<(String, String)> {
    let (refused, messages) = said(text);
    assert!(!refused && messages.len() <= 1, "{text}: {messages:?}");
    messages.into_iter().next()
}

const NEVER: &str = "this comparison can never match";
const ALWAYS: &str = "this comparison always matches";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// All distances that there may be are tried.
    #[test]
    fn outcomes_of_distances_are_told_before(
        within in prop_oneof![1_u64..20, 200_u64..300, 32_000_u64..33_000],
        relation in prop::sample::select(Relation::ALL.to_vec()),
        (bits, byte) in prop::sample::select(vec![(8, 0), (8, 1), (8, 3), (16, 0), (16, 2), (32, 0), (32, 4), (64, 0)]),
        signed in any::<bool>(),
        number in prop_oneof![0_i64..20, 190_i64..310, 31_990_i64..32_768],
    ) {
        let sign = if signed { 'i' } else { 'u' };
        let operator = relation.name();
        let text = format!(
            "for opLOAD * every 65k pair {within} collect pc;\n\
             if distance.{sign}{bits}@{byte} {operator} {number} then count stop else stop;"
        ).replace("65k", "65408");
        let (refused, messages) = said(&text);
        // What the type alone tells is an error, or the same warning.
        prop_assume!(!refused);
        let lane = Lane::new(bits, byte).expect("aligned");
        let value = |distance: u64| match signed {
            true => lane.signed(distance),
            false => lane.unsigned(distance) as i64,
        };
        let matching = (1..=within).filter(|d| relation.holds(value(*d), number)).count() as u64;
        let never = messages.iter().any(|(message, _)| message == NEVER);
        let always = messages.iter().any(|(message, _)| message == ALWAYS);
        // Distances that reach beyond the part come back to its beginning: nothing is said of those.
        let cut = byte == 0 && within >= 1 << (bits - u32::from(signed)).min(63) || byte == 1 && within > 255;
        prop_assert!(!never || matching == 0, "{}", text);
        prop_assert!(!always || matching == within, "{}", text);
        prop_assert!(cut || never == (matching == 0), "{}", text);
        prop_assert!(cut || always == (matching == within), "{}", text);
    }
}

#[test]
fn a_comparison_that_can_never_hold_is_named_with_the_reason() {
    let pair = |condition: &str| {
        format!(
            "for opLOAD * every 100 pair 16 collect pc res2;\nif {condition} then count stop else stop;"
        )
    };
    for (text, message, why) in [
        (pair("distance > 16"), NEVER, "from 1 to 16"),
        (pair("distance >= 17"), NEVER, "`pair 16`"),
        (pair("distance = 0"), NEVER, "from 1 to 16"),
        (pair("distance <= 16"), ALWAYS, "from 1 to 16"),
        (pair("distance bset 0x20"), NEVER, "from 1 to 16"),
        (pair("distance bclr 0x60"), ALWAYS, "from 1 to 16"),
        (
            pair("distance > 15 and distance <> 16"),
            "these two comparisons can never match together",
            "from 1 to 16",
        ),
        (
            "for opBRANCH * always collect pc res2;\nif res2 <> 0 then count stop else stop;".into(),
            NEVER,
            "0 of all instructions that this query selects",
        ),
        (
            "for opALU * opMULT 0 always collect res2;\nif res2 = 0 then count stop else stop;".into(),
            ALWAYS,
            "`res2` is 0",
        ),
        (
            "for opSTORE * every 9 pair 2 collect res1;\nif second.res1.u8@3 bset 1 then count stop else stop;".into(),
            NEVER,
            "`second.res1` is 0",
        ),
        (
            "for opBRANCH * always collect misc;\nif misc bset 0x10 then count stop else stop;".into(),
            NEVER,
            "0xff0f",
        ),
    ] {
        let (said, fix) = warned(&text).unwrap_or_else(|| panic!("nothing was said of {text}"));
        assert_eq!(said, message, "{text}");
        assert!(fix.contains(why), "{text}: {fix}");
    }
}

#[test]
fn a_comparison_that_depends_is_not_named() {
    for text in [
        "for opLOAD * every 100 pair 16 collect pc;\nif distance > 15 then count stop else stop;",
        "for opLOAD * every 100 pair 16 collect pc;\nif distance bset 0x10 then count stop else stop;",
        "for opLOAD * every 100 pair 16 collect pc;\nif distance > 2 and distance < 4 then count stop else stop;",
        "for opBRANCH * opLOAD * always collect res2;\nif res2 <> 0 then count stop else stop;",
        "for opSTORE * always collect res2;\nif res2 = 0 then count stop else stop;",
        "for evL2DMISS * always collect res2;\nif res2 = 0 then count stop else stop;",
        "for opBRANCH * always collect misc;\nif misc bset 0x7 then count stop else stop;",
        "for opBRANCH * always collect misc;\nif misc.u8@1 bset 0x10 then count stop else stop;",
    ] {
        assert_eq!(warned(text), None, "{text}");
    }
}
