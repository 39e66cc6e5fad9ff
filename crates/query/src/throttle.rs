//! Rates for `every auto`: what records cost is kept to a budget, and what is rare is all recorded.
//!
//! # Problem
//! How often a class of instructions is executed is not known before, differs by orders of magnitude, and changes while
//! the program runs. A rate that suits one phase costs too much in the next, or tells nothing. (The paper's conclusion:
//! a profiler should watch itself and adapt the rate.)
//!
//! # Strategy
//! Time is cut into *periods*. In each a query's records have cost so many ticks, and each of its entries was executed so
//! many times. At the end of a period the rates of its entries are set so that the next one, if it is like the last, costs what the
//! budget allows:
//!
//! * The budget pays for so many records, given what a record has cost lately. They are shared out among the entries so
//!   that each gets as many as any other, and none more than it has executions ([`level`]): those that are rare get all.
//! * An execution that is not recorded may cost something, too: its countdown ([`Throttle::charging`]). No rate changes that, so it is
//!   taken from the budget first. Records have what is left, a quarter of the budget at least, so that what is frequent stays visible.
//! * A rate is a power of two, the smallest that keeps an entry to its share. It is lowered again with a margin of a
//!   quarter, so that it does not waver.
//! * What earlier periods have left or overdrawn is given out over [`HORIZON`] periods, between a quarter and
//!   twice the budget, so that the sum is kept too, and no N is so large that a few records stand for most executions.
//! * A period ends early when it has spent what all of it may: a class that has become frequent is noticed after that.
//!   So short a time tells little of what is rare, so it raises N and never lowers it.
//! * Throttles of a thread may have a common budget besides ([`Together`]).
//!
//! # Why estimates are right
//! Countdowns of `every auto` are geometric: each execution is profiled with probability 1/N, whatever
//! was profiled before, N being the rate in force. So a record stands for N executions, and the sum of N over any kind of
//! records is an unbiased estimate of the executions of that kind, as long as N is chosen by what came before, which it is.
//! It also means that a countdown may be dropped and another one drawn at any time, which a new rate takes effect by, and that
//! nothing keeps step with a loop.
//!
//! # Invariants
//! * A throttle is of one thread. It makes no memory once it is made.
//! * Its decisions are a function of its inputs: two throttles with the same inputs have the same rates.

mod together;

use alloc::vec::Vec;

use trommel_compress::random::SplitMix64;

use crate::class::{ENTRIES, Entry, EntrySet};
use crate::engine::Engine;
use crate::program::Program;
use crate::rate::{MOST_RANK, Rate, Sampling};

use self::together::WHOLE;
pub use self::together::{Part, Together};

/// Periods over which what was left or overdrawn is given out.
const HORIZON: u64 = 8;
/// Largest debt, in budgets of a period.
const CREDIT: i64 = 64;
/// Fractions of records and of ticks are 256ths.
const FRACTION: u32 = 8;

/// The rates of one thread.
#[derive(Clone, Debug)]
pub struct Throttle {
    period: u64,
    /// Cost of a countdown, in fractions of ticks.
    countdown: u64,
    groups: Vec<Group>,
    members: [Member; ENTRIES],
}

/// An executor of queries with rates.
pub trait Paced {
    /// Executions of an entry since its countdown was drawn.
    fn passed(&self, entry: Entry) -> u64;
    /// Puts another rate in force for an entry of `every auto`, by another countdown.
    fn pace(&mut self, entry: Entry, rate: Rate);
}

impl Paced for Engine<'_> {
    fn passed(&self, entry: Entry) -> u64 {
        self.passed(entry)
    }

    fn pace(&mut self, entry: Entry, rate: Rate) {
        self.pace(entry, rate);
    }
}

/// A query.
#[derive(Clone, Debug)]
struct Group {
    /// Its own budget, in 65536ths of time, as are the next two.
    own: u64,
    /// The budget in force.
    share: u64,
    /// Time that its last period would have taken with all executions recorded, at most its own budget.
    demand: u64,
    entries: EntrySet,
    /// Start of the period.
    begun: u64,
    /// Ticks that its records have cost in the period.
    spent: u64,
    records: u64,
    /// Cost of a record, in fractions of ticks.
    usual: u64,
    /// Ticks that were left of the budget so far, or overdrawn.
    saved: i64,
    /// Time of periods that nobody has asked about.
    paid: Paid,
}

/// Time of periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paid {
    /// Ticks that records and countdowns took.
    pub ticks: u64,
    /// Ticks from the beginnings to the ends of the periods.
    pub of: u64,
}

