//! Stores and loads of windows that are in each other's way.

use rustc_hash::FxHashMap;
use trommel_profile::memory::Pair;
use trommel_profile::windows::Windows;
use trommel_tuple::Place;

use super::site::Draws;
use crate::fold::conflicts::{Known, Run};
use crate::fold::dictionary::Instruction;

/// Conflicts between accesses.
#[derive(Default)]
pub(in crate::fold) struct Accesses {
    /// Instructions met, by number.
    known: Vec<(Place, Known)>,
    run: Run,
    /// The instruction that is executed, its window, and its addresses so far.
    at: Option<(u32, (u64, f64))>,
    addresses: Vec<u64>,
    pairs: FxHashMap<Pair, Draws>,
}

impl Accesses {
    pub(in crate::fold) fn learn(&mut self, all: &[Instruction]) {
        for new in &all[self.known.len()..] {
            let known = Known::of(new.bytes(), new.pc());
            self.known.push((new.place, known));
        }
    }

    /// Begins a window.
    pub(in crate::fold) fn begin(&mut self) {
        self.at = None;
        self.addresses.clear();
        self.run.clear();
    }

    /// Begins the next instruction.
    pub(in crate::fold) fn instruction(&mut self, number: u32, window: (u64, f64)) {
        self.end();
        self.at = Some((number, window));
    }

    /// Adds an address of that instruction.
    pub(in crate::fold) fn address(&mut self, address: u64) {
        self.addresses.push(address);
    }

    /// Executes that instruction in the model.
    pub(in crate::fold) fn end(&mut self) {
        if let Some((number, (window, weight))) = self.at.take()
            && let Some(&(load, ref known)) = self.known.get(number as usize)
            && known.accesses() == self.addresses.len()
        {
            let (all, pairs) = (&self.known, &mut self.pairs);
            let found = |conflict, whose: u32| {
                let pair = Pair {
                    conflict,
                    store: all[whose as usize].0,
                    load,
                };
                pairs.entry(pair).or_default().seen(window, weight);
            };
            self.run.execute(number, known, &self.addresses, found);
        }
        self.addresses.clear();
    }

    pub(in crate::fold) fn take(&mut self, scale: f64, windows: &mut Windows) {
        for (pair, mut draws) in self.pairs.drain() {
            draws.settle();
            windows.pairs.insert(pair, draws.sampled(scale));
        }
    }
}
