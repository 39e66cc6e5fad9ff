//! Counts of queries: of a run, or of the window that a thread is in.
//!
//! A window counts for the programs that were asked when it began. A program that comes meanwhile has to wait for the next window of
//! the thread: the host would not know how much of this one it has seen.

use alloc::boxed::Box;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::queries::{
    Acted, Counted, ENTRIES, INSTRUCTIONS, LOADS, MESSAGE_WORDS, Queries, Seen, WindowCount,
};
use trommel_queue::thread_page::ThreadPage;

use crate::observe::query::{Asked, Prepared};

/// Bytes of messages that a window sends at most: what the host keeps of a window until it has ended is limited.
const MOST_SENT: u64 = 4 << 20;

/// Counts of the window that a thread is in, of each program that it is asked.
#[derive(Default)]
pub(crate) struct InWindow {
    /// By place.
    loads: [Option<Box<WindowCounts>>; LOADS],
    /// Bytes of messages, at most.
    sent: Cell<u64>,
}

/// Executions that the countdowns of a program have counted down since they were drawn.
pub(crate) type Passed = [u32; ENTRIES];

/// Counts of the window for one program.
pub(crate) struct WindowCounts {
    /// Number of the load.
    id: u32,
    prepared: &'static Prepared,
    /// The first of its ways, if it has counts of them.
    ways: Option<u16>,
    seen: [Seen; ENTRIES],
    done: [Acted; INSTRUCTIONS],
    /// Executions that countdowns had counted down when the window began.
    passed: Passed,
}

/// Counts to add to.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    pub(crate) seen: &'a [Seen; ENTRIES],
    pub(crate) done: &'a [Acted; INSTRUCTIONS],
}

impl<'a> Counts<'a> {
    /// Those of the window, or of the run.
    pub(crate) fn of(by_window: Option<&'a WindowCounts>, area: &'a Queries) -> Self {
        match by_window {
            Some(by_window) => Self {
                seen: &by_window.seen,
                done: &by_window.done,
            },
            None => Self {
                seen: &area.seen,
                done: &area.done,
            },
        }
    }
}

impl InWindow {
    /// A window begins. It counts for the programs that are asked now. The caller has the lock.
    pub(crate) fn meet(&mut self, asked: &Asked) {
        for (place, counts) in self.loads.iter_mut().enumerate() {
            let now = asked.in_force(place);
            let is_now = |counts: &WindowCounts| now.is_some_and(|(id, ..)| counts.id == id);
            if !counts.as_deref().is_some_and(is_now) {
                *counts = now.map(|(id, prepared, ways)| WindowCounts::new(id, prepared, ways));
            }
        }
    }

    /// Returns the counts for a load at a place, if the window counts for it.
    pub(crate) fn of(&self, place: usize, id: u32) -> Option<&WindowCounts> {
        let counts = self.loads.get(place)?.as_deref();
        counts.filter(|counts| counts.id == id)
    }

    /// Returns true if the window may send another message.
    pub(crate) fn has_room(&self) -> bool {
        let sent = self.sent.get() + 4 + 8 * MESSAGE_WORDS as u64;
        self.sent.set(sent);
        sent <= MOST_SENT
    }

    /// The window proper begins. `passed`: by place and load. `page`: the thread's.
    pub(crate) fn begin(&mut self, passed: impl Fn(usize, u32) -> Passed, page: &ThreadPage) {
        for (place, counts) in self.loads.iter_mut().enumerate() {
            if let Some(counts) = counts {
                counts.begin(passed(place, counts.id), page);
            }
        }
        self.sent.set(0);
    }

    /// All that is not 0.
    pub(crate) fn counts(
        &self,
        passed: impl Fn(usize, u32) -> Passed,
        page: &ThreadPage,
        mut each: impl FnMut(WindowCount),
    ) {
        for (place, counts) in self.loads.iter().enumerate() {
            if let Some(counts) = counts {
                counts.counts(place as u8, &passed(place, counts.id), page, &mut each);
            }
        }
    }
}

impl WindowCounts {
    fn new(id: u32, prepared: &'static Prepared, ways: Option<u16>) -> Box<Self> {
        Box::new(Self {
            id,
            prepared,
            ways,
            seen: [const {
                Seen {
                    executed: AtomicU64::new(0),
                    profiled: AtomicU64::new(0),
                    acted: AtomicU64::new(0),
                }
            }; ENTRIES],
            done: [const {
                Acted {
                    sent: AtomicU64::new(0),
                    served: AtomicU64::new(0),
                    dropped: AtomicU64::new(0),
                    counted: AtomicU64::new(0),
                    counted_for: AtomicU64::new(0),
                    interrupted: AtomicU64::new(0),
                }
            }; INSTRUCTIONS],
            passed: [0; ENTRIES],
        })
    }

    /// Counts of its ways, by number.
    fn ways<'t>(
        &self,
        page: &'t ThreadPage,
    ) -> impl Iterator<Item = (usize, &'t AtomicU64)> + use<'t> {
        let first = usize::from(self.ways.unwrap_or(0));
        let count = self.ways.map_or(0, |_| self.prepared.ways());
        let all = page.ways.iter();
        all.skip(first).take(count).enumerate()
    }

    fn begin(&mut self, passed: Passed, page: &ThreadPage) {
        for (_, way) in self.ways(page) {
            way.store(0, Relaxed);
        }
        for entry in &self.prepared.entries {
            let seen = &self.seen[entry.number()];
            for count in [&seen.executed, &seen.profiled, &seen.acted] {
                count.store(0, Relaxed);
            }
        }
        for done in &self.done[..self.prepared.program.code().len()] {
            for count in [&done.sent, &done.dropped, &done.counted] {
                count.store(0, Relaxed);
            }
        }
        self.passed = passed;
    }

    fn counts(
        &self,
        load: u8,
        passed: &Passed,
        page: &ThreadPage,
        mut each: impl FnMut(WindowCount),
    ) {
        let mut count = |what, number: usize, count: u64| {
            if count != 0 {
                each(WindowCount {
                    load,
                    what,
                    number: number as u8,
                    count: count.min(u32::MAX.into()) as u32,
                });
            }
        };
        for (number, way) in self.ways(page) {
            count(Counted::Way, number, way.load(Relaxed));
        }
        for entry in &self.prepared.entries {
            let number = entry.number();
            let seen = &self.seen[number];
            let executed = seen.executed.load(Relaxed) + u64::from(passed[number]);
            let executed = executed.saturating_sub(self.passed[number].into());
            count(Counted::Executed, number, executed);
            count(Counted::Profiled, number, seen.profiled.load(Relaxed));
            count(Counted::Acted, number, seen.acted.load(Relaxed));
        }
        let all = self.done.iter().take(self.prepared.program.code().len());
        for (number, done) in all.enumerate() {
            count(Counted::Sent, number, done.sent.load(Relaxed));
            count(Counted::Dropped, number, done.dropped.load(Relaxed));
            count(Counted::Counted, number, done.counted.load(Relaxed));
        }
    }
}
