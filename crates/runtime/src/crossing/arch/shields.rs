//! Events of a multi-hash profiler that are not shielded.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;
use core::mem::offset_of;

use trommel_queue::ValueCounter;

use crate::base::area::{CONTEXT_OFFSET, Context};
use crate::base::counted::VALUE_COUNTERS_AT;
use crate::base::counted::{CONTESTED, Subject, Why};

macro_rules! at {
    ($($field:tt)+) => { CONTEXT_OFFSET + offset_of!(Context, $($field)+) };
}

/// Increments one of four counters at rcx if it is the least, which is in edx.
macro_rules! if_least {
    ($index:literal) => {
        concat!(
            "cmp edx, [rcx + ",
            $index,
            " * 4]\n",
            "sbb dword ptr [rcx + ",
            $index,
            " * 4], -1\n",
        )
    };
}

/// Increments one of four counters at rcx if there is such a table.
macro_rules! if_there {
    ($index:literal) => {
        concat!(
            "cmp dword ptr [rcx + ",
            $index,
            " * 4], -1\n",
            "adc dword ptr [rcx + ",
            $index,
            " * 4], 0\n",
        )
    };
}

/// A field of 16 bits of a word, in `to`, as the place of a counter.
macro_rules! lane {
    ($to:literal, $n:literal) => {
        concat!(
            "and ",
            $to,
            ", gs:[{masks} + 4 * ",
            $n,
            "]\n",
            "add ",
            $to,
            ", gs:[{firsts} + 4 * ",
            $n,
            "]\n",
        )
    };
}

/// Saves the registers that four places are in.
macro_rules! save_four {
    () => {
        concat!(
            "mov gs:[{saved} + 0x40], r8\n",
            "mov gs:[{saved} + 0x48], r9\n",
            "mov gs:[{saved} + 0x50], r10\n",
            "mov gs:[{saved} + 0x58], r11\n",
        )
    };
}

/// Loads them again.
macro_rules! load_four {
    () => {
        concat!(
            "mov r8, gs:[{saved} + 0x40]\n",
            "mov r9, gs:[{saved} + 0x48]\n",
            "mov r10, gs:[{saved} + 0x50]\n",
            "mov r11, gs:[{saved} + 0x58]\n",
        )
    };
}

/// Saves the other registers, takes note of what rcx leads to, and puts the flags into rax and the subject's number into rdx.
macro_rules! save_others {
    () => {
        concat!(
            "mov gs:[{message}], rcx\n",
            "mov gs:[{saved} + 0x10], rdx\n",
            "mov edx, [rcx]\n",
            "mov gs:[{subject}], edx\n",
            "mov gs:[{saved}], rax\n",
            "lahf\n",
            "seto al\n",
        )
    };
}

/// Makes registers and flags the app's again; rcx is where the way back is said, and rdx how far.
macro_rules! load_others {
    () => {
        concat!(
            "add rdx, rcx\n",
            "mov gs:[{target}], rdx\n",
            "add al, 127\n",
            "sahf\n",
            "mov rax, gs:[{saved}]\n",
            "mov rdx, gs:[{saved} + 0x10]\n",
            "mov rcx, gs:[{spill_rcx}]\n",
        )
    };
}

