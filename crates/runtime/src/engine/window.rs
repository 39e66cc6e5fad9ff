//! Windows: a thread that runs natively is under control for N instructions, and native again.
//!
//! # Problem
//! A profile of a program that must not be slowed down is made from short windows, a thousand a
//! second. Each takes one thread from its own code into the cache, for exactly as many instructions as were
//! asked for, and back. It must cost microseconds. Between two windows nothing may be
//! different for the program: its signal handlers, masks, stacks, system calls and code are its own.
//!
//! # Strategy
//! *In.* A signal of a number that no program handles (`WINDOW_SIGNAL`), of an event of the host's or of a timer of the
//! thread's ([`timer`]), finds the thread in its own code.
//! The handler finds the thread's area by its id and changes the frame that it returns from: all
//! signals are blocked but the synchronous ones, the alternate stack and GS are the runtime's, and control comes to
//! `arch::window`, which is an entry like those from the cache. The kernel's return from the
//! handler loads the whole state of the app, vectors included.
//!
//! *Code* stays translated between windows. Meanwhile anything may happen to it unseen, so each
//! fragment compares the code that it was made from whenever it is entered, as guarded fragments do
//! (`translate::made`); and a region that is to be translated is looked up anew in each window
//! ([`crate::memory::region`]). Nothing of the app's is write-protected.
//!
//! *Counting.* Each exit of a fragment takes the number of instructions that lead to it from
//! [`Context::budget`](crate::base::area::Context::budget), and goes to the dispatcher when fewer are left than the longest fragment
//! has. Those are executed by *parts*: fragments of at most 8, 4, 2 or 1 instructions, which are never linked. Long windows
//! with marks do without: their marks report how many instructions they had.
//!
//! *Skid.* A signal that ends a period of time finds a thread more often after a slow instruction than after a quick one
//! (*Value Sampling*, section 5). So a random number of instructions below `Control::window_skip` is passed first, in the
//! same way, and then the window begins. The host forgets what was recorded meanwhile: one mark in the records says where the
//! window begins, another where it ends ([`CAPTURE_MARK`], [`END_MARK`]). After the first there may be a piece of the stack (`stack`),
//! before the second what queries have counted ([`crate::engine::queries::windows`]).
//!
//! *Out.* The window ends where the budget does, or before: before a system call, at an instruction that
//! causes a signal, before what cannot be executed in the cache. The way out is the return from a signal handler into the app's
//! own code, with no signal (`signal::depart`), or, where that cannot be, as a thread is detached (`native::leave`). So the call is made natively, by the app's own instruction and with its own mask, and so is the fault
//! caused again, for the app's own handler.
//!
//! *Signals.* Asynchronous ones are blocked in the kernel for as long as a window lasts, and are
//! delivered by the kernel itself where it ends. The synchronous ones are the runtime's from when the first
//! thread enters a window until the last has left; in between the kernel has the app's own
//! dispositions. A thread that is native and causes one meanwhile waits in the handler until the
//! dispositions are back, and causes it again. They can be *sent* too, at any moment. So all signals are blocked
//! where a native thread takes the runtime's lock, and from where a thread that leaves gives
//! the dispositions back until it has the app's mask again: its handler would find the lock taken, or a
//! signal that the app blocks would find the app's handler.
//!
//! *Areas* belong to threads by their ids. That of a thread which has ended goes to another.
//!
//! *Processes* that a native thread forks are seen to when the first signal comes to them (`copied`).
//!
//! # Why it is correct
//! * Nothing of the app is executed between the signal and the first instruction of the window, nor between its
//!   last and the return to native code; both ends are the kernel's loads of a whole frame.
//! * Nothing but instructions of the app's own code is executed in a window: no system call, so no
//!   thread or process begins or ends in one, nothing waits, and no disposition or mask changes.
//! * A fragment with fewer instructions than are left cannot use up more than are left, and one that
//!   comes to an exit has executed what that exit says.
//! * A fragment whose code has changed is found by its own comparison before its first instruction;
//!   of writable code, it ends after the first instruction that writes memory.
//!
//! # Invariants
//! * While a thread is native nothing of the runtime is in its way: GS, mask, alternate stack are
//!   its own, and so are all dispositions but that of `WINDOW_SIGNAL` unless another thread is in a window.
//! * `Runtime::threads` has the threads that are in a window.
//! * The area of a thread is used by nobody else while the thread is there: it returns from a handler on
//!   a stack in it.
//!
//! **I23 (native between windows).** A thread that is native between windows has nothing of ours but the handler of one signal. Each fragment compares its code when it is entered.
#![allow(unsafe_code)] // reason: changes signal frames, sets GS.

