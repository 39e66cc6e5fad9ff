//! Control in one module, as a profile has it: how often it came to an instruction, and went on from it.
//!
//! # Strategy
//! One pass over the profile's events serves all modules. A *site* is an instruction that has events of its own. An *arrival* is a
//! recorded branch, jump or call to an instruction, from any module. Of a profile of windows the counts are estimates
//! with limits, as elsewhere.

use std::collections::{BTreeMap, HashMap};

use trommel_profile::Profile;
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::limits::Limits;
use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};

use crate::count::Count;
use crate::exact::Exact;

/// A recorded branch, jump or call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// The instruction that control came from.
    pub from: Place,
    /// True of a call.
    pub call: bool,
    /// Times.
    pub count: Count,
}

/// Recorded transfers of control that begin or end in one module.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// Executions of branches, indirect jumps and calls.
    pub control: BTreeMap<u64, Count>,
    /// Executions of other instructions with events, such as loads.
    pub others: BTreeMap<u64, Count>,
    /// Arrivals by where they lead.
    pub into: BTreeMap<u64, Vec<Arrival>>,
    /// Targets of calls, each with its events.
    pub called: HashMap<u64, Vec<(Place, u64)>>,
    /// Executions of instructions after calls, where these are known.
    pub after_calls: Option<BTreeMap<u64, Count>>,
    /// Times that the kernel led to instructions, for signals.
    pub delivered: BTreeMap<u64, Count>,
    /// True if all counts are exact.
    pub exact: bool,
}

impl Transfers {
    /// Returns the transfers of each module that has some; `None` where the profile lacks branches or calls, so that nothing follows.
    pub fn of_modules(
        profile: &Profile,
        confidence: &mut Confidence,
    ) -> Option<BTreeMap<ModuleId, Self>> {
        let mut known = Known {
            profile,
            confidence,
        };
        let mut all: BTreeMap<ModuleId, Self> = BTreeMap::new();
        for kind in [Kind::Edge, Kind::Call] {
            for (&from, targets) in &profile.kinds.get(&kind)?.counts {
                let whole = known.executions(kind, from, targets);
                let of_site = all.entry(from.module()).or_default();
                of_site.control.insert(from.vaddr().0, whole);
                if kind == Kind::Call {
                    let targets = targets.iter().map(|(to, n)| (Place::from_word(*to), *n));
                    of_site.called.insert(from.vaddr().0, targets.collect());
                }
                for &(to, times) in targets {
                    let count = known.part(kind, from, to, times);
                    let to = Place::from_word(to);
                    let into = &mut all.entry(to.module()).or_default().into;
                    into.entry(to.vaddr().0).or_default().push(Arrival {
                        from,
                        call: kind == Kind::Call,
                        count,
                    });
                }
            }
        }
        // Of loaded values some may have been dropped, or not profiled at all.
        let whole = profile.run.dropped == 0 && profile.filter.is_none();
        for kind in Kind::DATA
            .into_iter()
            .filter(|kind| whole || *kind != Kind::Value)
        {
            for (&at, values) in profile.kinds.get(&kind).iter().flat_map(|k| &k.counts) {
                let count = known.executions(kind, at, values);
                let others = &mut all.entry(at.module()).or_default().others;
                let most = others.entry(at.vaddr().0).or_insert(count);
                if most.times < count.times {
                    *most = count;
                }
            }
        }
        for (&at, &times) in &profile.deliveries {
            let delivered = &mut all.entry(at.module()).or_default().delivered;
            delivered.insert(at.vaddr().0, Count::of_exact(Exact::from(times), None));
        }
        let exact = confidence.basis() == Basis::Exact;
        for (module, transfers) in &mut all {
            transfers.exact = exact;
            transfers.after_calls = after_calls(profile, *module).filter(|_| exact);
        }
        Some(all)
    }

    /// Returns how often recorded transfers led to an instruction, and signals.
    pub(crate) fn arrivals(&self, at: u64) -> Count {
        let arrivals = self.into.get(&at).into_iter().flatten();
        let delivered = self.delivered.get(&at).copied();
        let first = delivered.unwrap_or(Count::of_events(0.0, None));
        arrivals.fold(first, |sum, a| sum.plus(a.count))
    }
}

/// Returns how often instructions after calls were executed, where a profile knows of all of a module.
fn after_calls(profile: &Profile, module: ModuleId) -> Option<BTreeMap<u64, Count>> {
    let known = profile.after_calls.as_ref()?;
    if module == ModuleId::ANON {
        return None;
    }
    let all = Place::new(module, Vaddr(0))..=Place::new(module, Vaddr(u64::MAX));
    let counts = known.range(all);
    let count = |count| Count::of_exact(Exact::from(count), None);
    Some(counts.map(|(at, n)| (at.vaddr().0, count(*n))).collect())
}

/// A profile and the limits of its counts.
struct Known<'a> {
    profile: &'a Profile,
    confidence: &'a mut Confidence,
}

impl Known<'_> {
    fn executions(&mut self, kind: Kind, at: Place, counts: &[(u64, u64)]) -> Count {
        if let Some(windows) = &self.profile.windows
            && let Some(sampled) = windows.at(kind, at)
        {
            return Count::of_events(sampled.executions, Some(sampled.limits()));
        }
        let times = counts.iter().map(|(_, n)| Exact::from(*n));
        let times = times.fold(Exact::default(), Exact::plus);
        let limits = match self.has_limits() {
            true => {
                let tuples = counts.iter().map(|&(v, n)| (Tuple::new(at, v), n));
                let tuples: Vec<_> = tuples.collect();
                self.confidence.values(&tuples).map(|known| known.all)
            }
            false => None,
        };
        Count::of_exact(times, limits)
    }

    fn part(&mut self, kind: Kind, from: Place, value: u64, count: u64) -> Count {
        let times = count as f64;
        let limits: Option<Limits> = match &self.profile.windows {
            Some(windows) => windows.at(kind, from).map(|sampled| {
                let share = times / sampled.executions.max(1.0);
                sampled.limits_of(share.min(1.0))
            }),
            None if self.has_limits() => self.confidence.count(Tuple::new(from, value), count),
            None => None,
        };
        Count::of_exact(Exact::from(count), limits)
    }

    fn has_limits(&self) -> bool {
        !matches!(self.confidence.basis(), Basis::Exact | Basis::Unknown)
    }
}
