//! Message and place that are reported for each mistake.

use trommel_query::{Position, Severity, assemble};

/// Mistakes, each with its place, and with words of the message and of the fix.
#[test]
fn each_mistake_has_its_own_message_at_its_place() {
    let h = "for opLOAD * always collect pc op1 op2;\n";
    let cases: &[(&str, (usize, usize), &str, &str)] = &[
        (
            "for opLOD * always collect pc; stop;",
            (1, 5),
            "`opLOD` is no class",
            "write `opLOAD`",
        ),
        (
            "for banana * always collect pc; stop;",
            (1, 5),
            "no class",
            "opJMP, opBRANCH",
        ),
        (
            "for opLOAD 4 always collect pc; stop;",
            (1, 12),
            "no profile tag 4",
            "0, 1, 2 or 3",
        ),
        (
            "for opLOAD * every 1k pair collect pc; stop;",
            (1, 28),
            "expected the largest distance of pairs",
            "every 1k pair 16",
        ),
        (
            "for opLOAD * every 1k pair 0 collect pc; stop;",
            (1, 28),
            "0 is no distance of pairs",
            "from 1 to 65535",
        ),
        (
            "for opLOAD * every 16 pair 16 collect pc; stop;",
            (1, 28),
            "`every 16` leaves no room",
            "above the distance",
        ),
        (
            "for opLOAD * always pair 3 collect pc; stop;",
            (1, 26),
            "`always` leaves no room",
            "every 10k pair 3",
        ),
        (
            "for opLOAD * every auto pair 3 collect pc; stop;",
            (1, 30),
            "`every auto` has no pairs",
            "every 10k pair 3",
        ),
        (
            "for evL2DMISS * opLOAD * every 9 pair 3 collect pc; send 1 stop;",
            (1, 39),
            "a pair of an instruction and an event",
            "another one",
        ),
        (
            "for opLOAD * every 9 pair 3 collect pc op1 op2 op3; stop;",
            (1, 48),
            "3 fields of each and the distance",
            "fewer",
        ),
        (
            "for opLOAD * every 9 collect pc; if second.pc = 0 then stop; stop;",
            (1, 37),
            "`second.pc` is not collected",
            "only pairs have it",
        ),
        (
            "for opLOAD * every 9 pair 3 collect pc; if second = 0 then stop; stop;",
            (1, 51),
            "expected `.`",
            "second.pc",
        ),
        (
            "for opLOAD * every 9 pair 3 collect pc op1; if pc = op1 then stop; stop;",
            (1, 53),
            "one is even and one odd",
            "any of the other",
        ),
        (
            "for opLOAD always collect pc; stop;",
            (1, 12),
            "expected `*` or a profile tag",
            "`opLOAD *`",
        ),
        (
            "for evL2DMISS 1 always collect pc; stop;",
            (1, 5),
            "no profile tags",
            "evL2DMISS *",
        ),
        (
            "for evL2DMISS * always collect op1; stop;",
            (1, 32),
            "cannot collect `op1`",
            "pc, thread, res2",
        ),
        (
            "for opLOAD * collect pc; stop;",
            (1, 14),
            "found `collect`",
            "every 256",
        ),
        (
            "for opLOAD * every 0 collect pc; stop;",
            (1, 20),
            "0 is no sampling rate",
            "from 1 to",
        ),
        (
            "for opLOAD * every 1023 collect pc; stop;",
            (1, 20),
            "1023 is no",
            "take 1022 or 1024",
        ),
        (
            "for opLOAD * every 20M collect pc; stop;",
            (1, 20),
            "20M is no",
            "16744448",
        ),
        (
            "for opLOAD * every auto 0% collect pc; stop;",
            (1, 25),
            "0% is no budget",
            "from 1% to 100%",
        ),
        (
            "for opLOAD * every auto 101% collect pc; stop;",
            (1, 25),
            "101% is no budget",
            "from 1% to 100%",
        ),
        (
            "for opLOAD * every auto 5 collect pc; stop;",
            (1, 27),
            "expected `%`, found `collect`",
            "every auto 5%",
        ),
        (
            "for opLOAD * always collect op4; stop;",
            (1, 29),
            "`op4` is no field",
            "write `op1`",
        ),
        (
            "for opLOAD * always collect pc pc; stop;",
            (1, 32),
            "collected twice",
            "remove",
        ),
        (
            "for opLOAD * always collect pc thread op1 op2 op3 res1 res2 misc; stop;",
            (1, 61),
            "a record has 7 words",
            "fewer",
        ),
        (
            "for opLOAD * always collect ; stop;",
            (1, 29),
            "expected a field",
            "collect pc",
        ),
        (
            "for opLOAD * always collect pc;",
            (1, 1),
            "does nothing",
            "send 1 stop",
        ),
        (
            "send 1 stop;",
            (1, 1),
            "expected a query or a tag",
            "for opLOAD",
        ),
        (
            "for opLOAD * opLOAD 1 always collect pc; stop;",
            (1, 14),
            "opLOAD 1 is selected twice",
            "profile tags",
        ),
        (
            "tag 4 module \"x\";",
            (1, 5),
            "no profile tag 4",
            "0, 1, 2 or 3",
        ),
        (
            "tag 1 module libz.so;",
            (1, 18),
            "expected the end of the name",
            "quotation marks",
        ),
        (
            "tag 1 pc 0x20..0x10;",
            (1, 10),
            "range is empty",
            "lower address first",
        ),
        (
            "tag 1 pc 0x20-0x30;",
            (1, 14),
            "expected `..`",
            "0x1000..0x2000",
        ),
        (
            "tag 1 function f;",
            (1, 7),
            "expected `module`, `symbol` or `pc`",
            "symbol",
        ),
        ("tag 1 symbol \"f;\n", (1, 14), "does not end", "same line"),
        ("tag 1 symbol \"\";", (1, 14), "empty name", "between"),
        ("tag 1 symbol \"a\\n\";", (1, 16), "backslash", "\\\\"),
        (
            "for opLOAD * always collect pc; stop; # ok\n  ä",
            (2, 3),
            "does not contain 'ä'",
            "remove",
        ),
        ("99999999999999999999;", (1, 1), "too large", "64 bits"),
        ("12x;", (1, 1), "`12x` is no number", "hexadecimal"),
    ];
    for (text, place, message, fix) in cases {
        refused(text, *place, message, fix);
    }
    let clauses: &[(&str, (usize, usize), &str, &str)] = &[
        (
            "if op1 != 0 then stop;",
            (2, 8),
            "`!=` is not of this language",
            "<>",
        ),
        (
            "if op3 <> 0 then stop else stop;",
            (2, 4),
            "`op3` is not collected",
            "add `op3`",
        ),
        (
            "if op9 <> 0 then stop else stop;",
            (2, 4),
            "`op9` is no field",
            "write `op1`",
        ),
        (
            "if op1.u24 <> 0 then stop else stop;",
            (2, 8),
            "`u24` is no type",
            "u8, u16",
        ),
        (
            "if op1.u16@3 <> 0 then stop else stop;",
            (2, 8),
            "does not start at byte 3",
            "0, 2, 4 and 6",
        ),
        (
            "if op1 = 70000 then stop else stop;",
            (2, 10),
            "70000 does not fit",
            "op1.u16@0 and op1.u16@2 (here 0x1)",
        ),
        (
            "if op1.i64 = 40000 then stop else stop;",
            (2, 14),
            "signed immediate",
            "-32768",
        ),
        (
            "if op1.u8 = 256 then stop else stop;",
            (2, 4),
            "can never match",
            "from 0 to 255",
        ),
        (
            "if op1 < 0 then stop else stop;",
            (2, 4),
            "can never match",
            "op1.i64",
        ),
        (
            "if op1 = -1 then stop else stop;",
            (2, 4),
            "can never match",
            "op1.i64",
        ),
        (
            "if op1.u8 bset 0x100 then stop else stop;",
            (2, 4),
            "can never match",
            "255",
        ),
        (
            "if op1 = 1 and op1 = 2 then stop else stop;",
            (2, 4),
            "never match together",
            "change one",
        ),
        (
            "if op1 > 5 and op1 < 6 then stop else stop;",
            (2, 4),
            "never match together",
            "change one",
        ),
        (
            "if op1 bset 3 and op1 bclr 1 then stop else stop;",
            (2, 4),
            "never match together",
            "one",
        ),
        (
            "if op1 = 1 and op1 bset 2 then stop else stop;",
            (2, 4),
            "never match together",
            "one",
        ),
        (
            "if op1.i32 bset 1 then stop else stop;",
            (2, 4),
            "signed number",
            "write `u`",
        ),
        (
            "if pc < op2 then stop else stop;",
            (2, 9),
            "words 0 and 2",
            "also collect `thread`",
        ),
        (
            "if op1.u8 < op2.u16 then stop else stop;",
            (2, 13),
            "different types",
            "same type",
        ),
        (
            "if filter 3 then stop else stop;",
            (2, 11),
            "no filter 3",
            "2, 4, 16 and 256",
        ),
        (
            "if op1 = 1 and op2 = 2 and pc = 3 then stop;",
            (2, 24),
            "third comparison",
            "clause before",
        ),
        (
            "if op1 = 1 stop;",
            (2, 12),
            "expected `then` or `and`",
            "then",
        ),
        (
            "if op1 then stop;",
            (2, 8),
            "expected a relation",
            "op1 <> 0",
        ),
        ("send stop;", (2, 6), "expected a queue", "send 1"),
        ("send 256 stop;", (2, 6), "no queue 256", "0 to 255"),
        (
            "send 4..12 stop;",
            (2, 6),
            "spread over queues 4 to 12",
            "at most 8",
        ),
        ("send 1 or wait stop;", (2, 11), "expected `drop`", "waits"),
        ("sent 1 stop;", (2, 1), "expected an action", "write `send`"),
        ("send 1 stop", (2, 12), "found the end of the text", "`;`"),
        ("send 1;", (2, 1), "runs over its end", "`stop`"),
        ("if op1 = 0 then stop;", (2, 1), "runs over its end", "else"),
        ("goto nowhere;", (2, 6), "no label `nowhere`", "`nowhere:`"),
        (
            "goto rear; rare: stop;",
            (2, 6),
            "no label `rear`",
            "write `rare`",
        ),
        (
            "a: count; goto a;",
            (2, 16),
            "branches go forward, and `a` is in line 2, before this",
            "forward",
        ),
        ("a: count; a: stop;", (2, 11), "there twice", "rename"),
        ("then: stop;", (2, 1), "expected a label", "another name"),
        (
            "goto b; stop; for opJMP * always collect pc; b: stop;",
            (2, 6),
            "in another query, in line 2",
            "within",
        ),
    ];
    for (clause, place, message, fix) in clauses {
        refused(&format!("{h}{clause}"), *place, message, fix);
    }
}

