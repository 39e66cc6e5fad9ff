//! Memory for code.
#![allow(unsafe_code)] // reason: maps memory and writes machine code there.

use alloc::vec::Vec;

use linux_raw_sys::general as nr;
use trommel_queue::marks::{self, ARENA_BYTES, CODE_BYTES, MARKS_OFFSET};

use crate::base::address::CachePc;
use crate::base::address::Range;
use crate::base::emit::Code;
use crate::base::own;
use crate::base::stress;
use crate::base::sys;
use crate::memory::mapping;

/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;
/// Offset of an arena's stubs.
const STUB_OFFSET: u64 = CODE_BYTES;
/// Offset of an arena's counters.
const COUNTER_OFFSET: u64 = MARKS_OFFSET - COUNTER_BYTES;
/// Bytes of counters, after the stubs.
const COUNTER_BYTES: u64 = 1 << 20;
/// Bytes that an arena which grows has more of at a time, of code or stubs.
const GROWTH: u64 = 64 << 10;
/// A gap with this part of an area has enough room.
const ENOUGH: u64 = 4;
/// Distance that every operand and link within an arena's reach keeps below.
const REACH: u64 = 0x7800_0000;

/// A part of an arena. What old generations left is *kept* there until no thread can be in it; the current generation
/// grows upwards in the gaps between.
pub(super) struct Area {
    start: u64,
    end: u64,
    pub(super) next: u64,
    /// End of the free range at `next`.
    limit: u64,
    /// End of the memory that is present.
    present: u64,
    /// End of the memory that is mapped.
    mapped: u64,
    /// The kernel has refused to map more, and the area ends there.
    cut: bool,
    /// Ranges that are kept, by address; ranges that touch are merged.
    kept: Vec<Extent>,
}

/// A range of addresses: start, end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Extent {
    pub(super) const fn holds(self, at: u64) -> bool {
        self.start <= at && at < self.end
    }
}

