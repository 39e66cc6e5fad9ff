//! Maps a program counter that may be in the cache to its place in the app.
#![allow(unsafe_code)] // reason: reads the code cache.

use crate::base::address::{AppPc, CachePc, Range};
use crate::base::area::Context;
use crate::base::signals::Ucontext;
use crate::cache::{Fragment, Step};
use crate::crossing::arch::Landmarks;
use crate::engine::state::Process;
use crate::engine::state::Runtime;
use crate::process::syscall::SYSCALL_BYTES;

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

/// Returns the place of a frame's program counter. A system call that the cache has just made is finished: steps to its end cost more
/// than the signal, most of all in virtual machines.
pub(super) fn place(runtime: &Runtime, context: &Context, frame: &mut Ucontext) -> Where {
    let pc = frame.rip;
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
    if n + 1 == steps.len()
        && offset >= SYSCALL_BYTES
        && let Some(next) = after_call(
            Range {
                start: pc,
                end: fragment.end.0,
            },
            step.app,
        )
    {
        *frame.reg(1) = next.0;
        return Where::Boundary(next, None);
    }
    Where::Inside(fragment, step)
}

/// Returns the address where the app goes on, if `rest` of a fragment begins just after a system call that the cache has made for the
/// instruction at `app`.
fn after_call(rest: Range, app: AppPc) -> Option<AppPc> {
    /// Bytes of an instruction at most.
    const LONGEST: u64 = 15;
    /// `mov dword ptr gs:[disp32], imm32`
    const STORE: [u8; 4] = [0x65, 0xc7, 0x04, 0x25];
    const STORE_BYTES: usize = 12;
    let start = rest.start - SYSCALL_BYTES;
    // SAFETY: code of one fragment, as the caller says.
    let code =
        unsafe { core::slice::from_raw_parts(start as *const u8, (rest.end - start) as usize) };
    let mut after = code.strip_prefix(&[0x0f, 0x05])?;
    if after.starts_with(&STORE) {
        after = after.get(STORE_BYTES..)?;
    }
    let small = |at: usize| {
        after
            .get(at..)?
            .first_chunk()
            .map(|b| u32::from_le_bytes(*b))
    };
    // `mov rcx, NEXT`, as the translator writes it.
    let next = match after {
        [0xb9, ..] => u64::from(small(1)?),
        [0x48, 0xc7, 0xc1, ..] => small(3)? as i32 as u64,
        [0x48, 0xb9, ..] => after
            .get(2..)?
            .first_chunk()
            .map(|b| u64::from_le_bytes(*b))?,
        _ => return None,
    };
    let is_next = (1..=LONGEST).contains(&next.wrapping_sub(app.0));
    is_next.then_some(AppPc(next))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn calls_that_the_cache_has_made_are_known_by_what_follows() {
        let found = |app: u64, after: &[u8]| {
            let mut code = std::vec![0x0f, 0x05];
            code.extend_from_slice(after);
            code.resize(64, 0x90);
            let all = code.as_ptr_range();
            let rest = Range {
                start: all.start as u64 + 2,
                end: all.end as u64,
            };
            after_call(rest, AppPc(app)).map(|pc| pc.0)
        };
        let low = [0xb9, 0x02, 0x10, 0x40, 0x00];
        assert_eq!(found(0x40_1000, &low), Some(0x40_1002));
        assert_eq!(found(0x40_1002, &low), None, "not of that instruction");
        let high = [0x48, 0xb9, 2, 0, 0, 0, 0, 0x7f, 0, 0];
        assert_eq!(found(0x7f00_0000_0000, &high), Some(0x7f00_0000_0002));
        let top = [0x48, 0xc7, 0xc1, 0x02, 0x06, 0x60, 0xff];
        assert_eq!(
            found(0xffff_ffff_ff60_0600, &top),
            Some(0xffff_ffff_ff60_0602)
        );
        let counted = [&[0x65, 0xc7, 0x04, 0x25, 1, 2, 3, 4, 0, 0, 0, 0], &low[..]].concat();
        assert_eq!(found(0x40_1000, &counted), Some(0x40_1002));
        assert_eq!(found(0x40_1000, &[0x90]), None);
    }
}
