//! The way of events that must stay in order: in blocks through the compressor and to the stream file.

use std::collections::BTreeMap;

use trommel_compress::{Compressor, Seeds, Sink, Spec};
use trommel_profile::KindProfile;
use trommel_profile::accuracy::{Estimates, PerKind};
use trommel_profile::intervals::Intervals;
use trommel_tuple::{Events, Kind, Message, Tuple};

use super::acyclic::Acyclic;
use super::intervals::{ALL_THREADS, Ended, Ending};
use super::messages::Messages;
use super::simulated::Simulator;
use crate::channel::modules::Modules;
use crate::channel::stream::{StreamError, StreamFile};
use crate::fold::exact::Tables;

/// Everything that needs events in order.
pub(super) struct Ordered {
    compressor: Compressor,
    software: Software,
    /// Messages that the target sends by itself; its records go through the compressor.
    pub(super) messages: Option<Messages>,
    /// The target sends candidates of intervals.
    pub(super) intervals: bool,
    /// The target counts acyclic paths.
    pub(super) counted: bool,
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
            software: Software {
                estimates: Estimates::new(spec, Seeds::default()),
                ending: spec.interval().map(|_| Ending::default()),
            },
            messages,
            intervals: false,
            counted: false,
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
            self.compressor.events(events, &mut self.software);
        }
        self.tuples.clear();
        self.kinds.clear();
    }

    /// A candidate of an interval that the target has counted.
    pub(super) fn candidate(&mut self, thread: u32, kind: Kind, tuple: Tuple, count: u64) {
        let candidate = Message {
            kind,
            tuple,
            count,
            samples: 1,
        };
        self.software.estimates.message(candidate);
        if let Some(ending) = &mut self.software.ending {
            ending.candidate(thread, candidate);
        }
    }

    /// An interval of a thread has ended that the target has counted.
    pub(super) fn interval_end(&mut self, thread: u32, events: u64) {
        if let Some(ending) = &mut self.software.ending {
            ending.ended(thread, events);
        }
    }

    /// Keeps the latest interval of each thread.
    pub(super) fn keep_latest(&mut self) {
        if let Some(ending) = &mut self.software.ending {
            ending.keep_latest();
        }
    }

    /// Returns true if the latest interval of each thread is kept.
    pub(super) fn keeps_latest(&self) -> bool {
        let ending = self.software.ending.as_ref();
        ending.is_some_and(Ending::keeps_latest)
    }

    /// Keeps each interval until it is taken for services.
    pub(super) fn serve_intervals(&mut self) {
        if let Some(ending) = &mut self.software.ending {
            ending.serve();
        }
    }

    /// Returns true if intervals are kept for services.
    pub(super) fn serves_intervals(&self) -> bool {
        self.software.ending.as_ref().is_some_and(Ending::serves)
    }

    /// Takes the intervals that services have not been given yet.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        let ending = self.software.ending.as_mut();
        ending.map_or_else(Vec::new, Ending::take_ended)
    }

    /// Returns the latest intervals of events so far, as [`Ending::latest`] does.
    pub(super) fn latest(&mut self, modules: &Modules) -> (Vec<Ended>, u64) {
        self.block(modules);
        let ending = self.software.ending.as_ref();
        ending.map(Ending::latest).unwrap_or_default()
    }

    /// Intervals that have ended, if the compressor has any. No more will come.
    pub(super) fn take_intervals(&mut self, modules: &Modules) -> Option<Intervals> {
        self.block(modules);
        self.software.ending.take().map(Ending::finish)
    }

    /// Returns the results. `counts`: where paths are counted that are in no order.
    pub(super) fn finish(
        mut self,
        modules: &Modules,
        counts: &mut Tables,
        folded: &mut BTreeMap<Kind, KindProfile>,
    ) -> Option<StreamError> {
        self.block(modules);
        self.compressor.finish(&mut self.software);
        if let Some(stream) = self.stream.take() {
            self.stream_error = stream.finish().err().map(StreamError);
        }
        folded.extend(self.software.estimates.profile(&self.seen));
        if let Some(messages) = self.messages {
            messages.finish(folded);
        }
        if let Some(acyclic) = self.acyclic {
            acyclic.settle(counts, folded);
        }
        self.stream_error
    }
}

/// Receiver of the compressor's messages: their sums, and candidates of intervals.
struct Software {
    estimates: Estimates,
    ending: Option<Ending>,
}

impl Sink for Software {
    fn message(&mut self, message: Message) {
        self.estimates.message(message);
        if let Some(ending) = &mut self.ending {
            ending.candidate(ALL_THREADS, message);
        }
    }

    fn interval_end(&mut self, events: u64) {
        if let Some(ending) = &mut self.ending {
            ending.ended(ALL_THREADS, events);
        }
    }
}
