//! System calls that write into pages we have protected.
//!
//! # Problem
//! Where a store of the app faults and is resolved, the kernel's own store into the app's memory
//! fails the call: with `EFAULT`, after what it gave may be gone (a datagram, a dead child's status),
//! or with fewer bytes than there were.
//!
//! # Strategy
//! From the first protected page on, the threads' tables send every call that may write memory to
//! the dispatcher before it is made. It looks at what the arguments point to, opens pages of ours
//! there, and lets the call be made in place. The pages are unsteady for a while
//! (`pages`), so that no other thread has them protected again before the call comes to write.
//!
//! Which calls write, where and how much is in the table of [`syscalls`].
//!
//! # Memory that the kernel writes in its own time
//! No call can be looked at that comes before such a store. So this memory is never protected, and fragments beside it are guarded:
//!
//! * the area of restartable sequences, which the kernel writes when a thread goes to another processor ([`Runtime::area_is_named`]);
//! * what a thread's end writes: the word of its id, and those of robust locks that it holds ([`Runtime::before_end`]);
//! * buffers of `io_uring` and of asynchronous input, which may be anywhere: a process that uses these has no protected pages
//!   ([`Runtime::writes_are_unseen`]).
#![allow(unsafe_code)] // reason: writes into threads' tables, reads the app's lists of buffers.

use crate::base::syscalls::{self, Role, Write};
use crate::memory::pages::{PAGE, whole};
use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::sys;
use crate::engine::state::Runtime;

/// Bytes that a call writes after a pointer, where their number is not known.
const STRUCTURE: u64 = 8192;
/// Bytes that a call is taken to write at most.
const MOST: u64 = 1 << 31;
/// Buffers in a list at most, as in the kernel.
const BUFFERS: u64 = 1024;

pub(super) fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: plain words, as many bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), N * 8) };
    sys::copy_checked(at, bytes).then_some(words)
}

fn bytes_at(start: u64, len: u64) -> Range {
    Range {
        start,
        end: start.saturating_add(len.min(MOST)),
    }
}

impl Runtime {
    /// Sends the threads' calls that write memory to the dispatcher from now on, if there are protected
    /// pages.
    pub fn watch_calls(&mut self) {
        if self.watching || !self.code_pages.has_any() {
            return;
        }
        self.watching = true;
        for thread in &self.threads {
            // SAFETY: listed threads are there, and their tables are bytes that are only set.
            unsafe { (**thread).see(syscalls::writing()) };
        }
    }

    /// The calls that new threads send here, beyond those that all send always.
    pub fn watched(&self) -> impl Iterator<Item = u32> + use<> {
        let writing = syscalls::with(&[Role::WritesFiles]).filter({
            let memory_file = self.memory_file;
            move |_| memory_file
        });
        let reading = syscalls::with(&[Role::ReadsFiles]).filter({
            let status_file = self.status_file;
            move |_| status_file
        });
        let watching = self.watching;
        syscalls::writing()
            .filter(move |_| watching)
            .chain(writing)
            .chain(reading)
    }

    /// The kernel is about to carry out a call that may write where its arguments point.
    pub fn before_call(&mut self, number: u32, args: &[u64; 6]) {
        if !self.memory_file && syscalls::role(number) == Role::Receives {
            self.before_receiving(number, args);
        }
        if !self.watching {
            return;
        }
        if number == nr::__NR_futex {
            return self.before_futex(args);
        }
        match syscalls::row_of(number) {
            Some(row) => {
                for write in row.writes {
                    self.before_write(write, args);
                }
            }
            None => {
                for &at in args {
                    self.written_by_kernel(bytes_at(at, STRUCTURE));
                }
            }
        }
    }

    /// The kernel is about to write as a row of the table says.
    fn before_write(&mut self, write: &Write, args: &[u64; 6]) {
        let arg = |n: u8| args[usize::from(n)];
        let (at, len) = match *write {
            Write::Fixed(at, len) => (at, len.into()),
            Write::Structure(at) => (at, STRUCTURE),
            Write::Deep(at) => {
                self.before_deep(arg(at));
                (at, STRUCTURE)
            }
            Write::Control(request, at) => {
                self.before_deep(arg(at));
                // The size that numbers of requests have since they have one.
                (at, STRUCTURE.max(arg(request) >> 16 & 0x3fff))
            }
            Write::Bits(at, count) => (at, (arg(count) & 0xffff_ffff) / 8 + 8),
            Write::Buffer(at, len) => (at, arg(len)),
            Write::Text(at, len) => (at, arg(len).saturating_add(8)),
            Write::Array(at, count, size) => (at, arg(count).saturating_mul(size.into())),
            Write::Pages(at, len) => (at, arg(len) / PAGE + 1),
            Write::Sized(at, len) => {
                let told = words(arg(len)).map_or(STRUCTURE, |[len]| len & 0xffff_ffff);
                self.written_by_kernel(bytes_at(arg(len), 8));
                (at, told)
            }
            Write::Vectors(at, count) => return self.before_list(arg(at), arg(count)),
            Write::Message(at) => return self.before_messages(arg(at), 1),
            Write::Messages(at, count) => return self.before_messages(arg(at), arg(count)),
        };
        self.written_by_kernel(bytes_at(arg(at), len));
    }

