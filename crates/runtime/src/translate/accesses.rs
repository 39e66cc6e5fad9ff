//! Accesses to memory recorded one by one, and how long loads take, in windows.
//!
//! # Problem
//! What two accesses have to do with each other depends on their order, their addresses, and on what was executed
//! between them. And how long a load takes must be told apart from what is around it, on processors that
//! execute what they can as soon as they can; all registers, flags and faults stay the app's.
//!
//! # Strategy
//! *Addresses* ([`Kind::Address`]). Each instruction is an item of the dictionary, with its bytes; each of its accesses
//! ([`trommel_query::access`], by which the host reads the record) an event whose value is the address, worked out
//! before the instruction by a `lea` into a register that it does not use.
//!
//! *Latencies* ([`Kind::Latency`]). Around each load:
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

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use trommel_query::access::{self, Access, Accesses};
use trommel_queue::dict::{ARGUMENTS, Event, MAX_INSTRUCTION};
use trommel_tuple::Kind;

use super::operands::free_register;
use super::{Config, Translator, arguments, target};
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, Mem, Reg};
use crate::channel::deliver::Shared;
use crate::slot;

/// Words that an instruction records at most: two addresses, a latency and a value; or a method table and a target.
const USUAL_WORDS: usize = access::MOST + 2;
/// As many where arguments are recorded beside the method table and the target.
pub const MOST_WORDS: usize = ARGUMENTS + 2;
const _: () = assert!(USUAL_WORDS <= MOST_WORDS);

impl Config {
    /// Words that an instruction records at most.
    pub(super) fn most_words(&self) -> usize {
        match self.wants_arguments() {
            true => MOST_WORDS,
            false => USUAL_WORDS,
        }
    }

    /// Registers that cannot hold the write pointer.
    pub(super) fn kept(&self, counted: bool) -> u16 {
        let timed = match counted || self.kinds.has(Kind::Latency) {
            true => Reg::RAX.bit(),
            false => 0,
        };
        match self.wants_arguments() {
            true => timed | arguments::KEPT,
            false => timed,
        }
    }
}

impl Translator {
    /// First pass: what the instruction of this number accesses, listed in the block that is open. How many words it records.
    pub(super) fn list_accesses(&mut self, n: usize, to: &mut Shared) -> usize {
        let insn = self.job.insns[n];
        let pc = target(insn.pc());
        let mut words = 0;
        if self.config.lists() {
            let bytes = self.bytes_of(&insn);
            let mut all = [0; MAX_INSTRUCTION];
            all[..bytes.len()].copy_from_slice(bytes);
            to.event(Event::Instruction {
                pc,
                len: bytes.len() as u8,
                bytes: all,
            });
        }
        if self.wants(Kind::Address) {
            let bytes = self.bytes_of(&insn);
            let decoded = Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode();
            let accesses = match insn.class {
                Class::Plain => access::accesses(&mut InstructionInfoFactory::new(), &decoded),
                _ => Accesses::default(),
            };
            for _ in accesses.iter() {
                let kind = Kind::Address;
                to.event(Event::Dynamic { kind, pc });
                words += 1;
            }
            self.job.accesses[n] = accesses;
        }
        if self.is_timed(&insn) {
            let kind = Kind::Latency;
            to.event(Event::Dynamic { kind, pc });
            words += 1;
        }
        words
    }

    /// Whether it is looked at how long an instruction takes.
    pub(super) fn is_timed(&self, insn: &Insn) -> bool {
        insn.class == Class::Plain && insn.load.is_some() && self.wants(Kind::Latency)
    }

    /// Second pass, before an instruction: its addresses go to the record, from `slot` on. How many there are.
    pub(super) fn record_addresses(&mut self, n: usize, insn: &Insn, slot: i32) -> usize {
        let Some(p) = self.job.stolen.filter(|_| self.wants(Kind::Address)) else {
            return 0;
        };
        let accesses = self.job.accesses[n];
        if accesses.count() == 0 {
            return 0;
        }
        let scratch = free_register(insn.used | p.bit());
        self.job.code.store_gs(slot!(spill_scratch), scratch);
        for (k, access) in (0..).zip(accesses.iter()) {
            self.job.code.address(scratch, access);
            self.job.code.store(p, slot + 8 * k, scratch);
        }
        self.job.code.load_gs(scratch, slot!(spill_scratch));
        accesses.count()
    }

    /// Before a load of so many bytes whose time is taken.
    pub(super) fn time_begins(&mut self, len: usize, slot: i32) {
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

    /// After it.
    pub(super) fn time_ends(&mut self, slot: i32) {
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

    /// The address of an access to `to`.
    fn address(&mut self, to: Reg, access: &Access) {
        let based = access.base.is_some() || access.index.is_some();
        let disp = i32::try_from(access.displacement as i64);
        let (true, Ok(disp)) = (based, disp) else {
            // Of this instruction, or absolute: nothing has to be added.
            return self.mov_imm(to, access.displacement);
        };
        let mem = Mem {
            base: access.base.map(Reg),
            index: access.index.map(|(r, scale)| (Reg(r), scale)),
            disp,
            fs: false,
            short: access.short,
        };
        self.lea_mem(to, &mem);
    }
}
