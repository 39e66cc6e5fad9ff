//! Exact counts of values and types in generated code.
//!
//! # Problem
//! Exact counts of values have a table of all pairs of a place and a value behind them, larger than any cache, which the
//! service thread keeps. To send it a record for each event costs more than all else. But most events repeat a pair that was met
//! just before.
//!
//! # Strategy
//! Each thread has a table of *tallies* in its bank, direct-mapped: a value, the path that is a message about its event, and
//! how often it was seen. Behind a load:
//!
//! ```text
//!   mov    s, start                    made of the path
//!   crc32  s, loaded
//!   and    s, mask
//!   cmp    gs:[s + value], loaded
//!   jne    other                       out of line
//!   cmp    dword gs:[s + path], path
//!   jne    other
//!   inc    dword gs:[s + count]
//!   js     full
//! ```
//!
//! Another value takes the tally's place (`arch/message.rs`): what was there becomes a record of path, value and count among the
//! others. At the end the host reads what is left. Registers and flags are had as for a sampler ([`super::values`]).
//!
//! *Whether that pays* depends on the program. An event that is met in its tally costs far less than one that is recorded,
//! and one that is not costs more; how much more depends on the caches, and on how far the host is behind. So it is measured
//! ([`Tallying`]): a process starts with records, as short ones do best; tallies are tried when there were many, then, unless there are
//! many events to each record, records again, and what took less time for an event, waits for the host included, is done
//! for a while. The longer it has been going, the seldomer it is tried anew.
//!
//! # Why it is correct
//! * Every event is in one count: that of its tally, or of a record that was one. A count of 2³¹ is taken back, recorded, and
//!   begun again.
//! * A pair that an empty tally happens to hold is counted in it from 0 on.
//! * A tally becomes a record before it is emptied; the host knows one that is both (`host/src/fold/banks.rs`).

use core::mem::offset_of;

use trommel_queue::dict::Event;
use trommel_queue::{CHUNK, TALLIES, Tally};

use super::probes::NOT_ZERO;
use super::values::Value;
use super::{Site, Translator};
use crate::counters;
use crate::deliver::DictionaryFull;
use crate::emit::{Code, GsOffset, Reg};
use crate::slot;

/// The condition that a number is negative.
const NEGATIVE: u8 = 8;

/// Whether values are tallied, and what that depends on.
#[derive(Debug, Default)]
pub(super) struct Tallying {
    on: bool,
    /// It is never given up.
    always: bool,
    /// Chunks that were filled since it was decided last.
    filled: u64,
    /// How many of them it is decided for; 0: none was yet.
    stretch: u64,
    /// The last decision was one between two costs that are known.
    decided: bool,
    /// How many were.
    decisions: u32,
    /// Nanoseconds that the last chunks of the stretch took, and events in them.
    spent: (u64, u64),
    /// What an event costs when it is recorded and when it is tallied, in picoseconds, as far as known.
    costs: [Option<u64>; 2],
}

impl Tallying {
    /// Chunks of records before tallies are tried.
    const MANY: u64 = 256;
    /// Chunks by which the cost of an event is found out, longer than the host can be behind.
    const TRIAL: u64 = 256;
    /// The last ones of a stretch, which are measured.
    const MEASURED: u64 = 128;
    /// Chunks that the first decision holds for; the second for twice as many, and so on.
    const HOLDS: u64 = 1024;
    const MOST_DOUBLED: u32 = 10;
    /// Tallies that are records in a chunk.
    const TALLIED: u64 = (CHUNK / size_of::<Tally>()) as u64;
    /// Values in a chunk of paths with one or two each.
    const RECORDED: u64 = 6000;
    /// As many events to a record need no comparison.
    const CLEAR: u64 = 16;

    /// From the first value on.
    pub(super) fn always() -> Self {
        Self {
            on: true,
            always: true,
            ..Self::default()
        }
    }

    /// Whether values are tallied now.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// A thread took `nanos` to fill a chunk, and tallies of `evicted` events became records in it. True when values are counted
    /// in the other way from now on.
    pub(super) fn chunk_filled(&mut self, evicted: u64, nanos: u64) -> bool {
        let stretch = if self.stretch == 0 {
            Self::MANY
        } else {
            self.stretch
        };
        self.filled += 1;
        if self.filled + Self::MEASURED > stretch {
            self.spent.0 += nanos;
            self.spent.1 += if self.on { evicted } else { Self::RECORDED };
        }
        if self.filled < stretch || self.always {
            return false;
        }
        self.filled = 0;
        let (nanos, events) = core::mem::take(&mut self.spent);
        if self.stretch == 0 {
            self.stretch = Self::TRIAL;
            self.on = true;
            return true;
        }
        let cost = nanos.saturating_mul(1000) / events.max(1);
        let [other, this] = [!self.on, self.on].map(usize::from);
        self.costs[this] = Some(cost);
        if self.on && events >= Self::CLEAR * Self::TALLIED * Self::MEASURED {
            self.stretch = Self::HOLDS;
            return false;
        }
        // Recording does not tell whether tallies would pay again.
        if self.decided && !self.on {
            self.costs[other] = None;
        }
        let change = match self.costs[other] {
            None => {
                self.decided = false;
                self.stretch = Self::TRIAL;
                true
            }
            Some(known) => {
                self.decided = true;
                self.stretch = Self::HOLDS << self.decisions.min(Self::MOST_DOUBLED);
                self.decisions += 1;
                known < cost
            }
        };
        self.on ^= change;
        change
    }
}

