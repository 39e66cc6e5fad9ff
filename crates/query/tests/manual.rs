//! The manual says what the code does.

use trommel_query::{Event, Field, Operation, assemble, format, parse, x86};

const MANUAL: &str = include_str!("../../../docs/query.md");

/// The fenced blocks of a kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let start = format!("```{kind}\n");
    let blocks = MANUAL.split(&start).skip(1);
    blocks
        .map(|b| b.split("```").next().expect("a block"))
        .collect()
}

#[test]
fn its_examples_assemble_and_are_in_normal_form() {
    let examples = blocks("rpa");
    assert!(!examples.is_empty());
    for text in examples {
        let assembly = assemble(text).expect(text);
        assert!(assembly.warnings.is_empty());
        assert_eq!(format::format(&parse(text).expect(text)), text);
    }
}

#[test]
fn its_grammar_is_the_parsers() {
    let source = include_str!("../src/parse.rs");
    let lines = source.lines().map_while(|l| l.strip_prefix("//!"));
    let lines = lines.map(|l| l.strip_prefix(' ').unwrap_or(l));
    let header = lines.collect::<Vec<_>>().join("\n");
    let grammar = header
        .split("```text\n")
        .nth(1)
        .and_then(|g| g.split("```").next());
    assert_eq!(grammar, blocks("text").first().copied());
}

#[test]
fn its_tables_are_complete() {
    let mut before = 0;
    for (operation, words) in x86::rules() {
        let row = format!("| `{}` | {words} |", operation.name());
        let at = MANUAL.find(&row).unwrap_or_else(|| panic!("{row}"));
        assert!(at > before, "{row} is out of order");
        before = at;
    }
    // The order of the numbers.
    let order = Operation::ALL.map(|o| format!("`{}`", o.name())).join(", ");
    assert!(MANUAL.contains(&order), "{order}");
    for event in Event::ALL {
        assert!(MANUAL.contains(event.name()));
    }
    let bits = Field::ALL
        .map(|f| format!("{} `{}`", f as u8, f.name()))
        .join(", ");
    assert!(MANUAL.contains(&bits.replacen("0 ", "bit 0 ", 1)), "{bits}");
}
