//! The rows that an epoch comes to.
//!
//! They are those of `trommel report --json` of this epoch alone, with the same estimates and the same limits. So sums of
//! counts over epochs are what a report of the database says, but for values that were thinned when files were merged.

use std::iter;

use anyhow::Result;
use trommel_profile::confidence::{Basis, Confidence, Executions};
use trommel_profile::limits::Limits;
use trommel_profile::sampled::Sampled;
use trommel_profile::{Profile, Site};
use trommel_store::database::Epoch;
use trommel_tuple::{Kind, Place, Tuple};

use crate::columns::Name;
use crate::names::{Modules, Names, hex};
use crate::table::{Cell, Table};

/// The kinds that table `values` has.
const VALUES: [Kind; 4] = [Kind::Value, Kind::Result, Kind::Type, Kind::Address];

/// An epoch that is being written.
pub(crate) struct Rows<'e, 'n, 'f> {
    epoch: &'e Epoch,
    file: String,
    modules: Modules,
    names: &'n mut Names<'f>,
    confidence: Confidence,
}

impl<'e, 'n, 'f> Rows<'e, 'n, 'f> {
    pub(crate) fn of(epoch: &'e Epoch, names: &'n mut Names<'f>) -> Self {
        Self {
            epoch,
            file: epoch.file.to_string_lossy().into_owned(),
            modules: Modules::of(&epoch.profile),
            names,
            confidence: Confidence::new(&epoch.profile),
        }
    }

