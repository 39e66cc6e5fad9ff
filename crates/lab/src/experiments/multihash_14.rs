//! Multi-hash figure 14: figure 12 for branches.

use super::intervals::SETTINGS;
use super::tables;
use crate::Lab;
use crate::experiment::{Experiment, Paper};
use crate::findings::Findings;
use crate::plan::Results;
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-14",
    paper: Paper::MultiHash,
    title: "Figure 14: branches, C1R0 with 1 to 8 tables, and the best single hash",
    needs: || {
        SETTINGS
            .iter()
            .flat_map(|s| tables::needs(Feed::Edges, *s, &TABLES))
            .collect()
    },
    run,
};

const TABLES: [u32; 4] = [1, 2, 4, 8];

fn run(_: &Lab<'_>, results: &Results) -> Findings {
    tables::findings(results, Feed::Edges, &TABLES, [30.0, 60.0])
}
