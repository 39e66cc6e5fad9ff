//! Queues of queries that the program serves itself (`trommel_aware::queue`).
//!
//! # Problem
//! A message for such a queue belongs into memory of the app's, at once and in order; with the queue full its sender waits for a
//! thread of the app's. That thread may end, become another program, or be the one that waits; a signal handler may have
//! to run meanwhile. The memory may not be there any more, may hold anything, or be used for something else as soon as the
//! app is told that the queue is closed.
//!
//! # Strategy
//! A table of the `OPEN_AT_A_TIME` queues that are open, which takes no lock. A sender takes the number of the next message,
//! if the read status allows it, and writes it, the ready word last (`trommel_aware::ring`). What is in the app's memory is read and written
//! where a fault is expected (`arch::peek`, `arch::poke`), and believed as far as it cannot lead astray: a read status that no reader
//! can have written, or memory that is gone, closes the queue.
//!
//! Interrupts of queries may be the app's, too: then they are a signal that the thread sends to itself, and that is delivered as any other, at
//! the next boundary: after the instruction, before the next.
//!
//! What the app asks about its queues is in `requests`, and about queries in `posting`.
//! Messages that a signal keeps from being sent wait in the thread's [`Serving`] and go first as soon as they can.
//!
//! | who is to receive | messages |
//! |---|---|
//! | nobody has opened the queue, it was closed, its thread has ended, a child made by `fork` | go to the host |
//! | the thread that sends, and there is no room | are dropped, and counted: it would wait for itself |
//! | a thread of a process that is being detached, or whose host is gone | are lost: the senders run natively as well |
//!
//! # Why it is correct
//! * A sender names the entry that it uses in `Serving::sending` before it looks if it is open, and until it is done. A closing
//!   thread first takes the entry away. Then it waits until no thread names it, so nobody writes to the memory afterwards.
//! * A number is taken by one sender, and only while the message that was in its place has been read. So a place is written
//!   by one thread, and is free.
//! * A waiting thread wakes up by itself after `NAP`: a missing wake-up costs time, and no more.
//! * A process that shares this one's memory (`vfork`) sends to the host: killed between its two steps it would leave a
//!   message that never becomes ready.
//!
//! **I35 (served messages).** A message for a queue that the program serves is in it before its sender's next instruction, or is kept until a signal handler returns. The queue's memory is written only while it is open, and may vanish at any time.
#![allow(unsafe_code)] // reason: reads and writes the app's memory.

mod posting;
mod requests;
pub mod table;

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use trommel_aware::queue::{CLOSED, HEADER_BYTES, Header, MESSAGE_BYTES, Served, Told};
use trommel_aware::ring;
use trommel_aware::ring::{Bed, Counts, Gone};
use trommel_queue::queries::MESSAGE_WORDS;
use trommel_queue::{FULL_WINDOW, queries};

use crate::base::{stress, sys};
use crate::channel::deliver::{HostGone, Queue, Writer};
use crate::crossing::{arch, waits};
use crate::engine::served::table::{Entry, Message, Serving};
use crate::engine::state::{Process, Thread};

/// Messages of a thread that wait until a signal was delivered, at most.
const SPILLED: usize = 1 << 10;
/// Nanoseconds after which who waits looks whether there still is somebody to wait for.
const NAP: u64 = 50_000_000;

const READ: u64 =
    core::mem::offset_of!(Header, served) as u64 + core::mem::offset_of!(Served, read) as u64;
const SLEEPS: u64 =
    core::mem::offset_of!(Header, served) as u64 + core::mem::offset_of!(Served, sleeps) as u64;
const STATE: u64 =
    core::mem::offset_of!(Header, told) as u64 + core::mem::offset_of!(Told, state) as u64;
const WAITING: u64 =
    core::mem::offset_of!(Header, told) as u64 + core::mem::offset_of!(Told, waiting) as u64;
const LOST: u64 =
    core::mem::offset_of!(Header, told) as u64 + core::mem::offset_of!(Told, lost) as u64;

/// Reads a word of the app's that may not be there.
fn peek(address: u64, bytes: u64) -> Option<u64> {
    let mut value = 0;
    // SAFETY: a word to write to; what cannot be read is told.
    let read = unsafe { arch::peek(address, bytes, &raw mut value) };
    (read != 0).then_some(value)
}

/// Writes to memory that the app has given for a queue, as `arch::poke` says; whether it could be written.
fn poke(to: u64, what: u64, from: *const u64) -> bool {
    // SAFETY: the callers pass words of their own, and memory of a queue that is open or being opened or closed.
    unsafe { arch::poke(to, what, from) != 0 }
}

fn poke_word(to: u64, word: u32) -> bool {
    poke(to, 4, &u64::from(word))
}

/// Result of sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is in its queue.
    There,
    /// It was dropped, as the queue is full.
    Dropped,
    /// The app does not serve the queue.
    NotOpen,
    /// A signal is to be delivered first.
    Later,
}

