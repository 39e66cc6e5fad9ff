//! Bursts: control that comes and goes, while the runtime and all translated code stay in the process.
//!
//! # Problem
//! A profile within a budget is made of short times under control. Putting the runtime in and translating the program's code takes
//! longer than such a time, so both must be kept. While a process *rests*, all its threads are native and nothing
//! of ours is executed. It may make and end threads, handle other signals, change its map and its limits, and fork.
//!
//! # Strategy
//! *Rest.* The host gets all threads out as for a detachment ([`super::attach`]). Then one runs [`rest`] in place of the farewell: the kernel
//! has the app's dispositions again, and limits that allow for our memory, no page is protected, and a forked child has none of our memory.
//!
//! *Wake.* The host stops all threads, and has one run [`wake`] with the ids of all. It adopts the dispositions as they are by now, gives
//! each thread an area (the one that it had, if there is one), and puts translated code in doubt unless it is sure that the
//! code is what it was. Then each thread is led to `arch::join`, as when a process is attached.
//!
//! # Why it is correct
//! * No thread is under control when either is run, so all areas are free but for what their threads counted.
//! * Translated code is entered as before only if its region is mapped from the same place of the same file, not writable,
//!   and if the process does not write to the file. The host has seen besides that no page of a file's code was written to, or all translated code is
//!   dropped.
//! * What was made of other code, or of a mapping that has changed, is suspect: it is compared with the code that is there before it is entered again
//!   (`cache::suspect`). So programs that generate code pay for a comparison of what they execute again.
//! * What else the runtime believes of the app (dispositions, limits, masks, alternate stacks) is read anew.
//!
//! **I40 (native at rest).** While a process rests all its threads are native, and what the kernel keeps for it is the app's. Code is kept only if it is known to be the same.
#![allow(unsafe_code)] // reason: reads what the host has written; areas are reached by their addresses.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use linux_raw_sys::general as nr;
use trommel_queue::wake::{ASLEEP, AWAKE, Wake};
use trommel_queue::work::Flush;

use crate::base::limits;
use crate::base::own;
use crate::base::sys;
use crate::crossing::arch::upcalls;
use crate::engine::current;
use crate::engine::parts::WayOut;
use crate::engine::signals::Actions;
use crate::engine::state::{Process, Runtime, Thread};
use crate::memory::locking;
use crate::process::give_back;
use crate::process::loan::{stop_for_host, with_filters_suspended};

/// The process rests from now on. No thread is under control.
pub fn rest(runtime: &mut Runtime) {
    // What was made of these pages is put in doubt when it wakes.
    runtime.code_pages.rest();
    runtime.threads.clear();
    advise(nr::MADV_DONTFORK);
}

/// Gives the kernel an advice about all memory of ours.
fn advise(advice: u32) {
    for range in own::ranges().chain([limits::image()]) {
        let args = [range.start, range.end - range.start, advice.into(), 0, 0, 0];
        // SAFETY: no byte of memory changes. Parts that are unmapped are passed over, with an error at the end.
        let _ = unsafe { sys::call(nr::__NR_madvise, args) };
    }
}

/// Run by one thread of a process that rests. All others are stopped.
///
/// # Safety
/// Only `arch::wake` may call this, with what the host has written.
#[unsafe(export_name = "trommel_wake")]
pub unsafe extern "C" fn wake(told: *mut Wake) -> ! {
    // SAFETY: the host has written it, on the stack of this very run.
    let (told, ids) = unsafe {
        let ids = told.add(1).cast::<u64>();
        let count = (*told).threads as usize;
        (&mut *told, core::slice::from_raw_parts_mut(ids, count))
    };
    let process = current::process();
    let up = |_: &_| (!give_back::is_done()).then(|| up(process, told, ids));
    let awake = with_filters_suspended(up);
    told.drop_all = match awake.flatten() {
        Some(()) => AWAKE,
        None => ASLEEP,
    };
    stop_for_host()
}

const _: upcalls::Woken = wake;

fn up(process: &'static Process, told: &Wake, ids: &mut [u64]) -> Option<()> {
    let mut runtime = process.runtime.lock();
    if !runtime.translator.counts() {
        return None;
    }
    locking::show(process.queue.mapped().tables());
    limits::again(&told.limits);
    let control = process.queue.control();
    let Some(areas) = areas_for(process, &mut runtime, ids) else {
        limits::farewell(control);
        return None;
    };
    advise(nr::MADV_DOFORK);
    locking::forget();
    for range in runtime.regions.recall() {
        runtime.doubt(range);
    }
    runtime.meet_rings();
    if told.drop_all != 0 {
        runtime.drop_all(Flush::Asked, true);
    }
    drop(runtime);
    for (area, id) in areas.into_iter().zip(ids) {
        // SAFETY: the area is of a thread of a process that rests, so nobody uses it.
        let thread = unsafe { &mut *area.cast_mut() };
        process.free_counter_arrays();
        again(process, &mut process.runtime.lock(), thread, *id as u32);
        *id = thread.area();
    }
    let mut runtime = process.runtime.lock();
    runtime.actions = Actions::adopt();
    control.process.threads.store(runtime.numbers, Relaxed);
    control.attached.rests.store(0, SeqCst);
    control.attached.limits_are_left.store(0, SeqCst);
    control.attached.bid_farewell.store(0, SeqCst);
    Some(())
}

/// Finds an area for each thread. Those that are left over are free for threads to come.
fn areas_for(
    process: &'static Process,
    runtime: &mut Runtime,
    ids: &[u64],
) -> Option<Vec<*const Thread>> {
    // Its nodes are among those of all areas.
    process.free.store(0, Relaxed);
    let mut idle = runtime.areas.clone();
    // SAFETY: areas stay, and nobody uses them while the process rests.
    let of = |area: &*const Thread| u64::from(unsafe { &**area }.writer.tid);
    let own = ids.iter().map(|id| {
        let at = idle.iter().position(|area| of(area) == *id)?;
        Some(idle.swap_remove(at))
    });
    let own: Vec<Option<*const Thread>> = own.collect();
    let mut found = Vec::with_capacity(own.len());
    for area in own {
        let area = match area.or_else(|| idle.pop()) {
            Some(area) => area,
            None => &raw const *Thread::make(process, runtime)?,
        };
        found.push(area);
    }
    for area in idle {
        // SAFETY: as above.
        let thread = unsafe { &mut *area.cast_mut() };
        process.queue.hand_in(&mut thread.writer);
        thread.end_counter_array();
        thread.writer.tid = 0;
        process.keep(thread);
    }
    Some(found)
}

/// A thread is about to go on under control, in an area that may have been another's.
fn again(process: &Process, runtime: &mut Runtime, thread: &mut Thread, id: u32) {
    process.queue.hand_in(&mut thread.writer);
    thread.begin_anew();
    thread.left = false;
    thread.way_out = WayOut::None;
    thread.nowhere = false;
    thread.unnamed = false;
    thread.presence.away = None;
    thread.presence.reached = None;
    thread.thread_page().parked.store(0, Relaxed);
    let context = thread.context();
    context.pending = 0;
    context.at_boundary = 1;
    if thread.writer.tid == id && thread.counter_array.is_some() {
        // It counts on.
        thread.came_out(runtime);
        thread.see(runtime.watched());
        runtime.threads.push(&raw const *thread);
        return;
    }
    thread.end_counter_array();
    thread.enlist(runtime);
}
