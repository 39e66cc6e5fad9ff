//! Targets of indirect branches: the two tables that generated code reads.
//!
//! # Problem
//! Most indirect branches of a program go to few targets, and the lookup is on their critical path. But
//! large programs have tens of thousands of targets.
//!
//! # Strategy
//! The *first* table has one entry for the low 16 bits of the target, and the lookup in it is inline.
//! Entries hold no key: the fragment that an entry leads to checks the target itself. A target that
//! finds its entry taken goes into the *second* table too, by a hash of the whole address. The lookup
//! there (`arch::mismatch`) is a few dozen instructions and moves what it finds into the first table.
//! Branches that are counted add a key to their targets in both ([`crate::observe::pairs`]).
//! A target in neither goes to the dispatcher. So does a target whose entry in the first table is empty:
//! then it is not in the second either.
//!
//! The first thread has tables of its own, in its huge page. All other threads share theirs. So a new
//! thread finds them filled and costs no memory for them.
//!
//! # While threads execute
//! Entries of eight bytes are read and written whole, and each leads to a checked entry or to a lookup.
//! So whatever mix of old and new a thread reads, it ends at a fragment that has checked its target, or in
//! the dispatcher. A retired fragment's checked entry leads to the dispatcher, which replaces the entries
//! that led there. Before the memory of retired fragments is used again, the tables are emptied.
//!
//! **I13 (checked entries).** An entry of the tables of indirect targets leads to a fragment's checked entry, or to that of a retired one, which leads to the dispatcher. A fragment compares the whole address.
#![allow(unsafe_code)] // reason: tables shared with generated code.

use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::base::address::{AppPc, CachePc};
use crate::base::area::{INDIRECT_ENTRIES, SECOND_LEN, SECOND_SEED};
use crate::base::prefix::Key;
use crate::crossing::arch::Landmarks;

/// Both tables.
pub struct Targets {
    /// Address of the first.
    first: u64,
    /// Address of the second's keys; its entries follow.
    second: u64,
    /// Places of the second table in use.
    used: Vec<u16>,
}

impl Targets {
    /// The tables at these addresses, emptied.
    ///
    /// # Safety
    /// Both must stay mapped; the second must be all zero.
    pub unsafe fn new(first: u64, second: u64) -> Self {
        let mut targets = Self {
            first,
            second,
            used: Vec::new(),
        };
        // An empty place has key 0, which is the key of the address −1. There, another key: of an
        // address that belongs elsewhere.
        let place = hash(AppPc(u64::MAX));
        let other = (1..).find(|key| hash(AppPc(!*key)) != place);
        targets.key(place).store(other.unwrap_or(1), Relaxed);
        targets.clear();
        targets
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: inside a table, aligned.
        unsafe { &*(at as *const AtomicU64) }
    }

    fn first(&self, index: usize) -> &AtomicU64 {
        self.word(self.first + 8 * (index % INDIRECT_ENTRIES) as u64)
    }

    fn key(&self, place: u16) -> &AtomicU64 {
        self.word(self.second + 8 * u64::from(place))
    }

    fn second(&self, place: u16) -> &AtomicU64 {
        self.word(self.second + 8 * (SECOND_LEN as u64 + u64::from(place)))
    }

    /// Leads branches with this key to `app` to a checked entry, or to the code of the pair.
    pub fn put(&mut self, app: AppPc, key: Key, entry: CachePc) {
        let slot = self.first(app.0.wrapping_add(key.offset().into()) as usize);
        let app = AppPc(app.0.wrapping_add(key.spread()));
        let taken = slot.load(Relaxed) != Landmarks::absent();
        slot.store(entry.0, Release);
        if taken && app.0 != u64::MAX {
            let place = hash(app);
            self.second(place).store(entry.0, Relaxed);
            self.key(place).store(!app.0, Release);
            self.used.push(place);
        }
    }

    /// Leads branches to `app` that were led to `from` to `to`.
    pub fn replace(&mut self, app: AppPc, from: CachePc, to: CachePc) {
        let slot = self.first(app.0 as usize);
        let second = self.second(hash(app));
        for entry in [slot, second] {
            if entry.load(Relaxed) == from.0 {
                entry.store(to.0, Release);
            }
        }
    }

    /// Empties both tables.
    pub fn clear(&mut self) {
        self.abandon();
        self.used.clear();
    }

    /// Empties both tables, and leaves the list of what they held as it is.
    pub fn abandon(&self) {
        let miss = Landmarks::absent();
        // SAFETY: all entries of the first table; each is stored whole.
        unsafe {
            asm!("rep stosq", inout("rcx") INDIRECT_ENTRIES => _, inout("rdi") self.first => _, in("rax") miss, options(nostack, preserves_flags));
        }
        for &place in &self.used {
            self.key(place).store(0, Relaxed);
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
