//! Fragments without addresses, and back ([`crate::persist`]).
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
//! A fragment that cannot be told so is not kept: one with operands out of reach, of code that may change or is not of one
//! region of a file, and traces.
//!
//! # Why it is correct
//! Two mappings of one file, translated at different addresses, must give the same records, bit for bit; a field that
//! nobody noted would differ. The tests of this module do that with all functions of the C library.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use trommel_queue::persist::Head;

use super::{MAX_FRAGMENT, MAX_STUBS, PAGE, Site, Translator};
use crate::bytes::same;
use crate::cache::{AppPc, CachePc, Exit, Fragment, FragmentState, Head as Start};
use crate::cache::{Spilled, Step, UNLINKED, Way};
use crate::decode::Insn;
use crate::emit::{Code, Reg};
use crate::persist::Origin;
use crate::region;
use crate::slot;
use crate::stress::{self, Place};

/// A field of a fragment's code that depends on addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Field {
    /// 32 bits: an address of the app, relative to the code.
    Relative = 0,
    /// 64 bits: an address of the app.
    Absolute = 1,
    /// 64 bits: the negative of one.
    Negative = 2,
    /// 32 bits: an address of the app that is less than two to the power of 31.
    Low = 3,
    /// 32 bits: the number of an exit.
    Exit = 4,
}

impl Field {
    const ALL: [Self; 5] = [
        Self::Relative,
        Self::Absolute,
        Self::Negative,
        Self::Low,
        Self::Exit,
    ];
}

/// Fields of the fragment being made, and whether it can be kept.
#[derive(Default)]
pub(super) struct Notes {
    fields: Vec<(Field, u16)>,
    /// Something in it depends on addresses in another way.
    unfit: bool,
    /// The first of its exits, as an index in [`crate::cache::Cache::exits`], and its number.
    first_exit: (usize, u32),
    /// The record being made.
    record: Vec<u8>,
    /// Bytes of app code in what was loaded last.
    loaded_app_bytes: u64,
}

/// Numbers in front of a record's lists.
const COUNTS: usize = 10;
/// Bytes of a step, an exit, a range of app code.
const STEP: usize = 12;
const EXIT: usize = 12;
const SOURCE: usize = 8;
/// Records that are looked at behind one.
pub const AHEAD: usize = 128;
/// No register.
const NONE: u8 = 0xff;

impl Spilled {
    fn bits(self) -> u8 {
        let all = [self.rcx, self.rdx, self.stolen, self.flags, self.homes];
        (all.iter().rev()).fold(0, |bits, &one| bits << 1 | u8::from(one))
    }

    fn from_bits(bits: u8) -> Self {
        let bit = |n: u8| bits >> n & 1 != 0;
        Self {
            rcx: bit(0),
            rdx: bit(1),
            stolen: bit(2),
            flags: bit(3),
            homes: bit(4),
        }
    }
}

/// Reads lists of numbers.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A record taken apart.
struct Parts<'a> {
    counts: [u16; COUNTS],
    span: [u32; 2],
    steps: &'a [u8],
    exits: &'a [u8],
    sources: &'a [u8],
    pages: &'a [u8],
    fields: &'a [u8],
    work: &'a [u8],
    app: &'a [u8],
    code: &'a [u8],
}

/// Which number is what.
#[derive(Clone, Copy)]
enum Count {
    Code,
    /// Plus one; 0 for none.
    Checked,
    Insns,
    Steps,
    Exits,
    Fields,
    Pages,
    Sources,
    Work,
    /// Where the code lay in a cache line.
    Phase,
}

