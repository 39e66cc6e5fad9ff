//! Many specs over one stream, once.

use std::collections::BTreeMap;
use std::fmt;

use trommel_compress::interval::Statistics;
use trommel_compress::table::CounterTables;
use trommel_compress::{FirstLevel, IntervalSpec, Seeds, Sink, Spec};
use trommel_tuple::stream::{self, Block};
use trommel_tuple::{Events, Kind, Message};

use super::intervals::{IntervalSums, PerfectInterval};
use super::{
    Estimator, Filter, IntervalAccuracy, Model, PerKind, Selection, Tuples, invariance_error,
};
use crate::KindProfile;
use crate::confidence::Confidence;

/// Options of an evaluation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// Tuples to judge by.
    pub filter: Filter,
    /// Seeds of the compressors.
    pub seeds: Seeds,
    /// Numbers of events at which to judge, besides the end.
    pub checkpoints: Vec<u64>,
    /// Says whether to hold the limits of [`Confidence`] against the true counts, at the end.
    pub limits: bool,
    /// Says whether to keep each interval with its candidates, and to find phases.
    pub per_interval: bool,
    /// Cost of messages.
    pub model: Model,
}

/// Number of reported tuples within their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitsHeld {
    /// Tuples reported.
    pub entries: u64,
    /// Tuples whose true count was within the limits.
    pub held: u64,
    /// The same for tuples that make up one event in 10 000 or more.
    pub hot_entries: u64,
    /// See `hot_entries`.
    pub hot_held: u64,
}

/// A compressor at one point of the stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Events so far.
    pub events: u64,
    /// Messages, had the stream ended here.
    pub messages: u64,
    /// The invariance error in percent; 0 where no tuple was selected, see [`judged`](Self::judged).
    pub error: f64,
    /// Tuples selected by the filter.
    pub tuples: usize,
    /// Loads with selected tuples.
    pub loads: usize,
    /// Share of the events that are selected tuples', in percent.
    pub coverage: f64,
}

impl Point {
    /// The error, where there is a tuple to judge by.
    pub fn judged(&self) -> Option<f64> {
        (self.tuples > 0).then_some(self.error)
    }
}

/// Reasons why there is no error. No error is not an error of nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unjudged {
    /// The stream has no events.
    Empty,
    /// The stream ends before the first interval, of so many events, does.
    Short {
        /// Events of the stream.
        events: u64,
        /// Events of the first interval.
        interval: u64,
    },
    /// The filter leaves nothing to judge by.
    Filtered,
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the stream has no events"),
            Self::Short { events, interval } => write!(
                f,
                "the stream of {events} events is shorter than an interval of {interval}"
            ),
            Self::Filtered => f.write_str("no tuple passes the filter"),
        }
    }
}

/// The error of one kind's tuples at the end of the stream: simultaneous profiles are told apart
/// in software (*Stratified Sampling*, section 5.7).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KindError {
    /// The kind.
    pub kind: Kind,
    /// The invariance error of its selected tuples, in percent; `None` without such tuples.
    pub error: Option<f64>,
    /// Its selected tuples.
    pub tuples: usize,
}

/// Result of one spec.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluation {
    /// The spec.
    pub spec: Spec,
    /// The seeds it was built with.
    pub seeds: Seeds,
    /// Events of the stream.
    pub events: u64,
    /// Messages that software got, those at the end included.
    pub messages: u64,
    /// In percent: the invariance error; for interval profilers the mean interval error.
    pub error: Result<f64, Unjudged>,
    /// The invariance error at the end of the profile that all messages make, whatever the compressor; `None` where no tuple passes the
    /// filter. So samplers and interval profilers can be held side by side.
    pub invariance: Option<f64>,
    /// Sum of the messages' counts, those of a counter table included.
    pub counted: u64,
    /// Events that the first level counted and did not send; `None` where counts are estimates.
    pub held: Option<u64>,
    /// Checkpoints, the last one at the end; none for interval profilers.
    pub points: Vec<Point>,
    /// The error of each kind that occurred; none for interval profilers.
    pub kind_errors: Vec<KindError>,
    /// Cost of messages.
    pub model: Model,
    /// Says whether limits held, where that was asked for and the compressor has any.
    pub limits: Option<LimitsHeld>,
    /// For interval profilers.
    pub interval: Option<IntervalAccuracy>,
    /// Profile that a recording with this spec would have.
    pub kinds: BTreeMap<Kind, KindProfile>,
}

