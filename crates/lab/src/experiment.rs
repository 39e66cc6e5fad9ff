//! The shape of an experiment, and the words of its claims.

use crate::Lab;
use crate::findings::Findings;
use crate::plan::{Need, Results};

/// Origins of experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paper {
    /// *Rapid Profiling via Stratified Sampling*.
    Stratified,
    /// *Catching Accurate Profiles in Hardware*.
    MultiHash,
    /// *Dynamo: A Transparent Dynamic Optimization System*.
    Dynamo,
    /// *Relational Profiling*.
    Relational,
    /// *Efficient and Flexible Value Sampling*.
    Values,
    /// Our own questions.
    Ours,
}

impl Paper {
    /// Returns the title for headings.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Stratified => "Stratified sampling",
            Self::MultiHash => "Multi-hash",
            Self::Dynamo => "Dynamo",
            Self::Relational => "Relational profiling",
            Self::Values => "Value sampling",
            Self::Ours => "Beyond the papers",
        }
    }
}

/// One experiment.
#[derive(Debug)]
pub struct Experiment {
    /// On the command line and in file names.
    pub name: &'static str,
    /// The paper.
    pub paper: Paper,
    /// Subject of the experiment.
    pub title: &'static str,
    /// Evaluations that it needs.
    pub needs: fn() -> Vec<Need>,
    /// Makes findings of the evaluations.
    pub run: fn(&Lab<'_>, &Results) -> Findings,
}

impl Experiment {
    /// Returns true if it can be of the user's own program: it reads streams of any program, runs any on the model or under the
    /// engine, or measures what windows cost any. Others simulate, build programs of their own at several levels, or follow a course of certain ones.
    pub fn takes_programs(&self) -> bool {
        let streams = !(self.needs)().is_empty();
        let runs = self.name == "dynamo-fig7" || self.name.starts_with("values-table2");
        streams || runs || self.paper == Paper::Relational
    }
}

/// A mean; `NaN` of nothing.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (n, sum) = values
        .into_iter()
        .fold((0.0, 0.0), |(n, sum), v| (n + 1.0, sum + v));
    sum / n
}

/// A percentage as claims print it.
pub(crate) fn percent(value: f64) -> String {
    match value {
        v if !v.is_finite() => "–".into(),
        v if v.abs() >= 99.95 => format!("{v:.0} %"),
        v if v.abs() >= 0.095 => format!("{v:.1} %"),
        v => format!("{v:.2} %"),
    }
}

/// A number of events as claims print it.
pub(crate) fn events(value: Option<u64>) -> String {
    value.map_or("never".into(), |n| crate::plot::short(n as f64))
}

/// The number of cases that hold, and the names of those that do not.
pub(crate) fn exceptions<S: AsRef<str>>(cases: &[(S, bool)]) -> (usize, String) {
    let not: Vec<&str> = cases
        .iter()
        .filter(|c| !c.1)
        .map(|c| c.0.as_ref())
        .collect();
    let words = match not.is_empty() {
        true => String::new(),
        false => format!(" (not {})", not.join(", ")),
    };
    (cases.len() - not.len(), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        assert_eq!(percent(f64::NAN), "–");
        assert_eq!(
            (percent(0.04), percent(2.25), percent(134.0)),
            ("0.04 %".into(), "2.2 %".into(), "134 %".into())
        );
        assert_eq!(
            (events(Some(300_000)), events(None)),
            ("300k".into(), "never".into())
        );
        assert_eq!(
            exceptions(&[("a", true), ("b", false)]),
            (1, " (not b)".into())
        );
    }
}
