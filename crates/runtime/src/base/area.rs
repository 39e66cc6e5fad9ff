//! The thread area: what GS points to while a thread is controlled.
//!
//! ```text
//!   0x00000  thread page      shared with the host: the write pointer, 0 without a chunk
//!   0x01000  Context          registers of the app, spill slots, entry points
//!   0x02000  system calls     a byte for each number: 1 = the runtime handles it
//!   0x12000  indirect table   a cache address for the low 16 bits of an app address
//!   …        stacks           the runtime's, a new child's, and that of signal handlers
//!   …        second table     keys, then cache addresses, by a hash of the whole address; for
//!                             targets that share their entry of the first with others
//!   …        counters         shared with the host: the thread's counter array, where paths are counted
//! ```
//!
//! Generated code addresses all of it as `gs:[offset]`; the offsets come from [`Context`]'s own
//! layout, so they cannot drift apart. The tables are the thread's own (the first thread's) or
//! those that all others share, mapped into each area.

use core::mem::offset_of;

use trommel_compress::interval::TABLES;
use trommel_queue::COUNTER_ARRAY_BYTES;
use trommel_queue::queries;

use crate::base::address::{AppPc, CachePc};
use crate::base::emit::GsOffset;
use crate::base::ids::ExitId;

/// The page the host sees too.
pub const THREAD_PAGE: usize = 0;
const CONTEXT: usize = 0x1000;
const SYSCALLS: usize = 0x2000;
const INDIRECT: usize = 0x12000;
/// Entries of the indirect table: one for each value of the low 16 address bits.
pub const INDIRECT_ENTRIES: usize = 1 << 16;
/// Bytes up to the second table, which few programs touch.
pub const AREA_BYTES: usize = INDIRECT + INDIRECT_ENTRIES * 8;
/// Bytes of the first table.
pub const INDIRECT_BYTES: usize = INDIRECT_ENTRIES * 8;
/// Offset of the second table. The space before it is not addressed through GS.
pub const SECOND_OFFSET: usize = 0x1000 + (2 << 20);
/// Entries of the second table.
pub const SECOND_LEN: usize = 1 << 16;
/// Bytes of the second table, keys and cache addresses.
pub const SECOND_BYTES: usize = SECOND_LEN * 16;
/// Offset of the counters.
pub const COUNTERS_OFFSET: usize = SECOND_OFFSET + SECOND_BYTES;
/// Everything. Without counters, up to these.
pub const WHOLE_BYTES: usize = COUNTERS_OFFSET + COUNTER_ARRAY_BYTES;

/// Bytes of the runtime's stack.
pub const STACK_BYTES: u64 = 256 << 10;
/// Bytes of the stack of a child before it runs natively.
pub const CHILD_STACK_BYTES: u64 = 64 << 10;
/// Bytes of the stack of signal handlers.
pub const SIGNAL_STACK_BYTES: u64 = 128 << 10;
/// Offset of the stacks, which follow in this order.
pub const STACKS: u64 = AREA_BYTES as u64;
/// End of the stacks; the area does not use the rest up to the second table.
pub const STACKS_END: u64 = STACKS + STACK_BYTES + CHILD_STACK_BYTES + SIGNAL_STACK_BYTES;
const _: () = assert!(STACKS_END < SECOND_OFFSET as u64);

/// Offset of the write pointer.
pub const WRITE_POINTER: GsOffset = GsOffset(0);
/// The table of system calls that the runtime handles.
pub const SYSCALL_TABLE: GsOffset = GsOffset(SYSCALLS as u32);
/// The table of indirect targets.
pub const INDIRECT_TABLE: GsOffset = GsOffset(INDIRECT as u32);

/// The second table's keys: the negative of the target, minus one; 0 where there is none.
pub const SECOND_KEYS: GsOffset = GsOffset(SECOND_OFFSET as u32);
/// The second table's cache addresses.
pub const SECOND_ENTRIES: GsOffset = GsOffset((SECOND_OFFSET + SECOND_LEN * 8) as u32);
/// Seed of the second table's hash, CRC-32C of the target.
pub const SECOND_SEED: u32 = 0;

