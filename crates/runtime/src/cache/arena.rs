//! Memory for code.
#![allow(unsafe_code)] // reason: maps memory and writes machine code there.

use alloc::vec::Vec;

use linux_raw_sys::general as nr;
use trommel_queue::marks::{self, ARENA_BYTES, CODE_BYTES, MARKS_OFFSET};

use super::CachePc;
use crate::emit::Code;
use crate::own;
use crate::region::{self, Range};
use crate::sys;

/// Where an arena's stubs begin.
const STUB_OFFSET: u64 = CODE_BYTES;
/// Where an arena's counters begin.
const COUNTER_OFFSET: u64 = MARKS_OFFSET - COUNTER_BYTES;
/// Bytes of counters, behind the stubs.
const COUNTER_BYTES: u64 = 1 << 20;
/// Distance that every operand and link within an arena's reach keeps below.
const REACH: u64 = 0x7800_0000;

/// A part of an arena, used as a ring. In use is what lies between the place where the oldest
/// generation starts and `next`.
pub(super) struct Area {
    start: u64,
    end: u64,
    pub(super) next: u64,
    /// Where what follows `next` is in use by an old generation, or the end.
    limit: u64,
    /// Up to where memory is present.
    present: u64,
}

impl Area {
    const fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end,
            next: start,
            limit: end,
            present: start,
        }
    }

    /// Makes what follows `next` present: `len` bytes, and more while it is at it.
    fn make_present(&mut self, len: u64) {
        const STEP: u64 = 64 << 10;
        let needed = self.next + len;
        if needed > self.present {
            let len = (needed - self.present).next_multiple_of(STEP);
            let len = len.min(self.end - self.present);
            sys::populate(self.present, len);
            self.present += len;
        }
    }

    /// The next `len` bytes, to write code to.
    ///
    /// # Safety
    /// They are not used any more when something is taken or put.
    ///
    /// # Panics
    /// When there is not as much room.
    pub(super) unsafe fn open(&mut self, len: u64) -> Code<'static> {
        const USUAL: u64 = 4096;
        assert!(self.room() >= len, "an arena has no room");
        self.make_present(len.min(USUAL));
        // SAFETY: unused memory of the area: between `next` and `limit` there is nothing.
        let memory = unsafe { core::slice::from_raw_parts_mut(self.next as *mut u8, len as usize) };
        Code::new(CachePc(self.next), memory)
    }

    /// Goes on behind the next `len` bytes, at a multiple of `align`. Returns where they are.
    pub(super) fn take(&mut self, len: u64, align: u64) -> u64 {
        let at = self.next;
        self.next = (at + len).next_multiple_of(align);
        at
    }

    /// Copies `bytes` to `next` and goes on behind them, at a multiple of `align`.
    pub(super) fn put(&mut self, bytes: &[u8], align: u64) -> u64 {
        let len = bytes.len() as u64;
        self.make_present(len);
        // SAFETY: unused memory of the area: between `next` and `limit` there is nothing, and who
        // makes the bytes asked for room before it began.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next as *mut u8, bytes.len())
        };
        self.take(len, align)
    }

    fn room(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Everything from `oldest` on is in use: finds out what is not. `next` never catches up with
    /// `oldest`, so equal ones mean that nothing is.
    fn set_limit(&mut self, oldest: u64) {
        const GAP: u64 = 64;
        self.limit = if oldest > self.next {
            oldest - GAP
        } else {
            self.end
        };
    }

    /// Goes on at the start, if there is more room than here.
    fn wrap(&mut self, oldest: u64) {
        if self.limit == self.end && oldest - self.start > self.room() {
            self.next = self.start;
            self.set_limit(oldest);
        }
    }

    pub(super) fn used(&self, from: u64) -> u64 {
        self.next.wrapping_sub(from)
    }
}

/// An arena.
pub struct Arena {
    base: u64,
    /// Fragments.
    pub(super) code: Area,
    /// Stubs.
    pub(super) stubs: Area,
    /// Counters that were given back.
    free_counters: Vec<u32>,
    /// Counters that were ever used.
    counters: u32,
}

/// The runtime's arenas stay for as long as it does. Tests make many, and what lies near code is soon taken.
#[cfg(test)]
impl Drop for Arena {
    fn drop(&mut self) {
        own::remove(self.base, ARENA_BYTES);
        // SAFETY: it was mapped for this arena, and a test that executes its code keeps the cache.
        unsafe { sys::munmap(self.base, ARENA_BYTES as usize) };
    }
}

impl Arena {
    /// Address space for code in `range`; `None` when there is no room. `far`: out of its reach.
    pub(super) fn reserve(range: Range, far: bool) -> Option<Self> {
        let base = if far {
            let start = range.start ^ 0x2000_0000_0000;
            candidates(Range { start, end: start }).find_map(reserve)?
        } else {
            candidates(range)
                .find_map(reserve)
                .or_else(|| search(range))?
        };
        let middle = base + STUB_OFFSET;
        Some(Self {
            base,
            code: Area::new(base, middle),
            stubs: Area::new(middle, base + COUNTER_OFFSET),
            free_counters: Vec::new(),
            counters: 0,
        })
    }

    pub(super) fn holds(&self, pc: CachePc) -> bool {
        self.base <= pc.0 && pc.0 < self.base + ARENA_BYTES
    }

    /// Where a counter is.
    pub(super) fn counter(&self, number: u32) -> u64 {
        self.base + COUNTER_OFFSET + 4 * u64::from(number)
    }

