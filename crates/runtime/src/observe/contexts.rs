//! Calling contexts, exactly: how often each function was called by which path, and what it executed there.
//!
//! # Problem
//! Each thread is at any time in a *context*: the calls that led from its start to the function that it executes. Instructions are to be counted by
//! context, and calls. But programs do more than call and return. They jump to other functions, unwind frames (`longjmp`, exceptions), go on
//! on other stacks (coroutines, alternate signal stacks), push an address and return to it.
//!
//! # Strategy
//! A thread has a *tree* of nodes in shared memory ([`trommel_queue::contexts`]), a *current* node, and a stack of *frames*. A call pushes a frame: the
//! stack pointer at which the return address lies, and the caller's node. It goes on in the callee's node below the caller's. A return whose
//! stack pointer is that of the last frame pops it. Generated code does both (`translate/ways/contexts.rs`). It remembers in each node where calls
//! led to lately. All else comes here:
//!
//! * *A call that is not remembered* finds its node, or makes it. A function that is on the path as often as `depth` says gets no further node: the call goes
//!   on in its last one (Ammons, Ball and Larus, PLDI 1997). So the tree is finite whatever recurses.
//! * *A jump out of a function* ([`crate::memory::functions`]) is a tail call where the stack pointer is that of the last frame: a node below the one that
//!   jumps, with no frame. After [`LEVELS`] jumps in a row the next replaces the last, as its frame is gone. It counts as a call where it leads to the
//!   start of a function. Compilers put rare parts of functions elsewhere, and what jumps back from there calls nothing.
//! * *A return or jump elsewhere* is judged by the stack pointer. It may lead back to a frame further out: those after it are given up. It may lead to a frame of
//!   another stack, that was left before: `Follow` keeps the frames of each. Else it begins on a new stack, in a new root.
//! * *A signal handler* begins in a root of its own. Its frame leads back to what it interrupted.
//!
//! Instructions are added up in the thread's page, and go to the current node before that changes.
//!
//! # Why it is correct
//! * One thread writes a tree, by its code or here: I16 (one writer) holds as for counter arrays.
//! * A frame of a stack pointer is the last call that stored a return address there. So a return from there ends that call, whatever the address is
//!   by now (`_Unwind_RaiseException` changes it).
//! * Frames of one stack have decreasing stack pointers. So those that a `longjmp` gives up are a tail of them.
//! * Memory that is full costs detail and no count. Where a path has no room, the function goes on in a *loose* node: a root of its own for all such
//!   calls. What it calls is loose too. So a function's instructions stay its own, and generated code remembers these calls as others.
#![allow(unsafe_code)] // reason: nodes are in shared memory.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::contexts::{
    DESCRIBED_OFFSET, Described, LINKS, LOOSE, LOOSE_NODES, NO_PARENT, NODES, Node, TAIL,
    TREE_HEADER, Tree,
};

use super::links::{self, Links};
use crate::base::address::{AppPc, Range};
use crate::memory::functions::Functions;

/// Jumps from function to function of which each has a node below the last.
const LEVELS: usize = 3;
/// Bytes of the stack of frames: as many frames as calls without any other data in a stack of 128 MiB.
pub const FRAMES_BYTES: usize = 256 << 20;
/// Other stacks that are remembered.
const STACKS: usize = 1 << 12;
/// A function that begins this far below the last frame is on another stack.
const NEAR: u64 = 4096;
/// Code in the midst of a function is on another stack if it is this far below the last frame.
const FAR: u64 = 64 << 20;

/// Ways in which control leaves for another context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sort {
    /// A direct call.
    Call,
    /// A call of an address known only when it runs.
    CallIndirect,
    /// A return.
    Return,
    /// A direct jump to the start of a function, or the way past the end of one.
    Tail,
    /// A direct jump into the midst of a function.
    Midst,
    /// A jump to an address known only when it runs.
    TailIndirect,
}

impl Sort {
    /// Returns whether it is a call or jump to an address known only when it runs.
    pub fn has_many_targets(self) -> bool {
        matches!(self, Self::CallIndirect | Self::TailIndirect)
    }

    /// Returns whether generated code that knows where it led to counts a call.
    pub fn is_call(self) -> bool {
        self != Self::Midst
    }
}

