//! The experiments, and what they share.
//!
//! Each file is one figure of a paper, named as the paper numbers it, or one question of our own. The
//! rule by which a claim is judged stands beside it, in the words of the report.

mod adaptive;
mod compressors;
mod counters;
mod dynamo_06;
mod dynamo_07;
mod dynamo_08;
mod dynamo_09;
mod intervals;
mod limits;
mod multihash_04;
mod multihash_05;
mod multihash_06;
mod multihash_07;
mod multihash_09;
mod multihash_10;
mod multihash_11;
mod multihash_12;
mod multihash_13;
mod multihash_14;
mod rpa;
mod rpa_07;
mod rpa_08a;
mod rpa_08b;
mod rpa_08c;
mod rpa_cheap;
mod rpa_cpi;
mod rpa_decisions;
mod rpa_interrupts;
mod rpa_table_1;
mod rpa_table_6;
mod sketches;
mod stratified_04;
mod stratified_07;
mod stratified_08;
mod stratified_09;
mod stratified_10;
mod stratified_11;
mod tables;
mod thinning;
mod values_fig1;
mod values_table1;
mod values_table2a;
mod values_table2b;
mod values_table2c;
mod variants;

use crate::Lab;
use crate::findings::Findings;
use crate::plan::{Need, Results};

/// Where an experiment comes from.
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
    /// As headings name it.
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
    /// What is looked at.
    pub title: &'static str,
    /// What has to be evaluated for it.
    pub needs: fn() -> Vec<Need>,
    /// Makes findings of the evaluations.
    pub run: fn(&Lab<'_>, &Results) -> Findings,
}

/// All experiments, in the order of the papers.
pub static EXPERIMENTS: [Experiment; 40] = [
    stratified_04::EXPERIMENT,
    stratified_07::EXPERIMENT,
    stratified_08::EXPERIMENT,
    stratified_09::EXPERIMENT,
    stratified_10::EXPERIMENT,
    stratified_11::EXPERIMENT,
    multihash_04::EXPERIMENT,
    multihash_05::EXPERIMENT,
    multihash_06::EXPERIMENT,
    multihash_07::EXPERIMENT,
    multihash_09::EXPERIMENT,
    multihash_10::EXPERIMENT,
    multihash_11::EXPERIMENT,
    multihash_12::EXPERIMENT,
    multihash_13::EXPERIMENT,
    multihash_14::EXPERIMENT,
    dynamo_06::EXPERIMENT,
    dynamo_07::EXPERIMENT,
    dynamo_08::EXPERIMENT,
    dynamo_09::EXPERIMENT,
    rpa_07::EXPERIMENT,
    rpa_08a::EXPERIMENT,
    rpa_08b::EXPERIMENT,
    rpa_08c::EXPERIMENT,
    rpa_table_1::EXPERIMENT,
    rpa_table_6::EXPERIMENT,
    rpa_cheap::EXPERIMENT,
    rpa_cpi::EXPERIMENT,
    rpa_interrupts::EXPERIMENT,
    rpa_decisions::EXPERIMENT,
    values_fig1::EXPERIMENT,
    values_table1::EXPERIMENT,
    values_table2a::EXPERIMENT,
    values_table2b::EXPERIMENT,
    values_table2c::EXPERIMENT,
    adaptive::EXPERIMENT,
    sketches::EXPERIMENT,
    thinning::EXPERIMENT,
    counters::EXPERIMENT,
    limits::EXPERIMENT,
];

/// The experiment of a name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|e| e.name == name)
}

/// A mean; `NaN` of nothing.
fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
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
fn events(value: Option<u64>) -> String {
    value.map_or("never".into(), |n| crate::plot::short(n as f64))
}

/// The number of cases that hold, and the names of those that do not.
fn exceptions<S: AsRef<str>>(cases: &[(S, bool)]) -> (usize, String) {
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
    fn names_are_different_and_specs_are_valid() {
        let mut names: Vec<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for experiment in &EXPERIMENTS {
            for (spec, _) in (experiment.needs)().iter().flat_map(|n| &n.specs) {
                let parsed = spec.parse::<trommel_compress::Spec>();
                assert!(parsed.is_ok(), "{}: {spec}: {parsed:?}", experiment.name);
            }
        }
        assert!(named("multihash-12").is_some() && named("multihash-1").is_none());
    }

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
