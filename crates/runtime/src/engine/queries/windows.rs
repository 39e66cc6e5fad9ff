//! Queries in windows ([`crate::engine::window`]): what a window counts is reported when it ends.
//!
//! # Problem
//! Windows are the samples of a program. An estimate needs what each of them saw, with its weight, and how many of them saw it. Sums over a
//! run say neither. What is passed before a window belongs to none.
//!
//! # Strategy
//! The counts of a thread are its own: those of its window ([`super::counts`]), and the counts of ways in its page. They are set to 0 where
//! the window proper begins, and recorded where it ends, before the mark of its end ([`COUNT_MARK`]). Messages are among the records of the
//! window, and none is sent by what is passed. So the host has everything of a window together, and counts it only when its end is there.
//!
//! Programs may come and go ([`super::changes`]). A window is asked those that are there when it begins, and the others have to wait for
//! the next. A place is used again only when all windows have ended that began before its program went. So what a window counts and sends
//! for a place is of one program.
//!
//! A countdown goes on from one window of its thread to the next. The executions of a window are those that its countdown has counted down.
//! A thread's first countdown is one that is under way ([`Engine::amid`](trommel_query::Engine::amid)).
//!
//! # Why it is correct
//! * A window ends at a boundary between instructions, and a probe belongs to its instruction's step: no query is cut.
//! * All signals are blocked in a window, so nobody waits there for the host. Where it lags, or a window has sent much, messages are
//!   dropped and counted.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::queries::ENTRIES;
use trommel_queue::{COUNT_MARK, MOST_COUNTS};

use crate::base::area::Context;
use crate::engine::marks::mark_window;
use crate::engine::queries::counts::{InWindow, Passed};
use crate::engine::state::{Runtime, Thread};
use crate::engine::window::state::Phase;

impl Thread {
    /// Executions that the countdowns of a load have counted down since they were drawn.
    fn passed(&self, context: &Context, place: usize, id: u32) -> Passed {
        let asking = self.asking.as_ref();
        let underway = asking.and_then(|asking| asking.underway[place].as_ref());
        let underway = underway.filter(|underway| underway.id == id);
        underway.map_or([0; ENTRIES], |underway| {
            core::array::from_fn(|n| underway.drawn[n].wrapping_sub(context.left[place][n]))
        })
    }

    /// Returns true if it passes instructions before a window.
    pub(crate) fn passes(&self) -> bool {
        let window = self.windowed.now.as_ref();
        window.is_some_and(|window| window.phase == Phase::Passing)
    }

    /// The window proper begins: what is counted from here on is its.
    pub(crate) fn begin_counts(&mut self, context: &Context) {
        let Some(mut by_window) = self.take_counts() else {
            return;
        };
        let passed = |place, id| self.passed(context, place, id);
        by_window.begin(passed, self.thread_page());
        self.put_counts(by_window);
    }

    /// Takes the counts of its window out, if there are any.
    fn take_counts(&mut self) -> Option<Box<InWindow>> {
        self.asking.as_mut()?.by_window.take()
    }

    fn put_counts(&mut self, by_window: Box<InWindow>) {
        if let Some(asking) = &mut self.asking {
            asking.by_window = Some(by_window);
        }
    }
}

impl Runtime {
    /// A thread's first steps in a window: it is asked what is asked now.
    pub(crate) fn ask_in_window(&self, thread: &mut Thread) {
        let epoch = self.cache.epoch();
        thread.presence.since.store(epoch, Relaxed);
        let asked = self.translator.ways.asked.as_ref();
        let by_window = thread
            .asking
            .as_mut()
            .and_then(|asking| asking.by_window.as_mut());
        if let (Some(asked), Some(by_window)) = (asked, by_window) {
            by_window.meet(asked);
        }
    }

    /// Records what a window has counted that is about to end. A chunk that this fills is published: of chunks there are enough, and nobody
    /// waits for the host.
    pub(crate) fn record_counts(&mut self, thread: &mut Thread, context: &Context) {
        let Some(by_window) = thread.take_counts() else {
            return;
        };
        let mut written = 0;
        loop {
            let mut words = [0; 1 + MOST_COUNTS];
            let mut met = 0;
            let passed = |place, id| thread.passed(context, place, id);
            by_window.counts(passed, thread.thread_page(), |count| {
                if met >= written
                    && let Some(word) = words.get_mut(1 + met - written)
                {
                    *word = count.encode();
                }
                met += 1;
            });
            let used = (met - written).min(MOST_COUNTS);
            if used == 0 {
                break;
            }
            words[0] = used as u64;
            mark_window(thread, COUNT_MARK, &words[..=used]);
            written += used;
            if core::mem::take(&mut thread.full) {
                thread.process.queue.has_chunks(self.threads.len());
                if thread.publish_now().is_err() {
                    break;
                }
            }
        }
        thread.put_counts(by_window);
    }
}
