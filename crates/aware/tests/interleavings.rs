//! Models of both sides of a queue (`trommel_aware::ring`) in all the ways in which threads can come to execute it: loom tries
//! each order of their steps (with a bounded number of preemptions) and each value that a load may have.
//!
//! What a model does not allow it reports: words of a message that are read before they are there or written before they were read, an
//! assertion, and a state in which everybody sleeps. Sleeps end only when somebody wakes them, where the real ones end after some
//! milliseconds by themselves: it is wrong if anybody needs that.
//!
//! Trommel's stores to the app's memory are exchanges; its loads there acquire.
#![allow(unsafe_code, reason = "messages are in cells that loom watches")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use loom::sync::atomic::fence;
use loom::thread;
use trommel_aware::ring::{self, Bed, Counts, Far, Gone, Near};
use trommel_aware::word::Word;
use words::{Futex, Half, Whole, half, model, whole};

#[path = "loom/mod.rs"]
mod words;

const OPEN: u32 = 1;
const CLOSED: u32 = 2;
/// A ready word.
const READY: u64 = 1;
/// The entry, and where its memory is.
const NAME: u32 = 1;
const BASE: u64 = 64;

/// A message: its sender, and its number there.
type Message = (u32, u32);

/// The memory of a queue.
struct Memory<const ROOM: usize> {
    read: Whole,
    sleeps: Futex,
    state: Half,
    waiting: Futex,
    lost: Half,
    words: [UnsafeCell<Message>; ROOM],
    ready: [Whole; ROOM],
}

impl<const ROOM: usize> Memory<ROOM> {
    fn futex(&self, bed: Bed) -> &Futex {
        match bed {
            Bed::Sleeps => &self.sleeps,
            Bed::Waiting => &self.waiting,
        }
    }
}

/// A queue that is open, and what Trommel knows of it.
struct Queue<const ROOM: usize> {
    memory: Memory<ROOM>,
    written: Whole,
    limit: Whole,
    base: Whole,
    /// Position of each sender.
    sending: [Half; 2],
}

impl<const ROOM: usize> Far for Queue<ROOM> {
    type Message = Message;

    fn read_status(&self) -> Result<u64, Gone> {
        Ok(self.memory.read.load(Acquire))
    }

    fn put(&self, place: u64, message: &Message) -> Result<(), Gone> {
        let place = place as usize;
        // SAFETY: the sender has the place; loom checks that nobody else has.
        self.memory.words[place].with_mut(|to| unsafe { *to = *message });
        let before = self.memory.ready[place].swap(READY);
        assert_eq!(before, 0, "the place is free");
        Ok(())
    }

    fn lose(&self) -> Result<(), Gone> {
        self.memory.lost.fetch_add(1, SeqCst);
        Ok(())
    }

    fn end(&self) -> Result<(), Gone> {
        self.memory.state.swap(CLOSED);
        Ok(())
    }

    fn bed(&self, bed: Bed) -> Result<u32, Gone> {
        Ok(self.memory.futex(bed).word.load(Acquire))
    }

    fn make_bed(&self, bed: Bed, value: u32) -> Result<(), Gone> {
        self.memory.futex(bed).word.swap(value);
        Ok(())
    }

    fn wake(&self, bed: Bed) {
        self.memory.futex(bed).wake();
    }
}

impl<const ROOM: usize> Near for Memory<ROOM> {
    type Long = Whole;
    type Short = Half;
    type Words = Message;

    fn room(&self) -> u64 {
        ROOM as u64
    }

    fn ready(&self, place: u64) -> &Whole {
        &self.ready[place as usize]
    }

    fn words(&self, place: u64) -> Message {
        // SAFETY: the message is whole; loom checks that nobody writes to it.
        self.words[place as usize].with(|from| unsafe { *from })
    }

    fn read_status(&self) -> &Whole {
        &self.read
    }

    fn bed(&self, bed: Bed) -> &Half {
        &self.futex(bed).word
    }

    fn fence(&self) {
        fence(SeqCst);
    }

    fn wake_senders(&self) {
        self.waiting.wake();
    }
}

// SAFETY: what is not atomic is used by who has the place, which is what loom checks.
unsafe impl<const ROOM: usize> Sync for Queue<ROOM> {}
// SAFETY: as above.
unsafe impl<const ROOM: usize> Send for Queue<ROOM> {}

/// Fate of a message.
#[derive(PartialEq, Eq, Debug)]
enum Sent {
    There,
    Dropped,
    NotOpen,
}