impl<'a> Parts<'a> {
    fn of(record: &'a [u8]) -> Option<Self> {
        let mut rest = Cursor(record);
        let head = rest.take(2 * COUNTS + 8)?;
        let counts = core::array::from_fn(|n| u16_at(head, 2 * n));
        let n = |count: Count| usize::from(counts[count as usize]);
        let steps = rest.take(STEP * n(Count::Steps))?;
        let exits = rest.take(EXIT * n(Count::Exits))?;
        let sources = rest.take(SOURCE * n(Count::Sources))?;
        let pages = rest.take(4 * n(Count::Pages))?;
        let fields = rest.take(4 * n(Count::Fields))?;
        let work = rest.take(4 * n(Count::Work))?;
        let lens = sources.as_chunks::<SOURCE>().0.iter();
        let app = rest.take(lens.map(|s| usize::from(u16_at(s, 4))).sum())?;
        let code = rest.take(n(Count::Code))?;
        (n(Count::Checked) <= code.len()).then_some(Self {
            counts,
            span: [u32_at(head, 2 * COUNTS), u32_at(head, 2 * COUNTS + 4)],
            steps,
            exits,
            sources,
            pages,
            fields,
            work,
            app,
            code,
        })
    }

    fn count(&self, count: Count) -> usize {
        usize::from(self.counts[count as usize])
    }

    /// Fields of the code; `None` where one is not within it.
    fn fields(&self) -> impl Iterator<Item = Option<(Field, usize)>> {
        let code = self.code.len();
        self.fields.as_chunks::<4>().0.iter().map(move |bytes| {
            let field = *Field::ALL.get(usize::from(bytes[2]))?;
            let at = usize::from(u16_at(bytes, 0));
            let len = match field {
                Field::Absolute | Field::Negative => 8,
                _ => 4,
            };
            (at + len <= code).then_some((field, at))
        })
    }
}

fn way_of(number: u8) -> Option<Way> {
    Some(match number {
        0 => Way::Forward,
        1 => Way::Backward,
        2 => Way::Call,
        3 => Way::Syscall,
        _ => return None,
    })
}

fn number_of(way: Way) -> Option<u8> {
    Some(match way {
        Way::Forward => 0,
        Way::Backward => 1,
        Way::Call => 2,
        Way::Syscall => 3,
        Way::Return | Way::Indirect | Way::Loop | Way::Site => return None,
    })
}

/// In an exit's flags.
const HAS_STUB: u8 = 1;
const COUNTS_TRACES: u8 = 2;
const IN_FRONT_OF_CALL: u8 = 4;

impl Notes {
    pub(super) fn begin(&mut self, first_exit: (usize, u32)) {
        self.fields.clear();
        self.unfit = false;
        self.first_exit = first_exit;
    }
}

impl Translator {
    /// The field at an offset of the code depends on addresses.
    #[inline]
    pub(super) fn note(&mut self, field: Field, at: usize) {
        self.notes.fields.push((field, at as u16));
    }

    /// The fragment being made depends on addresses in a way that cannot be told.
    pub(super) fn is_unfit(&mut self) {
        self.notes.unfit = true;
    }

    /// An address of the app was just written by [`Code::mov_imm`].
    pub(super) fn note_immediate(&mut self, address: AppPc) {
        let here = self.code.here();
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
        let fit = !self.notes.unfit && !self.trace && !self.from.made && self.from.is_usual();
        let region = (site.regions.known.iter()).find(|m| m.range.holds(fragment.app));
        let Some(mapping) = region.filter(|_| fit) else {
            return;
        };
        let range = mapping.range;
        let Some(origin) = persist.origin(mapping) else {
            return;
        };
        let mut record = core::mem::take(&mut self.notes.record);
        let steps = &site.cache.steps[fragment.first_step as usize..];
        let exits = &site.cache.exits[self.notes.first_exit.0..];
        if self
            .put_together(&mut record, fragment, origin, range, steps, exits)
            .is_some()
            && let Some(at) = origin.offset(fragment.app)
        {
            persist.keep(origin, at, &mut record);
        }
        self.notes.record = record;
    }

