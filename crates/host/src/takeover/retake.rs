//! Decision to reattach a program that was detached.
//!
//! # Problem
//! A program is detached for what it did then: a branch that could not be predicted, code that was executed once. Minutes later it may be
//! in a loop that control would make faster. Nothing of ours sees that: it runs natively, and it may well
//! never change. So a look must cost next to nothing, and failed tries a small part of the time that passes.
//!
//! # Strategy
//! Dynamo detaches for good (Bala, Duesterwald, Banerjia, PLDI 2000, section 8). Here program counters are sampled by the
//! kernel's clock of each thread ([`Samplers`]), as nothing else tells where a native program is. When it is detached, [`LEARNT`] samples, one in [`AT_FIRST`] of
//! user time, tell what code is hot: what it was detached for. From then on there is one in [`LATER`], and they are judged in groups of [`GROUP`].
//!
//! Code is told apart in pieces of 2^[`PIECE`] bytes. A piece is *new* in a group if its part of the group is more than
//! [`TIMES`] times what it was in everything that the program was ever detached for. Where [`MOST`] percent of a group are in new pieces, the program has turned
//! to something else; where [`GROUPS`] such groups follow each other, none of them as far from the one before as from what was
//! learnt, it stays at that. Then it is reattached, if
//!
//! * it has been native for [`PATIENCE`] of CPU time, twice as long with each further detachment;
//! * what all tries have cost that came to nothing, and this one is expected to cost, is at most one part in [`SHARE`] of the
//!   CPU time that the process has used.
//!
//! A try costs the time that the reattachment takes, and what is lost under control until the program is detached again,
//! by the samples of [`Audit`](crate::serve::audit::Audit). One that pays costs nothing.
//!
//! # Why a program without a working set is left alone
//! A piece is counted for a sample more than it has been seen with, so it takes two samples in a group to be new. Of code in which
//! no piece is hot most samples are alone in theirs: neither does such a program ever seem to have
//! changed, nor is what has no hot code a reason to try.
//!
//! # Limits
//! What the program turns to while it is learnt what it was detached for, a quarter of a second, counts as that. Other work done by the same code
//! (an interpreter's) is the same work here. Where the kernel refuses events nothing is reattached.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::clocks::cpu_of;
use crate::kernel::samplers::Samplers;

/// Samples by which it is known what a program was detached for.
const LEARNT: u32 = 256;
/// Samples that are judged together.
const GROUP: u32 = 64;
/// Binary logarithm of the bytes of a piece of code.
const PIECE: u32 = 8;
/// See the module.
const TIMES: u32 = 4;
/// Percent of a group that must be new.
const MOST: u32 = 60;
/// Groups, one after the other, that are enough.
const GROUPS: u32 = 3;
/// User time between samples at first, and later.
const AT_FIRST: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(20);
/// From one look to the next, while it is learnt what the program was detached for, and later. Rings of samples have room for longer.
const OFTEN: Duration = Duration::from_millis(100);
const RARE: Duration = Duration::from_secs(1);
/// CPU time for which a program is native at least.
const PATIENCE: Duration = Duration::from_secs(1);
/// Tries may cost one part of so many.
const SHARE: u32 = 100;
/// Cost of a try that comes to nothing, as long as there was none.
const EXPECTED: Duration = Duration::from_millis(60);
/// CPU time after which a native program is reattached whatever it does, for tests.
const HASTE: Duration = Duration::from_millis(20);

/// Samples by piece of code.
#[derive(Debug, Default)]
struct Hot {
    pieces: HashMap<u64, u32>,
    all: u32,
}

impl Hot {
    fn add(&mut self, pc: u64) {
        *self.pieces.entry(pc >> PIECE).or_default() += 1;
        self.all += 1;
    }

    fn of(&self, piece: u64) -> u32 {
        self.pieces.get(&piece).copied().unwrap_or(0)
    }

    /// Percent of the samples in pieces that are new beside all that is `known`.
    fn new_beside(&self, known: &[Self]) -> u32 {
        let is_new = |piece: u64, n: u32| {
            let mut known = known.iter();
            known.all(|hot| n * hot.all > TIMES * (hot.of(piece) + 1) * self.all)
        };
        let new = self.pieces.iter().filter(|&(&p, &n)| is_new(p, n));
        new.map(|(_, n)| n).sum::<u32>() * 100 / self.all.max(1)
    }
}

/// Samples of a program since it was detached.
struct Native {
    samplers: Samplers,
    /// CPU time of the process when it was detached.
    since: Duration,
    /// The code that it was detached for is known.
    learnt: bool,
    group: Hot,
    before: Option<Hot>,
    /// Groups with new code, one after the other, up to the last one.
    changed: u32,
    /// Percent of the last one.
    new: u32,
}

