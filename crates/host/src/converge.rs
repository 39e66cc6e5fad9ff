//! Values that are known are not profiled on: convergent profiling.
//!
//! # Problem
//! To count the values of all loads costs several times what the program does, for as long as it runs. But of most loads a
//! few thousand executions tell how values are distributed, and what comes behind repeats it. Profiling is to end there, to begin
//! again when values are others, and nobody is to take what was seen for all that was executed.
//!
//! # Strategy
//! Calder, Feller and Eustace (*Value Profiling*, Journal of Instruction-Level Parallelism 1, 1999) call that convergent profiling: an instruction
//! is profiled in intervals, until its invariance has changed by less than a limit from one to the next; then it is left alone for a
//! while, which doubles each time that it is found as it was. They test a flag in front of each probe. Here the probe goes:
//!
//! * Each place is [judged](place::Place) by the values of its intervals. When the shares of its most frequent ones are alike in three
//!   intervals, it is known. One that has not settled in as many executions as sixteen intervals have is given up for a while.
//! * What is known waits until it is worth it: the known places had [a third](WORTH) of the events since code was made last, and
//!   to count these has taken as long as making the code. Then the target is told a table of
//!   all places that are to have no probe ([`trommel_queue::converge`]); all its code is made anew.
//!   As each table takes at least a third of the events away, there are few.
//! * That is a *round*. The next begins [`PAUSE`] times as long after the last table as counting and making code took in it; after the first,
//!   which costs most, [`FIRST`] times. Places whose rest is over have their probes then, until they are known again.
//!
//! So rounds cost a thirteenth of the time, and less as rests double.
//!
//! *What stretches stand for.* The first is long and others are short; [`weight`] sees to it that counts do not say most of the first.
//!
//! *Where values come from.* Tallies of the target stay in its memory while their place is not needed: those are read there, at each
//! look, and what is new since the last is added. What is sent afterwards has been counted then, and is taken back. Messages of
//! a sampler are events as many as they stand for.
//!
//! # Invariants
//! * The sum of a place's counts is what was profiled; of each place that was ever out the profile says so.
//! * No table is written before the target goes by the last one.
//! * An address stands for the code that was there when it was met. When a region takes its place, its probes come back.
//! * Nothing here trusts the target: what it says decides what is profiled, and nothing else. Places are at most as many as paths.

pub mod place;
pub mod weight;

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use nix::unistd::Pid;
use rustc_hash::FxHashMap;
use trommel_queue::converge::{Converge as Told, MAX_PLACES};
use trommel_queue::{BANK_COUNTERS, Tally};

use crate::knock::Knocks;
use place::{Place, Rules, State};
use weight::Weights;

/// Executions of an interval, where each is seen.
const EXECUTIONS: u64 = 2048;
/// Messages of one, where a sampler sends them.
const MESSAGES: u64 = 64;
/// One event in so many has to be of a place that is known.
const WORTH: u64 = 3;
/// Their events since the last table, at least.
const ENOUGH: u64 = 1 << 16;
/// Cycles that an event takes: in a tally, with those that are sent, and in a sampler.
const TALLIED: u64 = 24;
const SAMPLED: u64 = 8;
/// Time since the last table, at least.
const SHORTEST: Duration = Duration::from_millis(2);
/// From the last table of a round to the next round, in times that the round cost.
const PAUSE: u64 = 12;
const FIRST: u64 = 6;
/// And at least.
const REST: Duration = Duration::from_millis(40);
/// Time that the target has to come by itself.
const PATIENCE: Duration = Duration::from_millis(3);
/// Between looks.
const OFTEN: Duration = Duration::from_millis(3);
const SELDOM: Duration = Duration::from_millis(50);

/// When it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Time since the process was met.
    pub at: Duration,
    /// The same by the time stamp counter.
    pub stamp: u64,
    /// Cycles of it that making fragments took so far.
    pub translating: u64,
    /// Paths in the dictionary.
    pub paths: usize,
}

/// The service of one process.
pub struct Converge {
    rules: Rules,
    limit: f64,
    places: Vec<Place>,
    by_pc: FxHashMap<u64, u32>,
    /// Places with an interval that may be over.
    ripe: Vec<u32>,
    /// By thread, its tallies when they were looked at last.
    tallies: FxHashMap<u32, Vec<Tally>>,
    knocks: Option<Knocks>,
    /// From 1.
    round: u32,
    began: Moment,
    /// Events of it, up to the last table.
    counted: u64,
    /// Cycles that an event takes.
    event: u64,
    /// When the last table was told.
    last: Moment,
    looked: Duration,
    tables: u32,
    /// Places have other code than when they were told.
    stale: bool,
}

