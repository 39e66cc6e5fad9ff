//! A piece of the stack, captured where a window begins: the return addresses of the functions that the thread is in are there.
//!
//! Where they are the host finds out ([`trommel_queue::STACK_MARK`]); here nothing is known of frames. So that the program notices nothing,
//! the kernel copies the piece: what `rsp` and what is above it lead to need not be memory, as where a thread has just begun on a stack whose end
//! is that of its mapping. `rbp` is a number, and is not followed.
#![allow(unsafe_code)] // reason: the test maps memory.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::{STACK_MARK, STACK_WORDS};

use crate::base::area::Context;
use crate::base::sys;
use crate::engine::marks::mark_window;
use crate::engine::state::Thread;

/// Words of the stack.
const WORDS: usize = 117;
/// Number of registers before them: the address of the next instruction, the stack pointer and the frame pointer.
const REGISTERS: usize = 3;
/// Words in a mark after their number.
const PART: usize = STACK_WORDS - 1;
/// Marks that there are at most.
pub(super) const MARKS: usize = (REGISTERS + WORDS).div_ceil(PART);

/// Records it, if that is wanted. The app's registers are in the context.
pub(super) fn capture(thread: &mut Thread, context: &Context) {
    const RSP: usize = 4;
    const RBP: usize = 5;
    if thread.process.queue.control().setup.stacks.load(Relaxed) == 0 {
        return;
    }
    let mut all = [0; REGISTERS + WORDS];
    let (registers, stack) = all.split_at_mut(REGISTERS);
    let rsp = context.regs[RSP];
    registers.copy_from_slice(&[context.next_pc.0, rsp, context.regs[RBP]]);
    let read = sys::copy_words(rsp, stack);
    for part in all[..REGISTERS + read].chunks(PART) {
        let mut words = [0; STACK_WORDS];
        words[0] = part.len() as u64;
        words[1..=part.len()].copy_from_slice(part);
        mark_window(thread, STACK_MARK, &words);
    }
}

#[cfg(test)]
mod tests {
    use linux_raw_sys::general as nr;

    use crate::base::sys::{self, Map};

    #[test]
    fn words_are_copied_as_far_as_there_is_memory() {
        const PAGE: usize = 4096;
        let map = Map {
            at: 0,
            len: 2 * PAGE,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_PRIVATE | nr::MAP_ANONYMOUS,
            fd: -1,
            offset: 0,
        };
        // SAFETY: new memory, which nobody else uses.
        let at = unsafe { sys::mmap(&map) }.expect("memory");
        let end = at + PAGE as u64;
        for n in 1..=2 * PAGE as u64 / 8 {
            // SAFETY: in that memory.
            unsafe { ((at + 8 * (n - 1)) as *mut u64).write(n) };
        }
        let copied = |from: u64| {
            let mut words = [0; 10];
            let n = sys::copy_words(from, &mut words);
            (n, words)
        };
        let first = PAGE as u64 / 8;
        let (n, words) = copied(end - 24);
        assert_eq!((n, words[0], words[9]), (10, first - 2, first + 7));
        // SAFETY: the second page is not used any more.
        unsafe { sys::munmap(end, PAGE) };
        let (n, words) = copied(end - 24);
        assert_eq!((n, &words[..3]), (3, &[first - 2, first - 1, first][..]));
        assert_eq!(copied(end - 20).0, 2);
        for nowhere in [end, 0, 1 << 63, u64::MAX] {
            assert_eq!(copied(nowhere).0, 0, "{nowhere:#x}");
        }
        // SAFETY: nor is the first.
        unsafe { sys::munmap(at, PAGE) };
    }
}
