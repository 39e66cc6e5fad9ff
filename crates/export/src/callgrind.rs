//! Callgrind's format, for KCachegrind and `callgrind_annotate`.
//!
//! Instructions, calls and jumps of each instruction. Self instructions are those that were executed. Inclusive ones are those of
//! exact contexts ([`crate::contexts`]) where the profile has some, else shares by calls ([`crate::graph`]), as the description in the file says. Jumps to the start of another function, such as tail calls, are
//! written as calls, as Valgrind has them. Jumps into its midst, such as those of exceptions and of `longjmp`, are left out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::rc::Rc;

use trommel_code::{Exact, Program};
use trommel_profile::Profile;
use trommel_profile::call_tree::Basis;
use trommel_symbol::Code;
use trommel_tuple::{ModuleId, Place};

use crate::contexts::{Call, Contexts};
use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::graph::{Graph, Inclusive, Node};
use crate::input::Input;
use crate::lines::{
    Lines, by_function, command, events, instructions, name, span_of, unknown_file,
};
use crate::view::{ModuleFlow, Straight, Transfer, Way};

/// The format.
pub(crate) struct Callgrind;

impl Format for Callgrind {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn about(&self) -> &'static str {
        "instructions, calls and jumps, for KCachegrind"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn has_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "callgrind"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("callgrind_annotate {file}")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut functions = Functions::new(input.program);
        let mut parts = Vec::new();
        for (module, code, flow) in input.flows(self.name())? {
            let lines = Lines::of(input.symbols, &flow);
            let part = Part {
                module,
                code,
                flow,
                lines,
            };
            functions.add(input, &part);
            parts.push(part);
        }
        functions.find_entered(&parts);
        let late = functions.late(&parts);
        let graph = functions.graph(&parts, &late);
        let contexts = functions.contexts(input.profile, &parts, (&graph, &late));
        let mut writer = Writer {
            out,
            contexts,
            names: Names::default(),
            inclusive: Inclusive::of(&graph),
            functions: &functions,
            late,
            at: Position::default(),
        };
        writer.header(input, &parts)?;
        for part in &parts {
            writer.part(part)?;
        }
        Ok(())
    }
}

/// A module that is written.
struct Part<'c> {
    module: ModuleId,
    code: Code<'c>,
    flow: ModuleFlow,
    lines: Lines,
}

/// An executed function.
struct Function {
    name: String,
    object: Rc<str>,
    file: Rc<str>,
    /// Its first line; 0 where that is not known.
    line: u32,
    straights: Vec<Straight>,
    /// It is a stub of a function in another module.
    stub: bool,
}

/// All executed functions.
struct Functions<'p> {
    program: &'p Program,
    nodes: HashMap<(ModuleId, Option<usize>), Node>,
    all: Vec<Function>,
    /// Functions that were called, or jumped to at their start.
    entered: HashSet<Node>,
}

impl<'p> Functions<'p> {
    fn new(program: &'p Program) -> Self {
        Self {
            program,
            nodes: HashMap::new(),
            all: Vec::new(),
            entered: HashSet::new(),
        }
    }

    fn add(&mut self, input: &Input<'_, '_>, part: &Part<'_>) {
        let object: Rc<str> = input.path(part.module).into();
        let Some(code) = self.program.modules.get(&part.module) else {
            return;
        };
        for (span, straights) in by_function(&code.spans, &part.flow) {
            self.nodes.insert((part.module, span), self.all.len());
            let whole = span.and_then(|n| code.spans.all().get(n));
            let start = whole.and_then(|span| part.lines.at(span.range.start));
            let first = start.or_else(|| straights.iter().find_map(|s| part.lines.at(s.start)));
            self.all.push(Function {
                name: name(&object, &code.spans, span),
                object: Rc::clone(&object),
                file: first.map_or_else(unknown_file, |(file, _)| Rc::clone(file)),
                line: first.map_or(0, |(_, line)| line),
                straights: straights.into_iter().copied().collect(),
                stub: whole.is_some_and(|span| span.stub),
            });
        }
    }

