//! A program in force in one process, and its results so far.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use trommel_profile::queries::{Acted, Active, Paid, Queries, Seen};
use trommel_query::program::Query;
use trommel_query::quick::Quick;
use trommel_query::tag::Where;
use trommel_query::{Entry, Program, Sampling, image};
use trommel_queue::dict::TargetPc;
use trommel_queue::queries as area;
use trommel_symbol::{Files, Symbols, is_named};

use crate::ask::service::Tabulate;
use crate::channel::modules::Modules;
use crate::channel::question::Load;
use crate::channel::shared::Shared;
use crate::channel::tags::Told;

/// A program in force in a process.
pub(super) struct Loaded {
    /// Number of the load.
    pub(super) id: u32,
    /// Its name.
    pub(super) name: String,
    pub(super) program: Arc<Program>,
    quick: Quick,
    /// Words of its messages that are addresses of code, by instruction, by bit.
    pub(super) places: Vec<u8>,
    /// Names of the words of its messages, by instruction.
    pub(super) names: Vec<Vec<&'static str>>,
    /// Sampling of the executions that its messages are about, by instruction.
    pub(super) sampling: Vec<Sampling>,
    /// Ranges with tags reported so far.
    told: Told,
    /// Rules about code that was found, by rule.
    met: Vec<bool>,
    pub(super) tabulate: Tabulate,
    /// The first of its ways, and the counts that they had before.
    pub(super) first_way: Option<u16>,
    before: Vec<u64>,
    /// Table entries, by bit, whose queries were removed.
    pub(super) off: u64,
    /// Change with which it comes, and that with which it goes.
    pub(super) comes: u32,
    pub(super) goes: Option<u32>,
    active: Vec<Active>,
}

impl Loaded {
    /// A load that comes with a change.
    pub(super) fn new(load: &Load, first_way: Option<u16>, comes: u32) -> Self {
        let program = Arc::clone(&load.program);
        let mut places = vec![0; program.code().len()];
        let mut sampling = vec![Sampling::ALWAYS; places.len()];
        let mut names = vec![Vec::new(); places.len()];
        for query in program.queries() {
            let code = query.code_words();
            names[query.code.clone()].fill(query.names().collect());
            sampling[query.code.clone()].fill(query.sampling);
            places[query.code].fill(code);
        }
        let quick = Quick::of(&program);
        Self {
            id: load.id,
            name: load.name.clone(),
            before: vec![0; quick.ways().len()],
            quick,
            places,
            names,
            sampling,
            told: Told::default(),
            met: vec![false; program.tags().len()],
            tabulate: Tabulate::default(),
            first_way,
            off: load.off,
            comes,
            goes: None,
            active: Vec::new(),
            program,
        }
    }

    /// The numbers of its ways.
    pub(super) fn ways(&self) -> Range<u16> {
        let count = self.quick.ways().len() as u16;
        self.first_way
            .map_or(0..0, |first| first..first.saturating_add(count))
    }

    /// Reads what its ways have counted for others before.
    pub(super) fn read_before(&mut self, shared: &Shared) {
        let ways = self.ways();
        self.before = ways.map(|way| shared.times_of_way(way.into())).collect();
    }

    /// Its queries are active from a time on, but for those that were removed.
    pub(super) fn is_active_from(&mut self, from: u64) {
        for query in self.program.queries() {
            let is_off = |entry: Entry| self.off >> entry.number() & 1 != 0;
            if !query.entries.iter().all(is_off) {
                self.active.push(Active {
                    code: query.code.start as u8,
                    from,
                    until: None,
                });
            }
        }
    }

    /// Queries whose entries are all among these were active until now.
    pub(super) fn was_active_until(&mut self, off: u64, now: u64) {
        for query in self.program.queries() {
            let is_off = |entry: Entry| off >> entry.number() & 1 != 0;
            let code = query.code.start as u8;
            let mut all = self.active.iter_mut();
            if query.entries.iter().all(is_off)
                && let Some(active) = all.find(|active| active.code == code)
                && active.until.is_none()
            {
                active.until = Some(now);
            }
        }
    }