mod stack;
pub mod state;
pub mod timer;

use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::queries::MESSAGE_WORDS;
use trommel_queue::{
    CAPTURE_MARK, CAPTURE_WORDS, CHUNK, END_MARK, END_WORDS, FIRST_RECORD, FULL_WINDOW,
    LAST_WINDOWS, MAX_RECORD, MAX_SKIP, MAX_WINDOW, State,
};
use trommel_tuple::{Kind, KindSet};

use crate::base::address::{AppPc, Range};
use crate::base::area::Context;
use crate::base::decode::{Insn, Reader};
use crate::base::ids::{ExitId, FragmentId};
use crate::base::limits;
use crate::base::prefix::Prefix;
use crate::base::sys;
use crate::cache::Fragment;
use crate::channel::deliver::HostGone;
use crate::crossing::arch;
use crate::engine::marks::mark_window;
use crate::engine::native;
use crate::engine::signals::Pending;
use crate::engine::state::{Process, Runtime, Thread, Windows};
use crate::engine::window::state::{End, Phase, Window, Windowed};
use crate::translate::{MOST_WORDS, Refusal, Shape};

pub use timer::Timer;

/// Instructions of the longest fragment.
pub const LONGEST: usize = 16;
/// The logarithm of the longest part's instructions.
const PARTS: u8 = 3;
/// Offset of [`Context::budget`] from the number that is left: bits 8 to 15 are zero if and only if that
/// number is less than [`LONGEST`].
const BEYOND: u64 = 256 - LONGEST as u64;
const _: () = assert!(MAX_WINDOW as u64 + BEYOND < 1 << 16 && 1 << PARTS < LONGEST);

/// Bytes that an instruction records at most: its words and its path, and a message of a query.
const RECORDED: u64 = 4 + 8 * MOST_WORDS as u64 + 4 + 8 * MESSAGE_WORDS as u64;
/// Room for what is passed and the marks after it, so that no mark fills a chunk but the last of a window.
const ROOM: u64 = MAX_SKIP as u64 * RECORDED + (1 + stack::MARKS as u64) * MAX_RECORD as u64;
const _: () = assert!(4 + 8 * END_WORDS <= FULL_WINDOW && ROOM < (CHUNK - FIRST_RECORD) as u64);

fn left(context: &Context) -> u64 {
    context.budget.saturating_sub(BEYOND)
}

/// Sets how many instructions of the window are left.
pub fn set_left(context: &mut Context, left: u64) {
    context.budget = left + BEYOND;
}

impl Windows {
    /// Creates windows of `length` instructions; 0: none.
    pub fn of(length: u32) -> Self {
        Self {
            on: length != 0,
            random: sys::ticks(),
            ..Self::default()
        }
    }

    /// A number below `bound`, or 0 for 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ z >> 31;
        ((u128::from(z) * u128::from(bound)) >> 64) as u32
    }

    /// All areas; none is known any more.
    pub fn take_areas(&mut self) -> impl Iterator<Item = *const Thread> + use<> {
        core::mem::take(&mut self.areas)
            .into_iter()
            .map(|(_, area)| area)
    }

    /// Takes note of a thread's area.
    pub fn add(&mut self, thread: &Thread) {
        self.areas.push((thread.writer.tid, &raw const *thread));
    }
}

