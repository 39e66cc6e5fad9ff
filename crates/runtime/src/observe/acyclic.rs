//! Acyclic paths counted in generated code.
//!
//! # Problem
//! An acyclic path ([`Kind::Path`], defined in `docs/events.md`) is where it begins and which way each of its branches went. To record each
//! fragment that is executed, and put paths together in the service thread, costs many times what the program does; and to collect
//! outcomes in a word, and look for its counter where the path ends, would cost something at each branch and more at each path.
//!
//! # Strategy
//! The program counter says it. A fragment is made for an address *and* for what follows on the path that arrives there: where that began, and its
//! outcomes ([`Midway`]). Two exits that lead to one address by different ways lead to two fragments. So what every exit
//! means is known when code is made, and to count paths is what it is to count edges: one increment, at exits where a path ends, in traces as in fragments
//! ([`crate::channel::counters`]). Where a path goes on nothing is done at all.
//!
//! Mostly a path begins where a fragment does (at the target of a call or of a branch backward, or after a return) and ends where that does. How many fragments
//! there are beside those for beginnings is how many prefixes of paths were executed that end in a branch taken (`docs/design/history-counting.md` has numbers).
//!
//! *The host* expands counts: a fragment's block begins with [`Event::Begin`] or [`Event::Resume`], so it means the same whatever was executed before.
//!
//! *Indirect branches* tell pairs of branch and target apart ([`crate::observe::pairs`]); a pair's exit knows the path as others do. Only fragments at which
//! paths begin have checked entries, and are in the tables of indirect targets: a return or an indirect call ends its path.
//!
//! *Out of the cache* a thread has its [`Midway`] in [`Thread::on_path`]; an interrupted one waits in [`Thread::interrupted_paths`]
//! until the handler returns. What is left when a thread goes no further stands in its counter array ([`trommel_queue::ON_PATH_OFFSET`]) before each system call, and while
//! a handler runs: so it is there however the program ends. A thread that computes when its program is killed, or ended by another thread, leaves the path that it was on untold.
//!
//! *Overflow.* Where branches follow each other that go this way and that, such as those of a loop that is written out, there are as many prefixes as executions. From
//! where more than [`OVERFLOW`] begin, a prefix gets a number, and fragments, when threads have arrived with it [`OFTEN`]. Until then they execute fragments that do not know what
//! follows ([`Event::Amid`]), all exits of which lead to the dispatcher: that follows the thread, and records the path where it ends ([`Mark::Over`]).
//!
//! *Too many.* With more than [`MOST`] prefixes, or when counter arrays or keys run out, all code is dropped, fragments are recorded from then on, and the service thread puts paths
//! together; each thread tells it where it is ([`Mark::Resumed`]).
//!
//! # Why it is correct
//! * A thread comes into a fragment by an exit, a pair or the dispatcher that leads to its address and its prefix, or by a checked entry, where a path begins.
//! * What of a fragment was executed when a thread comes out in its midst is a path of the dictionary like that of an exit, and so is the prefix.
//! * Which way an indirect jump leads is decided by what the host calls places, as the host decides it.
#![allow(unsafe_code)] // reason: writes words of the counter array.

use crate::base::prefix::{Midway, Prefix};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use trommel_queue::dict::{Event, Mark, Passed, TargetPc};
use trommel_queue::{MOST_INTERRUPTED, ON_PATH_OFFSET};
use trommel_tuple::{Ended, Kind, KindSet, Outcomes, Place};

use crate::base::address::AppPc;
use crate::base::area::{COUNTERS_OFFSET, Context, Reason};
use crate::base::emit::GsOffset;
use crate::base::prefix::Key;
use crate::base::stress;
use crate::cache::{Fragment, Way};
use crate::channel::deliver::Shared;
use crate::engine::dispatch::Runtime;
use crate::memory::region::Regions;
use crate::process::thread::Thread;

/// Prefixes at most.
const MOST: usize = 1 << 19;
/// As many, where few counters are to be had.
const FEW: usize = 512;

