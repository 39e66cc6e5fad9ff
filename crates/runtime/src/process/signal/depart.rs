//! The way out of a window, with no signal: the return from a handler that never was called.
//!
//! # Problem
//! A thread leaves its window with every register, the vector state, the mask and the alternate stack the app's, at once. Only the
//! kernel can do that, when it returns from a signal handler. A trap gets there, but an exception, a frame and a
//! handler take several times as long as the return, and its signal must be neither blocked nor another's.
//!
//! # Strategy
//! The return is asked for without a handler: the frame is made here, of what the context has. What the kernel wants to find
//! beside the vector state is what it said itself in the frame of the signal by which the window began ([`Frames`]); the state is saved in
//! the last step, by the processor.
//!
//! # Why it is correct
//! * All signals are blocked from before anything is given back until the kernel has loaded the app's mask, so nothing
//!   interrupts, and what is sent meanwhile comes to the app's own code.
//! * The parts of the vector state that are saved are those of the frame that the kernel made; others are in their
//!   initial state, but for those that a program uses for the first time in a window (tiles): then the way out is the trap.
//! * The frame is on the runtime's stack and not on the alternate one, so the kernel gives that back.
#![allow(unsafe_code)] // reason: reads the kernel's frame; the last call before the app's own code.

use crate::engine::frames::{Frames, HEADER, HEADER_BYTES, MOST, SOFTWARE, Software};
use core::mem::MaybeUninit;

use crate::base::area::Context;
use crate::base::signals::ALIGNMENT_CHECK;
use crate::base::signals::{AltStack, Ucontext};
use crate::base::signals::{block_all, set_mask};
use crate::crossing::arch;
use crate::engine::native;
use crate::engine::state::Thread;
use crate::engine::window;
use crate::process::attach;
use crate::process::signal::leave::leave_blocked;

const MAGIC_AFTER: u32 = 0x4650_5845;

/// A frame. The vector state is where the processor wants it.
#[repr(C, align(64))]
struct Made {
    vectors: [MaybeUninit<u8>; MOST],
    context: Ucontext,
}

impl Made {
    /// Writes the frame with the state of `context`, but for what is saved in the last step, and the kernel's mask.
    fn write(made: &mut MaybeUninit<Self>, frames: &Frames, context: &Context, mask: u64) {
        let at = made.as_mut_ptr();
        let vectors = at.cast::<u8>();
        let none = AltStack {
            sp: 0,
            flags: 0,
            pad: 0,
            size: 0,
        };
        let mut frame = Ucontext {
            flags: frames.flags,
            link: 0,
            stack: none,
            regs: [0; 16],
            rip: context.next_pc.0,
            eflags: context.flags,
            selectors: frames.selectors,
            err: 0,
            trapno: 0,
            oldmask: 0,
            cr2: 0,
            fpstate: vectors as u64,
            reserved: [0; 8],
            sigmask: mask,
        };
        for (n, value) in (0..).zip(&context.regs) {
            *frame.reg(n) = *value;
        }
        // SAFETY: all of it is inside, the last word as `is_known` says.
        unsafe {
            (&raw mut (*at).context).write(frame);
            vectors
                .add(SOFTWARE)
                .cast::<Software>()
                .write(frames.software);
            vectors.add(HEADER).write_bytes(0, HEADER_BYTES);
            let after = vectors.add(frames.software.size as usize);
            after.cast::<u32>().write_unaligned(MAGIC_AFTER);
        }
    }
}

/// The thread leaves its window before the instruction at `context.next_pc`. Comes back only if that has to be by the trap. It holds
/// no lock.
pub fn depart(thread: &mut Thread, context: &mut Context) {
    let frames = thread.windowed.frames;
    if !frames.is_known() || arch::has_tiles() {
        return;
    }
    let mask = block_all();
    if thread.signals.kept.is_some() {
        // It is delivered first.
        return set_mask(mask);
    }
    let mut made = MaybeUninit::<Made>::uninit();
    Made::write(&mut made, &frames, context, mask);
    let at = made.as_mut_ptr();
    // SAFETY: written just now.
    let frame = unsafe { &mut (*at).context };
    context.pending = 0;
    if core::mem::take(&mut thread.signals.unaligned) {
        frame.eflags |= ALIGNMENT_CHECK;
    }
    let process = thread.process;
    leave_blocked(&mut process.runtime.lock(), thread, context, frame);
    if core::mem::take(&mut thread.full) && thread.publish_now().is_err() {
        native::give_up_host(process, context.next_pc);
    }
    thread.left = false;
    window::settle(thread);
    attach::wait_to_depart(thread);
    // SAFETY: nothing of the runtime's uses GS from here on. The frame is complete, and there is room for the state, as the kernel says.
    unsafe {
        arch::set_gs_base(thread.windowed.app_gs);
        arch::leave(
            context,
            &raw const *frame as u64,
            at as u64,
            frames.software.features,
        );
    }
}