impl Area {
    const fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end,
            next: start,
            limit: end,
            present: start,
            mapped: end,
            cut: false,
            kept: Vec::new(),
        }
    }

    /// An area of which the first `mapped` bytes are mapped.
    const fn growing(start: u64, end: u64, mapped: u64) -> Self {
        let mut area = Self::new(start, end);
        area.mapped = start + mapped;
        area
    }

    /// Maps as much as `len` bytes and what is placed beside them need, if there is room for that. Where the kernel refuses,
    /// the area ends.
    fn grow(&mut self, len: u64) {
        const BESIDE: u64 = 16 << 10;
        let needed = self.next + len + BESIDE;
        if needed <= self.mapped || self.mapped >= self.end {
            return;
        }
        let more = (needed - self.mapped).next_multiple_of(GROWTH);
        let more = more.min(self.end - self.mapped);
        if map(self.mapped, more) {
            self.mapped += more;
        } else {
            self.cut = true;
            self.end = self.mapped;
            self.limit = self.limit.min(self.end);
        }
    }

    const fn holds(&self, at: u64) -> bool {
        self.start <= at && at < self.mapped
    }

    /// Makes what follows `next` present: `len` bytes, and more while it is at it.
    fn make_present(&mut self, len: u64) {
        const STEP: u64 = 64 << 10;
        let needed = self.next + len;
        if needed > self.present {
            let len = (needed - self.present).next_multiple_of(STEP);
            let len = len.min(self.mapped - self.present);
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

    /// Goes on after the next `len` bytes, at a multiple of `align`. Returns where they are.
    pub(super) fn take(&mut self, len: u64, align: u64) -> u64 {
        let at = self.next;
        self.next = (at + len).next_multiple_of(align);
        at
    }

    /// Copies `bytes` to `next` and goes on after them, at a multiple of `align`.
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
        self.limit.min(self.mapped).saturating_sub(self.next)
    }

    /// This is kept from now on, and nothing else. `anew`: nothing of the current generation is there yet, so it may begin anywhere;
    /// otherwise it goes on after what there is of it.
    pub(super) fn keep(&mut self, mut kept: Vec<Extent>, anew: bool) {
        kept.retain(|e| e.start < e.end);
        kept.sort_unstable();
        kept.dedup_by(|next, e| {
            let touches = next.start <= e.end;
            if touches {
                e.end = e.end.max(next.end);
            }
            touches
        });
        self.kept = kept;
        if anew && self.kept.is_empty() {
            self.next = self.start;
        }
        self.bound();
        self.move_on(anew);
    }

    /// Finds out up to where there is nothing.
    fn bound(&mut self) {
        let after = self.kept.partition_point(|e| e.end <= self.next);
        self.limit = self.kept.get(after).map_or(self.end, |e| e.start);
        self.limit = self.limit.max(self.next);
    }

    /// Goes on in another gap, if there is little room in this one: the first that has enough, or the largest. In those after this one,
    /// or (`anew`) in all.
    fn move_on(&mut self, anew: bool) {
        let enough = (self.end - self.start) / ENOUGH;
        if self.room() >= enough {
            return;
        }
        let starts = core::iter::once(self.start).chain(self.kept.iter().map(|e| e.end));
        let ends = self.kept.iter().map(|e| e.start).chain([self.end]);
        let gaps = starts.zip(ends).map(|(start, end)| Extent {
            start: start.next_multiple_of(LINE),
            end,
        });
        let gaps = gaps.filter(|gap| gap.start < gap.end && (anew || gap.start > self.next));
        let mut best: Option<Extent> = None;
        for gap in gaps {
            let room = |gap: Extent| gap.end - gap.start;
            if best.is_none_or(|best| room(best) < enough && room(best) < room(gap)) {
                best = Some(gap);
            }
        }
        if let Some(gap) = best
            && gap.end - gap.start > self.room()
        {
            (self.next, self.limit) = (gap.start, gap.end);
        }
    }

    /// Returns whether so much is kept that there is not enough room.
    fn is_short(&self) -> bool {
        !self.kept.is_empty() && self.room() < (self.end - self.start) / ENOUGH
    }

    /// Returns whether the generation that follows would find little room beside the current one.
    fn is_low(&self) -> bool {
        const LOW: u64 = 8;
        self.end - self.next < (self.end - self.start) / LOW
    }

    pub(super) fn used(&self, from: u64) -> u64 {
        self.next.wrapping_sub(from)
    }

    /// Returns the range from `start` to where the area goes on.
    pub(super) const fn since(&self, start: u64) -> Extent {
        Extent {
            start,
            end: self.next,
        }
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
    /// It is mapped as far as it is used, and has no counters.
    grows: bool,
}

/// The runtime's arenas stay for as long as it does. Tests make many, and what lies near code is soon taken.
#[cfg(test)]
impl Drop for Arena {
    fn drop(&mut self) {
        let all = [(self.base, ARENA_BYTES)];
        let parts = [&self.code, &self.stubs].map(|area| (area.start, area.mapped - area.start));
        for &(at, bytes) in if self.grows { &parts[..] } else { &all } {
            own::remove(at, bytes);
            // SAFETY: it was mapped for this arena, and a test that executes its code keeps the cache.
            unsafe { sys::munmap(at, bytes as usize) };
        }
    }
}

impl Arena {
    /// Address space for code in `range`; `None` when there is no room. `far`: out of its reach. `grows`: it is mapped as far
    /// as it is used.
    pub(super) fn reserve(range: Range, far: bool, grows: bool) -> Option<Self> {
        let map = |at| match grows {
            true => begin(at),
            false => reserve(at),
        };
        let base = if far {
            let start = range.start ^ 0x2000_0000_0000;
            candidates(Range { start, end: start }).find_map(map)?
        } else {
            candidates(range)
                .find_map(map)
                .or_else(|| search(range, map))?
        };
        let middle = base + STUB_OFFSET;
        let (code, stubs) = match stress::arena_bytes() {
            None => (middle, base + COUNTER_OFFSET),
            Some(bytes) => (base + bytes, middle + bytes),
        };
        let area = |start, end| match grows {
            true => Area::growing(start, end, GROWTH),
            false => Area::new(start, end),
        };
        Some(Self {
            base,
            code: area(base, code),
            stubs: area(middle, stubs),
            free_counters: Vec::new(),
            counters: 0,
            grows,
        })
    }

    /// Returns whether the kernel has refused to map more of it.
    pub(super) fn is_cut(&self) -> bool {
        self.code.cut || self.stubs.cut
    }

    pub(super) fn holds(&self, pc: CachePc) -> bool {
        match self.grows {
            true => self.code.holds(pc.0) || self.stubs.holds(pc.0),
            false => self.base <= pc.0 && pc.0 < self.base + ARENA_BYTES,
        }
    }

    /// Returns the address of a counter.
    pub(super) fn counter(&self, number: u32) -> u64 {
        self.base + COUNTER_OFFSET + 4 * u64::from(number)
    }

    /// A counter that is not in use: its number and address.
    pub(super) fn take_counter(&mut self) -> Option<(u32, u64)> {
        if self.grows {
            return None;
        }
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

    /// Returns the start of the arena.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Marks what does the app's work in `len` bytes of code at `at`: these ranges of them.
    pub(super) fn mark(&mut self, at: CachePc, len: usize, work: &[(u32, u32)]) {
        let first = at.0 - self.base;
        let mut ranges = work.iter().copied().peekable();
        let (mut offset, end) = (first, first + len as u64);
        while offset < end {
            // A byte of the map at a time; what lies before the code stays as it is.
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

    /// Returns the address of the next fragment.
    pub fn next(&self) -> CachePc {
        CachePc(self.code.next)
    }

    /// Returns true if there is room for so many bytes of code and stubs, here or in gaps further on.
    pub fn has_room(&mut self, code: u64, stubs: u64) -> bool {
        self.code.grow(code);
        self.stubs.grow(stubs);
        if self.room() < code {
            self.code.move_on(false);
            self.code.grow(code);
        }
        if self.stub_room() < stubs {
            self.stubs.move_on(false);
            self.stubs.grow(stubs);
        }
        self.room() >= code && self.stub_room() >= stubs
    }

    /// Returns whether so much is kept that little room is left.
    pub(super) fn is_short(&self) -> bool {
        self.code.is_short() || self.stubs.is_short()
    }

    /// Returns whether the generation that follows would find little room beside the current one.
    pub(super) fn is_low(&self) -> bool {
        self.code.is_low() || self.stubs.is_low()
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
    let got = map(at, ARENA_BYTES).then_some(at);
    got.inspect(|at| sys::huge(at + (2 << 20), STUB_OFFSET - (2 << 20)))
}

/// Maps the beginning of an arena that grows.
fn begin(at: u64) -> Option<u64> {
    if !map(at, GROWTH) {
        return None;
    }
    if !map(at + STUB_OFFSET, GROWTH) {
        own::remove(at, GROWTH);
        // SAFETY: just made.
        unsafe { sys::munmap(at, GROWTH as usize) };
        return None;
    }
    Some(at)
}

/// Maps memory for code at an address, if nothing is there. Returns whether it did.
fn map(at: u64, bytes: u64) -> bool {
    // SAFETY: without MAP_FIXED an existing mapping is never replaced.
    let mapped = |flag| unsafe {
        sys::mmap(&sys::Map {
            at,
            len: bytes as usize,
            prot: nr::PROT_READ | nr::PROT_WRITE | nr::PROT_EXEC,
            flags: nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE | flag,
            fd: -1,
            offset: 0,
        })
    };
    let got = match mapped(nr::MAP_FIXED_NOREPLACE) {
        // A filter refuses the flag. The address alone is a hint.
        Err(sys::Errno::ENOSYS) => mapped(0),
        got => got,
    };
    if got == Ok(at) {
        own::add(at, bytes);
        return true;
    }
    if let Ok(got) = got {
        // SAFETY: the mapping is the one just made (the address was a hint).
        unsafe { sys::munmap(got, bytes as usize) };
    }
    false
}

/// Candidate addresses for an arena near `range`: first below, leaving room for what the app maps
/// downwards; then above, as far as it reaches: the heap after an executable starts up to 1 GiB away
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
fn search(range: Range, map: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let all = mapping::read_all()?;
    let fits = |at: u64| {
        let end = at + ARENA_BYTES;
        end.saturating_sub(range.start) < REACH && range.end.saturating_sub(at) < REACH
    };
    all.windows(2)
        .filter(|w| w[1].range.start.saturating_sub(w[0].range.end) >= ARENA_BYTES)
        .flat_map(|w| [w[1].range.start - ARENA_BYTES, w[0].range.end])
        .filter(|&at| fits(at))
        .find_map(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_that_grows_is_mapped_as_far_as_it_is_used() {
        let here = an_arena_that_grows_is_mapped_as_far_as_it_is_used as *const () as u64;
        let near = Range {
            start: here & !0xfff,
            end: (here & !0xfff) + 4096,
        };
        let mut arena = Arena::reserve(near, false, true).expect("room");
        let there = |at: u64| sys::copy_checked(at, &mut [0]);
        let base = arena.base();
        assert!(arena.reaches(near) && there(base) && there(base + STUB_OFFSET));
        assert!(!there(base + GROWTH) && !arena.holds(CachePc(base + GROWTH)));
        assert!(arena.take_counter().is_none());
        let whole = 5 * GROWTH;
        while arena.code.used(base) < whole {
            assert!(arena.has_room(4096, 64));
            arena.code.put(&[1; 4096], LINE);
        }
        assert!(arena.holds(CachePc(base + whole - 1)) && there(base + whole - 1));
        assert!(!there(base + whole + 2 * GROWTH) && !there(base + STUB_OFFSET + GROWTH));
        // Something of the program's is in the way: the arena ends before it.
        let end = arena.code.mapped;
        assert!(map(end + GROWTH, 4096));
        assert!(!arena.is_cut());
        let mut placed = 0;
        while arena.has_room(4096, 64) {
            arena.code.put(&[1; 4096], LINE);
            placed += 4096;
        }
        assert!(arena.is_cut() && placed <= 2 * GROWTH);
        assert_eq!(arena.code.end, end + GROWTH);
        assert!(there(end + GROWTH) && !arena.holds(CachePc(end + GROWTH)));
        own::remove(end + GROWTH, 4096);
        // SAFETY: mapped above.
        unsafe { sys::munmap(end + GROWTH, 4096) };
    }

    #[test]
    fn what_is_kept_is_never_given() {
        const AREA: Extent = Extent {
            start: 0x1000,
            end: 0x9000,
        };
        let mut area = Area::new(AREA.start, AREA.end);
        let mut old: Vec<(Extent, Vec<Extent>)> = Vec::new();
        let mut random = 7_u64;
        let (mut moved, mut full, mut given) = (0, 0, 0);
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // A generation of a few blocks, going on in further gaps where it must.
            let (start, mut blocks) = (area.next, Vec::new());
            for _ in 0..random >> 61 {
                let len = (random >> 20 & 0x3f0).max(1);
                if area.room() < len {
                    area.move_on(false);
                }
                if area.room() < len {
                    full += 1;
                    continue;
                }
                let block = Extent {
                    start: area.take(len, LINE),
                    end: area.next.min(AREA.end),
                };
                let overlaps = |o: &&Extent| o.start < block.start + len && block.start < o.end;
                assert!(AREA.holds(block.start) && block.start + len <= AREA.end);
                assert_eq!(old.iter().flat_map(|(_, b)| b).find(overlaps), None);
                assert_eq!(blocks.iter().find(overlaps), None);
                blocks.push(block);
                given += 1;
            }
            old.push((area.since(start), blocks));
            // Any of them end, or shrink to a pin.
            old.retain_mut(|(extent, blocks)| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                if random >> 62 == 0 && !blocks.is_empty() {
                    blocks.truncate(1);
                    *extent = blocks[0];
                }
                random >> 58 & 15 != 0
            });
            let before = area.next;
            area.keep(old.iter().map(|(extent, _)| *extent).collect(), true);
            moved += u32::from(area.next != before);
        }
        assert!(
            moved > 1000 && full > 0 && given > 20_000,
            "{moved} {full} {given}"
        );
    }
}
