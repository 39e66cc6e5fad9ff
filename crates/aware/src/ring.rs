//! Protocol of a queue that the program serves: the loads and stores of both sides ([`crate::queue`] holds the memory).
//!
//! # Problem
//! Threads of the program send messages, in Trommel's code, one thread of the program receives them, both may sleep, and the memory between them
//! may be closed at any time. All of that hangs upon the order of a few loads and stores.
//!
//! # Strategy
//! They are written down here once, over any kind of [`Word`] and of memory. The service thread executes them on its own memory ([`Near`]), Trommel by
//! accesses that may fail ([`Far`]), and `tests/interleavings.rs` on words of loom, which tries the orders in which threads may come to execute them.
//!
//! | who | does | |
//! |---|---|---|
//! | sender | [`send`] | takes a number, writes the message in its place, wakes the service thread |
//! | sender | [`wait_for_room`] | sleeps until the service thread has read some |
//! | sender | [`at_entry`] | does these while nobody may close the queue |
//! | service thread | [`receive`] | takes the next message |
//! | service thread | [`make_room`] | wakes senders that wait |
//! | service thread | [`rest`] | sleeps until there is a message |
//! | who closes | [`shut`], [`is_at`], [`closed`] | nobody comes any more; whether a sender is there still; the service thread is told |
//!
//! # Invariants
//! * A number is taken by one sender, and only when the message that was in its place has been read: the *limit* goes no further than the read status and the
//!   room allow, and who takes a number below the limit has seen what was seen of the read status by who set it.
//! * The ready word is written after the others, and is cleared before the read status counts the message.
//! * Who is about to sleep says so before it looks for the last time; who has something to say says it before it looks whether anybody
//!   sleeps. So one of the two sees the other.
//! * A sender names its entry before it looks where the memory is, and who closes takes that away before it looks who names the entry.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::word::Word;

/// The memory cannot be used, or holds what no service thread can have written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

/// A word that threads sleep upon: 1 while one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bed {
    /// The service thread's.
    Sleeps,
    /// Set by senders that wait.
    Waiting,
}

/// The memory of a queue as Trommel reaches it. Whatever is written is before all that follows; whatever is read is read before it.
pub trait Far {
    /// Eight words.
    type Message;

    /// The read status.
    ///
    /// # Errors
    /// Where it cannot be read. So with all of these.
    fn read_status(&self) -> Result<u64, Gone>;
    /// Writes a message in its place, the ready word last.
    fn put(&self, place: u64, message: &Self::Message) -> Result<(), Gone>;
    /// Counts a message that was dropped.
    fn lose(&self) -> Result<(), Gone>;
    /// Says that no more messages will come.
    fn end(&self) -> Result<(), Gone>;
    /// Reads what is slept upon.
    fn bed(&self, bed: Bed) -> Result<u32, Gone>;
    /// Writes it.
    fn make_bed(&self, bed: Bed, value: u32) -> Result<(), Gone>;
    /// Wakes who sleeps upon it.
    fn wake(&self, bed: Bed);
}

/// The memory of a queue as its service thread reaches it.
pub trait Near {
    /// Words of 64 bits.
    type Long: Word<Value = u64>;
    /// Words of 32 bits.
    type Short: Word<Value = u32>;
    /// Seven words.
    type Words;

    /// Messages that there is room for.
    fn room(&self) -> u64;
    /// The ready word of a place.
    fn ready(&self, place: u64) -> &Self::Long;
    /// The other words, which are there when it is not 0.
    fn words(&self, place: u64) -> Self::Words;
    /// The read status.
    fn read_status(&self) -> &Self::Long;
    /// Returns what is slept upon.
    fn bed(&self, bed: Bed) -> &Self::Short;
    /// Orders writes before it before reads after it.
    fn fence(&self);
    /// Wakes senders.
    fn wake_senders(&self);
}

/// Counts that senders of one queue share.
pub struct Counts<'a, W> {
    /// Messages sent, or about to be.
    pub written: &'a W,
    /// Largest number of messages in the queue, as far as the read status was looked at.
    pub limit: &'a W,
    /// Messages that there is room for.
    pub room: u64,
}

impl<W: Word<Value = u64>> Counts<'_, W> {
    /// Returns true if there is room by what the service thread says, which is taken note of.
    #[inline]
    fn have_room(&self, far: &impl Far) -> Result<bool, Gone> {
        // Others write and read on meanwhile.
        let before = self.written.load(SeqCst);
        let read = far.read_status()?;
        let written = self.written.load(SeqCst);
        if read > written || before.saturating_sub(read) > self.room {
            return Err(Gone);
        }
        self.limit.raise(read + self.room);
        Ok(written < read + self.room)
    }
}