    /// Adds all rows of a table.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn write(&mut self, name: Name, table: &mut Table) -> Result<()> {
        match name {
            Name::Epochs => self.epoch(table),
            Name::Edges => self.transfers(table, Kind::Edge),
            Name::Calls => self.transfers(table, Kind::Call),
            Name::Values => (VALUES.into_iter()).try_for_each(|kind| self.values(table, kind)),
            Name::Latencies => self.values(table, Kind::Latency),
            Name::Conflicts => self.conflicts(table),
        }
    }

    fn profile(&self) -> &'e Profile {
        &self.epoch.profile
    }

    /// The columns that every table begins with, and others.
    fn row(&self, table: &mut Table, parts: &[&[Cell<'_>]]) -> Result<()> {
        let key = [
            Cell::Text(&self.file),
            Cell::Text(&self.epoch.host),
            Cell::Moment(self.epoch.span.from),
        ];
        let parts = iter::once(&key[..]).chain(parts.iter().copied());
        table.row(&parts.flatten().copied().collect::<Vec<_>>())
    }

    fn epoch(&self, table: &mut Table) -> Result<()> {
        let (epoch, profile) = (self.epoch, self.profile());
        let words = profile.command.iter().map(|w| String::from_utf8_lossy(w));
        let command = words.collect::<Vec<_>>().join(" ");
        let pid = Some(u64::from(profile.origin.pid)).filter(|pid| *pid > 0);
        let windows = profile.windows.as_ref();
        let of_windows = [
            windows.map(|w| w.taken),
            windows.map(|w| w.instructions),
            windows.map(|w| w.cpu),
            windows.map(|w| w.in_windows),
            windows.map(|w| w.in_kernel),
            windows.map(|w| w.covered),
        ];
        self.row(
            table,
            &[
                &[
                    Cell::Moment(epoch.span.to),
                    Cell::Flag(epoch.merged),
                    Cell::Text(&String::from_utf8_lossy(&epoch.program)),
                    Cell::text(hex(&epoch.build_id).as_deref()),
                    Cell::number(pid),
                    Cell::Text(&command),
                    Cell::Text(&profile.compressor),
                    Cell::Number(profile.run.wall),
                    Cell::Number(profile.run.target_cpu),
                    Cell::Number(profile.run.host_cpu),
                ],
                &of_windows.map(Cell::number),
            ],
        )
    }

    fn sampled(&self, kind: Kind, at: Place) -> Option<&'e Sampled> {
        self.profile().windows.as_ref()?.at(kind, at)
    }

    /// Returns true if counts that are not of windows have limits.
    fn has_limits(&self) -> bool {
        !matches!(self.confidence.basis(), Basis::Exact | Basis::Unknown)
    }

    fn transfers(&mut self, table: &mut Table, kind: Kind) -> Result<()> {
        let profile = self.profile();
        let Some(data) = profile.kinds.get(&kind) else {
            return Ok(());
        };
        for (&from, targets) in &data.counts {
            let site = self.names.site(&self.modules, from);
            let known = profile.sites.get(&from);
            for &(word, count) in targets {
                let to = Place::from_word(word);
                let target = self.names.site(&self.modules, to);
                let sampled = self.sampled(kind, from);
                let limits = match sampled {
                    Some(sampled) => Some(part(sampled, count)),
                    None if self.has_limits() => {
                        self.confidence.count(Tuple::new(from, word), count)
                    }
                    None => None,
                };
                let cells = [
                    &site.cells()[..],
                    &target.cells(),
                    &[Cell::Text(Site::way(known, kind, to))],
                    &counted(count, limits),
                    &[
                        Cell::number(sampled.map(|s| s.samples)),
                        Cell::real(sampled.map(Sampled::draws)),
                    ],
                ];
                self.row(table, &cells)?;
            }
        }
        Ok(())
    }

    fn values(&mut self, table: &mut Table, kind: Kind) -> Result<()> {
        let profile = self.profile();
        let Some(data) = profile.kinds.get(&kind) else {
            return Ok(());
        };
        let levels = profile.windows.as_ref().and_then(|w| w.levels.as_ref());
        for (&at, counts) in &data.counts {
            let site = self.names.site(&self.modules, at);
            let sampled = self.sampled(kind, at);
            let all = counts
                .iter()
                .fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
            // Of those seen in windows only hot values are known.
            let executions = sampled.map_or(all, |s| (s.executions.round() as u64).max(1));
            let limits = match sampled {
                Some(sampled) => Some(Executions::of_windows(sampled, counts)),
                None if self.has_limits() => {
                    let tuple = |&(value, count): &(u64, u64)| (Tuple::new(at, value), count);
                    let tuples: Vec<_> = counts.iter().map(tuple).collect();
                    self.confidence.values(&tuples)
                }
                None => None,
            };
            let executed = [
                Cell::Number(executions),
                Cell::number(limits.as_ref().map(|l| l.all.low.floor() as u64)),
                Cell::number(limits.as_ref().map(|l| l.all.high.ceil() as u64)),
                Cell::number(sampled.map(|s| s.samples)),
                Cell::real(sampled.map(Sampled::draws)),
                Cell::real(sampled.map(|s| s.probability)),
            ];
            for (position, &(value, count)) in counts.iter().enumerate() {
                let of_count = limits.as_ref().and_then(|l| l.parts.get(position).copied());
                let of_share = limits.as_ref().map(|l| l.share(position, count));
                let share = [
                    Cell::Real(count as f64 / executions.max(1) as f64),
                    Cell::real(of_share.map(|l| l.low)),
                    Cell::real(of_share.map(|l| l.high)),
                ];
                let level = levels.and_then(|l| l.levels.get(l.of(value)));
                let (kinds, what) = match kind {
                    Kind::Latency => (
                        vec![],
                        vec![
                            Cell::Number(value),
                            Cell::text(level.map(|level| level.cache.name())),
                        ],
                    ),
                    _ => (vec![Cell::Text(kind.name())], vec![Cell::Number(value)]),
                };
                let cells = [
                    &kinds[..],
                    &site.cells(),
                    &executed,
                    &what,
                    &counted(count, of_count),
                    &share,
                ];
                self.row(table, &cells)?;
            }
        }
        Ok(())
    }

    fn conflicts(&mut self, table: &mut Table) -> Result<()> {
        let Some(windows) = &self.profile().windows else {
            return Ok(());
        };
        for (pair, sampled) in &windows.pairs {
            let store = self.names.site(&self.modules, pair.store);
            let load = self.names.site(&self.modules, pair.load);
            let cells = [
                &[Cell::Text(pair.conflict.name())][..],
                &store.cells(),
                &load.cells(),
                &counted(sampled.executions.round() as u64, Some(sampled.limits())),
                &[Cell::Number(sampled.samples)],
            ];
            self.row(table, &cells)?;
        }
        Ok(())
    }
}

/// Limits of a part of what windows saw at an instruction.
fn part(sampled: &Sampled, count: u64) -> Limits {
    let share = count as f64 / sampled.executions.max(1.0);
    sampled.limits_of(share.min(1.0))
}

/// A count and its limits, where there are any.
fn counted<'a>(count: u64, limits: Option<Limits>) -> [Cell<'a>; 3] {
    [
        Cell::Number(count),
        Cell::number(limits.map(|l| l.low.floor() as u64)),
        Cell::number(limits.map(|l| l.high.ceil() as u64)),
    ]
}
