//! Acyclic paths counted in generated code.
//!
//! # Problem
//! An acyclic path ([`Kind::Path`], defined in `docs/events.md`) is its start and the outcome of each of its branches. To record each
//! fragment that is executed, and put paths together in the service thread, costs many times what the program does. To collect
//! outcomes in a word, and find its counter where the path ends, would cost something at each branch and more at each path.
//!
//! # Strategy
//! The program counter encodes the path. A fragment is made for an address *and* for the path that arrives there: its start and its
//! outcomes ([`Midway`]). Two exits that lead to one address by different ways lead to two fragments. So the meaning of every exit
//! is known when code is made, and to count paths is like counting edges: one increment, at exits where a path ends, in traces as in fragments
//! ([`crate::channel::counters`]). Where a path goes on nothing is done at all.
//!
//! Mostly a path begins where a fragment does (at the target of a call or of a backward branch, or after a return) and ends where the fragment does.
//! Further fragments are as many as executed prefixes of paths that end in a branch taken (`docs/design/history-counting.md` has numbers).
//!
//! *The host* expands counts: a fragment's block begins with [`Event::Begin`] or [`Event::Resume`], so it means the same whatever was executed before.
//!
//! *Indirect branches* distinguish pairs of branch and target ([`crate::observe::pairs`]). A pair's exit knows the path as others do. Only fragments at which
//! paths begin have checked entries, and are in the tables of indirect targets: a return or an indirect call ends its path.
//!
//! *Out of the cache* a thread has its [`Midway`] in `Thread::on_path`. An interrupted path waits in `Thread::interrupted_paths`
//! until the handler returns. Before each system call, and while a handler runs, the unfinished path stands in the thread's counter array ([`trommel_queue::ON_PATH_OFFSET`]).
//! So it is there however the program ends. If a thread computes when its program is killed, or ended by another thread, its current path is not reported.
//!
//! *Overflow.* Where many branches in a row are unpredictable, such as those of an unrolled loop, there are as many prefixes as executions. From an
//! address where more than `OVERFLOW` begin, a prefix gets a number, and fragments, when threads have arrived with it `OFTEN`. Until then they execute fragments without a known
//! prefix ([`Event::Amid`]), all exits of which lead to the dispatcher. The dispatcher follows the thread, and records the path where it ends (`Mark::Over`).
//!
//! *Too many.* With more than `MOST` prefixes, or when counter arrays or keys run out, all code is dropped and fragments are recorded from then on. The service thread puts paths
//! together. Each thread reports its position (`Mark::Resumed`).
//!
//! # Why it is correct
//! * A thread comes into a fragment by an exit, a pair or the dispatcher that leads to its address and its prefix, or by a checked entry, where a path begins.
//! * What of a fragment was executed when a thread comes out in its midst is a path of the dictionary like that of an exit, and so is the prefix.
//! * Which way an indirect jump leads is decided by what the host calls places, as the host decides it.
#![allow(unsafe_code)] // reason: writes words of the counter array.

use crate::base::ids::ExitNumber;
use crate::base::prefix::{Midway, Prefix};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use trommel_queue::ON_PATH_OFFSET;
use trommel_queue::dict::{Event, Passed, TargetPc};
use trommel_tuple::{Ended, Kind, KindSet, Outcomes, Place};

use crate::base::address::AppPc;
use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::base::stress;
use crate::channel::dictionary::Shared;
use crate::memory::region::Regions;

/// Prefixes at most.
const MOST: usize = 1 << 19;
/// Largest number of prefixes when the stress option asks for few counters.
const FEW: usize = 512;

/// Number of prefixes of paths that begin at one address, after which others get no number before threads have arrived with them [`OFTEN`].
const OVERFLOW: usize = 256;
const OVERFLOW_OF_FEW: usize = 8;
/// See [`OVERFLOW`]. A prefix that occurs once or twice is not worth a fragment.
const OFTEN: u32 = 16;
/// Prefixes without a number that are counted at a time.
const ARRIVED: usize = 1 << 16;

