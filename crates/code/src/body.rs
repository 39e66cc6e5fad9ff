//! The instructions of a function.
//!
//! # Strategy
//! Instructions have many lengths, so where one begins is known only of what something leads to. From the function's start, from each
//! place of a profile's events and from each target of a direct branch, instructions are decoded one after the other. What is
//! left between them (code that only indirect jumps lead to, padding, tables) is decoded from its first byte on.
//!
//! Two instructions may share bytes, as where a branch leads after a prefix: both are in the body.

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use trommel_symbol::Code;

/// An instruction, or a byte that is none.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its vaddr.
    pub at: u64,
    /// The instruction; [`Instruction::is_invalid`] of a byte that is none.
    pub instruction: Instruction,
}

impl Line {
    /// The vaddr after it.
    pub fn end(&self) -> u64 {
        self.at.wrapping_add(self.instruction.len().max(1) as u64)
    }
}

/// The instructions of a function, in the order of their vaddrs.
#[derive(Clone, Debug, Default)]
pub struct Body {
    ranges: Vec<Range<u64>>,
    lines: Vec<Line>,
}

/// No function that anybody reads is longer; what follows is left out.
const MOST_BYTES: u64 = 8 << 20;

impl Body {
    /// The instructions in `ranges`; at `places` instructions are known to begin.
    pub fn new(code: &Code<'_>, ranges: &[Range<u64>], places: &[u64]) -> Self {
        let mut ranges: Vec<Range<u64>> = ranges.iter().filter_map(|r| there(code, r)).collect();
        ranges.sort_unstable_by_key(|r| (r.start, r.end));
        let mut found: BTreeMap<u64, Instruction> = BTreeMap::new();
        let mut starts: Vec<u64> = places.to_vec();
        starts.extend(ranges.iter().map(|r| r.start));
        while let Some(start) = starts.pop() {
            let Some(range) = ranges.iter().find(|r| r.contains(&start)) else {
                continue;
            };
            let Some(mut decoder) = decoder(code, start..range.end) else {
                continue;
            };
            while decoder.can_decode() {
                let at = decoder.ip();
                let instruction = decoder.decode();
                if instruction.is_invalid() || found.insert(at, instruction).is_some() {
                    break;
                }
                if let Some(target) = direct_target(&instruction) {
                    starts.push(target);
                }
                if !falls_through(&instruction) {
                    break;
                }
            }
        }
        for range in &ranges {
            let mut gap = range.start;
            let known: Vec<(u64, u64)> = (found.range(range.clone()))
                .map(|(at, i)| (*at, at + i.len() as u64))
                .collect();
            for (at, end) in known.into_iter().chain([(range.end, range.end)]) {
                if gap < at {
                    sweep(code, gap..at, &mut found);
                }
                gap = gap.max(end);
            }
        }
        let lines = found.into_iter();
        let lines = lines.map(|(at, instruction)| Line { at, instruction });
        Self {
            ranges,
            lines: lines.collect(),
        }
    }

    /// Returns what it is made of, in order; what the file does not have is not in it.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Its instructions.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The number of the instruction at a vaddr.
    pub fn index(&self, at: u64) -> Option<usize> {
        self.lines.binary_search_by_key(&at, |line| line.at).ok()
    }

    /// Returns true if control can leave it other than by a call: it returns, or jumps elsewhere, or falls into what follows it. What
    /// is in the bytes and never executed counts.
    pub fn can_leave(&self) -> bool {
        self.lines.iter().any(|line| {
            let instruction = &line.instruction;
            let away = direct_target(instruction).is_some_and(|to| !self.contains(to));
            let into_next = falls_through(instruction)
                && instruction.flow_control() != FlowControl::Call
                && instruction.flow_control() != FlowControl::IndirectCall
                && !self.contains(line.end());
            let ends = matches!(
                instruction.flow_control(),
                FlowControl::Return | FlowControl::IndirectBranch
            );
            away || into_next || ends
        })
    }

    /// Returns true if a vaddr is in it.
    pub fn contains(&self, at: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&at))
    }
}

/// The part of a range that there are bytes of.
fn there(code: &Code<'_>, range: &Range<u64>) -> Option<Range<u64>> {
    let bytes = code.at(range.start)?.len() as u64;
    let length = range.end.checked_sub(range.start)?;
    let end = range.start.checked_add(length.min(bytes).min(MOST_BYTES))?;
    (range.start < end).then_some(range.start..end)
}

