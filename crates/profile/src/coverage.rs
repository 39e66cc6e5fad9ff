//! Coverage: how much of the program a sampled profile has seen.
//!
//! # Problem
//! A sampled profile says nothing of code that no sample met. An optimiser takes such code for cold, so its user must know how much is
//! missing, although by definition nothing was seen of it.
//!
//! # Strategy
//! *Good and Turing*: what was seen once stands for what was not seen. Were one draw left out, then exactly the edges that it alone had
//! would be unseen. So their share of all events estimates the *unseen mass*: the share of executions that go along edges which are not in the profile
//! (Good 1953). An edge is a way of a branch, or a call and its target.
//!
//! The draws are what was taken independently: the events of a sampler, and whole windows or bursts otherwise. Events of a window come in *clusters*, so an edge that
//! one window saw a thousand times was seen once. The mass is then the weight of edges that one window alone has: leaving out one window in turn.
//!
//! Limits: the estimate is off from the true mass by a variance of (m₁(1 − m₁) + m₂)/n, where m₁ and m₂ are the masses of edges that one and
//! two draws saw, and n is the number of draws (Esty 1983). That is put into Wilson's limits, which hold also where nothing was seen once. For windows of different
//! weights n is (Σw)²/Σw², as for shares of an instruction ([`crate::sampled`]): at most too wide, where events of a window differ.

use trommel_compress::{Level, Sampler, Spec};
use trommel_tuple::{Place, Tuple};

use crate::confidence::{Basis, Confidence};
use crate::limits::Limits;
use crate::profile::Profile;
use crate::rare::{EDGES, Edge, FEW, Rare};
use crate::sampled::Z;

/// Knowledge of a profile's coverage.
#[derive(Clone, PartialEq, Debug)]
pub enum Extent {
    /// Counts are exact: all edges are there that were executed.
    Complete {
        /// Distinct edges.
        edges: u64,
    },
    /// Part of the program was seen.
    Sampled(Coverage),
    /// Nothing can be said, for this reason.
    Unknown(&'static str),
}

/// Units that were drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// Events, each by itself.
    Event,
    /// Windows, with all that they saw.
    Window,
    /// Bursts, with all that they saw.
    Burst,
}

impl Draw {
    /// The word, in JSON and text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Window => "window",
            Self::Burst => "burst",
        }
    }
}

/// Coverage of a sampled profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Coverage {
    /// Distinct edges that were seen.
    pub edges: u64,
    /// Edges among them that one draw saw.
    pub once: u64,
    /// Unit of draws.
    pub draw: Draw,
    /// Independent draws that tell as much as those that were taken, at least.
    pub draws: f64,
    /// Expected share of executions along edges that were not seen.
    pub unseen: f64,
    /// Its limits.
    pub limits: Limits,
    /// Expected share of executions along edges whose count is known within a factor of two; `None` where counts have no limits.
    pub known: Option<f64>,
}

/// Shares of executions along edges that one draw saw, and two; distinct edges that one saw; and the draws.
struct Frequencies {
    once: f64,
    twice: f64,
    edges_once: u64,
    draws: f64,
    draw: Draw,
}

impl Extent {
    /// The coverage of a profile, whose counts have these limits.
    pub fn of(profile: &Profile, confidence: &mut Confidence) -> Self {
        let edges = edges(profile).count() as u64;
        if !EDGES.iter().any(|kind| profile.kinds.contains_key(kind)) {
            return Self::Unknown("neither branches nor calls were recorded");
        }
        let frequencies = match (&profile.windows, confidence.basis()) {
            (None, Basis::Exact) if !profile.unobserved().is_empty() => {
                return Self::Unknown("the program was observed in part");
            }
            (None, Basis::Exact) => return Self::Complete { edges },
            (Some(windows), _) => match &windows.rare {
                Some(rare) => {
                    let draw = if windows.are_bursts() {
                        Draw::Burst
                    } else {
                        Draw::Window
                    };
                    of_windows(profile, rare, draw)
                }
                None => {
                    return Self::Unknown(
                        "the profile is a part of one, or does not say which windows saw an edge",
                    );
                }
            },
            (None, _) => match of_sampler(profile) {
                Some(frequencies) => frequencies,
                None => {
                    return Self::Unknown(
                        "counts of this compressor do not tell which edges were sampled once",
                    );
                }
            },
        };
        let Frequencies {
            once,
            twice,
            edges_once,
            draws,
            draw,
        } = frequencies;
        if draws < 1.0 {
            return Self::Unknown("no branch or call was sampled");
        }
        let unseen = once.clamp(0.0, 1.0);
        Self::Sampled(Coverage {
            edges,
            once: edges_once,
            draw,
            draws,
            unseen,
            limits: limits(unseen, twice, draws),
            known: known(profile, confidence).map(|known| known * (1.0 - unseen)),
        })
    }
}

