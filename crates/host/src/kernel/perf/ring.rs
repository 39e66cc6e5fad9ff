//! The memory through which the kernel hands over recorded events.
//!
//! The first page says up to where the kernel has written and we have read. After it is a buffer of a power of two of
//! pages, in which positions wrap around. The kernel stops at bytes that have not been read, so nothing is overwritten.
//! The kernel drops and counts what does not fit.
//!
//! Bytes are copied before they are read, so parsers ([`super::records`]) see memory that nobody writes to.
// A mapping that the kernel writes to.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Offsets in the first page: up to where the kernel has written, and up to where we
/// have read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A ring, mapped.
pub struct Ring {
    memory: NonNull<u8>,
    /// Bytes of the buffer, a power of two.
    bytes: usize,
}

impl Ring {
    /// Maps that of an event, of so many pages, a power of two.
    ///
    /// # Errors
    /// The kernel allows no more memory of that kind, or the number of pages is none that it takes.
    pub fn map(event: impl AsFd, pages: usize) -> io::Result<Self> {
        let bytes = pages.max(1).next_power_of_two() * PAGE;
        let length = NonZeroUsize::new(PAGE + bytes).unwrap_or(NonZeroUsize::MIN);
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes it.
        let memory = unsafe { mmap(None, length, rights, MapFlags::MAP_SHARED, event, 0) };
        Ok(Self {
            memory: memory?.cast(),
            bytes,
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at < PAGE + self.bytes);
        // SAFETY: within the mapping and aligned; the kernel writes whole words, and we only to the one of the tail.
        unsafe { self.memory.add(at).cast().as_ref() }
    }

    /// Adds all that has come since the last time to `to`. Records are whole, and of whole words.
    pub fn take(&self, to: &mut Vec<u8>) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let there = head.wrapping_sub(tail).min(self.bytes as u64);
        let start = tail as usize & (self.bytes - 1);
        let first = (there as usize).min(self.bytes - start);
        for (at, length) in [(start, first), (0, there as usize - first)] {
            debug_assert!(at + length <= self.bytes);
            // SAFETY: within the buffer. The kernel has written these bytes before it told of them, and writes here no more until we
            // say that they have been read.
            let bytes = unsafe { from_raw_parts(self.memory.as_ptr().add(PAGE + at), length) };
            to.extend_from_slice(bytes);
        }
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made above, of which no reference is left.
        let _ = unsafe { munmap(self.memory.cast(), PAGE + self.bytes) };
    }
}
