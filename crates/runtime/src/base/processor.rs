//! Facts about the processor that the runtime needs.
//!
//! A thread may have lost the instruction that tells it (`arch_prctl`, `ARCH_SET_CPUID`), and the runtime is executed in any. So it is asked
//! for once, when control begins, and the thread that does so gets the instruction back for as long. Nothing else in the runtime asks the
//! processor; a test looks for the instruction (`host/src/channel/image.rs`).
#![allow(unsafe_code)] // reason: system calls that change how an instruction works.

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_compress::hash;

use crate::base::sys;

const KNOWN: u32 = 1;
const HEEDS_PREFIXES: u32 = 1 << 1;
const HAS_KEYS: u32 = 1 << 2;
const CONFINES_JUMPS: u32 = 1 << 3;

static FACTS: AtomicU32 = AtomicU32::new(0);

/// Finds out what the processor is, in a thread that may not ask. To be called before anything else here.
pub fn find() {
    const ARCH_GET_CPUID: u64 = 0x1011;
    const ARCH_SET_CPUID: u64 = 0x1012;
    let ask = |what, may: u64| {
        // SAFETY: no memory is involved; what changes is put back below.
        unsafe { sys::call(nr::__NR_arch_prctl, [what, may, 0, 0, 0, 0]) }
    };
    let forbidden = ask(ARCH_GET_CPUID, 0) == 0;
    if forbidden {
        ask(ARCH_SET_CPUID, 1);
    }
    facts();
    if forbidden {
        ask(ARCH_SET_CPUID, 0);
    }
}

fn facts() -> u32 {
    let known = FACTS.load(Relaxed);
    if known != 0 {
        return known;
    }
    const OSPKE: u32 = 1 << 4;
    let id = __cpuid(0);
    let name = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes);
    let name = name.as_flattened();
    let mut facts = KNOWN;
    if matches!(name, b"AuthenticAMD" | b"HygonGenuine") {
        facts |= HEEDS_PREFIXES;
    }
    if __cpuid_count(7, 0).ecx & OSPKE != 0 {
        facts |= HAS_KEYS;
    }
    if name == b"GenuineIntel" && has_jump_erratum(__cpuid(1).eax) {
        facts |= CONFINES_JUMPS;
    }
    hash::ask_processor();
    FACTS.store(facts, Relaxed);
    facts
}

/// Returns whether an Intel processor of this signature executes jumps slowly that cross or end at a boundary of 32 bytes.
fn has_jump_erratum(signature: u32) -> bool {
    let family = signature >> 8 & 0xf;
    let model = signature >> 4 & 0xf | signature >> 12 & 0xf0;
    let stepping = signature & 0xf;
    family == 6
        && match model {
            // Skylake, Amber, Kaby, Coffee and Whiskey Lake, Comet Lake.
            0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6 | 0xae => true,
            // Skylake and Cascade Lake servers; not Cooper Lake.
            0x55 => stepping < 10,
            _ => false,
        }
}

/// Returns whether an operand size prefix before a near branch is heeded, as AMD's do, and not ignored, as Intel's do.
pub fn heeds_prefixes() -> bool {
    facts() & HEEDS_PREFIXES != 0
}

/// Returns whether the kernel has turned memory protection keys on.
pub fn has_keys() -> bool {
    facts() & HAS_KEYS != 0
}

/// Returns whether jumps should be kept whole within 32 bytes ([`crate::translate`]).
pub fn confines_jumps() -> bool {
    facts() & CONFINES_JUMPS != 0
}
