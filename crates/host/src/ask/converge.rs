//! Convergent profiling: values that are known are not profiled on.
//!
//! # Problem
//! To count the values of all loads costs several times the program's own time, for as long as it runs. But for most loads a
//! few thousand executions show the distribution of values, and later executions repeat it. Profiling is to end there, and to begin
//! again when the values change. No report may pass a sample for all that was executed.
//!
//! # Strategy
//! Calder, Feller and Eustace (*Value Profiling*, Journal of Instruction-Level Parallelism 1, 1999) describe convergent profiling. An instruction
//! is profiled until its invariance changes by less than a limit from one interval to the next. Then it is not profiled for a
//! while. They test a flag before each probe. Here the probe is removed, and comes back for *bursts*:
//!
//! * A place with enough executions to be seen in bursts waits until it pays to take its probe out. That is when such places had [some part](WORTH) of the events since
//!   code was made last, and counting these has taken as long as making the code. Then the target is given a table of
//!   all places without a probe ([`trommel_queue::converge`]), and makes another variant of its code. So making code takes no longer than counting on would have.
//! * From then on it goes back to the variant with all probes for bursts of some [milliseconds](BURST). A burst costs little but the probes themselves, as that variant is there
//!   (Arnold and Ryder, *A framework for reducing the cost of instrumented code*, PLDI 2001; Hirzel and Chilimbi, *Bursty tracing*, FDDO 2001). All places are profiled in all bursts.
//! * A burst comes some [times](pause) as long after the last as that has cost, at random times about that. Pauses grow with the number of bursts.
//! * Each place is [judged](place::ProfiledPlace) by its intervals, which go on from burst to burst. It has settled when the shares of its most frequent values are alike in three of them. When they differ from
//!   then, its values have changed.
//!
//! So bursts cost a ninth of the time at first, and less later on. The cost is measured: what the host spends on values that never
//! repeat is in it.
//!
//! *Weights.* The first stretch of profiling is long and others are short. [`weight`] keeps the first from dominating the counts.
//!
//! *Sources of values.* Value counters of the target stay in its memory while their place is not needed. They are read there, at each
//! look. Of the records that they become later, [what was not read before](unrecorded) is added. Messages of
//! a sampler count as many events as they stand for.
//!
//! # Invariants
//! * The sum of a place's counts is what was profiled. The profile names each place that was ever out.
//! * No table is written before the target uses the last one.
//! * An address stands for the code that was there when it was met. When a region takes its place, its probes come back.
//! * Nothing here trusts the target. Its reports decide what is profiled, and nothing else. There are at most as many places as paths.

mod own_time;
mod pause;
pub mod place;
pub mod sketch;
pub mod unrecorded;
pub mod weight;

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use nix::unistd::Pid;
use rustc_hash::FxHashMap;
use trommel_compress::random::SplitMix64;
use trommel_queue::converge::{Converge as Told, MAX_PLACES};
use trommel_queue::{COUNTER_ARRAY_COUNTERS, ValueCounter};

use crate::kernel::clocks::stamp;
use crate::kernel::knock::Knocks;
use own_time::OwnTime;
use pause::Pauses;
use place::{ProfiledPlace, Rules, State};
use unrecorded::Unrecorded;
use weight::Weights;

/// Executions of an interval, where each is seen.
const EXECUTIONS: u64 = 2048;
/// Messages of one, where a sampler sends them.
const MESSAGES: u64 = 64;
/// Largest ratio of all events to those of the places that would go.
const WORTH: u64 = 16;
/// Their events since the last table, at least.
const ENOUGH: u64 = 1 << 16;
/// Cycles that an event takes: in a value counter, with those that are sent, and in a sampler.
const COUNTED_VALUES: Cycles = Cycles { own: 32, all: 32 };
const SAMPLED: Cycles = Cycles { own: 3, all: 8 };
/// Time since the last table, at least.
const SHORTEST: Duration = Duration::from_millis(2);
/// Duration of a burst.
const BURST: Duration = Duration::from_millis(1);
/// Time between bursts, at least.
const REST: Duration = Duration::from_millis(8);
/// Cycles that it takes to call the target back, about.
const OVER: u64 = 300_000;
/// Time that the target has to reach itself when there is a table.
const PATIENCE: Duration = Duration::from_millis(3);
/// Between looks.
const BRIEF: Duration = Duration::from_millis(1);
const OFTEN: Duration = Duration::from_millis(3);
const RARE: Duration = Duration::from_millis(50);

