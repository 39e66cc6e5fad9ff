//! Contents of the kernel's signal frames, beside the thread's state itself.
#![allow(unsafe_code)] // reason: reads the kernel's frame.

use crate::base::signals::Ucontext;

/// Bytes of vector state in the largest frame that is made.
pub const MOST: usize = 16 << 10;
/// Offset of the kernel's description of the vector state in a frame; the header of the extended state follows.
pub const SOFTWARE: usize = 464;
/// Offset of the header of the extended state.
pub const HEADER: usize = 512;
/// Bytes of that header.
pub const HEADER_BYTES: usize = 64;
/// `FP_XSTATE_MAGIC1` and `FP_XSTATE_MAGIC2`, which is after the state.
pub const MAGIC: u32 = 0x4650_5853;

/// `struct _fpx_sw_bytes`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Software {
    pub(crate) magic: u32,
    pub(crate) extended: u32,
    pub(crate) features: u64,
    pub(crate) size: u32,
    pub(crate) padding: [u32; 7],
}
const _: () = assert!(SOFTWARE + size_of::<Software>() == HEADER);

/// Contents of the kernel's signal frames for a thread, beside the state itself.
#[derive(Clone, Copy, Default)]
pub struct Frames {
    pub(crate) flags: u64,
    pub(crate) selectors: u64,
    pub(crate) software: Software,
}

impl Frames {
    /// Reads them from a frame that the kernel has made for the thread.
    pub fn of(frame: &Ucontext) -> Self {
        let vectors = frame.fpstate as *const u8;
        let software = match vectors.is_null() {
            true => Software::default(),
            // SAFETY: the kernel has put a legacy area there, which has these bytes.
            false => unsafe { vectors.add(SOFTWARE).cast::<Software>().read_unaligned() },
        };
        Self {
            flags: frame.flags,
            selectors: frame.selectors,
            software,
        }
    }

    /// Returns whether frames can be made of it.
    pub fn is_known(&self) -> bool {
        let size = self.software.size as usize;
        self.software.magic == MAGIC
            && (HEADER + HEADER_BYTES..=MOST - size_of::<u32>()).contains(&size)
    }
}
