//! Probes of queries that only compare and count, in generated code ([`trommel_query::quick`]).
//!
//! # Problem
//! A crossing into the runtime costs a hundred nanoseconds. Whether a record is sent at all often depends on a register that is at hand.
//!
//! # Strategy
//! The tree of the query is written out at the probe. Each way ends in one increment of the thread's own count of it, in the thread's
//! page, which the host reads when the process has ended. Where the engine is needed, the probe crosses as any other.
//!
//! ```text
//!   flags → rax → [slot]      if anything is compared, and flags are live
//!   rcx ← part of a register; cmp rcx, immediate; jcc otherwise
//!   inc [way]; jmp end
//!   ask:  flags back; jmp over     (beside the exit stubs, as in [`super::queries`])
//!   end:  flags back
//! ```
//! Where nothing is compared and flags are live, the count is incremented through `rcx`.
//!
//! # Why it is correct
//! * A tree has [`MAX_TESTS`](trommel_query::quick::MAX_TESTS) tests at most, of two checks: some 700 bytes.
//! * The tree is that of the program, so the host knows what each count means.
//! * The code belongs to its instruction's step, faults nowhere, and ends with all registers as it found them: a signal is
//!   delivered before all of it or after.
//! * A thread page has one writer. It is shared memory, so counts survive the thread and the process.

use core::mem::offset_of;

use trommel_query::instruction::{Relation, Test};
use trommel_query::observe::Held;
use trommel_query::quick::{Check, Node};
use trommel_queue::thread_page::ThreadPage;

use crate::base::address::AppPc;
use crate::base::area::THREAD_PAGE;
use crate::base::emit::{GsOffset, Reg, Rel32};
use crate::observe::query::{self, Probe};
use crate::slot;
use crate::translate::{Site, Translator};

/// Jumps that are not bound yet.
#[derive(Default)]
struct Leaves {
    /// To where the engine is asked.
    ask: alloc::vec::Vec<Rel32>,
    /// To the end.
    end: alloc::vec::Vec<Rel32>,
}

/// The count of a way, of a program whose first has the number `first`.
const fn way(first: u16, number: u8) -> GsOffset {
    let number = first as usize + number as usize;
    let at = THREAD_PAGE + offset_of!(ThreadPage, ways) + 8 * number;
    GsOffset(at as u32)
}

/// The condition code on which a comparison does not hold.
const fn fails(relation: Relation, signed: bool) -> u8 {
    match (relation, signed) {
        (Relation::Equal, _) => 0x5,
        (Relation::NotEqual, _) => 0x4,
        (Relation::Less, false) => 0x3,
        (Relation::LessOrEqual, false) => 0x7,
        (Relation::Greater, false) => 0x6,
        (Relation::GreaterOrEqual, false) => 0x2,
        (Relation::Less, true) => 0xd,
        (Relation::LessOrEqual, true) => 0xf,
        (Relation::Greater, true) => 0xe,
        (Relation::GreaterOrEqual, true) => 0xc,
    }
}

