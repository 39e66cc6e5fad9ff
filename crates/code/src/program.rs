//! A whole profiled program, derived: the executed blocks of each module, and what each function did.
//!
//! # Strategy
//! [`Blocks`] of each module whose code is there; each block belongs to the function that it begins in. The *self* instructions of a
//! function are the sum over its blocks, so the sum over functions is what the program executed. Parts that compilers put
//! elsewhere (`f.cold`) belong to their function.
//!
//! Where code has no bytes, as JIT-compiled code has none, a function has at least its branches and calls.
//!
//! # Invariants
//! Each executed block belongs to one function. Code outside of all functions is one function of its module, without a name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Code, Spans, Symbols};
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::blocks::{Blocks, Returns};
use crate::count::Count;
use crate::exit::Exit;
use crate::returns::{WaysOut, never_returns};
use crate::transfers::Transfers;

/// Functions that raise exceptions, as they are named in files.
const RAISE: [&[u8]; 2] = [b"_Unwind_RaiseException", b"_Unwind_ForcedUnwind"];

/// Figures of one function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its module.
    pub module: ModuleId,
    /// Its name as it is in the file; empty where it has none.
    pub name: Vec<u8>,
    /// Its parts, the first one with its start; empty of code outside of all functions.
    pub ranges: Vec<Range<u64>>,
    /// True of a stub through which a library function is called.
    pub stub: bool,
    /// Instructions executed in it, callees not included.
    pub executed: Count,
    /// True if its code has no bytes: it executed at least its branches and calls.
    pub at_least: bool,
    /// Calls of it, and jumps to its start from elsewhere.
    pub calls: Count,
}

impl Function {
    /// The place where it begins, if it has one.
    pub fn start(&self) -> Option<Place> {
        let first = self.ranges.first()?;
        Some(Place::new(self.module, Vaddr(first.start)))
    }

    /// Bytes of all its parts.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }
}

/// The executed code of one module.
#[derive(Debug)]
pub struct ModuleCode {
    /// Its functions.
    pub spans: Rc<Spans>,
    /// Executed blocks. There are none where the code has no bytes, but their transfers are there.
    pub blocks: Blocks,
    /// True if the code has bytes.
    pub has_code: bool,
    /// The function of each span, by its number in [`Program::functions`], as far as it was executed.
    function_of: HashMap<Option<usize>, usize>,
}

/// A program, derived from its profile.
#[derive(Debug)]
pub struct Program {
    /// By module.
    pub modules: BTreeMap<ModuleId, ModuleCode>,
    /// Executed functions, most instructions first.
    pub functions: Vec<Function>,
}

impl Program {
    /// Derives it; `None` where the profile lacks branches or calls.
    pub fn new(
        profile: &Profile,
        symbols: &Symbols<'_>,
        confidence: &mut Confidence,
    ) -> Option<Self> {
        let mut functions = Vec::new();
        let mut modules = BTreeMap::new();
        for (module, transfers) in Transfers::of_modules(profile, confidence)? {
            let spans = symbols.spans(module);
            let code = symbols.code(module).ok();
            let derived = ModuleCode::new(module, symbols, spans, code.as_ref(), transfers);
            modules.insert(module, derived);
        }
        for (module, derived) in &mut modules {
            derived.add_up(*module, &mut functions);
        }
        let mut order: Vec<usize> = (0..functions.len()).collect();
        let key = |f: &Function| (f.module, f.ranges.first().map_or(0, |r| r.start));
        order.sort_by(|a, b| {
            let (a, b): (&Function, &Function) = (&functions[*a], &functions[*b]);
            (b.executed.times.total_cmp(&a.executed.times)).then_with(|| key(a).cmp(&key(b)))
        });
        let mut place = vec![0; order.len()];
        for (to, from) in order.iter().enumerate() {
            place[*from] = to;
        }
        for derived in modules.values_mut() {
            for function in derived.function_of.values_mut() {
                *function = place[*function];
            }
        }
        let functions = order.into_iter().map(|n| functions[n].clone()).collect();
        Some(Self { modules, functions })
    }

    /// Instructions that the program executed.
    pub fn executed(&self) -> Count {
        let all = self.functions.iter().map(|f| f.executed);
        all.reduce(Count::plus)
            .unwrap_or(Count::of_events(0.0, None))
    }

    /// Returns how often exceptions and `longjmp` ended calls that count as if they had come back: of a profile that does not tell how
    /// often code after calls was executed.
    pub fn left_early(&self, profile: &Profile) -> u64 {
        if profile.after_calls.is_some() {
            return 0;
        }
        let mut times = 0.0;
        // One `longjmp` calls another, in the same library.
        let mut jumps: BTreeMap<ModuleId, f64> = BTreeMap::new();
        for function in self.functions.iter().filter(|f| !f.stub) {
            let calls = function.calls.times;
            if RAISE.contains(&&*function.name) {
                times += calls;
            } else if [&b"longjmp"[..], b"longjmp_chk"]
                .iter()
                .any(|end| function.name.ends_with(end))
            {
                let most = jumps.entry(function.module).or_default();
                *most = most.max(calls);
            }
        }
        (times + jumps.values().sum::<f64>()).round() as u64
    }