/// Limits of the unseen mass, from the masses of edges that one and two of so many draws saw.
fn limits(once: f64, twice: f64, draws: f64) -> Limits {
    let z2 = Z * Z / draws;
    let middle = (once + z2 / 2.0) / (1.0 + z2);
    // Few draws tell little of m₂: it is taken as m₁ at least, and one draw more.
    let twice = twice.max(once) + 1.0 / draws;
    let variance = (once * (1.0 - once) + twice) / draws + z2 / draws / 4.0;
    let off = Z * variance.sqrt() / (1.0 + z2);
    Limits {
        low: (middle - off).clamp(0.0, once),
        high: (middle + off).clamp(once, 1.0),
    }
}

/// Edges with their counts.
fn edges(profile: &Profile) -> impl Iterator<Item = (Edge, u64)> {
    let kinds = profile
        .kinds
        .iter()
        .filter(|(kind, _)| EDGES.contains(kind));
    kinds.flat_map(|(kind, data)| {
        data.counts.iter().flat_map(|(from, counts)| {
            counts.iter().map(|(to, count)| {
                let (kind, from, to) = (*kind, *from, Place::from_word(*to));
                (Edge { kind, from, to }, *count)
            })
        })
    })
}

fn of_windows(profile: &Profile, rare: &Rare, draw: Draw) -> Frequencies {
    let mut weights = [0.0; FEW as usize];
    let mut edges_once = 0;
    let mut all = 0.0;
    for (edge, count) in edges(profile) {
        all += count as f64;
        let Some(draws @ 1..=FEW) = rare.edges.get(&edge) else {
            continue;
        };
        weights[usize::from(*draws) - 1] += count as f64;
        edges_once += u64::from(*draws == 1);
    }
    let [once, twice] = weights.map(|weight| if all > 0.0 { weight / all } else { 0.0 });
    Frequencies {
        once,
        twice,
        edges_once,
        draws: rare.all.draws(),
        draw,
    }
}

/// Returns frequencies by counts that are multiples of the sampler's rate.
fn of_sampler(profile: &Profile) -> Option<Frequencies> {
    let spec = profile.compressor.parse::<Spec>().ok()?;
    let (Level::Sample(sampler) | Level::Split(sampler, _)) = spec.level else {
        return None;
    };
    if spec.filter.is_some() || spec.thinning.is_some() || matches!(sampler, Sampler::Counted(..)) {
        return None;
    }
    let rate = u64::from(sampler.rate());
    let mut events = [0_u64; FEW as usize];
    let mut all = 0;
    for (_, count) in edges(profile) {
        let samples = count / rate.max(1);
        all += samples;
        if let draws @ 1..=2 = samples {
            events[draws as usize - 1] += draws;
        }
    }
    let share = |events: u64| events as f64 / (all.max(1)) as f64;
    Some(Frequencies {
        once: share(events[0]),
        twice: share(events[1]),
        edges_once: events[0],
        draws: all as f64,
        draw: Draw::Event,
    })
}

/// The share of executions that were seen along edges whose upper limit is at most twice their count.
fn known(profile: &Profile, confidence: &mut Confidence) -> Option<f64> {
    let (mut known, mut all) = (0.0, 0.0);
    for (edge, count) in edges(profile) {
        let times = count as f64;
        let limits = match &profile.windows {
            Some(windows) => {
                let sampled = windows.at(edge.kind, edge.from)?;
                sampled.limits_of((times / sampled.executions.max(1.0)).min(1.0))
            }
            None => confidence.count(Tuple::new(edge.from, edge.to.word()), count)?,
        };
        all += times;
        if limits.high <= 2.0 * times {
            known += times;
        }
    }
    (all > 0.0).then(|| known / all)
}
