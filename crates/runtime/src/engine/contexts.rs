//! A thread's calling contexts ([`crate::observe::contexts`]): begun, followed where generated code cannot, handed on to a forked child.
#![allow(unsafe_code)] // reason: memory of the thread's tree and frames, and data of crossings.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::CONTEXTS_OFFSET;
use trommel_queue::contexts::TREE_BYTES;

use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
use crate::base::sys;
use crate::cache::{Cache, Fragment, Step};
use crate::channel::deliver::HostGone;
use crate::engine::state::{Runtime, Thread};
use crate::observe::contexts::{Arrival, Change, Crossing, FRAMES_BYTES, Follow, Now, Sort};
use crate::observe::links::{LINKS_BYTES, Links};

impl Thread {
    fn now(&self, context: &Context) -> Now {
        Now {
            node: self.thread_page().node.load(Relaxed),
            last: context.frame,
        }
    }

    fn set_now(&self, context: &mut Context, now: Now) {
        self.thread_page().node.store(now.node, Relaxed);
        context.frame = now.last;
    }

    /// Begins to follow contexts, where they are counted and the thread counts. Without memory nothing is counted any more.
    pub fn take_contexts(&mut self, runtime: &mut Runtime) {
        let page = self.thread_page();
        page.node.store(0, Relaxed);
        page.instructions.store(0, Relaxed);
        let before = self.following.follow.take();
        let (Some(contexts), Some(counter_array)) =
            (&runtime.translator.ways.contexts, self.counter_array)
        else {
            return self.keep_links(before);
        };
        let number = counter_array.0 as usize;
        let tree =
            self.process.queue.mapped().base() + (CONTEXTS_OFFSET + number * TREE_BYTES) as u64;
        let context = self.context();
        let inherited = core::mem::take(&mut self.following.inherited);
        let (follow, now) = match before {
            Some(mut follow) if !inherited.is_empty() => {
                let now = follow.go_on(&inherited, tree, self.writer.page, context.frame);
                (follow, now)
            }
            before => {
                self.keep_links(before);
                let Some(links) = self.take_links() else {
                    return runtime.stop_counting();
                };
                let memory = (self.following.frames, links);
                context.links = memory.1.address();
                let sp = context.regs[4];
                // SAFETY: the tree of the thread's own counter array, which the host has zeroed, and memory that is the thread's.
                let (follow, now) =
                    unsafe { Follow::begin(tree, memory, self.writer.page, contexts.depth, sp) };
                (Box::new(follow), now)
            }
        };
        self.set_now(context, now);
        self.following.follow = Some(follow);
    }

    /// Keeps the table of links for the next thread of the area.
    fn keep_links(&mut self, before: Option<Box<Follow>>) {
        if let Some(before) = before {
            self.following.links = Some(before.into_links());
        }
    }

    /// An empty table of links, and memory of frames; `None` without memory.
    fn take_links(&mut self) -> Option<Links> {
        let following = &mut self.following;
        following.links.take().or_else(|| {
            following.frames = sys::anonymous(FRAMES_BYTES + LINKS_BYTES).ok()?;
            // SAFETY: fresh memory of the thread's area, after that of frames.
            Some(unsafe { Links::new(following.frames + FRAMES_BYTES as u64) })
        })
    }

    /// The thread executes no more code that counts.
    pub fn end_contexts(&mut self) {
        let page = self.thread_page();
        let (node, rest) = (
            page.node.swap(0, Relaxed),
            page.instructions.swap(0, Relaxed),
        );
        // What it remembers stays until the lock is held for the next thread of the area.
        if let Some(follow) = self.following.follow.as_ref().filter(|_| node != 0) {
            follow.add(node, rest);
        }
    }

    /// Says that the thread goes on, and is counted no more.
    pub fn stop_contexts(&self) {
        if let Some(follow) = &self.following.follow {
            follow.stop();
        }
    }

