//! Intervals that end, with their candidates.
//!
//! The service thread's profiler reports candidates of all threads together. A profiler in generated code is a thread's own: its candidates come as
//! records, and a mark at an interval's end. An interval without its mark has not ended, and is left out.
//!
//! Who looks at a run that goes on asks for the latest interval of each thread, and services are given each interval. Copies are made for them only.

use std::collections::BTreeMap;
use std::time::Instant;

use trommel_profile::intervals::{CANDIDATES, Interval, Intervals, Keeper, sort};
use trommel_tuple::Message;

/// Number of the thread for a profiler of all threads.
pub(super) const ALL_THREADS: u32 = 0;
/// Threads whose latest interval is kept: those whose intervals ended last.
const LATEST: usize = 64;

/// An interval that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Number of the thread; 0: a profiler of all threads.
    pub thread: u32,
    /// The interval.
    pub interval: Interval,
    /// Time at which its end was found.
    pub at: Instant,
}

/// Intervals that have ended, and candidates of those that are about to, by thread.
#[derive(Default)]
pub(super) struct Ending {
    keeper: Keeper,
    candidates: BTreeMap<u32, Vec<Message>>,
    /// Latest intervals by thread, where somebody looks at them.
    latest: Option<BTreeMap<u32, Ended>>,
    /// Intervals that services have not been given yet, where there are services for them.
    ended: Option<Vec<Ended>>,
}

impl Ending {
    /// Keeps the latest interval of each thread.
    pub(super) fn keep_latest(&mut self) {
        self.latest = Some(BTreeMap::new());
    }

    /// Returns true if the latest interval of each thread is kept.
    pub(super) const fn keeps_latest(&self) -> bool {
        self.latest.is_some()
    }

    /// Keeps each interval until it is taken for services.
    pub(super) fn serve(&mut self) {
        self.ended = Some(Vec::new());
    }

    /// Returns true if intervals are kept for services.
    pub(super) const fn serves(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes the intervals that services have not been given yet, in the order in which they ended.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        self.ended.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A candidate of the thread's interval.
    pub(super) fn candidate(&mut self, thread: u32, message: Message) {
        let candidates = self.candidates.entry(thread).or_default();
        // With one more the interval is not kept, however many there are. Services are given all that the profiler has.
        if candidates.len() <= CANDIDATES || self.ended.is_some() {
            candidates.push(message);
        }
    }

    /// The thread's interval, of so many events, has ended.
    pub(super) fn ended(&mut self, thread: u32, events: u64) {
        let mut candidates = self.candidates.remove(&thread).unwrap_or_default();
        if self.latest.is_none() && self.ended.is_none() {
            self.keeper.add(thread, events, candidates);
            return;
        }
        sort(&mut candidates);
        let (number, start) = self.keeper.add(thread, events, candidates.clone());
        let ended = Ended {
            thread,
            interval: Interval {
                number,
                start,
                events,
                candidates,
            },
            at: Instant::now(),
        };
        if let Some(latest) = &mut self.latest {
            latest.insert(thread, ended.clone());
            let is_over = latest.len() > LATEST;
            let oldest = latest.values().filter(|_| is_over).min_by_key(|of| of.at);
            if let Some(oldest) = oldest.map(|oldest| oldest.thread) {
                latest.remove(&oldest);
            }
        }
        if let Some(all) = &mut self.ended {
            all.push(ended);
        }
    }

    /// Returns the latest intervals, the last one first, and the number of all that have ended.
    pub(super) fn latest(&self) -> (Vec<Ended>, u64) {
        let latest = self.latest.iter().flat_map(BTreeMap::values);
        let mut latest: Vec<Ended> = latest.cloned().collect();
        latest.sort_by_key(|latest| std::cmp::Reverse(latest.at));
        (latest, self.keeper.ended())
    }

    /// All intervals that have ended.
    pub(super) fn finish(self) -> Intervals {
        self.keeper.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};

    fn candidate(vaddr: u64) -> Message {
        Message {
            kind: Kind::Edge,
            tuple: Tuple::new(Place::new(ModuleId(1), Vaddr(vaddr)), 1),
            count: 10,
            samples: 1,
        }
    }

    #[test]
    fn the_latest_interval_of_each_thread_is_kept_where_somebody_looks() {
        let (mut kept, mut others) = (Ending::default(), Ending::default());
        kept.keep_latest();
        for (thread, vaddr) in [(1, 7), (2, 8), (1, 9), (3, 10), (2, 11)] {
            for ending in [&mut kept, &mut others] {
                ending.candidate(thread, candidate(vaddr));
                ending.ended(thread, 100);
            }
        }
        let (latest, ended) = kept.latest();
        let found: Vec<_> = (latest.iter())
            .map(|l| (l.thread, l.interval.number, l.interval.start))
            .collect();
        assert_eq!(found, [(2, 2, 100), (3, 1, 0), (1, 2, 100)]);
        assert_eq!(latest[0].interval.candidates, [candidate(11)]);
        assert_eq!(ended, 5);
        assert!(others.latest().0.is_empty());
        // What is kept for the report does not depend on it.
        assert_eq!(kept.finish(), others.finish());
    }

    #[test]
    fn services_have_each_interval_once_and_in_order() {
        let mut ending = Ending::default();
        ending.serve();
        for thread in [1, 2, 1] {
            ending.candidate(thread, candidate(7));
            ending.ended(thread, 100);
        }
        let of = |ended: &Ended| (ended.thread, ended.interval.number, ended.interval.start);
        let found: Vec<_> = ending.take_ended().iter().map(of).collect();
        assert_eq!(found, [(1, 1, 0), (2, 1, 0), (1, 2, 100)]);
        // All candidates, also where the report keeps no such interval.
        for _ in 0..CANDIDATES + 5 {
            ending.candidate(2, candidate(8));
        }
        ending.ended(2, 1 << 20);
        let ended = ending.take_ended();
        assert_eq!((ended.len(), of(&ended[0])), (1, (2, 2, 100)));
        assert_eq!(ended[0].interval.candidates.len(), CANDIDATES + 5);
        assert!(ending.take_ended().is_empty());
        assert_eq!(ending.finish().ended(), 4);
    }

    #[test]
    fn of_many_threads_those_are_kept_whose_intervals_ended_last() {
        let mut ending = Ending::default();
        ending.keep_latest();
        for thread in (1..=200).chain([1]) {
            ending.ended(thread, 1);
        }
        let (latest, ended) = ending.latest();
        let threads: Vec<u32> = latest.iter().map(|latest| latest.thread).collect();
        let expected: Vec<u32> = [1].into_iter().chain((138..=200).rev()).collect();
        assert_eq!((threads, ended), (expected, 201));
    }
}