fn refused(text: &str, place: (usize, usize), message: &str, fix: &str) {
    let found = assemble(text).expect_err(&text[..text.len().min(200)]);
    let text_of_all = text;
    let text = &text[..text.len().min(200)];
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    let errors: Vec<_> = errors.collect();
    let [error] = errors[..] else {
        panic!("{text}: {} errors: {errors:?}", errors.len());
    };
    let at = Position::of(text_of_all, error.span.start);
    assert!(error.message.contains(message), "{text}: {}", error.message);
    assert!(error.fix.contains(fix), "{text}: {}", error.fix);
    assert_eq!((at.line, at.column), place, "{text}: {}", error.message);
}

#[test]
fn all_mistakes_of_names_are_told_at_once() {
    let text = "for opLOD * always collect op9;\nif op7 = 1 then goto x else stop;";
    let found = assemble(text).expect_err("mistakes");
    let lines: Vec<_> = found
        .iter()
        .map(|d| Position::of(text, d.span.start))
        .collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(lines.is_sorted());
}

#[test]
fn queries_are_limited_to_128_instructions() {
    let head = "for opLOAD * always collect pc;\n";
    let of = |clauses: usize| format!("{head}{}stop;", "count;\n".repeat(clauses - 1));
    let largest = assemble(&of(128)).expect("it assembles").program;
    assert_eq!(largest.code().len(), 128);
    refused(
        &of(129),
        (1, 1),
        "129 instructions, and 128 is the limit",
        "service thread",
    );
    let wide = format!("{head}{}stop;", "count count;\n".repeat(100));
    refused(&wide, (1, 1), "201 instructions", "one action");
    // Far beyond, without taking long.
    let much = format!("{head}{}stop;", "if pc = 1 then count;".repeat(10_000));
    refused(&much, (1, 1), "10001 instructions", "one action");
    let names = "opLOAD 1 ".repeat(20_000);
    refused(
        &format!("for {names} always collect pc; stop;"),
        (1, 320),
        "more than 35",
        "once",
    );
    let tags = "tag 9 symbol a;\n".repeat(60_000);
    let found = assemble(&tags).expect_err("wrong tags");
    assert_eq!(found.len(), 100);
    let tags = "tag 1 pc 0..1;\n".repeat(60_000);
    let found = assemble(&tags).expect_err("many tags");
    assert!(found[0].message.contains("too many places"));
    assert_eq!(found.len(), 1, "{found:?}");
    let long = format!("tag 1 symbol {};", "x".repeat(900_000));
    let found = assemble(&long).expect_err("a long name");
    assert_eq!(found.len(), 1, "{found:?}");
    let many = "for opLOAD 1 always collect pc; stop;".repeat(5000);
    let found = assemble(&many).expect_err("too many");
    assert!(found.iter().any(|d| d.message.contains("35 is the limit")));
}