/// What became of a place that was not profiled for a while.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// Number of its table of values.
    pub table: u32,
    /// Times that its probe was taken out.
    pub outs: u32,
    /// Times that it was put back and values were others.
    pub changes: u32,
    /// Its values had settled when that was done last.
    pub settled: bool,
    /// By what its counts are to be changed.
    pub weights: &'a Weights,
}

impl Converge {
    /// One that has seen nothing. `limit`: percent by which shares may differ; `rate`: events of a message, 1 where there are none.
    pub fn new(limit: f64, rate: u64) -> Self {
        let interval = match rate {
            1 => EXECUTIONS,
            rate => MESSAGES * rate,
        };
        Self {
            rules: Rules {
                limit: limit / 100.0,
                interval,
            },
            limit,
            places: Vec::new(),
            by_pc: FxHashMap::default(),
            ripe: Vec::new(),
            tallies: FxHashMap::default(),
            knocks: None,
            round: 1,
            began: Moment::default(),
            counted: 0,
            event: if rate == 1 { TALLIED } else { SAMPLED },
            last: Moment::default(),
            looked: Duration::ZERO,
            tables: 0,
            stale: false,
        }
    }

    /// Calls the process back when there is a table.
    pub fn calling(mut self, pid: Pid) -> Self {
        self.knocks = Some(Knocks::of(pid));
        self
    }

    /// The number of the place of messages about an instruction; `table`: of its values, if they are wanted.
    pub fn place(&mut self, pc: u64, table: Option<u32>) -> u32 {
        let next = self.places.len() as u32;
        let known = self.by_pc.get(&pc).copied();
        if let Some(known) = known.filter(|&n| self.places[n as usize].table == table) {
            return known;
        }
        self.by_pc.insert(pc, next);
        self.places.push(Place::new(pc, table, self.looked));
        next
    }

    /// A value was seen so often at a place.
    pub fn seen(&mut self, place: u32, value: u64, count: u64) {
        if self.places[place as usize].add(value, count, self.rules) {
            self.ripe.push(place);
        }
    }

    /// What a thread's table of tallies is now. `place`: of a path.
    pub fn tallies(
        &mut self,
        thread: u32,
        now: Vec<Tally>,
        mut place: impl FnMut(&mut Self, u32) -> Option<u32>,
    ) {
        let before = self.tallies.remove(&thread).unwrap_or_default();
        for (n, tally) in now.iter().enumerate() {
            let known = before.get(n).copied().unwrap_or_default();
            if known == *tally {
                continue;
            }
            // What was there becomes a record as a whole.
            if known.count != 0
                && let Some(place) = place(self, known.path)
            {
                self.places[place as usize].take_back(known.value, known.count.into());
            }
            if tally.count != 0
                && let Some(place) = place(self, tally.path)
            {
                self.seen(place, tally.value, tally.count.into());
            }
        }
        self.tallies.insert(thread, now);
    }

    /// A thread's table is empty: it has ended.
    pub fn forget_tallies(&mut self, thread: u32) {
        self.tallies.remove(&thread);
    }

    /// Other code is in these addresses.
    pub fn replaced(&mut self, range: &Range<u64>) {
        let of = |place: &&mut Place| range.contains(&place.pc);
        for place in self.places.iter_mut().filter(of) {
            self.stale |= matches!(place.state, State::Out { .. });
            place.put_back(self.looked);
            self.by_pc.remove(&place.pc);
        }
    }

    /// Whether it is time to look.
    pub fn is_due(&self, at: Duration) -> bool {
        at.saturating_sub(self.looked) >= self.often()
    }

    /// From one look to the next.
    pub fn often(&self) -> Duration {
        let since = self.looked.saturating_sub(self.last.at);
        (since / 16).clamp(OFTEN, SELDOM)
    }

