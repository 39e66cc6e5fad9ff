//! Threads: each with an area of its own, from before its first instruction to after its last.
//!
//! # Problem
//! Generated code finds everything through GS, and the kernel gives a new thread its parent's GS.
//! The app chooses the new thread's stack, and what the kernel does to its memory at start and end;
//! all of that must happen as it would natively. Programs start and end thousands of threads.
//!
//! # Strategy
//! *Start.* The parent makes the child's area ([`Thread::prepare`]): the child's context holds the
//! app's registers as they are after the call, in the child. Then it makes the app's system call
//! with the app's arguments. The child sets GS before anything else, with the area in a register
//! and no stack in use, takes a chunk, and goes to the dispatcher like a thread that comes out of
//! the cache. All signals are blocked around the call, as until then the child has no alternate
//! stack.
//!
//! *End.* The thread publishes its chunk and is no longer listed. Its area goes to a list of free
//! ones with the last instruction but the system call itself, which uses registers only; the kernel
//! clears the thread's id and wakes who waits for it, in the app's memory. All signals are blocked
//! then too.
//!
//! *Areas* are kept for the next thread: their tables are warm.
//!
//! # Invariants
//! * The list of threads, under the runtime's lock, has every thread under control from before it
//!   starts until it comes to its end or is detached.
//! * A thread's [`Thread`] is used by itself alone, but for what is atomic.
#![allow(unsafe_code)] // reason: makes memory and threads.

pub mod copied;
mod fork;
mod spawn;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use linux_raw_sys::general as nr;
use trommel_queue::thread_page::ThreadPage;
use trommel_queue::{Detached, MAX_THREADS, State};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::area::{
    AREA_BYTES, CHILD_STACK_BYTES, CONTEXT_OFFSET, COUNTERS_OFFSET, Context, INDIRECT_BYTES,
    INDIRECT_TABLE, SECOND_BYTES, SECOND_OFFSET, SIGNAL_STACK_BYTES, STACK_BYTES, STACKS,
    STACKS_END, SYSCALL_TABLE, THREAD_PAGE, WHOLE_BYTES,
};
use crate::base::lock::Lock;
use crate::base::prefix::Midway;
use crate::base::sys;
use crate::cache::targets::Targets;
use crate::channel::deliver::{HostGone, Queue, Writer};
use crate::channel::shields::Counting;
use crate::crossing::arch;
use crate::engine::dispatch::Runtime;
use crate::engine::start;
use crate::memory::kernel_writes;
use crate::observe::acyclic;
use crate::observe::query::Asking;
use crate::observe::served::{Queues, Serving};
use crate::process::attach::Interrupted;
use crate::process::native;
use crate::process::signal::{self, Actions, AltStack, Frames, Pending};
use crate::process::syscall;
use crate::process::window::{Timer, Window};
use crate::slot;
use crate::trace::Recording;

pub use spawn::Flags;

/// What the threads of the process share.
pub struct Process {
    /// What they use one at a time.
    pub runtime: Lock<Runtime>,
    /// The queue.
    pub queue: Queue,
    /// Queues that the app serves.
    pub served: Queues,
    /// The runtime's own code.
    pub image: Range,
    /// The process that has windows.
    pub pid: AtomicU32,
    /// Every thread goes native at its next boundary.
    pub leaving: AtomicU32,
    /// Where areas are: from, to.
    areas: [AtomicU64; 2],
    /// Areas of threads that have ended: address of the first node, see [`Thread::node`].
    free: AtomicU64,
}

impl Process {
    /// Of a runtime that is about to start.
    pub const fn new(runtime: Runtime, queue: Queue, image: Range) -> Self {
        Self {
            runtime: Lock::new(runtime),
            queue,
            served: Queues::new(),
            image,
            pid: AtomicU32::new(0),
            leaving: AtomicU32::new(0),
            areas: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            free: AtomicU64::new(0),
        }
    }

    /// Whether a GS base is that of a thread under control.
    pub fn has_area(&self, gs: u64) -> bool {
        self.areas[0].load(Relaxed) <= gs && gs < self.areas[1].load(Relaxed)
    }