/// Reason why control came out of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// A direct exit that is not linked; `exit` names it.
    Exit = 0,
    /// An indirect branch to `next_pc` that the inline lookup did not find.
    Indirect = 1,
    /// A system call that the runtime handles; `exit` names what follows.
    Syscall = 2,
    /// A chunk of the ring is full; `target` is where to go on.
    Full = 3,
    /// Back from a signal handler of the app, at `next_pc`.
    Sigreturn = 4,
    /// An instruction that must run natively or be treated specially, at the exit's target.
    Special = 5,
    /// Back from starting a process; the exit's target follows.
    Cloned = 6,
    /// A guarded fragment, that of the exit's target, found its code changed.
    Changed = 7,
    /// A window begins, at `next_pc`.
    Window = 8,
    /// The fragment of the exit's target was entered so often that a trace is worth it.
    Hot = 9,
    /// The probe of a query; rcx leads to a [`crate::observe::query::Crossing`].
    Query = 10,
    /// An event that a profiler is to look at; `target` is where to go on.
    Counted = 11,
    /// A change of the calling context that generated code does not know; rcx leads to a [`crate::observe::contexts::Crossing`].
    Context = 12,
}

/// The app's state while the runtime runs, and what both need to find each other.
#[repr(C)]
pub struct Context {
    /// General registers in hardware order (rsp is 4).
    pub regs: [u64; 16],
    /// The flags register.
    pub flags: u64,
    /// The app address to go to, where the reason says so.
    pub next_pc: AppPc,
    /// The exit taken.
    pub exit: ExitId,
    /// [`Reason`].
    pub reason: u32,
    /// Address to go on at in the cache.
    pub target: CachePc,
    /// Saved `rcx` of an indirect branch or an exit that records.
    pub spill_rcx: u64,
    /// Saved `rdx` of an indirect branch.
    pub spill_rdx: u64,
    /// Saved register that a fragment has stolen.
    pub spill_stolen: u64,
    /// Saved scratch register of one probe.
    pub spill_scratch: u64,
    /// Saved base register of an operand out of reach.
    pub spill_far: u64,
    /// Saved registers, by number, that hold promoted variables in the loop of a trace.
    pub spill_promoted: [u64; 16],
    /// Values that the first round of a loop has computed for its second one, by the register that has them there.
    pub kept: [u64; 16],
    /// Instructions left of the window that the thread is in, see [`crate::engine::window`].
    pub budget: u64,
    /// Index in the second table of the lookup in progress.
    pub second_index: u64,
    /// Key that is looked up in the second table: a target and its branch's key.
    pub second_key: u64,
    /// The key of the indirect branch to `next_pc`, see [`crate::observe::pairs`].
    pub key: u64,
    /// Address of the site's data about a message, while the message is sent.
    pub message: u64,
    /// Saved `rdx` meanwhile.
    pub message_rdx: u64,
    /// Events that a message stands for, for the dispatcher.
    pub rate: u64,
    /// The value that an event is about: until it is hashed, and while its message is sent.
    pub value: u64,
    /// The counter of that message, by its number in the counter array.
    pub value_counter: u64,
    /// Bits of a value counter's place in the table: the thread uses so much of it.
    pub value_counter_mask: u64,
    /// Saved `rax`, while that holds the app's flags.
    pub spill_flags: u64,
    /// Saved `rcx`, while a message is sent by code that needs it afterwards.
    pub held_rcx: u64,
    /// A register by which the halves of a value are copied, meanwhile.
    pub held_half: u64,
    /// Factors of a sampler's or profiler's hash function.
    pub factors: [u64; 2],
    /// Address of a profiler's subjects, see [`crate::channel::shields`].
    pub subjects: u64,
    /// Address of the thread's counters.
    pub counters: u64,
    /// The least of a tuple's counters at whose next event it is promoted.
    pub promotes_at: u32,
    /// Not 0 if only the least counters are incremented.
    pub conservative: u32,
    /// First counter of each table.
    pub lane_first: [u32; TABLES],
    /// Mask of an index into each table.
    pub lane_mask: [u32; TABLES],
    /// Bits below an index in a product.
    pub lane_shift: u32,
    /// Seed of sums.
    pub sum_seed: u32,
    /// The subject of an event that is not shielded.
    pub subject: u32,
    /// A [`crate::base::counted::Why`], where it comes out of the cache.
    pub why: u32,
    /// Saved registers, by number, meanwhile.
    pub unshielded: [u64; 12],
    /// Executions up to the next that is profiled, by place of the query program and table entry. 1 before its engine begins.
    pub left: [[u32; queries::ENTRIES]; queries::LOADS],
    /// Address of the last [`crate::observe::contexts::Frame`].
    pub frame: u64,
    /// Address of the thread's [`crate::observe::links::Links`].
    pub links: u64,
    /// Address of the entry that is looked at.
    pub link: u64,
    /// The x87 unit's environment before an instruction that stores 16 bits of an address of it, as `fnstenv` stores it.
    pub x87: [u32; 7],
    /// Target of an indirect branch that may change the calling context.
    pub followed: u64,
    /// Not 0 if something was seen before an instruction, and is to be seen after it: by place of the query program.
    pub begun: [u64; queries::LOADS],
    /// Entry points of the runtime, as generated code jumps to them.
    pub entry: Entries,
    /// Top of the runtime's stack.
    pub stack: u64,
    /// Top of the small stack that a new child uses to go native.
    pub child_stack: u64,
    /// This area's own address.
    pub this: u64,
    /// Address of the state of the thread (`thread::Thread`).
    pub thread: u64,
    /// A signal waits to be delivered at the next boundary.
    pub pending: u32,
    /// True if `target` is the start of an app instruction with all registers the app's.
    pub at_boundary: u32,
    /// Arguments of a system call that the runtime makes in the app's name.
    pub call_args: [u64; 7],
    /// Low halves of xmm0–15.
    pub xmm: [[u64; 2]; 16],
}

