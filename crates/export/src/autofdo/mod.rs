//! Sample profiles of compilers: counts by function and source position, through all functions inlined there.
//!
//! # Problem
//! A compiler knows source lines and calls, not addresses. It takes counts of lines from a build of the program before, and asks for
//! those of inlined calls apart.
//!
//! # Strategy
//! That of `llvm-profgen`, so that both agree. Each instruction of a straight line has a position ([`trommel_symbol::Sources`]). A
//! position's count is the largest of its instructions', as one line has instructions on several ways. Instructions of executed functions
//! that were not executed give 0, which says more than nothing. A transfer to the start of a function counts as an entry of it, and as a
//! target of the position that it comes from.
//!
//! # Invariants
//! Discriminators are the base ones: what LLVM packs beside them (copies of loops) is taken as a factor of the count.

mod extbinary;
mod gcov;
mod text;

use std::collections::BTreeMap;

use trommel_code::Body;
use trommel_symbol::{LineOffset, SourceFrame, Sources};

use crate::error::ExportError;
use crate::input::Input;
use crate::lines::instructions;
use crate::view::Way;

pub(crate) use extbinary::Extbinary;
pub(crate) use gcov::Gcov;
pub(crate) use text::Text;

/// Counts of a position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position {
    pub(crate) count: u64,
    /// Functions called there.
    pub(crate) targets: BTreeMap<Vec<u8>, u64>,
}

/// Samples of a function, or of a call that was inlined.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) head: u64,
    pub(crate) total: u64,
    pub(crate) body: BTreeMap<(u32, u32), Position>,
    pub(crate) inlined: BTreeMap<((u32, u32), Vec<u8>), Samples>,
}

/// Samples by function.
pub(crate) type Functions = BTreeMap<Vec<u8>, Samples>;

/// Compilers, which differ in what a discriminator means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compiler {
    Llvm,
    Gcc,
}

/// The samples of the module that is meant.
pub(crate) fn samples(
    input: &Input<'_, '_>,
    format: &'static str,
    compiler: Compiler,
) -> Result<Functions, ExportError> {
    let (code, flow) = input.only(format)?;
    let sources = input.symbols.sources(flow.module);
    let sources = sources.ok_or_else(|| input.lineless(flow.module, format))?;
    let mut all = Adder {
        sources: &sources,
        compiler,
        functions: Functions::new(),
    };
    for line in &flow.lines {
        for instruction in instructions(&code, line) {
            all.executed(instruction.ip(), instruction.len() as u64, line.count);
        }
    }
    for function in input
        .program
        .functions
        .iter()
        .filter(|f| f.module == flow.module)
    {
        for range in &function.ranges {
            let body = Body::new(&code, std::slice::from_ref(range), &[]);
            for line in body.lines() {
                all.executed(line.at, 0, 0);
            }
        }
    }
    for transfer in flow.transfers.iter().filter(|t| flow.has(t.to)) {
        let is = matches!(
            transfer.way,
            Way::Call | Way::Jump | Way::Indirect | Way::Taken
        );
        if let Some(callee) = sources.function_at(transfer.to.vaddr().0).filter(|_| is) {
            let from = flow.has(transfer.from).then(|| transfer.from.vaddr().0);
            all.called(from, callee, transfer.count);
        }
    }
    if compiler == Compiler::Llvm {
        raise(&mut all.functions);
    }
    Ok(all.functions)
}

/// A position with several calls was executed as often as all of them: so `llvm-profgen` has it, of functions by themselves.
fn raise(functions: &mut Functions) {
    for samples in functions.values_mut() {
        for position in samples.body.values_mut() {
            let calls = position.targets.values().copied();
            position.count = position.count.max(calls.fold(0, u64::saturating_add));
        }
    }
}

struct Adder<'s> {
    sources: &'s Sources,
    compiler: Compiler,
    functions: Functions,
}

impl<'s> Adder<'s> {
    /// Counts an instruction of so many bytes. A function's total is of bytes, as `llvm-profgen` has it.
    fn executed(&mut self, at: u64, bytes: u64, count: u64) {
        let frames = self.sources.at(at);
        let Some(last) = frames.last() else {
            return;
        };
        let factor = match self.compiler {
            Compiler::Llvm => copies(last.at.discriminator),
            Compiler::Gcc => 1,
        };
        let position = self.position(last.at);
        let leaf = self.leaf(&frames, count.saturating_mul(bytes));
        let here = leaf.body.entry(position).or_default();
        here.count = here.count.max(count.saturating_mul(factor.into()));
    }

    fn called(&mut self, from: Option<u64>, callee: &[u8], count: u64) {
        let frames = from.map(|from| self.sources.at(from)).unwrap_or_default();
        if let Some(last) = frames.last() {
            let position = self.position(last.at);
            let leaf = self.leaf(&frames, 0);
            let here = leaf.body.entry(position).or_default();
            let sum = here.targets.entry(callee.to_vec()).or_default();
            *sum = sum.saturating_add(count);
        }
        let function = self.functions.entry(callee.to_vec()).or_default();
        function.head = function.head.saturating_add(count);
    }

    /// The samples of the innermost function of a position. `size` is added to the totals of all around it.
    fn leaf(&mut self, frames: &[SourceFrame<'s>], size: u64) -> &mut Samples {
        let compiler = self.compiler;
        let mut samples = self
            .functions
            .entry(frames[0].function.to_vec())
            .or_default();
        samples.total = samples.total.saturating_add(size);
        for pair in frames.windows(2) {
            let key = (position(compiler, pair[0].at), pair[1].function.to_vec());
            samples = samples.inlined.entry(key).or_default();
            samples.total = samples.total.saturating_add(size);
        }
        samples
    }

    fn position(&self, at: LineOffset) -> (u32, u32) {
        position(self.compiler, at)
    }
}

fn position(compiler: Compiler, at: LineOffset) -> (u32, u32) {
    let discriminator = match compiler {
        Compiler::Llvm => component(at.discriminator),
        Compiler::Gcc => 0,
    };
    (at.lines, discriminator)
}

/// The first number that LLVM packed into a discriminator: of blocks of one line.
fn component(packed: u32) -> u32 {
    if packed & 1 != 0 {
        return 0;
    }
    let rest = packed >> 1;
    match rest & 0x20 {
        0 => rest & 0x1f,
        _ => (rest >> 1 & 0xfe0) | (rest & 0x1f),
    }
}

/// The second one: by how much a loop was unrolled, so that one copy stands for so many.
fn copies(packed: u32) -> u32 {
    let second = match (packed & 1, packed & 0x40) {
        (0, 0) => packed >> 7,
        (0, _) => packed >> 14,
        _ => packed >> 1,
    };
    component(second).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_are_unpacked() {
        // Nothing; a small base; a base above 31; a factor of 4 alone; base 3 and factor 2.
        assert_eq!((component(0), copies(0)), (0, 1));
        assert_eq!((component(3 << 1), copies(3 << 1)), (3, 1));
        let large = (0x7f_u32 & 0x1f | 0x20 | (0x7f & 0xfe0) << 1) << 1;
        assert_eq!(component(large), 0x7f);
        let factor = 1 | 4 << 1 << 1;
        assert_eq!((component(factor), copies(factor)), (0, 4));
        let both = 3 << 1 | 2 << 1 << 7;
        assert_eq!((component(both), copies(both)), (3, 2));
    }
}