    /// Bytes of an area, but for the first thread's.
    fn area_bytes(&self) -> usize {
        match self.queue.control().counters.load(Relaxed) {
            0 => COUNTERS_OFFSET,
            _ => WHOLE_BYTES,
        }
    }

    /// Whether control is by windows.
    pub fn has_windows(&self) -> bool {
        self.queue.control().window.load(Relaxed) != 0
    }

    /// Whether the process is being detached.
    pub fn is_leaving(&self) -> bool {
        let detach = &self.queue.control().attached.detach;
        self.leaving.load(Relaxed) != 0 || detach.load(Relaxed) != 0
    }

    /// A free area. The runtime's lock is held, so nobody else takes one; others may put some.
    fn free_area(&self) -> Option<&'static mut Thread> {
        loop {
            let head = self.free.load(Acquire);
            if head == 0 {
                return None;
            }
            // SAFETY: a node of a thread that has ended, which stays where it is.
            let node = unsafe { &*(head as *const Node) };
            if self
                .free
                .compare_exchange(head, node.next, Acquire, Relaxed)
                .is_ok()
            {
                // SAFETY: the node's thread, which nobody uses any more.
                return Some(unsafe { &mut *(node.thread as *mut Thread) });
            }
        }
    }
}

/// Links the areas of threads that have ended.
#[repr(C)]
pub struct Node {
    next: u64,
    thread: u64,
}

/// What the runtime knows about one thread.
pub struct Thread {
    /// What it shares with the others.
    pub process: &'static Process,
    /// Its end of the queue.
    pub writer: Writer,
    /// Its signals.
    pub signals: Pending,
    /// The epoch in which it came out of the cache last; the greatest number while it is out.
    pub seen: AtomicU64,
    /// Where it waits in a fragment that is kept for it alone, until it comes out; 0 if that is not known.
    pub held: AtomicU64,
    /// It runs natively from the next trap on.
    pub leaving: bool,
    /// One app instruction runs natively, with the trap flag set.
    pub stepping: bool,
    /// That instruction is the next to be executed.
    pub stepping_there: bool,
    /// The instruction here is executed by a fragment of its own: it changes code of its page.
    pub single: Option<AppPc>,
    /// Its chunk is full.
    pub full: bool,
    /// The host must be asked what it calls the code that comes next.
    pub unnamed: bool,
    /// How often it has waited for room in the cache.
    pub overflowed: u32,
    /// The system call that the runtime makes for it, or made last.
    pub calling: AppPc,
    /// What the system call answered that was made in the app's name and is not finished.
    pub made: Option<i64>,
    /// What it is asked.
    pub asking: Option<Box<Asking>>,
    /// Its part of queues that the app serves.
    pub serving: Serving,
    /// Its counter array of counters.
    pub counter_array: Option<u32>,
    /// Its part of a profiler.
    pub counting: Option<Box<Counting>>,
    /// It holds the runtime's lock while it starts a process.
    pub forking: bool,
    /// The kernel's signal mask before that.
    pub fork_mask: u64,
    /// The slot that it has claimed for the process.
    fork_slot: Option<usize>,
    /// The process that is started loses its handlers.
    pub clear_handlers: bool,
    /// It is a process of its own, see [`spawn`].
    pub spawned: bool,
    /// Its dispositions, when it does not share those of the process.
    pub own_actions: Option<Box<Actions>>,
    /// Whoever started it waits until it is done.
    waited_for: bool,
    /// It is native when it returns from the signal handler that it is in.
    pub left: bool,
    /// The system call that it was stopped in when it was attached.
    pub interrupted: Option<Interrupted>,
    /// The path that it executes, while that is recorded.
    pub recording: Option<Recording>,
    /// What follows it on an acyclic path, while it is out of the cache; where a path begins, nothing.
    pub on_path: Option<Midway>,
    /// It is in a fragment that does not know what follows: that is still so of where the fragment begins.
    pub collecting: bool,
    /// The paths that handlers of signals have interrupted.
    pub interrupted_paths: Vec<acyclic::Interrupted>,
    /// Which tables of indirect targets it uses.
    pub targets: usize,
    /// The window that it is in.
    pub window: Option<Window>,
    /// What begins the next.
    pub timer: Timer,
    /// What is in the frames that the kernel makes for it, beside its state.
    pub frames: Frames,
    /// The GS base that it gets back when it leaves.
    pub app_gs: u64,
    /// The host must be done with what was here before windows go on.
    pub moved: Option<Range>,
    area: u64,
    node: Node,
}