/// Addresses in the runtime that generated code jumps to through GS.
#[repr(C)]
pub struct Entries {
    /// [`Reason::Exit`].
    pub exit: u64,
    /// Entry for a fragment whose tag check failed; rcx and rdx as the check left them.
    pub mismatch: u64,
    /// Entry for a pair whose tag check failed, with its key in the context; else as `mismatch`.
    pub pair_mismatch: u64,
    /// [`Reason::Syscall`].
    pub syscall: u64,
    /// [`Reason::Full`]; rcx holds where to go on.
    pub full: u64,
    /// [`Reason::Special`].
    pub special: u64,
    /// [`Reason::Changed`].
    pub changed: u64,
    /// [`Reason::Hot`].
    pub hot: u64,
    /// A value counter is of another value, or full; rcx leads to what is known of the event and is spilled.
    pub value_counter: u64,
    /// An event is not shielded, that of a known tuple; rcx leads to what is known of it and is spilled.
    pub unshielded: u64,
    /// Entry for an event whose tuple is to be promoted; likewise.
    pub promoted: u64,
    /// Entry for an event with a value whose counters a sum selects.
    pub unshielded_sum: u64,
    /// Entry for an event with a value whose counters a product selects.
    pub unshielded_product: u64,
    /// The profiler's interval has ended; rcx holds where to go on.
    pub interval_ended: u64,
    /// [`Reason::Query`]; rcx is spilled.
    pub query: u64,
    /// [`Reason::Context`]; rcx leads to what is known of the change, rcx and rdx are spilled.
    pub context: u64,
    /// Entry from the checked entry of a retired fragment; rcx holds the target, rcx and rdx are spilled.
    pub absent: u64,
}

/// GS offset of a field of [`Context`].
#[macro_export]
macro_rules! slot {
    ($($field:tt)+) => {
        $crate::base::emit::GsOffset(
            ($crate::base::area::CONTEXT_OFFSET + ::core::mem::offset_of!($crate::base::area::Context, $($field)+)) as u32,
        )
    };
}

/// Offset of [`Context`] in the area.
pub const CONTEXT_OFFSET: usize = CONTEXT;

const _: () = {
    assert!(CONTEXT + size_of::<Context>() <= SYSCALLS);
    assert!(offset_of!(Context, regs) == 0);
};
