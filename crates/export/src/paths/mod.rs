//! Formats of call paths: who called whom, with the cost of each path.
//!
//! # Problem
//! A [`CallTree`] has places. Tools want names, and each asks for another order of the same tree: whole stacks, openings and closings,
//! tables with parents. An optimised function is also several functions to its reader: those that were inlined.
//!
//! # Strategy
//! [`CallPaths`] is the one view that these formats read, as [`ModuleFlow`](crate::view::ModuleFlow) is for the others. It is a tree of
//! functions: places of one function below the same caller are one node, and inlined functions have nodes of their own. A format is a
//! file with a [`PathFormat`]. No format knows another one.
//!
//! # Invariants
//! * A parent comes before its children.
//! * The sums of both weights over all nodes are those of the tree.
//! * What is inlined at an interrupted instruction, or at a call, is expanded. A context is a function from its entry on, and is expanded
//!   only by [`CallPaths::inlined`].

mod apart;
mod firefox;
mod folded;
mod inlined;
mod perf_script;
mod shallow;
mod speedscope;
mod stacks;

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use inlined::Divided;
use trommel_code::{Inlined, Program};
use trommel_profile::Profile;
use trommel_profile::call_tree::{self, Basis, CallTree, Cost, Weight};
use trommel_symbol::{Spans, Symbols};
use trommel_tuple::{ModuleId, Place};

use crate::error::ExportError;
use crate::lines::by_start;
use crate::process::Process;

pub use shallow::MOST_DEEP;

/// The formats of call paths. One of them has the name of another format, which it replaces where a profile has call paths.
pub const PATH_FORMATS: &[PathFormat] = &[
    folded::FORMAT,
    speedscope::FORMAT,
    firefox::FORMAT,
    perf_script::FORMAT,
    stacks::FORMAT,
];

/// The format of call paths of a name.
pub fn find_paths(name: &str) -> Option<&'static PathFormat> {
    PATH_FORMATS.iter().find(|format| format.name == name)
}

/// A format that call paths are written in.
#[derive(Debug)]
pub struct PathFormat {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// The end of a file's name.
    pub extension: &'static str,
    /// Returns the command that reads a file next.
    pub next: fn(file: &str, basis: Basis) -> String,
    /// The greatest number that it holds exactly.
    pub most: u64,
    /// It tells processes apart.
    pub tells_processes: bool,
    /// It repeats the whole path at each cost, so paths are cut at [`MOST_DEEP`] functions.
    pub whole_paths: bool,
    /// Writes the call paths. It fails if the format cannot hold them, or the output cannot be written.
    pub write: Writer,
}

/// A function that writes call paths in a format.
pub type Writer =
    fn(&CallPaths<'_>, &mut Symbols<'_>, out: &mut dyn Write) -> Result<(), ExportError>;

/// A function of call paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathFunction {
    /// Its name, demangled. Of one without a name: its module, and its start where that is known.
    pub name: Rc<str>,
    /// The module that it is in.
    pub module: ModuleId,
    /// Its source file.
    pub file: Option<Rc<str>>,
}

/// A function below its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathNode {
    /// The caller's node.
    pub parent: Option<usize>,
    /// Number of the function.
    pub function: usize,
    /// It was inlined into its caller.
    pub inlined: bool,
    /// A place in it.
    pub at: Place,
    /// Its own weight.
    pub weight: Weight,
    /// That is a proportion of a function's.
    pub estimated: bool,
}

/// Call paths as functions.
pub struct CallPaths<'p> {
    /// The profile that they are of.
    pub profile: &'p Profile,
    /// The same as places.
    pub tree: &'p CallTree,
    /// Functions, in the order in which they are met.
    pub functions: Vec<PathFunction>,
    /// Nodes, parents before children.
    pub nodes: Vec<PathNode>,
    /// The processes that they are the sum of, for formats that tell them apart.
    pub processes: &'p [Process],
    /// The program that is meant, where that is known.
    pub main: Option<ModuleId>,
}

impl<'p> CallPaths<'p> {
    /// Those of a profile: exact ones before sampled ones. `None`: it has no call paths.
    pub fn new(profile: &'p Profile, symbols: &mut Symbols<'_>) -> Option<Self> {
        let of = |basis, symbols: &mut _| Self::of(profile, basis, symbols);
        of(Basis::Contexts, symbols).or_else(|| of(Basis::Stacks, symbols))
    }

