//! A profile in the order that reports show it: hottest first, with names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use trommel_code::{
    Acyclic, Inlined, Parameter, Program, REGISTERS, Upkeep, Use, acyclic, forwarded_by,
    parameters, upkeep, usage,
};
use trommel_export::{CallPaths, Names};
use trommel_profile::call_tree;
use trommel_profile::confidence::{Basis, Confidence, Executions};
use trommel_profile::coverage::Extent;
use trommel_profile::filter::Filtered;
use trommel_profile::limits::{LEVEL, Limits};
use trommel_profile::sampled::Sampled;
use trommel_profile::{Module, Profile, Site};
use trommel_symbol::{Code, Location, Symbols, is_named, readable, readable_of_engine};
use trommel_tuple::{Ended, Kind, ModuleId, Outcomes, Place, Tuple, Vaddr};

use super::places::Places;
use crate::find;
use crate::output::command_line;
use crate::shown::{Addresses, short, shown};

/// Branches and calls by the vaddrs in a module that they lead to, hottest first.
pub(crate) type Arrivals = BTreeMap<u64, Vec<Transfer>>;

/// A profile and the names of its places.
pub(crate) struct View<'p> {
    pub(crate) profile: &'p Profile,
    modules: HashMap<ModuleId, &'p Module>,
    symbols: Symbols<'p>,
    names: Names,
    confidence: Confidence,
    /// Code of modules whose values were shown.
    code: HashMap<ModuleId, Option<Code<'p>>>,
    /// Arrivals of modules whose functions were shown.
    arrivals: HashMap<ModuleId, Rc<Arrivals>>,
    /// Uses of values, by the instructions that load them.
    uses: HashMap<Place, Option<Use>>,
    /// Functions that calls of a place lead to, and their parameters.
    called: HashMap<Place, Place>,
    /// Addresses of modules that nothing writes.
    fixed: HashMap<ModuleId, Rc<[Range<u64>]>>,
    parameters: HashMap<Place, Option<[Option<Parameter>; REGISTERS.len()]>>,
    /// Names of JIT-compiled code: engines make them for people, and not as compilers do.
    compiled: HashSet<&'p [u8]>,
    /// Names are shown with all that compilers put into them.
    pub(crate) full_names: bool,
    /// Functions that were inlined are shown by themselves.
    pub(crate) expands: bool,
    /// Places that JSON has in one table.
    pub(crate) places: Option<Places>,
}

/// A branch or call with one of its destinations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    pub(crate) from: Place,
    pub(crate) to: Place,
    /// taken, fallthrough, indirect; direct, indirect.
    pub(crate) how: &'static str,
    pub(crate) count: u64,
}

/// An instruction with the values it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Values<'p> {
    kind: Kind,
    pub(crate) at: Place,
    /// Executions, as far as they are known.
    pub(crate) executions: u64,
    /// Executions that the values are of.
    pub(crate) profiled: u64,
    /// Set where the place was not profiled all the time.
    pub(crate) filtered: Option<Filtered>,
    counts: &'p [(u64, u64)],
}

impl Values<'_> {
    /// Returns the kind of the events.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns true if there were more executions, and how many is not known.
    pub(crate) fn has_more(&self) -> bool {
        self.filtered.is_some_and(|f| f.unprofiled.is_none())
    }

    /// Returns the number of values.
    pub(crate) fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// The `n` most frequent values with their counts, most frequent first.
    pub(crate) fn top(&self, n: usize) -> Vec<(u64, u64)> {
        let key = |&(value, count): &(u64, u64)| (Reverse(count), value);
        let mut all = self.counts.to_vec();
        if n > 0 && n < all.len() {
            all.select_nth_unstable_by_key(n - 1, key);
        }
        all.truncate(n);
        all.sort_unstable_by_key(key);
        all
    }

    /// Its values in order, with their counts.
    pub(crate) const fn counts(&self) -> &[(u64, u64)] {
        self.counts
    }

    /// The position of a value among all of the instruction's.
    pub(crate) fn position(&self, value: u64) -> usize {
        let found = self.counts.iter().position(|(v, _)| *v == value);
        found.unwrap_or_default()
    }

    /// The count of the most frequent value.
    pub(crate) fn most(&self) -> u64 {
        self.counts
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    }
}

/// The name of a file, without its directory.
fn file_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

