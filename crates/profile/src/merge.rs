//! Several processes in one profile.
//!
//! Processes of one recording were observed *together*: side by side, beside one host, and what the run came to is the
//! first one's. Profiles of a database were made *apart*: at other times, by other hosts, on other machines. Their merging
//! is associative and commutative (but for the numbers of modules, and for rounding of what is no whole number), so that epochs can be added up in any order, and sums
//! again. For that each field has a rule that is both: sums, the earliest, the latest, what all have in common.
//!
//! Places are addresses in files, so what processes did at the same instruction of the same file adds
//! up, wherever the file was in memory. Files are the same when path and build id are, or path and code where there is no build id; what is in no
//! file (`[anon]`) is added up by address, which says little about processes that have nothing in
//! common.
//!
//! **I29 (order-free sums).** Sums of profiles do not depend on the order in which they are added.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trommel_tuple::{Kind, ModuleId, Place};

use crate::arguments::Passed;
use crate::counts::add_counts;
use crate::custom::Custom;
use crate::memory::Pair;
use crate::profile::{Build, Counted, KindProfile, Module, Origin, Profile, Run, Site, Threads};
use crate::queries::{Queries, Windowed};
use crate::rare::{self, Edge, Rare};
use crate::samples::Function;
use crate::windows::Windows;

/// Reasons that are kept of profiles which were made apart.
const REASONS: usize = 32;

/// Numbers of one profile's modules in another profile.
struct Renumbered(HashMap<ModuleId, ModuleId>);

impl Renumbered {
    fn place(&self, place: Place) -> Place {
        let module = self.0.get(&place.module()).copied().unwrap_or_default();
        Place::new(module, place.vaddr())
    }

    fn site(&self, site: &Site) -> Site {
        match *site {
            Site::Conditional { taken, fallthrough } => Site::Conditional {
                taken: self.place(taken),
                fallthrough: self.place(fallthrough),
            },
            other => other,
        }
    }
}

/// Adds profiles up.
#[derive(Debug, Default)]
pub struct Merged {
    profile: Profile,
    apart: bool,
    processes: usize,
    known: HashMap<Build, ModuleId>,
}

impl Merged {
    /// Starts a sum of profiles that were made apart.
    pub fn apart(first: Profile) -> Self {
        let mut merged = Self::new(first);
        merged.apart = true;
        let profile = &mut merged.profile;
        // What is not known of a sum is not known of one either.
        profile.threads.each.clear();
        profile.intervals = None;
        forget_intervals(&mut profile.queries);
        profile.origin = Origin {
            pid: profile.origin.pid,
            ..Origin::default()
        };
        profile.run.status = None;
        let reasons = std::mem::take(&mut profile.run.detach);
        add_reasons(&mut profile.run.detach, reasons);
        if let Some(windows) = &mut profile.windows {
            windows.add_apart(&Windows::default());
        }
        merged
    }

    /// Starts a sum of profiles that were made together. Totals of the run are taken from the first.
    pub fn new(first: Profile) -> Self {
        let mut known = HashMap::new();
        for module in &first.modules {
            known.entry(module.build()).or_insert(module.id);
        }
        Self {
            profile: first,
            apart: false,
            processes: 1,
            known,
        }
    }

    /// Adds another.
    pub fn add(&mut self, mut other: Profile) {
        self.processes += 1;
        self.forget_addresses(&mut other);
        let renumbered = self.modules(&other.modules);
        let rare = self.rare(&mut other, &renumbered);
        self.after_calls(&mut other, &renumbered);
        for (place, count) in std::mem::take(&mut other.deliveries) {
            let sum = self.profile.deliveries.entry(renumbered.place(place));
            let sum = sum.or_default();
            *sum = sum.saturating_add(count);
        }
        for (kind, data) in std::mem::take(&mut other.kinds) {
            self.kind(kind, data, &renumbered);
        }
        for (place, site) in &other.sites {
            let place = renumbered.place(*place);
            (self.profile.sites.entry(place)).or_insert_with(|| renumbered.site(site));
        }
        if let Some(windows) = other.windows.take() {
            self.windows(windows, &renumbered);
        }
        if let Some(windows) = &mut self.profile.windows {
            windows.rare = rare;
        }
        if self.apart {
            forget_intervals(&mut other.queries);
        }
        self.asked_and_sampled(&mut other, &renumbered);
        // They are the course of one run: sums of several have none.
        if let Some(intervals) = other.intervals.take().filter(|_| !self.apart) {
            let sums = self.profile.intervals.get_or_insert_default();
            sums.add(intervals, |place| renumbered.place(place));
        }
        self.profile.scope.add(std::mem::take(&mut other.scope));
        match self.apart {
            true => self.made_apart(other),
            false => self.made_together(other),
        }
    }

