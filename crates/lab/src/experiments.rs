//! The experiments.
//!
//! Each file is one figure of a paper, named as the paper numbers it, or one question of our own. The
//! rule by which a claim is judged stands beside it, in the words of the report.

mod adaptive;
mod bounds;
mod compositions;
mod compressors;
mod convergence;
mod counters;
mod dynamo_06;
mod dynamo_07;
mod dynamo_08;
mod dynamo_09;
mod hashes;
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
mod rpa_engine;
mod rpa_interrupts;
mod rpa_misses;
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
mod tags;
mod thinning;
mod values_fig1;
mod values_table1;
mod values_table2a;
mod values_table2b;
mod values_table2c;
mod variants;

use crate::experiment::Experiment;

/// All experiments, in the order of the papers.
pub static EXPERIMENTS: [Experiment; 47] = [
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
    rpa_misses::EXPERIMENT,
    rpa_engine::EXPERIMENT,
    rpa_interrupts::EXPERIMENT,
    rpa_decisions::EXPERIMENT,
    values_fig1::EXPERIMENT,
    values_table1::EXPERIMENT,
    values_table2a::EXPERIMENT,
    values_table2b::EXPERIMENT,
    values_table2c::EXPERIMENT,
    adaptive::EXPERIMENT,
    bounds::EXPERIMENT,
    sketches::EXPERIMENT,
    thinning::EXPERIMENT,
    counters::EXPERIMENT,
    limits::EXPERIMENT,
    tags::EXPERIMENT,
    hashes::EXPERIMENT,
    convergence::EXPERIMENT,
    compositions::EXPERIMENT,
];

/// The experiment of a name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|e| e.name == name)
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
        let refused = EXPERIMENTS.iter().filter(|e| e.own_refused().is_some());
        let refused: Vec<_> = refused.map(|e| e.name).collect();
        assert_eq!(
            refused,
            [
                "stratified-4",
                "dynamo-fig9",
                "values-fig1",
                "values-table1",
                "compositions"
            ]
        );
    }
}
