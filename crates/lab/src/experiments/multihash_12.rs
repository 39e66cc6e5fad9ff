//! Multi-hash figure 12: the best design with 1 to 16 tables, beside the best single hash.

use super::intervals::SETTINGS;
use super::tables;
use crate::Lab;
use crate::experiment::{Experiment, Paper, percent};
use crate::findings::{Findings, Verdict};
use crate::plan::Results;
use crate::streams::Feed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "multihash-12",
    paper: Paper::MultiHash,
    title: "Figure 12: loaded values, C1R0 with 1 to 16 tables, and the best single hash",
    needs: || {
        SETTINGS
            .iter()
            .flat_map(|s| tables::needs(Feed::Values, *s, &TABLES))
            .collect()
    },
    run,
};

const TABLES: [u32; 5] = [1, 2, 4, 8, 16];

fn run(lab: &Lab<'_>, results: &Results) -> Findings {
    let mut found = tables::findings(results, Feed::Values, &TABLES, [60.0, 120.0]);
    let rows = tables::rows(results, Feed::Values, SETTINGS[1], &TABLES);
    let name = lab.subject_named("gcc");
    let subject = rows.iter().find(|r| r.program == name);
    let (four, single) = subject.map_or((f64::NAN, f64::NAN), |r| (r.of(4), r.single.total()));
    found.claim(
        "At 1M, 0.1 % the error is 5 % with four tables, 10 % with the best single hash (the paper: of gcc).",
        format!(
            "{name}: four tables {}, best single hash {} (rule: half or less).",
            percent(four),
            percent(single)
        ),
        Verdict::when(subject.map(|_| four <= 0.5 * single)),
    );
    found
}