impl Translator {
    /// Adds one to the tally of an event with its value. `scratch`: a register for its index that is not the app's now. `live`: flags are
    /// looked at afterwards, and are not parked. `holds`: `rcx` is not the app's, and needed afterwards.
    pub(super) fn tally(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        value: Value,
        scratch: Option<Reg>,
        live: bool,
        holds: bool,
    ) -> Result<(), DictionaryFull> {
        const MASK: u32 = (TALLIES as u32 - 1) * size_of::<Tally>() as u32;
        let path = self.message_path(site, event)?;
        let s = match scratch {
            Some(s) => s,
            None if value == Value::Register(Reg::RCX) => {
                self.spill_rdx();
                Reg::RDX
            }
            None => {
                self.spill_rcx();
                Reg::RCX
            }
        };
        let mut value = value;
        if live {
            self.park();
        }
        if self.spilled.flags && value == Value::Register(Reg::RAX) {
            value = Value::Slot(slot!(spill_flags));
        }
        self.code.mov_imm(s, path.wrapping_mul(0x9e37_79b1).into());
        self.code.crc32(s, value);
        self.code.mask(s, MASK);
        let mut misses = [None; 2];
        match value {
            Value::Register(r) => self.code.compare_tally(s, r),
            Value::Slot(slot) => {
                self.code.store_gs(slot!(value_counter), s);
                self.code.load_tally(s);
                self.code.compare_gs(s, slot);
            }
        }
        misses[0] = Some(self.code.jcc(NOT_ZERO));
        if let Value::Slot(_) = value {
            self.code.load_gs(s, slot!(value_counter));
        }
        self.code.compare_tally_path(s, path);
        misses[1] = Some(self.code.jcc(NOT_ZERO));
        self.code.step_tally(s, true);
        let full = self.code.jcc(NEGATIVE);
        let back = self.code.at(self.code.here());
        // One that is full was counted already: that is taken back, and counted in the next.
        self.lead_to_stub(full);
        self.stubs.step_tally(s, false);
        for miss in misses.into_iter().flatten() {
            self.lead_to_stub(miss);
        }
        if let Value::Register(_) = value {
            self.stubs.store_gs(slot!(value_counter), s);
        }
        self.go_with_value(value, holds);
        let rel = self.stubs.lea_rcx_rip();
        self.stubs.jmp_gs(slot!(entry.tally));
        self.come_back(rel, path, back, holds);
        Ok(())
    }
}

impl Code<'_> {
    /// An instruction on a field of the tally whose bytes are `index` into the table.
    fn on_tally(&mut self, wide: bool, opcode: u8, reg: u8, index: Reg, field: usize) {
        let rex = 0x40 | u8::from(wide) << 3 | reg >> 3 << 2 | index.0 >> 3 << 1;
        let GsOffset(first) = counters::TALLIES;
        self.raw(&[
            0x65,
            rex,
            opcode,
            (reg & 7) << 3 | 4,
            (index.0 & 7) << 3 | 5,
        ]);
        self.raw(&(first + field as u32).to_le_bytes());
    }

    /// `cmp gs:[index + value], r`
    fn compare_tally(&mut self, index: Reg, r: Reg) {
        self.on_tally(true, 0x39, r.0, index, offset_of!(Tally, value));
    }

    /// `mov r, gs:[r + value]`
    fn load_tally(&mut self, r: Reg) {
        self.on_tally(true, 0x8b, r.0, r, offset_of!(Tally, value));
    }

    /// `cmp dword gs:[index + path], path`
    fn compare_tally_path(&mut self, index: Reg, path: u32) {
        self.on_tally(false, 0x81, 7, index, offset_of!(Tally, path));
        self.raw(&path.to_le_bytes());
    }

    /// `inc dword gs:[index + count]`, or `dec`
    fn step_tally(&mut self, index: Reg, up: bool) {
        let down = u8::from(!up);
        self.on_tally(false, 0xff, down, index, offset_of!(Tally, count));
    }

    /// `cmp r, gs:[slot]`
    fn compare_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x48 | r.0 >> 3 << 2, 0x3b, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of many chunks the last, and how often what was translated was dropped: with `recorded` and `tallied` nanoseconds for an event, and
    /// as many events to a record of a tally.
    fn run(recorded: u64, tallied: u64, events: u64) -> (bool, usize) {
        let mut tallying = Tallying::default();
        let changes = (0..1 << 14).filter(|_| match tallying.is_on() {
            true => {
                let evicted = events * Tallying::TALLIED;
                tallying.chunk_filled(evicted, evicted * tallied)
            }
            false => tallying.chunk_filled(0, Tallying::RECORDED * recorded),
        });
        let changes = changes.count();
        (tallying.is_on(), changes)
    }

    #[test]
    fn what_takes_less_time_is_done() {
        let (on, changes) = run(20, 10, 4);
        assert!(on && changes == 3, "{changes}");
        let (on, changes) = run(10, 20, 4);
        assert!(!on && changes < 10, "{changes}");
    }

    #[test]
    fn many_events_to_a_record_need_no_comparison() {
        assert_eq!(run(10, 20, 2 * Tallying::CLEAR), (true, 1));
    }

    #[test]
    fn short_programs_record() {
        let mut tallying = Tallying::default();
        assert!((1..Tallying::MANY).all(|_| !tallying.chunk_filled(0, 1)));
        assert!(!tallying.is_on() && Tallying::always().is_on());
    }
}
