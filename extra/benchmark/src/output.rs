//! Results as a table and as JSON.

use serde_json::{Value, json};

use crate::baseline::SCHEMA;
use crate::counted::Counts;

/// Counts of a benchmark, and those that it is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) name: &'static str,
    pub(crate) counts: Counts,
    pub(crate) before: Option<Counts>,
}

impl Compared {
    /// Returns by how many percent there are more instructions than before.
    pub(crate) fn change(&self) -> Option<f64> {
        let before = self.before?.instructions as f64;
        let more = self.counts.instructions as f64 - before;
        Some(100.0 * more / before.max(1.0))
    }
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The change of a benchmark in words.
fn change(compared: &Compared) -> String {
    match (compared.before, compared.change()) {
        (Some(before), _) if before.instructions == compared.counts.instructions => "same".into(),
        (_, Some(change)) => format!("{change:+.3}%"),
        (_, None) => "new".into(),
    }
}

/// The results as a table. Numbers are flush right, names flush left.
pub(crate) fn table(all: &[Compared], baseline: &str) -> String {
    let titles = ["benchmark", "instructions", "calls", baseline, "change"];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(all.iter().map(|one| {
        [
            one.name.to_owned(),
            grouped(one.counts.instructions),
            grouped(one.counts.calls),
            one.before
                .map_or_else(String::new, |before| grouped(before.instructions)),
            change(one),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for row in &rows {
        text += &format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

/// The results as a document.
pub(crate) fn document(all: &[Compared], program: &str, baseline: &str) -> Value {
    let entries = all.iter().map(|one| {
        json!({
            "name": one.name,
            "instructions": one.counts.instructions,
            "calls": one.counts.calls,
            "before": one.before.map(|before| before.instructions),
            "change_percent": one.change(),
        })
    });
    let entries: Vec<Value> = entries.collect();
    json!({"schema": SCHEMA, "program": program, "baseline": baseline, "benchmarks": entries})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(name: &'static str, now: u64, before: Option<u64>) -> Compared {
        let counts = |instructions| Counts {
            instructions,
            calls: 7,
        };
        Compared {
            name,
            counts: counts(now),
            before: before.map(counts),
        }
    }

    #[test]
    fn tables_say_what_changed() {
        let all = [
            compared("sort_long", 1_234_567, Some(1_000_000)),
            compared("fib", 999, Some(999)),
            compared("new_one", 1000, None),
        ];
        let wanted = "\
benchmark  instructions  calls       main    change
sort_long     1 234 567      7  1 000 000  +23.457%
fib                 999      7        999      same
new_one           1 000      7                  new
";
        assert_eq!(table(&all, "main"), wanted);
    }

    #[test]
    fn nothing_before_is_no_division_by_zero() {
        assert_eq!(compared("a", 5, Some(0)).change(), Some(500.0));
        assert_eq!(compared("a", 5, None).change(), None);
    }
}
