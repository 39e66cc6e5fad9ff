//! Trees of calling contexts, which are read by file offset as counter arrays are.

use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use trommel_queue::contexts::{
    DESCRIBED_OFFSET, Described, LOOSE, NO_PARENT, NODES, Node, TAIL, TREE_BYTES, TREE_HEADER, Tree,
};
use trommel_queue::dict::TargetPc;
use trommel_queue::thread_page::ThreadPage;
use trommel_queue::{
    CONTEXTS_OFFSET, COUNTER_ARRAYS, MAX_THREADS, THREAD_PAGE, THREAD_PAGES_OFFSET,
};

use super::{Damaged, Shared};

/// A node of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextNode {
    /// Number of the parent, which is less than its own; `None`: nothing called it.
    pub parent: Option<u32>,
    /// Entry of its function; `None`: not known.
    pub at: Option<TargetPc>,
    /// The call.
    pub call: Option<TargetPc>,
    /// It was entered by a jump.
    pub tail: bool,
    /// It stands for calls whose paths had no room.
    pub loose: bool,
    /// Calls, and instructions of its own.
    pub calls: u64,
    /// Instructions of its own.
    pub own: u64,
}

/// A tree as its thread has left it.
#[derive(Clone, Debug, Default)]
pub struct ContextTree {
    /// Nodes by number.
    pub nodes: Vec<ContextNode>,
    /// Calls without a node.
    pub folded: u64,
    /// Its thread was not counted to its end.
    pub stopped: bool,
}

impl Shared {
    /// Nodes of a counter array's tree so far.
    pub fn context_nodes(&self, number: usize) -> usize {
        (self.context_head(number).used.load(Acquire) as usize).min(NODES)
    }

    fn context_head(&self, number: usize) -> &Tree {
        self.part(CONTEXTS_OFFSET + number % COUNTER_ARRAYS * TREE_BYTES)
    }

    /// The tree of a counter array, from the node `first` on.
    ///
    /// # Errors
    /// It is damaged.
    pub fn context_tree(&self, number: usize, first: usize) -> Result<ContextTree, Damaged> {
        let damaged = || Damaged {
            what: "a tree of calling contexts",
            number: number as u64,
        };
        let used = self.context_nodes(number);
        let start = CONTEXTS_OFFSET + number % COUNTER_ARRAYS * TREE_BYTES;
        let read = |at: usize, size: usize| {
            let mut bytes = vec![0; used.saturating_sub(first) * size];
            let read = self.pages.read(start + at + first * size, &mut bytes);
            read.map(|()| bytes).map_err(|_| damaged())
        };
        let nodes = read(TREE_HEADER, size_of::<Node>())?;
        let described = read(DESCRIBED_OFFSET, size_of::<Described>())?;
        let pc = |word: u64| (word != 0).then_some(TargetPc(word));
        let mut tree = ContextTree {
            nodes: Vec::with_capacity(used),
            folded: self.context_head(number).folded.load(Relaxed),
            stopped: self.context_head(number).stopped.load(Relaxed) != 0,
        };
        let both = (nodes.chunks_exact(size_of::<Node>()))
            .zip(described.chunks_exact(size_of::<Described>()));
        for (n, (node, described)) in both.enumerate() {
            let parent = word(described, offset_of!(Described, parent)) as u32;
            let flags = word(described, offset_of!(Described, parent)) >> 32;
            if parent != NO_PARENT && parent as usize >= first + n {
                return Err(damaged());
            }
            tree.nodes.push(ContextNode {
                parent: (parent != NO_PARENT).then_some(parent),
                at: pc(word(described, offset_of!(Described, at))),
                call: pc(word(described, offset_of!(Described, call))),
                tail: flags as u32 & TAIL != 0,
                loose: flags as u32 & LOOSE != 0,
                calls: word(node, offset_of!(Node, calls)),
                own: word(node, offset_of!(Node, instructions)),
            });
        }
        Ok(tree)
    }

    /// The number of the node that a tree's thread was in last, and the instructions that it had not given it yet.
    pub fn context_rest(&self, number: usize) -> Option<(usize, u64)> {
        let head = self.context_head(number);
        let page = head.page.load(Relaxed) as usize % MAX_THREADS;
        let page: &ThreadPage = self.part(THREAD_PAGES_OFFSET + page * THREAD_PAGE);
        let into = page
            .node
            .load(Relaxed)
            .checked_sub(head.nodes.load(Relaxed))?;
        let node = usize::try_from(into).ok()? / size_of::<Node>();
        (node < self.context_nodes(number)).then(|| (node, page.instructions.load(Relaxed)))
    }

    /// Makes a tree zero.
    pub(super) fn free_context_tree(&self, number: usize) {
        let start = CONTEXTS_OFFSET + number % COUNTER_ARRAYS * TREE_BYTES;
        if self.context_nodes(number) != 0 {
            self.pages.discard(start..start + TREE_BYTES);
        }
    }
}

/// The word at an offset.
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|b| b.first_chunk::<8>());
    word.map_or(0, |b| u64::from_le_bytes(*b))
}