    /// Returns true if it is known from when on it is active.
    pub(super) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Tells the target of the tags in a region. False when there are more ranges than there is room for.
    pub(super) fn tell(
        &mut self,
        to: &area::Queries,
        range: &Range<u64>,
        modules: &Modules,
        (files, main): (&'static Files, &[u8]),
    ) -> bool {
        if self.program.tags().is_empty() {
            return true;
        }
        let place = modules.place_at(TargetPc(range.start));
        let Some(module) = modules.list.get(usize::from(place.module().0)) else {
            return true;
        };
        // What was told of other code that was there does not hold any more.
        let mut ranges = vec![(range.clone(), 0)];
        let bias = range.start.wrapping_sub(place.vaddr().0);
        let symbols = Symbols::new(files, std::slice::from_ref(module));
        for (n, rule) in self.program.tags().iter().enumerate() {
            let inside = |from: u64, to: u64| {
                let [from, to] = [from, to].map(|a| a.saturating_add(bias));
                let [from, to] = [from, to].map(|a| a.clamp(range.start, range.end));
                (from < to).then_some(from..to)
            };
            let found: Vec<_> = match &rule.place {
                Where::Module(name) if is_named(&module.path, name) => vec![range.clone()],
                Where::Module(_) => Vec::new(),
                Where::Range {
                    from,
                    to,
                    module: of,
                } => {
                    let here = match of {
                        Some(name) => is_named(&module.path, name),
                        None => module.path == main,
                    };
                    let both = if here { inside(*from, *to) } else { None };
                    both.into_iter().collect()
                }
                Where::Symbol(name) => {
                    let all = symbols.ranges_of(module.id, name);
                    all.into_iter()
                        .filter_map(|r| inside(r.start, r.end))
                        .collect()
                }
            };
            self.met[n] |= !found.is_empty();
            ranges.extend(found.into_iter().map(|r| (r, rule.tag)));
        }
        let mut ranges = ranges.into_iter();
        ranges.all(|(range, tag)| self.told.tell(to, &range, tag))
    }

    /// Returns its results so far, without messages.
    pub(super) fn so_far(&self, place: usize, shared: &Shared) -> Queries {
        let (mut seen, mut done) = counts(shared.load(place));
        let ways = self.quick.ways().iter().zip(self.ways().zip(&self.before));
        for (way, (number, before)) in ways {
            let times = shared.times_of_way(number.into()).saturating_sub(*before);
            let of = &mut seen[way.entry.number()];
            of.executed = of.executed.saturating_add(times);
            of.profiled = of.profiled.saturating_add(times);
            if !way.counted.is_empty() {
                of.acted = of.acted.saturating_add(times);
            }
            for at in &way.counted {
                let of = &mut done[at.number()];
                of.counted = of.counted.saturating_add(times);
                of.counted_for = of.counted_for.saturating_add(times);
            }
        }
        let program = &self.program;
        Queries {
            program: image::encode(program),
            places: self.places.clone(),
            unmet: (self.met.iter().zip(0..))
                .filter_map(|(met, n)| (!met).then_some(n))
                .collect(),
            seen: (seen.into_iter().zip(Entry::all()))
                .filter(|(_, entry)| program.table().get(*entry).is_some())
                .map(|(seen, entry)| (entry.number() as u8, seen))
                .collect(),
            done: done.into_iter().take(program.code().len()).collect(),
            paid: paid(program, shared.load(place)),
            name: self.name.clone(),
            load: self.id,
            active: self.active.clone(),
            ..Queries::default()
        }
    }
}

/// Counts that the target has made itself, by table entry and by instruction.
fn counts(from: &area::Queries) -> (Vec<Seen>, Vec<Acted>) {
    let seen = from.seen.iter().map(|seen| Seen {
        executed: seen.executed.load(Relaxed),
        profiled: seen.profiled.load(Relaxed),
        acted: seen.acted.load(Relaxed),
    });
    let done = from.done.iter().map(|done| Acted {
        sent: done.sent.load(Relaxed),
        served: done.served.load(Relaxed),
        dropped: done.dropped.load(Relaxed),
        counted: done.counted.load(Relaxed),
        counted_for: done.counted_for.load(Relaxed),
        interrupted: done.interrupted.load(Relaxed),
    });
    (seen.collect(), done.collect())
}

/// Time that queries with `every auto` took, by their first instruction.
fn paid(program: &Program, from: &area::Queries) -> BTreeMap<u8, Paid> {
    let of = |query: Query| {
        let paid = &from.paid[query.entries.iter().next()?.number()];
        let (ticks, of) = (paid.ticks.load(Relaxed), paid.of.load(Relaxed));
        (of != 0).then_some((query.code.start as u8, Paid { ticks, of }))
    };
    program.queries().into_iter().filter_map(of).collect()
}
