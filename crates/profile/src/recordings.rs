//! Sums of whole recordings: of the same program on several inputs, machines or days.
//!
//! # Problem
//! A sum means something only where its parts were observed alike. Exact counts and estimates together are neither, a kind
//! that one recording lacks would seem rare, and each compressor has an error of its own.
//!
//! # Strategy
//! A recording comes first to what a report of it says: processes of a file were observed together, those of a database apart.
//! Sums of recordings are then those of [`Merged::apart`]. Counts are of the time that was observed, exact or estimated, so the sum
//! weights each recording by it. What cannot be added up is refused, with the property that differs.
//!
//! # Invariants
//! The sum does not depend on the order of recordings: modules are in the order of their paths, and each rule of
//! [`Merged`] is commutative.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trommel_tuple::Kind;

use crate::call_tree::Basis;
use crate::merge::Merged;
use crate::profile::{Build, Origin, Profile, Sum};
use crate::simulated::Caches;

/// Recordings that are added up.
#[derive(Debug, Default)]
pub struct Recordings {
    sum: Option<(Merged, Traits)>,
    of: Sum,
    newest: BTreeMap<Build, u64>,
}

/// Properties that all parts of a sum share.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Traits {
    observed: String,
    kinds: BTreeSet<Kind>,
    queries: BTreeSet<(u32, Vec<u8>)>,
    customised: Option<(String, bool)>,
    samples: Option<bool>,
    simulated: Option<Caches>,
    paths: BTreeSet<Basis>,
}

/// Reason why a recording cannot be added to those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unlike {
    /// There is no process in it.
    Empty,
    /// Its counts are of another sort.
    Observed {
        /// Sort of its counts.
        here: String,
        /// Sort of the counts before.
        before: String,
    },
    /// Other kinds of events were recorded.
    Kinds {
        /// Its kinds.
        here: String,
        /// The kinds before.
        before: String,
    },
    /// Other call paths were recorded, or none.
    Paths {
        /// Its call paths.
        here: String,
        /// The call paths before.
        before: String,
    },
    /// Other queries were asked.
    Queries,
    /// Another customisation module was used.
    Customised,
    /// Other caches were simulated, or none.
    Simulated,
    /// Samples are of the whole machine on one side, and of a program on the other.
    Samples,
}

impl fmt::Display for Unlike {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("holds no process"),
            Self::Observed { here, before } => write!(
                out,
                "its counts are {here}, those before are {before}, and a sum of both would have no known error; \
                 merge recordings of one sort"
            ),
            Self::Kinds { here, before } => write!(
                out,
                "holds the kinds {here}, and those before hold {before}, so that a sum would make some kinds seem rare; \
                 record all with the same -e"
            ),
            Self::Paths { here, before } => write!(
                out,
                "holds {here}, and those before hold {before}; record all with the same -e"
            ),
            Self::Queries => out.write_str(
                "was recorded with other queries than those before; record all with the same -q",
            ),
            Self::Customised => out.write_str(
                "was recorded with another customisation module than those before; record all with the same one",
            ),
            Self::Simulated => out.write_str(
                "was recorded with other simulated caches than those before; record all with the same options",
            ),
            Self::Samples => out.write_str(
                "one side holds samples of the whole machine, and the other of a program; merge recordings of one sort",
            ),
        }
    }
}

impl std::error::Error for Unlike {}

impl Recordings {
    /// Adds the processes of a recording. `apart`: they were not observed together.
    ///
    /// # Errors
    /// The recording is unlike those before it; the sum is as it was then.
    pub fn add(&mut self, processes: Vec<Profile>, apart: bool) -> Result<(), Unlike> {
        let traits = Traits::of(&processes).ok_or(Unlike::Empty)?;
        if let Some((_, before)) = &self.sum {
            traits.like(before)?;
        }
        for process in &processes {
            // Among samples is a profile of the machine.
            let samples = process.samples.as_ref();
            let is_machine = samples.is_some_and(|samples| samples.machine.is_some());
            let own = process.sum.unwrap_or(Sum {
                recordings: 0,
                processes: u64::from(!is_machine),
            });
            self.of.processes = self.of.processes.saturating_add(own.processes);
            self.of.recordings = self.of.recordings.saturating_add(own.recordings);
            for module in &process.modules {
                let started = self.newest.entry(module.build()).or_default();
                *started = process.run.started.max(*started);
            }
        }
        if processes.iter().all(|process| process.sum.is_none()) {
            self.of.recordings = self.of.recordings.saturating_add(1);
        }
        let mut processes = processes.into_iter();
        let first = processes.next().ok_or(Unlike::Empty)?;
        let mut own = match apart {
            true => Merged::apart(first),
            false => Merged::new(first),
        };
        processes.for_each(|process| own.add(process));
        let own = unnamed(own.profile());
        match &mut self.sum {
            Some((sum, _)) => sum.add(own),
            None => self.sum = Some((Merged::apart(own), traits)),
        }
        Ok(())
    }

