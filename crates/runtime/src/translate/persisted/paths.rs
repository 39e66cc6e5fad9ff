//! Counted paths in a record: the events of a fragment's block, its paths, and its indirect branch.

use alloc::vec::Vec;

use trommel_queue::dict::{Event, Passed, TargetPc};
use trommel_tuple::Kind;

use super::field::Field;
use super::parts::{BRANCH, Count, EVENT, PATH, Parts, u16_at, u32_at};
use crate::base::address::AppPc;
use crate::base::emit::Code;
use crate::base::ids::{EntryId, ExitNumber};
use crate::base::prefix::Key;
use crate::cache::Fragment;
use crate::channel::dictionary::Shared;
use crate::observe::pairs::Branch;
use crate::translate::{Site, Translator};

/// A path of the fragment being made.
#[derive(Clone, Copy)]
pub(in crate::translate) struct Numbered {
    pub(in crate::translate) number: ExitNumber,
    pub(in crate::translate) block: EntryId,
    pub(in crate::translate) passed: Passed,
    pub(in crate::translate) tail: Option<Event>,
    /// Messages name it.
    pub(in crate::translate) message: bool,
}

impl Translator {
    /// The fragment being made has this path.
    pub(in crate::translate) fn note_path(&mut self, path: Numbered) {
        self.job.notes.paths.push(path);
    }

    /// The fragment being made ends in this branch, which is counted.
    pub(in crate::translate) fn note_branch(&mut self, branch: Branch) {
        self.job.notes.branch = Some(branch);
    }

    /// Lists the dictionary's entries of the fragment. Returns the number of events of its block, and that of tails.
    pub(super) fn list_paths(
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
        let is_own = |block: EntryId| flag(own == Some(block), OWN);
        for tail in self.job.notes.paths.iter().filter_map(|path| path.tail) {
            put_event(to, tail, within)?;
            tails += 1;
        }
        for path in &self.job.notes.paths {
            to.extend(path.passed.first.to_le_bytes());
            to.extend(path.passed.end.to_le_bytes());
            to.extend([
                is_own(path.block) | flag(path.tail.is_some(), TAIL) | flag(path.message, MESSAGE),
                0,
                0,
                0,
            ]);
        }
        if let Some(branch) = self.job.notes.branch {
            let (block, passed) = branch.block;
            to.extend(within(branch.pc)?.to_le_bytes());
            to.extend(passed.first.to_le_bytes());
            to.extend(passed.end.to_le_bytes());
            to.extend([is_own(block) | flag(branch.call, CALL), 0, 0, 0]);
        }
        Some((events, tails))
    }

    /// Returns `Some` if there is room to count what a record counts.
    pub(super) fn have_room_for(&self, site: &Site<'_>, parts: &Parts<'_>) -> Option<()> {
        let counts = parts.count(Count::Paths) + parts.count(Count::Branches) != 0;
        let can = !counts || !self.on.is_empty();
        (can && self.ways_have_room(site, parts)).then_some(())
    }

    /// Tells the dictionary what a record says of its fragment, and numbers what the code counts. Returns its block.
    pub(super) fn bring_paths(
        &mut self,
        site: &mut Site<'_>,
        parts: &Parts<'_>,
        code: &mut Code<'_>,
        within: impl Fn(u32) -> Option<AppPc> + Copy,
    ) -> Option<Option<EntryId>> {
        self.job.notes.numbers.clear();
        self.job.notes.strata.clear();
        self.job.notes.paths.clear();
        let events = parts.events.as_chunks::<EVENT>().0;
        let (of_block, tails) = events.split_at_checked(parts.count(Count::Events))?;
        site.shared.open_block().ok()?;
        for event in of_block {
            site.shared.event(event_of(event, within)?);
        }
        let mut blocks = Blocks {
            own: site.shared.close_block(),
            events: of_block.len(),
            empty: None,
        };
        let mut tails = tails.iter();
        for path in parts.paths.as_chunks::<PATH>().0 {
            let tail = match path[4] & TAIL {
                0 => None,
                _ => Some(event_of(tails.next()?, within)?),
            };
            self.bring_path(site, path, tail, &mut blocks)?;
        }
        let key = match parts.branches.as_chunks::<BRANCH>().0.first() {
            Some(branch) => bring_branch(site, branch, &mut blocks, within)?,
            None => Key::NONE,
        };
        self.put_numbers(parts, code, key)?;
        Some(blocks.own)
    }