    /// The number of the function that a place is in.
    pub fn function_of(&self, place: Place) -> Option<usize> {
        let module = self.modules.get(&place.module())?;
        let span = module.span_of(place.vaddr().0);
        module.function_of.get(&span).copied()
    }
}

impl ModuleCode {
    fn new(
        module: ModuleId,
        symbols: &Symbols<'_>,
        spans: Rc<Spans>,
        code: Option<&Code<'_>>,
        transfers: Transfers,
    ) -> Self {
        let ranges = spans.all().iter().map(|span| span.range.clone());
        let ranges: Vec<Range<u64>> = ranges.collect();
        let blocks = match code {
            Some(code) => {
                let mut returns = ByNames {
                    symbols,
                    spans: &spans,
                    ways_out: WaysOut::new(module, code, &ranges),
                    known: HashMap::new(),
                };
                Blocks::new(code, &ranges, transfers, &mut returns)
            }
            None => Blocks::without_code(transfers),
        };
        Self {
            spans,
            blocks,
            has_code: code.is_some(),
            function_of: HashMap::new(),
        }
    }

    /// The span of a function that an address is in: of a part, that of its function.
    fn span_of(&self, at: u64) -> Option<usize> {
        self.spans.find(at).map(|n| self.spans.whole(n))
    }

    /// Adds the functions of the module to `all`.
    fn add_up(&mut self, module: ModuleId, all: &mut Vec<Function>) {
        let mut found: HashMap<Option<usize>, Function> = HashMap::new();
        let empty = |span: Option<usize>, spans: &Spans, at_least: bool| {
            let of_span = span.map(|n| &spans.all()[n]);
            Function {
                module,
                name: of_span.map_or_else(Vec::new, |s| s.name.clone()),
                ranges: span.map_or_else(Vec::new, |n| spans.parts(n)),
                stub: of_span.is_some_and(|s| s.stub),
                executed: Count::of_events(0.0, None),
                at_least,
                calls: Count::of_events(0.0, None),
            }
        };
        let mut add = |at: u64, executed: Option<Count>, called: Option<Count>| {
            let span = self.span_of(at);
            let function =
                (found.entry(span)).or_insert_with(|| empty(span, &self.spans, !self.has_code));
            if let Some(count) = executed {
                function.executed = function.executed.plus(count);
            }
            if let Some(count) = called {
                function.calls = function.calls.plus(count);
            }
        };
        for block in self.blocks.all() {
            add(block.start, block.executed(), None);
            if let (Some(count), Some(to)) = (block.count, self.goes_over(block.last, block)) {
                add(to, None, Some(count));
            }
        }
        let transfers = &self.blocks.transfers;
        if !self.has_code {
            for (at, count) in &transfers.control {
                add(*at, Some(*count), None);
            }
        }
        for (&to, arrivals) in &transfers.into {
            let span = self.span_of(to);
            let starts = span.is_some_and(|n| self.spans.all()[n].range.start == to);
            for arrival in arrivals {
                let inside =
                    arrival.from.module() == module && self.span_of(arrival.from.vaddr().0) == span;
                if arrival.call || starts && !inside {
                    add(to, None, Some(arrival.count));
                }
            }
        }
        for (&at, &count) in &transfers.delivered {
            let span = self.span_of(at);
            if span.is_some_and(|n| self.spans.all()[n].range.start == at) {
                add(at, None, Some(count));
            }
        }
        for (span, function) in found {
            if function.executed.times > 0.0 || function.calls.times > 0.0 {
                self.function_of.insert(span, all.len());
                all.push(function);
            }
        }
    }

    /// The start of another function to which a block goes on without an event.
    fn goes_over(&self, from: u64, block: &crate::blocks::Block) -> Option<u64> {
        let to = match block.exit {
            Exit::Jump(to) => to,
            Exit::Next => block.end,
            _ => return None,
        };
        let span = self.span_of(to)?;
        let starts = self.spans.all()[span].range.start == to;
        (starts && self.span_of(from) != Some(span)).then_some(to)
    }
}

/// Returns what returns, by the code of a module and by the names of all.
struct ByNames<'s, 'f, 'c, 'a> {
    symbols: &'s Symbols<'f>,
    spans: &'s Spans,
    ways_out: WaysOut<'c, 'a>,
    known: HashMap<Place, bool>,
}

impl Returns for ByNames<'_, '_, '_, '_> {
    fn returns(&mut self, target: Place) -> bool {
        if let Some(known) = self.known.get(&target) {
            return *known;
        }
        let symbol = self.symbols.symbol(target);
        let named = symbol.filter(|(_, offset)| *offset == 0);
        let never = named.is_some_and(|(name, _)| never_returns(&String::from_utf8_lossy(&name)));
        let returns = !never && self.ways_out.can_leave(target);
        self.known.insert(target, returns);
        returns
    }

    fn ends_function(&self, at: u64) -> bool {
        self.spans.end_at(at)
    }
}