    /// Forgets where modules were, of profiles that were both sampled. They may be any two programs: what is at an address of one says
    /// nothing about the other.
    fn forget_addresses(&mut self, other: &mut Profile) {
        let is_found = |profile: &Profile| {
            let samples = profile.samples.as_ref();
            samples.is_some_and(|samples| !samples.places.is_empty())
        };
        if is_found(&self.profile) && is_found(other) {
            let all = self.profile.modules.iter_mut().chain(&mut other.modules);
            all.for_each(|module| module.loaded = None);
        }
    }

    /// Edges that few windows of both saw: before their counts are added up, which tell what the other has seen.
    fn rare(&mut self, other: &mut Profile, renumbered: &Renumbered) -> Option<Rare> {
        // Of a process that had no windows there is nothing to know.
        let of = |profile: &mut Profile| match &mut profile.windows {
            Some(windows) => windows.rare.take(),
            None => Some(Rare::default()),
        };
        let (own, others) = (of(&mut self.profile), of(other));
        let (mut own, others) = (own?, others?);
        let renumbered = |edge: &Edge| Edge {
            from: renumbered.place(edge.from),
            to: renumbered.place(edge.to),
            ..*edge
        };
        let mut seen_there = BTreeSet::new();
        for kind in rare::EDGES {
            for (from, counts) in other.kinds.get(&kind).into_iter().flat_map(|k| &k.counts) {
                seen_there.extend(counts.iter().map(|(to, _)| {
                    let (from, to) = (*from, Place::from_word(*to));
                    renumbered(&Edge { kind, from, to })
                }));
            }
        }
        let mut edges: BTreeMap<Edge, u8> = BTreeMap::new();
        for (edge, draws) in &others.edges {
            *edges.entry(renumbered(edge)).or_default() += draws;
        }
        edges.retain(|edge, draws| match own.edges.get(edge) {
            Some(more) => {
                *draws = draws.saturating_add(*more);
                *draws <= rare::FEW
            }
            None => !self.has(edge),
        });
        let only_here = own.edges.into_iter();
        edges.extend(only_here.filter(|(edge, _)| !seen_there.contains(edge)));
        own.all.add(&others.all);
        Some(Rare {
            all: own.all,
            edges,
        })
    }

