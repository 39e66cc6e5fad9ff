//! Requests of the app about queries: load, remove.
//!
//! # Problem
//! A program that finds out what it wants to know next asks for other queries. Only the host knows the language, and what names of code mean.
//!
//! # Strategy
//! The texts go to the host by shared memory, one request at a time ([`Posted`]), and the thread waits for the reply with no lock held. The host
//! replies in its next turn. It waits for no thread.
//!
//! A signal ends the wait: the handler runs, and the request is made again. It is remembered as one that was posted ([`Serving::posted`]), so that
//! it is not posted twice.
//!
//! # Why it is correct
//! * The texts are written by who has set `Queries::posting`, when all earlier requests have their replies.
//! * What the reply says is read before that word is cleared.
//! * A thread that ends or fails in a handler clears it. The reply to its request is nobody's.
//!
//! [`Serving::posted`]: crate::engine::served::table::Serving::posted

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use trommel_aware::{Answer, MOST_TEXT, Posting};
use trommel_queue::protocol;
use trommel_queue::queries::Posted;

use crate::base::sys;
use crate::channel::deliver::HostGone;
use crate::engine::served::table::Errand;
use crate::engine::state::Thread;

/// Bytes of a name at most.
const MOST_NAME: u64 = 64;
/// Bytes that are copied at a time.
const PIECE: usize = 256;

/// Result of a request that has no answer.
pub(super) enum Unanswered {
    /// A signal is to be delivered first.
    SignalFirst,
    /// There is no host.
    HostGone,
}

fn read(at: u64, bytes: u64) -> Option<Posting> {
    let mut words = [[0_u8; 8]; 6];
    const _: () = assert!(size_of::<Posting>() == 48);
    if bytes < 48 || !sys::copy_checked(at, words.as_flattened_mut()) {
        return None;
    }
    let [name, name_bytes, text, text_bytes, error, room] = words.map(u64::from_le_bytes);
    Some(Posting {
        name,
        name_bytes,
        text,
        text_bytes,
        error,
        room,
    })
}

/// Copies text of the app's into a request, from byte `to` on; whether it could be read.
fn copy(posted: &Posted, to: usize, at: u64, bytes: u64) -> bool {
    let mut piece = [0; PIECE];
    (0..bytes as usize).step_by(PIECE).all(|from| {
        let piece = &mut piece[..PIECE.min(bytes as usize - from)];
        let read = sys::copy_checked(at.wrapping_add(from as u64), piece);
        posted.put(to + from, piece);
        read
    })
}

/// Writes the reason of a refusal to the app's memory, and a 0 after it, as far as there is room.
fn write_reason(posted: &Posted, bytes: usize, asked: &Posting) {
    let room = usize::try_from(asked.room)
        .unwrap_or(usize::MAX)
        .min(Posted::BYTES);
    let Some(most) = room.checked_sub(1) else {
        return;
    };
    let bytes = bytes.min(most);
    for n in 0..=bytes {
        let byte = if n == bytes { 0 } else { posted.byte(n) };
        if !sys::write_checked(&[byte], asked.error.wrapping_add(n as u64)) {
            return;
        }
    }
}

impl Thread {
    /// Posts a request, and waits for the reply.
    pub(super) fn post(&mut self, errand: Errand) -> Result<Answer, Unanswered> {
        let mapped = self.process.queue.mapped();
        let queries = mapped.queries();
        let [at, bytes] = errand.args;
        if queries.changing.load(Relaxed) == 0 {
            return Ok(Answer::Unasked);
        }
        let Some(asked) = read(at, bytes) else {
            return Ok(Answer::Wrong);
        };
        if !(1..=MOST_NAME).contains(&asked.name_bytes) || asked.text_bytes > MOST_TEXT {
            return Ok(Answer::Wrong);
        }
        const _: () = assert!(MOST_TEXT + MOST_NAME <= Posted::BYTES as u64);
        let number = match self.serving.posted {
            Some((same, number)) if same == errand => number,
            Some(_) => return Ok(Answer::Busy),
            None => {
                self.begin_posting()?;
                let posted = mapped.posted();
                let name = asked.name_bytes as usize;
                let texts = copy(posted, 0, asked.name, asked.name_bytes)
                    && copy(posted, name, asked.text, asked.text_bytes);
                if !texts {
                    self.end_posting();
                    return Ok(Answer::Wrong);
                }
                posted.name.store(asked.name_bytes as u32, Relaxed);
                let loads = u32::from(asked.text != 0);
                posted
                    .text
                    .store(loads * (asked.text_bytes as u32 + 1), Relaxed);
                let number = protocol::ask(&queries.posted);
                self.serving.posted = Some((errand, number));
                self.process.queue.wake_host();
                number
            }
        };
        let replied = protocol::wait_for(&queries.replied, number, |now| {
            self.sleep_on(&queries.replied, now)
        });
        match replied {
            Err(Unanswered::SignalFirst) => return Err(Unanswered::SignalFirst),
            Err(gone) => {
                self.end_posting();
                return Err(gone);
            }
            Ok(()) => {}
        }
        let refused = mapped.posted().refused.load(Relaxed) as usize;
        if refused != 0 {
            write_reason(mapped.posted(), refused, &asked);
        }
        self.end_posting();
        Ok(match refused {
            0 => Answer::Done,
            _ => Answer::Refused,
        })
    }

    /// Waits until no other thread posts, and the host has replied to all that was posted.
    fn begin_posting(&self) -> Result<(), Unanswered> {
        let queries = self.process.queue.mapped().queries();
        protocol::hold(
            &queries.posting,
            [&queries.posted, &queries.replied],
            |word, value| self.sleep_on(word, value),
            || self.free_posting(),
        )
    }

    fn free_posting(&self) {
        let posting = &self.process.queue.mapped().queries().posting;
        posting.store(0, SeqCst);
        sys::futex_wake(posting, 1, false);
    }

    /// The thread has nothing posted any more.
    pub(super) fn end_posting(&mut self) {
        self.serving.posted = None;
        self.free_posting();
    }

    /// Sleeps while a word has a value, for a while.
    fn sleep_on(&self, word: &AtomicU32, value: u32) -> Result<(), Unanswered> {
        if self.writer.has_signal() {
            return Err(Unanswered::SignalFirst);
        }
        if self.process.is_leaving() {
            return Err(Unanswered::HostGone);
        }
        self.process.queue.sleep_on(word, value, &self.writer);
        match self.process.queue.host_is_there() {
            Ok(()) => Ok(()),
            Err(HostGone) => Err(Unanswered::HostGone),
        }
    }
}
