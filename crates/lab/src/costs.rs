//! Costs of windows for programs: value sampling's table 2.
//!
//! Problem: differences of a few percent, on machines where the same run differs by as much.
//!
//! Strategy: each round runs the program natively and in all ways, one after the other, and a cost is that of a round against the same
//! round's native run; the median of the rounds counts. A cost is CPU time: the program's, and trommel's own while it runs. What trommel
//! measures of the machine before the program starts is left out: it does not grow with the run.

use std::fs::{self, File};
use std::io::BufReader;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Lab;
use crate::experiment::percent;
use crate::findings::{Cell, Table};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::printed::{self, Printed};
use crate::runs::{KERNELS, Workload};
use crate::streams::unseeded;

/// Rounds of a measurement.
const ROUNDS: usize = 5;
/// The programs: an interpreter, a compressor, a database.
const PROGRAMS: [&str; 3] = ["lua", "gzip", "sqlite"];

/// A way to look at a program.
pub(crate) struct Method {
    /// Name in tables.
    pub(crate) name: String,
    /// The paper's slowdown, in percent; NaN: it has none.
    pub(crate) paper: f64,
    /// Options of `record`; empty: it cannot be done here.
    pub(crate) options: Vec<String>,
}

impl Method {
    /// With options as they are typed.
    pub(crate) fn new(name: impl Into<String>, paper: f64, options: &str) -> Self {
        Self {
            name: name.into(),
            paper,
            options: options.split_whitespace().map(str::to_owned).collect(),
        }
    }
}

/// Costs of several ways.
pub(crate) struct Costs {
    /// The ways, the paper's figures and ours.
    pub(crate) table: Table,
    /// By way, the mean of the programs, in percent; none where nothing was measured.
    pub(crate) means: Vec<Option<f64>>,
    /// The same beside each other.
    pub(crate) figure: Figure,
    /// The same in words.
    pub(crate) note: String,
}

impl Costs {
    /// A mean in words.
    pub(crate) fn shown(&self, n: usize) -> String {
        self.means[n].map_or_else(|| "–".to_owned(), percent)
    }
}

/// The paper's figures and ours, way by way, in words.
fn note(ways: &[Method], means: &[Option<f64>]) -> String {
    let both = ways.iter().zip(means).map(|(way, mean)| {
        let paper = match way.paper.is_finite() {
            true => percent(way.paper),
            false => "none".to_owned(),
        };
        let ours = match way.options.is_empty() {
            true => "cannot be done".to_owned(),
            false => mean.map_or_else(|| "–".to_owned(), percent),
        };
        let (first, rest) = way.name.split_at(1);
        format!("{}{rest}: {paper}, {ours}.", first.to_uppercase())
    });
    let both: Vec<String> = both.collect();
    format!("The paper's figure, then ours. {}", both.join(" "))
}

/// The paper's figures and ours, way by way.
fn figure(ways: &[Method], means: &[Option<f64>]) -> Figure {
    let bar = |(of, height): (usize, f64)| Bar {
        label: String::new(),
        parts: vec![(of, height)],
    };
    let groups = ways.iter().zip(means).map(|(way, mean)| {
        let both = [(0, way.paper), (1, mean.unwrap_or(f64::NAN))];
        Group {
            // What follows it is in the table.
            label: way.name.split([':', ',']).next().unwrap_or("").to_owned(),
            bars: both
                .into_iter()
                .filter(|b| b.1.is_finite())
                .map(bar)
                .collect(),
        }
    });
    Figure {
        title: "What windows cost".into(),
        panels: vec![Panel {
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear("CPU time beyond native, %"),
            content: Content::Bars(Bars {
                series: vec!["the paper".to_owned(), "ours".to_owned()],
                groups: groups.collect(),
                numbers: false,
            }),
            marks: Vec::new(),
        }],
        columns: 1,
        height: 320.0,
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_unstable_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => None,
        n if n % 2 == 1 => Some(all[middle]),
        _ => Some(f64::midpoint(all[middle - 1], all[middle])),
    }
}