/// Instructions of a window, and below how many are passed before it.
pub fn lengths(process: &Process) -> (u32, u32) {
    let control = process.queue.control();
    let length = control.window.length.load(Relaxed).clamp(1, MAX_WINDOW);
    (length, control.window.skip.load(Relaxed).min(MAX_SKIP))
}

/// Returns whether loads are timed.
fn times_loads(process: &Process) -> bool {
    let kinds = process.queue.control().setup.kinds.load(Relaxed);
    KindSet::from_bits(kinds as u16).has(Kind::Latency)
}

/// Nanoseconds of user time of the calling thread that its window stands for: since its last one. It is not known how long a thread was there before
/// its first window without windows being wanted.
pub fn weight(windowed: &Windowed) -> u64 {
    const FIRST: u64 = 10_000_000;
    let now = sys::thread_user();
    match windowed.user {
        0 => now.min(FIRST),
        last => now.saturating_sub(last),
    }
}

/// Returns whether the calling thread can have windows: not where loads are to be timed, and it may not read the time stamp counter.
pub fn can_begin(process: &Process) -> bool {
    !times_loads(process) || sys::find_clock()
}

/// The first window of a process, at its first instruction. It has no marks: nothing random has chosen it.
pub fn first(runtime: &mut Runtime, thread: &mut Thread, context: &mut Context, pc: AppPc) {
    let length = match can_begin(thread.process) {
        true => lengths(thread.process).0,
        false => 0,
    };
    thread.windowed.now = Some(Window::new(pc, length, sys::thread_cpu(), 0));
    set_left(context, length.into());
    thread.signals.block();
    begin(runtime, thread);
}

/// Lets signals begin windows in this process from now on. `thread`'s area is the calling thread's.
pub fn begin(runtime: &mut Runtime, thread: &Thread) {
    let pid = sys::getpid() as u32;
    thread.process.pid.store(pid, Relaxed);
    runtime.windows.add(thread);
    runtime.actions.take_window_signal();
    limits::hand_over();
    let control = runtime.shared.control();
    control
        .process
        .state
        .store(State::Controlled as u32, Release);
    control.process.windows_ready.store(1, Release);
}

/// A thread is about to execute the first instructions of a window, and holds no lock: it needs room for
/// what it passes.
pub fn make_room(thread: &mut Thread) -> Result<(), HostGone> {
    let process = thread.process;
    match thread.writer.at() {
        0 => process.queue.take_now(&mut thread.writer).map(drop),
        at if CHUNK as u64 - at % (CHUNK as u64) < ROOM => thread.publish_now(),
        _ => Ok(()),
    }
}

impl Runtime {
    /// Returns whether control is by windows.
    pub fn has_windows(&self) -> bool {
        self.windows.on
    }

