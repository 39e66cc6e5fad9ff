//! Fragments of records that an earlier run has left.
#![allow(unsafe_code)] // reason: reads the app's code, and code in the cache.

use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::LINE;
use super::fields::with_addresses;
use super::parts::{
    BEFORE_CALL, COUNTS_TRACES, Count, Cursor, EXIT, HAS_STUB, Parts, SAMPLED, SOURCE, STEP,
    STRIDES, u16_at, u32_at, way_of,
};
use crate::base::address::{AppPc, CachePc, Range};
use crate::base::emit::{Code, Reg};
use crate::base::ids::{EntryId, ExitId, FragmentId};
use crate::base::prefix::Prefix;
use crate::base::stress::{self, FailurePoint};
use crate::cache::{Exit, Fragment, FragmentState, Head as Start, Spilled, Step, UNLINKED};
use crate::channel::persist::Origin;
use crate::crossing::arch::is_same;
use crate::memory::pages::PAGE;
use crate::slot;
use crate::translate::{MAX_FRAGMENT, MAX_STUBS, Site, Translator};

impl Translator {
    /// Takes the fragment of `app` from an earlier run, and at most `ahead` of those that were made after it there.
    /// The numbers of these are added to `loaded`. `None` when there is none, or its code is another.
    pub fn load(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        ahead: usize,
        loaded: &mut Vec<FragmentId>,
    ) -> Option<FragmentId> {
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
    pub(super) fn bring_back(
        &mut self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        app: AppPc,
        origin: Origin,
        region: usize,
    ) -> Option<FragmentId> {
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
        let exits = parts.count(Count::Exits) as u32;
        with_addresses(&mut code, parts, origin, first, exits)?;
        self.have_room_for(site, parts)?;
        let before = (site.cache.steps.len(), site.cache.exits.len());
        let block = self.bring_lists(site, parts, app, (&mut code, &mut stubs), within);
        let Some(block) = block else {
            site.cache.steps.truncate(before.0);
            site.cache.exits.truncate(before.1);
            return None;
        };
        stress::fail(FailurePoint::Translate);
        self.note_brought(parts, origin);
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
            promoted: 0,
            first_step: before.0 as u32,
            steps: parts.count(Count::Steps) as u16,
            insns: parts.count(Count::Insns) as u16,
            block,
            span,
            source: None,
            guarded: false,
            strides: parts.counts[Count::Ways as usize] & STRIDES != 0,
            state: FragmentState::Live,
            head: Start::Unknown,
            first_link: UNLINKED,
            probes: 0,
            operations: 0,
            older: FragmentId::NONE,
        };
        if self.config.audit {
            site.cache
                .mark(arena, code.at(0), code.here(), &self.job.work);
        }
        if self.brief_until == Some(app) {
            self.brief_until = None;
        }
        let (code, stubs) = (code.here(), stubs.here());
        let pages = &self.job.pages;
        Some(site.cache.place(arena, code, stubs, fragment, pages))
    }

    /// Steps, exits, and what the dictionary says of a record's fragment. Returns its block.
    fn bring_lists(
        &mut self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        app: AppPc,
        (code, stubs): (&mut Code<'_>, &mut Code<'_>),
        within: impl Fn(u32) -> Option<AppPc> + Copy,
    ) -> Option<Option<EntryId>> {
        let first = site.cache.next_exit();
        let steps = parts.steps.as_chunks::<STEP>().0.iter();
        take_steps(steps, &mut site.cache.steps, within)?;
        let exits = parts.exits.as_chunks::<EXIT>().0;
        take_exits(exits, &mut site.cache.exits, code, stubs, first, within)?;
        let word = parts.counts[Count::Ways as usize];
        self.ways_bring(site, app, word).ok()?;
        self.bring_paths(site, parts, code, within)
    }

    /// Takes note of what is about a record's fragment.
    fn note_brought(&mut self, parts: &Parts<'_>, origin: Origin) {
        let own = parts.sources.as_chunks::<SOURCE>().0.iter();
        let own = own.take(parts.count(Count::Sources));
        let bytes: u64 = own.map(|source| u64::from(u16_at(source, 4))).sum();
        self.job.notes.loaded_app_bytes += bytes;
        self.job.pages.clear();
        for page in parts.pages.as_chunks::<4>().0 {
            let page = origin.address(u32::from_le_bytes(*page));
            self.job.pages.push(page.0);
        }
        if self.config.audit {
            self.job.work.clear();
            for range in parts.work.as_chunks::<4>().0 {
                let (from, to) = (u16_at(range, 0), u16_at(range, 2));
                self.job.work.push((from.into(), to.into()));
            }
        }
    }

    /// Compares the app's code with that from which a record was made.
    fn compare(
        &self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        origin: Origin,
        region: usize,
    ) -> Option<()> {
        let range = site.regions.known[region].range;
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
                site.regions.page_is_readable(region, page).then_some(())?;
                page += PAGE;
            }
            // SAFETY: what is expected is there.
            let same = unsafe { is_same(start, expected.as_ptr(), len as u64) };
            (same == 1).then_some(())?;
        }
        Some(())
    }
}

/// Code of the app will be compared soon.
fn prefetch_code(at: AppPc) {
    for line in 0..2 {
        let at = (at.0 + line * LINE) as *const i8;
        // SAFETY: a prefetch reads nothing and does not fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
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
    first: ExitId,
    within: impl Fn(u32) -> Option<AppPc>,
) -> Option<()> {
    for (n, bytes) in from.iter().enumerate() {
        let at = usize::from(u16_at(bytes, 0));
        let flags = bytes[9];
        let stub = match flags & HAS_STUB {
            0 => 0,
            _ if at + 4 > code.here() => return None,
            _ => {
                let stub = stubs.at(stubs.here());
                let rel = (stub.0 as i64 - code.at(at).0 as i64 - 4) as i32;
                code.put_u32(at, rel as u32);
                stubs.store_gs_imm32(slot!(exit), first.plus(n).0);
                stubs.jmp_gs(slot!(entry.exit));
                rel
            }
        };
        to.push(Exit {
            patch: match flags & (HAS_STUB | BEFORE_CALL) {
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
            to: FragmentId::NONE,
            next_link: UNLINKED,
        });
    }
    Some(())
}