impl Thread {
    /// The thread of a context.
    ///
    /// # Safety
    /// The context must be a started thread's; only one reference may be in use at a time.
    pub unsafe fn of<'a>(context: &Context) -> &'a mut Self {
        // SAFETY: set once, never freed; the caller answers for exclusiveness.
        unsafe { &mut *(context.thread as *mut Self) }
    }

    /// Sends these calls to the dispatcher.
    pub fn see(&self, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            let at = self.area + u64::from(SYSCALL_TABLE.0) + u64::from(number);
            // SAFETY: the table lies inside the area; generated code reads a byte at a time.
            unsafe { (at as *mut u8).write_volatile(1) };
        }
    }

    /// Where its area is.
    pub const fn area(&self) -> u64 {
        self.area
    }

    /// The stacks that it runs the runtime on.
    pub fn stacks(&self) -> Range {
        Range {
            start: self.area + STACKS,
            end: self.area + STACKS_END,
        }
    }

    /// Its page.
    pub fn thread_page(&self) -> &'static ThreadPage {
        // SAFETY: the page stays mapped; all atomics.
        unsafe { &*((self.area + THREAD_PAGE as u64) as *const ThreadPage) }
    }

    /// Tells on its page where its area is.
    pub fn name_area(&self) {
        let thread_page = self.thread_page();
        thread_page.area.store(self.area, Relaxed);
        let stack = &raw const self.signals.stack as u64;
        thread_page.stack.store(stack, Relaxed);
    }

    /// Its context.
    pub fn context(&self) -> &'static mut Context {
        // SAFETY: the area stays mapped, and this thread, or its parent before it starts, is the
        // only one to use it.
        unsafe { &mut *((self.area + CONTEXT_OFFSET as u64) as *mut Context) }
    }

    /// Fills in the area at `area`, all zero but for the tables, and describes its thread.
    #[allow(clippy::mut_from_ref, reason = "what is returned is new")]
    pub fn of_area(
        process: &'static Process,
        area: u64,
        page: u32,
        targets: usize,
    ) -> &'static mut Self {
        process.areas[0].fetch_min(area, Relaxed);
        process.areas[1].fetch_max(area + 1, Relaxed);
        let stack = area + STACKS + STACK_BYTES;
        let child_stack = stack + CHILD_STACK_BYTES;
        let thread = Box::leak(Box::new(Self {
            process,
            writer: Writer::new(
                (area + THREAD_PAGE as u64) as *mut u64,
                page,
                (area + u64::from(slot!(pending).0)) as *const u32,
            ),
            // Disarmed while a handler runs, so that it may be exchanged for the app's there.
            signals: Pending::new(AltStack {
                sp: child_stack,
                flags: signal::SS_AUTODISARM,
                pad: 0,
                size: SIGNAL_STACK_BYTES,
            }),
            seen: AtomicU64::new(0),
            held: AtomicU64::new(0),
            leaving: false,
            stepping: false,
            stepping_there: false,
            single: None,
            full: false,
            unnamed: false,
            overflowed: 0,
            calling: AppPc(0),
            made: None,
            asking: None,
            serving: Serving::default(),
            counter_array: None,
            counting: None,
            forking: false,
            fork_mask: 0,
            fork_slot: None,
            clear_handlers: false,
            spawned: false,
            own_actions: None,
            waited_for: false,
            left: false,
            interrupted: None,
            recording: None,
            on_path: None,
            collecting: false,
            interrupted_paths: Vec::new(),
            targets,
            window: None,
            timer: Timer::default(),
            frames: Frames::default(),
            app_gs: 0,
            moved: None,
            area,
            node: Node { next: 0, thread: 0 },
        }));
        thread.node.thread = &raw const *thread as u64;
        thread.name_area();
        let context = thread.context();
        context.entry = start::entries();
        context.stack = stack;
        context.child_stack = child_stack;
        context.this = area;
        context.thread = &raw const *thread as u64;
        thread.see(syscall::SEEN.into_iter());
        thread.see(kernel_writes::OPENING.into_iter());
        thread
    }

    /// An area for a new thread.
    #[allow(clippy::mut_from_ref, reason = "what is returned is nobody's")]
    pub fn make(process: &'static Process, runtime: &mut Runtime) -> Option<&'static mut Self> {
        if let Some(thread) = process.free_area() {
            return Some(thread);
        }
        let page = runtime.pages;
        if page as usize >= MAX_THREADS {
            return None;
        }
        let tables = match runtime.shared_tables {
            0 => {
                let at = sys::shareable(INDIRECT_BYTES + SECOND_BYTES).ok()?;
                // SAFETY: fresh zero memory, which stays.
                let targets = unsafe { Targets::new(at, at + INDIRECT_BYTES as u64) };
                runtime.targets.push(targets);
                runtime.shared_tables = at;
                at
            }
            at => at,
        };
        let bytes = process.area_bytes();
        let area = sys::anonymous(bytes).ok()?;
        let parts = [
            (
                process.queue.mapped().thread_page(page),
                sys::PAGE,
                THREAD_PAGE,
            ),
            (tables, INDIRECT_BYTES, INDIRECT_TABLE.0 as usize),
            (tables + INDIRECT_BYTES as u64, SECOND_BYTES, SECOND_OFFSET),
        ];
        for (from, len, at) in parts {
            // SAFETY: in the area just made.
            if unsafe { sys::map_again(from, len, area + at as u64) }.is_err() {
                // SAFETY: just made, and nobody's.
                unsafe { sys::munmap(area, bytes) };
                return None;
            }
        }
        runtime.pages += 1;
        Some(Self::of_area(process, area, page, SHARED_TABLES))
    }

    /// A new thread's area, with the app's state after the call that starts it.
    fn prepare(
        &self,
        runtime: &mut Runtime,
        context: &Context,
        next: AppPc,
        stack: u64,
    ) -> Option<&'static mut Self> {
        let child = Self::make(self.process, runtime)?;
        let new = child.context();
        new.regs = context.regs;
        new.flags = context.flags;
        new.xmm = context.xmm;
        new.next_pc = next;
        new.regs[0] = 0;
        syscall::finish(new, next);
        if stack != 0 {
            new.regs[4] = stack;
        }
        new.pending = 0;
        new.at_boundary = 1;
        let own = child.signals.own_stack;
        child.signals = Pending::new(own);
        child.signals.stack.flags = signal::SS_DISABLE;
        child.leaving = false;
        child.stepping = false;
        child.single = None;
        child.full = false;
        child.forking = false;
        child.fork_slot = None;
        child.spawned = false;
        child.own_actions = None;
        child.clear_handlers = false;
        child.made = None;
        child.writer.overdrawn = false;
        child.writer.awaits = None;
        child.interrupted = None;
        child.recording = None;
        child.begin_path();
        child.enlist(runtime);
        Some(child)
    }

    /// Takes note of the calling thread's id, which is this one.
    pub fn is_current(&mut self) {
        self.writer.tid = sys::gettid() as u32;
        self.name_counter_array();
        self.thread_page().tid.store(self.writer.tid, Relaxed);
    }

    /// Numbers the thread, gives it a counter array and its queries, and puts it on the list.
    pub fn enlist(&mut self, runtime: &mut Runtime) {
        self.came_out(runtime);
        self.see(runtime.watched());
        runtime.numbers += 1;
        self.writer.number = runtime.numbers;
        self.take_counter_array(runtime);
        self.take_queries(runtime);
        runtime.threads.push(&raw const *self);
    }

    /// Starts its queries, if anything is asked.
    pub fn take_queries(&mut self, runtime: &mut Runtime) {
        let slot = self.process.queue.control().slot.load(Relaxed);
        if let Some(asked) = runtime.translator.asked() {
            self.start_queries(asked, slot);
        }
    }

    /// Starts a thread with the app's system call, which is behind `next`. Returns the kernel's
    /// answer.
    pub fn start(
        &mut self,
        context: &mut Context,
        number: u32,
        args: &[u64; 6],
        next: AppPc,
        stack: u64,
    ) -> Result<i64, Detached> {
        let process = self.process;
        process.free_counter_arrays();
        let child = {
            let mut runtime = process.runtime.lock();
            runtime.be_joined();
            self.prepare(&mut runtime, context, next, stack)
                .ok_or(Detached::ManyThreads)?
        };
        let mask = signal::block_all();
        child.signals.first_mask = self.signals.mask_override().unwrap_or(mask);
        let control = process.queue.control();
        control.threads.fetch_add(1, Relaxed);
        // SAFETY: the area is complete and the child's; signals are blocked.
        let result = unsafe { arch::clone_thread(args, u64::from(number), child.area) };
        self.made = Some(result);
        if result < 0 {
            control.threads.fetch_sub(1, Relaxed);
            child.end_counter_array();
            process.runtime.lock().remove(child);
            process.keep(child);
        }
        signal::set_mask(mask);
        Ok(result)
    }

    /// Publishes what is recorded and takes another chunk.
    pub fn publish(&mut self) -> Result<(), HostGone> {
        self.process.runtime.assert_not_mine();
        self.process.queue.publish(&mut self.writer)
    }

    /// As [`Self::publish`], without waiting for the host.
    pub fn publish_now(&mut self) -> Result<(), HostGone> {
        self.process.queue.publish_now(&mut self.writer)
    }

    /// The app ends this thread, with the call `number`. Comes back only when a signal was faster.
    pub fn exit(&mut self, context: &mut Context, number: u32, status: u64) {
        let mask = signal::block_all();
        // SAFETY: a word of the context, which a handler of this thread may just have written.
        if unsafe { (&raw const context.pending).read_volatile() } != 0 {
            signal::set_mask(mask);
            return;
        }
        if self.spawned {
            return self.exit_spawned(number, status);
        }
        let process = self.process;
        self.serve_no_more();
        process.queue.hand_in(&mut self.writer);
        self.end_counter_array();
        let last = {
            let mut runtime = process.runtime.lock();
            runtime.remove(self);
            let last = runtime.threads.is_empty();
            if last && process.is_leaving() {
                runtime.actions.give_back();
            }
            last
        };
        if last {
            let state = &process.queue.control().state;
            let _ = state.compare_exchange(
                State::Controlled as u32,
                State::Exited as u32,
                Release,
                Relaxed,
            );
        }
        let node = &raw mut self.node;
        // SAFETY: signals are blocked; nothing of the thread is used from here on.
        unsafe { arch::exit_thread(status, process.free.as_ptr(), node.cast()) }
    }

    /// Takes note that the thread is out of the cache, with the runtime's lock held.
    pub fn came_out(&self, runtime: &Runtime) {
        self.seen.store(runtime.cache.epoch(), Relaxed);
        self.held.store(0, Relaxed);
    }
}

