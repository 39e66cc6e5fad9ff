//! From program to text: one clause for each instruction, which assembles to that instruction.
//!
//! Names of labels are not in a program: `L5` is instruction 5.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ast::Comments;
use crate::format::{quoted, statement};
use crate::instruction::{
    Action, Against, Chance, Comparison, Instruction, Lane, Next, Queues, Test,
};
use crate::pair::{Layout, Word};
use crate::program::{Program, Query};
use crate::tag::{Rule, Where};

/// The text of a program, in normal form.
pub fn disassemble(program: &Program) -> String {
    let mut out = String::new();
    let plain = Comments::default();
    for rule in program.tags() {
        statement(&mut out, 0, &plain, &tag_words(rule));
    }
    for query in program.queries() {
        if !out.is_empty() {
            out.push('\n');
        }
        statement(&mut out, 0, &plain, &header_words(&query));
        let code = &program.code()[query.code.clone()];
        let targets: Vec<usize> = code.iter().filter_map(target).collect();
        for (at, instruction) in query.code.clone().zip(code) {
            let mut words = Vec::new();
            if targets.contains(&at) {
                words.push(format!("L{at}:"));
            }
            words.extend(clause_words(instruction, query.layout()));
            statement(&mut out, 4, &plain, &words);
        }
    }
    out
}

/// The text of one instruction of a query with records of a `layout`.
pub fn clause(instruction: &Instruction, layout: Layout) -> String {
    clause_words(instruction, layout).join(" ")
}

/// The text of a rule for tags.
pub fn rule(rule: &Rule) -> String {
    tag_words(rule).join(" ")
}

fn target(instruction: &Instruction) -> Option<usize> {
    let branches = [instruction.matched, instruction.otherwise].contains(&Next::Branch);
    branches.then(|| instruction.target.number())
}

fn tag_words(rule: &Rule) -> Vec<String> {
    let place = match &rule.place {
        Where::Module(name) => format!("module {}", quoted(name)),
        Where::Symbol(name) => format!("symbol {}", quoted(name)),
        Where::Range { from, to, module } => {
            let module = module
                .as_deref()
                .map_or_else(String::new, |m| format!(" in {}", quoted(m)));
            format!("pc {from:#x}..{to:#x}{module}")
        }
    };
    alloc::vec![format!("tag {}", rule.tag), place]
}

fn header_words(query: &Query) -> Vec<String> {
    let mut words = alloc::vec!["for".to_string()];
    words.extend(query.entries.selectors());
    words.push(query.rate());
    words.push("collect".to_string());
    words.extend(query.fields.iter().map(|f| f.name().to_string()));
    words
}

fn clause_words(instruction: &Instruction, layout: Layout) -> Vec<String> {
    let label = || format!("L{}", instruction.target.number());
    let mut words = Vec::new();
    let conditions = conditions(instruction, layout);
    for (n, condition) in conditions.iter().enumerate() {
        words.push(if n == 0 { "if" } else { "and" }.to_string());
        words.push(condition.clone());
    }
    if !conditions.is_empty() {
        words.push("then".to_string());
    }
    match instruction.action {
        Action::None => {}
        Action::Send(Queues { first, count, drop }) => {
            let last = match count {
                1 => String::new(),
                count => format!("..{}", u32::from(first) + u32::from(count) - 1),
            };
            let drop = if drop { " or drop" } else { "" };
            words.push(format!("send {first}{last}{drop}"));
        }
        Action::Count => words.push("count".to_string()),
        Action::Interrupt { sync: false } => words.push("interrupt".to_string()),
        Action::Interrupt { sync: true } => words.push("interrupt sync".to_string()),
    }
    match instruction.matched {
        Next::Stop => words.push("stop".to_string()),
        Next::Branch => words.push(format!("goto {}", label())),
        Next::Continue if instruction.action == Action::None => words.push("next".to_string()),
        Next::Continue => {}
    }
    match instruction.otherwise {
        Next::Continue => {}
        Next::Stop => words.extend(["else".to_string(), "stop".to_string()]),
        Next::Branch => words.extend(["else".to_string(), format!("goto {}", label())]),
    }
    words
}

/// The comparisons of an instruction; none of one that always matches.
fn conditions(instruction: &Instruction, layout: Layout) -> Vec<String> {
    let Instruction { even, odd, .. } = instruction;
    let words = [2 * even.word, 2 * odd.word + 1];
    let text = |bank: usize, comparison: &Comparison| {
        let names = [words[bank], words[1 - bank]].map(|word| layout.word_at(word));
        condition(comparison.test, instruction.immediate, names)
    };
    let reads = |c: &Comparison| c.test.against().is_some();
    let mut all = Vec::new();
    // A chance in the odd place stands there because the even one is taken, by `true` if need be.
    if even.test != Test::TRUE || odd.test != Test::TRUE && !reads(odd) {
        all.push(text(0, even));
    }
    if odd.test != Test::TRUE {
        all.push(text(1, odd));
    }
    all
}

fn condition(test: Test, immediate: u16, [own, other]: [Option<Word>; 2]) -> String {
    let name = |word: Option<Word>| word.map_or("?", Word::name);
    let part = |signed: bool, lane: Lane| {
        let at = match lane.byte() {
            0 => String::new(),
            byte => format!("@{byte}"),
        };
        match (lane == Lane::WORD, signed) {
            (true, false) => String::new(),
            (_, true) => format!(".i{}{at}", lane.bits()),
            (_, false) => format!(".u{}{at}", lane.bits()),
        }
    };
    match test {
        Test::Chance(Chance::True) => "true".to_string(),
        Test::Chance(Chance::False) => "false".to_string(),
        Test::Chance(Chance::Filter(n)) => format!("filter {}", 1_u32 << n),
        Test::Magnitude {
            relation,
            signed,
            lane,
            against,
        } => {
            let right = match against {
                Against::Other => format!("{}{}", name(other), part(signed, lane)),
                Against::Immediate if signed => (immediate as i16).to_string(),
                Against::Immediate => immediate.to_string(),
            };
            format!(
                "{}{} {} {right}",
                name(own),
                part(signed, lane),
                relation.name()
            )
        }
        Test::Bits { set, lane, against } => {
            let right = match against {
                Against::Other => format!("{}{}", name(other), part(false, lane)),
                Against::Immediate => format!("{immediate:#x}"),
            };
            let test = if set { "bset" } else { "bclr" };
            format!("{}{} {test} {right}", name(own), part(false, lane))
        }
    }
}