    /// A process is about to be made of this one, which may go on from here.
    pub fn before_fork(&mut self) {
        let now = self.now(self.context());
        if let Some(follow) = &mut self.following.follow {
            follow.before_fork(now);
        }
    }

    /// In the child of a `fork`, before its parent's tree goes away.
    pub fn inherit_contexts(&mut self) {
        if let Some(follow) = &self.following.follow {
            self.following.inherited = follow.inherit();
        }
    }

    /// Counts instructions that no exit has counted.
    pub fn count_instructions(&self, number: u64) {
        if self.following.follow.is_some() {
            let all = &self.thread_page().instructions;
            all.store(all.load(Relaxed) + number, Relaxed);
        }
    }

    /// Comes out of the midst of a fragment, before the instruction of a step.
    pub fn count_part(&self, cache: &Cache, fragment: &Fragment, step: &Step) {
        if self.following.follow.is_none() {
            return;
        }
        let steps = cache.fragment_at(fragment.entry).map(|(_, steps)| steps);
        let is = |s: &Step| (s.cache, s.app) == (step.cache, step.app);
        let passed = steps.and_then(|steps| steps.iter().position(is));
        self.count_instructions(passed.unwrap_or(0) as u64);
    }

    /// A signal handler begins, whose return address is at `sp`.
    pub fn enters_handler(&mut self, context: &mut Context, sp: u64, handler: AppPc) {
        let mut now = self.now(context);
        let rest = self.thread_page().instructions.swap(0, Relaxed);
        let Some(follow) = self.following.follow.as_mut().filter(|_| now.node != 0) else {
            return;
        };
        follow.add(now.node, rest);
        follow.handler(&mut now, sp, handler);
        self.set_now(context, now);
    }
}

/// A change of context that generated code does not know.
pub fn crossed(thread: &mut Thread, context: &mut Context) -> Result<(), HostGone> {
    let at = context.regs[1];
    // SAFETY: rcx leads to what the translator wrote after the crossing, which stays as long as a thread may execute it.
    let crossing = unsafe { (at as *const Crossing).read_unaligned() };
    context.target = CachePc(at.wrapping_add_signed(crossing.after.into()));
    // SAFETY: changes stay.
    let change: &'static Change = unsafe { &*(crossing.change as *const Change) };
    let sp = context.regs[4];
    // Read with the lock free. If there is nothing where a return address should be, the return faults.
    let (to, returned) = match change.sort {
        Sort::Return => (word_at(sp), None),
        Sort::TailIndirect => (Some(context.followed), word_at(sp.wrapping_sub(8))),
        Sort::Call | Sort::CallIndirect | Sort::Tail | Sort::Midst => (None, None),
    };
    let mut now = thread.now(context);
    // Nodes and frames are remembered in memory that the lock guards.
    let mut runtime = thread.process.runtime.lock();
    let runtime = &mut *runtime;
    let Some(follow) = &mut thread.following.follow else {
        return Ok(());
    };
    let arrival = to.map(AppPc).map(|to| {
        let contexts = runtime.translator.ways.contexts.as_mut();
        let function = contexts.and_then(|c| c.functions.of(&runtime.regions, to));
        Arrival { to, function, sp }
    });
    match (change.sort, arrival) {
        (Sort::Call, _) => follow.call(&mut now, change, change.to),
        (Sort::CallIndirect, _) => follow.call(&mut now, change, AppPc(context.followed)),
        (Sort::Tail | Sort::Midst, _) => {
            let to = (change.to, change.to);
            follow.tail(&mut now, change, to, change.sort.is_call());
        }
        (Sort::TailIndirect, Some(arrival)) => {
            follow.jumps(&mut now, change, arrival, returned.map(AppPc));
        }
        (Sort::Return, Some(arrival)) => follow.returns(&mut now, change, arrival),
        (Sort::TailIndirect | Sort::Return, None) => {}
    }
    thread.set_now(context, now);
    Ok(())
}

/// A word of the app's memory.
fn word_at(at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    sys::copy_checked(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}
