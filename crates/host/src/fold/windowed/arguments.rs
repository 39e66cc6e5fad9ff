//! Arguments of calls in windows: a hotlist for each function and register, and for each call of the function.
//!
//! A call's values are of one moment, so they have one weight and one number of units. Each list tosses coins of its own.
//! Memory for a call and a function is of constant size.

use rustc_hash::FxHashMap;
use trommel_compress::hotlist::Hotlist;
use trommel_compress::random::SplitMix64;
use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::windows::Windows;
use trommel_queue::dict::ARGUMENTS;
use trommel_tuple::Place;

use super::site::{Draws, Units, estimates};

/// Contents of registers when a function was called.
struct Called {
    draws: Draws,
    /// Units of weight that have gone to each list.
    lists: Box<[Hotlist; ARGUMENTS]>,
}

impl Called {
    fn new((call, target): (Option<Place>, u64), epoch: u64) -> Self {
        let call = call.map_or(0, Place::word);
        let mut seeds = SplitMix64::new(call ^ target.rotate_left(24) ^ epoch << 48);
        Self {
            draws: Draws::default(),
            lists: Box::new(std::array::from_fn(|_| Hotlist::new(seeds.draw()))),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Arguments {
    /// Register contents by call, or of all calls, and the word of the function's place.
    called: FxHashMap<(Option<Place>, u64), Called>,
    units: Units,
    /// Number of epochs taken.
    epoch: u64,
}

impl Arguments {
    /// A call has been executed in a window of this number and weight.
    pub(super) fn passed(
        &mut self,
        (call, target): (Place, u64),
        values: &[u64; ARGUMENTS],
        (window, weight): (u64, f64),
    ) {
        let times = self.units.draw(weight);
        for key in [(None, target), (Some(call), target)] {
            let called = self.called.entry(key);
            let called = called.or_insert_with(|| Called::new(key, self.epoch));
            called.draws.seen(window, weight);
            for (list, value) in called.lists.iter_mut().zip(values) {
                list.add_times(*value, times);
            }
        }
    }

    /// All since the last time, each sample standing for `scale`.
    pub(super) fn take(&mut self, scale: f64, windows: &mut Windows) {
        self.epoch += 1;
        for ((call, target), mut called) in self.called.drain() {
            called.draws.settle();
            for (register, list) in (0..).zip(called.lists.iter()) {
                let mut sampled = called.draws.sampled(scale);
                sampled.probability = list.chance(sampled.samples);
                let passed = Passed {
                    call,
                    target: Place::from_word(target),
                    register,
                };
                let counts = estimates(list, sampled.executions);
                windows
                    .arguments
                    .insert(passed, Argument { sampled, counts });
            }
        }
    }
}
