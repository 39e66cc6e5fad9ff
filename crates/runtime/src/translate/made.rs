//! Code that may change: read once, kept for comparison, and guarded where changes are not seen.
//!
//! # Why it is correct
//! * Other threads may write while code is read. It is read in aligned words, each whole, so
//!   that a store which programs use to change code that others execute is seen or not; and only
//!   once: what is decoded, copied and kept for comparison is the same.
//! * A guarded fragment compares before its first instruction and contains no instruction that
//!   could change what was compared, but for its last. So its own stores are seen by the next
//!   instruction; other threads' at its next entry, which comes before a branch goes anywhere.
//! * Where changes are not seen, others may take a page away after it was looked at: the read then ends before, and no fragment is made.
//! * After an instruction that serializes, what other threads wrote before must be seen: it ends a
//!   fragment.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;

use linux_raw_sys::general as nr;

use super::{MAX_INSNS, Refusal, Shape, Site, Translator};
use crate::base::address::AppPc;
use crate::base::decode::{Insn, Reader, writes_memory};
use crate::base::emit::{Mem, Reg};
use crate::base::keys::with_keys_lifted;
use crate::cache::{Cache, Exit, Fragment, FragmentState, Spilled};
use crate::crossing::arch::read_words;
use crate::memory::mapping::{Mapping, Nature};
use crate::memory::pages::{PAGE, Pages, page_of};
use crate::slot;

/// Bytes of the longest instruction.
const LONGEST: u64 = 15;
/// Bytes that a fragment is made from at most.
const MOST: usize = MAX_INSNS * LONGEST as usize;
/// App instructions in a guarded fragment: each byte costs three of its own.
const MAX_GUARDED: usize = 16;

/// Copy of the bytes that were read last.
pub(super) struct Buffer {
    /// A word before may be read in part, and 16 bytes after are read with the last instruction.
    words: Vec<u64>,
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self {
            words: alloc::vec![0; MOST / 8 + 4],
        }
    }
}

/// The way in which a fragment gets the app's code.
#[derive(Clone, Copy, Default)]
pub(super) struct From {
    /// True if the code may change; there is a copy.
    pub(super) made: bool,
    /// Unseen.
    pub(super) guarded: bool,
    /// One instruction that may change the code after it.
    pub(super) single: bool,
    /// The logarithm of its greatest number of instructions, at the end of a window.
    part: Option<u8>,
    /// The app may store to it, or others unseen.
    stored_to: bool,
    /// True if it is a piece of a path that is recorded.
    pub(super) recorded: bool,
    /// The one instruction lies across two pages.
    across: bool,
    /// Distance from an app address to that of its byte in the copy.
    shift: u64,
    /// End of the copy.
    end: u64,
}

impl From {
    pub(super) fn of(shape: Shape) -> Self {
        Self {
            single: shape == Shape::Single,
            part: match shape {
                Shape::Part(size) => Some(size),
                _ => None,
            },
            recorded: shape == Shape::Recorded,
            ..Self::default()
        }
    }

    /// Returns the address of the bytes of an instruction.
    pub(super) fn at(&self, pc: AppPc) -> *const u8 {
        pc.0.wrapping_add(self.shift) as *const u8
    }

    /// App instructions at most.
    pub(super) fn limit(&self, max: usize) -> usize {
        match self.part {
            _ if self.single || self.across => 1,
            Some(size) => max.min(1 << size),
            None if self.guarded => max.min(MAX_GUARDED),
            None => max,
        }
    }

    /// Returns true if it is found by its address, and linked.
    pub(super) fn is_usual(&self) -> bool {
        !self.single && !self.recorded && self.part.is_none()
    }

    /// Returns true if an instruction at `pc` may be incomplete in the copy.
    pub(super) fn ends_early(&self, pc: AppPc) -> bool {
        self.made && !self.across && self.end - pc.0 < LONGEST
    }

    pub(super) fn state(&self) -> FragmentState {
        match self.is_usual() {
            true => FragmentState::Live,
            false => FragmentState::Suspect,
        }
    }
}

/// Makes a page ready to have its code read. Whether what is made of it must be guarded.
pub fn prepare(pages: &mut Pages, mapping: &Mapping, page: u64) -> bool {
    match mapping.nature() {
        Nature::Fixed | Nature::Made => false,
        Nature::Unseen => true,
        Nature::Writable => {
            let read = if mapping.readable { nr::PROT_READ } else { 0 };
            pages.ready(page, read | nr::PROT_WRITE | nr::PROT_EXEC)
        }
    }
}

