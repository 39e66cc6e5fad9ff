//! Threads on acyclic paths ([`crate::observe::acyclic`]): where each is, and what the dispatcher counts.
#![allow(unsafe_code)] // reason: writes words of the counter array.

use alloc::vec::Vec;

use trommel_queue::MOST_INTERRUPTED;
use trommel_queue::dict::{Event, Mark, Passed, TargetPc};
use trommel_tuple::Ended;

use crate::base::address::AppPc;
use crate::base::area::{Context, Reason};
use crate::base::ids::{EntryId, ExitNumber};
use crate::base::prefix::{Key, Midway, Prefix};
use crate::cache::{Fragment, Way};
use crate::engine::state::{Runtime, Thread};
use crate::observe::acyclic::{Interrupted, ON_PATH, pass};

impl Thread {
    /// Tells in the counter array, by a path of the dictionary, what is left when the thread goes no further: as word `n`.
    fn tell_path(&self, n: usize, path: Option<ExitNumber>) {
        if self.counter_array.is_some() {
            let at = (self.area() + u64::from(ON_PATH.0)) as *mut u32;
            // SAFETY: in the counter array that is mapped at the end of this thread's area; nobody else writes to it.
            unsafe { at.add(n).write_volatile(path.map_or(0, |path| path.0 + 1)) };
        }
    }

    /// The path that the counter array has reported before a system call.
    fn reported_path(&self) -> Option<ExitNumber> {
        self.counter_array?;
        let at = (self.area() + u64::from(ON_PATH.0)) as *const u32;
        // SAFETY: as above.
        let word = unsafe { at.read_volatile() };
        word.checked_sub(1).map(ExitNumber)
    }

    /// Begins a path that follows nothing.
    pub fn begin_path(&mut self) {
        self.path.collecting = false;
        self.path.on = None;
        self.path.interrupted.clear();
    }
}

impl Runtime {
    /// The number of what follows a thread on its path when it arrives at `pc`.
    pub fn prefix(&mut self, thread: &Thread, pc: AppPc) -> Prefix {
        match self.translator.counting_acyclic() {
            Some(acyclic) => acyclic.number(pc, thread.path.on),
            None => Prefix::NONE,
        }
    }

    /// Returns the prefix like [`Self::prefix`], for a thread that is about to go on at `pc`.
    pub fn arrive_on_path(&mut self, thread: &Thread, pc: AppPc) -> Prefix {
        match self.translator.counting_acyclic() {
            Some(acyclic) => acyclic.arrive(pc, thread.path.on),
            None => Prefix::NONE,
        }
    }

    /// Lets a thread execute a fragment that does not know what follows: all its exits lead back to here. False where there can be none.
    pub fn collect_path(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) -> bool {
        let found = self.cache.recorded(pc, Prefix::UNKNOWN);
        let made = found.map_or_else(|| self.recorded_fragment((pc, Prefix::UNKNOWN)), Ok);
        let Ok((id, _)) = made else { return false };
        thread.path.collecting = true;
        context.target = self.cache.fragments[id.index()].entry;
        true
    }

