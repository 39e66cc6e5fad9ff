//! Fragments without addresses, and back ([`crate::channel::persist`]).
//!
//! # Problem
//! What is written once must be right wherever the code of the app and the fragment lie next time. Of a fragment's
//! bytes these depend on that: operands relative to the instruction, addresses of the app, numbers of exits, and jumps to
//! exit stubs.
//!
//! # Strategy
//! Who writes such a field notes it ([`Field`]), and in a record it holds what is left without addresses: an offset in the
//! file that the code is from. Exit stubs are made anew. Where code depends on its own address otherwise (alignment), it
//! does so modulo a cache line, so a fragment is put at the same place in a line.
//!
//! *Where paths are counted* a record has what the dictionary says of the fragment: the events of its block, its paths, and the
//! indirect branch that is counted. They get numbers and a key of this run when it is brought back. *Where a sampler counts events* ([`crate::channel::strata`]) the paths are
//! those that its messages name, and the counter of each, or what the hash of a value begins with, is found out anew, as it depends on what the host calls the place. *Where values are counted exactly* ([`super::value_counters`]) the paths are those of value counters, and what the index of a value counter
//! begins with is made of the path's number of this run.
//!
//! Where events are passed by in [strides](super::strides) a record has their kinds, of which the dictionary is to have messages, and which exits lead to where a sample is near.
//!
//! A fragment that cannot be told so is not kept: one with operands out of reach, of code that may change or is not of one
//! region of a file, one that records, one with a pool of constants for the hash of values (`:mul`), and traces.
//!
//! # Why it is correct
//! * Two mappings of one file, translated at different addresses, must give the same records, bit for bit; a field that
//!   nobody noted would differ. The tests of this module do that with all functions of the C library.
//! * What was looked at beside the fragment's own code, to know whether flags are used after it, is compared like that.
//!
//! **I17 (kept fragments).** A kept fragment is used only where file and bytes of its code are those that it was made from. Apart from addresses and numbers of a run, it is what the translator would make, bit for bit.
#![allow(unsafe_code)] // reason: reads the app's code.

mod fields;
pub(super) mod parts;
mod paths;

use crate::base::address::Range;
use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use trommel_queue::persist::Head;
use trommel_tuple::KindSet;

use fields::{Numbers, with_addresses, without_addresses};
use parts::{
    COUNTS, COUNTS_TRACES, Count, Cursor, EXIT, HAS_STUB, IN_FRONT_OF_CALL, NONE, Parts, SAMPLED,
    SOURCE, STEP, STRIDES, number_of, u16_at, u32_at, way_of,
};

pub(super) use fields::Field;
pub(super) use paths::Numbered;

use super::{MAX_FRAGMENT, MAX_STUBS, PAGE, Site, Translator};
use crate::base::address::{AppPc, CachePc};
use crate::base::bytes::same;
use crate::base::decode::Insn;
use crate::base::emit::{Code, Reg};
use crate::base::prefix::Prefix;
use crate::base::stress::{self, Place};
use crate::cache::{Exit, Fragment, FragmentState, Head as Start};
use crate::cache::{Spilled, Step, UNLINKED};
use crate::channel::deliver::Shared;
use crate::channel::persist::Origin;
use crate::memory::pages::page_of;
use crate::observe::pairs::Branch;
use crate::slot;

/// Fields of the fragment being made, and whether it can be kept.
#[derive(Default)]
pub(super) struct Notes {
    fields: Vec<(Field, u16)>,
    /// Something in it depends on addresses in another way.
    unfit: bool,
    /// The first of its exits, as an index in [`crate::cache::Cache::exits`], and its number.
    first_exit: (usize, u32),
    /// Its paths.
    paths: Vec<Numbered>,
    /// Its indirect branch that is counted.
    branch: Option<Branch>,
    /// App code beside its own that it depends on.
    pub(super) looked: Vec<(AppPc, AppPc)>,
    /// The record being made.
    pub(super) record: Vec<u8>,
    /// Where the sampler's counters are in the code, and the numbers of the paths of their messages.
    counted: Vec<(u16, u32)>,
    /// The numbers of the paths of what is brought back, and the sampler's counters of those that messages name.
    numbers: Vec<u32>,
    strata: Vec<Option<(Field, u32)>>,
    /// Bytes of app code in what was loaded last.
    loaded_app_bytes: u64,
}

/// Records that are looked at after one.
pub const AHEAD: usize = 128;

impl Notes {
    pub(super) fn begin(&mut self, first_exit: (usize, u32)) {
        self.fields.clear();
        self.paths.clear();
        self.counted.clear();
        self.branch = None;
        self.looked.clear();
        self.unfit = false;
        self.first_exit = first_exit;
    }
}

