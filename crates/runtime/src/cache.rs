//! The code cache: where fragments live and how they are found.
//!
//! # Problem
//! A fragment's instructions keep their RIP-relative operands and are linked by 32-bit jumps, so
//! it must lie within 2 GiB of the data its app code refers to. Programs have code in clusters far
//! apart (the executable, the libraries).
//!
//! # Strategy
//! Code lives in *arenas* of [`ARENA_BYTES`] of address space, one for each cluster, reserved in a
//! gap close to it. Fragments fill an arena from the bottom, exit stubs from [`STUB_OFFSET`] on, so
//! that code which is executed once stays away from code which is executed often.
//!
//! A dense open-addressing table leads from app addresses to fragments. Nothing is ever moved: a
//! fragment whose app code goes away is *retired* by overwriting its first bytes with a jump to an
//! exit stub, so every link to it leads to the dispatcher from then on. Space comes back when
//! everything is flushed, which the dispatcher may do whenever the app's state is in the context.
//!
//! # Invariants
//! * Fragments and stubs only grow within their arena until a flush; so the list of fragments of
//!   an arena is sorted by address, and a cache address is found by binary search.
//! * Every byte between a fragment's first step and its `end` belongs to exactly one of its steps.
#![allow(unsafe_code)] // reason: writes machine code into arenas.

use alloc::vec::Vec;
use linux_raw_sys::general as nr;

use crate::emit::Reg;
use crate::region::{self, Range};
use crate::sys;

/// An address of the app's own code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct AppPc(pub u64);

/// An address in the code cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CachePc(pub u64);

/// Address space of one arena.
pub const ARENA_BYTES: u64 = 256 << 20;
/// Where an arena's stubs begin.
const STUB_OFFSET: u64 = 192 << 20;
/// Distance that every operand and link within an arena's reach keeps below.
const REACH: u64 = 0x7800_0000;

/// Where an app instruction lies in a fragment, or several that were copied one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Offset of its first byte from the fragment's entry.
    pub cache: u16,
    /// Bytes from there on that lie as they do in the app's code.
    pub copied: u16,
    /// Events of the fragment's main line before it.
    pub events: u8,
    /// Run-time values recorded before it.
    pub values: u8,
    /// Its app address, relative to the fragment's.
    pub app: i32,
    /// Registers that are in their slots when it starts.
    pub spilled: Spilled,
    /// Registers that are in their slots if it faults.
    pub at_fault: Spilled,
    /// A register in the slot for far operands if it faults.
    pub far: Option<Reg>,
}

impl Step {
    /// Whether what `next` describes lies behind this step as it does in the app's code, with all
    /// else the same.
    pub fn goes_on(&self, next: &Self) -> bool {
        self.copied != 0
            && self.cache + self.copied == next.cache
            && self.app + i32::from(self.copied) == next.app
            && self.spilled == next.spilled
    }

    /// The app address, relative to the fragment's, of what lies `offset` bytes behind the
    /// fragment's entry, if that is an instruction of this step.
    pub fn app_at(&self, offset: u64) -> Option<i32> {
        let within = offset.checked_sub(u64::from(self.cache))?;
        (within == 0 || within < u64::from(self.copied)).then_some(self.app + within as i32)
    }
}

/// Which of `rcx` and `rdx` are not the app's, their values being in their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spilled {
    /// `rcx`
    pub rcx: bool,
    /// `rdx`
    pub rdx: bool,
}

impl Spilled {
    /// Both are the app's.
    pub const NONE: Self = Self {
        rcx: false,
        rdx: false,
    };
    /// Neither is.
    pub const BOTH: Self = Self {
        rcx: true,
        rdx: true,
    };
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// App address of its first instruction.
    pub app: AppPc,
    /// Where direct links enter, all registers the app's.
    pub entry: CachePc,
    /// Where the inline lookup enters (the tag check), if it has been made, `rcx` and `rdx` in
    /// their slots.
    pub checked: Option<CachePc>,
    /// Behind its last byte.
    pub end: CachePc,
    /// The register stolen from the first step to each exit, if any.
    pub stolen: Option<u8>,
    /// Its first step in [`Cache::steps`].
    pub first_step: u32,
    /// How many there are.
    pub steps: u16,
    /// App instructions in them.
    pub insns: u16,
    /// Its block in the dictionary, if it has events.
    pub block: Option<u32>,
    /// The app addresses it was made from.
    pub span: Range,
    /// Its app code has changed; it is never entered again.
    pub retired: bool,
}

