//! A function's instructions, and how often each was executed.

use std::ops::Range;

use trommel_code::{Body, Count, Flow};
use trommel_profile::Profile;
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::At;
use trommel_symbol::Code;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::events::OfModule;
use crate::find::FunctionMatch;
use crate::report::view::View;

/// A function's instructions, and the times that each was executed.
pub(super) struct Known {
    pub(super) body: Body,
    counts: Vec<Option<Count>>,
    pub(super) callers: Vec<(Place, u64)>,
}

impl Known {
    /// The same of functions of one module. What is known of the module is gathered once.
    pub(super) fn of<'p>(
        view: &mut View<'p>,
        module: ModuleId,
        code: &Code<'p>,
        found: &[FunctionMatch],
    ) -> Vec<Self> {
        if let Some(samples) = &view.profile.samples {
            // Nobody has seen an instruction executed.
            let of_module = samples.places.keys().filter(|p| p.module() == module);
            let places: Vec<u64> = of_module.map(|place| place.vaddr().0).collect();
            let known = |found: &FunctionMatch| Self {
                body: Body::new(code, &found.ranges, &inside(&places, &found.ranges)),
                counts: Vec::new(),
                callers: Vec::new(),
            };
            return found.iter().map(known).collect();
        }
        let functions = view.symbols().functions(module).into_iter();
        let mut functions: Vec<Range<u64>> = functions.map(|f| f.range).collect();
        functions.sort_unstable_by_key(|r| (r.start, r.end));
        functions.dedup();
        let mut events = OfModule::new(view, module, code, &functions);
        let mut known = Vec::with_capacity(found.len());
        for found in found {
            let flow = Flow::new(code, &functions, &found.ranges, &mut events);
            let lines = 0..flow.body.lines().len();
            let counts = lines.map(|n| flow.count(n)).collect();
            let arrivals = events.arrivals_at(found.entry());
            known.push(Self {
                body: flow.body,
                counts,
                callers: arrivals.iter().map(|t| (t.from, t.count)).collect(),
            });
        }
        known
    }

    /// Returns the times that an instruction was executed, if that is known.
    pub(super) fn count(&self, n: usize) -> Option<Count> {
        self.counts.get(n).copied().flatten()
    }

    /// Instructions executed, of those whose count is known.
    pub(super) fn executed(&self) -> f64 {
        let known = self.counts.iter().flatten();
        known.map(|count| count.times).sum()
    }

    /// Returns the function's time, if the whole machine was sampled.
    pub(super) fn time(&self, profile: &Profile, module: ModuleId) -> Option<Sampled> {
        profile.samples.as_ref()?;
        let at = |at| sampled_at(profile, Place::new(module, Vaddr(at)));
        let here = self.body.lines().iter().filter_map(|line| at(line.at));
        Some(trommel_profile::samples::sum(here.map(|at| &at.sampled)))
    }
}

/// Those of `places`, which are in order, that are in the ranges.
fn inside(places: &[u64], ranges: &[Range<u64>]) -> Vec<u64> {
    let of_range = |range: &Range<u64>| {
        let from = places.partition_point(|at| *at < range.start);
        let to = places.partition_point(|at| *at < range.end);
        places[from..to.max(from)].to_vec()
    };
    ranges.iter().flat_map(of_range).collect()
}

/// Returns the samples of the whole machine at an instruction.
pub(super) fn sampled_at(profile: &Profile, at: Place) -> Option<&At> {
    profile.samples.as_ref()?.places.get(&at)
}