/// A place in code where the context changes. It stays: code that leads to it may be executed at any time.
#[derive(Debug)]
pub struct Change {
    /// The number by which nodes remember it.
    pub number: u32,
    /// The way.
    pub sort: Sort,
    /// The instruction.
    pub at: AppPc,
    /// The address that it leads to, if that is known: of a jump, the function's entry.
    pub to: AppPc,
    /// Entry of the function that it is in, or the instruction.
    pub function: AppPc,
}

impl Change {
    /// Returns whether it leads from code without known functions to other such code.
    fn is_among_unknown(&self, arrival: &Arrival) -> bool {
        self.function == self.at && arrival.function.is_none()
    }

    /// The place in a node that remembers where it led to.
    pub fn link(&self) -> usize {
        self.number as usize % LINKS
    }
}

/// Words after the crossing of a change.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Crossing {
    /// Address of the [`Change`].
    pub change: u64,
    /// Distance from here to where control goes on.
    pub after: i32,
}

/// The contexts of a process.
#[derive(Default)]
pub struct Contexts {
    /// Number of times that a function may be on a path.
    pub depth: u32,
    /// The extents of functions.
    pub functions: Functions,
    changes: BTreeMap<(AppPc, Sort, AppPc), &'static Change>,
}

impl Contexts {
    /// Contexts with a function on a path as often as `depth` at most; `None` if that is 0.
    pub fn new(depth: u32) -> Option<Self> {
        (depth != 0).then(|| Self {
            depth,
            ..Self::default()
        })
    }

    /// The change of an instruction.
    pub fn change(&mut self, sort: Sort, at: AppPc, to: AppPc, function: AppPc) -> &'static Change {
        let number = self.changes.len() as u32 + 1;
        self.changes.entry((at, sort, to)).or_insert_with(|| {
            Box::leak(Box::new(Change {
                number,
                sort,
                at,
                to,
                function,
            }))
        })
    }
}

/// A call that has not returned.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The address of the return address.
    pub sp: u64,
    /// Address of the caller's node.
    pub node: u64,
}

/// Bytes of a frame.
pub const FRAME: u64 = size_of::<Frame>() as u64;

/// Frames of a stack that was left.
struct Stack {
    base: u64,
    frames: Vec<Frame>,
}

/// The destination of a return or jump.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The address.
    pub to: AppPc,
    /// The function that it is in, if that is known.
    pub function: Option<Range>,
    /// The stack pointer: of a return, before it.
    pub sp: u64,
}

impl Arrival {
    /// Entry of its function, or the address.
    fn entry(&self) -> AppPc {
        self.function.map_or(self.to, |f| AppPc(f.start))
    }

    /// Returns whether a function begins there.
    fn is_entry(&self) -> bool {
        self.function.is_some_and(|f| f.start == self.to.0)
    }
}

/// A thread's way through its tree. The current node and the last frame are the caller's to keep, where generated code has them.
pub struct Follow {
    tree: u64,
    frames: u64,
    links: Links,
    depth: u32,
    used: u32,
    /// Children by parent, call and function.
    children: BTreeMap<(u32, u64, u64), u32>,
    /// The highest stack pointer of the stack in use.
    base: u64,
    others: Vec<Stack>,
    /// The current node when a process is about to be made.
    before: u32,
}

/// The state that generated code changes: address of the current node, and of the last frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Address of the current node.
    pub node: u64,
    /// Address of the last frame.
    pub last: u64,
}

impl Follow {
    /// Begins a tree, all zero, of the thread with this page. `frames`: zero memory of [`FRAMES_BYTES`].
    ///
    /// # Safety
    /// Both memories must be the thread's alone, and stay.
    pub unsafe fn begin(
        tree: u64,
        (frames, links): (u64, Links),
        page: u32,
        depth: u32,
        sp: u64,
    ) -> (Self, Now) {
        let mut follow = Self {
            tree,
            frames,
            links,
            depth,
            used: 0,
            children: BTreeMap::new(),
            base: sp,
            others: Vec::new(),
            before: 0,
        };
        follow
            .head()
            .nodes
            .store(tree + TREE_HEADER as u64, Relaxed);
        follow.head().page.store(page, Relaxed);
        let root = follow.make(NO_PARENT, 0, 0, 0).unwrap_or(0);
        let now = Now {
            node: follow.address(root),
            last: frames,
        };
        follow.put(
            0,
            Frame {
                sp: u64::MAX,
                node: now.node,
            },
        );
        follow.node(root).calls.store(1, Relaxed);
        (follow, now)
    }

