//! Latest intervals of a process, with their candidates by name.

use serde::{Deserialize, Serialize};
use trommel_compress::Spec;
use trommel_host::fold::intervals::Ended;
use trommel_host::serve::epochs::LatestIntervals;
use trommel_profile::confidence::Confidence;
use trommel_symbol::Files;
use trommel_tuple::{Message, Place};

use crate::load;
use crate::report::functions;
use crate::report::view::View;

/// Entries of each list of a snapshot, hottest first.
pub(super) const MOST: usize = 200;

/// Latest intervals of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intervals {
    /// The interval profiler.
    pub(super) compressor: String,
    /// Intervals that have ended so far.
    pub(super) ended: u64,
    /// The latest one of each thread, the last one first.
    pub(super) latest: Vec<IntervalRow>,
}

/// An interval that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct IntervalRow {
    /// Number of the thread; None: of all threads.
    pub(super) thread: Option<u32>,
    /// Number in its sequence, from 1.
    pub(super) interval: u64,
    /// Events of the sequence before it.
    pub(super) start: u64,
    pub(super) events: u64,
    /// Time since its end was found.
    pub(super) ended_ns_ago: u64,
    /// Number of its candidates, also of those that are not listed.
    pub(super) candidates_found: u64,
    /// The most frequent first.
    pub(super) candidates: Vec<CandidateRow>,
}

/// A tuple above the threshold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CandidateRow {
    pub(super) kind: String,
    pub(super) at: String,
    /// Destination of a branch or call.
    pub(super) to: Option<String>,
    /// Any other value, in words.
    pub(super) value: Option<String>,
    /// The function of `at`, if it is known.
    pub(super) function: Option<String>,
    pub(super) module: String,
    pub(super) count: u64,
    /// Part of the interval's events, 0 to 1.
    pub(super) share: f64,
}

impl Intervals {
    pub(super) fn new(found: &LatestIntervals, spec: &Spec, files: &Files) -> Self {
        let profile = &found.profile;
        let confidence = Confidence::new(profile);
        let mut view = View::new(profile, load::names(files, profile), confidence);
        let latest = found.latest.iter();
        Self {
            compressor: spec.to_string(),
            ended: found.ended,
            latest: latest.map(|latest| row(&mut view, latest)).collect(),
        }
    }
}

fn row(view: &mut View<'_>, latest: &Ended) -> IntervalRow {
    let interval = &latest.interval;
    let hot = interval.candidates.iter().take(MOST);
    IntervalRow {
        thread: Some(latest.thread).filter(|thread| *thread != 0),
        interval: interval.number,
        start: interval.start,
        events: interval.events,
        ended_ns_ago: latest.at.elapsed().as_nanos() as u64,
        candidates_found: interval.candidates.len() as u64,
        candidates: hot
            .map(|message| candidate(view, message, interval.events))
            .collect(),
    }
}

fn candidate(view: &mut View<'_>, message: &Message, events: u64) -> CandidateRow {
    let (at, value) = (message.tuple.pc, message.tuple.value);
    let (to, value) = match message.kind.value_is_place() {
        true => (Some(view.destination(at, Place::from_word(value))), None),
        false => (None, Some(view.shown(at, value))),
    };
    CandidateRow {
        kind: message.kind.name().to_owned(),
        at: view.name(at),
        to,
        value,
        function: view.locate(at).function.as_deref().map(str::to_owned),
        module: functions::module(view, at.module()),
        count: message.count,
        share: message.count as f64 / events.max(1) as f64,
    }
}