impl Addresses for View<'_> {
    fn name_of_address(&mut self, address: u64) -> Option<String> {
        Self::name_of_address(self, address)
    }

    fn text_at(&self, address: u64) -> Option<String> {
        Self::text_at(self, address)
    }
}

impl<'p> View<'p> {
    pub(crate) fn new(profile: &'p Profile, symbols: Symbols<'p>, confidence: Confidence) -> Self {
        let modules = profile.modules.iter().map(|m| (m.id, m)).collect();
        Self {
            profile,
            modules,
            symbols,
            names: Names::new(profile),
            confidence,
            code: HashMap::new(),
            arrivals: HashMap::new(),
            uses: HashMap::new(),
            called: HashMap::new(),
            fixed: HashMap::new(),
            parameters: HashMap::new(),
            compiled: profile.compiled.iter().map(|f| &f.name[..]).collect(),
            full_names: false,
            expands: false,
            places: None,
        }
    }

    /// The branches or calls, hottest first.
    pub(crate) fn transfers(&self, kind: Kind) -> Vec<Transfer> {
        let mut all = Vec::new();
        if let Some(data) = self.profile.kinds.get(&kind) {
            for (&from, targets) in &data.counts {
                for &(to, count) in targets {
                    let to = Place::from_word(to);
                    let how = Site::way(self.profile.sites.get(&from), kind, to);
                    all.push(Transfer {
                        from,
                        to,
                        how,
                        count,
                    });
                }
            }
        }
        all.sort_unstable_by_key(|t| (Reverse(t.count), t.from, t.to));
        all
    }

    /// The branches and calls that lead into a module. They are gathered once.
    pub(crate) fn arrivals(&mut self, module: ModuleId) -> Rc<Arrivals> {
        if let Some(known) = self.arrivals.get(&module) {
            return known.clone();
        }
        let mut into = Arrivals::new();
        for kind in [Kind::Edge, Kind::Call] {
            let there = self.transfers(kind).into_iter();
            for transfer in there.filter(|t| t.to.module() == module) {
                let at = transfer.to.vaddr().0;
                into.entry(at).or_default().push(transfer);
            }
        }
        let into = Rc::new(into);
        self.arrivals.insert(module, into.clone());
        into
    }

