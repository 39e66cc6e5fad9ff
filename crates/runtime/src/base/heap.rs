//! The runtime's allocator: size classes over memory of its own.
//!
//! Requests up to `LARGEST` bytes are rounded up to a power of two and served from a free list
//! of that size, filled from chunks of `CHUNK` bytes. Larger ones are mappings of their own. The
//! app's allocator and the runtime's never meet.
//!
//! A thread may be killed at any instruction. What it leaves is a heap: at worst a block is nobody's. A large block that was
//! being moved is moved back ([`undo_move`]), as its owner still believes it to be where it was.
//!
//! Invariant: a thread that allocates or frees holds the runtime's lock, or is the only thread yet. The
//! allocator takes no lock. [`Heap`] is not for general use. Under stress the invariant is checked ([`Heap::guarded_by`]).
#![allow(unsafe_code)] // reason: an allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use crate::base::address::Range;
use crate::base::sys;

const CHUNK: usize = 1 << 20;
/// Bytes of memory made present at once.
const STEP: usize = 128 << 10;
const LARGEST: usize = 1 << 18;
const CLASSES: usize = LARGEST.trailing_zeros() as usize + 1;
const SMALLEST: usize = 16;

struct State {
    free: [*mut u8; CLASSES],
    next: usize,
    present: usize,
    end: usize,
}

/// The allocator. See the module's invariant.
pub struct Heap(UnsafeCell<State>);

impl Heap {
    /// An empty heap.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(State {
            free: [ptr::null_mut(); CLASSES],
            next: 0,
            present: 0,
            end: 0,
        }))
    }
}

impl Heap {
    /// Takes memory of the runtime's to serve from first, all of it present.
    ///
    /// # Safety
    /// Nothing else may use the range, now or later.
    pub unsafe fn give(&self, range: Range) {
        // SAFETY: the module's invariant, so nothing else refers to the state.
        let state = unsafe { &mut *self.0.get() };
        state.next = range.start as usize;
        state.present = range.end as usize;
        state.end = range.end as usize;
    }
}

/// The word of the lock, if the invariant is checked.
static GUARD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

impl Heap {
    /// From now on whoever allocates or frees while nobody has the lock fails an assertion. `word` is the lock's; 0: nobody has it.
    pub fn guarded_by(word: &'static AtomicU64) {
        GUARD.store(ptr::from_ref(word).cast_mut(), Relaxed);
    }
}

