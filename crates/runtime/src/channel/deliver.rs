//! Records, for those who write them: chunks are taken, filled and published.
//!
//! Generated code appends records by itself. It comes here only when its chunk is full. With too
//! many chunks waiting for the host the thread waits until some are given back: nothing is dropped.
//! A signal interrupts that wait: its handler runs at once, with a chunk above the limit. The
//! thread waits on when it is back. If the host is gone, the caller detaches the app.
//!
//! A message that may be dropped makes no thread wait. It is dropped before it is a record, while too many chunks wait. Filling the
//! last chunk with it does not wait either, as the next such message is dropped.
//!
//! The queue takes no lock: each of its steps is one atomic operation. Their order lets the host see what was recorded whenever the
//! program dies between two of them (`trommel_queue::Chunk`).
//!
//! **I21 (no record dropped).** No record is dropped. A thread waits while too many chunks wait for the host, and waits are counted.
#![allow(unsafe_code)] // reason: writes into memory shared with the host.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use trommel_queue::protocol;
use trommel_queue::{
    BACKLOG, CHUNK, CHUNKS, Control, FIRST_RECORD, GIVEN_BACK_OFFSET, Growing, POOL_OFFSET,
    PUBLISHED_OFFSET, State, chunk_start,
};

use super::slot::Mapped;
use crate::base::hosted::ring;
use crate::base::ids::ChunkId;
use crate::base::stress;
use crate::base::sys;
use crate::crossing::waits;

/// The host is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostGone;

/// Chunks that may wait for the host, those for the sake of signals included.
const OVERDRAFT: u64 = 8 * BACKLOG as u64;

/// Nanoseconds after which a thread that waits for the host checks that there still is one.
const NAP: u64 = 100_000_000;

/// The pool of chunks, for all threads.
pub struct Queue {
    mapped: Mapped,
    /// Chunks taken that were used for the first time.
    fresh: AtomicU32,
    /// Chunks taken that the host had given back.
    recycled: AtomicU64,
}

/// A thread's end of the queue.
pub struct Writer {
    /// The write pointer, 0 while there is no chunk.
    pub pointer: *mut u64,
    /// The thread's number, from 1.
    pub number: u32,
    /// The thread's id in the kernel.
    pub tid: u32,
    /// The thread's page in the file.
    pub page: u32,
    /// True if the thread has taken a chunk while too many waited, because of a signal. It waits later.
    pub overdrawn: bool,
    /// The thread's interrupt by a query that the host has not answered, while a signal handler runs that has ended the wait.
    pub awaits: Option<u32>,
    /// `Context::pending` of the thread.
    pending: *const u32,
    chunk: ChunkId,
}

impl Writer {
    /// Creates the writer of the thread whose write pointer is at `pointer`, with no chunk yet. `pending`
    /// must stay valid.
    pub const fn new(pointer: *mut u64, page: u32, pending: *const u32) -> Self {
        Self {
            pointer,
            number: 0,
            tid: 0,
            page,
            overdrawn: false,
            awaits: None,
            pending,
            chunk: ChunkId(0),
        }
    }

    /// The write pointer.
    pub fn at(&self) -> u64 {
        // SAFETY: the pointer's owner is this thread; generated code and the host read it too.
        unsafe { self.pointer.read_volatile() }
    }

    /// Returns a pointer to a word that is not 0 when a signal is kept for the thread.
    pub const fn pending(&self) -> *const u32 {
        self.pending
    }

    /// Returns true if a signal is kept for the thread.
    pub fn has_signal(&self) -> bool {
        // SAFETY: a word of the thread's own context.
        unsafe { self.pending.read_volatile() != 0 }
    }

    /// Moves the write pointer.
    pub fn set(&mut self, to: u64) {
        // SAFETY: as in `at`.
        unsafe { self.pointer.write_volatile(to) }
    }
}

impl Queue {
    /// The queue of a file in which nothing is used yet.
    pub const fn new(mapped: Mapped) -> Self {
        Self {
            mapped,
            fresh: AtomicU32::new(0),
            recycled: AtomicU64::new(0),
        }
    }

