//! Counts that are derived from events, against counts of every instruction, on random functions that random walks go through.

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::{FlowControl, Instruction};
use proptest::prelude::*;
use trommel_code::{Count, Events, Flow};
use trommel_symbol::Code;

/// End of a block. Targets are numbers of blocks.
#[derive(Clone, Copy, Debug)]
enum End {
    Into,
    Branch(usize),
    Jump(usize),
    Indirect,
    Call,
    Return,
}

/// Address of the functions that are called: not in the code.
const ELSEWHERE: u64 = 0x10_0000;
const START: u64 = 0x1000;

/// Blocks of so many `nop`s and an end, one after the other; a return after them all.
struct Function {
    blocks: Vec<(usize, End)>,
    starts: Vec<u64>,
    bytes: Vec<u8>,
}

impl Function {
    fn new(mut blocks: Vec<(usize, End)>) -> Self {
        blocks.push((0, End::Return));
        let length = |end: &End| match end {
            End::Into => 0,
            End::Branch(_) => 6,
            End::Jump(_) | End::Call => 5,
            End::Indirect => 2,
            End::Return => 1,
        };
        let mut starts = vec![START];
        for (nops, end) in &blocks {
            starts.push(starts.last().expect("one") + (nops + length(end)) as u64);
        }
        let mut bytes = Vec::new();
        let last = blocks.len() - 1;
        for (n, (nops, end)) in blocks.iter().enumerate() {
            bytes.extend(std::iter::repeat_n(0x90, *nops));
            let to = |target: u64| (target.wrapping_sub(starts[n + 1]) as i32).to_le_bytes();
            match *end {
                End::Into => {}
                End::Branch(block) => {
                    bytes.extend([0x0f, 0x84]);
                    bytes.extend(to(starts[block.min(last)]));
                }
                End::Jump(block) => {
                    bytes.push(0xe9);
                    bytes.extend(to(starts[block.min(last)]));
                }
                End::Call => {
                    bytes.push(0xe8);
                    bytes.extend(to(ELSEWHERE));
                }
                End::Indirect => bytes.extend([0xff, 0xe0]),
                End::Return => bytes.push(0xc3),
            }
        }
        Self {
            blocks,
            starts,
            bytes,
        }
    }

    /// Goes through once, by these choices; `None` when that does not end.
    fn walk(&self, choices: &[usize]) -> Option<Vec<usize>> {
        let last = self.blocks.len() - 1;
        let mut choices = choices.iter().cycle();
        let mut path = vec![0];
        let mut at = 0;
        while path.len() < 300 {
            let choice = *choices.next()?;
            at = match self.blocks[at].1 {
                End::Return => return Some(path),
                // What is called does not come back.
                End::Call if choice % 5 == 0 => return Some(path),
                End::Branch(block) if choice % 2 == 0 => block.min(last),
                End::Jump(block) => block.min(last),
                End::Indirect => choice % self.blocks.len(),
                End::Into | End::Call | End::Branch(_) => at + 1,
            };
            path.push(at);
        }
        None
    }
}

/// The events of walks, and what they executed.
#[derive(Default)]
struct Seen {
    events: BTreeMap<u64, u64>,
    arrivals: BTreeMap<u64, u64>,
    executed: BTreeMap<u64, u64>,
}

impl Seen {
    fn of(function: &Function, walks: &[Vec<usize>]) -> Self {
        let mut seen = Self::default();
        for path in walks {
            // It is called.
            *seen.arrivals.entry(START).or_default() += 1;
            for (step, block) in path.iter().enumerate() {
                let (nops, end) = function.blocks[*block];
                let (start, next_start) = (function.starts[*block], function.starts[block + 1]);
                for nop in start..start + nops as u64 {
                    *seen.executed.entry(nop).or_default() += 1;
                }
                let at = start + nops as u64;
                if at < next_start {
                    *seen.executed.entry(at).or_default() += 1;
                }
                if let End::Branch(_) | End::Indirect | End::Call = end {
                    *seen.events.entry(at).or_default() += 1;
                }
                if let (End::Branch(_) | End::Indirect, Some(next)) = (end, path.get(step + 1)) {
                    *seen.arrivals.entry(function.starts[*next]).or_default() += 1;
                }
            }
        }
        seen
    }
}

