//! Accesses to memory recorded one by one, in windows.
//!
//! # Problem
//! What two accesses have to do with each other depends on their order, their addresses, and on what was executed
//! between them; all registers, flags and faults stay the app's.
//!
//! # Strategy
//! Each instruction is an item of the dictionary, with its bytes. Each of its accesses
//! ([`trommel_query::access`], by which the host reads the record) is an event whose value is the address, worked out
//! before the instruction by a `lea` into a register that it does not use.
//!
//! # Why it is correct
//! Neither `lea` nor `mov` touches flags or memory of the app's. When the instruction is executed all registers are the app's but for
//! those that its step says are not; so a fault finds what it does without this.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use trommel_query::access::{self, Access, Accesses};
use trommel_queue::dict::{ARGUMENTS, Event, MAX_INSTRUCTION};
use trommel_tuple::Kind;

use super::{Needs, Way};
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, Mem, Reg};
use crate::slot;
use crate::translate::operands::free_register;
use crate::translate::walk::At;
use crate::translate::{Site, Translator, target};

/// Words that an instruction records at most: two addresses, a latency and a value; or a method table and a target.
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
        let accesses = match insn.class {
            Class::Plain => access::accesses(&mut InstructionInfoFactory::new(), &decoded),
            _ => Accesses::default(),
        };
        for _ in accesses.iter() {
            let kind = Kind::Address;
            site.shared.event(Event::Dynamic { kind, pc });
        }
        t.job.accesses[n] = accesses;
        accesses.iter().count()
    }

    fn heads(_: &Translator) -> usize {
        1
    }

    const HAS_WORDS: bool = true;

    fn words(t: &Translator, _: &Insn, n: usize) -> usize {
        match t.job.stolen.is_some() && t.wants(Kind::Address) {
            true => t.job.accesses[n].count(),
            false => 0,
        }
    }

    fn before(t: &mut Translator, insn: &Insn, at: &mut At, slot: i32) {
        let Some(p) = t.job.stolen else {
            return;
        };
        let accesses = t.job.accesses[at.n];
        let scratch = free_register(insn.used | p.bit());
        let c = &mut t.job.code;
        c.store_gs(slot!(spill_scratch), scratch);
        for (k, access) in (0..).zip(accesses.iter()) {
            c.address(scratch, access);
            c.store(p, slot + 8 * k, scratch);
        }
        c.load_gs(scratch, slot!(spill_scratch));
    }
}

impl Code<'_> {
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