    /// The control words.
    pub fn control(&self) -> &'static Control {
        self.mapped.control()
    }

    /// The file.
    pub fn mapped(&self) -> Mapped {
        self.mapped
    }

    fn first_record(&self, chunk: ChunkId) -> u64 {
        self.mapped.base() + (POOL_OFFSET + chunk_start(chunk.0)) as u64
    }

    /// Publishes what the thread has recorded. It has no chunk afterwards.
    pub fn hand_in(&self, writer: &mut Writer) {
        let at = writer.at();
        if at == 0 {
            return;
        }
        let control = self.control();
        let used = at - self.first_record(writer.chunk);
        let chunk = self.mapped.chunk(writer.chunk);
        chunk.published.store(used as u32 + 1, Release);
        stress::delay();
        writer.set(0);
        let entry = |n| self.mapped.ring_entry(PUBLISHED_OFFSET, n);
        protocol::publish(&control.chunks.published.0, entry, writer.chunk.0);
        self.wake_host();
    }

    /// Says that the process comes to its end with the next system call, and nothing of the app runs
    /// before that: the host need not wait for the kernel to take the process apart.
    pub fn announce_end(&self, status: u64) {
        let control = self.control();
        control
            .process
            .exit_status
            .store((status & 0xff) as u32 + 1, Relaxed);
        self.control()
            .process
            .state
            .store(State::Exited as u32, SeqCst);
        self.wake_host();
    }

    /// Starts over in the slot that is mapped now, where nothing is used yet.
    pub fn start_over(&self) {
        self.fresh.store(0, Relaxed);
        self.recycled.store(0, Relaxed);
    }

    /// Makes the host look at what there is.
    pub fn wake_host(&self) {
        ring(self.mapped.directory());
    }

    /// Gives a thread that begins its first chunk. It does not wait for the host before it has recorded anything, unless very many
    /// chunks wait: others may have begun and ended meanwhile.
    pub fn take(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.host_is_there()?;
        if self.backlog() >= OVERDRAFT {
            self.catch_up(writer)?;
        }
        self.take_now(writer).map(drop)
    }

    /// Returns true if the backlog of the host is full.
    pub fn lags(&self) -> bool {
        self.backlog() >= BACKLOG as u64
    }

    /// Chunks that are free and mapped.
    fn spare(&self) -> u64 {
        let fresh = self.mapped.chunks() - self.fresh.load(Relaxed).min(self.mapped.chunks());
        let consumed = self.control().chunks.consumed.0.load(SeqCst);
        u64::from(fresh) + consumed.saturating_sub(self.recycled.load(Relaxed))
    }

    /// Makes sure that a thread in a window gets a chunk: of `others` in windows each may take one before it publishes any.
    /// Returns false where the kernel refuses memory. The caller holds the runtime's lock.
    pub fn has_chunks(&self, others: usize) -> bool {
        if self.spare() >= others as u64 + 2 {
            return true;
        }
        let wanted = u64::from(self.mapped.chunks()) + others as u64 + 4;
        let bytes = (wanted.min(CHUNKS as u64) + 1) * CHUNK as u64;
        self.mapped.reach(Growing::POOL, bytes) && self.spare() >= others as u64 + 2
    }

    /// Returns true if all chunks that are mapped are in use.
    pub fn is_short(&self) -> bool {
        self.spare() == 0
    }

    /// Gives the thread a chunk to fill without waiting for room, as long as the pool has one.
    pub fn take_now(&self, writer: &mut Writer) -> Result<bool, HostGone> {
        let (number, fresh) = loop {
            if let Some(found) = self.free() {
                break found;
            }
            // There are more chunks than threads and waiting chunks together: somebody is about to
            // publish, or the host to give back.
            sys::futex_wait(&self.control().chunks.target_sleeps, 1, Some(NAP), false);
            self.host_is_there()?;
        };
        let chunk = self.mapped.chunk(number);
        stress::delay();
        chunk.tid.store(writer.tid, Relaxed);
        chunk.page.store(writer.page, Relaxed);
        chunk.thread.store(writer.number, Release);
        writer.chunk = number;
        writer.set(self.first_record(number));
        Ok(fresh)
    }

    /// Takes a free chunk. Returns its number, and true if it was never used before.
    fn free(&self) -> Option<(ChunkId, bool)> {
        let control = self.control();
        let entry = |n| self.mapped.ring_entry(GIVEN_BACK_OFFSET, n);
        if let Some(chunk) = protocol::recycle(&self.recycled, &control.chunks.consumed.0, entry) {
            return Some((ChunkId(chunk % CHUNKS as u32), false));
        }
        let there = self.mapped.chunks();
        let more = |n: u32| (n < there).then_some(n + 1);
        let number = self.fresh.fetch_update(Relaxed, Relaxed, more).ok()?;
        control.chunks.used.fetch_max(number + 1, Release);
        Some((ChunkId(number), true))
    }

    /// Publishes what the thread has recorded, and gives it another chunk. As it has filled one, it
    /// will need all of that.
    pub fn publish(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.hand_in(writer);
        self.host_is_there()?;
        // Who is overdrawn is in the handler still, whose signal is blocked and would wait for its end.
        if !writer.overdrawn || self.backlog() >= OVERDRAFT {
            self.catch_up(writer)?;
        }
        self.take_filling(writer)
    }

    /// Publishes like [`Self::publish`], without waiting now or later: for a thread that records no more while the host lags
    /// ([`Self::lags`]). So of each thread one chunk more than the backlog is in use.
    pub fn publish_ahead(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.hand_in(writer);
        self.host_is_there()?;
        self.take_filling(writer)
    }

    /// Takes a chunk that will be filled.
    fn take_filling(&self, writer: &mut Writer) -> Result<(), HostGone> {
        if self.take_now(writer)? {
            sys::populate(writer.at(), (CHUNK - FIRST_RECORD) as u64);
        }
        Ok(())
    }

    /// Publishes like [`Self::publish`], without waiting. [`Self::catch_up`] waits later.
    pub fn publish_now(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.hand_in(writer);
        writer.overdrawn = true;
        self.take_now(writer).map(drop)
    }

    fn backlog(&self) -> u64 {
        let control = self.control();
        let published = control.chunks.published.0.load(SeqCst);
        published.saturating_sub(control.chunks.consumed.0.load(SeqCst))
    }

    /// Waits until there is room for another chunk. A signal that is to be delivered ends the wait:
    /// the thread goes on and is overdrawn until the next wait that is not interrupted, which
    /// comes when it is back from the handler, or has filled another chunk.
    pub fn catch_up(&self, writer: &mut Writer) -> Result<(), HostGone> {
        const ENOUGH: u64 = BACKLOG as u64;
        writer.overdrawn = false;
        if self.backlog() < ENOUGH {
            return Ok(());
        }
        let started = sys::monotonic();
        let mut done = Ok(());
        while done.is_ok() && self.backlog() >= ENOUGH {
            if writer.has_signal() {
                writer.overdrawn = true;
                break;
            }
            let word = &self.control().chunks.target_sleeps;
            let has_room = || self.backlog() < ENOUGH;
            protocol::doze(word, has_room, || {
                // SAFETY: a word of the thread's own context.
                unsafe { waits::futex_wait_unless(word, 1, NAP, writer.pending) };
                done = self.host_is_there();
            });
        }
        let control = self.control();
        control.chunks.waits.fetch_add(1, Relaxed);
        let waited = sys::monotonic() - started;
        control.chunks.wait_nanos.fetch_add(waited, Relaxed);
        done
    }

    /// Makes the host read all records so far. Returns the number that it will answer with.
    pub fn interrupt(&self) -> u32 {
        let queries = self.mapped.queries();
        let asked = protocol::ask(&queries.asked);
        self.wake_host();
        asked
    }

    /// Waits until the host has answered what the thread awaits, if it does. A signal that is to be delivered ends the
    /// wait, which goes on when the thread is back from the handler.
    pub fn answered(&self, writer: &mut Writer) -> Result<(), HostGone> {
        let Some(asked) = writer.awaits else {
            return Ok(());
        };
        let word = &self.mapped.queries().answered;
        let done = protocol::wait_for(word, asked, |answered| {
            if writer.has_signal() {
                return Err(None);
            }
            // SAFETY: a word of the thread's own context.
            unsafe { waits::futex_wait_unless(word, answered, NAP, writer.pending) };
            match word.load(SeqCst) == answered {
                true => self.host_is_there().map_err(Some),
                false => Ok(()),
            }
        });
        match done {
            Ok(()) => writer.awaits = None,
            // It is interrupted.
            Err(None) => {}
            Err(Some(gone)) => return Err(gone),
        }
        Ok(())
    }

    /// Sleeps while a shared word has a value, for a while, or until a signal is to be delivered.
    pub fn sleep_on(&self, word: &AtomicU32, value: u32, writer: &Writer) {
        // SAFETY: a word of the thread's own context.
        unsafe { waits::futex_wait_unless(word, value, NAP, writer.pending) };
    }

    /// Returns an error unless there is a host, and it serves this process.
    pub fn host_is_there(&self) -> Result<(), HostGone> {
        let there = self.mapped.directory().host_is_there();
        let served = self.control().host.closed.load(Relaxed) == 0;
        (there && served).then_some(()).ok_or(HostGone)
    }

    /// Waits until the host has folded everything that any thread has recorded so far.
    pub fn settle(&self) -> Result<(), HostGone> {
        let control = self.control();
        let asked = protocol::ask(&control.settling.asked);
        self.wake_host();
        protocol::wait_for(&control.settling.done, asked, |done| {
            sys::futex_wait(&control.settling.done, done, Some(NAP), false);
            match control.settling.done.load(SeqCst) == done {
                true => self.host_is_there(),
                false => Ok(()),
            }
        })
    }
}
