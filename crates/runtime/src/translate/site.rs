//! The environment of a fragment: what a translator is given, and why it may refuse.
#![allow(unsafe_code)] // reason: reads the app's code.

use trommel_queue::dict::TargetPc;

use crate::base::address::{AppPc, Range};
use crate::cache::Cache;
use crate::channel::dictionary::{DictionaryFull, Shared};
use crate::channel::persist::Persist;
use crate::memory::pages::{PAGE, Pages};
use crate::memory::region::Regions;
use crate::observe::pairs::Pairs;

/// Reason why an address got no fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Run this one instruction natively: it faults, or the CPU knows better than we do.
    Native,
    /// The kernel's emulated page.
    Vsyscall,
    /// An instruction that leaves 64-bit mode or makes a system call unseen.
    Instruction,
    /// An instruction that uses GS.
    Gs,
    /// A request of the program.
    Request,
    /// A restartable sequence follows.
    Restartable,
    /// Code that may change begins here, after other.
    Made,
    /// The cache is full: flush and try again.
    CacheFull,
    /// There will be room when other threads have come out of old code.
    Overflowing,
    /// Nothing is left to try.
    OutOfSpace,
    /// A system call, in a window.
    Call,
    /// The host must be done with what was in this range before code there is translated.
    Moved(Range),
    /// The memory map, which says what is code, cannot be read.
    NoMaps,
    /// The host must say what it calls code that is counted.
    Unnamed,
}

impl From<DictionaryFull> for Refusal {
    fn from(_: DictionaryFull) -> Self {
        Self::OutOfSpace
    }
}

/// Environment of a fragment that is being made.
pub struct Site<'a> {
    /// The cache to place it in.
    pub cache: &'a mut Cache,
    /// Memory that is code.
    pub regions: &'a mut Regions,
    /// Pages of code that are writable.
    pub pages: &'a mut Pages,
    /// The dictionary.
    pub shared: &'a mut Shared,
    /// Indirect branches that are counted.
    pub pairs: &'a mut Pairs,
    /// Records of earlier runs, and those that this run leaves.
    pub persist: &'a mut Option<Persist>,
}

/// Returns an address as the dictionary has it.
pub(super) fn target(pc: AppPc) -> TargetPc {
    TargetPc(pc.0)
}

/// The bytes of code at `pc` that can be read now: up to the end of the next page.
pub(super) fn readable(regions: &mut Regions, pc: AppPc, region: usize) -> Option<&'static [u8]> {
    let range = regions.known[region].range;
    let mut end = pc.0;
    for page in [pc.0 & !(PAGE - 1), (pc.0 & !(PAGE - 1)) + PAGE] {
        if page >= range.end || !regions.page_is_readable(region, page) {
            break;
        }
        end = (page + PAGE).min(range.end);
    }
    // SAFETY: the region is mapped, readable and not writable, each page was read once, and the
    // slice is used only before the app runs again.
    (end > pc.0)
        .then(|| unsafe { core::slice::from_raw_parts(pc.0 as *const u8, (end - pc.0) as usize) })
}