/// Costs of an event.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    /// Cycles of the target.
    own: u64,
    /// Cycles of the target and the host.
    all: u64,
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Time since the process was met.
    pub at: Duration,
    /// The same by the time stamp counter.
    pub stamp: u64,
    /// Cycles of it that making fragments took so far.
    pub translating: u64,
    /// CPU time that going over to the other variant of the code took so far.
    pub going_over: Duration,
    /// CPU time that the host has spent on the process so far.
    pub host: Duration,
    /// Paths in the dictionary.
    pub paths: usize,
}

/// The service of one process.
pub struct Converge {
    rules: Rules,
    limit: f64,
    places: Vec<ProfiledPlace>,
    by_pc: FxHashMap<u64, u32>,
    /// Places with an interval that may be over.
    ripe: Vec<u32>,
    /// Executions of each thread that looks have counted before a record.
    unrecorded: FxHashMap<u32, Unrecorded>,
    knocks: Option<Knocks>,
    /// Bursts so far, and one.
    round: u32,
    /// Start of the last burst, or of everything.
    began: Moment,
    /// Events since then, up to the last table.
    counted: u64,
    event: Cycles,
    /// Moment at which the last table was reported to the target.
    last: Moment,
    /// End of the last burst, or the moment of the first table.
    ended: Moment,
    /// The first look.
    first: Moment,
    /// All events so far.
    events: u64,
    own: OwnTime,
    looked: Duration,
    tables: u32,
    /// Number of the last table, and whether the target uses it.
    told: u32,
    settled: bool,
    /// There is a burst, or is to be one.
    burst: bool,
    pauses: Pauses,
    /// Places have other code than when they were reported.
    stale: bool,
}

/// The outcome of a place that was not profiled for a while.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// Number of its table of values.
    pub table: u32,
    /// Times that its probe was taken out.
    pub outs: u32,
    /// Times that it was put back and values were others.
    pub changes: u32,
    /// Its values had settled when that was done last.
    pub settled: bool,
    /// Factors by which its counts are to be changed.
    pub weights: &'a Weights,
}