/// Where so many prefixes of paths begin, others get no number before threads have arrived with them [`OFTEN`].
const OVERFLOW: usize = 256;
const OVERFLOW_OF_FEW: usize = 8;
/// See [`OVERFLOW`]. What comes once or twice is not worth a fragment.
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
        | Event::Amid { .. }
        | Event::Marked(_)
        | Event::Instruction { .. } => None,
    }
}

/// A path that a handler of a signal has interrupted.
#[derive(Clone, Copy)]
pub struct Interrupted {
    pc: u64,
    /// The handler's frame.
    frame: u64,
    on: Option<Midway>,
}

/// What is known of paths.
pub struct Acyclic {
    /// Nothing else is counted.
    pub alone: bool,
    /// By number less one.
    known: Vec<Midway>,
    numbers: BTreeMap<(AppPc, Midway), Prefix>,
    /// How many prefixes begin at an address.
    from: BTreeMap<AppPc, usize>,
    /// How often threads have arrived with what has no number: by hash, which and how often. Another takes its place.
    arrived: Vec<(u32, u32)>,
    /// Paths of the dictionary that lead to where threads were when they went on without being followed.
    paths: BTreeMap<Midway, u32>,
}

impl Acyclic {
    /// Where `kinds` are wanted.
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

    /// Whether there may be more.
    pub fn have_room(&self) -> bool {
        let most = match stress::few_counters() {
            true => FEW,
            false => MOST,
        };
        self.known.len() < most
    }

    /// The number of what follows at an address.
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

