//! Entry points of generated code into the runtime.

use crate::base::area::Entries;
use crate::crossing::arch::{self, Landmarks};

/// Returns the entry points of generated code into the runtime.
pub fn entries() -> Entries {
    Entries {
        exit: arch::exit as *const () as u64,
        mismatch: arch::mismatch as *const () as u64,
        pair_mismatch: Landmarks::pair_mismatch(),
        syscall: arch::syscall as *const () as u64,
        full: arch::full as *const () as u64,
        special: arch::special as *const () as u64,
        absent: Landmarks::absent(),
        changed: arch::changed as *const () as u64,
        hot: arch::hot as *const () as u64,
        value_counter: Landmarks::value_counter(),
        unshielded: Landmarks::unshielded().start,
        promoted: Landmarks::promoted(),
        unshielded_sum: Landmarks::unshielded_sum(),
        unshielded_product: Landmarks::unshielded_product(),
        interval_ended: arch::interval_ended as *const () as u64,
        query: arch::query as *const () as u64,
        context: arch::context as *const () as u64,
    }
}