/// An entry.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Number of its group, and one.
    group: u8,
    rank: u32,
    /// Executions in the period.
    executed: u64,
    /// Events of the present countdown that earlier periods have counted.
    counted: u64,
}

impl Throttle {
    /// Makes the throttle of the queries in `program` that need one, with periods of so many ticks; `None` if no query does.
    pub fn new(program: &Program, period: u64, now: u64) -> Option<Self> {
        let mut groups = Vec::new();
        let mut members = [Member::default(); ENTRIES];
        for query in program.queries() {
            let Sampling::Auto(budget) = query.sampling else {
                continue;
            };
            let own = u64::from(budget.percent()) * WHOLE / 100;
            groups.push(Group {
                own,
                share: own,
                demand: 0,
                entries: query.entries,
                begun: now,
                spent: 0,
                records: 0,
                usual: 0,
                saved: 0,
                paid: Paid::default(),
            });
            for entry in query.entries.iter() {
                members[entry.number()].group = groups.len() as u8;
            }
        }
        let period = period.max(1);
        (!groups.is_empty()).then_some(Self {
            period,
            countdown: 0,
            groups,
            members,
        })
    }

    /// The same where each execution costs so many 256ths of a tick, recorded or not.
    #[must_use]
    pub fn charging(mut self, countdown: u64) -> Self {
        self.countdown = countdown;
        self
    }

    fn group(&mut self, entry: Entry) -> Option<&mut Group> {
        let number = usize::from(self.members[entry.number()].group);
        self.groups.get_mut(number.checked_sub(1)?)
    }

    /// A record was made of `entry`, at the end of a countdown of `executed`.
    pub fn record(&mut self, entry: Entry, executed: u64) {
        let member = &mut self.members[entry.number()];
        member.executed += executed.saturating_sub(member.counted);
        member.counted = 0;
        if let Some(group) = self.group(entry) {
            group.records += 1;
        }
    }

    /// Records of `entry` have cost so many ticks.
    pub fn spend(&mut self, entry: Entry, ticks: u64) {
        if let Some(group) = self.group(entry) {
            group.spent = group.spent.saturating_add(ticks);
        }
    }

    /// Returns true if [`Self::adjust`] has something to do.
    pub fn is_due(&self, now: u64) -> bool {
        self.groups
            .iter()
            .any(|group| group.is_due(self.period, now))
    }

    /// Ends periods that are over, and paces what is `paced` as the next ones want it. Where there is a common budget, all throttles of
    /// the thread are then to be given their parts ([`Together::part`]).
    pub fn adjust(&mut self, now: u64, paced: &mut impl Paced) {
        let period = self.period;
        // Time is told by another clock from here on.
        for group in self.groups.iter_mut().filter(|group| now < group.begun) {
            (group.begun, group.spent, group.records) = (now, 0, 0);
        }
        for group in self.groups.iter_mut().filter(|g| g.is_due(period, now)) {
            let mut countdowns = 0_u64;
            for entry in group.entries.iter() {
                let member = &mut self.members[entry.number()];
                let passed = paced.passed(entry);
                member.executed += passed.saturating_sub(member.counted);
                member.counted = passed;
                countdowns = countdowns.saturating_add(member.executed);
            }
            let early = now - group.begun < period;
            let counted = countdowns.saturating_mul(self.countdown) >> FRACTION;
            let lasted = now.saturating_sub(group.begun).max(1);
            let took = group.spent.saturating_add(counted);
            group.paid.ticks = group.paid.ticks.saturating_add(took);
            group.paid.of = group.paid.of.saturating_add(lasted);
            let affordable = group.affordable(period, now, counted);
            group.demands(countdowns, counted, lasted);
            let executed = |entry: Entry| self.members[entry.number()].executed;
            let level = level(&group.entries, executed, affordable);
            for entry in group.entries.iter() {
                let member = &mut self.members[entry.number()];
                let rank = rank(member.executed, level, member.rank);
                let rank = if early { rank.max(member.rank) } else { rank };
                member.executed = 0;
                if rank != member.rank {
                    member.rank = rank;
                    member.counted = 0;
                    paced.pace(entry, Rate::of_rank(rank));
                }
            }
        }
    }
}

impl Throttle {
    /// Gives what the periods of each query took that have ended since the last time, by its first entry.
    pub fn settle(&mut self, mut to: impl FnMut(Entry, Paid)) {
        for group in &mut self.groups {
            let first = group.entries.iter().next();
            if let Some(first) = first.filter(|_| group.paid.of != 0) {
                to(first, core::mem::take(&mut group.paid));
            }
        }
    }
}