/// An exit that can be linked.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The 32-bit displacement to rewrite, or 0 when this exit is never linked.
    pub patch: CachePc,
    /// Where the app goes.
    pub target: AppPc,
}

/// An arena.
pub struct Arena {
    base: u64,
    next: u64,
    next_stub: u64,
    /// Up to where memory is present, for fragments and for stubs.
    present: u64,
    present_stub: u64,
    /// Fragments by address.
    fragments: Vec<(CachePc, u32)>,
}

impl Arena {
    fn reaches(&self, range: Range) -> bool {
        let end = self.base + ARENA_BYTES;
        end.saturating_sub(range.start) < REACH && range.end.saturating_sub(self.base) < REACH
    }

    /// Where the next fragment will be.
    pub fn next(&self) -> CachePc {
        CachePc(self.next)
    }

    /// Where the next stub will be.
    pub fn next_stub(&self) -> CachePc {
        CachePc(self.next_stub)
    }

    /// Bytes left for fragments.
    pub fn room(&self) -> u64 {
        self.base + STUB_OFFSET - self.next
    }

    /// Bytes left for stubs.
    pub fn stub_room(&self) -> u64 {
        self.base + ARENA_BYTES - self.next_stub
    }
}

/// Makes memory present up to `needed`, and some beyond.
fn prepare(present: &mut u64, needed: u64) {
    const STEP: u64 = 64 << 10;
    if needed > *present {
        let len = (needed - *present).next_multiple_of(STEP);
        sys::populate(*present, len);
        *present += len;
    }
}

fn reserve(at: u64) -> Option<u64> {
    // SAFETY: without MAP_FIXED an existing mapping is never replaced.
    let got = unsafe {
        sys::mmap(&sys::Map {
            at,
            len: ARENA_BYTES as usize,
            prot: nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC,
            flags: nr::MAP_PRIVATE
                | nr::MAP_ANONYMOUS
                | nr::MAP_NORESERVE
                | nr::MAP_FIXED_NOREPLACE,
            fd: -1,
            offset: 0,
        })
    }
    .ok()?;
    if got == at {
        return Some(got);
    }
    // SAFETY: the mapping is the one just made (an old kernel took the address for a hint).
    unsafe { sys::munmap(got, ARENA_BYTES as usize) };
    None
}

/// Candidate addresses for an arena near `range`: first below, leaving room for what the app maps
/// downwards; then above, leaving room for the heap that grows behind an executable.
fn candidates(range: Range) -> impl Iterator<Item = u64> {
    const STEP: u64 = 64 << 20;
    let below = (0..12u64).filter_map(move |n| {
        range
            .start
            .checked_sub(ARENA_BYTES + (256 << 20) + n * STEP)
            .filter(|&a| a > 1 << 20)
    });
    let above = (0..12u64).map(move |n| range.end + (1 << 30) - n * STEP);
    below.chain(above).map(|a| a & !0x1f_ffff)
}