    /// The area of the calling thread.
    #[allow(
        clippy::mut_from_ref,
        reason = "what is returned is the calling thread's own"
    )]
    pub fn thread_of(
        &mut self,
        process: &'static Process,
        tid: u32,
    ) -> Option<&'static mut Thread> {
        let mut known = self.windows.areas.iter();
        if let Some(&(_, area)) = known.find(|(id, _)| *id == tid) {
            // SAFETY: areas stay; this one is the calling thread's, which does not use it otherwise.
            return Some(unsafe { &mut *area.cast_mut() });
        }
        let thread = match self.vacant() {
            Some(n) => {
                let known = &mut self.windows.areas[n];
                known.0 = tid;
                // SAFETY: that of a thread which does not exist any more.
                let thread = unsafe { &mut *known.1.cast_mut() };
                thread.windowed.timer.delete();
                process.queue.hand_in(&mut thread.writer);
                thread
            }
            None => {
                let thread = Thread::make(process, self)?;
                self.windows.areas.push((tid, &raw const *thread));
                thread
            }
        };
        self.numbers += 1;
        thread.writer.number = self.numbers;
        thread.writer.tid = tid;
        thread.thread_page().tid.store(tid, Relaxed);
        process
            .queue
            .control()
            .process
            .threads
            .store(self.numbers, Relaxed);
        Some(thread)
    }

    /// The area of a thread that has ended. They are looked for when there are twice as many areas as
    /// there were threads the last time.
    fn vacant(&mut self) -> Option<usize> {
        const FEW: usize = 16;
        if self.windows.areas.len() < self.windows.enough.max(FEW) {
            return None;
        }
        let pid = sys::getpid() as u64;
        let is_there = |tid: u32| {
            // SAFETY: sends nothing.
            unsafe { sys::call(nr::__NR_tgkill, [pid, tid.into(), 0, 0, 0, 0]) == 0 }
        };
        let mut found = None;
        let mut there = 0;
        for (n, (tid, _)) in self.windows.areas.iter().enumerate() {
            match is_there(*tid) {
                true => there += 1,
                false => found = Some(n),
            }
        }
        if found.is_none() {
            self.windows.enough = 2 * there;
        }
        found
    }

    /// No window begins by a timer any more. Only when no thread is in one.
    pub fn delete_timers(&mut self) {
        for &(_, area) in &self.windows.areas {
            // SAFETY: areas stay, and nobody uses them between windows.
            unsafe { (*area.cast_mut()).windowed.timer.delete() };
        }
    }

    /// A thread's first steps in a window.
    pub fn begin_window(&mut self, thread: &mut Thread, context: &mut Context) {
        self.regions.doubt();
        self.ask_in_window(thread);
        let pc = context.next_pc;
        self.go_in_window(thread, context, pc, None, false);
    }

    /// [`Runtime::go`], in a window.
    pub fn go_in_window(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        pc: AppPc,
        from: Option<ExitId>,
        checked: bool,
    ) {
        let mut left = left(context) as usize;
        thread.single = None;
        if left < LONGEST && thread.windowed.now.is_some_and(|window| window.is_rough()) {
            left = 0;
        }
        if left == 0 {
            if begins(thread, context) {
                return self.go_in_window(thread, context, pc, None, false);
            }
            return end(thread, context, End::Whole);
        }
        if thread.process.is_leaving() {
            return end(thread, context, End::Refused);
        }
        let made = match left < LONGEST {
            true => self.part(pc, left),
            false => self.fragment((pc, Prefix::NONE), checked),
        };
        match made {
            Ok((id, flushed)) => {
                context.target = self.cache.fragments[id.index()].entry;
                if left < LONGEST {
                    return;
                }
                let from = from.filter(|_| !flushed);
                self.lead_to(id, thread, pc, from, checked);
            }
            Err(Refusal::Call) => end(thread, context, End::Call),
            Err(Refusal::Moved(range)) => {
                thread.windowed.moved = Some(range);
                end(thread, context, End::Refused);
            }
            Err(_) => end(thread, context, End::Refused),
        }
    }

    /// A fragment of at most `left` instructions.
    fn part(&mut self, pc: AppPc, left: usize) -> Result<(FragmentId, bool), Refusal> {
        let size = (left.ilog2() as u8).min(PARTS);
        if let Some(id) = self.cache.part(pc, size) {
            return Ok((id, false));
        }
        let (id, flushed) = self.make((pc, Prefix::NONE), Shape::Part(size))?;
        self.cache.keep_part(pc, size, id);
        Ok((id, flushed))
    }

    /// A thread's window has ended: the thread goes on natively at `to`. All signals are blocked.
    pub fn close_window(
        &mut self,
        thread: &mut Thread,
        window: &Window,
        context: &Context,
        to: u64,
    ) {
        self.remove(thread);
        if self.threads.is_empty() {
            self.actions.give_back_synchronous();
        }
        let process = thread.process;
        let came = Pending::forget_window_signals(|info| timer::is_of(process.timer_value(), info));
        let below = |bound| self.windows.below(bound);
        let (tid, now) = (thread.writer.tid, sys::thread_cpu());
        // Without a signal of the timer's too: a program begins in a window, and what was forgotten may be its first signal, which
        // is to start the timer.
        thread
            .windowed
            .timer
            .go_on(&process.queue, process.timer_value(), tid, came, now, below);
        let executed = window.executed(left(context));
        let control = self.shared.control();
        if window.phase == Phase::Begun && executed != 0 {
            self.record_counts(thread, context);
        }
        if window.phase != Phase::Unmarked {
            let weight = thread.windowed.weight;
            mark_window(thread, END_MARK, &[executed, window.length.into(), weight]);
        }
        thread.windowed.user = sys::thread_user();
        let windows = &control.windows;
        let n = windows.ended.fetch_add(1, Relaxed);
        windows.instructions.fetch_add(executed, Relaxed);
        let nanos = sys::thread_cpu().saturating_sub(window.began);
        windows.nanos.fetch_add(nanos, Relaxed);
        let count = match window.end {
            End::Whole => &windows.whole,
            End::Call => &windows.calls,
            End::Signal => &windows.signals,
            End::Refused => &windows.refused,
        };
        count.fetch_add(1, Relaxed);
        let last = &windows.last[n as usize % LAST_WINDOWS];
        last.from.store(window.from.0, Relaxed);
        last.to.store(to, Relaxed);
        last.instructions.store(executed, Relaxed);
    }

    /// A signal has found the thread at `at`, before the instruction at `app`: the window
    /// ends there.
    pub fn cut_window(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        app: AppPc,
        fragment: Option<Fragment>,
    ) {
        if let Some(fragment) = fragment {
            let executed = self.instructions_before(&fragment, app);
            let left = left(context);
            set_left(context, left.saturating_sub(executed));
        }
        if let Some(window) = &mut thread.windowed.now {
            window.end = End::Signal;
        }
    }

    /// Instructions of a fragment before the one at `app`.
    fn instructions_before(&self, fragment: &Fragment, app: AppPc) -> u64 {
        let Some(code) = self.cache.source_of(fragment) else {
            return 0;
        };
        let mut reader = Reader::new(code, fragment.app);
        let mut insn = Insn::plain();
        let mut count = 0;
        let mut pc = fragment.app;
        while pc < app && pc.0 < fragment.span.end {
            reader.read(&mut insn);
            pc = insn.next();
            count += 1;
        }
        count
    }
}

/// Begins the window after the instructions before it have passed, unless it has begun.
fn begins(thread: &mut Thread, context: &mut Context) -> bool {
    let Some(window) = &mut thread.windowed.now else {
        return false;
    };
    if window.phase != Phase::Passing {
        return false;
    }
    window.phase = Phase::Begun;
    set_left(context, window.length.into());
    let own = match times_loads(thread.process) {
        true => arch::own_cycles(),
        false => 0,
    };
    let words: [u64; CAPTURE_WORDS] = [own];
    mark_window(thread, CAPTURE_MARK, &words);
    stack::capture(thread, context);
    thread.begin_counts(context);
    true
}

fn end(thread: &mut Thread, context: &mut Context, why: End) {
    if let Some(window) = &mut thread.windowed.now {
        window.end = why;
    }
    native::leave(thread, context);
}

/// The thread's window has ended, and it holds no lock: what the host must know before the map is
/// read again.
pub fn settle(thread: &mut Thread) {
    let Some(range) = thread.windowed.moved.take() else {
        return;
    };
    let process = thread.process;
    if process.queue.settle().is_ok() {
        let range: Range = range;
        process
            .runtime
            .lock_anywhere()
            .regions
            .forget_reported(range);
    }
}
