//! Memory that is accessed at random.
#![allow(unsafe_code)] // reason: prefetching, and asking for huge pages, take a pointer.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// A vector of so many default values, in huge pages as far as there is enough of it and the kernel grants them: of what is accessed at
/// random, finding the pages would take longer than the rest.
pub(crate) fn filled<T: Clone + Default>(len: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(len);
    advise(&mut all);
    all.resize(len, T::default());
    all
}

/// Asks for huge pages for all the room of a vector.
pub(crate) fn advise<T>(all: &mut Vec<T>) {
    const HUGE: usize = 2 << 20;
    let bytes = all.capacity() * size_of::<T>();
    if bytes >= 2 * HUGE {
        let first = all.as_mut_ptr() as usize;
        let start = first.next_multiple_of(HUGE);
        let end = (first + bytes) & !(HUGE - 1);
        // SAFETY: a hint about pages that lie wholly within the vector's memory.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// A prefetch, to read and write.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    // SAFETY: a prefetch has no effect but on the caches, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}