/// Everything translated.
pub struct Cache {
    arenas: Vec<Arena>,
    /// All fragments; retired ones too.
    pub fragments: Vec<Fragment>,
    /// Steps of all fragments.
    pub steps: Vec<Step>,
    /// All exits by number.
    pub exits: Vec<Exit>,
    table: Table,
    /// Arenas are placed out of reach of their app code (a stress option).
    pub far: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self {
            arenas: Vec::new(),
            fragments: Vec::with_capacity(1 << 11),
            steps: Vec::with_capacity(1 << 14),
            exits: Vec::with_capacity(1 << 13),
            table: Table::new(),
            far: false,
        }
    }

    /// The arena for code in `range`, made if there is none; `None` when there is no room.
    pub fn arena_for(&mut self, range: Range) -> Option<usize> {
        if let Some(i) = self
            .arenas
            .iter()
            .position(|a| self.far || a.reaches(range))
        {
            return Some(i);
        }
        let base = if self.far {
            candidates(Range {
                start: range.start ^ 0x2000_0000_0000,
                end: range.start ^ 0x2000_0000_0000,
            })
            .find_map(reserve)?
        } else {
            candidates(range)
                .find_map(reserve)
                .or_else(|| self.search(range))?
        };
        self.arenas.push(Arena {
            base,
            next: base,
            next_stub: base + STUB_OFFSET,
            present: base,
            present_stub: base + STUB_OFFSET,
            fragments: Vec::new(),
        });
        Some(self.arenas.len() - 1)
    }

    /// Looks through the whole map for a gap near `range`.
    fn search(&self, range: Range) -> Option<u64> {
        let all = region::read_all()?;
        let fits = |at: u64| {
            let end = at + ARENA_BYTES;
            end.saturating_sub(range.start) < REACH && range.end.saturating_sub(at) < REACH
        };
        all.windows(2)
            .filter(|w| w[1].range.start.saturating_sub(w[0].range.end) >= ARENA_BYTES)
            .flat_map(|w| [w[1].range.start - ARENA_BYTES, w[0].range.end])
            .filter(|&at| fits(at))
            .find_map(reserve)
    }

    /// An arena.
    pub fn arena(&self, i: usize) -> &Arena {
        &self.arenas[i]
    }

    /// Copies a finished fragment and its stubs to where they were made for.
    ///
    /// `lead` bytes in front of the entry are the tag check.
    pub fn place(&mut self, arena: usize, code: &[u8], stubs: &[u8], fragment: Fragment) -> u32 {
        let a = &mut self.arenas[arena];
        prepare(&mut a.present, a.next + code.len() as u64);
        prepare(&mut a.present_stub, a.next_stub + stubs.len() as u64);
        // SAFETY: both ranges are unused memory of the arena: `next` and `next_stub` only grow, and
        // the translator asked for room before it began.
        unsafe {
            core::ptr::copy_nonoverlapping(code.as_ptr(), a.next as *mut u8, code.len());
            core::ptr::copy_nonoverlapping(stubs.as_ptr(), a.next_stub as *mut u8, stubs.len());
        }
        let id = self.fragments.len() as u32;
        a.fragments.push((CachePc(a.next), id));
        a.next = (a.next + code.len() as u64).next_multiple_of(64);
        a.next_stub += stubs.len() as u64;
        self.table.insert(fragment.app, id);
        self.fragments.push(fragment);
        id
    }

    /// Places code that belongs to no fragment (a tag check made later).
    pub fn place_stub(&mut self, arena: usize, code: &[u8]) -> CachePc {
        let a = &mut self.arenas[arena];
        let at = a.next_stub;
        prepare(&mut a.present_stub, at + code.len() as u64);
        // SAFETY: as in `place`.
        unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        a.next_stub += code.len() as u64;
        CachePc(at)
    }

    /// The arena that holds a cache address.
    pub fn arena_of(&self, pc: CachePc) -> Option<usize> {
        self.arenas
            .iter()
            .position(|a| a.base <= pc.0 && pc.0 < a.base + ARENA_BYTES)
    }

    /// The live fragment that starts at an app address.
    #[inline]
    pub fn lookup(&self, app: AppPc) -> Option<u32> {
        self.table.get(app)
    }

    /// The fragment that a cache address is in, from its tag check to its end.
    pub fn fragment_at(&self, pc: CachePc) -> Option<u32> {
        let list = &self.arenas[self.arena_of(pc)?].fragments;
        let i = list
            .partition_point(|&(start, _)| start <= pc)
            .checked_sub(1)?;
        let id = list[i].1;
        (pc < self.fragments[id as usize].end).then_some(id)
    }

    /// The steps of a fragment.
    pub fn steps_of(&self, fragment: &Fragment) -> &[Step] {
        let first = fragment.first_step as usize;
        &self.steps[first..first + fragment.steps as usize]
    }

    /// Rewrites a 32-bit displacement so that it leads to `to`; `false` when that is out of reach.
    pub fn link(&mut self, patch: CachePc, to: CachePc) -> bool {
        let Ok(rel) = i32::try_from(to.0 as i64 - patch.0 as i64 - 4) else {
            return false;
        };
        // SAFETY: `patch` is a displacement inside a fragment or stub of ours, and no thread
        // executes in the cache while the runtime runs.
        unsafe { (patch.0 as *mut i32).write_unaligned(rel) };
        true
    }

    /// Overwrites the first bytes of a fragment, so that it is never executed again, with a jump.
    pub fn retire(&mut self, id: u32, jump_to: CachePc) {
        let entry = {
            let f = &mut self.fragments[id as usize];
            f.retired = true;
            f.entry
        };
        self.table.remove(self.fragments[id as usize].app, id);
        // SAFETY: a fragment is at least five bytes long, as each ends with a jump; no thread
        // executes it while the runtime runs.
        unsafe { (entry.0 as *mut u8).write(0xe9) };
        let reached = self.link(CachePc(entry.0 + 1), jump_to);
        debug_assert!(reached, "a stub is in its fragment's arena");
    }

    /// Drops everything. All links, tables and numbers are void afterwards.
    pub fn flush(&mut self) {
        self.fragments.clear();
        self.steps.clear();
        self.exits.clear();
        self.table = Table::new();
        for a in &mut self.arenas {
            a.next = a.base;
            a.next_stub = a.base + STUB_OFFSET;
            a.fragments.clear();
        }
    }

    /// Bytes in use in all arenas.
    pub fn bytes(&self) -> u64 {
        self.arenas
            .iter()
            .map(|a| a.next - a.base + a.next_stub - a.base - STUB_OFFSET)
            .sum()
    }
}

