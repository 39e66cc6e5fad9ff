//! Messages of counters in generated code.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;
use core::mem::offset_of;

use trommel_queue::Tally;

use crate::area::{CONTEXT_OFFSET, COUNTERS_OFFSET, Context, WRITE_POINTER};
use crate::counters::TALLIES;

macro_rules! at {
    ($($field:tt)+) => { CONTEXT_OFFSET + offset_of!(Context, $($field)+) };
}

/// Of the only counter of values, which has come to its end: starts it again and appends the message. rcx leads to the number of its
/// path, and how far behind that the code goes on; the value and the number of the counter are in the context, the app's rcx is spilled.
///
/// A signal that arrives here is delivered at the end of the way: all of this counts as code of the cache.
///
/// # Safety
/// Only generated code may jump here, with GS at the area of a thread with a bank.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn value_message() {
    naked_asm!(
        "mov gs:[{message}], rcx",
        "mov gs:[{saved}], rdx",
        "mov edx, gs:[{counter}]",
        "mov ecx, gs:[{rate}]",
        "mov gs:[rdx * 2 + {counters}], cx",
        "mov rdx, gs:[{message}]",
        "mov edx, [rdx]",
        "mov rcx, gs:[{pointer}]",
        "mov [rcx], edx",
        "mov edx, gs:[{value}]",            // in halves, which are aligned
        "mov [rcx + 4], edx",
        "mov edx, gs:[{value} + 4]",
        "mov [rcx + 8], edx",
        "lea rcx, [rcx + 12]",
        "mov gs:[{pointer}], rcx",
        "7:",
        "mov rcx, gs:[{message}]",
        "movsxd rdx, dword ptr [rcx + 4]",
        "lea rdx, [rdx + rcx]",
        "mov gs:[{target}], rdx",
        "mov rdx, gs:[{saved}]",
        "mov rcx, gs:[{pointer}]",
        "movzx ecx, ch",
        "jrcxz 3f",
        "mov rcx, gs:[{spill_rcx}]",
        "jmp gs:[{target}]",
        "3:",
        "mov rcx, gs:[{spill_rcx}]",
        "jmp {filled}",
        // An event with a value that its tally is not of: rcx as before. What is there becomes a record, unless it is
        // empty, and the tally empty once that is there. A process that is killed in between has a tally like its last
        // record, which the host does not count twice.
        "6:",
        "jmp 4f",
        ".globl trommel_tally",
        "trommel_tally:",
        "mov gs:[{message}], rcx",
        "mov gs:[{saved}], rdx",
        "mov edx, gs:[{counter}]",
        "mov ecx, gs:[rdx + {tallies} + {count}]",
        "jrcxz 6b",
        "mov edx, gs:[{counter}]",
        "mov rcx, gs:[{pointer}]",
        "mov edx, gs:[rdx + {tallies} + {path}]",
        "mov [rcx], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {tallies} + {of}]",
        "mov [rcx + 4], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {tallies} + {of} + 4]",
        "mov [rcx + 8], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {tallies} + {count}]",
        "mov [rcx + 12], edx",
        "lea rcx, [rcx + 16]",
        "mov gs:[{pointer}], rcx",
        "mov edx, gs:[{counter}]",
        "mov dword ptr gs:[rdx + {tallies} + {count}], 0",
        "4:",
        "mov edx, gs:[{counter}]",
        "mov rcx, gs:[{value}]",
        "mov gs:[rdx + {tallies} + {of}], rcx",
        "mov rcx, gs:[{message}]",
        "mov ecx, [rcx]",
        "mov gs:[rdx + {tallies} + {path}], ecx",
        "mov dword ptr gs:[rdx + {tallies} + {count}], 1",
        "jmp 7b",
        ".globl trommel_message_end",
        "trommel_message_end:",
        "ud2",
        message = const at!(message),
        saved = const at!(message_rdx),
        pointer = const WRITE_POINTER.0,
        target = const at!(target),
        spill_rcx = const at!(spill_rcx),
        filled = sym super::filled,
        counter = const at!(value_counter),
        rate = const at!(rate),
        value = const at!(value),
        counters = const COUNTERS_OFFSET,
        tallies = const TALLIES.0,
        of = const offset_of!(Tally, value),
        path = const offset_of!(Tally, path),
        count = const offset_of!(Tally, count),
    )
}

unsafe extern "C" {
    /// As [`value_message`], where values are tallied. A label, not a function.
    pub(super) safe fn trommel_tally();
    /// Behind the last instruction of [`value_message`]. A label, not a function.
    pub(super) safe fn trommel_message_end();
}
