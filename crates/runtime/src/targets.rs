//! Where indirect branches lead: the two tables that generated code looks into.
//!
//! # Problem
//! Most branches that a program executes indirectly go to few targets, and the lookup is on their
//! critical path; but large programs have tens of thousands of targets.
//!
//! # Strategy
//! The *first* table has one entry for the low 16 bits of the target and is looked into inline.
//! Entries hold no key: the fragment that an entry leads to checks the target itself. A target that
//! finds its entry taken goes into the *second* table too, by a hash of the whole address; its
//! lookup (`arch::mismatch`) is a few dozen instructions and moves what it finds into the first.
//! What is in neither goes to the dispatcher.
//!
//! # Invariant
//! An entry leads to the checked entry of a fragment that may be executed, or (in the first table)
//! to the lookup in the second. Whoever retires a fragment calls [`Targets::forget`].
#![allow(unsafe_code)] // reason: tables shared with generated code.

use alloc::vec::Vec;
use core::arch::asm;

use crate::arch::Landmarks;
use crate::area::{
    INDIRECT_ENTRIES, INDIRECT_TABLE, SECOND_ENTRIES, SECOND_KEYS, SECOND_LEN, SECOND_SEED,
};
use crate::cache::{AppPc, CachePc};

/// Both tables.
pub struct Targets {
    area: u64,
    /// Places of the second table in use.
    used: Vec<u16>,
}

impl Targets {
    /// The tables of the thread area at `area`, emptied.
    ///
    /// # Safety
    /// The area must stay mapped, the second table too, which must be all zero.
    pub unsafe fn new(area: u64) -> Self {
        let mut targets = Self {
            area,
            used: Vec::new(),
        };
        // An empty place has key 0, which is the key of the address −1. There, another key: of an
        // address that belongs elsewhere.
        let place = hash(AppPc(u64::MAX));
        let other = (1..).find(|key| hash(AppPc(!*key)) != place);
        targets.set_key(place, other.unwrap_or(1));
        targets.clear();
        targets
    }

    fn first(&mut self, index: usize) -> &mut CachePc {
        let at = self.area + u64::from(INDIRECT_TABLE.0) + 8 * (index % INDIRECT_ENTRIES) as u64;
        // SAFETY: inside the table; no generated code runs while the runtime does.
        unsafe { &mut *(at as *mut CachePc) }
    }

    fn key(&mut self, place: u16) -> &mut u64 {
        let at = self.area + u64::from(SECOND_KEYS.0) + 8 * u64::from(place);
        // SAFETY: as in `first`.
        unsafe { &mut *(at as *mut u64) }
    }

    fn set_key(&mut self, place: u16, key: u64) {
        *self.key(place) = key;
    }

    fn second(&mut self, place: u16) -> &mut CachePc {
        let at = self.area + u64::from(SECOND_ENTRIES.0) + 8 * u64::from(place);
        // SAFETY: as in `first`.
        unsafe { &mut *(at as *mut CachePc) }
    }

    /// Leads branches to `app` to a checked entry.
    pub fn put(&mut self, app: AppPc, entry: CachePc) {
        let slot = self.first(app.0 as usize);
        let taken = slot.0 != Landmarks::indirect();
        *slot = entry;
        if taken && app.0 != u64::MAX {
            let place = hash(app);
            self.set_key(place, !app.0);
            *self.second(place) = entry;
            self.used.push(place);
        }
    }

    /// Branches to `app` come to the dispatcher again.
    pub fn forget(&mut self, app: AppPc, entry: CachePc) {
        let slot = self.first(app.0 as usize);
        if *slot == entry {
            *slot = CachePc(Landmarks::indirect());
        }
        let place = hash(app);
        if *self.key(place) == !app.0 {
            self.set_key(place, 0);
        }
    }

    /// Empties both tables.
    pub fn clear(&mut self) {
        let miss = Landmarks::indirect();
        let first: *mut CachePc = self.first(0);
        // SAFETY: all entries of the first table.
        unsafe {
            asm!("rep stosq", inout("rcx") INDIRECT_ENTRIES => _, inout("rdi") first => _, in("rax") miss, options(nostack, preserves_flags));
        }
        for place in core::mem::take(&mut self.used) {
            self.set_key(place, 0);
        }
    }
}

/// A target's place in the second table, as the lookup computes it.
fn hash(app: AppPc) -> u16 {
    const _: () = assert!(SECOND_LEN == 1 << 16);
    let mut crc = u64::from(SECOND_SEED);
    // SAFETY: the host starts the runtime only where the processor has SSE4.2.
    unsafe {
        asm!("crc32 {0}, {1}", inout(reg) crc, in(reg) app.0, options(pure, nomem, nostack, preserves_flags));
    }
    crc as u16
}
