//! Queues that the program serves itself: messages of relational queries (`docs/query.md`), in its own memory.
//!
//! # Problem
//! A program may act on what is asked about it, such as a garbage collector whose store barrier is a query. It needs the
//! messages at once and in its own address space. Natively nothing of that may be needed, or be in the way.
//!
//! # Strategy
//! The program sets a [`Memory`] aside, and a thread of its *opens* a numbered queue there. Queries that send to the
//! number write to that memory from then on, and not to Trommel's services. The thread that opens a queue serves it. The ring is
//! that of Heil and Smith (MICRO 2000, 3.4.2): eight words a message, the eighth says that it is there (the *ready word*). The
//! service thread clears it, and says in the *read status* how many messages it has read. Both sides may sleep, each
//! upon a word that the other one looks at. [`crate::ring`] has the order of their steps; `include/trommel.h` says the same for C.
//!
//! | bytes | written by | |
//! |---|---|---|
//! | 0 | program | number of the queue (`u64`), before it is opened |
//! | 8 | program | messages that there is room for (`u64`): a power of two, 2 to [`MOST`] |
//! | 64 | program | read status (`u64`) |
//! | 72 | both | 1 while the service thread sleeps (`u32`) |
//! | 128 | Trommel | [`OPEN`], [`CLOSED`], or 0 (`u32`) |
//! | 132 | both | 1 while threads sleep that wait for room (`u32`) |
//! | 136 | Trommel | messages that were dropped as the queue was full (`u64`) |
//! | 192 | both | messages, 64 bytes each |
//!
//! # What holds
//! * A message is in its queue before the next instruction of the thread that sent it is executed, unless that is the first
//!   of a signal handler which has interrupted the wait for room: then, when the handler is back, or [`flush`] has been answered
//!   with [`Answer::Done`]. So what one thread has told another by any means, it has sent before.
//! * Messages of one thread are in the order in which it sent them.
//! * [`Answer::Done`] of [`flush`] means that the thread is under control now, so has been since the queue was opened: no message is missing.
//! * Once [`Queue::close`] has returned, nothing writes to the memory.
#![allow(unsafe_code)] // reason: a system call.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};
use core::time::Duration;

use crate::ring::{self, Bed};
use crate::{Answer, Request, plain, present};

/// Messages that a queue has room for at most. (The paper's hardware: 128.)
pub const MOST: u64 = 1 << 16;
/// Offset of a queue's first message.
pub const HEADER_BYTES: u64 = size_of::<Header>() as u64;
/// Bytes of a message.
pub const MESSAGE_BYTES: u64 = 64;
/// `Header::state`: messages may come.
pub const OPEN: u32 = 1;
/// `Header::state`: no more will come.
pub const CLOSED: u32 = 2;

/// Words that the service thread writes while a queue is open.
#[repr(C, align(64))]
pub struct Served {
    /// Messages read so far.
    pub read: AtomicU64,
    /// Futex: 1 while the service thread sleeps.
    pub sleeps: AtomicU32,
}

/// Words that Trommel writes.
#[repr(C, align(64))]
pub struct Told {
    /// 0, [`OPEN`] or [`CLOSED`].
    pub state: AtomicU32,
    /// Futex: 1 while a thread sleeps that waits for room. The service thread clears it.
    pub waiting: AtomicU32,
    /// Messages that were dropped.
    pub lost: AtomicU64,
}

/// Before the messages.
#[repr(C, align(64))]
pub struct Header {
    /// Number of the queue.
    pub number: AtomicU64,
    /// Messages that there is room for.
    pub messages: AtomicU64,
    /// The service thread's part.
    pub served: Served,
    /// Trommel's part.
    pub told: Told,
}

/// Room for a message.
#[repr(C, align(64))]
struct Slot {
    words: [AtomicU64; 7],
    ready: AtomicU64,
}

/// Memory of a queue: room for `N` messages.
#[repr(C)]
pub struct Memory<const N: usize> {
    header: Header,
    slots: [Slot; N],
}

impl<const N: usize> Memory<N> {
    /// Makes the memory of a queue that is not open.
    pub const fn new() -> Self {
        const { assert!(N >= 2 && N.is_power_of_two() && N as u64 <= MOST) };
        Self {
            header: Header {
                number: AtomicU64::new(0),
                messages: AtomicU64::new(N as u64),
                served: Served {
                    read: AtomicU64::new(0),
                    sleeps: AtomicU32::new(0),
                },
                told: Told {
                    state: AtomicU32::new(0),
                    waiting: AtomicU32::new(0),
                    lost: AtomicU64::new(0),
                },
            },
            slots: [const {
                Slot {
                    words: [const { AtomicU64::new(0) }; 7],
                    ready: AtomicU64::new(0),
                }
            }; N],
        }
    }
}

impl<const N: usize> Default for Memory<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The words of the record; those that were not collected are 0.
    pub words: [u64; 7],
    /// The eighth word. Bits 0–7: the queue. 8–15: number of the instruction that sent it. 16–19: words that were collected. 24–28:
    /// it stands for two to the power of this executions where the query says `every auto`, else 0. 31: set. 32–63: number of the thread that sent it.
    pub ready: u64,
}

impl Message {
    /// Number of the thread that sent it, as the field `thread` has it.
    pub const fn thread(&self) -> u32 {
        (self.ready >> 32) as u32
    }
}

/// The program does not run under Trommel, or no query sends to the queue, …
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused(pub Answer);

