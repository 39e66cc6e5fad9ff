//! pprof's format with call paths: a sample is a whole stack.
//!
//! Locations are places, with the functions inlined there, so `go tool pprof` shows lines too. A profile without call paths has the
//! samples of [`crate::pprof`]: instructions of single lines.

use std::collections::HashMap;
use std::io::Write;

use trommel_profile::call_tree::{Basis, CallTree, NodeId};
use trommel_symbol::Symbols;
use trommel_tuple::{ModuleId, Place};

use super::{CallPaths, Names, PathFormat, shallow};
use crate::error::ExportError;
use crate::input::Input;
use crate::pprof::{Builder, Line, MOST};
use crate::process::Process;

/// The format.
pub(super) const FORMAT: PathFormat = PathFormat {
    name: "pprof",
    about: "call paths with lines, for go tool pprof",
    extension: "pb.gz",
    next,
    most: MOST,
    tells_processes: true,
    whole_paths: true,
    write,
};

fn next(file: &str, _basis: Basis) -> String {
    format!("go tool pprof -top -cum {file}")
}

fn write(
    paths: &CallPaths<'_>,
    symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let tree = paths.tree;
    let mut builder = Builder::new(out);
    let types = match tree.basis {
        Basis::Stacks => [("samples", "count"), ("cpu", "nanoseconds")],
        Basis::Contexts => [("calls", "count"), ("instructions", "count")],
        Basis::Waits => [("waits", "count"), ("off-cpu", "nanoseconds")],
        Basis::WaitSamples => [("samples", "count"), ("off-cpu", "nanoseconds")],
    };
    builder.sample_types(&types);
    let mut places = Places {
        names: Names::new(paths.profile),
        mappings: HashMap::new(),
        known: HashMap::new(),
    };
    // Readers take the first mapping for the program.
    let of_process = |process: &Process| {
        let name = process.command.first()?;
        Input::program_named(paths.profile, name)
    };
    let program = || Input::program_of(paths.profile);
    let of_processes = || paths.processes.iter().find_map(of_process);
    let named = || program().or_else(of_processes).map(|module| module.id);
    if let Some(program) = paths.main.or_else(named) {
        places.mapping(&mut builder, paths, program);
    }
    let kind = match tree.basis {
        Basis::Stacks => "stack",
        Basis::Contexts => "context",
        Basis::Waits | Basis::WaitSamples => "wait",
    };
    for (tree, mut labels) in trees(paths) {
        labels.push(("kind", kind.to_owned()));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, text)| (*key, &**text)).collect();
        let labels = builder.labels(&labels);
        let mut locations: Vec<u64> = Vec::with_capacity(tree.nodes().len());
        for node in tree.nodes() {
            locations.push(places.location(&mut builder, paths, symbols, node.frame.at));
        }
        // Parents are earlier, so a stack is the way up through numbers.
        let nodes = tree.nodes().iter();
        let nodes = nodes.map(|node| (node.parent.map(|id| id.0 as usize), node.weight));
        for (number, weight) in shallow::shallow(nodes).into_iter().enumerate() {
            if weight.own == 0 && weight.times == 0 {
                continue;
            }
            let mut stack = vec![locations[number]];
            let mut next = tree.nodes()[number].parent;
            while let Some(NodeId(parent)) = next {
                stack.push(locations[parent as usize]);
                next = tree.nodes()[parent as usize].parent;
            }
            builder.sample(&stack, &[weight.times, weight.own], &labels);
        }
    }
    let total = paths.total();
    let period = match tree.basis {
        Basis::Stacks | Basis::WaitSamples => total.own / total.times.max(1),
        // Each was counted.
        Basis::Contexts | Basis::Waits => 1,
    };
    builder.finish((paths.profile, paths.processes), types[1], period)
}

/// The trees of the processes with their labels. Where not all of them are told apart, the sum as one without.
fn trees<'p>(paths: &CallPaths<'p>) -> Vec<(&'p CallTree, Vec<(&'static str, String)>)> {
    if !paths.processes_are_whole() {
        return vec![(paths.tree, Vec::new())];
    }
    let of = |process: &'p Process| {
        let tree = process.profile.call_tree(paths.tree.basis)?;
        Some((tree, process.labels()))
    };
    paths.processes.iter().filter_map(of).collect()
}

/// Locations that were written.
struct Places {
    names: Names,
    mappings: HashMap<ModuleId, u64>,
    known: HashMap<Place, u64>,
}

impl Places {
    fn mapping(&mut self, builder: &mut Builder<'_>, paths: &CallPaths<'_>, id: ModuleId) -> u64 {
        let module = paths.profile.module(id);
        let next = self.mappings.len() as u64 + 1;
        let mapping = *self.mappings.entry(id).or_insert(next);
        if mapping == next {
            builder.mapping(module, &paths.module(id), mapping);
        }
        mapping
    }

    fn location(
        &mut self,
        builder: &mut Builder<'_>,
        paths: &CallPaths<'_>,
        symbols: &mut Symbols<'_>,
        at: Place,
    ) -> u64 {
        if let Some(known) = self.known.get(&at) {
            return *known;
        }
        let mapping = self.mapping(builder, paths, at.module());
        let basis = paths.tree.basis;
        let frames = self.names.frames(symbols, at, basis);
        let found = symbols.locate(at);
        let inlined = found.inlined.iter().rev().map(|frame| frame.line);
        let lines: Vec<Option<u32>> = std::iter::once(found.outer_line).chain(inlined).collect();
        // Innermost first.
        let lines: Vec<Line<'_>> = (frames.iter().zip(lines).rev())
            .map(|(function, line)| Line {
                function: &function.name,
                file: function.file.as_deref().unwrap_or_default(),
                line: line.unwrap_or(0).into(),
            })
            .collect();
        let number = builder.location(mapping, at.vaddr().0, &lines);
        self.known.insert(at, number);
        number
    }
}