/// Checks the module's invariant, as far as one word shows it.
#[inline]
fn assert_guarded() {
    // SAFETY: null, or a word that stays.
    let word = unsafe { GUARD.load(Relaxed).as_ref() };
    assert!(
        word.is_none_or(|word| word.load(Relaxed) != 0),
        "the heap is used without the lock"
    );
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the module's invariant.
unsafe impl Sync for Heap {}

/// The kernel has refused memory.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether an allocation has failed as the kernel gave no memory.
pub fn is_exhausted() -> bool {
    REFUSED.load(Relaxed)
}

#[cold]
fn refused<E>(_: E) -> *mut u8 {
    REFUSED.store(true, Relaxed);
    ptr::null_mut()
}

fn class(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    size.next_power_of_two().trailing_zeros() as usize
}

const fn whole_pages(size: usize) -> usize {
    size.next_multiple_of(4096)
}

// SAFETY: blocks of a class are as long and as aligned as its power of two and handed out once.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        assert_guarded();
        let class = class(layout);
        let size = 1 << class;
        if size > LARGEST {
            let len = whole_pages(layout.size());
            return sys::anonymous(len).map_or_else(refused, |p| {
                match (len as u64) < sys::HUGE {
                    true => sys::populate(p, len.min(STEP) as u64),
                    // All of it: a block of two kinds of pages could not be moved as one.
                    false => sys::huge(p, len as u64),
                }
                p as *mut u8
            });
        }
        // SAFETY: the module's invariant, so nothing else refers to the state.
        let state = unsafe { &mut *self.0.get() };
        let head = state.free[class];
        if !head.is_null() {
            // SAFETY: a free block holds the next free block of its class in its first word.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let start = state.next.next_multiple_of(size);
        if start + size > state.end || state.end == 0 {
            let chunk = match sys::anonymous(CHUNK) {
                Ok(chunk) => chunk,
                Err(error) => return refused(error),
            };
            state.next = chunk as usize;
            state.present = chunk as usize;
            state.end = chunk as usize + CHUNK;
        }
        let start = state.next.next_multiple_of(size);
        state.next = start + size;
        if state.next > state.present {
            let len = STEP.max(state.next - state.present);
            let len = len.min(state.end - state.present);
            sys::populate(state.present as u64, len as u64);
            state.present += len;
        }
        start as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        assert_guarded();
        let class = class(layout);
        if 1 << class > LARGEST {
            // SAFETY: the block was mapped by `alloc` with this length, and its owner is done.
            unsafe { sys::munmap(block as u64, whole_pages(layout.size())) };
            return;
        }
        // SAFETY: the module's invariant; the block is at least 16 bytes and nobody's any more.
        unsafe {
            let state = &mut *self.0.get();
            block.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        assert_guarded();
        let old_class = class(layout);
        if 1 << old_class > LARGEST && new_size > LARGEST && layout.align() <= 4096 {
            return grow(block, whole_pages(layout.size()), whole_pages(new_size));
        }
        let Ok(new_layout) = Layout::from_size_align(new_size, layout.align()) else {
            return ptr::null_mut();
        };
        if old_class == class(new_layout) && 1 << old_class <= LARGEST {
            return block;
        }
        // SAFETY: a new block, the shorter of both lengths copied, the old block given back.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// The large block that is being moved: where it was, its length, where it will be. 0: none is.
static MOVING: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Moves the large block back that a thread was moving when it was killed. The caller holds the lock.
pub fn undo_move() {
    const MAYMOVE_FIXED: u64 = 3;
    let [from, len, to] = MOVING.each_ref().map(|word| word.load(Relaxed));
    MOVING[0].store(0, Relaxed);
    if from != 0 && !sys::copy_checked(from, &mut [0]) {
        let args = [to, len, len, MAYMOVE_FIXED, from, 0];
        // SAFETY: the mapping that was moved, to where its owner takes it to be, and nothing is.
        let _ = unsafe { sys::checked(linux_raw_sys::general::__NR_mremap, args) };
    }
}

/// Moves a mapping to a larger one: the kernel moves the pages. To a place of ours: where the
/// kernel would put it, the app's next mapping would have been.
fn grow(block: *mut u8, old: usize, new: usize) -> *mut u8 {
    const MAYMOVE_FIXED: u64 = 3;
    let to = match sys::anonymous(new) {
        Ok(to) => to,
        Err(error) => return refused(error),
    };
    MOVING[1].store(old as u64, Relaxed);
    MOVING[2].store(to, Relaxed);
    MOVING[0].store(block as u64, Relaxed);
    let args = [block as u64, old as u64, new as u64, MAYMOVE_FIXED, to, 0];
    // SAFETY: the block is a mapping of its own, and its owner goes on with what is returned; what
    // is replaced is the mapping just made.
    let grown = match unsafe { sys::checked(linux_raw_sys::general::__NR_mremap, args) } {
        Ok(at) => {
            sys::disown(block as u64, old);
            if new > old {
                sys::populate(at + old as u64, (new - old).min(4 * STEP) as u64);
            }
            at as *mut u8
        }
        Err(error) => {
            // SAFETY: just made, and nobody's.
            unsafe { sys::munmap(to, new) };
            refused(error)
        }
    };
    MOVING[0].store(0, Relaxed);
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what a thread has done that is killed before, or after, the block has moved, and undoes it.
    fn killed_while_moving(block: u64, len: u64, new: usize) {
        let is_there = || sys::copy_checked(block, &mut [0]);
        for moved in [false, true] {
            let to = sys::anonymous(new).expect("memory");
            for (word, value) in MOVING.iter().zip([block, len, to]) {
                word.store(value, Relaxed);
            }
            if moved {
                let args = [block, len, len, 3, to, 0];
                // SAFETY: the block is this test's, and what is replaced was just made.
                unsafe { sys::checked(linux_raw_sys::general::__NR_mremap, args) }
                    .expect("it moves");
            }
            assert_eq!(is_there(), !moved);
            undo_move();
            assert!(is_there());
        }
    }

    #[test]
    fn blocks_keep_what_is_in_them_when_they_grow() {
        let heap = Heap::new();
        // With huge pages and a rest, without, and from one to the other.
        for (from, to) in [
            (5 << 20 | 4096, 11 << 20),
            (300 << 10, 700 << 10),
            (1 << 20, 3 << 20),
        ] {
            let layout = Layout::from_size_align(from, 8).expect("a layout");
            // SAFETY: the block is used within its length, by this thread alone, as the heap is.
            unsafe {
                let block = heap.alloc(layout);
                assert!(!block.is_null());
                for at in (0..from).step_by(4096) {
                    block.add(at).write(at as u8 ^ (at >> 12) as u8);
                }
                if class(layout) > LARGEST.trailing_zeros() as usize {
                    killed_while_moving(block as u64, whole_pages(from) as u64, whole_pages(to));
                }
                let grown = heap.realloc(block, layout, to);
                assert!(!grown.is_null(), "{from} to {to}");
                for at in (0..from).step_by(4096) {
                    assert_eq!(grown.add(at).read(), at as u8 ^ (at >> 12) as u8);
                }
                grown.add(to - 1).write(1);
                heap.dealloc(grown, Layout::from_size_align(to, 8).expect("a layout"));
            }
        }
    }
}