    /// As [`Self::number`], where that has one or so few prefixes begin there that it gets one.
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
    fn arrive(&mut self, at: AppPc, on: Option<Midway>) -> Prefix {
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

    /// What follows, unless a path begins.
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
    fn path(&mut self, shared: &mut Shared, on: Midway) -> Option<u32> {
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

impl Thread {
    /// Tells in the counter array, by a path of the dictionary, what is left when the thread goes no further: as word `n`.
    fn tell_path(&self, n: usize, path: Option<u32>) {
        if self.counter_array.is_some() {
            let at = (self.area() + u64::from(ON_PATH.0)) as *mut u32;
            // SAFETY: in the counter array that is mapped at the end of this thread's area; nobody else writes to it.
            unsafe { at.add(n).write_volatile(path.map_or(0, |path| path + 1)) };
        }
    }

    /// The path that the counter array has told before a system call.
    fn told_path(&self) -> Option<u32> {
        self.counter_array?;
        let at = (self.area() + u64::from(ON_PATH.0)) as *const u32;
        // SAFETY: as above.
        unsafe { at.read_volatile() }.checked_sub(1)
    }

    /// Nothing follows it.
    pub fn begin_path(&mut self) {
        self.collecting = false;
        self.on_path = None;
        self.interrupted_paths.clear();
    }
}

impl Runtime {
    /// The number of what follows a thread on its path when it arrives at `pc`.
    pub fn prefix(&mut self, thread: &Thread, pc: AppPc) -> Prefix {
        match self.translator.counting_acyclic() {
            Some(acyclic) => acyclic.number(pc, thread.on_path),
            None => Prefix::NONE,
        }
    }

    /// As [`Self::prefix`], of a thread that is about to go on there.
    pub fn arrive_on_path(&mut self, thread: &Thread, pc: AppPc) -> Prefix {
        match self.translator.counting_acyclic() {
            Some(acyclic) => acyclic.arrive(pc, thread.on_path),
            None => Prefix::NONE,
        }
    }

    /// Lets a thread execute a fragment that does not know what follows: all its exits lead back to here. False where there can be none.
    pub fn collect_path(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) -> bool {
        let found = self.cache.recorded(pc, Prefix::UNKNOWN);
        let made = found.map_or_else(|| self.recorded_fragment((pc, Prefix::UNKNOWN)), Ok);
        let Ok((id, _)) = made else { return false };
        thread.collecting = true;
        context.target = self.cache.fragments[id as usize].entry;
        true
    }

    /// Takes note of what follows a thread that has come to the dispatcher as the context says.
    pub fn find_path(&mut self, thread: &mut Thread, context: &Context) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        let collecting = core::mem::take(&mut thread.collecting);
        let is = |reason: Reason| context.reason == reason as u32;
        let exit = self.cache.exit(context.exit);
        let path = if is(Reason::Indirect) || is(Reason::Hot) && exit.way == Way::Site {
            match Key::in_context(context) {
                Key::NONE if collecting => Some(exit.next_link),
                Key::NONE => None,
                key => self.pairs.path(key, context.next_pc),
            }
        } else if is(Reason::Exit)
            || is(Reason::Syscall)
            || is(Reason::Cloned)
            || is(Reason::Changed)
            || is(Reason::Hot)
        {
            if exit.prefix != Prefix::UNKNOWN {
                let acyclic = self.translator.ways.acyclic.as_ref();
                thread.on_path = acyclic.and_then(|acyclic| acyclic.midway(exit.prefix));
                return;
            }
            Some(exit.next_link)
        } else {
            return;
        };
        match path.and_then(|path| self.shared.passed_by(path)) {
            Some((block, passed, tail)) => self.follow_path(thread, block, passed, tail),
            None => thread.on_path = None,
        }
    }

    /// A thread has passed so much of a block, and `tail`. What has ended meanwhile is counted if the code does not know it.
    fn follow_path(
        &mut self,
        thread: &mut Thread,
        block: u32,
        passed: Passed,
        tail: Option<Event>,
    ) {
        let (mut on, mut known) = (None, true);
        let mut over = Vec::new();
        let events = self.shared.events_of(block).map_while(|event| event);
        for event in events.take(passed.end.into()).chain(tail) {
            if let Event::Amid { .. } = event {
                (on, known) = (thread.on_path, false);
            }
            over.extend(pass(&mut on, &event, &self.regions));
        }
        thread.on_path = on;
        if !known {
            for (path, end) in over {
                self.count_path(thread, Some(path), end);
            }
        }
    }

    /// What follows where an indirect branch leads; `None` where only its threads know.
    pub fn path_of_pair(&self, key: Key, to: AppPc) -> Option<Option<Midway>> {
        let branch = self.pairs.branch(key)?;
        let (block, passed) = branch.block;
        let tail = Event::Indirect {
            pc: TargetPc(branch.pc.0),
            target: TargetPc(to.0),
            call: branch.call,
        };
        let mut on = None;
        let events = self.shared.events_of(block).map_while(|event| event);
        for event in events.take(passed.end.into()).chain([tail]) {
            if let Event::Amid { .. } = event {
                return None;
            }
            pass(&mut on, &event, &self.regions);
        }
        Some(on)
    }

    /// A thread has come out of the midst of a fragment, after so many events of its block.
    pub fn come_to_path(&mut self, thread: &mut Thread, fragment: &Fragment, events: u16) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        thread.collecting = false;
        match fragment.block {
            Some(block) => self.follow_path(thread, block, Passed::first(events), None),
            None => thread.on_path = None,
        }
    }

    /// Whether so much of a block ends no path that is counted, and nothing else is counted.
    pub fn counts_nothing(&self, block: u32, passed: Passed) -> bool {
        let acyclic = self.translator.ways.acyclic.as_ref();
        if !acyclic.is_some_and(|acyclic| acyclic.alone) {
            return false;
        }
        let mut on = None;
        let mut events = self.shared.events_of(block).map_while(|event| event);
        match events.next() {
            Some(Event::Amid { .. }) => return true,
            Some(first @ (Event::Begin { .. } | Event::Resume { .. })) => {
                pass(&mut on, &first, &self.regions);
            }
            // What is recorded for the service thread begins otherwise.
            _ => return false,
        }
        let mut rest = events.take(usize::from(passed.end).saturating_sub(1));
        rest.all(|event| pass(&mut on, &event, &self.regions).is_none())
    }

    /// A thread is found at a system call that a fragment makes.
    pub fn find_path_at_call(&mut self, thread: &mut Thread) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        if let Some(path) = thread.told_path() {
            if let Some((block, passed, tail)) = self.shared.passed_by(path) {
                self.follow_path(thread, block, passed, tail);
            }
            thread.tell_path(0, None);
        }
    }

