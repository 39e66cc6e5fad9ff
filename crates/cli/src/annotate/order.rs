//! The order in which people read a function: the hottest part first, without what was not executed.
//!
//! A function's parts lie where the compiler put them. Landing pads and rare code may come first there. So parts are in
//! the order of their instructions executed, and the hottest basic block is found, which a long listing begins with.

use std::ops::Range;

use trommel_code::FlowControl;

use super::annotated::{Annotated, Line};

/// Instructions in a row, not executed, from which on they are left out.
const COLD: usize = 6;

/// A piece of a listing, by the numbers of the function's lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Instructions, one after the other.
    Lines(Range<usize>),
    /// Instructions that were not executed.
    Cold(Range<usize>),
    /// Between parts that do not follow each other.
    Gap,
}

/// Returns the pieces of a listing in the order of reading; with `cold` those too that were not executed.
pub(super) fn pieces(function: &Annotated<'_>, cold: bool) -> Vec<Piece> {
    let mut parts = parts(function);
    let heat = |part: &Range<usize>| -> f64 { share(&function.lines[part.clone()]) };
    parts.sort_by(|a, b| heat(b).total_cmp(&heat(a)));
    let mut all = Vec::new();
    for part in parts {
        if !all.is_empty() {
            all.push(Piece::Gap);
        }
        match cold || function.executed <= 0.0 {
            true => all.push(Piece::Lines(part)),
            false => without_cold(&function.lines, part, &mut all),
        }
    }
    all
}

/// Instructions that follow each other in memory and belong to the same range.
fn parts(function: &Annotated<'_>) -> Vec<Range<usize>> {
    let lines = &function.lines;
    let starts = |n: usize| {
        let (before, at) = (end(&lines[n - 1]), lines[n].at.vaddr().0);
        before < at || function.ranges.iter().any(|range| range.start == at)
    };
    split(lines.len(), starts)
}

/// Splits `0..len` before each number that starts something.
fn split(len: usize, starts: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut from = 0;
    for n in 1..=len {
        if n == len || starts(n) {
            all.push(from..n);
            from = n;
        }
    }
    all
}

fn without_cold(lines: &[Line<'_>], part: Range<usize>, all: &mut Vec<Piece>) {
    let is_cold = |line: &Line<'_>| line.count.is_some_and(|count| count.times < 0.5);
    let mut from = part.start;
    let mut at = part.start;
    while at < part.end {
        let cold = lines[at..part.end].iter().take_while(|l| is_cold(l));
        let end = at + cold.count();
        if end - at >= COLD {
            if from < at {
                all.push(Piece::Lines(from..at));
            }
            all.push(Piece::Cold(at..end));
            from = end;
        }
        at = end.max(at + 1);
    }
    if from < part.end {
        all.push(Piece::Lines(from..part.end));
    }
}

/// Returns the basic block that executed most instructions, or took most time.
pub(super) fn hottest(function: &Annotated<'_>) -> Option<Range<usize>> {
    let lines = &function.lines;
    let mut targets: Vec<u64> = (lines.iter())
        .filter(|line| leaves(line) && !line.instruction.is_call_near())
        .map(|line| line.instruction.near_branch_target())
        .collect();
    targets.sort_unstable();
    let starts = |n: usize| {
        let (before, at) = (&lines[n - 1], lines[n].at.vaddr().0);
        leaves(before) || end(before) != at || targets.binary_search(&at).is_ok()
    };
    let blocks = split(lines.len(), starts).into_iter();
    let heat = |block: &Range<usize>| share(&lines[block.clone()]);
    let hottest = blocks.reduce(|a, b| if heat(&b) > heat(&a) { b } else { a });
    hottest.filter(|block| heat(block) > 0.0)
}

/// Returns true if control may go elsewhere after an instruction, calls excepted: these come back.
fn leaves(line: &Line<'_>) -> bool {
    let flow = line.instruction.flow_control();
    !matches!(
        flow,
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall
    )
}

/// The vaddr after an instruction.
pub(super) fn end(line: &Line<'_>) -> u64 {
    line.at.vaddr().0 + line.instruction.len().max(1) as u64
}

/// The share of the function that these are.
pub(super) fn share(lines: &[Line<'_>]) -> f64 {
    lines.iter().map(|line| line.share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_before_each_start() {
        assert_eq!(split(5, |n| n == 2 || n == 3), [0..2, 2..3, 3..5]);
        assert_eq!(
            split(1, |_| true),
            std::iter::once(0..1).collect::<Vec<_>>()
        );
        assert!(split(0, |_| true).is_empty());
    }
}