    /// Ends; what was remembered is gone, and its memory free for another tree.
    pub fn into_links(mut self) -> Links {
        self.links.clear();
        self.links
    }

    fn head(&self) -> &'static Tree {
        // SAFETY: the tree is there; all atomics.
        unsafe { &*(self.tree as *const Tree) }
    }

    fn address(&self, number: u32) -> u64 {
        self.tree + TREE_HEADER as u64 + u64::from(number) * size_of::<Node>() as u64
    }

    fn number(&self, address: u64) -> u32 {
        let number = address.wrapping_sub(self.address(0)) / size_of::<Node>() as u64;
        u32::try_from(number).map_or(0, |n| n.min(self.used.saturating_sub(1)))
    }

    fn node(&self, number: u32) -> &'static Node {
        // SAFETY: in the tree; all atomics.
        unsafe { &*(self.address(number) as *const Node) }
    }

    fn described(&self, number: u32) -> &'static Described {
        let at =
            self.tree + DESCRIBED_OFFSET as u64 + u64::from(number) * size_of::<Described>() as u64;
        // SAFETY: in the tree; all atomics.
        unsafe { &*(at as *const Described) }
    }

    fn at(&self, number: u32) -> AppPc {
        AppPc(self.described(number).at.load(Relaxed))
    }

    fn parent(&self, number: u32) -> Option<u32> {
        let parent = self.described(number).parent.load(Relaxed);
        // A session that is over gives the memory of trees back, which is zero then. No way up may go in a circle.
        (parent < number).then_some(parent)
    }

    fn is_tail(&self, number: u32) -> bool {
        self.described(number).flags.load(Relaxed) & TAIL != 0
    }

    /// Makes a node.
    fn make(&mut self, parent: u32, call: u64, at: u64, flags: u32) -> Option<u32> {
        let number = self.used;
        if number as usize >= NODES {
            return None;
        }
        let described = self.described(number);
        described.at.store(at, Relaxed);
        described.call.store(call, Relaxed);
        described.parent.store(parent, Relaxed);
        described.flags.store(flags, Relaxed);
        self.node(number).key.store(links::key(number), Relaxed);
        self.used += 1;
        self.head().used.store(self.used, Release);
        Some(number)
    }

    /// The node of a call from another, which is made if there is none.
    fn child(&mut self, parent: u32, call: AppPc, at: AppPc, flags: u32) -> Option<u32> {
        let key = (parent, call.0, at.0);
        if let Some(&child) = self.children.get(&key) {
            return Some(child);
        }
        let on_path = core::iter::successors(Some(parent), |n| self.parent(*n));
        let mut same = on_path.filter(|n| self.at(*n) == at);
        let last = same.next();
        let often = u32::from(last.is_some()).saturating_add(same.count() as u32);
        let child = match last.filter(|_| often >= self.depth) {
            Some(last) => last,
            None if self.used as usize >= NODES - LOOSE_NODES => return self.root(at, LOOSE),
            None => self.make(parent, call.0, at.0, flags)?,
        };
        self.children.insert(key, child);
        Some(child)
    }

    /// A root: for what nothing calls, or for calls whose paths have no room.
    fn root(&mut self, at: AppPc, flags: u32) -> Option<u32> {
        let key = (NO_PARENT, flags.into(), at.0);
        if let Some(&root) = self.children.get(&key) {
            return Some(root);
        }
        let root = self.make(NO_PARENT, 0, at.0, flags)?;
        self.children.insert(key, root);
        Some(root)
    }

    /// Goes on in a node, or without one in that of now.
    fn go_to(&self, now: &mut Now, node: Option<u32>, is_call: bool) {
        let counter = match node {
            Some(node) => &self.node(node).calls,
            None => &self.head().folded,
        };
        if is_call {
            counter.store(counter.load(Relaxed) + 1, Relaxed);
        }
        if let Some(node) = node {
            now.node = self.address(node);
        }
    }

    /// The function that the thread began with is known once it leaves that.
    fn name_root(&self, number: u32, change: &Change) {
        if self.parent(number).is_none() && self.at(number) == AppPc(0) {
            self.described(number).at.store(change.function.0, Relaxed);
        }
    }

    /// Remembers where a change led to from a node.
    fn remember(&mut self, from: u32, change: &Change, target: AppPc, node: u32) {
        if change.sort == Sort::Return {
            return;
        }
        let node = self.address(node);
        let of_many = match change.sort.has_many_targets() {
            true => target,
            false => AppPc(0),
        };
        let key = links::key(from) + u64::from(change.number);
        self.links.put(key, of_many, node);
        let link = &self.node(from).links[change.link()];
        link.node.store(node, Relaxed);
        link.target.store(target.0.wrapping_neg(), Relaxed);
        link.site
            .store(u64::from(change.number).wrapping_neg(), Relaxed);
    }

    /// A call, whose frame is pushed already.
    pub fn call(&mut self, now: &mut Now, change: &Change, target: AppPc) {
        let from = self.number(now.node);
        self.name_root(from, change);
        let node = self.child(from, change.at, target, 0);
        if let Some(node) = node {
            self.remember(from, change, target, node);
        }
        self.go_to(now, node, true);
    }

    /// A jump to another function, whose entry is `at`; the branch led to `target`. It `is_call` if that is the entry.
    pub fn tail(
        &mut self,
        now: &mut Now,
        change: &Change,
        (target, at): (AppPc, AppPc),
        is_call: bool,
    ) {
        let from = self.number(now.node);
        self.name_root(from, change);
        let chain =
            core::iter::successors(Some(from), |n| self.parent(*n).filter(|_| self.is_tail(*n)));
        let deep = chain.take(LEVELS + 1).count() > LEVELS;
        let parent = match self.parent(from).filter(|_| deep) {
            Some(parent) => parent,
            None => from,
        };
        let node = self.child(parent, change.at, at, TAIL);
        // Generated code goes where it led to before, and counts as its sort says.
        if let Some(node) = node.filter(|_| is_call == change.sort.is_call()) {
            self.remember(from, change, target, node);
        }
        self.go_to(now, node, is_call);
    }

    fn frame(&self, index: usize) -> Frame {
        // SAFETY: in the memory of frames, up to the last one.
        unsafe { ((self.frames + index as u64 * FRAME) as *const Frame).read() }
    }

    fn put(&self, index: usize, frame: Frame) {
        // SAFETY: in the memory of frames, which is longer than any stack has calls.
        unsafe { ((self.frames + index as u64 * FRAME) as *mut Frame).write(frame) }
    }

    /// Index of the last frame. That of the first, which nothing returns to, is 0.
    fn top(&self, now: &Now) -> usize {
        (now.last.wrapping_sub(self.frames) / FRAME) as usize
    }

    /// Gives up a frame and those after it: control is with its caller.
    fn give_up_from(&self, now: &mut Now, index: usize) {
        now.node = self.frame(index).node;
        now.last = self.frames + (index as u64 - 1) * FRAME;
    }

    /// The frames but the first, by index, the last first.
    fn outward(&self, now: &Now) -> impl Iterator<Item = (usize, Frame)> {
        (1..=self.top(now)).rev().map(|n| (n, self.frame(n)))
    }

    /// Index of the last frame whose return address lies at `sp`.
    fn frame_at(&self, now: &Now, sp: u64) -> Option<usize> {
        let mut outward = self.outward(now);
        outward.find(|(_, frame)| frame.sp == sp).map(|(n, _)| n)
    }

    /// A return that is not from the last frame, by a stack pointer that is before it.
    pub fn returns(&mut self, now: &mut Now, change: &Change, arrival: Arrival) {
        let sp = arrival.sp;
        if let Some(index) = self.frame_at(now, sp) {
            self.give_up_from(now, index);
            // Compilers put what handles exceptions into functions of its own, which nothing calls.
            let at = self.at(self.number(now.node));
            let apart = |f: &Range| at != AppPc(0) && !f.holds(at);
            if let Some(function) = arrival.function.filter(apart) {
                self.tail(now, change, (arrival.to, AppPc(function.start)), false);
            }
            return;
        }
        if self.take_stack(now, sp) {
            return;
        }
        self.lands(
            now,
            change,
            Arrival {
                sp: sp + 8,
                ..arrival
            },
        );
    }

    /// A jump out of its function to an address known only when it runs. `returned`: the return address right below the stack pointer.
    pub fn jumps(
        &mut self,
        now: &mut Now,
        change: &Change,
        arrival: Arrival,
        returned: Option<AppPc>,
    ) {
        let sp = arrival.sp;
        if self.frame(self.top(now)).sp == sp {
            if change.is_among_unknown(&arrival) {
                return;
            }
            return self.lands_in(now, change, arrival);
        }
        // Functions that switch stacks return that way.
        let below = sp.wrapping_sub(8);
        if returned == Some(arrival.to) {
            if let Some(index) = self.frame_at(now, below) {
                return self.give_up_from(now, index);
            }
            if self.take_stack(now, below) {
                return;
            }
        }
        self.lands(now, change, arrival);
    }

    /// Control lands somewhere with no call or return. The stack pointer is that after the branch.
    fn lands(&mut self, now: &mut Now, change: &Change, arrival: Arrival) {
        let (sp, function) = (arrival.sp, arrival.function.map(|f| f.start));
        // Where the function that it lands in has called what is given up: the outermost such call from deeper in the stack.
        let caller = |frame: &Frame| Some(self.at(self.number(frame.node)).0) == function;
        let within = !arrival.is_entry() && sp <= self.base;
        let given_up = self
            .outward(now)
            .filter(|(_, frame)| frame.sp < sp && caller(frame))
            .last();
        if let Some((index, _)) = given_up.filter(|_| within) {
            return self.give_up_from(now, index);
        }
        if arrival.is_entry()
            && let Some(index) = self.frame_at(now, sp)
        {
            if index < self.top(now) {
                self.give_up_from(now, index + 1);
            }
            return self.lands_in(now, change, arrival);
        }
        let last = self.frame(self.top(now)).sp.min(self.base);
        let far = match arrival.is_entry() {
            true => NEAR,
            false => FAR,
        };
        let beyond = match arrival.is_entry() {
            true => sp > last,
            false => sp > self.base,
        };
        if beyond || last - sp.min(last) > far {
            return self.begin_stack(now, arrival);
        }
        let abandoned = self
            .outward(now)
            .take_while(|(_, frame)| frame.sp < sp)
            .last();
        if let Some((index, _)) = abandoned {
            self.give_up_from(now, index);
        }
        let entry = arrival.entry();
        let stays = self.at(self.number(now.node)) == entry || change.is_among_unknown(&arrival);
        if !stays {
            self.lands_in(now, change, arrival);
        }
    }

    /// Goes on in the function in which control lands. Code outside of all functions that are known is one from there on.
    fn lands_in(&mut self, now: &mut Now, change: &Change, arrival: Arrival) {
        let entry = arrival.entry();
        self.tail(now, change, (arrival.to, entry), arrival.to == entry);
    }

    /// Puts the frames in use by.
    fn leave_stack(&mut self, now: &Now) {
        let frames = (1..=self.top(now)).map(|n| self.frame(n)).collect();
        if self.others.len() >= STACKS {
            self.others.remove(0);
        }
        self.others.push(Stack {
            base: self.base,
            frames,
        });
    }

    /// Goes on on a stack that was left before, after the call whose return address lies at `sp`, if there is one.
    fn take_stack(&mut self, now: &mut Now, sp: u64) -> bool {
        let of = |stack: &Stack| stack.frames.iter().rposition(|frame| frame.sp == sp);
        let found = self.others.iter().enumerate().rev();
        let Some((number, index)) = found
            .into_iter()
            .find_map(|(n, stack)| Some((n, of(stack)?)))
        else {
            return false;
        };
        let stack = self.others.remove(number);
        self.leave_stack(now);
        self.base = stack.base;
        for (n, frame) in stack.frames[..index].iter().enumerate() {
            self.put(n + 1, *frame);
        }
        now.last = self.frames + index as u64 * FRAME;
        now.node = stack.frames[index].node;
        true
    }

    /// Begins on a stack that is new.
    fn begin_stack(&mut self, now: &mut Now, arrival: Arrival) {
        self.leave_stack(now);
        self.base = arrival.sp;
        now.last = self.frames;
        let root = self.root(arrival.entry(), 0);
        self.go_to(now, root, true);
    }

    /// A signal handler begins, with its return address at `sp`.
    pub fn handler(&mut self, now: &mut Now, sp: u64, handler: AppPc) {
        let index = self.top(now) + 1;
        self.put(index, Frame { sp, node: now.node });
        now.last = self.frames + index as u64 * FRAME;
        let root = self.root(handler, 0);
        self.go_to(now, root, true);
    }

    /// Adds instructions to a node.
    pub fn add(&self, node: u64, instructions: u64) {
        let own = &self.node(self.number(node)).instructions;
        own.store(own.load(Relaxed).wrapping_add(instructions), Relaxed);
    }

    /// Says that the thread is counted no more.
    pub fn stop(&self) {
        self.head().stopped.store(1, Relaxed);
    }

    /// A process is about to be made of this one.
    pub fn before_fork(&mut self, now: Now) {
        self.before = self.number(now.node);
    }

    /// In a child, before its parent's tree goes away: what its own begins with.
    pub fn inherit(&self) -> Vec<[u64; 4]> {
        let words = |n| {
            let described = self.described(n);
            [
                described.at.load(Relaxed),
                described.call.load(Relaxed),
                u64::from(described.parent.load(Relaxed)),
                u64::from(described.flags.load(Relaxed)),
            ]
        };
        (0..self.used).map(words).collect()
    }

    /// In a child: goes on in a tree of its own, all zero.
    pub fn go_on(&mut self, inherited: &[[u64; 4]], tree: u64, page: u32, last: u64) -> Now {
        let old = self.address(0);
        self.links.clear();
        self.tree = tree;
        let moved = self.address(0).wrapping_sub(old);
        self.head().nodes.store(self.address(0), Relaxed);
        self.head().page.store(page, Relaxed);
        self.used = 0;
        for &[at, call, parent, flags] in inherited {
            self.make(parent as u32, call, at, flags as u32);
        }
        let now = Now {
            node: self.address(self.before),
            last,
        };
        for index in 0..=self.top(&now) {
            let frame = self.frame(index);
            let node = frame.node.wrapping_add(moved);
            self.put(index, Frame { node, ..frame });
        }
        let others = self.others.iter_mut().flat_map(|stack| &mut stack.frames);
        for frame in others {
            frame.node = frame.node.wrapping_add(moved);
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys;
    use crate::observe::links::LINKS_BYTES;
    use trommel_queue::contexts::TREE_BYTES;

    /// A thread's memory.
    fn begun() -> (Follow, Now) {
        let memory = |bytes| sys::anonymous(bytes).expect("memory");
        let (tree, frames) = (memory(TREE_BYTES), memory(FRAME as usize * 64));
        // SAFETY: fresh memory, of which no more frames are used.
        unsafe {
            let links = Links::new(memory(LINKS_BYTES));
            Follow::begin(tree, (frames, links), 0, 1, 1 << 40)
        }
    }

    /// The parent, the calls and the flags of the node that a call leads to.
    fn called(follow: &mut Follow, from: Now, site: u32, to: u64) -> (Now, Option<u32>, u64, u32) {
        let change = Change {
            number: site,
            sort: Sort::Call,
            at: AppPc(0x1000 + u64::from(site)),
            to: AppPc(to),
            function: AppPc(0x1000),
        };
        let mut now = from;
        follow.call(&mut now, &change, AppPc(to));
        let node = follow.number(now.node);
        let flags = follow.described(node).flags.load(Relaxed);
        let calls = follow.node(node).calls.load(Relaxed);
        (now, follow.parent(node), calls, flags)
    }

    #[test]
    fn calls_without_room_for_their_path_count_for_their_functions() {
        const SITES: u32 = (NODES - LOOSE_NODES) as u32 - 1;
        let (mut follow, root) = begun();
        let mut last = root;
        for site in 1..=SITES {
            let (now, parent, calls, flags) = called(&mut follow, root, site, 0x2000);
            assert_eq!((parent, calls, flags), (Some(0), 1, 0), "{site}");
            last = now;
        }
        // From here on there is one node for a function, whoever calls it.
        let (first, parent, calls, flags) = called(&mut follow, root, SITES + 1, 0x3000);
        assert_eq!((parent, calls, flags), (None, 1, LOOSE));
        let (second, _, calls, _) = called(&mut follow, last, SITES + 2, 0x3000);
        assert_eq!((second, calls), (first, 2));
        // That is remembered as other calls are.
        let link = &follow.node(0).links[(SITES + 1) as usize % LINKS];
        assert_eq!(link.node.load(Relaxed), first.node);
        // Recursion stays in it, and what it calls is loose too.
        assert_eq!(called(&mut follow, first, SITES + 3, 0x3000).0, first);
        let (below, parent, _, flags) = called(&mut follow, first, SITES + 4, 0x4000);
        assert_eq!((parent, flags), (None, LOOSE));
        assert_ne!(below, first);
        // Paths made before stay.
        let (again, parent, calls, _) = called(&mut follow, root, SITES, 0x2000);
        assert_eq!((again, parent, calls), (last, Some(0), 2));
        assert_eq!(follow.head().folded.load(Relaxed), 0);
    }
}
