//! Failures of the runtime itself: reported, and survived where that is sound.
//!
//! # Problem
//! A fault or a failed assertion in the runtime must not end a program that is not to blame. What is
//! left of the runtime's own state may be half changed.
//!
//! # Strategy
//! While the runtime runs for a thread, the app's state is complete in its [`Context`]: nothing of
//! the app changes until control is back in the cache. So the thread is detached from there, and
//! all others when they come to the dispatcher next. Of what may be half changed, the dispatcher
//! touches only the list of threads and the app's dispositions from then on.
//! The app's address depends on how far the dispatcher had come:
//!
//! * [`Context::at_boundary`] is set: at `next_pc`, which the dispatcher had found out, or before a
//!   system call that was not made.
//! * It is not, and a chunk was full, or the probe of a query has crossed over: in the middle of a step, which is finished first.
//! * It is not otherwise: at the target of the exit that was taken.
//! * A system call was made in the app's name (`Thread::made`): after it, with its answer.
//!
//! Pages that were protected because of code in them become writable at once, so that stores to them do not fault.
//!
//! A program that blocks SIGSEGV or SIGILL at that moment is ended by the kernel, which delivers no
//! fault whose signal is blocked.
//!
//! In the signal handler the app's state is in a frame that may be half changed, and a second failure
//! of the same thread means that detaching has failed: then the program ends, by the failure's own
//! signal.
//!
//! Where the kernel has refused memory, as the program has a limit on its address space, nothing has failed but that: the host says so.
//! Else what happened is written to standard error in numbers, since nothing can be looked up here; the host,
//! if it is there, adds the names (`trommel_queue::Failure`).
//!
//! **I6 (complete context).** While the runtime runs for a thread, the app's state is complete in its context. A failure there detaches the thread.
#![allow(unsafe_code)] // reason: reads the stack of what failed.

use core::panic::Location;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use trommel_queue::{Detached, FAILURE_STACK};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::area::{Context, Reason};
use crate::base::heap;
use crate::base::sys;
use crate::crossing::arch::Landmarks;
use crate::engine::native;
use crate::engine::native::PENDING;
use crate::engine::state::Thread;
use crate::process::syscall;

static LOCATION: AtomicPtr<Location<'static>> = AtomicPtr::new(core::ptr::null_mut());

/// Remembers where an assertion failed, for the trap that follows.
pub fn panicked(at: Option<&'static Location<'static>>) {
    if let Some(at) = at {
        LOCATION.store((&raw const *at).cast_mut(), Release);
    }
}

/// The fault that raised the signal.
pub struct Fault {
    /// Its number.
    pub signal: i32,
    /// Its code.
    pub code: i32,
    /// Its address, as the kernel gives it.
    pub address: u64,
    /// The instruction.
    pub pc: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The flags.
    pub flags: u64,
}

/// A line for standard error.
struct Line {
    bytes: [u8; 240],
    len: usize,
}

impl Line {
    fn new() -> Self {
        let mut line = Self {
            bytes: [0; 240],
            len: 0,
        };
        line.text(b"trommel: ");
        line
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        for (to, from) in self.bytes[self.len..].iter_mut().zip(text) {
            *to = *from;
            self.len += 1;
        }
        self
    }

    fn number(&mut self, n: u64, base: u64) -> &mut Self {
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), n);
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(rest % base) as usize];
            rest /= base;
            if rest == 0 {
                break self.text(&digits[at..]);
            }
        }
    }

    fn hex(&mut self, what: &[u8], n: u64) -> &mut Self {
        self.text(what).number(n, 16)
    }

    fn decimal(&mut self, what: &[u8], n: u64) -> &mut Self {
        self.text(what).number(n, 10)
    }

    fn write(&mut self) {
        self.text(b"\n");
        sys::complain(&self.bytes[..self.len]);
    }
}

/// The runtime failed in `thread`. Whether it is detached: it goes on with `arch::resume` then.
pub fn failed(thread: &mut Thread, context: &mut Context, fault: &Fault) -> bool {
    let process = thread.process;
    let nested = thread.signals.on_own_stack(fault.rsp);
    let sound = !nested && !thread.leaving && process.image.holds(AppPc(fault.pc));
    if sound {
        settle(thread, context);
        // Natively nobody would open them.
        // SAFETY: a list of pages that another thread is just changing is the risk of a process that has failed already.
        unsafe { process.runtime.peek() }.code_pages.unprotect();
    }
    // SAFETY: a word that is only ever set.
    let broken = unsafe { process.runtime.peek() }.broken;
    let why = match sound && lacks_memory() {
        true => Detached::NoMemory,
        // Whatever fails now has failed as another thread was killed.
        false if sound && broken => Detached::Killed,
        false => {
            tell(thread, context, fault, sound);
            Detached::Internal
        }
    };
    if !sound {
        return false;
    }
    native::announce(process, why, context.next_pc);
    thread.leaving = true;
    thread.starting.locked = None;
    context.pending = PENDING;
    true
}