fn decoder<'a>(code: &Code<'a>, range: Range<u64>) -> Option<Decoder<'a>> {
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let bytes = code.at(range.start)?.get(..length)?;
    Some(Decoder::with_ip(
        64,
        bytes,
        range.start,
        DecoderOptions::NONE,
    ))
}

/// Decodes what nothing is known to lead to, each instruction or byte after the other.
fn sweep(code: &Code<'_>, gap: Range<u64>, found: &mut BTreeMap<u64, Instruction>) {
    let mut at = gap.start;
    while at < gap.end {
        let Some(mut decoder) = decoder(code, at..gap.end) else {
            return;
        };
        let mut instruction = decoder.decode();
        if instruction.is_invalid() {
            instruction = Instruction::default();
            instruction.set_ip(at);
            instruction.set_len(1);
        }
        found.insert(at, instruction);
        at += instruction.len() as u64;
    }
}

/// Returns where a direct jump or branch leads; of calls, not.
pub(crate) fn direct_target(instruction: &Instruction) -> Option<u64> {
    let leads = instruction.is_jmp_short_or_near()
        || instruction.flow_control() == FlowControl::ConditionalBranch;
    leads.then(|| instruction.near_branch_target())
}

/// Returns true if the next instruction may be executed after it, a call's when it returns.
pub fn falls_through(instruction: &Instruction) -> bool {
    !instruction.is_invalid()
        && match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception => false,
            // Only the kernel may execute it: programs fault.
            FlowControl::Next => instruction.mnemonic() != Mnemonic::Hlt,
            FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Interrupt
            | FlowControl::XbeginXabortXend => true,
        }
}

/// Returns true of an instruction that no program can execute. After a call, it says that the call never comes back.
pub(crate) fn always_faults(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Ud2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A function in one piece.
    fn whole(range: Range<u64>) -> Vec<Range<u64>> {
        vec![range]
    }

    fn at(body: &Body) -> Vec<u64> {
        body.lines().iter().map(|line| line.at).collect()
    }

    #[test]
    fn a_branch_after_a_prefix_gives_both_instructions() {
        // je +1; lock inc dword [rdi]; ret
        let bytes = [0x74, 0x01, 0xf0, 0xff, 0x07, 0xc3];
        let code = Code::new(vec![(0x10, &bytes)]);
        let body = Body::new(&code, &whole(0x10..0x16), &[]);
        assert_eq!(at(&body), [0x10, 0x12, 0x13, 0x15]);
        assert_eq!(body.lines()[1].end(), body.lines()[2].end());
    }

    #[test]
    fn what_only_an_indirect_jump_leads_to_is_there_and_tables_derail_nothing() {
        // jmp rax; 0x0f 0xff: no instruction that falls into the next; nop; ret
        let bytes = [0xff, 0xe0, 0x48, 0x90, 0xc3];
        let code = Code::new(vec![(0, &bytes)]);
        // With nothing known, the prefix belongs to the nop.
        assert_eq!(at(&Body::new(&code, &whole(0..5), &[])), [0, 2, 4]);
        assert_eq!(at(&Body::new(&code, &whole(0..5), &[3])), [0, 2, 3, 4]);
    }

    #[test]
    fn a_function_without_a_way_out_is_told() {
        let leaves = |bytes: &[u8]| {
            let code = Code::new(vec![(0x10, bytes)]);
            Body::new(&code, &whole(0x10..0x10 + bytes.len() as u64), &[]).can_leave()
        };
        // call; / jmp itself / ret / jmp away / nop
        assert!(!leaves(&[0xe8, 0, 0, 0, 0]));
        assert!(!leaves(&[0x90, 0xeb, 0xfe]));
        assert!(leaves(&[0x74, 0x01, 0xc3, 0xeb, 0xfe]));
        assert!(leaves(&[0xeb, 0x40]));
        assert!(leaves(&[0x90]));
    }

    proptest! {
        #[test]
        fn any_bytes_have_every_byte_in_a_line_and_none_outside(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            places in prop::collection::vec(0_u64..250, 0..4),
            end in 0_u64..300,
        ) {
            let code = Code::new(vec![(0, &bytes)]);
            let body = Body::new(&code, &whole(0..end), &places);
            let end = end.min(bytes.len() as u64);
            let mut covered = vec![false; bytes.len()];
            for line in body.lines() {
                prop_assert!(line.end() <= end && line.end() > line.at);
                covered[line.at as usize..line.end() as usize].fill(true);
            }
            prop_assert!(covered[..end as usize].iter().all(|c| *c));
        }
    }
}
