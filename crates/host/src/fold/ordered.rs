//! The way of events that must stay in order: in blocks through the compressor and to the stream file.

use std::collections::BTreeMap;

use trommel_compress::{Compressor, Seeds, Sink, Spec};
use trommel_profile::KindProfile;
use trommel_profile::accuracy::{Estimates, PerKind};
use trommel_tuple::{Events, Kind, Message, Tuple};

use super::acyclic::Acyclic;
use super::messages::Messages;
use super::simulated::Simulator;
use crate::channel::modules::Modules;
use crate::channel::stream::{StreamError, StreamFile};
use crate::fold::exact::Tables;

/// Everything that needs events in order.
pub(super) struct Ordered {
    compressor: Compressor,
    /// Messages that the target sends by itself; its records go through the compressor.
    pub(super) messages: Option<Messages>,
    /// The target sends candidates of intervals.
    pub(super) intervals: bool,
    /// The target counts acyclic paths.
    pub(super) counted: bool,
    estimates: Estimates,
    stream: Option<StreamFile>,
    /// The error that ended the stream early, until somebody asks.
    pub(super) stream_error: Option<StreamError>,
    streamed_modules: usize,
    pub(super) seen: PerKind,
    pub(super) tuples: Vec<Tuple>,
    pub(super) kinds: Vec<Kind>,
    /// Bytes of the last record of each thread's chunk: its code's region may come with the next.
    pub(super) rest: BTreeMap<u32, Vec<u8>>,
    /// Events still wanted.
    pub(super) wanted: u64,
    /// The maker of acyclic paths, where those are wanted.
    pub(super) acyclic: Option<Acyclic>,
    /// Caches and predictors that are simulated.
    pub(super) simulator: Option<Box<Simulator>>,
    /// Tuples of one record, empty in between.
    pub(super) made: Vec<(Kind, Tuple)>,
}

/// Events that are sent on together.
pub(super) const BLOCK: usize = 4096;

impl Ordered {
    /// Begins for `spec` and a stream file; `limit` is how many events are wanted.
    pub(super) fn new(
        spec: &Spec,
        messages: Option<Messages>,
        stream: Option<StreamFile>,
        stream_error: Option<StreamError>,
        limit: Option<u64>,
    ) -> Self {
        Self {
            compressor: spec.build(Seeds::default()),
            messages,
            intervals: false,
            counted: false,
            estimates: Estimates::new(spec, Seeds::default()),
            stream,
            stream_error,
            streamed_modules: 0,
            seen: PerKind::default(),
            tuples: Vec::with_capacity(2 * BLOCK),
            kinds: Vec::with_capacity(2 * BLOCK),
            rest: BTreeMap::new(),
            wanted: limit.unwrap_or(u64::MAX),
            acyclic: None,
            simulator: None,
            made: Vec::new(),
        }
    }

    /// Sends the collected tuples on.
    pub(super) fn block(&mut self, modules: &Modules) {
        let kept = usize::try_from(self.wanted).unwrap_or(usize::MAX);
        self.tuples.truncate(kept);
        self.kinds.truncate(kept);
        self.wanted -= self.tuples.len() as u64;
        for kind in &self.kinds {
            self.seen[*kind as usize] += 1;
        }
        // Both lanes are always pushed to together.
        if let Some(events) = Events::new(&self.tuples, &self.kinds) {
            if let Some(stream) = &mut self.stream {
                let new = &modules.list[self.streamed_modules..];
                let written = new
                    .iter()
                    .try_for_each(|module| stream.module(module))
                    .and_then(|()| stream.events(events));
                self.streamed_modules = modules.list.len();
                if let Err(error) = written {
                    self.stream = None;
                    self.stream_error = Some(StreamError(error));
                }
            }
            self.compressor.events(events, &mut self.estimates);
        }
        self.tuples.clear();
        self.kinds.clear();
    }

    /// A candidate of an interval that the target has counted.
    pub(super) fn candidate(&mut self, kind: Kind, tuple: Tuple, count: u64) {
        self.estimates.message(Message {
            kind,
            tuple,
            count,
            samples: 1,
        });
    }

    /// Returns the results. `counts`: where paths are counted that are in no order.
    pub(super) fn finish(
        mut self,
        modules: &Modules,
        counts: &mut Tables,
        folded: &mut BTreeMap<Kind, KindProfile>,
    ) -> Option<StreamError> {
        self.block(modules);
        self.compressor.finish(&mut self.estimates);
        if let Some(stream) = self.stream.take() {
            self.stream_error = stream.finish().err().map(StreamError);
        }
        folded.extend(self.estimates.profile(&self.seen));
        if let Some(messages) = self.messages {
            messages.finish(folded);
        }
        if let Some(acyclic) = self.acyclic {
            acyclic.settle(counts, folded);
        }
        self.stream_error
    }
}
