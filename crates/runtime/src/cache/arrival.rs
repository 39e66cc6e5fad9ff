//! Counted arrivals: checked entries that count, for fragments that may become traces and that indirect branches reach.
//!
//! # Problem
//! Between two calls, the executed code has no backward branch. It begins where one function returns to, and ends
//! where the next is called. Such code never becomes a trace by its direct exits, and each return costs a lookup.
//! A hash function that calls its rotation 384 times a round took six times the native time.
//!
//! # Strategy
//! Dynamo counts every exit of the fragment cache (Bala, Duesterwald, Banerjia, PLDI 2000, section 4.1), indirect ones too. Here
//! only arrivals by the tables at the return address of a call are counted. Other targets of indirect branches have sites
//! (`super::head`). Until such a fragment has become a trace, or is known to gain nothing, the tables lead to a *counted arrival*:
//!
//! ```text
//!   tag check
//!   mov ecx, [counter]
//!   lea ecx, [rcx − 1]
//!   mov [counter], ecx
//!   jrcxz hot
//!   mov rcx, target
//!   jmp checked entry
//! hot:                      as if the tables had no entry; the dispatcher sees the counter
//! ```
//!
//! # Why it is correct
//! * It is a checked entry: `rcx` and `rdx` are in their slots, and flags are preserved. The code after it checks the target once
//!   more, or leads to the dispatcher when that fragment is retired.
//! * Its first eight bytes, of an instruction of ten, become a jump to the checked entry when the counter is given back.
#![allow(unsafe_code)] // reason: reads counters, rewrites code.

use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::table::Table;
use super::{Cache, Head};
use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, Reg};
use crate::base::ids::FragmentId;
use crate::cache::entry::tag_check;
use crate::slot;

/// Bytes of a counted arrival, at most.
const ROOM: usize = 112;
/// Number of arrivals at a fragment before a trace starts there, in thresholds: other starts come first.
const TIMES: u32 = 4;

/// The counted arrivals of a generation.
pub(super) struct Arrivals {
    /// Index in `leads`, by address.
    by_address: Table,
    /// Fragments, and where they are counted, and their checked entries.
    leads: Vec<Lead>,
}

#[derive(Clone, Copy)]
struct Lead {
    fragment: FragmentId,
    at: CachePc,
    checked: CachePc,
    arena: usize,
    counter: u32,
    settled: bool,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            by_address: Table::small(),
            leads: Vec::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        if !self.leads.is_empty() {
            *self = Self::new();
        }
    }

    fn of(&mut self, app: AppPc, fragment: FragmentId) -> Option<&mut Lead> {
        let n = self.by_address.get(app)?;
        let lead = self.leads.get_mut(n as usize)?;
        (lead.fragment == fragment).then_some(lead)
    }
}

impl Cache {
    /// Returns the address that the tables lead to for a fragment of code that does not change, and that calls return to. `checked` is its
    /// checked entry. As long as the fragment may become a trace, the address is that of its counted arrival.
    pub fn arrival(&mut self, id: FragmentId, checked: CachePc) -> CachePc {
        let fragment = self.fragments[id.index()];
        let open = matches!(fragment.head, Head::Unknown | Head::Counted(..));
        if self.heads.threshold == 0 || !open {
            return checked;
        }
        if let Some(lead) = self.arrivals.of(fragment.app, id) {
            return if lead.settled { checked } else { lead.at };
        }
        let Some(arena) = self.arena_of(checked) else {
            return checked;
        };
        let room = self.arenas[arena].room() >= ROOM as u64;
        let Some((number, counter)) = room.then(|| self.arenas[arena].take_counter()).flatten()
        else {
            return checked;
        };
        let mut bytes = [0; ROOM];
        let mut code = Code::new(self.arenas[arena].next(), &mut bytes);
        code.align8();
        let start = code.here();
        tag_check(&mut code, fragment.app);
        code.load_rip(Reg::RCX, 4, counter);
        code.raw(&[0x8d, 0x49, 0xff]); // lea ecx, [rcx - 1]
        code.store_rip(Reg::RCX, counter);
        let hot = code.jrcxz();
        code.mov_imm64(Reg::RCX, fragment.app.0);
        let from = code.jmp();
        let rel = checked.0 as i64 - code.at(from.0).0 as i64 - 4;
        code.put_u32(from.0, rel as i32 as u32);
        code.bind8_here(hot);
        code.mov_imm64(Reg::RCX, fragment.app.0);
        code.mov_imm64(Reg::RDX, fragment.app.0);
        code.jmp_gs(slot!(entry.absent));
        let at = self.place_lead(arena, code.bytes());
        let at = CachePc(at.0 + start as u64);
        let n = self.arrivals.leads.len() as u32;
        self.arrivals.leads.push(Lead {
            fragment: id,
            at,
            checked,
            arena,
            counter: number,
            settled: false,
        });
        self.arrivals.by_address.insert(fragment.app, n);
        self.arrives_again(counter);
        at
    }

    fn arrives_again(&self, counter: u64) {
        // SAFETY: a counter of an arena, aligned; generated code reads and writes it whole.
        unsafe { &*(counter as *const AtomicU32) }.store(TIMES * self.heads.threshold, Relaxed);
    }

    /// Returns whether the fragment of `app` was counted to the end where it is arrived at. It counts again.
    pub fn arrival_is_hot(&mut self, app: AppPc) -> bool {
        let Some(id) = self.lookup(app) else {
            return false;
        };
        let Some(lead) = self
            .arrivals
            .of(app, id)
            .copied()
            .filter(|lead| !lead.settled)
        else {
            return false;
        };
        let counter = self.arenas[lead.arena].counter(lead.counter);
        // SAFETY: as above.
        let hot = unsafe { &*(counter as *const AtomicU32) }.load(Relaxed) == 0;
        if hot {
            self.arrives_again(counter);
        }
        hot
    }

    /// Returns the counted arrival of a fragment, if it has one, and its checked entry.
    pub fn counted_arrival(&mut self, id: FragmentId) -> Option<(CachePc, CachePc)> {
        let app = self.fragments[id.index()].app;
        let lead = self.arrivals.of(app, id).filter(|lead| !lead.settled)?;
        Some((lead.at, lead.checked))
    }

    /// A fragment is not counted any more where it is arrived at.
    pub(super) fn settle_arrival(&mut self, id: FragmentId) {
        let app = self.fragments[id.index()].app;
        let Some(lead) = self.arrivals.of(app, id).filter(|lead| !lead.settled) else {
            return;
        };
        lead.settled = true;
        let lead = *lead;
        self.arenas[lead.arena].give_counter_back(lead.counter);
        let mut bytes = [0x90; 8];
        let rel = lead.checked.0 as i64 - lead.at.0 as i64 - 5;
        bytes[0] = 0xe9;
        bytes[1..5].copy_from_slice(&(rel as i32).to_le_bytes());
        // SAFETY: aligned to eight bytes, and the start of an instruction of ten, of which nobody is in the middle.
        unsafe {
            asm!("mov qword ptr [{}], {}", in(reg) lead.at.0, in(reg) u64::from_le_bytes(bytes), options(nostack, preserves_flags));
        }
    }
}
