//! The x87 unit's record of its last instruction, as the app knows it.
//!
//! # Problem
//! The unit keeps the address of the last instruction that it has executed, which lies in the cache. Signal frames hold it, and
//! `fnstenv`, `fnsave`, `fxsave` and the `xsave` instructions store it where the app reads it.
//!
//! # Strategy
//! A fragment ends after an instruction that stores the record, by an exit that is never linked ([`Way::Stored`]). The dispatcher
//! finds that instruction by its step, and the record by the instruction's operand: none of these instructions changes a general
//! register. An address of the cache there is replaced by that of the app's instruction.
//!
//! # Why it is correct
//! * The unit of a thread may name code that is about to go. The thread gives it the app's address when it comes out of the cache for the
//!   first time since code was retired, and before code is reclaimed that no other thread can be in.
//! * No boundary lies between the instruction and the dispatcher, so no handler sees the record before.
//! * What is stored is believed only where it lies in the cache. No other bytes of the app's are changed.
//! * Memory and code may be gone when the dispatcher looks: both are read, and written, as what may not be there.
//!
//! Where code went while the thread was held in a system call, no address is known: the record says 0, as that of an
//! initialised unit does. A record of 32 bits is completed by the unit's own, where that still has it. Right before one of 16 bits is
//! stored, generated code keeps one of 32 bits in the thread's area, to complete that.
//!
//! [`Way::Stored`]: crate::cache::Way::Stored
#![allow(unsafe_code)] // reason: the app's memory, and assembly.

use crate::base::address::{AppPc, CachePc, Range};
use crate::base::area::Context;
use crate::base::decode::{Insn, Reader, Rm};
use crate::base::keys::with_keys_lifted;
use crate::base::signals::Ucontext;
use crate::cache::Exit;
use crate::crossing::arch;
use crate::engine::operand::address;
use crate::engine::state::Runtime;

/// Offset of the address in a legacy area.
const LAST: usize = 8;
/// Index of 32 bits of it in an environment.
const LAST_WORD: usize = 3;
/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// Layouts of a stored record: where the address is in it, and how many bytes it has.
#[derive(Clone, Copy)]
struct Layout {
    offset: u64,
    bytes: u64,
    /// True if it is stored only if `rax` selects it.
    selected: bool,
}

impl Runtime {
    /// The frame of a signal gets the app's address.
    pub fn show_own_x87(&self, frame: &Ucontext) {
        if frame.fpstate == 0 {
            return;
        }
        let last = (frame.fpstate + LAST as u64) as *mut u64;
        // SAFETY: the kernel has put a legacy area there, on the runtime's stack.
        let at = CachePc(unsafe { last.read() });
        if self.cache.arena_of(at).is_some() {
            // SAFETY: as above.
            unsafe { last.write(self.own(at).0) };
        }
    }

    /// The record that the instruction before an exit has stored gets the app's address.
    pub fn show_own_stored(&mut self, context: &Context, exit: &Exit) {
        let found = self.cache.fragment_at(exit.patch);
        let Some(app) = found.and_then(|(_, steps)| steps.last().map(|step| step.app)) else {
            return;
        };
        let Some((insn, layout)) = stored_by(app, exit.target) else {
            return;
        };
        let Rm::Memory(operand) = insn.rm else {
            return;
        };
        if layout.selected && context.regs[0] & 1 == 0 {
            return;
        }
        let to = address(&operand, &context.regs).wrapping_add(layout.offset);
        let Some(mut stored) = peek(to, layout.bytes) else {
            return;
        };
        if layout.bytes == 2 {
            let kept = context.x87[LAST_WORD];
            if kept as u16 != stored as u16 {
                return;
            }
            stored = kept.into();
        }
        let Some(app) = self.own_of(stored, layout.bytes) else {
            return;
        };
        self.open_all(Range {
            start: to,
            end: to + layout.bytes,
        });
        let at_once = layout.bytes.min(4);
        for part in 0..layout.bytes / at_once {
            let word = app.0 >> (32 * part);
            // SAFETY: the app has just written there. A word to read from.
            unsafe { arch::poke(to + 4 * part, at_once, &raw const word) };
        }
    }