impl Evaluation {
    /// Cycles that software spends on the messages.
    pub fn overhead_cycles(&self) -> u64 {
        self.model.cycles(self.messages)
    }

    /// The overhead in percent of the program's estimated cycles; 0 without events.
    pub fn overhead_percent(&self) -> f64 {
        self.model.percent(self.messages, self.events)
    }
}

/// One spec on its way through the stream.
struct Run {
    spec: Spec,
    seeds: Seeds,
    first: FirstLevel,
    table: Option<CounterTables>,
    profile: Estimator,
    /// Messages after the counter table.
    messages: PerKind,
    points: Vec<Point>,
    kind_errors: Vec<KindError>,
    limits: Option<LimitsHeld>,
    invariance: Option<f64>,
    /// Candidates of the interval that just ended, and the sums over all.
    candidates: Vec<Message>,
    sums: IntervalSums,
    /// Figures at the end of the last whole interval.
    whole: Statistics,
    /// The current interval, where the profiler itself picks its length.
    own: Option<PerfectInterval>,
}

/// Takes the first level's messages apart: its profile, and the messages of the table after it.
struct Fold<'a> {
    tuples: &'a Tuples,
    profile: &'a mut Estimator,
    table: Option<&'a mut CounterTables>,
    messages: &'a mut PerKind,
    candidates: Option<&'a mut Vec<Message>>,
}

impl Sink for Fold<'_> {
    fn message(&mut self, message: Message) {
        let number = self.tuples.get(message.kind, message.tuple);
        let number = number.expect("messages are of tuples that went in");
        self.profile.message(&message, number);
        let mut software = |message: Message| self.messages[message.kind as usize] += 1;
        match &mut self.table {
            Some(table) => table.message(message, &mut software),
            None => software(message),
        }
        if let Some(candidates) = &mut self.candidates {
            candidates.push(message);
        }
    }
}

impl Run {
    fn new(spec: &Spec, seeds: Seeds, per_interval: bool) -> Self {
        let adaptive = spec.interval().filter(|s| s.is_adaptive());
        Self {
            own: adaptive.map(|s| PerfectInterval::new(u64::from(s.interval))),
            spec: *spec,
            seeds,
            first: FirstLevel::new(spec, seeds),
            table: CounterTables::new(&spec.tables),
            profile: Estimator::new(spec, seeds),
            messages: PerKind::default(),
            points: Vec::new(),
            kind_errors: Vec::new(),
            limits: None,
            invariance: None,
            candidates: Vec::new(),
            sums: IntervalSums::new(per_interval),
            whole: Statistics::default(),
        }
    }

    fn events(&mut self, events: Events<'_>, tuples: &Tuples) {
        let interval = self.spec.interval().is_some();
        let mut fold = Fold {
            tuples,
            profile: &mut self.profile,
            table: self.table.as_mut(),
            messages: &mut self.messages,
            candidates: interval.then_some(&mut self.candidates),
        };
        self.first.events(events, &mut fold);
    }

    fn interval_end(&mut self, spec: &IntervalSpec, perfect: &PerfectInterval, tuples: &Tuples) {
        self.sums.interval(spec, perfect, tuples, &self.candidates);
        self.candidates.clear();
        self.whole = self.first.statistics().unwrap_or_default();
    }

    /// Counts events for an interval whose length the profiler picks; its end, if this is it.
    fn count_own(&mut self, numbers: &[u32], tuples: &Tuples) {
        let (Some(spec), Some(mut own)) = (self.spec.interval().copied(), self.own.take()) else {
            return;
        };
        own.count(numbers, tuples.len());
        if own.seen == own.length {
            self.interval_end(&spec, &own, tuples);
            own.clear();
            own.length = self.first.interval_left().unwrap_or(own.length);
        }
        self.own = Some(own);
    }

