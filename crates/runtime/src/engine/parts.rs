//! Parts of a thread's state, by what they are for.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::base::address::AppPc;
use crate::engine::interrupted::Interrupted;
use crate::engine::signals::{Actions, StartMask};
use crate::memory::mapping::Reached;
use crate::observe::contexts::Follow;
use crate::observe::links::Links;

/// A thread's contexts.
#[derive(Default)]
pub struct Following {
    /// Their state, while they are followed.
    pub follow: Option<Box<Follow>>,
    /// Memory of its frames, which stays for the next thread of the area.
    pub frames: u64,
    /// Its table of links, while no thread uses it.
    pub links: Option<Links>,
    /// The description of the tree that a forked child goes on from.
    pub inherited: Vec<[u64; 4]>,
}

/// The way of a thread out of control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WayOut {
    /// It is not on that.
    #[default]
    None,
    /// It is no longer listed, and others are.
    One,
    /// It is no longer listed, and no other is.
    Last,
}

/// One app instruction that runs natively, with the trap flag set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stepping {
    /// None does.
    #[default]
    No,
    /// The trap flag is set, and the thread is still in the runtime.
    OnTheWay,
    /// The instruction is the next to be executed.
    There,
}

impl Stepping {
    /// Returns whether an instruction is run so, now or soon.
    pub fn is_on(self) -> bool {
        self != Self::No
    }
}

/// Presence in the cache, for who takes its memory back.
#[derive(Default)]
pub struct Presence {
    /// The epoch in which the thread came out of the cache last; the greatest number while it is out.
    pub seen: AtomicU64,
    /// The epoch in which its window began.
    pub since: AtomicU64,
    /// The last epoch in which the thread was found in code that leads to no probe that is to go; only the kernel's signal finds that out.
    pub clear: AtomicU64,
    /// The fragment kept for it alone in which it waits, until it comes out; 0 if that is not known.
    pub held: AtomicU64,
    /// Times that it has waited for room in the cache.
    pub waits: u32,
    /// The address of the fragment that it was led to last; 0 before the first.
    pub entered: u64,
    /// The page of code that it is to bring before it goes on.
    pub away: Option<u64>,
    /// The page that it has brought.
    pub reached: Option<Reached>,
    /// Pages that it has brought since it last went on in a fragment.
    pub brought: u32,
}

/// A system call that the runtime makes in the app's name.
pub struct Call {
    /// The call that is being made, or was made last.
    pub at: AppPc,
    /// Its answer, until it is finished.
    pub made: Option<i64>,
    /// The value of RAX at a call that a filter has had reported in its place (SIGSYS), until the call is finished.
    pub reported: Option<u64>,
    /// The call in which the thread was attached.
    pub interrupted: Option<Interrupted>,
}

impl Call {
    /// Returns the state before the first call.
    pub const fn none() -> Self {
        Self {
            at: AppPc(0),
            made: None,
            reported: None,
            interrupted: None,
        }
    }
}

/// The area of restartable sequences that a thread has registered with the kernel, see `process::sequences`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sequences {
    /// Its address; 0: there is none.
    pub at: u64,
    /// Its bytes.
    pub len: u32,
    /// The signature that it was registered with.
    pub signature: u32,
    /// The runtime has withdrawn the registration.
    pub withdrawn: bool,
}

/// A process that a thread starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Starting {
    /// The kernel's signal mask before, while the thread holds the runtime's lock for the call.
    pub locked: Option<StartMask>,
    /// The slot claimed for the process.
    pub slot: Option<usize>,
    /// The process loses its handlers.
    pub clear_handlers: bool,
}

/// A thread of a process of its own in another's memory.
pub struct Spawned {
    /// The process.
    pub group: Rc<Group>,
    /// The thread that started the process waits until that is done.
    pub waited_for: bool,
}

/// A process of its own in another's memory, as its threads share it.
pub struct Group {
    /// Its dispositions, when it does not share those of the other.
    pub actions: Option<UnsafeCell<Actions>>,
    /// Its number; 0 until its first thread runs.
    pub pid: AtomicU32,
    /// True once the host need not reckon with it.
    pub ended: AtomicBool,
}
