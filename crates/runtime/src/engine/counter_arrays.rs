//! Counter arrays of threads ([`crate::channel::counters`]): taken, named, left, and counted in by the dispatcher.
#![allow(unsafe_code)] // reason: reads and writes counters; maps them.

use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_compress::hash::OfPlace;
use trommel_queue::work::Flush;
use trommel_queue::{
    COUNTER_ARRAY_BYTES, COUNTER_ARRAYS, COUNTS_PATHS, FEW_VALUE_COUNTERS, FULL_WINDOW,
};

use crate::base::area::{CONTEXT_OFFSET, COUNTERS_OFFSET, Context};
use crate::base::emit::GsOffset;
use crate::base::ids::{CounterArrayId, ExitNumber};
use crate::base::sys;
use crate::channel::counters::{claim, counter};
use crate::channel::strata::Sampler;
use crate::engine::state::{Process, Runtime, Thread};

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
                self.use_value_counters(FEW_VALUE_COUNTERS);
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
        self.end_contexts();
        if let Some(counter_array) = self.counter_array.take() {
            let counter_array = self.process.queue.mapped().counter_array(counter_array);
            counter_array.ended.store(1, Release);
        }
    }

    /// Counts an execution of a path; false when it is to be recorded.
    fn count(&self, path: ExitNumber) -> bool {
        let paths = self.process.queue.control().setup.counters.load(Relaxed) == COUNTS_PATHS;
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
    pub fn count_or_record(&mut self, path: ExitNumber, values: u8) {
        if values != 0 || !self.count(path) {
            self.append(path, values);
        }
    }

    /// Appends a record whose values are in place, likewise.
    pub fn append(&mut self, path: ExitNumber, values: u8) {
        let at = self.writer.at();
        // SAFETY: the write pointer leads to room for a whole record.
        unsafe { (at as *mut u32).write_unaligned(path.0) };
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
        if mapped.control().setup.counters.load(Relaxed) == 0 {
            return;
        }
        let free = |n| mapped.counter_array(n).thread.load(Relaxed) == 0;
        let ended = |n| mapped.counter_array(n).ended.load(Relaxed) != 0;
        let all = (0..COUNTER_ARRAYS as u32).map(CounterArrayId);
        if !all.clone().any(free) && all.clone().any(ended) {
            // Without a host nobody counts.
            let _ = self.queue.settle();
        }
    }
}

impl Runtime {
    /// Switches from counting to recording paths. Drops the code that counts: the calling thread is out of the cache,
    /// and threads inside leave it at the next exit.
    pub(super) fn stop_counting(&mut self) {
        for thread in &self.threads {
            // SAFETY: listed threads are there; what is written is of the tree, and no other writes that.
            unsafe { &**thread }.stop_contexts();
        }
        self.translator.stop_counting();
        self.flush(Flush::Full);
    }
}

impl Thread {
    /// Starts the counters of the thread, which has a counter array and executes nothing yet.
    pub fn start_counters(&mut self, sampler: &Sampler) {
        let to = (self.area() + COUNTERS_OFFSET as u64) as *mut u16;
        for (n, &events) in sampler.start.iter().enumerate() {
            // SAFETY: in the counter array that is mapped at the end of this thread's area.
            unsafe { to.add(n).write_volatile(events) };
        }
        let context = (self.area() + CONTEXT_OFFSET as u64) as *mut Context;
        // SAFETY: a word of the thread's own context, which is not in use by generated code.
        unsafe { (&raw mut (*context).rate).write(sampler.strata.rate.into()) };
        if let Some(OfPlace::Product { factors, .. }) = sampler.of_word(0) {
            // SAFETY: likewise.
            unsafe { (&raw mut (*context).factors).write(factors) };
        }
    }

    /// Counts an event in the dispatcher. A chunk that a message fills is to be published when the lock is free.
    pub fn count_event(&mut self, counter: GsOffset, path: ExitNumber) {
        let context = (self.area() + CONTEXT_OFFSET as u64) as *const Context;
        let at = (self.area() + u64::from(counter.0)) as *mut u16;
        // SAFETY: both are words of this thread's area, in whose counter array nobody else counts.
        unsafe {
            let left = at.read_volatile().wrapping_sub(1);
            at.write_volatile(left);
            if left == 0 {
                at.write_volatile((*context).rate as u16);
                self.append(path, 0);
            }
        }
    }
}

impl Thread {
    /// Comes out of the midst of a fragment that strides, with so many events passed.
    pub fn take_passed(&mut self, events: u16) {
        if self.counter_array.is_none() {
            return;
        }
        let left = (self.area() + COUNTERS_OFFSET as u64) as *mut u16;
        // SAFETY: a word of this thread's area, in whose counter array nobody else counts.
        unsafe { left.write_volatile(left.read_volatile().wrapping_sub(events)) };
    }
}
