//! Processes that a native thread has forked: copies of the runtime that nobody has made their own.
//!
//! # Problem
//! Between windows a program forks by itself, and the runtime knows nothing of it. The child has a copy of everything of
//! ours, but what is shared with the host is its parent's.
//!
//! # Strategy
//! Nothing is done before the host begins a window in the child: most never see one. The first signal finds
//! that the process is not the one that the runtime was started in. The handler claims a slot and puts it in the place of the
//! parent's, as children of a `fork` under control do (`super::fork`); of the areas it keeps one, for itself.
//!
//! # Invariants
//! * The child was copied while nobody held the runtime's lock: otherwise what the lock guards may be half done, and
//!   there are never windows.
//! * A child that shares its parent's memory (`vfork`) gets no signal: the host sees to that.
#![allow(unsafe_code)] // reason: maps memory.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use trommel_queue::Slot;

use crate::base::area::THREAD_PAGE;
use crate::base::hosted::ring;
use crate::base::sys;
use crate::engine::state::Runtime;
use crate::engine::state::{Process, Thread};
use crate::process::thread::fork::{NoSlot, take_slot};

/// The process for which the kernel has refused to map a slot.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// Returns whether the calling process has windows of its own; makes them its own if it can. Takes the lock.
pub fn is_own(process: &'static Process) -> bool {
    let pid = sys::getpid() as u32;
    if process.pid.load(Relaxed) == pid {
        return true;
    }
    if REFUSED.load(Relaxed) == pid {
        return false;
    }
    let Some(mut runtime) = process.runtime.lock_if_free() else {
        return false;
    };
    // Another thread may have been faster.
    if process.pid.load(Relaxed) == pid {
        return true;
    }
    let done = own(process, &mut runtime).is_ok();
    if done {
        process.pid.store(pid, Relaxed);
    }
    done
}

fn own(process: &'static Process, runtime: &mut Runtime) -> Result<(), NoSlot> {
    let mapped = process.queue.mapped();
    let directory = mapped.directory();
    if !directory.host_is_there() {
        return Err(NoSlot);
    }
    let Some(number) = directory.claim() else {
        // There may be one when the next signal comes.
        directory.wanted.fetch_add(1, SeqCst);
        ring(directory);
        return Err(NoSlot);
    };
    let slot = &directory.slot[number];
    let (paths, words, regions) = runtime.shared.extent();
    let parent = mapped.control();
    slot.parent
        .store(parent.identity.slot.load(Relaxed), Relaxed);
    slot.pid.store(0, Relaxed);
    slot.foreign
        .store(parent.process.foreign.load(Relaxed), Relaxed);
    slot.paths.store(paths, Relaxed);
    slot.words.store(words, Relaxed);
    slot.regions.store(regions, Relaxed);
    slot.state.store(Slot::EXPECTED, SeqCst);
    if let Err(refused) = take_slot(mapped, runtime, number) {
        // A limit on its address space leaves no room. The next signal would find the same.
        REFUSED.store(sys::getpid() as u32, Relaxed);
        return Err(refused);
    }
    process.queue.start_over();
    if !runtime.threads.is_empty() {
        // Another thread of the parent was in a window.
        runtime.actions.give_back_synchronous();
        runtime.threads.clear();
    }
    let mut first: Option<&'static mut Thread> = None;
    for area in runtime.windows.take_areas() {
        // SAFETY: areas stay, and their threads are not in this process.
        let thread = unsafe { &mut *area.cast_mut() };
        match first {
            None => first = Some(thread),
            // SAFETY: the area of a thread that does not exist here.
            Some(_) => unsafe { sys::munmap(thread.area, process.area_bytes()) },
        }
    }
    let first = first.ok_or(NoSlot)?;
    runtime.pages = 1;
    runtime.numbers = 1;
    first.own_tables(runtime).map_err(|_| NoSlot)?;
    first.writer.page = 0;
    let page = mapped.thread_page(0);
    // SAFETY: in that thread's area, in place of the parent's page.
    unsafe { sys::map_again(page, sys::PAGE, first.area + THREAD_PAGE as u64) }
        .map_err(|_| NoSlot)?;
    first.windowed.now = None;
    // Its queries are its parent's, which go on there.
    first.asking = None;
    first.windowed.timer.forget();
    first.windowed.user = 0;
    first.writer.set(0);
    first.writer.number = 1;
    first.writer.tid = sys::gettid() as u32;
    first.thread_page().tid.store(first.writer.tid, Relaxed);
    first.name_area();
    runtime.windows.add(first);
    mapped.control().process.windows_ready.store(1, Release);
    Ok(())
}