impl Events for Seen {
    fn exact(&self) -> bool {
        true
    }

    fn sites(&mut self, range: &Range<u64>) -> Vec<u64> {
        self.events
            .range(range.clone())
            .map(|(at, _)| *at)
            .collect()
    }

    fn targets(&mut self, range: &Range<u64>) -> Vec<u64> {
        self.arrivals
            .range(range.clone())
            .map(|(at, _)| *at)
            .collect()
    }

    fn executed(&mut self, at: u64, instruction: &Instruction) -> Option<Count> {
        let has_events = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::IndirectBranch | FlowControl::Call
        );
        let times = self.events.get(&at).copied().unwrap_or(0);
        has_events.then(|| Count::of_events(times as f64, None))
    }

    fn arrivals(&mut self, at: u64) -> Option<Count> {
        let times = self.arrivals.get(&at).copied().unwrap_or(0);
        Some(Count::of_events(times as f64, None))
    }

    fn after_call(&mut self, at: u64) -> Option<Count> {
        let times = self.executed.get(&at).copied().unwrap_or(0);
        Some(Count::of_events(times as f64, None))
    }

    fn returned(&mut self, _: u64, _: &Instruction, executed: Count) -> Count {
        executed
    }
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        2 => Just(End::Into),
        4 => (0_usize..12).prop_map(End::Branch),
        2 => (0_usize..12).prop_map(End::Jump),
        1 => Just(End::Indirect),
        1 => Just(End::Call),
        1 => Just(End::Return),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_instruction_has_its_count(
        blocks in prop::collection::vec((0_usize..3, end()), 1..12),
        choices in prop::collection::vec(prop::collection::vec(0_usize..100, 5..40), 1..6),
    ) {
        let function = Function::new(blocks);
        let walks: Vec<_> = choices.iter().filter_map(|c| function.walk(c)).collect();
        let mut seen = Seen::of(&function, &walks);
        let executed = seen.executed.clone();
        let code = Code::new(vec![(START, &function.bytes)]);
        let range = START..START + function.bytes.len() as u64;
        let flow = Flow::new(&code, std::slice::from_ref(&range), std::slice::from_ref(&range), &mut seen);
        for (n, line) in flow.body.lines().iter().enumerate() {
            let truth = executed.get(&line.at).copied().unwrap_or(0);
            match flow.count(n) {
                Some(count) => prop_assert_eq!(count.times, truth as f64, "{:#x} of {:?}", line.at, function.blocks),
                // Jumps in a circle, into which nothing leads.
                None => prop_assert_eq!(truth, 0, "{:#x} of {:?}", line.at, function.blocks),
            }
        }
    }
}

/// Two functions: the second is only jumped to, by the first.
#[test]
fn a_jump_from_another_function_counts() {
    // je +5; jmp to the second; ret / nop; nop; ret
    let bytes = [0x74, 0x05, 0xe9, 0x01, 0, 0, 0, 0xc3, 0x90, 0x90, 0xc3];
    let code = Code::new(vec![(0, &bytes)]);
    let mut seen = Seen {
        events: [(0, 10)].into(),
        arrivals: [(0, 10), (2, 7), (7, 3)].into(),
        ..Seen::default()
    };
    let functions = [0..8, 8..11];
    let flow = Flow::new(&code, &functions, &functions[1..], &mut seen);
    let counts: Vec<_> = (0..3)
        .map(|n| flow.count(n).expect("known").times)
        .collect();
    assert_eq!(counts, [7.0, 7.0, 7.0]);
    // Of whose jump nobody knows which function it is in, nothing is known.
    let flow = Flow::new(&code, &functions[1..], &functions[1..], &mut seen);
    assert_eq!(flow.count(0), None);
}
