//! A thread, as the engine knows it, and the process that it is of.
#![allow(unsafe_code)] // reason: makes memory and threads.

use crate::base::syscalls;
use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use linux_raw_sys::general as nr;
use trommel_queue::thread_page::ThreadPage;
use trommel_queue::{Growing, MAX_THREADS};

use crate::base::address::Range;
use crate::base::area::{
    AREA_BYTES, CHILD_STACK_BYTES, CONTEXT_OFFSET, COUNTERS_OFFSET, Context, INDIRECT_BYTES,
    INDIRECT_TABLE, SECOND_BYTES, SECOND_OFFSET, SIGNAL_STACK_BYTES, STACK_BYTES, STACKS,
    STACKS_END, SYSCALL_TABLE, THREAD_PAGE, WHOLE_BYTES,
};
use crate::base::lock::Lock;
use crate::base::signals::AltStack;
use crate::base::{signals, sys};
use crate::cache::targets::Targets;
use crate::channel::deliver::{HostGone, Queue, Writer};
use crate::crossing::entries;
use crate::engine::parts::Following;
use crate::engine::parts::{Call, Presence, Sequences, Starting, Stepping, WayOut};
use crate::engine::served::table::{Queues, Serving};
use crate::engine::signals::Pending;
use crate::engine::state::{Node, Process, Runtime, Thread};
use crate::engine::window::state::Windowed;
use crate::observe::acyclic::Walk;
use crate::slot;

impl Process {
    /// Returns the value that the signals of its timers carry.
    pub fn timer_value(&self) -> u64 {
        &raw const *self as u64
    }

    /// Creates the state of a runtime that is about to start.
    pub const fn new(runtime: Runtime, queue: Queue, image: Range) -> Self {
        Self {
            runtime: Lock::new(runtime),
            queue,
            served: Queues::new(),
            image,
            pid: AtomicU32::new(0),
            leaving: AtomicU32::new(0),
            areas: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            namespaces: AtomicU32::new(0),
            free: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        }
    }

    /// Returns whether a GS base is that of a thread under control.
    pub fn has_area(&self, gs: u64) -> bool {
        self.areas[0].load(Relaxed) <= gs && gs < self.areas[1].load(Relaxed)
    }

    /// Bytes of an area, but for the first thread's.
    pub fn area_bytes(&self) -> usize {
        match self.queue.control().setup.counters.load(Relaxed) {
            0 => COUNTERS_OFFSET,
            _ => WHOLE_BYTES,
        }
    }

    /// Returns whether control is by windows.
    pub fn has_windows(&self) -> bool {
        self.queue.control().window.length.load(Relaxed) != 0
    }

    /// Returns whether the process is being detached.
    pub fn is_leaving(&self) -> bool {
        let detach = &self.queue.control().attached.detach;
        self.leaving.load(Relaxed) != 0 || detach.load(Relaxed) != 0
    }

    /// A free area. The runtime's lock is held, so nobody else takes one; others may put some.
    pub fn free_area(&self) -> Option<&'static mut Thread> {
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

impl Thread {
    /// Returns whether it does not share the dispositions of the process.
    pub fn has_own_actions(&self) -> bool {
        self.spawned
            .as_ref()
            .is_some_and(|own| own.group.actions.is_some())
    }

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