/// Increments the counters of an event that is not shielded, and whose tuple is known. rcx leads to the number of the event's subject, and to
/// the distance at which the code goes on. The app's rcx is spilled. For an event with a value, the number of the value counter and the value are
/// in the context, and the routine begins at one of the labels.
///
/// Flags and registers are preserved. A signal that arrives here is delivered at the end of the way, wherever that
/// leads: all of this counts as code of the cache.
///
/// # Safety
/// Only generated code may jump here, with GS at the area of a thread that has started its profiler.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn unshielded() {
    naked_asm!(
        save_four!(),
        save_others!(),
        "shl rdx, 6",
        "add rdx, gs:[{subjects}]",
        "mov ecx, [rdx + {cell}]",
        "mov dword ptr gs:[rcx], 0",
        "mov r8d, [rdx + {positions}]",
        "mov r9d, [rdx + {positions} + 4]",
        "mov r10d, [rdx + {positions} + 8]",
        "mov r11d, [rdx + {positions} + 12]",
        "2:",                               // four places in r8 to r11, the app's flags in rax
        "mov rcx, gs:[{counters}]",
        "mov edx, [rcx + r8 * 4]",
        "cmp edx, [rcx + r9 * 4]",
        "cmova edx, [rcx + r9 * 4]",
        "cmp edx, [rcx + r10 * 4]",
        "cmova edx, [rcx + r10 * 4]",
        "cmp edx, [rcx + r11 * 4]",
        "cmova edx, [rcx + r11 * 4]",
        "cmp dword ptr gs:[{conservative}], 0",
        "je 3f",
        if_least!("r8"),
        if_least!("r9"),
        if_least!("r10"),
        if_least!("r11"),
        "4:",
        "mov rcx, gs:[{message}]",
        load_four!(),
        "cmp edx, gs:[{promotes_at}]",
        "movsxd rdx, dword ptr [rcx + 4]",
        "jae 5f",
        load_others!(),
        "jmp gs:[{target}]",
        "3:",
        if_there!("r8"),
        if_there!("r9"),
        if_there!("r10"),
        if_there!("r11"),
        "jmp 4b",
        "5:",
        "mov dword ptr gs:[{why}], {promoted}",
        "6:",                               // rcx and rdx: where the way back is said
        load_others!(),
        "jmp {counted}",
        // The counters have been incremented already.
        ".globl trommel_promoted",
        "trommel_promoted:",
        save_others!(),
        "movsxd rdx, dword ptr [rcx + 4]",
        "jmp 5b",
        // A value, by a sum.
        ".globl trommel_unshielded_sum",
        "trommel_unshielded_sum:",
        save_four!(),
        save_others!(),
        "mov ecx, gs:[{index}]",
        "cmp dword ptr gs:[rcx + {value_counters} + {path}], {contested}",
        "je 7f",
        "shl rdx, 6",
        "add rdx, gs:[{subjects}]",
        "mov rcx, gs:[{value}]",
        "mov r8d, [rdx + {begin}]",
        "crc32 r8, rcx",
        "mov r10d, gs:[{seed}]",
        "crc32 r10, rcx",
        "crc32 r10, qword ptr [rdx + {place}]",
        "mov r9d, r8d",
        "shr r9d, 16",
        "mov r11d, r10d",
        "shr r11d, 16",
        lane!("r8d", "0"),
        lane!("r9d", "1"),
        lane!("r10d", "2"),
        lane!("r11d", "3"),
        "jmp 2b",
        "7:",
        "mov rcx, gs:[{message}]",
        "movsxd rdx, dword ptr [rcx + 4]",
        load_four!(),
        "mov dword ptr gs:[{why}], {is_contested}",
        "jmp 6b",
        // A value, by a product.
        ".globl trommel_unshielded_product",
        "trommel_unshielded_product:",
        save_four!(),
        save_others!(),
        "mov ecx, gs:[{index}]",
        "cmp dword ptr gs:[rcx + {value_counters} + {path}], {contested}",
        "je 7b",
        "shl rdx, 6",
        "add rdx, gs:[{subjects}]",
        "mov r8, gs:[{value}]",
        "rol r8, 32",
        "imul r8, gs:[{factors}]",
        "add r8, [rdx + {begin}]",
        "mov r9, r8",
        "shr r9, 32",
        "xor r8, r9",
        "imul r8, gs:[{factors} + 8]",
        "mov ecx, gs:[{shift}]",
        "mov r9, r8",
        "shl r9, 16",
        "mov r10, r8",
        "shl r10, 32",
        "mov r11, r8",
        "shl r11, 48",
        "shr r8, cl",
        "shr r9, cl",
        "shr r10, cl",
        "shr r11, cl",
        lane!("r8d", "0"),
        lane!("r9d", "1"),
        lane!("r10d", "2"),
        lane!("r11d", "3"),
        "jmp 2b",
        ".globl trommel_unshielded_end",
        "trommel_unshielded_end:",
        "ud2",
        message = const at!(message),
        saved = const at!(unshielded),
        subject = const at!(subject),
        subjects = const at!(subjects),
        cell = const offset_of!(Subject, cell),
        positions = const offset_of!(Subject, positions),
        begin = const offset_of!(Subject, begin),
        place = const offset_of!(Subject, place),
        counters = const at!(counters),
        conservative = const at!(conservative),
        promotes_at = const at!(promotes_at),
        target = const at!(target),
        spill_rcx = const at!(spill_rcx),
        why = const at!(why),
        promoted = const Why::Promoted as u32,
        is_contested = const Why::Contested as u32,
        counted = sym super::counted,
        index = const at!(value_counter),
        value_counters = const VALUE_COUNTERS_AT.0,
        path = const offset_of!(ValueCounter, path),
        contested = const CONTESTED as i32,
        value = const at!(value),
        seed = const at!(sum_seed),
        factors = const at!(factors),
        shift = const at!(lane_shift),
        masks = const at!(lane_mask),
        firsts = const at!(lane_first),
    )
}

unsafe extern "C" {
    /// Entry of [`unshielded`] with the counters incremented and the tuple to be promoted. A label, not a function.
    pub(super) safe fn trommel_promoted();
    /// Entry of [`unshielded`] for a value whose counters a sum selects. A label, not a function.
    pub(super) safe fn trommel_unshielded_sum();
    /// Entry of [`unshielded`] for a value whose counters a product selects. A label, not a function.
    pub(super) safe fn trommel_unshielded_product();
    /// After the last instruction of [`unshielded`]. A label, not a function.
    pub(super) safe fn trommel_unshielded_end();
}