impl Converge {
    /// Begins with nothing seen. `limit`: percent by which shares may differ; `rate`: events of a message, 1 where there are none.
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
            unrecorded: FxHashMap::default(),
            knocks: None,
            round: 1,
            began: Moment::default(),
            counted: 0,
            event: if rate == 1 { COUNTED_VALUES } else { SAMPLED },
            last: Moment::default(),
            ended: Moment::default(),
            first: Moment::default(),
            events: 0,
            own: OwnTime::default(),
            looked: Duration::ZERO,
            tables: 0,
            told: 0,
            settled: true,
            burst: false,
            pauses: Pauses::new(SplitMix64::new(stamp())),
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
        self.places
            .push(ProfiledPlace::new(pc, table, self.own.so_far()));
        next
    }

    /// A value was seen so often at a place.
    pub fn seen(&mut self, place: u32, value: u64, count: u64) {
        self.events += count;
        if self.places[place as usize].add(value, count, self.rules) {
            self.ripe.push(place);
        }
    }

    /// Takes over the value counters of a thread. `place`: of a path.
    pub fn value_counters(
        &mut self,
        thread: u32,
        now: Vec<ValueCounter>,
        mut place: impl FnMut(&mut Self, u32) -> Option<u32>,
    ) {
        let gained = self.unrecorded.entry(thread).or_default().look(now);
        for of in gained {
            if let Some(place) = place(self, of.path) {
                self.seen(place, of.value, of.count.into());
            }
        }
    }

    /// Takes over a record of a thread's value counter.
    pub fn recorded(&mut self, thread: u32, place: u32, of: &ValueCounter) {
        let new = match self.unrecorded.get_mut(&thread) {
            Some(unrecorded) => unrecorded.record(of),
            None => of.count.into(),
        };
        if new != 0 {
            self.seen(place, of.value, new);
        }
    }

    /// A thread's table is empty: it has ended.
    pub fn forget_value_counters(&mut self, thread: u32) {
        self.unrecorded.remove(&thread);
    }

    /// Notes that other code is at these addresses.
    pub fn replaced(&mut self, range: &Range<u64>) {
        let of = |place: &&mut ProfiledPlace| range.contains(&place.pc);
        let own = self.own.so_far();
        for place in self.places.iter_mut().filter(of) {
            self.stale |= place.state == State::Out;
            place.forget(own);
            self.by_pc.remove(&place.pc);
        }
    }

    /// Returns whether it is time to look.
    pub fn is_due(&self, at: Duration) -> bool {
        at.saturating_sub(self.looked) >= self.often()
    }

    /// Returns the time from one look to the next.
    pub fn often(&self) -> Duration {
        if self.burst || !self.settled {
            return BRIEF;
        }
        let since = self.looked.saturating_sub(self.last.at.max(self.ended.at));
        (since / 16).clamp(OFTEN, RARE)
    }

    /// Judges the events so far, and writes a table to the target if one follows.
    pub fn look(&mut self, told: &Told, now: Moment) {
        self.looked = now.at;
        if self.last.stamp == 0 {
            // Code that was made so far counts.
            let first = Moment {
                translating: 0,
                ..now
            };
            (self.first, self.began, self.last) = (first, first, first);
        }
        for place in std::mem::take(&mut self.ripe) {
            self.places[place as usize].judge(self.rules);
        }
        if told.seen.load(Acquire) != self.told {
            let late = now.at.saturating_sub(self.last.at) >= PATIENCE;
            return self.call(late || self.burst);
        }
        if !self.settled {
            self.settled = true;
            self.hush_for_now();
            let at = self.at(told.stamp.load(Relaxed), now);
            match self.burst {
                true => self.burst_begins(at, now),
                false => self.pause_begins(at, now),
            }
        }
        if self.burst {
            if told.back.load(Acquire) != self.told {
                return self.call(now.at.saturating_sub(self.began.at) >= 2 * BURST);
            }
            self.burst = false;
            self.hush_for_now();
            let at = self.at(told.back_stamp.load(Relaxed), now);
            self.pause_begins(at, now);
        }
        if self.is_worth_it(now) {
            let own = self.own(now.at, now);
            self.take_out(own);
            self.tell(told, now, true);
        } else if self.stale {
            self.tell(told, now, true);
        } else if self.is_over(now) {
            self.burst = true;
            self.tell(told, now, false);
        }
    }

    /// Calls the target back, if it is `late`.
    fn call(&mut self, late: bool) {
        if let Some(knocks) = self.knocks.as_mut().filter(|_| late) {
            knocks.look(true);
        }
    }

    /// Notes that the target has come.
    fn hush_for_now(&mut self) {
        if let Some(knocks) = &mut self.knocks {
            knocks.done();
        }
    }

    fn out(&mut self) -> impl Iterator<Item = &mut ProfiledPlace> {
        let places = self.places.iter_mut();
        places.filter(|place| place.state == State::Out)
    }

    /// The target executes code with all probes.
    fn burst_begins(&mut self, at: Duration, now: Moment) {
        let own = self.own(at, now);
        self.round += 1;
        let host = self.pauses.asked();
        self.began = Moment { at, host, ..now };
        self.counted = 0;
        for place in self.out() {
            place.events = 0;
            place.put_back(own);
        }
    }

    /// Begins a pause: the target uses a new table, or the one it had before a burst.
    fn pause_begins(&mut self, at: Duration, now: Moment) {
        let own = self.own(at, now);
        self.out().for_each(|place| place.leave_out(own));
        if self.ended.at < self.began.at {
            self.ended = Moment { at, ..now };
            let events: u64 = self.places.iter().map(|place| place.events).sum();
            let making = self.making(now, self.began);
            let cost = (self.round > 1).then(|| {
                let events = self.counted + events;
                let burst = at.saturating_sub(self.began.at).as_secs_f64();
                let burst = (burst * self.frequency(now)) as u64;
                let Cycles { own, all } = self.event;
                let hosted = (all - own) * events;
                let counting = (own * events).min(burst) + hosted;
                (making.saturating_add(OVER + counting), hosted)
            });
            self.pauses.begins(cost);
        }
    }

    /// The time that the program has had for itself up to `at`.
    fn own(&mut self, at: Duration, now: Moment) -> Duration {
        let making = self.making(now, Moment::default());
        let spent = making.saturating_add(self.event.own * self.events);
        let frequency = self.frequency(now);
        self.own.up_to(at, spent, frequency)
    }

    /// Cycles that making code and going over to it took between two moments.
    fn making(&self, now: Moment, since: Moment) -> u64 {
        let over = now.going_over.saturating_sub(since.going_over);
        let over = over.as_secs_f64() * self.frequency(now);
        let making = now.translating.saturating_sub(since.translating);
        making.saturating_add(over as u64)
    }

    /// Cycles that the host spent on the process between two moments.
    fn hosting(&self, now: Moment, since: Moment) -> u64 {
        let spent = now.host.saturating_sub(since.host);
        (spent.as_secs_f64() * self.frequency(now)) as u64
    }

    /// Cycles that each of so many events since the last table took. Values that never repeat are sent to the host one by one, and
    /// take many times what others take.
    fn each(&self, events: u64, now: Moment) -> u64 {
        let Cycles { own, all } = self.event;
        all.max(own + self.hosting(now, self.last) / events.max(1))
    }

    /// Cycles in a second.
    fn frequency(&self, now: Moment) -> f64 {
        let cycles = now.stamp.saturating_sub(self.first.stamp) as f64;
        let since = now.at.saturating_sub(self.first.at).as_secs_f64();
        cycles / since.max(1e-6)
    }

    /// The time of a stamp that the target took, which is not believed to be out of order.
    fn at(&self, stamp: u64, now: Moment) -> Duration {
        let ago = now.stamp.saturating_sub(stamp) as f64 / self.frequency(now).max(1.0);
        let ago = Duration::try_from_secs_f64(ago).unwrap_or(now.at);
        now.at
            .saturating_sub(ago)
            .max(self.last.at.max(self.ended.at))
    }

    /// Calls the program, if that was prepared and it `takes` it.
    pub fn ring(&mut self, takes: bool) {
        if let Some(knocks) = &mut self.knocks {
            knocks.ring(takes);
        }
    }

    /// The program is called back no more.
    pub fn hush(&mut self) {
        self.knocks = None;
    }

    /// Returns whether known places cost so much that code is to be made anew.
    fn is_worth_it(&self, now: Moment) -> bool {
        if now.at.saturating_sub(self.last.at) < SHORTEST {
            return false;
        }
        let making = now.translating.saturating_sub(self.last.translating);
        // Numbers for the paths of code that is made anew must last.
        if now.paths >= COUNTER_ARRAY_COUNTERS / 2 {
            return false;
        }
        let (mut all, mut known) = (0, 0);
        for place in self.places.iter().filter(|p| p.state != State::Out) {
            all += place.events;
            if place.is_ripe(self.rules) {
                known += place.events;
            }
        }
        let counting = known.saturating_mul(self.each(all, now));
        known >= ENOUGH && counting >= making && known * WORTH >= all
    }

    /// Returns whether it is time for a burst.
    fn is_over(&mut self, now: Moment) -> bool {
        if self.tables == 0 || now.at.saturating_sub(self.ended.at) < REST {
            return false;
        }
        // By now the host has folded most of what the burst sent.
        let hosting = self.hosting(now, self.began);
        self.pauses.priced(|| hosting);
        now.stamp.saturating_sub(self.ended.stamp) >= self.pauses.length(self.round)
    }

    /// The places that are known, as far as there is room, those with most events first.
    fn take_out(&mut self, at: Duration) {
        let out = |place: &&ProfiledPlace| place.state == State::Out;
        let room = MAX_PLACES.saturating_sub(self.places.iter().filter(out).count());
        let rules = self.rules;
        let known = |place: &&mut ProfiledPlace| place.is_ripe(rules);
        let mut known: Vec<&mut ProfiledPlace> = self.places.iter_mut().filter(known).collect();
        if known.len() > room {
            known.sort_unstable_by_key(|place| std::cmp::Reverse(place.events));
            known.truncate(room);
        }
        for place in known {
            place.take_out(at);
        }
    }

    /// Reports the next variant to the target; `table`: with another table.
    fn tell(&mut self, told: &Told, now: Moment, table: bool) {
        if table {
            self.write(told, now);
        }
        if self.burst {
            self.pauses.asks(now.host);
        }
        told.all.store(self.burst.into(), Relaxed);
        let burst = BURST.as_secs_f64() * self.frequency(now);
        told.lasts.store(burst as u64, Relaxed);
        self.told += 1;
        self.settled = false;
        told.reported.store(self.told, Release);
        if !table && let Some(knocks) = &mut self.knocks {
            // Code without probes does not reach.
            knocks.look(true);
        }
    }

    fn write(&mut self, told: &Told, now: Moment) {
        let out = |place: &&ProfiledPlace| place.state == State::Out;
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
        told.table.store(self.tables, Relaxed);
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

    /// Times that all places were profiled, the first one included.
    pub const fn rounds(&self) -> u32 {
        self.round
    }

    /// Tables reported so far.
    pub const fn tables(&self) -> u32 {
        self.tables
    }

    /// No more is to come.
    pub fn finish(&mut self, now: Moment) {
        let at = self.own(now.at, now);
        let burst = self.burst && self.settled;
        self.places
            .iter_mut()
            .for_each(|place| place.finish(at, burst));
    }

    /// Returns the outcomes of places that were not profiled for a while. A place at two addresses is there twice.
    pub fn outcomes(&self) -> impl Iterator<Item = Settled<'_>> {
        let places = self.places.iter().filter(|place| place.outs != 0);
        places.filter_map(|place| {
            Some(Settled {
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
