//! Ways out of a fragment: what is recorded there, and which registers are given back.

use trommel_queue::dict::{Event, Passed};
use trommel_tuple::Kind;

use super::persisted::{Field, Numbered};
use super::ways::Leaving;
use super::{Site, Translator};
use crate::base::address::AppPc;
use crate::base::area::{INDIRECT_TABLE, SYSCALL_TABLE, WRITE_POINTER};
use crate::base::decode::{Class, Insn, Rm};
use crate::base::emit::{Code, Reg};
use crate::base::ids::{EntryId, ExitNumber};
use crate::base::prefix::Key;
use crate::cache::{Exit, Spilled};
use crate::channel::dictionary::DictionaryFull;
use crate::observe::pairs::Branch;
use crate::slot;

impl Translator {
    /// The events of the block that were passed on the way being written, up to `events`.
    pub(super) fn passed_up_to(&self, events: usize) -> Passed {
        Passed {
            first: self.job.first as u16,
            end: events as u16,
        }
    }

    /// Counts or records the exit, gives all registers back, and goes to `to`.
    pub(super) fn leave(
        &mut self,
        site: &mut Site<'_>,
        to: AppPc,
        block: Option<EntryId>,
        events: usize,
        values: usize,
        tail: Option<Event>,
    ) -> Result<(), DictionaryFull> {
        self.unspill_rdx();
        let mut exit = Leaving {
            tail,
            values,
            ..Leaving::new(to, block, self.passed_up_to(events))
        };
        self.ways_plan(site, &mut exit)?;
        if !exit.recorded {
            self.give_back();
        }
        self.ways_leave(site, &mut exit)?;
        self.unspill_rcx();
        self.unspill_promoted();
        self.room_for_jump(5);
        self.job.code.patchable(1);
        let from = self.job.code.jmp();
        let stub = self.job.stubs.at(self.job.stubs.here());
        self.stub(site.cache, from, to);
        if let Some(full) = exit.full {
            self.full(full);
        }
        if let Some(spent) = exit.spent {
            // As if the exit were not linked.
            self.job.code.bind8_here(spent);
            self.job.code.load_gs(Reg::RCX, slot!(spill_rcx));
            let from = self.job.code.jmp();
            let rel = stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4;
            self.job.code.put_u32(from.0, rel as i32 as u32);
        }
        Ok(())
    }

    /// Appends a record with `rcx` as scratch, giving the stolen register back. `dynamic` is the
    /// register whose value belongs to the last event, if that is one. Returns the jump that is
    /// taken when the chunk is full and the place where it must come back to.
    pub(super) fn record(
        &mut self,
        path: ExitNumber,
        values: usize,
        dynamic: Option<Reg>,
    ) -> (crate::base::emit::Rel8, usize) {
        self.is_unfit();
        let c = &mut self.job.code;
        let length = 4 + 8 * values as i32;
        let p = self.job.stolen.unwrap_or(Reg::RCX);
        if self.job.stolen.is_none() {
            c.load_gs(Reg::RCX, WRITE_POINTER);
        }
        if let Some(value) = dynamic {
            c.store(p, length - 8, value);
        }
        c.store_imm32(p, 0, path.0);
        c.lea(Reg::RCX, p, length);
        c.store_gs(WRITE_POINTER, Reg::RCX);
        self.give_back();
        let c = &mut self.job.code;
        c.second_byte_of_rcx();
        let full = c.jrcxz();
        (full, c.here())
    }

    /// The far end of a record's full test.
    pub(super) fn full(&mut self, (full, back): (crate::base::emit::Rel8, usize)) {
        self.job.code.bind8_here(full);
        let rel = self.job.code.lea_rcx_rip();
        self.job.code.bind(rel, back);
        self.job.code.jmp_gs(slot!(entry.full));
    }