    /// Those of time in which threads did not run. `None`: the profile has none.
    pub fn off_cpu(profile: &'p Profile, symbols: &mut Symbols<'_>) -> Option<Self> {
        let mut all = Basis::OFF_CPU.into_iter();
        all.find_map(|basis| Self::of(profile, basis, symbols))
    }

    /// Those of a basis. `None`: the profile has none.
    pub fn of(profile: &'p Profile, basis: Basis, symbols: &mut Symbols<'_>) -> Option<Self> {
        Self::built(profile, (basis, false, None), symbols)
    }

    /// Those of a basis with the functions that were inlined into contexts too. Own instructions of contexts are divided where the program is
    /// derived.
    pub fn inlined(
        profile: &'p Profile,
        basis: Basis,
        symbols: &mut Symbols<'_>,
        derived: Option<(&Program, &Inlined)>,
    ) -> Option<Self> {
        Self::built(profile, (basis, true, derived), symbols)
    }

    fn built(
        profile: &'p Profile,
        (basis, expanded, derived): (Basis, bool, Option<(&Program, &Inlined)>),
        symbols: &mut Symbols<'_>,
    ) -> Option<Self> {
        let tree = profile.call_tree(basis);
        let tree = tree.filter(|tree| !tree.nodes().is_empty())?;
        let mut builder = Builder {
            names: Names::new(profile),
            numbers: HashMap::new(),
            children: HashMap::new(),
            paths: Self {
                profile,
                tree,
                functions: Vec::new(),
                nodes: Vec::new(),
                processes: &[],
                main: None,
            },
        };
        let expanded = expanded && basis == Basis::Contexts;
        let derived = derived.filter(|_| expanded);
        let divided = derived.map(|(program, inlined)| Divided::new(program, inlined, tree));
        let mut innermost: Vec<usize> = Vec::with_capacity(tree.nodes().len());
        for node in tree.nodes() {
            let mut parent = node.parent.map(|parent| innermost[parent.0 as usize]);
            if let (Some(caller), Some(above), true) = (node.parent, parent, expanded) {
                let caller = tree.nodes()[caller.0 as usize].frame.at;
                parent = Some(builder.at_call(symbols, (above, caller), node.frame.call));
            }
            let frames = builder.names.frames(symbols, node.frame.at, tree.basis);
            let last = frames.len() - 1;
            for (depth, function) in frames.into_iter().enumerate() {
                let weight = match (depth == last, &divided) {
                    (true, None) => node.weight,
                    (true, Some(_)) => Weight {
                        own: 0,
                        ..node.weight
                    },
                    (false, _) => Weight::default(),
                };
                parent = Some(builder.add(parent, function, depth > 0, node.frame.at, weight));
            }
            if let (Some(number), Some(divided)) = (parent, &divided) {
                builder.divided(number, node, divided);
            }
            innermost.extend(parent);
        }
        Some(builder.paths)
    }

    /// The sum of both weights.
    pub fn total(&self) -> Weight {
        let mut total = Weight::default();
        for node in &self.nodes {
            total.times = total.times.saturating_add(node.weight.times);
            total.own = total.own.saturating_add(node.weight.own);
        }
        total
    }

    /// The own weight of each node, for formats that cut paths at [`MOST_DEEP`] functions.
    pub(crate) fn shallow(&self) -> Vec<Weight> {
        shallow::shallow(self.weights().into_iter())
    }

