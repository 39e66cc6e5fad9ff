//! Fragments without addresses, and back ([`crate::channel::persist`]).
//!
//! # Problem
//! A record must be right wherever the code of the app and the fragment lie next time. These bytes of a fragment
//! depend on that: operands relative to the instruction, addresses of the app, numbers of exits, and jumps to
//! exit stubs.
//!
//! # Strategy
//! The writer of such a field notes it ([`Field`]). The record holds the rest without addresses: an offset in the
//! file that the code is from. Exit stubs are made anew. Where code depends on its own address otherwise (alignment), it
//! does so modulo a cache line, so a fragment is put at the same place in a line.
//!
//! *If paths are counted*, a record has the dictionary's entries of the fragment: the events of its block, its paths, and the
//! indirect branch that is counted. They get numbers and a key of this run when the fragment is loaded.
//!
//! *If a sampler counts events* ([`crate::channel::strata`]), the paths are those that its messages name. The counter of each,
//! or the start of a value's hash, is computed anew, as it depends on the host's name of the place.
//!
//! *If values are counted exactly* ([`super::value_counters`]), the paths are those of value counters. The start of a value
//! counter's index is made from the path's number of this run.
//!
//! With [strides](super::strides), a record has the kinds of events that are counted, the kinds that the dictionary has
//! messages about, and the exits for a near sample.
//!
//! A fragment that cannot be written like this is not kept: one with operands out of reach, of code that may change or is not of one
//! region of a file, one that records, one with a pool of constants for the hash of values (`:mul`), and traces.
//!
//! # Why it is correct
//! * Two mappings of one file, translated at different addresses, must give the same records, bit for bit. A field that
//!   was not noted would differ. The tests of this module compare all functions of the C library like that.
//! * Code beside the fragment's own that was looked at, to find out if flags are used after it, is compared, too.
//!
//! **I17 (kept fragments).** A kept fragment is used only where file and bytes of its code are those that it was made from. Apart from addresses and numbers of a run, it is what the translator would make, bit for bit.
#![allow(unsafe_code)] // reason: reads the app's code.

mod field;
mod fields;
mod keep;
mod load;
pub(super) mod parts;
mod paths;

use alloc::vec::Vec;

pub(super) use field::Field;
pub(super) use paths::Numbered;

use super::Translator;
use crate::base::address::AppPc;
use crate::base::ids::{ExitId, ExitNumber};
use crate::observe::pairs::Branch;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Fields of the fragment being made, and whether it can be kept.
#[derive(Default)]
pub(super) struct Notes {
    fields: Vec<(Field, u16)>,
    /// Something in it depends on addresses in another way.
    unfit: bool,
    /// The first of its exits, as an index in [`crate::cache::Cache::exits`], and its number.
    first_exit: (usize, ExitId),
    /// Its paths.
    paths: Vec<Numbered>,
    /// Its indirect branch that is counted.
    branch: Option<Branch>,
    /// App code beside its own that it depends on.
    pub(super) looked: Vec<(AppPc, AppPc)>,
    /// The record being made.
    pub(super) record: Vec<u8>,
    /// Places of the sampler's counters in the code, and the numbers of the paths of their messages.
    counted: Vec<(u16, ExitNumber)>,
    /// The numbers of the paths of what is brought back, and the sampler's counters of those that messages name.
    numbers: Vec<ExitNumber>,
    strata: Vec<Option<(Field, u32)>>,
    /// Bytes of app code in what was loaded last.
    loaded_app_bytes: u64,
}

/// Records that are looked at after one.
pub const AHEAD: usize = 128;

impl Notes {
    pub(super) fn begin(&mut self, first_exit: (usize, ExitId)) {
        self.fields.clear();
        self.paths.clear();
        self.counted.clear();
        self.branch = None;
        self.looked.clear();
        self.unfit = false;
        self.first_exit = first_exit;
    }
}

impl Translator {
    /// The field at an offset of the code depends on addresses.
    #[inline]
    pub(super) fn note(&mut self, field: Field, at: usize) {
        self.job.notes.fields.push((field, at as u16));
    }

    /// The field at an offset of the code is what `field` says, of what messages are about that name this path.
    pub(super) fn note_counted(&mut self, field: Field, at: usize, path: ExitNumber) {
        self.note(field, at);
        self.job.notes.counted.push((at as u16, path));
    }

    /// The fragment being made depends on code that is not its own.
    pub(super) fn note_look(&mut self, from: AppPc, to: AppPc) {
        let looked = &mut self.job.notes.looked;
        if !looked.iter().any(|l| l.0 <= from && to <= l.1) {
            looked.push((from, to));
        }
    }

    /// The fragment being made depends on addresses in a way that a record cannot hold.
    pub(super) fn is_unfit(&mut self) {
        self.job.notes.unfit = true;
    }

    /// An address of the app was just written by [`Code::mov_imm`].
    pub(super) fn note_immediate(&mut self, address: AppPc) {
        let here = self.job.code.here();
        match i32::try_from(address.0) {
            Ok(_) => self.note(Field::Low, here - 4),
            Err(_) if u32::try_from(address.0).is_ok() => self.is_unfit(),
            Err(_) if i32::try_from(address.0 as i64).is_ok() => self.is_unfit(),
            Err(_) => self.note(Field::Absolute, here - 8),
        }
    }
}

#[cfg(test)]
mod tests;
