//! Inference on functions of any size and counts.

use std::ops::Range;

use trommel_code::Count;

use super::*;

const LABELS: u64 = 20_000;
const LABELS_SOLVED: u64 = 200;
const START: u64 = 0x40_1000;
/// `jne` past a `nop`, to the next label.
const DIAMOND: [u8; 3] = [0x75, 0x01, 0x90];

fn place(at: u64) -> Place {
    Place::new(ModuleId(1), Vaddr(at))
}

/// A function with a label after each branch.
fn function(range: Range<u64>) -> Function {
    let none = Count::of_events(0.0, None);
    Function {
        module: ModuleId(1),
        name: b"f".to_vec(),
        ranges: vec![range],
        stub: false,
        executed: none,
        at_least: false,
        calls: none,
    }
}

/// Counts of the branches at the labels, which contradict each other.
fn sampled(count: impl Fn(u64) -> u64, labels: u64) -> ModuleFlow {
    let (mut lines, mut transfers) = (Vec::new(), Vec::new());
    for n in 0..labels {
        let at = START + n * DIAMOND.len() as u64;
        lines.push(Straight {
            start: at,
            last: at,
            end: at + 2,
            instructions: 1,
            count: count(n),
        });
        for (to, way) in [(at + 2, Way::NotTaken), (at + 3, Way::Taken)] {
            transfers.push(Transfer {
                from: place(at),
                to: place(to),
                way,
                count: count(n) / 3,
            });
        }
    }
    ModuleFlow {
        module: ModuleId(1),
        lines,
        transfers,
        delivered: Vec::new(),
    }
}

/// Infers the counts of a function of so many labels.
fn inferred_of(flow: ModuleFlow, labels: u64, work: u64) -> (ModuleFlow, Inferred) {
    let mut bytes = DIAMOND.repeat(labels as usize);
    bytes.push(0xc3);
    let code = Code::new(vec![(START, &bytes[..])]);
    let function = function(START..START + bytes.len() as u64);
    inferred(&code, flow, [&function].into_iter(), work)
}

/// A multiplicative hash of a number, below 1000.
fn any(n: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1000
}

/// Returns true if what enters each label but the first leaves it.
fn is_consistent(flow: &ModuleFlow) -> bool {
    let sum = |chosen: &dyn Fn(&Transfer) -> bool| -> u64 {
        let chosen = flow.transfers.iter().filter(|t| chosen(t));
        chosen.map(|transfer| transfer.count).sum()
    };
    let after = START + LABELS_SOLVED * DIAMOND.len() as u64;
    flow.lines.iter().all(|line| {
        let entered = sum(&|t| t.to == place(line.start));
        let left = sum(&|t| t.from == place(line.last));
        (line.start == START || entered == line.count)
            && (line.start == after || left == line.count)
    })
}

#[test]
fn a_function_is_solved_or_said_to_be_too_large() {
    let before = sampled(any, LABELS);
    let (after, number) = inferred_of(before.clone(), LABELS, 1 << 20);
    assert_eq!((number.solved, number.large), (0, 1));
    assert_eq!(after.lines, before.lines);
    assert_eq!(after.transfers, before.transfers);
    assert_eq!(
        number.to_string(),
        "made consistent in 0 functions; 1 is too large and has its counts as they were"
    );
    let before = sampled(any, LABELS_SOLVED);
    assert!(!is_consistent(&before));
    let (after, number) = inferred_of(before, LABELS_SOLVED, WORK);
    assert_eq!(number.to_string(), "made consistent in 1 function");
    assert!(is_consistent(&after), "{after:?}");
}

#[test]
fn counts_beyond_the_largest_stay_and_are_said() {
    for (most, solved) in [(1 << 48, 1), ((1 << 48) + 1, 0), (u64::MAX, 0)] {
        let before = sampled(|n| if n == 2 { most } else { any(n) }, 8);
        let (after, number) = inferred_of(before.clone(), 8, WORK);
        assert_eq!((number.solved, number.counts), (solved, 1 - solved));
        assert_eq!(after.lines == before.lines, solved == 0);
    }
}