/// Sends a message, if there is room. Returns true if there was.
///
/// # Errors
/// The queue cannot be used.
#[inline]
pub fn send<F: Far>(
    counts: &Counts<'_, impl Word<Value = u64>>,
    far: &F,
    message: &F::Message,
) -> Result<bool, Gone> {
    loop {
        let n = counts.written.load(Acquire);
        if n >= counts.limit.load(Acquire) {
            match counts.have_room(far)? {
                true => continue,
                false => return Ok(false),
            }
        }
        if !counts.written.replace(n, n + 1) {
            continue;
        }
        far.put(n & (counts.room - 1), message)?;
        if far.bed(Bed::Sleeps) == Ok(1) && far.make_bed(Bed::Sleeps, 0).is_ok() {
            far.wake(Bed::Sleeps);
        }
        return Ok(true);
    }
}

/// Sleeps until there may be room, unless there is. `sleep` returns when [`Bed::Waiting`] is not 1, and may return at any time; what
/// it returns is returned.
///
/// # Errors
/// The queue cannot be used.
#[inline]
pub fn wait_for_room<T>(
    counts: &Counts<'_, impl Word<Value = u64>>,
    far: &impl Far,
    sleep: impl FnOnce() -> T,
) -> Result<Option<T>, Gone> {
    far.make_bed(Bed::Waiting, 1)?;
    Ok(match counts.have_room(far)? {
        true => None,
        false => Some(sleep()),
    })
}

/// Does something with a queue that nobody finishes closing meanwhile. `name`: of its entry; `nobody`: of none; `sending`: where
/// the thread names it.
#[inline]
pub fn at_entry<W: Word, T>(
    sending: &W,
    name: W::Value,
    nobody: W::Value,
    act: impl FnOnce() -> T,
) -> T {
    sending.swap(name);
    let done = act();
    sending.store(nobody, Release);
    done
}

/// Returns where the memory is, for who names the entry; 0 when it is closed.
#[inline]
pub fn place(base: &impl Word<Value = u64>) -> u64 {
    base.load(SeqCst)
}

/// Closes an entry: nobody finds the memory any more. Returns where it was.
#[inline]
pub fn withdraw(base: &impl Word<Value = u64>) -> u64 {
    base.swap(0)
}

/// Returns true if a thread names an entry that was withdrawn: it may be using the memory.
#[inline]
pub fn is_at<W: Word>(sending: &W, name: W::Value) -> bool {
    sending.load(SeqCst) == name
}

/// The entry was withdrawn: senders that wait for room are woken up.
pub fn shut(far: &impl Far) {
    let _ = far.make_bed(Bed::Waiting, 0);
    far.wake(Bed::Waiting);
}

/// No sender is at the entry any more: the service thread is told, and woken up.
pub fn closed(far: &impl Far) {
    let _ = far.end();
    let _ = far.make_bed(Bed::Sleeps, 0);
    far.wake(Bed::Sleeps);
}

/// The message after `read` others, if it is there: its words, and the ready word.
#[inline]
pub fn receive<N: Near>(near: &N, read: &mut u64) -> Option<(N::Words, u64)> {
    let place = *read & (near.room() - 1);
    let ready = near.ready(place).load(Acquire);
    if ready == 0 {
        make_room(near);
        return None;
    }
    let words = near.words(place);
    near.ready(place).store(0, Relaxed);
    *read += 1;
    near.read_status().store(*read, Release);
    // Rarely enough for who sleeps to have something to do, often enough to keep it going.
    if *read & (near.room() / 2 - 1) == 0 {
        make_room(near);
    }
    Some((words, ready))
}

/// Wakes senders that wait for room.
#[inline]
pub fn make_room(near: &impl Near) {
    let waiting = near.bed(Bed::Waiting);
    // Who is about to wait has set the word before it looks at the read status the last time.
    near.fence();
    if waiting.load(Relaxed) != 0 {
        waiting.store(0, SeqCst);
        near.wake_senders();
    }
}

/// Sleeps until there is a message after `read` others, if the queue is open and there is none. Returns true if it has slept. `sleep` returns when
/// [`Bed::Sleeps`] is not 1, and may return at any time. The word is to be cleared afterwards.
#[inline]
pub fn rest(
    near: &impl Near,
    read: u64,
    is_open: impl FnOnce() -> bool,
    sleep: impl FnOnce(),
) -> bool {
    make_room(near);
    near.bed(Bed::Sleeps).store(1, SeqCst);
    let ready = near.ready(read & (near.room() - 1));
    if ready.load(SeqCst) != 0 || !is_open() {
        return false;
    }
    sleep();
    true
}
