//! The protocol of target and host on the words that they share, wherever those words are.
//!
//! # Problem
//! Chunks go from threads to the host and back. Both sides sleep until the other has something for them. A thread that
//! asks the host for something waits for the answer. Each of these is a handful of loads and stores. Their order ensures that
//! no chunk has two owners and nobody sleeps for ever.
//!
//! # Strategy
//! The operations are written down here once, over any kind of [`Word`]. Both sides execute them on shared memory.
//! `tests/interleavings.rs` executes them on words of loom, which tries all orders of execution and all values that a thread
//! may read.
//!
//! | side | function | purpose |
//! |---|---|---|
//! | thread | [`publish`] | hands a chunk to the host |
//! | host | [`published`], [`give_back`] | takes them in that order, and gives each back |
//! | thread | [`recycle`] | takes one that was given back |
//! | both | [`doze`], [`rouse`] | sleep upon a word until there is something, and wake the sleeper |
//! | thread | [`ask`], [`wait_for`] | asks for something, and waits until it is done |
//! | host | [`asked`], [`answer`] | does it |
//! | host | [`offer`], [`withdraw`], [`is_free`] | fills a place for a query program, clears it, and learns that it may be filled again |
//! | thread | [`offered`], [`leave`] | reads the place, and says that no thread uses its last program |
//!
//! # Invariants
//! * The entry of a ring for the n-th chunk is written by the thread that has counted to n. It is used again only when the chunk has come around.
//! * A thread that is about to sleep says so before it looks for the last time. A thread that has something to say says it before it
//!   looks whether anybody sleeps. So one of the two sees the other.
//! * An answer covers every earlier request: the answerer sees what an asker wrote before it asked.
//!
//! **I20 (chunk ownership).** A chunk holds records of one thread, and is reused only after the host has given it back.

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use trommel_aware::word::Word;

/// Hands over a chunk that the thread has filled. `entry`: of the ring of published chunks, by number.
pub fn publish<'a, E: Word<Value = u32> + 'a>(
    count: &impl Word<Value = u64>,
    entry: impl FnOnce(u64) -> &'a E,
    chunk: u32,
) {
    let n = count.fetch_add(1, SeqCst);
    entry(n).store(chunk + 1, SeqCst);
}

/// The chunk that an entry of the ring of published chunks names, unless the thread that has counted it is still about to name it.
pub fn published(entry: &impl Word<Value = u32>) -> Option<u32> {
    entry.load(Acquire).checked_sub(1)
}

/// Gives back the chunk after `taken` others, by its entries in both rings.
pub fn give_back<E: Word<Value = u32>>(
    published: &E,
    given_back: &E,
    consumed: &impl Word<Value = u64>,
    taken: &mut u64,
    chunk: u32,
) {
    published.store(0, Relaxed);
    given_back.store(chunk, Relaxed);
    *taken += 1;
    consumed.store(*taken, SeqCst);
}

/// A chunk that was given back, for the thread. `entry`: of the ring of those.
pub fn recycle<'a, E: Word<Value = u32> + 'a>(
    recycled: &impl Word<Value = u64>,
    consumed: &impl Word<Value = u64>,
    entry: impl Fn(u64) -> &'a E,
) -> Option<u32> {
    loop {
        let n = recycled.load(Acquire);
        if n == consumed.load(Acquire) {
            return None;
        }
        // Read before it is ours to read: if it was overwritten, another has taken it meanwhile.
        let chunk = entry(n).load(Relaxed);
        if recycled.replace(n, n + 1) {
            return Some(chunk);
        }
    }
}

/// Sleeps upon a word, if there is nothing to do. `sleep` returns when the word is not 1, and may return at any time.
pub fn doze(sleeps: &impl Word<Value = u32>, busy: impl FnOnce() -> bool, sleep: impl FnOnce()) {
    sleeps.store(1, SeqCst);
    if !busy() {
        sleep();
    }
}

/// Wakes who sleeps upon a word.
pub fn rouse(sleeps: &impl Word<Value = u32>, wake: impl FnOnce()) {
    if sleeps.load(SeqCst) != 0 {
        sleeps.store(0, SeqCst);
        wake();
    }
}

/// Asks for something. Returns the number of the request.
pub fn ask(asked: &impl Word<Value = u32>) -> u32 {
    asked.fetch_add(1, SeqCst).wrapping_add(1)
}

/// The last request, if it was not answered.
pub fn asked<A: Word<Value = u32>>(asked: &A, answered: &A) -> Option<u32> {
    let last = asked.load(SeqCst);
    (last != answered.load(Relaxed)).then_some(last)
}

/// Reports that all requests up to `request` are done.
pub fn answer(answered: &impl Word<Value = u32>, request: u32, wake: impl FnOnce()) {
    answered.store(request, SeqCst);
    wake();
}

/// Waits until a request is answered. `sleep` sleeps upon the word while it has the value that `sleep` is given.
///
/// # Errors
/// What `sleep` says.
pub fn wait_for<E>(
    answered: &impl Word<Value = u32>,
    request: u32,
    mut sleep: impl FnMut(u32) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let now = answered.load(SeqCst);
        if now.wrapping_sub(request) as i32 >= 0 {
            return Ok(());
        }
        sleep(now)?;
    }
}

/// Takes the place in which requests are written, one at a time: until no other thread has it, and all that was asked is answered. Who had it
/// before may have left without its answer. `sleep` sleeps upon a word while that has a value; `free` gives the place away again.
///
/// # Errors
/// What `sleep` says.
pub fn hold<W: Word<Value = u32>, E>(
    held: &W,
    [asked, answered]: [&W; 2],
    mut sleep: impl FnMut(&W, u32) -> Result<(), E>,
    free: impl FnOnce(),
) -> Result<(), E> {
    while !held.replace(0, 1) {
        sleep(held, 1)?;
    }
    let last = asked.load(SeqCst);
    let done = wait_for(answered, last, |now| sleep(answered, now));
    if done.is_err() {
        free();
    }
    done
}

/// Fills a place with load `load`, whose program is written.
pub fn offer(id: &impl Word<Value = u32>, load: u32) {
    id.store(load, SeqCst);
}

/// Takes the load of a place away. Its program stays where it is.
pub fn withdraw(id: &impl Word<Value = u32>) {
    id.store(0, SeqCst);
}

/// The load that a place is filled with, for the target; 0: none.
pub fn offered(id: &impl Word<Value = u32>) -> u32 {
    id.load(Acquire)
}

/// Says that no thread uses the program of a load any more, nor what it counts.
pub fn leave(gone: &impl Word<Value = u32>, load: u32) {
    gone.store(load, SeqCst);
}

/// Returns true if no thread uses the program of a load any more: its place may be filled again.
pub fn is_free(gone: &impl Word<Value = u32>, load: u32) -> bool {
    gone.load(Acquire) == load
}
