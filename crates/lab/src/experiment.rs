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
    /// Returns why it cannot be of the user's own program, and what to use instead. Most can: they read streams of any program, run any on
    /// the model or under the engine, or measure what windows cost any.
    pub fn own_refused(&self) -> Option<&'static str> {
        Some(match self.name {
            "stratified-4" => {
                "its events are drawn at random, as the paper's are, and no program has a part in it; `stratified-8` has the error of the same samplers on your program"
            }
            "dynamo-fig9" => {
                "it compiles programs at several levels, and of yours there is no source; build it at each level yourself, and put `dynamo-fig7` to each"
            }
            "values-fig1" => {
                "it knows which of two loads in its own program goes to memory; `trommel record -e latency -- CMD` and `trommel latency` have the levels of all loads of yours"
            }
            "values-table1" => {
                "it knows that its own program's lines are never missed natively, so that whatever is missed is displaced; of other programs nobody knows. `values-table2a` has what windows cost yours"
            }
            "compositions" => {
                "it judges what it finds on programs that it has not searched on, so it needs several; `trommel compress -c SPEC` judges what it found on a stream of yours"
            }
            _ => return None,
        })
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
