//! Accesses to memory recorded one by one, in windows or in all of a run.
//!
//! # Problem
//! What two accesses have to do with each other depends on their order, their addresses, and on what was executed
//! between them; all registers, flags and faults stay the app's.
//!
//! # Strategy
//! Each instruction is an item of the dictionary, with its bytes. Each of its accesses
//! ([`trommel_query::access`], by which the host reads the record) is an event whose value is the address, worked out
//! before the instruction by a `lea` into a register that it does not use. Windows leave out accesses through FS, transfers and repeated instructions;
//! elsewhere those have their addresses too, and a word with the number of repetitions. The base of FS is read by the instruction for it: where
//! the kernel does not allow that, accesses through FS are left out.
//!
//! # Why it is correct
//! None of `lea`, `mov` and `rdfsbase` touches flags or memory of the app's. When the instruction is executed all registers are the app's but for
//! those that its step says are not; so a fault finds what it does without this.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use trommel_query::access::{self, Access};
use trommel_queue::dict::{ARGUMENTS, Event, MAX_INSTRUCTION};
use trommel_tuple::Kind;

use super::{Needs, Way};
use crate::base::decode::Insn;
use crate::base::emit::{Code, Mem, Reg};
use crate::crossing::arch;
use crate::slot;
use crate::translate::operands::free_register;
use crate::translate::walk::At;
use crate::translate::{Site, Translator, target};

/// Words that an instruction records at most: two addresses, a latency or a number of repetitions, and a value; or two addresses, a
/// method table and a target.
pub(in crate::translate) const USUAL_WORDS: usize = access::MOST + 2;
/// Maximum number of words of an instruction, with arguments beside the method table and the target.
pub const MOST_WORDS: usize = ARGUMENTS + 2;
const _: () = assert!(USUAL_WORDS <= MOST_WORDS);

/// Records addresses, and lists instructions.
pub(in crate::translate) struct Addresses;

impl Way for Addresses {
    fn is_on(t: &Translator) -> bool {
        t.config.lists()
    }

    fn needs(t: &Translator, needs: &mut Needs) {
        needs.operands |= t.config.kinds.has(Kind::Address);
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        let insn = t.job.insns[n];
        let pc = target(insn.pc());
        let bytes = t.bytes_of(&insn);
        let mut all = [0; MAX_INSTRUCTION];
        all[..bytes.len()].copy_from_slice(bytes);
        site.shared.event(Event::Instruction {
            pc,
            len: bytes.len() as u8,
            bytes: all,
        });
        if !t.wants(Kind::Address) {
            return 0;
        }
        let decoded = Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode();
        let mut info = InstructionInfoFactory::new();
        let accesses = match t.config.windows {
            true => access::accesses(&mut info, &decoded),
            false => access::all(&mut info, &decoded, arch::has_base_instructions()),
        };
        for _ in 0..accesses.words() {
            let kind = Kind::Address;
            site.shared.event(Event::Dynamic { kind, pc });
        }
        t.job.accesses[n] = accesses;
        accesses.words()
    }

    fn heads(_: &Translator, _: usize) -> usize {
        1
    }

    const HAS_WORDS: bool = true;

    fn words(t: &Translator, _: &Insn, n: usize) -> usize {
        match t.job.stolen.is_some() && t.wants(Kind::Address) {
            true => t.job.accesses[n].words(),
            false => 0,
        }
    }

    fn before(t: &mut Translator, insn: &Insn, at: &mut At, slot: i32) {
        t.record_accesses(insn, at.n, slot);
    }

    fn before_transfer(t: &mut Translator, _: &mut Site<'_>, insn: &Insn, at: &mut At) {
        if t.wants(Kind::Address) && !t.config.windows {
            let words = t.record_accesses(insn, at.n, 4 + 8 * at.values as i32);
            at.events += words;
            at.values += words;
        }
    }
}

impl Translator {
    /// Writes the words of instruction `n` to the record, from `slot` on. Returns how many there are.
    fn record_accesses(&mut self, insn: &Insn, n: usize, slot: i32) -> usize {
        let accesses = self.job.accesses[n];
        let Some(p) = self.job.stolen.filter(|_| accesses.words() != 0) else {
            return 0;
        };
        let scratch = free_register(insn.used | p.bit());
        let c = &mut self.job.code;
        c.store_gs(slot!(spill_scratch), scratch);
        let mut slot = slot;
        for access in accesses.iter() {
            c.address(scratch, access);
            c.store(p, slot, scratch);
            slot += 8;
        }
        if accesses.is_repeated() {
            c.store(p, slot, Reg::RCX);
        }
        c.load_gs(scratch, slot!(spill_scratch));
        accesses.words()
    }
}

impl Code<'_> {
    /// The address of an access to `to`.
    fn address(&mut self, to: Reg, access: &Access) {
        if access.thread_local {
            return self.thread_local_address(to, access);
        }
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

    /// The same, through FS. The base is the app's, which may write it at any time.
    fn thread_local_address(&mut self, to: Reg, access: &Access) {
        let sum = |base, index, disp| Mem {
            base: Some(base),
            index,
            disp,
            fs: false,
            short: false,
        };
        self.read_fs_base(to);
        // It has 32 bits.
        let disp = access.displacement as i32;
        let index = access.index.map(|(r, scale)| (Reg(r), scale));
        self.lea_mem(to, &sum(to, index, disp));
        if let Some(base) = access.base {
            self.lea_mem(to, &sum(Reg(base), Some((to, 0)), 0));
        }
    }
}
