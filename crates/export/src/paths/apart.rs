//! Call paths of each process, for formats that tell them apart.
//!
//! Those of one process are built, written and given up before those of the next: a build has hundreds.

use trommel_profile::call_tree::{CallTree, Weight};
use trommel_symbol::Symbols;

use super::CallPaths;
use crate::error::ExportError;

/// The process of call paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'p> {
    /// Its program and number, as far as they are known.
    pub(crate) name: &'p str,
    /// Its program, without directories.
    pub(crate) program: &'p str,
    /// Its number; 0 where that is not known.
    pub(crate) pid: u32,
    /// The number of its thread, where it had one.
    pub(crate) tid: u32,
}

impl CallPaths<'_> {
    /// Gives the call paths of each process, with most first. Where not all of them are told apart, those of the sum.
    pub(crate) fn each(
        &self,
        symbols: &mut Symbols<'_>,
        mut write: impl FnMut(Owner<'_>, &CallPaths<'_>, &mut Symbols<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        if !self.processes_are_whole() {
            let (program, pid) = (self.program(), self.profile.origin.pid);
            let owner = Owner {
                name: &program,
                program: &program,
                pid,
                tid: pid,
            };
            return write(owner, self, symbols);
        }
        for process in self.processes {
            let own = CallPaths::of(&process.profile, self.tree.basis, symbols);
            let owner = Owner {
                name: &process.name,
                program: &process.program,
                pid: process.pid,
                tid: process.thread.unwrap_or(process.pid),
            };
            if let Some(own) = own {
                write(owner, &own, symbols)?;
            }
        }
        Ok(())
    }

    /// Says whether the trees of the processes add up to the whole.
    pub(crate) fn processes_are_whole(&self) -> bool {
        let basis = self.tree.basis;
        let processes = self.processes.iter();
        let mut trees = processes.filter_map(|process| process.profile.call_tree(basis));
        let sum = |trees: &mut dyn Iterator<Item = &CallTree>| {
            let nodes = trees.flat_map(CallTree::nodes);
            nodes.fold(Weight::default(), |mut sum, node| {
                sum.add(node.weight);
                sum
            })
        };
        sum(&mut trees) == sum(&mut std::iter::once(self.tree))
    }
}
