//! Multi-hash figure 10: every combination of tables, conservative update and resetting, at 10k events and 1 %.

use super::variants::{findings, needs};
use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::Findings;
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-10",
    paper: Paper::MultiHash,
    title: "Figure 10: conservative update (C) and resetting (R), 10k events, 1 %",
    needs: || needs(0),
    run,
};

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    findings(0, results)
}
