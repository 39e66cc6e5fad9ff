//! The program's own limits, when the runtime's memory is taken out of it.
//!
//! # Problem
//! From the moment at which all threads are native until the runtime is unmapped, the program runs and may map memory. Its limits must
//! allow for the runtime's until then, and be its own afterwards. Meanwhile it may set others.
//!
//! # Strategy
//! The runtime has written both: the limits that it has left in the kernel, and the program's own (its `base::limits`). When all threads are
//! stopped, what is still as it was left becomes the program's own. The process itself makes the calls: we may not be allowed to.
// Fields of structures in the target are addressed by their offsets.
#![allow(unsafe_code)]

use std::io;
use std::mem::offset_of;

use trommel_queue::{Control, LIMITS};

use crate::kernel::limits::Limit;
use crate::ptrace::tracee::Loan;

/// Makes the kernel's limits the program's own, where the program has set none since. `control`: address of the control words.
/// `scratch`: memory of ours in the process.
pub(super) fn give_back(loan: &Loan<'_>, control: u64, scratch: u64) -> io::Result<()> {
    let word = |at: u64| loan.tracees().word(control + at);
    let is_left = word(offset_of!(Control, attached.limits_are_left) as u64)? as u32;
    if is_left == 0 {
        return Ok(());
    }
    let own_at = offset_of!(Control, process.limits) as u64;
    let left_at = offset_of!(Control, attached.limits_left) as u64;
    for (place, resource) in LIMITS.into_iter().enumerate() {
        let limit = |at: u64| -> io::Result<Limit> {
            let at = at + (place * size_of::<Limit>()) as u64;
            Ok([word(at)?, word(at + 8)?])
        };
        let (left, own) = (limit(left_at)?, limit(own_at)?);
        let call = |new, old| {
            let args = [0, u64::from(resource), new, old, 0, 0];
            loan.call(libc::SYS_prlimit64, args)
        };
        call(0, scratch)?;
        let now = [
            loan.tracees().word(scratch)?,
            loan.tracees().word(scratch + 8)?,
        ];
        let wanted = merged(now, left, own);
        if wanted != now {
            let bytes = wanted.map(u64::to_le_bytes);
            loan.tracees().write(scratch, bytes.as_flattened())?;
            call(scratch, 0)?;
        }
    }
    Ok(())
}

/// The program's own limit: what it has changed since `left` stays as it is `now`.
fn merged(now: Limit, left: Limit, own: Limit) -> Limit {
    let [soft, hard] = [0, 1].map(|n| match now[n] == left[n] {
        true => own[n],
        false => now[n],
    });
    [soft.min(hard), hard]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_has_set_stays() {
        let (left, own) = ([110, 120], [10, 20]);
        for (now, its) in [
            (left, own),
            ([50, 120], [20, 20]),
            ([15, 120], [15, 20]),
            ([110, 115], [10, 115]),
            ([5, 5], [5, 5]),
        ] {
            assert_eq!(merged(now, left, own), its, "{now:?}");
        }
    }
}
