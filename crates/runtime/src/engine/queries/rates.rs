//! Rates of `every auto` in a thread: when they are adapted, and what they have together.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_query::throttle::{Paced, Throttle, Together};
use trommel_query::{Engine, Entry, Program, Rate};
use trommel_queue::queries::{ENTRIES, Queries};

use crate::base::area::Context;
use crate::base::sys;
use crate::channel::slot::Mapped;
use crate::engine::asking::{Asking, Rates, Underway, add};
use crate::observe::query::{Crossing, Site};

/// Ticks of a period of a throttle.
const PERIOD: u64 = 1 << 21;
/// Ticks of a record outside of [`crossed`], where its time is measured: saving and loading the app's state.
const AROUND: u64 = 60;
/// 256ths of a tick that an execution costs which is counted down, in the mean of gzip and CPython, all of whose loads and stores, or branches
/// and arithmetic too, are counted: from 0.24 to 0.68 ns, at 2.6 ticks a nanosecond.
const COUNTDOWN: u64 = 300;

/// An engine whose countdowns are in a context.
struct InForce<'a> {
    engine: &'a mut Engine<'static>,
    drawn: &'a mut [u32; ENTRIES],
    left: &'a mut [u32; ENTRIES],
    area: &'a Queries,
}

impl Paced for InForce<'_> {
    fn passed(&self, entry: Entry) -> u64 {
        let number = entry.number();
        u64::from(self.drawn[number] - self.left[number])
    }

    fn pace(&mut self, entry: Entry, rate: Rate) {
        if self.engine.rate(entry) == rate {
            return;
        }
        let number = entry.number();
        add(&self.area.seen[number].executed, self.passed(entry));
        self.engine.pace(entry, rate);
        let left = self.engine.countdown(entry).unwrap_or(0) as u32;
        (self.drawn[number], self.left[number]) = (left, left);
    }
}

impl Rates {
    /// The source of the rates of a program.
    pub(super) fn begin(program: &Program, mapped: Mapped) -> Self {
        match Throttle::new(program, PERIOD, sys::ticks()) {
            None => Self::Fixed,
            Some(_) if mapped.queries().rehearsed.load(Relaxed) != 0 => {
                Self::Rehearsed(Box::default())
            }
            Some(throttle) => Self::Throttled(Box::new(throttle.charging(COUNTDOWN))),
        }
    }

    /// Returns the throttle, if there is one.
    fn throttle(&self) -> Option<&Throttle> {
        match self {
            Self::Throttled(throttle) => Some(throttle),
            Self::Fixed | Self::Rehearsed(_) => None,
        }
    }
}

impl Asking {
    /// Rates were adjusted: gives all queries their parts of the common budget, if there is one.
    pub(super) fn share_budget(&mut self, mapped: Mapped) {
        let word = mapped.queries().together.load(Relaxed);
        let Some(together) = Together::of_word(word) else {
            return;
        };
        let part = together.part(|| {
            let underway = self.underway.iter().flatten();
            underway.filter_map(|underway| underway.rates.throttle())
        });
        for underway in self.underway.iter_mut().flatten() {
            if let Rates::Throttled(throttle) = &mut underway.rates {
                throttle.limit(part);
            }
        }
    }
}

impl Underway {
    /// Returns true if it is time to look at the rates.
    pub(super) fn is_due(&self) -> bool {
        match &self.rates {
            Rates::Throttled(throttle) => throttle.is_due(sys::ticks()),
            Rates::Fixed | Rates::Rehearsed(_) => false,
        }
    }

    /// Puts rates in force that are due. Returns whether any were.
    pub(super) fn look(&mut self, context: &mut Context, area: &Queries) -> bool {
        let Rates::Throttled(throttle) = &mut self.rates else {
            return false;
        };
        let now = sys::ticks();
        let due = throttle.is_due(now);
        if due {
            let mut paced = InForce {
                engine: &mut self.engine,
                drawn: &mut self.drawn,
                left: &mut context.left[self.place],
                area,
            };
            throttle.adjust(now, &mut paced);
            throttle.settle(|first, paid| {
                let sum = &area.paid[first.number()];
                add(&sum.ticks, paid.ticks);
                add(&sum.of, paid.of);
            });
        }
        due
    }

    /// A crossing of the site's is done with, which began at `from`. Returns whether rates were due for what records cost.
    pub(super) fn adapt(
        &mut self,
        area: &Queries,
        context: &mut Context,
        site: &Site,
        crossing: Crossing,
        from: u64,
    ) -> bool {
        match &mut self.rates {
            Rates::Fixed => false,
            Rates::Throttled(throttle) => {
                let lasted = sys::ticks().saturating_sub(from);
                throttle.spend(site.entry, lasted + AROUND);
                self.look(context, area)
            }
            Rates::Rehearsed(rehearsal) => {
                if crossing.flags & Crossing::SECOND != 0 {
                    return false;
                }
                let rate = rehearsal.next(site.entry);
                let mut paced = InForce {
                    engine: &mut self.engine,
                    drawn: &mut self.drawn,
                    left: &mut context.left[self.place],
                    area,
                };
                paced.pace(site.entry, rate);
                false
            }
        }
    }
}
