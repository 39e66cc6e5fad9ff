//! Findings of an experiment: data, figures, and claims held against the data.
//!
//! **I30 (computed verdicts).** A verdict of the lab is computed from the data beside it. The lab speaks only through the callbacks that it is given.

use serde_json::{Value, json};

use crate::plot::Figure;

/// Data in columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Part of its file name.
    pub name: String,
    /// Column titles, with units.
    pub columns: Vec<String>,
    /// Rows as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A value in a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number; one that is not finite is written as nothing.
    Number(f64),
    /// Nothing to say.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Number(number)
        } else {
            Self::Missing
        }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Cell {
    /// Returns the text for CSV and pages: at most six significant digits.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(n) => significant(*n),
            Self::Missing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(n) => json!(significant(*n).parse::<f64>().unwrap_or(*n)),
            Self::Missing => Value::Null,
        }
    }
}

fn significant(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    let digits = (5 - number.abs().log10().floor() as i32).clamp(0, 17) as usize;
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, columns: &[&str]) -> Self {
        Self {
            name: name.into(),
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        self.rows.push(row);
    }

    /// Returns the table as CSV (RFC 4180, but lines end with a line feed).
    pub fn csv(&self) -> String {
        let quoted = |text: String| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        };
        let mut out = String::new();
        let titles = self.columns.iter().map(|c| quoted(c.clone()));
        out.push_str(&titles.collect::<Vec<_>>().join(","));
        out.push('\n');
        for row in &self.rows {
            let cells = row.iter().map(|c| quoted(c.text()));
            out.push_str(&cells.collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out
    }

    fn json(&self) -> Value {
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::json).collect::<Value>());
        json!({
            "name": self.name,
            "columns": self.columns,
            "rows": rows.collect::<Value>(),
        })
    }
}

/// Says whether a claim of a paper was borne out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was.
    Holds,
    /// On some programs, or in part.
    Partly,
    /// It was not.
    Fails,
    /// There were no data.
    NoData,
}

impl Verdict {
    /// By how many of the cases bear the claim out: it holds when all do, in part when some do.
    pub fn of_cases(holding: usize, all: usize) -> Self {
        match (holding, all) {
            (_, 0) => Self::NoData,
            (h, a) if h == a => Self::Holds,
            (0, _) => Self::Fails,
            _ => Self::Partly,
        }
    }

    /// By one condition, where there are data.
    pub fn when(holds: Option<bool>) -> Self {
        match holds {
            Some(true) => Self::Holds,
            Some(false) => Self::Fails,
            None => Self::NoData,
        }
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "in part",
            Self::Fails => "does not hold",
            Self::NoData => "no data",
        }
    }
}

/// A claim of a paper and what we found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Claim of the paper, in our words.
    pub paper: &'static str,
    /// Measurement here.
    pub ours: String,
    /// Says whether it was borne out, and by what rule is in `ours`.
    pub verdict: Verdict,
}

/// Everything that an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The data.
    pub tables: Vec<Table>,
    /// Figures, with part of their file names; the first one usually has none.
    pub figures: Vec<(String, Figure)>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The reason why the claims are not judged, though there are data: too few.
    pub weak: Option<String>,
}

/// Events of a program below which its data are no verdicts: samplers of the papers send some 4000 messages of so many.
pub(crate) const ENOUGH: u64 = 1_000_000;

impl Findings {
    /// Adds a claim. Without data its figures are means of nothing, and are not shown.
    pub fn claim(&mut self, paper: &'static str, ours: impl Into<String>, verdict: Verdict) {
        let ours = ours.into();
        // A figure that is no number is compared with nothing, whatever came of the comparison.
        let is_number = |word: &str| !["NaN", "inf"].contains(&word);
        let words = ours.split(|c: char| !c.is_alphanumeric());
        let verdict = match words.into_iter().all(is_number) {
            true => verdict,
            false => Verdict::NoData,
        };
        let ours = match verdict {
            Verdict::NoData => "Nothing here was long enough to judge it by.".into(),
            _ => ours,
        };
        self.claims.push(Claim {
            paper,
            ours,
            verdict,
        });
    }

    /// Verdict of a claim in words, in parentheses where it is none.
    pub fn verdict_of(&self, claim: &Claim) -> String {
        match (&self.weak, claim.verdict) {
            (None, verdict) | (_, verdict @ Verdict::NoData) => verdict.words().to_owned(),
            (Some(_), verdict) => format!("({})", verdict.words()),
        }
    }

    /// Notes that its data are of so many events at most.
    pub(crate) fn is_of(&mut self, events: u64, program: Option<&str>) {
        if events >= ENOUGH || self.claims.iter().all(|c| c.verdict == Verdict::NoData) {
            return;
        }
        let of = program.map_or(String::new(), |name| format!(" of {name}"));
        let [events, enough] = [events, ENOUGH].map(|n| crate::plot::short(n as f64));
        self.weak = Some(format!(
            "No verdicts, as there were only {events} events{of}: from {enough} on they are. What is in parentheses may be chance."
        ));
        self.notes.extend(self.weak.clone());
    }

    /// Returns true if there are data: a claim is judged, or a table of an experiment without claims has a row.
    pub fn is_of_anything(&self) -> bool {
        let judged = |claim: &Claim| claim.verdict != Verdict::NoData;
        match self.claims.is_empty() {
            true => self.tables.iter().any(|table| !table.rows.is_empty()),
            false => self.claims.iter().any(judged),
        }
    }

    /// Returns the findings as JSON, schema `trommel.lab/1`.
    pub fn json(&self, name: &str, title: &str) -> Value {
        let claim =
            |c: &Claim| json!({"paper": c.paper, "ours": c.ours, "verdict": c.verdict.words()});
        json!({
            "schema": "trommel.lab/1",
            "experiment": name,
            "title": title,
            "claims": self.claims.iter().map(claim).collect::<Value>(),
            "notes": self.notes,
            "weak": self.weak,
            "tables": self.tables.iter().map(Table::json).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut table = Table::new("t", &["spec", "error in %"]);
        table.row(["M4[10k,1%]2048".into(), 0.123_456_789.into()]);
        table.row(["say \"so\"".into(), f64::NAN.into()]);
        table.row([Cell::Missing, 20_000_000_u64.into()]);
        assert_eq!(
            table.csv(),
            "spec,error in %\n\"M4[10k,1%]2048\",0.123457\n\"say \"\"so\"\"\",\n,20000000\n"
        );
    }

    #[test]
    fn figures_that_are_no_numbers_judge_nothing() {
        let mut found = Findings::default();
        for (ours, verdict) in [
            (format!("{:.2} times the error", f64::NAN), Verdict::NoData),
            (format!("at most {}.", f64::INFINITY), Verdict::NoData),
            ("0.50 times, on infinitely many".to_owned(), Verdict::Fails),
        ] {
            found.claim("claimed", ours.clone(), Verdict::Fails);
            let claim = found.claims.last().expect("added");
            assert_eq!(claim.verdict, verdict, "{ours}");
            assert_eq!(claim.ours == ours, verdict == Verdict::Fails, "{ours}");
        }
    }

    #[test]
    fn verdicts_follow_the_cases() {
        assert_eq!(Verdict::of_cases(7, 7), Verdict::Holds);
        assert_eq!(Verdict::of_cases(3, 7), Verdict::Partly);
        assert_eq!(Verdict::of_cases(0, 7), Verdict::Fails);
        assert_eq!(Verdict::of_cases(0, 0), Verdict::NoData);
    }
}
