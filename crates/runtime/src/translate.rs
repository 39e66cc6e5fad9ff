//! Fragments from app code.
//!
//! # Problem
//! A fragment must do exactly what its app code does, with every register, flag and byte of memory
//! the app's at each instruction boundary, while control stays in the cache; and it must be made
//! quickly, since most code that ever runs, runs once.
//!
//! # Strategy
//! A fragment is a *superblock*: it starts at one app address, goes on past branches that are not
//! taken and through direct jumps, and ends at a call, a return, an indirect jump, a system call,
//! at code that has a fragment already, or at [`MAX_INSNS`]. The first pass decodes; the second
//! copies, rewriting only displacements, so most instructions keep their bytes.
//!
//! ```text
//!   entry           direct links come in here
//!   checked entry   tag check for indirect branches (see below)
//!   steal           with a stolen register: spill it, load the write pointer
//!   steps           one for each app instruction, probes in front or behind
//!   tails           taken branches that have something to record on their way out
//! ```
//!
//! *Direct exits* jump to a stub at first; the dispatcher links them.
//!
//! *Indirect branches* jump through the table in the thread area, indexed by the low 16 bits of
//! the app address. Table entries lead to a fragment's checked entry, which compares the whole
//! address with its own, in `rcx`, with no flag touched. The app's `rcx` and `rdx` are in their
//! slots then. A fragment made for an indirect branch loads each only in front of the first
//! instruction that uses it, and need not store it again for an indirect branch of its own: a
//! register that is not used on the way stays out of the way. Its direct entry spills both.
//!
//! *Calls* push the app's own return address; returns are indirect branches.
//!
//! *Events*: what is known now goes to the dictionary; the fragment stores only run-time values,
//! and at each exit the number of the path taken, as `trommel_queue` describes. With loads or types
//! to record, a register that no instruction of the fragment uses is *stolen* and holds the write
//! pointer; a fragment ends early rather than use them all.
//!
//! # Why it is correct
//! * Copied instructions see the app's registers: a stolen register is used by none of them, and
//!   scratch registers are restored before the next.
//! * Nothing but the app's own instructions touches flags or the app's stack.
//! * An instruction that faults does so before any scratch register of its step has lost a value
//!   that its [`Step`] cannot restore.
//! * `rcx` is free at `syscall`, which overwrites it.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;

use iced_x86::{Encoder, Instruction, InstructionInfoFactory, Register};
use trommel_queue::MAX_VALUES;
use trommel_queue::dict::{Event, TargetPc};
use trommel_tuple::{Kind, KindSet};

use crate::area::{INDIRECT_TABLE, SYSCALL_TABLE, WRITE_POINTER};
use crate::cache::{AppPc, Cache, CachePc, Exit, Fragment, Spilled, Step};
use crate::decode::{Class, Insn, Reader};
use crate::deliver::{DictionaryFull, Shared};
use crate::emit::{Code, Mem, Reg, Rel32};
use crate::probe::{self, Load};
use crate::region::{Lookup, Range, Regions};
use crate::slot;

/// App instructions in one fragment.
pub const MAX_INSNS: usize = 48;
/// Room a fragment and its stubs may need at most, in bytes.
const MAX_FRAGMENT: u64 = 48 << 10;
const MAX_STUBS: u64 = 8 << 10;
const PAGE: u64 = 4096;

/// Why an address got no fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Run this one instruction natively: it faults, or the CPU knows better than we do.
    Native,
    /// The kernel's emulated page.
    Vsyscall,
    /// Code that may change unseen.
    WritableCode,
    /// An instruction that leaves 64-bit mode or makes a system call unseen.
    Instruction,
    /// An instruction that uses GS.
    Gs,
    /// The cache is full: flush and try again.
    CacheFull,
    /// Nothing is left to try.
    OutOfSpace,
}

/// What to collect and how to translate; the same for a whole run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Event kinds to record.
    pub kinds: KindSet,
    /// App instructions in a fragment at most (smaller under stress).
    pub max_insns: usize,
}

/// A taken branch on its way out.
struct Tail {
    from: Rel32,
    target: AppPc,
    events: usize,
    values: usize,
    event: Option<Event>,
    spilled: Spilled,
}

