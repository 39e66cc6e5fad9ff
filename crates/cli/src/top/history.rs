//! Counts of several moments, added up by name.
//!
//! One moment of windows is few samples. People read sums: of the last moments, in which what is over fades, or of the whole time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use std::time::{Duration, Instant};

use super::intervals::{IntervalRow, Intervals};
use super::snapshot::{FunctionRow, ProcessRow, Snapshot, TransferRow, ValueRow, Valued};

/// Moments that are recent.
const RECENT: usize = 10;
/// News that are kept.
const NEWS: usize = 3;

/// Moments so far.
#[derive(Default)]
pub(super) struct History {
    recent: VecDeque<Snapshot>,
    all: Sum,
    /// Time at which the last one came.
    came: Option<Instant>,
    /// Last news first.
    pub(super) news: VecDeque<String>,
}

impl History {
    /// Adds a moment.
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        for news in &snapshot.news {
            self.news.push_front(news.clone());
            self.news.truncate(NEWS);
        }
        if snapshot.wall_ns == 0 {
            return;
        }
        self.all.add(&snapshot);
        self.came = Some(Instant::now());
        self.recent.push_back(snapshot);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Leaves what was said, and nothing that was counted.
    pub(super) fn without_counts(self) -> Self {
        Self {
            news: self.news,
            ..Self::default()
        }
    }

    /// The last moment.
    pub(super) fn last(&self) -> Option<&Snapshot> {
        self.recent.back()
    }

    /// The latest intervals, if an interval profiler counts.
    pub(super) fn intervals(&self) -> Option<&Intervals> {
        self.last()?.intervals.as_ref()
    }

    /// The latest interval of each thread, or of threads whose interval ended in the last moments only, the last one first; with the time since
    /// it ended.
    pub(super) fn latest(&self, whole: bool) -> Vec<(&IntervalRow, Duration)> {
        let since = self.came.map_or(Duration::ZERO, |came| came.elapsed());
        let ago = |row: &IntervalRow| since + Duration::from_nanos(row.ended_ns_ago);
        let recent = self.recent.iter().map(|snapshot| snapshot.wall_ns).sum();
        let all = self.intervals().map_or(&[][..], |found| &found.latest);
        let shown = all.iter().enumerate();
        let shown = shown.filter(|(n, row)| *n == 0 || whole || row.ended_ns_ago <= recent);
        shown.map(|(_, row)| (row, ago(row))).collect()
    }

    /// The sum of the last moments, or of all.
    pub(super) fn sum(&self, whole: bool) -> Sum {
        if whole {
            return self.all.clone();
        }
        let mut sum = Sum::default();
        self.recent.iter().for_each(|snapshot| sum.add(snapshot));
        sum
    }
}

/// Moments added up.
#[derive(Clone, Default)]
pub(super) struct Sum {
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) samples: u64,
    /// Sum of all functions, also those that are not listed.
    pub(super) total: f64,
    /// Unit of functions.
    pub(super) unit: String,
    /// It is a time.
    pub(super) is_time: bool,
    /// Cost in percent, times what it is a part of.
    cost: f64,
    /// The sum of that.
    paying: u64,
    seen: BTreeMap<String, u64>,
    functions: HashMap<[String; 2], FunctionRow>,
    branches: HashMap<[String; 4], TransferRow>,
    calls: HashMap<[String; 4], TransferRow>,
    values: HashMap<[String; 2], ValueRow>,
    processes: HashMap<u32, ProcessRow>,
}

