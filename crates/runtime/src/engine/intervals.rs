//! Intervals of profilers ([`crate::channel::shields`]): begun and ended for a thread, events that come out of the cache.
#![allow(unsafe_code)] // reason: reads and writes counters.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::{FULL_WINDOW, INTERVAL_MARK};

use crate::base::area::Context;
use crate::base::counted::Why;
use crate::base::emit::GsOffset;
use crate::base::ids::ExitNumber;
use crate::channel::deliver::HostGone;
use crate::channel::shields::{Counting, Profiler, Slot};
use crate::engine::state::Thread;

impl Thread {
    /// Starts the profiler of the thread, which has a counter array and executes nothing yet.
    pub fn start_counting(&mut self, profiler: &Profiler) {
        let mut counting = Box::new(Counting::new(profiler, self.area()));
        let context = self.context();
        let (first, mask) = profiler.positions.lanes();
        context.subjects = profiler.at;
        context.counters = counting.shielding.counters().as_mut_ptr() as u64;
        context.promotes_at = counting.shielding.promotes_at() - 1;
        context.conservative = profiler.shield.spec.conservative.into();
        context.lane_first = first;
        context.lane_mask = mask;
        context.lane_shift = 64 - profiler.positions.bits();
        if let Some(cheap) = profiler.positions.cheap() {
            context.sum_seed = cheap.seed();
            context.factors = cheap.factors();
        }
        let length = counting.shielding.length();
        let seen = counting.seen();
        seen.length.store(length, Relaxed);
        seen.left.store(length, Relaxed);
        seen.rest.store(profiler.rest as u32, Relaxed);
        self.counting = Some(counting);
    }

    /// Counts an event of a known tuple in the dispatcher. An interval that it ends is ended when the lock is free.
    pub fn count_known(&mut self, number: u32, of_kind: Option<GsOffset>) {
        let context = self.context();
        let Some(counting) = &mut self.counting else {
            return;
        };
        if let Some(GsOffset(at)) = of_kind {
            let at = (counting.area + u64::from(at)) as *mut u64;
            // SAFETY: before the thread's counter array, where nobody else counts.
            unsafe { at.write_volatile(at.read_volatile() + 1) };
        }
        let cell = counting.cell(number);
        // SAFETY: a word of the counter array, where nobody else counts.
        let left = unsafe { cell.read_volatile() };
        match left {
            0 => counting.event(number, 0, context),
            // SAFETY: likewise.
            _ => unsafe { cell.write_volatile(left - 1) },
        }
        let left = counting.seen().left.load(Relaxed).wrapping_sub(1);
        counting.seen().left.store(left, Relaxed);
        counting.is_due = left == 0;
    }

    /// Ends an interval that has ended in the dispatcher. The lock is free.
    pub fn end_due_interval(&mut self) -> Result<(), HostGone> {
        let counting = self.counting.as_mut();
        match counting.is_some_and(|counting| core::mem::take(&mut counting.is_due)) {
            true => self.end_interval(),
            false => Ok(()),
        }
    }

    fn end_interval(&mut self) -> Result<(), HostGone> {
        let context = self.context();
        let Some(mut counting) = self.counting.take() else {
            return Ok(());
        };
        let events = counting.end_interval(context);
        counting.keep(events);
        let mut done = Ok(());
        for candidate in &counting.candidates {
            let Slot { subject, value, .. } = counting.slots[candidate.slot];
            let subject = counting.subject(subject);
            let value = (subject.cell == 0).then_some(value);
            self.append_candidate(subject.path, value, candidate.count);
            done = done.and_then(|()| self.publish_if_full());
        }
        self.append_words([INTERVAL_MARK, events]);
        done = done.and_then(|()| self.publish_if_full());
        self.counting = Some(counting);
        done
    }

    fn publish_if_full(&mut self) -> Result<(), HostGone> {
        match core::mem::take(&mut self.full) {
            true => self.publish(),
            false => Ok(()),
        }
    }

    fn append_candidate(&mut self, path: ExitNumber, value: Option<u64>, count: u32) {
        let halves = value.map(|value| [value as u32, (value >> 32) as u32]);
        let words = [path.0].into_iter();
        self.append_words(words.chain(halves.into_iter().flatten()).chain([count]));
    }

    /// Appends a record of these words.
    fn append_words(&mut self, words: impl IntoIterator<Item = u32>) {
        let mut at = self.writer.at() as *mut u32;
        for word in words {
            // SAFETY: the write pointer leads to room for a whole record.
            unsafe {
                at.write(word);
                at = at.add(1);
            }
        }
        let next = at as u64;
        self.writer.set(next);
        self.full = next as usize & 0xffff < FULL_WINDOW;
    }
}

/// An event has come out of the cache, as [`Why`] says. The lock is free.
pub fn crossed(thread: &mut Thread, context: &mut Context) -> Result<(), HostGone> {
    let (number, value) = (context.subject, context.value);
    let Some(counting) = &mut thread.counting else {
        return Ok(());
    };
    match context.why {
        why if why == Why::Promoted as u32 => counting.promote(number, value, context),
        why if why == Why::Contested as u32 => counting.event(number, value, context),
        _ => return thread.end_interval(),
    }
    Ok(())
}
