//! Requests of the app about its queues: open, close, flush.
//!
//! Requests may wait for sending threads or for room. They are answered with no lock held, when the dispatcher
//! is done ([`Thread::run_errand`]). Changes of the table hold the lock for a moment: a thread that ends closes
//! only its own entries.
#![allow(unsafe_code)] // reason: looks at other threads.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use trommel_aware::queue::{HEADER_BYTES, MESSAGE_BYTES, MOST, OPEN};
use trommel_aware::{Answer, Request, ring};
use trommel_queue::queries::MESSAGE_WORDS;

use crate::base::area::Context;
use crate::base::sys;
use crate::channel::deliver::HostGone;
use crate::engine::native;
use crate::engine::served::posting::Unanswered;
use crate::engine::served::table::{Entry, Errand, Message};
use crate::engine::served::{Far, Full, NAP, READ, STATE, peek, poke, poke_word};
use crate::engine::state::{Process, Thread};

impl Process {
    /// Waits until no thread uses an entry any more.
    fn wait_for_senders(&self, at: usize) {
        const TICK: u64 = 100_000;
        let started = sys::monotonic();
        loop {
            let uses = |thread: &*const Thread| {
                // SAFETY: listed threads are there; the word is atomic.
                let sending = unsafe { &(**thread).serving.sending };
                ring::is_at(sending, at as u32 + 1)
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
        // Those that reached when its memory had gone.
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
        let (n, far) = {
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
            (n, Far(ring::withdraw(&entry.base)))
        };
        ring::shut(&far);
        self.wait_for_senders(n);
        ring::closed(&far);
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
    /// The thread comes to its end: it serves no queue any more.
    pub fn serve_no_more(&mut self) {
        if self.serving.posted.is_some() {
            self.end_posting();
        }
        let this = &raw const *self as u64;
        for entry in &self.process.served.entry {
            if entry.base.load(SeqCst) != 0 && entry.server.load(Relaxed) == this {
                self.process.close(entry.number.load(Relaxed), Some(this));
            }
        }
        let _ = self.send_spilled(Full::WaitOn);
    }

    /// A request about queues, which [`Self::run_errand`] answers.
    pub fn take_errand(&mut self, errand: Errand) {
        self.serving.errand = Some(errand);
    }

    /// Runs the app's requests about queues. No lock is held.
    pub fn run_errand(&mut self, context: &mut Context) {
        let Some(errand) = self.serving.errand.take() else {
            return;
        };
        let [a, b] = errand.args;
        let this = &raw const *self as u64;
        let number = u8::try_from(a).ok();
        let answer = match (errand.request, number) {
            // Another process, which may end between two steps.
            _ if self.spawned.is_some() => Answer::Wrong,
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
            (Request::Post, _) => match self.post(errand) {
                Ok(answer) => answer,
                Err(Unanswered::SignalFirst) => {
                    context.next_pc = errand.pc;
                    context.regs[0] = 0;
                    return;
                }
                Err(Unanswered::HostGone) if self.process.is_leaving() => Answer::Absent,
                Err(Unanswered::HostGone) => {
                    native::host_gone(self, context);
                    Answer::Absent
                }
            },
            _ => Answer::Wrong,
        };
        context.regs[0] = answer.number() as u64;
    }
}
