//! Prefetches: the rounds of questions that find their places, and the places themselves.
//!
//! # Problem
//! A load that misses again and again by a regular distance could have been begun earlier. The processor's own prefetcher
//! does not see that where the distance is beyond a page. To find these loads, addresses are examined one after the other,
//! at a hundred times the cost of the load. So this must be rare. A program of which enough is known must not pay
//! for the questions.
//!
//! # Strategy
//! The question is a relational query on loads and stores ([`crate::observe::query`]), of which the host keeps the answers. It is put in
//! *rounds*. In a round code has the query's probes, and there are no traces. Each countdown that reaches its end begins a
//! *burst*: [`BURST`] executions are profiled one after the other, of all that is asked about. [`BURSTS`] are counted for the whole
//! process. After them, a thread that comes to a probe checks whether the host has answered, and goes on without waiting. When the
//! host has answered, all code is dropped. Code that is made from then on has no probes, but prefetches where the host's table says
//! so. Traces are made of what is hot.
//!
//! The first round begins where the first trace would: a program with nothing hot is not asked. The next is due twice as
//! long after it as it took, as far as that is its own doing (`SLOW`). Each round that finds nothing more to prefetch
//! doubles that, up to `LONGEST` times. A round that finds something halves it, to no less than `PAUSE` times. So rounds soon take a few percent of
//! the time and less. A program that turns to other work is asked again: when it enters the runtime, or when the host has sent it a signal.
//! The target reports to the host when a round is due. When the working set changes ([`crate::base::phase`]) the next round is due at once.
//!
//! A prefetch is the instruction's own operand with a displacement added, before it, at its boundary.
//!
//! # Why it is correct
//! * A prefetch changes no register, no flag and no memory, and never faults, whatever the address. It is part of the
//!   step of the instruction after it: a signal is delivered before both.
//! * The host's report is an address to compare with and a number to add. A sum that is no displacement is not used.
//! * The table is read while the host does not write it (`trommel_queue::prefetch`), under the runtime's lock.
//! * `Runtime::drop_all` drops code while threads execute it.
//!
//! **I12 (prefetches or probes).** Code has either prefetches and traces, or the probes that find where prefetches belong. A wrong number from the host is useless, and nothing worse.

use alloc::collections::BTreeMap;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use trommel_queue::prefetch::{
    BURST, BURSTS, EVERYWHERE, MAX_PLACES, MISSES, NOWHERE, Prefetch as Asked,
};

use crate::base::address::AppPc;
use crate::base::emit::{Mem, Reg};
use crate::base::knock;
use crate::channel::deliver::{HostGone, Queue, Writer};
use crate::channel::slot::Mapped;

/// Pauses between rounds, as multiples of a round's time: before the first round, at least if a round has found something,
/// and at most.
const FIRST: u64 = 1;
pub(crate) const PAUSE: u64 = 8;
pub(crate) const LONGEST: u64 = 128;
/// Cycles of a round that count at most: what it costs is bounded by what it sees, and in one that takes longer the
/// program waited for pages, or for a processor.
pub(crate) const SLOW: u64 = 1 << 27;

/// Prefetches in a fragment at most, so that its steps are within 64 KiB.
pub const MOST: usize = 256;

/// Stage of the rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// No code was hot so far.
    Cold,
    /// Code has probes since this time.
    Asking(u64),
    /// The next round begins at this time.
    Answered(u64),
}

/// A prefetch to put before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// Bytes past the address of the instruction's operand.
    by: i32,
    /// True if the line is going to be written.
    pub written: bool,
}

/// The prefetches of a process.
pub struct Prefetch {
    pub(crate) stage: Stage,
    pub(crate) ahead: BTreeMap<AppPc, Ahead>,
    pub(crate) everywhere: bool,
    /// Pause from the last round to the next, as a multiple of the last round's time.
    pub(crate) pause: u64,
}