    /// A counter that is not in use: its number and address.
    pub(super) fn take_counter(&mut self) -> Option<(u32, u64)> {
        let number = match self.free_counters.pop() {
            Some(number) => number,
            None if u64::from(self.counters) < COUNTER_BYTES / 4 => {
                self.counters += 1;
                self.counters - 1
            }
            None => return None,
        };
        Some((number, self.counter(number)))
    }

    /// A counter is not in use any more.
    pub(super) fn give_counter_back(&mut self, number: u32) {
        self.free_counters.push(number);
    }

    /// No counter is in use any more.
    pub(super) fn free_counters(&mut self) {
        self.free_counters.clear();
        self.counters = 0;
    }

    /// Nothing is in use.
    pub(super) fn empty(&mut self) {
        for area in [&mut self.code, &mut self.stubs] {
            area.next = area.start;
            area.limit = area.end;
        }
    }

    /// In use is what the oldest generation started with, and what followed.
    pub(super) fn free_up_to(&mut self, code: u64, stubs: u64) {
        const LITTLE: u64 = 1 << 20;
        self.code.set_limit(code);
        self.stubs.set_limit(stubs);
        if self.code.room().min(self.stubs.room()) < LITTLE {
            self.code.wrap(code);
            self.stubs.wrap(stubs);
        }
    }

    /// Where it starts.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Marks what does the app's work in `len` bytes of code at `at`: these ranges of them.
    pub(super) fn mark(&mut self, at: CachePc, len: usize, work: &[(u32, u32)]) {
        let first = at.0 - self.base;
        let mut ranges = work.iter().copied().peekable();
        let (mut offset, end) = (first, first + len as u64);
        while offset < end {
            // A byte of the map at a time; what lies in front of the code stays as it is.
            let (byte, _) = marks::place(offset);
            let next = (8 * (byte + 1)).min(end);
            let (mut bits, mut ours) = (0_u8, 0_u8);
            for o in offset..next {
                let here = (o - first) as u32;
                while ranges.next_if(|&(_, to)| to <= here).is_some() {}
                let bit = marks::place(o).1;
                ours |= bit;
                if ranges.peek().is_some_and(|&(from, _)| from <= here) {
                    bits |= bit;
                }
            }
            // SAFETY: the map is as long as the code needs; it is written under the runtime's lock.
            unsafe {
                let map = (self.base + MARKS_OFFSET + byte) as *mut u8;
                map.write(map.read() & !ours | bits);
            }
            offset = next;
        }
    }

    pub(super) fn reaches(&self, range: Range) -> bool {
        let end = self.base + ARENA_BYTES;
        end.saturating_sub(range.start) < REACH && range.end.saturating_sub(self.base) < REACH
    }

    /// Where the next fragment will be.
    pub fn next(&self) -> CachePc {
        CachePc(self.code.next)
    }

    /// Bytes left for fragments.
    pub fn room(&self) -> u64 {
        self.code.room()
    }

    /// Bytes left for stubs.
    pub fn stub_room(&self) -> u64 {
        self.stubs.room()
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
        own::add(at, ARENA_BYTES);
        sys::huge(at + (2 << 20), STUB_OFFSET - (2 << 20));
        return Some(got);
    }
    // SAFETY: the mapping is the one just made (an old kernel took the address for a hint).
    unsafe { sys::munmap(got, ARENA_BYTES as usize) };
    None
}

/// Candidate addresses for an arena near `range`: first below, leaving room for what the app maps
/// downwards; then above, as far as it reaches: the heap behind an executable starts up to 1 GiB away
/// and grows.
fn candidates(range: Range) -> impl Iterator<Item = u64> {
    const STEP: u64 = 64 << 20;
    let below = (0..12u64).filter_map(move |n| {
        range
            .start
            .checked_sub(ARENA_BYTES + (256 << 20) + n * STEP)
            .filter(|&a| a > 1 << 20)
    });
    const FAR_ABOVE: u64 = REACH - ARENA_BYTES - (32 << 20);
    let above = (0..12u64).map(move |n| range.start + FAR_ABOVE - n * STEP);
    below.chain(above).map(|a| a & !0x1f_ffff)
}

/// Looks through the whole map for a gap near `range`.
fn search(range: Range) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_never_gives_what_is_in_use() {
        let mut ring = Area::new(0x1000, 0x9000);
        let (mut old, mut x) = (alloc::collections::VecDeque::new(), 7_u64);
        let mut wrapped = 0;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A generation of a few blocks, then some of the oldest are given back.
            let start = ring.next;
            let mut blocks = alloc::vec::Vec::new();
            for _ in 0..x >> 62 {
                let len = (x >> 20 & 0x3f0).max(1);
                if ring.room() >= len {
                    blocks.push(ring.next..ring.next + len);
                    ring.next = (ring.next + len).next_multiple_of(64);
                }
            }
            for new in &blocks {
                assert!(new.end <= 0x9000);
                for (_, others) in &old {
                    let others: &alloc::vec::Vec<core::ops::Range<u64>> = others;
                    assert!(
                        others
                            .iter()
                            .all(|o| o.end <= new.start || new.end <= o.start)
                    );
                }
            }
            old.push_back((start, blocks));
            while old.len() as u64 > 1 + (x >> 58 & 7) {
                old.pop_front();
            }
            if x >> 50 & 0xff == 0 {
                old.clear();
            }
            match old.front() {
                None => (ring.next, ring.limit) = (ring.start, ring.end),
                Some(&(oldest, _)) => {
                    ring.set_limit(oldest);
                    let before = ring.next;
                    if ring.room() < 0x800 {
                        ring.wrap(oldest);
                    }
                    wrapped += u32::from(ring.next < before);
                }
            }
        }
        assert!(wrapped > 100, "{wrapped}");
    }
}
