//! The normal form of a text: one clause a line, queries apart, lines of at most 80 columns where words
//! allow it.
//!
//! Formatting is a function of the tree, in which comments hang on the statements they stand at, so what
//! was formatted is its own normal form: comments inside a statement come to stand before it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ast::{
    ActionKind, Body, Clause, Comments, Comparand, ConditionKind, Every, File, Item, Name, Next,
    Operand, Query, Tag, TagTarget,
};
use crate::class::{Event, Operation};
use crate::field::Field;
use crate::pair::Word;

const WIDTH: usize = 80;

/// The normal form of a file.
pub fn format(file: &File) -> String {
    let mut out = String::new();
    let mut before: Option<&Item> = None;
    for item in &file.items {
        let apart = !matches!(
            (before, item),
            (None, _) | (Some(Item::Tag(_)), Item::Tag(_))
        );
        if apart {
            out.push('\n');
        }
        match item {
            Item::Tag(tag) => statement(&mut out, 0, &tag.comments, &tag_words(tag)),
            Item::Query(query) => {
                statement(&mut out, 0, &query.comments, &header_words(query));
                for clause in &query.clauses {
                    statement(&mut out, 4, &clause.comments, &clause_words(clause));
                }
            }
        }
        before = Some(item);
    }
    if before.is_some() && !file.comments.is_empty() {
        out.push('\n');
    }
    for comment in &file.comments {
        line_comment(&mut out, 0, comment);
    }
    out
}

fn line_comment(out: &mut String, indent: usize, comment: &str) {
    out.push_str(&" ".repeat(indent));
    out.push('#');
    out.push_str(comment);
    out.push('\n');
}

/// Writes the words of a statement with its comments.
pub(crate) fn statement(out: &mut String, indent: usize, comments: &Comments, words: &[String]) {
    for comment in &comments.before {
        line_comment(out, indent, comment);
    }
    let mut column = 0;
    for (n, word) in words.iter().enumerate() {
        // The `;` after the last word.
        let length = word.chars().count() + usize::from(n + 1 == words.len());
        if n > 0 && column + 1 + length <= WIDTH {
            out.push(' ');
            column += 1 + length;
        } else {
            let indent = if n > 0 { indent + 4 } else { indent };
            if n > 0 {
                out.push('\n');
            }
            out.push_str(&" ".repeat(indent));
            column = indent + length;
        }
        out.push_str(word);
    }
    out.push(';');
    if let Some(comment) = &comments.after {
        out.push_str(" #");
        out.push_str(comment);
    }
    out.push('\n');
}

fn tag_words(tag: &Tag) -> Vec<String> {
    let mut words = alloc::vec![format!("tag {}", tag.tag.text())];
    for (n, place) in tag.places.iter().enumerate() {
        let mut word = match place {
            TagTarget::Module(name) => format!("module {}", quoted(&name.text)),
            TagTarget::Symbol(name) => format!("symbol {}", quoted(&name.text)),
            TagTarget::Range { from, to, module } => {
                let range = format!("pc {}..{}", from.text(), to.text());
                match module {
                    Some(name) => format!("{range} in {}", quoted(&name.text)),
                    None => range,
                }
            }
        };
        if n + 1 < tag.places.len() {
            word.push(',');
        }
        words.push(word);
    }
    words
}

/// A name in quotation marks.
pub(crate) fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// A mnemonic in the paper's letters, if it is one.
fn mnemonic(name: &Name) -> String {
    let all = (Operation::ALL.iter().map(|o| o.name()))
        .chain(Event::ALL.iter().map(|e| e.name()))
        .chain(Field::ALL.iter().map(|f| f.name()))
        .chain([Word::DISTANCE]);
    let known = all.into_iter().find(|n| n.eq_ignore_ascii_case(&name.text));
    known.unwrap_or(&name.text).to_string()
}

fn header_words(query: &Query) -> Vec<String> {
    let mut words = alloc::vec!["for".to_string()];
    for selector in &query.selectors {
        let tag = (selector.tag).map_or_else(|| "*".to_string(), |tag| tag.text());
        words.push(format!("{} {tag}", mnemonic(&selector.name)));
    }
    words.push(match query.every {
        Every::Always => "always".to_string(),
        Every::Number(n) => format!("every {}", n.text()),
        Every::Auto(None) => "every auto".to_string(),
        Every::Auto(Some(budget)) => format!("every auto {}%", budget.text()),
    });
    words.extend((query.pair).map(|n| format!("pair {}", n.text())));
    words.push("collect".to_string());
    words.extend(query.fields.iter().map(mnemonic));
    words
}

fn clause_words(clause: &Clause) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(label) = &clause.label {
        words.push(format!("{}:", label.text));
    }
    for (n, arm) in clause.arms.iter().enumerate() {
        if n > 0 {
            words.push("else".to_string());
        }
        words.push("if".to_string());
        for (n, condition) in arm.conditions.iter().enumerate() {
            if n > 0 {
                words.push("and".to_string());
            }
            words.push(condition_text(&condition.kind));
        }
        words.push("then".to_string());
        body_words(&arm.then, &mut words);
    }
    if let Some(body) = &clause.otherwise {
        if !clause.arms.is_empty() {
            words.push("else".to_string());
        }
        body_words(body, &mut words);
    }
    words
}

fn body_words(body: &Body, words: &mut Vec<String>) {
    for action in &body.actions {
        words.push(match &action.kind {
            ActionKind::Send { first, last, drop } => {
                let last = last.map_or_else(String::new, |n| format!("..{}", n.text()));
                let drop = if *drop { " or drop" } else { "" };
                format!("send {}{last}{drop}", first.text())
            }
            ActionKind::Count => "count".to_string(),
            ActionKind::Interrupt { sync: false } => "interrupt".to_string(),
            ActionKind::Interrupt { sync: true } => "interrupt sync".to_string(),
        });
    }
    match &body.next {
        Some(Next::Stop(_)) => words.push("stop".to_string()),
        Some(Next::Next(_)) => words.push("next".to_string()),
        Some(Next::Goto(_, label)) => words.push(format!("goto {}", label.text)),
        None => {}
    }
}

fn condition_text(condition: &ConditionKind) -> String {
    match condition {
        ConditionKind::Constant(value) => value.to_string(),
        ConditionKind::Filter(n) => format!("filter {}", n.text()),
        ConditionKind::Compare(operand, relation, with) => {
            let left = operand_text(operand);
            format!("{left} {} {}", relation.name(), comparand_text(with))
        }
        ConditionKind::Bits { operand, set, mask } => {
            let test = if *set { "bset" } else { "bclr" };
            format!("{} {test} {}", operand_text(operand), comparand_text(mask))
        }
    }
}

fn comparand_text(comparand: &Comparand) -> String {
    match comparand {
        Comparand::Number(number) => number.text(),
        Comparand::Operand(operand) => operand_text(operand),
    }
}

fn operand_text(operand: &Operand) -> String {
    let mut out = mnemonic(&operand.field);
    if operand.second {
        out = format!("{}.{out}", Word::SECOND);
    }
    if let Some(part) = &operand.part {
        out.push('.');
        out.push_str(&part.kind.text.to_ascii_lowercase());
        if let Some(byte) = part.byte {
            out.push('@');
            out.push_str(&byte.text());
        }
    }
    out
}
