//! Paths that are counted where they are executed.
//!
//! # Problem
//! Where all that is wanted of edges and calls is how often each happened, a record for each path
//! that is executed, and a host that counts the records, cost several times what the program does.
//! The counts must come out as if each path had been recorded: exactly, by thread, and whenever and
//! however the program ends.
//!
//! # Strategy
//! A thread has a *counter array*: a counter of 64 bits for each path number, in the file that the host maps
//! too, and at the end of the thread's area, so that generated code reaches the counter of a path
//! at a constant offset from GS. What was the record of a path is one increment
//! (`translate/counts.rs` says where, and how flags are spared). The meaning of a path number is in
//! the dictionary as before, so the host multiplies where it used to count.
//!
//! Where an indirect branch went is counted too ([`crate::observe::pairs`]). Paths whose
//! numbers are beyond the counter array are recorded still, and, from the moment that there are more threads than counter arrays, all
//! that is translated; what was translated before is dropped then. The host adds up both.
//!
//! *Counter arrays* are claimed in the shared table. A thread that has ended leaves its counter array to the host,
//! which reads it and makes it zero; a thread that finds no free one asks the host to do so.
//!
//! # Why it is correct
//! * No update is lost: only its thread writes to a counter array, by generated code or in its own signal
//!   handler.
//! * Nothing is lost at the end of the process: the increment is the delivery.
//! * Code that counts is executed only by threads with a counter array. A thread that gets none is given its
//!   area after all that counts was dropped, under the same lock; a way into that is then left to
//!   nobody but threads that are in it still (`cache.rs`).
//! * A child of `fork` has a copy of everything but shared memory: its first counter array is mapped over its
//!   parent's before it executes code.
//!
//! **I16 (one writer).** A counter array is written by one thread. Code that counts is executed only by threads with a counter array.
#![allow(unsafe_code)] // reason: reads and writes counters; maps them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::work::Flush;
use trommel_queue::{
    COUNTER_ARRAY_BYTES, COUNTER_ARRAY_COUNTERS, COUNTER_ARRAYS, COUNTS_PATHS, FULL_WINDOW,
    VALUE_COUNTERS_OFFSET,
};

use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::base::stress;
use crate::base::sys;
use crate::channel::deliver::Mapped;
use crate::engine::dispatch::Runtime;
use crate::process::thread::{Process, Thread};

/// Paths close to the last counter: no trace is begun there.
const MANY: usize = 1 << 12;

/// As many have, where few are to.
const FEW: usize = 768;

/// Paths that have counters, the first ones.
fn most() -> usize {
    match stress::few_counters() {
        true => FEW,
        false => COUNTER_ARRAY_COUNTERS,
    }
}

/// The counter of a path, if it has one.
pub fn counter(path: u32) -> Option<GsOffset> {
    let has = (path as usize) < most();
    has.then_some(GsOffset((COUNTERS_OFFSET + 8 * path as usize) as u32))
}

/// The value counters of a thread.
pub const VALUE_COUNTERS: GsOffset = GsOffset((COUNTERS_OFFSET + VALUE_COUNTERS_OFFSET) as u32);

/// Whether many more paths have counters, when `paths` are numbered.
pub fn have_room(paths: u32) -> bool {
    let many = if stress::few_counters() {
        FEW / 2
    } else {
        MANY
    };
    paths as usize + many <= most()
}

/// Claims a counter array for a thread of this number.
fn claim(mapped: Mapped, number: u32) -> Option<u32> {
    (0..COUNTER_ARRAYS as u32).find(|&n| {
        let counter_array = mapped.counter_array(n);
        let free = counter_array.thread.load(Acquire) == 0;
        if free {
            counter_array.tid.store(0, Relaxed);
            counter_array.ended.store(0, Relaxed);
            counter_array.thread.store(number, Release);
        }
        free
    })
}