    /// The number of functions on the longest path.
    pub fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            depths.push(node.parent.map_or(0, |parent| depths[parent]) + 1);
        }
        depths.into_iter().max().unwrap_or_default()
    }

    /// The sum of all costs, without a limit.
    pub fn sum(&self) -> u128 {
        let costs = self.nodes.iter().map(|node| node.weight);
        let both = costs.map(|cost| u128::from(cost.own) + u128::from(cost.times));
        both.sum()
    }

    /// The children of each node, by number; those without a caller first, in the last entry.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len() + 1];
        for (number, node) in self.nodes.iter().enumerate() {
            children[node.parent.unwrap_or(self.nodes.len())].push(number);
        }
        children
    }

    /// The inclusive cost of each node, by number.
    pub fn inclusive(&self) -> Vec<u64> {
        call_tree::inclusive(&self.weights())
    }

    /// The cost of each function, by number.
    pub fn costs(&self) -> Vec<Cost> {
        let functions: Vec<usize> = self.nodes.iter().map(|node| node.function).collect();
        call_tree::costs(&self.weights(), &functions)
    }

    fn weights(&self) -> Vec<(Option<usize>, Weight)> {
        let nodes = self.nodes.iter();
        nodes.map(|node| (node.parent, node.weight)).collect()
    }

    /// The function of a node.
    pub fn function(&self, node: usize) -> &PathFunction {
        &self.functions[self.nodes[node].function]
    }

    /// The numbers of a node and its callers, innermost first.
    pub(crate) fn path(&self, node: usize) -> impl Iterator<Item = usize> {
        let mut next = Some(node);
        std::iter::from_fn(move || {
            let number = next?;
            next = self.nodes[number].parent;
            Some(number)
        })
    }

    /// Path of a module, as far as it is text.
    pub fn module(&self, id: ModuleId) -> String {
        let module = self.profile.module(id);
        let path = module.map_or(&b"[unknown]"[..], |module| &module.path);
        String::from_utf8_lossy(path).into_owned()
    }

    /// Name of the program that was executed, without its directories.
    pub(crate) fn program(&self) -> String {
        let word = self.profile.command.first();
        let word = word.map_or(&b"trommel"[..], |word| word);
        let name = word.rsplit(|c| *c == b'/').next().unwrap_or(word);
        String::from_utf8_lossy(name).into_owned()
    }
}

struct Builder<'p> {
    names: Names,
    numbers: HashMap<(ModuleId, Rc<str>), usize>,
    children: HashMap<(Option<usize>, usize, bool), usize>,
    paths: CallPaths<'p>,
}

impl Builder<'_> {
    fn add(
        &mut self,
        parent: Option<usize>,
        function: PathFunction,
        inlined: bool,
        at: Place,
        weight: Weight,
    ) -> usize {
        let CallPaths {
            functions, nodes, ..
        } = &mut self.paths;
        let key = (function.module, Rc::clone(&function.name));
        let function = *self.numbers.entry(key).or_insert_with(|| {
            functions.push(function);
            functions.len() - 1
        });
        let key = (parent, function, inlined);
        let number = *self.children.entry(key).or_insert_with(|| {
            nodes.push(PathNode {
                parent,
                function,
                inlined,
                at,
                weight: Weight::default(),
                estimated: false,
            });
            nodes.len() - 1
        });
        let sum = &mut nodes[number].weight;
        sum.times = sum.times.saturating_add(weight.times);
        sum.own = sum.own.saturating_add(weight.own);
        number
    }
}

/// Names of places, of functions without a symbol too.
pub struct Names {
    modules: HashMap<ModuleId, Rc<str>>,
    spans: HashMap<ModuleId, Rc<Spans>>,
}

impl Names {
    /// Those of a profile's modules.
    pub fn new(profile: &Profile) -> Self {
        let name = |path: &[u8]| -> Rc<str> {
            let path = String::from_utf8_lossy(path);
            path.rsplit('/').next().unwrap_or(&path).into()
        };
        let modules = profile.modules.iter().map(|m| (m.id, name(&m.path)));
        Self {
            modules: modules.collect(),
            spans: HashMap::new(),
        }
    }

    /// The functions at a place, outermost first; never none.
    pub(crate) fn frames(
        &mut self,
        symbols: &mut Symbols<'_>,
        at: Place,
        basis: Basis,
    ) -> Vec<PathFunction> {
        let module = at.module();
        let found = symbols.locate(at);
        let name = match &found.function {
            Some(name) => Rc::clone(name),
            None => self.nameless(symbols, at),
        };
        let mut frames = vec![PathFunction {
            name,
            module,
            file: found.outer_file.clone(),
        }];
        if basis.is_time() {
            let inlined = found.inlined.iter().rev();
            frames.extend(inlined.map(|frame| PathFunction {
                name: Rc::clone(&frame.function),
                module,
                file: frame.file.clone(),
            }));
        }
        frames
    }

    fn nameless(&mut self, symbols: &Symbols<'_>, at: Place) -> Rc<str> {
        if let Some(name) = self.by_start(symbols, at) {
            return name;
        }
        match self.module(at.module()) {
            name if name.starts_with('[') => name.into(),
            name => format!("[{name}]").into(),
        }
    }