/// The translator's working memory, kept between fragments.
pub struct Translator {
    config: Config,
    insns: Vec<Insn>,
    loads: Vec<Option<Load>>,
    used: Vec<u16>,
    code: Code,
    stubs: Code,
    tails: Vec<Tail>,
    constants: Vec<(Rel32, u64)>,
    events: Vec<Event>,
    info: InstructionInfoFactory,
    encoder: Option<Encoder>,
    /// What is in slots at this point of the second pass.
    spilled: Spilled,
    /// The register that holds the write pointer in the fragment being made.
    stolen: Option<Reg>,
}

/// What a fragment is made from and for.
pub struct Site<'a> {
    /// The cache to place it in.
    pub cache: &'a mut Cache,
    /// What memory is code.
    pub regions: &'a mut Regions,
    /// The dictionary.
    pub shared: &'a mut Shared,
}

fn target(pc: AppPc) -> TargetPc {
    TargetPc(pc.0)
}

/// The bytes of code at `pc` that can be read now: up to the end of the next page.
fn readable(regions: &mut Regions, pc: AppPc, region: usize) -> Option<&'static [u8]> {
    let range = regions.known[region].range;
    let mut end = pc.0;
    for page in [pc.0 & !(PAGE - 1), (pc.0 & !(PAGE - 1)) + PAGE] {
        if page >= range.end || !regions.known[region].page_is_readable(page) {
            break;
        }
        end = (page + PAGE).min(range.end);
    }
    // SAFETY: the region is mapped, readable and not writable, each page was read once, and the
    // slice is used only before the app runs again.
    (end > pc.0)
        .then(|| unsafe { core::slice::from_raw_parts(pc.0 as *const u8, (end - pc.0) as usize) })
}

