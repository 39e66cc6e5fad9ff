//! Executions of instructions after calls.
//!
//! # Problem
//! A call need not come back: `longjmp`, exceptions and `exit` leave it. How often the code after it was executed follows from no
//! event of the program's, unless that code has events itself.
//!
//! # Strategy
//! An instruction after a call is an event of the dictionary, [`Event::AfterCall`]. An exit tells it like any other, so most code pays
//! nothing. Only exits that have passed no other event get a counter for it: mostly the end of a function, where flags are dead and
//! the counter is one instruction.
//!
//! # Why it is right
//! * What is after a call is told by the bytes before it, in each fragment alike, so all executions are counted. Bytes may look
//!   like a call and be none: such an instruction is counted where a fragment does not come from the one right before it, and the
//!   host, which knows the code, does not use that.
//! * Bytes that may change tell nothing. There each fragment of a file's code begins with the event; none goes on after a jump.

use trommel_queue::counts_after_calls;
use trommel_queue::dict::Event;

use super::Way;
use crate::base::address::AppPc;
use crate::base::decode::Class;
use crate::memory::mapping::Nature;
use crate::translate::site::readable;
use crate::translate::{Site, Translator, target};

/// Bytes of the longest call that is looked for: `call [rm + disp32]` with a prefix and a SIB byte.
const LONGEST: u64 = 8;

/// Lists instructions after calls in the dictionary.
pub(in crate::translate) struct AfterCalls;

impl Way for AfterCalls {
    fn is_on(t: &Translator) -> bool {
        t.config.after_calls && counts_after_calls(t.config.kinds)
    }

    fn decoded(t: &mut Translator, site: &mut Site<'_>, n: usize) {
        if t.job.skips || t.needs.each_event {
            return;
        }
        let pc = t.job.insns[n].pc();
        // A part of a window's end may begin within a loop that is laid out anew.
        let before = n.checked_sub(1).map(|before| &t.job.insns[before]);
        let goes_on = before.is_some_and(|before| {
            let calls = matches!(before.class, Class::Call(_) | Class::CallIndirect);
            before.next() == pc && !calls
        });
        if !goes_on && looks_after_call(site, pc) {
            t.job.after_calls[n / 64] |= 1 << (n % 64);
        }
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        if t.is_after_call(n) {
            let pc = target(t.job.insns[n].pc());
            site.shared.event(Event::AfterCall { pc });
        }
        0
    }

    fn heads(t: &Translator, n: usize) -> usize {
        t.is_after_call(n).into()
    }
}

impl Translator {
    /// Returns true if instruction `n` is an event as it is after a call.
    pub(in crate::translate) fn is_after_call(&self, n: usize) -> bool {
        self.job.after_calls[n / 64] >> (n % 64) & 1 != 0
    }
}

/// Returns true if the bytes before `pc` may be a call.
fn looks_after_call(site: &mut Site<'_>, pc: AppPc) -> bool {
    let Ok(region) = Translator::region(site, pc) else {
        return false;
    };
    let mapping = &site.regions.known[region];
    if mapping.nature() != Nature::Fixed {
        return mapping.inode != 0;
    }
    let start = AppPc(pc.0.saturating_sub(LONGEST).max(mapping.range.start));
    let bytes = readable(site.regions, start, region);
    let before = bytes.and_then(|bytes| bytes.get(..(pc.0 - start.0) as usize));
    before.is_some_and(ends_in_call)
}

/// Returns true if bytes of code end in what may be a near call.
fn ends_in_call(bytes: &[u8]) -> bool {
    let from_end = |n: usize| bytes.len().checked_sub(n).map(|at| bytes[at]);
    // `ff /2`, and its operand: nothing, a byte or four, after a SIB byte or not.
    let is_indirect = |n: usize| {
        let operand = from_end(n - 1).filter(|modrm| modrm >> 3 & 7 == 2);
        from_end(n) == Some(0xff) && operand.is_some()
    };
    from_end(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_so() {
        for call in [
            &b"\xe8\x00\x00\x00\x00"[..],
            b"\xff\xd0",
            b"\x41\xff\xd3",
            b"\xff\x50\x18",
            b"\xff\x54\x24\x08",
            b"\xff\x15\x01\x02\x03\x04",
            b"\x41\xff\x94\xc4\x01\x02\x03\x04",
        ] {
            assert!(ends_in_call(call), "{call:x?}");
        }
        for other in [&b""[..], b"\xc3", b"\xff\xe0", b"\xe9\x00\x00\x00\x00"] {
            assert!(!ends_in_call(other), "{other:x?}");
        }
    }
}
