//! The protocols between target and host in all the ways in which threads can come to execute them: loom tries each order of
//! their steps (with a bounded number of preemptions) and each value that a load may have.
//!
//! What a model does not allow it reports: a datum that two threads use at a time, an assertion, and a state in which
//! everybody sleeps. Sleeps end only when somebody wakes them, where the real ones end after some milliseconds by themselves: it is
//! wrong if anybody needs that.
#![allow(unsafe_code, reason = "records are in cells that loom watches")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::thread;
use trommel_aware::word::Word;
use trommel_queue::protocol::{
    answer, ask, asked, doze, give_back, publish, published, recycle, rouse, wait_for,
};
use words::{Futex, Half, Whole, half, model, whole};

#[path = "../../aware/tests/loom/mod.rs"]
mod words;

/// The pool, with as many chunks as the ring has entries.
struct Pool<const CHUNKS: usize> {
    count: Whole,
    consumed: Whole,
    recycled: Whole,
    fresh: Half,
    published: [Half; CHUNKS],
    given_back: [Half; CHUNKS],
    /// Records: the owner of the chunk may use it.
    records: [UnsafeCell<u32>; CHUNKS],
    bell: Futex,
    room: Futex,
}

impl<const CHUNKS: usize> Pool<CHUNKS> {
    fn new() -> Self {
        Self {
            count: whole(0),
            consumed: whole(0),
            recycled: whole(0),
            fresh: half(0),
            published: [const { 0 }; CHUNKS].map(half),
            // Number of no chunk: it may not be read before it is written.
            given_back: [const { u32::MAX }; CHUNKS].map(half),
            records: [const { 0 }; CHUNKS].map(UnsafeCell::new),
            bell: Futex::new(),
            room: Futex::new(),
        }
    }

    /// A chunk for a thread.
    fn take(&self) -> usize {
        let entry = |n: u64| &self.given_back[n as usize % CHUNKS];
        if let Some(chunk) = recycle(&self.recycled, &self.consumed, entry) {
            return chunk as usize;
        }
        let chunk = self.fresh.fetch_add(1, Relaxed) as usize;
        assert!(chunk < CHUNKS, "more chunks than threads and waiting ones");
        chunk
    }

    fn backlog(&self) -> u64 {
        let published = self.count.load(SeqCst);
        published.saturating_sub(self.consumed.load(SeqCst))
    }

    /// A thread fills chunks. Before it takes one none may wait for the host, when it looks.
    fn fill(&self, records: impl Iterator<Item = u32>) {
        for record in records {
            while self.backlog() >= 1 {
                let has_room = || self.backlog() < 1;
                doze(&self.room.word, has_room, || self.room.wait(1));
            }
            let chunk = self.take();
            // SAFETY: the thread has the chunk; loom checks that nobody else has.
            self.records[chunk].with_mut(|to| unsafe { *to = record });
            let entry = |n: u64| &self.published[n as usize % CHUNKS];
            publish(&self.count, entry, chunk as u32);
            rouse(&self.bell.word, || self.bell.wake());
        }
    }

    /// The host takes so many chunks. Returns their records.
    fn serve(&self, chunks: usize) -> Vec<u32> {
        let (mut taken, mut seen) = (0, Vec::new());
        while seen.len() < chunks {
            let n = taken as usize % CHUNKS;
            let Some(chunk) = published(&self.published[n]) else {
                let busy = || published(&self.published[n]).is_some();
                doze(&self.bell.word, busy, || self.bell.wait(1));
                self.bell.word.store(0, SeqCst);
                continue;
            };
            // SAFETY: the host has the chunk.
            seen.push(self.records[chunk as usize].with(|from| unsafe { *from }));
            let (from, to) = (&self.published[n], &self.given_back[n]);
            give_back(from, to, &self.consumed, &mut taken, chunk);
            rouse(&self.room.word, || self.room.wake());
        }
        seen
    }
}

// SAFETY: what is not atomic is used by who has the chunk, which is what loom checks.
unsafe impl<const CHUNKS: usize> Sync for Pool<CHUNKS> {}
// SAFETY: as above.
unsafe impl<const CHUNKS: usize> Send for Pool<CHUNKS> {}

#[test]
fn a_thread_and_the_host_pass_chunks_around() {
    model(|| {
        let pool = Arc::new(Pool::<2>::new());
        let thread = thread::spawn({
            let pool = pool.clone();
            move || pool.fill(1..=3)
        });
        assert_eq!(pool.serve(3), [1, 2, 3], "in order, each once");
        thread.join().expect("it ends");
    });
}

#[test]
fn two_threads_never_have_the_same_chunk() {
    model(|| {
        let pool = Arc::new(Pool::<3>::new());
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.fill(10..12)
        });
        let third = thread::spawn({
            let pool = pool.clone();
            move || pool.fill(20..21)
        });
        let mut seen = pool.serve(3);
        let place = |of: u32| seen.iter().position(|n| *n == of);
        assert!(place(10) < place(11), "a thread's own in order: {seen:?}");
        seen.sort_unstable();
        assert_eq!(seen, [10, 11, 20]);
        other.join().expect("it ends");
        third.join().expect("it ends");
    });
}

/// Requests of threads to the host, which processes what the threads have written.
struct Requests {
    asked: Half,
    answered: Futex,
    bell: Futex,
    written: [Half; 2],
    done: [Half; 2],
}

#[test]
fn who_is_answered_was_asked_about() {
    model(|| {
        let requests = Arc::new(Requests {
            asked: half(0),
            answered: Futex::new(),
            bell: Futex::new(),
            written: [half(0), half(0)],
            done: [half(0), half(0)],
        });
        let askers = [0, 1].map(|who| {
            let requests = requests.clone();
            thread::spawn(move || {
                let Requests {
                    asked,
                    answered,
                    bell,
                    written,
                    done,
                } = &*requests;
                written[who].store(1, Relaxed);
                let request = ask(asked);
                rouse(&bell.word, || bell.wake());
                let sleep = |now| {
                    answered.wait(now);
                    Ok::<(), ()>(())
                };
                wait_for(&answered.word, request, sleep).expect("nothing ends the wait");
                let seen = done[who].load(Relaxed);
                assert_eq!(seen, 1, "it was answered without being looked at");
            })
        });
        let Requests {
            asked: last,
            answered,
            bell,
            written,
            done,
        } = &*requests;
        while answered.word.load(Relaxed) != 2 {
            let Some(request) = asked(last, &answered.word) else {
                let busy = || asked(last, &answered.word).is_some();
                doze(&bell.word, busy, || bell.wait(1));
                bell.word.store(0, SeqCst);
                continue;
            };
            for (written, done) in written.iter().zip(done) {
                if written.load(Relaxed) != 0 {
                    done.store(1, Relaxed);
                }
            }
            answer(&answered.word, request, || answered.wake());
        }
        for asker in askers {
            asker.join().expect("it ends");
        }
    });
}