/// The first word of a counter array that says where its thread is on its path.
pub const ON_PATH: GsOffset = GsOffset((COUNTERS_OFFSET + ON_PATH_OFFSET) as u32);

/// Follows a thread, which is on a path or not, along an event. Gives the path that has ended.
pub fn pass(on: &mut Option<Midway>, event: &Event, regions: &Regions) -> Option<(Midway, Ended)> {
    match *event {
        Event::Begin { pc } => {
            *on = Some(Midway::at_start(AppPc(pc.0)));
            None
        }
        Event::Resume { start, word } => {
            let known = Outcomes::from_word(word);
            *on = known.map(|(outcomes, _)| Midway {
                start: AppPc(start.0),
                outcomes,
            });
            None
        }
        Event::Branch {
            pc,
            len,
            target,
            taken,
        } => {
            let path = on.as_mut()?;
            let end = path.outcomes.branch(taken, taken && target.0 <= pc.0)?;
            let over = on.take()?;
            if end == Ended::Cut {
                let TargetPc(next) = Event::branches_to(pc, len, target, taken);
                *on = Some(Midway::at_start(AppPc(next)));
            }
            Some((over, end))
        }
        Event::Indirect {
            pc,
            target,
            call: false,
        } => {
            let path = on.as_mut()?;
            let place = |pc: TargetPc| Place::from_word(regions.word(AppPc(pc.0)));
            let end = path
                .outcomes
                .indirect_jump(place(pc).ahead(place(target)))?;
            Some((on.take()?, end))
        }
        Event::Call { .. }
        | Event::Indirect { .. }
        | Event::Return { .. }
        | Event::Jump { .. }
        | Event::Dynamic {
            kind: Kind::Edge | Kind::Call,
            ..
        } => Some((on.take()?, Ended::Whole)),
        Event::Dynamic { .. }
        | Event::Unprofiled { .. }
        | Event::Arguments { .. }
        | Event::Enter { .. }
        | Event::AfterCall { .. }
        | Event::Delivered { .. }
        | Event::Amid { .. }
        | Event::Marked(_)
        | Event::Instruction { .. } => None,
    }
}

/// A path that a handler of a signal has interrupted.
#[derive(Clone, Copy)]
pub struct Interrupted {
    pub(crate) pc: u64,
    /// The handler's frame.
    pub(crate) frame: u64,
    pub(crate) on: Option<Midway>,
}

/// A thread's way along a path.
#[derive(Default)]
pub struct Walk {
    /// The path that the thread is on, while it is out of the cache; none where a path begins.
    pub on: Option<Midway>,
    /// The thread is in a fragment that does not know what follows: [`Walk::on`] holds where the fragment begins.
    pub collecting: bool,
    /// The paths that handlers of signals have interrupted.
    pub interrupted: Vec<Interrupted>,
}

/// Prefixes and paths that are known.
pub struct Acyclic {
    /// True if nothing else is counted.
    pub alone: bool,
    /// Positions on paths, by number less one.
    known: Vec<Midway>,
    numbers: BTreeMap<(AppPc, Midway), Prefix>,
    /// Number of prefixes that begin at an address.
    from: BTreeMap<AppPc, usize>,
    /// Arrivals of threads with prefixes that have no number. Each entry is a part of the hash, and a count. Another prefix may take the entry's place.
    arrived: Vec<(u32, u32)>,
    /// Paths of the dictionary that lead to where threads were when they went on without being followed.
    paths: BTreeMap<Midway, ExitNumber>,
}

impl Acyclic {
    /// Creates the state for a process that collects `kinds`.
    pub fn new(kinds: KindSet) -> Self {
        Self {
            alone: kinds == [Kind::Path].into_iter().collect(),
            known: Vec::new(),
            numbers: BTreeMap::new(),
            from: BTreeMap::new(),
            arrived: Vec::new(),
            paths: BTreeMap::new(),
        }
    }

