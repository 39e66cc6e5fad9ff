//! Counts of a moment: schema `trommel.top/1`, described in `docs/json.md`.
//!
//! A snapshot has names, not places. So whoever shows it needs neither files nor symbols, and snapshots of a process that loads
//! and unloads modules can be added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trommel_code::Program;
use trommel_compress::Spec;
use trommel_host::serve::epochs::LatestIntervals;
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::Files;
use trommel_tuple::Kind;

use super::intervals::{Intervals, MOST};
use crate::load;
use crate::output::command_line;
use crate::report::functions;
use crate::report::processes;
use crate::report::samples;
use crate::report::view::{Transfer, View};

/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.top/1";
/// Values of each load.
const VALUES: usize = 3;

/// Counts of a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(super) schema: String,
    /// `instructions` or `cycles` of functions, or `ns`.
    pub(super) unit: String,
    pub(super) command: String,
    /// Length of the moment.
    pub(super) wall_ns: u64,
    /// CPU time of what is watched.
    pub(super) cpu_ns: u64,
    /// Threads that were started so far, where that is known.
    pub(super) threads: u64,
    /// None: it is not known.
    pub(super) cost_percent: Option<f64>,
    /// None: without a budget.
    pub(super) budget_percent: Option<f64>,
    /// Windows or samples; None: all events are counted.
    pub(super) samples: Option<u64>,
    /// Sum of `self` of all functions, also those that are not listed; None: functions are not known.
    pub(super) total: Option<f64>,
    /// Events by kind, also those that are not listed.
    pub(super) seen: BTreeMap<String, u64>,
    pub(super) functions: Vec<FunctionRow>,
    pub(super) branches: Vec<TransferRow>,
    pub(super) calls: Vec<TransferRow>,
    pub(super) values: Vec<ValueRow>,
    pub(super) processes: Vec<ProcessRow>,
    /// Latest intervals, where an interval profiler counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intervals: Option<Intervals>,
    /// Sentences about the run, such as why it is not observed any more.
    pub(super) news: Vec<String>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FunctionRow {
    pub(super) name: String,
    pub(super) module: String,
    /// In the unit of the snapshot.
    #[serde(rename = "self")]
    pub(super) own: f64,
    pub(super) calls: f64,
}

/// A branch or call with one of its destinations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TransferRow {
    pub(super) from: String,
    pub(super) to: String,
    /// taken, fallthrough, indirect; direct, indirect.
    pub(super) kind: String,
    pub(super) module: String,
    pub(super) count: u64,
}

/// A load with its most frequent values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ValueRow {
    pub(super) at: String,
    pub(super) module: String,
    pub(super) executions: u64,
    pub(super) top: Vec<Valued>,
}

/// A value in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Valued {
    pub(super) shown: String,
    pub(super) count: u64,
}

/// A process of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessRow {
    pub(super) pid: u32,
    pub(super) command: String,
    pub(super) self_ns: u64,
}

