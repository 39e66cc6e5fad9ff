//! Samples of instructions: those of one source position are a sample, with the functions inlined there.
//!
//! Values are the instructions and how often the straight line was executed. Events are samples of their own, with a count as third value.
//! Callers are not known: a profile with call paths has samples of these instead.
//!
//! Labels are `kind` (`block` of instructions, else the kind of event), `process`, and `thread` where a process had only one.
//!
//! # Invariant
//! Sums are those of the other formats, which derive all from the sum of the processes. What processes have by themselves may differ by a few
//! executions, as where a process was forked. So each has at most what is left of the sum, and the rest has no process.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use trommel_code::Program;
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Code, Location};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

use super::{Builder, Labels, Line, MOST};
use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{Lines, instructions, name, span_of};
use crate::process::Process;
use crate::view::{ModuleFlow, Straight};

/// The format.
pub(crate) struct Pprof;

impl Format for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "instructions of functions and lines, for go tool pprof"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn most(&self) -> u64 {
        MOST
    }

    fn tells_processes(&self) -> bool {
        true
    }

    fn has_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "pb.gz"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("go tool pprof -top {file}")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let flows = input.flows(self.name())?;
        let mut builder = Builder::new(out);
        let types = [
            (input.profile.unit().name(), "count"),
            ("executions", "count"),
            ("events", "count"),
        ];
        builder.sample_types(&types);
        let processes = Processes::new(input, &mut builder);
        for (number, (module, code, flow)) in flows.into_iter().enumerate() {
            let mapping = number as u64 + 1;
            let path = input.path(module);
            builder.mapping(input.module(module), &path, mapping);
            let lines = Lines::of(input.symbols, &flow);
            let shares = processes.of(module);
            let mut samples = Samples {
                builder: &mut builder,
                input,
                module,
                mapping,
                names: HashMap::new(),
                lines,
            };
            for line in &flow.lines {
                samples.line(&code, line, &shares);
            }
        }
        builder.finish((input.profile, input.processes), types[0], 1)
    }
}

/// Labels of each process, and of what is of none.
struct Processes<'i> {
    of: Vec<(&'i Process, Option<Program>)>,
    /// By process, the last ones of none: of instructions, and of each kind of event.
    labels: Vec<(Labels, Vec<(Kind, Labels)>)>,
}

impl<'i> Processes<'i> {
    fn new(input: &Input<'i, '_>, builder: &mut Builder<'_>) -> Self {
        // What is of none has no labels, and needs no program.
        let processes = input.processes.iter().filter(|process| !process.is_rest);
        let processes: Vec<&'i Process> = processes.collect();
        let mut labels: Vec<_> = processes.iter().map(|p| p.labels()).collect();
        labels.push(Vec::new());
        // Of acyclic paths the places are no instructions that have the event.
        let kinds = input.profile.kinds.keys();
        let kinds: Vec<Kind> = kinds.copied().filter(|kind| *kind != Kind::Path).collect();
        let mut of_kind =
            |own: &[(&str, &str)], kind| builder.labels(&[own, &[("kind", kind)]].concat());
        let labels = labels.iter().map(|own| {
            let own: Vec<(&str, &str)> = own.iter().map(|(key, text)| (*key, &**text)).collect();
            let events = kinds.iter().map(|kind| (*kind, of_kind(&own, kind.name())));
            let events = events.collect();
            (of_kind(&own, "block"), events)
        });
        let labels = labels.collect();
        let derive = |process: &'i Process| {
            let several = processes.len() > 1;
            let mut confidence = Confidence::of_processes(&process.profile, 2);
            let program = several
                .then(|| Program::new(&process.profile, input.symbols, &mut confidence))
                .flatten();
            (process, program)
        };
        Self {
            of: processes.iter().copied().map(derive).collect(),
            labels,
        }
    }

    /// The parts of a module's counts.
    fn of(&self, module: ModuleId) -> Shares<'_> {
        let flow = |program: &Option<Program>| ModuleFlow::new(program.as_ref()?, module);
        Shares {
            flows: self.of.iter().map(|(_, program)| flow(program)).collect(),
            profiles: self
                .of
                .iter()
                .map(|(process, _)| &process.profile)
                .collect(),
            labels: &self.labels,
        }
    }
}

/// The parts that processes have of a module's counts.
struct Shares<'p> {
    flows: Vec<Option<ModuleFlow>>,
    profiles: Vec<&'p Profile>,
    labels: &'p [(Labels, Vec<(Kind, Labels)>)],
}