impl Translator {
    /// The field at an offset of the code depends on addresses.
    #[inline]
    pub(super) fn note(&mut self, field: Field, at: usize) {
        self.job.notes.fields.push((field, at as u16));
    }

    /// The field at an offset of the code is what `field` says, of what messages are about that name this path.
    pub(super) fn note_counted(&mut self, field: Field, at: usize, path: u32) {
        self.note(field, at);
        self.job.notes.counted.push((at as u16, path));
    }

    /// The fragment being made depends on code that is not its own.
    pub(super) fn note_look(&mut self, from: AppPc, to: AppPc) {
        let looked = &mut self.job.notes.looked;
        if !looked.iter().any(|l| l.0 <= from && to <= l.1) {
            looked.push((from, to));
        }
    }

    /// The fragment being made depends on addresses in a way that cannot be told.
    pub(super) fn is_unfit(&mut self) {
        self.job.notes.unfit = true;
    }

    /// An address of the app was just written by [`Code::mov_imm`].
    pub(super) fn note_immediate(&mut self, address: AppPc) {
        let here = self.job.code.here();
        match i32::try_from(address.0) {
            Ok(_) => self.note(Field::Low, here - 4),
            Err(_) if u32::try_from(address.0).is_ok() => self.is_unfit(),
            Err(_) if i32::try_from(address.0 as i64).is_ok() => self.is_unfit(),
            Err(_) => self.note(Field::Absolute, here - 8),
        }
    }

    /// Keeps the fragment that has just been written, if it can be used again.
    pub(super) fn keep(&mut self, site: &mut Site<'_>, fragment: &Fragment) {
        let Some(persist) = site.persist.as_mut() else {
            return;
        };
        let fit = !self.job.notes.unfit
            && !self.job.trace
            && !self.short
            && !self.job.from.made
            && self.job.from.is_usual()
            && self.ways_are_kept();
        let region = (site.regions.known.iter()).find(|m| m.range.holds(fragment.app));
        let Some(mapping) = region.filter(|_| fit) else {
            return;
        };
        let range = mapping.range;
        let Some(origin) = persist.origin(mapping) else {
            return;
        };
        let mut record = core::mem::take(&mut self.job.notes.record);
        let steps = &site.cache.steps[fragment.first_step as usize..];
        let exits = &site.cache.exits[self.job.notes.first_exit.0..];
        if self
            .put_together(
                &mut record,
                fragment,
                site.shared,
                (origin, range),
                (steps, exits),
            )
            .is_some()
            && let Some(at) = origin.offset(fragment.app)
        {
            persist.keep(origin, at, &mut record);
        }
        self.job.notes.record = record;
    }