impl Native {
    fn new(pid: Pid, since: Duration) -> Self {
        Self {
            samplers: Samplers::new(pid, AT_FIRST),
            since,
            learnt: false,
            group: Hot::default(),
            before: None,
            changed: 0,
            new: 0,
        }
    }

    fn add(&mut self, pc: u64, known: &mut Vec<Hot>) {
        self.group.add(pc);
        let enough = if self.learnt { GROUP } else { LEARNT };
        if self.group.all < enough {
            return;
        }
        let group = std::mem::take(&mut self.group);
        if !self.learnt {
            self.learnt = true;
            known.push(group);
            return;
        }
        self.new = group.new_beside(known);
        let before = self.before.replace(group);
        let group = self.before.as_ref();
        let stays = |before: Hot| group.is_some_and(|g| g.new_beside(&[before]) < MOST);
        self.changed = match self.new >= MOST {
            false => 0,
            true if self.changed == 0 => 1,
            true if before.is_some_and(stays) => self.changed + 1,
            true => 1,
        };
    }
}

/// The account of a process that has been detached.
pub struct Watch {
    pid: Pid,
    /// Reattaches it soon, whatever it does.
    hasty: bool,
    /// Code that it was detached for, each time.
    known: Vec<Hot>,
    /// Samples of it while it is native.
    native: Option<Native>,
    /// Times that it was reattached.
    tries: u32,
    /// Cost of tries that came to nothing.
    cost: Duration,
    /// The last of it.
    last: Duration,
    /// Cost of the last reattachment.
    taking: Duration,
    looked: Option<Instant>,
}

impl Watch {
    /// Begins with nothing known. `hasty`: for tests, it is reattached soon, whatever it does.
    pub fn begin(pid: Pid, hasty: bool) -> Self {
        Self {
            pid,
            hasty,
            known: Vec::new(),
            native: None,
            tries: 0,
            cost: Duration::ZERO,
            last: EXPECTED,
            taking: Duration::ZERO,
            looked: None,
        }
    }

    /// Looks at a process that is native, if it is time. `lost`: what was lost under control until it was detached. Where it is to be reattached: the
    /// percent of its time that is spent in code that was not hot when it was detached.
    pub fn look(&mut self, lost: Duration) -> Option<u32> {
        let pause = match &self.native {
            Some(native) if !self.hasty && native.learnt => RARE,
            Some(_) if !self.hasty => OFTEN,
            _ => Duration::ZERO,
        };
        if self.looked.is_some_and(|at| at.elapsed() < pause) {
            return None;
        }
        self.looked = Some(Instant::now());
        let cpu = cpu_of(self.pid)?;
        if self.native.is_none() {
            self.detach(cpu, lost);
        }
        let native = self.native.as_mut()?;
        let Native { learnt, .. } = *native;
        let mut found = Vec::new();
        native.samplers.drain(|pc| found.push(pc));
        found
            .into_iter()
            .for_each(|pc| native.add(pc, &mut self.known));
        if native.learnt && !learnt {
            native.samplers.set_period(LATER);
        }
        self.is_due(cpu)
    }

    fn detach(&mut self, cpu: Duration, lost: Duration) {
        if self.tries > 0 {
            self.last = self.taking + lost;
            self.cost += self.last;
        }
        self.native = Some(Native::new(self.pid, cpu));
    }

    fn is_due(&self, cpu: Duration) -> Option<u32> {
        let native = self.native.as_ref()?;
        let so_far = cpu.saturating_sub(native.since);
        if self.hasty {
            return (so_far >= HASTE).then_some(native.new);
        }
        let patience = PATIENCE * 2_u32.saturating_pow(self.tries);
        let costs = self.cost + self.last.max(EXPECTED);
        let due = native.changed >= GROUPS && so_far >= patience && costs * SHARE <= cpu;
        due.then_some(native.new)
    }

