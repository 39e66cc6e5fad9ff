//! Results of folding.

use std::collections::BTreeMap;

use trommel_profile::filter::Filter;
use trommel_profile::queries::Queries;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Site, Thread};
use trommel_tuple::{Kind, Place};

use crate::ask::prefetch;
use crate::channel::modules::Modules;
use crate::channel::stream::StreamError;
use crate::fold::exact::Lost;

/// What the windows of a while came to.
pub struct Epoch {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// The modules.
    pub modules: Vec<Module>,
    /// The windows.
    pub windows: Windows,
}

/// What a run came to.
pub struct Folded {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// What each thread did, when there was more than one.
    pub threads: Vec<Thread>,
    /// The modules.
    pub modules: Modules,
    /// The windows, where it was made of those.
    pub windows: Option<Windows>,
    /// What queries came to, if any were put.
    pub queries: Option<Queries>,
    /// What was found to prefetch, if that was wanted.
    pub prefetch: Option<prefetch::Report>,
    /// What was not profiled as it was known, if that was wanted.
    pub filter: Option<Filter>,
    /// Why the stream file lacks its end, unless that was told before.
    pub stream_error: Option<StreamError>,
    /// What was dropped to save memory.
    pub lost: Lost,
}
