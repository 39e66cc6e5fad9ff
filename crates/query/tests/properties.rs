//! Whatever comes in: any text is a file or an error with a place, any bytes are a program or an error, and
//! what is written is read back.

mod common;

use proptest::prelude::*;
use trommel_query::disassemble::disassemble;
use trommel_query::{Instruction, Program, Severity, assemble, format, image, parse};

use common::Choice;

/// Checks what must hold of every text.
fn is_file_or_error(text: &str) {
    let found = match assemble(text) {
        Ok(assembly) => {
            assert_eq!(assembly.spans.len(), assembly.program.code().len());
            round_trip(&assembly.program);
            assembly.warnings
        }
        Err(found) => {
            assert!(
                found.iter().any(|d| d.severity == Severity::Error),
                "{text}"
            );
            found
        }
    };
    for diagnostic in found {
        let span = diagnostic.span;
        assert!(
            span.start <= span.end && span.end <= text.len(),
            "{diagnostic:?}"
        );
        assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
        assert!(!diagnostic.message.is_empty() && !diagnostic.fix.is_empty());
        let is_line = |text: &str| !text.contains('\n');
        assert!(
            is_line(&diagnostic.message) && is_line(&diagnostic.fix),
            "{diagnostic:?}"
        );
    }
    let Ok(file) = parse(text) else { return };
    let formatted = format::format(&file);
    let again = parse(&formatted).unwrap_or_else(|d| panic!("{d:?}\n{formatted}"));
    assert_eq!(format::format(&again), formatted, "{text}");
    let program = |text: &str| {
        assemble(text)
            .map(|a| a.program)
            .map_err(|found| found.len())
    };
    assert_eq!(program(&formatted), program(text), "{text}\n{formatted}");
}

/// Checks what must hold of every program.
fn round_trip(program: &Program) {
    let bytes = image::encode(program);
    assert!(bytes.len() <= image::MAX_IMAGE);
    assert_eq!(image::decode(&bytes).as_ref(), Ok(program));
    let text = disassemble(program);
    let again = assemble(&text).unwrap_or_else(|found| panic!("{text}{found:?}"));
    assert_eq!(&again.program, program, "{text}");
    assert_eq!(format::format(&parse(&text).expect("parses")), text);
}

/// A text of tokens that are at home in queries.
fn soup() -> impl Strategy<Value = String> {
    const TOKENS: [&str; 64] = [
        "for",
        "opLOAD",
        "opSTORE",
        "evL2DMISS",
        "*",
        "0",
        "1",
        "every",
        "auto",
        "%",
        "always",
        "collect",
        "pc",
        "op1",
        "op2",
        "res1",
        "misc",
        ";",
        ";",
        ";",
        "if",
        "and",
        "then",
        "else",
        "send",
        "..",
        "or",
        "drop",
        "count",
        "interrupt",
        "sync",
        "stop",
        "next",
        "goto",
        "a",
        "b",
        ":",
        "true",
        "false",
        "filter",
        "16",
        "bset",
        "bclr",
        ".",
        "u8",
        "i64",
        "@",
        "=",
        "<>",
        "<",
        ">=",
        "-",
        "65535",
        "70000",
        "0xff",
        "2k",
        "tag",
        "module",
        "symbol",
        "\"x\"",
        "in",
        ",",
        "# c\n",
        "\n",
    ];
    let token = prop::sample::select(&TOKENS[..]);
    prop::collection::vec(token, 0..60).prop_map(|tokens| tokens.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text_is_a_file_or_an_error(text in "\\PC*") {
        is_file_or_error(&text);
    }

    #[test]
    fn any_tokens_are_a_file_or_an_error(text in soup()) {
        is_file_or_error(&text);
    }

    #[test]
    fn changed_queries_are_files_or_errors(seed in any::<u64>(), changes in 0..4_usize) {
        let mut choice = Choice::new(seed);
        let mut text = common::text(&mut choice);
        for _ in 0..changes {
            let mut cut = |text: &str| {
                let words: Vec<usize> = text.match_indices(' ').map(|(at, _)| at).collect();
                if words.is_empty() { text.len() } else { *choice.of(&words) }
            };
            let (from, to) = (cut(&text), cut(&text));
            match choice.below(4) {
                0 => text.insert_str(from, " # why\n"),
                1 => text.replace_range(from.min(to)..from.max(to), ""),
                2 => {
                    let word = text[to..].split(' ').nth(1).unwrap_or(";").to_owned();
                    text.insert_str(from, &format!(" {word}"));
                }
                _ => text.truncate(from),
            }
        }
        is_file_or_error(&text);
    }

    #[test]
    fn any_word_is_an_instruction_or_an_error(word in any::<u64>(), keep in any::<u64>()) {
        for word in [word, word & keep, word & keep & keep.rotate_left(21)] {
            if let Ok(instruction) = Instruction::decode(word) {
                prop_assert_eq!(instruction.encode(), word);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_program_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        for bytes in [bytes.clone(), [&image::MAGIC[..], &bytes].concat()] {
            if let Ok(program) = image::decode(&bytes) {
                prop_assert_eq!(image::encode(&program), bytes);
            }
        }
    }

    #[test]
    fn changed_programs_are_programs_or_errors(seed in any::<u64>(), changes in 1..6_usize) {
        let mut choice = Choice::new(seed);
        let Ok(assembly) = assemble(&common::text(&mut choice)) else { return Ok(()) };
        let mut bytes = image::encode(&assembly.program);
        for _ in 0..changes {
            let at = choice.below(bytes.len());
            match choice.below(4) {
                0 => bytes[at] = choice.word() as u8,
                1 => bytes[at] ^= 1 << choice.below(8),
                // A bit of an instruction.
                _ => {
                    let code = assembly.program.code().len();
                    let at = 296 + choice.below(8 * code);
                    if at < bytes.len() {
                        bytes[at] ^= 1 << choice.below(8);
                    }
                }
            }
            if let Ok(program) = image::decode(&bytes) {
                prop_assert_eq!(image::encode(&program), bytes.clone());
                round_trip(&program);
            }
        }
    }
}