impl Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        self.wall_ns += snapshot.wall_ns;
        self.cpu_ns += snapshot.cpu_ns;
        self.samples += snapshot.samples.unwrap_or(0);
        self.total += snapshot.total.unwrap_or(0.0);
        self.unit.clone_from(&snapshot.unit);
        self.is_time = snapshot.unit == "ns";
        self.cost += snapshot.cost_percent.unwrap_or(0.0) * Self::paying(snapshot) as f64;
        self.paying += Self::paying(snapshot);
        for (kind, seen) in &snapshot.seen {
            let sum = self.seen.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*seen);
        }
        for row in &snapshot.functions {
            let key = [row.name.clone(), row.module.clone()];
            let sum = self.functions.entry(key).or_insert_with(|| FunctionRow {
                own: 0.0,
                calls: 0.0,
                ..row.clone()
            });
            sum.own += row.own;
            sum.calls += row.calls;
        }
        transfers(&mut self.branches, &snapshot.branches);
        transfers(&mut self.calls, &snapshot.calls);
        for row in &snapshot.values {
            let key = [row.at.clone(), row.module.clone()];
            let sum = self.values.entry(key).or_insert_with(|| ValueRow {
                executions: 0,
                top: Vec::new(),
                ..row.clone()
            });
            sum.executions = sum.executions.saturating_add(row.executions);
            for value in &row.top {
                add_value(&mut sum.top, value);
            }
        }
        for row in &snapshot.processes {
            let sum = self.processes.entry(row.pid).or_insert_with(|| ProcessRow {
                self_ns: 0,
                ..row.clone()
            });
            sum.self_ns += row.self_ns;
        }
    }

    /// Returns what was paid, in percent.
    pub(super) fn cost(&self) -> f64 {
        self.cost / self.paying.max(1) as f64
    }

    /// Time that the cost of a moment is a part of: the program's CPU time, or the machine's time.
    fn paying(snapshot: &Snapshot) -> u64 {
        match snapshot.unit == "ns" {
            true => snapshot.wall_ns,
            false => snapshot.cpu_ns,
        }
    }

    /// Events of a kind, also those that are not listed.
    pub(super) fn seen(&self, kind: &str) -> u64 {
        self.seen.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn functions(&self) -> Vec<&FunctionRow> {
        self.functions.values().collect()
    }

    pub(super) fn branches(&self) -> Vec<&TransferRow> {
        self.branches.values().collect()
    }

    pub(super) fn calls(&self) -> Vec<&TransferRow> {
        self.calls.values().collect()
    }

    pub(super) fn values(&self) -> Vec<&ValueRow> {
        self.values.values().collect()
    }

    pub(super) fn processes(&self) -> Vec<&ProcessRow> {
        self.processes.values().collect()
    }
}

fn transfers(sums: &mut HashMap<[String; 4], TransferRow>, rows: &[TransferRow]) {
    for row in rows {
        let key = [&row.from, &row.to, &row.kind, &row.module].map(Clone::clone);
        let sum = sums.entry(key).or_insert_with(|| TransferRow {
            count: 0,
            ..row.clone()
        });
        sum.count = sum.count.saturating_add(row.count);
    }
}

/// Values of a load that are kept. What was rare in each moment is rare in all.
const KEPT: usize = 16;

fn add_value(all: &mut Vec<Valued>, value: &Valued) {
    match all.iter_mut().find(|known| known.shown == value.shown) {
        Some(known) => known.count = known.count.saturating_add(value.count),
        None => all.push(value.clone()),
    }
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.shown.cmp(&b.shown)));
    all.truncate(KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(name: &str, own: f64) -> Snapshot {
        Snapshot {
            wall_ns: 1_000_000_000,
            functions: vec![FunctionRow {
                name: name.to_owned(),
                module: "app".to_owned(),
                own,
                calls: 1.0,
            }],
            values: vec![ValueRow {
                at: "main+0x1".to_owned(),
                module: "app".to_owned(),
                executions: 10,
                top: vec![Valued {
                    shown: name.to_owned(),
                    count: 7,
                }],
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_is_over_fades_and_stays_in_the_sum_of_all() {
        let mut history = History::default();
        history.add(moment("old", 5.0));
        for _ in 0..RECENT {
            history.add(moment("new", 1.0));
        }
        let names = |sum: &Sum| -> Vec<(String, f64)> {
            let mut all: Vec<_> = (sum.functions().iter())
                .map(|f| (f.name.clone(), f.own))
                .collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        let recent = history.sum(false);
        assert_eq!(names(&recent), [("new".to_owned(), RECENT as f64)]);
        assert_eq!(recent.wall_ns, RECENT as u64 * 1_000_000_000);
        let all = history.sum(true);
        assert_eq!(
            names(&all),
            [("new".to_owned(), 10.0), ("old".to_owned(), 5.0)]
        );
        let values = all.values();
        assert_eq!((values.len(), values[0].executions), (1, 110));
        assert_eq!(values[0].top[0].shown, "new");
        assert_eq!((values[0].top[0].count, values[0].top[1].count), (70, 7));
    }

    #[test]
    fn what_only_says_something_is_no_moment() {
        let mut history = History::default();
        history.add(Snapshot::said("it ended".to_owned()));
        assert!(history.last().is_none());
        assert_eq!(history.news.front().map(String::as_str), Some("it ended"));
    }
}