impl Translator {
    /// Reads the code at `pc`, to the end of its page at most.
    pub(super) fn read_made<'a>(
        &mut self,
        site: &mut Site<'_>,
        pc: AppPc,
        region: usize,
    ) -> Result<Reader<'a>, Refusal> {
        let page = page_of(pc.0);
        if !site.regions.page_is_readable(region, page) {
            return Err(Refusal::Native);
        }
        self.job.from.made = true;
        // What executes one instruction of an open page has just opened it.
        let mapping = &site.regions.known[region];
        self.job.from.stored_to = matches!(mapping.nature(), Nature::Writable | Nature::Unseen);
        if self.config.windows {
            self.job.from.guarded = true;
        } else if !self.job.from.single {
            self.job.from.guarded = prepare(site.pages, mapping, page);
        }
        let end = (page + PAGE).min(pc.0 + MOST as u64);
        self.copy_made(pc, end)
    }

    /// Reads the one instruction at `pc`, which lies across the end of its page.
    pub(super) fn across<'a>(
        &mut self,
        site: &mut Site<'_>,
        pc: AppPc,
    ) -> Result<Reader<'a>, Refusal> {
        self.job.from.across = true;
        let next = page_of(pc.0) + PAGE;
        let mut end = next;
        // Not there, or not code: the instruction is decoded as what it is without.
        if let Ok(region) = Self::region(site, AppPc(next))
            && site.regions.page_is_readable(region, next)
        {
            end = pc.0 + LONGEST;
            if !self.job.from.single && !self.config.windows {
                self.job.from.guarded |= prepare(site.pages, &site.regions.known[region], next);
            }
        }
        self.copy_made(pc, end)
    }

    fn copy_made<'a>(&mut self, pc: AppPc, end: u64) -> Result<Reader<'a>, Refusal> {
        let first = pc.0 & !7;
        let count = (end - first).div_ceil(8);
        let words = &mut self.made.words[..count as usize];
        // SAFETY: the buffer is there. Words are aligned, and each is read in one access: others may write to it.
        let read = with_keys_lifted(|| unsafe { read_words(first, count, words.as_mut_ptr()) });
        if read < count {
            return Err(Refusal::Native);
        }
        let copy = self.made.words.as_ptr() as u64;
        self.job.from.shift = copy.wrapping_sub(first);
        self.job.from.end = end;
        // SAFETY: the buffer is as long as it will ever be, and is not written before the fragment
        // is made.
        let code =
            unsafe { core::slice::from_raw_parts(self.job.from.at(pc), (end - pc.0) as usize) };
        Ok(Reader::new(code, pc))
    }

    /// Returns true if a fragment of code that may change ends after `insn`.
    pub(super) fn ends_after(&self, insn: &Insn) -> bool {
        const SERIALIZING: [&[u8]; 2] = [&[0x0f, 0xa2], &[0x0f, 0x01, 0xe8]]; // cpuid, serialize
        // SAFETY: the instruction was decoded from these bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size()) };
        SERIALIZING.contains(&bytes)
            || self.job.from.guarded && self.job.from.stored_to && writes_memory(bytes, insn.pc())
    }

    /// Keeps what the fragment was made from.
    pub(super) fn keep_source(&self, cache: &mut Cache, fragment: &mut Fragment) {
        if !self.job.from.made {
            return;
        }
        let span = self.job.span;
        // SAFETY: all of the span was read.
        let bytes = unsafe {
            let len = (span.end - span.start) as usize;
            core::slice::from_raw_parts(self.job.from.at(AppPc(span.start)), len)
        };
        fragment.source = u32::try_from(cache.sources.len()).ok();
        cache.sources.extend_from_slice(bytes);
    }

    /// Compares the code of the fragment with what it is made from. Leaves `rcx` and `rdx` in their
    /// slots.
    pub(super) fn guard(&mut self, cache: &mut Cache, app: AppPc) {
        self.spill_rcx();
        self.spill_rdx();
        let stub = self.job.stubs.at(self.job.stubs.here());
        let exit = cache.new_exit(Exit {
            prefix: self.job.prefix,
            ..Exit::fixed(app)
        });
        self.job.stubs.load_gs(Reg::RDX, slot!(spill_rdx));
        self.job.stubs.load_gs(Reg::RCX, slot!(spill_rcx));
        self.job.stubs.store_gs_imm32(slot!(exit), exit.0);
        self.job.stubs.jmp_gs(slot!(entry.changed));
        let mut at = self.job.span.start;
        while at < self.job.span.end {
            let left = self.job.span.end - at;
            // Words that a store changes whole are compared whole.
            let aligned = 1 << at.trailing_zeros().min(3);
            let size = [8, 4, 2, 1]
                .into_iter()
                .find(|&s| s <= left && s <= aligned);
            let size = size.unwrap_or(1);
            let mut bytes = [0u8; 8];
            // SAFETY: in the span, which was read.
            unsafe {
                let from = self.job.from.at(AppPc(at));
                core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size as usize);
            }
            let expected = u64::from_le_bytes(bytes);
            if !self.job.code.load_rip(Reg::RCX, size as u8, at) {
                self.job.code.mov_imm(Reg::RCX, at);
                let mem = Mem {
                    base: Some(Reg::RCX),
                    index: None,
                    disp: 0,
                    fs: false,
                    short: false,
                };
                self.job.code.load_mem(Reg::RCX, size as u8, &mem);
            }
            self.job.code.mov_imm(Reg::RDX, expected.wrapping_neg());
            self.job.code.add_rdx_to_rcx();
            let same = self.job.code.jrcxz();
            let from = self.job.code.jmp();
            let rel = stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4;
            self.job.code.put_u32(from.0, rel as i32 as u32);
            self.job.code.bind8_here(same);
            at += size;
        }
        self.job.spilled = Spilled::BOTH;
    }
}
