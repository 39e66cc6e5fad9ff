//! Instructions that cause signals: which one it was, and whether it was a step.
#![allow(unsafe_code)] // reason: reads the app's code.

use crate::base::address::{AppPc, CachePc};
use crate::base::signals::{Info, SIGSEGV, SIGTRAP, TRAP_BRKPT, TRAP_TRACE, Ucontext};
use crate::base::sys;
use crate::engine::state::Runtime;

/// Returns the address of the instruction that caused a signal at `app` and is executed again.
pub(super) fn repeated(info: &Info, app: AppPc) -> AppPc {
    if info.signo == SIGTRAP && info.code != TRAP_TRACE {
        AppPc(app.0 - 1)
    } else {
        app
    }
}

/// A breakpoint instruction reports the address after itself.
pub(super) fn trap_address(
    runtime: &Runtime,
    info: &Info,
    app: AppPc,
    frame: &Ucontext,
    caused: bool,
) -> AppPc {
    if !caused || info.signo != SIGTRAP || info.code == TRAP_TRACE {
        return app;
    }
    // In the cache the next step begins there, but its app address may be elsewhere (a followed
    // jump), or the fragment ends there, after several instructions; the breakpoint itself is one byte before.
    match runtime.cache.fragment_at(CachePc(frame.rip - 1)) {
        Some((fragment, steps)) => {
            let offset = frame.rip - 1 - fragment.entry.0;
            steps
                .iter()
                .rev()
                .find(|s| u64::from(s.cache) <= offset)
                .map_or(app, |s| AppPc(s.app_at(offset).unwrap_or(s.app).0 + 1))
        }
        None => app,
    }
}

/// Returns whether a signal is that of a general protection fault.
pub(super) fn is_general_fault(info: &Info) -> bool {
    const SI_KERNEL: i32 = 0x80;
    info.signo == SIGSEGV && info.code == SI_KERNEL
}

/// Returns whether a signal is that of an instruction executed with the trap flag, or may be: in some virtual machines
/// the processor's word for a step is lost now and then, and what is left looks like `int1`, which is never in the cache.
pub(super) fn may_be_step(info: &Info) -> bool {
    info.signo == SIGTRAP && matches!(info.code, TRAP_TRACE | TRAP_BRKPT)
}

/// Returns whether the instruction at `pc`, which was executed, is `popf`: the flag is then not ours.
pub(super) fn is_popf(pc: u64) -> bool {
    opcode(pc) == Some(0x9d)
}

/// Returns whether the instruction at `pc`, which was executed, is `int1`: the trap is then not ours.
pub(super) fn is_int1(pc: u64) -> bool {
    opcode(pc) == Some(0xf1)
}

/// The first byte after the usual prefixes of the instruction at `pc`.
pub(super) fn opcode(pc: u64) -> Option<u8> {
    let mut bytes = [0; 4];
    // Its last bytes may lie before memory that is not there.
    let _ = sys::copy_checked(pc, &mut bytes) || sys::copy_checked(pc, &mut bytes[..1]);
    let prefix = |b: &u8| *b == 0x66 || *b & 0xf0 == 0x40;
    bytes.into_iter().find(|b| !prefix(b))
}