/// Open addressing with linear probing, at most half full. Keys are never removed but by rebuild; a
/// retired fragment leaves its key with no fragment.
///
/// Most questions are about addresses where no fragment starts: `filter` has a bit for a hash of
/// every key, so that they are answered from a cache line that is there.
struct Table {
    slots: Vec<(u64, u32)>,
    used: usize,
    filter: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;
const GONE: u32 = u32::MAX;

impl Table {
    fn new() -> Self {
        Self::of(1 << 12)
    }

    fn of(slots: usize) -> Self {
        Self {
            slots: alloc::vec![(EMPTY, GONE); slots],
            used: 0,
            // Eight bits for each key when it is full.
            filter: alloc::vec![0; slots / 16],
        }
    }

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut i = (Self::hash(key) >> 32) as usize & mask;
        loop {
            let k = self.slots[i].0;
            if k == key || k == EMPTY {
                return i;
            }
            i = (i + 1) & mask;
        }
    }

    /// Word and mask of a key in the filter.
    fn bit(&self, key: u64) -> (usize, u64) {
        let hash = Self::hash(key);
        let word = (hash >> 40) as usize & (self.filter.len() - 1);
        (word, 1 << (hash >> 34 & 63))
    }

    #[inline]
    fn get(&self, app: AppPc) -> Option<u32> {
        let (word, mask) = self.bit(app.0);
        if self.filter[word] & mask == 0 {
            return None;
        }
        let (k, id) = self.slots[self.slot(app.0)];
        (k == app.0 && id != GONE).then_some(id)
    }

    fn insert(&mut self, app: AppPc, id: u32) {
        if self.used * 2 >= self.slots.len() {
            let bigger = Self::of(self.slots.len() * 2);
            for (k, id) in core::mem::replace(self, bigger).slots {
                if k != EMPTY && id != GONE {
                    self.put(k, id);
                }
            }
        }
        self.put(app.0, id);
    }

    fn put(&mut self, key: u64, id: u32) {
        let i = self.slot(key);
        self.used += usize::from(self.slots[i].0 == EMPTY);
        self.slots[i] = (key, id);
        let (word, mask) = self.bit(key);
        self.filter[word] |= mask;
    }

    fn remove(&mut self, app: AppPc, id: u32) {
        let i = self.slot(app.0);
        if self.slots[i] == (app.0, id) {
            self.slots[i].1 = GONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_what_was_put_in_through_growth_and_removal() {
        let mut t = Table::new();
        for n in 0..50_000u64 {
            t.insert(AppPc(0x40_0000 + n * 3), n as u32);
        }
        for n in (0..50_000u64).step_by(7) {
            t.remove(AppPc(0x40_0000 + n * 3), n as u32);
        }
        for n in 0..50_000u64 {
            let expect = (n % 7 != 0).then_some(n as u32);
            assert_eq!(t.get(AppPc(0x40_0000 + n * 3)), expect);
            assert_eq!(t.get(AppPc(0x40_0001 + n * 3)), None);
        }
        t.insert(AppPc(0x40_0000), 9);
        assert_eq!(t.get(AppPc(0x40_0000)), Some(9));
    }

    #[test]
    fn an_arena_is_within_reach_of_its_code() {
        let code = an_arena_is_within_reach_of_its_code as *const () as u64;
        let range = Range {
            start: code & !0xfff,
            end: (code & !0xfff) + 0x1000,
        };
        let mut cache = Cache::new();
        let i = cache.arena_for(range).expect("room");
        assert_eq!(cache.arena_for(range), Some(i));
        assert!(cache.arena(i).next().0.abs_diff(code) < 1 << 31);
    }
}