    /// Numbers a path of a record, or the messages about an event.
    fn bring_path(
        &mut self,
        site: &mut Site<'_>,
        path: &[u8; PATH],
        tail: Option<Event>,
        blocks: &mut Blocks,
    ) -> Option<()> {
        if path[4] & MESSAGE != 0 {
            let event = tail?;
            let number = self.message_path(site, event).ok()?;
            self.job.notes.numbers.push(number);
            let stratum = self.ways_relocate(site.regions, &event, number)?;
            self.job.notes.strata.push(stratum);
            return Some(());
        }
        let passed = Passed {
            first: u16_at(path, 0),
            end: u16_at(path, 2),
        };
        let block = blocks.of(site, path[4], passed)?;
        let number = site.shared.path(block, passed, tail).ok()?;
        self.job.notes.numbers.push(number);
        self.job.notes.strata.push(None);
        Some(())
    }

    /// Puts the numbers of this run into the code of a record, whose branch has this key.
    fn put_numbers(&self, parts: &Parts<'_>, code: &mut Code<'_>, key: Key) -> Option<()> {
        for field in parts.fields() {
            let (field, at) = field?;
            let path = || u32_at(parts.code, at) as usize;
            match field {
                Field::Counter => {
                    let number = self.job.notes.numbers.get(path())?;
                    code.put_u32(at, self.counter(*number)?.0);
                }
                Field::Message => code.put_u32(at, self.job.notes.numbers.get(path())?.0),
                Field::Stratum | Field::Sum | Field::ValueCounter => {
                    let strata = &self.job.notes.strata;
                    let (of, word) = strata.get(path()).copied().flatten()?;
                    (of == field).then_some(())?;
                    code.put_u32(at, word);
                }
                Field::Key if key == Key::NONE => return None,
                Field::Key => code.put_u32(at, key.offset().into()),
                _ => {}
            }
        }
        Some(())
    }
}

/// Blocks of the dictionary that a record's paths are of.
struct Blocks {
    /// The fragment's own, if it has events.
    own: Option<EntryId>,
    /// Number of its events.
    events: usize,
    /// One without events, once a path has needed it.
    empty: Option<EntryId>,
}

impl Blocks {
    /// Returns the block of a path with these flags, if it has the events that the path passes.
    fn of(&mut self, site: &mut Site<'_>, flags: u8, passed: Passed) -> Option<EntryId> {
        let own = flags & OWN != 0;
        let most = if own { self.events } else { 0 };
        let valid = passed.first <= passed.end && usize::from(passed.end) <= most;
        valid.then_some(())?;
        if own {
            return self.own;
        }
        if self.empty.is_none() {
            self.empty = site.shared.empty_block().ok();
        }
        self.empty
    }
}

/// Gives the indirect branch of a record its key.
fn bring_branch(
    site: &mut Site<'_>,
    branch: &[u8; BRANCH],
    blocks: &mut Blocks,
    within: impl Fn(u32) -> Option<AppPc>,
) -> Option<Key> {
    let passed = Passed {
        first: u16_at(branch, 4),
        end: u16_at(branch, 6),
    };
    let block = blocks.of(site, branch[8], passed)?;
    Some(site.pairs.key(Branch {
        block: (block, passed),
        pc: within(u32_at(branch, 0))?,
        call: branch[8] & CALL != 0,
        variant: site.cache.variant(),
    }))
}

/// Flags of a path or branch: of the fragment's own block; there is a tail; it is a call; messages name it.
const OWN: u8 = 1;
const TAIL: u8 = 2;
const CALL: u8 = 4;
const MESSAGE: u8 = 8;

/// Codes of events.
const NOT_TAKEN: u8 = 0;
const TAKEN: u8 = 1;
const CALLS: u8 = 2;
const HAS_VALUE: u8 = 3;
const AFTER_CALL: u8 = 4;

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
        Event::Dynamic { kind, pc } => (HAS_VALUE, kind as u8, pc, pc),
        Event::AfterCall { pc } => (AFTER_CALL, 0, pc, pc),
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
        AFTER_CALL => Some(Event::AfterCall { pc }),
        HAS_VALUE => {
            let kind = *Kind::ALL.get(usize::from(bytes[1]))?;
            Some(Event::Dynamic { kind, pc })
        }
        _ => None,
    }
}
