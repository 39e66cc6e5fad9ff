//! Functions that compilers inlined into others: what each executed there.
//!
//! # Strategy
//! Debug information tells for each instruction which functions it was inlined from. The instructions of a function are divided by that. An
//! instruction without such information is the function's own.
//!
//! # Invariants
//! The parts of a function have its instructions, no more and no fewer.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use trommel_symbol::Symbols;
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::count::Count;
use crate::program::{Function, Program};

/// Instructions of a function that were inlined from the same functions.
#[derive(Clone, Debug)]
pub struct InlinedPart {
    /// The functions inlined there, innermost first; empty of the function's own instructions.
    pub functions: Vec<Rc<str>>,
    /// Instructions that were executed.
    pub executed: Count,
    /// The instruction that was executed most.
    pub hottest: Place,
}

/// The functions of a program, divided.
#[derive(Debug, Default)]
pub struct Inlined(HashMap<(ModuleId, Option<Place>), Vec<InlinedPart>>);

impl Inlined {
    /// Divides the functions of a program.
    pub fn new(program: &Program, symbols: &mut Symbols<'_>) -> Self {
        type Parts = BTreeMap<Vec<Rc<str>>, (InlinedPart, f64)>;
        let mut all: HashMap<usize, Parts> = HashMap::new();
        for (&module, derived) in &program.modules {
            let Ok(code) = symbols.code(module) else {
                continue;
            };
            for block in derived.blocks.all() {
                let place = |at| Place::new(module, Vaddr(at));
                let function = program.function_of(place(block.start));
                let (Some(count), Some(function)) = (block.count, function) else {
                    continue;
                };
                let parts = all.entry(function).or_default();
                for at in block.places(&code).into_iter().map(place) {
                    let functions = symbols.inlined(at);
                    let (part, most) = parts.entry(functions).or_insert_with_key(|functions| {
                        let part = InlinedPart {
                            functions: functions.clone(),
                            executed: Count::of_events(0.0, None),
                            hottest: at,
                        };
                        (part, 0.0)
                    });
                    part.executed = part.executed.plus(count);
                    if count.times > *most {
                        (part.hottest, *most) = (at, count.times);
                    }
                }
            }
        }
        let parts = |(number, parts): (usize, Parts)| {
            let parts = parts.into_values().map(|(part, _)| part).collect();
            (key(&program.functions[number]), parts)
        };
        Self(all.into_iter().map(parts).collect())
    }

    /// The parts of a function. There are none where its code has no bytes.
    pub fn parts(&self, function: &Function) -> &[InlinedPart] {
        self.0.get(&key(function)).map_or(&[], Vec::as_slice)
    }
}

/// Names a function. Code outside of all functions has no start.
fn key(function: &Function) -> (ModuleId, Option<Place>) {
    (function.module, function.start())
}
