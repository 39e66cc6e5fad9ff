//! The ways of counting.

use crate::base::tags::Tags;
use crate::channel::shields::Profiler;
use crate::channel::strata::Sampler;
use crate::observe::acyclic::Acyclic;
use crate::observe::converge::Converge;
use crate::observe::prefetch::Prefetch;
use crate::observe::query::Asked;

/// What is kept for a process by the ways that are enabled.
#[derive(Default)]
pub struct Ways {
    /// Counts events in the counters of a sampler.
    pub sampler: Option<Sampler>,
    /// Counts events in those of a multi-hash profiler. At most one of them is there.
    pub profiler: Option<Profiler>,
    /// Acyclic paths, where they are counted, or were.
    pub acyclic: Option<Acyclic>,
    /// Queries about the process.
    pub asked: Option<Asked>,
    /// Prefetches, where they are wanted.
    pub prefetch: Option<Prefetch>,
    /// Places that are not profiled, where the host watches that.
    pub converge: Option<Converge>,
    /// Code that has events, if not all has.
    pub selected: Option<Tags>,
}
