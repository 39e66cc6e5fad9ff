//! The table of queues that the program serves, and a thread's part in them.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use trommel_aware::Request;
use trommel_queue::queries::MESSAGE_WORDS;

use crate::base::address::AppPc;

/// Queues that are open at a time.
pub const OPEN_AT_A_TIME: usize = 16;

/// A message: seven words of the record, and what says whose it is.
pub type Message = [u64; MESSAGE_WORDS + 1];

/// A thread's state for the app's queues.
#[derive(Default)]
pub struct Serving {
    /// The entry that it sends to, plus one.
    pub(crate) sending: AtomicU32,
    /// Messages that are to be sent first.
    pub(crate) spill: Spill,
    /// A request that is to be answered with no lock held.
    pub(crate) errand: Option<Errand>,
    /// A request about queries that has no reply yet, and its number: the thread is in a signal handler.
    pub(crate) posted: Option<(Errand, u32)>,
}

/// Messages to send, in order.
#[derive(Default)]
pub(crate) struct Spill {
    pub(crate) messages: Vec<Message>,
    /// Index of the first that is not sent.
    pub(crate) from: usize,
}

impl Spill {
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.from = 0;
    }
}

/// A queue that is open.
#[repr(align(64))]
pub(crate) struct Entry {
    /// Address of the queue; 0 if there is none.
    pub(crate) base: AtomicU64,
    /// Messages that there is room for.
    pub(crate) room: AtomicU64,
    /// Its service thread, by address.
    pub(crate) server: AtomicU64,
    /// Messages sent.
    pub(crate) written: AtomicU64,
    /// Number of messages that may be written, by the read status when last looked at.
    pub(crate) limit: AtomicU64,
    /// Its number.
    pub(crate) number: AtomicU8,
    /// Nobody else may open it here.
    pub(crate) taken: AtomicU8,
}

/// The queues that the app serves.
pub struct Queues {
    /// Index of the entry plus one, by number.
    pub(crate) of: [AtomicU8; 256],
    pub(crate) entry: [Entry; OPEN_AT_A_TIME],
    /// The signal that an interrupt is, or 0.
    pub(crate) signal: AtomicU8,
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
            signal: AtomicU8::new(0),
        }
    }

    /// Resets the table in a child made by `fork`, which has a copy of everything but the service threads.
    pub fn forget(&self) {
        for n in &self.of {
            n.store(0, Relaxed);
        }
        self.signal.store(0, Relaxed);
        for entry in &self.entry {
            entry.base.store(0, Relaxed);
            entry.taken.store(0, Relaxed);
        }
    }

    /// Interrupts are a signal from now on, or with 0 the host's.
    pub fn interrupt_by(&self, signal: u8) {
        self.signal.store(signal, Relaxed);
    }

    /// The signal that an interrupt is, if the app handles them.
    pub fn interrupts(&self) -> Option<i32> {
        let signal = self.signal.load(Relaxed);
        (signal != 0).then_some(signal.into())
    }

    /// Returns the entry of a queue.
    pub(crate) fn find(&self, number: u8) -> Option<usize> {
        usize::from(self.of[usize::from(number)].load(Acquire)).checked_sub(1)
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self::new()
    }
}

/// A request of the app's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errand {
    /// The request.
    pub request: Request,
    /// Its arguments.
    pub args: [u64; 2],
    /// Address of the request.
    pub pc: AppPc,
}
