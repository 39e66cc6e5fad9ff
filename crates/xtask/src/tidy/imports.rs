//! Imports between the files of a crate.
//!
//! **The rule.** File A imports file B if A names an item that B defines:
//!
//! * in a `use`, or by a path in code: `crate::b::f()`, `super::T`, `child::f()`, `bound::f()` after
//!   `use crate::bound`. A path counts for the file that *defines* its item: `use` in between is
//!   followed, so a name that a parent re-exports ties to the child, not to the parent.
//! * `use b::*` ties to B if A uses a name that B defines, and to others whose names B hands on.
//! * A module and its children are one unit, with the parent's file as its face. So a child that names
//!   what its parent (or an outer module) itself defines imports nothing. The parent's own imports of its
//!   children, `pub use child::X` among them, do count: whatever imports the parent then stands above
//!   the children, and a child that imports it closes a circle.
//! * `mod child;` is no import, nor is `use crate::b;` of a module: only what is named by it counts.
//! * Comments, strings and tests (`#[cfg(test)]`) import nothing. Methods are not looked up.
//!
//! A circle is a set of files that all import each other, straight or through others of the set.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Form, Id};

/// The most `use` that are followed for a name: a limit for names that stand for each other.
const HOPS: usize = 32;

/// An import: from a file to a file, by their indices.
pub(crate) type Arrow = (usize, usize);

/// The line of the first name that an import takes, and all of its names.
#[derive(Debug, Default)]
pub(crate) struct Tie {
    pub(crate) line: usize,
    pub(crate) names: BTreeSet<String>,
}

/// All imports of a crate.
pub(crate) type Imports = BTreeMap<Arrow, Tie>;

/// The thing that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(Id),
    Item(Id, String),
}

/// Imports between the files of `house`.
pub(crate) fn of(house: &Crate) -> Imports {
    let mut imports = Imports::new();
    for (id, module) in house.modules.iter().enumerate() {
        for named in &module.named {
            let mut add = |to: Id, name: &str| {
                let arrow = (module.file, house.modules[to].file);
                if arrow.0 != arrow.1 && !house.is_within(id, to) {
                    let tie = imports.entry(arrow).or_default();
                    if tie.names.is_empty() || named.line < tie.line {
                        tie.line = named.line;
                    }
                    tie.names.insert(name.to_owned());
                }
            };
            match (house.resolve(id, &named.path, HOPS), named.form) {
                (Some(Target::Item(to, name)), _) => add(to, &name),
                (Some(Target::Module(to)), Form::PublicUse) => add(to, "self"),
                (Some(Target::Module(to)), Form::Glob | Form::PublicGlob) => {
                    if named.form == Form::PublicGlob {
                        add(to, "*");
                    }
                    for word in &house.files[module.file].words {
                        if let Some(Target::Item(to, name)) = house.member(to, word, HOPS) {
                            add(to, &name);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    imports
}

impl Crate {
    /// True if module `id` lies within module `outer`, at any depth.
    fn is_within(&self, id: Id, outer: Id) -> bool {
        let mut above = self.modules[id].parent;
        while let Some(at) = above {
            if at == outer {
                return true;
            }
            above = self.modules[at].parent;
        }
        false
    }

    /// The thing that `path` names in module `from`, if it is of this crate.
    fn resolve(&self, from: Id, path: &[String], hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Target::Module(self.modules[from].root),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => match (self.member(from, name, hops), &self.library) {
                (Some(target), _) => target,
                (None, Some((library, root))) if name == library => Target::Module(*root),
                (None, _) => return None,
            },
        };
        while let (Target::Module(module), Some((name, after))) = (&at, rest.split_first()) {
            at = match name.as_str() {
                "super" => Target::Module(self.modules[*module].parent?),
                "self" => at,
                name => self
                    .member(*module, name, hops)
                    // Names that macros define are not seen: they are taken for the module's own.
                    .unwrap_or_else(|| Target::Item(*module, name.to_owned())),
            };
            rest = after;
        }
        Some(at)
    }

    /// The thing that `name` stands for in `module`.
    fn member(&self, module: Id, name: &str, hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let this = &self.modules[module];
        if let Some(child) = this.children.get(name) {
            return Some(Target::Module(*child));
        }
        if this.own.contains(name) {
            return Some(Target::Item(module, name.to_owned()));
        }
        if let Some(path) = this.bound.get(name) {
            // A path to itself is of another crate: `use name;`.
            let to_itself = path.len() == 1 && path[0] == name;
            return self.resolve(module, path, hops).filter(|_| !to_itself);
        }
        if let (None, Some(to)) = (this.parent, self.exported.get(name)) {
            return Some(Target::Item(*to, name.to_owned()));
        }
        this.globs
            .iter()
            .find_map(|path| match self.resolve(module, path, hops)? {
                Target::Module(of) if of != module => self.member(of, name, hops),
                _ => None,
            })
    }
}

/// Sets of files that all import each other, each sorted.
pub(crate) fn circles(files: usize, imports: &Imports) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..files).map(|from| reached(from, imports)).collect();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut out = Vec::new();
    for from in 0..files {
        if reach[from].contains(&from) && !seen.contains(&from) {
            let circle: Vec<usize> = (0..files)
                .filter(|to| reach[from].contains(to) && reach[*to].contains(&from))
                .collect();
            seen.extend(&circle);
            out.push(circle);
        }
    }
    out
}

/// Files that `from` imports, straight or through others.
fn reached(from: usize, imports: &Imports) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        for ((_, to), _) in imports.range((at, 0)..(at + 1, 0)) {
            if seen.insert(*to) {
                todo.push(*to);
            }
        }
    }
    seen
}
