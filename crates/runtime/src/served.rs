//! Queues of queries that the program serves itself (`trommel_aware::queue`).
//!
//! # Problem
//! A message for such a queue belongs into memory of the app's, at once and in order; with the queue full its sender waits for a
//! thread of the app's. That thread may end, become another program, or be the one that waits; a signal handler may have
//! to run meanwhile. The memory may not be there any more, may hold anything, or be used for something else as soon as the
//! app is told that the queue is closed.
//!
//! # Strategy
//! A table of the [`OPEN_AT_A_TIME`] queues that are open, which takes no lock. A sender takes the number of the next message,
//! if the read status allows it, and writes it, the ready word last. What is in the app's memory is read and written
//! where a fault is expected (`arch::peek`, `arch::poke`), and believed as far as it cannot lead astray: a read status that no reader
//! can have written, or memory that is gone, closes the queue.
//!
//! Messages that a signal keeps from being sent wait in the thread's [`Serving`] and go first as soon as they can.
//!
//! | who is to receive | messages |
//! |---|---|
//! | nobody has opened the queue, it was closed, its thread has ended, a child made by `fork` | go to the host |
//! | the thread that sends, and there is no room | are dropped, and counted: it would wait for itself |
//! | a thread of a process that is being let go, or whose host is gone | are lost: the senders run natively as well |
//!
//! # Why it is correct
//! * A sender names the entry that it uses in [`Serving::sending`] before it looks whether it is open, and until it is done. Who
//!   closes first takes the entry away and then waits until no thread names it, so nobody writes to the memory afterwards.
//! * A number is taken by one sender, and only while the message that was in its place has been read. So a place is written
//!   by one thread, and is free.
//! * Who waits wakes up by itself after [`NAP`]: that nobody wakes it costs time, and no more.
//! * A process that shares this one's memory (`vfork`) sends to the host: killed between its two steps it would leave a
//!   message that never becomes ready.
#![allow(unsafe_code)] // reason: reads and writes the app's memory.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use trommel_aware::queue::{CLOSED, HEADER_BYTES, Header, MESSAGE_BYTES, MOST, OPEN, Served, Told};
use trommel_aware::{Answer, Request};
use trommel_queue::queries::MESSAGE_WORDS;

use crate::arch;
use crate::area::Context;
use crate::cache::AppPc;
use crate::deliver::HostGone;
use crate::native;
use crate::query;
use crate::stress;
use crate::sys;
use crate::thread::{Process, Thread};

/// Queues that are open at a time.
pub const OPEN_AT_A_TIME: usize = 16;
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

/// A message: seven words of the record, and what says whose it is.
pub type Message = [u64; MESSAGE_WORDS + 1];

/// What a thread has to do with queues of the app's.
#[derive(Default)]
pub struct Serving {
    /// The entry that it sends to, plus one.
    sending: AtomicU32,
    /// Messages that are to be sent first.
    spill: Spill,
    /// A request that is to be answered with no lock held.
    errand: Option<Errand>,
}

/// Messages to send, in order.
#[derive(Default)]
struct Spill {
    messages: Vec<Message>,
    /// Those in front of it were sent.
    from: usize,
}

impl Spill {
    fn clear(&mut self) {
        self.messages.clear();
        self.from = 0;
    }
}

/// A request of the app's.
#[derive(Clone, Copy)]
pub struct Errand {
    /// Which.
    pub request: Request,
    /// Its arguments.
    pub args: [u64; 2],
    /// Where it is made.
    pub pc: AppPc,
}

/// A queue that is open.
#[repr(align(64))]
struct Entry {
    /// Where; 0 while none is.
    base: AtomicU64,
    /// Messages that there is room for.
    room: AtomicU64,
    /// Its service thread, by address.
    server: AtomicU64,
    /// Messages sent.
    written: AtomicU64,
    /// How many that may be, as far as the read status was looked at.
    limit: AtomicU64,
    /// Its number.
    number: AtomicU8,
    /// Nobody else may open it here.
    taken: AtomicU8,
}

/// The queues that the app serves.
pub struct Queues {
    /// By number, the entry plus one.
    of: [AtomicU8; 256],
    entry: [Entry; OPEN_AT_A_TIME],
}

