//! The first pass: decodes the app's instructions, up to where a fragment ends.

use trommel_queue::MAX_VALUES;

use super::{BRIEF_INSNS, FEW_INSNS, Refusal, Site, Translator, readable, restartable, stealable};
use crate::base::address::{AppPc, Range};
use crate::base::decode::{Class, Reader};
use crate::base::prefix::Prefix;
use crate::cache::Cache;
use crate::memory::mapping::{Named, Nature};
use crate::memory::region::Lookup;

/// Registers and words that the instructions so far use and record.
#[derive(Default)]
struct Used {
    registers: u16,
    words: usize,
}

/// Continuation after an instruction.
enum Next {
    /// Another, right after it or elsewhere.
    After(AppPc),
    Elsewhere(AppPc),
    /// The end, and where the main line goes on.
    End(Option<AppPc>),
}

impl Translator {
    /// Decodes into the job's instructions. Returns where the main line goes on, if it does not end
    /// in a transfer of its own. Chooses the register to steal, if one is needed.
    pub(super) fn collect(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
    ) -> Result<Option<AppPc>, Refusal> {
        site.shared.open_block()?;
        self.job.pairs = self.needs.keys && site.pairs.have_room();
        self.ways_begin(site, app)?;
        self.job.span = Range {
            start: app.0,
            end: app.0 + 1,
        };
        if self.brief_until == Some(app) {
            self.brief_until = None;
        }
        // What is hot is made anew, as a trace.
        let traces = site.cache.makes_traces();
        let brief = (self.brief_until.is_some() || traces) && !self.job.from.recorded;
        let most = match self.short {
            true => self.config.max_insns.min(FEW_INSNS),
            false => self.config.max_insns,
        };
        let mut used = Used::default();
        let mut pc = app;
        let mut reader: Option<Reader<'_>> = None;
        let end = loop {
            let n = self.job.count;
            if n >= self.job.from.limit(most)
                || (n != 0 && (self.meets(site.cache, pc) || self.leaves_function(site, pc)))
            {
                break Some(pc);
            }
            if reader.is_none() {
                match self.open(site, pc) {
                    Ok(r) => reader = Some(r),
                    Err(Refusal::Made) => break Some(pc),
                    Err(Refusal::Unnamed) => return Err(Refusal::Unnamed),
                    Err(refusal) if n == 0 => return Err(refusal),
                    Err(_) => break Some(pc),
                }
            }
            let Some(r) = reader.as_mut() else {
                return Err(Refusal::Native);
            };
            r.read(&mut self.job.insns[n]);
            if self.job.insns[n].class == Class::Unknown && self.job.from.ends_early(pc) {
                if n != 0 {
                    break Some(pc);
                }
                reader = Some(self.across(site, pc)?);
                continue;
            }
            if let Some(refusal) = self.refuses(site, n) {
                if n == 0 {
                    return Err(refusal);
                }
                break Some(pc);
            }
            if !self.take(site, n, &mut used)? {
                if n == 0 {
                    return Err(Refusal::Native);
                }
                break Some(pc);
            }
            self.job.count = n + 1;
            match self.next(n, app, brief) {
                Next::After(next) => pc = next,
                Next::Elsewhere(to) => {
                    pc = to;
                    reader = None;
                }
                Next::End(end) => break end,
            }
        };
        if used.words != 0 {
            self.job.stolen = stealable(used.registers | self.needs.kept);
        }
        Ok(end)
    }

    /// Returns the reason why instruction `n` is not translated, if it is not.
    #[inline]
    fn refuses(&self, site: &mut Site<'_>, n: usize) -> Option<Refusal> {
        let insn = &self.job.insns[n];
        match insn.class {
            Class::Unknown => Some(Refusal::Native),
            Class::Unsupported => Some(Refusal::Instruction),
            Class::Gs => Some(Refusal::Gs),
            Class::Request => Some(Refusal::Request),
            Class::Syscall if self.config.windows || self.job.prefix == Prefix::UNKNOWN => {
                Some(Refusal::Call)
            }
            // Its exit for a flag that is to be set leads here.
            Class::Popf if n == 0 => Some(Refusal::Native),
            Class::Plain if insn.rip_disp != 0 => {
                let region = site.regions.range_of(insn.pc());
                let bytes = self.job.from.at(insn.pc());
                let found = region.is_some_and(|r| restartable::begins(insn, bytes, r));
                found.then_some(Refusal::Restartable)
            }
            _ => None,
        }
    }