impl Prefetch {
    /// Creates the prefetches, if the host wants them.
    pub fn of(mapped: Mapped) -> Option<Self> {
        let wanted = mapped.prefetch().wanted.load(Acquire);
        if wanted == MISSES {
            knock::await_knocks();
        }
        (wanted != NOWHERE).then(|| Self {
            stage: Stage::Cold,
            ahead: BTreeMap::new(),
            everywhere: wanted == EVERYWHERE,
            pause: FIRST,
        })
    }

    /// Returns true if code has probes.
    pub fn asks(&self) -> bool {
        matches!(self.stage, Stage::Asking(_))
    }

    /// Returns true if code has no probes, whatever is asked.
    pub fn hides_probes(&self) -> bool {
        !self.everywhere && !self.asks()
    }

    /// Returns true if no prefetch is put anywhere.
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty() && !self.everywhere
    }

    /// Returns the prefetch to put before the instruction at `pc`.
    pub fn ahead(&self, pc: AppPc) -> Option<Ahead> {
        match self.everywhere {
            true => Some(useless(pc)),
            false => self.ahead.get(&pc).copied(),
        }
    }

    /// Goes on in the process's own slot, where the host has reported nothing yet: a round in progress begins anew.
    pub fn in_new_slot(&self, mapped: Mapped) {
        mapped.prefetch().begun.store(self.asks().into(), Relaxed);
    }

    /// Reads the host's table. Returns true if it names a place that it did not name before.
    pub(crate) fn read(&mut self, asked: &Asked) -> bool {
        let before = core::mem::take(&mut self.ahead);
        let places = (asked.places.load(Relaxed) as usize).min(MAX_PLACES);
        for place in &asked.place[..places] {
            if let Ok(by) = i32::try_from(place.by.load(Relaxed)) {
                let written = place.written.load(Relaxed) != 0;
                let pc = AppPc(place.pc.load(Relaxed));
                self.ahead.insert(pc, Ahead { by, written });
            }
        }
        self.ahead.keys().any(|pc| !before.contains_key(pc))
    }
}

/// Returns a prefetch of an address of no use: near, on another page, or as far as a displacement goes, also
/// beyond what is mapped.
fn useless(pc: AppPc) -> Ahead {
    const BY: [i32; 8] = [64, -64, 4160, -4160, 1 << 30, -1 << 30, i32::MAX, i32::MIN];
    let n = (pc.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize;
    Ahead {
        by: BY[n & 7],
        written: n & 8 != 0,
    }
}

impl Ahead {
    /// The operand in memory of an instruction with the displacement added, if it has one that is an
    /// address then.
    pub fn of(self, code: &[u8], pc: AppPc) -> Option<Mem> {
        let insn = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
        let operand = operand(&insn)?;
        let disp = operand.disp.checked_add(self.by)?;
        Some(Mem { disp, ..operand })
    }
}

/// The operand in memory, where it is made of general registers.
fn operand(insn: &Instruction) -> Option<Mem> {
    let in_memory = (0..insn.op_count()).any(|n| insn.op_kind(n) == OpKind::Memory);
    if !in_memory || insn.is_vsib() || insn.memory_segment() == Register::GS {
        return None;
    }
    let register = |r: Register| r.is_gpr64().then(|| Reg(r.number() as u8));
    let base = match insn.memory_base() {
        Register::None => None,
        base => Some(register(base)?),
    };
    let index = match insn.memory_index() {
        Register::None => None,
        index => Some((
            register(index)?,
            insn.memory_index_scale().trailing_zeros() as u8,
        )),
    };
    let disp = i32::try_from(insn.memory_displacement64() as i64).ok()?;
    (base.is_some() || index.is_some()).then_some(Mem {
        base,
        index,
        disp,
        fs: insn.memory_segment() == Register::FS,
        short: false,
    })
}

/// Action of a thread that comes to a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// No action, up to the next countdown.
    Pass,
    /// The round may be over.
    Over,
    /// The thread sends what it sees, and again at the next execution.
    Send,
    /// The thread sends what it sees, the last of a burst, and waits for the next countdown. With `round`, the burst was
    /// the last of the round.
    Last {
        /// True if all is to be published, and then [`sent`] to be called.
        round: bool,
    },
}

