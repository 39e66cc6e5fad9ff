//! The protocols between target and host in all the ways in which threads can come to execute them: loom tries each order of
//! their steps (with a bounded number of preemptions) and each value that a load may have.
//!
//! What a model does not allow it reports: a datum that two threads use at a time, an assertion, and a state in which
//! everybody sleeps. Sleeps end only when somebody wakes them, where the real ones end after some milliseconds by themselves: it is
//! wrong if anybody needs that.
#![allow(unsafe_code, reason = "records are in cells that loom watches")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::thread;
use trommel_aware::word::Word;
use trommel_queue::protocol::{
    answer, ask, asked, doze, give_back, hold, is_free, leave, offer, offered, publish, published,
    recycle, rouse, wait_for, withdraw,
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

/// Requests of threads that are written in one place.
struct Posts {
    posting: Futex,
    posted: Half,
    replied: Futex,
    bell: Futex,
    /// The request, and then its reply: who has posted may use it, and the host until it has replied.
    text: UnsafeCell<u32>,
}

// SAFETY: the text is in a cell that loom watches.
unsafe impl Sync for Posts {}
// SAFETY: as above.
unsafe impl Send for Posts {}

impl Posts {
    fn free(&self) {
        self.posting.word.store(0, SeqCst);
        self.posting.wake();
    }

    fn sleep(&self, word: &Half, value: u32) -> Result<(), ()> {
        match core::ptr::eq(word, &self.posting.word) {
            true => self.posting.wait(value),
            false => self.replied.wait(value),
        }
        Ok(())
    }

    /// A thread posts a request, and waits for the reply unless it leaves.
    fn post(&self, request: u32, leaves: bool) {
        let words = [&self.posted, &self.replied.word];
        let sleep = |word: &Half, value| self.sleep(word, value);
        hold(&self.posting.word, words, sleep, || self.free()).expect("nothing ends the wait");
        // SAFETY: the thread has the place; loom checks that nobody else uses it.
        self.text.with_mut(|to| unsafe { *to = request });
        let number = ask(&self.posted);
        rouse(&self.bell.word, || self.bell.wake());
        if !leaves {
            let sleep = |now| self.sleep(&self.replied.word, now);
            wait_for(&self.replied.word, number, sleep).expect("nothing ends the wait");
            // SAFETY: as above.
            let reply = self.text.with(|from| unsafe { *from });
            assert_eq!(reply, request + 100, "the reply to another");
        }
        self.free();
    }

    /// The host replies to so many requests.
    fn serve(&self, requests: u32) {
        while self.replied.word.load(Relaxed) != requests {
            let Some(request) = asked(&self.posted, &self.replied.word) else {
                let busy = || asked(&self.posted, &self.replied.word).is_some();
                doze(&self.bell.word, busy, || self.bell.wait(1));
                self.bell.word.store(0, SeqCst);
                continue;
            };
            // SAFETY: what was posted is the host's until there is a reply.
            self.text.with_mut(|text| unsafe { *text += 100 });
            answer(&self.replied.word, request, || self.replied.wake());
        }
    }
}

#[test]
fn requests_are_written_one_at_a_time_and_each_has_its_reply() {
    for leaves in [false, true] {
        model(move || {
            let posts = Arc::new(Posts {
                posting: Futex::new(),
                posted: half(0),
                replied: Futex::new(),
                bell: Futex::new(),
                text: UnsafeCell::new(0),
            });
            let threads = [(1, leaves), (2, false)].map(|(request, leaves)| {
                let posts = posts.clone();
                thread::spawn(move || posts.post(request, leaves))
            });
            posts.serve(2);
            for thread in threads {
                thread.join().expect("it ends");
            }
        });
    }
}

/// A place for query programs. Two threads execute probes of what is in it, while the host changes it.
struct Place {
    id: Half,
    gone: Half,
    changes: Half,
    heeded: Half,
    /// The program: who has probes of it reads it, and the host writes it while nobody has.
    program: UnsafeCell<u32>,
    /// Messages of each thread, of one load after the other.
    sent: [[Half; 3]; 2],
    lock: Mutex<Target>,
}

/// State of the target under its lock.
struct Target {
    /// The load whose probes are in code; 0: none.
    put: u32,
    /// The load that leaves, and the epoch in which threads must have come out.
    leaves: Option<(u32, u32)>,
    epoch: u32,
    seen: [u32; 2],
}

// SAFETY: the program is in a cell that loom watches.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Self {
        Self {
            id: half(1),
            gone: half(0),
            changes: half(0),
            heeded: half(0),
            program: UnsafeCell::new(1),
            sent: [const { [0; 3] }; 2].map(|each| each.map(half)),
            lock: Mutex::new(Target {
                put: 1,
                leaves: None,
                epoch: 1,
                seen: [1; 2],
            }),
        }
    }

    /// A thread enters the dispatcher. Returns the load whose probes are in the code that it goes on in.
    fn dispatch(&self, who: usize) -> u32 {
        let mut target = self.lock.lock().expect("nobody panics");
        if let Some(change) = asked(&self.changes, &self.heeded) {
            let wanted = offered(&self.id);
            if target.put != wanted && target.put != 0 {
                target.epoch += 1;
                target.leaves = Some((target.put, target.epoch));
                target.put = 0;
            } else if target.leaves.is_none() {
                target.put = wanted;
            }
            answer(&self.heeded, change, || {});
        }
        target.seen[who] = target.epoch;
        if let Some((load, epoch)) = target.leaves
            && target.seen.iter().all(|seen| *seen >= epoch)
        {
            target.leaves = None;
            leave(&self.gone, load);
        }
        target.put
    }

    fn execute(&self, who: usize) {
        for _ in 0..2 {
            let load = self.dispatch(who);
            if load != 0 {
                // SAFETY: read while the thread is in code with probes of it; loom checks that nobody writes.
                let program = self.program.with(|program| unsafe { *program });
                assert_eq!(program, load, "a probe of another program");
                self.sent[who][load as usize].fetch_add(1, Relaxed);
            }
        }
        // It waits in a system call now, out of the cache.
        self.dispatch(who);
        self.lock.lock().expect("nobody panics").seen[who] = u32::MAX;
    }
}

#[test]
fn a_place_has_one_program_at_a_time() {
    model(|| {
        let place = Arc::new(Place::new());
        let threads = [0, 1].map(|who| {
            let place = place.clone();
            thread::spawn(move || place.execute(who))
        });
        withdraw(&place.id);
        ask(&place.changes);
        thread::yield_now();
        if is_free(&place.gone, 1) {
            let sent = |load: usize| place.sent.iter().map(move |of| of[load].load(Relaxed));
            let before: u32 = sent(1).sum();
            // SAFETY: no thread has probes of it; loom checks that.
            place.program.with_mut(|program| unsafe { *program = 2 });
            offer(&place.id, 2);
            ask(&place.changes);
            for thread in threads {
                thread.join().expect("it ends");
            }
            let after: u32 = sent(1).sum();
            assert_eq!(
                before, after,
                "the last message was sent before the place was free"
            );
        } else {
            for thread in threads {
                thread.join().expect("it ends");
            }
        }
    });
}