    /// Takes instruction `n`, with its events. Returns false if there is no room for them, or no register.
    #[inline]
    fn take(&mut self, site: &mut Site<'_>, n: usize, used: &mut Used) -> Result<bool, Refusal> {
        let needs = self.needs;
        if !needs.loads {
            self.job.insns[n].load = None;
        }
        self.ways_decoded(site, n);
        if needs.operands {
            let registers = used.registers | self.job.insns[n].used;
            // Beside its own words the target of an indirect branch.
            let room = needs.late || used.words + needs.words < MAX_VALUES;
            if !room || stealable(registers | needs.kept).is_none() {
                return Ok(false);
            }
            used.registers = registers;
        }
        if !self.ways_are_named(site, n) {
            return Err(Refusal::Unnamed);
        }
        used.words += self.ways_list(site, n);
        let insn = self.job.insns[n];
        self.note_pages(&insn);
        Ok(true)
    }

    /// Returns the continuation after instruction `n` of the fragment of `app`.
    #[inline]
    fn next(&self, n: usize, app: AppPc, brief: bool) -> Next {
        let insn = &self.job.insns[n];
        let next = insn.next();
        match insn.class {
            Class::Jmp(to) => {
                let ends = self.config.cuts_at(insn)
                    || self.job.from.made
                    || to == app
                    || self.job.insns[..=n].iter().any(|i| i.pc() == to);
                match ends {
                    true => Next::End(Some(to)),
                    false => Next::Elsewhere(to),
                }
            }
            Class::Call(_)
            | Class::JmpIndirect
            | Class::CallIndirect
            | Class::Ret(_)
            | Class::Syscall => Next::End(None),
            _ if insn.stores_x87 => Next::End(Some(next)),
            Class::Jcc(..) if brief && n + 1 >= BRIEF_INSNS => Next::End(Some(next)),
            _ if self.job.from.made && self.ends_after(insn) => Next::End(Some(next)),
            _ => Next::After(next),
        }
    }

    /// Returns true if a fragment ends where it comes to `pc`.
    fn meets(&self, cache: &Cache, pc: AppPc) -> bool {
        if self.needs.runs_on {
            return false;
        }
        let there = cache.lookup(pc);
        there.is_some_and(|id| !self.job.from.recorded || cache.is_trace(id))
    }

    fn open<'a>(&mut self, site: &mut Site<'_>, pc: AppPc) -> Result<Reader<'a>, Refusal> {
        const VSYSCALL: Range = Range {
            start: 0xffff_ffff_ff60_0000,
            end: 0xffff_ffff_ff60_1000,
        };
        if VSYSCALL.holds(pc) {
            // Anywhere else in the page is a fault.
            let entry = pc.0.is_multiple_of(0x400) && pc.0 < VSYSCALL.start + 0xc00;
            return Err(if entry {
                Refusal::Vsyscall
            } else {
                Refusal::Native
            });
        }
        let region = Self::region(site, pc)?;
        let nature = site.regions.known[region].nature();
        if self.config.windows || nature != Nature::Fixed {
            // Such code does not go on after other, nor in a trace.
            return match self.job.count == 0 && !self.job.from.recorded {
                true => self.read_made(site, pc, region),
                false => Err(Refusal::Made),
            };
        }
        readable(site.regions, pc, region)
            .map(|code| Reader::new(code, pc))
            .ok_or(Refusal::Native)
    }

    /// The known region of an address. A new one is reported to the host.
    pub fn region(site: &mut Site<'_>, pc: AppPc) -> Result<usize, Refusal> {
        match site.regions.find(pc, site.pages) {
            (Lookup::Code(region), new) => {
                if new {
                    let named = match site.regions.tell(region) {
                        true => Named::Reported(site.shared.region(&site.regions.known[region])?),
                        // Addresses of memory without a file are their own places.
                        false => Named::Bias(0),
                    };
                    site.regions.known[region].named = named;
                }
                if let Named::Reported(number) = site.regions.known[region].named
                    && site.shared.names()
                {
                    let bias = site.shared.bias(number).ok_or(Refusal::Unnamed)?;
                    site.regions.known[region].named = Named::Bias(bias);
                }
                Ok(region)
            }
            (Lookup::NotCode, _) => Err(Refusal::Native),
            (Lookup::Moved(range), _) => Err(Refusal::Moved(range)),
            (Lookup::Unknown, _) => Err(Refusal::NoMaps),
        }
    }
}
