//! The time that loads take, in windows.
//!
//! # Problem
//! The time that a load takes must be told apart from what is around it, on processors that
//! execute what they can as soon as they can; all registers, flags and faults stay the app's.
//!
//! # Strategy
//! Around each load:
//!
//! ```text
//!   rax, rdx → slots
//!   lfence                    everything before is done: the load's address is there
//!   rdtsc; eax → record
//!   slots → rax, rdx
//!   lfence                    the time was taken before the load begins
//!   the load
//!   lfence                    the load is done
//!   rax, rdx → slots
//!   rdtsc; eax → record + 4
//!   slots → rax, rdx
//! ```
//!
//! From one `rdtsc` to the other the code is in one line where it fits: what of it is not in the instruction cache is
//! waited for before. The host subtracts what this takes without a load, measured by the same instructions when the window begins ([`crate::crossing::arch::own_cycles`]). 32 bits
//! of each stamp are enough for any load that is not interrupted.
//!
//! # Why it is correct
//! * Neither `lea`, `mov`, `lfence` nor `rdtsc` touches flags or memory of the app's.
//! * When the load is executed all registers are the app's but for those that its step says are not; so a
//!   fault finds what it does without this. The register with the write pointer is not `rax` where loads are timed.
//! * In a window asynchronous signals are blocked, so `rax` and `rdx` are seen by nobody while they are in slots.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::{Needs, Way};
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, Reg};
use crate::channel::dictionary::DictionaryFull;
use crate::slot;
use crate::translate::walk::{At, Walk};
use crate::translate::{Site, Translator, target};

/// Records the time that loads take.
pub(in crate::translate) struct Latency;

impl Way for Latency {
    fn is_on(t: &Translator) -> bool {
        t.config.kinds.has(Kind::Latency)
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.operands = true;
        needs.loads = true;
        needs.kept |= Reg::RAX.bit();
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        let insn = t.job.insns[n];
        let timed = t.is_timed(&insn);
        if timed {
            let (kind, pc) = (Kind::Latency, target(insn.pc()));
            site.shared.event(Event::Dynamic { kind, pc });
        }
        usize::from(timed)
    }

    const HAS_WORDS: bool = true;

    fn words(t: &Translator, insn: &Insn, _: usize) -> usize {
        usize::from(t.is_timed(insn))
    }

    fn right_before(t: &mut Translator, insn: &Insn, slot: i32) {
        t.time_begins(insn.size(), slot);
    }

    fn after(
        t: &mut Translator,
        _: &mut Site<'_>,
        _: &Walk,
        _: &mut At,
        slot: i32,
    ) -> Result<(), DictionaryFull> {
        t.time_ends(slot);
        Ok(())
    }
}

impl Translator {
    /// Returns true if the latency of an instruction is recorded.
    fn is_timed(&self, insn: &Insn) -> bool {
        insn.class == Class::Plain && insn.load.is_some() && self.wants(Kind::Latency)
    }

    /// Starts the time of a load of `len` bytes.
    fn time_begins(&mut self, len: usize, slot: i32) {
        /// Bytes of code from one reading to the other, but for the load.
        const AROUND: usize = 53;
        let Some(p) = self.job.stolen else {
            return;
        };
        self.job.code.store_gs(slot!(spill_scratch), Reg::RAX);
        self.job.code.store_gs(slot!(value), Reg::RDX);
        self.job.code.load_fence();
        self.job.code.keep_in_line(AROUND + len);
        let from = self.job.code.here();
        self.job.code.stamp(p, slot);
        self.job.code.load_fence();
        debug_assert!(self.job.code.here() - from + 23 <= AROUND);
    }

    /// Ends the time after the load.
    fn time_ends(&mut self, slot: i32) {
        let Some(p) = self.job.stolen else {
            return;
        };
        self.job.code.load_fence();
        self.job.code.store_gs(slot!(spill_scratch), Reg::RAX);
        self.job.code.store_gs(slot!(value), Reg::RDX);
        self.job.code.stamp(p, slot + 4);
    }
}

impl Code<'_> {
    /// `lfence`
    fn load_fence(&mut self) {
        self.raw(&[0x0f, 0xae, 0xe8]);
    }

    /// The time stamp counter's low half to `[p + disp]`; `rax` and `rdx` come back from their slots.
    fn stamp(&mut self, p: Reg, disp: i32) {
        self.raw(&[0x0f, 0x31]);
        self.store_32(p, disp, Reg::RAX);
        self.load_gs(Reg::RAX, slot!(spill_scratch));
        self.load_gs(Reg::RDX, slot!(value));
    }
}
