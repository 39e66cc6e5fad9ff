//! What the runtime does with a thread that acyclic paths depend on, told in its records.
//!
//! Fragments say where control arrives, and how it leaves. Between them the runtime executes instructions in place, enters the
//! handlers of signals and returns from them: there it appends a record of its own, in order with those of the fragments.
//! A mark's path is numbered when it is needed first; a child of `fork` keeps the number with the rest of the dictionary.
#![allow(unsafe_code)] // reason: writes records.

use trommel_queue::dict::{Event, Mark, Passed};
use trommel_tuple::Kind;

use super::Translator;
use crate::channel::deliver::{DictionaryFull, Shared};
use crate::engine::dispatch::Runtime;
use crate::process::thread::Thread;

impl Translator {
    /// The path of a mark.
    fn mark(&mut self, shared: &mut Shared, mark: Mark) -> Result<u32, DictionaryFull> {
        if let Some(path) = self.marks[mark as usize] {
            return Ok(path);
        }
        shared.open_block()?;
        shared.event(Event::Marked(mark));
        let block = shared.close_block().ok_or(DictionaryFull)?;
        let path = shared.path(block, Passed::first(1), None)?;
        self.marks[mark as usize] = Some(path);
        Ok(path)
    }
}

impl Runtime {
    /// Marks what happens to the thread, where acyclic paths are wanted. A chunk that this fills is to be published
    /// when the lock is free. With no room left in the dictionary the thread is about to be detached, and nothing is told.
    pub fn mark(&mut self, thread: &mut Thread, mark: Mark, words: [u64; 2]) {
        if !self.translator.wants(Kind::Path) || self.marked(thread, mark, words) {
            return;
        }
        self.record_mark(thread, mark, words);
    }

    /// As [`Self::mark`], where the service thread makes paths.
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
