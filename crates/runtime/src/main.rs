//! The runtime as a program of its own: what the host writes into targets.
//!
//! Architecture invariant: the linked program has no undefined symbol, no interpreter, no needed
//! library, no thread-local storage; `trommel-host` asserts it.
//!
//! **I1 (freestanding).** The linked runtime has no undefined symbol, interpreter, needed library or thread-local storage, and no AVX instruction. `host/build.rs` refuses any other.
#![no_std]
#![no_main]
// Entry, allocator and memory functions cannot be had without.
#![allow(unsafe_code)]

use core::arch::{asm, naked_asm};
use core::panic::PanicInfo;

use trommel_runtime::base::heap::Heap;
use trommel_runtime::base::start::StartArgs;
use trommel_runtime::base::sys;
use trommel_runtime::entry::start::start;
use trommel_runtime::process::attach;
use trommel_runtime::process::failure;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// The host sets the program counter here, with `rdi` at the arguments and an aligned stack.
///
/// # Safety
/// Only for the host.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "call {begin}", "ud2", begin = sym begin)
}

unsafe extern "C" fn begin(args: *const StartArgs) -> ! {
    // SAFETY: the host passes valid arguments, once.
    let started = unsafe { start(*args, &HEAP) };
    // SAFETY: as above.
    if started.is_none() && unsafe { (*args).threads } != 0 {
        attach::give_up()
    }
    if started.is_none() {
        sys::complain(b"trommel: the target has no memory left for the runtime\n");
    }
    const EXIT_GROUP: u32 = 231;
    // SAFETY: nothing of the app has run; there is nothing to come back to.
    unsafe { sys::call(EXIT_GROUP, [126, 0, 0, 0, 0, 0]) };
    loop {
        // SAFETY: traps.
        unsafe { asm!("ud2") };
    }
}

/// A failed assertion: the signal handler finds the trap inside the runtime and detaches the app.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // Locations are static, whatever the lifetime of what refers to them says.
    // SAFETY: `Location::caller` and the compiler make them so.
    failure::panicked(
        info.location()
            .map(|at| unsafe { &*(&raw const *at).cast() }),
    );
    loop {
        // SAFETY: traps.
        unsafe { asm!("ud2") };
    }
}

/// Unwinding does not happen here; the precompiled core only wants the name.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Satisfies the linker, as [`rust_eh_personality`] does: landing pads that are never reached name it.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    loop {
        // SAFETY: traps.
        unsafe { asm!("ud2") };
    }
}

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // Most copies are single instructions of the app, for which `rep movsb` starts too slowly.
    macro_rules! ends {
        ($word:ty) => {{
            let last = n - size_of::<$word>();
            // SAFETY: both words lie within the `n` bytes that the caller answers for.
            unsafe {
                let first_word = from.cast::<$word>().read_unaligned();
                let last_word = from.add(last).cast::<$word>().read_unaligned();
                to.cast::<$word>().write_unaligned(first_word);
                to.add(last).cast::<$word>().write_unaligned(last_word);
            }
        }};
    }
    match n {
        0 => {}
        1 => ends!(u8),
        2..4 => ends!(u16),
        4..8 => ends!(u32),
        8..=16 => ends!(u64),
        17..=32 => ends!(u128),
        // SAFETY: whole words from the start, the last one ending with the last byte, which is read
        // first: `memmove` copies downwards with this. The runtime may use the vector registers.
        33..=512 => unsafe {
            asm!(
                "movups {end}, [{from} + {last}]",
                "2:",
                "movups {word}, [{from} + {at}]",
                "movups [{to} + {at}], {word}",
                "add {at}, 16",
                "cmp {at}, {last}",
                "jb 2b",
                "movups [{to} + {last}], {end}",
                word = out(xmm_reg) _,
                end = out(xmm_reg) _,
                at = inout(reg) 0_usize => _,
                last = in(reg) n - 16,
                from = in(reg) from,
                to = in(reg) to,
                options(nostack),
            );
        },
        // SAFETY: handed on to the caller; the direction flag is clear in compiled code.
        _ => unsafe {
            asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
        },
    }
    to
}

/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying upwards does not overwrite what is still to be read.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: handed on to the caller; copying downwards, and the direction flag is cleared again.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") to.add(n).wrapping_sub(1) => _, inout("rsi") from.add(n).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: handed on to the caller.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8, options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: handed on to the caller.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: handed on to the caller.
    unsafe { memcmp(a, b, n) }
}
