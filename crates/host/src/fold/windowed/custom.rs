//! Windows given to a customisation module, and its pairs folded.
//!
//! # Problem
//! The module runs in another process and answers later. A window's weight and its instructions must be known
//! then. The module's answers are not trusted.
//!
//! # Strategy
//! The messages of a window are its captured instructions, in order. Each is given to the module once, with its bytes, and by number
//! afterwards. Facts of a window wait here until its pairs come. Pairs are counted as values of loads are: a hotlist for each
//! instruction, as many times as the window's weight has units.
//!
//! # Invariants
//! * A pair counts for an instruction that was captured in its window, or the module has failed.
//! * As many windows wait here as the module has not answered.
//! * A window that a signal cuts may lack its last instructions: those of a fragment that was not left are unknown.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use trommel_profile::custom::{Custom, Value, Valued};
use trommel_query::FieldSet;
use trommel_queue::dict::TargetPc;
use trommel_queue::queries::Header;
use trommel_tuple::Kind;

use super::site::{Seen, Site, Units, rounded};
use crate::ask::custom::{Answer, Instance, classes};
use crate::channel::modules::Modules;
use crate::fold::dictionary::Instruction;

/// A window that was handed over.
struct Waiting {
    number: u64,
    weight: f64,
    /// Its instructions, by address.
    there: Vec<(u64, u32)>,
}

/// See the module.
pub(in crate::fold) struct Customised {
    /// None once it has failed.
    instance: Option<Instance>,
    pid: u32,
    /// Classes and their fields, by query instruction.
    classes: Vec<(u8, FieldSet)>,
    /// The instruction that was met last at each address.
    at: FxHashMap<u64, u32>,
    /// Instructions met.
    met: usize,
    /// Instructions that the module was given.
    told: FxHashSet<u32>,
    /// The window that is read: what is sent of it, and its instructions by address.
    tuples: Vec<u8>,
    there: Vec<(u64, u32)>,
    waiting: VecDeque<Waiting>,
    sites: FxHashMap<u32, Site>,
    units: Units,
    /// Its results, but for the sites.
    sum: Custom,
    /// A failure that was not reported yet.
    news: Option<String>,
}

impl Customised {
    /// Begins for an instance of the process `pid`.
    pub(in crate::fold) fn new(instance: Instance, pid: u32) -> Self {
        let custom = instance.custom();
        let sum = Custom {
            name: custom.named.name.clone(),
            title: custom.terms.title.clone(),
            places: custom.terms.places,
            ..Custom::default()
        };
        Self {
            classes: classes(&custom.question.program),
            instance: Some(instance),
            pid,
            at: FxHashMap::default(),
            met: 0,
            told: FxHashSet::default(),
            tuples: Vec::new(),
            there: Vec::new(),
            waiting: VecDeque::new(),
            sites: FxHashMap::default(),
            units: Units::default(),
            sum,
            news: None,
        }
    }

    /// Returns its failure, once.
    pub(in crate::fold) fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// Instructions that were met.
    pub(in crate::fold) fn learn(&mut self, all: &[Instruction]) {
        for (number, new) in (0..).zip(all).skip(self.met) {
            self.at.insert(new.pc(), number);
        }
        self.met = all.len();
    }

    /// The next captured instruction of the window that is read.
    pub(in crate::fold) fn captured(&mut self, header: Header, words: &[u8], all: &[Instruction]) {
        let Some(instance) = &self.instance else {
            return;
        };
        let Some(&(class, fields)) = self.classes.get(usize::from(header.at)) else {
            return;
        };
        let Some((pc, rest)) = words.split_first_chunk::<8>() else {
            return;
        };
        let pc = u64::from_le_bytes(*pc);
        if words.len() != 8 * fields.len() {
            return;
        }
        let Some((&number, new)) =
            (self.at.get(&pc)).and_then(|n| Some((n, all.get(*n as usize)?)))
        else {
            return;
        };
        if self.told.insert(number) {
            instance.meet(number, class, pc, new.bytes());
        }
        self.tuples.extend_from_slice(&number.to_le_bytes());
        self.tuples.extend_from_slice(rest);
        self.there.push((pc, number));
    }