    fn node(&self, place: Place) -> Option<Node> {
        let spans = &self.program.modules.get(&place.module())?.spans;
        let span = span_of(spans, place.vaddr().0);
        self.nodes.get(&(place.module(), span)).copied()
    }

    /// The functions that a transfer leaves and enters, where it counts as a call.
    fn call(&self, transfer: &Transfer) -> Option<(Node, Node)> {
        let (from, to) = (self.node(transfer.from)?, self.node(transfer.to)?);
        let is = match transfer.way {
            Way::Call => true,
            Way::Back => false,
            _ if from == to || self.is_resolver(from) => false,
            _ if self.is_start(transfer.to) => true,
            Way::Indirect => false,
            // A part of a function, such as `f.cold`, may be entered in its midst alone.
            _ => !self.entered.contains(&to),
        };
        is.then_some((from, to))
    }

    /// Returns true of the first instruction of a function, and of code whose functions are not known.
    fn is_start(&self, place: Place) -> bool {
        let Some(code) = self.program.modules.get(&place.module()) else {
            return true;
        };
        let at = place.vaddr().0;
        let span = span_of(&code.spans, at).and_then(|n| code.spans.all().get(n));
        span.is_none_or(|span| span.range.start == at)
    }

    fn find_entered(&mut self, parts: &[Part<'_>]) {
        for transfer in parts.iter().flat_map(|part| &part.flow.transfers) {
            let enters = match transfer.way {
                Way::Call => true,
                Way::Back => false,
                _ => {
                    self.node(transfer.from) != self.node(transfer.to) && self.is_start(transfer.to)
                }
            };
            if let Some(to) = self.node(transfer.to).filter(|_| enters) {
                self.entered.insert(to);
            }
        }
    }

    /// Returns true of the loader's function that a stub reaches the first time, and which goes on to what the stub calls. As a caller
    /// it would join all functions that are called late in one cycle.
    fn is_resolver(&self, node: Node) -> bool {
        self.all[node].name.starts_with("_dl_runtime_resolve")
    }

    /// Calls that went from a stub through the resolver: stub and function, where the names tell which.
    fn late(&self, parts: &[Part<'_>]) -> BTreeMap<Node, (Node, Place)> {
        let mut reached: BTreeMap<Node, (u64, Place)> = BTreeMap::new();
        for transfer in parts.iter().flat_map(|part| &part.flow.transfers) {
            let ends = (self.node(transfer.from), self.node(transfer.to));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            if self.is_resolver(from) && !matches!(transfer.way, Way::Call | Way::Back) {
                let (count, _) = reached.entry(to).or_insert((0, transfer.to));
                *count += transfer.count;
            }
        }
        let mut stubs: HashMap<&str, Vec<Node>> = HashMap::new();
        for (node, function) in self.all.iter().enumerate() {
            if let Some(of) = function.name.strip_suffix("@plt") {
                stubs.entry(of).or_default().push(node);
            }
        }
        let mut late = BTreeMap::new();
        for (to, (count, place)) in reached {
            let of = stubs.get(&*self.all[to].name).map_or(&[][..], |of| of);
            // Each stub comes this way once.
            if of.len() as u64 == count {
                late.extend(of.iter().map(|stub| (*stub, (to, place))));
            }
        }
        late
    }

    /// All calls: those of the parts, each where it begins, and those that the loader resolved late.
    fn calls<'a>(
        &'a self,
        parts: &'a [Part<'_>],
        late: &'a BTreeMap<Node, (Node, Place)>,
    ) -> impl Iterator<Item = Call> + 'a {
        let recorded = parts.iter().flat_map(move |part| {
            let own = part.flow.transfers.iter();
            own.filter(|t| part.flow.has(t.from))
                .filter_map(move |transfer| {
                    let (from, to) = self.call(transfer)?;
                    Some(Call {
                        at: Some(transfer.from),
                        from,
                        to,
                        count: transfer.count,
                    })
                })
        });
        let resolved = late.iter().map(|(&from, &(to, _))| Call {
            at: None,
            from,
            to,
            count: 1,
        });
        recorded.chain(resolved)
    }

    /// Inclusive instructions of calls, where the profile has exact contexts.
    fn contexts(
        &self,
        profile: &Profile,
        parts: &[Part<'_>],
        (graph, late): (&Graph, &BTreeMap<Node, (Node, Place)>),
    ) -> Option<Contexts> {
        let tree = profile.call_tree(Basis::Contexts)?;
        let mut contexts = Contexts::of(tree, |at| self.node(at));
        let is_stub = |node: Node| self.all[node].stub;
        for call in self.calls(parts, late) {
            contexts.add(call, graph, is_stub);
        }
        Some(contexts)
    }

    fn graph(&self, parts: &[Part<'_>], late: &BTreeMap<Node, (Node, Place)>) -> Graph {
        let own = |f: &Function| {
            let each = f.straights.iter().map(|s| Exact::from(instructions_of(s)));
            each.fold(Exact::default(), Exact::plus)
        };
        let mut calls: BTreeMap<(Node, Node), u64> = BTreeMap::new();
        for call in self.calls(parts, late) {
            let sum = calls.entry((call.from, call.to)).or_default();
            *sum = sum.saturating_add(call.count);
        }
        let mut signals: BTreeMap<Node, u64> = BTreeMap::new();
        for part in parts {
            for &(at, count) in &part.flow.delivered {
                let at = Place::new(part.flow.module, trommel_tuple::Vaddr(at));
                if let Some(to) = self.node(at) {
                    *signals.entry(to).or_default() += count;
                }
            }
        }
        Graph {
            own: self.all.iter().map(own).collect(),
            calls,
            signals,
        }
    }
}

fn instructions_of(line: &Straight) -> u64 {
    line.count.saturating_mul(line.instructions.into())
}

/// Numbers of names that were written before.
#[derive(Default)]
struct Names {
    objects: HashMap<String, usize>,
    files: HashMap<String, usize>,
    functions: HashMap<String, usize>,
}

/// A name, compressed: with its number, and the text the first time.
fn compressed(known: &mut HashMap<String, usize>, text: &str) -> String {
    let next = known.len() + 1;
    match known.get(text) {
        Some(number) => format!("({number})"),
        None => {
            known.insert(text.to_owned(), next);
            format!("({next}) {text}")
        }
    }
}

/// The object and file that lines are of.
#[derive(Default)]
struct Position {
    object: Rc<str>,
    file: Rc<str>,
}

struct Writer<'w, 'p> {
    out: &'w mut dyn Write,
    names: Names,
    inclusive: Inclusive,
    contexts: Option<Contexts>,
    functions: &'w Functions<'p>,
    late: BTreeMap<Node, (Node, Place)>,
    at: Position,
}

impl Writer<'_, '_> {
    fn header(&mut self, input: &Input<'_, '_>, parts: &[Part<'_>]) -> io::Result<()> {
        let command = command(input.profile);
        let total = parts
            .iter()
            .map(|part| part.flow.executed())
            .fold(0, u64::saturating_add);
        let inclusive = match self.contexts {
            Some(_) => "exact, by calling contexts; of stubs, shares by calls",
            None => "shares of each function by the calls of its callers",
        };
        write!(
            self.out,
            "# callgrind format\nversion: 1\ncreator: trommel\ncmd: {command}\n\
             desc: Inclusive: {inclusive}\n\
             positions: instr line\n{}\nsummary: {total}\n\n",
            events(input.profile)
        )
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        let mut leaving: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
        for transfer in part.flow.transfers.iter().filter(|t| part.flow.has(t.from)) {
            leaving
                .entry(transfer.from.vaddr().0)
                .or_default()
                .push(transfer);
        }
        let of_module = |(module, _): &(ModuleId, Option<usize>)| *module == part.module;
        let mut nodes: Vec<Node> = (self.functions.nodes.iter())
            .filter(|(key, _)| of_module(key))
            .map(|(_, node)| *node)
            .collect();
        nodes.sort_unstable();
        for node in nodes {
            self.function(node, part, &leaving)?;
        }
        Ok(())
    }

    fn function(
        &mut self,
        node: Node,
        part: &Part<'_>,
        leaving: &BTreeMap<u64, Vec<&Transfer>>,
    ) -> io::Result<()> {
        let functions = self.functions;
        let function = &functions.all[node];
        if self.at.object != function.object {
            let object = compressed(&mut self.names.objects, &function.object);
            writeln!(self.out, "ob={object}")?;
        }
        let file = compressed(&mut self.names.files, &function.file);
        let called = compressed(&mut self.names.functions, &function.name);
        writeln!(self.out, "fl={file}\nfn={called}")?;
        self.at = Position {
            object: Rc::clone(&function.object),
            file: Rc::clone(&function.file),
        };
        for straight in &function.straights {
            for instruction in instructions(&part.code, straight) {
                let at = instruction.ip();
                let line = self.line(part, function, at)?;
                writeln!(self.out, "{at:#x} {line} {}", straight.count)?;
                if at == straight.last {
                    for transfer in leaving.get(&at).into_iter().flatten() {
                        self.transfer(part, transfer, straight, line)?;
                    }
                    if let Some((to, place)) = self.late.remove(&node) {
                        let call = Call {
                            at: None,
                            from: node,
                            to,
                            count: 1,
                        };
                        self.called(call, (at, line), place.vaddr().0)?;
                    }
                }
            }
        }
        writeln!(self.out)
    }

    /// The line of an instruction, after a change of file where it is of another one.
    fn line(&mut self, part: &Part<'_>, function: &Function, at: u64) -> io::Result<u32> {
        let Some((file, line)) = part.lines.at(at) else {
            return Ok(0);
        };
        if *self.at.file != **file {
            let way = if **file == *function.file { "fe" } else { "fi" };
            let name = compressed(&mut self.names.files, file);
            writeln!(self.out, "{way}={name}")?;
            self.at.file = Rc::clone(file);
        }
        Ok(line)
    }

    /// Writes calls of one function by another.
    fn called(&mut self, call: Call, (at, line): (u64, u32), to: u64) -> io::Result<()> {
        let Call {
            from,
            to: callee,
            count,
            ..
        } = call;
        let cost = match &self.contexts {
            Some(contexts) => contexts.of_calls(call, &self.inclusive),
            None => self.inclusive.of_calls(from, callee, count).whole(),
        };
        let callee = &self.functions.all[callee];
        if callee.object != self.at.object {
            let object = compressed(&mut self.names.objects, &callee.object);
            writeln!(self.out, "cob={object}")?;
        }
        let file = compressed(&mut self.names.files, &callee.file);
        let name = compressed(&mut self.names.functions, &callee.name);
        writeln!(self.out, "cfi={file}\ncfn={name}")?;
        writeln!(
            self.out,
            "calls={count} {to:#x} {}\n{at:#x} {line} {cost}",
            callee.line
        )
    }

    fn transfer(
        &mut self,
        part: &Part<'_>,
        transfer: &Transfer,
        straight: &Straight,
        line: u32,
    ) -> io::Result<()> {
        let (at, to) = (transfer.from.vaddr().0, transfer.to.vaddr().0);
        let Transfer { count, way, .. } = *transfer;
        if let Some((from, callee)) = self.functions.call(transfer) {
            let call = Call {
                at: Some(transfer.from),
                from,
                to: callee,
                count,
            };
            return self.called(call, (at, line), to);
        }
        let target = part.lines.at(to).map_or(0, |(_, line)| line);
        let leaves = self.functions.node(transfer.from) != self.functions.node(transfer.to);
        match way {
            _ if leaves => Ok(()),
            Way::Taken => writeln!(
                self.out,
                "jcnd={count}/{} {to:#x} {target}\n{at:#x} {line}",
                straight.count
            ),
            Way::Jump | Way::Indirect => {
                writeln!(self.out, "jump={count} {to:#x} {target}\n{at:#x} {line}")
            }
            Way::NotTaken | Way::Fall | Way::Back | Way::Call => Ok(()),
        }
    }
}