/// What became of a message.
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

/// What to do when there is no room.
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
    /// It is dropped though there be room: others go first that there was no room for.
    Lose,
}

impl Queues {
    /// None is open.
    pub const fn new() -> Self {
        Self {
            of: [const { AtomicU8::new(0) }; 256],
            entry: [const {
                Entry {
                    base: AtomicU64::new(0),
                    room: AtomicU64::new(0),
                    server: AtomicU64::new(0),
                    written: AtomicU64::new(0),
                    limit: AtomicU64::new(0),
                    number: AtomicU8::new(0),
                    taken: AtomicU8::new(0),
                }
            }; OPEN_AT_A_TIME],
        }
    }

    /// In a child made by `fork`, which has a copy of everything but the service threads.
    pub fn forget(&self) {
        for n in &self.of {
            n.store(0, Relaxed);
        }
        for entry in &self.entry {
            entry.base.store(0, Relaxed);
            entry.taken.store(0, Relaxed);
        }
    }

    /// Which entry a queue has.
    fn find(&self, number: u8) -> Option<usize> {
        usize::from(self.of[usize::from(number)].load(Acquire)).checked_sub(1)
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self::new()
    }
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
        serving.sending.swap(at as u32 + 1, SeqCst);
        let entry = &self.served.entry[at];
        let sent = self.send_to(entry, number, thread, pending, message, full);
        let of = &self.served.of[usize::from(number)];
        let mine = at as u8 + 1;
        // Of those who find that out one closes it, before the entry can be used again.
        if sent == Ok(None) && of.compare_exchange(mine, 0, SeqCst, Relaxed).is_ok() {
            let base = entry.base.swap(0, SeqCst);
            poke_word(base + STATE, CLOSED);
            entry.taken.store(0, SeqCst);
        }
        serving.sending.store(0, Release);
        sent.map(|sent| sent.unwrap_or(Sent::NotOpen))
    }

    /// [`Self::send`], with the entry found. `None`: its memory cannot be used any more.
    fn send_to(
        &self,
        entry: &Entry,
        number: u8,
        thread: u64,
        pending: impl Fn() -> *const u32,
        message: &Message,
        full: Full,
    ) -> Result<Option<Sent>, HostGone> {
        loop {
            let base = entry.base.load(SeqCst);
            if base == 0 || entry.number.load(Relaxed) != number {
                return Ok(Some(Sent::NotOpen));
            }
            if full == Full::Lose {
                poke(base + LOST, 8, &1);
                return Ok(Some(Sent::Dropped));
            }
            let room = entry.room.load(Relaxed);
            let n = entry.written.load(Acquire);
            if n < entry.limit.load(Acquire) {
                let next = entry.written.compare_exchange(n, n + 1, SeqCst, Relaxed);
                if next.is_err() {
                    continue;
                }
                stress::delay();
                let to = base + HEADER_BYTES + (n & (room - 1)) * MESSAGE_BYTES;
                if !poke(to, MESSAGE_BYTES, message.as_ptr()) {
                    return Ok(None);
                }
                if peek(base + SLEEPS, 4) == Some(1) && poke_word(base + SLEEPS, 0) {
                    sys::wake_there(base + SLEEPS, 1);
                }
                return Ok(Some(Sent::There));
            }
            match self.has_room(entry, base, room) {
                None => return Ok(None),
                Some(true) => continue,
                Some(false) => {}
            }
            let own = entry.server.load(Relaxed) == thread;
            match full {
                Full::Keep if !own => return Ok(Some(Sent::Later)),
                Full::Wait | Full::WaitOn if !own => {}
                _ => {
                    poke(base + LOST, 8, &1);
                    return Ok(Some(Sent::Dropped));
                }
            }
            if !poke_word(base + WAITING, 1) {
                return Ok(None);
            }
            if self.has_room(entry, base, room) == Some(false) && entry.base.load(SeqCst) == base {
                let never = 0;
                let pending = match full {
                    Full::Wait => pending(),
                    _ => &raw const never,
                };
                // SAFETY: a word of the thread's context, or the one above.
                if unsafe { pending.read_volatile() } != 0 {
                    return Ok(Some(Sent::Later));
                }
                // SAFETY: as above; the kernel looks whether the word is there.
                unsafe { sys::wait_there(base + WAITING, 1, NAP, pending) };
                if self.is_leaving() {
                    return Ok(Some(Sent::Dropped));
                }
                self.queue.host_is_there()?;
            }
        }
    }

    /// Whether there is room by what the reader says, which is taken note of. `None`: no reader can have said that.
    fn has_room(&self, entry: &Entry, base: u64, room: u64) -> Option<bool> {
        // Others write and read on meanwhile.
        let before = entry.written.load(SeqCst);
        let read = peek(base + READ, 8)?;
        let written = entry.written.load(SeqCst);
        if read > written || before.saturating_sub(read) > room {
            return None;
        }
        entry.limit.fetch_max(read + room, SeqCst);
        Some(written < read + room)
    }

    /// Waits until no thread uses an entry any more.
    fn wait_for_senders(&self, at: usize) {
        const TICK: u64 = 100_000;
        let started = sys::monotonic();
        loop {
            let uses = |thread: &*const Thread| {
                // SAFETY: listed threads are there; the word is atomic.
                let sending = unsafe { &(**thread).serving.sending };
                sending.load(SeqCst) as usize == at + 1
            };
            if !self.runtime.lock().threads.iter().any(uses) {
                return;
            }
            // A thread that has failed while it sent does not come back.
            if self.is_leaving() && sys::monotonic() - started > 4 * NAP {
                return;
            }
            let word = AtomicU32::new(0);
            sys::futex_wait(&word, 0, Some(TICK), true);
        }
    }

    /// A thread opens a queue.
    fn open(&self, thread: u64, at: u64, bytes: u64) -> Answer {
        let (Some(number), Some(room)) = (peek(at, 8), peek(at.wrapping_add(8), 8)) else {
            return Answer::Wrong;
        };
        let needs = HEADER_BYTES + MESSAGE_BYTES * room.min(MOST);
        let fits = at.is_multiple_of(MESSAGE_BYTES) && at.checked_add(bytes).is_some();
        if number > 255 || room < 2 || !room.is_power_of_two() || room > MOST {
            return Answer::Wrong;
        }
        if !fits || bytes < needs {
            return Answer::Wrong;
        }
        let number = number as u8;
        let asks = {
            let mut runtime = self.runtime.lock();
            let asked = runtime.translator.asked();
            asked.is_some_and(|asked| asked.sends_to(number))
        };
        if !asks {
            return Answer::Unasked;
        }
        let queues = &self.served;
        let free = |entry: &Entry| {
            let taken = &entry.taken;
            taken.compare_exchange(0, 1, SeqCst, Relaxed).is_ok()
        };
        // Nothing is written where a queue may be open.
        let free = match queues.find(number) {
            None => queues.entry.iter().position(free),
            Some(_) => None,
        };
        let Some(n) = free else {
            return Answer::Busy;
        };
        let entry = &queues.entry[n];
        // Those that came by when its memory had gone.
        self.wait_for_senders(n);
        let answer = match clear(at, room) {
            true => self.publish(n, number, thread, at, room),
            false => Answer::Wrong,
        };
        if answer != Answer::Done {
            poke_word(at + STATE, 0);
            entry.taken.store(0, SeqCst);
        }
        answer
    }

    /// Puts a queue in the table.
    fn publish(&self, n: usize, number: u8, thread: u64, at: u64, room: u64) -> Answer {
        let entry = &self.served.entry[n];
        // Who ends meanwhile closes what is its own.
        let _lock = self.runtime.lock();
        let of = &self.served.of[usize::from(number)];
        if of.load(SeqCst) != 0 {
            return Answer::Busy;
        }
        entry.room.store(room, Relaxed);
        entry.number.store(number, Relaxed);
        entry.server.store(thread, Relaxed);
        entry.written.store(0, Relaxed);
        entry.limit.store(room, Relaxed);
        entry.base.store(at, SeqCst);
        of.store(n as u8 + 1, SeqCst);
        Answer::Done
    }

    /// A queue is the host's again; one that a thread serves, if `server` names it.
    fn close(&self, number: u8, server: Option<u64>) -> Answer {
        let of = &self.served.of[usize::from(number)];
        let (n, base) = {
            let _lock = self.runtime.lock();
            let Some(n) = self.served.find(number) else {
                return Answer::Wrong;
            };
            let entry = &self.served.entry[n];
            let whose = entry.server.load(Relaxed);
            let taken = || of.compare_exchange(n as u8 + 1, 0, SeqCst, Relaxed).is_ok();
            if server.is_some_and(|server| server != whose) || !taken() {
                return Answer::Wrong;
            }
            (n, entry.base.swap(0, SeqCst))
        };
        poke_word(base + WAITING, 0);
        sys::wake_there(base + WAITING, i32::MAX as u32);
        self.wait_for_senders(n);
        poke_word(base + STATE, CLOSED);
        poke_word(base + SLEEPS, 0);
        sys::wake_there(base + SLEEPS, 1);
        self.served.entry[n].taken.store(0, SeqCst);
        Answer::Done
    }
}