/// The bursts of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bursts {
    /// Executions left of the burst in progress.
    left: u32,
}

impl Bursts {
    /// A countdown has come to its end.
    pub fn turn(&mut self, of: &Asked) -> Turn {
        if self.left == 0 {
            if of.bursts.load(Relaxed) >= BURSTS {
                let answered = of.answered.load(Acquire) == of.begun.load(Relaxed);
                return if answered { Turn::Over } else { Turn::Pass };
            }
            self.left = BURST;
        }
        self.left -= 1;
        if self.left != 0 {
            return Turn::Send;
        }
        // With several threads there may be more of them: the round is over once.
        let round = of.bursts.fetch_add(1, AcqRel) + 1 == BURSTS;
        Turn::Last { round }
    }

    /// Returns true if a burst goes on.
    pub fn go_on(&self) -> bool {
        self.left != 0
    }
}

/// Publishes what a thread has recorded, which ends the round.
pub fn sent(queue: &Queue, writer: &mut Writer) -> Result<(), HostGone> {
    queue.publish(writer)?;
    queue.mapped().prefetch().rounds.fetch_add(1, Release);
    queue.wake_host();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_so_many_bursts_and_is_over_when_it_is_answered() {
        let of = Asked::default();
        of.begun.store(1, Relaxed);
        let mut bursts = Bursts::default();
        for burst in 1..=BURSTS {
            for _ in 1..BURST {
                assert_eq!(bursts.turn(&of), Turn::Send);
                assert!(bursts.go_on());
            }
            let round = burst == BURSTS;
            assert_eq!(bursts.turn(&of), Turn::Last { round });
            assert!(!bursts.go_on());
        }
        assert_eq!(bursts.turn(&of), Turn::Pass);
        of.answered.store(1, Relaxed);
        assert_eq!(bursts.turn(&of), Turn::Over);
    }

    #[test]
    fn a_second_thread_ends_no_round_twice() {
        let of = Asked::default();
        of.begun.store(1, Relaxed);
        let mut threads = [Bursts::default(); 2];
        let turns = (0..2 * BURST * BURSTS).map(|n| threads[n as usize % 2].turn(&of));
        let ends = turns.filter(|turn| *turn == Turn::Last { round: true });
        assert_eq!(ends.count(), 1);
    }

    #[test]
    fn displacements_are_added_to_operands_of_general_registers() {
        let by = |code: &[u8], by| {
            Ahead { by, written: false }
                .of(code, AppPc(0x1000))
                .map(|m| (m.base.map(|r| r.0), m.index.map(|i| (i.0.0, i.1)), m.disp))
        };
        // mov rax, [rdi + rsi*8 + 16]
        let scaled = [0x48, 0x8b, 0x44, 0xf7, 0x10];
        assert_eq!(by(&scaled, 4096), Some((Some(7), Some((6, 3)), 4112)));
        assert_eq!(by(&scaled, i32::MAX), None);
        // movsd xmm0, [r13 - 8]
        let double = [0xf2, 0x41, 0x0f, 0x10, 0x45, 0xf8];
        assert_eq!(by(&double, -64), Some((Some(13), None, -72)));
        for other in [
            &[0x48, 0x8b, 0x05, 1, 0, 0, 0][..],   // mov rax, [rip + 1]
            &[0x48, 0x89, 0xc8],                   // mov rax, rcx
            &[0x67, 0x8b, 0x07],                   // mov eax, [edi]
            &[0xd7],                               // xlat
            &[0xa4],                               // movsb
            &[0x8b, 0x04, 0x25, 0, 0x10, 0, 0],    // mov eax, [0x1000]
            &[0x65, 0x8b, 0x07],                   // mov eax, gs:[rdi]
            &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x0f], // vpgatherdd ymm0, [rdi + ymm1], ymm2
        ] {
            assert_eq!(by(other, 64), None, "{other:x?}");
        }
    }
}
