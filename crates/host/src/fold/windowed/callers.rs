//! Values by caller: a hotlist for each instruction and each call that its function was called by (*Value Sampling*, section 2.3).
//!
//! # Problem
//! A load may have any value, and one value for each of the calls of its function. The call is on the stack. In code of today's
//! compilers it is somewhere in the frame, and only the unwinding information of the file says where.
//!
//! # Strategy
//! *Value Sampling* captures with each value two words that may be the return address. Here a piece of the stack is captured once, when the window
//! begins, and the window's own calls and returns say the rest ([`chain`]). A caller may be missing from the piece, or have called code without unwinding
//! information before the window began. Then it is not known, and values are counted for no caller.
//!
//! For each instruction the most frequent callers are kept, by a hotlist of their own. When that changes, the values of callers
//! that are no longer in it are given up, and their samples counted.
//!
//! # Invariants
//! * Memory for an instruction is of constant size, and there are at most [`MOST`] lists of values.
//! * Each sample of an instruction is in one list, or was given up and is counted.

mod chain;

use rustc_hash::FxHashMap;
use trommel_compress::hotlist::Hotlist;
use trommel_compress::random::SplitMix64;
use trommel_profile::callers::{self, Called};
use trommel_profile::windows::Windows;
use trommel_tuple::Place;

use super::site::{Draws, Site, estimates};
use crate::channel::modules::Modules;
use crate::fold::dictionary::Instruction;
use chain::Chain;

/// Lists of values in all.
const MOST: usize = 1 << 16;

/// Values that an instruction had when its function was called by one call.
struct List {
    /// Word of the call's place, or [`UNKNOWN`].
    call: u64,
    draws: Draws,
    /// Units of weight that have gone to the list.
    values: Hotlist,
}

/// A word in place of an unknown call. No code is at address 0 of `[anon]`.
const UNKNOWN: u64 = 0;

/// The callers of an instruction's function.
struct Of {
    most: Hotlist,
    lists: Vec<List>,
}

/// See the module.
#[derive(Default)]
pub(in crate::fold) struct Callers {
    chain: Chain,
    /// Callers by number of the site.
    of: FxHashMap<u32, Of>,
    lists: usize,
    dropped: u64,
    /// Number of epochs taken.
    epoch: u64,
}

impl Callers {
    /// Instructions that were met.
    pub(in crate::fold) fn learn(&mut self, all: &[Instruction]) {
        self.chain.learn(all);
    }

    /// Begins a window.
    pub(in crate::fold) fn begin(&mut self) {
        self.chain.begin();
    }

    /// A part of the stack, as it was when the window began.
    pub(in crate::fold) fn stack(&mut self, words: impl Iterator<Item = u64>) {
        self.chain.stack(words);
    }

    /// Notes that execution reaches the instruction with the first number.
    pub(super) fn enter(&mut self, first: u32, modules: &Modules) {
        self.chain.enter(first, modules);
    }

    /// Notes that instructions up to the one with the last number were executed.
    pub(super) fn leave(&mut self, last: u32) {
        self.chain.leave(last);
    }

    /// A value of a site, in a window of this number and weight, which stands for so many units.
    pub(super) fn value(
        &mut self,
        (number, site): (u32, &Site),
        value: u64,
        (window, weight): (u64, f64),
        times: u64,
        modules: &Modules,
    ) {
        let call = self.chain.caller(modules).map_or(UNKNOWN, Place::word);
        let seed = |of: u64| {
            let about = site.place.word() ^ (site.kind as u64) << 56;
            SplitMix64::new(about ^ of.rotate_left(24) ^ self.epoch << 32).draw()
        };
        let of = self.of.entry(number).or_insert_with(|| Of {
            most: Hotlist::new(seed(u64::MAX)),
            lists: Vec::new(),
        });
        let before = of.most.probability();
        of.most.add_times(call, times);
        if of.most.probability() < before {
            let kept = of.most.entries();
            let lists = of.lists.len();
            of.lists.retain_mut(|list| {
                let is_kept = kept.iter().any(|(call, _)| *call == list.call);
                if !is_kept {
                    list.draws.settle();
                    self.dropped += list.draws.samples;
                }
                is_kept
            });
            self.lists -= lists - of.lists.len();
        }
        let list = match of.lists.iter_mut().position(|list| list.call == call) {
            Some(n) => &mut of.lists[n],
            None => {
                let is_kept = of.most.entries().iter().any(|(kept, _)| *kept == call);
                if !is_kept || self.lists == MOST {
                    self.dropped += 1;
                    return;
                }
                self.lists += 1;
                of.lists.push(List {
                    call,
                    draws: Draws::default(),
                    values: Hotlist::new(seed(call)),
                });
                let last = of.lists.len() - 1;
                &mut of.lists[last]
            }
        };
        list.draws.seen(window, weight);
        list.values.add_times(value, times);
    }

    /// All since the last time, each sample standing for `scale`.
    pub(super) fn take(&mut self, scale: f64, sites: &[Site], windows: &mut Windows) {
        self.epoch += 1;
        self.lists = 0;
        let mut all = callers::Callers {
            dropped: std::mem::take(&mut self.dropped),
            ..callers::Callers::default()
        };
        for (number, of) in self.of.drain() {
            let Some(site) = sites.get(number as usize) else {
                continue;
            };
            for mut list in of.lists {
                list.draws.settle();
                let mut sampled = list.draws.sampled(scale);
                sampled.probability = list.values.chance(sampled.samples);
                let counts = estimates(&list.values, sampled.executions);
                let called = Called {
                    kind: site.kind,
                    at: site.place,
                    call: (list.call != UNKNOWN).then(|| Place::from_word(list.call)),
                };
                all.lists
                    .insert(called, callers::Values { sampled, counts });
            }
        }
        windows.callers = Some(all);
    }
}
