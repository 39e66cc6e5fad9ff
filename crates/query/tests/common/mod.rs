//! Random queries for the property tests.

use trommel_compress::random::SplitMix64;
use trommel_query::Field;

/// A source of choices.
pub(crate) struct Choice(SplitMix64);

impl Choice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// A word, most often one that comparisons tell apart.
    pub(crate) fn word(&mut self) -> u64 {
        let edges = [
            0,
            1,
            2,
            5,
            0x7f,
            0x80,
            0xff,
            0x100,
            0x7fff,
            0x8000,
            0xffff,
            0x1_0000,
            0x8000_0000,
            u64::MAX,
            u64::MAX - 4,
        ];
        match self.below(8) {
            0 => self.0.draw(),
            1 => *self.of(&edges) << 32 | *self.of(&edges) & 0xffff_ffff,
            2 => (*self.of(&edges)).wrapping_mul(0x0001_0001_0001_0001),
            _ => *self.of(&edges),
        }
    }
}

const CLASSES: [&str; 8] = [
    "opJMP", "opBRANCH", "opLOAD", "opSTORE", "opALU", "opMULT", "opFLOAT", "opSYS",
];

/// A file of queries that is nearly always valid: what is not is a comparison of words of one bank, or
/// one that can never match.
pub(crate) fn text(choice: &mut Choice) -> String {
    let mut out = String::new();
    for _ in 0..choice.below(3) {
        let place = *choice.of(&[
            "module \"libz.so.1\"",
            "symbol main",
            "pc 0x10..0x20 in \"a b\"",
        ]);
        out.push_str(&format!("tag {} {place};\n", choice.below(4)));
    }
    // Entries are dealt to the queries.
    let mut free: Vec<String> = (0..32)
        .map(|n| format!("{} {}", CLASSES[n / 4], n % 4))
        .collect();
    let mut events = vec!["evITLBMISS", "evDTLBMISS", "evL2DMISS"];
    for _ in 0..1 + choice.below(4) {
        out.push_str("for");
        let is_event = !events.is_empty() && choice.one_in(5);
        if is_event {
            out.push_str(&format!(
                " {} *",
                events.swap_remove(choice.below(events.len()))
            ));
        } else {
            for _ in 0..1 + choice.below(5) {
                let entry = free.swap_remove(choice.below(free.len()));
                out.push_str(&format!(" {entry}"));
            }
        }
        let rates = [
            "always",
            "every 1",
            "every 2",
            "every 7",
            "every 1k",
            "every auto",
            "every auto 12%",
        ];
        let paired = choice.one_in(4);
        let pairs = [
            "every 2 pair 1",
            "every 7 pair 6",
            "every 20 pair 3",
            "every 1k pair 16",
        ];
        let rate = if paired {
            choice.of(&pairs)
        } else {
            choice.of(&rates)
        };
        out.push_str(&format!(" {rate} collect"));
        let mut fields: Vec<Field> = Field::ALL.to_vec();
        fields.retain(|f| !is_event || f.is_of_events());
        let most = if paired { 3 } else { 7 };
        let wanted = 1 + choice.below(fields.len().min(most));
        while fields.len() > wanted {
            fields.remove(choice.below(fields.len()));
        }
        if choice.one_in(2) {
            fields.reverse();
        }
        for field in &fields {
            out.push_str(&format!(" {}", field.name()));
        }
        out.push_str(";\n");
        let mut words: Vec<String> = fields.iter().map(|f| f.name().to_string()).collect();
        if paired {
            words.extend(fields.iter().map(|f| format!("second.{}", f.name())));
            words.push("distance".to_string());
        }
        clauses(choice, &words, &mut out);
    }
    out
}

fn clauses(choice: &mut Choice, fields: &[String], out: &mut String) {
    let count = 1 + choice.below(5);
    for at in 0..count {
        out.push_str(&format!("  l{at}: "));
        let last = at + 1 == count;
        let arms = if choice.one_in(4) {
            0
        } else {
            1 + choice.below(3)
        };
        for n in 0..arms {
            let first = condition(choice, fields);
            out.push_str(&format!("{}if {first} ", if n > 0 { " else " } else { "" }));
            if choice.one_in(2) {
                out.push_str(&format!("and {} ", condition(choice, fields)));
            }
            out.push_str(&format!("then {}", body(choice, at, count)));
        }
        if arms == 0 || last || choice.one_in(2) {
            let otherwise = body(choice, at, count);
            out.push_str(&format!(
                "{}{otherwise}",
                if arms > 0 { " else " } else { "" }
            ));
        }
        out.push_str(";\n");
    }
}

fn body(choice: &mut Choice, at: usize, count: usize) -> String {
    let mut out = String::new();
    for _ in 0..choice.below(3) {
        out.push_str(match choice.below(6) {
            0 => "send 1 ",
            1 => "send 250..255 ",
            2 => "send 3..4 or drop ",
            3 => "count ",
            4 => "interrupt ",
            _ => "interrupt sync ",
        });
    }
    let last = at + 1 == count;
    let next = match choice.below(4) {
        0 if !last => format!("goto l{}", at + 1 + choice.below(count - at - 1)),
        1 if !last && !out.is_empty() => String::new(),
        2 if !last => "next".into(),
        _ => "stop".into(),
    };
    out + &next
}

fn condition(choice: &mut Choice, fields: &[String]) -> String {
    match choice.below(12) {
        0 => return "true".into(),
        1 => return "false".into(),
        2 | 3 => return format!("filter {}", choice.of(&[2, 4, 16, 256])),
        _ => {}
    }
    let field = choice.of(fields);
    let bits = *choice.of(&[8, 16, 32, 64]);
    let bytes = bits / 8;
    let byte = bytes * choice.below(8 / bytes);
    let unsigned = format!(".u{bits}@{byte}");
    let mask = [1, 2, 0x80, 0xff, 0x101, 0x8000];
    let other = choice.of(fields);
    match choice.below(8) {
        0 => format!("{field}{unsigned} bset {:#x}", choice.of(&mask)),
        1 => format!("{field}{unsigned} bclr {}", choice.of(&mask)),
        2 => format!("{field}{unsigned} bclr {other}"),
        n => {
            let relation = *choice.of(&["=", "<>", "<", "<=", ">", ">="]);
            let (part, number) = match n {
                3 => ("".into(), *choice.of(&[0, 1, 2, 5, 0x80, 0xffff])),
                4 => (
                    unsigned,
                    *choice.of(&[0, 1, 2, 5, 0x7f, 0x80, 0xff, 0xffff]),
                ),
                5 => {
                    let signed = format!(".i{bits}@{byte}");
                    (
                        signed,
                        *choice.of(&[-32768, -128, -5, -1, 0, 1, 127, 32767]),
                    )
                }
                6 => return format!("{field}.i{bits}@{byte} {relation} {other}"),
                _ => return format!("{field} {relation} {other}"),
            };
            format!("{field}{part} {relation} {number}")
        }
    }
}