impl Lab<'_> {
    /// Returns what each way costs each of the programs, in percent of its native CPU time.
    pub(crate) fn costs(&self, ways: &[Method]) -> Costs {
        let subjects: Vec<Workload> = match (self.own(), self.is_quick()) {
            (Some(own), _) => self.subject(own).into_iter().collect(),
            (None, true) => self.build(&KERNELS[0], "-O2").into_iter().collect(),
            (None, false) => PROGRAMS.iter().filter_map(|p| self.subject(p)).collect(),
        };
        let mut measured: Vec<(String, Vec<Option<f64>>)> = Vec::new();
        for subject in subjects {
            if let Some(costs) = self.costs_of(&subject, ways) {
                measured.push((subject.name, costs));
            }
        }
        let mean = |n: usize| {
            let of_way: Vec<f64> = measured.iter().filter_map(|(_, c)| c[n]).collect();
            (!of_way.is_empty()).then(|| of_way.iter().sum::<f64>() / of_way.len() as f64)
        };
        let names = measured.iter().map(|(name, _)| format!("{name}, in %"));
        let head = ["way", "options of record", "the paper, in %", "mean, in %"];
        let head: Vec<String> = head.map(str::to_owned).into_iter().chain(names).collect();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut table = Table::new("", &head);
        let means: Vec<Option<f64>> = (0..ways.len()).map(mean).collect();
        for (n, way) in ways.iter().enumerate() {
            let own = measured.iter().map(|(_, costs)| Cell::from(costs[n]));
            let first = [
                way.name.as_str().into(),
                way.options.join(" ").into(),
                way.paper.into(),
                means[n].into(),
            ];
            table.row(first.into_iter().chain(own));
        }
        Costs {
            table,
            figure: figure(ways, &means),
            note: note(ways, &means),
            means,
        }
    }

    /// By way; `None`, and said, where the program fails or prints something else.
    fn costs_of(&self, subject: &Workload, ways: &[Method]) -> Option<Vec<Option<f64>>> {
        let rounds = if self.is_quick() { 1 } else { ROUNDS };
        let mut costs = vec![Vec::new(); ways.len()];
        for round in 1..=rounds {
            (self.progress)(&format!("{}, round {round} of {rounds}", subject.name));
            let (native, printed) = self.time(subject, None)?;
            for (way, costs) in ways.iter().zip(&mut costs) {
                if way.options.is_empty() {
                    continue;
                }
                let (seconds, out) = self.in_windows(subject, &way.options)?;
                if out != printed {
                    let (name, options) = (&subject.name, way.options.join(" "));
                    (self.say)(&format!(
                        "{name} printed something else with record {options}"
                    ));
                    return None;
                }
                costs.push(100.0 * (seconds / native - 1.0));
            }
        }
        Some(costs.into_iter().map(median).collect())
    }

    /// Seconds of CPU time of the program and of trommel beside it, and what the program printed; `None`, and said, where that
    /// cannot be had.
    fn in_windows(&self, subject: &Workload, options: &[String]) -> Option<(f64, Printed)> {
        let trommel = self.trommel.as_ref()?;
        let name = format!(".costs.{}", std::process::id());
        let (data, told) = (self.cache.join(&name), self.cache.join(name + ".json"));
        let mut record = Command::new(trommel);
        record.args(["record", "--quiet", "-o"]).arg(&data);
        record.args(options).arg("--").args(subject.command());
        // As natively.
        unseeded(&mut record);
        let done = printed::run(record.stdin(Stdio::null())).ok()?;
        let report = File::create(&told).ok().and_then(|file| {
            let mut report = Command::new(trommel);
            let report = report.args(["report", "--json", "--top", "1"]).arg(&data);
            report.stdout(file).stderr(Stdio::null()).status().ok()
        });
        let read = File::open(&told).ok();
        let read = read.and_then(|f| serde_json::from_reader::<_, Value>(BufReader::new(f)).ok());
        let _ = (fs::remove_file(&data), fs::remove_file(&told));
        let seconds = read.as_ref().and_then(|report| {
            let cpu = report["run"]["target_cpu_ns"].as_f64()?;
            Some((cpu + report["windows"]["host_ns"].as_f64()?) / 1e9)
        });
        match seconds.filter(|_| done.status.success() && report.is_some_and(|s| s.success())) {
            Some(seconds) => Some((seconds, done.printed)),
            None => {
                let (name, options) = (&subject.name, options.join(" "));
                let why = done.complaint.as_deref().unwrap_or("no profile");
                (self.say)(&format!(
                    "{name} cannot be looked at with record {options}: {why}"
                ));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 100.0, 1.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 100.0, 2.0]), Some(3.0));
    }

    #[test]
    fn the_papers_figures_stand_beside_ours_also_where_there_are_none() {
        let ways = [
            Method::new("vprof: values, often", 10.7, "-e value"),
            Method::new("with context", 12.2, ""),
            Method::new("latencies", f64::NAN, "-e latency"),
            Method::new("rare", 9.2, "-e value --rate 1"),
        ];
        let note = note(&ways, &[Some(8.04), None, Some(2.5), None]);
        for part in [
            " Vprof: values, often: 10.7 %, 8.0 %.",
            " With context: 12.2 %, cannot be done.",
            " Latencies: none, 2.5 %.",
            " Rare: 9.2 %, –.",
        ] {
            assert!(note.contains(part), "{part}: {note}");
        }
    }
}