    /// Notes that it has been reattached, which took so long.
    pub fn taken(&mut self, took: Duration) {
        self.tries += 1;
        self.taking = took;
        self.native = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program counter in the `n`th of some hot places, of which the first takes as much time as all others.
    fn place(base: u64, places: u64, n: u64) -> u64 {
        let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let at = if spread.is_multiple_of(2) {
            0
        } else {
            spread / 2 % places
        };
        base + (at << PIECE) + spread % 200
    }

    /// A watch of a program that has been detached, and its account from there on.
    fn detach() -> (Watch, Native) {
        let mut watch = Watch::begin(Pid::from_raw(1), false);
        watch.detach(Duration::ZERO, Duration::ZERO);
        let native = watch.native.take().expect("native");
        (watch, native)
    }

    /// Percent of each group that was new, and in how many one after the other it was most at last.
    fn seen(pcs: impl Iterator<Item = u64>) -> (Vec<u32>, u32) {
        let (mut watch, mut native) = detach();
        let mut new = Vec::new();
        for pc in pcs {
            let was = native.group.all;
            native.add(pc, &mut watch.known);
            if native.group.all < was && !watch.known.is_empty() {
                new.push(native.new);
            }
        }
        (new, native.changed)
    }

    const A: u64 = 0x40_0000;
    const B: u64 = 0x7f00_0000_0000;

    #[test]
    fn the_same_work_never_seems_to_be_other_work() {
        for places in [1, 3, 20, 100, 1000, 100_000] {
            let (new, changed) = seen((0..60_000).map(|n| place(A, places, n)));
            let most = new.iter().max().copied();
            assert!(most.is_some_and(|m| m < MOST / 2), "{places}: {new:?}");
            assert_eq!(changed, 0);
        }
    }

    #[test]
    fn other_work_is_seen_and_must_last() {
        for places in [1, 3, 20] {
            let start = u64::from(LEARNT + 10 * GROUP);
            let work = |groups: u32| {
                let end = start + u64::from(groups * GROUP);
                (0..end).map(move |n| place(if n < start { A } else { B }, places, n))
            };
            assert_eq!(seen(work(GROUPS - 1)).1, GROUPS - 1, "{places}");
            assert_eq!(seen(work(GROUPS)).1, GROUPS, "{places}");
            // It goes back.
            let back = (0..u64::from(GROUP)).map(|n| place(A, places, n));
            assert_eq!(seen(work(GROUPS).chain(back)).1, 0);
        }
    }

    /// Neither what goes from one thing to the next, nor what has no hot code.
    #[test]
    fn work_without_a_working_set_is_not_waited_for() {
        let restless = |n: u64| place(B + ((n / u64::from(GROUP)) << 20), 3, n);
        let group = u64::from(GROUP);
        let learn = u64::from(LEARNT);
        let pcs = (0..100 * group).map(|n| {
            if n < learn {
                place(A, 3, n)
            } else {
                restless(n)
            }
        });
        assert_eq!(seen(pcs).1, 1);
        let flat = |n: u64| B + ((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) << PIECE);
        let pcs = (0..100 * group).map(|n| if n < learn { place(A, 3, n) } else { flat(n) });
        assert_eq!(seen(pcs).1, 0);
    }

    /// Tests that code that it was detached for the first time is no news after the second.
    #[test]
    fn what_was_tried_is_not_tried_again() {
        let (mut watch, mut native) = detach();
        (0..LEARNT).for_each(|n| native.add(place(A, 3, n.into()), &mut watch.known));
        watch.taken(Duration::ZERO);
        watch.detach(Duration::ZERO, Duration::ZERO);
        let mut native = watch.native.take().expect("native");
        (0..LEARNT).for_each(|n| native.add(place(B, 3, n.into()), &mut watch.known));
        assert_eq!(watch.known.len(), 2);
        (0..10 * GROUP).for_each(|n| native.add(place(A, 3, n.into()), &mut watch.known));
        assert_eq!(native.changed, 0);
        (0..10 * GROUP).for_each(|n| native.add(place(A + B, 3, n.into()), &mut watch.known));
        assert_eq!(native.changed, 10);
    }

    #[test]
    fn tries_are_paid_for_and_rarer_each_time() {
        let second = Duration::from_secs(1);
        let mut watch = Watch::begin(Pid::from_raw(1), false);
        let mut now = second;
        let mut cost = Duration::ZERO;
        for n in 0..8 {
            watch.detach(now, second / 20);
            let since = now;
            watch.native.as_mut().expect("native").changed = GROUPS;
            while watch.is_due(now).is_none() {
                now += second / 10;
            }
            assert!(now - since >= PATIENCE * (1 << n), "{:?}", now - since);
            watch.taken(second / 100);
            cost += second / 100 + second / 20;
            // Only of the first it was not known what it costs.
            let most = if n == 0 { now * 2 } else { now };
            assert!(cost * SHARE <= most, "{cost:?} of {now:?}");
        }
        assert_eq!(watch.cost + second * 6 / 100, cost);
        // Nothing has changed.
        watch.detach(now, Duration::ZERO);
        assert_eq!(watch.is_due(now * 1000), None);
    }
}
