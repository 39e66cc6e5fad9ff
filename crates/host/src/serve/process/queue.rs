//! Position up to which the queue of a process has been read.

use super::served::Served;
use crate::channel::shared::{Filled, Shared};
use crate::fold::Folder;

/// Reading position of a queue.
#[derive(Default)]
pub(super) struct Queue {
    /// Published chunks given back.
    pub(super) taken: u64,
    /// By chunk: bytes that were folded before it was published.
    folded: Vec<usize>,
    bytes: Vec<u8>,
}

impl Queue {
    /// Folds the next published chunk. Returns true if there was one.
    pub(super) fn take(
        &mut self,
        shared: &Shared,
        over: bool,
        folder: &mut Folder,
        served: &mut Served,
    ) -> bool {
        match shared.published(&mut self.taken, over) {
            Ok(None) => false,
            Ok(Some(filled)) => {
                self.rest(shared, filled, folder, served);
                self.folded[filled.chunk as usize] = 0;
                // Only now: until it is folded, the runtime may not write there.
                shared.give_back(filled.chunk, &mut self.taken);
                true
            }
            Err(damaged) => {
                served.report(Err(damaged), folder);
                false
            }
        }
    }

    /// Folds what a chunk holds beyond what was folded of it before.
    pub(super) fn rest(
        &mut self,
        shared: &Shared,
        filled: Filled,
        folder: &mut Folder,
        served: &mut Served,
    ) {
        let at = filled.chunk as usize;
        if self.folded.len() <= at {
            self.folded.resize(at + 1, 0);
        }
        let before = self.folded[at];
        if before >= filled.bytes {
            return;
        }
        self.folded[at] = filled.bytes;
        shared.copy_chunk(filled.chunk, before..filled.bytes, &mut self.bytes);
        served.bytes += self.bytes.len() as u64;
        if !served.failed {
            let done = folder.chunk(shared, &filled, &self.bytes);
            served.report(done, folder);
        }
    }
}
