//! The accuracy of interval profilers, and what perfect intervals look like.
//!
//! For each interval, the candidates of the profiler are compared with those of a perfect one. With
//! fp and fh the frequencies in both (fh = 0 for a candidate that was missed), the error of the
//! interval is Σ|fp − fh| ÷ Σfp over the candidates of either; it splits into false positives, false
//! negatives, and candidates of both counted too high (neutral positive) or too low. The error of a
//! run is the mean over its complete intervals; one without candidates has error 0.
//!
//! Source: *Multi-Hash*, sections 5.5.1 and 5.5.2.

use std::collections::HashSet;

use trommel_compress::IntervalSpec;
use trommel_tuple::Message;

use super::Tuples;
use super::phases::Phases;
use crate::intervals::sort;

/// The four parts of an interval error, in percent; they add up to it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ErrorParts {
    /// Candidates of the profiler only.
    pub false_positive: f64,
    /// Candidates of the perfect profiler only.
    pub false_negative: f64,
    /// Candidates of both, counted too high.
    pub neutral_positive: f64,
    /// Candidates of both, counted too low.
    pub neutral_negative: f64,
}

impl ErrorParts {
    /// The whole error.
    pub const fn total(&self) -> f64 {
        self.false_positive + self.false_negative + self.neutral_positive + self.neutral_negative
    }
}

/// Shape of perfect intervals of one length and threshold. Means are over intervals.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct IntervalShape {
    /// Complete intervals.
    pub intervals: u64,
    /// The length of each, in order.
    pub lengths: Vec<u64>,
    /// Mean number of distinct tuples.
    pub distinct: f64,
    /// Mean number of candidates.
    pub candidates: f64,
    /// The most candidates in an interval.
    pub max_candidates: u64,
    /// Mean share of an interval's events that are candidates'.
    pub candidate_coverage: f64,
    /// Candidate change from each interval to the next, 1 − |A∩B| ÷ |A∪B|, sorted. Pairs of
    /// intervals without any candidate do not change.
    pub changes: Vec<f64>,
    /// Share of an interval that is news: the mean of the changes, each weighted by the events of its
    /// later interval, where a pair without any candidate, which predicts nothing, is full change.
    pub news: f64,
}

impl IntervalShape {
    /// The mean length of an interval.
    pub fn mean_length(&self) -> f64 {
        self.lengths.iter().sum::<u64>() as f64 / self.lengths.len().max(1) as f64
    }

    /// The mean candidate change.
    pub fn mean_change(&self) -> f64 {
        self.changes.iter().sum::<f64>() / self.changes.len().max(1) as f64
    }

    /// The candidate change that `share` of the pairs of intervals do not exceed.
    pub fn change_at(&self, share: f64) -> f64 {
        let at = (self.changes.len() as f64 * share) as usize;
        let last = self.changes.len().saturating_sub(1);
        self.changes.get(at.min(last)).copied().unwrap_or(0.0)
    }
}

/// One interval as a profiler reported it.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// Events of the stream before it.
    pub start: u64,
    /// Its events.
    pub events: u64,
    /// Its error in percent, by parts.
    pub error: ErrorParts,
    /// The number of its phase, from 1.
    pub phase: usize,
    /// Candidates, the most frequent first.
    pub candidates: Vec<Message>,
}

/// Accuracy of an interval profiler.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct IntervalAccuracy {
    /// Mean error by parts.
    pub parts: ErrorParts,
    /// The intervals one by one, where that was asked for.
    pub each: Vec<Interval>,
    /// The error of each interval, in order (*Multi-Hash*, figure 13).
    pub series: Vec<ErrorParts>,
    /// Mean number of false positives in an interval.
    pub false_positives: f64,
    /// Mean number of false negatives in an interval.
    pub false_negatives: f64,
    /// Tuples that reached the accumulator, in whole intervals.
    pub promotions: u64,
    /// Events whose tuple found no place there, in whole intervals.
    pub accumulator_full: u64,
    /// Events after the last whole interval, which nothing here counts.
    pub unfinished: u64,
    /// The perfect intervals.
    pub shape: IntervalShape,
}

/// Counts the current interval of the stream exactly.
#[derive(Default)]
pub(super) struct PerfectInterval {
    pub(super) length: u64,
    pub(super) seen: u64,
    counts: Vec<u32>,
    touched: Vec<u32>,
}

