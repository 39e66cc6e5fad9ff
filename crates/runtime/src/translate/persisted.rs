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
//! *Where paths are counted* a record has what the dictionary says of the fragment: the events of its block, its paths, and the
//! indirect branch that is counted. They get numbers and a key of this run when it is brought back.
//!
//! A fragment that cannot be told so is not kept: one with operands out of reach, of code that may change or is not of one
//! region of a file, one that records, and traces.
//!
//! # Why it is correct
//! * Two mappings of one file, translated at different addresses, must give the same records, bit for bit; a field that
//!   nobody noted would differ. The tests of this module do that with all functions of the C library.
//! * What was looked at beside the fragment's own code, to know whether flags are used behind it, is compared like that.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use trommel_queue::dict::{Event, Passed, TargetPc};
use trommel_queue::persist::Head;

use super::{MAX_FRAGMENT, MAX_STUBS, PAGE, Site, Translator};
use crate::area::COUNTERS_OFFSET;
use crate::bytes::same;
use crate::cache::{AppPc, CachePc, Exit, Fragment, FragmentState, Head as Start};
use crate::cache::{Spilled, Step, UNLINKED, Way};
use crate::decode::Insn;
use crate::deliver::Shared;
use crate::emit::{Code, Reg};
use crate::pages::page_of;
use crate::pairs::{Branch, Key};
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
    /// 32 bits: where a path is counted. In a record, which of the fragment's paths.
    Counter = 5,
    /// 32 bits: the key of the indirect branch that is counted. In a record, 0.
    Key = 6,
}

impl Field {
    const ALL: [Self; 7] = [
        Self::Relative,
        Self::Absolute,
        Self::Negative,
        Self::Low,
        Self::Exit,
        Self::Counter,
        Self::Key,
    ];
}

/// A path of the fragment being made.
#[derive(Clone, Copy)]
pub(super) struct Numbered {
    pub(super) number: u32,
    pub(super) block: u32,
    pub(super) passed: Passed,
    pub(super) tail: Option<Event>,
}

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
    record: Vec<u8>,
    /// The numbers of the paths of what is brought back.
    numbers: Vec<u32>,
    /// Bytes of app code in what was loaded last.
    loaded_app_bytes: u64,
}

/// Numbers in front of a record's lists.
const COUNTS: usize = 15;
/// Bytes of a step, an exit, a range of app code, an event, a path, an indirect branch.
const STEP: usize = 12;
const EXIT: usize = 12;
const SOURCE: usize = 8;
const EVENT: usize = 12;
const PATH: usize = 8;
const BRANCH: usize = 12;
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
    /// Those of the block, then the tails of paths.
    events: &'a [u8],
    paths: &'a [u8],
    branches: &'a [u8],
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
    /// Of the fragment itself.
    Sources,
    /// And of what was looked at behind it.
    Looked,
    Work,
    /// Where the code lay in a cache line.
    Phase,
    /// Of the block.
    Events,
    /// Of paths.
    Tails,
    Paths,
    /// One at most.
    Branches,
}

impl<'a> Parts<'a> {
    fn of(record: &'a [u8]) -> Option<Self> {
        let mut rest = Cursor(record);
        let head = rest.take(2 * COUNTS + 8)?;
        let counts = core::array::from_fn(|n| u16_at(head, 2 * n));
        let n = |count: Count| usize::from(counts[count as usize]);
        let steps = rest.take(STEP * n(Count::Steps))?;
        let exits = rest.take(EXIT * n(Count::Exits))?;
        let sources = rest.take(SOURCE * (n(Count::Sources) + n(Count::Looked)))?;
        let pages = rest.take(4 * n(Count::Pages))?;
        let fields = rest.take(4 * n(Count::Fields))?;
        let work = rest.take(4 * n(Count::Work))?;
        let events = rest.take(EVENT * (n(Count::Events) + n(Count::Tails)))?;
        let paths = rest.take(PATH * n(Count::Paths))?;
        let branches = rest.take(BRANCH * n(Count::Branches))?;
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
            events,
            paths,
            branches,
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
        self.paths.clear();
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
        self.notes.fields.push((field, at as u16));
    }