    /// Judges what was seen, and tells the target what follows, if anything does.
    pub fn look(&mut self, told: &Told, now: Moment) {
        self.looked = now.at;
        if self.last.stamp == 0 {
            // Code that was made so far counts.
            let first = Moment {
                translating: 0,
                ..now
            };
            (self.began, self.last) = (first, first);
        }
        for place in std::mem::take(&mut self.ripe) {
            self.places[place as usize].judge(self.rules);
        }
        if told.seen.load(Acquire) != told.told.load(Relaxed) {
            let late = now.at.saturating_sub(self.last.at) >= PATIENCE;
            if let Some(knocks) = self.knocks.as_mut().filter(|_| late) {
                knocks.look(true);
            }
            return;
        }
        if let Some(knocks) = &mut self.knocks {
            knocks.done();
        }
        if self.is_worth_it(now) {
            self.take_out(now.at);
            self.tell(told, now);
        } else if self.is_over(now) {
            self.round += 1;
            self.began = now;
            self.counted = 0;
            // Numbers for the paths of code that is made anew must last.
            let room = now.paths < BANK_COUNTERS / 2;
            if self.put_back(now.at) && room || self.stale {
                self.tell(told, now);
            } else {
                self.last = now;
            }
        } else if self.stale {
            self.tell(told, now);
        }
    }

    /// The program is called back no more.
    pub fn hush(&mut self) {
        self.knocks = None;
    }

    /// Whether known places cost so much that code is to be made anew.
    fn is_worth_it(&self, now: Moment) -> bool {
        if now.at.saturating_sub(self.last.at) < SHORTEST {
            return false;
        }
        let making = now.translating.saturating_sub(self.last.translating);
        let (mut all, mut known) = (0, 0);
        for place in &self.places {
            all += place.events;
            known += match place.state {
                State::Known => place.events,
                _ => 0,
            };
        }
        known >= ENOUGH && known * self.event >= making && known * WORTH >= all
    }

    /// Whether the next round begins.
    fn is_over(&self, now: Moment) -> bool {
        if self.tables == 0 || now.at.saturating_sub(self.last.at) < REST {
            return false;
        }
        let making = now.translating.saturating_sub(self.began.translating);
        let events: u64 = self.places.iter().map(|place| place.events).sum();
        let cost = making + self.event * (self.counted + events);
        let pause = match self.round {
            1 => FIRST,
            _ => PAUSE,
        };
        now.stamp.saturating_sub(self.last.stamp) >= cost.saturating_mul(pause)
    }

    /// The places that are known, as far as there is room, those with most events first.
    fn take_out(&mut self, at: Duration) {
        let out = |place: &&Place| matches!(place.state, State::Out { .. });
        let room = MAX_PLACES.saturating_sub(self.places.iter().filter(out).count());
        let known = |place: &&mut Place| place.state == State::Known;
        let mut known: Vec<&mut Place> = self.places.iter_mut().filter(known).collect();
        if known.len() > room {
            known.sort_unstable_by_key(|place| std::cmp::Reverse(place.events));
            known.truncate(room);
        }
        for place in known {
            place.take_out(self.round, at);
        }
    }

    /// Whether there are places whose rest is over; they are profiled again.
    fn put_back(&mut self, at: Duration) -> bool {
        let round = self.round;
        let due =
            |place: &&mut Place| matches!(place.state, State::Out { until } if until <= round);
        let due = self.places.iter_mut().filter(due);
        due.map(|place| place.put_back(at)).count() != 0
    }

    fn tell(&mut self, told: &Told, now: Moment) {
        let out = |place: &&Place| matches!(place.state, State::Out { .. });
        let mut out: Vec<u64> = (self.places.iter().filter(out))
            .map(|place| place.pc)
            .collect();
        out.sort_unstable();
        out.dedup();
        out.truncate(MAX_PLACES);
        for (to, pc) in told.place.iter().zip(&out) {
            to.store(*pc, Relaxed);
        }
        told.places.store(out.len() as u32, Relaxed);
        self.tables += 1;
        told.told.store(self.tables, Release);
        for place in &mut self.places {
            self.counted += std::mem::take(&mut place.events);
        }
        self.last = now;
        self.stale = false;
    }

    /// Percent by which shares may differ.
    pub const fn limit(&self) -> f64 {
        self.limit
    }

    /// Rounds so far.
    pub const fn rounds(&self) -> u32 {
        self.round
    }

    /// Tables told so far.
    pub const fn tables(&self) -> u32 {
        self.tables
    }

    /// No more is to come.
    pub fn finish(&mut self, at: Duration) {
        self.places.iter_mut().for_each(|place| place.finish(at));
    }

    /// What became of the places that were not profiled for a while. One that is at two addresses is there twice.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome<'_>> {
        let places = self.places.iter().filter(|place| place.outs != 0);
        places.filter_map(|place| {
            Some(Outcome {
                table: place.table?,
                outs: place.outs,
                changes: place.changes,
                settled: place.settled,
                weights: &place.weights,
            })
        })
    }
}

#[cfg(test)]
mod tests;
