//! Many experiments, one pass over each stream.
//!
//! The specs that experiments ask for are gathered by stream, each once; a pool of threads reads the
//! streams, longest work first, and the evaluations are looked up afterwards by program, events, spec
//! and seed. A stream that many specs want is read more than once, as each keeps an estimate for
//! every distinct tuple, of which gcc has millions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use trommel_compress::{Seeds, Spec};
use trommel_profile::accuracy::{Evaluation, Evaluator, Options};

use crate::machines::Machines;
use crate::programs::{PROGRAMS, Program};
use crate::streams::Feed;
use crate::{Lab, LabError};

/// Evaluations that an experiment needs.
#[derive(Clone, Debug)]
pub struct Need {
    /// The events.
    pub feed: Feed,
    /// The programs, by name; all when empty.
    pub programs: &'static [&'static str],
    /// Specs, and the seed of each.
    pub specs: Vec<(String, u64)>,
}

impl Need {
    /// Specs on all programs, with the first seed.
    pub fn of<S: Into<String>>(feed: Feed, specs: impl IntoIterator<Item = S>) -> Self {
        Self {
            feed,
            programs: &[],
            specs: specs.into_iter().map(|s| (s.into(), 1)).collect(),
        }
    }

    /// Only these programs.
    #[must_use]
    pub fn on(mut self, programs: &'static [&'static str]) -> Self {
        self.programs = programs;
        self
    }

    /// Each spec with each of the seeds 1 to `n`.
    #[must_use]
    pub fn seeds(mut self, n: u64) -> Self {
        let specs = std::mem::take(&mut self.specs);
        let seeded = |(spec, _): (String, u64)| (1..=n).map(move |seed| (spec.clone(), seed));
        self.specs = specs.into_iter().flat_map(seeded).collect();
        self
    }
}

/// Events of simultaneous profiles, as in the paper.
const TRANSFERS: u64 = 4_000_000;

/// Specs that share one pass over a stream.
const TOGETHER: usize = 48;

/// The evaluations of all needs.
pub struct Results {
    programs: &'static [Program],
    evaluations: BTreeMap<(&'static str, Feed), Vec<Evaluation>>,
    /// Runs on the modelled machine, made when they are first asked for.
    pub(crate) machines: Machines,
}

impl Default for Results {
    fn default() -> Self {
        Self::of(&PROGRAMS)
    }
}

impl Results {
    /// Nothing of these programs so far.
    pub(crate) fn of(programs: &'static [Program]) -> Self {
        Self {
            programs,
            evaluations: BTreeMap::new(),
            machines: Machines::default(),
        }
    }

    /// Adds what was found of further events.
    pub(crate) fn add(&mut self, others: Self) {
        for (key, mut list) in others.evaluations {
            self.evaluations.entry(key).or_default().append(&mut list);
        }
    }

    /// Events of the longest stream of the feed that has the fewest; `None` where no streams are evaluated.
    pub(crate) fn events(&self, needs: &[Need]) -> Option<u64> {
        let longest = |need: &Need| {
            let all = self
                .evaluations
                .iter()
                .filter(|((_, feed), _)| *feed == need.feed);
            all.flat_map(|(_, each)| each).map(|e| e.events).max()
        };
        needs.iter().filter_map(longest).min()
    }

    /// The programs whose events of this feed were evaluated, in the lab's order.
    pub fn programs(&self, feed: Feed) -> Vec<&'static str> {
        let names = self.programs.iter().map(|p| p.name);
        names
            .filter(|n| self.evaluations.contains_key(&(n, feed)))
            .collect()
    }

    /// One evaluation. `None` where the program is missing, and where nothing can be judged: its stream is shorter than an interval, or no
    /// tuple passes the filter of errors.
    ///
    /// # Panics
    /// When no experiment asked for that spec: a mistake in the experiment.
    pub fn get(&self, program: &str, feed: Feed, spec: &str, seed: u64) -> Option<&Evaluation> {
        let name = self.programs.iter().find(|p| p.name == program)?.name;
        let all = self.evaluations.get(&(name, feed))?;
        let wanted = parsed(spec);
        let found = all
            .iter()
            .find(|e| e.spec == wanted && e.seeds.hash == seed);
        let found = found.unwrap_or_else(|| panic!("{spec} was not asked for on {program}"));
        found.error.is_ok().then_some(found)
    }

    /// The mean over the seeds 1 to `n` of a figure of a spec.
    pub fn mean(
        &self,
        program: &str,
        feed: Feed,
        spec: &str,
        n: u64,
        figure: impl Fn(&Evaluation) -> f64,
    ) -> Option<f64> {
        let mut sum = 0.0;
        for seed in 1..=n {
            sum += figure(self.get(program, feed, spec, seed)?);
        }
        Some(sum / n as f64)
    }
}

fn parsed(spec: &str) -> Spec {
    spec.parse()
        .unwrap_or_else(|e| panic!("the lab's own spec {spec}: {e}"))
}

