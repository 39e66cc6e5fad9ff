//! The invariance error of a profile.
//!
//! The invariance of a tuple is its share of its load's executions. The error of a tuple is the
//! difference between its invariance in the perfect profile and in the estimated one; the error of
//! the profile is the mean over the selected tuples, weighted by how often each occurred.
//!
//! Source: *Stratified Sampling*, section 5.3.1. A load's executions include those with discarded values; a
//! selected tuple whose load was never reported has invariance 0.

use trommel_tuple::Kind;

use super::{Estimator, Filter, Tuples};

/// The tuples that a filter selects from the perfect profile.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection {
    /// Numbers of the selected tuples, with their counts and their loads' executions.
    tuples: Vec<(usize, u64, u64)>,
    /// Loads with selected tuples.
    pub loads: usize,
    /// Executions of the selected tuples.
    pub executions: u64,
}

impl Selection {
    /// Selects from the exact counts of all tuples.
    pub fn new(tuples: &Tuples, counts: &[u64], filter: Filter) -> Self {
        let mut of_load = vec![0u64; tuples.sites()];
        for (number, count) in counts.iter().enumerate() {
            of_load[tuples.site_of(number)] += count;
        }
        let frequent = |number: usize| {
            let load = of_load[tuples.site_of(number)];
            let count = counts[number];
            count > 0 && load >= filter.executions && filter.tuple.reached(count, load)
        };
        let mut covered = vec![0u64; tuples.sites()];
        for number in (0..counts.len()).filter(|n| frequent(*n)) {
            covered[tuples.site_of(number)] += counts[number];
        }
        let selected =
            |site: usize| covered[site] > 0 && filter.load.reached(covered[site], of_load[site]);
        let chosen: Vec<_> = (0..counts.len())
            .filter(|n| frequent(*n) && selected(tuples.site_of(*n)))
            .map(|n| (n, counts[n], of_load[tuples.site_of(n)]))
            .collect();
        Self {
            loads: (0..tuples.sites()).filter(|s| selected(*s)).count(),
            executions: chosen.iter().map(|(_, count, _)| count).sum(),
            tuples: chosen,
        }
    }

    /// The selected tuples of one kind.
    #[must_use]
    pub fn of_kind(&self, kind: Kind, tuples: &Tuples) -> Self {
        let of_kind = |(n, _, _): &&(usize, u64, u64)| tuples.tuple(*n).0 == kind;
        let chosen: Vec<_> = self.tuples.iter().filter(of_kind).copied().collect();
        let mut sites: Vec<_> = chosen.iter().map(|t| tuples.site_of(t.0)).collect();
        sites.sort_unstable();
        sites.dedup();
        Self {
            loads: sites.len(),
            executions: chosen.iter().map(|(_, count, _)| count).sum(),
            tuples: chosen,
        }
    }

    /// Selected tuples.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Returns true if nothing was selected.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }
}

/// The error of an estimated profile over the selected tuples, in percent; `None` when none is selected.
pub fn invariance_error(
    tuples: &Tuples,
    selection: &Selection,
    profile: &Estimator,
) -> Option<f64> {
    if selection.is_empty() {
        return None;
    }
    let mut of_load = vec![0.0; tuples.sites()];
    for number in 0..tuples.len() {
        of_load[tuples.site_of(number)] += profile.estimate(number);
    }
    let mut sum = 0.0;
    for (number, count, executions) in &selection.tuples {
        let ideal = *count as f64 / *executions as f64;
        let reported = of_load[tuples.site_of(*number)];
        let estimated = if reported > 0.0 {
            profile.estimate(*number) / reported
        } else {
            0.0
        };
        sum += *count as f64 * (ideal - estimated).abs();
    }
    Some(100.0 * sum / selection.executions as f64)
}