impl<const ROOM: usize> Queue<ROOM> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: Memory {
                read: whole(0),
                sleeps: Futex::new(),
                state: half(OPEN),
                waiting: Futex::new(),
                lost: half(0),
                words: [(0, 0); ROOM].map(UnsafeCell::new),
                ready: [0; ROOM].map(whole),
            },
            written: whole(0),
            limit: whole(ROOM as u64),
            base: whole(BASE),
            sending: [half(0), half(0)],
        })
    }

    /// A thread sends a message, as the runtime does.
    fn send(&self, sender: u32, number: u32, drop: bool) -> Sent {
        ring::at_entry(&self.sending[sender as usize], NAME, 0, || {
            loop {
                if ring::place(&self.base) != BASE {
                    return Sent::NotOpen;
                }
                let counts = Counts {
                    written: &self.written,
                    limit: &self.limit,
                    room: ROOM as u64,
                };
                let right = "the read status is right";
                if ring::send(&counts, self, &(sender, number)).expect(right) {
                    return Sent::There;
                }
                if drop {
                    self.lose().expect(right);
                    return Sent::Dropped;
                }
                let sleep = || {
                    if ring::place(&self.base) == BASE {
                        self.memory.waiting.wait(1);
                    }
                };
                ring::wait_for_room(&counts, self, sleep).expect(right);
            }
        })
    }

    fn is_open(&self) -> bool {
        self.memory.state.load(Acquire) == OPEN
    }

    /// The service thread receives so many messages, or all until no more will come.
    fn serve(&self, most: usize) -> Vec<Message> {
        let (mut read, mut seen) = (0, Vec::new());
        while seen.len() < most {
            if let Some((message, ready)) = ring::receive(&self.memory, &mut read) {
                assert_eq!(ready, READY);
                seen.push(message);
                continue;
            }
            let sleep = || self.memory.sleeps.wait(1);
            ring::rest(&self.memory, read, || self.is_open(), sleep);
            self.memory.sleeps.word.store(0, Relaxed);
            let place = read as usize & (ROOM - 1);
            if !self.is_open() && self.memory.ready[place].load(Acquire) == 0 {
                break;
            }
        }
        seen
    }

    /// Closes it, which so many threads may be sending to.
    fn close(&self, senders: usize) {
        assert_eq!(ring::withdraw(&self.base), BASE);
        ring::shut(self);
        while self.sending[..senders]
            .iter()
            .any(|at| ring::is_at(at, NAME))
        {
            thread::yield_now();
        }
        ring::closed(self);
    }

    /// Uses its memory for something else.
    fn reuse(&self) {
        for cell in &self.memory.words {
            // SAFETY: loom checks that nobody uses it.
            cell.with_mut(|to| unsafe { *to = (u32::MAX, u32::MAX) });
        }
    }
}

/// The numbers of a sender's messages.
fn of(sender: u32, seen: &[Message]) -> Vec<u32> {
    let its = seen.iter().filter(|(from, _)| *from == sender);
    its.map(|(_, number)| *number).collect()
}

#[test]
fn each_message_comes_once_and_in_order() {
    model(|| {
        let queue = Queue::<2>::new();
        let sender = thread::spawn({
            let queue = queue.clone();
            move || (0..4).for_each(|n| assert_eq!(queue.send(0, n, false), Sent::There))
        });
        assert_eq!(of(0, &queue.serve(4)), [0, 1, 2, 3]);
        sender.join().expect("it ends");
    });
}

/// The service thread wakes nobody while it reads the first message, so nothing else orders what it does about that.
#[test]
fn a_place_is_free_when_its_message_was_read() {
    model(|| {
        let queue = Queue::<4>::new();
        let sender = thread::spawn({
            let queue = queue.clone();
            move || (0..5).for_each(|n| assert_eq!(queue.send(0, n, false), Sent::There))
        });
        assert_eq!(of(0, &queue.serve(5)), [0, 1, 2, 3, 4]);
        sender.join().expect("it ends");
    });
}

#[test]
fn two_senders_share_a_queue_that_is_full() {
    model(|| {
        let queue = Queue::<2>::new();
        let senders = [0, 1].map(|sender| {
            let queue = queue.clone();
            thread::spawn(move || {
                (0..2).for_each(|n| assert_eq!(queue.send(sender, n, false), Sent::There));
            })
        });
        let seen = queue.serve(4);
        assert_eq!([of(0, &seen), of(1, &seen)], [[0, 1], [0, 1]]);
        for sender in senders {
            sender.join().expect("it ends");
        }
    });
}

#[test]
fn what_is_dropped_is_counted() {
    model(|| {
        let queue = Queue::<2>::new();
        let sender = thread::spawn({
            let queue = queue.clone();
            move || {
                let there = |n: &u32| match queue.send(0, *n, true) {
                    Sent::There => true,
                    Sent::Dropped => false,
                    Sent::NotOpen => panic!("it is open"),
                };
                let there: Vec<u32> = (0..4).filter(there).collect();
                queue.close(0);
                there
            }
        });
        let seen = queue.serve(usize::MAX);
        let there = sender.join().expect("it ends");
        assert_eq!(of(0, &seen), there);
        let lost = queue.memory.lost.load(Relaxed) as usize;
        assert_eq!(there.len() + lost, 4);
        assert!(there.len() >= 2, "there was room for these");
    });
}

#[test]
fn nobody_writes_to_a_queue_that_was_closed() {
    model(|| {
        let queue = Queue::<2>::new();
        let sender = thread::spawn({
            let queue = queue.clone();
            move || {
                let sent = (0..3).map(|n| queue.send(0, n, false));
                sent.take_while(|sent| *sent == Sent::There).count()
            }
        });
        // It waits for room, or does not come so far.
        queue.close(1);
        let seen = queue.serve(usize::MAX);
        queue.reuse();
        let sent = sender.join().expect("it ends");
        assert_eq!(seen.len(), sent, "what was sent was there before that");
    });
}

#[test]
fn who_serves_is_told_that_a_queue_is_closed() {
    model(|| {
        let queue = Queue::<2>::new();
        let sender = thread::spawn({
            let queue = queue.clone();
            move || {
                (0..2)
                    .filter(|n| queue.send(0, *n, false) == Sent::There)
                    .count()
            }
        });
        let closer = thread::spawn({
            let queue = queue.clone();
            move || queue.close(1)
        });
        let seen = queue.serve(usize::MAX);
        queue.reuse();
        assert_eq!(seen.len(), sender.join().expect("it ends"));
        closer.join().expect("it ends");
    });
}