    /// The fragment being made has this path.
    pub(super) fn note_path(&mut self, path: Numbered) {
        self.notes.paths.push(path);
    }

    /// The fragment being made ends in this branch, which is counted.
    pub(super) fn note_branch(&mut self, branch: Branch) {
        self.notes.branch = Some(branch);
    }

    /// The fragment being made depends on code that is not its own.
    pub(super) fn note_look(&mut self, from: AppPc, to: AppPc) {
        let looked = &mut self.notes.looked;
        if !looked.iter().any(|l| l.0 <= from && to <= l.1) {
            looked.push((from, to));
        }
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
        let fit = !self.notes.unfit
            && !self.trace
            && !self.short
            && !self.from.made
            && self.from.is_usual()
            && self.tells_what_it_counts();
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
        self.notes.record = record;
    }

    /// The record of a fragment; `None` where it cannot be told so.
    fn put_together(
        &self,
        to: &mut Vec<u8>,
        fragment: &Fragment,
        shared: &Shared,
        (origin, region): (Origin, region::Range),
        (steps, exits): (&[Step], &[Exit]),
    ) -> Option<()> {
        let within = |pc: AppPc| origin.offset(pc).filter(|_| region.holds(pc));
        let span = [
            within(AppPc(fragment.span.start))?,
            within(AppPc(fragment.span.end - 1))?,
        ];
        let begins = fragment.entry == self.code.at(0);
        if !begins || fragment.stolen.is_some() || fragment.homes != 0 {
            return None;
        }
        let start = self.code.at(0);
        let code = self.code.bytes();
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
                | flag(call, IN_FRONT_OF_CALL);
            to.extend(patch.to_le_bytes());
            to.extend(exit.insns.to_le_bytes());
            to.extend(within(exit.target)?.to_le_bytes());
            to.extend([number_of(exit.way)?, flags, 0, 0]);
        }
        let sources = self.list_sources(to, origin)?;
        for &(from, end) in &self.notes.looked {
            within(AppPc(end.0 - 1))?;
            put_source(to, within(from)?, end.0 - from.0)?;
        }
        for &page in &self.pages {
            let of_region = page >= page_of(region.start) && page < region.end;
            let offset = origin.offset(AppPc(page)).filter(|_| of_region)?;
            to.extend(offset.to_le_bytes());
        }
        for &(field, at) in &self.notes.fields {
            to.extend(at.to_le_bytes());
            to.extend([field as u8, 0]);
        }
        for &(from, end) in &self.work {
            to.extend(u16::try_from(from).ok()?.to_le_bytes());
            to.extend(u16::try_from(end).ok()?.to_le_bytes());
        }
        let (events, tails) = self.list_paths(to, fragment, shared, within)?;
        for insn in &self.insns[..self.count] {
            to.extend_from_slice(self.bytes_of(insn));
        }
        for &(from, end) in &self.notes.looked {
            // SAFETY: in the region, and read for this fragment.
            let looked = unsafe {
                core::slice::from_raw_parts(from.0 as *const u8, (end.0 - from.0) as usize)
            };
            to.extend_from_slice(looked);
        }
        let code_at = to.len();
        to.extend_from_slice(code);
        let first_number = self.notes.first_exit.1;
        let copy = &mut to[code_at..];
        let path = |number: u32| self.notes.paths.iter().position(|p| p.number == number);
        let numbers = (first_number, &path as &dyn Fn(u32) -> Option<usize>);
        without_addresses(copy, start, &self.notes.fields, numbers, origin, exits)?;
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
            small(self.notes.looked.len())?,
            small(self.work.len())?,
            (start.0 % LINE) as u16,
            small(events)?,
            small(tails)?,
            small(self.notes.paths.len())?,
            self.notes.branch.is_some().into(),
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
            put_source(to, origin.offset(first.pc())?, end.0 - first.pc().0)?;
            listed += 1;
        }
        Some(listed)
    }

    /// What the dictionary says of the fragment, and how many events of its block and tails there are.
    fn list_paths(
        &self,
        to: &mut Vec<u8>,
        fragment: &Fragment,
        shared: &Shared,
        within: impl Fn(AppPc) -> Option<u32> + Copy,
    ) -> Option<(usize, usize)> {
        let (mut events, mut tails) = (0, 0);
        let own = fragment.block;
        if let Some(block) = own {
            for event in shared.events_of(block) {
                put_event(to, event?, within)?;
                events += 1;
            }
        }
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let is_own = |block: u32| flag(own == Some(block), OWN);
        for tail in self.notes.paths.iter().filter_map(|path| path.tail) {
            put_event(to, tail, within)?;
            tails += 1;
        }
        for path in &self.notes.paths {
            to.extend(path.passed.first.to_le_bytes());
            to.extend(path.passed.end.to_le_bytes());
            to.extend([
                is_own(path.block) | flag(path.tail.is_some(), TAIL),
                0,
                0,
                0,
            ]);
        }
        if let Some(branch) = self.notes.branch {
            let (block, passed) = branch.block;
            to.extend(within(branch.pc)?.to_le_bytes());
            to.extend(passed.first.to_le_bytes());
            to.extend(passed.end.to_le_bytes());
            to.extend([is_own(block) | flag(branch.call, CALL), 0, 0, 0]);
        }
        Some((events, tails))
    }

    /// Whether a record can tell all that the fragment being made counts, and one that is brought back counts all that it is to.
    fn tells_what_it_counts(&self) -> bool {
        self.config.kinds.is_empty() || self.config.counters && !self.config.wants_values()
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
        site.persist
            .as_ref()
            .filter(|_| self.tells_what_it_counts())?;
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
        let block = taken.and_then(|()| self.bring_paths(site, parts, &mut code, within));
        let Some(block) = block else {
            site.cache.steps.truncate(first_step);
            site.cache.exits.truncate(first_exit);
            return None;
        };
        stress::fail(Place::Translate);
        let own = parts.sources.as_chunks::<SOURCE>().0.iter();
        let own = own.take(parts.count(Count::Sources));
        let bytes: u64 = own.map(|source| u64::from(u16_at(source, 4))).sum();
        self.notes.loaded_app_bytes += bytes;
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
            block,
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

    /// Whether what a record counts can be counted.
    fn have_room_for(&self, site: &Site<'_>, parts: &Parts<'_>) -> Option<()> {
        let paths = parts.count(Count::Paths) as u32;
        let all = site.shared.paths().checked_add(paths)?;
        let counted = paths == 0 || self.counter(all - 1).is_some();
        let branches = parts.count(Count::Branches);
        let keyed = branches == 0 || self.config.counters && site.pairs.have_room_for(branches);
        (counted && keyed).then_some(())
    }

    /// Tells the dictionary what a record says of its fragment, and numbers what the code counts. Returns its block.
    fn bring_paths(
        &mut self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        code: &mut Code<'_>,
        within: impl Fn(u32) -> Option<AppPc> + Copy,
    ) -> Option<Option<u32>> {
        self.notes.numbers.clear();
        let events = parts.events.as_chunks::<EVENT>().0;
        let (of_block, tails) = events.split_at_checked(parts.count(Count::Events))?;
        site.shared.open_block().ok()?;
        for event in of_block {
            site.shared.event(event_of(event, within)?);
        }
        let own = site.shared.close_block();
        let mut empty = None;
        let mut block_of = |site: &mut Site<'_>, flags: u8, passed: Passed| {
            let most = match flags & OWN {
                0 => 0,
                _ => of_block.len(),
            };
            let valid = passed.first <= passed.end && usize::from(passed.end) <= most;
            valid.then_some(())?;
            match flags & OWN {
                0 => {
                    empty = match empty {
                        None => site.shared.empty_block().ok(),
                        made => made,
                    };
                    empty
                }
                _ => own,
            }
        };
        let mut tails = tails.iter();
        for path in parts.paths.as_chunks::<PATH>().0 {
            let passed = Passed {
                first: u16_at(path, 0),
                end: u16_at(path, 2),
            };
            let tail = match path[4] & TAIL {
                0 => None,
                _ => Some(event_of(tails.next()?, within)?),
            };
            let block = block_of(site, path[4], passed)?;
            let number = site.shared.path(block, passed, tail).ok()?;
            self.notes.numbers.push(number);
        }
        let mut key = Key::NONE;
        if let Some(branch) = parts.branches.as_chunks::<BRANCH>().0.first() {
            let passed = Passed {
                first: u16_at(branch, 4),
                end: u16_at(branch, 6),
            };
            let block = block_of(site, branch[8], passed)?;
            key = site.pairs.key(Branch {
                block: (block, passed),
                pc: within(u32_at(branch, 0))?,
                call: branch[8] & CALL != 0,
                edition: site.cache.edition(),
            });
        }
        for field in parts.fields() {
            match field? {
                (Field::Counter, at) => {
                    let path = u32_at(parts.code, at) as usize;
                    let number = self.notes.numbers.get(path)?;
                    code.put_u32(at, self.counter(*number)?.0);
                }
                (Field::Key, _) if key == Key::NONE => return None,
                (Field::Key, at) => code.put_u32(at, key.offset().into()),
                _ => {}
            }
        }
        Some(own)
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

/// Appends a range of app code.
fn put_source(to: &mut Vec<u8>, offset: u32, len: u64) -> Option<()> {
    let len = u16::try_from(len).ok()?;
    to.extend(offset.to_le_bytes());
    to.extend(len.to_le_bytes());
    to.extend([0, 0]);
    Some(())
}

/// In a path's or branch's flags: of the fragment's own block; there is a tail; it is a call.
const OWN: u8 = 1;
const TAIL: u8 = 2;
const CALL: u8 = 4;

/// What an event is.
const NOT_TAKEN: u8 = 0;
const TAKEN: u8 = 1;
const CALLS: u8 = 2;

/// Appends an event; `None` where it is of none of the kinds that are counted.
fn put_event(to: &mut Vec<u8>, event: Event, within: impl Fn(AppPc) -> Option<u32>) -> Option<()> {
    let (what, len, pc, target) = match event {
        Event::Branch {
            pc,
            len,
            target,
            taken,
        } => (if taken { TAKEN } else { NOT_TAKEN }, len, pc, target),
        Event::Call { pc, target } => (CALLS, 0, pc, target),
        _ => return None,
    };
    to.extend([what, len, 0, 0]);
    to.extend(within(AppPc(pc.0))?.to_le_bytes());
    to.extend(within(AppPc(target.0))?.to_le_bytes());
    Some(())
}

fn event_of(bytes: &[u8; EVENT], within: impl Fn(u32) -> Option<AppPc>) -> Option<Event> {
    let address = |at: usize| Some(TargetPc(within(u32_at(bytes, at))?.0));
    let (pc, target) = (address(4)?, address(8)?);
    match bytes[0] {
        what @ (NOT_TAKEN | TAKEN) => Some(Event::Branch {
            pc,
            len: bytes[1],
            target,
            taken: what == TAKEN,
        }),
        CALLS => Some(Event::Call { pc, target }),
        _ => None,
    }
}

/// The number of the path that is counted at an offset of the area.
fn path_at(counter: u32) -> Option<u32> {
    let into = counter.checked_sub(COUNTERS_OFFSET as u32)?;
    Some(into / 8)
}

/// Takes addresses out of a copy of a fragment's code, which begins at `start`. `numbers`: of its first exit, and which of its paths one is.
fn without_addresses(
    code: &mut [u8],
    start: CachePc,
    fields: &[(Field, u16)],
    (first_number, path): (u32, &dyn Fn(u32) -> Option<usize>),
    origin: Origin,
    exits: &[Exit],
) -> Option<()> {
    let base = origin.base;
    // The place of a displacement to a stub is left empty.
    for exit in exits.iter().filter(|exit| exit.stub != 0) {
        let at = (exit.patch.0 - start.0) as usize;
        code.get_mut(at..at + 4)?.fill(0);
    }
    for &(field, at) in fields {
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
            Field::Counter => put32(code, at, path(path_at(word)?)? as u32),
            Field::Key => put32(code, at, 0),
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
            // When they have numbers.
            Field::Counter | Field::Key => {}
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
