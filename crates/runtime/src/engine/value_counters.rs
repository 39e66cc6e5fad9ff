//! The part of its value counters that a thread uses ([`crate::translate`], `ways/value_counters.rs`).
//!
//! # Problem
//! Events are spread over the whole table. A thread that executes some hundred loads would touch all of its pages: the kernel makes them,
//! and the host reads them. For a thread that is soon over that is many times what it does.
//!
//! # Strategy
//! A thread begins with a few value counters, the first of the table. Once it has filled a chunk with records it uses all of them. Generated code
//! reads from the context how many there are, and the host from the shared table.
//!
//! # Why it is correct
//! * The contents of value counters are records in whatever order: all of a thread's counts of an event with a value are added.
//! * When there are more, each event has another place. What the first ones hold becomes records, one by one: each before its value counter is
//!   emptied, as in generated code. So the one that is both, if the program is killed in between, is still the last record.
//!   A record of no events ends them: the event of the last one may be counted again, and as often, and that is another count.
//! * Here no generated code of the thread has looked for a value counter and not yet counted in it: a chunk is filled after that.
#![allow(unsafe_code)] // reason: reads and writes counters.

use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::{CHUNK, FEW_VALUE_COUNTERS, MAX_RECORD, VALUE_COUNTERS, ValueCounter};

use crate::base::area::{CONTEXT_OFFSET, Context};
use crate::base::counted::{VALUE_COUNTERS_AT, mask_of_value_counters};
use crate::engine::state::Thread;

const _: () = assert!(FEW_VALUE_COUNTERS * size_of::<ValueCounter>() + MAX_RECORD < CHUNK / 2);

impl Thread {
    /// Makes the thread use so many value counters of its counter array.
    pub(super) fn use_value_counters(&mut self, count: usize) {
        let Some(counter_array) = self.counter_array else {
            return;
        };
        let counter_array = self.process.queue.mapped().counter_array(counter_array);
        counter_array.value_counters.store(count as u32, Release);
        let context = (self.area() + CONTEXT_OFFSET as u64) as *mut Context;
        let mask = mask_of_value_counters(count).into();
        // SAFETY: a word of the thread's own context, which executes no generated code meanwhile.
        unsafe { (&raw mut (*context).value_counter_mask).write(mask) };
    }

    /// Makes the thread use all value counters, if it uses few. It has just taken a chunk.
    pub(super) fn widen_value_counters(&mut self) {
        let Some(counter_array) = self.counter_array else {
            return;
        };
        let mapped = self.process.queue.mapped();
        let used = &mapped.counter_array(counter_array).value_counters;
        let counts_values = mapped.control().process.value_counters.load(Relaxed) != 0;
        if !counts_values || used.load(Relaxed) as usize > FEW_VALUE_COUNTERS {
            return;
        }
        let first = (self.area() + u64::from(VALUE_COUNTERS_AT.0)) as *mut ValueCounter;
        let mut last = None;
        for n in 0..FEW_VALUE_COUNTERS {
            // SAFETY: in the thread's counter array, where nobody else writes.
            let held = unsafe { first.add(n).read_volatile() };
            if held.count != 0 {
                self.record_value_counter(&held);
                // SAFETY: as above.
                unsafe { (&raw mut (*first.add(n)).count).write_volatile(0) };
                last = Some(held);
            }
        }
        if let Some(last) = last {
            self.record_value_counter(&ValueCounter { count: 0, ..last });
        }
        self.use_value_counters(VALUE_COUNTERS);
    }

    /// Appends a record of a value counter. There is room for it.
    fn record_value_counter(&mut self, of: &ValueCounter) {
        let to = self.writer.at();
        // SAFETY: the write pointer leads to room for a whole record.
        unsafe {
            (to as *mut u32).write_unaligned(of.path);
            ((to + 4) as *mut u64).write_unaligned(of.value);
            ((to + 12) as *mut u32).write_unaligned(of.count);
        }
        self.writer.set(to + size_of::<ValueCounter>() as u64);
    }
}