    /// The instructions with values, most executed first.
    pub(crate) fn values(&self, kind: Kind) -> Vec<Values<'p>> {
        let mut all = Vec::new();
        if let Some(data) = self.profile.kinds.get(&kind) {
            for (&at, counts) in &data.counts {
                all.push(self.values_of(kind, at, counts));
            }
        }
        all.sort_unstable_by_key(|v| (Reverse(v.executions), v.at));
        all
    }

    /// The values of one instruction, if it has any; of branches and calls, where they went.
    pub(crate) fn values_at(&self, kind: Kind, at: Place) -> Option<Values<'p>> {
        let counts = self.profile.kinds.get(&kind)?.counts.get(&at)?;
        Some(self.values_of(kind, at, counts))
    }

    fn values_of(&self, kind: Kind, at: Place, counts: &'p [(u64, u64)]) -> Values<'p> {
        let sum = |sum: u64, (_, count): &(u64, u64)| sum.saturating_add(*count);
        // Of those seen in windows only hot values are known.
        let sampled = self.profile.windows.as_ref().and_then(|w| w.at(kind, at));
        let executions = match sampled {
            Some(sampled) => (sampled.executions.round() as u64).max(1),
            None => counts.iter().fold(0, sum),
        };
        let filter = self.profile.filter.as_ref();
        let filtered = filter.and_then(|filter| filter.places.get(&at).copied());
        let unprofiled = filtered.and_then(|f| f.unprofiled).unwrap_or(0);
        Values {
            kind,
            at,
            executions: executions.saturating_add(unprofiled),
            profiled: executions,
            filtered,
            counts,
        }
    }

    /// Returns what the limits of counts rest on.
    pub(crate) const fn basis(&self) -> Basis {
        self.confidence.basis()
    }

    /// Returns how much of the program the profile has seen.
    pub(crate) fn extent(&mut self) -> Extent {
        Extent::of(self.profile, &mut self.confidence)
    }

    /// Returns true if counts have limits: they are estimated, and something is known.
    pub(crate) const fn has_limits(&self) -> bool {
        !matches!(self.basis(), Basis::Exact | Basis::Unknown)
    }

    /// Says how often limits hold, and what they assume.
    pub(crate) fn about_limits(&self) -> String {
        format!(
            "hold in {:.0} of 100 entries, assuming {}",
            100.0 * LEVEL,
            self.basis().assumes()
        )
    }

    /// Returns what is known of the samples at an instruction, where windows were taken.
    pub(crate) fn sampled(&self, kind: Kind, at: Place) -> Option<&'p Sampled> {
        self.profile.windows.as_ref()?.at(kind, at)
    }

    /// The limits of a transfer's count.
    pub(crate) fn limits(&mut self, transfer: &Transfer) -> Option<Limits> {
        if let Some(windows) = &self.profile.windows {
            let kind = match self.profile.sites.get(&transfer.from) {
                Some(Site::DirectCall | Site::IndirectCall) => Kind::Call,
                _ => Kind::Edge,
            };
            let sampled = windows.at(kind, transfer.from)?;
            let share = transfer.count as f64 / sampled.executions.max(1.0);
            return Some(sampled.limits_of(share.min(1.0)));
        }
        self.limits_of(transfer.from, transfer.to.word(), transfer.count)
    }

    /// The limits of a tuple's count, where no windows were taken.
    pub(crate) fn limits_of(&mut self, at: Place, value: u64, count: u64) -> Option<Limits> {
        let limits = self.confidence.count(Tuple::new(at, value), count);
        limits.filter(|_| self.has_limits())
    }

    /// An acyclic path as code, where that is there.
    pub(crate) fn acyclic(
        &mut self,
        at: Place,
        outcomes: &Outcomes,
        end: Ended,
    ) -> Option<Acyclic> {
        acyclic(self.code(at.module())?, at.vaddr().0, outcomes, end)
    }

    /// Returns where control goes; within a function its offset is enough.
    pub(crate) fn destination(&mut self, from: Place, to: Place) -> String {
        let (here, there) = (self.locate(from), self.locate(to));
        let same = here.function.is_some() && here.function == there.function;
        if same && from.module() == to.module() && there.offset > 0 {
            return format!("+{:#x}", there.offset);
        }
        let name = self.name(to);
        if there.function.is_some() && from.module() != to.module() {
            return format!("{name} [{}]", self.module(to));
        }
        name
    }

    /// The limits of an instruction's executions and values.
    pub(crate) fn executions(&mut self, values: &Values<'_>) -> Option<Executions> {
        if let Some(windows) = &self.profile.windows {
            let sampled = windows.at(values.kind, values.at)?;
            return Some(Executions::of_windows(sampled, values.counts));
        }
        if !self.has_limits() {
            return None;
        }
        let tuple = |&(value, count): &(u64, u64)| (Tuple::new(values.at, value), count);
        let tuples: Vec<_> = values.counts.iter().map(tuple).collect();
        self.confidence.values(&tuples)
    }

    /// Returns what stands at `place`.
    pub(crate) fn locate(&mut self, place: Place) -> Rc<Location> {
        self.symbols.locate(place)
    }

    /// The symbols.
    pub(crate) const fn symbols(&self) -> &Symbols<'p> {
        &self.symbols
    }

    /// The call paths of a basis, as functions.
    pub(crate) fn call_paths(&mut self, basis: call_tree::Basis) -> Option<CallPaths<'p>> {
        CallPaths::of(self.profile, basis, &mut self.symbols)
    }

    /// The same with the functions that were inlined into contexts.
    pub(crate) fn expanded_paths(
        &mut self,
        basis: call_tree::Basis,
        derived: Option<(&Program, &Inlined)>,
    ) -> Option<CallPaths<'p>> {
        CallPaths::inlined(self.profile, basis, &mut self.symbols, derived)
    }

    /// Divides the functions of a program by those that were inlined.
    pub(crate) fn inlined(&mut self, program: &Program) -> Inlined {
        Inlined::new(program, &mut self.symbols)
    }

    /// The functions inlined at a place, innermost first, in full.
    pub(crate) fn inlined_at(&mut self, place: Place) -> Vec<Rc<str>> {
        self.symbols.inlined(place)
    }

    /// Returns how to see the code around the first of these places that a function's name is known of.
    pub(crate) fn next(
        &mut self,
        file: &Path,
        places: impl Iterator<Item = Place>,
    ) -> Option<String> {
        /// Further ones are not hot.
        const MOST: usize = 20;
        let name = places.take(MOST).find_map(|place| {
            let location = self.locate(place);
            let name = location.function.as_deref()?;
            let stub = name.ends_with("@plt") || self.profile_has_no_file(place);
            (!stub).then(|| name.to_owned())
        })?;
        Some(self.annotate(file, name))
    }

    /// The command that shows the code of a function.
    pub(crate) fn annotate(&self, file: &Path, name: String) -> String {
        let file = (file != Path::new(trommel_store::DEFAULT_FILE)).then_some(file);
        let file = file.map(|file| file.as_os_str().as_bytes().to_vec());
        let name = self.typed(name);
        let words = ["trommel", "annotate"].map(|word| word.as_bytes().to_vec());
        let words = words.into_iter().chain(file).chain([name.into_bytes()]);
        command_line(&words.collect::<Vec<_>>())
    }

    /// The name of a function as tables show it, where `annotate` finds it by that.
    fn typed(&self, name: String) -> String {
        let short = readable(&name);
        match short != name && find::means(self.profile, &self.symbols, &short, &name) {
            true => short,
            false => name,
        }
    }

    fn profile_has_no_file(&self, place: Place) -> bool {
        let module = self.modules.get(&place.module());
        module.is_none_or(|module| module.path.first() != Some(&b'/'))
    }

    /// Returns why a module has no names.
    pub(crate) fn problem(&self, module: ModuleId) -> Option<&str> {
        self.symbols.problem(module)
    }

    /// Returns the place of an address in the module of a path or file name; without a name, in the program itself.
    pub(crate) fn place_in(&self, name: Option<&str>, vaddr: u64) -> Option<Place> {
        let name = match name {
            Some(name) => name.into(),
            None => String::from_utf8_lossy(file_of(self.profile.command.first()?)),
        };
        let named = |module: &&Module| is_named(&module.path, &name);
        let module = self.profile.modules.iter().find(named)?;
        Some(Place::new(module.id, Vaddr(vaddr)))
    }

    /// `function+0x12`, or `module+0x1234` where no function is known.
    pub(crate) fn name(&mut self, place: Place) -> String {
        let location = self.locate(place);
        match &location.function {
            Some(function) if location.offset == 0 => self.shortened(function),
            Some(function) => {
                format!("{}+{:#x}", self.shortened(function), location.offset)
            }
            None => format!("{}+{:#x}", self.module(place), place.vaddr()),
        }
    }

    /// A function's name as tables show it.
    pub(crate) fn shortened(&self, function: &str) -> String {
        match self.full_names {
            true => function.to_owned(),
            false => short(&self.readable(function)),
        }
    }

    /// A function's name without return type, parameters and the like. What is in brackets is a module.
    pub(crate) fn readable(&self, function: &str) -> String {
        match self.compiled.contains(function.as_bytes()) {
            true => readable_of_engine(function),
            false if function.starts_with('[') => function.to_owned(),
            false => readable(function),
        }
    }

    /// Derives what each function did; `None` where the profile lacks branches or calls.
    pub(crate) fn program(&mut self) -> Option<Program> {
        Program::new(self.profile, &self.symbols, &mut self.confidence)
    }

    /// Returns what a value is the address of: a method table, a function, an object; `None` for others.
    pub(crate) fn name_of_address(&mut self, address: u64) -> Option<String> {
        let mut modules = self.profile.modules.iter();
        let (id, vaddr) = modules.find_map(|m| Some((m.id, m.loaded?.vaddr(address)?)))?;
        let location = self.locate(Place::new(id, vaddr));
        let function = location.function.as_deref()?;
        // Objects refer to their method table after its two words of type information.
        let class = function
            .strip_prefix("vtable for ")
            .filter(|_| location.offset == 16);
        Some(match (class, location.offset) {
            (Some(class), _) => class.to_owned(),
            (None, 0) => function.to_owned(),
            (None, offset) => format!("{function}+{offset:#x}"),
        })
    }

    /// The constant text that is at a run-time address.
    pub(crate) fn text_at(&self, address: u64) -> Option<String> {
        let mut modules = self.profile.modules.iter();
        let (id, vaddr) = modules.find_map(|m| Some((m.id, m.loaded?.vaddr(address)?)))?;
        self.symbols.text(id, vaddr.0)
    }

    /// A value that was loaded at `place`, in words: as the code there uses it.
    pub(crate) fn shown(&mut self, place: Place, value: u64) -> String {
        let used = match self.uses.get(&place) {
            Some(known) => *known,
            None => {
                let code = self.code(place.module());
                let found = code.and_then(|code| usage(code, place.vaddr().0));
                self.uses.insert(place, found);
                found
            }
        };
        shown(self, value, used)
    }

    /// Returns why the load at `place` is not one to specialise, where its code is there and tells that.
    pub(crate) fn upkeep(&mut self, place: Place) -> Option<Upkeep> {
        let module = place.module();
        if !self.fixed.contains_key(&module) {
            let fixed = self.symbols.fixed(module);
            self.fixed.insert(module, fixed.into());
        }
        let fixed = Rc::clone(self.fixed.get(&module)?);
        upkeep(self.code(module)?, &fixed, place.vaddr().0)
    }

    fn code(&mut self, module: ModuleId) -> Option<&Code<'p>> {
        let symbols = &self.symbols;
        let code = (self.code.entry(module)).or_insert_with(|| symbols.code(module).ok());
        code.as_ref()
    }

    /// The function that calls of a place lead to: of a stub's, where its jump went most.
    pub(crate) fn called(&mut self, target: Place) -> Place {
        if let Some(known) = self.called.get(&target) {
            return *known;
        }
        let code = self.code(target.module());
        let jump = code.and_then(|code| forwarded_by(code, target.vaddr().0));
        let goes = jump.and_then(|at| {
            let edges = self.profile.kinds.get(&Kind::Edge)?;
            let goes = edges.counts.get(&Place::new(target.module(), Vaddr(at)))?;
            let (to, _) = goes.iter().max_by_key(|(_, count)| *count)?;
            Some(Place::from_word(*to))
        });
        let called = goes.unwrap_or(target);
        self.called.insert(target, called);
        called
    }

    /// Returns what the function at a place takes in a register, if it does.
    pub(crate) fn parameter(&mut self, function: Place, register: u8) -> Option<Parameter> {
        if !self.parameters.contains_key(&function) {
            let code = self.code(function.module());
            let found = code.and_then(|code| parameters(code, function.vaddr().0));
            self.parameters.insert(function, found);
        }
        let all = self.parameters.get(&function)?.as_ref()?;
        *all.get(usize::from(register))?
    }

    /// The whole name of the function that a place is in; of one without a symbol, its module and start.
    pub(crate) fn of_function(&mut self, place: Place) -> Option<String> {
        let location = self.locate(place);
        match location.function.as_deref() {
            Some(name) => Some(name.to_owned()),
            None => {
                let by_start = self.names.by_start(&self.symbols, place);
                by_start.map(|name| name.to_string())
            }
        }
    }

    /// The function that a place is in, without an offset.
    pub(crate) fn function(&mut self, place: Place) -> String {
        let location = self.locate(place);
        let name = location.function.as_deref();
        name.map_or_else(|| self.module(place), |name| self.shortened(name))
    }

    /// The source file and line of an instruction.
    pub(crate) fn line(&mut self, place: Place) -> Option<(Rc<str>, u32)> {
        self.symbols.line(place)
    }

    /// The whole path of a module.
    pub(crate) fn path(&self, module: ModuleId) -> String {
        match self.modules.get(&module) {
            Some(module) => String::from_utf8_lossy(&module.path).into_owned(),
            None => self.module(Place::new(module, Vaddr(0))),
        }
    }

    /// `file.c:12`, or nothing.
    pub(crate) fn source(&mut self, place: Place) -> String {
        let location = self.locate(place);
        file_and_line(location.file.as_deref(), location.line)
    }

    /// The same of the function that a place is in, whatever was inlined there.
    pub(crate) fn outer_source(&mut self, place: Place) -> String {
        let location = self.locate(place);
        file_and_line(location.outer_file.as_deref(), location.outer_line)
    }

    /// The file name of the module that `place` is in.
    pub(crate) fn module(&self, place: Place) -> String {
        match self.modules.get(&place.module()) {
            Some(module) => {
                let path = String::from_utf8_lossy(&module.path);
                path.rsplit('/').next().unwrap_or(&path).to_owned()
            }
            None if place.module() == ModuleId::ANON => "[anon]".into(),
            None => format!("[module {}]", place.module().0),
        }
    }
}

/// `file.c:12`, or nothing.
fn file_and_line(file: Option<&str>, line: Option<u32>) -> String {
    let Some(file) = file else {
        return String::new();
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"))
}