/// Makes the memory of a queue that of one that is open; whether it can be written.
fn clear(at: u64, room: u64) -> bool {
    let zero: Message = [0; MESSAGE_WORDS + 1];
    let write = |at: u64| poke(at, MESSAGE_BYTES, zero.as_ptr());
    let mut slots = (0..room).map(|slot| at + HEADER_BYTES + slot * MESSAGE_BYTES);
    write(at + READ) && write(at + STATE) && slots.all(write) && poke_word(at + STATE, OPEN)
}

impl Thread {
    /// Sends a message to a queue that the app serves. [`Sent::Later`] is not answered.
    pub fn send(&mut self, message: &Message, drop: bool) -> Result<Sent, HostGone> {
        let number = message[MESSAGE_WORDS] as u8;
        if self.spawned || self.process.served.find(number).is_none() && !self.has_spilled() {
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

    /// Whether messages wait to be sent.
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
                Sent::NotOpen => query::to_host(&mut self.writer, &self.process.queue, &message)?,
            }
            self.serving.spill.from += 1;
        }
        self.serving.spill.clear();
        Ok(true)
    }

    /// The thread comes to its end: it serves no queue any more.
    pub fn serve_no_more(&mut self) {
        let this = &raw const *self as u64;
        for entry in &self.process.served.entry {
            if entry.base.load(SeqCst) != 0 && entry.server.load(Relaxed) == this {
                self.process.close(entry.number.load(Relaxed), Some(this));
            }
        }
        let _ = self.send_spilled(Full::WaitOn);
    }

    /// In a child made by `fork`: what was kept is its parent's.
    pub fn forget_spilled(&mut self) {
        self.serving.sending.store(0, Relaxed);
        self.serving.spill.clear();
    }

    /// A request about queues, which [`Self::run_errand`] answers.
    pub fn take_errand(&mut self, errand: Errand) {
        self.serving.errand = Some(errand);
    }

    /// Does what the app has asked for about queues. No lock is held.
    pub fn run_errand(&mut self, context: &mut Context) {
        let Some(errand) = self.serving.errand.take() else {
            return;
        };
        let [a, b] = errand.args;
        let this = &raw const *self as u64;
        let number = u8::try_from(a).ok();
        let answer = match (errand.request, number) {
            // Another process, which may end between two steps.
            _ if self.spawned => Answer::Wrong,
            (Request::Open, _) => self.process.open(this, a, b),
            (Request::Close, Some(number)) => self.process.close(number, None),
            (Request::Flush, Some(number)) => match self.send_spilled(Full::Wait) {
                // The signal first, and then the request again.
                Ok(false) => {
                    context.next_pc = errand.pc;
                    context.regs[0] = 0;
                    return;
                }
                Ok(true) if self.process.is_leaving() => Answer::Absent,
                Ok(true) if self.process.served.find(number).is_some() => Answer::Done,
                Ok(true) => Answer::Wrong,
                Err(HostGone) => {
                    native::host_gone(self, context);
                    Answer::Absent
                }
            },
            _ => Answer::Wrong,
        };
        context.regs[0] = answer.number() as u64;
    }
}

const _: () = {
    assert!(core::mem::offset_of!(Header, told) == 128 && HEADER_BYTES == 192);
    assert!(MESSAGE_BYTES as usize == size_of::<Message>());
    assert!(READ == 64 && STATE == 128);
};
