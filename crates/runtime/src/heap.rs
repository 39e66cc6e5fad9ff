//! The runtime's allocator: size classes over memory of its own.
//!
//! Requests up to [`LARGEST`] bytes are rounded up to a power of two and served from a free list
//! of that size, filled from chunks of [`CHUNK`] bytes; larger ones are mappings of their own. The
//! app's allocator and the runtime's never meet.
//!
//! Invariant: only one thread is inside the runtime at a time, and signal handlers of the runtime
//! do not allocate. The allocator takes no lock; [`Heap`] is not for general use.
#![allow(unsafe_code)] // reason: an allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

use crate::sys;

const CHUNK: usize = 1 << 20;
const LARGEST: usize = 1 << 16;
const CLASSES: usize = LARGEST.trailing_zeros() as usize + 1;
const SMALLEST: usize = 16;

struct State {
    free: [*mut u8; CLASSES],
    next: usize,
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
            end: 0,
        }))
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the module's invariant: one thread at a time.
unsafe impl Sync for Heap {}

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
        let class = class(layout);
        let size = 1 << class;
        if size > LARGEST {
            return sys::anonymous(whole_pages(layout.size()))
                .map_or(ptr::null_mut(), |p| p as *mut u8);
        }
        // SAFETY: one thread at a time, so nothing else refers to the state.
        let state = unsafe { &mut *self.0.get() };
        let head = state.free[class];
        if !head.is_null() {
            // SAFETY: a free block holds the next free block of its class in its first word.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let start = state.next.next_multiple_of(size);
        if start + size > state.end || state.end == 0 {
            let Ok(chunk) = sys::anonymous(CHUNK) else {
                return ptr::null_mut();
            };
            state.next = chunk as usize + size;
            state.end = chunk as usize + CHUNK;
            return chunk as *mut u8;
        }
        state.next = start + size;
        start as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class(layout);
        if 1 << class > LARGEST {
            // SAFETY: the block was mapped by `alloc` with this length, and its owner is done.
            unsafe { sys::munmap(block as u64, whole_pages(layout.size())) };
            return;
        }
        // SAFETY: one thread at a time; the block is at least 16 bytes and nobody's any more.
        unsafe {
            let state = &mut *self.0.get();
            block.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let old_class = class(layout);
        if 1 << old_class > LARGEST && new_size > LARGEST && layout.align() <= 4096 {
            const MREMAP_MAYMOVE: u64 = 1;
            // SAFETY: the block is a mapping of its own; its owner goes on with what is returned.
            let moved = unsafe {
                sys::checked(
                    linux_raw_sys::general::__NR_mremap,
                    [
                        block as u64,
                        whole_pages(layout.size()) as u64,
                        whole_pages(new_size) as u64,
                        MREMAP_MAYMOVE,
                        0,
                        0,
                    ],
                )
            };
            return moved.map_or(ptr::null_mut(), |p| p as *mut u8);
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