    fn limits_held(&self, tuples: &Tuples, counts: &[u64], events: u64) -> Option<LimitsHeld> {
        let reported = || self.profile.estimates(tuples);
        let rounded = reported().map(|(_, tuple, count)| (tuple, count.round() as u64));
        let mut confidence = Confidence::for_spec(&self.spec, self.seeds, events, rounded);
        let mut held = LimitsHeld::default();
        for (kind, tuple, count) in reported() {
            let limits = confidence.count(tuple, count.round() as u64)?;
            let truth = tuples.get(kind, tuple).map_or(0, |n| counts[n]);
            let inside = limits.low <= truth as f64 && truth as f64 <= limits.high;
            held.entries += 1;
            held.held += u64::from(inside);
            if truth * 10_000 >= events {
                held.hot_entries += 1;
                held.hot_held += u64::from(inside);
            }
        }
        Some(held)
    }

    fn finish(mut self, seen: &PerKind, tuples: &Tuples, model: Model) -> Evaluation {
        if let Some(table) = &mut self.table {
            table.finish(&mut |message: Message| self.messages[message.kind as usize] += 1);
        }
        let events: u64 = seen.iter().sum();
        let (sums, whole) = (self.sums, self.whole);
        let interval = (self.spec.interval()).map(|spec| {
            (
                spec,
                sums.finish(events, whole.promotions, whole.accumulator_full),
            )
        });
        let error = match (&interval, self.points.last().and_then(Point::judged)) {
            _ if events == 0 => Err(Unjudged::Empty),
            (Some((spec, found)), _) if found.shape.intervals == 0 => Err(Unjudged::Short {
                events,
                interval: u64::from(spec.interval),
            }),
            (Some((_, found)), _) => Ok(found.parts.total()),
            (None, error) => error.ok_or(Unjudged::Filtered),
        };
        Evaluation {
            spec: self.spec,
            seeds: self.seeds,
            events,
            messages: self.messages.iter().sum(),
            error,
            invariance: self.invariance,
            counted: self.profile.counted(),
            held: self.first.held(),
            points: self.points,
            kind_errors: self.kind_errors,
            model,
            limits: self.limits,
            interval: interval.map(|(_, found)| found),
            kinds: self.profile.profile(tuples, seen, &self.messages),
        }
    }
}

/// Several specs that see the same events.
pub struct Evaluator {
    options: Options,
    tuples: Tuples,
    counts: Vec<u64>,
    numbers: Vec<u32>,
    perfect: Vec<PerfectInterval>,
    runs: Vec<Run>,
    /// Checkpoints still to come, the next one last.
    checkpoints: Vec<u64>,
    seen: u64,
    seen_of: PerKind,
}

impl Evaluator {
    /// Evaluates `specs`.
    pub fn new(specs: &[Spec], options: Options) -> Self {
        let seeded: Vec<_> = specs.iter().map(|s| (*s, options.seeds)).collect();
        Self::seeded(&seeded, options)
    }

    /// Evaluates specs each with its own seeds; those of `options` are not looked at.
    pub fn seeded(specs: &[(Spec, Seeds)], options: Options) -> Self {
        let intervals = specs.iter().filter_map(|(s, _)| s.interval());
        let mut lengths: Vec<_> = intervals.filter(|s| !s.is_adaptive()).collect();
        lengths.sort_by_key(|s| s.interval);
        lengths.dedup_by_key(|s| s.interval);
        let mut checkpoints = options.checkpoints.clone();
        checkpoints.retain(|n| *n > 0);
        checkpoints.sort_unstable_by(|a, b| b.cmp(a));
        checkpoints.dedup();
        Self {
            tuples: Tuples::default(),
            counts: Vec::new(),
            numbers: Vec::new(),
            perfect: lengths
                .iter()
                .map(|s| PerfectInterval::new(u64::from(s.interval)))
                .collect(),
            runs: specs
                .iter()
                .map(|(spec, seeds)| Run::new(spec, *seeds, options.per_interval))
                .collect(),
            checkpoints,
            options,
            seen: 0,
            seen_of: PerKind::default(),
        }
    }