    /// Adds executions of instructions after calls: before the calls are added up. They are known of a sum where they are known of all
    /// that called anything.
    fn after_calls(&mut self, other: &mut Profile, renumbered: &Renumbered) {
        let calls = |profile: &Profile| {
            let calls = profile.kinds.get(&Kind::Call);
            calls.is_some_and(|calls| !calls.counts.is_empty())
        };
        let more = other.after_calls.take();
        let (here, there) = (calls(&self.profile), calls(other));
        match (&mut self.profile.after_calls, more) {
            (Some(sums), Some(more)) => {
                for (place, count) in more {
                    let sum = sums.entry(renumbered.place(place)).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
            (sums @ Some(_), None) if there => *sums = None,
            (sums @ None, Some(more)) if !here => {
                let more = more.into_iter();
                *sums = Some(more.map(|(at, n)| (renumbered.place(at), n)).collect());
            }
            _ => {}
        }
    }

    /// Returns true if an edge is in the sum.
    fn has(&self, edge: &Edge) -> bool {
        let kind = self.profile.kinds.get(&edge.kind);
        let counts = kind.and_then(|kind| kind.counts.get(&edge.from));
        counts.is_some_and(|counts| counts.iter().any(|(to, _)| *to == edge.to.word()))
    }

    /// Adds what windows have seen.
    fn windows(&mut self, mut windows: Windows, renumbered: &Renumbered) {
        let custom = windows.custom.take();
        let sums = self.profile.windows.get_or_insert_default();
        match self.apart {
            true => sums.add_apart(&windows),
            false => sums.add(&windows),
        }
        for (kind, sites) in windows.sites {
            let all = sums.sites.entry(kind).or_default();
            for (place, sampled) in sites {
                let place = renumbered.place(place);
                all.entry(place).or_default().add(&sampled);
            }
        }
        for (pair, sampled) in windows.pairs {
            let pair = Pair {
                store: renumbered.place(pair.store),
                load: renumbered.place(pair.load),
                ..pair
            };
            sums.pairs.entry(pair).or_default().add(&sampled);
        }
        for (passed, argument) in windows.arguments {
            let passed = Passed {
                call: passed.call.map(|call| renumbered.place(call)),
                target: renumbered.place(passed.target),
                ..passed
            };
            sums.arguments.entry(passed).or_default().add(argument);
        }
        if let Some(callers) = windows.callers {
            let sums = sums.callers.get_or_insert_default();
            sums.add(callers, |place| renumbered.place(place));
        }
        if let Some(custom) = custom {
            let sums = sums.custom.get_or_insert_with(|| Custom {
                name: custom.name.clone(),
                title: custom.title.clone(),
                places: custom.places,
                ..Custom::default()
            });
            sums.add(custom, |place| renumbered.place(place));
        }
    }

    /// Adds answers of queries, filters, samples, call paths and names of compiled code.
    fn asked_and_sampled(&mut self, other: &mut Profile, renumbered: &Renumbered) {
        for queries in std::mem::take(&mut other.queries) {
            let place = |word| renumbered.place(Place::from_word(word)).word();
            let mut all = self.profile.queries.iter_mut();
            match all.find(|sums| sums.is_same_load(&queries)) {
                Some(sums) => sums.add(queries, place),
                None => {
                    let mut sums = Queries {
                        program: queries.program.clone(),
                        places: queries.places.clone(),
                        unmet: queries.unmet.clone(),
                        name: queries.name.clone(),
                        load: queries.load,
                        windowed: queries.windowed.as_ref().map(|_| Windowed::default()),
                        ..Queries::default()
                    };
                    sums.add(queries, place);
                    self.profile.queries.push(sums);
                }
            }
        }
        if let Some(filter) = other.filter.take() {
            let sums = self.profile.filter.get_or_insert_default();
            sums.add(filter, |place| renumbered.place(place));
        }
        if let Some(samples) = other.samples.take() {
            let sums = self.profile.samples.get_or_insert_default();
            sums.add(samples, |place| renumbered.place(place));
        }
        for tree in &other.call_trees {
            let sums = self.profile.call_tree_mut(tree.basis);
            sums.add(tree, |place| renumbered.place(place));
        }
        self.compiled(std::mem::take(&mut other.compiled));
        if let Some(mut simulated) = other.simulated.take() {
            simulated.renumber(|at| renumbered.place(at));
            match &mut self.profile.simulated {
                Some(sum) => sum.add(&simulated),
                None => self.profile.simulated = Some(simulated),
            }
        }
    }

    /// Keeps what this profile has in common with one that was made at another time or elsewhere.
    fn made_apart(&mut self, other: Profile) {
        let profile = &mut self.profile;
        let common = common(&profile.command, &other.command);
        profile.command.truncate(common);
        if profile.origin.pid != other.origin.pid {
            profile.origin.pid = 0;
        }
        if profile.counted != other.counted {
            profile.counted = Counted::Service;
        }
        if profile.compressor < other.compressor {
            profile.compressor = other.compressor;
        }
        // The most of one process: which they have in common is not known.
        let threads = &mut profile.threads;
        threads.started = threads.started.max(other.threads.started);
        profile.run.add_apart(other.run);
    }

    /// Adds what another process of the same run met with.
    fn made_together(&mut self, other: Profile) {
        let Run {
            dropped,
            undercount,
            waits,
            wait_time,
            detach,
            ..
        } = other.run;
        let run = &mut self.profile.run;
        run.dropped = run.dropped.saturating_add(dropped);
        // The same value may be that much too low in each.
        run.undercount = run.undercount.saturating_add(undercount);
        run.waits = run.waits.saturating_add(waits);
        run.wait_time = run.wait_time.saturating_add(wait_time);
        let name = other.command.first().map(|n| String::from_utf8_lossy(n));
        let name = name.as_deref().unwrap_or("?");
        let pid = other.origin.pid;
        let reasons = detach
            .iter()
            .map(|why| format!("process {pid} ({name}): {why}"));
        run.detach.extend(reasons);
        // Which of them did what is reported process by process.
        let all = self.profile.threads.started.max(1);
        self.profile.threads = Threads {
            started: all.saturating_add(other.threads.started.max(1)),
            each: Vec::new(),
        };
    }

    /// The sum.
    pub fn profile(self) -> Profile {
        self.profile
    }

    /// The sum, with its modules in the order of their paths and builds: the same whichever profile was added first.
    pub fn in_order(self) -> Profile {
        let mut modules = self.profile.modules.clone();
        modules.sort_by(|a, b| {
            let key = |m: &Module| (m.id != ModuleId::ANON, m.build());
            key(a).cmp(&key(b))
        });
        for (number, module) in modules.iter_mut().enumerate() {
            // There were no more than numbers when they were added.
            module.id = ModuleId(u16::try_from(number).unwrap_or_default());
        }
        let mut ordered = Self::new(Profile {
            modules,
            ..Profile::default()
        });
        ordered.apart = true;
        // Each field by name, so that none can be forgotten.
        let Profile {
            origin,
            command,
            compressor,
            counted,
            modules,
            kinds,
            sites,
            run,
            threads,
            windows,
            queries,
            samples,
            filter,
            call_trees,
            compiled,
            sum,
            simulated,
            intervals,
            scope,
            after_calls,
            deliveries,
        } = self.profile;
        ordered.add(Profile {
            modules,
            kinds,
            sites,
            windows,
            queries,
            samples,
            filter,
            call_trees,
            compiled,
            simulated,
            intervals,
            after_calls,
            deliveries,
            ..Profile::default()
        });
        Profile {
            origin,
            command,
            compressor,
            counted,
            run,
            threads,
            sum,
            scope,
            ..ordered.profile
        }
    }

    /// Returns the number of processes that were added up.
    pub const fn processes(&self) -> usize {
        self.processes
    }

    /// Adds names of compiled code. Each is kept once; of two functions at one address both are.
    fn compiled(&mut self, more: Vec<Function>) {
        let all = &mut self.profile.compiled;
        all.extend(more);
        let key = |f: &Function| {
            (
                f.module.clone(),
                f.start,
                f.size,
                f.name.clone(),
                f.code.clone(),
            )
        };
        all.sort_by_cached_key(key);
        all.dedup();
    }

    fn modules(&mut self, modules: &[Module]) -> Renumbered {
        let mut numbers = HashMap::new();
        for module in modules {
            let key = module.build();
            let number = match self.known.get(&key) {
                Some(number) => {
                    // Addresses in one say nothing about the other then.
                    let there = self.profile.modules.get_mut(usize::from(number.0));
                    if let Some(there) = there.filter(|there| there.loaded != module.loaded)
                        && self.apart
                    {
                        there.loaded = None;
                    }
                    *number
                }
                None => self.module(module, key),
            };
            numbers.insert(module.id, number);
        }
        Renumbered(numbers)
    }

    /// A module that no profile had before; with too many it counts as `[anon]`.
    fn module(&mut self, module: &Module, key: Build) -> ModuleId {
        let Ok(number) = u16::try_from(self.profile.modules.len()) else {
            return ModuleId::ANON;
        };
        let id = ModuleId(number);
        self.profile.modules.push(Module {
            id,
            ..module.clone()
        });
        self.known.insert(key, id);
        id
    }

    fn kind(&mut self, kind: Kind, data: KindProfile, renumbered: &Renumbered) {
        let sums = self.profile.kinds.entry(kind).or_default();
        sums.seen = sums.seen.saturating_add(data.seen);
        sums.messages = sums.messages.saturating_add(data.messages);
        for (place, mut counts) in data.counts {
            if kind.value_is_place() {
                for (value, _) in &mut counts {
                    *value = renumbered.place(Place::from_word(*value)).word();
                }
                counts.sort_unstable();
            }
            let place = renumbered.place(place);
            add_counts(sums.counts.entry(place).or_default(), counts);
        }
    }
}

impl Run {
    /// Adds another run, made at another time or elsewhere: from the first beginning to the last end.
    fn add_apart(&mut self, other: Self) {
        let Self {
            started,
            wall,
            target_cpu,
            host_cpu,
            status: _,
            dropped,
            undercount,
            waits,
            wait_time,
            detach,
        } = other;
        let ended = |started: u64, wall| started.saturating_add(wall);
        let end = ended(self.started, self.wall).max(ended(started, wall));
        self.started = self.started.min(started);
        self.wall = end - self.started;
        for (sum, more) in [
            (&mut self.target_cpu, target_cpu),
            (&mut self.host_cpu, host_cpu),
            (&mut self.dropped, dropped),
            (&mut self.undercount, undercount),
            (&mut self.waits, waits),
            (&mut self.wait_time, wait_time),
        ] {
            *sum = sum.saturating_add(more);
        }
        add_reasons(&mut self.detach, detach);
    }
}

/// Takes away intervals of messages: they are the course of one run.
fn forget_intervals(queries: &mut [Queries]) {
    let services = queries.iter_mut().flat_map(|asked| &mut asked.services);
    services.for_each(|served| served.intervals = None);
}

/// Each once, in order, and not more than are kept.
fn add_reasons(reasons: &mut Vec<String>, more: Vec<String>) {
    reasons.extend(more);
    reasons.sort_unstable();
    reasons.dedup();
    reasons.truncate(REASONS);
}

/// Returns the number of first words that two commands have in common.
fn common(a: &[Vec<u8>], b: &[Vec<u8>]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::Vaddr;

    fn module(id: u16, path: &str) -> Module {
        Module {
            id: ModuleId(id),
            path: path.into(),
            ..Module::default()
        }
    }

    /// A profile of modules, in which a branch of `/b` goes to `/b` or to `/a`.
    fn profile(modules: [&str; 2], there: u64, elsewhere: u64) -> Profile {
        let id = |path| ModuleId(1 + modules.iter().position(|m| *m == path).expect("one") as u16);
        let at = |path, at| Place::new(id(path), Vaddr(at));
        let mut to = vec![(at("/b", 8).word(), there), (at("/a", 4).word(), elsewhere)];
        to.sort_unstable();
        let edges = KindProfile {
            seen: there + elsewhere,
            messages: there + elsewhere,
            counts: [(at("/b", 2), to)].into(),
        };
        let values = KindProfile {
            counts: [(at("/a", 1), vec![(there, 1), (100, 5)])].into(),
            ..KindProfile::default()
        };
        Profile {
            modules: vec![
                module(0, "[anon]"),
                module(1, modules[0]),
                module(2, modules[1]),
            ],
            kinds: [(Kind::Edge, edges), (Kind::Value, values)].into(),
            sites: [(at("/b", 2), Site::IndirectJump)].into(),
            ..Profile::default()
        }
    }

    #[test]
    fn the_same_file_is_the_same_place_whatever_its_number() {
        let mut merged = Merged::new(profile(["/a", "/b"], 3, 4));
        merged.add(profile(["/b", "/a"], 10, 20));
        assert_eq!(merged.processes(), 2);
        let sum = merged.profile();
        let mut expect = profile(["/a", "/b"], 13, 24);
        let values = expect.kinds.get_mut(&Kind::Value).expect("there");
        let at = Place::new(ModuleId(1), Vaddr(1));
        values.counts.insert(at, vec![(3, 1), (10, 1), (100, 10)]);
        assert_eq!(sum.kinds, expect.kinds);
        assert_eq!(sum.modules, expect.modules);
        assert_eq!(sum.sites, expect.sites);
        assert_eq!(sum.threads.started, 2);
    }

    #[test]
    fn a_file_of_one_process_alone_gets_a_number_of_its_own() {
        let mut merged = Merged::new(profile(["/a", "/b"], 1, 1));
        let mut other = profile(["/b", "/a"], 1, 1);
        other.modules[2].build_id = vec![1];
        merged.add(other);
        let sum = merged.profile();
        assert_eq!(sum.modules.len(), 4);
        assert_eq!(sum.modules[3].id, ModuleId(3));
        let edges = &sum.kinds[&Kind::Edge].counts[&Place::new(ModuleId(2), Vaddr(2))];
        let to = |module| Place::new(ModuleId(module), Vaddr(4)).word();
        assert!(edges.contains(&(to(1), 1)) && edges.contains(&(to(3), 1)));
    }

    #[test]
    fn files_without_build_ids_are_the_same_where_their_code_is() {
        let of = |code, only: &str| {
            let mut profile = profile(["/a", "/b"], 1, 1);
            profile.modules[1].code = Some(code);
            profile.scope.only.push(only.to_owned());
            profile
        };
        let mut merged = Merged::new(of(1, "f"));
        merged.add(of(1, "g"));
        merged.add(of(2, "f"));
        let sum = merged.profile();
        let codes: Vec<_> = sum.modules.iter().map(|m| m.code).collect();
        assert_eq!(codes, [None, Some(1), None, Some(2)]);
        assert_eq!(sum.scope.only, ["f", "g"]);
    }
}