    /// The name that a function without a symbol has by its start: `libc.so.6+0x12340`. None: its start is not known.
    pub fn by_start(&mut self, symbols: &Symbols<'_>, at: Place) -> Option<Rc<str>> {
        let module = at.module();
        let spans = (self.spans.entry(module)).or_insert_with(|| symbols.spans(module));
        let number = spans.find(at.vaddr().0)?;
        let start = spans.all().get(spans.whole(number))?.range.start;
        Some(by_start(self.module(module), start).into())
    }

    fn module(&self, module: ModuleId) -> &str {
        self.modules.get(&module).map_or("unknown", |name| name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use trommel_profile::Module;
    use trommel_profile::call_tree::Frame;
    use trommel_symbol::Files;
    use trommel_tuple::Vaddr;

    /// A chain of so many functions, each with a cost of 1.
    pub(crate) fn deep(basis: Basis, length: u64) -> Profile {
        let mut profile = profile(basis, &[]);
        let tree = profile.call_tree_mut(basis);
        let mut last = None;
        for n in 0..length {
            let frame = Frame {
                at: Place::new(ModuleId((n % 9) as u16), Vaddr(n % 9)),
                call: None,
            };
            last = tree.child(last, frame);
            tree.weigh(last.expect("there is room"), Weight { times: 1, own: 1 });
        }
        profile
    }

    /// A profile of these stacks, whose functions are modules.
    pub(crate) fn profile(basis: Basis, stacks: &[(&[u16], u64)]) -> Profile {
        let mut profile = Profile {
            command: vec![b"/bin/app".to_vec()],
            ..Profile::default()
        };
        for number in 0..9_u16 {
            profile.modules.push(Module {
                id: ModuleId(number),
                path: format!("[m;{number}]").into_bytes(),
                ..Module::default()
            });
        }
        let tree = profile.call_tree_mut(basis);
        for (stack, own) in stacks {
            let frames = stack.iter().map(|number| Frame {
                at: Place::new(ModuleId(*number), Vaddr(u64::from(*number))),
                call: None,
            });
            let weight = Weight {
                times: 2,
                own: *own,
            };
            assert!(tree.add_stack(frames, weight));
        }
        profile
    }

    /// The output of a format for a profile.
    pub(crate) fn written(format: &PathFormat, profile: &Profile) -> Result<Vec<u8>, String> {
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &profile.modules);
        let paths = CallPaths::new(profile, &mut symbols).ok_or("no call paths")?;
        let mut out = Vec::new();
        let done = (format.write)(&paths, &mut symbols, &mut out);
        done.map(|()| out).map_err(|error| error.to_string())
    }

    #[test]
    fn places_of_a_function_are_one_node() {
        let mut profile = profile(Basis::Stacks, &[(&[1, 2], 5), (&[1, 3], 1), (&[1], 4)]);
        let tree = profile.call_tree_mut(Basis::Stacks);
        let frames = [(1, 77), (2, 99)].map(|(module, at)| Frame {
            at: Place::new(ModuleId(module), Vaddr(at)),
            call: None,
        });
        tree.add_stack(frames, Weight { times: 1, own: 10 });
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &profile.modules);
        let paths = CallPaths::new(&profile, &mut symbols).expect("paths");
        assert_eq!((paths.functions.len(), paths.nodes.len()), (3, 3));
        assert_eq!(paths.total(), Weight { times: 7, own: 20 });
        assert_eq!(paths.nodes[1].weight.own, 15);
        assert_eq!(paths.children()[3], [0]);
        assert_eq!(paths.path(1).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn exact_paths_come_before_sampled_ones() {
        let mut profile = profile(Basis::Stacks, &[(&[1], 5)]);
        let frame = Frame {
            at: Place::new(ModuleId(2), Vaddr(1)),
            call: None,
        };
        let weight = Weight { times: 1, own: 9 };
        let tree = profile.call_tree_mut(Basis::Contexts);
        assert!(tree.add_stack([frame], weight));
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &profile.modules);
        let paths = CallPaths::new(&profile, &mut symbols).expect("paths");
        assert_eq!((paths.tree.basis, paths.total()), (Basis::Contexts, weight));
        assert!(CallPaths::new(&Profile::default(), &mut symbols).is_none());
    }

    #[test]
    fn names_are_unique() {
        for (n, format) in PATH_FORMATS.iter().enumerate() {
            let name = format.name;
            assert!(PATH_FORMATS[..n].iter().all(|f| f.name != name));
            assert_eq!(find_paths(name).map(|f| f.about), Some(format.about));
            assert_eq!(crate::why_not(name), None);
        }
    }
}