/// Returns whether nothing has failed but an allocation, as the kernel gave no memory.
fn lacks_memory() -> bool {
    let location = LOCATION.load(Acquire);
    // SAFETY: a location is static.
    let location = unsafe { location.as_ref() };
    let of_allocation = location.is_some_and(|at| at.file().ends_with("alloc/src/alloc.rs"));
    of_allocation && heap::is_exhausted()
}

/// Finds out where in the app the thread is.
pub fn settle(thread: &mut Thread, context: &mut Context) {
    let reason = context.reason;
    let is = |other: Reason| reason == other as u32;
    if let Some(result) = thread.call.made.take() {
        context.regs[0] = result as u64;
        let next = AppPc(context.next_pc.0 + syscall::SYSCALL_BYTES);
        syscall::finish(context, next);
        context.next_pc = next;
        context.at_boundary = 1;
    }
    if context.at_boundary != 0 || is(Reason::Full) || is(Reason::Counted) || is(Reason::Query) {
        return;
    }
    // SAFETY: exits are only added, and the one taken is there; a list that another thread is just
    // moving is the risk of a process that has failed already.
    let exit = unsafe { thread.process.runtime.peek() }
        .cache
        .exit(context.exit);
    if is(Reason::Exit) || is(Reason::Special) {
        context.next_pc = exit.target;
    } else if is(Reason::Syscall) {
        context.next_pc = syscall::before(exit.target);
    } else if is(Reason::Cloned) {
        syscall::finish(context, exit.target);
        context.next_pc = exit.target;
    }
    context.at_boundary = 1;
}

fn tell(thread: &Thread, context: &Context, fault: &Fault, sound: bool) {
    let process = thread.process;
    let control = process.queue.control();
    let image = process.image;
    let offset = fault.pc.wrapping_sub(image.start);
    let failure = &control.failure;
    let (n, tid) = (thread.writer.number, sys::gettid());
    let mut line = Line::new();
    line.decimal(b"internal error: signal ", fault.signal as u64)
        .decimal(b", code ", fault.code as u64)
        .hex(b", flags 0x", fault.flags)
        .hex(b" at address 0x", fault.address)
        .hex(b", in the runtime at +0x", offset);
    let location = LOCATION.swap(core::ptr::null_mut(), AcqRel);
    if !location.is_null() {
        // SAFETY: a location is static.
        let at = unsafe { &*location };
        line.text(b", assertion of ")
            .text(at.file().as_bytes())
            .decimal(b":", u64::from(at.line()));
    }
    line.write();
    let mut line = Line::new();
    line.text(b"  called from");
    let mut found = 0;
    for word in callers(fault.rsp, &thread.stacks(), &image) {
        if found < FAILURE_STACK {
            line.hex(b" +0x", word);
            failure.stack[found].store(word, Relaxed);
            found += 1;
        }
    }
    line.write();
    Line::new()
        .decimal(b"  thread ", u64::from(n))
        .decimal(b" (", tid as u64)
        .hex(b"), program at 0x", context.next_pc.0)
        .decimal(b", reason ", u64::from(context.reason))
        .hex(b", exit ", u64::from(context.exit.0))
        .hex(b", cache 0x", context.target.0)
        .decimal(b", fragments ", control.engine.fragments.load(Relaxed))
        .write();
    Line::new()
        .hex(b"  build ", control.identity.build.load(Relaxed))
        .hex(b", kinds ", u64::from(control.setup.kinds.load(Relaxed)))
        .hex(b", stress ", control.setup.options.load(Relaxed))
        .write();
    Line::new()
        .text(if sound {
            b"the program goes on natively; please report the lines above"
        } else {
            b"nothing can be saved: the program ends; please report the lines above"
        })
        .write();
    failure.offset.store(offset, Relaxed);
    failure.tid.store(tid as u32, Relaxed);
    let _ = failure
        .signal
        .compare_exchange(0, fault.signal as u32, Release, Acquire);
}

/// Words on the stack that may be return addresses, as offsets in the runtime's code.
fn callers(rsp: u64, stacks: &Range, image: &Range) -> impl Iterator<Item = u64> {
    const WORDS: u64 = 512;
    let start = if stacks.holds(AppPc(rsp)) {
        rsp & !7
    } else {
        stacks.end
    };
    let image = *image;
    (start..stacks.end.min(start + 8 * WORDS))
        .step_by(8)
        .filter_map(move |at| {
            // SAFETY: in the thread's own stacks.
            let word = unsafe { (at as *const u64).read_volatile() };
            // After a call, and not the address of data.
            image
                .holds(AppPc(word))
                .then(|| word - image.start)
                .filter(|_| {
                    // SAFETY: inside the image.
                    let call = unsafe { ((word - 5) as *const u8).read() };
                    call == 0xe8
                })
        })
}

/// Returns the address at which a detached thread goes on.
pub fn way_out() -> u64 {
    Landmarks::resume_start()
}
