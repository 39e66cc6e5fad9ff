//! Counts of the burst of control that goes on ([`super::bursts`]).

/// Counts of the burst that goes on.
#[derive(Default)]
pub(super) struct Bursts {
    /// Counters when the last burst ended, with their thread, by the number of the counter array.
    pub(super) before: Vec<(u32, Vec<u64>)>,
    /// Executions since, by path met.
    pub(super) since: Vec<u64>,
    /// Records since: paths without counters, with what they say.
    pub(super) records: Vec<(usize, Vec<u8>)>,
}

impl Bursts {
    /// Adds executions of a path.
    pub(super) fn add(&mut self, met: usize, count: u64) {
        if self.since.len() <= met {
            self.since.resize(met + 1, 0);
        }
        self.since[met] += count;
    }
}
