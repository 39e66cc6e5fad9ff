//! Calling contexts: what exits do for them ([`crate::observe::contexts`]).
//!
//! ```text
//!   each exit    [instructions] += passed
//!   a change     [node].instructions += [instructions] + passed, and that is 0 again; then
//!   call         [last + 1] ← (rsp, node), last + 1; node ← its link for the site, else the table's ([`crate::observe::links`]), or cross over
//!   jump         the same without a frame, and no call is counted where it leads into the midst of a function; one that is indirect only where it leaves its function, with rsp that of the last frame
//!   return       rsp = [last].sp: node ← [last].node, last − 1; else cross over
//! ```
//!
//! All of it is written with `rcx` and `rdx` alone, and touches no flag: numbers and targets are compared by adding what was negated.
//! The way back from a crossing leads to the end of the code that it comes from.

use core::mem::offset_of;

use trommel_queue::contexts::{Link, Node};
use trommel_queue::thread_page::ThreadPage;

use super::values::Value;
use super::{Leaving, Needs, Way};
use crate::base::address::{AppPc, Range};
use crate::base::decode::Class;
use crate::base::emit::{Code, GsOffset, Mem, Reg, Rel32};
use crate::channel::dictionary::DictionaryFull;
use crate::observe::contexts::{Change, FRAME, Sort};
use crate::observe::links::Entry;
use crate::slot;
use crate::translate::{Refusal, Site, Translator};

/// Address of the current node.
const NODE: GsOffset = GsOffset(offset_of!(ThreadPage, node) as u32);
/// Instructions that it does not have yet.
const INSTRUCTIONS: GsOffset = GsOffset(offset_of!(ThreadPage, instructions) as u32);
/// A node's part of keys.
const KEY: i32 = offset_of!(Node, key) as i32;
const CALLS: i32 = offset_of!(Node, calls) as i32;
const OWN: i32 = offset_of!(Node, instructions) as i32;
const SP: i32 = 0;
const CALLER: i32 = 8;

/// Follows calling contexts.
pub(in crate::translate) struct CallingContexts;

impl Way for CallingContexts {
    fn is_on(t: &Translator) -> bool {
        t.counts_contexts()
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.each_exit = true;
    }

    fn begin(t: &mut Translator, site: &mut Site<'_>, app: AppPc) -> Result<(), Refusal> {
        t.job.function = t.function_of(site, app);
        Ok(())
    }

    /// A return finds its frame while the return address is on the stack.
    fn plan(
        t: &mut Translator,
        _: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        if exit
            .indirect
            .is_some_and(|insn| matches!(insn.class, Class::Ret(_)))
        {
            t.spill_rcx();
            t.spill_rdx();
            t.return_frame();
        }
        Ok(())
    }

    fn leave(
        t: &mut Translator,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        match exit.indirect.map(|insn| insn.class) {
            Some(Class::Ret(_)) => {}
            Some(class) => t.leave_indirectly(class, exit.needs_rcx),
            None if exit.call => t.job.code.add_through(Reg::RCX, t.job.passed),
            None => t.leave_directly(site, exit.to),
        }
        Ok(())
    }

    fn is_kept(_: &Translator) -> bool {
        false
    }
}

impl Translator {
    /// Returns whether calling contexts are counted now.
    pub(in crate::translate) fn counts_contexts(&self) -> bool {
        self.ways.contexts.is_some() && self.config.counters
    }

    /// The extent of a function, where jumps out of functions matter.
    fn function_of(&mut self, site: &Site<'_>, pc: AppPc) -> Option<Range> {
        let contexts = self.ways.contexts.as_mut()?;
        contexts.functions.of(site.regions, pc)
    }

    /// Returns whether the fragment being made ends before `pc`, as another function begins there.
    pub(in crate::translate) fn leaves_function(&mut self, site: &Site<'_>, pc: AppPc) -> bool {
        if !self.counts_contexts() {
            return false;
        }
        match self.job.function {
            Some(function) if function.holds(pc) => false,
            Some(_) => true,
            None => self.function_of(site, pc).is_some(),
        }
    }