    /// Treats memory that the words of a structure lead to, and what follows, as written by the kernel.
    fn before_deep(&mut self, at: u64) {
        /// Bytes of a structure in which there are pointers, and bytes that one leads to.
        const POINTERS: usize = 64;
        const FOLLOWING: u64 = 64 << 10;
        let mut words = [0_u64; POINTERS];
        let known = sys::copy_words(at, &mut words);
        for &to in &words[..known] {
            self.written_by_kernel(bytes_at(to, FOLLOWING));
        }
    }

    /// The kernel changes the words of some locks itself. Of a lock between processes it asks for a writable page, also where it
    /// only reads the word.
    fn before_futex(&mut self, args: &[u64; 6]) {
        const COMMAND: u32 = 0x7f;
        const WORD: u64 = 4;
        let operation = args[1] as u32;
        if operation & nr::FUTEX_PRIVATE_FLAG == 0 {
            self.written_by_kernel(bytes_at(args[0], WORD));
        }
        let at = match operation & COMMAND {
            nr::FUTEX_REQUEUE | nr::FUTEX_CMP_REQUEUE => args[4],
            nr::FUTEX_LOCK_PI | nr::FUTEX_LOCK_PI2 => args[0],
            nr::FUTEX_UNLOCK_PI | nr::FUTEX_TRYLOCK_PI => args[0],
            nr::FUTEX_WAKE_OP | nr::FUTEX_CMP_REQUEUE_PI | nr::FUTEX_WAIT_REQUEUE_PI => args[4],
            _ => return,
        };
        self.written_by_kernel(bytes_at(at, WORD));
    }

    /// The kernel writes to `range` when it likes, from now on.
    pub fn area_is_named(&mut self, range: Range) {
        let range = whole(range);
        self.doubt(range);
        self.code_pages.give_up(range);
    }

    /// The kernel writes anywhere when it likes, from now on.
    pub fn writes_are_unseen(&mut self) {
        let all = Range {
            start: 0,
            end: u64::MAX,
        };
        self.code_pages.unsteady = true;
        self.written_by_kernel(all);
    }

    /// Takes note of rings that the process has made while it was native.
    pub fn meet_rings(&mut self) {
        if self.regions.has_rings() && !self.code_pages.unsteady {
            self.be_joined();
            self.writes_are_unseen();
        }
    }

    /// The calling thread is about to end: what the kernel writes then must be writable.
    pub fn before_end(&mut self) {
        /// Locks in a list at most, as in the kernel.
        const MOST_LOCKS: usize = 2048;
        const GET_TID_ADDRESS: u64 = 40;
        const WORD: u64 = 4;
        if !self.code_pages.has_any() {
            return;
        }
        let mut asked = [0_u64; 2];
        let [head, size] = [&raw mut asked[0] as u64, &raw mut asked[1] as u64];
        // SAFETY: the kernel writes two words.
        unsafe { sys::call(nr::__NR_get_robust_list, [0, head, size, 0, 0, 0]) };
        let head = asked[0];
        if let Some([first, offset, pending]) = words(head).filter(|_| head != 0) {
            let mut at = first;
            for lock in core::iter::once(pending).chain((0..MOST_LOCKS).map_while(|_| {
                let now = core::mem::take(&mut at);
                at = words(now & !1).filter(|_| now != head).map(|[next]| next)?;
                Some(now)
            })) {
                self.written_by_kernel(bytes_at((lock & !1).wrapping_add(offset), WORD));
            }
        }
        // SAFETY: the kernel writes a word.
        unsafe { sys::call(nr::__NR_prctl, [GET_TID_ADDRESS, size, 0, 0, 0, 0]) };
        self.written_by_kernel(bytes_at(asked[1], WORD));
    }

    /// Messages are about to be received.
    fn before_messages(&mut self, at: u64, count: u64) {
        // struct mmsghdr is a struct msghdr and a length, padded.
        const BYTES: u64 = 64;
        let count = count.min(BUFFERS);
        self.written_by_kernel(bytes_at(at, BYTES * count));
        for n in 0..count {
            let Some([name, name_len, list, count, control, control_len]) = words(at + BYTES * n)
            else {
                break;
            };
            self.written_by_kernel(bytes_at(name, name_len & 0xffff_ffff));
            self.before_list(list, count);
            self.written_by_kernel(bytes_at(control, control_len));
        }
    }

    fn before_list(&mut self, list: u64, count: u64) {
        for n in 0..count.min(BUFFERS) {
            let Some([at, len]) = words(list + 16 * n) else {
                return;
            };
            self.written_by_kernel(bytes_at(at, len));
        }
    }

    /// Somebody whose stores do not fault is about to write to `range`.
    pub(super) fn written_by_kernel(&mut self, range: Range) {
        if self.code_pages.any_protected(range) {
            self.doubt(range);
            self.code_pages.loosen(range);
        }
    }
}