#[test]
fn what_is_probably_not_meant_is_said() {
    let head = "for opLOAD * always collect pc op1;\n";
    for (clauses, said) in [
        ("stop; send 1 stop;", "no record comes to this clause"),
        (
            "if op1.u8 < 256 then send 1 stop else stop;",
            "always matches",
        ),
        ("if op1 >= 0 then send 1 stop else stop;", "always matches"),
        (
            "if op1 bset 0 then send 1 stop else stop;",
            "always matches",
        ),
        ("unused: stop;", "nothing branches to `unused`"),
    ] {
        let assembly = assemble(&format!("{head}{clauses}")).expect(clauses);
        let [warning] = &assembly.warnings[..] else {
            panic!("{clauses}: {:?}", assembly.warnings);
        };
        assert_eq!(warning.severity, Severity::Warning);
        assert!(
            warning.message.contains(said),
            "{clauses}: {}",
            warning.message
        );
    }
}

#[test]
fn queries_that_select_nothing_are_said() {
    let query = |tag: &str| format!("for opLOAD {tag} always collect pc; send 1 stop;");
    let said = |text: &str| -> Vec<String> {
        let warnings = assemble(text).expect(text).warnings;
        warnings.into_iter().map(|w| w.message).collect()
    };
    assert_eq!(said("tag 1 symbol f;").len(), 1);
    assert!(said("")[0].contains("there is no query"));
    assert!(said(&query("2"))[0].contains("`opLOAD 2` selects nothing"));
    let rule = |tag: &str| query(tag) + "tag 2 symbol f;";
    assert_eq!(said(&rule("3")).len(), 1);
    for text in [query("0"), query("*"), rule("2"), rule("0")] {
        assert!(said(&text).is_empty(), "{text}");
    }
}
