//! The code of a module that was executed, instruction by instruction.
//!
//! # Problem
//! A module may have a hundred megabytes of code, of which a run executed a few. Only that is worth decoding.
//!
//! # Strategy
//! Control comes to code by a recorded transfer, after a call or a system call, or by a direct jump from other such code. So
//! decoding begins at each recorded target and follows these ways. A site that is not met so was reached in a way that is no event: by
//! the kernel, or by a `ret` to no call. There its function is decoded from the last known instruction before
//! the site, and what leads straight to the site was executed too.
//!
//! # Why it is right
//! Each instruction is decoded at an address that control is known to have had, but for those of the last kind: they are decoded
//! in step with the site, or left out. Time is bounded by the bytes of code: an address is decoded once.
//!
//! The kernel enters a program at the entry point of its file, which no event tells. After a call, an instruction that always faults was not executed:
//! compilers put it where the call never comes back. What follows the last call of a function was not executed either, where the function is known to end there.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use trommel_symbol::Code;

use crate::body::always_faults;
use crate::exit::Exit;
use crate::kernel::never_comes_back;
use crate::steps::{Step, Steps};
use crate::transfers::Transfers;

/// The instructions that were executed, and where straight lines begin.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    pub(crate) steps: Steps,
    /// System calls that never come back, by the vaddrs of the instructions that made their numbers.
    last: Vec<(u64, u64)>,
}

/// Bytes that are decoded in search of the way to a site, at most.
const MOST_BEFORE: u64 = 1 << 20;

impl Reached {
    /// Decodes what was executed. `functions` are all of the module, in the order of their starts.
    pub(crate) fn new(
        code: &Code<'_>,
        functions: &[Range<u64>],
        transfers: &Transfers,
        ends: &dyn Fn(u64) -> bool,
    ) -> Self {
        let mut reached = Self::default();
        let targets = transfers.into.keys().chain(transfers.delivered.keys());
        reached.from(code, ends, targets.copied().collect());
        let sites = transfers.control.keys().chain(transfers.others.keys());
        let mut sites: Vec<u64> = sites.copied().collect();
        sites.sort_unstable();
        for site in sites {
            if !reached.steps.contains(site) {
                let head = reached.way_to(code, functions, site);
                reached.from(code, ends, vec![head]);
            }
        }
        reached.from(code, ends, code.entry().into_iter().collect());
        reached.come_back(code, ends);
        reached
    }

    /// Goes on after system calls to which other ways lead than the one along which their numbers are known.
    fn come_back(&mut self, code: &Code<'_>, ends: &dyn Fn(u64) -> bool) {
        while let Some(found) = self
            .last
            .iter()
            .position(|(since, at)| (since + 1..=*at).any(|between| self.steps.is_head(between)))
        {
            let (_, at) = self.last.swap_remove(found);
            if let Some(Step { length, .. }) = self.steps.get(at) {
                let exit = Exit::System;
                self.steps.insert(at, Step { length, exit });
                let next = at + u64::from(length);
                self.from(code, ends, vec![next]);
            }
        }
    }

    /// Decodes from these heads on.
    fn from(&mut self, code: &Code<'_>, ends: &dyn Fn(u64) -> bool, mut heads: Vec<u64>) {
        let mut line = Vec::new();
        while let Some(head) = heads.pop() {
            let Some(bytes) = code.at(head) else {
                continue;
            };
            if !self.steps.add_head(head) || self.steps.contains(head) {
                continue;
            }
            let mut decoder = Decoder::with_ip(64, bytes, head, DecoderOptions::NONE);
            let mut instruction = Instruction::default();
            line.clear();
            while decoder.can_decode() {
                let at = decoder.ip();
                if self.steps.contains(at) {
                    // Two lines come together here.
                    self.steps.add_head(at);
                    break;
                }
                decoder.decode_out(&mut instruction);
                let mut exit = Exit::of(&instruction);
                if instruction.is_invalid() {
                    break;
                }
                line.push(instruction);
                if exit == Exit::System
                    && let Some(since) = never_comes_back(&line)
                {
                    exit = Exit::Nowhere;
                    self.last.push((since, at));
                }
                let length = instruction.len() as u8;
                let next = at + u64::from(length);
                self.steps.insert(at, Step { length, exit });
                match exit {
                    Exit::Next => continue,
                    Exit::Jump(to) => heads.push(to),
                    Exit::Call if ends(next) || faults_at(code, next) => {}
                    Exit::Call | Exit::System => heads.push(next),
                    Exit::Branch | Exit::IndirectJump | Exit::Return | Exit::Nowhere => {}
                }
                break;
            }
        }
    }

    /// Returns where the straight line begins that leads to a site.
    fn way_to(&self, code: &Code<'_>, functions: &[Range<u64>], site: u64) -> u64 {
        let after = functions.partition_point(|f| f.start <= site);
        let around = functions[..after].iter().rev().take(16);
        let start = around.into_iter().find(|f| f.contains(&site));
        let start = start.map_or(site, |f| f.start);
        // What is farther away does not lead there either.
        let near = start.max(site.saturating_sub(MOST_BEFORE + 15))..site;
        let last = self.steps.last_in(near);
        let mut head = last.map_or(start, |(at, step)| at + u64::from(step.length));
        if head > site || site - head > MOST_BEFORE {
            return site;
        }
        let Some(bytes) = code.at(head) else {
            return site;
        };
        let mut decoder = Decoder::with_ip(64, bytes, head, DecoderOptions::NONE);
        while decoder.can_decode() && decoder.ip() < site {
            let instruction = decoder.decode();
            if Exit::of(&instruction) != Exit::Next {
                head = decoder.ip();
            }
        }
        match decoder.ip() == site {
            true => head,
            false => site,
        }
    }
}

/// Returns true if the instruction at a vaddr always faults.
fn faults_at(code: &Code<'_>, at: u64) -> bool {
    let decoded = |bytes| Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
    code.at(at)
        .is_some_and(|bytes| always_faults(&decoded(bytes)))
}