    /// The window has been read.
    pub(in crate::fold) fn window(&mut self, thread: u32, (number, weight): (u64, f64)) {
        if let Some(instance) = &self.instance
            && !self.there.is_empty()
        {
            if instance.lags() {
                self.sum.lost += 1;
            } else {
                instance.window((self.pid, thread), &self.tuples);
                self.there.sort_unstable();
                self.there.dedup();
                self.waiting.push_back(Waiting {
                    number,
                    weight,
                    there: self.there.clone(),
                });
            }
        }
        self.tuples.clear();
        self.there.clear();
    }

    /// Folds what has been answered.
    pub(in crate::fold) fn look(&mut self, all: &[Instruction], modules: &Modules) {
        while let Some(answer) = self.instance.as_ref().and_then(|i| i.answer(None)) {
            self.answered(answer, all, modules);
        }
    }

    fn answered(&mut self, answer: Answer, all: &[Instruction], modules: &Modules) {
        let pairs = match answer {
            Answer::Pairs(pairs) => pairs,
            Answer::Failed(why) => return self.fail(&why),
        };
        let Some(window) = self.waiting.pop_front() else {
            return self.fail("it has answered what nobody asked");
        };
        let find = |pc| {
            let found = window.there.binary_search_by_key(&pc, |(pc, _)| *pc);
            Some(window.there[found.ok()?].1)
        };
        // All of them, or none.
        if let Some((pc, _)) = pairs.iter().find(|(pc, _)| find(*pc).is_none()) {
            return self.fail(&format!(
                "it gave a pair for {pc:#x}, which is no instruction of the window"
            ));
        }
        self.sum.windows += 1;
        self.sum.pairs += pairs.len() as u64;
        for (pc, value) in pairs {
            let Some((number, known)) = find(pc).and_then(|n| Some((n, all.get(n as usize)?)))
            else {
                continue;
            };
            let value = match (self.sum.places, find(value)) {
                (false, _) => value,
                (true, Some(n)) => all.get(n as usize).map_or(value, |i| i.place.word()),
                (true, None) => modules.place_at(TargetPc(value)).word(),
            };
            let site = self.sites.entry(number);
            let site = site.or_insert_with(|| Site::new(Kind::Result, known.place));
            site.value(value, (window.number, window.weight), &mut self.units);
        }
    }

    fn fail(&mut self, why: &str) {
        self.instance = None;
        self.sum.lost += self.waiting.len() as u64;
        self.waiting.clear();
        let (windows, pid) = (self.sum.windows, self.pid);
        let told = format!("after {windows} windows of process {pid}: {why}");
        self.news = Some(told.clone());
        self.sum.failures.push(told);
    }

    /// Returns its results, each sample standing for `scale`.
    pub(in crate::fold) fn finish(
        mut self,
        scale: f64,
        all: &[Instruction],
        modules: &Modules,
    ) -> Custom {
        let deadline = Instance::deadline();
        while !self.waiting.is_empty()
            && let Some(answer) = self
                .instance
                .as_ref()
                .and_then(|i| i.answer(Some(deadline)))
        {
            self.answered(answer, all, modules);
        }
        let mut found: Vec<(u32, Valued)> = Vec::new();
        for (&number, site) in &mut self.sites {
            site.draws.settle();
            let Seen::Values(list) = &site.seen else {
                continue;
            };
            let mut sampled = site.draws.sampled(scale);
            sampled.probability = list.chance(sampled.samples);
            let value = |(value, share)| {
                let count = rounded(sampled.executions * share);
                (value, Value { count, text: None })
            };
            let values = list.shares().map(value).collect();
            found.push((number, Valued { sampled, values }));
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        self.format(&mut found);
        for (number, valued) in found {
            if let Some(known) = all.get(number as usize) {
                let place = known.place;
                self.sum.sites.entry(place).or_default().add(valued, |v| v);
            }
        }
        self.sum
    }

    /// Asks for the texts of values.
    fn format(&mut self, found: &mut [(u32, Valued)]) {
        let Some(instance) = self.instance.as_ref().filter(|_| !self.sum.places) else {
            return;
        };
        let asked: Vec<(u32, u64)> = found
            .iter()
            .flat_map(|(number, valued)| valued.values.keys().map(|value| (*number, *value)))
            .collect();
        let (texts, failed) = instance.texts(&asked);
        let values = found.iter_mut().flat_map(|(_, v)| v.values.values_mut());
        for (value, text) in values.zip(texts) {
            value.text = text;
        }
        if let Some(why) = failed {
            self.fail(&why);
        }
    }
}