    /// The calling thread's unit gets the app's address: code may go.
    pub fn keep_own_x87(&self) {
        let mut state = State::save();
        let at = CachePc(state.last());
        if self.cache.arena_of(at).is_some() {
            state.load_with(self.own(at));
        }
    }

    /// Returns the app's address for what was stored, if that lies in the cache.
    fn own_of(&self, stored: u64, bytes: u64) -> Option<AppPc> {
        let whole = match bytes {
            8 => stored,
            _ => State::save().last(),
        };
        if bytes == 8 || whole as u32 == stored as u32 {
            let at = CachePc(whole);
            return self.cache.arena_of(at).map(|_| self.own(at));
        }
        // `fnsave` has initialised the unit, and some processors do not give the record of one without an exception.
        self.cache.app_ending_with(stored as u32)
    }

    /// Returns the app's instruction that a cache address stands for; 0 if that is not known any more.
    fn own(&self, at: CachePc) -> AppPc {
        self.cache.app_of(at).unwrap_or(AppPc(0))
    }
}

/// State of the calling thread's x87 unit and vector registers, as `fxsave64` stores it.
#[repr(C, align(16))]
struct State([u8; 512]);

impl State {
    fn save() -> Self {
        let mut state = Self([0; 512]);
        // SAFETY: stores 512 bytes.
        unsafe {
            core::arch::asm!("fxsave64 [{}]", in(reg) &raw mut state, options(nostack, preserves_flags));
        }
        state
    }

    /// Address of the last instruction.
    fn last(&self) -> u64 {
        let bytes = self.0[LAST..].first_chunk();
        bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes))
    }

    /// Loads the state with another address.
    fn load_with(&mut self, app: AppPc) {
        self.0[LAST..LAST + 8].copy_from_slice(&app.0.to_le_bytes());
        // SAFETY: a state that was saved, but for an address that means nothing to the processor. Compiled code keeps nothing in
        // the unit; vector registers are loaded with what `save` found there, and so are not relied on.
        unsafe {
            core::arch::asm!(
                "fxrstor64 [{}]", in(reg) &raw const *self,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, preserves_flags)
            );
        }
    }
}

fn peek(at: u64, bytes: u64) -> Option<u64> {
    let mut value = 0;
    // SAFETY: a word to write to.
    let there = unsafe { arch::peek(at, bytes, &raw mut value) };
    (there != 0).then_some(value)
}

/// Decodes the instruction at `pc` that ends at `end`, if it stores the record.
fn stored_by(pc: AppPc, end: AppPc) -> Option<(Insn, Layout)> {
    const WIDE: u8 = 0x48;
    const XSAVEC: u8 = 0xc7;
    const FXSAVE: u8 = 0;
    let len = end.0.wrapping_sub(pc.0) as usize;
    let mut code = [0; LONGEST];
    let bytes = code.get_mut(..len)?;
    let read = with_keys_lifted(|| {
        bytes.iter_mut().enumerate().all(|(n, byte)| {
            let found = peek(pc.0 + n as u64, 1);
            *byte = found.unwrap_or(0) as u8;
            found.is_some()
        })
    });
    let mut insn = Insn::plain();
    Reader::new(&code, pc).read(&mut insn);
    if !read || !insn.stores_x87 || insn.size() != len {
        return None;
    }
    let opcode = code
        .iter()
        .position(|byte| matches!(byte, 0xd9 | 0xdd | 0x0f))?;
    let (prefixes, rest) = code.split_at(opcode);
    let layout = match rest[0] {
        0x0f => Layout {
            offset: LAST as u64,
            bytes: match prefixes.last().is_some_and(|rex| rex & 0xf8 == WIDE) {
                true => 8,
                false => 4,
            },
            selected: rest[1] == XSAVEC || (rest[2] >> 3) & 7 != FXSAVE,
        },
        _ if insn.short_x87 => Layout {
            offset: 6,
            bytes: 2,
            selected: false,
        },
        _ => Layout {
            offset: 12,
            bytes: 4,
            selected: false,
        },
    };
    Some((insn, layout))
}