    /// A thread goes on by the dispatcher: it is in no system call. Where the service thread makes paths it is told where the thread is.
    pub fn hand_path_over(&mut self, thread: &mut Thread) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        thread.tell_path(0, None);
        if self.translator.counting_acyclic().is_none()
            && let Some(on) = thread.on_path.take()
        {
            let word = on.outcomes.word(Ended::Left);
            self.record_mark(thread, Mark::Resumed, [on.start.0, word]);
        }
    }

    /// A thread goes on unobserved.
    pub fn leave_path(&mut self, thread: &mut Thread) {
        self.hand_path_over(thread);
        if self.translator.counting_acyclic().is_some() {
            let open = self.dispatched_path(thread.on_path.take());
            thread.tell_path(0, open);
        }
    }

    fn dispatched_path(&mut self, on: Option<Midway>) -> Option<u32> {
        let acyclic = self.translator.ways.acyclic.as_mut()?;
        acyclic.path(&mut self.shared, on?)
    }

    /// Takes note of what the dispatcher does with a thread. False where that is to be recorded.
    pub fn marked(&mut self, thread: &mut Thread, mark: Mark, [pc, frame]: [u64; 2]) -> bool {
        if self.translator.ways.acyclic.is_none() {
            return false;
        }
        let counting = self.translator.counting_acyclic().is_some();
        match mark {
            Mark::Back => {
                let all = &thread.interrupted_paths;
                let Some(n) = all.iter().rposition(|before| before.frame == frame) else {
                    if counting {
                        self.leave_on(thread);
                    }
                    return counting;
                };
                if !counting {
                    // The service thread's path of the handler.
                    self.record_mark(thread, Mark::Back, [0, 0]);
                }
                self.leave_on(thread);
                while thread.interrupted_paths.len() > n {
                    let depth = thread.interrupted_paths.len();
                    let before = thread.interrupted_paths.pop();
                    thread.tell_path(depth, None);
                    let Some(before) = before else { break };
                    match before.frame == frame && before.pc == pc && depth == n + 1 {
                        true => thread.on_path = before.on,
                        false => self.count_path(thread, before.on, Ended::Left),
                    }
                }
                true
            }
            _ if !counting => false,
            Mark::Arrived => {
                let here = Midway::at_start(AppPc(pc));
                thread.on_path.get_or_insert(here);
                true
            }
            Mark::Called => {
                let here = Midway::at_start(AppPc(pc));
                let on = thread.on_path.take().unwrap_or(here);
                self.count_path(thread, Some(on), Ended::Whole);
                true
            }
            Mark::Signal => {
                if thread.interrupted_paths.len() == MOST_INTERRUPTED {
                    let oldest = thread.interrupted_paths.remove(0);
                    self.count_path(thread, oldest.on, Ended::Left);
                    for n in 0..thread.interrupted_paths.len() {
                        let on = thread.interrupted_paths[n].on;
                        let path = self.dispatched_path(on);
                        thread.tell_path(n + 1, path);
                    }
                }
                let on = thread.on_path.take();
                thread.interrupted_paths.push(Interrupted { pc, frame, on });
                let path = self.dispatched_path(on);
                thread.tell_path(thread.interrupted_paths.len(), path);
                true
            }
            Mark::Resumed | Mark::Over => true,
        }
    }

    /// A thread does not go on with the path that it is on.
    fn leave_on(&mut self, thread: &mut Thread) {
        let on = thread.on_path.take();
        self.count_path(thread, on, Ended::Left);
    }

    /// Counts a path that only the dispatcher knows.
    fn count_path(&mut self, thread: &mut Thread, on: Option<Midway>, end: Ended) {
        if let Some(on) = on {
            let word = on.outcomes.word(end);
            self.record_mark(thread, Mark::Over, [on.start.0, word]);
        }
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
    fn what_lies_behind_has_one_number_and_nothing_has_none() {
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
