//! Results of folding.

use std::collections::BTreeMap;

use trommel_profile::call_tree::CallTree;
use trommel_profile::filter::Filter;
use trommel_profile::intervals::Intervals;
use trommel_profile::queries::Queries;
use trommel_profile::simulated::Simulated;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Site, Thread};
use trommel_tuple::{Kind, Place};

use crate::ask::prefetch;
use crate::channel::modules::Modules;
use crate::channel::stream::StreamError;
use crate::fold::exact::Lost;

/// Results of the windows of an epoch.
pub struct Epoch {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Sites of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// The modules.
    pub modules: Vec<Module>,
    /// The windows.
    pub windows: Windows,
    /// Results of queries, of each load.
    pub queries: Vec<Queries>,
}

/// Results of a run.
pub struct Folded {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Sites of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// Executions of instructions after calls, where all of them were counted.
    pub after_calls: Option<BTreeMap<Place, u64>>,
    /// Times that the kernel led to instructions for signals, where these are known.
    pub deliveries: BTreeMap<Place, u64>,
    /// Counts of each thread, when there was more than one.
    pub threads: Vec<Thread>,
    /// The modules.
    pub modules: Modules,
    /// The windows, where it was made of those.
    pub windows: Option<Windows>,
    /// Calling contexts, if they were counted.
    pub contexts: Option<CallTree>,
    /// Results of queries, if any were put: of each load.
    pub queries: Vec<Queries>,
    /// Results of the prefetch service, if it was enabled.
    pub prefetch: Option<prefetch::Report>,
    /// Places that were not profiled once they were known, if convergent profiling was enabled.
    pub filter: Option<Filter>,
    /// Results of simulation, if that was enabled.
    pub simulated: Option<Simulated>,
    /// Intervals that have ended, if the compressor has any.
    pub intervals: Option<Intervals>,
    /// The reason why the stream file lacks its end, unless that was reported before.
    pub stream_error: Option<StreamError>,
    /// Counts that were dropped to save memory.
    pub lost: Lost,
}
