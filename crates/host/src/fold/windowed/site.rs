//! Counts of one instruction, window by window.

use trommel_compress::hotlist::Hotlist;
use trommel_compress::random::SplitMix64;
use trommel_profile::sampled::Sampled;
use trommel_tuple::{Kind, Place};

/// Occurrences of something, window by window.
#[derive(Default)]
pub(in crate::fold) struct Draws {
    /// The window that it was seen in last, and how often.
    pub(in crate::fold) window: u64,
    pub(in crate::fold) in_window: u64,
    pub(in crate::fold) weight: f64,
    pub(in crate::fold) samples: u64,
    pub(in crate::fold) executions: f64,
    pub(in crate::fold) variance: f64,
}

impl Draws {
    /// Seen in a window of this number and weight.
    #[inline]
    pub(in crate::fold) fn seen(&mut self, window: u64, weight: f64) {
        self.seen_often(window, weight, 1);
    }

    /// Seen so often in it.
    #[inline]
    pub(in crate::fold) fn seen_often(&mut self, window: u64, weight: f64, times: u64) {
        if self.window != window {
            self.settle();
            self.window = window;
            self.weight = weight;
        }
        self.in_window += times;
    }

    /// Adds the window that it was seen in last.
    pub(in crate::fold) fn settle(&mut self) {
        let n = std::mem::take(&mut self.in_window);
        self.samples += n;
        let weight = n as f64 * self.weight;
        self.executions += weight;
        self.variance += weight * weight;
    }

    /// Adds those of other windows, all of them settled.
    pub(in crate::fold) fn join(&mut self, other: Self) {
        self.samples += other.samples;
        self.executions += other.executions;
        self.variance += other.variance;
    }

    /// Returns the estimate from all of them, each standing for `scale`.
    pub(in crate::fold) fn sampled(&self, scale: f64) -> Sampled {
        Sampled {
            samples: self.samples,
            executions: self.executions * scale,
            variance: self.variance * scale * scale,
            probability: 1.0,
            factor_error: 0.0,
        }
    }
}

/// Counts of an instruction.
pub(in crate::fold) struct Site {
    pub(in crate::fold) kind: Kind,
    pub(in crate::fold) place: Place,
    pub(in crate::fold) draws: Draws,
    pub(in crate::fold) seen: Seen,
}

pub(in crate::fold) enum Seen {
    /// Destinations, or latencies.
    Destinations(Vec<Destination>),
    /// Values.
    Values(Box<Hotlist>),
}

/// A destination of an instruction, or a latency.
pub(in crate::fold) struct Destination {
    pub(in crate::fold) to: u64,
    pub(in crate::fold) weight: f64,
    /// The window that it was seen in last, and the number of windows.
    window: u64,
    pub(in crate::fold) windows: u64,
}

impl Destination {
    const fn new(to: u64) -> Self {
        Self {
            to,
            weight: 0.0,
            window: 0,
            windows: 0,
        }
    }
}

impl Site {
    pub(in crate::fold) fn new(kind: Kind, place: Place) -> Self {
        let seen = match kind.value_is_place() || kind == Kind::Latency {
            true => Seen::Destinations(Vec::new()),
            false => Seen::Values(Box::new(Hotlist::new(place.word() ^ kind as u64))),
        };
        Self {
            kind,
            place,
            draws: Draws::default(),
            seen,
        }
    }

    /// Begins anew, where numbers of destinations stay what they are and coins fall otherwise.
    pub(in crate::fold) fn forget(&mut self, epoch: u64) {
        match &mut self.seen {
            Seen::Destinations(all) => all.iter_mut().for_each(|d| *d = Destination::new(d.to)),
            Seen::Values(list) => {
                let seed =
                    SplitMix64::new(self.place.word() ^ self.kind as u64 ^ epoch << 32).draw();
                **list = Hotlist::new(seed);
            }
        }
    }

    pub(in crate::fold) fn destination(&mut self, word: u64) -> usize {
        let Seen::Destinations(all) = &mut self.seen else {
            return 0;
        };
        if let Some(n) = all.iter().position(|d| d.to == word) {
            return n;
        }
        all.push(Destination::new(word));
        all.len() - 1
    }

    /// The call, and the word of one of its destinations.
    pub(in crate::fold) fn call(&self, to: usize) -> Option<(Place, u64)> {
        let Seen::Destinations(all) = &self.seen else {
            return None;
        };
        let target = all.get(to).filter(|_| self.kind == Kind::Call)?.to;
        Some((self.place, target))
    }

    /// Adds a value, and returns the number of units that it stands for.
    pub(in crate::fold) fn value(
        &mut self,
        value: u64,
        (window, weight): (u64, f64),
        all: &mut Units,
    ) -> u64 {
        self.draws.seen(window, weight);
        let Seen::Values(list) = &mut self.seen else {
            return 0;
        };
        let times = all.draw(weight);
        list.add_times(value, times);
        times
    }

    /// Goes to a destination with this weight in all, in the window of this number.
    pub(in crate::fold) fn goes(&mut self, to: usize, window: u64, weight: f64) {
        if let Seen::Destinations(all) = &mut self.seen
            && let Some(destination) = all.get_mut(to)
        {
            destination.weight += weight;
            if destination.window != window {
                destination.window = window;
                destination.windows += 1;
            }
        }
    }
}

/// Whole units of weight for instances: as many as a weight has, the rest by chance.
pub(in crate::fold) struct Units {
    pub(in crate::fold) one: f64,
    pub(in crate::fold) random: SplitMix64,
}

impl Default for Units {
    fn default() -> Self {
        Self {
            one: 0.0,
            random: SplitMix64::new(1),
        }
    }
}

impl Units {
    pub(in crate::fold) fn draw(&mut self, weight: f64) -> u64 {
        /// Units in the first weight. Few, and the rest that is left to chance is much: later windows may weigh a hundredth of it.
        const FIRST: f64 = 256.0;
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        if self.one <= 0.0 {
            self.one = weight / FIRST;
        }
        let chance = (self.random.draw() >> 11) as f64 * UNIT;
        // What was seen is never nothing.
        ((weight / self.one + chance) as u64).max(1)
    }
}

/// Returns the estimated counts of the values of a list, of so many executions; sorted.
pub(in crate::fold) fn estimates(list: &Hotlist, executions: f64) -> Vec<(u64, u64)> {
    let estimate = |(value, share)| (value, rounded(executions * share));
    let mut all: Vec<(u64, u64)> = list.shares().map(estimate).collect();
    all.sort_unstable();
    all
}

/// A count that is estimated of something that was seen.
pub(in crate::fold) fn rounded(count: f64) -> u64 {
    (count.round() as u64).max(1)
}
