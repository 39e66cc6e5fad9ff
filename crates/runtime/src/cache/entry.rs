//! The check at which indirect branches enter a fragment.

use crate::base::address::AppPc;
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