    /// A change of context at the instruction at hand.
    fn change(&mut self, sort: Sort, to: AppPc) -> &'static Change {
        let at = self.job.here;
        let function = self.job.function.map_or(at, |f| AppPc(f.start));
        let contexts = self.ways.contexts.get_or_insert_default();
        contexts.change(sort, at, to, function)
    }

    /// An exit to a known address.
    fn leave_directly(&mut self, site: &mut Site<'_>, to: AppPc) {
        let passed = self.job.passed;
        let calls = self.job.class == Class::Call(to);
        if !calls && !self.leaves_function(site, to) {
            if self.all_flags_are_dead(site, &[], Some(to)) {
                return self.job.code.add_gs(INSTRUCTIONS, passed);
            }
            self.spill_rcx();
            return self.job.code.add_through(Reg::RCX, passed);
        }
        self.spill_rcx();
        self.spill_rdx();
        let change = match calls {
            true => self.change(Sort::Call, to),
            false => {
                let entry = self.function_of(site, to).map_or(to, |f| AppPc(f.start));
                let sort = if entry == to { Sort::Tail } else { Sort::Midst };
                self.change(sort, entry)
            }
        };
        self.job.code.flush(passed);
        if calls {
            self.job.code.push_frame();
        }
        let missed = self.job.code.matches(change);
        self.job.code.enter_link(change);
        self.look_up(change, &[missed], &[]);
        self.unspill_rdx();
    }

    /// An exit to an address known only when it runs, in `rcx` or `rdx`, of which the other is free.
    fn leave_indirectly(&mut self, class: Class, in_rdx: bool) {
        let passed = self.job.passed;
        let holder = if in_rdx { Reg::RDX } else { Reg::RCX };
        let call = class == Class::CallIndirect;
        let sort = if call {
            Sort::CallIndirect
        } else {
            Sort::TailIndirect
        };
        let change = self.change(sort, AppPc(0));
        let function = self.job.function.filter(|_| !call);
        let c = &mut self.job.code;
        c.store_gs(slot!(followed), holder);
        let stays = function.map(|function| {
            c.load_gs(Reg::RCX, slot!(followed));
            let out = c.is_within(function);
            c.add_through(Reg::RCX, passed);
            let stays = c.jmp();
            for from in out {
                let here = c.here();
                c.bind(from, here);
            }
            stays
        });
        c.flush(passed);
        let mut away = None;
        match call {
            true => c.push_frame(),
            false => away = Some(c.is_at_frame()),
        }
        let other = c.matches(change);
        c.load(
            Reg::RCX,
            Reg::RDX,
            link(change) + offset_of!(Link, target) as i32,
        );
        c.load_gs(Reg::RDX, slot!(followed));
        c.add_rdx_to_rcx();
        let elsewhere = c.unless_zero();
        c.load_gs(Reg::RDX, NODE);
        c.enter_link(change);
        self.look_up(change, &[other, elsewhere], away.as_slice());
        let c = &mut self.job.code;
        if let Some(stays) = stays {
            let here = c.here();
            c.bind(stays, here);
        }
        c.load_gs(holder, slot!(followed));
    }

    /// A return, with `rcx` and `rdx` free.
    fn return_frame(&mut self) {
        let change = self.change(Sort::Return, AppPc(0));
        let c = &mut self.job.code;
        c.flush(self.job.passed);
        let missed = c.is_at_frame();
        c.load_gs(Reg::RDX, slot!(frame));
        c.load(Reg::RCX, Reg::RDX, CALLER);
        c.store_gs(NODE, Reg::RCX);
        c.lea(Reg::RDX, Reg::RDX, -(FRAME as i32));
        c.store_gs(slot!(frame), Reg::RDX);
        self.lead_to_stub(missed);
        self.cross_over(change);
    }

    /// Writes what jumps lead to that find no link, which comes back here; those that are `away` cross over.
    fn look_up(&mut self, change: &'static Change, from: &[Rel32], away: &[Rel32]) {
        for from in from {
            self.lead_to_stub(*from);
        }
        let back = self.job.code.at(self.job.code.here());
        let s = &mut self.job.stubs;
        let others = s.find_entry(change);
        s.load(Reg::RDX, Reg::RDX, offset_of!(Entry, node) as i32);
        s.enter_node(change);
        let found = s.jmp();
        let distance = back.0.wrapping_sub(s.at(found.0).0 + 4);
        s.put_u32(found.0, distance as u32);
        for other in others.into_iter().flatten() {
            let here = s.here();
            s.bind(other, here);
        }
        for away in away {
            self.lead_to_stub(*away);
        }
        self.cross_over(change);
    }

    /// Writes a crossing to the runtime, which comes back here.
    fn cross_over(&mut self, change: &'static Change) {
        let back = self.job.code.at(self.job.code.here());
        let rel = self.job.stubs.lea_rcx_rip();
        self.job.stubs.jmp_gs(slot!(entry.context));
        let here = self.job.stubs.here();
        self.job.stubs.bind(rel, here);
        let after = back.0.wrapping_sub(self.job.stubs.at(here).0) as u32;
        self.job.stubs.u64(&raw const *change as u64);
        self.job.stubs.raw(&after.to_le_bytes());
    }
}