    /// Pushes the app's return address.
    pub(super) fn push_return(&mut self, next: AppPc) {
        match i32::try_from(next.0) {
            Ok(small) => {
                self.job.code.push_imm32(small);
                self.note(Field::Low, self.job.code.here() - 4);
            }
            Err(_) => {
                // One store of eight bytes, so that the return's load is forwarded.
                let rel = self.job.code.push_rip();
                self.job.constants.push((rel, next.0));
            }
        }
    }

    /// `jmp`, `call` or `ret` to an address known only when it runs. Says what is in slots if it
    /// faults.
    pub(super) fn indirect(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        block: Option<EntryId>,
        events: usize,
        values: usize,
    ) -> Result<Spilled, DictionaryFull> {
        let (mut exit, key) = self.indirect_exit(site, insn, block, (events, values))?;
        self.ways_plan(site, &mut exit)?;
        // With something to record, rcx holds the write pointer and the target waits in rdx.
        self.spill_rcx();
        let holder = match exit.needs_rcx {
            true => {
                self.spill_rdx();
                Reg::RDX
            }
            false => Reg::RCX,
        };
        let at_fault = self.job.spilled;
        self.target_to(insn, holder);
        if !exit.recorded {
            self.give_back();
            self.spill_rdx();
            self.ways_table(site, insn)?;
        }
        self.ways_leave(site, &mut exit)?;
        if holder == Reg::RDX {
            self.job.code.mov(Reg::RCX, Reg::RDX);
        }
        if let Some(at) = self.job.code.index_to_rdx(key) {
            self.note(Field::Key, at);
        }
        if self.job.from.recorded {
            let number = self.recorded_exit(site.cache, exit.number);
            self.job.code.store_gs_imm32(slot!(exit), number.0);
            self.job.code.jmp_gs(slot!(entry.absent));
        } else {
            self.room_for_jump(9);
            self.job.code.jmp_gs_rdx8(INDIRECT_TABLE);
        }
        if let Some(full) = exit.full {
            self.full(full);
        }
        if let Some(spent) = exit.spent {
            self.job.code.bind8_here(spent);
            self.job.code.mov(Reg::RCX, Reg::RDX);
            self.job.code.jmp_gs(slot!(entry.absent));
        }
        Ok(at_fault)
    }

    /// The exit by an indirect branch, and its key, if it is counted by one.
    fn indirect_exit(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        block: Option<EntryId>,
        (events, values): (usize, usize),
    ) -> Result<(Leaving, Key), DictionaryFull> {
        // Those before it are counted already where they are counted one by one.
        let mut events = match self.needs.each_event {
            true => self.job.first,
            false => events,
        };
        let mut key = Key::NONE;
        let mut is_event = match insn.class {
            Class::JmpIndirect => self.wants(Kind::Edge),
            Class::CallIndirect => self.wants(Kind::Call),
            _ => false,
        };
        if is_event && self.job.pairs {
            key = self.key(site, insn, block, events)?;
            // The path that is counted is the pair's.
            events = self.job.first;
            is_event = false;
        }
        let passed = self.passed_up_to(events + usize::from(is_event));
        let block = match block {
            None if !passed.is_empty() => Some(site.shared.empty_block()?),
            block => block,
        };
        let exit = Leaving {
            values: values + usize::from(is_event),
            indirect: Some(*insn),
            dynamic: is_event.then_some(Reg::RDX),
            scratch: Some(Reg::RDX),
            ..Leaving::new(insn.pc(), block, passed)
        };
        Ok((exit, key))
    }

    /// Loads the target of an indirect branch, and pushes what a call does.
    pub(super) fn target_to(&mut self, insn: &Insn, holder: Reg) {
        match insn.class {
            Class::Ret(release) => {
                self.job.code.pop(holder);
                if release != 0 {
                    let release = i32::from(release);
                    self.job.code.lea(Reg::RSP, Reg::RSP, release);
                }
            }
            _ => self.load_target(insn, holder),
        }
        if insn.class == Class::CallIndirect {
            self.push_return(insn.next());
        }
    }

