//! Counts of queries: of a run, or of the window that a thread is in.

use alloc::boxed::Box;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::queries::{
    Acted, Counted, ENTRIES, INSTRUCTIONS, MESSAGE_WORDS, Queries, Seen, WindowCount,
};
use trommel_queue::thread_page::ThreadPage;

use crate::observe::query::Prepared;

/// Bytes of messages that a window sends at most: what the host keeps of a window until it has ended is limited.
const MOST_SENT: u64 = 4 << 20;

/// Counts of the window that a thread is in.
pub(crate) struct WindowCounts {
    prepared: &'static Prepared,
    /// The first of its ways, if it has counts of them.
    ways: Option<u16>,
    seen: [Seen; ENTRIES],
    done: [Acted; INSTRUCTIONS],
    /// Executions that countdowns had counted down when the window began.
    passed: [u32; ENTRIES],
    /// Bytes of messages, at most.
    sent: Cell<u64>,
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

impl WindowCounts {
    pub(crate) fn new(prepared: &'static Prepared, ways: Option<u16>) -> Box<Self> {
        Box::new(Self {
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
            sent: Cell::new(0),
        })
    }

    /// Returns true if the window may send another message.
    pub(crate) fn has_room(&self) -> bool {
        let sent = self.sent.get() + 4 + 8 * MESSAGE_WORDS as u64;
        self.sent.set(sent);
        sent <= MOST_SENT
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

    /// Begins a window. `page`: the thread's.
    pub(crate) fn begin(&mut self, passed: [u32; ENTRIES], page: &ThreadPage) {
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
        self.sent.set(0);
    }

    /// All that is not 0.
    pub(crate) fn counts(
        &self,
        passed: &[u32; ENTRIES],
        page: &ThreadPage,
        mut each: impl FnMut(WindowCount),
    ) {
        let mut count = |what, number: usize, count: u64| {
            if count != 0 {
                each(WindowCount {
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