/// Offset in a node of what it remembers of a change.
fn link(change: &Change) -> i32 {
    (offset_of!(Node, links) + change.link() * size_of::<Link>()) as i32
}

/// The sum of two registers and a number.
fn sum(base: Reg, index: Reg, disp: i32) -> Mem {
    Mem {
        base: Some(base),
        index: Some((index, 0)),
        disp,
        fs: false,
        short: false,
    }
}

impl Code<'_> {
    /// `add qword gs:[slot], n`, which changes flags.
    fn add_gs(&mut self, slot: GsOffset, n: usize) {
        self.raw(&[0x65, 0x48, 0x83, 0x04, 0x25]);
        self.raw(&slot.0.to_le_bytes());
        self.raw(&[n as u8]);
    }

    /// Adds to the instructions, through a register.
    fn add_through(&mut self, scratch: Reg, n: usize) {
        self.load_gs(scratch, INSTRUCTIONS);
        self.lea(scratch, scratch, n as i32);
        self.store_gs(INSTRUCTIONS, scratch);
    }

    /// Gives the current node its instructions, and `n` more. `rdx` is its address afterwards.
    fn flush(&mut self, n: usize) {
        self.load_gs(Reg::RDX, NODE);
        self.load(Reg::RCX, Reg::RDX, OWN);
        self.load_gs(Reg::RDX, INSTRUCTIONS);
        self.lea_mem(Reg::RCX, &sum(Reg::RCX, Reg::RDX, n as i32));
        self.load_gs(Reg::RDX, NODE);
        self.store(Reg::RDX, OWN, Reg::RCX);
        // mov qword gs:[INSTRUCTIONS], 0
        self.raw(&[0x65, 0x48, 0xc7, 0x04, 0x25]);
        self.raw(&INSTRUCTIONS.0.to_le_bytes());
        self.raw(&[0; 4]);
    }

    /// Pushes the frame of a call whose return address was pushed, by the caller's node in `rdx`.
    fn push_frame(&mut self) {
        self.load_gs(Reg::RCX, slot!(frame));
        self.lea(Reg::RCX, Reg::RCX, FRAME as i32);
        self.store(Reg::RCX, SP, Reg::RSP);
        self.store(Reg::RCX, CALLER, Reg::RDX);
        self.store_gs(slot!(frame), Reg::RCX);
    }

    /// Goes on where `rcx` is 0; else the returned jump is taken.
    fn unless_zero(&mut self) -> Rel32 {
        let zero = self.jrcxz();
        let from = self.jmp();
        self.bind8_here(zero);
        from
    }

    /// Goes on where the node in `rdx` remembers a change.
    fn matches(&mut self, change: &Change) -> Rel32 {
        self.load(
            Reg::RCX,
            Reg::RDX,
            link(change) + offset_of!(Link, site) as i32,
        );
        self.lea(Reg::RCX, Reg::RCX, change.number as i32);
        self.unless_zero()
    }

    /// Goes on where the stack pointer is that of the last frame. `rdx` is the current node afterwards.
    fn is_at_frame(&mut self) -> Rel32 {
        self.load_gs(Reg::RDX, slot!(frame));
        self.load(Reg::RCX, Reg::RDX, SP);
        self.not_rcx();
        self.lea_mem(Reg::RCX, &sum(Reg::RSP, Reg::RCX, 1));
        self.load_gs(Reg::RDX, NODE);
        self.unless_zero()
    }

    /// Goes on with the address in `rdx` of the entry for a change of the current node, if there is one; else one of the returned
    /// jumps is taken.
    fn find_entry(&mut self, change: &Change) -> [Option<Rel32>; 2] {
        let number = change.number as i32;
        self.load_gs(Reg::RDX, NODE);
        self.load(Reg::RDX, Reg::RDX, KEY);
        self.lea(Reg::RDX, Reg::RDX, number);
        match change.sort.has_many_targets() {
            true => self.load_gs(Reg::RCX, slot!(followed)),
            // mov ecx, 0
            false => self.raw(&[0xb9, 0, 0, 0, 0]),
        }
        self.crc32(Reg::RCX, Value::Register(Reg::RDX));
        self.zero_extend(Reg::RCX);
        self.load_gs(Reg::RDX, slot!(links));
        for scale in [2, 3] {
            // Entries have 2⁵ bytes.
            let scaled = Mem {
                base: (scale == 3).then_some(Reg::RDX),
                index: Some((Reg::RCX, scale)),
                disp: 0,
                fs: false,
                short: false,
            };
            let to = if scale == 3 { Reg::RDX } else { Reg::RCX };
            self.lea_mem(to, &scaled);
        }
        self.store_gs(slot!(link), Reg::RDX);
        self.load(Reg::RCX, Reg::RDX, offset_of!(Entry, key) as i32);
        self.load_gs(Reg::RDX, NODE);
        self.load(Reg::RDX, Reg::RDX, KEY);
        self.lea_mem(Reg::RCX, &sum(Reg::RCX, Reg::RDX, number));
        let other = self.unless_zero();
        self.load_gs(Reg::RDX, slot!(link));
        if !change.sort.has_many_targets() {
            return [Some(other), None];
        }
        self.load(Reg::RCX, Reg::RDX, offset_of!(Entry, target) as i32);
        self.load_gs(Reg::RDX, slot!(followed));
        self.add_rdx_to_rcx();
        let elsewhere = self.unless_zero();
        self.load_gs(Reg::RDX, slot!(link));
        [Some(other), Some(elsewhere)]
    }

    /// Goes to what the node in `rdx` remembers, and counts a call.
    fn enter_link(&mut self, change: &Change) {
        self.load(
            Reg::RDX,
            Reg::RDX,
            link(change) + offset_of!(Link, node) as i32,
        );
        self.enter_node(change);
    }

    /// Goes to the node in `rdx`, and counts a call.
    fn enter_node(&mut self, change: &Change) {
        self.store_gs(NODE, Reg::RDX);
        if !change.sort.is_call() {
            return;
        }
        self.load(Reg::RCX, Reg::RDX, CALLS);
        self.lea(Reg::RCX, Reg::RCX, 1);
        self.store(Reg::RDX, CALLS, Reg::RCX);
    }

    /// Goes on where the address in `rcx` is in a function; else one of the returned jumps is taken. An address is below 2⁴⁸, so the highest byte
    /// of a difference tells its sign.
    fn is_within(&mut self, function: Range) -> [Rel32; 2] {
        let bytes = function.end - function.start;
        self.mov_imm64(Reg::RDX, function.start.wrapping_neg());
        self.add_rdx_to_rcx();
        self.mov(Reg::RDX, Reg::RCX);
        self.sign_of_rcx();
        let below = self.unless_zero();
        self.lea(Reg::RCX, Reg::RDX, -(bytes.min(1 << 30) as i32));
        self.not_rcx();
        self.sign_of_rcx();
        [below, self.unless_zero()]
    }

    /// `bswap rcx; movzx ecx, cl`
    fn sign_of_rcx(&mut self) {
        self.raw(&[0x48, 0x0f, 0xc9, 0x0f, 0xb6, 0xc9]);
    }

    /// `not rcx`, which touches no flag.
    fn not_rcx(&mut self) {
        self.raw(&[0x48, 0xf7, 0xd1]);
    }
}