impl Thread {
    /// Gives the thread a counter array, where paths are counted. With none left, nothing is counted any more.
    pub fn take_counter_array(&mut self, runtime: &mut Runtime) {
        if !runtime.translator.counts() {
            return;
        }
        let mapped = self.process.queue.mapped();
        let Some(counter_array) = claim(mapped, self.writer.number) else {
            return runtime.stop_counting();
        };
        let (from, to) = (
            mapped.counters(counter_array),
            self.area() + COUNTERS_OFFSET as u64,
        );
        // SAFETY: in the area of this thread, which executes nothing yet.
        match unsafe { sys::map_again(from, COUNTER_ARRAY_BYTES, to) } {
            Ok(_) => {
                self.counter_array = Some(counter_array);
                if let Some(sampler) = runtime.translator.sampler() {
                    self.start_counters(sampler);
                }
                if let Some(profiler) = runtime.translator.profiler() {
                    self.start_counting(profiler);
                }
            }
            Err(_) => {
                mapped.counter_array(counter_array).thread.store(0, Release);
                runtime.stop_counting();
            }
        }
    }

    /// Says who counts in the thread's counter array, when that has been found out.
    pub fn name_counter_array(&self) {
        if let Some(n) = self.counter_array {
            let counter_array = self.process.queue.mapped().counter_array(n);
            counter_array.tid.store(self.writer.tid, Relaxed);
            counter_array.thread.store(self.writer.number, Release);
        }
    }

    /// Leaves the counter array to the host: the thread executes no more code that counts.
    pub fn end_counter_array(&mut self) {
        if let Some(counter_array) = self.counter_array.take() {
            let counter_array = self.process.queue.mapped().counter_array(counter_array);
            counter_array.ended.store(1, Release);
        }
    }

    /// Counts an execution of a path; false when it is to be recorded.
    fn count(&self, path: u32) -> bool {
        let paths = self.process.queue.control().counters.load(Relaxed) == COUNTS_PATHS;
        let (Some(_), Some(counter)) = (self.counter_array.filter(|_| paths), counter(path)) else {
            return false;
        };
        let at = (self.area() + u64::from(counter.0)) as *mut u64;
        // SAFETY: in the counter array that is mapped at the end of this thread's area; nobody else writes to it.
        unsafe { at.write_volatile(at.read_volatile() + 1) };
        true
    }
}

impl Thread {
    /// Counts an execution of a path, or records it with values that are in place. A chunk that this
    /// fills is to be published when the lock is free.
    pub fn count_or_record(&mut self, path: u32, values: u8) {
        if values != 0 || !self.count(path) {
            self.append(path, values);
        }
    }

    /// Appends a record whose values are in place, likewise.
    pub fn append(&mut self, path: u32, values: u8) {
        let at = self.writer.at();
        // SAFETY: the write pointer leads to room for a whole record.
        unsafe { (at as *mut u32).write_unaligned(path) };
        let next = at + 4 + 8 * u64::from(values);
        self.writer.set(next);
        self.full = next as usize & 0xffff < FULL_WINDOW;
    }
}

impl Process {
    /// Makes sure that there is a free counter array for another thread, if threads that have ended can give
    /// one. Waits for the host; the runtime's lock must be free.
    pub fn free_counter_arrays(&self) {
        let mapped = self.queue.mapped();
        if mapped.control().counters.load(Relaxed) == 0 {
            return;
        }
        let free = |n| mapped.counter_array(n).thread.load(Relaxed) == 0;
        let ended = |n| mapped.counter_array(n).ended.load(Relaxed) != 0;
        let all = 0..COUNTER_ARRAYS as u32;
        if !all.clone().any(free) && all.clone().any(ended) {
            // Without a host nobody counts.
            let _ = self.queue.settle();
        }
    }
}

impl Runtime {
    /// From now on paths are recorded. What counts is dropped: the calling thread is out of the cache,
    /// and who is in it leaves it at the next exit.
    fn stop_counting(&mut self) {
        self.translator.stop_counting();
        self.flush(Flush::Full);
    }
}