impl Group {
    /// Returns what so many ticks allow.
    const fn allowed(&self, ticks: u64) -> u64 {
        ((ticks as u128 * self.share as u128) / WHOLE as u128) as u64
    }

    const fn is_due(&self, period: u64, now: u64) -> bool {
        now < self.begun || now - self.begun >= period || self.spent > self.allowed(period)
    }

    /// Ends the period, in which countdowns took `counted` ticks. Records that a time as long as it was may have, in fractions; none:
    /// any number.
    fn affordable(&mut self, period: u64, now: u64, counted: u64) -> Option<u64> {
        let lasted = now.saturating_sub(self.begun).max(1);
        let allowed = self.allowed(lasted);
        let allowed = allowed.saturating_sub(counted).max(allowed / 4);
        let whole = self.allowed(period).min(u32::MAX.into()) as i64;
        let left = i128::from(allowed) - i128::from(self.spent);
        let left = left.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.saved = self
            .saved
            .saturating_add(left)
            .clamp(-CREDIT * whole, HORIZON as i64 * whole);
        if self.records > 0 {
            let each = u128::from(self.spent) << FRACTION;
            let each = (each / u128::from(self.records)).min(u64::MAX.into()) as u64;
            self.usual = match self.usual {
                0 => each,
                // A thread may have lost the processor in a record.
                before => before - before / 4 + each.min(before.saturating_mul(2)) / 4,
            };
        }
        (self.begun, self.spent, self.records) = (now, 0, 0);
        if self.usual == 0 {
            return None;
        }
        let over = i128::from(lasted) * i128::from(self.saved) / i128::from(HORIZON * period);
        let budget = i128::from(allowed) + over;
        let budget = budget.clamp(i128::from(allowed) / 4, 2 * i128::from(allowed)) as u128;
        let records = (budget << (2 * FRACTION)) / u128::from(self.usual);
        Some(records.min(u64::MAX.into()) as u64)
    }
}

/// The most records, in fractions, that an entry may have, so that all have as many as can be paid for and none has more than
/// another that would like to. None: any number.
fn level(
    entries: &EntrySet,
    executed: impl Fn(Entry) -> u64,
    affordable: Option<u64>,
) -> Option<u64> {
    let mut left = affordable?;
    let wanted = |entry: Entry| executed(entry).saturating_mul(1 << FRACTION);
    let mut among = entries.iter().filter(|e| executed(*e) > 0).count() as u64;
    let mut level = 0;
    // Each turn those drop out that have enough, so there are no more turns than entries.
    while among > 0 {
        let higher = left / among;
        let content = entries.iter().map(wanted);
        let content = content.filter(|w| *w > level && *w <= higher);
        let (mut sum, mut count) = (0_u64, 0);
        for wanted in content {
            sum = sum.saturating_add(wanted);
            count += 1;
        }
        if count == 0 {
            return Some(higher);
        }
        (left, among, level) = (left.saturating_sub(sum), among - count, higher);
    }
    None
}

/// The rank of an entry that is executed so often and may have `level` records, in fractions, and has the rank `now`.
fn rank(executed: u64, level: Option<u64>, now: u32) -> u32 {
    let Some(level) = level else {
        return 0;
    };
    let level = u128::from(level.max(1));
    let wanted = u128::from(executed) << FRACTION;
    let enough = |rank: u32, wanted: u128| wanted <= level << rank;
    let least = |wanted| (0..MOST_RANK).find(|rank| enough(*rank, wanted));
    let least = |wanted| least(wanted).unwrap_or(MOST_RANK);
    match least(wanted) {
        more if more >= now => more,
        _ => least(wanted + wanted / 4).min(now),
    }
}

/// A sequence of rates for tests, which no clock has a part in.
#[derive(Clone, Debug)]
pub struct Rehearsal([u64; ENTRIES]);

impl Default for Rehearsal {
    fn default() -> Self {
        Self([0; ENTRIES])
    }
}

impl Rehearsal {
    /// A record of `entry` was made: the rate from now on.
    pub fn next(&mut self, entry: Entry) -> Rate {
        let records = &mut self.0[entry.number()];
        *records += 1;
        let seed = *records * ENTRIES as u64 + entry.number() as u64;
        let mut random = SplitMix64::apart(seed, *b"rparate\0");
        // Some stay for a while.
        Rate::of_rank(match random.below(3) {
            0 => random.below(6) as u32,
            _ => (*records / 8 % 4) as u32,
        })
    }
}
