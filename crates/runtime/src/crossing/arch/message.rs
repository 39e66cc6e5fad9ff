//! Messages of counters in generated code.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;
use core::mem::offset_of;

use trommel_queue::ValueCounter;

use crate::base::area::{CONTEXT_OFFSET, Context, WRITE_POINTER};
use crate::base::counted::VALUE_COUNTERS_AT;

macro_rules! at {
    ($($field:tt)+) => { CONTEXT_OFFSET + offset_of!(Context, $($field)+) };
}

/// Replaces the contents of a value counter that is not of the event's value. The old contents become a record, unless the value counter is empty.
/// The value counter then is the event's. rcx leads to the number of the event's path, and to the distance at which the code goes on. The value
/// and the number of the value counter are in the context, and the app's rcx is spilled.
///
/// A signal that arrives here is delivered at the end of the way: all of this counts as code of the cache. The entry is [`trommel_value_counter`].
///
/// # Safety
/// Only generated code may jump there, with GS at the area of a thread with a counter array.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn value_counter_routine() {
    naked_asm!(
        // The value counter is empty once the record is there. A process that is killed in between has a value counter like its last
        // record, which the host does not count twice.
        "6:",
        "jmp 4f",
        ".globl trommel_value_counter",
        "trommel_value_counter:",
        "mov gs:[{message}], rcx",
        "mov gs:[{saved}], rdx",
        "mov edx, gs:[{counter}]",
        "mov ecx, gs:[rdx + {value_counters} + {count}]",
        "jrcxz 6b",
        "mov edx, gs:[{counter}]",
        "mov rcx, gs:[{pointer}]",
        "mov edx, gs:[rdx + {value_counters} + {path}]",
        "mov [rcx], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {value_counters} + {of}]",
        "mov [rcx + 4], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {value_counters} + {of} + 4]",
        "mov [rcx + 8], edx",
        "mov edx, gs:[{counter}]",
        "mov edx, gs:[rdx + {value_counters} + {count}]",
        "mov [rcx + 12], edx",
        "lea rcx, [rcx + 16]",
        "mov gs:[{pointer}], rcx",
        "mov edx, gs:[{counter}]",
        "mov dword ptr gs:[rdx + {value_counters} + {count}], 0",
        "4:",
        "mov edx, gs:[{counter}]",
        "mov rcx, gs:[{value}]",
        "mov gs:[rdx + {value_counters} + {of}], rcx",
        "mov rcx, gs:[{message}]",
        "mov ecx, [rcx]",
        "mov gs:[rdx + {value_counters} + {path}], ecx",
        "mov dword ptr gs:[rdx + {value_counters} + {count}], 1",
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
        value = const at!(value),
        value_counters = const VALUE_COUNTERS_AT.0,
        of = const offset_of!(ValueCounter, value),
        path = const offset_of!(ValueCounter, path),
        count = const offset_of!(ValueCounter, count),
    )
}

unsafe extern "C" {
    /// Entry of [`value_counter_routine`]. A label, not a function.
    pub(super) safe fn trommel_value_counter();
    /// After the last instruction of [`value_counter_routine`]. A label, not a function.
    pub(super) safe fn trommel_message_end();
}