    /// The events that come next, in order.
    pub fn events(&mut self, mut events: Events<'_>) {
        while !events.is_empty() {
            let own = self.runs.iter().filter_map(|r| r.own.as_ref());
            let to_interval = self.perfect.iter().chain(own).map(|p| p.length - p.seen);
            let to_checkpoint = self.checkpoints.last().map(|at| at - self.seen);
            let n = to_interval.chain(to_checkpoint).min();
            let n = n.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
            let (piece, rest) = events.split_at(n);
            self.piece(piece);
            events = rest;
        }
    }

    /// Events up to the next boundary at most.
    fn piece(&mut self, events: Events<'_>) {
        self.numbers.clear();
        let (tuples, counts, numbers) = (&mut self.tuples, &mut self.counts, &mut self.numbers);
        let seen_of = &mut self.seen_of;
        events.for_each(|kind, tuple| {
            seen_of[kind as usize] += 1;
            let number = tuples.number(kind, tuple);
            if number == counts.len() {
                counts.push(0);
            }
            counts[number] += 1;
            numbers.push(number as u32);
        });
        self.seen += events.len() as u64;
        for run in &mut self.runs {
            run.events(events, &self.tuples);
            run.count_own(&self.numbers, &self.tuples);
        }
        for perfect in &mut self.perfect {
            perfect.count(&self.numbers, self.tuples.len());
            if perfect.seen < perfect.length {
                continue;
            }
            for run in &mut self.runs {
                let spec = run.spec;
                if let Some(spec) = spec.interval()
                    && !spec.is_adaptive()
                    && u64::from(spec.interval) == perfect.length
                {
                    run.interval_end(spec, perfect, &self.tuples);
                }
            }
            perfect.clear();
        }
        if self.checkpoints.last() == Some(&self.seen) {
            self.checkpoints.pop();
            self.checkpoint();
        }
    }

    fn checkpoint(&mut self) {
        let selection = Selection::new(&self.tuples, &self.counts, self.options.filter);
        for run in &mut self.runs {
            if run.spec.interval().is_some() {
                continue;
            }
            run.points.push(Point {
                events: self.seen,
                // As if the stream ended here: the table would send what it has.
                messages: run.messages.iter().sum::<u64>()
                    + run.table.as_ref().map_or(0, |t| t.len() as u64),
                error: invariance_error(&self.tuples, &selection, &run.profile).unwrap_or(0.0),
                tuples: selection.len(),
                loads: selection.loads,
                coverage: 100.0 * selection.executions as f64 / self.seen.max(1) as f64,
            });
        }
    }

    /// The errors at the end that are of whole profiles, and of each kind.
    fn tell_kinds_apart(&mut self) {
        let selection = Selection::new(&self.tuples, &self.counts, self.options.filter);
        for run in &mut self.runs {
            run.invariance = invariance_error(&self.tuples, &selection, &run.profile);
        }
        for kind in Kind::ALL.into_iter().filter(|k| self.tuples.has(*k)) {
            let selection = selection.of_kind(kind, &self.tuples);
            for run in self.runs.iter_mut().filter(|r| r.spec.interval().is_none()) {
                run.kind_errors.push(KindError {
                    kind,
                    error: invariance_error(&self.tuples, &selection, &run.profile),
                    tuples: selection.len(),
                });
            }
        }
    }

    /// The end of the stream.
    pub fn finish(mut self) -> Vec<Evaluation> {
        let at_end = |run: &Run| run.points.last().is_some_and(|p| p.events == self.seen);
        if !self.runs.iter().any(at_end) {
            self.checkpoint();
        }
        self.tell_kinds_apart();
        if self.options.limits {
            for run in &mut self.runs {
                run.limits = run.limits_held(&self.tuples, &self.counts, self.seen);
            }
        }
        let runs = self.runs.into_iter();
        runs.map(|run| run.finish(&self.seen_of, &self.tuples, self.options.model))
            .collect()
    }
}

/// Evaluates specs over a stream. [`stream::Reader::end`] then tells whether it was cut short.
pub fn evaluate(
    specs: &[Spec],
    options: Options,
    stream: &mut stream::Reader,
) -> Result<Vec<Evaluation>, stream::Error> {
    let mut evaluator = Evaluator::new(specs, options);
    let mut block = Block::default();
    while stream.next_block(&mut block)? {
        evaluator.events(block.events());
    }
    Ok(evaluator.finish())
}