    /// Returns true if there is room for more prefixes.
    pub fn have_room(&self) -> bool {
        let most = match stress::few_counters() {
            true => FEW,
            false => MOST,
        };
        self.known.len() < most
    }

    /// Returns the prefix's number at an address.
    pub fn number(&mut self, at: AppPc, on: Option<Midway>) -> Prefix {
        let Some(on) = on.filter(|on| *on != Midway::at_start(at)) else {
            return Prefix::NONE;
        };
        let next = Prefix::numbered(self.known.len());
        let number = *self.numbers.entry((at, on)).or_insert(next);
        if number == next {
            self.known.push(on);
            *self.from.entry(on.start).or_default() += 1;
        }
        number
    }

    /// Returns the prefix like [`Self::number`], if it has a number, or so few prefixes begin there that it gets one.
    pub fn number_if_few(&mut self, at: AppPc, on: Option<Midway>) -> Prefix {
        let most = match stress::few_counters() {
            true => OVERFLOW_OF_FEW,
            false => OVERFLOW,
        };
        let overflowing = |on: Midway| {
            self.from.get(&on.start).is_some_and(|&n| n >= most)
                && on != Midway::at_start(at)
                && !self.numbers.contains_key(&(at, on))
        };
        match on.is_some_and(overflowing) {
            true => Prefix::UNKNOWN,
            false => self.number(at, on),
        }
    }

    /// A thread arrives at an address.
    pub(crate) fn arrive(&mut self, at: AppPc, on: Option<Midway>) -> Prefix {
        let number = self.number_if_few(at, on);
        let Some(on) = on.filter(|_| number == Prefix::UNKNOWN) else {
            return number;
        };
        if self.arrived.is_empty() {
            self.arrived.resize(ARRIVED, (0, 0));
        }
        let word =
            on.outcomes.word(Ended::Left) ^ on.start.0.rotate_left(20) ^ at.0.rotate_left(40);
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let which = hash as u32;
        let arrived = &mut self.arrived[(hash >> 32) as usize % ARRIVED];
        if arrived.0 != which {
            *arrived = (which, 0);
        }
        arrived.1 += 1;
        match arrived.1 >= OFTEN {
            true => self.number(at, Some(on)),
            false => number,
        }
    }

    /// Returns the position on a path, unless a path begins.
    pub fn midway(&self, prefix: Prefix) -> Option<Midway> {
        self.known.get(prefix.number()?).copied()
    }

    /// The first event of a fragment's block.
    pub fn arrival(&self, prefix: Prefix, at: AppPc) -> Event {
        match self.midway(prefix) {
            None if prefix == Prefix::UNKNOWN => Event::Amid { pc: TargetPc(at.0) },
            Some(on) => on.event(),
            None => Event::Begin { pc: TargetPc(at.0) },
        }
    }