impl Translator {
    /// A translator. Builds the decoder's tables, which takes longer than most programs' first
    /// thousand instructions; so there is only one.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            insns: Vec::with_capacity(MAX_INSNS),
            loads: Vec::with_capacity(MAX_INSNS),
            used: Vec::with_capacity(MAX_INSNS),
            code: Code::new(CachePc(0), MAX_FRAGMENT as usize),
            stubs: Code::new(CachePc(0), MAX_STUBS as usize),
            tails: Vec::with_capacity(MAX_INSNS),
            constants: Vec::new(),
            events: Vec::with_capacity(2 * MAX_INSNS),
            info: InstructionInfoFactory::new(),
            encoder: None,
            spilled: Spilled::NONE,
            stolen: None,
        }
    }

    fn wants(&self, kind: Kind) -> bool {
        self.config.kinds.has(kind)
    }

    /// Whether operands are looked at, not just branches.
    fn wants_values(&self) -> bool {
        self.wants(Kind::Value) || self.wants(Kind::Type)
    }

    /// Makes the fragment of `app`. `checked` says that an indirect branch leads there.
    pub fn translate(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        checked: bool,
    ) -> Result<u32, Refusal> {
        let end_pc = self.collect(site, app, checked)?;
        let span = self.span(app);
        let region = site
            .regions
            .known
            .iter()
            .find(|m| m.range.holds(app))
            .map_or(span, |m| m.range);
        let arena = site.cache.arena_for(region).ok_or(Refusal::OutOfSpace)?;
        if site.cache.arena(arena).room() < MAX_FRAGMENT
            || site.cache.arena(arena).stub_room() < MAX_STUBS
        {
            return Err(Refusal::CacheFull);
        }
        self.code.restart(site.cache.arena(arena).next());
        self.stubs.restart(site.cache.arena(arena).next_stub());
        self.tails.clear();
        self.constants.clear();
        self.emit(site, app, end_pc, checked)
            .map_err(|DictionaryFull| Refusal::OutOfSpace)
            .map(|fragment| {
                site.cache
                    .place(arena, self.code.bytes(), self.stubs.bytes(), fragment)
            })
    }

    /// The app addresses that the collected instructions span.
    fn span(&self, app: AppPc) -> Range {
        self.insns.iter().fold(
            Range {
                start: app.0,
                end: app.0 + 1,
            },
            |r, i| Range {
                start: r.start.min(i.pc().0),
                end: r.end.max(i.next().0),
            },
        )
    }

    /// First pass: decodes into `insns`. Returns where the main line goes on, if it does not end
    /// in a transfer of its own. Chooses the register to steal, if one is needed.
    fn collect(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        checked: bool,
    ) -> Result<Option<AppPc>, Refusal> {
        self.insns.clear();
        self.loads.clear();
        self.used.clear();
        let mut values = 0;
        let mut used_all = 0u16;
        let mut pc = app;
        let mut needs_register = false;
        let mut reader: Option<Reader<'_>> = None;
        let end = loop {
            if self.insns.len() >= self.config.max_insns
                || (!self.insns.is_empty() && site.cache.lookup(pc).is_some())
            {
                break Some(pc);
            }
            if reader.is_none() {
                match Self::open(site, pc) {
                    Ok(r) => reader = Some(r),
                    Err(refusal) if self.insns.is_empty() => return Err(refusal),
                    Err(_) => break Some(pc),
                }
            }
            let Some(r) = reader.as_mut() else {
                return Err(Refusal::Native);
            };
            let insn = r.read();
            let refusal = match insn.class {
                Class::Unknown => Some(Refusal::Native),
                Class::Unsupported => Some(Refusal::Instruction),
                Class::Gs => Some(Refusal::Gs),
                _ => None,
            };
            if let Some(refusal) = refusal {
                if self.insns.is_empty() {
                    return Err(refusal);
                }
                break Some(pc);
            }
            let mut load = None;
            if self.wants_values() {
                let mask = probe::registers_used(&mut self.info, &insn.iced);
                if values + 3 > MAX_VALUES || stealable(used_all | mask).is_none() {
                    if self.insns.is_empty() {
                        return Err(Refusal::Native);
                    }
                    break Some(pc);
                }
                used_all |= mask;
                self.used.push(mask);
                if self.wants(Kind::Value) {
                    load = probe::load(&mut self.info, &insn);
                }
                let types = self.wants(Kind::Type)
                    && insn.class == Class::CallIndirect
                    && probe::method_table(&insn.iced).is_some();
                values += usize::from(load.is_some()) + usize::from(types);
                needs_register |= load.is_some() || types;
            } else if checked {
                self.used
                    .push(probe::registers_used(&mut self.info, &insn.iced));
            }
            self.loads.push(load);
            self.insns.push(insn);
            match insn.class {
                Class::Jmp(to) => {
                    if to == app || self.insns.iter().any(|i| i.pc() == to) {
                        break Some(to);
                    }
                    pc = to;
                    reader = None;
                }
                Class::Call(_)
                | Class::JmpIndirect
                | Class::CallIndirect
                | Class::Ret(_)
                | Class::Syscall => {
                    break None;
                }
                _ => pc = insn.next(),
            }
        };
        self.stolen = if needs_register {
            stealable(used_all)
        } else {
            None
        };
        Ok(end)
    }

    fn open<'a>(site: &mut Site<'_>, pc: AppPc) -> Result<Reader<'a>, Refusal> {
        const VSYSCALL: Range = Range {
            start: 0xffff_ffff_ff60_0000,
            end: 0xffff_ffff_ff60_1000,
        };
        if VSYSCALL.holds(pc) {
            return Err(Refusal::Vsyscall);
        }
        let region = match site.regions.find(pc) {
            (Lookup::Code(region), new) => {
                if new {
                    let mapping = &site.regions.known[region];
                    site.shared
                        .region(mapping)
                        .map_err(|DictionaryFull| Refusal::OutOfSpace)?;
                }
                region
            }
            (Lookup::Changeable, _) => return Err(Refusal::WritableCode),
            (Lookup::NotCode, _) => return Err(Refusal::Native),
            (Lookup::Unknown, _) => return Err(Refusal::OutOfSpace),
        };
        readable(site.regions, pc, region)
            .map(|code| Reader::new(code, pc))
            .ok_or(Refusal::Native)
    }

    /// Second pass.
    fn emit(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
        checked: bool,
    ) -> Result<Fragment, DictionaryFull> {
        self.spilled = Spilled::NONE;
        let mut checked_entry = None;
        if checked {
            self.code.store_gs(slot!(spill_rcx), Reg::RCX);
            self.code.store_gs(slot!(spill_rdx), Reg::RDX);
            let over = self.code.jmp_short();
            checked_entry = Some(self.code.at(self.code.here()));
            tag_check(&mut self.code, app);
            self.code.bind8_here(over);
            self.spilled = Spilled::BOTH;
        }
        let first_step = site.cache.steps.len() as u32;
        self.list_events();
        let block = if self.events.is_empty() {
            None
        } else {
            Some(site.shared.block(&self.events)?)
        };
        if let Some(p) = self.stolen {
            self.code.store_gs(slot!(spill_stolen), p);
            self.code.load_gs(p, WRITE_POINTER);
        }
        let mut events = 0;
        let mut values = 0;
        for n in 0..self.insns.len() {
            let insn = self.insns[n];
            let mut overwritten = None;
            if self.spilled != Spilled::NONE {
                if insn.class == Class::Plain {
                    overwritten = probe::overwrites(&insn.iced);
                }
                self.unspill(&insn, self.used[n] & !overwritten.map_or(0, Reg::bit));
            }
            site.cache.steps.push(Step {
                cache: self.code.here() as u16,
                events: events as u8,
                values: values as u8,
                app: (insn.pc().0 as i64 - app.0 as i64) as i32,
                spilled: self.spilled,
                at_fault: self.spilled,
                far: None,
            });
            let step = site.cache.steps.len() - 1;
            match insn.class {
                Class::Plain => {
                    let load = self.loads[n];
                    let slot = 4 + 8 * values as i32;
                    if let (Some(load), Some(p)) = (load, self.stolen) {
                        self.probe_before(&insn, load, p, slot, self.used[n]);
                    }
                    site.cache.steps[step].far = self.copy(&insn);
                    self.spilled.rcx &= overwritten != Some(Reg::RCX);
                    self.spilled.rdx &= overwritten != Some(Reg::RDX);
                    if let (Some(load), Some(p)) = (load, self.stolen) {
                        self.probe_after(load, p, slot);
                        events += 1;
                        values += 1;
                    }
                }
                Class::Jmp(_) => {}
                Class::Jcc(condition, to) => {
                    let from = self.code.jcc(condition);
                    events += self.branch(site, &insn, from, to, events, values);
                }
                Class::ShortBranch(to) => {
                    let len = insn.iced.len();
                    // The branch itself, over a short jump, to a long one.
                    // SAFETY: the instruction was decoded from these bytes.
                    let bytes =
                        unsafe { core::slice::from_raw_parts(insn.pc().0 as *const u8, len) };
                    self.code.slice(&bytes[..len - 1]);
                    self.code.raw(&[2, 0xeb, 5]);
                    let from = self.code.jmp();
                    events += self.branch(site, &insn, from, to, events, values);
                }
                Class::Call(to) => {
                    self.push_return(insn.next());
                    if self.wants(Kind::Call) {
                        events += 1;
                    }
                    self.leave(site, to, block, events, values, None)?;
                }
                Class::JmpIndirect | Class::CallIndirect | Class::Ret(_) => {
                    site.cache.steps[step].at_fault =
                        self.indirect(site, &insn, block, events, values)?;
                }
                Class::Syscall => self.syscall(site, insn.next(), block, events, values)?,
                Class::Unknown | Class::Unsupported | Class::Gs => {}
            }
        }
        if let Some(to) = end {
            self.leave(site, to, block, events, values, None)?;
        }
        for n in 0..self.tails.len() {
            let Tail {
                from,
                target,
                events,
                values,
                event,
                spilled,
            } = self.tails[n];
            self.spilled = spilled;
            let here = self.code.here();
            self.code.bind(from, here);
            let block = match block {
                None if event.is_some() => Some(site.shared.block(&[])?),
                other => other,
            };
            self.leave(site, target, block, events, values, event)?;
        }
        for n in 0..self.constants.len() {
            let (from, value) = self.constants[n];
            let here = self.code.here();
            self.code.bind(from, here);
            self.code.u64(value);
        }
        Ok(Fragment {
            app,
            entry: self.code.at(0),
            checked: checked_entry,
            end: self.code.at(self.code.here()),
            stolen: self.stolen.map(|r| r.0),
            first_step,
            steps: (site.cache.steps.len() as u32 - first_step) as u16,
            block,
            span: self.span(app),
            retired: false,
        })
    }

    /// The events of the main line, in the order in which [`Self::emit`] passes them.
    fn list_events(&mut self) {
        self.events.clear();
        for (insn, load) in self.insns.iter().zip(&self.loads) {
            let pc = target(insn.pc());
            let len = insn.iced.len() as u8;
            if load.is_some() {
                self.events.push(Event::Dynamic {
                    kind: Kind::Value,
                    pc,
                });
            }
            match insn.class {
                Class::Jcc(_, to) | Class::ShortBranch(to) if self.config.kinds.has(Kind::Edge) => {
                    self.events.push(Event::Branch {
                        pc,
                        len,
                        target: target(to),
                        taken: false,
                    });
                }
                Class::JmpIndirect if self.config.kinds.has(Kind::Edge) => {
                    self.events.push(Event::Dynamic {
                        kind: Kind::Edge,
                        pc,
                    });
                }
                Class::Call(to) if self.config.kinds.has(Kind::Call) => {
                    self.events.push(Event::Call {
                        pc,
                        target: target(to),
                    });
                }
                Class::CallIndirect => {
                    if self.config.kinds.has(Kind::Type)
                        && probe::method_table(&insn.iced).is_some()
                    {
                        self.events.push(Event::Dynamic {
                            kind: Kind::Type,
                            pc,
                        });
                    }
                    if self.config.kinds.has(Kind::Call) {
                        self.events.push(Event::Dynamic {
                            kind: Kind::Call,
                            pc,
                        });
                    }
                }
                _ => {}
            }
        }
    }

    /// A conditional branch whose taken side leaves from `from`. Returns how many events the main
    /// line has passed by going on.
    #[allow(
        clippy::too_many_arguments,
        reason = "the state of one walk over a fragment"
    )]
    fn branch(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        from: Rel32,
        to: AppPc,
        events: usize,
        values: usize,
    ) -> usize {
        let edge = self.wants(Kind::Edge);
        if !edge && events == 0 && self.stolen.is_none() && self.spilled == Spilled::NONE {
            self.stub(site.cache, from, to);
            return 0;
        }
        let event = edge.then(|| Event::Branch {
            pc: target(insn.pc()),
            len: insn.iced.len() as u8,
            target: target(to),
            taken: true,
        });
        self.tails.push(Tail {
            from,
            target: to,
            events,
            values,
            event,
            spilled: self.spilled,
        });
        usize::from(edge)
    }

    /// Leads `from` to a new exit stub for `to`.
    fn stub(&mut self, cache: &mut Cache, from: Rel32, to: AppPc) {
        let number = cache.exits.len() as u32;
        cache.exits.push(Exit {
            patch: self.code.at(from.0),
            target: to,
        });
        let stub = self.stubs.at(self.stubs.here());
        let rel = stub.0 as i64 - self.code.at(from.0).0 as i64 - 4;
        self.code.put_u32(from.0, rel as i32 as u32);
        self.stubs.store_gs_imm32(slot!(exit), number);
        self.stubs.jmp_gs(slot!(entry.exit));
    }

    /// Loads what `insn` uses of the registers in slots. Whatever leaves for known code needs both.
    fn unspill(&mut self, insn: &Insn, used: u16) {
        let (rcx, rdx) = match insn.class {
            // The call overwrites rcx, and may take an argument in rdx.
            Class::Syscall => {
                self.spilled.rcx = false;
                (false, true)
            }
            Class::Call(_) => (true, true),
            _ => (used & Reg::RCX.bit() != 0, used & Reg::RDX.bit() != 0),
        };
        if rcx {
            self.unspill_rcx();
        }
        if rdx {
            self.unspill_rdx();
        }
    }

    fn unspill_rcx(&mut self) {
        if self.spilled.rcx {
            self.code.load_gs(Reg::RCX, slot!(spill_rcx));
            self.spilled.rcx = false;
        }
    }

    fn unspill_rdx(&mut self) {
        if self.spilled.rdx {
            self.code.load_gs(Reg::RDX, slot!(spill_rdx));
            self.spilled.rdx = false;
        }
    }

    fn spill_rcx(&mut self) {
        if !self.spilled.rcx {
            self.code.store_gs(slot!(spill_rcx), Reg::RCX);
            self.spilled.rcx = true;
        }
    }

    fn spill_rdx(&mut self) {
        if !self.spilled.rdx {
            self.code.store_gs(slot!(spill_rdx), Reg::RDX);
            self.spilled.rdx = true;
        }
    }

    /// Records the path, gives all registers back, and goes to `to`.
    fn leave(
        &mut self,
        site: &mut Site<'_>,
        to: AppPc,
        block: Option<u32>,
        events: usize,
        values: usize,
        tail: Option<Event>,
    ) -> Result<(), DictionaryFull> {
        let mut full = None;
        self.unspill_rdx();
        match block.filter(|_| events > 0 || tail.is_some()) {
            Some(block) => {
                let path = site.shared.path(block, events as u16, tail)?;
                self.spill_rcx();
                full = Some(self.record(path, values, None));
            }
            None => self.give_back(),
        }
        self.unspill_rcx();
        let from = self.code.jmp();
        self.stub(site.cache, from, to);
        if let Some(full) = full {
            self.full(full);
        }
        Ok(())
    }

    /// Loads the stolen register's own value.
    fn give_back(&mut self) {
        if let Some(p) = self.stolen {
            self.code.load_gs(p, slot!(spill_stolen));
        }
    }

    /// Appends a record with `rcx` as scratch, giving the stolen register back. `dynamic` is the
    /// register whose value belongs to the last event, if that is one. Returns the jump that is
    /// taken when the chunk is full and the place where it must come back to.
    fn record(
        &mut self,
        path: u32,
        values: usize,
        dynamic: Option<Reg>,
    ) -> (crate::emit::Rel8, usize) {
        let c = &mut self.code;
        let length = 4 + 8 * values as i32;
        let p = self.stolen.unwrap_or(Reg::RCX);
        if self.stolen.is_none() {
            c.load_gs(Reg::RCX, WRITE_POINTER);
        }
        if let Some(value) = dynamic {
            c.store(p, length - 8, value);
        }
        c.store_imm32(p, 0, path);
        c.lea(Reg::RCX, p, length);
        c.store_gs(WRITE_POINTER, Reg::RCX);
        self.give_back();
        let c = &mut self.code;
        c.second_byte_of_rcx();
        let full = c.jrcxz();
        (full, c.here())
    }

    /// The far end of a record's full test.
    fn full(&mut self, (full, back): (crate::emit::Rel8, usize)) {
        self.code.bind8_here(full);
        let rel = self.code.lea_rcx_rip();
        self.code.bind(rel, back);
        self.code.jmp_gs(slot!(entry.full));
    }

    /// Pushes the app's return address.
    fn push_return(&mut self, next: AppPc) {
        match i32::try_from(next.0) {
            Ok(small) => self.code.push_imm32(small),
            Err(_) => {
                // One store of eight bytes, so that the return's load is forwarded.
                let rel = self.code.push_rip();
                self.constants.push((rel, next.0));
            }
        }
    }

    /// `jmp`, `call` or `ret` to an address known only when it runs. Says what is in slots if it
    /// faults.
    fn indirect(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        block: Option<u32>,
        events: usize,
        values: usize,
    ) -> Result<Spilled, DictionaryFull> {
        let mut events = events;
        let mut values = values;
        if insn.class == Class::CallIndirect
            && self.wants(Kind::Type)
            && let (Some(table), Some(p)) = (probe::method_table(&insn.iced), self.stolen)
        {
            self.code.store(p, 4 + 8 * values as i32, table);
            events += 1;
            values += 1;
        }
        let is_event = match insn.class {
            Class::JmpIndirect => self.wants(Kind::Edge),
            Class::CallIndirect => self.wants(Kind::Call),
            _ => false,
        };
        let recorded = events > 0 || is_event;
        // With something to record, rcx holds the write pointer and the target waits in rdx.
        let holder = if recorded { Reg::RDX } else { Reg::RCX };
        self.spill_rcx();
        if recorded {
            self.spill_rdx();
        }
        let at_fault = self.spilled;
        match insn.class {
            Class::Ret(release) => {
                self.code.pop(holder);
                if release != 0 {
                    self.code.lea(Reg::RSP, Reg::RSP, i32::from(release));
                }
            }
            _ => self.load_target(insn, holder),
        }
        if insn.class == Class::CallIndirect {
            self.push_return(insn.next());
        }
        let mut full = None;
        if recorded {
            events += usize::from(is_event);
            values += usize::from(is_event);
            let block = match block {
                Some(block) => block,
                None => site.shared.block(&[])?,
            };
            let path = site.shared.path(block, events as u16, None)?;
            full = Some(self.record(path, values, is_event.then_some(Reg::RDX)));
            self.code.mov(Reg::RCX, Reg::RDX);
        } else {
            self.give_back();
            self.spill_rdx();
        }
        self.code.low16_of_rcx_to_rdx();
        self.code.jmp_gs_rdx8(INDIRECT_TABLE);
        if let Some(full) = full {
            self.full(full);
        }
        Ok(at_fault)
    }

    /// `mov holder, [operand]` for the operand of an indirect jump or call.
    fn load_target(&mut self, insn: &Insn, holder: Reg) {
        let i = &insn.iced;
        if i.op0_kind() == iced_x86::OpKind::Register {
            let from = Reg((i.op0_register() as u32 - Register::RAX as u32) as u8);
            if from != holder {
                self.code.mov(holder, from);
            }
            return;
        }
        self.load_operand(i, holder, 8);
    }

    /// Loads `size` bytes of the memory operand of `i` into `to`, zero-extended.
    fn load_operand(&mut self, i: &Instruction, to: Reg, size: u8) {
        let fs = i.segment_prefix() == Register::FS;
        if i.code() == iced_x86::Code::Xlat_m8 {
            // Its operand is implied: the byte at rbx + al.
            let rex = 0x40 | (u8::from(to.0 >= 8)) << 2;
            // movzx to, al
            self.code.raw(&[rex, 0x0f, 0xb6, 0xc0 | (to.0 & 7) << 3]);
            let mem = Mem {
                base: Some(Reg::RBX),
                index: Some((to, 0)),
                disp: 0,
                fs,
                short: i.memory_base() == Register::EBX,
            };
            return self.code.load_mem(to, 1, &mem);
        }
        let address = if i.is_ip_rel_memory_operand() {
            i.ip_rel_memory_address()
        } else {
            i.memory_displacement64()
        };
        let plain = !fs && i.memory_base() == Register::RIP;
        if plain && self.code.load_rip(to, size, address) {
            return;
        }
        let register = |r: Register| {
            r.is_gpr()
                .then(|| Reg((r.full_register() as u32 - Register::RAX as u32) as u8))
        };
        let disp = i32::try_from(address as i64);
        let mut mem = Mem {
            base: register(i.memory_base()),
            index: register(i.memory_index())
                .map(|r| (r, i.memory_index_scale().trailing_zeros() as u8)),
            disp: disp.unwrap_or(0),
            fs,
            short: i.memory_base().is_gpr32() || i.memory_index().is_gpr32(),
        };
        if i.is_ip_rel_memory_operand() || disp.is_err() {
            // Out of reach, or an absolute 64-bit address: through the register itself.
            self.code.mov_imm(to, address);
            mem.base = Some(to);
            mem.disp = 0;
        }
        self.code.load_mem(to, size, &mem);
    }

    fn probe_before(&mut self, insn: &Insn, load: Load, p: Reg, slot: i32, used: u16) {
        let (Load::Before(size) | Load::BeforeStack(size)) = load else {
            return;
        };
        let scratch = free_register(used | p.bit());
        self.code.store_gs(slot!(spill_scratch), scratch);
        if matches!(load, Load::BeforeStack(_)) {
            self.code.load(scratch, Reg::RSP, 0);
            if size == 2 {
                self.zero_extend_16(scratch);
            }
        } else {
            self.load_operand(&insn.iced, scratch, size);
        }
        self.code.store(p, slot, scratch);
        self.code.load_gs(scratch, slot!(spill_scratch));
    }

    /// `movzx reg32, reg16`
    fn zero_extend_16(&mut self, r: Reg) {
        let high = u8::from(r.0 >= 8);
        self.code.raw(&[
            0x40 | high << 2 | high,
            0x0f,
            0xb7,
            0xc0 | (r.0 & 7) << 3 | r.0 & 7,
        ]);
    }

    fn probe_after(&mut self, load: Load, p: Reg, slot: i32) {
        match load {
            Load::After(register) => self.code.store(p, slot, register),
            Load::AfterXmm(n) => self.code.store_xmm_low(p, slot, n),
            Load::AfterPartRax(size) => {
                let scratch = if p == Reg::RBX { Reg::RBP } else { Reg::RBX };
                self.code.store_gs(slot!(spill_scratch), scratch);
                // movzx scratch, al or ax
                self.code.raw(&[
                    0x0f,
                    if size == 1 { 0xb6 } else { 0xb7 },
                    0xc0 | scratch.0 << 3,
                ]);
                self.code.store(p, slot, scratch);
                self.code.load_gs(scratch, slot!(spill_scratch));
            }
            Load::Before(_) | Load::BeforeStack(_) => {}
        }
    }

    /// Appends the bytes of an instruction as they are.
    fn copy_bytes(&mut self, insn: &Insn) {
        let (at, len) = (insn.pc().0, insn.iced.len());
        if at & (PAGE - 1) <= PAGE - 16 {
            // SAFETY: the page holds code that was just decoded, and these 16 bytes are in it.
            let bytes = unsafe { (at as *const [u8; 16]).read() };
            self.code.some_of(&bytes, len);
        } else {
            // SAFETY: the instruction was decoded from these bytes.
            let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
            self.code.slice(bytes);
        }
    }

    /// Copies an instruction. Says which register is in the slot for far operands if it faults.
    fn copy(&mut self, insn: &Insn) -> Option<Reg> {
        let len = insn.iced.len();
        let at = self.code.here();
        if insn.rip_disp == 0 {
            self.copy_bytes(insn);
            return None;
        }
        let address = insn.iced.ip_rel_memory_address();
        // An operand addressed by EIP wraps at 4 GiB; only its own encoding can do that.
        let rel = address.wrapping_sub(self.code.at(at + len).0) as i64;
        if let (Ok(rel), false) = (i32::try_from(rel), insn.iced.memory_base() == Register::EIP) {
            self.copy_bytes(insn);
            self.code
                .put_u32(at + usize::from(insn.rip_disp), rel as u32);
            return None;
        }
        let used =
            probe::registers_used(&mut self.info, &insn.iced) | self.stolen.map_or(0, Reg::bit);
        let base = free_register(used);
        let mut far = insn.iced;
        far.set_memory_base(Register::RAX + u32::from(base.0));
        far.set_memory_displacement64(0);
        far.set_memory_displ_size(0);
        self.code.store_gs(slot!(spill_far), base);
        self.code.mov_imm(base, address);
        // Made when first needed: its tables are large.
        let encoder = self.encoder.get_or_insert_with(|| Encoder::new(64));
        let _ = encoder.encode(&far, 0);
        let encoded = encoder.take_buffer();
        self.code.slice(&encoded);
        self.code.load_gs(base, slot!(spill_far));
        Some(base)
    }

    /// A system call: in place, unless the runtime must see it.
    fn syscall(
        &mut self,
        site: &mut Site<'_>,
        next: AppPc,
        block: Option<u32>,
        events: usize,
        values: usize,
    ) -> Result<(), DictionaryFull> {
        let full = match block.filter(|_| events > 0) {
            Some(block) => {
                let path = site.shared.path(block, events as u16, None)?;
                Some(self.record(path, values, None))
            }
            None => {
                self.give_back();
                None
            }
        };
        self.code.low16_of_rax_to_rcx();
        self.code.load_byte_gs_rcx(SYSCALL_TABLE);
        let in_place = self.code.jrcxz();
        let exit = site.cache.exits.len() as u32;
        self.code.store_gs_imm32(slot!(exit), exit);
        self.code.jmp_gs(slot!(entry.syscall));
        if let Some(full) = full {
            self.full(full);
        }
        self.code.bind8_here(in_place);
        self.code.raw(&[0x0f, 0x05]);
        self.code.mov_imm(Reg::RCX, next.0);
        let from = self.code.jmp();
        self.stub(site.cache, from, next);
        Ok(())
    }
}

/// The check at a fragment's checked entry: `rcx` must be `app`. Leaves `rcx` and `rdx` in slots.
pub fn tag_check(code: &mut Code, app: AppPc) {
    code.mov_imm(Reg::RDX, app.0.wrapping_neg());
    code.add_rdx_to_rcx();
    let right = code.jrcxz();
    code.jmp_gs(slot!(entry.mismatch));
    code.bind8_here(right);
}

/// A register that a fragment using `used` can do without. `rcx` and `rdx` serve indirect branches,
/// `rsp` is the stack.
fn stealable(used: u16) -> Option<Reg> {
    const ORDER: [u8; 13] = [15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 0];
    ORDER.into_iter().map(Reg).find(|r| used & r.bit() == 0)
}

/// A register among the first eight that an instruction using `used` does not touch.
fn free_register(used: u16) -> Reg {
    const ORDER: [u8; 7] = [0, 3, 6, 7, 2, 1, 5];
    ORDER
        .into_iter()
        .map(Reg)
        .find(|r| used & r.bit() == 0)
        .unwrap_or(Reg::RAX)
}
