//! Counts of an earlier run, to compare with.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Measured;

/// Counts that an earlier `stat --json` wrote.
pub(super) struct Earlier {
    instructions: f64,
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Earlier> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        anyhow::anyhow!("{shown}: {e}; write one: trommel stat --json -o {shown} -- PROG")
    })?;
    let value: Value = serde_json::from_str(&text).map_err(|e| {
        anyhow::anyhow!("{shown}: no JSON: {e}; write one with trommel stat --json")
    })?;
    let instructions = value["counts"]["instructions"].as_f64();
    match (value["schema"].as_str(), instructions) {
        (Some("trommel.stat/1"), Some(instructions)) => Ok(Earlier { instructions }),
        _ => bail!("{shown}: not what `trommel stat --json` writes"),
    }
}

impl Earlier {
    /// Returns by how many percent there are more instructions now.
    pub(super) fn compare(&self, measured: &Measured) -> Option<f64> {
        let now = measured.median()?.mix.instructions;
        Some(100.0 * (now - self.instructions) / self.instructions.max(1.0))
    }
}