    /// Takes note of what follows a thread that has come to the dispatcher as the context says.
    pub fn find_path(&mut self, thread: &mut Thread, context: &Context) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        let collecting = core::mem::take(&mut thread.path.collecting);
        let is = |reason: Reason| context.reason == reason as u32;
        let exit = self.cache.exit(context.exit);
        let path = if is(Reason::Indirect) || is(Reason::Hot) && exit.way == Way::Site {
            match Key::in_context(context) {
                Key::NONE if collecting => Some(ExitNumber(exit.next_link)),
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
                thread.path.on = acyclic.and_then(|acyclic| acyclic.midway(exit.prefix));
                return;
            }
            Some(ExitNumber(exit.next_link))
        } else {
            return;
        };
        match path.and_then(|path| self.shared.passed_by(path)) {
            Some((block, passed, tail)) => self.follow_path(thread, block, passed, tail),
            None => thread.path.on = None,
        }
    }

    /// A thread has passed so much of a block, and `tail`. What has ended meanwhile is counted if the code does not know it.
    fn follow_path(
        &mut self,
        thread: &mut Thread,
        block: EntryId,
        passed: Passed,
        tail: Option<Event>,
    ) {
        let (mut on, mut known) = (None, true);
        let mut over = Vec::new();
        let events = self.shared.events_of(block).map_while(|event| event);
        for event in events.take(passed.end.into()).chain(tail) {
            if let Event::Amid { .. } = event {
                (on, known) = (thread.path.on, false);
            }
            over.extend(pass(&mut on, &event, &self.regions));
        }
        thread.path.on = on;
        if !known {
            for (path, end) in over {
                self.count_path(thread, Some(path), end);
            }
        }
    }

    /// Returns the path that follows an indirect branch to `to`; `None` where only its threads know.
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
        thread.path.collecting = false;
        match fragment.block {
            Some(block) => self.follow_path(thread, block, Passed::first(events), None),
            None => thread.path.on = None,
        }
    }

    /// Returns whether so much of a block ends no path that is counted, and nothing else is counted.
    pub fn counts_nothing(&self, block: EntryId, passed: Passed) -> bool {
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
        if let Some(path) = thread.reported_path() {
            if let Some((block, passed, tail)) = self.shared.passed_by(path) {
                self.follow_path(thread, block, passed, tail);
            }
            thread.tell_path(0, None);
        }
    }

    /// A thread goes on by the dispatcher: it is in no system call. Where the service thread makes paths, the thread's place is reported to it.
    pub fn hand_path_over(&mut self, thread: &mut Thread) {
        if self.translator.ways.acyclic.is_none() {
            return;
        }
        thread.tell_path(0, None);
        if self.translator.counting_acyclic().is_none()
            && let Some(on) = thread.path.on.take()
        {
            let word = on.outcomes.word(Ended::Left);
            self.record_mark(thread, Mark::Resumed, [on.start.0, word]);
        }
    }

    /// A thread goes on unobserved.
    pub fn leave_path(&mut self, thread: &mut Thread) {
        self.hand_path_over(thread);
        if self.translator.counting_acyclic().is_some() {
            let open = self.dispatched_path(thread.path.on.take());
            thread.tell_path(0, open);
        }
    }

    fn dispatched_path(&mut self, on: Option<Midway>) -> Option<ExitNumber> {
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
                let all = &thread.path.interrupted;
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
                while thread.path.interrupted.len() > n {
                    let depth = thread.path.interrupted.len();
                    let before = thread.path.interrupted.pop();
                    thread.tell_path(depth, None);
                    let Some(before) = before else { break };
                    match before.frame == frame && before.pc == pc && depth == n + 1 {
                        true => thread.path.on = before.on,
                        false => self.count_path(thread, before.on, Ended::Left),
                    }
                }
                true
            }
            _ if !counting => false,
            Mark::Arrived => {
                let here = Midway::at_start(AppPc(pc));
                thread.path.on.get_or_insert(here);
                true
            }
            Mark::Called => {
                let here = Midway::at_start(AppPc(pc));
                let on = thread.path.on.take().unwrap_or(here);
                self.count_path(thread, Some(on), Ended::Whole);
                true
            }
            Mark::Signal => {
                if thread.path.interrupted.len() == MOST_INTERRUPTED {
                    let oldest = thread.path.interrupted.remove(0);
                    self.count_path(thread, oldest.on, Ended::Left);
                    for n in 0..thread.path.interrupted.len() {
                        let on = thread.path.interrupted[n].on;
                        let path = self.dispatched_path(on);
                        thread.tell_path(n + 1, path);
                    }
                }
                let on = thread.path.on.take();
                thread.path.interrupted.push(Interrupted { pc, frame, on });
                let path = self.dispatched_path(on);
                thread.tell_path(thread.path.interrupted.len(), path);
                true
            }
            Mark::Resumed | Mark::Over => true,
        }
    }

    /// A thread does not go on with the path that it is on.
    fn leave_on(&mut self, thread: &mut Thread) {
        let on = thread.path.on.take();
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
