//! Contexts with the functions that were inlined.
//!
//! # Strategy
//! A context is a function from its entry on. A call is an instruction of its caller, and debug information tells what was inlined there: a
//! callee is put below that. A context's own instructions are divided as those of its function are, where branches and calls were counted.
//! That is exact of a function with one context. Of others it is a proportion, and marked as such.
//!
//! # Invariants
//! The weights of a context and of what is inlined in it add up to those of the context.

use std::collections::HashMap;
use std::rc::Rc;

use trommel_code::{Inlined, InlinedPart, Program};
use trommel_profile::call_tree::{CallTree, Node, Weight};
use trommel_symbol::Symbols;
use trommel_tuple::{ModuleId, Place};

use super::{Builder, PathFunction};

/// Own instructions of functions, divided.
pub(super) struct Divided<'a> {
    program: &'a Program,
    inlined: &'a Inlined,
    /// Number of the contexts of each function.
    contexts: HashMap<usize, usize>,
}

impl<'a> Divided<'a> {
    pub(super) fn new(program: &'a Program, inlined: &'a Inlined, tree: &CallTree) -> Self {
        let mut contexts = HashMap::new();
        for function in tree
            .nodes()
            .iter()
            .filter_map(|n| program.function_of(n.frame.at))
        {
            *contexts.entry(function).or_default() += 1;
        }
        Self {
            program,
            inlined,
            contexts,
        }
    }

    /// The parts of a context's function, and whether they are more than this context's. `None`: nothing is inlined there.
    fn of(&self, at: Place) -> Option<(&'a [InlinedPart], bool)> {
        let number = self.program.function_of(at)?;
        let parts = self.inlined.parts(&self.program.functions[number]);
        let any = parts.iter().any(|part| !part.functions.is_empty());
        any.then(|| (parts, self.contexts.get(&number).is_some_and(|n| *n > 1)))
    }
}

/// A whole number of instructions for each part, which add up to `own`.
fn divide(own: u64, parts: &[InlinedPart]) -> Vec<u64> {
    let whole: f64 = parts.iter().map(|part| part.executed.times).sum();
    let (mut sum, mut given) = (0.0, 0);
    let share = |part: &InlinedPart| {
        sum += part.executed.times;
        let up_to = (own as f64 * (sum / whole.max(1.0))).round() as u64;
        let up_to = up_to.clamp(given, own);
        let share = up_to - given;
        given = up_to;
        share
    };
    let mut shares: Vec<u64> = parts.iter().map(share).collect();
    if let Some(last) = shares.last_mut() {
        *last += own - given;
    }
    shares
}

fn function(module: ModuleId, name: &Rc<str>) -> PathFunction {
    PathFunction {
        name: Rc::clone(name),
        module,
        file: None,
    }
}

impl Builder<'_> {
    /// The functions that were inlined where a context calls another, below the former's node. Returns the innermost.
    pub(super) fn at_call(
        &mut self,
        symbols: &mut Symbols<'_>,
        caller: (usize, Place),
        call: Option<Place>,
    ) -> usize {
        let (mut above, at) = caller;
        let same = |call: &Place, symbols: &mut Symbols<'_>| {
            let name = |symbols: &mut Symbols<'_>, at| symbols.locate(at).function.clone();
            call.module() == at.module() && name(symbols, *call) == name(symbols, at)
        };
        // A call of recursion that was folded may be of another function.
        let Some(call) = call.filter(|call| same(call, symbols)) else {
            return above;
        };
        for name in symbols.inlined(call).iter().rev() {
            let function = function(call.module(), name);
            above = self.add(Some(above), function, true, call, Weight::default());
        }
        above
    }

    /// Adds a context's own instructions to its node and to those of functions that were inlined.
    pub(super) fn divided(&mut self, number: usize, node: &Node, divided: &Divided<'_>) {
        let own = node.weight.own;
        let Some((parts, more)) = divided.of(node.frame.at).filter(|_| own > 0) else {
            self.paths.nodes[number].weight.own += own;
            return;
        };
        let module = node.frame.at.module();
        for (part, own) in parts.iter().zip(divide(own, parts)) {
            if own == 0 {
                continue;
            }
            let mut at = number;
            for name in part.functions.iter().rev() {
                let function = function(module, name);
                at = self.add(Some(at), function, true, part.hottest, Weight::default());
            }
            let found = &mut self.paths.nodes[at];
            found.weight.own = found.weight.own.saturating_add(own);
            found.estimated |= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_code::Count;
    use trommel_tuple::Vaddr;

    #[test]
    fn parts_add_up_whatever_the_rounding() {
        let part = |times| InlinedPart {
            functions: Vec::new(),
            executed: Count::of_events(times, None),
            hottest: Place::new(ModuleId(1), Vaddr(0)),
        };
        let parts = [part(1.0), part(1.0), part(1.0)];
        assert_eq!(divide(3, &parts), [1, 1, 1]);
        assert_eq!(divide(10, &parts), [3, 4, 3]);
        assert_eq!(divide(7, &[part(0.0)]), [7]);
        assert_eq!(divide(0, &parts), [0, 0, 0]);
        for own in 0..100 {
            assert_eq!(divide(own, &parts).iter().sum::<u64>(), own);
        }
    }
}