    /// Returns the address of its area.
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
        self.tell_hidden();
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
                flags: signals::SS_AUTODISARM,
                pad: 0,
                size: SIGNAL_STACK_BYTES,
            }),
            leaving: false,
            stepping: Stepping::No,
            presence: Presence::default(),
            call: Call::none(),
            sequences: Sequences::default(),
            starting: Starting::default(),
            path: Walk::default(),
            windowed: Windowed::default(),
            single: None,
            full: false,
            wants_place: false,
            unnamed: false,
            asking: None,
            serving: Serving::default(),
            counter_array: None,
            following: Following::default(),
            counting: None,
            spawned: None,
            nowhere: false,
            left: false,
            way_out: WayOut::None,
            recording: None,
            targets,
            area,
            node: Node { next: 0, thread: 0 },
        }));
        thread.node.thread = &raw const *thread as u64;
        thread.name_area();
        let context = thread.context();
        context.entry = entries::entries();
        context.stack = stack;
        context.child_stack = child_stack;
        context.this = area;
        context.thread = &raw const *thread as u64;
        thread.see(syscalls::with(syscalls::MADE));
        thread.see(syscalls::with(&[
            syscalls::Role::Opens,
            syscalls::Role::Receives,
        ]));
        thread
    }

    /// An area for a new thread.
    #[allow(clippy::mut_from_ref, reason = "what is returned is nobody's")]
    pub fn make(process: &'static Process, runtime: &mut Runtime) -> Option<&'static mut Self> {
        if let Some(thread) = process.free_area() {
            return Some(thread);
        }
        let page = runtime.pages;
        let pages = (page as u64 + 1) * sys::PAGE as u64;
        let mapped = process.queue.mapped();
        if page as usize >= MAX_THREADS || !mapped.reach(Growing::THREAD_PAGES, pages) {
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
            (mapped.thread_page(page), sys::PAGE, THREAD_PAGE),
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
        let thread = Self::of_area(process, area, page, SHARED_TABLES);
        runtime.areas.push(&raw const *thread);
        Some(thread)
    }

    /// Takes note of the calling thread's id, which is this one.
    pub fn is_current(&mut self) {
        self.writer.tid = sys::gettid() as u32;
        self.name_counter_array();
        self.tell_numbers();
    }

    /// Tells on its page what the kernel calls it.
    pub fn tell_numbers(&self) {
        let page = self.thread_page();
        page.pid.store(sys::getpid() as u32, Relaxed);
        page.tid.store(self.writer.tid, Relaxed);
    }

    /// Numbers the thread, gives it a counter array and its queries, and puts it on the list.
    pub fn enlist(&mut self, runtime: &mut Runtime) {
        self.came_out(runtime);
        self.see(runtime.watched());
        runtime.numbers += 1;
        self.writer.number = runtime.numbers;
        self.take_counter_array(runtime);
        self.take_contexts(runtime);
        self.take_queries(runtime);
        runtime.threads.push(&raw const *self);
    }

    /// Starts its queries, if anything is asked.
    pub fn take_queries(&mut self, runtime: &mut Runtime) {
        if let Some(asked) = runtime.translator.asked() {
            let (in_bursts, by_window) = (asked.in_bursts, asked.is_by_window());
            self.start_queries(in_bursts, by_window);
        }
    }

    /// Publishes what is recorded and takes another chunk.
    pub fn publish(&mut self) -> Result<(), HostGone> {
        self.process.runtime.assert_not_mine();
        self.process.queue.publish(&mut self.writer)?;
        self.widen_value_counters();
        Ok(())
    }

    /// Publishes like [`Self::publish`], without waiting for the host.
    pub fn publish_now(&mut self) -> Result<(), HostGone> {
        self.process.queue.publish_now(&mut self.writer)
    }

    /// Takes note that the thread is out of the cache, with the runtime's lock held.
    pub fn came_out(&self, runtime: &Runtime) {
        let epoch = runtime.cache.epoch();
        if self.presence.seen.swap(epoch, Relaxed) < epoch {
            runtime.keep_own_x87();
        }
        self.presence.held.store(0, Relaxed);
    }
}

impl Process {
    /// Puts the area of a thread that did not start among the free ones.
    pub fn keep(&self, thread: &mut Thread) {
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

/// Index in [`Runtime::targets`] that all threads but the first use.
pub const SHARED_TABLES: usize = 1;

const _: () = {
    assert!(nr::__NR_exit == 60 && nr::__NR_arch_prctl == 158);
    assert!(AREA_BYTES as u64 == STACKS);
};