impl Process {
    /// Puts the area of a thread that did not start among the free ones.
    fn keep(&self, thread: &mut Thread) {
        let node = &raw mut thread.node;
        let mut head = self.free.load(Relaxed);
        loop {
            thread.node.next = head;
            match self
                .free
                .compare_exchange(head, node as u64, Release, Relaxed)
            {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }
}

/// Which of [`Runtime::targets`] all threads but the first use.
const SHARED_TABLES: usize = 1;

/// A new thread's first steps, on its own stack with its own GS.
///
/// # Safety
/// Only `arch::clone_thread` may call this.
pub unsafe extern "C" fn begin(context: &mut Context) {
    // SAFETY: the area is this thread's.
    let thread = unsafe { Thread::of(context) };
    thread.is_current();
    signal::use_stack(&thread.signals.own_stack);
    let process = thread.process;
    if core::mem::take(&mut thread.clear_handlers) {
        process.runtime.lock().actions_of(thread).cleared();
    }
    // First: who leaves here needs the trap, and must know the app's own mask.
    signal::set_mask(thread.signals.first_mask);
    if process.queue.take(&mut thread.writer).is_err() {
        native::host_gone(thread, context);
    }
    let pc = context.next_pc;
    process.runtime.lock().go(thread, context, pc, None, false);
    thread.run_errand(context);
}

const _: () = {
    assert!(nr::__NR_exit == 60 && nr::__NR_arch_prctl == 158);
    assert!(AREA_BYTES as u64 == STACKS);
};
