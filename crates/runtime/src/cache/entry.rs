//! Checked entries: the check at which indirect branches enter a fragment, and the jump that stands there when it is retired.

use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, Reg};
use crate::slot;

/// The check at a fragment's checked entry, which must be at a multiple of eight bytes: `rcx` must
/// be `app`. Leaves `rcx` and `rdx` in slots. Starts with ten bytes, eight of which are overwritten
/// when the fragment is retired.
pub fn tag_check(code: &mut Code, app: AppPc) {
    code.mov_imm64(Reg::RDX, app.0.wrapping_neg());
    code.add_rdx_to_rcx();
    let right = code.jrcxz();
    code.jmp_gs(slot!(entry.mismatch));
    code.bind8_here(right);
}

/// Returns the code of every checked entry that is retired: `jmp gs:[…]`, eight bytes.
pub(super) fn retired_entry() -> u64 {
    let mut bytes = [0; 16];
    let mut code = Code::new(CachePc(0), &mut bytes);
    code.jmp_gs(slot!(entry.absent));
    code.bytes()
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
