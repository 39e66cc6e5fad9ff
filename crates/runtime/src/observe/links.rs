//! A thread's table of links: the node that a change of context led to from another node.
//!
//! # Problem
//! A node remembers one change at each of its few places. An interpreter calls by one instruction whatever comes next, and a
//! function with more calls than places has two at one place. Each such call would cross over to the runtime.
//!
//! # Strategy
//! The table has an entry for each hash of a *key* and a target: the node and the change ([`key`]), and where an indirect branch leads. Generated code
//! looks there before it crosses over (`translate/ways/contexts.rs`). What comes over is put there.
//!
//! # Why it is correct
//! * An entry counts only if its key and its target are those looked for, so another with the same hash is no more than a crossing.
//! * One thread reads and writes a table. It is emptied before the thread, the next one of its memory, or a forked child goes on in another tree.
#![allow(unsafe_code)] // reason: generated code reads the table.

use alloc::vec::Vec;
use core::arch::asm;

use crate::base::address::AppPc;

/// Entries: one for each value of 16 bits, which generated code cuts out without changing a flag.
const ENTRIES: usize = 1 << 16;
/// Bytes of the table. Only pages in use take memory.
pub const LINKS_BYTES: usize = ENTRIES * size_of::<Entry>();

/// An entry, as generated code reads it. Numbers are negated, so that an addition compares them.
#[repr(C)]
pub struct Entry {
    /// The key, negated. 0: there is none.
    pub key: u64,
    /// Target of an indirect branch, negated; else 0.
    pub target: u64,
    /// Address of the node that it leads to.
    pub node: u64,
    pad: u64,
}

/// Returns what a node's keys begin with, to which the number of a change is added.
pub fn key(node: u32) -> u64 {
    u64::from(node) << 32
}

/// The table of a thread.
pub struct Links {
    table: u64,
    used: Vec<u16>,
}

impl Links {
    /// A table in zero memory of [`LINKS_BYTES`].
    ///
    /// # Safety
    /// The memory must be the thread's alone, and stay.
    pub unsafe fn new(table: u64) -> Self {
        let used = Vec::new();
        Self { table, used }
    }

    /// Address that generated code finds it by.
    pub fn address(&self) -> u64 {
        self.table
    }

    /// Remembers where a change leads to. A `target` of 0: it has but one.
    pub fn put(&mut self, key: u64, target: AppPc, node: u64) {
        let place = place(key, target);
        let entry = Entry {
            key: key.wrapping_neg(),
            target: target.0.wrapping_neg(),
            node,
            pad: 0,
        };
        if self.write(place, entry).key == 0 {
            self.used.push(place);
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        for place in core::mem::take(&mut self.used) {
            let empty = Entry {
                key: 0,
                target: 0,
                node: 0,
                pad: 0,
            };
            self.write(place, empty);
        }
    }

    /// Replaces an entry, and returns what was there.
    fn write(&mut self, place: u16, entry: Entry) -> Entry {
        let at = self.table + u64::from(place) * size_of::<Entry>() as u64;
        // SAFETY: in the table, which is the thread's alone; any bytes are an entry.
        unsafe { (at as *mut Entry).replace(entry) }
    }
}

/// Place at which generated code looks for a key and a target: CRC-32C, which starts from the target's low half.
fn place(key: u64, target: AppPc) -> u16 {
    let mut crc = target.0;
    // SAFETY: reads no memory; generated code has the same instruction.
    unsafe {
        asm!("crc32 {0}, {1}", inout(reg) crc, in(reg) key, options(pure, nomem, nostack, preserves_flags));
    }
    crc as u16
}
