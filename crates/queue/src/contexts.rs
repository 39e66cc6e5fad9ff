//! Calling contexts: the nodes of a thread's tree, as both sides see them.
//!
//! A thread with a counter array has a *tree* too, of the same number ([`CONTEXTS_OFFSET`](crate::CONTEXTS_OFFSET)). Its memory is a
//! [`Tree`], then [`NODES`] of [`Node`], then as many of [`Described`]. Generated code reaches nodes by their addresses in the target. The host
//! knows them by their numbers, and reads no address but [`Tree::nodes`], which it takes off [`ThreadPage::node`](crate::thread_page::ThreadPage::node).
//!
//! Node 0 is where the thread began. A parent has a smaller number than its children. What describes a node is written before
//! [`Tree::used`] counts it, and does not change.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Nodes of a tree at most.
pub const NODES: usize = 1 << 20;
/// Nodes that are kept for functions whose path there is no room for: [`LOOSE`]. Calls beyond count for the node above.
pub const LOOSE_NODES: usize = 1 << 17;
/// Places in a node that remember where a call led to.
pub const LINKS: usize = 4;
/// Bytes before the nodes.
pub const TREE_HEADER: usize = 4096;
/// Bytes of a tree. They are sparse: only used pages take memory.
pub const TREE_BYTES: usize = (TREE_HEADER + NODES * (NODE + DESCRIBED)).next_multiple_of(1 << 16);
/// Offset in a tree of what describes its nodes.
pub const DESCRIBED_OFFSET: usize = TREE_HEADER + NODES * NODE;
const NODE: usize = size_of::<Node>();
const DESCRIBED: usize = size_of::<Described>();

/// The head of a tree. Its thread writes it.
#[repr(C)]
pub struct Tree {
    /// Address of the first node in the target.
    pub nodes: AtomicU64,
    /// Nodes so far.
    pub used: AtomicU32,
    /// The thread's page.
    pub page: AtomicU32,
    /// Calls for which there was no node, not even a loose one.
    pub folded: AtomicU64,
    /// The thread goes on, and is counted no more.
    pub stopped: AtomicU32,
}

/// Words of a node that generated code needs.
#[repr(C)]
pub struct Node {
    /// Calls.
    pub calls: AtomicU64,
    /// Instructions, without those of calls.
    pub instructions: AtomicU64,
    /// Keys of its changes in the runtime's table of links begin with this.
    pub key: AtomicU64,
    pad: AtomicU64,
    /// Nodes that calls led to lately.
    pub links: [Link; LINKS],
}

/// A call site's child of a node. Numbers are negated, so that generated code can compare without flags.
#[repr(C)]
pub struct Link {
    /// The call site's number, negated. 0: there is none.
    pub site: AtomicU64,
    /// The target of an indirect call, negated.
    pub target: AtomicU64,
    /// Address of the child.
    pub node: AtomicU64,
}

/// Words of a node that the host needs.
#[repr(C)]
pub struct Described {
    /// Entry of the function, a run-time address. 0: not known.
    pub at: AtomicU64,
    /// The call instruction. 0: there is none.
    pub call: AtomicU64,
    /// Number of the parent. That of a root is [`NO_PARENT`].
    pub parent: AtomicU32,
    /// [`TAIL`] and so on.
    pub flags: AtomicU32,
    pad: AtomicU64,
}

/// Parent of a root.
pub const NO_PARENT: u32 = u32::MAX;
/// The function was entered by a jump from its parent, whose frame may be gone.
pub const TAIL: u32 = 1;
/// A root for all calls of its function that came when there was no room for their paths.
pub const LOOSE: u32 = 2;

const _: () = assert!(NODE == 128 && DESCRIBED == 32 && size_of::<Tree>() <= TREE_HEADER);