    /// The record of a fragment; `None` where it cannot be told so.
    fn put_together(
        &self,
        to: &mut Vec<u8>,
        fragment: &Fragment,
        shared: &Shared,
        (origin, region): (Origin, Range),
        (steps, exits): (&[Step], &[Exit]),
    ) -> Option<()> {
        let within = |pc: AppPc| origin.offset(pc).filter(|_| region.holds(pc));
        let span = [
            within(AppPc(fragment.span.start))?,
            within(AppPc(fragment.span.end - 1))?,
        ];
        let begins = fragment.entry == self.job.code.at(0);
        let stolen = fragment.stolen.is_none() || self.needs.late;
        if !begins || !stolen || fragment.homes != 0 {
            return None;
        }
        let start = self.job.code.at(0);
        let code = self.job.code.bytes();
        to.clear();
        to.resize(Head::BYTES + 2 * COUNTS, 0);
        span.iter().for_each(|at| to.extend(at.to_le_bytes()));
        for step in steps {
            if step.recipe != 0 || step.values != 0 {
                return None;
            }
            to.extend(step.cache.to_le_bytes());
            to.extend(step.copied.to_le_bytes());
            to.extend(within(step.app)?.to_le_bytes());
            let far = step.far.map_or(NONE, |r| r.0);
            let events = u8::try_from(step.events).ok()?;
            to.extend([step.spilled.bits(), step.at_fault.bits(), far, events]);
        }
        for exit in exits {
            let call = exit.stub == 0 && exit.patch.0 != 0;
            let patch = match exit.patch.0 {
                0 => 0,
                at => u16::try_from(at.checked_sub(start.0)?).ok()?,
            };
            let flag = |is: bool, flag: u8| if is { flag } else { 0 };
            let flags = flag(exit.stub != 0, HAS_STUB)
                | flag(exit.counts, COUNTS_TRACES)
                | flag(call, IN_FRONT_OF_CALL)
                | flag(exit.prefix == Prefix::SAMPLED, SAMPLED);
            to.extend(patch.to_le_bytes());
            to.extend(exit.insns.to_le_bytes());
            to.extend(within(exit.target)?.to_le_bytes());
            to.extend([number_of(exit.way)?, flags, 0, 0]);
        }
        let sources = self.list_sources(to, origin)?;
        for &(from, end) in &self.job.notes.looked {
            within(AppPc(end.0 - 1))?;
            put_source(to, within(from)?, end.0 - from.0)?;
        }
        for &page in &self.job.pages {
            let of_region = page >= page_of(region.start) && page < region.end;
            let offset = origin.offset(AppPc(page)).filter(|_| of_region)?;
            to.extend(offset.to_le_bytes());
        }
        for &(field, at) in &self.job.notes.fields {
            to.extend(at.to_le_bytes());
            to.extend([field as u8, 0]);
        }
        for &(from, end) in &self.job.work {
            to.extend(u16::try_from(from).ok()?.to_le_bytes());
            to.extend(u16::try_from(end).ok()?.to_le_bytes());
        }
        let (events, tails) = self.list_paths(to, fragment, shared, within)?;
        for insn in &self.job.insns[..self.job.count] {
            to.extend_from_slice(self.bytes_of(insn));
        }
        for &(from, end) in &self.job.notes.looked {
            // SAFETY: in the region, and read for this fragment.
            let looked = unsafe {
                core::slice::from_raw_parts(from.0 as *const u8, (end.0 - from.0) as usize)
            };
            to.extend_from_slice(looked);
        }
        let code_at = to.len();
        to.extend_from_slice(code);
        let copy = &mut to[code_at..];
        let path = |number: u32| self.job.notes.paths.iter().position(|p| p.number == number);
        let numbers = Numbers {
            exit: self.job.notes.first_exit.1,
            path: &path,
            stratum: &|at| self.stratum_at(at),
        };
        without_addresses(copy, start, &self.job.notes.fields, &numbers, origin, exits)?;
        let offset = |at: CachePc| u16::try_from(at.0 - start.0).ok();
        let small = |n: usize| u16::try_from(n).ok();
        let counts = [
            small(code.len())?,
            match fragment.checked {
                Some(at) => offset(at)? + 1,
                None => 0,
            },
            fragment.insns,
            small(steps.len())?,
            small(exits.len())?,
            small(self.job.notes.fields.len())?,
            small(self.job.pages.len())?,
            small(sources)?,
            small(self.job.notes.looked.len())?,
            small(self.job.work.len())?,
            (start.0 % LINE) as u16,
            small(events)?,
            small(tails)?,
            small(self.job.notes.paths.len())?,
            self.job.notes.branch.is_some().into(),
            fragment.stolen.map_or(0, |r| u16::from(r) + 1),
            match fragment.strides {
                true => u16::from(self.job.strides.kinds.bits()) | STRIDES,
                false => 0,
            },
        ];
        let places = to[Head::BYTES..].as_chunks_mut::<2>().0.iter_mut();
        for (place, count) in places.zip(counts) {
            *place = count.to_le_bytes();
        }
        Some(())
    }

    /// Which of the fragment's paths the sampler's counter at an offset of the code belongs to.
    fn stratum_at(&self, at: usize) -> Option<usize> {
        let counted = self.job.notes.counted.iter();
        let (_, path) = counted
            .copied()
            .find(|&(there, _)| usize::from(there) == at)?;
        self.job.notes.paths.iter().position(|p| p.number == path)
    }

    /// Where the instructions of the fragment are, what lies in a row as one.
    fn list_sources(&self, to: &mut Vec<u8>, origin: Origin) -> Option<usize> {
        let mut listed = 0;
        let mut rest = self.job.insns[..self.job.count].iter().peekable();
        while let Some(first) = rest.next() {
            let mut end = first.next();
            while let Some(next) = rest.next_if(|insn: &&Insn| insn.pc() == end) {
                end = next.next();
            }
            put_source(to, origin.offset(first.pc())?, end.0 - first.pc().0)?;
            listed += 1;
        }
        Some(listed)
    }