    /// Returns what the sum is of so far.
    pub const fn of(&self) -> Sum {
        self.of
    }

    /// The builds of modules, each with the start of the last process that had it.
    pub const fn builds(&self) -> &BTreeMap<Build, u64> {
        &self.newest
    }

    /// The sum, as one profile without a process number; `None` of nothing.
    pub fn profile(self) -> Option<Profile> {
        let (sum, _) = self.sum?;
        let mut profile = sum.in_order();
        profile.sum = Some(self.of);
        Some(profile)
    }
}

/// Takes away what is known of one process and not of a sum.
fn unnamed(mut profile: Profile) -> Profile {
    profile.origin = Origin::default();
    if let Some(samples) = &mut profile.samples {
        // Numbers of threads mean nothing in other recordings.
        samples.threads.clear();
    }
    profile
}

impl Traits {
    fn of(processes: &[Profile]) -> Option<Self> {
        let first = processes.first()?;
        let observed = match (
            processes.iter().any(|p| p.windows.is_some()),
            processes.iter().any(|p| p.samples.is_some()),
        ) {
            (true, _) => "estimates from windows or bursts".to_owned(),
            (_, true) => "samples of time".to_owned(),
            _ if first.compressor == "exact" => "exact".to_owned(),
            _ => format!("estimates of {}", first.compressor),
        };
        let custom = processes
            .iter()
            .filter_map(|p| p.windows.as_ref()?.custom.as_ref());
        let machine = processes
            .iter()
            .filter_map(|p| p.samples.as_ref()?.machine.as_ref());
        Some(Self {
            observed,
            kinds: processes
                .iter()
                .flat_map(|p| p.kinds.keys().copied())
                .collect(),
            queries: processes
                .iter()
                .flat_map(|p| &p.queries)
                .map(|queries| (queries.load.max(1), queries.program.clone()))
                .collect(),
            customised: custom.map(|c| (c.name.clone(), c.places)).next(),
            samples: machine.map(|machine| machine.of_processes).next(),
            simulated: processes
                .iter()
                .find_map(|p| Some(p.simulated.as_ref()?.caches)),
            paths: processes
                .iter()
                .flat_map(|p| p.call_trees.iter().map(|tree| tree.basis))
                .collect(),
        })
    }

    fn like(&self, before: &Self) -> Result<(), Unlike> {
        let unlike = if self.observed != before.observed {
            Unlike::Observed {
                here: self.observed.clone(),
                before: before.observed.clone(),
            }
        } else if self.kinds != before.kinds {
            let [here, before] =
                [self, before].map(|side| words(side.kinds.iter().map(|k| k.name())));
            Unlike::Kinds { here, before }
        } else if self.paths != before.paths {
            let name = |basis: &Basis| match basis {
                Basis::Stacks => "sampled call paths",
                Basis::Contexts => "exact call paths",
                Basis::Waits => "waits",
                Basis::WaitSamples => "sampled waits",
            };
            let [here, before] = [self, before].map(|side| words(side.paths.iter().map(name)));
            Unlike::Paths { here, before }
        } else if self.queries != before.queries {
            Unlike::Queries
        } else if self.customised != before.customised {
            Unlike::Customised
        } else if self.simulated != before.simulated {
            Unlike::Simulated
        } else if self.samples != before.samples {
            Unlike::Samples
        } else {
            return Ok(());
        };
        Err(unlike)
    }
}

fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{Machine, Samples};

    use super::*;

    #[test]
    fn the_machine_of_samples_is_no_process() {
        let profile = |pid, machine| Profile {
            origin: Origin {
                pid,
                ..Origin::default()
            },
            samples: Some(Samples {
                machine,
                ..Samples::default()
            }),
            ..Profile::default()
        };
        let processes = vec![profile(0, Some(Machine::default())), profile(7, None)];
        let mut all = Recordings::default();
        all.add(processes.clone(), false).expect("a recording");
        all.add(processes, false).expect("one like it");
        let wanted = Sum {
            recordings: 2,
            processes: 2,
        };
        assert_eq!(all.of(), wanted);
    }
}