impl Shares<'_> {
    /// Divides a count. The last number is of no process.
    fn divided(&self, count: u64, own: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
        let number = self.flows.len();
        if number == 1 {
            return vec![(0, count)];
        }
        let mut left = count;
        let mut all = Vec::new();
        for n in 0..number {
            let own = own(n).min(left);
            left -= own;
            all.push((n, own));
        }
        all.push((number, left));
        all.retain(|(_, count)| *count > 0);
        all
    }

    fn of_line(&self, line: &Straight) -> Vec<(usize, u64)> {
        self.divided(line.count, |n| {
            let lines = self.flows[n].as_ref().map_or(&[][..], |flow| &flow.lines);
            let after = lines.partition_point(|own| own.start <= line.start);
            let own = lines[..after].last().filter(|own| line.start < own.end);
            own.map_or(0, |own| own.count)
        })
    }

    fn of_events(&self, kind: Kind, place: Place, count: u64) -> Vec<(usize, u64)> {
        self.divided(count, |n| events_at(self.profiles[n], kind, place))
    }
}

/// Events of an instruction.
fn events_at(profile: &Profile, kind: Kind, place: Place) -> u64 {
    // Of sampled values not all are listed.
    if let Some(sampled) = profile.windows.as_ref().and_then(|w| w.at(kind, place)) {
        return sampled.executions.round() as u64;
    }
    let counts = profile.kinds.get(&kind).and_then(|k| k.counts.get(&place));
    let counts = counts.into_iter().flatten().map(|(_, count)| *count);
    counts.fold(0, u64::saturating_add)
}

/// Samples of a module's instructions.
struct Samples<'b, 'o, 'i, 'a, 'f> {
    builder: &'b mut Builder<'o>,
    input: &'i mut Input<'a, 'f>,
    module: ModuleId,
    mapping: u64,
    /// Names of functions by the numbers of their spans.
    names: HashMap<Option<usize>, Rc<str>>,
    lines: Lines,
}

/// Instructions of one source position in a straight line.
struct Part {
    start: u64,
    line: Option<u32>,
    instructions: u64,
}

impl Samples<'_, '_, '_, '_, '_> {
    /// Adds a straight line, and the events of its instructions.
    fn line(&mut self, code: &Code<'_>, line: &Straight, shares: &Shares<'_>) {
        let mut parts: Vec<Part> = Vec::new();
        for instruction in instructions(code, line) {
            let start = instruction.ip();
            let number = self.lines.at(start).map(|(_, line)| line);
            match parts.last_mut() {
                Some(part) if part.line == number => part.instructions += 1,
                _ => parts.push(Part {
                    start,
                    line: number,
                    instructions: 1,
                }),
            }
        }
        let of_line = shares.of_line(line);
        let mut locations = Vec::new();
        for part in &parts {
            let location = self.location(part.start);
            locations.push(location);
            for (n, times) in &of_line {
                let values = [part.instructions.saturating_mul(*times), *times, 0];
                self.builder
                    .sample(&[location], &values, &shares.labels[*n].0);
            }
        }
        let [first, last] = [line.start, line.last].map(|at| Place::new(self.module, Vaddr(at)));
        let profile = self.input.profile;
        for (number, (kind, _)) in shares.labels[0].1.iter().enumerate() {
            let counts = profile.kinds.get(kind).map(|kind| &kind.counts);
            let here = counts
                .into_iter()
                .flat_map(|counts| counts.range(first..=last));
            for place in here.map(|(place, _)| *place) {
                let after = parts.partition_point(|part| part.start <= place.vaddr().0);
                let Some(location) = after.checked_sub(1).and_then(|n| locations.get(n)) else {
                    continue;
                };
                let count = events_at(profile, *kind, place);
                for (n, count) in shares.of_events(*kind, place, count) {
                    let labels = &shares.labels[n].1[number].1;
                    self.builder.sample(&[*location], &[0, 0, count], labels);
                }
            }
        }
    }

    /// The function that a place is in, not those inlined there.
    fn function(&mut self, at: u64) -> Rc<str> {
        let spans = &self.input.program.modules[&self.module].spans;
        let span = span_of(spans, at);
        let named = self.names.entry(span);
        let path = || self.input.path(self.module);
        Rc::clone(named.or_insert_with(|| name(&path(), spans, span).into()))
    }

    /// The location of an instruction, with the functions inlined there. Of code without lines, nothing is known to be inlined.
    fn location(&mut self, at: u64) -> u64 {
        let outer = self.function(at);
        if self.lines.is_empty() {
            let line = Line {
                function: &outer,
                file: "",
                line: 0,
            };
            return self.builder.location(self.mapping, at, &[line]);
        }
        let place = Place::new(self.module, Vaddr(at));
        let found = self.input.symbols.locate(place);
        let lines = frames(&found, &outer);
        self.builder.location(self.mapping, at, &lines)
    }
}

/// Functions at a place with file and line, the innermost first.
fn frames<'l>(found: &'l Location, outer: &'l str) -> Vec<Line<'l>> {
    let inlined = found.inlined.iter().map(|frame| Line {
        function: &frame.function,
        file: frame.file.as_deref().unwrap_or_default(),
        line: frame.line.unwrap_or(0).into(),
    });
    let outer = Line {
        function: outer,
        file: found.outer_file.as_deref().unwrap_or_default(),
        line: found.outer_line.unwrap_or(0).into(),
    };
    inlined.chain([outer]).collect()
}
