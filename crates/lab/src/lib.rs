//! The lab: the papers' figures, from the events of real programs.
//!
//! Problem: say of each claim of the papers whether it holds on today's programs, so that anybody can check it
//! with one command on a bare machine.
//!
//! Strategy: an [`Experiment`] says which specs it wants judged on which events ([`Need`]), and makes [`Findings`]
//! of the results: tables, figures and claims. Needs are gathered by kinds of events. Each program is recorded once for
//! each kind, and its stream is read once for it, through all specs. Streams are read in parallel. Findings are
//! given away as they come, so that a run that is interrupted leaves what it has.
//!
//! Invariants:
//! * A verdict is computed from the data beside it. The papers' words are fixed, ours are not.
//! * What could not be done, such as a program that is missing, is said. Claims about it are not made.
//! * Equal streams give equal output, to the byte. All seeds are fixed.
//!
//! # Example
//! ```
//! // The figures that `trommel lab list` shows.
//! let figure = trommel_lab::named("stratified-8").expect("an experiment");
//! assert!(trommel_lab::EXPERIMENTS.iter().any(|e| e.name == figure.name));
//! ```
#![forbid(unsafe_code)]

mod costs;
mod experiment;
mod experiments;
mod findings;
mod latencies;
mod machines;
mod plan;
pub mod plot;
mod printed;
mod programs;
mod report;
mod runs;
mod search;
mod streams;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use experiment::{Experiment, Paper};
pub use experiments::{EXPERIMENTS, named};
pub use findings::{Cell, Claim, Findings, Table, Verdict};
pub use plan::{Need, Results};
pub use programs::{PROGRAMS, Program, own};
pub use report::{Report, Written, write};
pub use streams::{Feed, make_private};

/// Values, or branches, of each program that experiments look at: the papers' longest runs had 16M.
pub const EVENTS: u64 = 20_000_000;
/// Events of each program's start that are left out, as the papers skip initialisation.
pub const SKIP: u64 = 4_000_000;

/// Settings of experiments.
pub struct Lab<'a> {
    /// The `trommel` command, to record with; `None`: only what is cached is used.
    pub trommel: Option<PathBuf>,
    /// Directory of recordings.
    pub cache: PathBuf,
    /// Events of each stream.
    pub events: u64,
    /// Events before those.
    pub skip: u64,
    /// Simulated streams for each point of stratified figure 4.
    pub trials: u32,
    /// The programs: [`PROGRAMS`], or the one that [`own`] makes.
    pub programs: &'static [Program],
    /// Streams read at a time.
    pub threads: usize,
    /// Receiver of messages to the user.
    pub say: &'a (dyn Fn(&str) + Sync),
    /// Receiver of progress, for those who watch.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

/// Reasons why the lab could not do something at all.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file or directory.
    #[error("{}: {error}{}", .path.display(), remedy(.error))]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A recording in the cache.
    #[error("{0}; delete it, and it will be recorded again")]
    Stream(#[from] trommel_tuple::stream::Error),
}

/// Next steps after an error, where they are not those of any wrong path.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space there, or name another directory: `--out DIR` for results, `XDG_CACHE_HOME=DIR` for recordings"
        }
        _ => "",
    }
}

impl LabError {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io {
            path: path.into(),
            error,
        }
    }
}

impl Lab<'_> {
    /// The name of the user's own program, if that is what is studied.
    pub fn own(&self) -> Option<&'static str> {
        let program = self.programs.first()?;
        program.is_own().then_some(program.name)
    }

    /// The name of a program of the lab, or of the user's own in its place.
    pub(crate) fn subject_named(&self, name: &'static str) -> &'static str {
        self.own().unwrap_or(name)
    }

    /// A program by its name.
    pub(crate) fn program(&self, name: &str) -> Option<&'static Program> {
        self.programs.iter().find(|p| p.name == name)
    }

    /// Runs experiments, in their order, with one pass over each stream.
    pub fn run(
        &self,
        experiments: &[&'static Experiment],
    ) -> Result<Vec<(&'static Experiment, Findings)>, LabError> {
        let mut done = Vec::new();
        self.run_each(experiments, |experiment, found| {
            done.push((experiment, found));
            Ok(())
        })?;
        let order = |e: &Experiment| experiments.iter().position(|other| other.name == e.name);
        done.sort_by_key(|(e, _)| order(e));
        Ok(done)
    }

    /// Runs experiments and gives the findings of each to `each` as soon as there are any: first of those
    /// without events, then feed by feed. An experiment is run when all of its feeds have been read.
    pub fn run_each(
        &self,
        experiments: &[&'static Experiment],
        mut each: impl FnMut(&'static Experiment, Findings) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut left: Vec<(&'static Experiment, Vec<Need>)> =
            experiments.iter().map(|e| (*e, (e.needs)())).collect();
        let mut results = Results::of(self.programs);
        let mut read: BTreeSet<Feed> = BTreeSet::new();
        loop {
            let known = |needs: &[Need]| needs.iter().all(|need| read.contains(&need.feed));
            let (ready, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, n)| known(n));
            for (experiment, needs) in ready {
                (self.progress)(experiment.name);
                let mut found = (experiment.run)(self, &results);
                if let Some(events) = results.events(&needs) {
                    found.is_of(events, self.own());
                }
                each(experiment, found)?;
            }
            left = rest;
            let needs = left.iter().flat_map(|(_, needs)| needs);
            let unread = needs.clone().map(|n| n.feed).filter(|f| !read.contains(f));
            let Some(feed) = unread.min() else {
                return Ok(());
            };
            let of_feed: Vec<Need> = needs.filter(|n| n.feed == feed).cloned().collect();
            results.add(self.evaluate(&of_feed)?);
            read.insert(feed);
        }
    }
}