    /// The record of a fragment; `None` where it cannot be told so.
    fn put_together(
        &self,
        to: &mut Vec<u8>,
        fragment: &Fragment,
        origin: Origin,
        region: region::Range,
        steps: &[Step],
        exits: &[Exit],
    ) -> Option<()> {
        let within = |pc: AppPc| origin.offset(pc).filter(|_| region.holds(pc));
        let span = [
            within(AppPc(fragment.span.start))?,
            within(AppPc(fragment.span.end - 1))?,
        ];
        let begins = fragment.entry == self.code.at(0);
        if !begins || fragment.stolen.is_some() || fragment.block.is_some() || fragment.homes != 0 {
            return None;
        }
        let start = self.code.at(0);
        let code = self.code.bytes();
        to.clear();
        to.resize(Head::BYTES + 2 * COUNTS, 0);
        span.iter().for_each(|at| to.extend(at.to_le_bytes()));
        for step in steps {
            if step.recipe != 0 || step.events != 0 || step.values != 0 {
                return None;
            }
            to.extend(step.cache.to_le_bytes());
            to.extend(step.copied.to_le_bytes());
            to.extend(within(step.app)?.to_le_bytes());
            let far = step.far.map_or(NONE, |r| r.0);
            to.extend([step.spilled.bits(), step.at_fault.bits(), far, 0]);
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
                | flag(call, IN_FRONT_OF_CALL);
            to.extend(patch.to_le_bytes());
            to.extend(exit.insns.to_le_bytes());
            to.extend(within(exit.target)?.to_le_bytes());
            to.extend([number_of(exit.way)?, flags, 0, 0]);
        }
        let sources = self.list_sources(to, origin)?;
        for &page in &self.pages {
            to.extend(origin.offset(AppPc(page))?.to_le_bytes());
        }
        for &(field, at) in &self.notes.fields {
            to.extend(at.to_le_bytes());
            to.extend([field as u8, 0]);
        }
        for &(from, end) in &self.work {
            to.extend(u16::try_from(from).ok()?.to_le_bytes());
            to.extend(u16::try_from(end).ok()?.to_le_bytes());
        }
        for insn in &self.insns[..self.count] {
            to.extend_from_slice(self.bytes_of(insn));
        }
        let code_at = to.len();
        to.extend_from_slice(code);
        let first_number = self.notes.first_exit.1;
        let copy = &mut to[code_at..];
        without_addresses(copy, start, &self.notes, first_number, origin, exits)?;
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
            small(self.notes.fields.len())?,
            small(self.pages.len())?,
            small(sources)?,
            small(self.work.len())?,
            (start.0 % LINE) as u16,
        ];
        let places = to[Head::BYTES..].as_chunks_mut::<2>().0.iter_mut();
        for (place, count) in places.zip(counts) {
            *place = count.to_le_bytes();
        }
        Some(())
    }

    /// Where the instructions of the fragment are, what lies in a row as one.
    fn list_sources(&self, to: &mut Vec<u8>, origin: Origin) -> Option<usize> {
        let mut listed = 0;
        let mut rest = self.insns[..self.count].iter().peekable();
        while let Some(first) = rest.next() {
            let mut end = first.next();
            while let Some(next) = rest.next_if(|insn: &&Insn| insn.pc() == end) {
                end = next.next();
            }
            let len = u16::try_from(end.0 - first.pc().0).ok()?;
            to.extend(origin.offset(first.pc())?.to_le_bytes());
            to.extend(len.to_le_bytes());
            to.extend([0, 0]);
            listed += 1;
        }
        Some(listed)
    }

    /// Takes the fragment of `app` from an earlier run, and those that were made behind it there, `ahead` at most,
    /// which `loaded` tells then. `None` when there is none, or its code is another.
    pub fn load(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        ahead: usize,
        loaded: &mut Vec<u32>,
    ) -> Option<u32> {
        site.persist.as_ref()?;
        let region = Self::region(site, app).ok()?;
        let range = site.regions.known[region].range;
        let persist = site.persist.as_mut()?;
        let origin = persist.origin(&site.regions.known[region])?;
        let mut at = persist.find(origin, app)?;
        let first_exit = site.cache.exits.len();
        let mut wanted = None;
        self.notes.loaded_app_bytes = 0;
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
                // What was made behind it is of no use here.
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
        self.notes.loaded_app_bytes
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
        let span = region::Range {
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
        if taken.is_none() {
            site.cache.steps.truncate(first_step);
            site.cache.exits.truncate(first_exit);
            return None;
        }
        stress::fail(Place::Translate);
        self.notes.loaded_app_bytes += parts.app.len() as u64;
        self.pages.clear();
        for page in parts.pages.as_chunks::<4>().0 {
            self.pages.push(origin.address(u32::from_le_bytes(*page)).0);
        }
        let checked = parts.count(Count::Checked).checked_sub(1);
        let fragment = Fragment {
            app,
            entry: code.at(0),
            checked: checked.map(|at| code.at(at)),
            end: code.at(code.here()),
            stolen: None,
            homes: 0,
            first_step: first_step as u32,
            steps: parts.count(Count::Steps) as u16,
            insns: parts.count(Count::Insns) as u16,
            block: None,
            span,
            source: None,
            guarded: false,
            state: FragmentState::Live,
            head: Start::Unknown,
            first_link: UNLINKED,
            older: UNLINKED,
        };
        if self.config.audit {
            self.work.clear();
            for range in parts.work.as_chunks::<4>().0 {
                let (from, to) = (u16_at(range, 0), u16_at(range, 2));
                self.work.push((from.into(), to.into()));
            }
            site.cache.mark(arena, code.at(0), code.here(), &self.work);
        }
        if self.brief_until == Some(app) {
            self.brief_until = None;
        }
        let (code, stubs) = (code.here(), stubs.here());
        Some(site.cache.place(arena, code, stubs, fragment, &self.pages))
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

fn put32(code: &mut [u8], at: usize, word: u32) {
    code[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn put64(code: &mut [u8], at: usize, word: u64) {
    code[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Takes addresses out of a copy of a fragment's code, which begins at `start`.
fn without_addresses(
    code: &mut [u8],
    start: CachePc,
    notes: &Notes,
    first_number: u32,
    origin: Origin,
    exits: &[Exit],
) -> Option<()> {
    let base = origin.base;
    // The place of a displacement to a stub is left empty.
    for exit in exits.iter().filter(|exit| exit.stub != 0) {
        let at = (exit.patch.0 - start.0) as usize;
        code.get_mut(at..at + 4)?.fill(0);
    }
    for &(field, at) in &notes.fields {
        let at = usize::from(at);
        let word = code.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let word = u32::from_le_bytes(*word?);
        let long = code.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let long = long.map(|bytes| u64::from_le_bytes(*bytes));
        match field {
            Field::Relative => {
                let told = i64::from(word as i32) + start.0.wrapping_sub(base) as i64;
                put32(code, at, i32::try_from(told).ok()? as u32);
            }
            Field::Low => {
                let told = u64::from(word).wrapping_sub(base) as i64;
                put32(code, at, i32::try_from(told).ok()? as u32);
            }
            Field::Exit => put32(code, at, word.wrapping_sub(first_number)),
            Field::Absolute => put64(code, at, long?.wrapping_sub(base)),
            Field::Negative => put64(code, at, long?.wrapping_add(base)),
        }
    }
    Some(())
}

/// Puts addresses into the code of a record.
fn with_addresses(
    code: &mut Code<'_>,
    parts: &Parts<'_>,
    origin: Origin,
    first: u32,
    exits: u32,
) -> Option<()> {
    let start = code.at(0).0;
    let base = origin.base;
    for field in parts.fields() {
        let (field, at) = field?;
        let word = u32_at(parts.code, at);
        let told = i64::from(word as i32);
        match field {
            Field::Relative => {
                let rel = told.checked_add(base.wrapping_sub(start) as i64)?;
                code.put_u32(at, i32::try_from(rel).ok()? as u32);
            }
            Field::Low => {
                let address = told.checked_add(i64::try_from(base).ok()?)?;
                let low = i32::try_from(address).ok().filter(|&low| low >= 0)?;
                code.put_u32(at, low as u32);
            }
            Field::Exit if word < exits => code.put_u32(at, first.wrapping_add(word)),
            Field::Exit => return None,
            Field::Absolute | Field::Negative => {
                let long = parts.code.get(at..).and_then(|rest| rest.first_chunk());
                let long = u64::from_le_bytes(*long?);
                let value = match field {
                    Field::Absolute => long.wrapping_add(base),
                    _ => long.wrapping_sub(base),
                };
                code.put_u32(at, value as u32);
                code.put_u32(at + 4, (value >> 32) as u32);
            }
        }
    }
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
            events: 0,
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