    /// The path of the dictionary that leads to the midst of one. There are only so many.
    pub(crate) fn path(&mut self, shared: &mut Shared, on: Midway) -> Option<ExitNumber> {
        if let Some(&path) = self.paths.get(&on) {
            return Some(path);
        }
        if self.paths.len() >= MOST {
            return None;
        }
        shared.open_block().ok()?;
        shared.event(on.event());
        let block = shared.close_block()?;
        let path = shared.path(block, Passed::first(1), None).ok()?;
        self.paths.insert(on, path);
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(start: u64, outcomes: &[bool]) -> Midway {
        let mut path = Midway::at_start(AppPc(start));
        outcomes.iter().for_each(|taken| path.outcomes.push(*taken));
        path
    }

    fn branch(pc: u64, target: u64, taken: bool) -> Event {
        Event::Branch {
            pc: TargetPc(pc),
            len: 2,
            target: TargetPc(target),
            taken,
        }
    }

    #[test]
    fn what_comes_after_has_one_number_and_nothing_has_none() {
        let mut acyclic = Acyclic::new([Kind::Path].into_iter().collect());
        let here = AppPc(0x1000);
        assert_eq!(acyclic.number(here, None), Prefix::NONE);
        assert_eq!(acyclic.number(here, Some(on(0x1000, &[]))), Prefix::NONE);
        let path = on(0xf00, &[true, false]);
        let number = acyclic.number(here, Some(path));
        assert_eq!(acyclic.number(here, Some(path)), number);
        assert_ne!(acyclic.number(AppPc(0x1001), Some(path)), number);
        assert_eq!(acyclic.midway(number), Some(path));
        assert_eq!(acyclic.midway(Prefix::NONE), None);
        assert_eq!(acyclic.arrival(number, here), path.event());
        let keys = [Prefix::NONE, Prefix::UNKNOWN, number].map(|prefix| prefix.key(here));
        assert!(keys[0] == here && keys[1] != here && keys[2] != keys[1] && keys[2] != here);
    }

    #[test]
    fn a_overflow_gets_numbers_when_it_comes_often() {
        let mut acyclic = Acyclic::new([Kind::Path].into_iter().collect());
        let here = AppPc(0x2000);
        let nth = |n: usize| {
            let outcomes: Vec<bool> = (0..12).map(|bit| n >> bit & 1 != 0).collect();
            Some(on(0x1000, &outcomes))
        };
        for n in 0..OVERFLOW {
            assert_ne!(acyclic.number_if_few(here, nth(n)), Prefix::UNKNOWN);
        }
        assert_eq!(acyclic.number_if_few(here, nth(OVERFLOW)), Prefix::UNKNOWN);
        assert_ne!(acyclic.number_if_few(here, nth(0)), Prefix::UNKNOWN);
        assert_ne!(
            acyclic.number_if_few(here, Some(on(0x1800, &[true]))),
            Prefix::UNKNOWN
        );
        for _ in 1..OFTEN {
            assert_eq!(acyclic.arrive(here, nth(OVERFLOW)), Prefix::UNKNOWN);
        }
        let number = acyclic.arrive(here, nth(OVERFLOW));
        assert_eq!(acyclic.midway(number), nth(OVERFLOW));
        assert_eq!(acyclic.number_if_few(here, nth(OVERFLOW)), number);
    }

    #[test]
    fn paths_end_where_they_are_cut() {
        let regions = Regions::default();
        let mut path = Some(on(0x1000, &[]));
        assert_eq!(
            pass(&mut path, &branch(0x1010, 0x1020, true), &regions),
            None
        );
        assert_eq!(
            pass(&mut path, &branch(0x1022, 0x1000, false), &regions),
            None
        );
        assert_eq!(path, Some(on(0x1000, &[true, false])));
        let back = pass(&mut path, &branch(0x1030, 0x1030, true), &regions);
        assert_eq!(back, Some((on(0x1000, &[true, false, true]), Ended::Whole)));
        assert_eq!(path, None);
        let begin = Event::Begin {
            pc: TargetPc(0x1030),
        };
        pass(&mut path, &begin, &regions);
        for n in 1..u64::from(Outcomes::MOST) {
            let at = 0x1030 + 4 * n;
            assert_eq!(pass(&mut path, &branch(at, at + 64, false), &regions), None);
        }
        let full = pass(&mut path, &branch(0x2000, 0x3000, true), &regions);
        assert!(full.is_some_and(|(path, end)| end == Ended::Cut && path.outcomes.is_full()));
        assert_eq!(path, Some(on(0x3000, &[])));
        let ret = Event::Return {
            pc: TargetPc(0x3004),
        };
        assert_eq!(
            pass(&mut path, &ret, &regions),
            Some((on(0x3000, &[]), Ended::Whole))
        );
        assert_eq!(pass(&mut path, &ret, &regions), None, "on none");
        pass(&mut path, &on(0x1000, &[true]).event(), &regions);
        assert_eq!(path, Some(on(0x1000, &[true])));
    }
}
