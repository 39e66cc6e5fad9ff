//! Faults that are ours: of stores to pages that we have protected, of guards that cannot read, of
//! probes that are not aligned.
//!
//! # Strategy
//! The page is opened, and the store is made again. Nothing of the app is seen by the app: not by
//! its handler of SIGSEGV, which gets the faults that the app's own protection causes.
//!
//! A fragment of the page that it stores to ends before the store. Its events up to there are
//! recorded, and the dispatcher goes on with a fragment of the store alone.
//!
//! Another thread may have opened the page since: then the kernel's list tells whether the store
//! would fault again.

#![allow(unsafe_code)] // reason: reads the code cache.

use crate::base::address::Range;
use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
use crate::base::decode::is_based_on;
use crate::base::emit::Reg;
use crate::base::signals::{ALIGNMENT_CHECK, SIGBUS, SIGSEGV, TRAP_FLAG};
use crate::base::signals::{Info, Ucontext};
use crate::cache::{Fragment, Spilled, Step};
use crate::engine::state::Runtime;
use crate::engine::state::Thread;
use crate::memory::mapping;
use crate::memory::pages::{PAGE, page_of};
use crate::process::signal::place::{Where, place};
use crate::process::signal::{arrived, stop_stepping, unspill};

/// Resolves a fault that an instruction caused, if it is one of those. Otherwise it is the app's.
pub(super) fn resolve(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
) -> bool {
    if unaligned(runtime, thread, context, info, frame) {
        return true;
    }
    /// The protection of the memory, not its absence, nor a key of the thread.
    const SEGV_ACCERR: i32 = 2;
    const WRITE: u64 = 2;
    if info.signo != SIGSEGV || info.code != SEGV_ACCERR || frame.err & WRITE == 0 {
        return false;
    }
    let page = page_of(info.fields[0]);
    if !runtime.code_pages.knows(page) || !runtime.open(page) && !is_writable(page) {
        return false;
    }
    let (app, fragment, step) = match place(runtime, context, frame) {
        Where::Boundary(app, Some((fragment, step))) => (app, fragment, step),
        Where::Inside(fragment, step) => {
            let spilled = step.at_fault;
            (step.app, fragment, Step { spilled, ..step })
        }
        // Natively, or before a system call.
        Where::Boundary(_, None) | Where::Lead => return true,
    };
    let changed = Range {
        start: page,
        end: page + PAGE,
    };
    if fragment.source.is_none() || !fragment.span.meets(&changed) {
        return true;
    }
    if let Some(far) = step.far {
        *frame.reg(far.0) = context.spill_far;
    }
    give_up(runtime, thread, context, frame, app, Some((fragment, step)));
    true
}

/// Records are not aligned, and the app may want that checked: not for the instruction that writes a
/// record, as only a probe does. The check is off up to the next boundary.
fn unaligned(
    runtime: &Runtime,
    thread: &mut Thread,
    context: &Context,
    info: &Info,
    frame: &mut Ucontext,
) -> bool {
    const BUS_ADRALN: i32 = 1;
    if info.signo != SIGBUS || info.code != BUS_ADRALN {
        return false;
    }
    let Where::Inside(fragment, _) = place(runtime, context, frame) else {
        return false;
    };
    // SAFETY: the instruction there was fetched; the arena goes on after it.
    let code = unsafe { core::slice::from_raw_parts(frame.rip as *const u8, 15) };
    let writes_record = |p| is_based_on(code, Reg(p));
    if !fragment.stolen.is_some_and(writes_record) {
        return false;
    }
    frame.eflags &= !ALIGNMENT_CHECK;
    frame.eflags |= TRAP_FLAG;
    thread.signals.unaligned = true;
    thread.signals.rolling = true;
    true
}

/// A guarded fragment cannot read its code: it is not there any more, or a key of the thread is in the
/// way. The dispatcher reads it, or finds out what there is.
pub(super) fn cannot_compare(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
) -> bool {
    let found = runtime.cache.fragment_at(CachePc(frame.rip));
    let Some(fragment) = found.map(|(f, _)| f).filter(|f| f.guarded) else {
        return false;
    };
    unspill(context, frame, Spilled::BOTH);
    if thread.windowed.now.is_some() {
        // Natively it is found out what there is.
        runtime.recheck(fragment.app, fragment.prefix);
        runtime.cut_window(thread, context, fragment.app, None);
        thread.leaving = true;
    }
    give_up(runtime, thread, context, frame, fragment.app, None);
    true
}

/// Leaves the fragment before the instruction at `app`, which is executed alone.
fn give_up(
    runtime: &mut Runtime,
    thread: &mut Thread,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    stop_stepping(thread, context, frame);
    thread.signals.rolling = false;
    frame.eflags &= !TRAP_FLAG;
    thread.single = Some(app);
    arrived(runtime, thread, context, frame, app, at);
}

fn is_writable(page: u64) -> bool {
    let holds = |m: &mapping::Mapping| m.range.holds(AppPc(page));
    let maps = mapping::read_all().unwrap_or_default();
    maps.into_iter().find(holds).is_some_and(|m| m.writable)
}
