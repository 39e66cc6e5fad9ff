//! Maps a program counter that may be in the cache to its place in the app.
#![allow(unsafe_code)] // reason: reads the code cache.

use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
use crate::cache::{Fragment, Step};
use crate::crossing::arch::Landmarks;
use crate::engine::state::Process;
use crate::engine::state::Runtime;

/// App instruction at which a signal is delivered.
pub(super) struct DeliveryPoint {
    /// Its address.
    pub(super) app: AppPc,
    /// Its place in the cache, if it has one.
    pub(super) at: Option<(Fragment, Step)>,
    /// True if that instruction caused the signal.
    pub(super) caused: bool,
}

/// Place at which a signal found the thread.
pub(super) enum Where {
    /// At an app instruction, all registers the app's (but a stolen one).
    Boundary(AppPc, Option<(Fragment, Step)>),
    /// Inside the step of an app instruction.
    Inside(Fragment, Step),
    /// In a fragment, before its first step, or on the way to one.
    Lead,
}

/// Returns whether it found the thread in the runtime, but for where that is ready to go back to the cache
/// or not yet out of it: then nothing that is locked may be looked at.
pub(super) fn in_runtime(process: &Process, pc: u64) -> bool {
    process.image.holds(AppPc(pc))
        && pc != Landmarks::sigreturned()
        && !Landmarks::lookup().contains(&pc)
        && !Landmarks::message().contains(&pc)
        && !Landmarks::unshielded().contains(&pc)
        && !(Landmarks::resume_start()..=Landmarks::resume_end()).contains(&pc)
}

/// Returns the place of the program counter `pc`.
pub(super) fn place(runtime: &Runtime, context: &Context, pc: u64) -> Where {
    if pc == Landmarks::sigreturned() {
        return Where::Boundary(context.next_pc, None);
    }
    let routines = [
        Landmarks::lookup(),
        Landmarks::message(),
        Landmarks::unshielded(),
    ];
    if routines.iter().any(|routine| routine.contains(&pc)) {
        return Where::Lead;
    }
    let Some((fragment, steps)) = runtime.cache.fragment_at(CachePc(pc)) else {
        return if runtime.cache.arena_of(CachePc(pc)).is_some() {
            Where::Lead
        } else {
            Where::Boundary(AppPc(pc), None)
        };
    };
    let Some(offset) = pc.checked_sub(fragment.entry.0) else {
        return Where::Lead;
    };
    let Some(n) = steps
        .partition_point(|s| u64::from(s.cache) <= offset)
        .checked_sub(1)
    else {
        return Where::Lead;
    };
    // A followed jump has no bytes of its own: the first step at an offset is where the app is.
    let first = steps[..=n].partition_point(|s| s.cache < steps[n].cache);
    let step = steps[n];
    if u64::from(step.cache) == offset {
        return Where::Boundary(steps[first].app, Some((fragment, steps[first])));
    }
    if let Some(app) = step.app_at(offset) {
        return Where::Boundary(app, Some((fragment, step)));
    }
    // SAFETY: a cache address inside a fragment.
    let bytes = unsafe { (pc as *const [u8; 2]).read() };
    if bytes == [0x0f, 0x05] && n + 1 == steps.len() {
        // The system call that ends a fragment: its path is recorded, nothing is stolen.
        return Where::Boundary(step.app, None);
    }
    Where::Inside(fragment, step)
}
