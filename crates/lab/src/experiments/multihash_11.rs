//! Multi-hash figure 11: the combinations of figure 10 under severe pressure, at 1M events and 0.1 %.

use super::variants::{findings, needs};
use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::Findings;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-11",
    paper: Paper::MultiHash,
    title: "Figure 11: conservative update (C) and resetting (R), 1M events, 0.1 %",
    needs: || needs(1),
    run,
};

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    findings(1, results)
}
