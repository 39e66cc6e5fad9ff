//! Relational queries handed to a target: the program without the rules for tags.

use std::sync::atomic::Ordering::{Relaxed, Release};

use trommel_query::{Program, image};
use trommel_queue::queries as shared;

/// The queries of a run.
#[derive(Clone, Debug)]
pub struct Question {
    /// The program.
    pub program: Program,
    /// Seed of random numbers.
    pub seed: u64,
    /// Rates of `every auto` do not depend on time.
    pub rehearsed: bool,
}

impl Question {
    /// Hands the program over.
    pub fn write(&self, to: &shared::Queries) {
        let (table, code) = (self.program.table().clone(), self.program.code().to_vec());
        // Its parts are those of a program already.
        let Ok(bare) = Program::new(table, code, Vec::new()) else {
            return;
        };
        let bytes = image::encode(&bare);
        for (word, bytes) in to.program.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        to.seed.store(self.seed, Relaxed);
        to.rehearsed.store(self.rehearsed.into(), Relaxed);
        to.tagged.store(self.is_tagged().into(), Relaxed);
        to.bytes.store(bytes.len() as u32, Release);
    }

    /// Returns whether some code has tags.
    pub fn is_tagged(&self) -> bool {
        !self.program.tags().is_empty()
    }
}
