//! The record of a fragment that has just been written.
#![allow(unsafe_code)] // reason: reads the app's code, and code in the cache.

use alloc::vec::Vec;

use trommel_queue::persist::Head;

use super::LINE;
use super::fields::{Numbers, without_addresses};
use super::parts::{BEFORE_CALL, COUNTS, COUNTS_TRACES, HAS_STUB, NONE, SAMPLED, number_of};
use crate::base::address::{AppPc, CachePc, Range};
use crate::base::decode::Insn;
use crate::base::ids::ExitNumber;
use crate::base::prefix::Prefix;
use crate::cache::{Exit, Fragment, Step};
use crate::channel::dictionary::Shared;
use crate::channel::persist::Origin;
use crate::memory::pages::page_of;
use crate::translate::{Site, Translator};

impl Translator {
    /// Keeps the fragment that has just been written, if it can be used again.
    pub(in crate::translate) fn keep(&mut self, site: &mut Site<'_>, fragment: &Fragment) {
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

    /// The record of a fragment; `None` if a record cannot hold it.
    pub(super) fn put_together(
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
        let start = self.job.code.at(0);
        let late = fragment.stolen.is_none() || self.needs.late;
        if fragment.entry != start || !late || fragment.promoted != 0 {
            return None;
        }
        to.clear();
        to.resize(Head::BYTES + 2 * COUNTS, 0);
        span.iter().for_each(|at| to.extend(at.to_le_bytes()));
        put_steps(to, steps, within)?;
        put_exits(to, exits, start, within)?;
        let sources = self.list_sources(to, origin)?;
        for &(from, end) in &self.job.notes.looked {
            within(AppPc(end.0 - 1))?;
            put_source(to, within(from)?, end.0 - from.0)?;
        }
        self.list_places(to, (origin, region))?;
        let (events, tails) = self.list_paths(to, fragment, shared, within)?;
        self.list_bytes(to);
        let code_at = to.len();
        to.extend_from_slice(self.job.code.bytes());
        let copy = &mut to[code_at..];
        let paths = &self.job.notes.paths;
        let path = |number: ExitNumber| paths.iter().position(|p| p.number == number);
        let numbers = Numbers {
            exit: self.job.notes.first_exit.1,
            path: &path,
            stratum: &|at| self.stratum_at(at),
        };
        without_addresses(copy, start, &self.job.notes.fields, &numbers, origin, exits)?;
        let offset = |at: CachePc| u16::try_from(at.0 - start.0).ok();
        let small = |n: usize| u16::try_from(n).ok();
        let counts = [
            small(self.job.code.here())?,
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
            self.ways_word(),
        ];
        let places = to[Head::BYTES..].as_chunks_mut::<2>().0.iter_mut();
        for (place, count) in places.zip(counts) {
            *place = count.to_le_bytes();
        }
        Some(())
    }

    /// Its pages, its fields, and what of it does the app's work.
    fn list_places(&self, to: &mut Vec<u8>, (origin, region): (Origin, Range)) -> Option<()> {
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
        Some(())
    }

    /// The app's code that it is made from, and what was looked at after it.
    fn list_bytes(&self, to: &mut Vec<u8>) {
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
    }

    /// Returns the index of the fragment's path to which the sampler's counter at an offset of the code belongs.
    pub(super) fn stratum_at(&self, at: usize) -> Option<usize> {
        let counted = self.job.notes.counted.iter();
        let (_, path) = counted
            .copied()
            .find(|&(there, _)| usize::from(there) == at)?;
        self.job.notes.paths.iter().position(|p| p.number == path)
    }

    /// Lists the places of the fragment's instructions; adjacent ones are listed as one.
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
}

/// Appends steps.
fn put_steps(
    to: &mut Vec<u8>,
    steps: &[Step],
    within: impl Fn(AppPc) -> Option<u32>,
) -> Option<()> {
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
    Some(())
}

/// Appends the exits of code that begins at `start`.
fn put_exits(
    to: &mut Vec<u8>,
    exits: &[Exit],
    start: CachePc,
    within: impl Fn(AppPc) -> Option<u32>,
) -> Option<()> {
    for exit in exits {
        let call = exit.stub == 0 && exit.patch.0 != 0;
        let patch = match exit.patch.0 {
            0 => 0,
            at => u16::try_from(at.checked_sub(start.0)?).ok()?,
        };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(exit.stub != 0, HAS_STUB)
            | flag(exit.counts, COUNTS_TRACES)
            | flag(call, BEFORE_CALL)
            | flag(exit.prefix == Prefix::SAMPLED, SAMPLED);
        to.extend(patch.to_le_bytes());
        to.extend(exit.insns.to_le_bytes());
        to.extend(within(exit.target)?.to_le_bytes());
        to.extend([number_of(exit.way)?, flags, 0, 0]);
    }
    Some(())
}

/// Appends a range of app code.
fn put_source(to: &mut Vec<u8>, offset: u32, len: u64) -> Option<()> {
    let len = u16::try_from(len).ok()?;
    to.extend(offset.to_le_bytes());
    to.extend(len.to_le_bytes());
    to.extend([0, 0]);
    Some(())
}