/// Treatment of a message that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The message is dropped.
    Drop,
    /// The thread waits, until a signal comes for it.
    Wait,
    /// The thread waits whatever comes.
    WaitOn,
    /// It is kept for later.
    Keep,
    /// It is dropped even if there is room: kept messages go first.
    Lose,
}

impl Process {
    /// Sends a message, the queue's number in the low byte of its last word, for a thread whose part is `serving`.
    fn send(
        &self,
        thread: u64,
        serving: &Serving,
        pending: impl Fn() -> *const u32,
        message: &Message,
        full: Full,
    ) -> Result<Sent, HostGone> {
        let number = message[MESSAGE_WORDS] as u8;
        let Some(at) = self.served.find(number) else {
            return Ok(Sent::NotOpen);
        };
        let entry = &self.served.entry[at];
        ring::at_entry(&serving.sending, at as u32 + 1, 0, || {
            let sent = self.send_to(entry, number, thread, pending, message, full);
            let of = &self.served.of[usize::from(number)];
            let mine = at as u8 + 1;
            // Of those who find that out one closes it, before the entry can be used again.
            if sent == Ok(Err(Gone)) && of.compare_exchange(mine, 0, SeqCst, Relaxed).is_ok() {
                let _ = ring::Far::end(&Far(ring::withdraw(&entry.base)));
                entry.taken.store(0, SeqCst);
            }
            sent.map(|sent| sent.unwrap_or(Sent::NotOpen))
        })
    }

    /// [`Self::send`], with the entry found. [`Gone`]: its memory cannot be used any more.
    fn send_to(
        &self,
        entry: &Entry,
        number: u8,
        thread: u64,
        pending: impl Fn() -> *const u32,
        message: &Message,
        full: Full,
    ) -> Result<Result<Sent, Gone>, HostGone> {
        loop {
            let base = ring::place(&entry.base);
            if base == 0 || entry.number.load(Relaxed) != number {
                return Ok(Ok(Sent::NotOpen));
            }
            let far = Far(base);
            let lose = || {
                let _ = ring::Far::lose(&far);
                Ok(Ok(Sent::Dropped))
            };
            if full == Full::Lose {
                return lose();
            }
            let counts = Counts {
                written: &entry.written,
                limit: &entry.limit,
                room: entry.room.load(Relaxed),
            };
            match ring::send(&counts, &far, message) {
                Ok(true) => return Ok(Ok(Sent::There)),
                Ok(false) => {}
                Err(gone) => return Ok(Err(gone)),
            }
            let own = entry.server.load(Relaxed) == thread;
            match full {
                Full::Keep if !own => return Ok(Ok(Sent::Later)),
                Full::Wait | Full::WaitOn if !own => {}
                _ => return lose(),
            }
            let sleep = || self.sleep(entry, base, &pending, full);
            match ring::wait_for_room(&counts, &far, sleep) {
                Ok(None) => {}
                Ok(Some(None)) => self.queue.host_is_there()?,
                Ok(Some(Some(sent))) => return Ok(Ok(sent)),
                Err(gone) => return Ok(Err(gone)),
            }
        }
    }

    /// Sleeps until there may be room in a queue. What became of the message, if it does not have to be tried again.
    fn sleep(
        &self,
        entry: &Entry,
        base: u64,
        pending: &impl Fn() -> *const u32,
        full: Full,
    ) -> Option<Sent> {
        if ring::place(&entry.base) != base {
            return None;
        }
        let never = 0;
        let pending = match full {
            Full::Wait => pending(),
            _ => &raw const never,
        };
        // SAFETY: a word of the thread's context, or the one above.
        if unsafe { pending.read_volatile() } != 0 {
            return Some(Sent::Later);
        }
        // SAFETY: as above; the kernel looks whether the word is there.
        unsafe { waits::wait_there(base + WAITING, 1, NAP, pending) };
        self.is_leaving().then_some(Sent::Dropped)
    }
}

/// The memory of a queue, in the app.
struct Far(u64);

impl Far {
    const fn at(&self, bed: Bed) -> u64 {
        self.0
            + match bed {
                Bed::Sleeps => SLEEPS,
                Bed::Waiting => WAITING,
            }
    }
}

fn done(is: bool) -> Result<(), Gone> {
    if is { Ok(()) } else { Err(Gone) }
}

impl ring::Far for Far {
    type Message = Message;

    fn read_status(&self) -> Result<u64, Gone> {
        peek(self.0 + READ, 8).ok_or(Gone)
    }

    fn put(&self, place: u64, message: &Message) -> Result<(), Gone> {
        stress::delay();
        let to = self.0 + HEADER_BYTES + place * MESSAGE_BYTES;
        done(poke(to, MESSAGE_BYTES, message.as_ptr()))
    }

    fn lose(&self) -> Result<(), Gone> {
        done(poke(self.0 + LOST, 8, &1))
    }