impl PerfectInterval {
    pub(super) fn new(length: u64) -> Self {
        Self {
            length,
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, numbers: &[u32], tuples: usize) {
        self.counts.resize(tuples, 0);
        for number in numbers {
            let count = &mut self.counts[*number as usize];
            if *count == 0 {
                self.touched.push(*number);
            }
            *count += 1;
        }
        self.seen += numbers.len() as u64;
    }

    pub(super) fn clear(&mut self) {
        for number in self.touched.drain(..) {
            self.counts[number as usize] = 0;
        }
        self.seen = 0;
    }

    fn candidates(&self, threshold: u32) -> HashSet<u32> {
        let reached = |n: &u32| self.counts[*n as usize] >= threshold;
        self.touched.iter().copied().filter(reached).collect()
    }
}

/// Sums over the intervals of one profiler.
#[derive(Default)]
pub(super) struct IntervalSums {
    series: Vec<ErrorParts>,
    false_positives: u64,
    false_negatives: u64,
    distinct: u64,
    candidates: u64,
    coverage: f64,
    /// Changes times events, and those events.
    news: (f64, f64),
    shape: IntervalShape,
    before: Option<HashSet<u32>>,
    /// The intervals one by one, and their phases, where that was asked for.
    each: Option<(Vec<Interval>, Phases)>,
}

impl IntervalSums {
    /// Sums, with the intervals one by one if `each`.
    pub(super) fn new(each: bool) -> Self {
        Self {
            each: each.then(Default::default),
            ..Self::default()
        }
    }

    /// Keeps the interval that was just added to the series.
    fn keep(&mut self, events: u64, messages: &[Message]) {
        let (Some((each, phases)), Some(error)) = (&mut self.each, self.series.last()) else {
            return;
        };
        let mut candidates = messages.to_vec();
        sort(&mut candidates);
        each.push(Interval {
            start: each.last().map_or(0, |last| last.start + last.events),
            events,
            error: *error,
            phase: phases.of(events, &candidates),
            candidates,
        });
    }

    /// The end of an interval: the profiler's candidates against the perfect ones.
    pub(super) fn interval(
        &mut self,
        spec: &IntervalSpec,
        perfect: &PerfectInterval,
        tuples: &Tuples,
        messages: &[Message],
    ) {
        let candidates = perfect.candidates(spec.threshold_of(perfect.length as u32));
        let mut missed = candidates.clone();
        let frequency = |number: u32| u64::from(perfect.counts[number as usize]);
        let exact: u64 = candidates.iter().map(|n| frequency(*n)).sum();
        let (mut whole, mut parts) = (exact, [0u64; 4]);
        for message in messages {
            let number = tuples.get(message.kind, message.tuple).map(|n| n as u32);
            let fp = number.map_or(0, frequency);
            let difference = fp.abs_diff(message.count);
            if number.is_some_and(|n| missed.remove(&n)) {
                parts[if message.count > fp { 2 } else { 3 }] += difference;
            } else {
                parts[0] += difference;
                whole += fp;
                self.false_positives += 1;
            }
        }
        parts[1] = missed.iter().map(|n| frequency(*n)).sum();
        self.false_negatives += missed.len() as u64;
        let percent = |part: u64| 100.0 * part as f64 / whole.max(1) as f64;
        self.series.push(ErrorParts {
            false_positive: percent(parts[0]),
            false_negative: percent(parts[1]),
            neutral_positive: percent(parts[2]),
            neutral_negative: percent(parts[3]),
        });

        self.keep(perfect.seen, messages);
        self.distinct += perfect.touched.len() as u64;
        self.candidates += candidates.len() as u64;
        self.coverage += exact as f64 / perfect.seen as f64;
        self.shape.intervals += 1;
        self.shape.lengths.push(perfect.length);
        self.shape.max_candidates = self.shape.max_candidates.max(candidates.len() as u64);
        if let Some(before) = &self.before {
            let union = before.union(&candidates).count();
            let common = before.intersection(&candidates).count();
            let change = match union {
                0 => 0.0,
                _ => 1.0 - common as f64 / union as f64,
            };
            self.shape.changes.push(change);
            let news = if union == 0 { 1.0 } else { change };
            self.news.0 += news * perfect.length as f64;
            self.news.1 += perfect.length as f64;
        }
        self.before = Some(candidates);
    }

    /// The end of a stream of so many events, with the profiler's figures at the end of its last interval.
    pub(super) fn finish(
        mut self,
        events: u64,
        promotions: u64,
        accumulator_full: u64,
    ) -> IntervalAccuracy {
        let n = self.shape.intervals.max(1) as f64;
        self.shape.distinct = self.distinct as f64 / n;
        self.shape.candidates = self.candidates as f64 / n;
        self.shape.candidate_coverage = self.coverage / n;
        self.shape.news = match self.news {
            (sum, events) if events > 0.0 => sum / events,
            _ => 0.0,
        };
        self.shape.changes.sort_by(f64::total_cmp);
        let mean = |part: fn(&ErrorParts) -> f64| self.series.iter().map(part).sum::<f64>() / n;
        IntervalAccuracy {
            parts: ErrorParts {
                false_positive: mean(|p| p.false_positive),
                false_negative: mean(|p| p.false_negative),
                neutral_positive: mean(|p| p.neutral_positive),
                neutral_negative: mean(|p| p.neutral_negative),
            },
            each: self.each.map_or_else(Vec::new, |(each, _)| each),
            series: self.series,
            false_positives: self.false_positives as f64 / n,
            false_negatives: self.false_negatives as f64 / n,
            promotions,
            accumulator_full,
            unfinished: events - self.shape.lengths.iter().sum::<u64>(),
            shape: self.shape,
        }
    }
}
