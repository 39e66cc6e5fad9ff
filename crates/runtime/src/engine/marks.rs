//! Marks in the records of a thread: what happens to it besides its code.
#![allow(unsafe_code)] // reason: writes records.

use trommel_queue::dict::Mark;
use trommel_queue::{CHUNK, FULL_WINDOW};
use trommel_tuple::Kind;

use crate::engine::state::{Runtime, Thread};

impl Runtime {
    /// Marks what happens to the thread, if acyclic paths are enabled. A chunk that this fills is to be published when the lock
    /// is free. With no room left in the dictionary the thread is about to be detached, and nothing is reported.
    pub fn mark(&mut self, thread: &mut Thread, mark: Mark, words: [u64; 2]) {
        if !self.translator.wants(Kind::Path) || self.marked(thread, mark, words) {
            return;
        }
        self.record_mark(thread, mark, words);
    }

    /// Appends a mark like [`Self::mark`], where the service thread makes paths.
    pub fn record_mark(&mut self, thread: &mut Thread, mark: Mark, words: [u64; 2]) {
        if thread.writer.at() == 0 {
            return;
        }
        let Ok(path) = self.translator.mark(&mut self.shared, mark) else {
            return;
        };
        let at = thread.writer.at() as *mut u64;
        // SAFETY: the write pointer leads to room for a whole record.
        unsafe {
            let values = at.byte_add(4);
            for (n, word) in words.into_iter().take(mark.words()).enumerate() {
                values.add(n).write_unaligned(word);
            }
        }
        // Room is left behind a chunk's end for as much: what is full stays full.
        let full = thread.full;
        thread.append(path, mark.words() as u8);
        thread.full |= full;
    }

    /// The thread has returned to `pc`, if that was from a handler: the kernel has made the call, which until then could be called off.
    pub fn returned(&mut self, thread: &mut Thread, pc: u64) {
        if let Some(returning) = thread.signals.returning.take() {
            self.mark(thread, Mark::Back, [pc, returning.frame]);
        }
    }
}

/// Puts a mark after what the thread has recorded. A chunk that it fills is to be published when the lock is free.
pub fn mark_window(thread: &mut Thread, number: u32, words: &[u64]) {
    let at = thread.writer.at();
    if at == 0 {
        return;
    }
    // SAFETY: the write pointer leads to room for a whole record.
    unsafe { (at as *mut u32).write_unaligned(number) };
    let mut next = at + 4;
    for word in words {
        // SAFETY: likewise.
        unsafe { (next as *mut u64).write_unaligned(*word) };
        next += 8;
    }
    thread.writer.set(next);
    thread.full = next as usize % CHUNK < FULL_WINDOW;
}