    fn end(&self) -> Result<(), Gone> {
        done(poke_word(self.0 + STATE, CLOSED))
    }

    fn bed(&self, bed: Bed) -> Result<u32, Gone> {
        peek(self.at(bed), 4).map(|word| word as u32).ok_or(Gone)
    }

    fn make_bed(&self, bed: Bed, value: u32) -> Result<(), Gone> {
        done(poke_word(self.at(bed), value))
    }

    fn wake(&self, bed: Bed) {
        // The service thread is one.
        let most = match bed {
            Bed::Sleeps => 1,
            Bed::Waiting => i32::MAX as u32,
        };
        sys::wake_there(self.at(bed), most);
    }
}

impl Thread {
    /// Sends a message to a queue that the app serves. [`Sent::Later`] is not answered.
    pub fn send(&mut self, message: &Message, drop: bool) -> Result<Sent, HostGone> {
        let number = message[MESSAGE_WORDS] as u8;
        if self.spawned.is_some()
            || self.process.served.find(number).is_none() && !self.has_spilled()
        {
            return Ok(Sent::NotOpen);
        }
        let full = match drop {
            true => Full::Drop,
            false => Full::Wait,
        };
        // Who keeps messages is in the handler still that the wait was interrupted for.
        if self.has_spilled() && !self.send_spilled(Full::Keep)? {
            return match drop {
                true => self.send_now(message, Full::Lose),
                false => self.spill(message),
            };
        }
        match self.send_now(message, full)? {
            Sent::Later => self.spill(message),
            sent => Ok(sent),
        }
    }

    fn send_now(&self, message: &Message, full: Full) -> Result<Sent, HostGone> {
        let this = &raw const *self as u64;
        let pending = || self.writer.pending();
        self.process
            .send(this, &self.serving, pending, message, full)
    }

    /// Returns whether messages wait to be sent.
    pub fn has_spilled(&self) -> bool {
        self.serving.spill.from < self.serving.spill.messages.len()
    }

    /// Keeps a message for later.
    fn spill(&mut self, message: &Message) -> Result<Sent, HostGone> {
        if self.serving.spill.messages.capacity() == 0 {
            // Who makes memory holds the lock.
            let _lock = self.process.runtime.lock();
            self.serving.spill.messages.reserve_exact(SPILLED);
        }
        if self.serving.spill.messages.len() == SPILLED {
            self.send_spilled(Full::WaitOn)?;
        }
        self.serving.spill.messages.push(*message);
        Ok(Sent::There)
    }

    /// Sends what was kept, to the host where nobody else serves the queue any more. Whether all of it was.
    pub fn send_spilled(&mut self, full: Full) -> Result<bool, HostGone> {
        while let Some(&message) = self.serving.spill.messages.get(self.serving.spill.from) {
            match self.send_now(&message, full)? {
                Sent::Later => return Ok(false),
                Sent::There | Sent::Dropped => {}
                Sent::NotOpen => {
                    to_host(
                        &mut self.writer,
                        &self.process.queue,
                        &message,
                        Filled::Wait,
                    )?;
                }
            }
            self.serving.spill.from += 1;
        }
        self.serving.spill.clear();
        Ok(true)
    }

    /// Forgets the kept messages in a child made by `fork`: they are its parent's.
    pub fn forget_spilled(&mut self) {
        self.serving.sending.store(0, Relaxed);
        self.serving.posted = None;
        self.serving.spill.clear();
    }
}

const _: () = {
    assert!(core::mem::offset_of!(Header, told) == 128 && HEADER_BYTES == 192);
    assert!(MESSAGE_BYTES as usize == size_of::<Message>());
    assert!(READ == 64 && STATE == 128);
};

/// The conduct of a thread when its message has filled its chunk, and the host lags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// It waits.
    Wait,
    /// It waits later: in a window its signals are blocked.
    WaitLater,
    /// It goes on, as its messages may be dropped.
    GoOn,
}

/// Writes a message to the thread's chunk, for the host.
pub fn to_host(
    writer: &mut Writer,
    queue: &Queue,
    message: &Message,
    filled: Filled,
) -> Result<(), HostGone> {
    let number = message[MESSAGE_WORDS] as u32;
    let words = queries::Header::decode(number).map_or(0, |header| usize::from(header.words));
    let to = writer.at();
    // SAFETY: the write pointer leads to room for a whole record.
    unsafe { (to as *mut u32).write_unaligned(number) };
    let mut next = to + 4;
    for word in &message[..words] {
        // SAFETY: as above.
        unsafe { (next as *mut u64).write_unaligned(*word) };
        next += 8;
    }
    writer.set(next);
    if next as usize & 0xffff >= FULL_WINDOW {
        return Ok(());
    }
    match filled {
        Filled::Wait => queue.publish(writer),
        Filled::WaitLater => queue.publish_now(writer),
        Filled::GoOn => queue.publish_ahead(writer),
    }
}