/// An open queue, at its service thread: closed when it is dropped.
pub struct Queue {
    header: &'static Header,
    slots: &'static [Slot],
    number: u8,
    read: u64,
    /// It is the thread's that opened it.
    here: PhantomData<*const ()>,
}

impl Queue {
    /// Opens a queue for the calling thread to serve.
    ///
    /// # Errors
    /// [`Answer::Absent`] without Trommel, [`Answer::Unasked`] where no query sends to the queue, [`Answer::Busy`].
    pub fn open<const N: usize>(
        memory: &'static mut Memory<N>,
        number: u8,
    ) -> Result<Self, Refused> {
        let memory: &'static Memory<N> = memory;
        let header = &memory.header;
        header.number.store(number.into(), Relaxed);
        header.messages.store(N as u64, Relaxed);
        let at = &raw const *memory as u64;
        match plain(Request::Open, at, size_of::<Memory<N>>() as u64) {
            Answer::Done => Ok(Self {
                header,
                slots: &memory.slots,
                number,
                read: 0,
                here: PhantomData,
            }),
            answer => Err(Refused(answer)),
        }
    }

    /// The next message, if there is one now.
    pub fn receive(&mut self) -> Option<Message> {
        let near = Near {
            header: self.header,
            slots: self.slots,
        };
        let (words, ready) = ring::receive(&near, &mut self.read)?;
        Some(Message { words, ready })
    }

    /// Sleeps until there is a message, for so long at most. False: there is none, and no more will come.
    pub fn wait(&mut self, most: Duration) -> bool {
        /// After that long it looks whether there is a Trommel still.
        const NAP: Duration = Duration::from_millis(50);
        let near = Near {
            header: self.header,
            slots: self.slots,
        };
        let sleeps = &self.header.served.sleeps;
        let mut left = most;
        while !left.is_zero() {
            let nap = left.min(NAP);
            let sleep = || futex(sleeps, WAIT, 1, nap);
            if !ring::rest(&near, self.read, || self.is_open(), sleep) {
                break;
            }
            left -= nap;
        }
        sleeps.store(0, Relaxed);
        // The queue first: what was sent before it was closed is there then.
        let slot = &self.slots[self.read as usize & (self.slots.len() - 1)];
        self.is_open() || slot.ready.load(Acquire) != 0
    }

    /// Returns true if messages may come still. Those that have come are there to be received in any case.
    pub fn is_open(&self) -> bool {
        self.header.told.state.load(Acquire) == OPEN && present().is_some()
    }

    /// Messages that were dropped as there was no room.
    pub fn lost(&self) -> u64 {
        self.header.told.lost.load(Relaxed)
    }

    /// Closes it: its memory may be used for something else.
    pub fn close(self) {}
}

/// The memory of a queue, for its service thread.
struct Near {
    header: &'static Header,
    slots: &'static [Slot],
}

impl Near {
    fn slot(&self, place: u64) -> &'static Slot {
        &self.slots[place as usize]
    }
}

impl ring::Near for Near {
    type Long = AtomicU64;
    type Short = AtomicU32;
    type Words = [u64; 7];

    fn room(&self) -> u64 {
        self.slots.len() as u64
    }

    fn ready(&self, place: u64) -> &AtomicU64 {
        &self.slot(place).ready
    }

    fn words(&self, place: u64) -> [u64; 7] {
        self.slot(place)
            .words
            .each_ref()
            .map(|word| word.load(Relaxed))
    }

    fn read_status(&self) -> &AtomicU64 {
        &self.header.served.read
    }

    fn bed(&self, bed: Bed) -> &AtomicU32 {
        match bed {
            Bed::Sleeps => &self.header.served.sleeps,
            Bed::Waiting => &self.header.told.waiting,
        }
    }

    fn fence(&self) {
        fence(SeqCst);
    }

    fn wake_senders(&self) {
        let waiting = &self.header.told.waiting;
        futex(waiting, WAKE, i32::MAX as u32, Duration::ZERO);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = plain(Request::Close, self.number.into(), 0);
    }
}

/// All that the calling thread has sent to a queue is in it, when [`Answer::Done`] is answered: it is open, and no message of
/// the thread's to it has got lost on the way. Waits for room if need be.
pub fn flush(number: u8) -> Answer {
    plain(Request::Flush, number.into(), 0)
}

const WAIT: u32 = 0;
const WAKE: u32 = 1;

fn futex(word: &AtomicU32, operation: u32, value: u32, time: Duration) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let spec = [time.as_secs(), u64::from(time.subsec_nanos())];
        // SAFETY: the system call `futex` upon a word that is there, with a time that is.
        unsafe {
            core::arch::asm!(
                "syscall",
                inout("rax") 202_u64 => _,
                in("rdi") word.as_ptr(),
                in("rsi") u64::from(operation),
                in("rdx") u64::from(value),
                in("r10") spec.as_ptr(),
                in("r8") 0_u64,
                in("r9") 0_u64,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    let _ = (word, operation, value, time);
}

const _: () = {
    assert!(core::mem::offset_of!(Header, served) == 64);
    assert!(core::mem::offset_of!(Header, told) == 128 && HEADER_BYTES == 192);
    assert!(size_of::<Slot>() as u64 == MESSAGE_BYTES);
    assert!(core::mem::offset_of!(Memory<2>, slots) as u64 == HEADER_BYTES);
};