impl Translator {
    /// A probe whose query is a tree; the app goes on at `next`.
    pub(super) fn quick(
        &mut self,
        site: &mut Site<'_>,
        about: Probe,
        (tree, first): (&'static Node, u16),
        next: AppPc,
    ) {
        let spilled = self.job.spilled.rcx;
        let mut asks = None;
        match tree {
            Node::Way(number) if self.flags_are_dead(site, next) => {
                self.job.code.increment_gs(way(first, *number));
            }
            Node::Way(number) => {
                self.spill_rcx();
                self.job.code.load_gs(Reg::RCX, way(first, *number));
                self.job.code.lea(Reg::RCX, Reg::RCX, 1);
                self.job.code.store_gs(way(first, *number), Reg::RCX);
            }
            _ => {
                let parked = !self.all_flags_are_dead(site, &[], Some(next));
                asks = self.tree(about.site, (tree, first), parked);
            }
        }
        if let Some(from) = asks {
            self.ask_engine(about, from, 0);
        }
        if !spilled {
            self.unspill_rcx();
        }
    }

    /// The code of a tree with comparisons. `parked`: flags are to be kept. Returns the jump to where the engine is asked, if it may be.
    fn tree(
        &mut self,
        about: &'static query::Site,
        (tree, first): (&'static Node, u16),
        parked: bool,
    ) -> Option<Rel32> {
        self.spill_rcx();
        if parked {
            self.job.code.store_gs(slot!(spill_flags), Reg::RAX);
            self.job.code.raw(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
        }
        let mut leaves = Leaves::default();
        self.node(about, (tree, first), parked, &mut leaves);
        let asks = (!leaves.ask.is_empty()).then(|| {
            let here = self.job.code.here();
            for rel in leaves.ask {
                self.job.code.bind(rel, here);
            }
            self.flags_back(parked);
            self.job.code.jmp()
        });
        let here = self.job.code.here();
        for rel in leaves.end {
            self.job.code.bind(rel, here);
        }
        self.flags_back(parked);
        asks
    }

    fn flags_back(&mut self, parked: bool) {
        if parked {
            self.job.code.raw(&[0x04, 0x7f, 0x9e]); // add al, 127; sahf
            self.job.code.load_gs(Reg::RAX, slot!(spill_flags));
        }
    }

    fn node(
        &mut self,
        about: &'static query::Site,
        (node, first): (&'static Node, u16),
        parked: bool,
        leaves: &mut Leaves,
    ) {
        match node {
            Node::Ask => leaves.ask.push(self.job.code.jmp()),
            Node::Way(number) => {
                self.job.code.increment_gs(way(first, *number));
                leaves.end.push(self.job.code.jmp());
            }
            Node::Test {
                checks,
                matched,
                otherwise,
            } => {
                let failed: alloc::vec::Vec<Rel32> = (checks.iter())
                    .map(|check| self.check(about, check, parked))
                    .collect();
                self.node(about, (matched, first), parked, leaves);
                let here = self.job.code.here();
                for rel in failed {
                    self.job.code.bind(rel, here);
                }
                self.node(about, (otherwise, first), parked, leaves);
            }
        }
    }

    /// A check. Returns the jump that is executed when it fails.
    fn check(&mut self, about: &query::Site, check: &Check, parked: bool) -> Rel32 {
        // Sites with fields that are not held have no tree.
        match about.observation.held(check.field) {
            Some(Held::Constant(value)) => self.job.code.mov_imm64(Reg::RCX, value),
            Some(Held::General {
                number,
                size,
                second,
            }) => self.word(number, size, second, parked),
            None => {}
        }
        let immediate = check.immediate;
        match check.test {
            Test::Magnitude {
                relation,
                signed,
                lane,
                ..
            } => {
                self.lane(lane.byte(), lane.bits(), signed);
                let immediate = match signed {
                    true => i32::from(immediate as i16),
                    false => i32::from(immediate),
                };
                self.job.code.raw(&[0x48, 0x81, 0xf9]); // cmp rcx, immediate
                self.job.code.raw(&immediate.to_le_bytes());
                self.job.code.jcc(fails(relation, signed))
            }
            Test::Bits { set, lane, .. } => {
                self.lane(lane.byte(), lane.bits(), false);
                if set {
                    self.job.code.raw(&[0x48, 0xf7, 0xd1]); // not rcx
                }
                self.job.code.raw(&[0x48, 0xf7, 0xc1]); // test rcx, immediate
                self.job.code.raw(&u32::from(immediate).to_le_bytes());
                self.job.code.jcc(0x5)
            }
            // No check is a chance.
            Test::Chance(_) => self.job.code.jmp(),
        }
    }

    /// The lower bytes of a register of the app's to `rcx`.
    fn word(&mut self, number: u8, size: u8, second: bool, parked: bool) {
        match number {
            0 if parked => self.job.code.load_gs(Reg::RCX, slot!(spill_flags)),
            1 => self.job.code.load_gs(Reg::RCX, slot!(spill_rcx)),
            2 if self.job.spilled.rdx => self.job.code.load_gs(Reg::RCX, slot!(spill_rdx)),
            number => self.job.code.mov(Reg::RCX, Reg(number)),
        }
        self.lane(second.into(), 8 * u32::from(size), false);
    }

    /// `bits` of `rcx` from a byte on, as all of it.
    fn lane(&mut self, byte: u32, bits: u32, signed: bool) {
        if byte != 0 {
            self.job.code.raw(&[0x48, 0xc1, 0xe9, 8 * byte as u8]); // shr rcx, 8 * byte
        }
        match (bits, signed) {
            (8, false) => self.job.code.raw(&[0x0f, 0xb6, 0xc9]), // movzx ecx, cl
            (16, false) => self.job.code.raw(&[0x0f, 0xb7, 0xc9]), // movzx ecx, cx
            (32, false) => self.job.code.raw(&[0x89, 0xc9]),      // mov ecx, ecx
            (8, true) => self.job.code.raw(&[0x48, 0x0f, 0xbe, 0xc9]), // movsx rcx, cl
            (16, true) => self.job.code.raw(&[0x48, 0x0f, 0xbf, 0xc9]), // movsx rcx, cx
            (32, true) => self.job.code.raw(&[0x48, 0x63, 0xc9]), // movsxd rcx, ecx
            _ => {}
        }
    }
}