impl Snapshot {
    /// A snapshot that says something, and has no counts.
    pub(super) fn said(news: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            news: vec![news],
            ..Self::default()
        }
    }

    /// Returns true if it has counts.
    pub(super) fn has_counts(&self) -> bool {
        !self.functions.is_empty() || self.intervals.is_some()
    }

    /// Counts of a process in windows.
    pub(super) fn of_windows(profile: &Profile, files: &Files) -> Self {
        let confidence = Confidence::new(profile);
        let mut view = View::new(profile, load::names(files, profile), confidence);
        let program = view.program();
        let windows = profile.windows.as_ref();
        let kinds = profile.kinds.iter();
        Self {
            schema: SCHEMA.to_owned(),
            unit: profile.unit().name().to_owned(),
            command: command_line(&profile.command),
            wall_ns: profile.run.wall,
            cpu_ns: windows.map_or(0, |windows| windows.cpu),
            threads: profile.threads.started,
            cost_percent: windows.map(|windows| windows.cost()),
            budget_percent: windows.map(|windows| windows.budget),
            samples: Some(windows.map_or(0, |windows| windows.counted)),
            total: Some(program.as_ref().map_or(0.0, |p| p.executed().times)),
            seen: (kinds.map(|(kind, data)| (kind.name().to_owned(), data.seen))).collect(),
            functions: program.map_or_else(Vec::new, |program| of_program(&mut view, &program)),
            branches: transfers(&mut view, Kind::Edge),
            calls: transfers(&mut view, Kind::Call),
            values: values(&mut view),
            ..Self::default()
        }
    }

    /// Latest intervals of a process.
    pub(super) fn of_intervals(latest: &LatestIntervals, spec: &Spec, files: &Files) -> Self {
        let profile = &latest.profile;
        Self {
            schema: SCHEMA.to_owned(),
            unit: "events".to_owned(),
            command: command_line(&profile.command),
            wall_ns: profile.run.wall,
            cpu_ns: latest.cpu.as_nanos() as u64,
            threads: profile.threads.started,
            intervals: Some(Intervals::new(latest, spec, files)),
            ..Self::default()
        }
    }

    /// Counts of samples: the machine's, then those of its processes.
    pub(super) fn of_samples(profiles: Vec<Profile>, files: &Files) -> Self {
        let command = profiles
            .get(1)
            .map(|profile| command_line(&profile.command));
        let Some((profile, rows)) = processes::merge(profiles, false) else {
            return Self::default();
        };
        let confidence = Confidence::of_processes(&profile, rows.len());
        let mut view = View::new(&profile, load::names(files, &profile), confidence);
        let samples = profile.samples.as_ref();
        let machine = samples.and_then(|samples| samples.machine.as_ref());
        let of_processes = machine.is_some_and(|machine| machine.of_processes);
        let mut all = Self {
            schema: SCHEMA.to_owned(),
            unit: "ns".to_owned(),
            command: match of_processes {
                true => command.unwrap_or_default(),
                false => "the whole machine".to_owned(),
            },
            wall_ns: profile.run.wall,
            cpu_ns: profile.run.target_cpu,
            budget_percent: machine.map(|machine| machine.budget),
            cost_percent: machine.map(|machine| machine.cost()),
            samples: Some(machine.map_or(0, |machine| machine.taken)),
            ..Self::default()
        };
        all.total = Some(samples.map_or(0.0, |samples| samples.total().executions));
        for function in samples.map_or_else(Vec::new, |s| samples::functions(&mut view, s)) {
            all.functions.push(FunctionRow {
                name: view.shortened(&function.name),
                module: functions::module(&view, function.module),
                own: function.sampled.executions,
                calls: 0.0,
            });
        }
        all.functions.truncate(MOST);
        let time = |row: &processes::Row| row.time.map(|time| time.executions.round() as u64);
        let mut rows: Vec<ProcessRow> = (rows.iter())
            .filter_map(|row| {
                Some(ProcessRow {
                    pid: row.pid,
                    command: command_line(&row.command),
                    self_ns: time(row)?,
                })
            })
            .collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.self_ns), row.pid));
        rows.truncate(MOST);
        all.processes = rows;
        all
    }
}

fn of_program(view: &mut View<'_>, program: &Program) -> Vec<FunctionRow> {
    let hot = program.functions.iter().take(MOST);
    let row = |function| FunctionRow {
        name: functions::shown(view, function),
        module: functions::module(view, function.module),
        own: function.executed.times,
        calls: function.calls.times,
    };
    hot.map(row).collect()
}

fn transfers(view: &mut View<'_>, kind: Kind) -> Vec<TransferRow> {
    let hot = view.transfers(kind).into_iter().take(MOST);
    let row = |Transfer {
                   from,
                   to,
                   how,
                   count,
               }| TransferRow {
        from: view.name(from),
        to: view.destination(from, to),
        kind: how.to_owned(),
        module: functions::module(view, from.module()),
        count,
    };
    hot.map(row).collect()
}

fn values(view: &mut View<'_>) -> Vec<ValueRow> {
    let hot = view.values(Kind::Value).into_iter().take(MOST);
    let mut all = Vec::new();
    for values in hot {
        let (at, executions) = (values.at, values.executions);
        // Counts are of all executions, as are those of other snapshots.
        let scale = executions as f64 / (values.profiled.max(1) as f64);
        let mut top = Vec::new();
        for (value, count) in values.top(VALUES) {
            top.push(Valued {
                shown: view.shown(at, value),
                count: (count as f64 * scale).round() as u64,
            });
        }
        all.push(ValueRow {
            at: view.name(at),
            module: functions::module(view, at.module()),
            executions,
            top,
        });
    }
    all
}