/// Points at which samplers are judged: often at first, when most changes.
fn checkpoints(events: u64) -> Vec<u64> {
    let first = (1..5).map(|n| n * 20_000);
    let early = (2..20).map(|n| n * 50_000);
    let late = (0..).map(|n| 1_000_000 + n * 500_000);
    let late = late.take_while(|n| *n < events);
    let all = first.chain(early).chain(late).filter(|n| *n < events);
    all.chain([events]).collect()
}

struct Job {
    name: &'static str,
    feed: Feed,
    path: std::path::PathBuf,
    specs: Vec<(Spec, Seeds)>,
    limit: u64,
}

impl Lab<'_> {
    /// Records what is missing and evaluates all needs.
    pub(crate) fn evaluate(&self, needs: &[Need]) -> Result<Results, LabError> {
        let mut wanted: BTreeMap<(usize, Feed), BTreeSet<(String, u64)>> = BTreeMap::new();
        for need in needs {
            for (order, program) in self.programs.iter().enumerate() {
                let all = need.programs.is_empty() || program.is_own();
                if all || need.programs.contains(&program.name) {
                    let specs = wanted.entry((order, need.feed)).or_default();
                    specs.extend(need.specs.iter().cloned());
                }
            }
        }
        let mut jobs = Vec::new();
        for ((order, feed), specs) in wanted {
            let program = &self.programs[order];
            let name = program.name;
            let Some(path) = self.stream(program, feed)? else {
                continue;
            };
            let limit = match feed {
                Feed::Transfers => self.events.min(TRANSFERS),
                Feed::MoreTransfers => self.events.min(4 * TRANSFERS),
                _ => self.events,
            };
            // The lab's programs are long enough.
            let limit = match program.is_own() {
                true => self.length(&path, feed, limit)?,
                false => limit,
            };
            if limit == 0 {
                (self.say)(&format!("{name} has no {} events", feed.recorded()));
                continue;
            }
            let seeded = |(spec, seed): &(String, u64)| {
                let seeds = Seeds {
                    hash: *seed,
                    random: *seed,
                };
                (parsed(spec), seeds)
            };
            let specs: Vec<_> = specs.iter().map(seeded).collect();
            jobs.extend(specs.chunks(TOGETHER).map(|specs| Job {
                name,
                feed,
                path: path.clone(),
                specs: specs.to_vec(),
                limit,
            }));
        }
        // Longest first, so that no thread is left with it at the end.
        jobs.sort_by_key(|j| std::cmp::Reverse(j.limit * j.specs.len() as u64));
        self.work(&jobs)
    }

    fn work(&self, jobs: &[Job]) -> Result<Results, LabError> {
        let total: u64 = jobs.iter().map(Job::cost).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let results = Mutex::new(Ok(Results::default()));
        let worker = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                let evaluated = self.job(job, &|cost| {
                    let before = done.fetch_add(cost, Relaxed);
                    let percent = |n: u64| n * 100 / total.max(1);
                    if percent(before) != percent(before + cost) {
                        (self.progress)(&format!(
                            "{} % of all streams read",
                            percent(before + cost)
                        ));
                    }
                });
                let mut results = results
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                match (evaluated, &mut *results) {
                    (Ok(list), Ok(results)) => {
                        let key = (job.name, job.feed);
                        results.evaluations.entry(key).or_default().extend(list);
                    }
                    (Err(error), results) => *results = Err(error),
                    (Ok(_), Err(_)) => {}
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(jobs.len()) {
                scope.spawn(worker);
            }
            worker();
        });
        results
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn job(&self, job: &Job, advance: &dyn Fn(u64)) -> Result<Vec<Evaluation>, LabError> {
        let options = Options {
            checkpoints: checkpoints(job.limit),
            limits: true,
            ..Options::default()
        };
        let mut evaluator = Evaluator::seeded(&job.specs, options);
        self.replay(&job.path, job.feed, job.limit, |events| {
            evaluator.events(events);
            advance(events.len() as u64 * job.specs.len() as u64);
        })?;
        let mut evaluations = evaluator.finish();
        // The profiles themselves, which no experiment looks at, would come to gigabytes.
        for evaluation in &mut evaluations {
            evaluation.kinds.clear();
        }
        Ok(evaluations)
    }
}

impl Job {
    fn cost(&self) -> u64 {
        self.limit * self.specs.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_end_with_the_stream() {
        assert_eq!(checkpoints(50_000), [20_000, 40_000, 50_000]);
        let all = checkpoints(20_000_000);
        assert!(all.is_sorted() && all.len() > 40 && all.last() == Some(&20_000_000));
    }

    #[test]
    fn seeds_multiply_specs() {
        let need = Need::of(Feed::Values, ["P256", "R256"]).seeds(3);
        assert_eq!(need.specs.len(), 6);
    }
}