    /// Takes the fragment of `app` from an earlier run, and those that were made after it there, `ahead` at most,
    /// which `loaded` tells then. `None` when there is none, or its code is another.
    pub fn load(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        ahead: usize,
        loaded: &mut Vec<u32>,
    ) -> Option<u32> {
        site.persist.as_ref().filter(|_| self.ways_are_kept())?;
        let region = Self::region(site, app).ok()?;
        let range = site.regions.known[region].range;
        let persist = site.persist.as_mut()?;
        let origin = persist.origin(&site.regions.known[region])?;
        let mut at = persist.find(origin, app)?;
        let first_exit = site.cache.exits.len();
        let mut wanted = None;
        self.job.notes.loaded_app_bytes = 0;
        for n in 0..=ahead {
            let Some((head, record, next)) = site.persist.as_ref().and_then(|p| p.record(at))
            else {
                break;
            };
            at = next;
            if let Some(next) = site.persist.as_ref().and_then(|p| p.offset(next)) {
                let next = origin.address(next);
                site.cache.prefetch(next);
                prefetch_code(next);
            }
            let pc = origin.address(head.at);
            let other = head.module != origin.module || !range.holds(pc);
            if other || n != 0 && site.cache.lookup(pc).is_some() {
                continue;
            }
            let parts = record.and_then(Parts::of);
            let id = parts.and_then(|parts| self.bring_back(site, &parts, pc, origin, region));
            match id {
                Some(id) => loaded.push(id),
                // What was made after it is of no use here.
                None if n == 0 => return None,
                None => {}
            }
            wanted = wanted.or(id);
        }
        site.cache.link_among(first_exit);
        wanted
    }

    /// Bytes of app code in what was loaded last.
    pub fn loaded_app_bytes(&self) -> u64 {
        self.job.notes.loaded_app_bytes
    }

    /// The fragment of a record, in the cache.
    fn bring_back(
        &mut self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        app: AppPc,
        origin: Origin,
        region: usize,
    ) -> Option<u32> {
        let range = site.regions.known[region].range;
        let within = |offset: u32| Some(origin.address(offset)).filter(|&pc| range.holds(pc));
        let span = Range {
            start: within(parts.span[0])?.0,
            end: within(parts.span[1])?.0 + 1,
        };
        let arena = site.cache.arena_for(range)?;
        site.cache.prefetch_room(arena);
        self.compare(site, parts, origin, region)?;
        if !(site.cache).has_room(arena, MAX_FRAGMENT + LINE, MAX_STUBS) {
            return None;
        }
        site.cache.align_to(arena, parts.count(Count::Phase) as u64);
        // SAFETY: nothing is placed before the fragment is, and no code is written after that.
        let (mut code, mut stubs) = unsafe { site.cache.open(arena, MAX_FRAGMENT, MAX_STUBS) };
        code.slice(parts.code);
        let first = site.cache.next_exit();
        let first_exit = site.cache.exits.len();
        let exits = parts.count(Count::Exits) as u32;
        with_addresses(&mut code, parts, origin, first, exits)?;
        self.have_room_for(site, parts)?;
        let steps = parts.steps.as_chunks::<STEP>().0.iter();
        let first_step = site.cache.steps.len();
        let taken = take_steps(steps, &mut site.cache.steps, within);
        let taken = taken.and_then(|()| {
            let exits = parts.exits.as_chunks::<EXIT>().0;
            take_exits(
                exits,
                &mut site.cache.exits,
                &mut code,
                &mut stubs,
                first,
                within,
            )
        });
        let strides = parts.counts[Count::Strides as usize];
        let kinds = KindSet::from_bits(strides as u8);
        let told = taken.and_then(|()| self.tell_kinds(site, app, kinds).ok());
        let block = told.and_then(|()| self.bring_paths(site, parts, &mut code, within));
        let Some(block) = block else {
            site.cache.steps.truncate(first_step);
            site.cache.exits.truncate(first_exit);
            return None;
        };
        stress::fail(Place::Translate);
        let own = parts.sources.as_chunks::<SOURCE>().0.iter();
        let own = own.take(parts.count(Count::Sources));
        let bytes: u64 = own.map(|source| u64::from(u16_at(source, 4))).sum();
        self.job.notes.loaded_app_bytes += bytes;
        self.job.pages.clear();
        for page in parts.pages.as_chunks::<4>().0 {
            self.job
                .pages
                .push(origin.address(u32::from_le_bytes(*page)).0);
        }
        let checked = parts.count(Count::Checked).checked_sub(1);
        let stolen = parts.count(Count::Stolen).checked_sub(1);
        let stolen = stolen.map(|r| r as u8).filter(|r| *r < 16);
        let fragment = Fragment {
            app,
            prefix: Prefix::NONE,
            entry: code.at(0),
            checked: checked.map(|at| code.at(at)),
            end: code.at(code.here()),
            stolen,
            homes: 0,
            first_step: first_step as u32,
            steps: parts.count(Count::Steps) as u16,
            insns: parts.count(Count::Insns) as u16,
            block,
            span,
            source: None,
            guarded: false,
            strides: strides & STRIDES != 0,
            state: FragmentState::Live,
            head: Start::Unknown,
            first_link: UNLINKED,
            older: UNLINKED,
        };
        if self.config.audit {
            self.job.work.clear();
            for range in parts.work.as_chunks::<4>().0 {
                let (from, to) = (u16_at(range, 0), u16_at(range, 2));
                self.job.work.push((from.into(), to.into()));
            }
            site.cache
                .mark(arena, code.at(0), code.here(), &self.job.work);
        }
        if self.brief_until == Some(app) {
            self.brief_until = None;
        }
        let (code, stubs) = (code.here(), stubs.here());
        Some(
            site.cache
                .place(arena, code, stubs, fragment, &self.job.pages),
        )
    }