    /// A system call: in place, unless the runtime must see it.
    pub(super) fn syscall(
        &mut self,
        site: &mut Site<'_>,
        next: AppPc,
        block: Option<EntryId>,
        events: usize,
        values: usize,
    ) -> Result<(), DictionaryFull> {
        // The call overwrites rcx.
        let mut exit = Leaving {
            values,
            call: true,
            scratch: Some(Reg::RCX),
            ..Leaving::new(next, block, self.passed_up_to(events))
        };
        self.ways_plan(site, &mut exit)?;
        if !exit.recorded {
            self.give_back();
        }
        self.ways_leave(site, &mut exit)?;
        self.job.code.low16_of_rax_to_rcx();
        self.job.code.load_byte_gs_rcx(SYSCALL_TABLE);
        let in_place = self.job.code.jrcxz();
        // Where the app goes on, whether the runtime makes the call or it is made in place.
        let number = site.cache.new_exit(Exit {
            prefix: self.job.onward,
            next_link: self.next_link(),
            ..Exit::fixed(next)
        });
        self.job.code.store_gs_imm32(slot!(exit), number.0);
        self.note(Field::Exit, self.job.code.here() - 4);
        self.job.code.jmp_gs(slot!(entry.syscall));
        if let Some(full) = exit.full {
            self.full(full);
        }
        self.job.code.bind8_here(in_place);
        let at = self.job.code.at(self.job.code.here());
        site.cache.call_is_at(number, at);
        self.job.code.raw(&[0x0f, 0x05]);
        // A sample that the kernel has put off for the time of the call is taken here.
        let after = self.job.code.here();
        self.ways_called();
        self.job.code.mov_imm(Reg::RCX, next.0);
        self.is_work(after);
        self.note_immediate(next);
        self.job.code.patchable(1);
        let from = self.job.code.jmp();
        self.stub(site.cache, from, next);
        Ok(())
    }

    /// The key of an indirect branch that is counted, after `events` of the block.
    pub(super) fn key(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        block: Option<EntryId>,
        events: usize,
    ) -> Result<Key, DictionaryFull> {
        let block = match block {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        let branch = Branch {
            block: (block, self.passed_up_to(events)),
            pc: insn.pc(),
            call: insn.class == Class::CallIndirect,
            variant: site.cache.variant(),
        };
        self.note_branch(branch);
        Ok(site.pairs.key(branch))
    }

    /// Numbers a path of the fragment being made.
    pub(super) fn path_of(
        &mut self,
        site: &mut Site<'_>,
        block: EntryId,
        passed: Passed,
        tail: Option<Event>,
    ) -> Result<ExitNumber, DictionaryFull> {
        let number = site.shared.path(block, passed, tail)?;
        self.note_path(Numbered {
            number,
            block,
            passed,
            tail,
            message: false,
        });
        Ok(number)
    }

    /// `mov holder, [operand]` for the operand of an indirect jump or call.
    pub(super) fn load_target(&mut self, insn: &Insn, holder: Reg) {
        match insn.rm {
            Rm::Register(from) if from != holder => self.job.code.mov(holder, from),
            Rm::Memory(operand) => self.load_operand(&operand, holder, 8),
            _ => {}
        }
    }
}

impl Code<'_> {
    /// Loads into `rdx` the table index of an indirect branch with this key to the target in `rcx`. Returns the
    /// position of the key's offset.
    pub(super) fn index_to_rdx(&mut self, key: Key) -> Option<usize> {
        if key == Key::NONE {
            self.low16_of_rcx_to_rdx();
            return None;
        }
        self.rcx_and_offset_to_edx(key.offset().into());
        let at = self.here() - 4;
        self.low16_of_rdx();
        Some(at)
    }
}

/// Checks the tag like `tag_check`, for the code of a pair.
pub fn pair_check(code: &mut Code, app: AppPc, key: Key) {
    code.mov_imm64(Reg::RDX, app.0.wrapping_neg());
    code.add_rdx_to_rcx();
    let right = code.jrcxz();
    code.store_gs_imm32(slot!(key), key.offset().into());
    code.jmp_gs(slot!(entry.pair_mismatch));
    code.bind8_here(right);
}