    /// Whether the app's code is what a record was made from.
    fn compare(
        &self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        origin: Origin,
        region: usize,
    ) -> Option<()> {
        let mapping = &mut site.regions.known[region];
        let range = mapping.range;
        let mut app = Cursor(parts.app);
        for source in parts.sources.as_chunks::<SOURCE>().0 {
            let start = origin.address(u32_at(source, 0)).0;
            let len = usize::from(u16_at(source, 4));
            let expected = app.take(len)?;
            let end = start.checked_add(len as u64)?;
            if start < range.start || end > range.end || len == 0 {
                return None;
            }
            let mut page = start & !(PAGE - 1);
            while page < end {
                mapping.page_is_readable(page).then_some(())?;
                page += PAGE;
            }
            // SAFETY: in the region, which is mapped and not writable, and each page can be read.
            let there = unsafe { core::slice::from_raw_parts(start as *const u8, len) };
            same(there, expected).then_some(())?;
        }
        Some(())
    }
}

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Code of the app will be compared soon.
fn prefetch_code(at: AppPc) {
    for line in 0..2 {
        let at = (at.0 + line * LINE) as *const i8;
        // SAFETY: a prefetch reads nothing and does not fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
}

/// Appends a range of app code.
fn put_source(to: &mut Vec<u8>, offset: u32, len: u64) -> Option<()> {
    let len = u16::try_from(len).ok()?;
    to.extend(offset.to_le_bytes());
    to.extend(len.to_le_bytes());
    to.extend([0, 0]);
    Some(())
}

fn take_steps<'a>(
    from: impl Iterator<Item = &'a [u8; STEP]>,
    to: &mut Vec<Step>,
    within: impl Fn(u32) -> Option<AppPc>,
) -> Option<()> {
    for bytes in from {
        to.push(Step {
            cache: u16_at(bytes, 0),
            copied: u16_at(bytes, 2),
            events: bytes[11].into(),
            values: 0,
            way: 0,
            app: within(u32_at(bytes, 4))?,
            spilled: Spilled::from_bits(bytes[8]),
            at_fault: Spilled::from_bits(bytes[9]),
            far: Some(Reg(bytes[10])).filter(|r| r.0 < 16),
            recipe: 0,
        });
    }
    Some(())
}

/// Numbers the exits of a record and makes their stubs.
fn take_exits(
    from: &[[u8; EXIT]],
    to: &mut Vec<Exit>,
    code: &mut Code<'_>,
    stubs: &mut Code<'_>,
    first: u32,
    within: impl Fn(u32) -> Option<AppPc>,
) -> Option<()> {
    for (n, bytes) in (0..).zip(from) {
        let at = usize::from(u16_at(bytes, 0));
        let flags = bytes[9];
        let stub = match flags & HAS_STUB {
            0 => 0,
            _ if at + 4 > code.here() => return None,
            _ => {
                let stub = stubs.at(stubs.here());
                let rel = (stub.0 as i64 - code.at(at).0 as i64 - 4) as i32;
                code.put_u32(at, rel as u32);
                stubs.store_gs_imm32(slot!(exit), first.wrapping_add(n));
                stubs.jmp_gs(slot!(entry.exit));
                rel
            }
        };
        to.push(Exit {
            patch: match flags & (HAS_STUB | IN_FRONT_OF_CALL) {
                0 => CachePc(0),
                _ if at > code.here() => return None,
                _ => code.at(at),
            },
            target: within(u32_at(bytes, 4))?,
            prefix: match flags & SAMPLED {
                0 => Prefix::NONE,
                _ => Prefix::SAMPLED,
            },
            stub,
            insns: u16_at(bytes, 2),
            way: way_of(bytes[8])?,
            counts: flags & COUNTS_TRACES != 0,
            to: UNLINKED,
            next_link: UNLINKED,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests;
